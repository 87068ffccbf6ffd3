//! Ids that do not fit together: usually a sign that the lists were written with other ids than the data.

use crate::lists_file::Recommended;
use crate::output::grouped;
use serde::Serialize;
use sottovoce_core::{Catalog, Names};
use sottovoce_data::Interactions;
use std::collections::HashSet;

/// How many ids are named.
const EXAMPLES: usize = 5;

/// Some ids: how many, and the first few, in their order in the file.
#[derive(Debug, Default, Serialize)]
pub(super) struct Ids {
    count: usize,
    examples: Vec<String>,
}

impl Ids {
    /// The distinct ones among these.
    fn of<'a>(ids: impl Iterator<Item = &'a str>) -> Self {
        let mut seen = HashSet::new();
        let mut some = Self::default();
        for id in ids.filter(|id| seen.insert(*id)) {
            some.count += 1;
            if some.examples.len() < EXAMPLES {
                some.examples.push(id.to_owned());
            }
        }
        some
    }

    /// "3 users, such as `a`, `b`, ...".
    fn such_as(&self, what: &str) -> String {
        let s = if self.count == 1 { "" } else { "s" };
        let named: Vec<String> = self.examples.iter().map(|id| format!("`{id}`")).collect();
        let more = if self.count > named.len() { ", ..." } else { "" };
        format!("{} {what}{s} ({}{more})", grouped(self.count), named.join(", "))
    }
}

/// Ids of one file that another should have and does not.
#[derive(Debug, Serialize)]
pub(super) struct Mismatches {
    /// Users of the test part without a list: they count as users without a hit.
    test_users_without_list: Ids,
    /// Users with a list who are neither in the training part nor in the test part.
    unknown_users_in_lists: Ids,
    /// Users of the test part who are not in the training part.
    test_users_without_training: Ids,
    /// Recommended items that are not in the items file; without one, neither in the training nor in the test part.
    unknown_items_in_lists: Ids,
    /// Items of the test part that are not in the items file; without one, not in the training part.
    unknown_items_in_test: Ids,
    /// Recommendations of items that the user has in the training part.
    recommended_training_items: usize,
}

impl Mismatches {
    pub(super) fn between(
        train: &Interactions,
        test: &Interactions,
        lists: &[Recommended],
        catalog: Option<&Catalog>,
    ) -> Self {
        let set = |names: &Names| names.iter().map(str::to_owned).collect::<HashSet<String>>();
        let (trained, tested) = (set(&train.users), set(&test.users));
        let listed: HashSet<&str> = lists.iter().map(|entry| entry.user.as_str()).collect();
        let items = catalog.map_or_else(|| set(&train.catalog.ids), |catalog| set(&catalog.ids));
        let test_items = if catalog.is_some() { HashSet::new() } else { set(&test.catalog.ids) };
        let pairs: HashSet<(&str, &str)> = train
            .user
            .iter()
            .zip(&train.item)
            .map(|(&user, &item)| (&train.users[user as usize], &train.catalog.ids[item as usize]))
            .collect();
        let users = || lists.iter().map(|entry| entry.user.as_str());
        Self {
            test_users_without_list: Ids::of(test.users.iter().filter(|user| !listed.contains(user))),
            unknown_users_in_lists: Ids::of(users().filter(|user| !trained.contains(*user) && !tested.contains(*user))),
            test_users_without_training: Ids::of(test.users.iter().filter(|user| !trained.contains(*user))),
            unknown_items_in_lists: Ids::of(
                lists
                    .iter()
                    .map(|entry| entry.item.as_str())
                    .filter(|item| !items.contains(*item) && !test_items.contains(*item)),
            ),
            unknown_items_in_test: Ids::of(test.catalog.ids.iter().filter(|item| !items.contains(*item))),
            recommended_training_items: lists
                .iter()
                .filter(|entry| pairs.contains(&(entry.user.as_str(), entry.item.as_str())))
                .count(),
        }
    }

    /// Whether nobody in the test part has a list: then the files speak of different users.
    pub(super) fn no_list_of_test_users(&self, test: &Interactions) -> bool {
        !test.users.is_empty() && self.test_users_without_list.count == test.users.len()
    }

    /// A sentence for each kind.
    pub(super) fn messages(&self) -> Vec<String> {
        let kinds = [
            (&self.test_users_without_list, "user", "of the test part without a list: counted as users without a hit"),
            (&self.unknown_users_in_lists, "user", "with a list but neither in the training part nor in the test part"),
            (&self.test_users_without_training, "user", "of the test part not in the training part"),
            (&self.unknown_items_in_lists, "recommended item", "that the other files do not have"),
            (&self.unknown_items_in_test, "item", "of the test part that no training interaction or items file has"),
        ];
        let some = kinds.into_iter().filter(|(some, ..)| some.count > 0);
        let mut messages: Vec<String> =
            some.map(|(some, what, which)| format!("{} {which}", some.such_as(what))).collect();
        if self.recommended_training_items > 0 {
            messages.push(format!(
                "{} recommendations of items that the user has in the training part: they are not removed, and cannot be \
                 hits unless the test part has them too",
                grouped(self.recommended_training_items)
            ));
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_data::{LoadOptions, load_bytes};

    fn part(rows: &[(&str, &str)]) -> Interactions {
        let text: String = rows.iter().map(|(user, item)| format!("{user}\t{item}\n")).collect();
        let text = format!("user\titem\n{text}");
        load_bytes("part", &[("part.tsv", text.as_bytes())], &LoadOptions::default()).unwrap().interactions
    }

    #[test]
    fn counts_what_one_file_has_and_another_has_not() {
        let train = part(&[("a", "x"), ("b", "y"), ("c", "x")]);
        let test = part(&[("a", "y"), ("b", "z"), ("d", "x")]);
        let entry = |(user, item): (&str, &str)| Recommended { user: user.into(), item: item.into(), value: 0.0 };
        let lists: Vec<_> = [("a", "y"), ("a", "x"), ("e", "w"), ("e", "v")].into_iter().map(entry).collect();
        let found = serde_json::to_value(Mismatches::between(&train, &test, &lists, None)).unwrap();
        let some = |ids: &[&str]| serde_json::json!({"count": ids.len(), "examples": ids});
        let expected = serde_json::json!({
            "test_users_without_list": some(&["b", "d"]),
            "unknown_users_in_lists": some(&["e"]),
            "test_users_without_training": some(&["d"]),
            "unknown_items_in_lists": some(&["w", "v"]),
            "unknown_items_in_test": some(&["z"]),
            "recommended_training_items": 1,
        });
        assert_eq!(found, expected);
        let items = Catalog::of_ids(["x", "y", "z"].into_iter().collect());
        let with_items = Mismatches::between(&train, &test, &lists, Some(&items));
        assert_eq!((with_items.unknown_items_in_test.count, with_items.unknown_items_in_lists.count), (0, 2));
        assert!(with_items.messages()[0].starts_with("2 users (`b`, `d`) of the test part without a list"));
    }
}
