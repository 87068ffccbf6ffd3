//! Interactions: who, what, how rated and when.

use crate::format::Format;
use crate::load_report::LoadReport;
use sottovoce_core::{Catalog, Names};
use std::cmp::Ordering;

/// Interactions in the order of their source, as parallel columns.
///
/// Users and items are numbered in canonical order: ids that are all integers numerically, otherwise by their bytes. So
/// indices, and ties broken by them, do not depend on the order of the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interactions {
    /// The users' ids.
    pub users: Names,
    /// The items' ids, titles and categories; only items with interactions.
    pub catalog: Catalog,
    /// The user of each interaction.
    pub user: Vec<u32>,
    /// The item of each interaction.
    pub item: Vec<u32>,
    /// The rating of each interaction; empty if the set has none.
    pub rating: Vec<f32>,
    /// When each interaction was, in seconds since 1970; empty if the set has no times.
    pub time: Vec<i64>,
}

impl Interactions {
    /// Number of interactions.
    pub fn len(&self) -> usize {
        self.user.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.user.is_empty()
    }

    /// The time of an interaction; 0 if the set has no times, so that the input order decides.
    pub fn time_at(&self, row: usize) -> i64 {
        self.time.get(row).copied().unwrap_or(0)
    }

    /// The rating of an interaction; 1 if the set has no ratings.
    pub fn rating_at(&self, row: usize) -> f32 {
        self.rating.get(row).copied().unwrap_or(1.0)
    }

    /// Bytes held on the heap by the columns and ids.
    pub fn heap_bytes(&self) -> usize {
        let columns = (self.user.capacity() + self.item.capacity() + self.rating.capacity()) * size_of::<u32>()
            + self.time.capacity() * size_of::<i64>();
        columns + self.users.heap_bytes() + self.catalog.ids.heap_bytes()
    }

    /// Keeps the interactions `rows` (in that order), drops users and items left with none, and numbers the others
    /// canonically again.
    pub fn select(&self, rows: &[u32]) -> Interactions {
        let (users, user_numbers) = survivors(&self.users, &self.user, rows);
        let (items, item_numbers) = survivors(&self.catalog.ids, &self.item, rows);
        let pick = |column: &[u32], numbers: &[u32]| -> Vec<u32> {
            rows.iter().map(|&row| numbers[column[row as usize] as usize]).collect()
        };
        Interactions {
            users: self.users.select(&users),
            catalog: self.catalog.select(&items),
            user: pick(&self.user, &user_numbers),
            item: pick(&self.item, &item_numbers),
            rating: pick_values(&self.rating, rows),
            time: pick_values(&self.time, rows),
        }
    }

    /// Each user's rows by time, then input order: starts of users, and rows.
    pub(crate) fn rows_in_time(&self) -> (Vec<usize>, Vec<u32>) {
        let (starts, mut rows) = group(&self.user, self.users.len());
        if !self.time.is_empty() {
            for user in 0..self.users.len() {
                rows[starts[user]..starts[user + 1]].sort_by_key(|&row| self.time[row as usize]);
            }
        }
        (starts, rows)
    }
}

pub(crate) fn pick_values<T: Copy>(column: &[T], rows: &[u32]) -> Vec<T> {
    if column.is_empty() { Vec::new() } else { rows.iter().map(|&row| column[row as usize]).collect() }
}

/// Old numbers that occur in `rows`, in canonical order, and the new number of each old one; `u32::MAX` of the others.
pub(crate) fn survivors(names: &Names, column: &[u32], rows: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut seen = vec![false; names.len()];
    for &row in rows {
        seen[column[row as usize] as usize] = true;
    }
    let mut kept: Vec<u32> = (0..names.len() as u32).filter(|&number| seen[number as usize]).collect();
    sort_canonically(names, &mut kept);
    let mut numbers = vec![u32::MAX; names.len()];
    for (new, &old) in kept.iter().enumerate() {
        numbers[old as usize] = new as u32;
    }
    (kept, numbers)
}

/// Rows by the value of a column, each group in input order: a counting sort.
pub(crate) fn group(column: &[u32], groups: usize) -> (Vec<usize>, Vec<u32>) {
    let mut starts = vec![0; groups + 1];
    for &value in column {
        starts[value as usize + 1] += 1;
    }
    for index in 0..groups {
        starts[index + 1] += starts[index];
    }
    let mut next = starts.clone();
    let mut rows = vec![0; column.len()];
    for (row, &value) in column.iter().enumerate() {
        rows[next[value as usize]] = row as u32;
        next[value as usize] += 1;
    }
    (starts, rows)
}

/// The numbers of names in canonical order: numerically if all are integers, otherwise by bytes.
pub fn canonical_order(names: &Names) -> Vec<u32> {
    let mut order: Vec<u32> = (0..names.len() as u32).collect();
    sort_canonically(names, &mut order);
    order
}

/// Sorts numbers of names canonically: numerically if all these names are integers (of at most 38 digits; equal values
/// by their bytes), otherwise by bytes.
pub(crate) fn sort_canonically(names: &Names, numbers: &mut [u32]) {
    let values: Option<Vec<(i128, u32)>> =
        numbers.iter().map(|&number| Some((integer(&names[number as usize])?, number))).collect();
    match values {
        Some(mut values) => {
            values.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| by_bytes(names, a.1, b.1)));
            for (place, (_, number)) in numbers.iter_mut().zip(values) {
                *place = number;
            }
        }
        None => numbers.sort_unstable_by(|&a, &b| by_bytes(names, a, b)),
    }
}

fn by_bytes(names: &Names, a: u32, b: u32) -> Ordering {
    names[a as usize].as_bytes().cmp(names[b as usize].as_bytes())
}

fn integer(name: &str) -> Option<i128> {
    let digits = name.strip_prefix('-').unwrap_or(name);
    let fits = (1..=38).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if fits { name.parse().ok() } else { None }
}

/// A loaded data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// What it was called: the bare name, the file's or folder's name, or the synthetic specification.
    pub name: String,
    /// The format it was read in.
    pub format: Format,
    /// Its interactions as in the source: not cleaned.
    pub interactions: Interactions,
    /// What was read, skipped and assumed.
    pub report: LoadReport,
}

impl Dataset {
    /// Whether it is known what came first: by timestamps, or because the rows are in the order of time.
    pub fn is_ordered(&self) -> bool {
        !self.interactions.time.is_empty() || self.report.in_order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(names: &[&str]) -> Vec<String> {
        let all: Names = names.iter().collect();
        let mut numbers: Vec<u32> = (0..all.len() as u32).collect();
        sort_canonically(&all, &mut numbers);
        all.select(&numbers).iter().map(String::from).collect()
    }

    #[test]
    fn sorts_integers_by_value_and_other_ids_by_bytes() {
        assert_eq!(sorted(&["10", "9", "-3", "07", "7"]), ["-3", "07", "7", "9", "10"]);
        assert_eq!(sorted(&["10", "9", "x"]), ["10", "9", "x"]);
        assert_eq!(sorted(&["1081265742342342342342", "9"]), ["9", "1081265742342342342342"]);
        assert_eq!(sorted(&["1", "-", "0"]), ["-", "0", "1"]);
    }

    #[test]
    fn select_renumbers_users_and_items() {
        let all = Interactions {
            users: ["1", "10", "9x"].into_iter().collect(),
            catalog: Catalog::of_ids(["2", "30", "4"].into_iter().collect()),
            user: vec![2, 1, 0, 1],
            item: vec![2, 1, 1, 2],
            rating: vec![1.0, 2.0, 3.0, 4.0],
            time: vec![],
        };
        let left = all.select(&[1, 2, 3]);
        assert_eq!(left.users.iter().collect::<Vec<_>>(), ["1", "10"]);
        assert_eq!(left.catalog.ids.iter().collect::<Vec<_>>(), ["4", "30"]);
        assert_eq!((left.user, left.item), (vec![1, 0, 1], vec![1, 1, 0]));
        assert_eq!(left.rating, [2.0, 3.0, 4.0]);
    }
}
