//! `demo`: a guided tour on a synthetic town.

use super::run::{self, Source};
use crate::args::{Common, Demo};
use crate::output;
use anyhow::Result;
use sottovoce_experiment::Experiment;
use sottovoce_experiment::journal::Existing;
use sottovoce_federation::registry;
use std::io::IsTerminal;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The experiment, but for the size of the town and the seed.
const EXPERIMENT: &str = include_str!("demo.toml");

/// `sottovoce demo`.
pub(crate) fn run(args: &Demo, common: &Common) -> Result<()> {
    let started = Instant::now();
    let text = EXPERIMENT
        .replace("users=1500", &format!("users={}", args.users))
        .replace("seeds = [1, 2]", &format!("seeds = [{}, {}]", common.seed, common.seed.wrapping_add(1)));
    let experiment = Experiment::parse("demo.toml", &text, &registry::all())?;
    if !common.json && !common.quiet {
        output::print_line(&format!(
            "A synthetic town of {} residents. Centralised recommenders see every visit. Federated ones leave visits on the\n\
             residents' devices, which send updates: sealed, so that the server sees sums only; with noise, so that no one person's\n\
             history matters (ε); and, to compare, open. π is the fraction of their visits from which residents let FPL compute\n\
             updates. All predict where residents go next.\n",
            args.users
        ))?;
    }
    let jobs = rayon::current_num_threads();
    let results = run::execute(&experiment, &args.out, Existing::Fresh, jobs, common)?;
    let source =
        Source { text: &text, command: format!("sottovoce demo --users {} --seed {}", args.users, common.seed) };
    let report = run::finish(&experiment, &results, &source, &args.out, common)?;
    if !common.json && !common.quiet {
        output::print_line(&format!("done in {:.1} s", started.elapsed().as_secs_f64()))?;
    }
    if !args.no_open && !common.json && std::io::stdout().is_terminal() {
        open(&report);
    }
    Ok(())
}

/// Shows the report in a browser, where there is one; the path was printed in any case.
fn open(report: &Path) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let _ = Command::new(program).arg(report).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}
