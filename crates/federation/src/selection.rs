//! Selecting a cohort of simulated devices, waiting for some to be reachable.

use crate::availability::DeviceBehaviour;
use crate::{Coordinator, FederationError};
use sottovoce_core::Rng;

/// Attempts at a cohort, each when somebody should be reachable, before giving up.
const ATTEMPTS: u64 = 1000;

/// A cohort that can be asked.
pub(crate) struct ReachableCohort {
    pub(crate) unavailable: u64,
    /// Seconds waited.
    pub(crate) waited: f64,
}

/// Draws devices that can be asked from `now` on, waiting if there is none. The cohort is [`Coordinator::cohort`].
pub(crate) fn select_cohort(
    server: &mut Coordinator,
    rng: &Rng,
    reachability: Option<&DeviceBehaviour>,
    now: f64,
) -> Result<ReachableCohort, FederationError> {
    let Some(reachability) = reachability else {
        server.draw_attempt(rng, 0, None);
        return Ok(ReachableCohort { unavailable: 0, waited: 0.0 });
    };
    let (mut at, mut unavailable) = (now, 0);
    for attempt in 0..ATTEMPTS {
        let drawn = server.draw_attempt(rng, attempt, Some(&|device| reachability.wait(device, at) == Some(0.0)));
        unavailable += drawn.unavailable;
        if !drawn.cohort.is_empty() || server.selector.population().is_empty() {
            return Ok(ReachableCohort { unavailable, waited: at - now });
        }
        let waits = server.selector.population().iter().filter_map(|&device| reachability.wait(device, at));
        let Some(wait) = waits.min_by(f64::total_cmp) else { break };
        // At least a second, so that rounding cannot keep the clock where it is.
        at += wait.max(1.0);
    }
    Err(FederationError::Nobody { round: server.round().0, at })
}
