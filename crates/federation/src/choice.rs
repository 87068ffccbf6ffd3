//! A choice between candidates for a model by what they find on people's devices.
//!
//! 1. Devices leave the newest items of their histories out. The candidates are trained on the rest; those that differ
//!    in nothing but how sums are read come from one training.
//! 2. Each device ranks what it left out under every candidate, and sends one vector of values: a round of the model
//!    `candidate-scores`, sealed, and with noise where training has noise.
//! 3. The best candidate is trained on everything.
//!
//! **Where noise hides whole histories** and all candidates come from one training, that training is the last one, too:
//! a model in which one person makes no difference does not know their newest items by heart, so that nothing needs to
//! be left out of it, and epsilon is not spent twice.
//!
//! What is left out and what a candidate is worth is the client's to say: [`sottovoce_client::LeftOut`].

use crate::config::FederationConfig;
use crate::participation::SimulatedParticipation;
use crate::privacy::{NoiseKind, NoiseShape, PrivacyAccountant, SealKind};
use crate::simulation::failure;
use crate::{FederationError, Population, RoundRules, Simulation, registry};
use rayon::prelude::*;
use sottovoce_client::{LeftOut, streams};
use sottovoce_core::{Histories, HistoriesBuilder};
use sottovoce_models::federated::candidate_scores::{MOST_CANDIDATES, longest, means};
use sottovoce_models::federated::{self, AnyModel, CANDIDATE_SCORES, DynClient, Entry};
use sottovoce_models::settings::{Config, Settings, Value};
use sottovoce_models::{Fit, ModelError, Privacy, Quiet, Recommender, Summary, Traffic};
use sottovoce_protocol::Parameters;

/// Settings of a candidate that differ from the others'.
pub type Changes = Vec<(String, Value)>;

/// The stream of the first trainings' seeds, below a run's.
const SEEDS: &str = "choice";

/// A candidate is preferred to those before it if it is better by more than so many standard deviations of the noise on
/// the difference.
const CERTAIN: f64 = 2.0;

/// What a choice came to.
pub struct Choice {
    /// The candidates with their mean values: nDCG@10 of what devices left out.
    pub candidates: Vec<(Changes, f64)>,
    /// The index of the one that is to be trained.
    pub chosen: usize,
    /// Devices that answered; with noise, devices that were expected to.
    pub devices: u64,
    /// Standard deviation of the noise on each mean.
    pub noise: f64,
    /// Trainings beside the last one.
    pub trainings: usize,
    /// Everything that is set for the last training: the chosen candidate, and its part of the noise.
    pub settings: Settings,
    /// What it cost.
    pub traffic: Traffic,
    /// What was spent of differential privacy before the last training, if there is any noise.
    pub privacy: Option<Privacy>,
    earlier: Option<PrivacyAccountant>,
}

impl Choice {
    /// The last training, which accounts for what was spent before; `None` for centralised models.
    pub fn simulation(&self, model: &str) -> Option<Simulation> {
        let mut simulation = registry::simulation(model, &self.settings)?;
        simulation.choosing.earlier.clone_from(&self.earlier);
        Some(simulation)
    }
}

/// Chooses between candidates for a federated model with these settings; `train` are the histories that the last
/// training is to have.
///
/// # Errors
/// If the model is centralised, there are too few or too many candidates, a setting is wrong, or training fails.
pub fn choose(
    model: &str,
    settings: &Settings,
    candidates: &[Changes],
    train: &Histories,
    fit: &Fit<'_>,
) -> Result<Choice, ModelError> {
    let entry = federated::find(model).map_err(|error| {
        ModelError::Data(format!("candidates are compared on people's devices, which centralised models lack: {error}"))
    })?;
    if candidates.len() < 2 || candidates.len() > MOST_CANDIDATES {
        let found = candidates.len();
        return Err(ModelError::Data(format!("{found} candidates: a choice has 2 to {MOST_CANDIDATES}")));
    }
    let job = Job::new(&entry, settings, candidates, train, fit)?;
    job.run(fit)
}

/// Candidates that one training serves.
struct Group {
    /// All settings of the first.
    settings: Settings,
    /// Indices of the candidates, and their models.
    members: Vec<usize>,
}

struct Job<'a> {
    entry: &'a Entry,
    config: FederationConfig,
    candidates: &'a [Changes],
    /// All settings of each candidate.
    complete: Vec<Settings>,
    groups: Vec<Group>,
    train: &'a Histories,
    left_out: Vec<LeftOut>,
    /// Whether the first training is the last one, too.
    at_once: bool,
    /// Noise of each first training, the comparison and the last training.
    noise: [f64; 3],
}

impl<'a> Job<'a> {
    fn new(
        entry: &'a Entry,
        settings: &Settings,
        candidates: &'a [Changes],
        train: &'a Histories,
        fit: &Fit<'_>,
    ) -> Result<Self, ModelError> {
        let name = entry.info.name;
        let complete: Vec<Settings> =
            candidates.iter().map(|changes| changed(name, settings, changes)).collect::<Result<_, _>>()?;
        let config = FederationConfig::read(&complete[0]);
        if config.privacy.noise == NoiseKind::Sgd {
            let why = "central, local or distributed: what a device says of candidates depends on its whole history";
            return Err(failure(FederationError::setting("noise", "sgd", why), 0, ""));
        }
        let model = entry.configure(&complete[0]);
        let groups = grouped(&complete, model.readout());
        let hides = config.privacy.noise != NoiseKind::None;
        let at_once = hides && groups.len() == 1 && model.client(None).private_values() == 0;
        let root = streams::root(fit.seed, name);
        let disclosure = config.disclosure(train.users(), &root).map_err(|error| failure(error, 0, ""))?;
        let disclosed = match disclosure.withholds_items() {
            true => Some(disclosure.disclosed_histories(train).map_err(|error| failure(error, 0, ""))?),
            false => None,
        };
        let people = disclosed.as_ref().unwrap_or(train);
        let left_out = (0..people.users()).into_par_iter().map(|user| LeftOut::of(people.of(user))).collect();
        let trainings = if at_once { 0 } else { groups.len() as u64 };
        let noise = multipliers(&config, &*model, train, trainings).map_err(|error| failure(error, 0, ""))?;
        Ok(Self { entry, config, candidates, complete, groups, train, left_out, at_once, noise })
    }

    fn run(&self, fit: &Fit<'_>) -> Result<Choice, ModelError> {
        let users = self.train.users();
        let mut values = vec![0.5f32; users * self.candidates.len()];
        let (mut traffic, mut earlier) = (Traffic::default(), None);
        for (index, group) in self.groups.iter().enumerate() {
            let (simulation, summary) = self.train(index, group, earlier.as_ref(), fit)?;
            if !self.at_once {
                add(&mut traffic, &summary.traffic);
                earlier.clone_from(&simulation.choosing.spent);
            }
            self.score(group, &simulation, &mut values);
        }
        let (comparison, summary) = self.compare(values, earlier.as_ref(), fit)?;
        add(&mut traffic, &summary.traffic);
        let hides = self.config.privacy.noise != NoiseKind::None;
        let devices = if hides { learners(self.train).devices.len() as u64 } else { summary.turnout.received };
        let sums = comparison.parts().0.tables().first().map_or(&[][..], |table| table.values());
        let means = means(sums, devices);
        let noise = comparison.choosing.noise / devices.max(1) as f64;
        let chosen = best(&means, noise);
        let [_, _, last] = self.noise;
        let settings = with_noise(self.entry.info.name, &self.complete[chosen], hides.then_some(last))?;
        Ok(Choice {
            candidates: self.candidates.iter().cloned().zip(means).collect(),
            chosen,
            devices,
            noise,
            trainings: if self.at_once { 0 } else { self.groups.len() },
            settings,
            traffic,
            privacy: summary.privacy,
            earlier: comparison.choosing.spent,
        })
    }

    /// Trains the candidates of a group, on what devices did not leave out.
    fn train(
        &self,
        index: usize,
        group: &Group,
        earlier: Option<&PrivacyAccountant>,
        fit: &Fit<'_>,
    ) -> Result<(Simulation, Summary), ModelError> {
        let name = self.entry.info.name;
        let hides = self.config.privacy.noise != NoiseKind::None;
        let noise = hides.then_some(if self.at_once { self.noise[2] } else { self.noise[0] });
        let mut settings = with_noise(name, &group.settings, noise)?;
        if !self.at_once {
            // A choice may not end before the last training has begun, and what is kept are disclosed items.
            settings = changed(name, &settings, &[("epsilon".to_owned(), Value::Real(0.0))])?;
            if self.config.discloses_items_once() {
                settings = changed(name, &settings, &[("pi".to_owned(), Value::Real(1.0))])?;
            }
        }
        let mut simulation = Simulation::new(self.entry, &settings);
        simulation.choosing.earlier = earlier.cloned();
        let seeds = streams::root(fit.seed, name).stream(SEEDS, index as u64);
        let (mut quiet, seed) = (Quiet, if self.at_once { fit.seed } else { seeds.clone().next_u64() });
        let mut inner = Fit::new(seed, &mut quiet).knowing(fit.catalog);
        // A single candidate is read as it is trained.
        for &member in group.members.iter().filter(|_| group.members.len() > 1) {
            let mut variant = self.entry.configure(&self.complete[member]);
            variant.set_features(fit.catalog)?;
            simulation.choosing.variants.push(variant);
        }
        let summary = match self.at_once {
            true => simulation.fit(self.train, &mut inner)?,
            false => simulation.fit(&self.kept()?, &mut inner)?,
        };
        Ok((simulation, summary))
    }

    /// Histories without what was left out.
    fn kept(&self) -> Result<Histories, ModelError> {
        let mut kept = HistoriesBuilder::new(self.train.catalog_size(), false, false);
        for left_out in &self.left_out {
            for &item in &left_out.kept {
                kept.push(item, 0.0, 0).map_err(|error| ModelError::Data(error.to_string()))?;
            }
            kept.end_user();
        }
        let kept = kept.finish();
        match self.train.pages() {
            Some(pages) => kept.with_pages(pages.clone()).map_err(|error| ModelError::Data(error.to_string())),
            None => Ok(kept),
        }
    }

    /// What each device finds of the candidates of a group.
    fn score(&self, group: &Group, simulation: &Simulation, values: &mut [f32]) {
        let (items, all) = (self.train.catalog_size(), self.candidates.len());
        let (_, private, _) = simulation.parts();
        let candidates: Vec<(usize, DynClient, &Parameters)> = simulation
            .candidates()
            .into_iter()
            .zip(&group.members)
            .map(|((client, shared), &member)| (member, client, shared))
            .collect();
        let score = |scores: &mut Vec<f32>, (user, values): (usize, &mut [f32])| {
            for (member, client, shared) in &candidates {
                let width = client.private_values();
                let private = private.get(user * width..(user + 1) * width).unwrap_or_default();
                values[*member] = self.left_out[user].value(client, (shared, private), items, scores);
            }
        };
        values.par_chunks_exact_mut(all).enumerate().for_each_init(Vec::new, score);
    }

    /// The round in which devices say what they found.
    fn compare(
        &self,
        values: Vec<f32>,
        earlier: Option<&PrivacyAccountant>,
        fit: &Fit<'_>,
    ) -> Result<(Simulation, Summary), ModelError> {
        let settings = comparison_settings(&self.config, &self.complete[0], self.candidates.len(), self.noise[1])?;
        let mut simulation = Simulation::new(&CANDIDATE_SCORES, &settings);
        simulation.choosing.private = Some(values);
        simulation.choosing.earlier = earlier.cloned();
        let learners = learners(self.train).devices;
        let lists: Vec<&[u32]> = (0..self.train.users() as u32)
            .map(|user| if learners.binary_search(&user).is_ok() { &[0u32][..] } else { &[] })
            .collect();
        let answers = Histories::from_lists(&lists, self.candidates.len());
        let answers = answers.map_err(|error| ModelError::Data(error.to_string()))?;
        let summary = simulation.fit(&answers, &mut Fit::new(fit.seed, &mut Quiet))?;
        Ok((simulation, summary))
    }
}

/// Those who can learn.
fn learners(train: &Histories) -> Population {
    Population::of(&train.deduplicated())
}

/// Settings with some of them changed.
fn changed(model: &str, settings: &Settings, changes: &[(String, Value)]) -> Result<Settings, ModelError> {
    let known = registry::find(model)?;
    let settable = |key: &str| known.schema().any(|setting| setting.key == key);
    let kept = settings.iter().filter(|(key, _)| settable(key) && changes.iter().all(|(other, _)| other != key));
    let changes = changes.iter().map(|(key, value)| (key.as_str(), value.clone()));
    known.settings(kept.map(|(key, value)| (key, value.clone())).chain(changes))
}

fn with_noise(model: &str, settings: &Settings, noise: Option<f64>) -> Result<Settings, ModelError> {
    match noise {
        Some(noise) => changed(model, settings, &[("noise_multiplier".to_owned(), Value::Real(noise))]),
        None => Ok(settings.clone()),
    }
}

/// Candidates that differ in nothing but how sums are read, together.
fn grouped(complete: &[Settings], readout: &[&str]) -> Vec<Group> {
    let same = |one: &Settings, other: &Settings| {
        one.iter().filter(|(key, _)| !readout.contains(key)).all(|(key, value)| other.get(key) == Some(value))
    };
    let mut groups: Vec<Group> = Vec::new();
    for (index, settings) in complete.iter().enumerate() {
        match groups.iter_mut().find(|group| same(&group.settings, settings)) {
            Some(group) => group.members.push(index),
            None => groups.push(Group { settings: settings.clone(), members: vec![index] }),
        }
    }
    groups
}

/// Noise of each first training, the comparison and the last training.
fn multipliers(
    config: &FederationConfig,
    model: &dyn AnyModel,
    train: &Histories,
    trainings: u64,
) -> Result<[f64; 3], FederationError> {
    if config.privacy.noise == NoiseKind::None {
        return Ok([0.0; 3]);
    }
    let population = learners(train);
    let schedule = model.schedule(config.cohort(), &population);
    let people = population.devices.len();
    let rounds = if model.budget_shares().is_empty() { (schedule.rounds * config.epochs) as u64 } else { 1 };
    let uniform = config.participation.is_uniform();
    config.privacy.choice_noise((schedule.cohort.size(people), people), (rounds, uniform), trainings)
}

/// A round of everybody under the same protection, sealed in any case.
fn comparison_settings(
    config: &FederationConfig,
    settings: &Settings,
    candidates: usize,
    noise: f64,
) -> Result<Settings, ModelError> {
    let mut same = vec!["noise", "noise_shape", "delta", "seal", "seal_dropout", "seal_colluding", "seal_identities"];
    let (rules, devices) = (RoundRules::default().schema(), SimulatedParticipation::default().schema());
    same.extend(rules.iter().chain(&devices).map(|setting| setting.key));
    let kept = settings.iter().filter(|(key, _)| same.contains(key)).map(|(key, value)| (key, value.clone()));
    let mut all: Vec<(&str, Value)> = kept.collect();
    all.push(("candidates", Value::Integer(candidates as i64)));
    all.extend([("epochs", Value::Integer(1)), ("pi", Value::Real(1.0))]);
    if config.privacy.seal == SealKind::None {
        all.retain(|(key, _)| *key != "seal");
        all.push(("seal", Value::Word("secagg".to_owned())));
    }
    if config.privacy.noise != NoiseKind::None {
        let clip = match config.privacy.noise_shape {
            NoiseShape::Gaussian => longest(candidates),
            // By the sum of values.
            NoiseShape::Laplace => longest(1) * candidates as f64,
        };
        all.extend([("clip", Value::Real(clip)), ("noise_multiplier", Value::Real(noise))]);
    }
    registry::model(&CANDIDATE_SCORES).settings(all)
}

/// The first candidate, unless another is better by more than the noise explains; of those the best.
fn best(means: &[f64], noise: f64) -> usize {
    let certain = CERTAIN * std::f64::consts::SQRT_2 * noise;
    let better = |best: usize, next: usize| if means[next] > means[best] { next } else { best };
    let top = (0..means.len()).reduce(better).unwrap_or(0);
    if means.first().is_some_and(|first| means[top] > first + certain) { top } else { 0 }
}

fn add(traffic: &mut Traffic, more: &Traffic) {
    traffic.down += more.down;
    traffic.up += more.up;
    traffic.vectors += more.vectors;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_does_not_decide() {
        assert_eq!(best(&[0.10, 0.11, 0.12, 0.12], 0.0), 2);
        assert_eq!(best(&[0.10, 0.11], 0.01), 0);
        assert_eq!(best(&[0.10, 0.14, 0.11], 0.01), 1);
        assert_eq!(best(&[0.2, 0.1], 0.0), 0);
    }
}
