//! `data convert` to a history file.

use crate::args::{CleaningArgs, Common, Source};
use crate::output::{self, Usage, grouped, usage};
use crate::prepared::read;
use crate::progress::Bar;
use anyhow::Result;
use serde_json::json;
use sottovoce_data::Repeats;
use sottovoce_data::town::{PREFIX, Town, TownError, TownSpec};
use sottovoce_federation::{HistoryFileError, HistoryWriter};
use std::ops::Range;
use std::path::Path;

/// What was written.
struct Written {
    users: usize,
    items: usize,
    interactions: u64,
}

pub(super) fn convert(source: &Source, out: &Path, cleaning: &CleaningArgs, common: &Common) -> Result<()> {
    if cleaning.cleaning(common.seed).repeats == Repeats::Keep {
        return usage("a history file has each item once: --repeats keep does not apply");
    }
    let written = if source.data.starts_with(PREFIX) && cleaning.is_default() {
        from_town(&source.data, out, common)?
    } else {
        from_dataset(source, out, cleaning, common)?
    };
    let Written { users, items, interactions } = written;
    let facts = json!({"file": out, "users": users, "items": items, "interactions": interactions});
    output::answer(common, &facts, || {
        let (interactions, users, items) = (grouped(interactions), grouped(users), grouped(items));
        format!("{interactions} interactions of {users} users with {items} items written to {}\n", out.display())
    })
}

/// In one pass: memory does not grow with the residents.
fn from_town(name: &str, out: &Path, common: &Common) -> Result<Written> {
    let spec: TownSpec = name.parse().map_err(|error: TownError| Usage(error.to_string()))?;
    let town = Town::build(&spec).map_err(|error| Usage(error.to_string()))?;
    let (users, items) = (town.users(), town.places().len());
    let mut bar = Bar::new("residents", users as u64, common.quiet);
    let mut writer = HistoryWriter::create(out, items)?;
    let mut done = 0;
    town.stream(
        |residents| histories_of(&town, residents),
        |(places, lengths)| {
            let mut rest = &places[..];
            for &length in &lengths {
                let (own, others) = rest.split_at(length);
                writer.push(own)?;
                rest = others;
            }
            done += lengths.len() as u64;
            bar.set(done, users as u64);
            Ok::<(), HistoryFileError>(())
        },
    )?;
    Ok(Written { users, items, interactions: writer.finish()? })
}

/// Residents' places, ascending, each once, one resident after the other; and how many each has.
fn histories_of(town: &Town, residents: Range<usize>) -> (Vec<u32>, Vec<usize>) {
    let (mut all, mut lengths) = (Vec::new(), Vec::with_capacity(residents.len()));
    let (mut visits, mut own) = (Vec::new(), Vec::new());
    for resident in residents {
        town.checkins(resident, &mut visits);
        own.clear();
        own.extend(visits.iter().map(|visit| visit.place));
        own.sort_unstable();
        own.dedup();
        lengths.push(own.len());
        all.extend_from_slice(&own);
    }
    (all, lengths)
}

fn from_dataset(source: &Source, out: &Path, cleaning: &CleaningArgs, common: &Common) -> Result<Written> {
    let dataset = read(source, cleaning, common)?;
    let all = &dataset.interactions;
    let (users, items) = (all.users.len(), all.catalog.len());
    let mut pairs: Vec<(u32, u32)> = all.user.iter().copied().zip(all.item.iter().copied()).collect();
    pairs.sort_unstable();
    let mut writer = HistoryWriter::create(out, items)?;
    let (mut rest, mut own) = (&pairs[..], Vec::new());
    for user in 0..users as u32 {
        let (mine, others) = rest.split_at(rest.iter().take_while(|&&(whose, _)| whose == user).count());
        own.clear();
        own.extend(mine.iter().map(|&(_, item)| item));
        own.dedup();
        writer.push(&own)?;
        rest = others;
    }
    Ok(Written { users, items, interactions: writer.finish()? })
}
