//! Figures that a device can report of itself when a round asks for them and its owner agrees.
//!
//! A server may let updates count by them. What they say of a person is little, but not nothing: each is named here
//! with what it is for, and an owner can keep any of them back.

use sottovoce_protocol::{Rows, Update};

/// Number of things in the history (the thesis's DS).
pub const SIZE: &str = "size";

/// Number of different categories in the history, or of labels among samples (LD).
pub const DIVERSITY: &str = "diversity";

/// How near what was learnt is to the shared model (MW): see [`closeness`].
pub const CLOSENESS: &str = "closeness";

/// The same by layers and without biases: see [`kernel_closeness`].
pub const KERNEL_CLOSENESS: &str = "kernel-closeness";

/// How new the latest interaction is: see [`recency`].
pub const RECENCY: &str = "recency";

/// Smallest number of samples of a class by the largest (CB); for classifiers.
pub const BALANCE: &str = "balance";

/// Share of images that are sharp (IS); for classifiers of images.
pub const SHARPNESS: &str = "sharpness";

/// Mean loss of the samples learnt from.
pub const LOSS: &str = "loss";

/// How an item that was left out ranks among those the owner does not have: the share of them that it beats.
pub const AUC: &str = "auc";

/// What a criterion is asked for, in words for the device's owner.
pub fn purpose(name: &str) -> &'static str {
    match name {
        SIZE => "updates learnt from more count more",
        DIVERSITY => "updates learnt from more different things count more",
        CLOSENESS | KERNEL_CLOSENESS => "updates that go less far from the shared model count more",
        RECENCY => "updates learnt from newer things count more",
        BALANCE => "updates learnt from evenly spread classes count more",
        SHARPNESS => "updates learnt from sharp images count more",
        LOSS => "to see whether the model learns",
        AUC => "to see whether the model recommends well",
        _ => "it says how much updates count",
    }
}

/// Closeness of the local model to the shared one, `1 / sqrt(|change| + 1)` with the Euclidean length of all that was
/// learnt, before the owner's policy.
pub fn closeness(update: &Update) -> f64 {
    let values = update.tables().iter().flat_map(Rows::values);
    let square: f64 = values.map(|&value| f64::from(value) * f64::from(value)).sum();
    1.0 / (square.sqrt() + 1.0).sqrt()
}

/// The same with the mean of the layers' Euclidean lengths in place of the length of all: a layer counts as much as
/// another, whatever its size. Only kernels count, the tensors of two sides and more.
pub fn kernel_closeness(update: &Update) -> f64 {
    let length =
        |rows: &Rows| rows.values().iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt();
    let lengths: Vec<f64> = update.tables().iter().filter(|rows| rows.len() > 1).map(length).collect();
    1.0 / (lengths.iter().sum::<f64>() / lengths.len().max(1) as f64 + 1.0).sqrt()
}

/// Number of different categories among the items of a history; `of` gives an item's.
pub fn diversity<C: Ord>(history: &[u32], of: impl Fn(u32) -> Vec<C>) -> usize {
    let mut all: Vec<C> = history.iter().flat_map(|&item| of(item)).collect();
    all.sort_unstable();
    all.dedup();
    all.len()
}

/// Days after which a history counts half as new as one of today.
const HALF_DAYS: f64 = 30.0;

/// How new the latest interaction is, `1 / (1 + age in days / 30)`; times are in seconds.
pub fn recency(latest: i64, now: i64) -> f64 {
    let days = now.saturating_sub(latest).max(0) as f64 / 86_400.0;
    1.0 / (1.0 + days / HALF_DAYS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_protocol::{Keyed, Layout, Shape, Trained};

    #[test]
    fn figures_are_as_written() {
        let layout = Layout::new(vec![Shape::new("weights", 1, 2, Keyed::Dense)]).unwrap();
        let mut trained = Trained::new(&layout);
        assert_eq!(closeness(trained.update()), 1.0);
        trained.copy_whole(0, &[3.0 * 3.0, 4.0 * 3.0]).unwrap();
        assert_eq!(closeness(trained.update()), 0.25);
        let shapes = [("kernel", 2, 2), ("bias", 1, 2), ("classes", 2, 1)];
        let shapes = shapes.map(|(name, rows, cols)| Shape::new(name, rows, cols, Keyed::Dense));
        let mut trained = Trained::new(&Layout::new(shapes.into()).unwrap());
        trained.copy_whole(0, &[6.0, 0.0, 0.0, 0.0]).unwrap();
        trained.copy_whole(1, &[100.0, 100.0]).unwrap();
        trained.copy_whole(2, &[0.0, 0.0]).unwrap();
        assert_eq!(kernel_closeness(trained.update()), 0.5);
        assert_eq!(diversity(&[0, 1, 2], |item| vec![item % 2, 7]), 3);
        assert_eq!(recency(86_400 * 10, 86_400 * 40), 0.5);
        assert_eq!(recency(100, 50), 1.0);
    }
}
