//! FPL in a federation: its settings and choices.

use crate::settings::{Common, Pace};
use crate::simulated::{self, FederatedModel};
use crate::tensors::Part;
use crate::{OfRows, Plan, Population, Strategy};
use sottovoce_evaluate::communication::cce;
use sottovoce_models::Negatives;
use sottovoce_models::fpl::{Device, Pull, Shared};
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Setting, Settings};
use sottovoce_protocol::ModelSpec;

/// The registry's entry.
pub(crate) const MODEL: Model = Model {
    name: Fpl::NAME,
    title: "FPL",
    what: "Federated pair-wise learning: users' vectors stay on their devices, and owners choose what share of their likes leaves",
    paper: "Anelli, Deldjoo, Di Noia, Ferrara, Narducci: User-controlled federated matrix factorization for recommender systems. J. Intell. Inf. Syst. 2022",
    settings,
    build: simulated::build::<Fpl>,
};

fn settings() -> Vec<Setting> {
    let mut all = Vec::from(Pace::settings());
    all.extend([
        Setting::integer(
            "local_work",
            1,
            1..=1000,
            "Times as many triples a device, on as many times fewer devices: fewer downloads",
        )
        .on_log_scale(),
        Setting::choice(
            "negatives",
            Negatives::NAMES,
            "Items that triples compare with: of the whole catalog, of a part, or (papers) of what the owner does not have, which over rounds tells what they have",
        ),
    ]);
    all.extend(Common::settings(50, "Times as many triples are gone through as there are interactions"));
    all.extend(vectors());
    all.extend(OfRows::settings());
    all
}

fn vectors() -> [Setting; 6] {
    [
        Setting::integer("factors", 20, 1..=512, "Length of users' and items' vectors").on_log_scale(),
        Setting::real("learning_rate", 0.05, 1e-6..=1.0, "Step on the devices and on the server (alpha)")
            .on_log_scale(),
        Setting::real("user_pull", 0.05, 0.0..=10.0, "Pull to zero of users' vectors, in learning rates"),
        Setting::real(
            "positive_pull",
            0.05,
            0.0..=10.0,
            "Pull to zero of rows of items had, in learning rates",
        ),
        Setting::real(
            "negative_pull",
            0.005,
            0.0..=10.0,
            "Pull to zero of rows of items not had, in learning rates",
        ),
        Setting::real("init_deviation", 0.1, 0.0..=1.0, "Standard deviation of the first random vectors"),
    ]
}

/// Its settings.
pub(crate) struct Fpl {
    common: Common,
    pace: Pace,
    local_work: usize,
    /// With the triples of no plan.
    device: Device,
    strategy: OfRows,
}

impl FederatedModel for Fpl {
    type Shared = Shared;
    type Device = Device;

    const NAME: &'static str = sottovoce_models::fpl::NAME;

    fn new(settings: &Settings) -> Self {
        let rate = settings.real("learning_rate");
        let pull = |key| (rate * settings.real(key)) as f32;
        let device = Device {
            factors: settings.integer("factors"),
            triples: 0,
            rate: rate as f32,
            pull: Pull {
                user: pull("user_pull"),
                positive: pull("positive_pull"),
                negative: pull("negative_pull"),
            },
            init_deviation: settings.real("init_deviation") as f32,
            negatives: Negatives::named(settings.word("negatives")).unwrap_or_default(),
        };
        let strategy = OfRows::read(settings, device.rate);
        Self {
            common: Common::read(settings),
            pace: Pace::read(settings),
            local_work: settings.integer("local_work"),
            device,
            strategy,
        }
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn shared(&self) -> Shared {
        Shared { factors: self.device.factors, init_deviation: self.device.init_deviation }
    }

    fn plan(&self, population: &Population) -> Plan {
        self.pace.plan(self.common.cohort, population).concentrated(self.local_work, population)
    }

    fn samples_a_device(&self) -> Option<usize> {
        self.pace.triples
    }

    fn device(&self, plan: Option<&Plan>) -> Device {
        Device { triples: plan.map_or(0, |plan| plan.triples), ..self.device }
    }

    fn spec(device: &Device) -> ModelSpec {
        device.spec()
    }

    fn strategy(&self, _: usize) -> Box<dyn Strategy> {
        self.strategy.build()
    }

    fn vectors(&self, plan: &Plan, cohort: usize, items: usize) -> f64 {
        cce(plan.rounds as f64, cohort, items, plan.triples as f64, self.common.pi)
    }

    fn parts(&self) -> Vec<Part> {
        let width = self.device.factors;
        vec![Part::matrix("items", 0, 0..width), Part::vector("bias", 0, width)]
    }
}
