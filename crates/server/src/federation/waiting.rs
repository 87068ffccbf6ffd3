//! What a federation waits for, in words for operators and owners.

use super::{Federation, State};
use crate::storage::Status;

/// The last attempt to open a round found too few devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooFew {
    /// Devices that could be asked.
    pub(super) found: usize,
    /// Devices that a round needs.
    pub(super) needed: usize,
    /// Whether only devices that checked in lately count.
    pub(super) of_present: bool,
}

impl TooFew {
    fn describe(self) -> String {
        let Self { found, needed, of_present } = self;
        let missing = needed.saturating_sub(found);
        let more = if missing == 1 { "device" } else { "devices" };
        match of_present {
            true => format!("{missing} more {more} to check in: {found} of the {needed} that a round needs did lately"),
            false => format!("{missing} more {more}: {found} of the {needed} that a round needs can be asked"),
        }
    }
}

impl Federation {
    /// What has to happen before training goes on; `None` if it has ended.
    pub(super) fn waits_for(&self, state: &State) -> Option<String> {
        match &state.status {
            Status::Running => (),
            Status::Paused => return Some("an operator to resume it".to_owned()),
            Status::Finished | Status::Failed(_) | Status::Archived => return None,
        }
        if let Some(round) = &state.round {
            let (wanted, stored) = (round.opening.wanted, round.stored);
            let missing = wanted.saturating_sub(stored);
            let updates = if missing == 1 { "update" } else { "updates" };
            return Some(format!(
                "{missing} more {updates} of round {}: {stored} of {wanted} came",
                round.opening.round
            ));
        }
        let (enrolled, needed) = (state.members.admitted(), self.config.devices as usize);
        if enrolled < needed {
            let missing = needed - enrolled;
            let more = if missing == 1 { "device" } else { "devices" };
            return Some(format!("{missing} more {more}: {enrolled} of {needed} enrolled"));
        }
        let due = state.plan.due(state.next_round, state.next_device, self.now()).describe();
        let too_few = || state.too_few.map_or_else(|| "the next round to open".to_owned(), TooFew::describe);
        Some(due.unwrap_or_else(too_few))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_many_are_missing() {
        let one = TooFew { found: 4, needed: 5, of_present: false };
        assert_eq!(one.describe(), "1 more device: 4 of the 5 that a round needs can be asked");
        let some = TooFew { found: 0, needed: 3, of_present: true };
        assert_eq!(some.describe(), "3 more devices to check in: 0 of the 3 that a round needs did lately");
    }
}
