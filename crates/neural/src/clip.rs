//! The norm of a gradient, and clipping.

use crate::Real;

/// Euclidean norm, summed in double precision.
pub fn norm<R: Real>(values: &[R]) -> f64 {
    let mut lanes = [0.0f64; 8];
    for block in values.chunks(8) {
        for (lane, &value) in lanes.iter_mut().zip(block) {
            let value = R::to_f64(value);
            *lane += value * value;
        }
    }
    lanes.iter().sum::<f64>().sqrt()
}

/// Shortens values to this norm if they are longer; returns the norm they had. A norm that is not finite is left alone:
/// the caller sees it in what is returned.
pub fn clip_norm<R: Real>(values: &mut [R], most: f64) -> f64 {
    let found = norm(values);
    if found > most && found.is_finite() {
        let factor = R::of(most / found);
        values.iter_mut().for_each(|value| *value *= factor);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_only_long_gradients() {
        let mut values = [3.0f32, 0.0, -4.0];
        assert_eq!((clip_norm(&mut values, 5.0), values), (5.0, [3.0, 0.0, -4.0]));
        assert_eq!(clip_norm(&mut values, 1.0), 5.0);
        assert!((norm(&values) - 1.0).abs() < 1e-7);
        let mut broken = [f32::NAN, 1.0];
        assert!(clip_norm(&mut broken, 1.0).is_nan() && broken[1] == 1.0);
        assert_eq!(norm::<f64>(&[]), 0.0);
    }
}
