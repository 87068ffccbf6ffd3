//! The `sottovoce` program with what the demo and trainings need. Commands and formats that are not built in are shown
//! in the help and say what to install.

fn main() -> std::process::ExitCode {
    sottovoce_cli::main()
}
