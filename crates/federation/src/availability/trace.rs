//! Recorded availability.

use std::collections::HashMap;
use thiserror::Error;

/// When devices of a recorded population could be reached. Devices of a simulation take the recorded ones in turn: the
/// first has the first one's times, and so on, and around. A trace that is over begins again.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Where each recorded device's times end in `times`.
    ends: Vec<usize>,
    /// Start and end, in seconds; those of a device ascend and do not overlap.
    times: Vec<(f64, f64)>,
    /// The last end.
    period: f64,
}

/// Why a text is no trace.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TraceError {
    /// A line that cannot be read.
    #[error("line {line}: {reason}")]
    Line {
        /// From 1.
        line: usize,
        /// What was expected and found.
        reason: String,
    },
    /// No line at all.
    #[error("it has no line `device start end`")]
    Empty,
}

impl Trace {
    /// Reads lines `device start end`, parted by spaces, tabs or commas, in seconds. Empty lines and those that begin
    /// with `#` are passed over. A device may have many lines, in any order.
    ///
    /// # Errors
    /// If a line cannot be read, or there is none.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut known: HashMap<&str, usize> = HashMap::new();
        let mut devices: Vec<Vec<(f64, f64)>> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let (name, times) =
                interval(line).map_err(|reason| TraceError::Line { line: number + 1, reason })?;
            let index = *known.entry(name).or_insert_with(|| {
                devices.push(Vec::new());
                devices.len() - 1
            });
            devices[index].push(times);
        }
        if devices.is_empty() { Err(TraceError::Empty) } else { Ok(Self::of(devices)) }
    }

    fn of(devices: Vec<Vec<(f64, f64)>>) -> Self {
        let (mut ends, mut times, mut period) = (Vec::new(), Vec::<(f64, f64)>::new(), 0.0f64);
        for mut own in devices {
            own.sort_by(|a, b| a.0.total_cmp(&b.0));
            let first = times.len();
            for (start, end) in own {
                period = period.max(end);
                match times[first..].last_mut() {
                    Some(last) if start <= last.1 => last.1 = last.1.max(end),
                    _ => times.push((start, end)),
                }
            }
            ends.push(times.len());
        }
        Self { ends, times, period }
    }

    /// Seconds from `at` until a device can be reached; 0 if it can.
    pub(super) fn wait(&self, device: u32, at: f64) -> Option<f64> {
        let index = device as usize % self.ends.len();
        let first = if index == 0 { 0 } else { self.ends[index - 1] };
        let own = &self.times[first..self.ends[index]];
        let now = at.rem_euclid(self.period);
        let next = own.partition_point(|&(_, end)| end <= now);
        match own.get(next) {
            Some(&(start, _)) => Some((start - now).max(0.0)),
            None => own.first().map(|&(start, _)| self.period - now + start),
        }
    }
}

fn interval(line: &str) -> Result<(&str, (f64, f64)), String> {
    let parts = |c: char| c.is_whitespace() || c == ',';
    let fields: Vec<&str> = line.split(parts).filter(|field| !field.is_empty()).collect();
    let [device, start, end] = fields[..] else {
        return Err(format!("expected `device start end`, found {} fields", fields.len()));
    };
    let seconds = |what: &str, text: &str| match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(format!("{what} `{text}` is not a number of seconds of at least 0")),
    };
    let (start, end) = (seconds("start", start)?, seconds("end", end)?);
    if end <= start {
        return Err(format!("end {end} is not after start {start}"));
    }
    Ok((device, (start, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# phones\n a 10 20\nb,0,5\n\na\t40\t50\na 15 30\n";

    #[test]
    fn devices_take_recorded_ones_in_turn_and_the_trace_repeats() {
        let trace = Trace::parse(TEXT).unwrap();
        let waits = |device, times: &[f64]| -> Vec<f64> {
            times.iter().map(|&at| trace.wait(device, at).unwrap()).collect()
        };
        // a: 10-30 and 40-50; b: 0-5; period 50.
        assert_eq!(
            waits(0, &[0.0, 10.0, 29.9, 30.0, 45.0, 50.0, 60.0]),
            [10.0, 0.0, 0.0, 10.0, 0.0, 10.0, 0.0]
        );
        assert_eq!(waits(1, &[0.0, 5.0, 49.0, 50.0]), [0.0, 45.0, 1.0, 0.0]);
        assert_eq!(waits(2, &[0.0]), waits(0, &[0.0]));
    }

    #[test]
    fn wrong_lines_are_named() {
        let wrong = |text| Trace::parse(text).unwrap_err().to_string();
        assert_eq!(wrong("a 1 2\nb 3"), "line 2: expected `device start end`, found 2 fields");
        assert_eq!(wrong("a 1 x"), "line 1: end `x` is not a number of seconds of at least 0");
        assert_eq!(wrong("a -1 2"), "line 1: start `-1` is not a number of seconds of at least 0");
        assert_eq!(wrong("a 5 5"), "line 1: end 5 is not after start 5");
        assert_eq!(wrong("# nobody\n"), "it has no line `device start end`");
    }
}
