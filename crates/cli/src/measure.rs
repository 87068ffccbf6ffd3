//! Time and memory of this process.

use rustix::time::{ClockId, clock_gettime};

/// CPU seconds that all threads of this process have used.
pub(crate) fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Peak memory of this process, where the system reports it.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_cpu_time() {
        let before = cpu_seconds();
        let sum = (0..20_000_000u64).fold(0, |sum, x| std::hint::black_box(sum ^ x));
        assert!(cpu_seconds() > before, "{sum}");
    }
}
