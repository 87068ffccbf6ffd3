//! Damages messages of secure aggregation and throws them into rounds at every step:
//! `cargo run --release -p sottovoce-testing --features mutation --example mutate_sealed -- 100000 [SEED]`
#![allow(clippy::print_stdout, reason = "a program for people")]

use sottovoce_testing::mutation::SealedRounds;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Ok(count), Ok(seed)) = (arguments.next().unwrap_or(Ok(100_000)), arguments.next().unwrap_or(Ok(1))) else {
        println!("usage: mutate_sealed [COUNT] [SEED]");
        return ExitCode::from(2);
    };
    let taken = SealedRounds::new().run(count, seed);
    println!("{count} messages of sealed rounds: {taken} taken, the rest refused, no panic");
    ExitCode::SUCCESS
}
