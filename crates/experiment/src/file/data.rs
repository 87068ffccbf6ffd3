//! Data sets, their cleaning and splitting, and the protocol they share.

use super::reader::{Entry, Fields, Result, Source, count, list, number, table, text, word};
use super::sections::{Section, seed};
use super::{DataSet, FIRST_SEED};
use sottovoce_data::{GraphConfig, MOST_HOPS, Split};
use sottovoce_evaluate::{Candidates, Protocol};
use toml::de::DeValue;

const CLEANING: [&str; 14] = [
    "min_interactions",
    "k_core",
    "threshold",
    "repeats",
    "split",
    "validation",
    "relevant",
    "split_seed",
    "graph",
    "graph_hops",
    "graph_least_items",
    "graph_drop",
    "graph_inverse",
    "graph_first",
];

/// `[protocol]`: how models are judged, and what holds for data sets that do not say otherwise.
pub(super) fn shared<'a>(top: &Fields<'a>) -> Result<Section<'a>> {
    let keys: Vec<_> = CLEANING.into_iter().chain(["at", "candidates"]).collect();
    Section::open(top, "protocol", &keys)
}

pub(super) fn protocol(section: &Section<'_>) -> Result<Protocol> {
    Ok(Protocol {
        cutoffs: section.read("at", cutoffs)?.unwrap_or_else(|| vec![10]),
        candidates: section.read("candidates", candidates)?.unwrap_or(Candidates::AllUnrated),
    })
}

fn cutoffs(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<Vec<usize>> {
    let mut cutoffs = Vec::new();
    for item in list(source, key, entry)? {
        let cutoff = count(source, key, item)?;
        if cutoffs.contains(&cutoff) {
            return Err(source.error(item.span(), format!("at: {cutoff} is there twice")));
        }
        cutoffs.push(cutoff);
    }
    Ok(cutoffs)
}

fn candidates(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<Candidates> {
    let given = text(source, key, entry)?;
    match given.strip_prefix("sampled:").map(str::parse) {
        Some(Ok(n)) if n > 0 => Ok(Candidates::Sampled { negatives: n, seed: FIRST_SEED }),
        None if given == "all" => Ok(Candidates::AllUnrated),
        _ => Err(source.error(
            entry.span(),
            format!(
                "candidates: expected \"all\" or \"sampled:N\" (as in \"sampled:99\"), found \"{given}\""
            ),
        )),
    }
}

pub(super) fn sets<'a>(top: &Fields<'a>, shared: &Section<'a>) -> Result<Vec<DataSet>> {
    let mut sets: Vec<DataSet> = Vec::new();
    for entry in top.need("data", "an experiment", list)? {
        let set = data_set(top.source, entry, shared)?;
        if sets.iter().any(|other| other.label == set.label) {
            let message = format!("data: `{}` is there twice; give one a `label`", set.label);
            return Err(top.source.error(entry.span(), message));
        }
        sets.push(set);
    }
    Ok(sets)
}

fn data_set<'a>(source: Source<'a>, entry: &'a Entry<'a>, shared: &Section<'a>) -> Result<DataSet> {
    let (name, own) = match entry.get_ref() {
        DeValue::String(_) => (bare_name(source, "data", entry)?, Section(None)),
        _ => {
            let keys: Vec<_> = ["name", "label"].into_iter().chain(CLEANING).collect();
            let inside = table(source, "data", entry)?;
            let fields = Fields::open(source, inside, entry.span(), "a data set", &keys)?;
            (fields.need("name", "a data set", bare_name)?, Section(Some(fields)))
        }
    };
    let test = either(&own, shared, "split", split)?.unwrap_or(Split::Temporal(0.8));
    let repeats = word(&[("once", false), ("keep", true)]);
    Ok(DataSet {
        label: own.read("label", text)?.unwrap_or_else(|| name.clone()),
        source: name,
        min_interactions: either(&own, shared, "min_interactions", count)?,
        k_core: either(&own, shared, "k_core", count)?,
        threshold: either(&own, shared, "threshold", number)?.map(|x| x as f32),
        keep_repeats: either(&own, shared, "repeats", repeats)?.unwrap_or(false),
        validation: either(&own, shared, "validation", split)?.unwrap_or(test),
        split: test,
        relevant: either(&own, shared, "relevant", number)?.map(|x| x as f32),
        split_seed: either(&own, shared, "split_seed", seed)?.unwrap_or(FIRST_SEED),
        graph: graph(&own, shared)?,
    })
}

/// The graph: its files by names under the folder of data sets, or `categories`, or `town`.
fn graph<'a>(own: &Section<'a>, shared: &Section<'a>) -> Result<Option<GraphConfig>> {
    let hops = |source: Source<'_>, key: &str, entry: &Entry<'_>| {
        let found = count(source, key, entry)?;
        u8::try_from(found).ok().filter(|hops| (1..=MOST_HOPS).contains(hops)).ok_or_else(|| {
            source
                .error(entry.span(), format!("{key}: expected a number from 1 to {MOST_HOPS}, found {found}"))
        })
    };
    let yes_or_no = || word(&[("yes", true), ("no", false)]);
    let usual = GraphConfig::default();
    let plan = GraphConfig {
        hops: either(own, shared, "graph_hops", hops)?.unwrap_or(usual.hops),
        least_items: either(own, shared, "graph_least_items", count)?.unwrap_or(usual.least_items),
        drop: either(own, shared, "graph_drop", texts)?.unwrap_or(usual.drop),
        inverse: either(own, shared, "graph_inverse", yes_or_no())?.unwrap_or(usual.inverse),
        first: either(own, shared, "graph_first", yes_or_no())?.unwrap_or(usual.first),
        ..usual
    };
    let sources = either(own, shared, "graph", graph_names)?;
    Ok(sources.map(|sources| GraphConfig { sources, ..plan }))
}

fn texts(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<Vec<String>> {
    list(source, key, entry)?.iter().map(|item| text(source, key, item)).collect()
}

fn graph_names(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<Vec<String>> {
    let names = texts(source, key, entry)?;
    match names.iter().find(|name| name.starts_with(['/', '.', '\\']) || name.contains("..")) {
        Some(name) => {
            let message = format!(
                "{key}: `{name}` is a path; experiments name a graph's files below --data-dir or $SOTTOVOCE_DATA \
                 (`ml-1m/dbpedia/item2entity.tsv`), or `categories` or `town`"
            );
            Err(source.error(entry.span(), message))
        }
        None => Ok(names),
    }
}

/// The data set's own value, or the one all share.
fn either<'a, T>(
    own: &Section<'a>,
    shared: &Section<'a>,
    key: &str,
    read: impl Fn(Source<'a>, &str, &'a Entry<'a>) -> Result<T>,
) -> Result<Option<T>> {
    Ok(match own.read(key, &read)? {
        Some(value) => Some(value),
        None => shared.read(key, &read)?,
    })
}

fn bare_name(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<String> {
    let name = text(source, key, entry)?;
    if !name.starts_with("synth:") && (name.contains(['/', '\\']) || name.starts_with('.')) {
        let message = format!(
            "{key}: `{name}` is a path; experiments name data sets (`ml-1m`), which are looked up under --data-dir \
             or $SOTTOVOCE_DATA, or invent them (`synth:town`)"
        );
        return Err(source.error(entry.span(), message));
    }
    Ok(name)
}

fn split(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<Split> {
    let given = text(source, key, entry)?;
    given.parse().map_err(|_| {
        let expected = "\"temporal:0.8\", \"random:0.8\" (any share between 0 and 1) or \"last\"";
        source.error(entry.span(), format!("{key}: expected {expected}, found \"{given}\""))
    })
}
