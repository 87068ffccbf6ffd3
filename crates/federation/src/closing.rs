//! When a round is over, and which updates still count: the server's rules, whether devices are simulated or real.
//!
//! A round asks more devices than it wants updates (`over_selection`), since some will be slow or lost. It is over when
//! the wanted number of updates has come, at its deadline, or when nobody is left who could answer.

use sottovoce_models::config;

config! {
    /// The server's rules for a round.
    #[derive(Copy, PartialEq)]
    pub struct RoundRules in Federation {
        /// Devices asked for each update that is wanted
        pub over_selection: f64 = 1.0, in 1.0..=10.0;
        /// Virtual seconds after which a round ends; 0: it waits for all
        pub deadline: Option<f64> = None, in 0.0..=1e7;
    }
}

impl RoundRules {
    /// Devices to ask for so many updates.
    pub fn ask(&self, wanted: usize) -> usize {
        ((wanted as f64 * self.over_selection).ceil() as usize).max(wanted)
    }
}

/// A round under way. It has no clock: events are passed to it in order of time, in seconds since the round began.
#[derive(Clone, Debug, PartialEq)]
pub struct Closing {
    wanted: usize,
    deadline: Option<f64>,
    /// Devices that may still answer.
    outstanding: usize,
    accepted: usize,
    over: Option<f64>,
}

impl Closing {
    /// A round that has asked so many devices and wants so many updates.
    pub fn new(rules: &RoundRules, wanted: usize, asked: usize) -> Self {
        let over = (asked == 0).then_some(0.0);
        Self { wanted, deadline: rules.deadline, outstanding: asked, accepted: 0, over }
    }

    /// A device has answered; says whether its update counts.
    pub fn answered(&mut self, at: f64) -> bool {
        self.wait_until(at);
        let counts = self.over.is_none();
        self.accepted += usize::from(counts);
        self.gone(at);
        counts
    }

    /// A device is known to be lost.
    pub fn lost(&mut self, at: f64) {
        self.wait_until(at);
        self.gone(at);
    }

    fn gone(&mut self, at: f64) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if self.over.is_none() && (self.accepted >= self.wanted || self.outstanding == 0) {
            self.over = Some(at);
        }
    }

    /// Time has passed; says when the round was over, if it was.
    pub fn wait_until(&mut self, at: f64) -> Option<f64> {
        if let (None, Some(deadline)) = (self.over, self.deadline)
            && at > deadline
        {
            self.over = Some(deadline);
        }
        self.over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn over_when_enough_have_answered() {
        let rules = RoundRules { over_selection: 1.4, deadline: Some(60.0) };
        assert_eq!(rules.ask(5), 7);
        let mut closing = Closing::new(&rules, 2, 4);
        assert!(closing.answered(3.0) && closing.answered(9.0) && !closing.answered(10.0));
        assert_eq!(closing.wait_until(1000.0), Some(9.0));
    }

    #[test]
    fn over_at_the_deadline_and_not_before() {
        let rules = RoundRules { over_selection: 1.0, deadline: Some(60.0) };
        let mut closing = Closing::new(&rules, 3, 3);
        assert!(closing.answered(60.0));
        assert_eq!(closing.wait_until(60.0), None);
        assert!(!closing.answered(60.5));
        assert_eq!(closing.wait_until(60.5), Some(60.0));
    }

    #[test]
    fn over_when_nobody_is_left() {
        let mut closing = Closing::new(&RoundRules::default(), 3, 3);
        assert!(closing.answered(1.0));
        closing.lost(2.0);
        assert_eq!(closing.wait_until(500.0), None);
        assert!(closing.answered(700.0));
        assert_eq!(closing.wait_until(700.0), Some(700.0));
        assert_eq!(Closing::new(&RoundRules::default(), 3, 0).wait_until(0.0), Some(0.0));
    }

    proptest! {
        #[test]
        fn what_counts_came_before_the_end_and_is_never_more_than_wanted(
            mut times in prop::collection::vec(0.0f64..100.0, 1..30),
            wanted in 1usize..30,
            deadline in prop::option::of(1.0f64..120.0),
        ) {
            times.sort_by(f64::total_cmp);
            let rules = RoundRules { over_selection: 1.0, deadline };
            let mut closing = Closing::new(&rules, wanted, times.len());
            let counted = times.iter().filter(|&&at| closing.answered(at)).count();
            let in_time = times.iter().filter(|&&at| deadline.is_none_or(|end| at <= end)).count();
            prop_assert_eq!(counted, in_time.min(wanted));
            let end = closing.wait_until(f64::INFINITY).unwrap();
            prop_assert!(deadline.is_none_or(|deadline| end <= deadline));
            prop_assert!(times.iter().take(counted).all(|&at| at <= end));
        }
    }
}
