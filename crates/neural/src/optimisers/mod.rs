//! How gradients change parameters. A step takes the gradients: they are zero afterwards, ready to be added to.

pub(crate) mod adam;
pub(crate) mod sgd;

use crate::RowGradients;
use crate::error::{Result, expect_len};
use std::ops::Range;

/// The part of two buffers that a step is for.
fn parts<'b, R>(
    range: Range<usize>,
    parameters: &'b mut [R],
    gradients: &'b mut [R],
) -> Result<(&'b mut [R], &'b mut [R])> {
    expect_len("gradients", gradients.len(), parameters.len())?;
    let found = parameters.len();
    let short = crate::NeuralError::Length("parameters", range.end, found);
    match (parameters.get_mut(range.clone()), gradients.get_mut(range)) {
        (Some(parameters), Some(gradients)) => Ok((parameters, gradients)),
        _ => Err(short),
    }
}

fn check_table<R: crate::Real>(len: usize, rows: &RowGradients<R>) -> Result<()> {
    expect_len("table of gradients by rows", len, rows.table_rows() * rows.width())
}
