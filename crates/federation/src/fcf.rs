//! FCF in a federation: its settings and choices.

use crate::settings::Common;
use crate::simulated::{self, FederatedModel};
use crate::tensors::Part;
use crate::{Adam, AdamSettings, Cohort, Descent, Plan, Population, Strategy};
use sottovoce_models::fcf::{Device, Shared};
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Setting, Settings};
use sottovoce_protocol::ModelSpec;

/// The registry's entry.
pub(crate) const MODEL: Model = Model {
    name: Fcf::NAME,
    title: "FCF",
    what: "Federated collaborative filtering: devices solve for their owner's vector and send the gradient of all items",
    paper: "Ammad-ud-din, Ivannikova, Khan, Oyomno, Fu, Tan, Flanagan: Federated Collaborative Filtering for Privacy-Preserving Personalized Recommendation System. arXiv:1901.09888, 2019",
    settings,
    build: simulated::build::<Fcf>,
};

fn settings() -> Vec<Setting> {
    let mut all = Common::settings(50, "Times all devices are asked");
    all.extend([
        Setting::choice(
            "negatives",
            &["decoys", "papers"],
            "Whether rows of items had that stay at home leave as those of items not had, or (papers) are missing and thereby known",
        ),
        Setting::integer("factors", 20, 1..=512, "Length of users' and items' vectors").on_log_scale(),
        Setting::real("alpha", 0.3, 0.0..=1000.0, "Weight that an interaction adds to the 1 of every cell"),
        Setting::real("regularisation", 10.0, 1e-6..=1e5, "Pull of all vectors to zero").on_log_scale(),
        Setting::real("init_deviation", 0.1, 1e-6..=1.0, "Standard deviation of the first random vectors")
            .on_log_scale(),
        Setting::choice("server", &["adam", "sgd"], "How the server steps down the gradient"),
        Setting::real("learning_rate", 0.05, 1e-9..=10.0, "Step of the server").on_log_scale(),
        Setting::real("momentum", 0.1, 0.0..=0.999, "Share of the old mean gradient kept (Adam's beta 1)"),
        Setting::real("memory", 0.99, 0.0..=0.9999, "Share of the old mean square kept (Adam's beta 2)"),
    ]);
    all
}

/// Its settings.
pub(crate) struct Fcf {
    common: Common,
    device: Device,
    init_deviation: f32,
    server: Server,
}

/// The server's steps by their settings; the pull is that of the whole population.
#[derive(Clone, Copy)]
enum Server {
    Adam(AdamSettings),
    Descent(Descent),
}

impl FederatedModel for Fcf {
    type Shared = Shared;
    type Device = Device;

    const NAME: &'static str = sottovoce_models::fcf::NAME;

    fn new(settings: &Settings) -> Self {
        let device = Device {
            factors: settings.integer("factors"),
            confidence: settings.real("alpha") as f32,
            regularisation: settings.real("regularisation") as f32,
            decoys: settings.word("negatives") == "decoys",
        };
        let (rate, pull) = (settings.real("learning_rate") as f32, device.regularisation);
        let server = match settings.word("server") {
            "sgd" => Server::Descent(Descent { rate, pull }),
            _ => Server::Adam(AdamSettings {
                rate,
                momentum: settings.real("momentum") as f32,
                memory: settings.real("memory") as f32,
                pull,
            }),
        };
        let init_deviation = settings.real("init_deviation") as f32;
        Self { common: Common::read(settings), device, init_deviation, server }
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn shared(&self) -> Shared {
        Shared { factors: self.device.factors, init_deviation: self.init_deviation }
    }

    /// As many rounds as it takes to ask each device once, on average.
    fn plan(&self, population: &Population) -> Plan {
        Plan::in_turn(self.common.cohort.unwrap_or(Cohort::All), population)
    }

    fn device(&self, _: Option<&Plan>) -> Device {
        self.device
    }

    fn spec(device: &Device) -> ModelSpec {
        device.spec()
    }

    fn strategy(&self, devices: usize) -> Box<dyn Strategy> {
        let a_device = |pull| pull / devices.max(1) as f32;
        match self.server {
            Server::Adam(adam) => Box::new(Adam::new(AdamSettings { pull: a_device(adam.pull), ..adam })),
            Server::Descent(sgd) => Box::new(Descent { pull: a_device(sgd.pull), ..sgd }),
        }
    }

    /// All items down; up all that the owner does not have, and of the others the share pi.
    fn vectors(&self, plan: &Plan, cohort: usize, items: usize) -> f64 {
        let kept = (1.0 - self.common.pi) * plan.triples as f64;
        (plan.rounds * cohort) as f64 * (2.0 * items as f64 - kept)
    }

    fn parts(&self) -> Vec<Part> {
        vec![Part::matrix("items", 0, 0..self.device.factors)]
    }
}
