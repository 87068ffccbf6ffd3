//! `evaluate`: the recommendation lists of any system.

mod mismatches;

use crate::args::{Common, Evaluate};
use crate::lists_file::{self, Recommended};
use crate::{folder, metrics_table, output};
use anyhow::{Context, Result, bail};
use mismatches::Mismatches;
use serde::Serialize;
use sottovoce_core::{Catalog, Categories, Histories, HistoriesBuilder, Names};
use sottovoce_data::{Interactions, LoadOptions, canonical_order};
use sottovoce_evaluate::{
    EvaluationInput, Metrics, RankedLists, RankedListsBuilder, RankedListsError, evaluate_lists, source_bias,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

/// With more categories, their bias is in the JSON document only.
const MOST_CATEGORIES: usize = 30;

#[derive(Serialize)]
struct Outcome<'a> {
    users: usize,
    users_with_test: usize,
    items: usize,
    at: &'a BTreeMap<usize, Metrics>,
    /// B_T by category.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_bias: Option<BTreeMap<String, Option<f64>>>,
    mismatches: &'a Mismatches,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// `sottovoce evaluate`.
pub(crate) fn run(args: &Evaluate, common: &Common) -> Result<()> {
    let train = interactions(&args.train)?;
    let test = interactions(&args.test)?;
    let catalog = args.items.as_deref().map(sottovoce_data::read_catalog).transpose()?;
    let (recommended, ranked_by) = lists_file::read(&args.recommendations)?;
    let mismatches = Mismatches::between(&train, &test, &recommended, catalog.as_ref());
    if mismatches.no_list_of_test_users(&test) {
        let [lists, tested] = [&args.recommendations, &args.test].map(|path| path.display());
        let (theirs, known) = (&recommended[0].user, &test.users[0]);
        bail!(
            "{lists} has no list of any user of {tested}: its users are called like `{theirs}`, those of the test part \
             like `{known}`; write the lists with the ids of the data"
        );
    }
    let index = Index::new(&train, &test, &recommended, catalog.as_ref());
    let lists =
        index.lists(&recommended, ranked_by.order()).with_context(|| args.recommendations.display().to_string())?;
    let (train, test) = (index.histories(&train)?, index.histories(&test)?);
    let categories = catalog.as_ref().and_then(|catalog| index.categories(catalog));
    let question = EvaluationInput { categories: categories.as_ref(), ..EvaluationInput::new(&train, &test) };
    let evaluation = evaluate_lists(&question, &args.at, &lists)?;
    if let Some(path) = &args.per_user {
        folder::write_file(path, metrics_table::by_user(&evaluation, &index.users).as_bytes())?;
    }
    let notes = [index.notes(catalog.as_ref()), mismatches.messages()].concat();
    let outcome = Outcome {
        users: index.users.len(),
        users_with_test: evaluation.per_user.users.len(),
        items: index.items.len(),
        at: &evaluation.at,
        source_bias: categories.as_ref().map(|all| source_bias(question.train, all)),
        mismatches: &mismatches,
        notes,
    };
    if !common.quiet {
        outcome.notes.iter().for_each(|note| output::note(note));
    }
    if common.json { output::print_json(&outcome) } else { show(&outcome) }
}

fn interactions(path: &Path) -> Result<Interactions> {
    let source = path.to_str().with_context(|| format!("{}: the path is not UTF-8", path.display()))?;
    Ok(sottovoce_data::load(source, &LoadOptions::default())?.interactions)
}

/// Common indices of the users and items of all files.
struct Index {
    users: Names,
    items: Names,
    user_of: HashMap<String, u32>,
    item_of: HashMap<String, u32>,
}

impl Index {
    fn new(train: &Interactions, test: &Interactions, lists: &[Recommended], catalog: Option<&Catalog>) -> Self {
        let users = train.users.iter().chain(test.users.iter()).chain(lists.iter().map(|entry| entry.user.as_str()));
        let items = train.catalog.ids.iter().chain(test.catalog.ids.iter());
        let items = items.chain(lists.iter().map(|entry| entry.item.as_str()));
        let nothing = Names::new();
        let (users, user_of) = index(&nothing, users);
        let (items, item_of) = index(catalog.map_or(&nothing, |catalog| &catalog.ids), items);
        Self { users, items, user_of, item_of }
    }

    fn lists(&self, recommended: &[Recommended], order: sottovoce_evaluate::Order) -> Result<RankedLists> {
        let mut builder = RankedListsBuilder::new(self.users.len(), self.items.len(), order);
        for entry in recommended {
            let (user, item) = (self.user_of[&entry.user], self.item_of[&entry.item]);
            builder
                .push(user as usize, item, entry.value)
                .with_context(|| format!("{}, {}", entry.user, entry.item))?;
        }
        match builder.finish() {
            Err(RankedListsError::Repeated(user, item)) => {
                bail!(
                    "item `{}` comes more than once in the list of user `{}`",
                    &self.items[item as usize],
                    &self.users[user]
                )
            }
            other => Ok(other?),
        }
    }

    /// The interactions of one file with common indices, each pair once.
    fn histories(&self, part: &Interactions) -> Result<Histories> {
        let mut rows = vec![Vec::new(); self.users.len()];
        for (&user, &item) in part.user.iter().zip(&part.item) {
            let user = self.user_of[&part.users[user as usize]];
            rows[user as usize].push(self.item_of[&part.catalog.ids[item as usize]]);
        }
        let mut builder = HistoriesBuilder::new(self.items.len(), false, false);
        for mut row in rows {
            row.sort_unstable();
            row.dedup();
            for item in row {
                builder.push(item, 1.0, 0)?;
            }
            builder.end_user();
        }
        Ok(builder.finish())
    }

    fn categories(&self, catalog: &Catalog) -> Option<Categories> {
        let known = catalog.categories.as_ref()?;
        let index: HashMap<&str, usize> = catalog.ids.iter().enumerate().map(|(index, id)| (id, index)).collect();
        let mut all = Categories::new(known.names().clone());
        for id in self.items.iter() {
            all.push(index.get(id).map_or(&[][..], |&index| known.of(index)).iter().copied());
        }
        Some(all)
    }

    fn notes(&self, catalog: Option<&Catalog>) -> Vec<String> {
        let Some(catalog) = catalog else {
            return vec![format!(
                "no items file: coverage and concentration are relative to the {} items in the other files",
                self.items.len()
            )];
        };
        let more = self.items.len() - catalog.len();
        if more == 0 {
            Vec::new()
        } else {
            vec![format!("{more} items are not in the items file and were added to the catalog")]
        }
    }
}

/// The names in `first`, then the others in canonical order; and the index of each. The order of an items file is kept:
/// ties are broken by it.
fn index<'a>(first: &Names, names: impl Iterator<Item = &'a str>) -> (Names, HashMap<String, u32>) {
    let known: HashSet<&str> = first.iter().collect();
    let mut seen = HashSet::new();
    let others: Names = names.filter(|name| !known.contains(name) && seen.insert(*name)).collect();
    let others = others.select(&canonical_order(&others));
    let ordered: Names = first.iter().chain(others.iter()).collect();
    let numbers = ordered.iter().enumerate().map(|(number, name)| (name.to_owned(), number as u32)).collect();
    (ordered, numbers)
}

fn show(outcome: &Outcome<'_>) -> Result<()> {
    let [users, tested, items] = [outcome.users, outcome.users_with_test, outcome.items].map(output::grouped);
    output::print_line(&format!("{users} users ({tested} with test items), {items} items"))?;
    output::print(&metrics_table::by_cutoff(outcome.at, "lists as given"))?;
    match &outcome.source_bias {
        Some(bias) if bias.len() <= MOST_CATEGORIES => output::print(&metrics_table::bias(bias, outcome.at)),
        Some(bias) => output::print_line(&format!("bias of {} categories: see --json", output::grouped(bias.len()))),
        None => Ok(()),
    }
}
