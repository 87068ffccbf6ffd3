//! Reading numbers back from JSON, where "not a number" is written as `null`.

use serde::{Deserialize, Deserializer};

/// A number; `null` is NaN.
pub(crate) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// A list of numbers; `null`s are NaN.
pub(crate) fn numbers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    Ok(Vec::<Option<f64>>::deserialize(from)?.into_iter().map(|x| x.unwrap_or(f64::NAN)).collect())
}

/// A pair of numbers, which is absent when either is `null`.
pub(super) fn pair<'de, D: Deserializer<'de>>(from: D) -> Result<Option<(f64, f64)>, D::Error> {
    Ok(Option::<(Option<f64>, Option<f64>)>::deserialize(from)?.and_then(|(a, b)| a.zip(b)))
}
