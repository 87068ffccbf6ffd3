//! Any bytes as a message of secure aggregation, thrown into rounds at every step and in both directions.
//!
//! The first byte chooses an honest message whose header is kept, so that the rest is reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sottovoce_testing::mutation::SealedRounds;
use std::sync::LazyLock;

static ROUNDS: LazyLock<SealedRounds> = LazyLock::new(SealedRounds::new);

fuzz_target!(|data: &[u8]| {
    ROUNDS.check(data);
    if let Some(message) = ROUNDS.message_from(data) {
        ROUNDS.check(&message);
    }
});
