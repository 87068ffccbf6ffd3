//! `data`: describe, convert, generate and split data sets.

mod histories;
mod images;
mod interests;
#[cfg(feature = "serve")]
pub(crate) use interests::dropped;

use crate::args::{CleaningArgs, Common, Data, FileKind, Loading, Source, SplitArgs};
use crate::folder;
use crate::output::{self, Usage, grouped, usage};
use crate::prepared::{load, read};
use crate::progress::Bar;
use anyhow::Result;
use serde_json::json;
use sottovoce_data::town::{Town, TownError, TownSpec, Written};
use sottovoce_data::{
    CatalogRule, Description, FactsDescription, SplitConfig, describe, describe_facts, split_with, write_parquet,
    write_split, write_tsv,
};
use sottovoce_experiment::prepare::choose_split;
use std::fmt::Write;
use std::path::Path;

/// `sottovoce data ...`.
pub(crate) fn run(args: &Data, common: &Common) -> Result<()> {
    match args {
        Data::Describe { data, loading } => show(data, loading, common),
        Data::Convert { source, out, cleaning } => convert(source, out, cleaning, common),
        Data::Synth { town, out } => generate(town, out, common),
        Data::Interests(args) => interests::run(args, common),
        Data::History { source, user, out, cleaning } => history(source, user, out.as_deref(), cleaning, common),
        Data::Split { source, cleaning, split, out, to } => {
            split_into_parts((source, cleaning), *split, out, *to, common)
        }
    }
}

/// Writes one user's items, earliest first.
fn history(source: &Source, user: &str, out: Option<&Path>, cleaning: &CleaningArgs, common: &Common) -> Result<()> {
    let dataset = read(source, cleaning, common)?;
    let all = &dataset.interactions;
    let Some(number) = all.users.iter().position(|id| id == user) else {
        let some: Vec<&str> = all.users.iter().take(3).collect();
        return usage(format!("{} has no user `{user}`; it has {}, ...", dataset.name, some.join(", ")));
    };
    let mut own: Vec<usize> = (0..all.user.len()).filter(|&row| all.user[row] as usize == number).collect();
    let time = |row: usize| all.time.get(row).copied();
    own.sort_by_key(|&row| time(row));
    let mut text = String::from(if all.time.is_empty() { "item\n" } else { "item\ttimestamp\n" });
    for row in own {
        let id = all.catalog.ids.get(all.item[row] as usize).unwrap_or_default();
        let _ = match time(row) {
            Some(time) => writeln!(text, "{id}\t{time}"),
            None => writeln!(text, "{id}"),
        };
    }
    match out {
        Some(path) => folder::write_file(path, text.as_bytes()),
        None => output::print(&text),
    }
}

fn show(data: &str, loading: &Loading, common: &Common) -> Result<()> {
    if let Some(folder) = images::folder(data, common) {
        return images::show(&folder, common);
    }
    let dataset = load(data, &loading.options(common), &loading.cleaning.as_is(common.seed), common)?;
    let description = describe(&dataset);
    let interactions = &dataset.interactions;
    let facts = interactions.catalog.facts.as_deref().map(|facts| describe_facts(facts, &interactions.item));
    if common.json {
        let mut document = serde_json::to_value(&description)?;
        if let (Some(facts), Some(fields)) = (&facts, document.as_object_mut()) {
            fields.insert("graph".to_owned(), serde_json::to_value(facts)?);
        }
        return output::print_json(&document);
    }
    output::print(&(page(&description) + &facts.as_ref().map_or_else(String::new, graph_page)))
}

fn graph_page(facts: &FactsDescription) -> String {
    let mut text = String::from("graph\n");
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:14} {value}");
    };
    line("linked items", format!("{} of {}", grouped(facts.linked), grouped(facts.items)));
    if facts.without.items > 0 {
        line("without facts", facts.without.to_string());
    }
    let hops: Vec<String> =
        (1..).zip(&facts.by_hops).map(|(hops, &count)| format!("{} of {hops}", grouped(count))).collect();
    line("features", format!("{} ({} hops)", grouped(facts.features), hops.join(", ")));
    line(
        "facts",
        format!(
            "{}; median {} and at most {} per item",
            grouped(facts.facts),
            facts.median_of_item,
            facts.most_of_item
        ),
    );
    let [least, median, most] = facts.items_of_feature;
    line("feature size", format!("{least} to {most} items, median {median}"));
    for frequent in &facts.frequent {
        line("frequent", format!("{} ({})", frequent.feature, grouped(frequent.items)));
    }
    text
}

fn page(d: &Description) -> String {
    let mut text = format!("{} ({})\n", d.name, d.format);
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:14} {value}");
    };
    line("users", grouped(d.users));
    line("items", grouped(d.items));
    line("interactions", grouped(d.interactions));
    line("density", format!("{:.3} %", d.density * 100.0));
    line("repeated pairs", grouped(d.repeats));
    match (&d.first_date, &d.last_date) {
        (Some(first), Some(last)) => line("time", format!("{first} to {last}")),
        _ => line("time", "no timestamps".to_owned()),
    }
    match &d.ratings {
        Some(r) => {
            line("ratings", format!("{} to {}, mean {:.2}, {} values", r.min, r.max, r.mean, r.distinct));
        }
        None => line("ratings", "none".to_owned()),
    }
    let h = &d.history;
    line(
        "history",
        format!(
            "{} to {}, median {}, mean {:.1}; first quartile {}, ninth decile {}",
            h.min, h.max, h.median, h.mean, h.quarter, h.nine_tenths
        ),
    );
    let p = &d.popularity;
    let share = |share: f64| format!("{:.1} %", share * 100.0);
    line(
        "popularity",
        format!(
            "top 1 % of items hold {}, 10 % {}, 20 % {}; Gini {:.3}; short head {} items",
            share(p.top_1_percent),
            share(p.top_10_percent),
            share(p.top_20_percent),
            p.gini,
            grouped(p.head)
        ),
    );
    line("categories", format!("{} on {} items", d.categories, grouped(d.items_with_category)));
    line("titles", format!("on {} items", grouped(d.items_with_title)));
    line("fingerprint", d.fingerprint.clone());
    text
}

fn convert(source: &Source, out: &Path, cleaning: &CleaningArgs, common: &Common) -> Result<()> {
    let name = out.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.ends_with(".histories") {
        return histories::convert(source, out, cleaning, common);
    }
    let write: fn(&_, &Path) -> _ = match name.trim_end_matches(".gz").trim_end_matches(".zst") {
        plain if plain.ends_with(".tsv") => write_tsv,
        plain if plain.ends_with(".parquet") && plain == name => write_parquet,
        _ => {
            return usage(format!(
                "{}: expected a name that ends in .tsv, .tsv.gz, .tsv.zst, .parquet or .histories",
                out.display()
            ));
        }
    };
    let dataset = load(&source.data, &source.reading.options(common), &cleaning.as_is(common.seed), common)?;
    write(&dataset.interactions, out)?;
    let rows = dataset.interactions.len();
    output::answer(common, &json!({"file": out, "interactions": rows}), || {
        format!("{} interactions written to {}\n", grouped(rows), out.display())
    })
}

fn generate(town: &str, out: &Path, common: &Common) -> Result<()> {
    let name = if town.starts_with("synth:") { town.to_owned() } else { format!("synth:{town}") };
    let spec: TownSpec = name.parse().map_err(|error: TownError| Usage(error.to_string()))?;
    let built = Town::build(&spec).map_err(|error| Usage(error.to_string()))?;
    let mut bar = Bar::new("residents", spec.users as u64, common.quiet);
    let mut written = Written::default();
    folder::write_whole(out, |folder| {
        let inside = folder.join("town");
        written = built.write(&inside, |residents| bar.set(residents as u64, spec.users as u64))?;
        for file in std::fs::read_dir(&inside)? {
            let file = file?;
            std::fs::rename(file.path(), folder.join(file.file_name()))?;
        }
        Ok(std::fs::remove_dir(inside)?)
    })?;
    drop(bar);
    let Written { checkins, views, statements } = written;
    let facts = json!({
        "town": spec.to_string(), "folder": out, "checkins": checkins, "views": views, "statements": statements
    });
    output::answer(common, &facts, || {
        let [checkins, views, statements] = [checkins, views, statements].map(grouped);
        let out = out.display();
        format!("{spec}: {checkins} check-ins, {views} page views and {statements} triples written to {out}\n")
    })
}

fn split_into_parts(
    (source, cleaning): (&Source, &CleaningArgs),
    how: SplitArgs,
    out: &Path,
    to: FileKind,
    common: &Common,
) -> Result<()> {
    let mut dataset = read(source, cleaning, common)?;
    let remarks = dataset.report.remarks.len();
    let chosen = choose_split(&mut dataset, how.split, how.validation)?;
    if !common.quiet {
        dataset.report.remarks[remarks..].iter().for_each(|remark| output::note(remark));
    }
    let SplitArgs { validation, relevant, .. } = how;
    let splitting = SplitConfig { test: chosen, validation, relevant, catalog: CatalogRule::All, seed: common.seed };
    let parts = split_with(&dataset.interactions, splitting);
    let ending = match to {
        FileKind::Tsv => "tsv",
        FileKind::Parquet => "parquet",
    };
    folder::write_whole(out, |folder| {
        write_split(&parts, folder, ending)?;
        Ok(())
    })?;
    let sizes = json!({
        "split": chosen.to_string(),
        "users": parts.users.len(),
        "items": parts.catalog.len(),
        "train": parts.train.interactions(),
        "validation": parts.validation.as_ref().map(sottovoce_core::Histories::interactions),
        "test": parts.test.interactions(),
        "without_test": parts.without_test,
        "fingerprint": sottovoce_data::fingerprint(&dataset.interactions),
        "folder": out,
    });
    if common.json {
        return output::print_json(&sizes);
    }
    let validation = parts.validation.as_ref();
    let held_out = validation.map_or_else(String::new, |part| format!(", {} validation", grouped(part.interactions())));
    let [train, test] = [&parts.train, &parts.test].map(|part| grouped(part.interactions()));
    let (users, out) = (grouped(parts.users.len()), out.display());
    output::print_line(&format!(
        "{train} training{held_out}, {test} test interactions of {users} users ({chosen}) written to {out}"
    ))?;
    if parts.without_test > 0 && !common.quiet {
        output::note(&format!("{} users have a single interaction and no test part", parts.without_test));
    }
    Ok(())
}
