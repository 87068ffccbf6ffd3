//! ReFRS's semantic sampler: a variational autoencoder of networks' parameters.
//!
//! A device's flat parameters m, centred and scaled by the mean and the deviation of those that the sampler was trained
//! on and filled up with zeros, go through two convolutions (64 and 32 filters) and a dense layer of 16 to the mean and
//! the logarithm of the variance of the embedding e; a dense layer of 16 and one more lead back. The loss is the
//! negative ELBO for a standard normal prior and unit variance of the reconstruction,
//! ```text
//! 1/2 |x - decode(e)|^2 + KL(q(e | x) || N(0, 1))
//! ```
//! The embedding of a device is the mean of e. Devices get mean, deviation and encoder, not the decoder.

use sottovoce_core::Rng;
use sottovoce_neural::losses::{kl_gaussian, mse, sample_gaussian, sample_gaussian_backward};
use sottovoce_neural::{Activation, Adam, Arena, Conv1dShape, Conv2d, Layout, Linear, NeuralError, Space};

/// Filters, patch and stride of the two convolutions.
const CONVOLUTIONS: [(usize, usize); 2] = [(64, 32), (32, 4)];
/// Width of the dense layers.
const DENSE: usize = 16;
/// Samples of a step.
const BATCH: usize = 16;
const LEARNING_RATE: f64 = 2e-3;

/// The network; its values are a row of the shared model.
#[derive(Clone, Debug)]
pub struct Sampler {
    parameters: usize,
    padded: usize,
    layout: Layout,
    convolutions: [Conv2d; 2],
    dense: Linear,
    mean: Linear,
    log_variance: Linear,
    decoder: [Linear; 2],
    /// Values of the encoder without the layer of variances.
    encoder: usize,
}

/// What training came to.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerTraining {
    /// The row of the shared model: mean, deviation, encoder.
    pub row: Vec<f32>,
    /// Mean loss of the first and of the last epoch.
    pub loss: [f64; 2],
}

impl Sampler {
    /// For networks with so many parameters and embeddings of this length.
    ///
    /// # Errors
    /// If a size is 0 or too large.
    pub fn new(parameters: usize, dim: usize) -> Result<Self, NeuralError> {
        let step = CONVOLUTIONS[0].1 * CONVOLUTIONS[1].1;
        let padded = parameters.div_ceil(step).max(1) * step;
        let mut layout = Layout::default();
        let (mut channels, mut length) = (1, padded);
        let mut convolution = |name: &str, (filters, kernel): (usize, usize)| {
            let shape = Conv1dShape { channels, length, filters, kernel, stride: kernel, padding: 0 };
            (channels, length) = (filters, length / kernel);
            Conv2d::over_sequences(&mut layout, name, shape)
        };
        let convolutions = [convolution("conv1", CONVOLUTIONS[0])?, convolution("conv2", CONVOLUTIONS[1])?];
        let dense = Linear::new(&mut layout, "dense", channels * length, DENSE)?;
        let mean = Linear::new(&mut layout, "mean", DENSE, dim)?;
        let encoder = layout.len();
        let log_variance = Linear::new(&mut layout, "log_variance", DENSE, dim)?;
        let decoder = [
            Linear::new(&mut layout, "decoder1", dim, DENSE)?,
            Linear::new(&mut layout, "decoder2", DENSE, parameters)?,
        ];
        Ok(Self { parameters, padded, layout, convolutions, dense, mean, log_variance, decoder, encoder })
    }

    /// Values of its row in the shared model.
    pub fn values(&self) -> usize {
        self.parameters + 1 + self.encoder
    }

    fn arena(&self, batch: usize) -> Result<Arena<f32>, NeuralError> {
        let layers = self.convolutions.iter().map(|layer| 2 * layer.space(batch)).sum::<usize>()
            + 2 * (self.dense.space(batch) + self.log_variance.space(batch))
            + 8 * self.mean.space(batch)
            + self.decoder.iter().map(|layer| 2 * layer.space(batch)).sum::<usize>()
            + 2 * batch * self.padded;
        Arena::new(layers, 0)
    }

    /// A device's parameters, centred, scaled and filled up.
    fn scaled<'a>(
        &self,
        statistics: &[f32],
        networks: &[&[f32]],
        space: &mut Space<'a, f32>,
    ) -> Result<&'a mut [f32], NeuralError> {
        let x = space.zeros(networks.len() * self.padded)?;
        let scale = 1.0 / statistics[self.parameters].max(f32::MIN_POSITIVE);
        for (x, network) in x.chunks_exact_mut(self.padded).zip(networks) {
            for ((x, value), mean) in x.iter_mut().zip(*network).zip(&statistics[..self.parameters]) {
                *x = (value - mean) * scale;
            }
        }
        Ok(x)
    }

    /// The embedding of a network, by the row of a shared model; `None` if one of them does not fit.
    pub fn embed(&self, row: &[f32], network: &[f32]) -> Option<Vec<f32>> {
        if row.len() != self.values() || network.len() != self.parameters {
            return None;
        }
        let embedded = || -> Result<Vec<f32>, NeuralError> {
            let mut arena = self.arena(1)?;
            let mut space = arena.space();
            let mut weights = self.layout.zeros();
            weights[..self.encoder].copy_from_slice(&row[self.parameters + 1..]);
            let x = self.scaled(row, &[network], &mut space)?;
            let hidden = self.encode(&weights, x, &mut space)?;
            Ok(self.mean.forward(&weights, hidden[2], &mut space)?.to_vec())
        };
        embedded().ok()
    }

    /// Outputs of the convolutions and of the dense layer.
    fn encode<'a>(
        &self,
        weights: &[f32],
        x: &[f32],
        space: &mut Space<'a, f32>,
    ) -> Result<[&'a mut [f32]; 3], NeuralError> {
        let first = self.convolutions[0].forward(weights, x, space)?;
        Activation::Relu.apply(first);
        let second = self.convolutions[1].forward(weights, first, space)?;
        Activation::Relu.apply(second);
        let dense = self.dense.forward(weights, second, space)?;
        Activation::Relu.apply(dense);
        Ok([first, second, dense])
    }

    /// Learns the embedding of networks; the same input gives the same row.
    ///
    /// # Errors
    /// If there is no network, or one has another length.
    pub fn train(&self, networks: &[&[f32]], epochs: usize, rng: &Rng) -> Result<SamplerTraining, NeuralError> {
        if let Some(other) = networks.iter().find(|network| network.len() != self.parameters) {
            return Err(NeuralError::Length("parameters of a network", self.parameters, other.len()));
        }
        let statistics = self.statistics(networks);
        let mut weights = self.layout.zeros();
        self.layout.initialise(&mut weights, &rng.stream("sampler", 0))?;
        let (mut gradients, mut adam) = (self.layout.zeros(), Adam::new(LEARNING_RATE, self.layout.len()));
        let mut arena = self.arena(BATCH)?;
        let mut order: Vec<usize> = (0..networks.len()).collect();
        let mut losses = [0.0; 2];
        for epoch in 0..epochs {
            let mut rng = rng.stream("epoch", epoch as u64);
            rng.shuffle(&mut order);
            let mut sum = 0.0;
            for batch in order.chunks(BATCH) {
                let batch: Vec<&[f32]> = batch.iter().map(|&index| networks[index]).collect();
                sum += self.step(&weights, &statistics, &batch, &mut gradients, &mut rng, &mut arena)?;
                adam.step(&mut weights, &mut gradients)?;
            }
            losses[1] = sum / networks.len().max(1) as f64;
            if epoch == 0 {
                losses[0] = losses[1];
            }
        }
        let row = statistics.iter().chain(&weights[..self.encoder]).copied().collect();
        Ok(SamplerTraining { row, loss: losses })
    }

    /// The mean of each parameter, and the root mean square of what they differ from it by.
    fn statistics(&self, networks: &[&[f32]]) -> Vec<f32> {
        let mut sums = vec![0.0f64; self.parameters];
        for network in networks {
            sums.iter_mut().zip(*network).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        let count = networks.len().max(1) as f64;
        let means: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
        let square = |network: &&[f32]| {
            let pairs = network.iter().zip(&means);
            pairs.map(|(&value, mean)| (f64::from(value) - mean) * (f64::from(value) - mean)).sum::<f64>()
        };
        let deviation = (networks.iter().map(square).sum::<f64>() / (count * self.parameters as f64)).sqrt();
        let deviation = if deviation > 0.0 { deviation } else { 1.0 };
        means.iter().chain([&deviation]).map(|&value| value as f32).collect()
    }

    /// Adds the gradients of a batch's mean loss; returns the sum of losses.
    fn step(
        &self,
        weights: &[f32],
        statistics: &[f32],
        batch: &[&[f32]],
        gradients: &mut [f32],
        rng: &mut Rng,
        arena: &mut Arena<f32>,
    ) -> Result<f64, NeuralError> {
        let (count, factor) = (batch.len(), 1.0 / batch.len() as f64);
        let mut space = arena.space();
        let x = self.scaled(statistics, batch, &mut space)?;
        let [first, second, dense] = self.encode(weights, x, &mut space)?;
        let means = self.mean.forward(weights, dense, &mut space)?;
        let logs = self.log_variance.forward(weights, dense, &mut space)?;
        // A variance without bound would be a sample without bound.
        logs.iter_mut().for_each(|log| *log = log.clamp(-10.0, 10.0));
        let (sample, deviations) = sample_gaussian(means, logs, rng, &mut space)?;
        let hidden = self.decoder[0].forward(weights, sample, &mut space)?;
        Activation::Relu.apply(hidden);
        let output = self.decoder[1].forward(weights, hidden, &mut space)?;
        let doutput = space.zeros(output.len())?;
        let mut loss = 0.0;
        let rows = output.chunks_exact(self.parameters).zip(doutput.chunks_exact_mut(self.parameters));
        for ((output, doutput), x) in rows.zip(x.chunks_exact(self.padded)) {
            loss += mse(output, &x[..self.parameters], 0.5 * factor, Some(doutput))?;
        }
        let dhidden = space.zeros(hidden.len())?;
        self.decoder[1].backward(weights, hidden, doutput, gradients, Some(dhidden))?;
        Activation::Relu.backward(hidden, dhidden)?;
        let dsample = space.zeros(sample.len())?;
        self.decoder[0].backward(weights, sample, dhidden, gradients, Some(dsample))?;
        let (dmeans, dlogs) = (space.zeros(means.len())?, space.zeros(logs.len())?);
        loss += kl_gaussian(means, logs, factor, Some((&mut *dmeans, &mut *dlogs)))?;
        sample_gaussian_backward(deviations, dsample, dmeans, dlogs)?;
        let ddense = space.zeros(dense.len())?;
        self.mean.backward(weights, dense, dmeans, gradients, Some(&mut *ddense))?;
        self.log_variance.backward(weights, dense, dlogs, gradients, Some(&mut *ddense))?;
        Activation::Relu.backward(dense, ddense)?;
        let dsecond = space.zeros(second.len())?;
        self.dense.backward(weights, second, ddense, gradients, Some(&mut *dsecond))?;
        Activation::Relu.backward(second, dsecond)?;
        let dfirst = space.zeros(first.len())?;
        self.convolutions[1].backward(weights, first, dsecond, gradients, Some(&mut *dfirst), &mut space)?;
        Activation::Relu.backward(first, dfirst)?;
        self.convolutions[0].backward(weights, x, dfirst, gradients, None, &mut space)?;
        Ok(loss * count as f64)
    }
}
