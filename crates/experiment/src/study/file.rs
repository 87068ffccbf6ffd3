//! The study file.

use super::Aggregation;
use crate::file::reader::{
    Entry, Fields, FileError, Result, Source, count, did_you_mean, list, number, switch, text, word,
};
use crate::file::sections::{Section, seed, seeds};
use crate::file::{FIRST_SEED, ReadError};
use serde::Serialize;
use sottovoce_models::classifier::{Architecture, Criterion};
use sottovoce_models::settings::nearest;
use std::fmt;
use std::path::Path;
use toml::de::{DeTable, DeValue};

const TOP: &[&str] = &["title", "question", "notes", "seeds", "study", "images", "training"];
const STUDY: &[&str] =
    &["criteria", "aggregations", "rounds", "targets", "devices", "stop_at", "checkpoint_every"];
const IMAGES: &[&str] = &[
    "kind",
    "folder",
    "partition",
    "clients",
    "shards",
    "held_out",
    "attribute",
    "blurry",
    "side",
    "colour",
    "share",
    "least",
    "people",
    "mean_images",
    "seed",
];
const TRAINING: &[&str] = &["network", "share", "epochs", "batch", "learning_rate"];
/// A baseline's rate is chosen by when this share of devices reaches the last target.
pub(super) const CHOSEN_BY: f64 = 0.5;

/// A study, read and checked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// The file, as the caller named it.
    #[serde(skip)]
    pub file: String,
    /// The headline of the report.
    #[serde(skip)]
    pub title: String,
    /// What the study is to find out.
    #[serde(skip)]
    pub question: Option<String>,
    /// Whatever a reader should know.
    #[serde(skip)]
    pub notes: Option<String>,
    /// Every aggregation is tried with each.
    #[serde(skip)]
    pub seeds: Vec<u64>,
    /// What is compared; the first is the baseline.
    #[serde(skip)]
    pub aggregations: Vec<Aggregation>,
    /// Rounds at most.
    pub rounds: usize,
    /// Accuracies that devices are to reach.
    pub targets: Vec<f64>,
    /// Shares of devices that are to reach them.
    pub devices: Vec<f64>,
    /// A training ends when the global accuracy is this.
    pub stop_at: Option<f64>,
    /// Rounds between checkpoints.
    #[serde(skip)]
    pub checkpoint_every: usize,
    /// The images and who has them.
    pub images: ImagesSpec,
    /// How devices train.
    pub training: Training,
}

/// The images and who has them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ImagesSpec {
    /// Where they come from.
    pub source: ImageSource,
    /// How they are given to clients.
    pub partition: Partition,
    /// Number of clients, where images are dealt.
    pub clients: usize,
    /// Shards a client.
    pub shards: usize,
    /// Share of a person's images that is held out for testing.
    pub held_out: f64,
    /// CelebA's attribute to be learnt.
    pub attribute: String,
    /// CelebA's attribute of images that are not sharp.
    pub blurry: String,
    /// Height and width of faces.
    pub side: usize,
    /// 3 for colours, 1 for grey values.
    pub channels: usize,
    /// Share of CelebA's images that is kept.
    pub share: f64,
    /// People with fewer images are left out.
    pub least: usize,
    /// Made-up people.
    pub people: usize,
    /// Their mean number of images.
    pub mean_images: f64,
    /// Seed of what is dealt, held out or made up.
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
    /// Made-up faces.
    Faces,
}

impl fmt::Display for ImageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mnist(folder) | Self::CelebA(folder) => folder,
            Self::Faces => "made-up faces",
        })
    }
}

impl ImageSource {
    /// What it is.
    pub fn about(&self) -> &'static str {
        match self {
            Self::Mnist(_) => "Handwritten digits in idx files (MNIST).",
            Self::CelebA(_) => "Photographs of celebrities with attributes (CelebA).",
            Self::Faces => "Drawn by Sottovoce: a stand-in for photographs, and no substitute for them.",
        }
    }
}

/// How images are given to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Partition {
    /// At random, as many for each.
    Alike,
    /// In shards of images sorted by label.
    Shards,
    /// A client a person.
    People,
}

impl Partition {
    /// In words.
    pub fn about(self, images: &ImagesSpec) -> String {
        match self {
            Self::Alike => format!("dealt at random to {} devices (IID)", images.clients),
            Self::Shards => format!(
                "sorted by label, {} shards dealt to {} devices (non-IID)",
                images.clients * images.shards,
                images.clients
            ),
            Self::People => {
                format!(
                    "a device a person; {:.0} % of the images held out at random",
                    100.0 * images.held_out
                )
            }
        }
    }
}

/// How devices train.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Training {
    /// The network.
    #[serde(serialize_with = "as_name")]
    pub network: Architecture,
    /// Share of the clients that are asked into a round.
    pub share: f64,
    /// Local epochs.
    pub epochs: usize,
    /// Images of a step; 0: all of a device's.
    pub batch: usize,
    /// Learning rates; of several, the one with which the baseline is fastest is taken.
    #[serde(skip)]
    pub rates: Vec<f64>,
}

/// The name of a network.
pub(super) fn network_name(network: Architecture) -> &'static str {
    Architecture::NAMES.iter().find(|(_, known)| *known == network).map_or("", |(name, _)| name)
}

fn as_name<S: serde::Serializer>(
    network: &Architecture,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(network_name(*network))
}

/// Whether a text is a study's and not an experiment's.
pub fn is_study(text: &str) -> bool {
    DeTable::parse(text).is_ok_and(|document| document.get_ref().contains_key("study"))
}

impl Study {
    /// Reads a study file.
    ///
    /// # Errors
    /// If the file cannot be opened or has a mistake.
    pub fn read(path: &Path) -> std::result::Result<Self, ReadError> {
        let file = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|reason| ReadError::Open { file: file.clone(), reason })?;
        Ok(Self::parse(&file, &text)?)
    }

    /// Reads a study from text; `file` is the name used in messages.
    ///
    /// # Errors
    /// If the text has a mistake.
    pub fn parse(file: &str, text_of: &str) -> std::result::Result<Self, FileError> {
        let source = Source { file, text: text_of };
        let document = DeTable::parse(text_of)
            .map_err(|error| source.error(error.span().unwrap_or(0..0), error.message().trim().to_owned()))?;
        let top = Fields::open(source, document.get_ref(), 0..0, "a study", TOP)?;
        let study = Section::open(&top, "study", STUDY)?;
        let targets = study.read("targets", shares)?;
        let nine = || (1..10).map(|tenth| f64::from(tenth) / 10.0).collect();
        Ok(Self {
            file: file.to_owned(),
            title: top.need("title", "a study", text)?,
            question: top.read("question", text)?,
            notes: top.read("notes", text)?,
            seeds: top.read("seeds", seeds)?.unwrap_or_else(|| vec![FIRST_SEED]),
            aggregations: aggregations(&top, &study)?,
            rounds: study.read("rounds", count)?.unwrap_or(1000),
            targets: targets.unwrap_or_else(|| vec![0.7, 0.8, 0.9, 0.95]),
            devices: study.read("devices", shares)?.unwrap_or_else(nine),
            stop_at: study.read("stop_at", share)?,
            checkpoint_every: study.read("checkpoint_every", count)?.unwrap_or(10),
            images: images(&top)?,
            training: training(&top)?,
        })
    }
}

fn aggregations(top: &Fields<'_>, study: &Section<'_>) -> Result<Vec<Aggregation>> {
    let criteria = study.read("criteria", criteria)?;
    let named = study.read("aggregations", |source, key, entry| {
        let parse = |item| {
            let given = text(source, key, item)?;
            let names = given.split('>').map(str::trim).collect::<Vec<_>>();
            Ok(Aggregation(ordered(source, key, item, &names)?))
        };
        let all: Vec<Aggregation> = list(source, key, entry)?.iter().map(parse).collect::<Result<_>>()?;
        match (1..all.len()).find(|&n| all[..n].contains(&all[n])) {
            Some(n) => Err(source.error(entry.span(), format!("{key}: {} is there twice", all[n]))),
            None => Ok(all),
        }
    })?;
    match (named, criteria) {
        (Some(named), _) => Ok(named),
        (None, Some(criteria)) => Ok(Aggregation::all(&criteria)),
        (None, None) => {
            let span = top.get("study").map_or(0..0, Entry::span);
            let message = "[study] needs `criteria` (all their orders are compared) or `aggregations`";
            Err(top.source.error(span, message))
        }
    }
}

fn criteria(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<Vec<Criterion>> {
    let names: Vec<String> =
        list(source, key, entry)?.iter().map(|item| text(source, key, item)).collect::<Result<_>>()?;
    ordered(source, key, entry, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Criteria by name, each once.
fn ordered(source: Source<'_>, key: &str, entry: &Entry<'_>, names: &[&str]) -> Result<Vec<Criterion>> {
    let mut all = Vec::new();
    for name in names {
        let lower = name.to_lowercase();
        let Some(criterion) = Criterion::named(&lower) else {
            let known: Vec<&str> = Criterion::NAMES.iter().map(|(name, _)| *name).collect();
            let hint = did_you_mean(nearest(&lower, known.iter().copied()));
            let message =
                format!("{key}: there is no criterion `{name}`{hint}; there are: {}", known.join(", "));
            return Err(source.error(entry.span(), message));
        };
        if all.contains(&criterion) {
            return Err(source.error(entry.span(), format!("{key}: {name} is there twice")));
        }
        all.push(criterion);
    }
    Ok(all)
}

fn images(top: &Fields<'_>) -> Result<ImagesSpec> {
    let section = Section::open(top, "images", IMAGES)?;
    let kinds: &[(&str, u8)] = &[("mnist", 0), ("celeba", 1), ("faces", 2)];
    let Some(kind) = section.read("kind", word(kinds))? else {
        return Err(top.source.error(0..0, "a study needs [images] with `kind`: mnist, celeba or faces"));
    };
    let folder = section.read("folder", text)?;
    let source = match kind {
        0 => ImageSource::Mnist(folder.unwrap_or_else(|| "mnist".to_owned())),
        1 => ImageSource::CelebA(folder.unwrap_or_else(|| "celeba".to_owned())),
        _ => ImageSource::Faces,
    };
    let dealt = kind == 0;
    let ways: &[(&str, Partition)] =
        &[("iid", Partition::Alike), ("shards", Partition::Shards), ("people", Partition::People)];
    let own = if dealt { Partition::Alike } else { Partition::People };
    let partition = section.read("partition", word(ways))?.unwrap_or(own);
    if dealt == (partition == Partition::People) {
        let message = "partition: digits are dealt (iid or shards), faces belong to people";
        let span = section.0.as_ref().and_then(|fields| fields.get("partition")).map_or(0..0, Entry::span);
        return Err(top.source.error(span, message));
    }
    Ok(ImagesSpec {
        source,
        partition,
        clients: section.read("clients", count)?.unwrap_or(100),
        shards: section.read("shards", count)?.unwrap_or(2),
        held_out: section.read("held_out", share)?.unwrap_or(0.2),
        attribute: section.read("attribute", text)?.unwrap_or_else(|| "Smiling".to_owned()),
        blurry: section.read("blurry", text)?.unwrap_or_else(|| "Blurry".to_owned()),
        side: section.read("side", count)?.unwrap_or(64),
        channels: if section.read("colour", switch)?.unwrap_or(true) { 3 } else { 1 },
        share: section.read("share", share)?.unwrap_or(1.0),
        least: section.read("least", count)?.unwrap_or(5),
        people: section.read("people", count)?.unwrap_or(500),
        mean_images: section.read("mean_images", positive)?.unwrap_or(12.0),
        seed: section.read("seed", seed)?.unwrap_or(FIRST_SEED),
    })
}

fn training(top: &Fields<'_>) -> Result<Training> {
    let section = Section::open(top, "training", TRAINING)?;
    let whole = |source: Source<'_>, key: &str, entry: &Entry<'_>| match entry.get_ref() {
        DeValue::Integer(n) if n.as_str() == "0" => Ok(0),
        _ => count(source, key, entry),
    };
    Ok(Training {
        network: section.read("network", word(Architecture::NAMES))?.unwrap_or(Architecture::Cnn),
        share: section.read("share", share)?.unwrap_or(0.1),
        epochs: section.read("epochs", count)?.unwrap_or(5),
        batch: section.read("batch", whole)?.unwrap_or(0),
        rates: section.read("learning_rate", rates)?.unwrap_or_else(|| vec![0.1]),
    })
}

fn rates(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<Vec<f64>> {
    match entry.get_ref() {
        DeValue::Array(_) => {
            list(source, key, entry)?.iter().map(|item| positive(source, key, item)).collect()
        }
        _ => Ok(vec![positive(source, key, entry)?]),
    }
}

fn positive(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<f64> {
    let value = number(source, key, entry)?;
    if value > 0.0 {
        return Ok(value);
    }
    Err(source.error(entry.span(), format!("{key}: expected a number above 0, found {value}")))
}

fn share(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<f64> {
    let value = number(source, key, entry)?;
    if value > 0.0 && value <= 1.0 {
        return Ok(value);
    }
    Err(source.error(entry.span(), format!("{key}: expected a number above 0 and up to 1, found {value}")))
}

/// Ascending shares.
fn shares(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<Vec<f64>> {
    let all: Vec<f64> =
        list(source, key, entry)?.iter().map(|item| share(source, key, item)).collect::<Result<_>>()?;
    if all.windows(2).all(|pair| pair[0] < pair[1]) {
        return Ok(all);
    }
    Err(source.error(entry.span(), format!("{key}: expected ascending numbers")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "title = \"t\"\n[study]\ncriteria = [\"ds\", \"LD\"]\n[images]\nkind = \"mnist\"\n";

    fn error(text: &str) -> String {
        Study::parse("f.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_file_says_what_differs_from_the_thesis() {
        let study = Study::parse("f.toml", SMALL).unwrap();
        assert_eq!((study.aggregations.len(), study.rounds, study.images.clients), (4, 1000, 100));
        assert_eq!((study.targets.len(), study.devices.len()), (4, 9));
        assert_eq!((study.training.epochs, study.training.batch, study.training.share), (5, 0, 0.1));
        assert!(
            is_study(SMALL) && !is_study("title = \"t\"\n[[model]]\nname = \"fpl\"\n") && !is_study("[[")
        );
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let with = |study: &str| SMALL.replace("criteria = [\"ds\", \"LD\"]", study);
        let found = error(&with("criteria = [\"ds\", \"sd\"]"));
        assert!(found.starts_with("f.toml:3:12: criteria: there is no criterion `sd`"), "{found}");
        assert_eq!(error(&with("criteria = [\"ds\", \"ds\"]")), "f.toml:3:12: criteria: ds is there twice");
        let found = error(&with("aggregations = [\"ds\", \"ds > mw > ds\"]"));
        assert_eq!(found, "f.toml:3:23: aggregations: ds is there twice");
        assert!(error(&with("aggregations = [\"ds\", \"ds\"]")).ends_with("aggregations: DS is there twice"));
        assert!(error(&with("aggregations = [\"ds > \"]")).contains("no criterion ``"));
        assert!(error(&with("rounds = 3")).contains("needs `criteria`"));
        assert!(error(&with("criteria = [\"ds\"]\nrounds = 0")).contains("at least 1, found 0"));
        assert!(error(&with("criteria = [\"ds\"]\ntargets = [0.9, 0.8]")).contains("ascending"));
        assert!(error(&with("criteria = [\"ds\"]\ntargets = [1.8]")).contains("up to 1, found 1.8"));
        assert!(
            error(&format!("{SMALL}clients = 0\n"))
                .contains("clients: expected a whole number of at least 1")
        );
        assert!(error(&format!("{SMALL}partition = \"people\"\n")).contains("digits are dealt"));
        assert!(error(&format!("{SMALL}[training]\nnetwork = \"cn\"\n")).contains("did you mean `cnn`"));
        assert!(error(&format!("{SMALL}[training]\nlearning_rate = [0.1, 0]\n")).contains("above 0"));
        assert!(error("title = \"t\"\n[study]\ncriteria = [\"ds\"]\n").contains("needs [images]"));
    }
}
