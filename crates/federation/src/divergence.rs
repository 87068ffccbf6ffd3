//! Signs that training diverges: values of the shared model, for the simulator and a server, and losses, which only the
//! simulator knows.

use crate::{Aggregate, FederationError};
use sottovoce_core::math;
use sottovoce_protocol::Parameters;

/// Training has diverged once the mean loss is this many times that of a model that knows nothing, ln 2 = 0.69 for
/// pairs.
const TIMES_BASELINE_LOSS: f64 = 5.8;

/// A mean loss that says that training diverged in this round.
///
/// # Errors
/// If it does.
pub(crate) fn check_loss(round: u64, loss: f64, baseline: f64) -> Result<(), FederationError> {
    match loss.is_nan() || loss > TIMES_BASELINE_LOSS * baseline {
        true => {
            let what = format!("the mean loss is {loss:.2}, where a model that knows nothing has {baseline:.2}");
            Err(FederationError::Diverged { round, what })
        }
        false => Ok(()),
    }
}

/// Values that say that training diverged in this round: not finite, or larger than any value of a sound model, long
/// before scores overflow. Looks at the rows that changed.
///
/// # Errors
/// If there are such values.
pub(crate) fn check_values(
    round: u64,
    (shared, changed): (&Parameters, &Aggregate),
    largest: f32,
) -> Result<(), FederationError> {
    for (table, sums) in shared.tables().iter().zip(changed.tables()) {
        for (row, ..) in sums.rows() {
            let (values, name) = (table.row(row), &table.shape().name);
            if !math::all_finite(values) {
                return Err(FederationError::Diverged {
                    round,
                    what: format!("row {row} of table {name:?} is no longer finite"),
                });
            }
            if let Some(value) = values.iter().find(|value| value.abs() > largest) {
                let what = format!("row {row} of table {name:?} has the value {value:e}, above {largest:e}");
                return Err(FederationError::Diverged { round, what });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_protocol::{Keyed, Layout, RowOrigin, Shape, Trained};

    /// Two rows, of which one was sent.
    fn checked(values: [f32; 2]) -> Result<(), String> {
        let layout = Layout::new(vec![Shape::new("items", 2, 1, Keyed::Items)]).unwrap();
        let mut shared = Parameters::zeros(&layout);
        shared.tables_mut()[0].values_mut().copy_from_slice(&values);
        let (mut trained, mut changed) = (Trained::new(&layout), Aggregate::new(&layout));
        trained.push_row(0, 1, RowOrigin::Other).unwrap()[0] = 1.0;
        changed.add(trained.update());
        changed.finish();
        check_values(7, (&shared, &changed), 100.0).map_err(|error| error.to_string())
    }

    #[test]
    fn large_and_infinite_values_are_found_among_changed_rows() {
        assert_eq!(checked([0.0, -100.0]), Ok(()));
        assert_eq!(checked([1e9, 1.0]), Ok(()), "nobody sent this row");
        assert!(
            checked([0.0, -101.0]).unwrap_err().contains("round 7: row 1 of table \"items\" has the value -1.01e2")
        );
        assert!(checked([0.0, f32::NAN]).unwrap_err().contains("no longer finite"));
    }

    #[test]
    fn losses_far_above_ignorance_are_divergence() {
        assert!(check_loss(0, 4.0, 0.69).is_ok());
        assert!(check_loss(0, 4.1, 0.69).is_err() && check_loss(0, f64::NAN, 0.69).is_err());
    }
}
