//! The device's half of whichever model a round asks for.

use crate::spec::SpecError;
use crate::{Bounds, DevicePart, Lesson, Reason, SharedPart, Task, autoencoder, fcf, fpl, gmf, kgflex};
use sottovoce_core::{Facts, Rng};
use sottovoce_protocol::{Layout, ModelError, ModelSpec, Parameters, SharedModel, Trained, UpdateError};
use std::sync::{Arc, Weak};

/// Names of the models that a device can learn.
pub const LEARNABLE: &[&str] = &[fpl::NAME, fcf::NAME, gmf::NAME, autoencoder::NAME, kgflex::NAME];

/// A device's half with its working memory, whatever the model: what a runtime holds that learns its model's name from
/// round terms. One learner serves one device after the other; only its settings matter to the result.
pub trait Learner: Send {
    /// The settings it was made from.
    fn spec(&self) -> &ModelSpec;

    /// The facts of the catalog that it was made for, if it goes by them.
    fn facts(&self) -> Option<&Arc<Facts>>;

    /// How many items there are to score with a shared model: those that the facts are about, or else the rows of the first
    /// table.
    fn items(&self, shared: &Parameters) -> usize;

    /// Number of values of a private model.
    fn private_values(&self) -> usize;

    /// The private model before the first round.
    fn start(&self, private: &mut [f32], rng: &mut Rng);

    /// Names and shapes of the tables that it learns with, for a catalog of this size.
    ///
    /// # Errors
    /// If the catalog is empty or too large for the wire format.
    fn layout(&self, items: usize) -> Result<Layout, ModelError>;

    /// Learns in a round; see [`DevicePart::train`]. `hidden` are the items of which nothing may leave.
    ///
    /// # Errors
    /// If the shared model or the buffer is not of this model's layout, or the history not of its items. The private
    /// model is as it was then.
    fn train(
        &mut self,
        shared: &Arc<SharedModel>,
        private: &mut [f32],
        history: &[u32],
        hidden: &[u32],
        rng: &mut Rng,
        into: &mut Trained,
    ) -> Result<Lesson, LearnError>;

    /// Learns in a round with each interaction's share bounded; see [`DevicePart::train_on_each`].
    ///
    /// # Errors
    /// As [`train`](Self::train), or if the model cannot.
    fn train_on_each(
        &mut self,
        shared: &Arc<SharedModel>,
        work: Work<'_>,
        bounds: &mut Bounds<'_>,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> Result<Lesson, LearnError>;

    /// A score for each item, higher for what is more wanted.
    ///
    /// # Errors
    /// If the shared model is not of this model's layout, the lengths do not fit, or the history is not of its items.
    fn score(
        &self,
        shared: &Parameters,
        private: &[f32],
        history: &[u32],
        into: &mut [f32],
    ) -> Result<(), LearnError>;

    /// What speaks for an item; see [`DevicePart::reasons`].
    ///
    /// # Errors
    /// As [`score`](Self::score), or if the item is not in the catalog.
    fn reasons(
        &self,
        shared: &Parameters,
        private: &[f32],
        history: &[u32],
        item: u32,
    ) -> Result<Vec<Reason>, LearnError>;
}

/// What a learner of a device works on.
pub struct Work<'a> {
    /// The private model.
    pub private: &'a mut [f32],
    /// The items that the owner has.
    pub history: &'a [u32],
    /// The items of which nothing may leave.
    pub hidden: &'a [u32],
}

/// What cannot be learnt from or scored with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LearnError {
    /// The shared model is not one of this model.
    #[error("the shared model does not fit: {0}")]
    Shared(#[from] ModelError),
    /// The private model is not one of this model.
    #[error("a private model of {found} values, expected {expected}")]
    Private {
        /// Values given.
        found: usize,
        /// Values of this model.
        expected: usize,
    },
    /// The history does not ascend, or has items past the catalog.
    #[error("the history must ascend, each item once, below the catalog's {items} items")]
    History {
        /// Size of the catalog.
        items: usize,
    },
    /// Not one score an item.
    #[error("room for {found} scores, expected one for each of {expected} items")]
    Scores {
        /// Room given.
        found: usize,
        /// Size of the catalog.
        expected: usize,
    },
    /// What was learnt does not fit the buffer.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The share of single interactions cannot be bounded.
    #[error("{0} cannot learn with the share of each interaction bounded, as noise = sgd asks")]
    Unbounded(String),
}

/// The learner that round terms ask for; with the facts of the catalog, where there are any.
///
/// # Errors
/// If the model is not known, a setting is unknown, missing or out of range, or the model goes by facts and there are
/// none.
///
/// ```
/// use sottovoce_models::learner::learner;
/// use sottovoce_protocol::ModelSpec;
/// let error = learner(&ModelSpec { name: "fpl".into(), ..ModelSpec::default() }, None).err().unwrap();
/// assert_eq!(error.to_string(), "fpl: setting \"factors\" is missing");
/// ```
pub fn learner(spec: &ModelSpec, facts: Option<&Arc<Facts>>) -> Result<Box<dyn Learner>, SpecError> {
    match spec.name.as_str() {
        fpl::NAME => {
            let device = fpl::Device::from_spec(spec)?;
            let shared = fpl::Shared { factors: device.factors, init_deviation: device.init_deviation };
            Ok(Box::new(Erased::new(spec, device, shared)))
        }
        fcf::NAME => {
            let device = fcf::Device::from_spec(spec)?;
            let shared = fcf::Shared { factors: device.factors, init_deviation: 0.0 };
            Ok(Box::new(Erased::new(spec, device, shared)))
        }
        gmf::NAME => {
            let device = gmf::Device::from_spec(spec)?;
            let shared = gmf::Shared { factors: device.factors, init_deviation: device.init_deviation };
            Ok(Box::new(Erased::new(spec, device, shared)))
        }
        autoencoder::NAME => {
            let device = autoencoder::Device::from_spec(spec)?;
            Ok(Box::new(Erased::new(spec, device, device.network)))
        }
        kgflex::NAME => {
            let device = kgflex::Device::from_spec(spec, facts)?;
            let shared = kgflex::Shared::of(&device);
            Ok(Box::new(Erased { facts: facts.cloned(), ..Erased::new(spec, device, shared) }))
        }
        _ => Err(SpecError::UnknownModel { name: spec.name.clone(), known: LEARNABLE.join(", ") }),
    }
}

/// A device part with its memory. The shared part is there for its layout.
struct Erased<D: DevicePart, S> {
    spec: ModelSpec,
    device: D,
    shared: S,
    /// What the device goes by, if it does.
    facts: Option<Arc<Facts>>,
    /// With the size of the catalog it was made for.
    scratch: Option<(usize, D::Scratch)>,
    /// With the model it was made from. A weak pointer keeps the address from being used again, not the model.
    prepared: Option<(Weak<SharedModel>, D::Prepared)>,
}

impl<D: DevicePart, S: SharedPart + Send> Erased<D, S> {
    fn new(spec: &ModelSpec, device: D, shared: S) -> Self {
        Self { spec: spec.clone(), device, shared, facts: None, scratch: None, prepared: None }
    }

    /// Checks that tables and private model are this model's; returns the size of the catalog.
    fn check(&self, shared: &Parameters, private: &[f32]) -> Result<usize, LearnError> {
        let items = self.items(shared);
        shared.check(&self.shared.layout(items)?)?;
        let expected = self.device.private_values();
        if private.len() != expected {
            return Err(LearnError::Private { found: private.len(), expected });
        }
        Ok(items)
    }

    /// Checks that there is something of this model's to learn; returns the size of the catalog.
    fn check_work(
        &self,
        shared: &SharedModel,
        (private, history): (&[f32], &[u32]),
        into: &Trained,
    ) -> Result<usize, LearnError> {
        let items = self.check(&shared.parameters, private)?;
        check_history(history, items)?;
        let (found, expected) = (into.update().layout(), shared.parameters.layout().fingerprint());
        if found != expected {
            return Err(ModelError::Layout { found, expected }.into());
        }
        Ok(items)
    }

    /// Computes what follows from a shared model, unless that was done.
    fn prepare(&mut self, shared: &Arc<SharedModel>) {
        let this = Arc::downgrade(shared);
        if !self.prepared.as_ref().is_some_and(|(of, _)| of.ptr_eq(&this)) {
            self.prepared = Some((this, self.device.prepare(&shared.parameters)));
        }
    }
}

impl<D: DevicePart, S: SharedPart + Send> Learner for Erased<D, S> {
    fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    fn facts(&self) -> Option<&Arc<Facts>> {
        self.facts.as_ref()
    }

    fn items(&self, shared: &Parameters) -> usize {
        let rows = || shared.tables().first().map_or(0, |table| table.shape().rows as usize);
        self.facts.as_ref().map_or_else(rows, |facts| facts.items())
    }

    fn private_values(&self) -> usize {
        self.device.private_values()
    }

    fn start(&self, private: &mut [f32], rng: &mut Rng) {
        self.device.start(private, rng);
    }

    fn layout(&self, items: usize) -> Result<Layout, ModelError> {
        self.shared.layout(items)
    }

    fn train(
        &mut self,
        shared: &Arc<SharedModel>,
        private: &mut [f32],
        history: &[u32],
        hidden: &[u32],
        rng: &mut Rng,
        into: &mut Trained,
    ) -> Result<Lesson, LearnError> {
        let items = self.check_work(shared, (private, history), into)?;
        self.prepare(shared);
        let Self { device, scratch, prepared, .. } = self;
        let scratch = match scratch.take().filter(|(size, _)| *size == items) {
            Some(kept) => scratch.insert(kept),
            None => scratch.insert((items, device.scratch(items))),
        };
        let Some((_, prepared)) = prepared else { return Ok(Lesson::default()) };
        let task = Task { shared: &shared.parameters, prepared, private, history, hidden };
        Ok(device.train(task, &mut scratch.1, rng, into)?)
    }

    fn train_on_each(
        &mut self,
        shared: &Arc<SharedModel>,
        Work { private, history, hidden }: Work<'_>,
        bounds: &mut Bounds<'_>,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> Result<Lesson, LearnError> {
        if !self.device.bounds_interactions() {
            return Err(LearnError::Unbounded(self.spec.name.clone()));
        }
        self.check_work(shared, (private, history), into)?;
        self.prepare(shared);
        let Some((_, prepared)) = &self.prepared else { return Ok(Lesson::default()) };
        let task = Task { shared: &shared.parameters, prepared, private, history, hidden };
        Ok(self.device.train_on_each(task, bounds, rng, into)?)
    }

    fn score(
        &self,
        shared: &Parameters,
        private: &[f32],
        history: &[u32],
        into: &mut [f32],
    ) -> Result<(), LearnError> {
        let expected = self.check(shared, private)?;
        if into.len() != expected {
            return Err(LearnError::Scores { found: into.len(), expected });
        }
        check_history(history, expected)?;
        self.device.score(shared, private, history, into);
        Ok(())
    }

    fn reasons(
        &self,
        shared: &Parameters,
        private: &[f32],
        history: &[u32],
        item: u32,
    ) -> Result<Vec<Reason>, LearnError> {
        let items = self.check(shared, private)?;
        check_history(history, items)?;
        check_history(&[item], items)?;
        Ok(self.device.reasons(shared, private, history, item))
    }
}

fn check_history(history: &[u32], items: usize) -> Result<(), LearnError> {
    let ascends = history.iter().zip(history.iter().skip(1)).all(|(one, next)| one < next);
    let fits = ascends && history.last().is_none_or(|&last| (last as usize) < items);
    if fits { Ok(()) } else { Err(LearnError::History { items }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Negatives;
    use proptest::prelude::{prop, prop_assert_eq, proptest};
    use sottovoce_protocol::{FederationId, ModelVersion};

    fn fpl_device() -> fpl::Device {
        let pull = fpl::Pull { user: 0.003, positive: 1.0 / 3.0, negative: 1e-7 };
        let negatives = Negatives::Decoys;
        fpl::Device { factors: 5, triples: 30, rate: 0.05, pull, init_deviation: 0.1, negatives }
    }

    fn fcf_device() -> fcf::Device {
        fcf::Device { factors: 5, confidence: 0.3, regularisation: 2.0, decoys: true }
    }

    fn gmf_device() -> gmf::Device {
        gmf::Device {
            factors: 5,
            negatives: 2,
            local_epochs: 2,
            batch: 3,
            rate: 0.1,
            pull: 0.01,
            init_deviation: 0.1,
            gradients: false,
        }
    }

    fn vae_device() -> autoencoder::Device {
        let network = autoencoder::Shared { kind: autoencoder::Kind::Variational, hidden: 6, latent: 3 };
        autoencoder::Device { network, local_steps: 2, rate: 0.1, dropout: 0.5, beta: 0.2, annealing: 4 }
    }

    fn model(learner: &dyn Learner, items: usize) -> Arc<SharedModel> {
        let mut parameters = Parameters::zeros(&learner.layout(items).unwrap());
        Rng::new(3).fill_normal(0.2, parameters.tables_mut()[0].values_mut());
        Arc::new(SharedModel { federation: FederationId(1), version: ModelVersion(2), parameters })
    }

    proptest! {
        #[test]
        fn specs_come_back_bit_for_bit(
            factors in 1usize..=512, triples in 1usize..=1_000_000, rate in 1e-6f32..=1.0,
            pulls in prop::array::uniform3(0f32..=10.0), init_deviation in 0f32..=1.0, regularisation in 1e-6f32..1e5,
        ) {
            let pull = fpl::Pull { user: pulls[0], positive: pulls[1], negative: pulls[2] };
            for negatives in [Negatives::Decoys, Negatives::Pool, Negatives::Papers] {
                let device = fpl::Device { factors, triples, rate, pull, init_deviation, negatives };
                prop_assert_eq!(fpl::Device::from_spec(&device.spec()).unwrap(), device);
            }
            let device = fcf::Device { factors, confidence: pulls[0], regularisation, decoys: triples % 2 == 0 };
            prop_assert_eq!(fcf::Device::from_spec(&device.spec()).unwrap(), device);
            let gradients = triples % 2 == 0;
            let device = gmf::Device { factors, rate, pull: pulls[1], init_deviation, gradients, ..gmf_device() };
            prop_assert_eq!(gmf::Device::from_spec(&device.spec()).unwrap(), device);
            let device =
                autoencoder::Device { rate, beta: pulls[2], dropout: 0.95 * init_deviation, ..vae_device() };
            prop_assert_eq!(autoencoder::Device::from_spec(&device.spec()).unwrap(), device);
        }
    }

    #[test]
    fn what_a_server_gets_wrong_is_named() {
        let said = |key: &str, value: Option<&str>| {
            let mut spec = fpl_device().spec();
            match value {
                Some(value) => spec.settings.insert(key.into(), value.into()),
                None => spec.settings.remove(key),
            };
            learner(&spec, None).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(said("rate", Some("1")), "fpl: setting \"rate\" is not known");
        assert_eq!(said("triples", None), "fpl: setting \"triples\" is missing");
        for (key, value) in [
            ("triples", "1000000000"),
            ("triples", "-1"),
            ("triples", "0"),
            ("factors", "513"),
            ("factors", "99999999999999999999999"),
            ("learning_rate", "NaN"),
            ("learning_rate", "inf"),
            ("user_pull", "-0.1"),
            ("init_deviation", ""),
        ] {
            let said = said(key, Some(value));
            assert!(said.starts_with(&format!("fpl: {key} = {value:?}: expected a ")), "{said}");
        }
        let other = ModelSpec { name: "neumf".into(), ..ModelSpec::default() };
        let error = learner(&other, None).err().unwrap();
        assert_eq!(
            error.to_string(),
            "model \"neumf\" is not known here; known are: fpl, fcf, fed-gmf, fed-vae, kgflex"
        );
    }

    #[test]
    fn learners_do_what_the_device_part_does_and_reuse_their_memory() {
        let history = [1, 4, 7];
        for spec in [fpl_device().spec(), fcf_device().spec(), gmf_device().spec(), vae_device().spec()] {
            let mut one = learner(&spec, None).unwrap();
            let shared = model(&*one, 20);
            let mut updates = Vec::new();
            for fresh in [false, false, true] {
                if fresh {
                    one = learner(&spec, None).unwrap();
                }
                let mut private = vec![0.0; one.private_values()];
                one.start(&mut private, &mut Rng::new(1));
                let mut into = Trained::new(&shared.parameters.layout());
                let lesson =
                    one.train(&shared, &mut private, &history, &[], &mut Rng::new(2), &mut into).unwrap();
                assert!(lesson.samples > 0);
                updates.push((private, into.update().clone()));
            }
            assert!(updates.iter().all(|update| *update == updates[0]), "{}", spec.name);
            // Another model in the same learner is prepared anew.
            let other = model(&*one, 30);
            let mut private = vec![0.0; one.private_values()];
            let mut into = Trained::new(&other.parameters.layout());
            one.train(&other, &mut private, &[29], &[], &mut Rng::new(2), &mut into).unwrap();
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error_and_not_a_panic() {
        let mut fpl = learner(&fpl_device().spec(), None).unwrap();
        let fcf = learner(&fcf_device().spec(), None).unwrap();
        let (right, wrong) = (model(&*fpl, 20), model(&*fcf, 20));
        let mut into = Trained::new(&right.parameters.layout());
        let mut train = |shared, private: usize, history: &[u32], into: &mut Trained| {
            let mut private = vec![0.0; private];
            fpl.train(shared, &mut private, history, &[], &mut Rng::new(1), into).err()
        };
        assert!(matches!(train(&wrong, 5, &[1], &mut into), Some(LearnError::Shared(_))));
        assert_eq!(train(&right, 4, &[1], &mut into), Some(LearnError::Private { found: 4, expected: 5 }));
        for history in [&[20][..], &[3, 3], &[4, 2]] {
            assert_eq!(train(&right, 5, history, &mut into), Some(LearnError::History { items: 20 }));
        }
        let mut other = Trained::new(&wrong.parameters.layout());
        assert!(matches!(train(&right, 5, &[1], &mut other), Some(LearnError::Shared(_))));
        assert_eq!(train(&right, 5, &[1], &mut into), None);
        let scored = fcf.score(&wrong.parameters, &[0.0; 5], &[], &mut [0.0; 19]);
        assert_eq!(scored, Err(LearnError::Scores { found: 19, expected: 20 }));
    }
}
