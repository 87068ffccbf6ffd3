//! Calling a cohort together.

use crate::{SelectedCohort, FederationError, Fleet, CohortSelector};
use sottovoce_core::Rng;

/// Attempts at a cohort, each when somebody should be there, before giving up.
const ATTEMPTS: u64 = 1000;

/// A cohort that can be asked, after waiting for somebody to be there.
pub(crate) struct ReachableCohort<'a> {
    pub(crate) drawn: SelectedCohort<'a>,
    /// Seconds waited.
    pub(crate) waited: f64,
}

/// Draws devices that can be asked from `now` on, waiting if there is none.
pub(crate) fn select_cohort<'a, F: Fleet>(
    selector: &'a mut CohortSelector,
    fleet: &F,
    count: usize,
    (round, now): (u64, f64),
    rng: &Rng,
) -> Result<ReachableCohort<'a>, FederationError> {
    let Some(reachability) = fleet.reachability() else {
        let cohort = selector.draw(count, &mut rng.stream("cohort", 0));
        return Ok(ReachableCohort { drawn: SelectedCohort { cohort, unavailable: 0 }, waited: 0.0 });
    };
    let (mut at, mut unavailable) = (now, 0);
    for attempt in 0..ATTEMPTS {
        let there = |device: u32| reachability.wait(device, at) == Some(0.0);
        let drawn = selector.draw_reachable(count, &mut rng.stream("cohort", attempt), &there);
        unavailable += drawn.unavailable;
        if !drawn.cohort.is_empty() || selector.population().is_empty() {
            let drawn = SelectedCohort { cohort: selector.drawn(), unavailable };
            return Ok(ReachableCohort { drawn, waited: at - now });
        }
        let waits = selector.population().iter().filter_map(|&device| reachability.wait(device, at));
        let Some(wait) = waits.min_by(f64::total_cmp) else { break };
        // At least a second, so that rounding cannot keep the clock where it is.
        at += wait.max(1.0);
    }
    Err(FederationError::Nobody { round, at })
}
