//! What is varied in a study.

use super::Study;
use crate::plan::hash;
use serde::{Serialize, Serializer};
use sottovoce_models::classifier::Criterion;
use std::fmt;

/// Criteria by which updates are weighed, the most important first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregation(pub Vec<Criterion>);

impl fmt::Display for Aggregation {
    /// As the thesis writes it: `DS > LD > MW`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(|criterion| criterion.name().to_uppercase()).collect();
        f.write_str(&names.join(" > "))
    }
}

impl Serialize for Aggregation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Aggregation {
    /// Each criterion alone, then all of them in every order.
    pub fn all(criteria: &[Criterion]) -> Vec<Self> {
        let mut all: Vec<Self> = criteria.iter().map(|&criterion| Self(vec![criterion])).collect();
        if criteria.len() > 1 {
            let mut orders = Vec::new();
            order(&mut Vec::new(), criteria, &mut orders);
            all.extend(orders.into_iter().map(Self));
        }
        all
    }
}

fn order(begun: &mut Vec<Criterion>, all: &[Criterion], into: &mut Vec<Vec<Criterion>>) {
    if begun.len() == all.len() {
        into.push(begun.clone());
    }
    for criterion in all {
        if !begun.contains(criterion) {
            begun.push(*criterion);
            order(begun, all, into);
            begun.pop();
        }
    }
}

/// One training of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// How updates are weighed.
    pub aggregation: Aggregation,
    /// The devices' learning rate.
    pub rate: f64,
    /// Determines the start, the cohorts and the order of images.
    pub seed: u64,
}

/// Changes whenever the meaning of a configuration changes.
const MEANING: u32 = 1;

impl Configuration {
    /// Names the configuration in the run folder: a hash of all that determines its course.
    pub fn key(&self, study: &Study, data: &str) -> String {
        #[derive(Serialize)]
        struct Meaning<'a> {
            meaning: u32,
            data: &'a str,
            study: &'a Study,
            aggregation: &'a Aggregation,
            rate: f64,
            seed: u64,
        }
        let Self { aggregation, rate, seed } = self;
        hash(&Meaning { meaning: MEANING, data, study, aggregation, rate: *rate, seed: *seed })
    }

    /// In words.
    pub fn describe(&self) -> String {
        format!("{}, rate {}, seed {}", self.aggregation, self.rate, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_criteria_make_nine_aggregations() {
        let criteria = ["ds", "ld", "mw"].map(|name| Criterion::named(name).unwrap());
        let all: Vec<String> = Aggregation::all(&criteria).iter().map(ToString::to_string).collect();
        let expected = [
            "DS",
            "LD",
            "MW",
            "DS > LD > MW",
            "DS > MW > LD",
            "LD > DS > MW",
            "LD > MW > DS",
            "MW > DS > LD",
            "MW > LD > DS",
        ];
        assert_eq!(all, expected);
        assert_eq!(Aggregation::all(&criteria[..1]).len(), 1);
    }
}
