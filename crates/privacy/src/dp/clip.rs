//! Clipping one person's whole update to a bound in L2, so that it still holds after rounding to integers.

use super::DpError;
use super::error::check;

/// Taken off the bound so that rounding of the f32 values (2^-24 each), of the sum of squares and of the later product with a scale
/// cannot add up to more than it.
const SLACK: f64 = 1.0 / (1u64 << 22) as f64;

/// A bound on the L2 norm of an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clip {
    bound: f64,
}

/// What clipping did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clipped {
    /// The norm before.
    pub norm: f64,
    /// What every value was multiplied with; 1 if the update was within the bound.
    pub factor: f64,
}

impl Clipped {
    /// Whether the update was within the bound.
    pub fn within(&self) -> bool {
        self.factor >= 1.0
    }
}

impl Clip {
    /// To this norm.
    ///
    /// # Errors
    /// If the bound is not from 1e-20 to 1e20.
    pub fn to(bound: f64) -> Result<Self, DpError> {
        check("the clipping bound", bound, "from 1e-20 to 1e20", |v| (1e-20..=1e20).contains(&v))?;
        Ok(Self { bound })
    }

    /// The bound.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// Scales all tables of an update by one factor so that the norm of them all is within the bound. Whatever `scale` they
    /// are multiplied with and truncated towards zero afterwards ([`truncate`]), the integers' norm is at most bound * scale.
    ///
    /// # Errors
    /// If a value is not finite; nothing is changed then.
    pub fn apply(&self, tables: &mut [&mut [f32]]) -> Result<Clipped, DpError> {
        let norm = norm(tables.iter().map(|t| &**t))?;
        let clipped = self.judge(norm);
        if !clipped.within() {
            for value in tables.iter_mut().flat_map(|t| t.iter_mut()) {
                *value = (f64::from(*value) * clipped.factor) as f32;
            }
        }
        Ok(clipped)
    }

    /// What [`Clip::apply`] does to an update of this norm.
    pub fn judge(&self, norm: f64) -> Clipped {
        let most = self.bound * (1.0 - SLACK);
        Clipped { norm, factor: if norm <= most { 1.0 } else { most / norm } }
    }
}

/// The L2 norm of all values of all tables.
///
/// # Errors
/// If a value is not finite.
pub fn norm<'a>(tables: impl IntoIterator<Item = &'a [f32]>) -> Result<f64, DpError> {
    let mut sum = 0.0;
    for (table, values) in tables.into_iter().enumerate() {
        let part: f64 = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
        if !part.is_finite() {
            return Err(not_finite(table, values));
        }
        sum += part;
    }
    Ok(sum.sqrt())
}

/// Squares of finite f32 values never overflow an f64, so one that is not finite is there.
fn not_finite(table: usize, values: &[f32]) -> DpError {
    let position = values.iter().position(|v| !v.is_finite()).unwrap_or(0);
    DpError::NotFinite { table, position, value: values[position] }
}

/// `values * scale`, truncated towards zero, appended to `into`.
///
/// # Errors
/// If the scale is not from 2^-40 to 2^52, or a product is not below 2^62 (clip first).
pub fn truncate(values: &[f32], scale: f64, into: &mut Vec<i64>) -> Result<(), DpError> {
    check("the fixed-point scale", scale, "from 2^-40 to 2^52", |v| {
        ((-40f64).exp2()..=52f64.exp2()).contains(&v)
    })?;
    let start = into.len();
    into.extend(values.iter().map(|&v| (f64::from(v) * scale) as i64));
    // A conversion out of range stops at the ends of i64; NaN becomes 0 and is found by the second question.
    let wrong = into[start..].iter().zip(values).find(|(q, v)| q.unsigned_abs() >= 1 << 62 || v.is_nan());
    let Some((_, &value)) = wrong else { return Ok(()) };
    into.truncate(start);
    Err(DpError::Range {
        what: "a value in fixed point",
        value: f64::from(value) * scale,
        must: "below 2^62",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn integer_norm_squared(values: &[i64]) -> u128 {
        values.iter().map(|&v| u128::from(v.unsigned_abs()).pow(2)).sum()
    }

    proptest! {
        #[test]
        fn integers_never_exceed_the_bound(
            a in prop::collection::vec(-1e6f32..1e6, 0..40),
            b in prop::collection::vec(-1f32..1.0, 1..200),
            bound in 0.001..1e4f64,
            bits in 4u32..24,
        ) {
            let (mut a, mut b) = (a, b);
            let before = norm([&a[..], &b]).unwrap();
            let clipped = Clip::to(bound).unwrap().apply(&mut [&mut a, &mut b]).unwrap();
            prop_assert_eq!(clipped.norm, before);
            let after = norm([&a[..], &b]).unwrap();
            prop_assert!(after <= bound && (!clipped.within() || after == before));
            prop_assert!(clipped.within() || after > bound * 0.999_999);
            let scale = f64::from(1u32 << bits);
            let mut integers = Vec::new();
            truncate(&a, scale, &mut integers).unwrap();
            truncate(&b, scale, &mut integers).unwrap();
            // Compared in integers: the square of a double just below bound * scale.
            let most = (bound * scale).powi(2);
            prop_assert!(integer_norm_squared(&integers) <= most as u128);
        }

        #[test]
        fn one_large_value_fills_the_bound(value in prop::num::f32::NORMAL, bound in 0.5..2.0f64) {
            prop_assume!(value.abs() > 4.0);
            let mut values = [value];
            Clip::to(bound).unwrap().apply(&mut [&mut values]).unwrap();
            prop_assert!(f64::from(values[0].abs()) <= bound && f64::from(values[0].abs()) > bound * 0.999_999);
            prop_assert_eq!(values[0].signum(), value.signum());
        }
    }

    #[test]
    fn what_is_not_a_number_is_named_and_changes_nothing() {
        let (mut a, mut b) = ([100.0f32, 2.0], [0.0, f32::NAN]);
        let problem = Clip::to(1.0).unwrap().apply(&mut [&mut a, &mut b]).unwrap_err();
        assert!(problem.to_string().starts_with("value 1 of table 1 is NaN"), "{problem}");
        assert_eq!(a, [100.0, 2.0]);
        assert!(Clip::to(0.0).is_err() && Clip::to(f64::NAN).is_err());
    }

    #[test]
    fn fixed_point_truncates_towards_zero_and_refuses_overflow() {
        let mut into = vec![7];
        truncate(&[1.99, -1.99, 0.0], 1.0, &mut into).unwrap();
        assert_eq!(into, [7, 1, -1, 0]);
        assert!(truncate(&[1.0, 1e30], 1.0, &mut into).is_err());
        assert!(truncate(&[f32::NAN], 1.0, &mut into).is_err());
        assert_eq!(into.len(), 4);
    }
}
