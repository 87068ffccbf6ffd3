//! A federated model on a server, whose devices are somewhere else.

use crate::attending::Attending;
use crate::registry::HostError;
use crate::simulated::{FederatedModel, check_bounds};
use crate::{Coordinator, FederationError, Population};
use sottovoce_core::{Catalog, Facts, Rng};
use sottovoce_models::SharedPart;
use sottovoce_models::settings::Settings;
use sottovoce_privacy::SecureRng;
use sottovoce_protocol::{CriterionRequest, FederationId, TermsDraft};
use std::sync::Arc;

/// What a server knows of a federation beside its model's settings.
#[derive(Clone, Debug)]
pub struct Hosting {
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
pub struct Hosted {
    /// The server's half.
    pub coordinator: Coordinator,
    /// Rounds that the settings' epochs come to with the expected devices.
    pub rounds: u64,
}

/// Settings that are about simulated devices, or are their owners' to choose.
pub(crate) fn is_of_devices(key: &str) -> bool {
    let of_devices = Attending::of_devices();
    ["pi", "pi_spread", "pi_draw", "reporting"].contains(&key)
        || of_devices.iter().any(|setting| setting.key == key)
}

/// The server's half of a model, by its settings.
pub(crate) fn host<M: FederatedModel>(settings: &Settings, hosting: &Hosting) -> Result<Hosted, HostError> {
    let mut model = M::new(settings);
    let Hosting {
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
    let (plan, common) = (model.plan(&population), model.common());
    let rng = Rng::new(seed).stream(M::NAME, 0);
    let start = model.shared().start(items, &mut rng.stream("shared", 0)).map_err(FederationError::from)?;
    let mut asked = common.counting.asked()?;
    let weighed: Vec<String> = asked.iter().map(|asked| asked.name.clone()).collect();
    asked.extend(criteria.iter().filter(|asked| !weighed.contains(&asked.name)).cloned());
    let rules = common.attending.rules();
    let terms = TermsDraft {
        federation,
        model: M::spec(&model.device(Some(&plan))),
        values: common.values,
        deadline: rules.deadline.map_or(0, |seconds| seconds.ceil() as u32),
        samples: samples || common.counting.samples(),
        criteria: asked,
        ..TermsDraft::default()
    };
    let rounds = (plan.rounds * common.epochs) as u64;
    let coordinator =
        Coordinator::new(model.strategy(devices), start, terms, plan.cohort, rng.stream("rounds", 0));
    let expected = plan.cohort.size(devices);
    let generator = noise.map_or_else(|| SecureRng::simulated(&rng, "guardian", 0), SecureRng::new);
    let held = hosting.rounds.unwrap_or(rounds);
    let guardian = common.guardian((expected, devices), held, key_digest.as_deref(), generator)?;
    check_bounds::<M>(&model.device(Some(&plan)), guardian.as_ref())?;
    let mut coordinator = coordinator.under(rules).counting(common.counting.counting()?);
    if let Some(guardian) = guardian {
        coordinator = coordinator.protecting(guardian)?;
    }
    let coordinator = coordinator.distributing(common.downloads)?;
    Ok(Hosted { coordinator, rounds })
}
