//! Putting the parts of a round together as they are finished, in their order.

use crate::worker::Worker;
use crate::{Aggregate, FederationError, ParticipationStats};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Working memory that no part uses at the moment. The last to be put back is the next to be taken: it is still in a
/// near cache, and no more of it is ever made than parts are under way at a time.
#[derive(Default)]
pub(crate) struct WorkerPool {
    pub(crate) workers: Vec<Worker>,
    pub(crate) sums: Vec<Aggregate>,
}

/// A round whose parts are worked off on several cores. Sums are added in the order of parts, whichever is finished
/// first: so they have the same bits on any number of cores, and nearly all of them are added while others still train.
pub(crate) struct OrderedReduce<'a>(Mutex<ReduceState<'a>>);

struct ReduceState<'a> {
    pool: WorkerPool,
    /// Finished parts that wait for an earlier one.
    waiting: Vec<Option<Part>>,
    /// The part to be added next.
    next: usize,
    participation: Result<ParticipationStats, FederationError>,
    into: &'a mut Aggregate,
}

type Part = (Result<ParticipationStats, FederationError>, Aggregate);

impl<'a> OrderedReduce<'a> {
    /// Of so many parts, to be added `into` an empty sum.
    pub(crate) fn new(parts: usize, pool: WorkerPool, into: &'a mut Aggregate) -> Self {
        let waiting = (0..parts).map(|_| None).collect();
        Self(Mutex::new(ReduceState { pool, waiting, next: 0, participation: Ok(ParticipationStats::default()), into }))
    }

    /// What a part needs, if it is there.
    pub(crate) fn begin(&self) -> (Option<Worker>, Option<Aggregate>) {
        let pool = &mut self.state().pool;
        (pool.workers.pop(), pool.sums.pop())
    }

    /// Takes what became of a part.
    pub(crate) fn end(
        &self,
        part: usize,
        worker: Worker,
        participation: Result<ParticipationStats, FederationError>,
        sum: Aggregate,
    ) {
        let mut state = self.state();
        state.pool.workers.push(worker);
        state.waiting[part] = Some((participation, sum));
        while let Some((participation, sum)) = state.ready() {
            state.add(participation, sum);
        }
    }

    fn state(&self) -> MutexGuard<'_, ReduceState<'a>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Participation, or the first failure in the order of parts; and the working memory.
    pub(crate) fn finish(self) -> (Result<ParticipationStats, FederationError>, WorkerPool) {
        let state = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        (state.participation, state.pool)
    }
}

impl ReduceState<'_> {
    /// The next part in order, if it is finished.
    fn ready(&mut self) -> Option<Part> {
        let part = self.waiting.get_mut(self.next)?.take()?;
        self.next += 1;
        Some(part)
    }

    fn add(&mut self, participation: Result<ParticipationStats, FederationError>, mut sum: Aggregate) {
        if let Ok(all) = &mut self.participation {
            match participation {
                Ok(participation) => {
                    all.add(&participation);
                    self.into.merge(&mut sum);
                }
                Err(error) => self.participation = Err(error),
            }
        }
        // Nothing is left in it unless there was an error.
        sum.clear();
        self.pool.sums.push(sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_client::Buffers;
    use sottovoce_models::federated::{Negatives, erased, fpl};
    use sottovoce_protocol::{Keyed, Layout, Policy, Shape};

    fn layout() -> Layout {
        Layout::new(vec![Shape::new("items", 3, 2, Keyed::Items)]).unwrap()
    }

    fn worker() -> Worker {
        let regularisation = fpl::Regularisation::default();
        let (factors, negatives) = (1, Negatives::Papers);
        let client = fpl::Client {
            factors,
            triples: 1,
            learning_rate: 0.1,
            regularisation,
            init_deviation: 0.1,
            negatives,
            steps: fpl::Steps::Together,
        };
        let buffers = Buffers::new(&erased(client), 3, &layout());
        Worker::new(buffers, Policy::new(1.0).unwrap(), &layout())
    }

    /// Parts finish in this order; those that fail return their number as the round.
    fn reduced(order: [usize; 4], failing: &[usize]) -> (Result<ParticipationStats, FederationError>, WorkerPool, u64) {
        let mut into = Aggregate::new(&layout());
        let reduce = OrderedReduce::new(4, WorkerPool::default(), &mut into);
        for part in order {
            let mut sum = reduce.begin().1.unwrap_or_else(|| Aggregate::new(&layout()));
            assert_eq!(sum.updates, 0, "a sum is empty when it is taken");
            sum.updates = 1;
            let participation = if failing.contains(&part) {
                Err(FederationError::Nobody { round: part as u64, at: 0.0 })
            } else {
                // A sum of these three depends on their order.
                Ok(ParticipationStats { loss: [1e16, 1.0, -1e16, 0.5][part], ..ParticipationStats::default() })
            };
            reduce.end(part, worker(), participation, sum);
        }
        let (participation, pool) = reduce.finish();
        (participation, pool, into.updates)
    }

    #[test]
    fn parts_are_merged_in_order_whichever_finishes_first() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]] {
            let (participation, pool, updates) = reduced(order, &[]);
            assert_eq!((participation.unwrap().loss, updates), (1e16 + 1.0 - 1e16 + 0.5, 4));
            assert!(pool.sums.iter().all(|sum| sum.updates == 0) && !pool.sums.is_empty());
        }
    }

    #[test]
    fn returns_the_first_failure_in_order() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0]] {
            let (participation, pool, _) = reduced(order, &[1, 3]);
            assert!(matches!(participation, Err(FederationError::Nobody { round: 1, .. })));
            assert!(pool.sums.iter().all(|sum| sum.updates == 0));
        }
    }
}
