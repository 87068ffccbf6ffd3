//! Settings of who is asked and of what devices are like, the same for every model trained in a federation.

use crate::{Availability, Diurnal, Federation, FederationError, Fleet, DeviceProfile, RoundRules, Trace};
use sottovoce_core::Names;
use sottovoce_models::settings::{Setting, Settings};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// How cohorts are drawn and rounds end, and how simulated devices behave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParticipationConfig {
    selection: Selection,
    rules: RoundRules,
    reachability: Reachability,
    /// With everybody there.
    profile: DeviceProfile,
}

/// By what cohorts are drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Selection {
    Uniform,
    /// By the length of the history.
    History,
    /// By weights from a file.
    Weights(PathBuf),
}

/// When devices are there.
#[derive(Clone, Debug, PartialEq)]
enum Reachability {
    Always,
    Diurnal(Diurnal),
    Trace(PathBuf),
}

impl ParticipationConfig {
    /// Their definitions.
    pub(crate) fn settings() -> Vec<Setting> {
        let mut all = asking();
        all.extend(devices());
        all
    }

    /// Definitions of those that only simulated devices have, or that need to know their histories.
    pub(crate) fn of_devices() -> Vec<Setting> {
        let histories = |setting: &Setting| ["selection", "weights_file"].contains(&setting.key);
        asking().into_iter().filter(histories).chain(devices()).collect()
    }

    /// The server's rules.
    pub(crate) fn rules(&self) -> RoundRules {
        self.rules
    }

    /// Whether all devices are as likely to be asked.
    pub(crate) fn is_uniform(&self) -> bool {
        self.selection == Selection::Uniform
    }

    /// From checked settings.
    pub(crate) fn read(settings: &Settings) -> Self {
        let file = |key| PathBuf::from(settings.word(key));
        let above_0 = |key| Some(settings.real(key)).filter(|&value| value > 0.0);
        Self {
            selection: match settings.word("selection") {
                "history" => Selection::History,
                "weights" => Selection::Weights(file("weights_file")),
                _ => Selection::Uniform,
            },
            rules: RoundRules {
                over_selection: settings.real("over_selection"),
                deadline: above_0("deadline"),
            },
            reachability: match settings.word("availability") {
                "diurnal" => {
                    let (hours, spread) =
                        (settings.real("available_hours"), settings.real("available_spread"));
                    Reachability::Diurnal(Diurnal { hours, spread })
                }
                "trace" => Reachability::Trace(file("trace_file")),
                _ => Reachability::Always,
            },
            profile: DeviceProfile {
                availability: Availability::Always,
                dropout: settings.real("dropout"),
                never_return: settings.real("never_return"),
                device_seconds: settings.real("device_seconds"),
                straggler_spread: settings.real("straggler_spread"),
            },
        }
    }

    /// What devices are like.
    pub(crate) fn profile(&self) -> Result<DeviceProfile, FederationError> {
        let availability = match &self.reachability {
            Reachability::Always => Availability::Always,
            Reachability::Diurnal(diurnal) => Availability::Diurnal(*diurnal),
            Reachability::Trace(path) => {
                let trace = Trace::parse(&text(path, "trace_file", "availability = trace")?);
                Availability::Traced(trace.map_err(|error| in_file(path, &error.to_string()))?)
            }
        };
        Ok(DeviceProfile { availability, ..self.profile.clone() })
    }

    /// Makes a federation draw cohorts and end rounds accordingly; `lengths` says how many items each person has, and
    /// `devices` which of them can learn.
    pub(crate) fn apply<F: Fleet>(
        &self,
        federation: Federation<F>,
        (lengths, devices): (&[u32], &[u32]),
        users: Option<&Names>,
    ) -> Result<Federation<F>, FederationError> {
        let federation = federation.with_rules(self.rules);
        match &self.selection {
            Selection::Uniform => Ok(federation),
            Selection::History => {
                let length = |&device: &u32| f64::from(lengths[device as usize]);
                federation.weighting(&devices.iter().map(length).collect::<Vec<_>>())
            }
            Selection::Weights(path) => {
                let text = text(path, "weights_file", "selection = weights")?;
                let weights = weights(&text, lengths.len(), users).map_err(|error| in_file(path, &error))?;
                let own: Vec<f64> = devices.iter().map(|&device| weights[device as usize]).collect();
                federation.weighting(&own).map_err(|error| in_file(path, &error.to_string()))
            }
        }
    }
}

fn asking() -> Vec<Setting> {
    vec![
        Setting::choice(
            "selection",
            &["uniform", "history", "weights"],
            "How cohorts are drawn: all devices as likely, by the length of the history, or by weights from a file",
        ),
        Setting::text(
            "weights_file",
            "With selection = weights: lines `user weight`; users not named have weight 0",
        ),
        Setting::real("over_selection", 1.0, 1.0..=10.0, "Devices asked for each update that is wanted"),
        Setting::real(
            "deadline",
            0.0,
            0.0..=1e7,
            "Virtual seconds after which a round is over; 0: it waits for all",
        ),
    ]
}

fn devices() -> Vec<Setting> {
    vec![
        Setting::choice(
            "availability",
            &["always", "diurnal", "trace"],
            "When devices can be reached: always, some hours every night, or as a file has it",
        ),
        Setting::real("available_hours", 8.0, 0.1..=24.0, "With availability = diurnal: hours a day"),
        Setting::real(
            "available_spread",
            3.0,
            0.0..=12.0,
            "With availability = diurnal: standard deviation in hours of their middle, around 2 in the morning",
        ),
        Setting::text(
            "trace_file",
            "With availability = trace: lines `device start end`, in virtual seconds",
        ),
        Setting::real(
            "dropout",
            0.0,
            0.0..=1.0,
            "Probability that a device's update is lost, each round anew",
        ),
        Setting::real("never_return", 0.0, 0.0..=1.0, "Share of devices whose updates are always lost"),
        Setting::real(
            "device_seconds",
            60.0,
            0.001..=1e6,
            "Virtual seconds that a device of middling speed takes for its part of a round",
        )
        .on_log_scale(),
        Setting::real(
            "straggler_spread",
            0.0,
            0.0..=5.0,
            "How unlike devices' speeds are: standard deviation of the logarithm of the time they take",
        ),
    ]
}

fn in_file(path: &Path, reason: &str) -> FederationError {
    FederationError::File { path: path.display().to_string(), reason: reason.to_owned() }
}

fn text(path: &Path, key: &str, needed_by: &str) -> Result<String, FederationError> {
    if path.as_os_str().is_empty() {
        return Err(FederationError::NoFile { key: key.to_owned(), needed_by: needed_by.to_owned() });
    }
    std::fs::read_to_string(path).map_err(|error| in_file(path, &error.to_string()))
}

/// Reads lines `user weight`, with users by name, or by number from 0 where there are no names.
fn weights(text: &str, users: usize, names: Option<&Names>) -> Result<Vec<f64>, String> {
    let places: HashMap<&str, usize> = names
        .map(|names| names.iter().enumerate().map(|(place, name)| (name, place)).collect())
        .unwrap_or_default();
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
        let place = match names {
            Some(_) => places.get(user).copied(),
            None => user.parse().ok().filter(|&place| place < users),
        };
        let place = place.ok_or_else(|| wrong(format!("there is no user `{user}`")))?;
        weights[place] = match weight.parse::<f64>() {
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
    fn weights_are_read_by_name_or_by_number() {
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
