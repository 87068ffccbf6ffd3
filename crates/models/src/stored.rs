//! Putting what was learnt into tensors and taking it back with every size and value checked.

use crate::{ModelError, Tensor, TensorData};

/// A tensor of floats.
pub fn floats(name: &str, shape: impl Into<Vec<usize>>, values: Vec<f32>) -> Tensor {
    Tensor { name: name.to_owned(), shape: shape.into(), data: TensorData::F32(values) }
}

/// A tensor of indices or counts.
pub fn indices(name: &str, shape: impl Into<Vec<usize>>, values: Vec<u32>) -> Tensor {
    Tensor { name: name.to_owned(), shape: shape.into(), data: TensorData::U32(values) }
}

/// The finite floats of a tensor of this name and shape.
///
/// # Errors
/// If there is none, or it has another type or shape or a value that is not finite.
pub fn take_floats<'a>(tensors: &'a [Tensor], name: &str, shape: &[usize]) -> Result<&'a [f32], ModelError> {
    let tensor = find(tensors, name)?;
    let TensorData::F32(values) = &tensor.data else {
        return Err(ModelError::Restore(format!("tensor `{name}` holds whole numbers, expected floats")));
    };
    check_shape(tensor, values.len(), shape)?;
    if let Some(place) = values.iter().position(|value| !value.is_finite()) {
        return Err(ModelError::Restore(format!("tensor `{name}` holds {} at {place}", values[place])));
    }
    Ok(values)
}

/// The whole numbers of a tensor of this name and shape.
///
/// # Errors
/// If there is none, or it has another type or shape.
pub fn take_indices<'a>(tensors: &'a [Tensor], name: &str, shape: &[usize]) -> Result<&'a [u32], ModelError> {
    let tensor = find(tensors, name)?;
    let TensorData::U32(values) = &tensor.data else {
        return Err(ModelError::Restore(format!("tensor `{name}` holds floats, expected whole numbers")));
    };
    check_shape(tensor, values.len(), shape)?;
    Ok(values)
}

/// How many values a tensor of this name holds; its shape is checked when it is taken.
///
/// # Errors
/// If there is none.
pub fn length(tensors: &[Tensor], name: &str) -> Result<usize, ModelError> {
    Ok(match &find(tensors, name)?.data {
        TensorData::F32(values) => values.len(),
        TensorData::U32(values) => values.len(),
    })
}

fn find<'a>(tensors: &'a [Tensor], name: &str) -> Result<&'a Tensor, ModelError> {
    tensors
        .iter()
        .find(|tensor| tensor.name == name)
        .ok_or_else(|| ModelError::Restore(format!("there is no tensor `{name}`")))
}

fn check_shape(tensor: &Tensor, length: usize, shape: &[usize]) -> Result<(), ModelError> {
    if tensor.shape == shape && length == shape.iter().product::<usize>() {
        return Ok(());
    }
    Err(ModelError::Restore(format!(
        "tensor `{}` has shape {:?} and {length} values, expected shape {shape:?}",
        tensor.name, tensor.shape
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_tensors_are_named() {
        let stored = [
            floats("bias", [2], vec![1.0, f32::NAN]),
            indices("counts", [2], vec![1, 2]),
            floats("short", [3], vec![1.0]),
        ];
        let message = |name, shape: &[usize]| take_floats(&stored, name, shape).unwrap_err().to_string();
        assert!(message("bias", &[2]).ends_with("tensor `bias` holds NaN at 1"));
        assert!(message("biases", &[2]).ends_with("there is no tensor `biases`"));
        assert!(message("counts", &[2]).ends_with("holds whole numbers, expected floats"));
        assert!(message("short", &[3]).ends_with("has shape [3] and 1 values, expected shape [3]"));
        assert!(message("bias", &[1, 2]).ends_with("expected shape [1, 2]"));
        assert!(take_indices(&stored, "bias", &[2]).is_err());
        assert_eq!(take_indices(&stored, "counts", &[2]).unwrap(), [1, 2]);
    }
}
