//! Retention of uploads for an audit, if the federation's configuration says so.
//!
//! A round's file is written while its updates are still in the database, before the change that deletes them: after an
//! interruption it is written again. The uploads of a device that withdraws are deleted before the withdrawal is
//! stored, and no round is written in between.

use super::Federation;
use crate::error::ServerError;
use crate::storage::{Sender, Storage};
use bytes::Bytes;
use sottovoce_federation::{FederationError, UploadWriter};
use sottovoce_privacy::UPLOAD_RETENTION;
use sottovoce_protocol::{PrivacyLayer, RoundTerms};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The retained uploads of a federation.
pub(super) struct Retention {
    writer: UploadWriter,
    folder: PathBuf,
    /// Held while a file is written, and from the deletion of a device's uploads until its withdrawal is stored.
    lock: Arc<Mutex<()>>,
}

/// While it exists, no upload is retained.
pub(crate) type RetentionLock = OwnedMutexGuard<()>;

impl Retention {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { writer: UploadWriter::new(folder.clone()), folder, lock: Arc::default() }
    }
}

/// Adds the notice that uploads are retained to a round's terms.
pub(super) fn with_notice(terms: RoundTerms) -> Result<RoundTerms, FederationError> {
    let mut terms = terms.into_draft();
    terms.privacy.layers.push(PrivacyLayer { name: UPLOAD_RETENTION.to_owned(), ..PrivacyLayer::default() });
    Ok(RoundTerms::freeze(terms)?)
}

impl Federation {
    /// Retains the uploads of the open round if they were aggregated; otherwise deletes them. Idempotent.
    pub(super) async fn retain_uploads(&self, aggregated: bool) -> Result<(), ServerError> {
        let Some(retention) = &self.retention else { return Ok(()) };
        let of_round = self.state().round.as_ref().map(|round| (round.opening.round, Arc::clone(&round.terms)));
        let Some((round, terms)) = of_round else { return Ok(()) };
        let _lock = retention.lock.lock().await;
        let (writer, storage, id) = (retention.writer.clone(), Arc::clone(&self.services.storage), self.id);
        // The version that the round's devices were given: the next one is not current yet.
        let model = self.current().whole.plain.clone();
        let written = tokio::task::spawn_blocking(move || match aggregated {
            true => write(&writer, storage.as_ref(), (id, round), &terms, &model),
            false => Ok(writer.remove(round)?),
        });
        written.await?
    }

    /// Deletes all retained uploads; idempotent.
    pub(super) async fn delete_all_uploads(&self) -> Result<(), ServerError> {
        let Some(retention) = &self.retention else { return Ok(()) };
        let _lock = retention.lock.lock().await;
        let folder = retention.folder.clone();
        let deleted = tokio::task::spawn_blocking(move || match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        });
        Ok(deleted.await??)
    }

    /// Deletes the retained uploads of a device. Until the lock returned is dropped, nothing is retained.
    pub(crate) async fn delete_uploads(&self, device: u32) -> Result<Option<RetentionLock>, ServerError> {
        let Some(retention) = &self.retention else { return Ok(None) };
        let lock = Arc::clone(&retention.lock).lock_owned().await;
        let writer = retention.writer.clone();
        tokio::task::spawn_blocking(move || writer.forget(device)).await??;
        Ok(Some(lock))
    }
}

fn write(
    writer: &UploadWriter,
    storage: &dyn Storage,
    (federation, round): (u64, u64),
    terms: &RoundTerms,
    model: &Bytes,
) -> Result<(), ServerError> {
    let mut file = writer.round(round, terms, model)?;
    let mut failed = None;
    storage.updates(federation, round, &mut |sender, bytes| {
        if let (None, Sender::Device(device)) = (&failed, sender) {
            failed = file.add(device, bytes).err();
        }
        Ok(())
    })?;
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(file.finish()?),
    }
}
