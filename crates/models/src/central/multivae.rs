//! MultiVAE: a variational autoencoder of histories with a multinomial likelihood.
//!
//! D. Liang, R. G. Krishnan, M. D. Hoffman, T. Jebara: Variational Autoencoders for Collaborative Filtering, WWW 2018.
//!
//! With x_u the items of a user as ones, scaled to length 1 and with some of them dropped at random in training:
//! ```text
//! h = tanh(x W1 + b1)      m = h W2 + b2      l = h W3 + b3      z = m + n e^(l/2), n standard normal (z = m when scoring)
//! s = tanh(z W4 + b4) W5 + b5
//! loss of a user = - sum over their items i of ln softmax(s)_i + beta KL(N(m, e^l) || N(0, 1))
//! ```
//! beta rises from 0 by the same amount a step until it reaches its cap ("annealing"). Steps are Adam's on means over
//! batches of users. A batch is cut into a fixed number of parts, whose gradients are added in order: results do not
//! depend on threads.

use super::neighbours::{distinct, nobody};
use crate::registry::Model;
use crate::settings::{Setting, Settings};
use crate::stored;
use crate::{Fit, Flow, ModelError, Progress, Recommender, Summary, Tensor};
use rayon::prelude::*;
use sottovoce_core::{Histories, Rng};
use sottovoce_neural::losses::{kl_gaussian, multinomial, sample_gaussian, sample_gaussian_backward};
use sottovoce_neural::{Activation, Adam, Arena, Arithmetic, Layout, Linear, NeuralError, Space, SparseRows};

/// The registry's entry.
pub(super) const MODEL: Model = Model {
    name: "multivae",
    title: "MultiVAE",
    what: "A variational autoencoder of histories with a multinomial likelihood",
    paper: "Liang, Krishnan, Hoffman, Jebara: Variational Autoencoders for Collaborative Filtering. WWW 2018",
    settings,
    build: |settings| Box::new(MultiVae::new(settings)),
};

fn settings() -> Vec<Setting> {
    vec![
        Setting::integer("hidden", 600, 1..=10_000, "Width of the hidden layers").on_log_scale(),
        Setting::integer("latent", 200, 1..=10_000, "Width of the code").on_log_scale(),
        Setting::integer("epochs", 100, 1..=10_000, "Times every user is gone through").on_log_scale(),
        Setting::integer("batch", 500, 1..=100_000, "Users of a step").on_log_scale(),
        Setting::real("learning_rate", 1e-3, 1e-6..=1.0, "Step of Adam").on_log_scale(),
        Setting::real("dropout", 0.5, 0.0..=0.95, "Share of a user's items that training drops"),
        Setting::real("beta", 0.2, 0.0..=1.0, "Weight of the divergence once annealed"),
        Setting::integer("annealing", 2000, 1..=10_000_000, "Steps until beta is reached").on_log_scale(),
    ]
}

/// Parts of a batch, and of the parameters when a step is made.
const PARTS: usize = 4;

/// The numbers among the settings.
#[derive(Clone, Copy)]
struct Plan {
    hidden: usize,
    latent: usize,
    epochs: usize,
    batch: usize,
    rate: f64,
    dropout: f64,
    beta: f64,
    annealing: usize,
}

struct MultiVae {
    plan: Plan,
    users: Histories,
    network: Option<Network>,
}

impl MultiVae {
    fn new(settings: &Settings) -> Self {
        let plan = Plan {
            hidden: settings.integer("hidden"),
            latent: settings.integer("latent"),
            epochs: settings.integer("epochs"),
            batch: settings.integer("batch"),
            rate: settings.real("learning_rate"),
            dropout: settings.real("dropout"),
            beta: settings.real("beta"),
            annealing: settings.integer("annealing"),
        };
        Self { plan, users: nobody(), network: None }
    }

    fn diverged(&self, epoch: usize) -> ModelError {
        let advice = format!("the loss is no longer finite; take a learning_rate below {}", self.plan.rate);
        ModelError::Diverged { epoch, advice }
    }
}

fn data(error: impl std::fmt::Display) -> ModelError {
    ModelError::Data(format!("MultiVAE: {error}"))
}

impl Recommender for MultiVae {
    fn fit(&mut self, train: &Histories, fit: &mut Fit<'_>) -> Result<Summary, ModelError> {
        self.users = distinct(train);
        if train.catalog_size() == 0 {
            return Ok(Summary::default());
        }
        let rng = Rng::new(fit.seed).stream("multivae", 0);
        let network = Network::new(&self.plan, train.catalog_size(), &rng).map_err(data)?;
        let mut training = Training::new(&network, &self.plan).map_err(data)?;
        self.network = Some(network);
        let mut order: Vec<u32> =
            (0..train.users() as u32).filter(|&user| !self.users.of(user as usize).is_empty()).collect();
        let mut summary = Summary::default();
        for epoch in 1..=self.plan.epochs {
            let mut rng = rng.stream("epoch", epoch as u64);
            rng.shuffle(&mut order);
            let mut sum = 0.0;
            for (number, users) in order.chunks(self.plan.batch).enumerate() {
                let Some(network) = &mut self.network else { break };
                let batch = Batch { histories: &self.users, users, rng: rng.stream("batch", number as u64) };
                sum += users.len() as f64 * training.step(network, &batch).map_err(data)?;
            }
            let loss = sum / order.len().max(1) as f64;
            if !loss.is_finite() {
                return Err(self.diverged(epoch));
            }
            let progress = Progress { epoch, epochs: self.plan.epochs, loss: Some(loss), model: &*self };
            if fit.after_epoch(&mut summary, self.users.interactions() as u64, &progress) == Flow::Stop {
                break;
            }
        }
        Ok(summary)
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        assert_eq!(into.len(), self.users.catalog_size(), "one score an item");
        if into.is_empty() {
            return;
        }
        let scored = self.network.as_ref().map(|network| network.score(self.users.of(user), into));
        assert_eq!(scored, Some(Ok(())), "a model that was fitted");
    }

    fn tensors(&self) -> Vec<Tensor> {
        let Some(network) = &self.network else { return Vec::new() };
        let values = |slot: &sottovoce_neural::Slot| network.parameters[slot.range()].to_vec();
        let tensors = network.layout.tensors().iter();
        tensors
            .map(|tensor| stored::floats(&tensor.name, tensor.shape.clone(), values(&tensor.slot)))
            .collect()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.users = distinct(train);
        if train.catalog_size() == 0 {
            return Ok(());
        }
        let mut network = Network::new(&self.plan, train.catalog_size(), &Rng::new(0)).map_err(data)?;
        for tensor in network.layout.tensors() {
            let values = stored::take_floats(tensors, &tensor.name, &tensor.shape)?;
            network.parameters[tensor.slot.range()].copy_from_slice(values);
        }
        self.network = Some(network);
        Ok(())
    }
}

/// Layers and parameters.
struct Network {
    layout: Layout,
    encoder: Linear,
    mean: Linear,
    log_variance: Linear,
    decoder: Linear,
    output: Linear,
    parameters: Vec<f32>,
}

impl Network {
    fn new(plan: &Plan, items: usize, rng: &Rng) -> Result<Self, NeuralError> {
        let mut layout = Layout::new(Arithmetic::Machine);
        let mut linear = |name, inputs, outputs| Linear::new(&mut layout, name, inputs, outputs);
        let encoder = linear("encoder", items, plan.hidden)?;
        let mean = linear("mean", plan.hidden, plan.latent)?;
        let log_variance = linear("log_variance", plan.hidden, plan.latent)?;
        let decoder = linear("decoder", plan.latent, plan.hidden)?;
        let output = linear("output", plan.hidden, items)?;
        let mut parameters = layout.zeros();
        layout.initialise(&mut parameters, rng)?;
        Ok(Self { layout, encoder, mean, log_variance, decoder, output, parameters })
    }

    /// Values that a training pass of so many users takes.
    fn space(&self, users: usize) -> usize {
        let layers = [&self.encoder, &self.mean, &self.log_variance, &self.decoder, &self.output];
        // Each output with its gradient; the sample, its deviations and its gradient.
        2 * layers.iter().map(|layer| layer.space(users)).sum::<usize>() + 3 * self.mean.space(users)
    }

    fn score(&self, items: &[u32], into: &mut [f32]) -> Result<(), NeuralError> {
        let mut arena = Arena::new(self.space(1), 0)?;
        let mut space = arena.space();
        let scaled = vec![length(items); items.len()];
        let x = SparseRows::one(items, Some(&scaled), into.len())?;
        let h = self.encoder.forward_sparse(&self.parameters, &x, &mut space)?;
        Activation::Tanh.apply(h);
        let z = self.mean.forward(&self.parameters, h, &mut space)?;
        let d = self.decoder.forward(&self.parameters, z, &mut space)?;
        Activation::Tanh.apply(d);
        into.copy_from_slice(self.output.forward(&self.parameters, d, &mut space)?);
        Ok(())
    }

    /// Adds a part's gradients; returns its loss. `share` is 1 / users of the batch.
    fn learn(
        &self,
        part: &Part,
        beta: f64,
        share: f64,
        rng: &mut Rng,
        gradients: &mut [f32],
        space: &mut Space<'_, f32>,
    ) -> Result<f64, NeuralError> {
        let p = &self.parameters;
        let (x, items) = (part.input(self.encoder.inputs())?, part.items(self.encoder.inputs())?);
        let h = self.encoder.forward_sparse(p, &x, space)?;
        Activation::Tanh.apply(h);
        let m = self.mean.forward(p, h, space)?;
        let l = self.log_variance.forward(p, h, space)?;
        let (z, deviations) = sample_gaussian(m, l, rng, space)?;
        let d = self.decoder.forward(p, z, space)?;
        Activation::Tanh.apply(d);
        let s = self.output.forward(p, d, space)?;

        let (ds, dd, dz) = (space.zeros(s.len())?, space.zeros(d.len())?, space.zeros(z.len())?);
        let (dm, dl, dh) = (space.zeros(m.len())?, space.zeros(l.len())?, space.zeros(h.len())?);
        let mut loss = multinomial(s, &items, share, Some(ds))?;
        self.output.backward(p, d, ds, gradients, Some(dd))?;
        Activation::Tanh.backward(d, dd)?;
        self.decoder.backward(p, z, dd, gradients, Some(dz))?;
        sample_gaussian_backward(deviations, dz, dm, dl)?;
        loss += kl_gaussian(m, l, beta * share, Some((&mut *dm, &mut *dl)))?;
        self.mean.backward(p, h, dm, gradients, Some(&mut *dh))?;
        self.log_variance.backward(p, h, dl, gradients, Some(&mut *dh))?;
        Activation::Tanh.backward(h, dh)?;
        self.encoder.backward_sparse(&x, dh, gradients)?;
        Ok(loss)
    }
}

/// What each of so many ones is scaled with to make a row of length 1.
fn length(items: &[u32]) -> f32 {
    1.0 / (items.len().max(1) as f32).sqrt()
}

/// Users of one step.
struct Batch<'a> {
    histories: &'a Histories,
    users: &'a [u32],
    rng: Rng,
}

/// A part of a batch: what goes in and what should come out.
#[derive(Default)]
struct Part {
    starts: Vec<usize>,
    kept: Vec<u32>,
    values: Vec<f32>,
    item_starts: Vec<usize>,
    items: Vec<u32>,
}

impl Part {
    fn clear(&mut self) {
        for starts in [&mut self.starts, &mut self.item_starts] {
            starts.clear();
            starts.push(0);
        }
        self.kept.clear();
        self.values.clear();
        self.items.clear();
    }

    fn gather(&mut self, batch: &Batch<'_>, users: &[u32], dropout: f64, rng: &mut Rng) {
        self.clear();
        for &user in users {
            let items = batch.histories.of(user as usize);
            let value = length(items) / (1.0 - dropout) as f32;
            self.items.extend_from_slice(items);
            self.kept.extend(items.iter().filter(|_| !rng.chance(dropout)));
            self.values.resize(self.kept.len(), value);
            self.starts.push(self.kept.len());
            self.item_starts.push(self.items.len());
        }
    }

    fn input(&self, items: usize) -> Result<SparseRows<'_, f32>, NeuralError> {
        SparseRows::new(&self.starts, &self.kept, Some(&self.values), items)
    }

    fn items(&self, items: usize) -> Result<SparseRows<'_, f32>, NeuralError> {
        SparseRows::new(&self.item_starts, &self.items, None, items)
    }
}

/// The memory of one part.
struct Lane {
    part: Part,
    gradients: Vec<f32>,
    arena: Arena<f32>,
}

impl Lane {
    fn learn(
        &mut self,
        network: &Network,
        batch: &Batch<'_>,
        number: usize,
        plan: &Plan,
        beta: f64,
    ) -> Result<f64, NeuralError> {
        let size = batch.users.len().div_ceil(PARTS);
        let users = batch.users.chunks(size).nth(number).unwrap_or(&[]);
        if users.is_empty() {
            return Ok(0.0);
        }
        let mut rng = batch.rng.stream("part", number as u64);
        self.part.gather(batch, users, plan.dropout, &mut rng);
        let share = 1.0 / batch.users.len() as f64;
        network.learn(&self.part, beta, share, &mut rng, &mut self.gradients, &mut self.arena.space())
    }
}

/// A training in progress.
struct Training {
    plan: Plan,
    lanes: Vec<Lane>,
    /// One for each stretch of the parameters, so that a step is made by all threads.
    optimisers: Vec<Adam<f32>>,
    stretch: usize,
    steps: usize,
}

impl Training {
    fn new(network: &Network, plan: &Plan) -> Result<Self, NeuralError> {
        let space = network.space(plan.batch.div_ceil(PARTS));
        let lane = |_| {
            let (part, gradients) = (Part::default(), network.layout.zeros());
            Ok(Lane { part, gradients, arena: Arena::new(space, 0)? })
        };
        let stretch = network.parameters.len().div_ceil(PARTS);
        let stretches = network.parameters.chunks(stretch);
        Ok(Self {
            plan: *plan,
            lanes: (0..PARTS).map(lane).collect::<Result<_, NeuralError>>()?,
            optimisers: stretches.map(|stretch| Adam::new(plan.rate, stretch.len())).collect(),
            stretch,
            steps: 0,
        })
    }

    /// One step on a batch; returns the mean loss of its users.
    fn step(&mut self, network: &mut Network, batch: &Batch<'_>) -> Result<f64, NeuralError> {
        let annealed = self.steps as f64 / self.plan.annealing as f64;
        let (plan, beta) = (&self.plan, self.plan.beta * annealed.min(1.0));
        self.steps += 1;
        let shared = &*network;
        let lanes = self.lanes.par_iter_mut().enumerate();
        let losses = lanes.map(|(number, lane)| lane.learn(shared, batch, number, plan, beta));
        let loss = losses.collect::<Result<Vec<_>, _>>()?.iter().sum();
        self.descend(&mut network.parameters)?;
        Ok(loss)
    }

    /// Adds the parts' gradients in order and steps, stretch by stretch.
    fn descend(&mut self, parameters: &mut [f32]) -> Result<(), NeuralError> {
        let mut gradients: Vec<Vec<&mut [f32]>> = self.optimisers.iter().map(|_| Vec::new()).collect();
        for lane in &mut self.lanes {
            for (of_stretch, part) in gradients.iter_mut().zip(lane.gradients.chunks_mut(self.stretch)) {
                of_stretch.push(part);
            }
        }
        let stretches = parameters.par_chunks_mut(self.stretch).zip(gradients).zip(&mut self.optimisers);
        stretches.try_for_each(|((parameters, mut parts), adam)| {
            let Some((sum, others)) = parts.split_first_mut() else { return Ok(()) };
            for other in others {
                add_and_clear(sum, other);
            }
            adam.step(parameters, sum)
        })
    }
}

fn add_and_clear(sum: &mut [f32], other: &mut [f32]) {
    for (sum, other) in sum.iter_mut().zip(other) {
        *sum += *other;
        *other = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quiet;
    use crate::settings::Value;

    fn model(given: &[(&str, f64)]) -> MultiVae {
        let small = [("hidden", 12.0), ("latent", 4.0), ("batch", 7.0), ("epochs", 5.0)];
        let given = small.iter().chain(given).map(|&(key, value)| (key, Value::parse(&value.to_string())));
        MultiVae::new(&MODEL.settings(given).unwrap())
    }

    fn town() -> Histories {
        let mut rng = Rng::new(6);
        let lists: Vec<Vec<u32>> = (0..40).map(|_| (0..30).filter(|_| rng.chance(0.2)).collect()).collect();
        Histories::from_lists(&lists, 30).unwrap()
    }

    fn trained(threads: usize) -> Vec<Tensor> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut model = model(&[]);
        pool.install(|| model.fit(&town(), &mut Fit::new(3, &mut Quiet))).unwrap();
        model.tensors()
    }

    #[test]
    fn threads_do_not_change_what_is_learnt() {
        assert_eq!(trained(1), trained(3));
    }

    /// The gradient of a whole batch against central differences, with the same draws each time.
    #[test]
    fn a_part_learns_by_its_gradient() {
        let (users, plan) = (town(), model(&[]).plan);
        let mut network = Network::new(&plan, 30, &Rng::new(1)).unwrap();
        let batch = Batch { histories: &users, users: &[0, 1, 2], rng: Rng::new(2) };
        let mut part = Part::default();
        part.gather(&batch, batch.users, 0.3, &mut Rng::new(4));
        let mut arena = Arena::new(network.space(3), 0).unwrap();
        let mut loss = |network: &Network, gradients: &mut [f32]| {
            network.learn(&part, 0.5, 1.0, &mut Rng::new(5), gradients, &mut arena.space()).unwrap()
        };
        let mut gradients = network.layout.zeros();
        loss(&network, &mut gradients);
        let mut unused = network.layout.zeros();
        for place in (0..network.parameters.len()).step_by(17) {
            let start = network.parameters[place];
            let mut at = |shift: f32| {
                network.parameters[place] = start + shift;
                loss(&network, &mut unused)
            };
            let slope = (at(0.01) - at(-0.01)) / 0.02;
            network.parameters[place] = start;
            let far = (slope - f64::from(gradients[place])).abs();
            assert!(far < 5e-3 * (1.0 + slope.abs()), "{place}: {slope} {}", gradients[place]);
        }
    }

    /// Adam bounds its steps, so that even the largest rate may end well; what must not be is a model that is not finite.
    #[test]
    fn a_rate_far_too_large_ends_with_advice_or_stays_finite() {
        let mut wild = model(&[("learning_rate", 1.0), ("epochs", 60.0)]);
        match wild.fit(&town(), &mut Fit::new(1, &mut Quiet)) {
            Ok(_) => assert!(wild.network.unwrap().parameters.iter().all(|value| value.is_finite())),
            Err(error) => assert!(error.to_string().contains("learning_rate below 1"), "{error}"),
        }
    }
}
