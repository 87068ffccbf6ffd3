//! The networks: convolutions with pooling, or dense layers, on bytes of an image.
//!
//! ```text
//! cnn         5x5x32, pool 2, ReLU, 5x5x64, pool 2, ReLU, dense 512, ReLU, dense to the classes
//!             1,663,370 parameters for 28 x 28 grey values and 10 classes (McMahan et al. 2017; thesis, sec. 5.5.1)
//! cnn-linear  cnn without ReLU after the convolutions, as in the thesis's program
//! cnn3        cnn with 3x3 patches: 8,409,025 parameters for 64 x 64 x 3 and two classes (sec. 5.5.2)
//! small-cnn   5x5x8, pool 2, ReLU, 5x5x16, pool 2, ReLU, dense 64, ReLU, dense to the classes
//! mlp         two dense layers of 200, the "2NN" of McMahan et al.: 199,210 parameters for MNIST
//! ```
//! Patches are padded so that a convolution keeps the size of its image. ReLU stands after the pooling, where there is
//! a quarter of the values: the largest of values cut off at 0 is the largest, cut off at 0. Two classes have one
//! logit.
//!
//! A batch is worked off in chunks, so that memory does not grow with it; gradients of the chunks add up.

use sottovoce_core::{Images, Rng};
use sottovoce_neural::losses::{bce_with_logits, cross_entropy};
use sottovoce_neural::{
    Activation, Arena, Arithmetic, Conv2d, Conv2dShape, Init, Layout, Linear, NeuralError, Pool, PoolShape, Pooling,
    Role, Space,
};

/// Values of the activations and their gradients that a chunk may have: 8 MiB stay in a near cache of most machines
/// and keep products large enough.
const CHUNK_VALUES: usize = 2 << 20;
/// Images of a chunk at most.
const MOST_IN_CHUNK: usize = 64;

/// Which network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Two convolutions with 5x5 patches and a dense layer of 512.
    Cnn,
    /// The same without ReLU after the convolutions.
    CnnLinear,
    /// [`Cnn`](Self::Cnn) with 3x3 patches.
    Cnn3,
    /// A small version of [`Cnn`](Self::Cnn).
    SmallCnn,
    /// Two dense layers of 200.
    Mlp,
}

impl Architecture {
    /// Names for settings.
    pub const NAMES: &'static [(&'static str, Architecture)] = &[
        ("cnn", Self::Cnn),
        ("cnn-linear", Self::CnnLinear),
        ("cnn3", Self::Cnn3),
        ("small-cnn", Self::SmallCnn),
        ("mlp", Self::Mlp),
    ];

    /// Side of a patch, filters of both convolutions; `None` for dense layers only.
    fn convolutions(self) -> Option<(usize, [usize; 2])> {
        match self {
            Self::Cnn | Self::CnnLinear => Some((5, [32, 64])),
            Self::Cnn3 => Some((3, [32, 64])),
            Self::SmallCnn => Some((5, [8, 16])),
            Self::Mlp => None,
        }
    }

    /// What follows the pooling of a convolution.
    fn after_pooling(self) -> Activation {
        if self == Self::CnnLinear { Activation::Identity } else { Activation::Relu }
    }

    /// Widths of the hidden dense layers.
    fn dense(self) -> &'static [usize] {
        match self {
            Self::Cnn | Self::CnnLinear | Self::Cnn3 => &[512],
            Self::SmallCnn => &[64],
            Self::Mlp => &[200, 200],
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Layer {
    Conv(Conv2d),
    /// Pooling, then ReLU or nothing.
    Pool(Pool, Activation),
    Linear(Linear, Activation),
}

impl Layer {
    fn outputs(&self) -> usize {
        match self {
            Self::Conv(conv) => conv.outputs(),
            Self::Pool(pool, _) => pool.outputs(),
            Self::Linear(linear, _) => linear.outputs(),
        }
    }

    fn space(&self, batch: usize) -> usize {
        match self {
            Self::Conv(conv) => conv.space(batch),
            Self::Pool(pool, _) => pool.space(batch),
            Self::Linear(linear, _) => linear.space(batch),
        }
    }

    fn forward<'a>(
        &self,
        parameters: &[f32],
        x: &[f32],
        space: &mut Space<'a, f32>,
    ) -> Result<&'a mut [f32], NeuralError> {
        match self {
            Self::Conv(conv) => conv.forward(parameters, x, space),
            Self::Pool(pool, activation) => {
                let y = pool.forward(x, space)?;
                activation.apply(y);
                Ok(y)
            }
            Self::Linear(linear, activation) => {
                let y = linear.forward(parameters, x, space)?;
                activation.apply(y);
                Ok(y)
            }
        }
    }
}

/// A network for images of one size, and where its parameters are in a flat buffer.
#[derive(Clone, Debug)]
pub struct Network {
    layout: Layout,
    layers: Vec<Layer>,
    inputs: usize,
    classes: usize,
    chunk: usize,
}

impl Network {
    /// For images of `shape` (channels, height, width) in so many classes.
    ///
    /// # Errors
    /// If an image is too small for the network's patches and pooling.
    pub fn new(
        architecture: Architecture,
        shape: [usize; 3],
        classes: usize,
        arithmetic: Arithmetic,
    ) -> Result<Self, NeuralError> {
        let mut layout = Layout::new(arithmetic);
        let mut layers = Vec::new();
        let inputs = shape.iter().product();
        let mut width = inputs;
        if let Some((side, filters)) = architecture.convolutions() {
            width = convolutions(&mut layout, &mut layers, shape, (side, filters), architecture.after_pooling())?;
        }
        for (n, &units) in architecture.dense().iter().enumerate() {
            let linear = Linear::new(&mut layout, &format!("dense{}", n + 1), width, units)?;
            layers.push(Layer::Linear(linear, Activation::Relu));
            width = units;
        }
        let outputs = if classes == 2 { 1 } else { classes };
        layers.push(Layer::Linear(Linear::new(&mut layout, "classes", width, outputs)?, Activation::Identity));
        let an_image = inputs + 2 * layers.iter().map(Layer::outputs).sum::<usize>();
        let chunk = (CHUNK_VALUES / an_image.max(1)).clamp(1, MOST_IN_CHUNK);
        Ok(Self { layout, layers, inputs, classes, chunk })
    }

    /// Where each tensor is in the flat buffer.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Values of an image.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Fills parameters: weights by Glorot and Bengio 2010, as the thesis's library starts them; biases are 0.
    ///
    /// # Errors
    /// If the buffer is not this network's.
    pub fn initialise(&self, parameters: &mut [f32], rng: &Rng) -> Result<(), NeuralError> {
        for tensor in self.layout.tensors() {
            let init = match tensor.role {
                Role::Weight => glorot(&tensor.shape),
                Role::Bias | Role::Statistic => Init::ZEROS,
            };
            init.fill(tensor.slot.of_mut(parameters)?, &mut rng.stream(&tensor.name, 0));
        }
        Ok(())
    }

    /// Memory for a step of this network.
    ///
    /// # Errors
    /// If there is not enough.
    pub fn arena(&self) -> Result<Arena<f32>, NeuralError> {
        let chunk = self.chunk;
        let forward: usize = self.layers.iter().map(|layer| layer.space(chunk)).sum();
        let backward: usize = self.layers.iter().map(|layer| chunk * layer.outputs()).sum();
        // Input, and targets of the two-class loss.
        Arena::new(forward + backward + chunk * (self.inputs + 1), 0)
    }

    /// Adds the gradient of the mean loss over a batch, and returns the sum of its losses.
    ///
    /// # Errors
    /// If a buffer is not this network's.
    pub fn add_gradient(
        &self,
        parameters: &[f32],
        images: &Images,
        batch: &[u32],
        gradients: &mut [f32],
        arena: &mut Arena<f32>,
    ) -> Result<f64, NeuralError> {
        let factor = 1.0 / batch.len().max(1) as f64;
        let mut loss = 0.0;
        for chunk in batch.chunks(self.chunk) {
            loss += self.chunk_gradient(parameters, images, chunk, factor, gradients, arena)?;
        }
        Ok(loss / factor)
    }

    fn chunk_gradient(
        &self,
        parameters: &[f32],
        images: &Images,
        chunk: &[u32],
        factor: f64,
        gradients: &mut [f32],
        arena: &mut Arena<f32>,
    ) -> Result<f64, NeuralError> {
        let mut space = arena.space();
        let tape = self.forward(parameters, images, chunk, &mut space)?;
        let logits = &tape[self.layers.len()];
        let mut gradient = space.zeros(logits.len())?;
        let loss = self.loss(logits, images, chunk, factor, gradient, &mut space)?;
        for (n, layer) in self.layers.iter().enumerate().rev() {
            let (x, y) = (&*tape[n], &*tape[n + 1]);
            // Nobody asks for the gradient of the image itself.
            let dx = if n == 0 { None } else { Some(space.zeros(x.len())?) };
            gradient = match layer {
                Layer::Conv(conv) => {
                    let mut dx = dx;
                    conv.backward(parameters, x, gradient, gradients, dx.as_deref_mut(), &mut space)?;
                    dx.unwrap_or_default()
                }
                Layer::Pool(pool, activation) => {
                    let dx = dx.unwrap_or_default();
                    activation.backward(y, gradient)?;
                    pool.backward(x, gradient, dx)?;
                    dx
                }
                Layer::Linear(linear, activation) => {
                    let mut dx = dx;
                    activation.backward(y, gradient)?;
                    linear.backward(parameters, x, gradient, gradients, dx.as_deref_mut())?;
                    dx.unwrap_or_default()
                }
            };
        }
        Ok(loss)
    }

    /// The images as numbers from 0 to 1, then each layer's output.
    fn forward<'a>(
        &self,
        parameters: &[f32],
        images: &Images,
        chunk: &[u32],
        space: &mut Space<'a, f32>,
    ) -> Result<Vec<&'a mut [f32]>, NeuralError> {
        let input = space.zeros(chunk.len() * self.inputs)?;
        for (values, &image) in input.chunks_exact_mut(self.inputs).zip(chunk) {
            for (value, &byte) in values.iter_mut().zip(images.pixels_of(image as usize)) {
                *value = f32::from(byte) / 255.0;
            }
        }
        let mut tape = Vec::with_capacity(self.layers.len() + 1);
        tape.push(input);
        for (n, layer) in self.layers.iter().enumerate() {
            let y = layer.forward(parameters, &*tape[n], space)?;
            tape.push(y);
        }
        Ok(tape)
    }

    fn loss(
        &self,
        logits: &[f32],
        images: &Images,
        chunk: &[u32],
        factor: f64,
        gradient: &mut [f32],
        space: &mut Space<'_, f32>,
    ) -> Result<f64, NeuralError> {
        let label = |image: &u32| images.labels()[*image as usize];
        if self.classes == 2 {
            let targets = space.zeros(chunk.len())?;
            targets.iter_mut().zip(chunk).for_each(|(target, image)| *target = f32::from(label(image)));
            return bce_with_logits(logits, targets, factor, Some(gradient));
        }
        let mut classes = [0; MOST_IN_CHUNK];
        classes.iter_mut().zip(chunk).for_each(|(class, image)| *class = u32::from(label(image)));
        cross_entropy(logits, self.classes, &classes[..chunk.len()], factor, Some(gradient))
    }

    /// Calls with each image's place in the list and the class that the network takes it for.
    ///
    /// # Errors
    /// If a buffer is not this network's.
    pub fn classify(
        &self,
        parameters: &[f32],
        images: &Images,
        list: &[u32],
        arena: &mut Arena<f32>,
        mut call: impl FnMut(usize, u8),
    ) -> Result<(), NeuralError> {
        for (n, chunk) in list.chunks(self.chunk).enumerate() {
            let mut space = arena.space();
            let tape = self.forward(parameters, images, chunk, &mut space)?;
            let logits = &tape[self.layers.len()];
            for (m, logits) in logits.chunks_exact(logits.len() / chunk.len()).enumerate() {
                call(n * self.chunk + m, decided(logits));
            }
        }
        Ok(())
    }
}

/// The class of the first largest logit, or whether a single one is positive.
fn decided(logits: &[f32]) -> u8 {
    if let [only] = logits {
        return u8::from(*only > 0.0);
    }
    let mut best = 0;
    for (class, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = class;
        }
    }
    best as u8
}

/// Both convolutions with their pooling; returns the number of values after them.
fn convolutions(
    layout: &mut Layout,
    layers: &mut Vec<Layer>,
    [mut channels, mut height, mut width]: [usize; 3],
    (side, filters): (usize, [usize; 2]),
    activation: Activation,
) -> Result<usize, NeuralError> {
    for (n, filters) in filters.into_iter().enumerate() {
        let shape = Conv2dShape {
            channels,
            image: [height, width],
            filters,
            kernel: [side; 2],
            stride: [1; 2],
            padding: [side / 2; 2],
        };
        let conv = Conv2d::new(layout, &format!("conv{}", n + 1), shape)?;
        let pooled = PoolShape { channels: filters, image: conv.output(), window: [2; 2], stride: [2; 2] };
        let pool = Pool::new(Pooling::Max, pooled)?;
        layers.extend([Layer::Conv(conv), Layer::Pool(pool, activation)]);
        (channels, [height, width]) = (filters, pool.output());
    }
    Ok(channels * height * width)
}

/// By the number of values that meet in an output, and of outputs that an input meets.
fn glorot(shape: &[usize]) -> Init {
    match shape {
        // Filters x channels x height x width.
        [filters, channels, height, width] => Init::glorot(channels * height * width, filters * height * width),
        [inputs, outputs] => Init::glorot(*inputs, *outputs),
        other => Init::glorot(other.iter().product(), 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(architecture: Architecture, shape: [usize; 3], classes: usize) -> Network {
        Network::new(architecture, shape, classes, Arithmetic::Portable).unwrap()
    }

    #[test]
    fn parameters_are_as_many_as_published() {
        let mnist = [1, 28, 28];
        assert_eq!(network(Architecture::Cnn, mnist, 10).layout().len(), 1_663_370);
        assert_eq!(network(Architecture::CnnLinear, mnist, 10).layout().len(), 1_663_370);
        assert_eq!(network(Architecture::Cnn3, [3, 64, 64], 2).layout().len(), 8_409_025);
        assert_eq!(network(Architecture::Mlp, mnist, 10).layout().len(), 199_210);
    }

    /// Six-by-six images in which class c has its bright half at another side.
    fn images(classes: usize) -> Images {
        let mut rng = Rng::new(5);
        let labels: Vec<u8> = (0..30).map(|n| (n % classes) as u8).collect();
        let pixels = labels.iter().flat_map(|&label| {
            let bright = move |n: usize| match label {
                0 => n % 6 < 3,
                1 => n % 6 >= 3,
                _ => n / 6 < 3,
            };
            (0..36).map(move |n| if bright(n) { 200 } else { 20 })
        });
        let pixels = pixels.map(|value: u8| value + rng.below(40) as u8).collect();
        Images::new([1, 6, 6], classes, pixels, labels).unwrap()
    }

    fn loss(network: &Network, parameters: &[f32], images: &Images, list: &[u32]) -> f64 {
        let mut gradients = network.layout().zeros::<f32>();
        let mut arena = network.arena().unwrap();
        network.add_gradient(parameters, images, list, &mut gradients, &mut arena).unwrap()
    }

    #[test]
    fn gradients_are_those_of_the_loss() {
        for (architecture, classes) in
            [(Architecture::SmallCnn, 3), (Architecture::Mlp, 3), (Architecture::SmallCnn, 2)]
        {
            let (images, list) = (images(classes), [0, 4, 5, 11]);
            let network = network(architecture, [1, 6, 6], classes);
            let mut parameters = network.layout().zeros::<f32>();
            network.initialise(&mut parameters, &Rng::new(1)).unwrap();
            let mut gradients = network.layout().zeros::<f32>();
            let mut arena = network.arena().unwrap();
            network.add_gradient(&parameters, &images, &list, &mut gradients, &mut arena).unwrap();
            let norm: f64 = gradients.iter().map(|g| f64::from(g * g)).sum();
            // Where a pooled value or a ReLU changes sides the loss has a kink: near the point there are few.
            let step = 2e-4 / norm.sqrt();
            let along = |sign: f64| {
                let moved: Vec<f32> =
                    parameters.iter().zip(&gradients).map(|(p, g)| p + (sign * step) as f32 * g).collect();
                loss(&network, &moved, &images, &list) / 4.0
            };
            let found = (along(1.0) - along(-1.0)) / (2.0 * step);
            assert!((found / norm - 1.0).abs() < 0.02, "{architecture:?} {classes}: {found} {norm}");
        }
    }

    #[test]
    fn chunks_of_a_batch_add_up() {
        let (images, network) = (images(3), network(Architecture::SmallCnn, [1, 6, 6], 3));
        let mut small = network.clone();
        small.chunk = 7;
        let mut parameters = network.layout().zeros::<f32>();
        network.initialise(&mut parameters, &Rng::new(1)).unwrap();
        let list: Vec<u32> = (0..30).collect();
        let gradient = |network: &Network| {
            let mut gradients = network.layout().zeros::<f32>();
            let mut arena = network.arena().unwrap();
            let loss = network.add_gradient(&parameters, &images, &list, &mut gradients, &mut arena).unwrap();
            let mut taken = vec![9; 30];
            let call = |n: usize, class| taken[n] = class;
            network.classify(&parameters, &images, &list, &mut arena, call).unwrap();
            (loss, gradients, taken)
        };
        let (one, other) = (gradient(&network), gradient(&small));
        assert!((one.0 - other.0).abs() < 1e-3 && one.2 == other.2 && one.2.iter().all(|&class| class < 3));
        let far = one.1.iter().zip(&other.1).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 1e-5, "{far}");
    }

    #[test]
    fn images_too_small_for_the_network_are_an_error() {
        assert!(Network::new(Architecture::Cnn, [1, 1, 1], 10, Arithmetic::Portable).is_err());
    }
}
