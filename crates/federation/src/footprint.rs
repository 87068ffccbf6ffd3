//! What training takes of a device: CPU time by the clock of its thread, beside the sizes of what it holds.
//!
//! It is measured for reports. Nothing else depends on it.

use rustix::time::{ClockId, clock_gettime};

/// CPU time of simulated devices in training.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrainingTime {
    seconds: f64,
    devices: u64,
    samples: u64,
}

impl TrainingTime {
    /// Measures the training of a device.
    pub(crate) fn measure<T>(&mut self, train: impl FnOnce() -> T) -> T {
        let before = cpu_seconds();
        let trained = train();
        self.seconds += cpu_seconds() - before;
        trained
    }

    /// Counts a device that has trained on so many samples.
    pub(crate) fn count(&mut self, samples: u64) {
        self.devices += 1;
        self.samples += samples;
    }

    /// Of several workers.
    pub(crate) fn sum(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::default(), |sum, each| Self {
            seconds: sum.seconds + each.seconds,
            devices: sum.devices + each.devices,
            samples: sum.samples + each.samples,
        })
    }

    /// Seconds of a device in a round; `None` if none trained.
    pub(crate) fn of_round(&self) -> Option<f64> {
        (self.devices > 0).then(|| self.seconds / self.devices as f64)
    }

    /// Seconds of so many samples.
    pub(crate) fn of_samples(&self, samples: usize) -> Option<f64> {
        (self.samples > 0).then(|| self.seconds / self.samples as f64 * samples as f64)
    }
}

/// CPU seconds that this thread has used.
fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}
