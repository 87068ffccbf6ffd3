//! What is left of people who withdraw, after doing nothing, after retraining and after an approximate step.
//!
//! Some people take part and then withdraw, as many others never take part: the controls. Whoever can tell the two groups
//! apart by the shared model alone finds in it what is left of those who withdrew. See [`membership`] for how that is tried.

pub mod membership;
mod training;

use membership::{Separation, Trier};
use sottovoce_core::{Histories, Rng};
use sottovoce_data::DataSplit;
use sottovoce_evaluate::{EvaluateError, EvaluationInput, Protocol, evaluate};
use sottovoce_federation::Streaming;
use sottovoce_models::ModelError;
use sottovoce_models::settings::Value;
use thiserror::Error;
use training::{Schooling, Training};

/// Items that somebody must have to be of one of the two groups: fewer say nothing in halves.
const LEAST_ITEMS: usize = 10;
/// Length of the lists that are judged.
const CUTOFF: usize = 10;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The federated model's name.
    pub model: String,
    /// Its settings, over the defaults.
    pub settings: Vec<(String, Value)>,
    /// The share of people who withdraw; as many never take part.
    pub share: f64,
    /// Epochs done before those joined who withdraw; 0: they were there from the start.
    pub joined: usize,
    /// Epochs of the approximate step.
    pub fine_tune: usize,
    /// Lessons that a newcomer's private model gets.
    pub lessons: usize,
    /// Determines all randomness.
    pub seed: u64,
}

/// Why nothing could be measured.
#[derive(Debug, Error)]
pub enum UnlearningError {
    /// The model, or training.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Judging.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// A value that makes no sense.
    #[error("{key} is {value}, expected {expected}")]
    Value {
        /// Which.
        key: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        expected: String,
    },
}

/// What was done when people withdrew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nothing.
    Nothing,
    /// Training went back to before they joined and was done again without them.
    Retrain,
    /// Training went on without them for a few epochs. Nothing certifies what that removes.
    FineTune,
}

impl Way {
    /// In the order in which they are shown.
    pub const ALL: [Way; 3] = [Way::Nothing, Way::Retrain, Way::FineTune];

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Retrain => "retrain",
            Self::FineTune => "fine-tune",
        }
    }
}

/// What one way came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Which.
    pub way: Way,
    /// Epochs of training that it took.
    pub epochs: usize,
    /// Rounds that it took.
    pub rounds: u64,
    /// nDCG@10 of those who stayed.
    pub ndcg: f64,
    /// How well those who withdrew are told from those who never took part, by the shared model alone.
    pub outsider: Separation,
    /// The same for whoever also has a model of the same people without either group, to compare with.
    pub informed: Separation,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// People who stayed.
    pub stayed: usize,
    /// People who withdrew; as many never took part.
    pub withdrew: usize,
    /// Epochs of training before they withdrew.
    pub epochs: usize,
    /// Rounds of it.
    pub rounds: u64,
    /// One a way.
    pub outcomes: Vec<Outcome>,
}

/// Who is what.
struct Groups {
    withdrew: Vec<usize>,
    controls: Vec<usize>,
}

impl Groups {
    fn draw(train: &Histories, share: f64, rng: &mut Rng) -> Result<Self, UnlearningError> {
        let fits = |user: &usize| {
            let items = train.of(*user).len();
            items >= LEAST_ITEMS && items < train.catalog_size()
        };
        let mut people: Vec<usize> = (0..train.users()).filter(fits).collect();
        let wanted = (share * people.len() as f64).round();
        if !(2.0..=people.len() as f64 / 2.0 - 1.0).contains(&wanted) {
            let most = (people.len() as f64 / 2.0 - 1.0).max(0.0) / people.len().max(1) as f64;
            return Err(UnlearningError::Value {
                key: "share",
                value: share.to_string(),
                expected: format!(
                    "at least 2 and at most {most:.2} of the {} people with {LEAST_ITEMS} items or more",
                    people.len()
                ),
            });
        }
        rng.shuffle(&mut people);
        let wanted = wanted as usize;
        let (withdrew, rest) = people.split_at(wanted);
        Ok(Self { withdrew: withdrew.to_vec(), controls: rest[..wanted].to_vec() })
    }

    /// Everyone's histories but those of the controls, and of those who withdrew if they are left out.
    fn of(&self, all: &Histories, with_withdrawn: bool) -> Result<Histories, UnlearningError> {
        let mut lists: Vec<&[u32]> = all.iter().collect();
        let left_out = self.withdrew.iter().filter(|_| !with_withdrawn);
        left_out.chain(&self.controls).for_each(|&user| lists[user] = &[]);
        Histories::from_lists(&lists, all.catalog_size())
            .map_err(|error| ModelError::Data(error.to_string()).into())
    }
}

/// Trains with everyone, lets some withdraw in each way, and measures what is left of them. Is told of each training before
/// it begins.
///
/// # Errors
/// If the plan makes no sense, or training or judging fails.
pub fn measure(
    plan: &Plan,
    parts: &DataSplit,
    on_training: &mut dyn FnMut(&str),
) -> Result<Findings, UnlearningError> {
    let rng = Rng::new(plan.seed).stream("unlearning", 0);
    let groups = Groups::draw(&parts.train, plan.share, &mut rng.stream("groups", 0))?;
    let (everyone, rest) = (groups.of(&parts.train, true)?, groups.of(&parts.train, false)?);
    let test = groups.of(&parts.test, false)?;
    let training = Training::new(plan, parts)?;
    let epochs = training.epochs()?;
    if plan.joined >= epochs {
        let expected = format!("fewer than the {epochs} epochs of training");
        return Err(UnlearningError::Value { key: "joined", value: plan.joined.to_string(), expected });
    }
    on_training("the model that others are compared with");
    let compared = training.run(&rest, epochs, None, plan.seed.wrapping_add(1))?;
    let joined = match plan.joined {
        0 => None,
        joined => {
            on_training("before they joined");
            Some(training.run(&rest, joined, None, plan.seed)?)
        }
    };
    on_training("with everyone");
    let before = training.run(&everyone, epochs, joined.as_ref(), plan.seed)?;
    let trier = Trier::new(&parts.train, plan.lessons, &rng);
    let people = [&groups.withdrew[..], &groups.controls[..]];
    let reference = people.map(|group| trier.scores(&*compared.model, group));
    let [reference_in, reference_out] = reference;
    let (reference_in, reference_out) = (reference_in?, reference_out?);
    let mut outcomes = Vec::new();
    for way in Way::ALL {
        if way != Way::Nothing {
            on_training(way.name());
        }
        let after = match way {
            Way::Nothing => None,
            Way::Retrain => Some(training.run(&rest, epochs, joined.as_ref(), plan.seed)?),
            Way::FineTune => Some(training.run(&rest, epochs + plan.fine_tune, Some(&before), plan.seed)?),
        };
        let from = if way == Way::Retrain { joined.as_ref() } else { Some(&before) };
        let begun = from.map_or((0, 0), |from| (from.epochs, from.rounds));
        let Schooling { model, epochs, rounds, .. } = after.as_ref().unwrap_or(&before);
        let within = trier.scores(&**model, &groups.withdrew)?;
        let without = trier.scores(&**model, &groups.controls)?;
        let less = |scores: &[f64], reference: &[f64]| -> Vec<f64> {
            scores.iter().zip(reference).map(|(score, reference)| score - reference).collect()
        };
        outcomes.push(Outcome {
            way,
            epochs: epochs - begun.0,
            rounds: rounds - begun.1,
            ndcg: ndcg(&rest, &test, &**model)?,
            informed: Separation::of(&less(&within, &reference_in), &less(&without, &reference_out)),
            outsider: Separation::of(&within, &without),
        });
    }
    let stayed = rest.iter().filter(|history| !history.is_empty()).count();
    let withdrew = groups.withdrew.len();
    Ok(Findings { stayed, withdrew, epochs, rounds: before.rounds, outcomes })
}

/// Of people who have a test part.
fn ndcg(train: &Histories, test: &Histories, model: &dyn Streaming) -> Result<f64, UnlearningError> {
    let question = EvaluationInput::new(train, test);
    let judged = evaluate(&question, &Protocol::all_unrated([CUTOFF]), |user, into: &mut [f32]| {
        model.score(user, into);
    })?;
    Ok(judged.at.get(&CUTOFF).map_or(f64::NAN, |metrics| metrics.ndcg))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_core::{Catalog, Names};

    /// 60 people who each like one of three kinds of items.
    fn town() -> DataSplit {
        let mut rng = Rng::new(5);
        let list = |user: usize, rng: &mut Rng| {
            let mut items: Vec<u32> =
                (0..30).filter(|item| *item as usize % 3 == user % 3 || rng.chance(0.1)).collect();
            rng.shuffle(&mut items);
            items
        };
        let lists: Vec<Vec<u32>> = (0..60).map(|user| list(user, &mut rng)).collect();
        let (train, test): (Vec<_>, Vec<_>) = lists.iter().map(|list| list.split_at(list.len() - 1)).unzip();
        DataSplit {
            users: Names::default(),
            catalog: Catalog::default(),
            train: Histories::from_lists(&train, 30).unwrap(),
            validation: None,
            test: Histories::from_lists(&test, 30).unwrap(),
            without_test: 0,
        }
    }

    fn plan() -> Plan {
        Plan {
            model: "fpl".to_owned(),
            settings: [("epochs", 3), ("factors", 2)]
                .map(|(key, n)| (key.to_owned(), Value::Integer(n)))
                .into(),
            share: 0.1,
            joined: 0,
            fine_tune: 2,
            lessons: 3,
            seed: 1,
        }
    }

    #[test]
    fn each_way_costs_what_it_says_and_the_same_seed_gives_the_same() {
        let town = town();
        let found = measure(&plan(), &town, &mut |_| ()).unwrap();
        let epochs: Vec<usize> = found.outcomes.iter().map(|outcome| outcome.epochs).collect();
        assert_eq!(epochs, [0, 3, 2]);
        assert_eq!(found.stayed + 2 * found.withdrew, 60);
        assert_eq!(found.outcomes[0].rounds, 0);
        assert!(found.outcomes[1].rounds > 0 && found.outcomes[2].rounds > 0);
        assert!(found.outcomes.iter().all(|outcome| (0.0..=1.0).contains(&outcome.ndcg)));
        assert_eq!(measure(&plan(), &town, &mut |_| ()).unwrap(), found);
    }

    #[test]
    fn who_joined_late_costs_only_the_epochs_since() {
        let found = measure(&Plan { joined: 2, ..plan() }, &town(), &mut |_| ()).unwrap();
        let epochs: Vec<usize> = found.outcomes.iter().map(|outcome| outcome.epochs).collect();
        assert_eq!((epochs, found.epochs), (vec![0, 1, 2], 3));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let wrong = |plan: Plan| measure(&plan, &town(), &mut |_| ()).unwrap_err().to_string();
        assert!(wrong(Plan { share: 0.6, ..plan() }).starts_with("share is 0.6, expected"));
        assert_eq!(
            wrong(Plan { joined: 3, ..plan() }),
            "joined is 3, expected fewer than the 3 epochs of training"
        );
        assert!(wrong(Plan { model: "bpr-mf".to_owned(), ..plan() }).contains("fpl"));
    }
}
