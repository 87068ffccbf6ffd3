//! Putting the parts of a round together as they are finished, in their order.

use crate::lane::Lane;
use crate::{Attendance, Collected, FederationError};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Working memory that no part uses at the moment. The last to be put back is the next to be taken: it is still in a near
/// cache, and no more of it is ever made than parts are under way at a time.
pub(crate) struct Spare<S> {
    pub(crate) lanes: Vec<Lane<S>>,
    pub(crate) sums: Vec<Collected>,
}

impl<S> Default for Spare<S> {
    fn default() -> Self {
        Self { lanes: Vec::new(), sums: Vec::new() }
    }
}

/// A round whose parts are worked off on several cores. Sums are added in the order of parts, whichever is finished first:
/// so they have the same bits on any number of cores, and nearly all of them are added while others still train.
pub(crate) struct Assembly<'a, S>(Mutex<Desk<'a, S>>);

struct Desk<'a, S> {
    spare: Spare<S>,
    /// Finished parts that wait for an earlier one.
    waiting: Vec<Option<Part>>,
    /// The part to be added next.
    next: usize,
    attendance: Result<Attendance, FederationError>,
    into: &'a mut Collected,
}

type Part = (Result<Attendance, FederationError>, Collected);

impl<'a, S> Assembly<'a, S> {
    /// Of so many parts, to be added `into` an empty sum.
    pub(crate) fn new(parts: usize, spare: Spare<S>, into: &'a mut Collected) -> Self {
        let waiting = (0..parts).map(|_| None).collect();
        Self(Mutex::new(Desk { spare, waiting, next: 0, attendance: Ok(Attendance::default()), into }))
    }

    /// What a part needs, if it is there.
    pub(crate) fn begin(&self) -> (Option<Lane<S>>, Option<Collected>) {
        let spare = &mut self.desk().spare;
        (spare.lanes.pop(), spare.sums.pop())
    }

    /// Takes what became of a part.
    pub(crate) fn end(
        &self,
        part: usize,
        lane: Lane<S>,
        attended: Result<Attendance, FederationError>,
        sum: Collected,
    ) {
        let mut desk = self.desk();
        desk.spare.lanes.push(lane);
        desk.waiting[part] = Some((attended, sum));
        while let Some((attended, sum)) = desk.ready() {
            desk.add(attended, sum);
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk<'a, S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who attended, or the first failure in the order of parts; and the working memory.
    pub(crate) fn finish(self) -> (Result<Attendance, FederationError>, Spare<S>) {
        let desk = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        (desk.attendance, desk.spare)
    }
}

impl<S> Desk<'_, S> {
    /// The next part in order, if it is finished.
    fn ready(&mut self) -> Option<Part> {
        let part = self.waiting.get_mut(self.next)?.take()?;
        self.next += 1;
        Some(part)
    }

    fn add(&mut self, attended: Result<Attendance, FederationError>, mut sum: Collected) {
        if let Ok(all) = &mut self.attendance {
            match attended {
                Ok(attended) => {
                    all.add(&attended);
                    self.into.drain(&mut sum);
                }
                Err(error) => self.attendance = Err(error),
            }
        }
        // Nothing is left in it unless there was an error.
        sum.clear();
        self.spare.sums.push(sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_protocol::{Keyed, Layout, Policy, Shape};

    fn layout() -> Layout {
        Layout::new(vec![Shape::new("items", 3, 2, Keyed::Items)]).unwrap()
    }

    fn lane() -> Lane<()> {
        Lane::new((), Policy::new(1.0).unwrap(), &layout())
    }

    /// Parts finish in this order; those that fail say their number.
    fn assembled(
        order: [usize; 4],
        failing: &[usize],
    ) -> (Result<Attendance, FederationError>, Spare<()>, u64) {
        let mut into = Collected::new(&layout());
        let assembly = Assembly::new(4, Spare::default(), &mut into);
        for part in order {
            let mut sum = assembly.begin().1.unwrap_or_else(|| Collected::new(&layout()));
            assert_eq!(sum.updates, 0, "a sum is empty when it is taken");
            sum.updates = 1;
            let attended = if failing.contains(&part) {
                Err(FederationError::Nobody { round: part as u64, at: 0.0 })
            } else {
                // A sum of these three depends on their order.
                Ok(Attendance { loss: [1e16, 1.0, -1e16, 0.5][part], ..Attendance::default() })
            };
            assembly.end(part, lane(), attended, sum);
        }
        let (attended, spare) = assembly.finish();
        (attended, spare, into.updates)
    }

    #[test]
    fn parts_are_added_in_their_order_whichever_is_finished_first() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]] {
            let (attended, spare, updates) = assembled(order, &[]);
            assert_eq!((attended.unwrap().loss, updates), (1e16 + 1.0 - 1e16 + 0.5, 4));
            assert!(spare.sums.iter().all(|sum| sum.updates == 0) && !spare.sums.is_empty());
        }
    }

    #[test]
    fn the_first_failure_in_order_is_told() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0]] {
            let (attended, spare, _) = assembled(order, &[1, 3]);
            assert!(matches!(attended, Err(FederationError::Nobody { round: 1, .. })));
            assert!(spare.sums.iter().all(|sum| sum.updates == 0));
        }
    }
}
