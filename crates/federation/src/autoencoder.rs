//! Autoencoders of histories in a federation: their settings and choices.

use crate::settings::Common;
use crate::simulated::{self, FederatedModel};
use crate::tensors::Part;
use crate::{Cohort, OfMeans, Plan, Population, Strategy};
use sottovoce_core::math;
use sottovoce_models::autoencoder::{Device, Kind, Shared};
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Setting, Settings};
use sottovoce_protocol::ModelSpec;

/// The registry's entry.
pub(crate) const MODEL: Model = Model {
    name: FedVae::NAME,
    title: "FedVAE",
    what: "An autoencoder of histories by FedAdam or FedAvg: every device is one person, and only the network is shared",
    paper: "Liang, Krishnan, Hoffman, Jebara: Variational Autoencoders for Collaborative Filtering. WWW 2018; Reddi and others: Adaptive Federated Optimization. ICLR 2021",
    settings,
    build: simulated::build::<FedVae>,
};

/// Devices asked into a round, unless it is said otherwise.
const COHORT: usize = 100;

fn settings() -> Vec<Setting> {
    let mut all = Common::settings(50, "Times all devices are asked");
    all.extend([
        Setting::choice(
            "network",
            Kind::NAMES,
            "Variational (MultVAE), or denoising with one hidden layer (MultDAE)",
        ),
        Setting::integer("hidden", 100, 1..=4096, "Width of the hidden layers").on_log_scale(),
        Setting::integer("latent", 50, 1..=4096, "With network = vae: width of the code").on_log_scale(),
        Setting::integer("local_steps", 1, 1..=10_000, "Steps that a device makes in a round").on_log_scale(),
        Setting::real("learning_rate", 0.1, 1e-6..=10.0, "Step of the devices").on_log_scale(),
        Setting::real("dropout_share", 0.5, 0.0..=0.95, "Share of the owner's items that a step drops"),
        Setting::real(
            "beta",
            0.2,
            0.0..=1000.0,
            "With network = vae: weight of the divergence once annealed",
        ),
        Setting::integer("annealing", 20, 1..=1_000_000, "With network = vae: rounds of a device until then")
            .on_log_scale(),
    ]);
    all.extend(OfMeans::settings(OfMeans::ADAPTIVE_FIRST, 3e-3));
    all
}

/// Its settings.
pub(crate) struct FedVae {
    common: Common,
    device: Device,
    strategy: OfMeans,
}

impl FederatedModel for FedVae {
    type Shared = Shared;
    type Device = Device;

    const NAME: &'static str = sottovoce_models::autoencoder::NAME;

    fn new(settings: &Settings) -> Self {
        let strategy = OfMeans::read(settings);
        let network = Shared {
            kind: Kind::named(settings.word("network")),
            hidden: settings.integer("hidden"),
            latent: settings.integer("latent"),
        };
        // A gradient is what one step of rate 1 comes to.
        let gradients = strategy.wants_gradients();
        let device = Device {
            network,
            local_steps: if gradients { 1 } else { settings.integer("local_steps") },
            rate: if gradients { 1.0 } else { settings.real("learning_rate") as f32 },
            dropout: settings.real("dropout_share") as f32,
            beta: settings.real("beta") as f32,
            annealing: settings.integer("annealing"),
        };
        Self { common: Common::read(settings), device, strategy }
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn shared(&self) -> Shared {
        self.device.network
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

    /// All items are as likely.
    fn guessing_loss(&self, items: usize) -> f64 {
        math::ln(items.max(2) as f64)
    }

    /// Two rows an item down; up all of the output's and the encoder's of the owner's items, of both the share pi of the
    /// owner's.
    fn vectors(&self, plan: &Plan, cohort: usize, items: usize) -> f64 {
        let own = plan.triples as f64;
        let up = items as f64 - own + 2.0 * self.common.pi * own;
        (plan.rounds * cohort) as f64 * (2.0 * items as f64 + up)
    }

    fn parts(&self) -> Vec<Part> {
        let Shared { hidden, .. } = self.device.network;
        vec![
            Part::matrix("encoder", 0, 0..hidden),
            Part::matrix("output", 1, 0..hidden),
            Part::vector("output_bias", 1, hidden),
            Part::matrix("middle", 2, 0..self.device.network.between()),
        ]
    }
}
