//! Losses. Each returns `factor * sum` and adds the gradient of that where it is told to.
//!
//! The factor makes a sum a mean (1 / values, 1 / batch) and weighs losses against each other. Sums are returned in
//! double precision; a value that is not finite gives a loss that is not.

mod bce;
mod bpr;
mod cross_entropy;
mod gaussian;
mod mse;

pub use bce::{bce_with_logits, bce_with_logits_sparse};
pub use bpr::bpr;
pub use cross_entropy::{cross_entropy, multinomial};
pub use gaussian::{kl_gaussian, sample_gaussian, sample_gaussian_backward};
pub use mse::mse;

use crate::error::{Result, expect_len};

/// Checks an optional gradient's length.
fn expect_gradient<R>(dx: Option<&mut [R]>, len: usize) -> Result<()> {
    dx.map_or(Ok(()), |dx| expect_len("gradient of a loss", dx.len(), len))
}
