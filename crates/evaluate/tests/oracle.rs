//! Worked cases that were computed independently, the slow and literal way.

use serde_json::Value;
use sottovoce_core::{Categories, Histories, Names};
use sottovoce_evaluate::{EvaluationInput, Order, RankedLists, RankedListsBuilder, evaluate_lists};
use std::collections::BTreeMap;
use std::{fs, path::PathBuf};

struct Case {
    train: Histories,
    test: Histories,
    categories: Categories,
    lists: RankedLists,
    expected: Value,
}

fn read(folder: &str, file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/oracle").join(folder).join(file);
    fs::read_to_string(path).unwrap()
}

fn rows(folder: &str, file: &str) -> Vec<Vec<String>> {
    let text = read(folder, file);
    text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Indices in order of first occurrence: the catalog's order is that of the items file.
fn index<'a>(names: impl Iterator<Item = &'a String>) -> BTreeMap<String, usize> {
    let mut index = BTreeMap::new();
    for name in names {
        let next = index.len();
        index.entry(name.clone()).or_insert(next);
    }
    index
}

fn load(folder: &str) -> Case {
    let [items, train, test, recommendations] =
        ["items", "train", "test", "recommendations"].map(|file| rows(folder, &format!("{file}.tsv")));
    let item_index = index(items.iter().map(|row| &row[0]));
    let user_index = index(train.iter().chain(&test).chain(&recommendations).map(|row| &row[0]));
    let histories = |rows: &[Vec<String>]| {
        let mut lists = vec![Vec::new(); user_index.len()];
        rows.iter().for_each(|row| lists[user_index[&row[0]]].push(item_index[&row[1]] as u32));
        Histories::from_lists(&lists, item_index.len()).unwrap()
    };
    let mut lists = RankedListsBuilder::new(user_index.len(), item_index.len(), Order::Score);
    for row in &recommendations {
        lists.push(user_index[&row[0]], item_index[&row[1]] as u32, row[2].parse().unwrap()).unwrap();
    }
    Case {
        train: histories(&train),
        test: histories(&test),
        categories: categories(&items),
        lists: lists.finish().unwrap(),
        expected: serde_json::from_str(&read(folder, "expected.json")).unwrap(),
    }
}

fn categories(items: &[Vec<String>]) -> Categories {
    let of = |row: &[String]| row[1].split('|').map(str::to_owned).collect::<Vec<_>>();
    let all: Vec<String> = items.iter().flat_map(|row| of(row)).collect();
    let index = index(all.iter());
    let mut names = vec![""; index.len()];
    index.iter().for_each(|(name, &place)| names[place] = name);
    let mut categories = Categories::new(names.into_iter().collect::<Names>());
    items.iter().for_each(|row| categories.push(of(row).iter().map(|name| index[name] as u32)));
    categories
}

/// Metrics that were added after the cases were computed.
fn is_newer(key: &str) -> bool {
    ["correctness", "user_coverage", "users_with_hit"].contains(&key)
}

/// Numbers within 1e-9, everything else the same, fields in the same order; metrics that the cases do not have are left
/// out.
fn agree(found: &Value, expected: &Value, place: &str) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let known = found.keys().filter(|key| expected.contains_key(*key) || !is_newer(key));
            assert!(known.eq(expected.keys()), "{place}: {found:?}");
            expected.iter().for_each(|(key, value)| agree(&found[key], value, &format!("{place}.{key}")));
        }
        (Value::Number(found), Value::Number(expected)) => {
            let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
            assert!((found - expected).abs() < 1e-9, "{place}: {found}, expected {expected}");
        }
        _ => assert_eq!(found, expected, "{place}"),
    }
}

#[test]
fn metrics_agree_with_independently_computed_cases() {
    for folder in ["case-1", "case-2", "case-3", "case-4"] {
        let case = load(folder);
        let input =
            EvaluationInput { categories: Some(&case.categories), ..EvaluationInput::new(&case.train, &case.test) };
        let evaluation = evaluate_lists(&input, &[10, 1, 5], &case.lists).unwrap();
        let lists = &evaluation.lists;
        assert_eq!(case.expected["users"], lists.users(), "{folder}");
        assert_eq!(case.expected["items"], lists.catalog_size(), "{folder}");
        let metrics = serde_json::to_value(&evaluation.at).unwrap();
        agree(&metrics, &case.expected["at"], &format!("{folder}.at"));
    }
}
