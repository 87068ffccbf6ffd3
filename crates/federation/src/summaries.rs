//! What a training has done so far, in a checkpoint.

use crate::state::{put_f64s, put_u64s, take_numbers, take_reals};
use sottovoce_models::{Summary, Traffic, Turnout};
use std::io::{self, Read, Write};

/// Writes a summary; updates by item and accountant of privacy are the federation's to keep.
pub(crate) fn save(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let Summary { epochs, triples, traffic, turnout, updates_by_item: _, privacy: _, clusters: _ } = summary;
    let Traffic { down, up, vectors } = *traffic;
    let Turnout { rounds, asked, unavailable, dropped, late, received, seconds } = *turnout;
    put_u64s(out, &[*epochs as u64, *triples, down, up])?;
    put_u64s(out, &[rounds, asked, unavailable, dropped, late, received])?;
    put_f64s(out, &[vectors, seconds])
}

/// Takes it back.
pub(crate) fn restore(from: &mut dyn Read) -> io::Result<Summary> {
    let [epochs, triples, down, up] = take_numbers(from)?;
    let [rounds, asked, unavailable, dropped, late, received] = take_numbers(from)?;
    let [vectors, seconds] = take_reals(from)?;
    Ok(Summary {
        epochs: epochs as usize,
        triples,
        traffic: Traffic { down, up, vectors },
        turnout: Turnout { rounds, asked, unavailable, dropped, late, received, seconds },
        updates_by_item: Vec::new(),
        privacy: None,
        clusters: None,
    })
}
