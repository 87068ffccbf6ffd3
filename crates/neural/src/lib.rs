//! Small neural layers on plain slices: forward, backward, losses and optimisers.
//!
//! The networks of a federated recommender have 5,000 to 100,000 parameters. Each is trained on one device's few samples,
//! often one at a time, in a browser or in a simulator that goes through many thousand devices. A tensor library spends
//! most of such a step on its own book-keeping: graphs, reference counts, allocations, dispatch. Here a layer is a
//! struct of a few numbers, and a step is a handful of loops over memory that stays in the cache. The figures that led to
//! this are in docs/decisions/0013-own-layers.md.
//!
//! # How a model is put together
//! - All parameters of a model live in **one flat buffer**. A [`Layout`] says which tensor is where; layers are built by
//!   adding their tensors to it. So an update is that buffer, and a strategy, a codec or a mask need not know the model.
//! - What a step computes lives in an [`Arena`] that is used again for every step. [`Space`] hands out pieces of it; a step
//!   makes **no allocation** (a test counts).
//! - Gradients are always **added**, to the gradient buffer (as large and laid out as the parameters) and to the gradients of
//!   inputs. Branches that meet need no code of their own, and an optimiser's step leaves the gradients zero.
//! - Activations work in place, because the ones here can be derived from their output alone.
//! - Losses take a factor (1 / batch for a mean, a weight such as MultiVAE's beta) and return factor * sum.
//!
//! # Which bits
//! [`Arithmetic::Portable`], the default, computes in plain loops of fixed order: the same seed gives the same bits on every
//! machine and in the browser, as everything that runs on a device must. [`Arithmetic::Machine`] hands large products to
//! `gemm`, which picks its instructions by the processor: the same bits on one machine and for any number of threads, but
//! not on another machine. It is for central training. Nothing here starts a thread: parallelism is over devices, or
//! over fixed parts of a batch, and belongs to the caller.
//!
//! # Errors
//! Shapes are checked on entry. A slice of another length, an empty batch, an index outside a table or an arena that is
//! too small is a [`NeuralError`] that says which; nothing panics. Values are not looked at: a parameter that is not
//! finite makes a loss that is not finite, which is where training notices.

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
pub use layers::attention::{Attention, AttentionGradients, AttentionOutputGradients, AttentionTape, Mask};
pub use layers::batch_norm::{BatchNorm, BatchNormTape, Statistics};
pub use layers::conv2d::{Conv1dShape, Conv2d, Conv2dShape};
pub use layers::dropout::Dropout;
pub use layers::embedding::Embedding;
pub use layers::layer_norm::{LayerNorm, LayerNormTape};
pub use layers::linear::Linear;
pub use layers::pool::{Pool, PoolShape, Pooling};
pub use layers::quantiser::{Quantiser, QuantiserTape};
pub use layers::recurrent::{
    Recurrent, RecurrentCell, RecurrentTape, SequenceGradients, Sequences, StateGradients,
};
pub use layers::softmax::{softmax, softmax_backward};
pub use layout::{Arithmetic, Layout, Role, Slot, Tensor};
pub use optimisers::adam::Adam;
pub use optimisers::sgd::Sgd;
pub use real::Real;
pub use sparse::{RowGradients, SparseRows};
