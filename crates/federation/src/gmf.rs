//! GMF in a federation: its settings and choices.

use crate::settings::Common;
use crate::simulated::{self, FederatedModel};
use crate::tensors::Part;
use crate::{Cohort, OfMeans, Plan, Population, Strategy};
use sottovoce_models::gmf::{Device, Shared};
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Setting, Settings};
use sottovoce_protocol::ModelSpec;

/// The registry's entry.
pub(crate) const MODEL: Model = Model {
    name: FedGmf::NAME,
    title: "FedGMF",
    what: "Generalised matrix factorisation by FedAvg: items' vectors and the output are shared, each person's vector stays on their device",
    paper: "He, Liao, Zhang, Nie, Hu, Chua: Neural Collaborative Filtering. WWW 2017; McMahan, Moore, Ramage, Hampson, Agüera y Arcas: Communication-Efficient Learning of Deep Networks from Decentralized Data. AISTATS 2017",
    settings,
    build: simulated::build::<FedGmf>,
};

/// Devices asked into a round, unless it is said otherwise.
const COHORT: usize = 50;

fn settings() -> Vec<Setting> {
    let mut all = Common::settings(50, "Times all devices are asked");
    all.extend([
        Setting::integer("factors", 20, 1..=512, "Length of users' and items' vectors").on_log_scale(),
        Setting::integer("negatives", 4, 1..=1000, "Items not had that a device draws for each one had"),
        Setting::integer("local_epochs", 1, 1..=1000, "Times a device goes through its samples in a round")
            .on_log_scale(),
        Setting::integer("local_batch", 1, 0..=1_000_000, "Samples of a device's step; 0: all of them"),
        Setting::real("learning_rate", 0.1, 1e-6..=10.0, "Step of the devices").on_log_scale(),
        Setting::real("pull", 0.01, 0.0..=10.0, "Pull to zero of vectors in each step"),
        Setting::real("init_deviation", 0.1, 1e-6..=1.0, "Standard deviation of the first random vectors")
            .on_log_scale(),
    ]);
    all.extend(OfMeans::settings(OfMeans::NAMES, 1.0));
    all
}

/// Its settings.
pub(crate) struct FedGmf {
    common: Common,
    device: Device,
    strategy: OfMeans,
}

impl FederatedModel for FedGmf {
    type Shared = Shared;
    type Device = Device;

    const NAME: &'static str = sottovoce_models::gmf::NAME;

    fn new(settings: &Settings) -> Self {
        let strategy = OfMeans::read(settings);
        let device = Device {
            factors: settings.integer("factors"),
            negatives: settings.integer("negatives"),
            local_epochs: settings.integer("local_epochs"),
            batch: settings.integer("local_batch"),
            rate: settings.real("learning_rate") as f32,
            pull: settings.real("pull") as f32,
            init_deviation: settings.real("init_deviation") as f32,
            gradients: strategy.wants_gradients(),
        };
        Self { common: Common::read(settings), device, strategy }
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn shared(&self) -> Shared {
        Shared { factors: self.device.factors, init_deviation: self.device.init_deviation }
    }

    fn plan(&self, population: &Population) -> Plan {
        Plan::in_turn(self.common.cohort.unwrap_or(Cohort::Count(COHORT)), population)
    }

    fn device(&self, _: Option<&Plan>) -> Device {
        self.device
    }

    fn spec(device: &Device) -> ModelSpec {
        device.spec()
    }

    fn strategy(&self, _: usize) -> Box<dyn Strategy> {
        self.strategy.build()
    }

    /// Of an item had and of its negatives.
    fn guessing_loss(&self, _: usize) -> f64 {
        (1 + self.device.negatives) as f64 * std::f64::consts::LN_2
    }

    /// All items down; up those met: what was drawn, and of the owner's the share pi.
    fn vectors(&self, plan: &Plan, cohort: usize, items: usize) -> f64 {
        let own = plan.triples as f64;
        let up = (own * (self.common.pi + self.device.negatives as f64)).min(items as f64);
        (plan.rounds * cohort) as f64 * (items as f64 + up)
    }

    fn parts(&self) -> Vec<Part> {
        let factors = self.device.factors;
        vec![Part::matrix("items", 0, 0..factors), Part::matrix("output", 1, 0..factors)]
    }
}
