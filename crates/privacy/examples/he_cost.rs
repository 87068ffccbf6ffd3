//! Prints what additive encryption costs: `he_cost <clients> <values>`.

use rustix::time::{ClockId, clock_gettime};
use sottovoce_privacy::he::trial;

/// Processor time of this process, which other processes do not lengthen.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, otherwise: usize| given.get(at).map_or(Ok(otherwise), |text| text.parse::<usize>());
    let figures = trial(number(0, 100)? as u32, number(1, 50_000)?, [1; 32], &processor_seconds)?;
    for (name, scheme) in [("bfv", &figures.bfv), ("ckks", &figures.ckks)] {
        let (longest, mean) = scheme.seal_seconds;
        println!("{name}: degree {}, modulus of {} bits", scheme.degree, scheme.modulus_bits);
        println!("  CPU ms a client: longest {:.2}, mean {:.2}", 1e3 * longest, 1e3 * mean);
        println!(
            "  CPU ms for reading and adding one: {:.2}, for opening the sum: {:.2}",
            1e3 * scheme.add_seconds,
            1e3 * scheme.open_seconds
        );
        println!("  {:.2} bytes a value, largest error {:e}", scheme.bytes_per_value, scheme.error);
    }
    println!("flooding hides the key to 2^-{:.1}", figures.statistical_bits);
    Ok(())
}
