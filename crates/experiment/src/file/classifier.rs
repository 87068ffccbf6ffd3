//! Experiments on image classifiers: `[classifier]` (or its old name, `[study]`), `[images]` and `[training]`.

use super::reader::{Field, Fields, FileError, Result, Source};
use super::sections::header;
use super::{DataSet, Experiment, FIRST_SEED, Learner, RowSpec, Tuning};
use crate::classifier::{Aggregation, Classification, ImageData, ImageSource, Partition};
use sottovoce_data::images::CelebA;
use sottovoce_evaluate::Protocol;
use sottovoce_models::classifier::Architecture;
use sottovoce_models::settings::Value;
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// The section that makes an experiment one on classifiers: its name, and its old one.
pub(super) const SECTIONS: [&str; 2] = ["classifier", "study"];
const CLASSIFIER: &str = "criteria, aggregations, rounds, targets, devices, stop_at, checkpoint_every";
const IMAGES: &str = "kind, folder, partition, clients, shards, held_out, attribute, blurry, side, colour, share, \
    least, people, mean_images, seed";
const TRAINING: &str = "network, share, epochs, batch, learning_rate";

/// Reads an experiment on classifiers whose main section has this name.
pub(super) fn experiment<'a>(
    source: Source<'a>,
    document: &'a DeTable<'a>,
    section: &'static str,
) -> Result<Experiment> {
    let known = format!("title, question, notes, seeds, {section}, images, training");
    let top = Fields::open(source, document, 0..0, "an experiment on classifiers", &known)?;
    let main = top.section(section, "[classifier]", CLASSIFIER)?;
    let training = top.section("training", "[training]", TRAINING)?;
    let task = Arc::new(task(&main, &training)?);
    let rates = training.read("learning_rate", rates)?.unwrap_or_else(|| vec![0.1]);
    let aggregations = aggregations(&top, section, &main)?;
    let renamed = "[study] is now called [classifier]; the old name is still accepted";
    let experiment = Experiment {
        data: vec![DataSet::Images(images(&top)?)],
        compare: aggregations.first().map(ToString::to_string),
        rows: rows(&task, &aggregations, &rates),
        warnings: (section == "study").then(|| renamed.to_owned()).into_iter().collect(),
        ..header(&top, Protocol::all_unrated([10]))?
    };
    Ok(experiment)
}

/// One row an aggregation. Of several learning rates, the one that suits the first row best is used for all.
fn rows(task: &Arc<Classification>, aggregations: &[Aggregation], rates: &[f64]) -> Vec<RowSpec> {
    let key = || "learning_rate".to_owned();
    let fixed = |aggregation: &Aggregation| {
        let one = rates.first().filter(|_| rates.len() == 1).map(|&rate| (key(), Value::Real(rate)));
        let aggregation = ("aggregation".to_owned(), Value::Word(aggregation.to_string()));
        [aggregation].into_iter().chain(one).collect::<Vec<_>>()
    };
    let tuning = match rates.len() {
        1 => Tuning::None,
        _ => Tuning::Grid(vec![(key(), rates.iter().map(|&rate| Value::Real(rate)).collect())]),
    };
    let baseline = &aggregations[0];
    let row = |aggregation: &Aggregation| RowSpec {
        label: aggregation.to_string(),
        family: aggregation.to_string(),
        fixed: fixed(aggregation),
        swept: Vec::new(),
        tuned_at: (tuning != Tuning::None && aggregation != baseline).then(|| fixed(baseline)),
        select: Vec::new(),
        tuning: tuning.clone(),
        learner: Learner::Classifier(task.clone()),
        only: None,
    };
    aggregations.iter().map(row).collect()
}

fn task(main: &Fields<'_>, training: &Fields<'_>) -> Result<Classification> {
    let batch = |field: Field<'_>| match field.entry.get_ref() {
        DeValue::Integer(n) if n.as_str() == "0" => Ok(0),
        _ => field.count(),
    };
    let network = |field: Field<'_>| field.choice(Architecture::NAMES);
    let default = Classification::default();
    Ok(Classification {
        rounds: main.read("rounds", Field::count)?.unwrap_or(default.rounds),
        targets: main.read("targets", fractions)?.unwrap_or(default.targets),
        devices: main.read("devices", fractions)?.unwrap_or(default.devices),
        stop_at: main.read("stop_at", Field::fraction)?,
        checkpoint_every: main.read("checkpoint_every", Field::count)?.unwrap_or(default.checkpoint_every),
        network: training.read("network", network)?.unwrap_or(default.network),
        client_fraction: training.read("share", Field::fraction)?.unwrap_or(default.client_fraction),
        epochs: training.read("epochs", Field::count)?.unwrap_or(default.epochs),
        batch: training.read("batch", batch)?.unwrap_or(default.batch),
    })
}

fn aggregations<'a>(top: &Fields<'a>, section: &'a str, main: &Fields<'a>) -> Result<Vec<Aggregation>> {
    let aggregation = |field: Field<'a>| field.text()?.parse().map_err(|error: String| field.wrong(error));
    let criteria = |field: Field<'a>| {
        let names = field.each(Field::text)?.join(" > ");
        names.parse::<Aggregation>().map_err(|error| field.wrong(error))
    };
    let criteria = main.read("criteria", criteria)?;
    match (main.read("aggregations", |field| field.distinct(aggregation))?, criteria) {
        (Some(named), _) => Ok(named),
        (None, Some(criteria)) => Ok(Aggregation::all(&criteria.0)),
        (None, None) => {
            let message = format!("[{section}] needs `criteria` (all their orders are compared) or `aggregations`");
            Err(top.error(section, message))
        }
    }
}

fn images(top: &Fields<'_>) -> Result<ImageData> {
    let section = top.section("images", "[images]", IMAGES)?;
    let kind = |field: Field<'_>| field.choice(&[("mnist", 0), ("celeba", 1), ("faces", 2)]);
    let missing = || -> FileError {
        top.source.error(0..0, "an experiment on classifiers needs [images] with `kind`: mnist, celeba or faces")
    };
    let kind = section.read("kind", kind)?.ok_or_else(missing)?;
    let text =
        |key: &'static str, default: &str| Ok(section.read(key, Field::text)?.unwrap_or_else(|| default.to_owned()));
    let source = match kind {
        0 => ImageSource::Mnist(text("folder", "mnist")?),
        1 => ImageSource::CelebA(text("folder", "celeba")?),
        _ => ImageSource::Faces,
    };
    let has_owners = kind != 0;
    let partitions = [
        ("iid", Partition::Iid),
        ("shards", Partition::Shards),
        ("shards-mixed-test", Partition::ShardsMixedTest),
        ("people", Partition::People),
    ];
    let default = if has_owners { Partition::People } else { Partition::Iid };
    let partition = section.read("partition", |field| field.choice(&partitions))?.unwrap_or(default);
    if has_owners != (partition == Partition::People) {
        let message = "partition: digits are dealt (iid, shards or shards-mixed-test), faces belong to people";
        return Err(section.error("partition", message));
    }
    Ok(ImageData {
        source,
        partition,
        clients: section.read("clients", Field::count)?.unwrap_or(100),
        shards: section.read("shards", Field::count)?.unwrap_or(2),
        held_out: section.read("held_out", Field::fraction)?.unwrap_or(0.2),
        faces: CelebA {
            attribute: text("attribute", "Smiling")?,
            blurry: text("blurry", "Blurry")?,
            side: section.read("side", Field::count)?.unwrap_or(64),
            channels: if section.read("colour", Field::switch)?.unwrap_or(true) { 3 } else { 1 },
            share: section.read("share", Field::fraction)?.unwrap_or(1.0),
            least: section.read("least", Field::count)?.unwrap_or(5),
        },
        people: section.read("people", Field::count)?.unwrap_or(500),
        mean_images: section.read("mean_images", Field::positive)?.unwrap_or(12.0),
        seed: section.read("seed", Field::seed)?.unwrap_or(FIRST_SEED),
    })
}

fn rates(field: Field<'_>) -> Result<Vec<f64>> {
    if field.is_list() { field.each(Field::positive) } else { Ok(vec![field.positive()?]) }
}

/// Ascending fractions.
fn fractions(field: Field<'_>) -> Result<Vec<f64>> {
    let all = field.each(Field::fraction)?;
    if all.is_sorted_by(|a, b| a < b) { Ok(all) } else { Err(field.wrong("expected ascending numbers")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "title = \"t\"\n[classifier]\ncriteria = [\"ds\", \"LD\"]\n[images]\nkind = \"mnist\"\n";

    fn error(text: &str) -> String {
        Experiment::parse("f.toml", text, &[]).err().expect("an error").to_string()
    }

    #[test]
    fn defaults_are_those_of_the_thesis() {
        let experiment = Experiment::parse("f.toml", SMALL, &[]).unwrap();
        let task = experiment.classification().unwrap();
        assert_eq!((experiment.rows.len(), task.rounds, experiment.compare.as_deref()), (4, 1000, Some("DS")));
        assert_eq!((task.targets.len(), task.devices.len()), (4, 9));
        assert_eq!((task.epochs, task.batch, task.client_fraction), (5, 0, 0.1));
        assert!(experiment.warnings.is_empty());
    }

    #[test]
    fn the_old_name_of_the_section_is_accepted_with_a_warning() {
        let old = Experiment::parse("f.toml", &SMALL.replace("[classifier]", "[study]"), &[]).unwrap();
        assert_eq!(old.rows.len(), 4);
        assert!(old.warnings[0].contains("now called [classifier]"), "{:?}", old.warnings);
    }

    #[test]
    fn errors_name_their_position() {
        let with = |text: &str| SMALL.replace("criteria = [\"ds\", \"LD\"]", text);
        let found = error(&with("criteria = [\"ds\", \"sd\"]"));
        assert!(found.starts_with("f.toml:3:12: criteria: there is no criterion `sd`"), "{found}");
        assert_eq!(error(&with("criteria = [\"ds\", \"ds\"]")), "f.toml:3:12: criteria: ds appears twice");
        let found = error(&with("aggregations = [\"ds\", \"ds > mw > ds\"]"));
        assert_eq!(found, "f.toml:3:23: aggregations: ds appears twice");
        assert!(error(&with("aggregations = [\"ds\", \"ds\"]")).ends_with("aggregations: DS appears twice"));
        assert!(error(&with("aggregations = [\"ds > \"]")).contains("no criterion ``"));
        assert!(error(&with("rounds = 3")).contains("needs `criteria`"));
        assert!(error(&with("criteria = [\"ds\"]\nrounds = 0")).contains("at least 1, found 0"));
        assert!(error(&with("criteria = [\"ds\"]\ntargets = [0.9, 0.8]")).contains("ascending"));
        assert!(error(&with("criteria = [\"ds\"]\ntargets = [1.8]")).contains("up to 1, found 1.8"));
        assert!(error(&format!("{SMALL}clients = 0\n")).contains("clients: expected a whole number of at least 1"));
        assert!(error(&format!("{SMALL}partition = \"people\"\n")).contains("digits are dealt"));
        assert!(error(&format!("{SMALL}[training]\nnetwork = \"cn\"\n")).contains("did you mean `cnn`"));
        assert!(error(&format!("{SMALL}[training]\nlearning_rate = [0.1, 0]\n")).contains("above 0"));
        assert!(error("title = \"t\"\n[classifier]\ncriteria = [\"ds\"]\n").contains("needs [images]"));
    }
}
