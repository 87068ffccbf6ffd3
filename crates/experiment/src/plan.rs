//! Trials: one model, one setting, one seed, one data set, one stage.

use crate::file::{Alternatives, Choice, Contender, DataSet, Experiment};
use crate::grid;
use crate::metric::MetricAt;
use serde::Serialize;
use sottovoce_evaluate::Protocol;
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Settings, Value};
use std::sync::Arc;

/// Changes whenever the meaning of a trial changes, so that old journals do not answer for new trials.
const MEANING: u32 = 1;

/// What is done with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Learn from the training part without the validation part, be judged on the validation part.
    Validation,
    /// Learn from the training part with the validation part, be judged on the test part.
    Test,
    /// Learn from the training part without the validation part, be judged on the test part; items of the
    /// validation part are not ranked.
    TestWithoutRefit,
}

impl Stage {
    /// Whether the trial is judged on the test part.
    pub fn is_final(self) -> bool {
        self != Stage::Validation
    }
}

/// Judgements while a model learns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Curve {
    /// Judge every so many epochs, and after the last.
    pub every: usize,
    /// End the training after so many judgements without a new best.
    pub patience: Option<usize>,
    /// Judge by this metric, on the part the stage is judged on.
    pub metric: MetricAt,
}

/// One training and one judgement.
#[derive(Clone)]
pub struct Trial {
    /// Names the trial in journals: a hash of all that determines its result.
    pub key: String,
    /// The data set.
    pub data: Arc<DataSet>,
    /// The model.
    pub model: &'static Model,
    /// Its settings, complete.
    pub settings: Settings,
    /// Determines all randomness of the training.
    pub seed: u64,
    /// What is learnt from and judged on.
    pub stage: Stage,
    /// How it is judged; the first cutoff is the main one.
    pub protocol: Arc<Protocol>,
    /// Whether and how it is judged on the way.
    pub curve: Option<Curve>,
}

/// What a trial's key is the hash of.
#[derive(Serialize)]
struct Meaning<'a> {
    meaning: u32,
    data: &'a DataSet,
    model: &'a str,
    settings: &'a Settings,
    seed: u64,
    stage: Stage,
    protocol: &'a Protocol,
    curve: &'a Option<Curve>,
}

impl Trial {
    fn new(place: &Place, settings: Settings, seed: u64, stage: Stage, curve: Option<Curve>) -> Self {
        let meaning = Meaning {
            meaning: MEANING,
            data: &place.data,
            model: place.contender.model.name,
            settings: &settings,
            seed,
            stage,
            protocol: &place.protocol,
            curve: &curve,
        };
        let key = hash(&meaning);
        Self {
            key,
            data: place.data.clone(),
            model: place.contender.model,
            settings,
            seed,
            stage,
            protocol: place.protocol.clone(),
            curve,
        }
    }

    /// The trial in a line of progress or an error.
    pub fn describe(&self) -> String {
        let defaults = self.model.settings([]).ok();
        let is_default = |key: &str, value: &Value| {
            defaults.as_ref().is_some_and(|all| all.iter().any(|(k, v)| k == key && v == value))
        };
        let changed: Vec<_> = self
            .settings
            .iter()
            .filter(|(key, value)| !is_default(key, value))
            .map(|(key, value)| format!(" {key}={value}"))
            .collect();
        let stage = if self.stage.is_final() { "test" } else { "validation" };
        format!("{}{} on {}, seed {}, {stage}", self.model.name, changed.concat(), self.data.label, self.seed)
    }
}

/// 128 bits of BLAKE3 of a canonical JSON text, as hexadecimal digits.
pub(crate) fn hash(what: &impl Serialize) -> String {
    // Serialising plain structures with text keys into memory does not fail; a failure would still give a key.
    let text = serde_json::to_vec(what).unwrap_or_default();
    blake3::hash(&text).to_hex()[..32].to_owned()
}

/// A contender on a data set: a row of one table.
pub struct Place {
    /// The data set.
    pub data: Arc<DataSet>,
    /// The contender.
    pub contender: Contender,
    /// How all are judged.
    pub protocol: Arc<Protocol>,
    seeds: Vec<u64>,
    choice: Choice,
}

impl Place {
    /// The rows of all tables, in the order of the file: by data set, then by contender.
    pub fn all(experiment: &Experiment) -> Vec<Place> {
        let protocol = Arc::new(experiment.protocol.clone());
        let mut places = Vec::new();
        for data in &experiment.data {
            let shared = Arc::new(data.clone());
            places.extend(experiment.contenders_on(data).map(|contender| Place {
                data: shared.clone(),
                contender: contender.clone(),
                protocol: protocol.clone(),
                seeds: experiment.seeds.clone(),
                choice: experiment.choice.clone(),
            }));
        }
        places
    }

    /// The points of the grid, or none for a search or if nothing is chosen.
    pub(crate) fn grid(&self) -> Vec<Vec<(String, Value)>> {
        match &self.contender.alternatives {
            Alternatives::Grid(lists) => grid::combinations(lists),
            _ => Vec::new(),
        }
    }

    /// The row of the same sweep whose choice this row follows, if it follows one.
    pub(crate) fn guide(&self) -> Option<Place> {
        let fixed = self.contender.guide.clone()?;
        let contender = Contender { fixed, guide: None, ..self.contender.clone() };
        Some(Place {
            data: self.data.clone(),
            contender,
            protocol: self.protocol.clone(),
            seeds: self.seeds.clone(),
            choice: self.choice.clone(),
        })
    }

    /// How many trials there will be, at most, unless a choice is given up.
    pub fn trials(&self) -> usize {
        let points = match &self.contender.alternatives {
            Alternatives::None => 0,
            _ if self.contender.guide.is_some() => 1,
            Alternatives::Grid(_) => self.grid().len(),
            Alternatives::Search(search) => {
                let size =
                    search.space.size().map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
                search.trials.min(size)
            }
        };
        points * self.choice.seeds + self.seeds.len()
    }

    /// Whether anything is chosen on the validation part.
    pub fn chooses(&self) -> bool {
        self.contender.alternatives != Alternatives::None
    }

    /// The seed of a search: the same for the same search, whatever else is in the file.
    pub(crate) fn search_seed(&self) -> u64 {
        let meaning = (&*self.data, self.contender.model.name, &self.contender.fixed, self.seeds[0]);
        u64::from_str_radix(&hash(&meaning)[..16], 16).unwrap_or(0)
    }

    /// The trials that judge a point on the validation part, one a seed.
    pub(crate) fn validation(&self, point: &[(String, Value)]) -> Result<Vec<Trial>, String> {
        let settings = self.settings(point)?;
        let curve = self.choice.every.map(|every| self.curve(every, self.choice.patience));
        let seeds = self.seeds[..self.choice.seeds].iter();
        Ok(seeds
            .map(|&seed| Trial::new(self, settings.clone(), seed, Stage::Validation, curve.clone()))
            .collect())
    }

    /// The trials that judge the chosen point on the test part, one a seed.
    pub(crate) fn test(&self, point: &[(String, Value)]) -> Result<Vec<Trial>, String> {
        let settings = self.settings(point)?;
        let stage = if self.choice.refit { Stage::Test } else { Stage::TestWithoutRefit };
        let curve = self.choice.test_curve.map(|every| self.curve(every, None));
        let seeds = self.seeds.iter();
        Ok(seeds.map(|&seed| Trial::new(self, settings.clone(), seed, stage, curve.clone())).collect())
    }

    fn curve(&self, every: usize, patience: Option<usize>) -> Curve {
        Curve { every, patience, metric: self.choice.metric }
    }

    fn settings(&self, point: &[(String, Value)]) -> Result<Settings, String> {
        let given =
            self.contender.fixed.iter().chain(point).map(|(key, value)| (key.as_str(), value.clone()));
        self.contender.model.settings(given).map_err(|error| error.to_string())
    }

    pub(crate) fn choice(&self) -> &Choice {
        &self.choice
    }
}

/// The hash of everything in an experiment that bears on its results; titles, labels and plots do not.
pub fn fingerprint(experiment: &Experiment) -> String {
    let contender = |row: &Contender| {
        let alternatives = match &row.alternatives {
            Alternatives::None => serde_json::Value::Null,
            Alternatives::Grid(lists) => serde_json::json!({ "grid": lists }),
            Alternatives::Search(s) => serde_json::json!({
                "method": s.method, "trials": s.trials, "startup": s.startup, "at_once": s.at_once, "space": s.space,
            }),
        };
        serde_json::json!([row.model.name, row.fixed, row.guide, row.only, alternatives])
    };
    let choice = &experiment.choice;
    hash(&serde_json::json!({
        "meaning": MEANING,
        "data": experiment.data,
        "seeds": experiment.seeds,
        "protocol": experiment.protocol,
        "choice": [
            choice.metric, choice.seeds, choice.refit, choice.every, choice.patience, choice.test_curve,
            choice.next_if_failed
        ],
        "contenders": experiment.contenders.iter().map(contender).collect::<Vec<_>>(),
    }))
}
