//! Uploads: validated before anything is stored, acknowledged only when durable.

use super::round::{Admission, DeviceState, UploadId};
use super::{Federation, MAX_BUFFERS};
use crate::commit_queue::CommitError;
use crate::lock;
use crate::storage::{Change, Millis, Receipt, Sender};
use bytes::Bytes;
use sottovoce_protocol::{DecodeError, FederationId, Received, RoundId, RoundTerms, Update, codec};
use std::sync::Arc;

/// What becomes of an upload.
pub(super) type Result<T, E = UploadError> = std::result::Result<T, E>;

/// Why an upload was rejected; a device can act on each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UploadError {
    /// The device is not in the round's cohort.
    #[error("this device was not selected for this round; check in")]
    NotAsked,
    /// The round accepts no more updates.
    #[error("the round is closed; discard the update and check in")]
    RoundClosed,
    /// Another update of this device is stored.
    #[error("another answer of this device to this round is stored; discard this one")]
    Duplicate,
    /// Another update is stored under this key.
    #[error("another update is stored under this key; use a new key for other bytes")]
    KeyReused,
    /// The update or its token is invalid.
    #[error("{detail}")]
    Invalid {
        /// What is wrong: a code of the HTTP interface.
        code: &'static str,
        /// What was found.
        detail: String,
    },
    /// The device was issued another token for this round.
    #[error("this device was issued another token for this round; each device gets one")]
    TokenTaken,
    /// The round expects uploads with one-time tokens, or with credentials.
    #[error("the terms of this round ask for uploads with a one-time token, or with a credential; see them")]
    WrongChannel,
    /// The server is overloaded, or the same update is being stored: retry the same upload.
    #[error("busy; retry the same upload")]
    Busy,
    /// The database failed: retry the same upload later.
    #[error("the update could not be stored; retry the same upload later")]
    NotStored,
}

impl From<CommitError> for UploadError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Busy | CommitError::ShuttingDown => Self::Busy,
            CommitError::Storage(_) => Self::NotStored,
        }
    }
}

impl UploadError {
    /// An invalid update or token, by a code of the HTTP interface.
    #[allow(clippy::needless_pass_by_value, reason = "errors and texts alike")]
    pub(super) fn invalid(code: &'static str, detail: impl ToString) -> Self {
        Self::Invalid { code, detail: detail.to_string() }
    }

    /// An upload to a round that is not open.
    pub(super) fn of_other_round(round: u64, next: u64) -> Self {
        match round >= next {
            true => Self::invalid("wrong-round", format!("round {round} has not opened yet; check in")),
            false => Self::RoundClosed,
        }
    }
}

impl Federation {
    /// Accepts an update of a device. Must run to completion.
    ///
    /// # Errors
    /// If it is rejected; then nothing has changed.
    pub async fn receive_update(&self, (device, round): (u32, u64), key: &str, bytes: Bytes) -> Result<Admission> {
        if self.anonymous && !self.is_measuring() {
            return Err(UploadError::WrongChannel);
        }
        self.receive(round, Sender::Device(device), key, bytes).await
    }

    pub(super) async fn receive(&self, round: u64, sender: Sender, key: &str, bytes: Bytes) -> Result<Admission> {
        let now = crate::now();
        let id = UploadId { key: key.to_owned(), digest: *blake3::hash(&bytes).as_bytes() };
        let Some(terms) = self.expects(round, sender, &id, now)? else {
            return Ok(Admission::Repeated);
        };
        let valid = self.validate(round, sender, &bytes, &terms);
        match valid.and_then(|()| self.reserve(round, sender, &id, now)) {
            Ok(Admission::New) => self.store(round, sender, id, bytes).await,
            Ok(Admission::Repeated) => Ok(Admission::Repeated),
            Err(error) => {
                if let Some(open) = self.state().open_round(round).filter(|_| error != UploadError::Busy) {
                    open.record.refused += 1;
                }
                if let Sender::Device(device) = sender {
                    self.count_refusal(device, round, &error).await;
                }
                Err(error)
            }
        }
    }

    async fn store(&self, round: u64, sender: Sender, id: UploadId, bytes: Bytes) -> Result<Admission> {
        let size = bytes.len() as u64;
        let receipt = Receipt { sender, key: id.key.clone(), digest: id.digest, bytes: size };
        let upload = Change::Upload { federation: self.id, round, receipt, bytes: bytes.clone() };
        let committed = self.commit(upload).await;
        // The round waits for updates that are being stored, so it is still open.
        if let Some(open) = self.state().open_round(round) {
            match &committed {
                Ok(()) => {
                    open.finish_upload(sender, id, size, crate::now());
                    // The update was validated, and its step waits for it.
                    let _accepted = open.seal_update(sender, &bytes);
                }
                Err(_) => open.release(sender),
            }
        }
        self.wake.notify_one();
        committed?;
        self.services.metrics.received(&self.name, size);
        Ok(Admission::New)
    }

    /// The terms of the round that a sender is expected to answer; `None` if this very update is stored.
    fn expects(&self, round: u64, sender: Sender, id: &UploadId, now: Millis) -> Result<Option<Arc<RoundTerms>>> {
        let mut state = self.state();
        let next = state.next_round;
        if let Some(open) = state.open_round(round) {
            return match open.check_upload(sender, id, now) {
                Ok(Admission::New) => Ok(Some(Arc::clone(&open.terms))),
                Ok(Admission::Repeated) => Ok(None),
                Err(error) => {
                    open.record.refused += 1;
                    Err(error)
                }
            };
        }
        match state.past_uploads.get(&round).and_then(|past| past.get(&sender)) {
            Some(stored) => stored.compare(id).map(|_| None),
            None => Err(UploadError::of_other_round(round, next)),
        }
    }

    fn reserve(&self, round: u64, sender: Sender, id: &UploadId, now: Millis) -> Result<Admission> {
        let mut state = self.state();
        state.open_round(round).ok_or(UploadError::RoundClosed)?.reserve(sender, id, now)
    }

    /// Checks an update against the terms, or against the protocol if it is sealed.
    fn validate(&self, round: u64, sender: Sender, bytes: &[u8], terms: &RoundTerms) -> Result<()> {
        if let Some(open) = self.state().open_round(round)
            && let (Some(seal), Sender::Device(device)) = (&open.seal, sender)
        {
            return seal.validate(open.seat(device).ok_or(UploadError::NotAsked)?, bytes);
        }
        let mut buffer = self.buffer();
        let valid = self.decode(bytes, terms, &mut buffer);
        let mut buffers = lock(&self.buffers);
        if buffers.len() < MAX_BUFFERS {
            buffers.push(buffer);
        }
        valid
    }

    fn decode(&self, bytes: &[u8], terms: &RoundTerms, buffer: &mut Received) -> Result<()> {
        if let Some(length) = self.quantized_length {
            let words = codec::decode_quantized(bytes, self.layout.fingerprint(), length);
            let words = words.map_err(|error| decode_error(&error))?;
            return check_addressee((words.federation, words.round), terms);
        }
        codec::decode_update(bytes, buffer).map_err(|error| decode_error(&error))?;
        check_addressee((buffer.federation(), buffer.round()), terms)?;
        buffer.check(terms).map_err(|error| UploadError::invalid("wrong-encoding", error))?;
        self.config.row_norm.map_or(Ok(()), |bound| check_norms(buffer.update(), bound))
    }

    pub(super) fn buffer(&self) -> Received {
        lock(&self.buffers).pop().unwrap_or_else(|| Received::new(&self.layout))
    }

    /// Records that a device declines a round.
    ///
    /// # Errors
    /// If the device is not in the cohort or has answered, or if it could not be stored.
    pub async fn decline(&self, (device, round): (u32, u64), now: Millis) -> Result<()> {
        if !self.can_decline(device, round, now)? {
            return Ok(());
        }
        self.commit(Change::Decline { federation: self.id, round, device }).await?;
        if let Some(open) = self.state().open_round(round) {
            open.decline(device, now);
        }
        self.wake.notify_one();
        Ok(())
    }

    /// Whether a device can decline; `false` if it has declined before.
    fn can_decline(&self, device: u32, round: u64, now: Millis) -> Result<bool> {
        if let Some(open) = self.state().open_round(round) {
            // A sealed round accepts updates in one of its steps only, but devices may decline in all.
            let sealed = open.seal.is_some() && !open.is_over(now);
            match open.device(device) {
                Some(DeviceState::Declined) => return Ok(false),
                Some(DeviceState::Waiting) if sealed => return Ok(true),
                _ => (),
            }
        }
        Ok(self.expects(round, Sender::Device(device), &UploadId::default(), now)?.is_some())
    }
}

fn check_addressee((federation, round): (FederationId, RoundId), terms: &RoundTerms) -> Result<()> {
    if (federation, round) == (terms.federation, terms.round) {
        return Ok(());
    }
    let expected = format!("expected {} and {}", terms.federation, terms.round);
    Err(UploadError::invalid("wrong-round", format!("the update is for {federation} and {round}, {expected}")))
}

fn decode_error(error: &DecodeError) -> UploadError {
    let code = match error {
        DecodeError::Layout(..) => "wrong-shape",
        DecodeError::Value(..) => "not-finite",
        _ => "malformed",
    };
    UploadError::invalid(code, error)
}

fn check_norms(update: &Update, bound: f32) -> Result<()> {
    let square = |values: &[f32]| values.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>();
    for (table, rows) in update.tables().iter().enumerate() {
        for (row, values) in rows.iter() {
            let norm = square(values).sqrt();
            if norm > f64::from(bound) {
                let detail = format!("table {table}, row {row}: norm {norm:.4} exceeds the bound {bound}");
                return Err(UploadError::invalid("row-too-large", detail));
            }
        }
    }
    Ok(())
}
