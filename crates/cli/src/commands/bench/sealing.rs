//! What seals cost: secure aggregation by the size of the cohort, encryption by scheme; and noise by value.

use super::Figure;
use super::work::Workbench;
use crate::measure::cpu_seconds;
use anyhow::Result;
use sottovoce_privacy::SecureRng;
use sottovoce_privacy::dp::noise::{DiscreteGaussian, Noise as _};
#[cfg(feature = "he")]
use sottovoce_testing::he_cost;
use sottovoce_testing::{keeper_cost, secagg_cost};

/// Values of an update.
const VALUES: u32 = 100_000;
/// Devices of a round: the bound's, and some to see growth.
const COHORTS: [u32; 3] = [100, 300, 1000];
/// Share of the devices that is lost when it costs most: after they have shared.
const DROPOUT: f64 = 0.3;

/// One round in this process for each cohort; the sum is checked.
pub(super) fn secagg(bench: &Workbench) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let plain = COHORTS.map(|devices| (devices, false));
    for (devices, signed) in plain.into_iter().chain([(COHORTS[0], true)]) {
        let found = secagg_cost::measure((devices, VALUES), DROPOUT, signed, seed(bench), &cpu_seconds)?;
        let known = if signed { " with identities" } else { "" };
        let what = |rest: &str| format!("{devices} devices{known} x {VALUES} values, {}", rest);
        let neighbours = format!("{} neighbours, {} needed", found.parameters.neighbours, found.parameters.threshold);
        let slowest = Figure::new("secagg", what(&format!("a device ({neighbours})")), found.device_seconds.0, "CPU s");
        let bytes = Figure::new("secagg", what("bytes both ways"), found.expansion(), "x plain");
        let bounded = devices == COHORTS[0];
        figures.push(if bounded { slowest.bound("under 0.2") } else { slowest });
        figures.push(if bounded { bytes.bound("under 2") } else { bytes });
        figures.push(Figure::new("secagg", what("the server, 30 % lost"), found.server_seconds, "CPU s"));
    }
    Ok(figures)
}

/// One round with a keeper for each cohort; the sum is checked.
pub(super) fn keeper(bench: &Workbench) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for devices in COHORTS {
        let found = keeper_cost::measure((devices, VALUES), seed(bench), &cpu_seconds)?;
        let what = |rest: &str| format!("{devices} devices x {VALUES} values, {rest}");
        let device = Figure::new("keeper", what("a device"), 1000.0 * found.device_seconds.0, "CPU ms");
        let keeper = Figure::new("keeper", what("the keeper"), found.keeper_seconds, "CPU s");
        let bounded = devices == COHORTS[2];
        figures.push(if bounded { device.bound("under 10") } else { device });
        figures.push(if bounded { keeper.bound("under 1") } else { keeper });
        figures.push(Figure::new("keeper", what("the server"), found.server_seconds, "CPU s"));
        figures.push(Figure::new("keeper", what("an upload"), found.expansion(), "x plain").bound("under 1.02"));
    }
    Ok(figures)
}

/// Clients and values of the bound.
#[cfg(feature = "he")]
const CLIENTS: u32 = 100;
#[cfg(feature = "he")]
const ENCRYPTED: usize = 50_000;

/// Both schemes; sums are checked.
#[cfg(feature = "he")]
pub(super) fn he(bench: &Workbench) -> Result<Vec<Figure>> {
    let found = he_cost::measure(CLIENTS, ENCRYPTED, seed(bench), &cpu_seconds)?;
    let mut figures = Vec::new();
    for (name, scheme) in [("BFV", found.bfv), ("CKKS-style", found.ckks)] {
        let what = |rest: &str| format!("{name}, N = {}, {} bits: {rest}", scheme.degree, scheme.modulus_bits);
        let sealing = what(&format!("a client, {ENCRYPTED} values"));
        figures.push(Figure::new("he", sealing, 1000.0 * scheme.seal_seconds.1, "CPU ms").bound("under 20"));
        figures.push(Figure::new("he", what("bytes a value"), scheme.bytes_per_value, "bytes").bound("under 20"));
        figures.push(Figure::new("he", what("adding one"), 1000.0 * scheme.add_seconds, "CPU ms"));
        figures.push(Figure::new("he", what("opening the sum"), 1000.0 * scheme.open_seconds, "CPU ms"));
        let error = Figure::new("he", what(&format!("error of the sum of {CLIENTS}")), scheme.error, "");
        figures.push(error.bound(if name == "BFV" { "0" } else { "1e-6" }));
    }
    Ok(figures)
}

/// Draws of a million.
const DRAWS: usize = 1_000_000;

/// Discrete Gaussian noise on integers.
pub(super) fn noise(bench: &Workbench) -> Result<Vec<Figure>> {
    let (mut generator, mut values) = (SecureRng::new(seed(bench)), vec![0i64; DRAWS]);
    let noise = DiscreteGaussian::new(1e6)?;
    let before = cpu_seconds();
    noise.add_to(&mut generator, &mut values);
    let nanoseconds = (cpu_seconds() - before) * 1e9 / DRAWS as f64;
    Ok(vec![Figure::new("noise", "a discrete Gaussian draw, sigma = 1e6", nanoseconds, "CPU ns")])
}

fn seed(bench: &Workbench) -> [u8; 32] {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&bench.seed.to_le_bytes());
    seed
}
