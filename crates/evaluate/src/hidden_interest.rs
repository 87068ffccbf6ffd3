//! Look-alike modelling: does a model find the interest that was hidden?

use serde::Serialize;

/// Scores above this suggest a category, after calibration.
const THRESHOLD: f32 = 0.6;

/// How well hidden interests were found, over all people.
///
/// Only categories that were not shown to the model count, as in section 6.2 of Vedana's thesis (Padova 2022). Ties are
/// resolved against the model: a category with the score of the hidden one ranks above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HiddenInterestMetrics {
    /// Share of people whose hidden interest ranks first.
    #[serde(rename = "hit@1")]
    pub hit_at_1: f64,
    /// Share of people whose hidden interest is among the first four.
    #[serde(rename = "hit@4")]
    pub hit_at_4: f64,
    /// Of all categories scored above 0.6, the share that is the hidden one; absent if none is, or scores are
    /// no probabilities.
    #[serde(rename = "precision@0.6", skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
    /// Share of people whose hidden interest scores above 0.6; absent if scores are no probabilities.
    #[serde(rename = "recall@0.6", skip_serializing_if = "Option::is_none")]
    pub recall: Option<f64>,
    /// Mean steps in the taxonomy from the hidden interest to the categories that rank above it; 0 for somebody whose
    /// hidden interest ranks first.
    pub taxonomy_distance: f64,
    /// People.
    pub people: usize,
}

/// Adds up people.
#[derive(Clone, Copy, Debug, Default)]
pub struct HiddenInterests {
    people: usize,
    first: usize,
    among_four: usize,
    suggested: u64,
    found: u64,
    distance: f64,
}

impl HiddenInterests {
    /// Adds a person: scores of all categories, those that were shown (ascending), and the hidden one. `distance` is
    /// that of two categories in the taxonomy.
    pub fn add(&mut self, scores: &[f32], shown: &[u32], hidden: u32, distance: impl Fn(u32, u32) -> u32) {
        let target = scores[hidden as usize];
        let (mut above, mut sum) = (0u32, 0u64);
        for (category, &score) in (0..).zip(scores) {
            if shown.binary_search(&category).is_ok() {
                continue;
            }
            self.suggested += u64::from(score > THRESHOLD);
            if category != hidden && score >= target {
                above += 1;
                sum += u64::from(distance(hidden, category));
            }
        }
        self.people += 1;
        self.first += usize::from(above < 1);
        self.among_four += usize::from(above < 4);
        self.found += u64::from(target > THRESHOLD);
        self.distance += if above == 0 { 0.0 } else { sum as f64 / f64::from(above) };
    }

    /// The means; `calibrated` tells whether scores are probabilities.
    pub fn finish(&self, calibrated: bool) -> HiddenInterestMetrics {
        let people = self.people.max(1) as f64;
        HiddenInterestMetrics {
            hit_at_1: self.first as f64 / people,
            hit_at_4: self.among_four as f64 / people,
            precision: (calibrated && self.suggested > 0).then(|| self.found as f64 / self.suggested as f64),
            recall: calibrated.then_some(self.found as f64 / people),
            taxonomy_distance: self.distance / people,
            people: self.people,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thesis's example: the hidden category ranks third, after one at distance 3 and one at distance 2.
    #[test]
    fn taxonomy_distance_is_that_of_the_thesis() {
        let distance = |_: u32, other: u32| if other == 1 { 3 } else { 2 };
        let mut people = HiddenInterests::default();
        people.add(&[0.7, 0.9, 0.8, 0.1, 1.0], &[4], 0, distance);
        let metrics = people.finish(true);
        assert_eq!((metrics.taxonomy_distance, metrics.hit_at_1, metrics.hit_at_4), (2.5, 0.0, 1.0));
        assert_eq!((metrics.precision, metrics.recall), (Some(1.0 / 3.0), Some(1.0)));
        people.add(&[0.5, 0.2, 0.3, 0.1, 1.0], &[4], 0, distance);
        let metrics = people.finish(true);
        assert_eq!((metrics.taxonomy_distance, metrics.hit_at_1, metrics.recall), (1.25, 0.5, Some(0.5)));
        assert_eq!(people.finish(false).recall, None);
    }

    #[test]
    fn equal_scores_do_not_flatter() {
        let mut people = HiddenInterests::default();
        people.add(&[0.0; 6], &[], 2, |_, _| 4);
        let metrics = people.finish(true);
        assert_eq!((metrics.hit_at_1, metrics.hit_at_4, metrics.taxonomy_distance), (0.0, 0.0, 4.0));
    }
}
