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
    /// Area under the curve of precision over recall, at all thresholds and over all people; absent if scores are no
    /// probabilities. Unlike precision at one threshold it does not depend on how much a model suggests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_precision: Option<f64>,
    /// Mean steps in the taxonomy from the hidden interest to the categories that rank above it; 0 for somebody whose
    /// hidden interest ranks first.
    pub taxonomy_distance: f64,
    /// People.
    pub people: usize,
}

/// Steps of scores between 0 and 1 by which precision is known at any threshold.
const LEVELS: usize = 10_000;

/// Adds up people.
#[derive(Clone, Debug, Default)]
pub struct HiddenInterests {
    /// By score: categories that have it, and hidden ones among them.
    levels: Vec<(u64, u64)>,
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
        self.levels.resize(LEVELS + 1, (0, 0));
        let (mut above, mut sum) = (0u32, 0u64);
        for (category, &score) in (0..).zip(scores) {
            if shown.binary_search(&category).is_ok() {
                continue;
            }
            self.suggested += u64::from(score > THRESHOLD);
            let level = &mut self.levels[(score.clamp(0.0, 1.0) * LEVELS as f32) as usize];
            *level = (level.0 + 1, level.1 + u64::from(category == hidden));
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

    /// Precision at the threshold at which this share of people has its hidden interest suggested, whatever else is;
    /// absent if no threshold gives it.
    pub fn precision_at_recall(&self, recall: f64) -> Option<f64> {
        let wanted = recall * self.people as f64;
        let (mut suggested, mut found) = (0.0, 0.0);
        for &(all, hidden) in self.levels.iter().rev() {
            let (all, hidden) = (all as f64, hidden as f64);
            if hidden > 0.0 && found + hidden >= wanted {
                // Of a level as much as is wanted.
                let share = ((wanted - found) / hidden).max(0.0);
                let suggested = suggested + share * all;
                return (suggested > 0.0).then(|| (found + share * hidden) / suggested);
            }
            (suggested, found) = (suggested + all, found + hidden);
        }
        None
    }

    /// Mean over the hidden interests of the precision at the threshold that just suggests each.
    fn average_precision(&self) -> f64 {
        let (mut suggested, mut found, mut sum) = (0.0, 0.0, 0.0);
        for &(all, hidden) in self.levels.iter().rev() {
            (suggested, found) = (suggested + all as f64, found + hidden as f64);
            sum += if hidden > 0 { hidden as f64 * found / suggested } else { 0.0 };
        }
        sum / self.people.max(1) as f64
    }

    /// The means; `calibrated` tells whether scores are probabilities.
    pub fn finish(&self, calibrated: bool) -> HiddenInterestMetrics {
        let people = self.people.max(1) as f64;
        HiddenInterestMetrics {
            hit_at_1: self.first as f64 / people,
            hit_at_4: self.among_four as f64 / people,
            precision: (calibrated && self.suggested > 0).then(|| self.found as f64 / self.suggested as f64),
            recall: calibrated.then_some(self.found as f64 / people),
            average_precision: calibrated.then(|| self.average_precision()),
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
    fn precision_is_known_at_any_recall() {
        let mut people = HiddenInterests::default();
        // Hidden at 0.9, 0.5 and 0.1; above the second one wrong suggestion, above the third four.
        people.add(&[0.9, 0.05, 0.05], &[], 0, |_, _| 1);
        people.add(&[0.5, 0.7, 0.05], &[], 0, |_, _| 1);
        people.add(&[0.1, 0.2, 0.3], &[], 0, |_, _| 1);
        let at = |recall| people.precision_at_recall(recall).unwrap();
        assert_eq!([at(1.0 / 3.0), at(2.0 / 3.0), at(1.0)], [1.0, 2.0 / 3.0, 0.5]);
        assert_eq!(at(0.5), 0.6, "half of the second, and no less of what is wrong above it");
        let average = people.finish(true).average_precision.unwrap();
        assert!((average - (1.0 + 2.0 / 3.0 + 0.5) / 3.0).abs() < 1e-12, "{average}");
        assert_eq!((people.precision_at_recall(1.1), people.finish(false).average_precision), (None, None));
    }

    #[test]
    fn equal_scores_do_not_flatter() {
        let mut people = HiddenInterests::default();
        people.add(&[0.0; 6], &[], 2, |_, _| 4);
        let metrics = people.finish(true);
        assert_eq!((metrics.hit_at_1, metrics.hit_at_4, metrics.taxonomy_distance), (0.0, 0.0, 4.0));
    }
}
