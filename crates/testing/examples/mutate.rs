//! Damages examples of every format and checks that nothing panics:
//! `cargo run --release -p sottovoce-testing --features mutation --example mutate -- 1000000 [SEED]`
//!
//! A case that panics is written to `mutate-found/`, and the program ends with 1.
#![allow(clippy::print_stdout, reason = "a program for people")]

use sottovoce_testing::mutation::run;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Ok(count), Ok(seed)) = (arguments.next().unwrap_or(Ok(100_000)), arguments.next().unwrap_or(Ok(1))) else {
        println!("usage: mutate [COUNT] [SEED]");
        return ExitCode::from(2);
    };
    match run(count, seed) {
        Ok(tally) => {
            println!("{count} cases: {} loaded, {} refused, no panic", tally.loaded, tally.refused);
            ExitCode::SUCCESS
        }
        Err(found) => {
            println!("case {} of seed {seed} panics", found.number);
            for (name, bytes) in &found.case.files {
                let written = std::fs::create_dir_all("mutate-found")
                    .and_then(|()| std::fs::write(format!("mutate-found/{name}"), bytes));
                println!("mutate-found/{name}: {written:?}");
            }
            ExitCode::FAILURE
        }
    }
}
