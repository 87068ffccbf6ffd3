//! Any bytes under the name of any kind of graph: read or refused, never a panic.
//!
//! The first byte chooses the example and which of its files is replaced by the rest.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sottovoce_testing::mutation::{Case, check_graph, graphs};
use std::sync::LazyLock;

static GRAPHS: LazyLock<Vec<Case>> = LazyLock::new(graphs);

fuzz_target!(|data: &[u8]| {
    let [choice, rest @ ..] = data else { return };
    let mut case = GRAPHS[usize::from(choice >> 2) % GRAPHS.len()].clone();
    let file = usize::from(choice >> 1 & 1) % case.files.len();
    case.files[file].1 = rest.to_vec();
    check_graph(&case, choice & 1 == 0);
});
