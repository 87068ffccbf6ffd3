//! Views of a federation for operators and devices.

use super::Federation;
use crate::storage::{Millis, Status};
use serde::Serialize;
use sottovoce_models::Privacy;
use sottovoce_privacy::tokens::to_hex;

/// What anybody can see, before enrolling.
#[derive(Clone, Debug, Serialize)]
pub struct PublicView {
    /// Its name.
    pub name: String,
    /// Its number, which updates contain.
    pub federation: u64,
    /// The model's name.
    pub model: String,
    /// Items of the catalog.
    pub items: usize,
    /// Entity tag of the catalog.
    pub catalog: String,
    /// The current version of the shared model.
    pub version: u64,
    /// Hash of that version's parameters, in hexadecimal.
    pub digest: String,
    /// `running`, `paused`, `finished`, `failed` or `archived`.
    pub state: &'static str,
    /// What it waits for before training goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Whether devices are asked for their number of samples.
    pub samples: bool,
    /// What happens to the shared model when a device withdraws.
    pub unlearn: super::Unlearn,
    /// The layer that seals updates; `null`: the federation is open, its server sees each update by itself.
    pub seal: Option<&'static str>,
    /// Whether the server retains every accepted upload for an audit.
    pub record_uploads: bool,
    /// Criteria that devices are asked for, and why.
    pub criteria: Vec<super::Criterion>,
    /// The largest size of an update in bytes.
    pub upload_bytes: u64,
    /// The differential privacy spent on the current version, if there is noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privacy: Option<PrivacyView>,
}

/// The differential privacy spent.
#[derive(Clone, Debug, Serialize)]
pub struct PrivacyView {
    /// Epsilon against who reads the model, by tight accounting.
    pub epsilon: f64,
    /// Epsilon against the server; none where nothing bounds what it sees.
    pub epsilon_server: Option<f64>,
    /// Delta.
    pub delta: f64,
    /// The unit of privacy: `a person` or `an interaction`.
    pub hides: &'static str,
    /// Rounds accounted for.
    pub rounds: u64,
    /// Where noise is added.
    pub placement: &'static str,
    /// Its distribution.
    pub shape: &'static str,
    /// Its standard deviation, or the scale of Laplace noise, in clips.
    pub noise_multiplier: f64,
    /// The current clipping bound.
    pub clip: Option<f32>,
    /// The epsilon at which training ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
}

impl From<&Privacy> for PrivacyView {
    fn from(spent: &Privacy) -> Self {
        let Privacy {
            epsilon, epsilon_server, delta, hides, rounds, placement, shape, multiplier, clip, budget, ..
        } = *spent;
        let noise_multiplier = multiplier;
        Self { epsilon, epsilon_server, delta, hides, rounds, placement, shape, noise_multiplier, clip, budget }
    }
}

/// What operators see.
#[derive(Clone, Debug, Serialize)]
pub struct FederationView {
    /// What anybody can see.
    #[serde(flatten)]
    pub public: PublicView,
    /// Its configuration.
    pub config: super::FederationConfig,
    /// When it was created, in milliseconds since 1970.
    pub created: Millis,
    /// Devices that can be selected.
    pub devices: usize,
    /// Devices that checked in during the last five minutes.
    pub present: usize,
    /// Revoked devices.
    pub revoked: usize,
    /// Devices that are not asked any more because of what they sent.
    pub quarantined: Vec<QuarantineView>,
    /// Versions of the shared model that are stored, to which training can be rolled back.
    pub versions: Vec<u64>,
    /// How training goes on, beside what the configuration says.
    pub plan: super::Plan,
    /// The open round, or the next one.
    pub round: u64,
    /// The number of rounds to hold.
    pub rounds: u64,
    /// Those of them that are held again because a device withdrew.
    pub undone: u64,
    /// Whether a rollback for a device that withdrew is still to be done.
    pub unlearning: bool,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The open round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under_way: Option<RoundView>,
    /// Audiences, if the federation serves them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audiences: Option<super::AudiencesView>,
}

/// A device in quarantine.
#[derive(Clone, Debug, Serialize)]
pub struct QuarantineView {
    /// Its number.
    pub device: u32,
    /// Why.
    pub reason: String,
}

/// An open round.
#[derive(Clone, Debug, Serialize)]
pub struct RoundView {
    /// Its number.
    pub round: u64,
    /// Devices selected.
    pub asked: usize,
    /// The number of updates after which it closes.
    pub wanted: u32,
    /// With fewer updates it is abandoned.
    pub minimum: u32,
    /// Updates stored.
    pub stored: u32,
    /// Devices that declined.
    pub declined: u32,
    /// Uploads rejected.
    pub refused: u32,
    /// Bytes of the updates stored.
    pub bytes_up: u64,
    /// When it opened, in milliseconds since 1970.
    pub opened: Millis,
    /// When it closes at the latest.
    pub deadline: Option<Millis>,
    /// Why it has not closed although all updates came: the keeper does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keeper: Option<String>,
}

impl From<(u32, &str)> for QuarantineView {
    fn from((device, reason): (u32, &str)) -> Self {
        Self { device, reason: reason.to_owned() }
    }
}

/// How long after its last check-in a device counts as present.
const PRESENT: Millis = 300_000;

impl Federation {
    /// What anybody can see.
    pub fn public(&self) -> PublicView {
        let state = self.state();
        PublicView {
            name: self.name.clone(),
            federation: self.id,
            model: self.config.model.clone(),
            items: self.items,
            catalog: self.catalog.tag.trim_matches('"').to_owned(),
            version: state.current.version.0,
            digest: to_hex(&state.current.digest),
            state: state.status.name(),
            waits_for: self.waits_for(&state),
            samples: self.config.samples,
            unlearn: self.config.unlearn,
            seal: self.seal,
            record_uploads: self.config.record_uploads,
            criteria: self.config.criteria.clone(),
            upload_bytes: self.upload_limit,
            privacy: state.current.spent.as_ref().map(PrivacyView::from),
        }
    }

    /// What operators see.
    pub fn view(&self, now: Millis) -> FederationView {
        let (public, audiences) = (self.public(), self.audiences(now));
        let state = self.state();
        let under_way = state.round.as_ref().map(|round| RoundView {
            round: round.opening.round,
            asked: round.opening.cohort.len(),
            wanted: round.opening.wanted,
            minimum: round.opening.minimum,
            stored: round.stored,
            declined: round.record.declined,
            refused: round.record.refused,
            bytes_up: round.record.bytes_up,
            opened: round.opening.opened,
            deadline: round.opening.deadline,
            keeper: round.seal.as_ref().and_then(|seal| seal.kept()?.waits_for()),
        });
        let failure = match &state.status {
            Status::Failed(why) => Some(why.clone()),
            _ => None,
        };
        FederationView {
            public,
            config: self.config.clone(),
            created: self.created,
            devices: state.members.count(),
            present: state.members.seen_since(now.saturating_sub(PRESENT)),
            revoked: state.members.revoked,
            quarantined: state.members.quarantined().map(QuarantineView::from).collect(),
            versions: state.versions.keys().copied().collect(),
            plan: state.plan.clone(),
            round: state.next_round,
            // Without an end, as many as were held: there is no other number.
            rounds: if state.plan.endless { state.next_round } else { self.rounds_to_hold(&state) },
            undone: state.undone,
            unlearning: state.unlearn.is_some(),
            failure,
            under_way,
            audiences,
        }
    }
}
