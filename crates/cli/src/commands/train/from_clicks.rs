//! `train` on clicks: models that complete people's interests.

use super::{Bytes, Outcome, describe_privacy, describe_turnout, show_written, store_outcome};
use crate::args::{ClickArgs, Common, PeoplePart, Train};
use crate::model_dir::{self, About};
use crate::output::{self, grouped, usage};
use crate::progress::Bar;
use crate::{folder, measure, people};
use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::json;
use sottovoce_data::interests::ClickReport;
use sottovoce_experiment::lookalike::{self, LookalikeMetrics, LookalikePlan, TrainedLookalike};
use sottovoce_experiment::outcome::Suggestions;
use sottovoce_experiment::people::{Part, People};
use sottovoce_experiment::training::Context as TrainingContext;
use sottovoce_models::Flow;
use sottovoce_models::registry::Model;
use sottovoce_models::settings::Settings;
use std::path::Path;
use std::time::Instant;

/// The encoder of titles in a model's folder: the batch pipeline needs it to read pages as the model does.
const ENCODER: &str = "titles.encoder";

/// Whether the arguments name clicks.
pub(super) fn are_clicks(args: &Train) -> bool {
    people::are_clicks(&args.data, args.clicks.taxonomy.as_deref())
}

#[derive(Serialize)]
struct ClickFacts<'a> {
    name: &'a str,
    people: usize,
    categories: usize,
    interests_per_person: f64,
    train: usize,
    evaluated: usize,
    without_two_interests: usize,
    unseen_interests: usize,
    clicks: &'a ClickReport,
}

#[derive(Serialize)]
struct Seconds {
    load: f64,
    train: f64,
    evaluate: f64,
}

pub(super) fn run(args: &Train, common: &Common, model: &'static Model, settings: &Settings) -> Result<()> {
    let started = Instant::now();
    if args.stream || args.checkpoint.is_some() || args.patience.is_some() || !args.ranks_all() {
        return usage("--stream, --checkpoint, --patience and --candidates are not for click logs");
    }
    if args.preparing.loading.cleaning.user_share.is_some() {
        return usage("--user-share is not for click logs");
    }
    let read = |name: &str| people::read(name, args.clicks.taxonomy.as_deref(), common);
    let people = read(&args.data)?;
    let before = args.clicks.before.as_deref().map(read).transpose()?;
    let load = started.elapsed().as_secs_f64();
    let part = match args.clicks.people {
        PeoplePart::Validation => Part::Validation,
        PeoplePart::Test => Part::Test,
    };
    let plan = LookalikePlan { model, settings, seed: common.seed, people: &people, before: before.as_ref(), part };
    let mut bar = Bar::new(&format!("training {}", model.name), 1, common.quiet);
    let mut on_epoch = |done: usize, all: usize| {
        bar.set(done as u64, all as u64);
        Flow::Continue
    };
    let trained = lookalike::train(&plan, &mut on_epoch, TrainingContext::default())
        .with_context(|| format!("training {} on {}", model.name, people.name))?;
    drop(bar);
    let started = Instant::now();
    let metrics = trained.metrics(&people);
    let seconds = Seconds { load, train: trained.seconds, evaluate: started.elapsed().as_secs_f64() };
    let facts = ClickFacts {
        name: &people.name,
        people: people.count(Part::Train) + people.count(Part::Validation) + people.count(Part::Test),
        categories: people.catalog.len(),
        interests_per_person: people.mean_interests(),
        train: trained.train.users(),
        evaluated: metrics.all.people,
        without_two_interests: people.without_interests,
        unseen_interests: people.unseen,
        clicks: &people.report,
    };
    let by_tier: serde_json::Map<String, serde_json::Value> =
        metrics.by_tier.iter().map(|(tier, metrics)| (tier.to_string(), json!(metrics))).collect();
    let base = Outcome::new((model, settings, common.seed), &facts, &trained.summary, &seconds);
    let mut outcome = serde_json::to_value(&base)?;
    if let Some(fields) = outcome.as_object_mut() {
        let ClickArgs { taxonomy, before, people: part } = &args.clicks;
        let evaluated = part.to_possible_value().map(|value| value.get_name().to_owned());
        let chosen = json!({"taxonomy": taxonomy, "before": before, "people": evaluated});
        fields.insert("protocol".to_owned(), chosen);
        fields.insert("metrics".to_owned(), json!(metrics));
        fields.insert("by_tier".to_owned(), by_tier.into());
        fields.insert("precision_at_recall".to_owned(), json!(metrics.precision_at_recall));
        fields.insert("curve".to_owned(), json!(trained.curve));
        fields.insert("suggestions".to_owned(), trained.suggestions(&people).iter().map(as_json).collect());
    }
    if let Some(out) = &args.out {
        store(out, &trained, &people, (model, settings, common.seed), &outcome)?;
    }
    if common.json {
        return output::print_json(&outcome);
    }
    show(model, &people, &facts, &metrics, &trained, &seconds)?;
    show_written(args)
}

fn as_json(Suggestions { interest, suggested }: &Suggestions) -> serde_json::Value {
    let best: Vec<_> = suggested.iter().map(|(name, score)| json!({"category": name, "score": score})).collect();
    json!({"interest": interest, "suggested": best})
}

fn store(
    out: &Path,
    trained: &TrainedLookalike,
    people: &People,
    (model, settings, seed): (&Model, &Settings, u64),
    outcome: &serde_json::Value,
) -> Result<()> {
    let about = About::new(model.name, settings, seed, &people.name, "");
    let encoder = lookalike::title_encoder(people, settings)?;
    let ids = people.ids(Part::Train);
    // Replayed people and those of an earlier period have no name: they come first.
    let unnamed = trained.train.users() - ids.len();
    let names: sottovoce_core::Names =
        (0..unnamed).map(|number| format!("earlier-{number}")).chain(ids.iter().map(str::to_owned)).collect();
    folder::write_whole(out, |folder| {
        model_dir::write(folder, &about, trained.recommender.as_ref(), &trained.train, &names, &people.catalog)?;
        if let Some(encoder) = &encoder {
            folder::write(&folder.join(ENCODER), encoder.to_bytes())?;
        }
        store_outcome(folder, outcome)
    })
}

fn show(
    model: &Model,
    people: &People,
    facts: &ClickFacts<'_>,
    metrics: &LookalikeMetrics,
    trained: &TrainedLookalike,
    seconds: &Seconds,
) -> Result<()> {
    let [all, categories, train, evaluated] =
        [facts.people, facts.categories, facts.train, facts.evaluated].map(grouped);
    output::print_line(&format!(
        "{} on {}: {all} people with {:.2} interests each, {categories} categories; {train} train, {evaluated} are \
         evaluated with one interest hidden",
        model.title, facts.name, facts.interests_per_person
    ))?;
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    output::print_line("tier        people  HIT@1  HIT@4  Precision@0.6  Recall@0.6  Taxonomy distance")?;
    let rows = [("all".to_owned(), &metrics.all)]
        .into_iter()
        .chain(metrics.by_tier.iter().map(|(tier, metrics)| (tier.to_string(), metrics)));
    for (name, row) in rows {
        output::print_line(&format!(
            "{name:8} {:>9}  {:.3}  {:.3}  {:>13}  {:>10}  {:>17.3}",
            grouped(row.people),
            row.hit_at_1,
            row.hit_at_4,
            number(row.precision),
            number(row.recall),
            row.taxonomy_distance
        ))?;
    }
    for Suggestions { interest, suggested } in trained.suggestions(people) {
        let best: Vec<String> = suggested.iter().map(|(name, score)| format!("{name} {score:.2}")).collect();
        output::print_line(&format!("who cares for {interest}: {}", best.join(", ")))?;
    }
    output::print_line(&format!(
        "{:.1} s loading, {:.1} s training ({} epochs), {:.2} s evaluation; peak memory {}",
        seconds.load,
        seconds.train,
        trained.summary.epochs,
        seconds.evaluate,
        measure::peak_rss_bytes().map_or_else(|| "unknown".to_owned(), |bytes| format!("{} MB", bytes / 1_000_000)),
    ))?;
    let Bytes { down, up } = Bytes { down: trained.summary.traffic.down, up: trained.summary.traffic.up };
    if down > 0 {
        output::print_line(&format!(
            "{} bytes sent to devices, {} bytes received from them",
            grouped(down),
            grouped(up)
        ))?;
        output::print_line(&describe_turnout(&trained.summary.turnout))?;
    }
    trained.summary.privacy.as_ref().map_or(Ok(()), |privacy| output::print_line(&describe_privacy(privacy)))
}
