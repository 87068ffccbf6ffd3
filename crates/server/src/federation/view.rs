//! A federation as operators and devices may see it.

use super::Federation;
use super::hex;
use crate::storage::{Millis, Standing};
use serde::Serialize;
use sottovoce_federation::Spent;

/// What anybody may know, before enrolling.
#[derive(Clone, Debug, Serialize)]
pub struct PublicView {
    /// Its name.
    pub name: String,
    /// Its number, which updates carry.
    pub federation: u64,
    /// The model's name.
    pub model: String,
    /// Items of the catalog.
    pub items: usize,
    /// Entity tag of the catalog.
    pub catalog: String,
    /// The current version of the shared model.
    pub version: u64,
    /// Hash of that version's parameters as devices hold them, in hexadecimal.
    pub digest: String,
    /// `running`, `paused`, `finished` or `failed`.
    pub state: &'static str,
    /// Whether the sample count is asked for.
    pub samples: bool,
    /// What becomes of what was learnt from somebody who withdraws.
    pub unlearn: super::Unlearn,
    /// Whether the server keeps every upload that is taken, for an audit.
    pub record_uploads: bool,
    /// Criteria that are asked for, and why.
    pub criteria: Vec<super::Criterion>,
    /// Bytes of an update at most.
    pub upload_bytes: u64,
    /// What the current version has spent of differential privacy, where there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privacy: Option<PrivacyView>,
}

/// What was spent of differential privacy.
#[derive(Clone, Debug, Serialize)]
pub struct PrivacyView {
    /// Epsilon, by tight accounts.
    pub epsilon: f64,
    /// Delta.
    pub delta: f64,
    /// What it is about: `a person` or `an interaction`.
    pub hides: &'static str,
    /// Rounds that count.
    pub rounds: u64,
    /// Where noise is added.
    pub placement: &'static str,
    /// How it is distributed.
    pub shape: &'static str,
    /// Its standard deviation, or the scale of Laplace noise, in clips.
    pub noise_multiplier: f64,
    /// The clip as it is now.
    pub clip: Option<f32>,
    /// The epsilon past which training does not go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
}

impl From<&Spent> for PrivacyView {
    fn from(spent: &Spent) -> Self {
        Self {
            epsilon: spent.epsilon,
            delta: spent.delta,
            hides: spent.hides(),
            rounds: spent.rounds,
            placement: spent.placement.name(),
            shape: spent.shape.name(),
            noise_multiplier: spent.multiplier,
            clip: spent.clip,
            budget: spent.budget,
        }
    }
}

/// What operators see.
#[derive(Clone, Debug, Serialize)]
pub struct FederationView {
    /// What anybody may know.
    #[serde(flatten)]
    pub public: PublicView,
    /// Its configuration.
    pub config: super::FederationConfig,
    /// When it was created, in milliseconds since 1970.
    pub created: Millis,
    /// Devices that may be asked.
    pub devices: usize,
    /// Devices heard of in the last five minutes.
    pub present: usize,
    /// Devices that are shut out.
    pub revoked: usize,
    /// The round that is next, or under way.
    pub round: u64,
    /// Rounds after which it is finished.
    pub rounds: u64,
    /// Those of them that are held again because somebody withdrew.
    pub undone: u64,
    /// Whether training is still to go back for somebody who withdrew.
    pub unlearning: bool,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The round under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under_way: Option<RoundView>,
}

/// A round under way.
#[derive(Clone, Debug, Serialize)]
pub struct RoundView {
    /// Its number.
    pub round: u64,
    /// Devices asked.
    pub asked: usize,
    /// Updates that are enough.
    pub wanted: u32,
    /// Fewer are thrown away.
    pub minimum: u32,
    /// Updates stored.
    pub stored: u32,
    /// Devices that will not answer.
    pub declined: u32,
    /// Uploads refused.
    pub refused: u32,
    /// Bytes of the updates stored.
    pub bytes_up: u64,
    /// When it began, in milliseconds since 1970.
    pub opened: Millis,
    /// When it is over in any case.
    pub deadline: Option<Millis>,
}

/// Devices count as present for so long.
const PRESENT: Millis = 300_000;

fn word(standing: &Standing) -> &'static str {
    match standing {
        Standing::Running => "running",
        Standing::Paused => "paused",
        Standing::Finished => "finished",
        Standing::Failed(_) => "failed",
    }
}

impl Federation {
    /// What anybody may know.
    pub fn public(&self) -> PublicView {
        let state = self.state();
        PublicView {
            name: self.name.clone(),
            federation: self.id,
            model: self.config.model.clone(),
            items: self.items,
            catalog: self.catalog.tag.trim_matches('"').to_owned(),
            version: state.current.version.0,
            digest: hex(&state.current.digest),
            state: word(&state.standing),
            samples: self.config.samples,
            unlearn: self.config.unlearn,
            record_uploads: self.config.record_uploads,
            criteria: self.config.criteria.clone(),
            upload_bytes: self.upload_limit,
            privacy: state.current.spent.as_ref().map(PrivacyView::from),
        }
    }

    /// What operators see.
    pub fn view(&self, now: Millis) -> FederationView {
        let public = self.public();
        let state = self.state();
        let under_way = state.round.as_ref().map(|round| RoundView {
            round: round.opening.round,
            asked: round.opening.cohort.len(),
            wanted: round.opening.wanted,
            minimum: round.opening.minimum,
            stored: round.stored,
            declined: round.declined,
            refused: round.refused,
            bytes_up: round.bytes_up,
            opened: round.opening.opened,
            deadline: round.opening.deadline,
        });
        let failure = match &state.standing {
            Standing::Failed(why) => Some(why.clone()),
            _ => None,
        };
        FederationView {
            public,
            config: self.config.clone(),
            created: self.created,
            devices: state.members.count(),
            present: state.members.heard_since(now.saturating_sub(PRESENT)),
            revoked: state.members.revoked(),
            round: state.next_round,
            rounds: self.goal + state.undone,
            undone: state.undone,
            unlearning: state.unlearn.is_some(),
            failure,
            under_way,
        }
    }
}
