//! FPL as a recommender that is trained in the simulator.

use crate::{
    Cohort, Configuration, Damped, Disclosure, Federation, FederationError, InProcess, PiSpread, Plan,
    Population, Setup, Strategy, Sum,
};
use sottovoce_core::{Histories, Rng};
use sottovoce_evaluate::communication::{cce, tcc};
use sottovoce_models::fpl::{Device, Pull, Shared};
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Setting, Settings};
use sottovoce_models::{
    DevicePart, Fit, Flow, ModelError, Progress, Recommender, SharedPart, Summary, Tensor, stored,
};
use sottovoce_protocol::{Parameters, Policy, ValueEncoding};

/// The registry's entry.
pub(crate) const MODEL: Model = Model {
    name: "fpl",
    title: "FPL",
    what: "Federated pair-wise learning: users' vectors stay on their devices, and owners choose what share of their likes leaves",
    paper: "Anelli, Deldjoo, Di Noia, Ferrara, Narducci: User-controlled federated matrix factorization for recommender systems. J. Intell. Inf. Syst. 2022",
    settings,
    build: |settings| Box::new(Fpl::new(settings)),
};

/// Ways for devices to write values.
const VALUES: &[&str] = &["f32", "f16", "i8-row", "i8-table"];

fn settings() -> Vec<Setting> {
    let mut all = rounds();
    all.extend([
        Setting::real("pi", 1.0, 0.0..=1.0, "Share of an owner's liked items whose rows leave the device"),
        Setting::choice(
            "pi_spread",
            PiSpread::NAMES,
            "How pi varies from owner to owner, around the same mean",
        ),
        Setting::integer("factors", 20, 1..=512, "Length of users' and items' vectors").on_log_scale(),
        Setting::integer(
            "epochs",
            50,
            1..=10_000,
            "Times as many triples are gone through as there are interactions",
        )
        .on_log_scale(),
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
        Setting::choice(
            "strategy",
            &["sum", "damped"],
            "How updates are put together: the papers' sum, or one that is stable at any cohort size",
        ),
        Setting::real(
            "damped_devices",
            100.0,
            1.0..=1e9,
            "With strategy = damped: devices beyond which a row hardly moves further",
        )
        .on_log_scale(),
        Setting::choice("values", VALUES, "How devices write the values they send"),
    ]);
    all
}

fn rounds() -> Vec<Setting> {
    vec![
        Setting::choice(
            "configuration",
            Configuration::NAMES,
            "One device a round (s) or all (p); one triple, or with + as many as interactions a device",
        ),
        Setting::integer(
            "cohort",
            0,
            0..=1_000_000_000,
            "Devices asked into a round; 0: as the configuration says",
        ),
        Setting::integer(
            "triples",
            0,
            0..=1_000_000,
            "Triples a device draws in a round; 0: as the configuration says",
        ),
    ]
}

/// Settings, and what was learnt with them.
struct Fpl {
    configuration: Configuration,
    cohort: Option<Cohort>,
    triples: Option<usize>,
    pi: f64,
    pi_spread: PiSpread,
    epochs: usize,
    device: Device,
    strategy: Chosen,
    values: ValueEncoding,
    learnt: Learnt,
}

/// A strategy by its settings.
#[derive(Clone, Copy)]
enum Chosen {
    Sum(Sum),
    Damped(Damped),
}

impl Chosen {
    fn build(self) -> Box<dyn Strategy> {
        match self {
            Chosen::Sum(sum) => Box::new(sum),
            Chosen::Damped(damped) => Box::new(damped),
        }
    }
}

type Simulation = Federation<InProcess<Device>>;

/// Where the model is.
enum Learnt {
    /// In training.
    Federation(Box<Simulation>),
    /// At rest: the shared model, empty for an empty catalog, and all private ones.
    Parts(Parameters, Vec<f32>),
}

impl Fpl {
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
        };
        let rate = rate as f32;
        let strategy = match settings.word("strategy") {
            "damped" => Chosen::Damped(Damped { rate, devices: settings.real("damped_devices") as f32 }),
            _ => Chosen::Sum(Sum { rate }),
        };
        let chosen = |key| Some(settings.integer(key)).filter(|&number| number > 0);
        let named = |encoding: &ValueEncoding| encoding.to_string() == settings.word("values");
        Self {
            configuration: Configuration::named(settings.word("configuration"))
                .unwrap_or(Configuration::ParallelPlus),
            cohort: chosen("cohort").map(Cohort::Count),
            triples: chosen("triples"),
            pi: settings.real("pi"),
            pi_spread: PiSpread::named(settings.word("pi_spread")).unwrap_or(PiSpread::Fixed),
            epochs: settings.integer("epochs"),
            device,
            strategy,
            values: ValueEncoding::ALL.into_iter().find(named).unwrap_or_default(),
            learnt: Learnt::Parts(Parameters::default(), Vec::new()),
        }
    }

    fn shared_part(&self) -> Shared {
        Shared { factors: self.device.factors, init_deviation: self.device.init_deviation }
    }

    fn shared(&self) -> &Parameters {
        match &self.learnt {
            Learnt::Federation(federation) => federation.shared(),
            Learnt::Parts(shared, _) => shared,
        }
    }

    fn private(&self) -> &[f32] {
        match &self.learnt {
            Learnt::Federation(federation) => federation.fleet().private(),
            Learnt::Parts(_, private) => private,
        }
    }

    /// A federation of these people, and its plan.
    fn found(&self, train: &Histories, seed: u64) -> Result<(Simulation, Plan), FederationError> {
        let rng = Rng::new(seed).stream("fpl", 0);
        let population = Population::of(train);
        let plan = Plan::of(self.configuration, &population).with(self.cohort, self.triples, &population);
        let device = Device { triples: plan.triples, ..self.device };
        let shared = self.shared_part();
        let start = shared.start(train.catalog_size(), &mut rng.stream("shared", 0))?;
        let policy = Policy::new(self.pi)?;
        let disclosure = Disclosure::spread(policy, self.pi_spread, train.users(), &rng);
        let fleet = InProcess::new(device, train.clone(), start.layout(), disclosure, &rng);
        let (strategy, model) = (self.strategy.build(), device.spec());
        let setup = Setup { strategy, plan, population, start, model, values: self.values };
        Ok((Federation::new(fleet, setup, rng.stream("rounds", 0)), plan))
    }

    /// Vectors an epoch sends, as the papers count.
    fn vectors_an_epoch(&self, plan: &Plan, train: &Histories) -> f64 {
        let devices = plan.cohort.size(Population::of(train).devices.len());
        cce(plan.rounds as f64, devices, train.catalog_size(), plan.triples as f64, self.pi)
    }

    /// Ends training: keeps the model and lets the rest go.
    fn rest(&mut self) {
        let nothing = Learnt::Parts(Parameters::default(), Vec::new());
        self.learnt = match std::mem::replace(&mut self.learnt, nothing) {
            Learnt::Federation(federation) => {
                let (fleet, shared) = federation.into_parts();
                Learnt::Parts(shared, fleet.into_private())
            }
            rest => rest,
        };
    }

    /// Trains in `self.learnt`, so that the watch sees the model as it is.
    fn learn(&mut self, vectors: f64, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        let mut summary = Summary::default();
        for epoch in 1..=self.epochs {
            let Learnt::Federation(federation) = &mut self.learnt else { break };
            let report = federation.epoch().map_err(|error| failure(error, epoch, &federation.advice()))?;
            summary.epochs = epoch;
            summary.triples += report.attendance.samples;
            summary.traffic.down += report.down;
            summary.traffic.up += report.attendance.bytes;
            summary.traffic.vectors = tcc(vectors, epoch);
            let progress = Progress { epoch, epochs: self.epochs, loss: report.loss(), model: &*self };
            if fit.watch.after_epoch(&progress) == Flow::Stop {
                break;
            }
        }
        if let Learnt::Federation(federation) = &self.learnt {
            summary.updates_by_item = federation.row_updates().tables()[0].clone();
        }
        Ok(summary)
    }
}

fn failure(error: FederationError, epoch: usize, advice: &str) -> ModelError {
    match error {
        FederationError::Diverged { what, .. } => {
            ModelError::Diverged { epoch, advice: format!("{what}; {advice}") }
        }
        other => ModelError::Data(other.to_string()),
    }
}

/// The same histories with each person's items ascending, each once.
fn each_once(train: &Histories) -> Result<Histories, ModelError> {
    let sorted = train.sorted();
    let mut offsets = Vec::with_capacity(sorted.users() + 1);
    let mut items: Vec<u32> = Vec::with_capacity(sorted.interactions());
    offsets.push(0);
    for user in sorted.iter() {
        items.extend(user.chunk_by(|a, b| a == b).map(|same| same[0]));
        offsets.push(items.len());
    }
    Histories::from_columns(offsets, items, Vec::new(), Vec::new(), train.catalog_size())
        .map_err(|error| ModelError::Data(error.to_string()))
}

impl Recommender for Fpl {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        if train.catalog_size() == 0 {
            let private = vec![0.0; train.users() * self.device.factors];
            self.learnt = Learnt::Parts(Parameters::default(), private);
            return Ok(Summary::default());
        }
        let train = each_once(train)?;
        let (federation, plan) = self.found(&train, fit.seed).map_err(|error| failure(error, 0, ""))?;
        let vectors = self.vectors_an_epoch(&plan, &train);
        self.learnt = Learnt::Federation(Box::new(federation));
        let summary = self.learn(vectors, fit);
        self.rest();
        summary
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        let width = self.device.factors;
        self.device.score(self.shared(), &self.private()[user * width..][..width], into);
    }

    fn tensors(&self) -> Vec<Tensor> {
        let (width, private) = (self.device.factors, self.private());
        let rows = || self.shared().tables().iter().flat_map(|table| table.values().chunks_exact(width + 1));
        let factors: Vec<f32> = rows().flat_map(|row| &row[..width]).copied().collect();
        let bias: Vec<f32> = rows().map(|row| row[width]).collect();
        vec![
            stored::floats("users", [private.len() / width, width], private.to_vec()),
            stored::floats("items", [bias.len(), width], factors),
            stored::floats("bias", [bias.len()], bias),
        ]
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        let (width, items) = (self.device.factors, train.catalog_size());
        let private = stored::take_floats(tensors, "users", &[train.users(), width])?.to_vec();
        let factors = stored::take_floats(tensors, "items", &[items, width])?;
        let bias = stored::take_floats(tensors, "bias", &[items])?;
        let mut shared = Parameters::default();
        if items > 0 {
            let layout = self.shared_part().layout(items);
            shared = Parameters::zeros(&layout.map_err(|error| ModelError::Restore(error.to_string()))?);
        }
        for table in shared.tables_mut() {
            let rows = table.values_mut().chunks_exact_mut(width + 1);
            for ((row, factors), bias) in rows.zip(factors.chunks_exact(width)).zip(bias) {
                row[..width].copy_from_slice(factors);
                row[width] = *bias;
            }
        }
        self.learnt = Learnt::Parts(shared, private);
        Ok(())
    }
}
