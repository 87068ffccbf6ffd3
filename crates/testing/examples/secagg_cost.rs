//! Prints what a round of secure aggregation costs: `secagg_cost <devices> <values> [drop-out share] [identities]`, or
//! with a keeper: `secagg_cost <devices> <values> keeper`.

use rustix::time::{ClockId, clock_gettime};
use sottovoce_testing::keeper_cost;
use sottovoce_testing::secagg_cost::measure;

/// Processor time of this process, which other processes do not lengthen.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: f64| given.get(at).map_or(Ok(otherwise), |text| text.parse::<f64>());
    if given.get(2).is_some_and(|word| word == "keeper") {
        let (devices, values) = (number(0, 0.0)?, number(1, 0.0)?);
        let found = keeper_cost::measure((devices as u32, values as u32), [1; 32], &processor_seconds)?;
        let (longest, mean) = found.device_seconds;
        println!("devices {devices}, values {values}: {} bytes an upload", found.upload_bytes);
        println!("CPU seconds a device: longest {longest:.4}, mean {mean:.4}");
        println!("CPU seconds: keeper {:.3}, server {:.3}", found.keeper_seconds, found.server_seconds);
        println!("{:.5} times the plain bytes; {} between the two", found.expansion(), found.keeper_bytes);
        return Ok(());
    }
    let (devices, values, lost) = (number(0, 100.0)?, number(1, 100_000.0)?, number(2, 0.3)?);
    let signed = match given.get(3).map(String::as_str) {
        None => false,
        Some("identities") => true,
        Some(other) => return Err(format!("{other:?} is not `identities`").into()),
    };
    let figures = measure((devices as u32, values as u32), lost, signed, [1; 32], &processor_seconds)?;
    let parameters = &figures.parameters;
    println!("devices {devices}, values {values}, counted {}", figures.counted);
    println!(
        "neighbours {}, threshold {}, threat_model {:?}",
        parameters.neighbours, parameters.threshold, parameters.threat_model
    );
    println!("chance of exposure {:.1e}, of an abort {:.1e}", parameters.exposure, parameters.abort);
    let (longest, mean) = figures.device_seconds;
    println!("CPU seconds a device: longest {longest:.4}, mean {mean:.4}");
    println!("CPU seconds at the server: {:.3}, unmasking {:.3}", figures.server_seconds, figures.unmask_seconds);
    for (name, step) in ["advertise", "share", "mask", "confirm", "unmask"].iter().zip(figures.steps) {
        println!("{name}: {:.0} bytes up, {:.0} down", step.up, step.down);
    }
    println!("{:.3} times the plain bytes", figures.expansion());
    Ok(())
}
