//! Threads that step each device when it is due.

use crate::progress::Bar;
use anyhow::{Result, bail};
use sottovoce_device::{Device, NextStep, Transport, WaitReason};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The shortest pause between two steps of a device, whatever the server says.
const MIN_PAUSE: Duration = Duration::from_millis(20);
/// How long a worker sleeps when no device is due.
const IDLE_PAUSE: Duration = Duration::from_millis(2);

/// What a fleet has done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) updates: u64,
    pub(super) dropped: u64,
    pub(super) declined: u64,
    pub(super) failures: u64,
    /// The latest round answered.
    pub(super) round: u64,
}

/// Devices, and when each is due.
pub(super) struct Plan {
    devices: Vec<Mutex<Device>>,
    due: Mutex<Due>,
    start: Instant,
    /// The time since 1970 at the start.
    since_1970: Duration,
    end: Option<Duration>,
}

struct Due {
    queue: BinaryHeap<Reverse<(Duration, usize)>>,
    /// Devices that are not finished.
    left: usize,
    total: Total,
    failure: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plan {
    pub(super) fn new(devices: Vec<Device>, start: Instant, end: Option<Duration>) -> Self {
        let queue = (0..devices.len()).map(|index| Reverse((Duration::ZERO, index))).collect();
        let due = Due { queue, left: devices.len(), total: Total::default(), failure: None };
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { devices: devices.into_iter().map(Mutex::new).collect(), due: Mutex::new(due), start, since_1970, end }
    }

    fn is_over(&self) -> bool {
        let due = lock(&self.due);
        due.left == 0 || due.failure.is_some() || self.end.is_some_and(|end| self.start.elapsed() >= end)
    }

    /// A device that is due, if there is one.
    fn take(&self) -> Option<usize> {
        let mut due = lock(&self.due);
        let Reverse((at, index)) = *due.queue.peek()?;
        if at > self.start.elapsed() {
            return None;
        }
        due.queue.pop();
        Some(index)
    }

    fn work(&self, transport: &dyn Transport) {
        while !self.is_over() {
            let Some(index) = self.take() else {
                std::thread::sleep(IDLE_PAUSE);
                continue;
            };
            let now = self.since_1970 + self.start.elapsed();
            let next = lock(&self.devices[index]).step(transport, now);
            let mut due = lock(&self.due);
            match next {
                Ok(next) => due.after(next, index, self.start.elapsed()),
                Err(error) => due.failure = Some(error.to_string()),
            }
        }
    }
}

impl Due {
    fn after(&mut self, next: NextStep, index: usize, now: Duration) {
        let (wait, rest) = match next {
            NextStep::Wait(wait, rest) => (wait, rest),
            NextStep::Stop(end) => {
                self.failure = Some(format!("a device was rejected: {end}"));
                return;
            }
        };
        match rest {
            WaitReason::UpdateAccepted { round } => {
                self.total.updates += 1;
                self.total.round = self.total.round.max(round);
            }
            WaitReason::UpdateRejected { .. } => self.total.dropped += 1,
            WaitReason::Declined { .. } => self.total.declined += 1,
            WaitReason::Failed { .. } => self.total.failures += 1,
            WaitReason::NoRound { state } if state == "finished" => {
                self.left -= 1;
                return;
            }
            _ => (),
        }
        self.queue.push(Reverse((now + wait.max(MIN_PAUSE), index)));
    }
}

/// Runs until the federation is finished, or the time is up.
pub(super) fn run(schedule: &Plan, transport: &dyn Transport, threads: usize, bar: &mut Bar) -> Result<Total> {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| schedule.work(transport));
        }
        while !schedule.is_over() {
            std::thread::sleep(Duration::from_millis(50));
            let round = lock(&schedule.due).total.round;
            bar.say(&format!("round {round}"));
            bar.tick();
        }
    });
    let due = lock(&schedule.due);
    match &due.failure {
        Some(failure) => bail!("{failure}"),
        None => Ok(due.total),
    }
}
