//! The training curve of a classifier: its accuracy after each round.

use serde::{Deserialize, Serialize};

/// Why training ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It has not.
    #[default]
    UnderWay,
    /// The maximum number of rounds was reached.
    Rounds,
    /// Every target was reached.
    Targets,
    /// The accuracy at which to stop was reached.
    Accuracy,
    /// Training diverged: the error message.
    Diverged(String),
}

/// The best round of a training.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BestRound {
    /// From 1; 0 before the first round.
    pub round: usize,
    /// Its global accuracy.
    pub accuracy: f64,
    /// Which test images it classified correctly, client after client: four images a hexadecimal digit, the first in
    /// its highest bit.
    pub right: String,
}

/// The training curve of a classifier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccuracyCurve {
    /// Accuracy over the test images of all devices, after each round.
    pub accuracy: Vec<f64>,
    /// By target: how many devices had reached it after each round.
    pub reached: Vec<Vec<u32>>,
    /// Mean training loss of each round.
    pub loss: Vec<f64>,
    /// The best round.
    pub best: BestRound,
    /// Bytes that devices uploaded.
    pub bytes_up: u64,
    /// Why training ended.
    pub ending: StopReason,
}

/// The shared model on the devices' test images after a round.
pub(super) struct RoundAccuracy {
    /// By device: images, and how many of them were classified correctly.
    pub(super) devices: Vec<(usize, usize)>,
    /// Image by image, device after device: whether it was classified correctly.
    pub(super) right: Vec<bool>,
}

impl AccuracyCurve {
    /// Before the first round, with so many targets.
    pub(super) fn new(targets: usize) -> Self {
        Self { reached: vec![Vec::new(); targets], ..Self::default() }
    }

    /// Rounds done.
    pub fn rounds(&self) -> usize {
        self.accuracy.len()
    }

    /// Appends a round.
    pub(super) fn add(&mut self, round: &RoundAccuracy, targets: &[f64], loss: f64) {
        let (all, right) = round.devices.iter().fold((0, 0), |(all, sum), (n, right)| (all + n, sum + right));
        let accuracy = right as f64 / all.max(1) as f64;
        self.accuracy.push(accuracy);
        self.loss.push(loss);
        for (target, reached) in targets.iter().zip(&mut self.reached) {
            // A share of whole images: 0.95 of 20 images are 19, whatever the rounding.
            let at_target = |&&(n, right): &&(usize, usize)| right as f64 >= target * n as f64 - 1e-9;
            reached.push(round.devices.iter().filter(at_target).count() as u32);
        }
        if accuracy > self.best.accuracy || self.best.round == 0 {
            self.best = BestRound { round: self.rounds(), accuracy, right: hexadecimal(&round.right) };
        }
    }

    /// The first round, from 1, after which this share of devices had reached the target of this number.
    pub fn round_of(&self, target: usize, share: f64, devices: usize) -> Option<usize> {
        let enough = |reached: &u32| f64::from(*reached) >= share * devices as f64 - 1e-9;
        Some(self.reached.get(target)?.iter().position(enough)? + 1)
    }

    /// The first round, from 1, with this global accuracy.
    pub fn round_of_accuracy(&self, accuracy: f64) -> Option<usize> {
        Some(self.accuracy.iter().position(|&found| found >= accuracy)? + 1)
    }
}

impl BestRound {
    /// Image by image, whether it was classified correctly.
    pub fn images(&self) -> impl Iterator<Item = bool> + '_ {
        self.right.chars().flat_map(|digit| {
            let four = digit.to_digit(16).unwrap_or(0);
            (0..4).map(move |bit| four >> (3 - bit) & 1 == 1)
        })
    }
}

fn hexadecimal(bits: &[bool]) -> String {
    let digit = |four: &[bool]| {
        let value = (0..4).fold(0, |value, bit| 2 * value + u32::from(four.get(bit) == Some(&true)));
        char::from_digit(value, 16).unwrap_or('0')
    };
    bits.chunks(4).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(rights: [usize; 4]) -> RoundAccuracy {
        let devices = rights.map(|right| (10, right)).to_vec();
        let right = rights.iter().flat_map(|&right| (0..10).map(move |n| n < right)).collect();
        RoundAccuracy { devices, right }
    }

    #[test]
    fn counts_rounds_until_enough_devices_reach_a_target() {
        let targets = [0.7, 0.9];
        let mut curve = AccuracyCurve::new(2);
        for rights in [[1, 2, 3, 7], [7, 9, 6, 7], [9, 9, 8, 5]] {
            curve.add(&round(rights), &targets, 1.0);
        }
        assert_eq!(curve.reached, [[1, 3, 3], [0, 1, 2]]);
        assert_eq!(curve.accuracy, [13.0 / 40.0, 29.0 / 40.0, 31.0 / 40.0]);
        let of = |target, share| curve.round_of(target, share, 4);
        assert_eq!([of(0, 0.1), of(0, 0.25), of(0, 0.5), of(0, 0.9)], [Some(1), Some(1), Some(2), None]);
        assert_eq!([of(1, 0.25), of(1, 0.5), of(2, 0.1)], [Some(2), Some(3), None]);
        assert_eq!((curve.round_of_accuracy(0.7), curve.round_of_accuracy(0.8)), (Some(2), None));
    }

    #[test]
    fn remembers_the_answers_of_the_best_round() {
        let mut curve = AccuracyCurve::new(0);
        curve.add(&round([9, 9, 9, 9]), &[], 1.0);
        curve.add(&round([1, 2, 3, 4]), &[], 1.0);
        assert_eq!((curve.best.round, curve.best.accuracy), (1, 0.9));
        let images: Vec<bool> = curve.best.images().collect();
        assert_eq!((images.len(), &images[..]), (40, &round([9; 4]).right[..]));
        assert_eq!(hexadecimal(&[true, false, false, true, true]), "98");
    }
}
