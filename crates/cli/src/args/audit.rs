//! `audit`.

use super::{ModelSettings, Preparing};
use clap::{ArgAction, Args};
use sottovoce_audit::View;
use sottovoce_models::settings::Value;
use std::path::PathBuf;

/// `audit`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sottovoce audit --model fpl --data ml-100k --min-interactions 21 --set pi=0.5
  sottovoce audit --model fpl --data synth:town --set cohort=100 --view sums
  sottovoce audit --model fpl --data ml-100k --sweep pi=0,0.1,0.5,1 \\
      --sweep negatives=decoys,papers --out runs/audit
  sottovoce audit --uploads uploads --devices devices.tsv --data ml-100k

Trains in a simulation and reconstructs users' histories from what their devices sent, by several attacks, next to a popularity \
baseline that needs no uploads. docs/privacy.md explains the numbers.")]
pub(crate) struct Audit {
    /// Name of a federated model
    #[arg(long, value_name = "NAME", required_unless_present = "uploads")]
    pub(crate) model: Option<String>,
    /// Audit the uploads that a server retained in this folder, instead of training
    #[arg(long, value_name = "DIR", conflicts_with_all = ["model", "settings", "sweep"])]
    pub(crate) uploads: Option<PathBuf>,
    /// Owners of the devices: lines of a device number, a tab and a user id [default: devices are numbered as users
    /// are]
    #[arg(long, value_name = "FILE", requires = "uploads")]
    pub(crate) devices: Option<PathBuf>,
    /// A file, a folder, a bare name, synth:town[:users=N], or clicks such as synth:clicks[:users=N]
    #[arg(long, value_name = "DATA")]
    pub(crate) data: String,
    /// DATA is a click log, with categories of this taxonomy (`own`: its own)
    #[arg(long, value_name = "FILE", conflicts_with = "uploads")]
    pub(crate) taxonomy: Option<String>,
    #[command(flatten)]
    pub(crate) settings: ModelSettings,
    /// What the server sees: single `uploads`, or only `sums` of rounds, as under secure aggregation
    #[arg(long, value_name = "VIEW", default_value = "uploads")]
    pub(crate) view: View,
    /// Number of users to attack, drawn by the seed
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    pub(crate) people: u32,
    /// Repeat the audit for each of these values of a setting; repeatable
    #[arg(long, value_name = "KEY=V,V..", value_parser = sweep, action = ArgAction::Append)]
    pub(crate) sweep: Vec<Sweep>,
    /// Rounds after which attacks are evaluated [default: 1, 2, 5, 10, 20, 50, ..]
    #[arg(long, value_name = "N,N..", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: Vec<u64>,
    /// Folder for the report, the tables and the values of each user
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) preparing: Preparing,
}

/// The values of a swept setting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sweep {
    pub(crate) key: String,
    pub(crate) values: Vec<Value>,
}

fn sweep(text: &str) -> Result<Sweep, String> {
    let wrong = || format!("`{text}` is not KEY=VALUE,VALUE..");
    let (key, values) = text.split_once('=').ok_or_else(wrong)?;
    let (key, values): (&str, Vec<&str>) = (key.trim(), values.split(',').map(str::trim).collect());
    if key.is_empty() || values.iter().any(|value| value.is_empty()) {
        return Err(wrong());
    }
    Ok(Sweep { key: key.to_owned(), values: values.into_iter().map(Value::parse).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_values_of_a_sweep() {
        let parsed = sweep("pi=0, 0.5,1").unwrap();
        assert_eq!(parsed.values, [Value::Integer(0), Value::Real(0.5), Value::Integer(1)]);
        assert!(sweep("pi").is_err() && sweep("pi=").is_err() && sweep("=1").is_err());
        assert!(sweep("pi=1,,2").is_err());
    }
}
