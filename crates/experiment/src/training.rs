//! Trains and evaluates one recommender.

use crate::checkpoint::Store;
use crate::monitor::{BestEpoch, Monitor};
use crate::outcome::CurvePoint;
use crate::plan::Curve;
use sottovoce_core::{Catalog, Histories, History, Names};
use sottovoce_evaluate::{EvaluateError, Evaluation, EvaluationInput, Protocol};
use sottovoce_federation::{Choice, Recorder, registry};
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Settings, Value};
use sottovoce_models::{Fit, Flow, ModelError, Recommender, Summary};
use std::sync::Arc;
use std::time::Instant;

/// A note where a cohort is larger than the population: histories have these lengths.
pub fn cohort_note(cohort: Option<&Value>, lengths: impl Iterator<Item = usize>) -> Option<String> {
    let (cohort, learners) = (cohort?.number()?, lengths.filter(|&length| length > 0).count());
    let note = || format!("a cohort of {cohort} devices, but {learners} users can train: all are in every round");
    (cohort > learners as f64).then(note)
}

/// A model and how it is trained.
pub struct ModelPlan<'a> {
    /// Which model.
    pub model: &'static Model,
    /// Its settings.
    pub settings: &'a Settings,
    /// Determines all randomness.
    pub seed: u64,
    /// Evaluations during training.
    pub evaluations: Option<Evaluations<'a>>,
}

/// Evaluations of a model on held-out interactions during training.
#[derive(Clone, Copy)]
pub struct Evaluations<'a> {
    /// The held-out interactions.
    pub question: EvaluationInput<'a>,
    /// By which metric, how often, and when to give up.
    pub curve: Curve,
    /// Return the model as it was at its best, instead of as it was at the end.
    pub keep_best: bool,
}

/// A trained model and its training curve.
pub struct Trained {
    /// The model.
    pub recommender: Box<dyn Recommender>,
    /// Epochs and triples.
    pub summary: Summary,
    /// One point an epoch; those after an evaluation have a value.
    pub curve: Vec<CurvePoint>,
    /// The best epoch.
    pub best_epoch: Option<usize>,
    /// Wall-clock seconds of training, evaluations included.
    pub seconds: f64,
}

/// What a training has access to.
#[derive(Default)]
pub struct Context<'a> {
    /// Where checkpoints are written, and read from at the start.
    pub store: Option<&'a mut Store>,
    /// Names of the users, for settings that name files with values of users.
    pub users: Option<&'a Names>,
    /// Metadata of the items, for models that use it.
    pub catalog: Option<&'a Catalog>,
    /// Sees what the server of a federated model sees.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// What was chosen on devices before, whose settings are those of the plan.
    pub choice: Option<&'a Choice>,
}

/// Trains a model; `on_epoch` is called with (done, planned) after each epoch and may end the training. Interrupted and
/// started again with the same store, it gives the same bytes as one that was not interrupted.
///
/// # Errors
/// If the model cannot be trained on the data, or diverges, or a checkpoint cannot be written or read.
pub fn train<'a>(
    plan: &ModelPlan<'a>,
    histories: &Histories,
    on_epoch: &'a mut dyn FnMut(usize, usize) -> Flow,
    context: Context<'a>,
) -> Result<Trained, ModelError> {
    let started = Instant::now();
    let Context { store, users, catalog, recorder, choice } = context;
    let mut recommender = recommender(plan, recorder, choice);
    let (curve, best, cost) = (Vec::new(), None, CurvePoint::default());
    let mut monitor = Monitor { evaluations: plan.evaluations, curve, best, on_epoch, store, users, cost };
    let mut summary = recommender.fit(histories, &mut Fit::new(plan.seed, &mut monitor).knowing(catalog))?;
    if let Some(choice) = choice {
        summary.traffic.down += choice.traffic.down;
        summary.traffic.up += choice.traffic.up;
        summary.traffic.vectors += choice.traffic.vectors;
    }
    let Monitor { curve, best, .. } = monitor;
    let best_epoch = best.as_ref().map(|best| best.epoch);
    if let Some(BestEpoch { tensors: Some(tensors), .. }) = best {
        recommender.restore(&tensors, histories)?;
    }
    Ok(Trained { recommender, summary, curve, best_epoch, seconds: started.elapsed().as_secs_f64() })
}

/// The model before training; one that was chosen goes on with what the choice spent.
fn recommender(
    plan: &ModelPlan<'_>,
    recorder: Option<Arc<dyn Recorder>>,
    choice: Option<&Choice>,
) -> Box<dyn Recommender> {
    let simulation = match (choice, &recorder) {
        (Some(choice), _) => choice.simulation(plan.model.name),
        (None, Some(_)) => registry::simulation(plan.model.name, plan.settings),
        (None, None) => None,
    };
    match (simulation, recorder) {
        (Some(simulation), Some(recorder)) => Box::new(simulation.with_recorder(recorder)),
        (Some(simulation), None) => Box::new(simulation),
        (None, _) => plan.model.build(plan.settings),
    }
}

/// Evaluates a model.
///
/// # Errors
/// If the parts of the input do not fit together.
pub fn evaluate(
    question: &EvaluationInput<'_>,
    protocol: &Protocol,
    model: &dyn Recommender,
) -> Result<Evaluation, EvaluateError> {
    let Some(later) = question.also_seen.filter(|part| part.users() == question.users()) else {
        return sottovoce_evaluate::evaluate(question, protocol, |user, into: &mut [f32]| model.score(user, into));
    };
    // What was held out of training lies before the test part: who goes by the order of items sees it.
    sottovoce_evaluate::evaluate(question, protocol, |user, into: &mut [f32]| {
        let items: Vec<u32> = question.train.of(user).iter().chain(later.of(user)).copied().collect();
        model.score_after(user, History { items: &items, ..question.train.history(user) }, into);
    })
}

impl Evaluations<'_> {
    /// The parts of one data set fit together, so that evaluation does not fail.
    pub(crate) fn value(&self, model: &dyn Recommender) -> Option<f64> {
        let protocol = Protocol::all_unrated([self.curve.metric.cutoff]);
        self.curve.metric.of(&evaluate(&self.question, &protocol, model).ok()?.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::MetricAt;
    use crate::prepare::{DataPlan, prepare};
    use sottovoce_data::Split;
    use sottovoce_evaluate::Metric;
    use sottovoce_models::settings::Value;

    #[test]
    fn patience_ends_the_training_and_restores_the_best_epoch() {
        let validation = Some(Split::Temporal(0.8));
        let data = prepare(&DataPlan { validation, ..DataPlan::new("synth:town:users=60", 1) }).unwrap();
        let question = EvaluationInput::new(&data.parts.train, data.parts.validation.as_ref().unwrap());
        let metric = MetricAt { key: Metric::Ndcg, cutoff: 10 };
        let model = registry::find("bpr-mf").unwrap();
        let settings = model.settings([("epochs", Value::Integer(200)), ("learning_rate", Value::Real(0.1))]).unwrap();
        let curve = Curve { every: 2, patience: Some(3), metric };
        let evaluations = Evaluations { question, curve, keep_best: true };
        let plan = ModelPlan { model, settings: &settings, seed: 3, evaluations: Some(evaluations) };
        let mut on_epoch = |_: usize, _: usize| Flow::Continue;
        let trained = train(&plan, &data.parts.train, &mut on_epoch, Context::default()).unwrap();
        let best = trained.best_epoch.unwrap();
        assert!(trained.summary.epochs < 200, "never stopped");
        assert_eq!(trained.summary.epochs, best + 2 * 3);
        assert!(trained.curve.iter().all(|point| point.value.is_some() == (point.epoch % 2 == 0)));
        let again = evaluate(&question, &Protocol::all_unrated([10]), trained.recommender.as_ref()).unwrap();
        assert_eq!(trained.curve[best - 1].value, Some(again.at[&10].ndcg));
    }
}
