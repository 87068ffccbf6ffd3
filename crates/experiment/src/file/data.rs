//! Data sets, their cleaning and splitting, and the protocol they share.

use super::reader::{Field, Fields, Result};
use super::{DataSet, FIRST_SEED, InteractionData};
use sottovoce_data::interests::ClickSource;
use sottovoce_data::{CatalogRule, Cleaning, Columns, DataError, GraphConfig, MOST_HOPS, Repeats, Split, UserSample};
use sottovoce_evaluate::{Candidates, Protocol};
use toml::de::DeValue;

const CLEANING: &str = "columns, min_interactions, k_core, threshold, repeats, user_share, split, validation, relevant, \
    catalog, split_seed, graph, graph_hops, graph_least_items, graph_drop, graph_inverse, graph_first, before";

/// `[protocol]`: how models are evaluated, and what holds for data sets that do not say otherwise.
pub(super) fn shared<'a>(top: &Fields<'a>) -> Result<Fields<'a>> {
    top.section("protocol", "[protocol]", &format!("{CLEANING}, at, candidates"))
}

pub(super) fn protocol(section: &Fields<'_>) -> Result<Protocol> {
    Ok(Protocol {
        cutoffs: section.read("at", |field| field.distinct(Field::count))?.unwrap_or_else(|| vec![10]),
        candidates: section.read("candidates", candidates)?.unwrap_or(Candidates::AllUnrated),
    })
}

fn candidates(field: Field<'_>) -> Result<Candidates> {
    let given = field.text()?;
    let expected = "\"full\", \"uniform:N\" or \"popular:N\" (as in \"uniform:99\")";
    match given.parse::<Candidates>() {
        Ok(candidates) => Ok(candidates.with_seed(FIRST_SEED)),
        Err(_) => Err(field.wrong(format!("expected {expected}, found \"{given}\""))),
    }
}

pub(super) fn sets<'a>(top: &Fields<'a>, shared: &Fields<'a>) -> Result<Vec<DataSet>> {
    let mut sets: Vec<DataSet> = Vec::new();
    for field in top.need("data", Field::list)? {
        for set in data_sets(field, shared)?.into_iter().map(DataSet::Interactions) {
            if sets.iter().any(|other| other.label() == set.label()) {
                return Err(field.wrong(format!("`{}` appears twice; give one a `label`", set.label())));
            }
            sets.push(set);
        }
    }
    Ok(sets)
}

/// A data set, or one for each of several shares of its users.
fn data_sets<'a>(field: Field<'a>, shared: &Fields<'a>) -> Result<Vec<InteractionData>> {
    let (name, own) = match field.entry.get_ref() {
        DeValue::String(_) => (bare_name(field)?, None),
        _ => {
            let fields = field.fields("a data set", &format!("name, label, {CLEANING}"))?;
            (fields.need("name", bare_name)?, Some(fields))
        }
    };
    let read = Overridden { own: own.as_ref(), shared };
    let test = read.value("split", split)?;
    let label = own.as_ref().map_or(Ok(None), |own| own.read("label", Field::text))?;
    // "once" is what `earliest` was called before there was a choice.
    let repeats = |field: Field<'_>| field.choice(&[&Repeats::NAMES[..], &[("once", Repeats::Earliest)]].concat());
    let seed = read.value("split_seed", Field::seed)?.unwrap_or(FIRST_SEED);
    let label = label.unwrap_or_else(|| name.clone());
    let clicks = ClickSource::is_named(&name);
    let shares = |field: Field<'a>| {
        if clicks {
            return Err(field.wrong("it does not apply to clicks"));
        }
        match field.is_list() {
            true => field.distinct(Field::fraction).map(|shares| (shares, true)),
            false => field.fraction().map(|share| (vec![share], false)),
        }
    };
    let whole = InteractionData {
        label: label.clone(),
        source: name,
        cleaning: Cleaning {
            min_interactions: read.value("min_interactions", Field::count)?,
            k_core: read.value("k_core", Field::count)?,
            threshold: read.value("threshold", Field::number)?.map(|x| x as f32),
            repeats: read.value("repeats", repeats)?.unwrap_or_default(),
            user_sample: None,
        },
        columns: read.value("columns", columns)?,
        validation: read.value("validation", split)?.or(test),
        split: test,
        relevant: read.value("relevant", Field::number)?.map(|x| x as f32),
        catalog: read.value("catalog", |field| field.choice(&CatalogRule::NAMES))?.unwrap_or_default(),
        split_seed: seed,
        graph: graph(&read)?,
        before: read.value("before", bare_name)?,
    };
    let Some((shares, several)) = read.value("user_share", shares)? else { return Ok(vec![whole]) };
    let sampled = |share: f64| InteractionData {
        label: if several { format!("{label}, {}", percent_of_users(share)) } else { label.clone() },
        cleaning: Cleaning { user_sample: Some(UserSample { share, seed }), ..whole.cleaning.clone() },
        ..whole.clone()
    };
    Ok(shares.into_iter().map(sampled).collect())
}

/// "12.5 % of users".
fn percent_of_users(share: f64) -> String {
    format!("{} % of users", (share * 1e6).round() / 1e4)
}

/// The keys of a data set over those that all share.
struct Overridden<'a, 'b> {
    own: Option<&'b Fields<'a>>,
    shared: &'b Fields<'a>,
}

impl<'a> Overridden<'a, '_> {
    fn value<T>(&self, key: &'a str, read: impl Fn(Field<'a>) -> Result<T>) -> Result<Option<T>> {
        let field = self.own.and_then(|own| own.get(key)).or_else(|| self.shared.get(key));
        field.map(read).transpose()
    }
}

/// The graph: its files by names under the folder of data sets, or `categories`, or `town`.
fn graph(read: &Overridden<'_, '_>) -> Result<Option<GraphConfig>> {
    let hops = |field: Field<'_>| {
        let found = field.count()?;
        u8::try_from(found)
            .ok()
            .filter(|hops| (1..=MOST_HOPS).contains(hops))
            .ok_or_else(|| field.wrong(format!("expected a number from 1 to {MOST_HOPS}, found {found}")))
    };
    let yes_or_no = |field: Field<'_>| field.choice(&[("yes", true), ("no", false)]);
    let usual = GraphConfig::default();
    let plan = GraphConfig {
        hops: read.value("graph_hops", hops)?.unwrap_or(usual.hops),
        least_items: read.value("graph_least_items", Field::count)?.unwrap_or(usual.least_items),
        drop: read.value("graph_drop", |field| field.each(Field::text))?.unwrap_or(usual.drop),
        inverse: read.value("graph_inverse", yes_or_no)?.unwrap_or(usual.inverse),
        first: read.value("graph_first", yes_or_no)?.unwrap_or(usual.first),
        ..usual
    };
    let sources = read.value("graph", graph_names)?;
    Ok(sources.map(|sources| GraphConfig { sources, ..plan }))
}

fn graph_names(field: Field<'_>) -> Result<Vec<String>> {
    let names = field.each(Field::text)?;
    match names.iter().find(|name| name.starts_with(['/', '.', '\\']) || name.contains("..")) {
        Some(name) => Err(field.wrong(format!(
            "`{name}` is a path; experiments name a graph's files below --data-dir or $SOTTOVOCE_DATA \
             (`ml-1m/dbpedia/item2entity.tsv`), or `categories` or `town`"
        ))),
        None => Ok(names),
    }
}

fn bare_name(field: Field<'_>) -> Result<String> {
    let name = field.text()?;
    if !name.starts_with("synth:") && (name.contains(['/', '\\']) || name.starts_with('.')) {
        return Err(field.wrong(format!(
            "`{name}` is a path; experiments name data sets (`ml-1m`), which are looked up under --data-dir \
             or $SOTTOVOCE_DATA, or invent them (`synth:town`)"
        )));
    }
    Ok(name)
}

fn columns(field: Field<'_>) -> Result<Columns> {
    field.text()?.parse().map_err(|error: DataError| field.wrong(error.to_string()))
}

fn split(field: Field<'_>) -> Result<Split> {
    let given = field.text()?;
    let expected = "\"temporal:0.8\", \"newest:0.2\", \"random:0.8\" (any fraction between 0 and 1) or \"last\"";
    given.parse().map_err(|_| field.wrong(format!("expected {expected}, found \"{given}\"")))
}
