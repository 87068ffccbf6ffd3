//! KGFlex in a federation: its settings and choices.

use crate::settings::{Common, Pace};
use crate::simulated::{self, FederatedModel};
use crate::tensors::Part;
use crate::{OfRows, Plan, Population, Strategy};
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
    build: simulated::build::<KgFlex>,
};

fn settings() -> Vec<Setting> {
    let mut all = Vec::from(Pace::settings());
    all.extend(Common::settings(50, "Times as many triples are gone through as there are interactions"));
    all.extend(model_settings());
    all.extend(OfRows::settings());
    all
}

/// Its settings.
pub(crate) struct KgFlex {
    common: Common,
    pace: Pace,
    /// With the triples of no plan, and the facts of the catalog once they are known.
    device: Device,
    strategy: OfRows,
}

impl FederatedModel for KgFlex {
    type Shared = Shared;
    type Device = Device;

    const NAME: &'static str = sottovoce_models::kgflex::NAME;

    fn new(settings: &Settings) -> Self {
        let device = Device::from_settings(settings);
        let strategy = OfRows::read(settings, device.rate);
        Self { common: Common::read(settings), pace: Pace::read(settings), device, strategy }
    }

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
        self.pace.plan(self.common.cohort, population)
    }

    fn samples_a_device(&self) -> Option<usize> {
        self.pace.triples
    }

    fn device(&self, plan: Option<&Plan>) -> Device {
        Device { triples: plan.map_or(0, |plan| plan.triples), ..self.device.clone() }
    }

    fn spec(device: &Device) -> ModelSpec {
        device.spec()
    }

    fn strategy(&self, _: usize) -> Box<dyn Strategy> {
        self.strategy.build()
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
