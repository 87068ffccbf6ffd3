//! The arena: memory of a step, reused by the next.

use crate::error::Result;
use crate::{NeuralError, Real};

/// Memory for what one step computes: outputs, what backward needs of forward, and scratch.
///
/// Made once, as large as the sum of its layers' `space`; a step takes pieces from the front through a [`Space`], and
/// the next step starts from the front again. Nothing is given back in between, which is why it costs nothing.
#[derive(Clone, Debug)]
pub struct Arena<R> {
    reals: Vec<R>,
    indices: Vec<u32>,
}

impl<R: Real> Arena<R> {
    /// An arena for so many values and so many indices (only [`Quantiser`](crate::Quantiser) takes indices).
    ///
    /// # Errors
    /// If memory has no room for it.
    pub fn new(reals: usize, indices: usize) -> Result<Self> {
        Ok(Self { reals: zeroed(reals)?, indices: zeroed(indices)? })
    }

    /// Bytes of all values and indices.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.reals) + size_of_val(&*self.indices)
    }

    /// All of it, for the next step.
    pub fn space(&mut self) -> Space<'_, R> {
        Space { reals: &mut self.reals, indices: &mut self.indices }
    }
}

fn zeroed<T: Copy + Default>(len: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| NeuralError::TooLarge("arena"))?;
    values.resize(len, T::default());
    Ok(values)
}

/// What is left of an arena in a step. Pieces live as long as the step.
#[derive(Debug)]
pub struct Space<'a, R> {
    reals: &'a mut [R],
    indices: &'a mut [u32],
}

impl<'a, R: Real> Space<'a, R> {
    /// Values left.
    pub fn left(&self) -> usize {
        self.reals.len()
    }

    /// So many zeros.
    ///
    /// # Errors
    /// If so many are not left.
    pub fn zeros(&mut self, len: usize) -> Result<&'a mut [R]> {
        let values = self.take(len)?;
        values.fill(R::ZERO);
        Ok(values)
    }

    /// A copy of these values.
    ///
    /// # Errors
    /// If so many are not left.
    pub fn copy(&mut self, of: &[R]) -> Result<&'a mut [R]> {
        let values = self.take(of.len())?;
        values.copy_from_slice(of);
        Ok(values)
    }

    /// So many values of whatever was there before: to be written before they are read.
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a mut [R]> {
        take(&mut self.reals, len)
    }

    /// So many indices, all 0.
    ///
    /// # Errors
    /// If so many are not left.
    pub fn indices(&mut self, len: usize) -> Result<&'a mut [u32]> {
        let indices = take(&mut self.indices, len)?;
        indices.fill(0);
        Ok(indices)
    }

    /// The same space, given back when this is dropped: for what is not needed after a call.
    pub fn scratch(&mut self) -> Space<'_, R> {
        Space { reals: self.reals, indices: self.indices }
    }
}

fn take<'a, T>(rest: &mut &'a mut [T], len: usize) -> Result<&'a mut [T]> {
    if len > rest.len() {
        return Err(NeuralError::Arena(len, rest.len()));
    }
    let (taken, left) = std::mem::take(rest).split_at_mut(len);
    *rest = left;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_do_not_overlap_and_scratch_is_released() {
        let mut arena = Arena::<f32>::new(10, 2).unwrap();
        let mut space = arena.space();
        let a = space.copy(&[1.0, 2.0, 3.0]).unwrap();
        space.scratch().zeros(7).unwrap().fill(9.0);
        let b = space.zeros(4).unwrap();
        assert_eq!((&*a, &*b, space.left()), (&[1.0, 2.0, 3.0][..], &[0.0; 4][..], 3));
        assert_eq!(space.zeros(4).unwrap_err(), NeuralError::Arena(4, 3));
        assert_eq!(space.indices(2).unwrap(), [0, 0]);
        assert!(space.indices(1).is_err() && space.zeros(3).is_ok());
        assert_eq!(arena.space().left(), 10);
    }

    #[test]
    fn rejects_impossible_sizes() {
        assert!(Arena::<f64>::new(usize::MAX, 0).is_err() && Arena::<f64>::new(0, usize::MAX).is_err());
    }
}
