//! What a training was like, round by round.

use serde::{Deserialize, Serialize};

/// Why a training was over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It is not.
    #[default]
    UnderWay,
    /// All rounds were done.
    Rounds,
    /// Every target was reached.
    Targets,
    /// The accuracy at which the study asks to stop was reached.
    Accuracy,
    /// The model grew without bound; what was said.
    Diverged(String),
}

/// The best round of a training.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// From 1; 0 before the first round.
    pub round: usize,
    /// Its global accuracy.
    pub accuracy: f64,
    /// Which test images it took for what they are, client after client: four images a hexadecimal digit, the first the
    /// highest.
    pub right: String,
}

/// A training, round by round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Course {
    /// The mean of devices' accuracies on their own test images, weighted by their number, after each round.
    pub accuracy: Vec<f64>,
    /// By target: how many devices had reached it, after each round.
    pub reached: Vec<Vec<u32>>,
    /// Mean loss of the images that were learnt from, before each round.
    pub loss: Vec<f64>,
    /// The best round.
    pub best: Best,
    /// Bytes that devices sent.
    pub bytes_up: u64,
    /// Seconds it took, waiting for others included.
    pub seconds: f64,
    /// Why it was over.
    pub ending: Ending,
}

/// What devices made of their test images after a round.
pub(super) struct Judged {
    /// By device: images, and how many of them were taken for what they are.
    pub(super) devices: Vec<(usize, usize)>,
    /// Image by image, device after device.
    pub(super) right: Vec<bool>,
}

impl Course {
    /// Before the first round, with so many targets.
    pub(super) fn new(targets: usize) -> Self {
        Self { reached: vec![Vec::new(); targets], ..Self::default() }
    }

    /// Rounds done.
    pub fn rounds(&self) -> usize {
        self.accuracy.len()
    }

    /// Takes in a round.
    pub(super) fn add(&mut self, judged: &Judged, targets: &[f64], loss: f64) {
        let (all, right) =
            judged.devices.iter().fold((0, 0), |(all, sum), (n, right)| (all + n, sum + right));
        let accuracy = right as f64 / all.max(1) as f64;
        self.accuracy.push(accuracy);
        self.loss.push(loss);
        for (target, reached) in targets.iter().zip(&mut self.reached) {
            // A share of whole images: 0.95 of 20 images are 19, whatever the rounding.
            let at_target = |&&(n, right): &&(usize, usize)| right as f64 >= target * n as f64 - 1e-9;
            reached.push(judged.devices.iter().filter(at_target).count() as u32);
        }
        if accuracy > self.best.accuracy || self.best.round == 0 {
            self.best = Best { round: self.rounds(), accuracy, right: hexadecimal(&judged.right) };
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

impl Best {
    /// Image by image, whether it was taken for what it is.
    pub fn images(&self) -> impl Iterator<Item = bool> + '_ {
        self.right.chars().flat_map(|digit| {
            let four = digit.to_digit(16).unwrap_or(0);
            (0..4).map(move |place| four >> (3 - place) & 1 == 1)
        })
    }
}

fn hexadecimal(bits: &[bool]) -> String {
    let digit = |four: &[bool]| {
        let value = (0..4).fold(0, |value, place| 2 * value + u32::from(four.get(place) == Some(&true)));
        char::from_digit(value, 16).unwrap_or('0')
    };
    bits.chunks(4).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(rights: [usize; 4]) -> Judged {
        let devices = rights.map(|right| (10, right)).to_vec();
        let right = rights.iter().flat_map(|&right| (0..10).map(move |n| n < right)).collect();
        Judged { devices, right }
    }

    #[test]
    fn rounds_are_counted_until_enough_devices_are_there() {
        let targets = [0.7, 0.9];
        let mut course = Course::new(2);
        for rights in [[1, 2, 3, 7], [7, 9, 6, 7], [9, 9, 8, 5]] {
            course.add(&judged(rights), &targets, 1.0);
        }
        assert_eq!(course.reached, [[1, 3, 3], [0, 1, 2]]);
        assert_eq!(course.accuracy, [13.0 / 40.0, 29.0 / 40.0, 31.0 / 40.0]);
        let of = |target, share| course.round_of(target, share, 4);
        assert_eq!([of(0, 0.1), of(0, 0.25), of(0, 0.5), of(0, 0.9)], [Some(1), Some(1), Some(2), None]);
        assert_eq!([of(1, 0.25), of(1, 0.5), of(2, 0.1)], [Some(2), Some(3), None]);
        assert_eq!((course.round_of_accuracy(0.7), course.round_of_accuracy(0.8)), (Some(2), None));
    }

    #[test]
    fn the_best_round_keeps_its_answers() {
        let mut course = Course::new(0);
        course.add(&judged([9, 9, 9, 9]), &[], 1.0);
        course.add(&judged([1, 2, 3, 4]), &[], 1.0);
        assert_eq!((course.best.round, course.best.accuracy), (1, 0.9));
        let images: Vec<bool> = course.best.images().collect();
        assert_eq!((images.len(), &images[..]), (40, &judged([9; 4]).right[..]));
        assert_eq!(hexadecimal(&[true, false, false, true, true]), "98");
    }
}
