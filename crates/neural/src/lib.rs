//! Neural layers, losses and optimisers on plain slices, for small networks trained on devices.
//!
//! The networks of a federated recommender have 5,000 to 100,000 parameters. Each is trained on the few samples of one
//! device, often one at a time, in a browser or in a simulator of many thousand devices. A tensor library spends most
//! of such a step on graphs, reference counts, allocations and dispatch. Here a layer is a struct of a few numbers, and
//! a step is a handful of loops over memory that stays in the cache. docs/decisions/0013-own-layers.md has the
//! measurements.
//!
//! ```
//! use sottovoce_core::Rng;
//! use sottovoce_neural::{Arena, Layout, Linear, Sgd, losses::mse};
//! let mut layout = Layout::default();
//! let layer = Linear::new(&mut layout, "layer", 2, 1)?;
//! let mut parameters = layout.zeros::<f32>();
//! layout.initialise(&mut parameters, &Rng::new(1))?;
//! let (mut gradients, mut sgd) = (layout.zeros(), Sgd::new(0.1));
//! let mut arena = Arena::new(2 * layer.space(3), 0)?;
//! let (x, targets) = ([0.0, 1.0, 1.0, 0.0, 1.0, 1.0], [1.0, 2.0, 3.0]);
//! let mut loss = f64::MAX;
//! for _ in 0..200 {
//!     let mut space = arena.space();
//!     let y = layer.forward(&parameters, &x, &mut space)?;
//!     let dy = space.zeros(y.len())?;
//!     loss = mse(y, &targets, 1.0 / 3.0, Some(dy))?;
//!     layer.backward(&parameters, &x, dy, &mut gradients, None)?;
//!     sgd.step(&mut parameters, &mut gradients)?;
//! }
//! assert!(loss < 0.01);
//! # Ok::<(), sottovoce_neural::NeuralError>(())
//! ```
//!
//! # How a model is built
//! - All parameters of a model are in **one flat buffer**. A [`Layout`] states where each tensor is; layers add their
//!   tensors to it. So an update is that buffer, and a strategy, a codec or a mask need not know the model.
//! - The results of a step are in an [`Arena`] that is reused by every step. [`Space`] hands out slices of it; a step
//!   makes **no allocation** (a test counts).
//! - Gradients are always **added**, to the gradient buffer (with the layout of the parameters) and to the gradients of
//!   inputs. Branches that join need no code of their own, and an optimiser's step leaves the gradients zero.
//! - Activations work in place: their derivatives follow from their output alone.
//! - Losses take a factor (1 / batch for a mean, a weight such as MultiVAE's beta) and return factor * sum.
//!
//! # Determinism
//! [`Arithmetic::Portable`], the default, computes in plain loops of fixed order: the same seed gives the same bits on
//! every machine and in the browser, as everything on a device must. [`Arithmetic::Machine`] passes large products to
//! `gemm`, which chooses instructions by the processor: the same bits on one machine for any number of threads, but not
//! on another. It is for central training. Nothing here starts a thread: the caller parallelises over devices, or over
//! fixed parts of a batch.
//!
//! # Errors
//! Shapes are checked on entry. A slice of another length, an empty batch, an index outside a table or an arena that is
//! too small is a [`NeuralError`] that names it; nothing panics. Values are not checked: a parameter that is not finite
//! makes a loss that is not finite, which training detects.

mod arena;
mod clip;
mod error;
mod init;
mod kernels;
mod layers;
mod layout;
pub mod losses;
mod optimisers;
pub mod products;
mod real;
mod sparse;

pub use arena::{Arena, Space};
pub use clip::{clip_norm, norm};
pub use error::NeuralError;
pub use init::Init;
pub use layers::activation::{Activation, gelu, gelu_backward};
pub use layers::attention::{Attention, AttentionGradients, AttentionOutputGradients, AttentionTape, Mask, Packed};
pub use layers::batch_norm::{BatchNorm, BatchNormTape, Statistics};
pub use layers::conv2d::{Conv1dShape, Conv2d, Conv2dShape};
pub use layers::dropout::Dropout;
pub use layers::embedding::Embedding;
pub use layers::layer_norm::{LayerNorm, LayerNormTape};
pub use layers::linear::Linear;
pub use layers::pool::{Pool, PoolShape, Pooling};
pub use layers::quantiser::{Quantiser, QuantiserTape};
pub use layers::recurrent::{Recurrent, RecurrentCell, RecurrentTape, SequenceGradients, Sequences, StateGradients};
pub use layers::softmax::{softmax, softmax_backward};
pub use layout::{Arithmetic, Layout, Role, Slot, Tensor};
pub use optimisers::adam::Adam;
pub use optimisers::sgd::Sgd;
pub use real::Real;
pub use sparse::{RowGradients, SparseRows};
