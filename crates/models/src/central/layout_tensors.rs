//! Parameters of neural networks as stored tensors.

use crate::stored;
use crate::{ModelError, Tensor};
use sottovoce_neural::Layout;

/// The tensors of a layout, with these values.
pub(crate) fn to_tensors(layout: &Layout, values: &[f32]) -> Vec<Tensor> {
    let tensors = layout.tensors().iter();
    tensors
        .map(|tensor| {
            let values = values[tensor.slot.range()].to_vec();
            stored::floats(&tensor.name, tensor.shape.clone(), values)
        })
        .collect()
}

/// Reads what [`to_tensors`] wrote.
pub(crate) fn read_tensors(layout: &Layout, tensors: &[Tensor], values: &mut [f32]) -> Result<(), ModelError> {
    for tensor in layout.tensors() {
        let stored = stored::take_floats(tensors, &tensor.name, &tensor.shape)?;
        values[tensor.slot.range()].copy_from_slice(stored);
    }
    Ok(())
}
