//! Keeping uploads for an audit, where the federation's founder said so.
//!
//! A round's file is written while its updates are still in the database, before the change that forgets them: whatever is
//! interrupted, it is written again. What belongs to somebody who withdraws is deleted before the withdrawal is written
//! down, and no round is written in between.

use super::Federation;
use super::drive::Trouble;
use crate::storage::{Storage, StorageError};
use bytes::Bytes;
use sottovoce_federation::{FederationError, UploadWriter, UploadsError};
use sottovoce_privacy::UPLOAD_RETENTION;
use sottovoce_protocol::{PrivacyLayer, RoundTerms};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Where a federation's uploads are kept.
pub(super) struct Keeper {
    writer: UploadWriter,
    /// Held while a file is written, and from the deletion of a device's uploads until the device is gone.
    busy: Arc<Mutex<()>>,
}

/// Why uploads were not kept or not deleted.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The folder.
    #[error("kept uploads: {0}")]
    Uploads(#[from] UploadsError),
    /// The database.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A thread.
    #[error("a worker stopped: {0}")]
    Worker(#[from] tokio::task::JoinError),
}

/// While it is there, no upload is kept.
pub(crate) type Undisturbed = OwnedMutexGuard<()>;

impl Keeper {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { writer: UploadWriter::new(folder), busy: Arc::default() }
    }
}

/// Terms that say that uploads are kept.
pub(super) fn with_notice(terms: RoundTerms) -> Result<RoundTerms, FederationError> {
    let mut terms = terms.into_draft();
    terms.privacy.layers.push(PrivacyLayer { name: UPLOAD_RETENTION.to_owned(), ..PrivacyLayer::default() });
    Ok(RoundTerms::freeze(terms)?)
}

impl Federation {
    /// Keeps the uploads of the round under way, if they are to be kept and have counted; otherwise keeps none of them. The
    /// same however often it is done.
    pub(super) async fn keep_uploads(
        &self,
        storage: &Arc<dyn Storage>,
        have_counted: bool,
    ) -> Result<(), Trouble> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        let of_round =
            self.state().round.as_ref().map(|round| (round.opening.round, Arc::clone(&round.terms)));
        let Some((round, terms)) = of_round else { return Ok(()) };
        let _busy = keeper.busy.lock().await;
        let (writer, storage, id) = (keeper.writer.clone(), Arc::clone(storage), self.id);
        // The version that the round's devices were given: the next one is not current yet.
        let model = self.current().whole.plain.clone();
        let written = tokio::task::spawn_blocking(move || match have_counted {
            true => write(&writer, storage.as_ref(), (id, round), &terms, &model),
            false => Ok(writer.remove(round)?),
        });
        Ok(written.await.map_err(KeepError::from)??)
    }

    /// Deletes what is kept of a device. Until what is returned is dropped, nothing is kept.
    pub(crate) async fn forget_uploads(&self, device: u32) -> Result<Option<Undisturbed>, KeepError> {
        let Some(keeper) = &self.keeper else { return Ok(None) };
        let busy = Arc::clone(&keeper.busy).lock_owned().await;
        let writer = keeper.writer.clone();
        tokio::task::spawn_blocking(move || writer.forget(device)).await??;
        Ok(Some(busy))
    }
}

fn write(
    writer: &UploadWriter,
    storage: &dyn Storage,
    (federation, round): (u64, u64),
    terms: &RoundTerms,
    model: &Bytes,
) -> Result<(), KeepError> {
    let mut file = writer.round(round, terms, model)?;
    let mut failed = None;
    storage.updates(federation, round, &mut |device, bytes| {
        if failed.is_none() {
            failed = file.add(device, bytes).err();
        }
        Ok(())
    })?;
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(file.finish()?),
    }
}
