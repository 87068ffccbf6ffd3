//! The layers, one file each; a file opens with its equations.
//!
//! Matrices are in row order and a batch is rows, so that equations are written for row vectors: y = x W + b. In the
//! equations of backward, dx stands for the gradient of the loss by x.

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod batch_norm;
pub(crate) mod conv2d;
pub(crate) mod dropout;
pub(crate) mod embedding;
pub(crate) mod layer_norm;
pub(crate) mod linear;
pub(crate) mod pool;
pub(crate) mod quantiser;
pub(crate) mod recurrent;
pub(crate) mod softmax;
