//! Rows that differ in a swept setting only: how they are grouped, named and represented.

use crate::file::Experiment;
use crate::results::{DataResults, Results, Row};
use std::borrow::Cow;

/// With more rows than this, tables show one row a sweep; the sweep has tables and plots of its own in any case.
pub(super) const MOST_ROWS: usize = 14;

/// The rows of one sweep, in the order of the swept values.
pub(super) struct Family<'a> {
    /// What the rows have in common.
    pub(super) name: String,
    /// The swept setting; if several are, the one with the most values.
    pub(super) key: &'a str,
    /// The rows with their values of it, ascending.
    pub(super) rows: Vec<(f64, &'a Row)>,
}

/// The sweeps over numbers, in the order of the rows; single rows are none.
pub(super) fn families(data: &DataResults) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for row in &data.rows {
        let Some((key, value)) = axis_of(data, row) else { continue };
        let name = name_without(row, key);
        match families.iter_mut().find(|family| family.name == name && family.key == key) {
            Some(family) => family.rows.push((value, row)),
            None => families.push(Family { name, key, rows: vec![(value, row)] }),
        }
    }
    families.retain(|family| family.rows.len() > 1);
    families.iter_mut().for_each(|family| family.rows.sort_by(|a, b| a.0.total_cmp(&b.0)));
    families
}

/// The rows that belong to no sweep.
pub(super) fn single_rows<'a>(data: &'a DataResults, families: &[Family<'_>]) -> Vec<&'a Row> {
    let swept = |row: &Row| families.iter().flat_map(|family| &family.rows).any(|(_, other)| other.label == row.label);
    data.rows.iter().filter(|row| !swept(row)).collect()
}

/// The numeric setting on the horizontal axis of a row's sweep, and the row's value of it.
fn axis_of<'a>(data: &'a DataResults, row: &'a Row) -> Option<(&'a str, f64)> {
    let values = |key: &str| {
        let same = data.rows.iter().filter(|other| other.family == row.family);
        let mut values: Vec<f64> = same.filter_map(|other| other.swept.get(key)?.number()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values.len()
    };
    let numeric = row.swept.iter().filter_map(|(key, value)| Some((key.as_str(), value.number()?)));
    numeric.min_by_key(|(key, _)| std::cmp::Reverse(values(key)))
}

/// What rows of a sweep have in common: the label without what the swept settings put into it.
pub(super) fn family_name(row: &Row) -> String {
    let placeholder = |key: &String| format!("{{{key}}}");
    let named = |part: &&str| !row.swept.keys().any(|key| part.contains(&placeholder(key)));
    let parts: Vec<&str> = row.family.split(", ").filter(named).collect();
    let name = match parts.is_empty() {
        true => row.swept.keys().fold(row.family.clone(), |name, key| name.replace(&placeholder(key), "")),
        false => parts.join(", "),
    };
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The family's name with the swept settings other than `key`.
fn name_without(row: &Row, key: &str) -> String {
    let others = row.swept.iter().filter(|(other, _)| *other != key);
    others.fold(family_name(row), |name, (key, value)| format!("{name}, {} {value}", symbol(key)))
}

/// A setting as people write it: π for pi.
pub(super) fn symbol(key: &str) -> &str {
    match key {
        "pi" => "π",
        "alpha" => "α",
        other => other,
    }
}

/// A setting and its value as people write them: π = 0.5.
pub(super) fn at(key: &str, value: f64) -> String {
    format!("{} = {value}", symbol(key))
}

impl<'a> Family<'a> {
    /// The row that represents the family, and whether it was selected on the validation part: the best there, or,
    /// where rows were not evaluated there, the best on the test part.
    pub(super) fn best(&self, experiment: &Experiment) -> Option<(&'a Row, bool)> {
        let metric = experiment.selection.metric;
        let validated = |row: &Row| row.chosen.and_then(|at| row.tried[at].value);
        let tested = |row: &Row| row.metric(metric.key, metric.cutoff).map(|spread| spread.mean);
        let rows = || self.rows.iter().map(|(_, row)| *row).filter(|row| tested(row).is_some());
        let by_validation = rows().all(|row| validated(row).is_some());
        let objective =
            |row: &Row| if by_validation { validated(row) } else { tested(row) }.map(|value| metric.objective(value));
        let valued = rows().filter_map(|row| Some((row, objective(row)?)));
        let best = valued.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        Some((best.0, by_validation))
    }
}

/// The results with one row a sweep where there are more than `most` rows; and how that row was selected, in words.
pub(super) fn condensed<'a>(experiment: &Experiment, results: &'a Results, most: usize) -> (Cow<'a, Results>, String) {
    let mut shown = Cow::Borrowed(results);
    let mut by_validation = true;
    for (at, data) in results.data.iter().enumerate() {
        let families = families(data);
        if data.rows.len() <= most || families.is_empty() {
            continue;
        }
        let best: Vec<_> = families.iter().filter_map(|family| family.best(experiment)).collect();
        by_validation &= best.iter().all(|(_, validated)| *validated);
        let mut labels: Vec<&str> = best.iter().map(|(row, _)| row.label.as_str()).collect();
        labels.extend(single_rows(data, &families).iter().map(|row| row.label.as_str()));
        shown.to_mut().data[at].rows.retain(|row| labels.contains(&row.label.as_str()));
    }
    let words = match (&shown, by_validation) {
        (Cow::Borrowed(_), _) => "",
        (Cow::Owned(_), true) => " Of each sweep, the row that was best on the validation part is shown here.",
        (Cow::Owned(_), false) => " Of each sweep, the row that is best on the test part is shown here.",
    };
    (shown, words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_models::settings::Value;
    use std::collections::BTreeMap;

    fn row(family: &str, swept: &[(&str, f64)]) -> Row {
        let swept: BTreeMap<String, Value> =
            swept.iter().map(|(key, value)| ((*key).to_owned(), Value::Real(*value))).collect();
        Row {
            label: format!("{family} {swept:?}"),
            family: family.to_owned(),
            model: "fpl".to_owned(),
            settings: swept.clone(),
            swept,
            metrics: BTreeMap::new(),
            bias_disparity: BTreeMap::new(),
            figures: BTreeMap::new(),
            cloud: Vec::new(),
            suggestions: Vec::new(),
            finals: Vec::new(),
            tried: Vec::new(),
            chosen: None,
            best_epochs: None,
            passed_over: Vec::new(),
            values: Vec::new(),
        }
    }

    #[test]
    fn family_names_omit_the_swept_value() {
        assert_eq!(family_name(&row("sFPL+, π = {pi}", &[("pi", 0.5)])), "sFPL+");
        assert_eq!(family_name(&row("FPL at {pi}", &[("pi", 0.5)])), "FPL at");
        assert_eq!(family_name(&row("FPL", &[("pi", 0.5)])), "FPL");
        assert_eq!(family_name(&row("FPL, {pi}, damped", &[("pi", 0.5)])), "FPL, damped");
        let two = row("FPL", &[("pi", 0.5), ("rate", 0.1)]);
        assert_eq!(name_without(&two, "pi"), "FPL, rate 0.1");
    }
}
