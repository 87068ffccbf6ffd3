//! Mutates messages of every kind and lets every decoder read them: `cargo run --release -p sottovoce-testing
//! --example mutate_messages -- 1000000 [SEED]`. A panic ends it and names the bytes.
#![allow(clippy::print_stdout)]

#[path = "../../protocol/tests/common/mod.rs"]
mod common;

use sottovoce_core::Rng;
use sottovoce_protocol::Received;

fn mutate(bytes: &mut Vec<u8>, others: &[Vec<u8>], rng: &mut Rng) {
    for _ in 0..=rng.index(6) {
        let place = rng.index(bytes.len() + 1);
        match rng.index(7) {
            0 if place < bytes.len() => bytes[place] ^= 1 << rng.index(8),
            1 if place < bytes.len() => bytes[place] = [0, 1, 0x7f, 0x80, 0xff][rng.index(5)],
            2 if place < bytes.len() => bytes[place] = rng.next_u32() as u8,
            3 if bytes.len() > 1 => {
                let end = (place + 1 + rng.index(8)).min(bytes.len());
                bytes.drain(place.min(end)..end);
            }
            4 => bytes.insert(place, rng.next_u32() as u8),
            5 => bytes.truncate(place.max(1)),
            _ => {
                let other = &others[rng.index(others.len())];
                let from = rng.index(other.len());
                bytes.truncate(place);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
}

fn main() {
    let number = |at, otherwise| std::env::args().nth(at).map_or(Ok(otherwise), |text| text.parse::<u64>());
    let (Ok(cases), Ok(seed)) = (number(1, 100_000), number(2, 1)) else {
        println!("usage: mutate [CASES] [SEED]");
        std::process::exit(2);
    };
    let seeds = common::messages();
    let mut rng = Rng::new(seed);
    let mut received = Received::new(&common::layout());
    let (mut taken, mut bytes_read) = (0u64, 0u64);
    for case in 0..cases {
        let mut bytes = seeds[rng.index(seeds.len())].clone();
        mutate(&mut bytes, &seeds, &mut rng);
        if rng.chance(0.9) {
            common::mend(&mut bytes);
        }
        bytes_read += bytes.len() as u64;
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            common::decode_as_everything(&bytes, &mut received)
        }));
        match read {
            Ok(was_taken) => taken += u64::from(was_taken),
            Err(_) => {
                println!("case {case} of seed {seed} panics: {bytes:02x?}");
                std::process::exit(1);
            }
        }
    }
    println!("{cases} cases, {bytes_read} bytes: {taken} taken, the rest refused, no panic");
}
