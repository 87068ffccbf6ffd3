//! Any bytes under the name of any format: loads or is refused, never panics.
//!
//! The first byte chooses the example whose file is replaced by the rest, so side files are reached too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sottovoce_testing::mutation::{Seed, check, seeds};
use std::sync::LazyLock;

static SEEDS: LazyLock<Vec<Seed>> = LazyLock::new(seeds);

fuzz_target!(|data: &[u8]| {
    let [choice, rest @ ..] = data else { return };
    let mut case = SEEDS[usize::from(choice >> 2) % SEEDS.len()].case.clone();
    let file = usize::from(choice & 3) % case.files.len();
    case.files[file].1 = rest.to_vec();
    check(&case, choice & 1 == 0);
});
