//! What a model retains of users who withdraw, after doing nothing, after retraining and after fine-tuning.
//!
//! Some users take part and then withdraw, as many others never take part: the controls. A membership attack on the
//! shared model that separates the two groups finds what is left of those who withdrew.

mod membership;
mod training;

use membership::MembershipAttack;
pub use membership::Separation;
use sottovoce_core::{Histories, Rng};
use sottovoce_data::DataSplit;
use sottovoce_evaluate::{EvaluateError, EvaluationInput, Protocol, evaluate};
use sottovoce_federation::Simulation;
use sottovoce_models::settings::Value;
use sottovoce_models::{ModelError, Recommender as _};
use thiserror::Error;
use training::{TrainedState, Training};

/// Items a user must have to be in one of the two groups: halves of fewer say nothing.
const LEAST_ITEMS: usize = 10;
/// The cutoff of accuracy.
const CUTOFF: usize = 10;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The federated model's name.
    pub model: String,
    /// Its settings, over the defaults.
    pub settings: Vec<(String, Value)>,
    /// The fraction of users who withdraw; as many never take part.
    pub share: f64,
    /// Epochs before those who withdraw joined; 0: they took part from the start.
    pub joined: usize,
    /// Epochs of fine-tuning.
    pub fine_tune: usize,
    /// Local training steps of the attack.
    pub attack_steps: usize,
    /// Determines all randomness.
    pub seed: u64,
}

/// Why the measurement failed.
#[derive(Debug, Error)]
pub enum UnlearningError {
    /// The model, or training.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Evaluation.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// A value out of range.
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

/// What is done when users withdraw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Nothing.
    Nothing,
    /// Training is repeated without them from before they joined.
    Retrain,
    /// Training continues without them for a few epochs. Nothing certifies what that removes.
    FineTune,
}

impl Method {
    /// In the order in which they are shown.
    pub const ALL: [Method; 3] = [Method::Nothing, Method::Retrain, Method::FineTune];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Retrain => "retrain",
            Self::FineTune => "fine-tune",
        }
    }
}

/// The result of one method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Which.
    pub method: Method,
    /// Epochs of training that it took.
    pub epochs: usize,
    /// Rounds that it took.
    pub rounds: u64,
    /// nDCG@10 of those who stayed.
    pub ndcg: f64,
    /// How well the attack separates those who withdrew from those who never took part.
    pub outsider: Separation,
    /// The same for an attacker with a reference model of the same users without either group.
    pub informed: Separation,
}

/// The results of all methods.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Users who stayed.
    pub stayed: usize,
    /// Users who withdrew; as many never took part.
    pub withdrew: usize,
    /// Epochs of training before they withdrew.
    pub epochs: usize,
    /// Rounds of it.
    pub rounds: u64,
    /// One a method.
    pub outcomes: Vec<Outcome>,
}

/// Users who withdrew and users who never took part.
struct Groups {
    withdrew: Vec<usize>,
    controls: Vec<usize>,
}

impl Groups {
    fn draw(train: &Histories, share: f64, rng: &mut Rng) -> Result<Self, UnlearningError> {
        let is_eligible = |user: &usize| {
            let items = train.of(*user).len();
            items >= LEAST_ITEMS && items < train.catalog_size()
        };
        let mut users: Vec<usize> = (0..train.users()).filter(is_eligible).collect();
        let wanted = (share * users.len() as f64).round();
        if !(2.0..=users.len() as f64 / 2.0 - 1.0).contains(&wanted) {
            let most = (users.len() as f64 / 2.0 - 1.0).max(0.0) / users.len().max(1) as f64;
            return Err(UnlearningError::Value {
                key: "share",
                value: share.to_string(),
                expected: format!(
                    "at least 2 and at most {most:.2} of the {} users with {LEAST_ITEMS} items or more",
                    users.len()
                ),
            });
        }
        rng.shuffle(&mut users);
        let wanted = wanted as usize;
        let (withdrew, rest) = users.split_at(wanted);
        Ok(Self { withdrew: withdrew.to_vec(), controls: rest[..wanted].to_vec() })
    }

    /// Everyone's histories but those of the controls, and of those who withdrew if they are left out.
    fn of(&self, all: &Histories, with_withdrawn: bool) -> Result<Histories, UnlearningError> {
        let mut lists: Vec<&[u32]> = all.iter().collect();
        let left_out = self.withdrew.iter().filter(|_| !with_withdrawn);
        left_out.chain(&self.controls).for_each(|&user| lists[user] = &[]);
        Histories::from_lists(&lists, all.catalog_size()).map_err(|error| ModelError::Data(error.to_string()).into())
    }
}

/// Trains with everyone, unlearns those who withdraw by each method, and measures what is left of them. `on_training`
/// is called before each training.
///
/// # Errors
/// If a value of the plan is out of range, or training or evaluation fails.
pub fn measure(plan: &Plan, parts: &DataSplit, on_training: &mut dyn FnMut(&str)) -> Result<Findings, UnlearningError> {
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
    on_training("reference model");
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
    let attack = MembershipAttack::new(&parts.train, plan.attack_steps, &rng);
    let both = [&groups.withdrew[..], &groups.controls[..]];
    let [reference_in, reference_out] = both.map(|group| attack.scores(&compared.model, group));
    let (reference_in, reference_out) = (reference_in?, reference_out?);
    let mut outcomes = Vec::new();
    for method in Method::ALL {
        if method != Method::Nothing {
            on_training(method.name());
        }
        let after = match method {
            Method::Nothing => None,
            Method::Retrain => Some(training.run(&rest, epochs, joined.as_ref(), plan.seed)?),
            Method::FineTune => Some(training.run(&rest, epochs + plan.fine_tune, Some(&before), plan.seed)?),
        };
        let from = if method == Method::Retrain { joined.as_ref() } else { Some(&before) };
        let before_it = from.map_or((0, 0), |from| (from.epochs, from.rounds));
        let TrainedState { model, epochs, rounds, .. } = after.as_ref().unwrap_or(&before);
        let within = attack.scores(model, &groups.withdrew)?;
        let without = attack.scores(model, &groups.controls)?;
        let less = |scores: &[f64], reference: &[f64]| -> Vec<f64> {
            scores.iter().zip(reference).map(|(score, reference)| score - reference).collect()
        };
        outcomes.push(Outcome {
            method,
            epochs: epochs - before_it.0,
            rounds: rounds - before_it.1,
            ndcg: ndcg(&rest, &test, model)?,
            informed: Separation::of(&less(&within, &reference_in), &less(&without, &reference_out)),
            outsider: Separation::of(&within, &without),
        });
    }
    let stayed = rest.iter().filter(|history| !history.is_empty()).count();
    let withdrew = groups.withdrew.len();
    Ok(Findings { stayed, withdrew, epochs, rounds: before.rounds, outcomes })
}

/// Of users with a test part.
fn ndcg(train: &Histories, test: &Histories, model: &Simulation) -> Result<f64, UnlearningError> {
    let question = EvaluationInput::new(train, test);
    let evaluation = evaluate(&question, &Protocol::all_unrated([CUTOFF]), |user, into: &mut [f32]| {
        model.score(user, into);
    })?;
    Ok(evaluation.at.get(&CUTOFF).map_or(f64::NAN, |metrics| metrics.ndcg))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_core::{Catalog, Names};
    use sottovoce_data::ColdItems;

    /// 60 users who each like one of three kinds of items.
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
            cold: ColdItems::default(),
            without_test: 0,
        }
    }

    fn plan() -> Plan {
        Plan {
            model: "fpl".to_owned(),
            settings: [("epochs", 3), ("factors", 2)].map(|(key, n)| (key.to_owned(), Value::Integer(n))).into(),
            share: 0.1,
            joined: 0,
            fine_tune: 2,
            attack_steps: 3,
            seed: 1,
        }
    }

    #[test]
    fn methods_cost_their_epochs_and_are_deterministic() {
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
    fn retraining_starts_when_they_joined() {
        let found = measure(&Plan { joined: 2, ..plan() }, &town(), &mut |_| ()).unwrap();
        let epochs: Vec<usize> = found.outcomes.iter().map(|outcome| outcome.epochs).collect();
        assert_eq!((epochs, found.epochs), (vec![0, 1, 2], 3));
    }

    #[test]
    fn rejects_values_out_of_range() {
        let wrong = |plan: Plan| measure(&plan, &town(), &mut |_| ()).unwrap_err().to_string();
        assert!(wrong(Plan { share: 0.6, ..plan() }).starts_with("share is 0.6, expected"));
        assert_eq!(wrong(Plan { joined: 3, ..plan() }), "joined is 3, expected fewer than the 3 epochs of training");
        assert!(wrong(Plan { model: "bpr-mf".to_owned(), ..plan() }).contains("fpl"));
    }
}
