//! The `sottovoce` program.

fn main() -> std::process::ExitCode {
    sottovoce_cli::main()
}
