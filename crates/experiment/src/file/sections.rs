//! The sections of the file, but for data and models.

use super::reader::{
    Entry, Fields, Result, Source, count, did_you_mean, list, nearest_label, switch, table, text, word,
};
use super::{Axis, Choice, Experiment, FIRST_SEED, Plot, data, models};
use crate::metric::MetricAt;
use sottovoce_evaluate::{Metric, Protocol};
use sottovoce_models::registry::Model;
use sottovoce_models::settings::nearest;
use toml::de::{DeTable, DeValue};

const TOP: &[&str] =
    &["title", "question", "notes", "data", "seeds", "compare", "protocol", "choice", "model", "plot"];
const CHOICE: &[&str] = &["metric", "seeds", "train_on", "every", "patience", "test_curve", "if_failed"];

/// Figures of a final trial that are no metrics; models may add others.
const FIGURES: &[&str] = &["epochs", "triples", "train_seconds", "bytes_down", "bytes_up", "cce", "tcc"];

pub(super) fn experiment(source: Source<'_>, models: &'static [Model]) -> Result<Experiment> {
    let document = DeTable::parse(source.text)
        .map_err(|error| source.error(error.span().unwrap_or(0..0), error.message().trim().to_owned()))?;
    let top = Fields::open(source, document.get_ref(), 0..0, "an experiment", TOP)?;
    let shared = data::shared(&top)?;
    let protocol = data::protocol(&shared)?;
    let contenders = models::contenders(&top, models)?;
    let experiment = Experiment {
        file: source.file.to_owned(),
        title: top.need("title", "an experiment", text)?,
        question: top.read("question", text)?,
        notes: top.read("notes", text)?,
        seeds: top.read("seeds", seeds)?.unwrap_or_else(|| vec![FIRST_SEED]),
        data: data::sets(&top, &shared)?,
        choice: choice(&top, &protocol)?,
        compare: top.read("compare", text)?,
        plots: plots(&top, &protocol, &models::setting_names(&contenders))?,
        protocol,
        contenders,
    };
    check_names(&top, &experiment)?;
    Ok(experiment)
}

/// A table that may be absent.
pub(crate) struct Section<'a>(pub(crate) Option<Fields<'a>>);

impl<'a> Section<'a> {
    pub(crate) fn open(top: &Fields<'a>, name: &str, keys: &[&str]) -> Result<Self> {
        let open = |entry: &'a Entry<'a>| {
            let inside = table(top.source, name, entry)?;
            Fields::open(top.source, inside, entry.span(), &format!("[{name}]"), keys)
        };
        Ok(Self(top.get(name).map(open).transpose()?))
    }

    pub(crate) fn read<T>(
        &self,
        key: &str,
        read: impl Fn(Source<'a>, &str, &'a Entry<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.0.as_ref().map_or(Ok(None), |fields| fields.read(key, read))
    }
}

pub(crate) fn seeds(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<Vec<u64>> {
    let DeValue::Array(_) = entry.get_ref() else {
        let many = count(source, key, entry).map_err(|mut error| {
            error.message = error.message.replace("of at least 1", "of at least 1 or a list of seeds");
            error
        })?;
        return Ok((0..many as u64).map(|n| FIRST_SEED + n).collect());
    };
    let mut seeds = Vec::new();
    for item in list(source, key, entry)? {
        let seed = seed(source, key, item)?;
        if seeds.contains(&seed) {
            return Err(source.error(item.span(), format!("seeds: {seed} is there twice")));
        }
        seeds.push(seed);
    }
    Ok(seeds)
}

pub(crate) fn seed(source: Source<'_>, key: &str, entry: &Entry<'_>) -> Result<u64> {
    match entry.get_ref() {
        DeValue::Integer(n) => u64::from_str_radix(n.as_str(), n.radix()).ok(),
        _ => None,
    }
    .ok_or_else(|| source.error(entry.span(), format!("{key}: expected whole numbers from 0")))
}

fn choice(top: &Fields<'_>, protocol: &Protocol) -> Result<Choice> {
    let section = Section::open(top, "choice", CHOICE)?;
    let metric = section.read("metric", |source, key, entry| metric_at(source, key, entry, protocol))?;
    Ok(Choice {
        metric: metric.unwrap_or_else(|| MetricAt { key: Metric::Ndcg, cutoff: protocol.cutoffs[0] }),
        seeds: section.read("seeds", count)?.unwrap_or(1),
        refit: section
            .read("train_on", word(&[("train+validation", true), ("train", false)]))?
            .unwrap_or(true),
        every: section.read("every", count)?,
        patience: section.read("patience", count)?,
        test_curve: section.read("test_curve", count)?,
        next_if_failed: section.read("if_failed", word(&[("tell", false), ("next", true)]))?.unwrap_or(false),
    })
}

fn metric_at(source: Source<'_>, key: &str, entry: &Entry<'_>, protocol: &Protocol) -> Result<MetricAt> {
    let written = text(source, key, entry)?;
    let metric = MetricAt::parse(&written, protocol.cutoffs[0])
        .map_err(|message| source.error(entry.span(), format!("{key}: {message}")))?;
    if protocol.cutoffs.contains(&metric.cutoff) {
        return Ok(metric);
    }
    let cutoff = metric.cutoff;
    Err(source.error(
        entry.span(),
        format!("{key}: {metric} needs {cutoff} among the cutoffs (`at` in [protocol])"),
    ))
}

fn plots(top: &Fields<'_>, protocol: &Protocol, settings: &[&'static str]) -> Result<Vec<Plot>> {
    let Some(entries) = top.read("plot", list)? else { return Ok(Vec::new()) };
    let axis =
        |source: Source<'_>, key: &str, entry: &Entry<'_>| axis(source, key, entry, protocol, settings);
    let plot = |entry| {
        let inside = table(top.source, "plot", entry)?;
        let fields =
            Fields::open(top.source, inside, entry.span(), "a [[plot]]", &["title", "x", "y", "front"])?;
        Ok(Plot {
            title: fields.read("title", text)?,
            x: fields.need("x", "a [[plot]]", axis)?,
            y: fields.need("y", "a [[plot]]", axis)?,
            front: fields.read("front", switch)?.unwrap_or(false),
        })
    };
    entries.iter().map(plot).collect()
}

fn axis(
    source: Source<'_>,
    key: &str,
    entry: &Entry<'_>,
    protocol: &Protocol,
    settings: &[&'static str],
) -> Result<Axis> {
    let name = text(source, key, entry)?;
    if name.contains('@') || name.parse::<Metric>().is_ok() {
        return metric_at(source, key, entry, protocol).map(Axis::Metric);
    }
    if FIGURES.contains(&name.as_str()) && name != "epochs" {
        return Ok(Axis::Figure(name));
    }
    if settings.contains(&name.as_str()) {
        return Ok(Axis::Setting(name));
    }
    if name == "epochs" {
        return Ok(Axis::Figure(name));
    }
    let metrics = Metric::ALL.map(Metric::name);
    let known = settings.iter().chain(&metrics).chain(FIGURES).copied();
    let hint = did_you_mean(nearest(&name, known));
    let message = format!(
        "{key}: `{name}` is no setting of the models, no metric (as in ndcg@10) and none of {}{hint}",
        FIGURES.join(", ")
    );
    Err(source.error(entry.span(), message))
}

/// Names that point to other parts of the file must find them.
fn check_names(top: &Fields<'_>, experiment: &Experiment) -> Result<()> {
    if let (Some(label), Some(entry)) = (&experiment.compare, top.get("compare")) {
        let labels: Vec<&str> = experiment.contenders.iter().map(|c| c.label.as_str()).collect();
        if !labels.contains(&label.as_str()) {
            let hint = did_you_mean(nearest_label(label, &labels));
            let message =
                format!("compare: there is no row `{label}`{hint}; rows are: {}", labels.join(", "));
            return Err(top.source.error(entry.span(), message));
        }
    }
    if experiment.choice.seeds > experiment.seeds.len() {
        let (asked, there) = (experiment.choice.seeds, experiment.seeds.len());
        let message = format!("[choice] seeds: {asked} of the seeds are asked for, but there are {there}");
        let span = top.get("choice").map_or(0..0, Entry::span);
        return Err(top.source.error(span, message));
    }
    models::check_only(top, experiment)
}
