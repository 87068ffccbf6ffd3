//! Threads that let devices work, each when it is due.

use super::Shared;
use crate::progress::Bar;
use anyhow::{Result, bail};
use sottovoce_device::{Device, Next, Rest, Transport};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A device is not asked more often than this, whatever the server says.
const LEAST_REST: Duration = Duration::from_millis(20);
/// How long a worker sleeps when nothing is due.
const NAP: Duration = Duration::from_millis(2);

/// What a fleet did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) updates: u64,
    pub(super) dropped: u64,
    pub(super) declined: u64,
    pub(super) failures: u64,
    /// The latest round answered.
    pub(super) round: u64,
}

/// Devices and when they are due.
pub(super) struct Work {
    devices: Vec<Shared>,
    due: Mutex<Due>,
    start: Instant,
    end: Option<Duration>,
}

struct Due {
    queue: BinaryHeap<Reverse<(Duration, usize)>>,
    /// Devices that have not come to their end.
    left: usize,
    total: Total,
    failure: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Work {
    pub(super) fn new(devices: Vec<Device>, start: Instant, end: Option<Duration>) -> Self {
        let queue = (0..devices.len()).map(|place| Reverse((Duration::ZERO, place))).collect();
        let due = Due { queue, left: devices.len(), total: Total::default(), failure: None };
        Self { devices: devices.into_iter().map(Mutex::new).collect(), due: Mutex::new(due), start, end }
    }

    fn is_over(&self) -> bool {
        let due = lock(&self.due);
        due.left == 0 || due.failure.is_some() || self.end.is_some_and(|end| self.start.elapsed() >= end)
    }

    /// A device that is due, if there is one.
    fn take(&self) -> Option<usize> {
        let mut due = lock(&self.due);
        let Reverse((at, place)) = *due.queue.peek()?;
        if at > self.start.elapsed() {
            return None;
        }
        due.queue.pop();
        Some(place)
    }

    fn work(&self, transport: &dyn Transport) {
        while !self.is_over() {
            let Some(place) = self.take() else {
                std::thread::sleep(NAP);
                continue;
            };
            let next = lock(&self.devices[place]).step(transport, self.start.elapsed());
            let mut due = lock(&self.due);
            match next {
                Ok(next) => due.after(next, place, self.start.elapsed()),
                Err(error) => due.failure = Some(error.to_string()),
            }
        }
    }
}

impl Due {
    fn after(&mut self, next: Next, place: usize, now: Duration) {
        let (wait, rest) = match next {
            Next::After(wait, rest) => (wait, rest),
            Next::Never(end) => {
                self.failure = Some(format!("a device was sent away: {end}"));
                return;
            }
        };
        match rest {
            Rest::Done { round } => {
                self.total.updates += 1;
                self.total.round = self.total.round.max(round);
            }
            Rest::Dropped { .. } => self.total.dropped += 1,
            Rest::Declined { .. } => self.total.declined += 1,
            Rest::Failed { .. } => self.total.failures += 1,
            Rest::Idle { state } if state == "finished" => {
                self.left -= 1;
                return;
            }
            _ => (),
        }
        self.queue.push(Reverse((now + wait.max(LEAST_REST), place)));
    }
}

/// Works until the federation is finished, or time is over.
pub(super) fn run(work: &Work, transport: &dyn Transport, threads: usize, bar: &mut Bar) -> Result<Total> {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work.work(transport));
        }
        while !work.is_over() {
            std::thread::sleep(Duration::from_millis(50));
            let round = lock(&work.due).total.round;
            bar.say(&format!("round {round}"));
            bar.tick();
        }
    });
    let due = lock(&work.due);
    match &due.failure {
        Some(failure) => bail!("{failure}"),
        None => Ok(due.total),
    }
}
