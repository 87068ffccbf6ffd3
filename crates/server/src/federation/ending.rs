//! Archiving and deleting a federation: what is deleted, what remains, and doing it between rounds.

use super::members::Members;
use super::unlearning::Rollback;
use super::{Federation, State};
use crate::error::ServerError;
use crate::storage::{Change, GoneRecord, Millis, Status};
use serde::Serialize;
use tokio::sync::oneshot;
use tracing::info;

/// How a federation ends for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing stays of its devices; the model and the record of its rounds do.
    Archive,
    /// Nothing stays but its name.
    Delete,
}

/// An end that an operator waits for.
pub(super) struct EndRequest {
    how: Ending,
    /// Told when it is stored.
    done: oneshot::Sender<()>,
}

/// Why a federation was not archived or deleted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndError {
    /// Nobody says twice what cannot be taken back without meaning it.
    #[error("this cannot be undone: repeat the federation's name, {0}, to confirm it")]
    NotConfirmed(String),
    /// It is archived.
    #[error("the federation is archived already")]
    Archived,
    /// Another end or a rollback is being done.
    #[error("a rollback, or another end of the federation, is under way; retry when it is done")]
    Busy,
    /// The server is shutting down.
    #[error("the server stops; retry when it is back")]
    Stopping,
}

/// What would be deleted, and what would remain.
#[derive(Clone, Debug, Serialize)]
pub struct Deletion {
    /// The federation's name.
    pub name: String,
    /// What archiving deletes.
    pub archive_deletes: Vec<String>,
    /// What archiving leaves.
    pub archive_keeps: Vec<String>,
    /// What deleting deletes.
    pub delete_deletes: Vec<String>,
    /// What deleting leaves.
    pub delete_keeps: Vec<String>,
}

fn several(count: usize, one: &str, more: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {more}") }
}

impl State {
    /// Whether the federation is to be ended; then the open round accepts no more updates.
    pub(super) fn ending(&mut self) -> Rollback {
        match (&self.ending, &mut self.round) {
            (None, _) => Rollback::None,
            (Some(_), Some(round)) => {
                round.uploads_stopped = true;
                if round.is_settled() { Rollback::Ready } else { Rollback::Waiting }
            }
            (Some(_), None) => Rollback::Ready,
        }
    }
}

impl Federation {
    /// What archiving and deleting would do, for an operator to read first.
    pub fn deletion(&self, tokens: usize) -> Deletion {
        let state = self.state();
        let people = several(state.members.admitted() + state.members.revoked, "device", "devices");
        let mut archive_deletes = vec![
            format!("{people} with their credentials and times of check-ins; they cannot come back"),
            several(tokens, "token for enrolment or advertisers", "tokens for enrolment and advertisers"),
            "updates, receipts and messages of rounds; the open round is abandoned".to_owned(),
        ];
        if self.config.record_uploads {
            archive_deletes.push("all uploads that were recorded for an audit".to_owned());
        }
        let versions = several(state.versions.len(), "version", "versions");
        let kept = [
            format!("{versions} of the shared model, which stay available for download"),
            "catalog, configuration and the record of each round".to_owned(),
        ];
        let beyond = [
            "each device's own history, private model and copy of the shared model".to_owned(),
            "copies of the model that others downloaded, and backups".to_owned(),
            "the record of operators' acts".to_owned(),
        ];
        let mut delete_deletes = archive_deletes.clone();
        delete_deletes.push(format!("{versions} of the shared model"));
        delete_deletes.push(kept[1].clone());
        let remains = |first: &[String]| first.iter().chain(&beyond).cloned().collect();
        Deletion {
            name: self.name.clone(),
            archive_deletes,
            archive_keeps: remains(&kept),
            delete_deletes,
            delete_keeps: remains(&["its name, so that devices are told that it was deleted".to_owned()]),
        }
    }

    /// Whether it is archived: devices are told so, and none can join.
    pub(crate) fn is_archived(&self) -> bool {
        self.state().status == Status::Archived
    }

    /// Whether it was deleted, so that nothing drives it any more.
    pub(super) fn is_deleted(&self) -> bool {
        self.state().deleted
    }

    /// Archives or deletes it between two rounds; returns when that is stored.
    pub(crate) async fn end_for_good(&self, how: Ending, confirmed: &str) -> Result<(), EndError> {
        if confirmed != self.name {
            return Err(EndError::NotConfirmed(self.name.clone()));
        }
        let (done, stored) = oneshot::channel();
        {
            let mut state = self.state();
            if state.status == Status::Archived && how == Ending::Archive {
                return Err(EndError::Archived);
            }
            if state.ending.is_some() || state.requested.is_some() || state.deleted {
                return Err(EndError::Busy);
            }
            state.ending = Some(EndRequest { how, done });
        }
        self.wake.notify_one();
        stored.await.map_err(|_| EndError::Stopping)
    }

    /// What stays of a deleted federation, and the versions whose objects are to be removed.
    fn gone(&self, deleted: Millis) -> GoneRecord {
        let versions: Vec<String> = self.state().versions.keys().map(u64::to_string).collect();
        GoneRecord { federation: self.id, name: self.name.clone(), deleted, versions: versions.join(" ") }
    }

    /// Does what an operator waits for.
    pub(super) async fn end(&self) -> Result<(), ServerError> {
        let how = self.state().ending.as_ref().map(|request| request.how);
        let change = match how {
            Some(Ending::Archive) => Change::Archive { federation: self.id },
            Some(Ending::Delete) => Change::Delete(self.gone(crate::now())),
            None => return Ok(()),
        };
        // Before the database forgets whose they are. Nothing is recorded afterwards: there is no round.
        self.delete_all_uploads().await?;
        self.commit(change).await?;
        info!(federation = %self.name, ?how, "ended for good");
        if self.state().round.is_some() {
            self.coordinator().skip();
        }
        drop(crate::lock(&self.measuring).take());
        let mut state = self.state();
        state.remember_uploads();
        state.past_uploads.clear();
        (state.members, state.status, state.unlearn) = (Members::default(), Status::Archived, None);
        state.deleted = how == Some(Ending::Delete);
        if let Some(request) = state.ending.take() {
            // Whoever asked may have gone.
            let _told = request.done.send(());
        }
        Ok(())
    }
}
