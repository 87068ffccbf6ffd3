//! Any bytes as a message of the wire format: read or refused by every decoder, never a panic.
//!
//! With an even first byte the checksum of the rest is mended, so that what is behind it is reached.
#![no_main]

#[path = "../../crates/protocol/tests/common/mod.rs"]
mod common;

use libfuzzer_sys::fuzz_target;
use sottovoce_protocol::Received;

fuzz_target!(|data: &[u8]| {
    let [choice, rest @ ..] = data else { return };
    let mut bytes = rest.to_vec();
    if choice % 2 == 0 {
        common::mend(&mut bytes);
    }
    common::decode_as_everything(&bytes, &mut Received::new(&common::layout()));
});
