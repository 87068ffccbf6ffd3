//! The layers between the encoder's rows and the output's: the encoder's bias, and a variational code.

use crate::choices;
use sottovoce_core::Rng;
use sottovoce_neural::losses::{kl_gaussian, sample_gaussian, sample_gaussian_backward};
use sottovoce_neural::{Activation, Arena, Arithmetic, Init, Layout, Linear, NeuralError, Role, Slot, Space};

choices! {
    /// Which autoencoder.
    #[derive(Default)]
    pub enum Kind {
        /// Variational: the code is sampled.
        #[default]
        Variational => "vae",
        /// Denoising: the hidden layer is the code.
        Denoising => "dae",
    }
}

/// The layers of a variational code.
#[derive(Clone, Debug)]
struct Code {
    mean: Linear,
    log_variance: Linear,
    decoder: Linear,
}

/// The middle of the network; its parameters are one row.
#[derive(Clone, Debug)]
pub(super) struct Middle {
    pub(super) layout: Layout,
    bias: Slot,
    code: Option<Code>,
    hidden: usize,
    latent: usize,
}

/// What a pass left behind for the way back.
pub(super) struct Pass<'a> {
    hidden: &'a [f32],
    code: Option<Coded<'a>>,
}

struct Coded<'a> {
    mean: &'a [f32],
    log_variance: &'a [f32],
    z: &'a [f32],
    deviations: &'a [f32],
    out: &'a [f32],
}

impl<'a> Pass<'a> {
    /// What the output layer sees.
    pub(super) fn out(&self) -> &'a [f32] {
        self.code.as_ref().map_or(self.hidden, |code| code.out)
    }
}

impl Middle {
    pub(super) fn new(kind: Kind, hidden: usize, latent: usize) -> Result<Self, NeuralError> {
        let mut layout = Layout::new(Arithmetic::Portable);
        let bias = layout.add("encoder.bias".to_owned(), &[hidden], Role::Bias, Init::ZEROS)?;
        let code = match kind {
            Kind::Denoising => None,
            Kind::Variational => {
                let mut linear = |name, inputs, outputs| Linear::new(&mut layout, name, inputs, outputs);
                let mean = linear("mean", hidden, latent)?;
                let log_variance = linear("log_variance", hidden, latent)?;
                Some(Code { mean, log_variance, decoder: linear("decoder", latent, hidden)? })
            }
        };
        Ok(Self { layout, bias, code, hidden, latent })
    }

    /// Memory for a pass and the way back.
    pub(super) fn arena(&self) -> Result<Arena<f32>, NeuralError> {
        Arena::new(6 * self.hidden + 8 * self.latent, 0)
    }

    /// Begins with the encoder's bias.
    pub(super) fn begin<'a>(
        &self,
        parameters: &[f32],
        space: &mut Space<'a, f32>,
    ) -> Result<&'a mut [f32], NeuralError> {
        space.copy(self.bias.of(parameters)?)
    }

    /// On from the encoder's sum; draws a code only where there is randomness for it.
    pub(super) fn forward<'a>(
        &self,
        parameters: &[f32],
        sum: &'a mut [f32],
        rng: Option<&mut Rng>,
        space: &mut Space<'a, f32>,
    ) -> Result<Pass<'a>, NeuralError> {
        Activation::Tanh.apply(sum);
        let hidden: &'a [f32] = sum;
        let Some(layers) = &self.code else { return Ok(Pass { hidden, code: None }) };
        let mean: &'a [f32] = layers.mean.forward(parameters, hidden, space)?;
        let log_variance: &'a [f32] = layers.log_variance.forward(parameters, hidden, space)?;
        let (z, deviations): (&'a [f32], &'a [f32]) = match rng {
            Some(rng) => {
                let (z, deviations) = sample_gaussian(mean, log_variance, rng, space)?;
                (z, deviations)
            }
            None => (mean, &[]),
        };
        let out = layers.decoder.forward(parameters, z, space)?;
        Activation::Tanh.apply(out);
        Ok(Pass { hidden, code: Some(Coded { mean, log_variance, z, deviations, out }) })
    }

    /// Back from the gradient of what the output layer saw: adds gradients, and returns the divergence and the gradient
    /// of the encoder's sum.
    pub(super) fn backward<'a>(
        &self,
        parameters: &[f32],
        pass: &Pass<'_>,
        back: &'a mut [f32],
        beta: f64,
        gradients: &mut [f32],
        space: &mut Space<'a, f32>,
    ) -> Result<(f64, &'a mut [f32]), NeuralError> {
        let (mut divergence, mut dh) = (0.0, back);
        if let (Some(layers), Some(code)) = (&self.code, &pass.code) {
            Activation::Tanh.backward(code.out, dh)?;
            let (dz, dm, dl) = (space.zeros(self.latent)?, space.zeros(self.latent)?, space.zeros(self.latent)?);
            layers.decoder.backward(parameters, code.z, dh, gradients, Some(&mut *dz))?;
            sample_gaussian_backward(code.deviations, dz, dm, dl)?;
            divergence = kl_gaussian(code.mean, code.log_variance, beta, Some((&mut *dm, &mut *dl)))?;
            dh = space.zeros(self.hidden)?;
            layers.mean.backward(parameters, pass.hidden, dm, gradients, Some(&mut *dh))?;
            layers.log_variance.backward(parameters, pass.hidden, dl, gradients, Some(&mut *dh))?;
        }
        Activation::Tanh.backward(pass.hidden, dh)?;
        let bias = self.bias.of_mut(gradients)?;
        bias.iter_mut().zip(&*dh).for_each(|(bias, dh)| *bias += dh);
        Ok((divergence, dh))
    }
}
