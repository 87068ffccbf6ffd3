//! Calling a cohort together.

use crate::{Drawn, FederationError, Fleet, Selector};
use sottovoce_core::Rng;

/// Attempts at a cohort, each when somebody should be there, before giving up.
const ATTEMPTS: u64 = 1000;

/// A cohort that can be asked, after waiting for somebody to be there.
pub(crate) struct Gathered<'a> {
    pub(crate) drawn: Drawn<'a>,
    /// Seconds waited.
    pub(crate) waited: f64,
}

/// Draws devices that can be asked from `now` on, waiting if there is none.
pub(crate) fn gather<'a, F: Fleet>(
    selector: &'a mut Selector,
    fleet: &F,
    count: usize,
    (round, now): (u64, f64),
    rng: &Rng,
) -> Result<Gathered<'a>, FederationError> {
    let Some(presence) = fleet.presence() else {
        let cohort = selector.draw(count, &mut rng.stream("cohort", 0));
        return Ok(Gathered { drawn: Drawn { cohort, unavailable: 0 }, waited: 0.0 });
    };
    let (mut at, mut unavailable) = (now, 0);
    for attempt in 0..ATTEMPTS {
        let there = |device: u32| presence.wait(device, at) == Some(0.0);
        let drawn = selector.draw_reachable(count, &mut rng.stream("cohort", attempt), &there);
        unavailable += drawn.unavailable;
        if !drawn.cohort.is_empty() || selector.population().is_empty() {
            let drawn = Drawn { cohort: selector.drawn(), unavailable };
            return Ok(Gathered { drawn, waited: at - now });
        }
        let waits = selector.population().iter().filter_map(|&device| presence.wait(device, at));
        let Some(wait) = waits.min_by(f64::total_cmp) else { break };
        // At least a second, so that rounding cannot keep the clock where it is.
        at += wait.max(1.0);
    }
    Err(FederationError::Nobody { round, at })
}
