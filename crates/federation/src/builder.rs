//! A federated model on a server, whose devices are somewhere else.

use crate::participation::ParticipationConfig;
use crate::registry::HostError;
use crate::simulated::{FederatedModel, check_bounds};
use crate::{Coordinator, FederationError, Population};
use sottovoce_core::{Catalog, Facts, Rng};
use sottovoce_models::ServerModel;
use sottovoce_models::settings::Settings;
use sottovoce_privacy::SecureRng;
use sottovoce_protocol::{CriterionRequest, FederationId, TermsDraft};
use std::sync::Arc;

/// What a server knows of a federation beside its model's settings.
#[derive(Clone, Debug)]
pub struct FederationBuilder {
    /// Its number.
    pub federation: FederationId,
    /// Items of the catalog.
    pub items: usize,
    /// What is known of them, for models that go by it.
    pub facts: Option<Arc<Facts>>,
    /// Devices that are expected to take part.
    pub devices: usize,
    /// Determines the first shared model and the cohorts.
    pub seed: u64,
    /// Whether devices are asked how many samples they learnt from.
    pub samples: bool,
    /// Criteria that devices are asked for.
    pub criteria: Vec<CriterionRequest>,
    /// Rounds that will be held; `None`: as the settings say.
    pub rounds: Option<u64>,
    /// What the server's noise follows from: fresh and secret. `None`: from the seed, to be held against the simulator.
    pub noise: Option<[u8; 32]>,
    /// Where updates are encrypted: the digest of the key that devices share.
    pub key_digest: Option<String>,
}

/// A model ready to be trained by devices that come and go.
pub struct HostedFederation {
    /// The server's half.
    pub coordinator: Coordinator,
    /// Rounds that the settings' epochs come to with the expected devices.
    pub rounds: u64,
}

/// Settings that are about simulated devices, or are their owners' to choose.
pub(crate) fn is_of_devices(key: &str) -> bool {
    let of_devices = ParticipationConfig::of_devices();
    ["pi", "pi_spread", "pi_draw", "reporting"].contains(&key)
        || of_devices.iter().any(|setting| setting.key == key)
}

/// The server's half of a model, by its settings.
pub(crate) fn host<M: FederatedModel>(settings: &Settings, hosting: &FederationBuilder) -> Result<HostedFederation, HostError> {
    let mut model = M::new(settings);
    let FederationBuilder {
        federation,
        items,
        ref facts,
        devices,
        seed,
        samples,
        ref criteria,
        noise,
        ref key_digest,
        ..
    } = *hosting;
    model.know(Some(&Catalog { facts: facts.clone(), ..Catalog::default() }))?;
    let share = model.samples_a_device().ok_or(FederationError::Unhosted {
        key: "triples",
        why: "a server does not know how long histories are",
    })?;
    let population =
        Population { devices: (0..devices as u32).collect(), interactions: devices.saturating_mul(share) };
    let (schedule, common) = (model.schedule(&population), model.common());
    let rng = Rng::new(seed).stream(M::NAME, 0);
    let start = model.shared().start(items, &mut rng.stream("shared", 0)).map_err(FederationError::from)?;
    let mut asked = common.counting.asked()?;
    let weighed: Vec<String> = asked.iter().map(|asked| asked.name.clone()).collect();
    asked.extend(criteria.iter().filter(|asked| !weighed.contains(&asked.name)).cloned());
    let rules = common.attending.rules();
    let terms = TermsDraft {
        federation,
        model: M::spec(&model.device(Some(&schedule))),
        values: common.values,
        deadline: rules.deadline.map_or(0, |seconds| seconds.ceil() as u32),
        samples: samples || common.counting.samples(),
        criteria: asked,
        ..TermsDraft::default()
    };
    let rounds = (schedule.rounds * common.epochs) as u64;
    let coordinator =
        Coordinator::new(model.strategy(devices), start, terms, schedule.cohort, rng.stream("rounds", 0));
    let expected = schedule.cohort.size(devices);
    let generator = noise.map_or_else(|| SecureRng::simulated(&rng, "privacy_engine", 0), SecureRng::new);
    let held = hosting.rounds.unwrap_or(rounds);
    let privacy_engine = common.privacy_engine((expected, devices), held, key_digest.as_deref(), generator)?;
    check_bounds::<M>(&model.device(Some(&schedule)), privacy_engine.as_ref())?;
    let mut coordinator = coordinator.with_rules(rules).with_aggregation(common.counting.with_aggregation()?);
    if let Some(privacy_engine) = privacy_engine {
        coordinator = coordinator.with_privacy(privacy_engine)?;
    }
    let coordinator = coordinator.with_downloads(common.downloads)?;
    Ok(HostedFederation { coordinator, rounds })
}
