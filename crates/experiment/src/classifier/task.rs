//! What a classifier is trained for: images and their clients, network, rounds and targets.

use crate::file::did_you_mean;
use serde::{Serialize, Serializer};
use sottovoce_data::images::CelebA;
use sottovoce_models::classifier::{Architecture, Criterion};
use sottovoce_models::settings::Choice as _;
use std::fmt;
use std::str::FromStr;

/// The federated training of an image classifier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Classification {
    /// Maximum number of rounds.
    pub rounds: usize,
    /// Accuracies that clients are to reach on their own test images.
    pub targets: Vec<f64>,
    /// Fractions of the clients that are to reach them.
    pub devices: Vec<f64>,
    /// Training ends at this global accuracy instead of when all targets are reached.
    pub stop_at: Option<f64>,
    /// Rounds between checkpoints.
    #[serde(skip)]
    pub checkpoint_every: usize,
    /// The network.
    #[serde(serialize_with = "as_name")]
    pub network: Architecture,
    /// Fraction of the clients in a round's cohort.
    pub client_fraction: f64,
    /// Local epochs.
    pub epochs: usize,
    /// Images of a local step; 0: all of a client's.
    pub batch: usize,
}

impl Default for Classification {
    fn default() -> Self {
        Self {
            rounds: 1000,
            targets: vec![0.7, 0.8, 0.9, 0.95],
            devices: (1..10).map(|tenth| f64::from(tenth) / 10.0).collect(),
            stop_at: None,
            checkpoint_every: 10,
            network: Architecture::Cnn,
            client_fraction: 0.1,
            epochs: 5,
            batch: 0,
        }
    }
}

pub(crate) fn name_of(network: Architecture) -> &'static str {
    Architecture::NAMES.iter().find(|(_, known)| *known == network).map_or("", |(name, _)| name)
}

fn as_name<S: Serializer>(network: &Architecture, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name_of(*network))
}

/// Criteria by which updates are weighted, the most important first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregation(pub Vec<Criterion>);

impl fmt::Display for Aggregation {
    /// As the thesis writes it: `DS > LD > MW`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(|criterion| criterion.name().to_uppercase()).collect();
        f.write_str(&names.join(" > "))
    }
}

impl FromStr for Aggregation {
    type Err = String;

    /// Reads `ds > ld > mw`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut criteria = Vec::new();
        for name in text.split('>').map(str::trim) {
            let lower = name.to_lowercase();
            let criterion = Criterion::named(&lower).ok_or_else(|| {
                let hint = did_you_mean(&lower, Criterion::NAMES);
                format!("there is no criterion `{name}`{hint}; there are: {}", Criterion::NAMES.join(", "))
            })?;
            if criteria.contains(&criterion) {
                return Err(format!("{name} appears twice"));
            }
            criteria.push(criterion);
        }
        Ok(Self(criteria))
    }
}

impl Aggregation {
    /// Each criterion alone, then all of them in every order.
    pub fn all(criteria: &[Criterion]) -> Vec<Self> {
        let mut all: Vec<Vec<Criterion>> = criteria.iter().map(|&criterion| vec![criterion]).collect();
        if criteria.len() > 1 {
            permute(&mut Vec::new(), criteria, &mut all);
        }
        all.into_iter().map(Self).collect()
    }
}

fn permute(prefix: &mut Vec<Criterion>, all: &[Criterion], into: &mut Vec<Vec<Criterion>>) {
    if prefix.len() == all.len() {
        into.push(prefix.clone());
    }
    for criterion in all {
        if !prefix.contains(criterion) {
            prefix.push(*criterion);
            permute(prefix, all, into);
            prefix.pop();
        }
    }
}

/// Images and the clients that hold them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ImageData {
    /// Where they come from.
    pub source: ImageSource,
    /// How they are partitioned into clients.
    pub partition: Partition,
    /// Number of clients, for images without owners.
    pub clients: usize,
    /// Shards a client.
    pub shards: usize,
    /// Fraction of a person's images that is held out for testing.
    pub held_out: f64,
    /// Which of CelebA's images are used, and how; size and colours are those of synthetic faces as well.
    #[serde(flatten)]
    pub faces: CelebA,
    /// Synthetic people.
    pub people: usize,
    /// Their mean number of images.
    pub mean_images: f64,
    /// Seed of the partition, of what is held out, of the share of CelebA, and of synthetic faces.
    pub seed: u64,
}

/// Where images come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageSource {
    /// A folder with MNIST's files.
    Mnist(String),
    /// A folder with CelebA's files.
    CelebA(String),
    /// Synthetic faces.
    Faces,
}

impl fmt::Display for ImageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mnist(folder) | Self::CelebA(folder) => folder,
            Self::Faces => "synthetic faces",
        })
    }
}

impl ImageSource {
    pub(super) fn about(&self) -> &'static str {
        match self {
            Self::Mnist(_) => "Handwritten digits in idx files (MNIST).",
            Self::CelebA(_) => "Photographs of celebrities with attributes (CelebA).",
            Self::Faces => "Drawn by Sottovoce: a stand-in for photographs, and no substitute for them.",
        }
    }
}

/// How images are partitioned into clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Partition {
    /// At random, as many for each.
    Iid,
    /// In shards of images sorted by label.
    Shards,
    /// The same for training; tests are consecutive images of all classes.
    ShardsMixedTest,
    /// A client a person.
    People,
}

impl Partition {
    pub(super) fn about(self, images: &ImageData) -> String {
        let clients = images.clients;
        match self {
            Self::Iid => format!("dealt at random to {clients} devices (IID)"),
            Self::Shards => {
                let shards = clients * images.shards;
                format!("sorted by label, {shards} shards dealt to {clients} devices (non-IID)")
            }
            Self::ShardsMixedTest => {
                let shards = clients * images.shards;
                format!(
                    "sorted by label, {shards} shards dealt to {clients} devices; tests are consecutive mixed images"
                )
            }
            Self::People => {
                format!("a device a person; {:.0} % of the images held out at random", 100.0 * images.held_out)
            }
        }
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
