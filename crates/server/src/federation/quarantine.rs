//! Quarantine: a device whose part in rounds is refused again and again is not asked any more, until an operator says
//! so. It keeps its credential and may withdraw.

use super::Federation;
use super::seal::Seal;
use super::uploads::UploadError;
use crate::commit_queue::CommitError;
use crate::storage::Change;
use sottovoce_privacy::secagg::Suspicion;
use tracing::warn;

/// Rounds in a row in which a device did wrong, after which it is quarantined. One bad message can be an accident.
const MAX_OFFENCES: u8 = 3;

/// What devices did wrong in a round that is closing.
#[derive(Debug, Default)]
pub(super) struct Offences {
    /// Devices, and what they did.
    pub(super) of: Vec<(u32, String)>,
    /// Those of them that cost the round, and are quarantined at once.
    pub(super) ended: Vec<(u32, String)>,
}

/// What no honest device sends, in words that do not say what its update was about.
fn offence(error: &UploadError) -> Option<String> {
    match error {
        UploadError::Invalid { code, .. } if !matches!(*code, "wrong-round" | "bad-token") => {
            Some(format!("its updates or messages are refused: {code}"))
        }
        _ => None,
    }
}

impl Federation {
    /// Counts a refused update or message against a device.
    pub(super) async fn count_refusal(&self, device: u32, round: u64, error: &UploadError) {
        if let Some(what) = offence(error) {
            self.offend(device, round, what).await;
        }
    }

    /// A device did something in a round that no honest device does.
    async fn offend(&self, device: u32, round: u64, what: String) {
        if self.state().members.offend(device, round) >= MAX_OFFENCES {
            self.quarantine_for(device, format!("{what}, in {MAX_OFFENCES} rounds in a row")).await;
        }
    }

    /// If that cannot be stored, the device's next offence is another occasion.
    async fn quarantine_for(&self, device: u32, reason: String) {
        if let Err(error) = self.set_quarantine(device, Some(reason.clone())).await {
            warn!(federation = %self.name, %error, "a quarantine is not stored");
            return;
        }
        warn!(federation = %self.name, %reason, "a device is quarantined");
        // Nobody waits for it.
        if let Some(round) = &mut self.state().round {
            round.decline(device, crate::now());
        }
        self.wake.notify_one();
    }

    /// Quarantines a device, or lifts its quarantine.
    ///
    /// # Errors
    /// If that could not be stored.
    pub async fn set_quarantine(&self, device: u32, reason: Option<String>) -> Result<(), CommitError> {
        self.commit(Change::Quarantine { federation: self.id, device, reason: reason.clone() }).await?;
        self.state().members.quarantine(device, reason);
        self.wake.notify_one();
        Ok(())
    }

    /// Whether a device is quarantined.
    pub(crate) fn is_quarantined(&self, device: u32) -> bool {
        self.state().members.get(device).is_some_and(|member| member.quarantine.is_some())
    }

    /// What the open round's seal says of its devices, now that it is over.
    pub(super) fn suspects(&self) -> Offences {
        let state = self.state();
        let Some(round) = &state.round else { return Offences::default() };
        let mut offences = Offences::default();
        for (seat, suspicion) in round.seal.iter().flat_map(Seal::suspects) {
            let Some(&device) = round.opening.cohort.get(seat as usize) else { continue };
            let list = if suspicion == Suspicion::Shares { &mut offences.ended } else { &mut offences.of };
            list.push((device, suspicion.to_string()));
        }
        if let Some(kept) = round.seal.as_ref().and_then(Seal::kept) {
            kept.add_offences(&round.opening.cohort, &mut offences);
        }
        offences
    }

    /// Counts what devices did wrong in the round that is closing, and forgives those that did nothing.
    pub(super) async fn settle(&self, offences: Offences) {
        let round = {
            let mut state = self.state();
            let Some(round) = &state.round else { return };
            let (number, answered) = (round.opening.round, round.answered());
            let wrong = |device: &u32| offences.of.iter().chain(&offences.ended).any(|(other, _)| other == device);
            answered.into_iter().filter(|device| !wrong(device)).for_each(|device| {
                state.members.behaved(device, number);
            });
            number
        };
        for (device, what) in offences.of {
            self.offend(device, round, what).await;
        }
        for (device, what) in offences.ended {
            self.quarantine_for(device, format!("{what}, and the round was lost")).await;
        }
    }
}
