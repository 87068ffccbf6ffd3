//! Draws time and memory against devices from what `cargo xtask prove scale` measured:
//! `cargo run --example scale -- target/prove-scale/scale.tsv docs/images`.

use sottovoce_evaluate::report::Plot;
use sottovoce_evaluate::report::plot::{Axis, Series, Unit};
use std::error::Error;
use std::path::Path;

/// One line of the table.
struct Run {
    users: f64,
    streamed: bool,
    seconds: f64,
    bytes: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(table), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: scale TABLE.tsv FOLDER".into());
    };
    let runs = read(&std::fs::read_to_string(table)?)?;
    let devices = || Axis::new("devices").log();
    let seconds = Axis::new("CPU seconds of an epoch").log();
    let time = Plot::lines("Time of an epoch of pFPL+", devices(), seconds, series(&runs, |run| run.seconds));
    let bytes = Axis::new("peak memory").log().unit(Unit::Bytes);
    let memory = Plot::lines("Memory of an epoch of pFPL+", devices(), bytes, series(&runs, |run| run.bytes));
    for (name, plot) in [("scale-time.svg", time), ("scale-memory.svg", memory)] {
        std::fs::write(Path::new(&folder).join(name), plot.to_svg())?;
    }
    Ok(())
}

fn series(runs: &[Run], value: impl Fn(&Run) -> f64) -> Vec<Series> {
    let of = |name: &str, streamed: bool| {
        let own = runs.iter().filter(|run| run.streamed == streamed);
        Series::new(name, own.map(|run| (run.users, value(run))))
    };
    vec![of("histories in memory", false), of("histories in a file", true)]
}

fn read(text: &str) -> Result<Vec<Run>, Box<dyn Error>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    let place = |name: &str| {
        names.iter().position(|found| *found == name).ok_or_else(|| format!("the table has no column {name}"))
    };
    let (users, histories, cpu, mib) =
        (place("users")?, place("histories")?, place("cpu_seconds")?, place("peak_mib")?);
    let run = |line: &str| -> Result<Run, Box<dyn Error>> {
        let fields: Vec<&str> = line.split('\t').collect();
        let field = |place: usize| fields.get(place).copied().ok_or_else(|| format!("`{line}` is too short"));
        Ok(Run {
            users: field(users)?.parse()?,
            streamed: field(histories)? == "file",
            seconds: field(cpu)?.parse()?,
            bytes: field(mib)?.parse::<f64>()? * 1_048_576.0,
        })
    };
    lines.map(run).collect()
}
