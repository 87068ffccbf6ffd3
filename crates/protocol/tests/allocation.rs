//! Decoding holds no more than a small multiple of its input, and a recycled loop over devices allocates nothing.
//!
//! One test only: the counters are those of the whole process.
#![allow(unsafe_code)]

mod common;

use common::{decode_as_everything, layout, mend, messages, open_policy, terms};
use sottovoce_core::Rng;
use sottovoce_protocol::*;
use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static LARGEST: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator unchanged; the counters do not touch memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        COUNT.fetch_add(1, Relaxed);
        LARGEST.fetch_max(block.size(), Relaxed);
        // SAFETY: the caller's promises about `block` are the system allocator's conditions.
        unsafe { System.alloc(block) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, block: Block) {
        // SAFETY: `pointer` came from `System.alloc` with the same `block`.
        unsafe { System.dealloc(pointer, block) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Rows, then their values, grow by doubling from what is in the message; names and maps of the other kinds are small.
const FACTOR: usize = 16;
const CONSTANT: usize = 4096;

fn mutated(messages: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = messages[rng.index(messages.len())].clone();
    for _ in 0..=rng.index(4) {
        let place = rng.index(bytes.len());
        bytes[place] = rng.next_u32() as u8;
    }
    mend(&mut bytes);
    bytes
}

fn one_device(trained: Trained, policy: &Policy, ledger: &mut Ledger, work: &mut Work) -> Trained {
    let mut trained = trained;
    for row in (0..300).step_by(3) {
        let mark = if row % 2 == 0 { RowOrigin::Consumed } else { RowOrigin::Other };
        trained.push_row(0, row, mark).unwrap().fill(0.25);
    }
    trained.whole(1).unwrap().fill(-0.5);
    trained.report(0, 0.5).unwrap();
    let disclosed = trained.disclose(policy, &work.terms, 0, ledger, DisclosureSeeds::once(&mut work.rng)).unwrap();
    work.bytes.clear();
    codec::encode_update(&disclosed, &mut work.bytes);
    codec::decode_update(&work.bytes, &mut work.received).unwrap();
    disclosed.into_received().recycle()
}

struct Work {
    terms: RoundTerms,
    rng: Rng,
    bytes: Vec<u8>,
    received: Received,
}

#[test]
fn memory_is_bounded_by_input_and_buffers_are_reused() {
    let messages = messages();
    let mut rng = Rng::new(5);
    let mut received = Received::new(&layout());
    for _ in 0..20_000 {
        let bytes = mutated(&messages, &mut rng);
        LARGEST.store(0, Relaxed);
        decode_as_everything(&bytes, &mut received);
        let largest = LARGEST.load(Relaxed);
        assert!(largest <= FACTOR * bytes.len() + CONSTANT, "{largest} bytes for {bytes:02x?}");
    }

    let (policy, mut ledger) = (open_policy(), Ledger::totals_only());
    for encoding in ValueEncoding::ALL {
        let mut work =
            Work { terms: terms(encoding), rng: Rng::new(1), bytes: Vec::new(), received: Received::new(&layout()) };
        let mut trained = one_device(Trained::new(&layout()), &policy, &mut ledger, &mut work);
        let before = COUNT.load(Relaxed);
        for _ in 0..100 {
            trained = one_device(trained, &policy, &mut ledger, &mut work);
        }
        assert_eq!(COUNT.load(Relaxed) - before, 0, "{encoding}");
    }
}
