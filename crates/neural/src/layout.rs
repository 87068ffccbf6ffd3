//! The layout of a model's tensors in its flat buffer.

use crate::error::{Result, expect_len, setting, size};
use crate::{Init, NeuralError, Real};
use sottovoce_core::Rng;

/// How a model's products are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// In plain loops of fixed order that skip zeros: the same bits on every machine. For all that runs on a device.
    #[default]
    Portable,
    /// Large ones by `gemm`, small ones as above: the same bits on one machine only. For central training.
    Machine,
}

/// What a tensor is to training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Multiplied with inputs, or an embedding; decays where decay is asked for.
    Weight,
    /// Added, or a scale: does not decay.
    Bias,
    /// Followed, not trained: running means and variances. It has no gradient of its own.
    Statistic,
}

/// One tensor of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name, such as `encoder.weight`; unique in a layout.
    pub name: String,
    /// Its shape; rows first.
    pub shape: Vec<usize>,
    /// What it is to training.
    pub role: Role,
    /// How it starts.
    pub init: Init,
    /// Where it is.
    pub slot: Slot,
}

/// The place of a tensor in a flat buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    start: usize,
    len: usize,
}

impl Slot {
    /// Its values in a buffer of parameters or gradients.
    ///
    /// # Errors
    /// If the buffer is too short to be one of this layout.
    #[inline]
    pub fn of<'b, R>(&self, buffer: &'b [R]) -> Result<&'b [R]> {
        buffer.get(self.range()).ok_or(self.too_short(buffer.len()))
    }

    /// The same, to be changed.
    ///
    /// # Errors
    /// If the buffer is too short to be one of this layout.
    #[inline]
    pub fn of_mut<'b, R>(&self, buffer: &'b mut [R]) -> Result<&'b mut [R]> {
        let found = buffer.len();
        buffer.get_mut(self.range()).ok_or(self.too_short(found))
    }

    /// First and one past the last place.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.start..self.start + self.len
    }

    fn too_short(&self, found: usize) -> NeuralError {
        NeuralError::Length("flat buffer of the layout", self.start + self.len, found)
    }
}

/// The tensors of a model, one after the other in one flat buffer, in the order in which they were added.
///
/// ```
/// use sottovoce_core::Rng;
/// use sottovoce_neural::{Layout, Linear};
/// let mut layout = Layout::default();
/// let encoder = Linear::new(&mut layout, "encoder", 473, 60)?;
/// let mut parameters = layout.zeros::<f32>();
/// layout.initialise(&mut parameters, &Rng::new(1))?;
/// assert_eq!((parameters.len(), layout.tensors()[1].name.as_str()), (473 * 60 + 60, "encoder.bias"));
/// # Ok::<(), sottovoce_neural::NeuralError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    tensors: Vec<Tensor>,
    len: usize,
    arithmetic: Arithmetic,
}

impl Layout {
    /// An empty one, whose layers will compute like this.
    pub fn new(arithmetic: Arithmetic) -> Self {
        Self { arithmetic, ..Self::default() }
    }

    /// How the layers of this layout compute.
    pub fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// Adds a tensor.
    ///
    /// # Errors
    /// If the name is taken, or a size is 0 or too large.
    pub fn add(&mut self, name: String, shape: &[usize], role: Role, init: Init) -> Result<Slot> {
        if self.find(&name).is_some() {
            return Err(setting(format!("two tensors are called {name}")));
        }
        let len = size("tensor", shape)?;
        let end = self.len.checked_add(len).ok_or(NeuralError::TooLarge("layout"))?;
        let slot = Slot { start: self.len, len };
        self.tensors.push(Tensor { name, shape: shape.to_vec(), role, init, slot });
        self.len = end;
        Ok(slot)
    }

    /// All tensors, in order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn find(&self, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// Values in the flat buffer.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was added yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A buffer of zeros for parameters or gradients.
    pub fn zeros<R: Real>(&self) -> Vec<R> {
        vec![R::ZERO; self.len]
    }

    /// Fills parameters with their first values. Each tensor draws from the stream of its name: adding a layer does not
    /// change how the others start.
    ///
    /// # Errors
    /// If the buffer is not this layout's.
    pub fn initialise<R: Real>(&self, parameters: &mut [R], rng: &Rng) -> Result<()> {
        expect_len("parameters", parameters.len(), self.len)?;
        for tensor in &self.tensors {
            tensor.init.fill(tensor.slot.of_mut(parameters)?, &mut rng.stream(&tensor.name, 0));
        }
        Ok(())
    }

    /// Adds the gradient of `rate / 2 * |w|^2` over all weights w: not over biases and statistics.
    ///
    /// # Errors
    /// If one of the buffers is not this layout's.
    pub fn decay<R: Real>(&self, rate: f64, parameters: &[R], gradients: &mut [R]) -> Result<()> {
        expect_len("parameters", parameters.len(), self.len)?;
        expect_len("gradients", gradients.len(), self.len)?;
        let rate = R::of(rate);
        for tensor in self.tensors.iter().filter(|tensor| tensor.role == Role::Weight) {
            let values = tensor.slot.of(parameters)?;
            for (gradient, &value) in tensor.slot.of_mut(gradients)?.iter_mut().zip(values) {
                *gradient += rate * value;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Layout {
        let mut layout = Layout::default();
        layout.add("a".into(), &[2, 3], Role::Weight, Init::Uniform(1.0)).unwrap();
        layout.add("b".into(), &[4], Role::Bias, Init::ONES).unwrap();
        layout
    }

    #[test]
    fn tensors_are_contiguous() {
        let layout = example();
        assert_eq!((layout.len(), layout.find("b").unwrap().slot.range()), (10, 6..10));
        assert!(layout.find("c").is_none() && !layout.is_empty());
    }

    #[test]
    fn rejected_tensors_leave_the_layout_unchanged() {
        let mut layout = example();
        let before = layout.clone();
        for shape in [&[0, 3][..], &[usize::MAX, 2], &[usize::MAX - 3]] {
            assert!(layout.add("c".into(), shape, Role::Weight, Init::ZEROS).is_err());
        }
        let error = layout.add("a".into(), &[1], Role::Weight, Init::ZEROS).unwrap_err();
        assert_eq!(error.to_string(), "two tensors are called a");
        assert_eq!(layout, before);
    }

    #[test]
    fn initialisation_does_not_depend_on_other_tensors() {
        let layout = example();
        let mut alone = Layout::default();
        alone.add("a".into(), &[2, 3], Role::Weight, Init::Uniform(1.0)).unwrap();
        let (mut one, mut other) = (layout.zeros::<f32>(), alone.zeros::<f32>());
        layout.initialise(&mut one, &Rng::new(3)).unwrap();
        alone.initialise(&mut other, &Rng::new(3)).unwrap();
        assert_eq!((&one[..6], &one[6..]), (&other[..], &[1.0; 4][..]));
        assert!(layout.initialise(&mut one[1..], &Rng::new(3)).is_err());
    }

    #[test]
    fn only_weights_decay() {
        let layout = example();
        let (parameters, mut gradients) = ([2.0f64; 10], [0.0f64; 10]);
        layout.decay(0.5, &parameters, &mut gradients).unwrap();
        assert_eq!((&gradients[..6], &gradients[6..]), (&[1.0; 6][..], &[0.0; 4][..]));
    }
}
