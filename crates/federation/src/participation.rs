//! Settings of participation: who is asked, when a round ends, and what simulated devices are like.

use crate::{Availability, Coordinator, DeviceProfile, Diurnal, FederationError, Trace};
use sottovoce_core::Names;
use sottovoce_models::{choices, config};
use std::collections::HashMap;

choices! {
    /// How cohorts are drawn.
    #[derive(Default)]
    pub(crate) enum Selection {
        /// All devices are equally likely.
        #[default]
        Uniform => "uniform",
        /// By the length of the history.
        History => "history",
        /// By weights from a file.
        Weights => "weights",
    }
}

choices! {
    /// When simulated devices can be reached.
    #[derive(Default)]
    pub(crate) enum AvailabilityKind {
        /// Always.
        #[default]
        Always => "always",
        /// Some hours every night.
        Diurnal => "diurnal",
        /// As recorded in a file.
        Trace => "trace",
    }
}

config! {
    /// What simulated devices are like, and how they are drawn where that depends on them.
    pub(crate) struct SimulatedParticipation in Devices {
        /// How cohorts are drawn: uniformly, by the length of the history, or by weights from a file
        selection: Selection = Selection::Uniform;
        /// With selection = weights: lines `user weight`; users not named have weight 0
        weights_file: String = String::new();
        /// When devices can be reached: always, some hours every night, or as recorded in a file
        availability: AvailabilityKind = AvailabilityKind::Always;
        /// With availability = diurnal: hours a day
        available_hours: f64 = 8.0, in 0.1..=24.0;
        /// With availability = diurnal: standard deviation in hours of their middle, around 2 in the morning
        available_spread: f64 = 3.0, in 0.0..=12.0;
        /// With availability = trace: lines `device start end`, in virtual seconds
        trace_file: String = String::new();
        /// Probability that a device's update is lost, drawn anew each round
        dropout: f64 = 0.0, in 0.0..=1.0;
        /// Fraction of devices whose updates are always lost
        never_return: f64 = 0.0, in 0.0..=1.0;
        /// Virtual seconds that a device of median speed takes for its part of a round
        device_seconds: f64 = 60.0, in 0.001..=1e6 => [log];
        /// Spread of devices' speeds: standard deviation of the logarithm of the time they take
        straggler_spread: f64 = 0.0, in 0.0..=5.0;
    }
}

impl SimulatedParticipation {
    /// Whether all devices are equally likely to be asked.
    pub(crate) fn is_uniform(&self) -> bool {
        self.selection == Selection::Uniform
    }

    /// What devices are like.
    pub(crate) fn device_profile(&self) -> Result<DeviceProfile, FederationError> {
        let availability = match self.availability {
            AvailabilityKind::Always => Availability::Always,
            AvailabilityKind::Diurnal => {
                Availability::Diurnal(Diurnal { hours: self.available_hours, spread: self.available_spread })
            }
            AvailabilityKind::Trace => {
                let path = &self.trace_file;
                let trace = Trace::parse(&text(path, "trace_file", "availability = trace")?);
                Availability::Traced(trace.map_err(|error| in_file(path, &error.to_string()))?)
            }
        };
        let &Self { dropout, never_return, device_seconds, straggler_spread, .. } = self;
        Ok(DeviceProfile { availability, dropout, never_return, device_seconds, straggler_spread })
    }

    /// Makes a coordinator draw cohorts accordingly; `lengths` says how many items each user has, and `devices` which
    /// of them can learn.
    pub(crate) fn apply(
        &self,
        coordinator: Coordinator,
        (lengths, devices): (&[u32], &[u32]),
        users: Option<&Names>,
    ) -> Result<Coordinator, FederationError> {
        match self.selection {
            Selection::Uniform => Ok(coordinator),
            Selection::History => {
                let length = |&device: &u32| f64::from(lengths[device as usize]);
                coordinator.with_weights(&devices.iter().map(length).collect::<Vec<_>>())
            }
            Selection::Weights => {
                let path = &self.weights_file;
                let text = text(path, "weights_file", "selection = weights")?;
                let weights = weights(&text, lengths.len(), users).map_err(|error| in_file(path, &error))?;
                let own: Vec<f64> = devices.iter().map(|&device| weights[device as usize]).collect();
                coordinator.with_weights(&own).map_err(|error| in_file(path, &error.to_string()))
            }
        }
    }
}

fn in_file(path: &str, reason: &str) -> FederationError {
    FederationError::File(format!("{path}: {reason}"))
}

fn text(path: &str, key: &str, needed_by: &str) -> Result<String, FederationError> {
    if path.is_empty() {
        return Err(FederationError::File(format!("{needed_by} needs {key}: the file to read")));
    }
    std::fs::read_to_string(path).map_err(|error| in_file(path, &error.to_string()))
}

/// Reads lines `user weight`, with users by name, or by number from 0 where there are no names.
fn weights(text: &str, users: usize, names: Option<&Names>) -> Result<Vec<f64>, String> {
    let indices: HashMap<&str, usize> =
        names.map(|names| names.iter().enumerate().map(|(index, name)| (name, index)).collect()).unwrap_or_default();
    let mut weights = vec![0.0; users];
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |reason: String| format!("line {}: {reason}", number + 1);
        let split = line.rsplit_once(|c: char| c.is_whitespace() || c == ',');
        let (user, weight) = split.ok_or_else(|| wrong(format!("expected `user weight`, found `{line}`")))?;
        let user = user.trim_end_matches(|c: char| c.is_whitespace() || c == ',');
        let index = match names {
            Some(_) => indices.get(user).copied(),
            None => user.parse().ok().filter(|&index| index < users),
        };
        let index = index.ok_or_else(|| wrong(format!("there is no user `{user}`")))?;
        weights[index] = match weight.parse::<f64>() {
            Ok(weight) if weight.is_finite() && weight >= 0.0 => weight,
            _ => return Err(wrong(format!("weight `{weight}` is not a number of at least 0"))),
        };
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_weights_by_name_or_number() {
        let names: Names = ["ann", "bob b", "cy"].into_iter().collect();
        let text = "# who\nbob b\t2.5\n\nann,1\n";
        assert_eq!(weights(text, 3, Some(&names)).unwrap(), [1.0, 2.5, 0.0]);
        assert_eq!(weights("2 4\n0 1e-3", 3, None).unwrap(), [0.001, 0.0, 4.0]);
        let wrong = |text, names| weights(text, 3, names).unwrap_err();
        assert_eq!(wrong("ann 1\ndan 2", Some(&names)), "line 2: there is no user `dan`");
        assert_eq!(wrong("3 1", None), "line 1: there is no user `3`");
        assert_eq!(wrong("ann -1", Some(&names)), "line 1: weight `-1` is not a number of at least 0");
        assert_eq!(wrong("ann", Some(&names)), "line 1: expected `user weight`, found `ann`");
    }
}
