//! Continual learning: people made up by a trained model, so that it does not forget what it knew.

use super::network::uncalibrated;
use crate::choices;
use sottovoce_core::Rng;

choices! {
    /// What a model that was trained on earlier data does with new data.
    #[derive(Default)]
    pub enum Continual {
        /// There is no earlier data: it is trained on the new data alone.
        #[default]
        Nothing => "none",
        /// It is trained on, with new data only; it forgets.
        Refine => "refine",
        /// The same with people whom the earlier model makes up among the new ones, one in four.
        Replay => "replay",
        /// The same with real people of the earlier data, as many.
        Merge => "merge",
    }
}

/// Real people for each replayed one.
pub const REPLAY_SHARE: usize = 4;

/// Categories that the second interest is drawn from.
const STRONGEST: usize = 5;

/// The interests of made-up people, two each, as `score` remembers them: the first as it scores somebody without
/// interests, the second among the five categories that it scores highest for the first. `score` gives calibrated
/// scores of all categories for some interests.
pub fn replayed(
    people: usize,
    categories: usize,
    mut score: impl FnMut(&[u32], &mut [f32]),
    rng: &mut Rng,
) -> Vec<[u32; 2]> {
    if categories < 2 {
        return Vec::new();
    }
    let mut scores = vec![0.0; categories];
    score(&[], &mut scores);
    let firsts = cumulated(scores.iter().map(|&score| f64::from(uncalibrated(score))));
    // What comes second depends on the first alone.
    let mut seconds: Vec<Option<(Vec<u32>, Vec<f64>)>> = vec![None; categories];
    let draw = |cumulated: &[f64], rng: &mut Rng| {
        let at = rng.unit() * cumulated.last().copied().unwrap_or(0.0);
        cumulated.partition_point(|&sum| sum <= at).min(cumulated.len() - 1)
    };
    (0..people)
        .map(|_| {
            let first = draw(&firsts, rng) as u32;
            let (others, weights) = seconds[first as usize].get_or_insert_with(|| {
                score(&[first], &mut scores);
                let mut others: Vec<u32> = (0..categories as u32).filter(|&other| other != first).collect();
                others.sort_by(|&a, &b| scores[b as usize].total_cmp(&scores[a as usize]).then(a.cmp(&b)));
                others.truncate(STRONGEST);
                let weights = cumulated(others.iter().map(|&other| f64::from(uncalibrated(scores[other as usize]))));
                (others, weights)
            });
            let second = others[draw(weights, rng)];
            [first.min(second), first.max(second)]
        })
        .collect()
}

/// Running sums.
fn cumulated(weights: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sum = 0.0;
    weights
        .map(|weight| {
            sum += weight.max(f64::MIN_POSITIVE);
            sum
        })
        .collect()
}
