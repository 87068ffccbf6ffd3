//! KGFlex in a federation: its settings and choices.

use crate::hosting::{self, Hosted, Hosting};
use crate::registry::HostError;
use crate::settings::{Common, chosen};
use crate::simulated::{FederatedModel, Simulated};
use crate::tensors::Part;
use crate::{Adaptive, Configuration, Damped, Plan, Population, Strategy, Streaming, Sum};
use sottovoce_core::Catalog;
use sottovoce_models::kgflex::{Device, Shared, model_settings};
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Setting, Settings};
use sottovoce_models::{ModelError, facts_of};
use sottovoce_protocol::ModelSpec;
use std::sync::Arc;

/// The registry's entry.
pub(crate) const MODEL: Model = Model {
    name: KgFlex::NAME,
    title: "KGFlex",
    what: "What people decide by, as facts of a knowledge graph: each device trains only the facts its owner goes by",
    paper: "Anelli, Di Noia, Di Sciascio, Ferrara, Mancino: Sparse Feature Factorization for Recommender Systems with Knowledge Graphs. RecSys 2021; Ferrara: Pursuing Privacy and Personalization in Recommender Systems. Politecnico di Bari 2022, chapter 6",
    settings,
    build: |settings| Box::new(Simulated::new(KgFlex::new(settings))),
};

/// The same on a server.
pub(crate) fn host(settings: &Settings, hosting: &Hosting) -> Result<Hosted, HostError> {
    hosting::host(KgFlex::new(settings), hosting)
}

/// The same, to learn from a file.
pub(crate) fn streaming(settings: &Settings) -> Box<dyn Streaming> {
    Box::new(Simulated::new(KgFlex::new(settings)))
}

fn settings() -> Vec<Setting> {
    let mut all = vec![
        Setting::choice(
            "configuration",
            Configuration::NAMES,
            "One device a round (s) or all (p); one triple, or with + as many as interactions a device",
        ),
        Setting::integer(
            "triples",
            0,
            0..=1_000_000,
            "Triples a device draws in a round; 0: as the configuration says",
        ),
    ];
    all.extend(Common::settings(50, "Times as many triples are gone through as there are interactions"));
    all.extend(model_settings());
    all.extend(strategies());
    all
}

fn strategies() -> [Setting; 3] {
    [
        Setting::choice(
            "strategy",
            &["sum", "adaptive", "damped"],
            "How updates are put together: the thesis's sum, or one of two that are stable at any cohort size",
        ),
        Setting::real(
            "adaptive_step",
            0.2,
            1e-4..=10.0,
            "With strategy = adaptive: the longest step of a value",
        )
        .on_log_scale(),
        Setting::real(
            "damped_devices",
            100.0,
            1.0..=1e9,
            "With strategy = damped: devices beyond which a row hardly moves further",
        )
        .on_log_scale(),
    ]
}

/// Its settings.
struct KgFlex {
    common: Common,
    configuration: Configuration,
    triples: Option<usize>,
    /// With the triples of no plan, and the facts of the catalog once they are known.
    device: Device,
    strategy: Chosen,
}

/// A strategy by its settings.
#[derive(Clone, Copy)]
enum Chosen {
    Sum(Sum),
    Adaptive(f32),
    Damped(Damped),
}

impl KgFlex {
    fn new(settings: &Settings) -> Self {
        let device = Device::from_settings(settings);
        let rate = device.rate;
        let strategy = match settings.word("strategy") {
            "damped" => Chosen::Damped(Damped { rate, devices: settings.real("damped_devices") as f32 }),
            "adaptive" => Chosen::Adaptive(settings.real("adaptive_step") as f32),
            _ => Chosen::Sum(Sum { rate }),
        };
        Self {
            common: Common::read(settings),
            configuration: Configuration::named(settings.word("configuration"))
                .unwrap_or(Configuration::ParallelPlus),
            triples: chosen(settings, "triples"),
            device,
            strategy,
        }
    }
}

impl FederatedModel for KgFlex {
    type Shared = Shared;
    type Device = Device;

    const NAME: &'static str = sottovoce_models::kgflex::NAME;

    fn know(&mut self, catalog: Option<&Catalog>) -> Result<(), ModelError> {
        self.device.facts = Arc::clone(facts_of(Self::NAME, catalog)?);
        Ok(())
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn shared(&self) -> Shared {
        Shared::of(&self.device)
    }

    fn plan(&self, population: &Population) -> Plan {
        Plan::of(self.configuration, population).with(self.common.cohort, self.triples, population)
    }

    fn samples_a_device(&self) -> Option<usize> {
        self.triples
    }

    fn device(&self, plan: Option<&Plan>) -> Device {
        Device { triples: plan.map_or(0, |plan| plan.triples), ..self.device.clone() }
    }

    fn spec(device: &Device) -> ModelSpec {
        device.spec()
    }

    fn strategy(&self, _: usize) -> Box<dyn Strategy> {
        match self.strategy {
            Chosen::Sum(sum) => Box::new(sum),
            Chosen::Adaptive(step) => Box::new(Adaptive::new(step)),
            Chosen::Damped(damped) => Box::new(damped),
        }
    }

    /// All features down; up at most those the owner decides by, of which the share pi.
    fn vectors(&self, plan: &Plan, cohort: usize, _items: usize) -> f64 {
        let most = self.device.most.iter().sum::<usize>().min(self.device.facts.features());
        let sent = self.common.pi * most as f64;
        (plan.rounds * cohort) as f64 * (self.device.facts.features() as f64 + sent)
    }

    fn parts(&self) -> Vec<Part> {
        let width = self.device.factors;
        vec![Part::matrix("features", 0, 0..width), Part::vector("bias", 0, width)]
    }
}
