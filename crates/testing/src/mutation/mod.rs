//! Broken inputs: examples of every format, kind of graph and message of sealed rounds, damaged at random, and what
//! must hold whatever they are.
//!
//! Used by the test-suite with few cases, by `examples/mutate.rs` with millions, and by the fuzz targets. A case is
//! fully determined by its seed, so whatever is found can be built again.

mod graphs;
mod sealed_rounds;
mod seeds;

pub use graphs::{check_graph, graphs};
pub use sealed_rounds::SealedRounds;
pub use seeds::{Seed, seeds};

use sottovoce_core::Rng;
use sottovoce_data::{Cleaning, Dataset, Interactions, LoadOptions, Split, clean, describe, load_bytes, split};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Named contents to be loaded together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Names and contents.
    pub files: Vec<(String, Vec<u8>)>,
}

/// How many cases were accepted and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases that loaded.
    pub loaded: u64,
    /// Cases that were refused with an error.
    pub refused: u64,
}

/// A case that made the library panic.
#[derive(Debug)]
pub struct Found {
    /// Its number in the run.
    pub number: u64,
    /// The case.
    pub case: Case,
}

/// Loads a case, and cleans, parts and describes what came out of it.
///
/// # Panics
/// If something that must hold of loaded data does not.
pub fn check(case: &Case, skip_bad: bool) -> bool {
    let files: Vec<(&str, &[u8])> = case.files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
    let options = LoadOptions { skip_bad, ..LoadOptions::default() };
    match load_bytes("case", &files, &options) {
        Ok(set) => {
            check_set(&set);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

fn check_set(set: &Dataset) {
    let all = &set.interactions;
    check_interactions(all);
    assert!(!all.is_empty(), "a set without interactions is an error");
    let about = describe(set);
    assert!(about.density > 0.0 && about.popularity.head >= 1);
    let how = Cleaning { min_interactions: Some(2), k_core: Some(2), threshold: Some(2.0), ..Cleaning::default() };
    let (left, report) = clean(all.clone(), &how);
    check_interactions(&left);
    let dropped = report.below_threshold + report.repeated + report.outside_core + report.of_sparse_users;
    assert_eq!(report.before - dropped, report.after);
    let parts = split(all, Split::Temporal(0.8), Some(Split::Last), 1);
    let held = parts.validation.map_or(0, |part| part.interactions());
    assert_eq!(parts.train.interactions() + held + parts.test.interactions(), all.len());
}

fn check_interactions(all: &Interactions) {
    let rows = all.len();
    assert_eq!(all.item.len(), rows);
    assert!(all.rating.is_empty() || all.rating.len() == rows);
    assert!(all.time.is_empty() || all.time.len() == rows);
    assert!(all.user.iter().all(|&user| (user as usize) < all.users.len()));
    assert!(all.item.iter().all(|&item| (item as usize) < all.catalog.len()));
    assert!(all.rating.iter().all(|rating| rating.is_finite()));
    assert!(all.users.iter().chain(all.catalog.ids.iter()).all(|id| !id.is_empty()));
}

/// Damages `count` cases and checks each.
///
/// # Errors
/// With the first case that panics.
pub fn run(count: u64, seed: u64) -> Result<Tally, Box<Found>> {
    let sets: Vec<Case> = seeds().into_iter().map(|seed| seed.case).collect();
    let graphs = graphs();
    let mut tally = Tally::default();
    for number in 0..count {
        let mut rng = Rng::new(seed).stream("mutation", number);
        let of_graphs = rng.chance(0.2);
        let case = mutate(if of_graphs { &graphs } else { &sets }, &mut rng);
        let skip_bad = rng.chance(0.5);
        let load = if of_graphs { check_graph } else { check };
        match catch_unwind(AssertUnwindSafe(|| load(&case, skip_bad))) {
            Ok(true) => tally.loaded += 1,
            Ok(false) => tally.refused += 1,
            Err(_) => return Err(Box::new(Found { number, case })),
        }
    }
    Ok(tally)
}

/// An example with up to six changes in one or more of its files.
pub fn mutate(examples: &[Case], rng: &mut Rng) -> Case {
    let mut case = examples[rng.index(examples.len())].clone();
    for _ in 0..=rng.below(6) {
        let other = &examples[rng.index(examples.len())].files;
        let other = &other[rng.index(other.len())].1;
        let file = rng.index(case.files.len());
        damage(&mut case.files[file].1, other, rng);
    }
    case
}

/// Pieces that parsers stumble over.
const PIECES: [&[u8]; 28] = [
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n",
    b"\t",
    b",",
    b"::",
    b"\"",
    b"\"\"",
    b"nan",
    b"inf",
    b"-0",
    b"1e400",
    b"99999999999999999999999",
    b"-9223372036854775808",
    b"9223372036854775807",
    b"\xc3",
    b"\\u0000",
    b"{",
    b"[",
    b"]]]]]]",
    b"'",
    b"\\",
    b"user\titem\n",
    b"2012-02-30",
    b"%",
    b" ",
];

fn damage(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let place = rng.index(bytes.len() + 1);
    let end = (place + rng.index(24)).min(bytes.len());
    match rng.below(8) {
        0 if place < bytes.len() => bytes[place] ^= 1 << rng.below(8),
        1 if place < bytes.len() => bytes[place] = rng.next_u32() as u8,
        2 => drop(bytes.drain(place..end)),
        3 => {
            let copied = bytes[place..end].to_vec();
            bytes.splice(place..place, copied);
        }
        4 | 5 => drop(bytes.splice(place..place, PIECES[rng.index(PIECES.len())].iter().copied())),
        6 => {
            let from = rng.index(other.len() + 1);
            let to = (from + rng.index(60)).min(other.len());
            bytes.splice(place..end, other[from..to].iter().copied());
        }
        _ => bytes.truncate(place),
    }
}
