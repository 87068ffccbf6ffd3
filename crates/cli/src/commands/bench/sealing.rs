//! What secure aggregation costs a device and the server, by the size of the cohort.

use super::Figure;
use super::work::Workbench;
use crate::measure::cpu_seconds;
use anyhow::Result;
use sottovoce_privacy::secagg;

/// Values of an update.
const VALUES: u32 = 100_000;
/// Devices of a round: the bound's, and some to see growth.
const COHORTS: [u32; 3] = [100, 300, 1000];
/// Share of the devices that is lost when it costs most: after they have shared.
const DROPOUT: f64 = 0.3;

/// One round in this process for each cohort; the sum is checked.
pub(super) fn secagg(bench: &Workbench) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for devices in COHORTS {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&bench.seed().to_le_bytes());
        let found = secagg::trial(devices, VALUES, DROPOUT, seed, &cpu_seconds)?;
        let what = |rest: &str| format!("{devices} devices x {VALUES} values, {}", rest);
        let neighbours = format!("{} neighbours, {} needed", found.parameters.neighbours, found.parameters.threshold);
        let slowest =
            Figure::new("secagg", what(&format!("a device ({neighbours})")), found.device_seconds.0, "CPU s");
        let bytes = Figure::new("secagg", what("bytes both ways"), found.expansion(), "x plain");
        let bounded = devices == COHORTS[0];
        figures.push(if bounded { slowest.bound("under 0.2") } else { slowest });
        figures.push(if bounded { bytes.bound("under 2") } else { bytes });
        figures.push(Figure::new("secagg", what("the server, 30 % lost"), found.server_seconds, "CPU s"));
    }
    Ok(figures)
}
