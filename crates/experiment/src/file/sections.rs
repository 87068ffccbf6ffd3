//! The sections of the file, but for data sets and rows.

use super::reader::{Field, Fields, Result, Source, did_you_mean};
use super::{About, Axis, Experiment, FIRST_SEED, Plot, Selection, classifier, data, rows};
use crate::metric::MetricAt;
use sottovoce_evaluate::{Metric, Protocol};
use sottovoce_models::registry::Model;
use toml::de::DeTable;

const TOP: &str = "title, question, notes, data, seeds, compare, protocol, choice, model, plot";
const SELECTION: &str = "metric, seeds, train_on, every, patience, test_curve, if_failed";

/// Figures of a final trial that are no metrics; models may add others.
const FIGURES: &[&str] = &["epochs", "triples", "train_seconds", "bytes_down", "bytes_up", "cce", "tcc"];

pub(super) fn experiment(source: Source<'_>, models: &[&'static Model]) -> Result<Experiment> {
    let document = DeTable::parse(source.text)
        .map_err(|error| source.error(error.span().unwrap_or(0..0), error.message().trim().to_owned()))?;
    let document = document.get_ref();
    if let Some(section) = classifier::SECTIONS.into_iter().find(|section| document.contains_key(*section)) {
        return classifier::experiment(source, document, section);
    }
    let top = Fields::open(source, document, 0..0, "an experiment", TOP)?;
    let shared = data::shared(&top)?;
    let protocol = data::protocol(&shared)?;
    let data = data::sets(&top, &shared)?;
    let (rows, warnings) = rows::rows(&top, models, &data)?;
    let experiment = Experiment {
        data,
        compare: top.read("compare", Field::text)?,
        plots: plots(&top, &protocol, &rows::setting_names(&rows))?,
        rows,
        warnings,
        ..header(&top, protocol)?
    };
    check_names(&top, &experiment)?;
    Ok(experiment)
}

/// What all kinds of experiments have in common.
pub(super) fn header(top: &Fields<'_>, protocol: Protocol) -> Result<Experiment> {
    Ok(Experiment {
        file: top.source.file.to_owned(),
        about: About {
            title: top.need("title", Field::text)?,
            question: top.read("question", Field::text)?,
            notes: top.read("notes", Field::text)?,
        },
        seeds: top.read("seeds", seeds)?.unwrap_or_else(|| vec![FIRST_SEED]),
        data: Vec::new(),
        selection: selection(top, &protocol)?,
        protocol,
        compare: None,
        rows: Vec::new(),
        plots: Vec::new(),
        warnings: Vec::new(),
    })
}

fn seeds(field: Field<'_>) -> Result<Vec<u64>> {
    if field.is_list() {
        return field.distinct(Field::seed);
    }
    let many = field.count().map_err(|mut error| {
        error.message = error.message.replace("of at least 1", "of at least 1 or a list of seeds");
        error
    })?;
    Ok((0..many as u64).map(|n| FIRST_SEED + n).collect())
}

fn selection(top: &Fields<'_>, protocol: &Protocol) -> Result<Selection> {
    let section = top.section("choice", "[choice]", SELECTION)?;
    let metric = section.read("metric", |field| metric_at(field, protocol))?;
    let train_on = |field: Field<'_>| field.choice(&[("train+validation", true), ("train", false)]);
    let if_failed = |field: Field<'_>| field.choice(&[("report", false), ("next", true), ("tell", false)]);
    Ok(Selection {
        metric: metric.unwrap_or(MetricAt { key: Metric::Ndcg, cutoff: protocol.cutoffs[0] }),
        seeds: section.read("seeds", Field::count)?.unwrap_or(1),
        refit: section.read("train_on", train_on)?.unwrap_or(true),
        every: section.read("every", Field::count)?,
        patience: section.read("patience", Field::count)?,
        test_curve: section.read("test_curve", Field::count)?,
        next_if_failed: section.read("if_failed", if_failed)?.unwrap_or(false),
    })
}

fn metric_at(field: Field<'_>, protocol: &Protocol) -> Result<MetricAt> {
    let metric = MetricAt::parse(&field.text()?, protocol.cutoffs[0]).map_err(|message| field.wrong(message))?;
    if protocol.cutoffs.contains(&metric.cutoff) {
        return Ok(metric);
    }
    Err(field.wrong(format!("{metric} needs {} among the cutoffs (`at` in [protocol])", metric.cutoff)))
}

fn plots(top: &Fields<'_>, protocol: &Protocol, settings: &[&'static str]) -> Result<Vec<Plot>> {
    let plot = |field: Field<'_>| {
        let fields = field.fields("a [[plot]]", "title, x, y, front")?;
        Ok(Plot {
            title: fields.read("title", Field::text)?,
            x: fields.need("x", |field| axis(field, protocol, settings))?,
            y: fields.need("y", |field| axis(field, protocol, settings))?,
            front: fields.read("front", Field::switch)?.unwrap_or(false),
        })
    };
    Ok(top.read("plot", |field| field.each(plot))?.unwrap_or_default())
}

fn axis(field: Field<'_>, protocol: &Protocol, settings: &[&'static str]) -> Result<Axis> {
    let name = field.text()?;
    if name.contains('@') || name.parse::<Metric>().is_ok() {
        return metric_at(field, protocol).map(Axis::Metric);
    }
    let is_setting = settings.contains(&name.as_str());
    // `epochs` is a setting of most models; of the others it is a figure.
    if FIGURES.contains(&name.as_str()) && !(name == "epochs" && is_setting) {
        return Ok(Axis::Figure(name));
    }
    if is_setting {
        return Ok(Axis::Setting(name));
    }
    let metrics = Metric::ALL.map(Metric::name);
    let known: Vec<&str> = settings.iter().chain(&metrics).chain(FIGURES).copied().collect();
    let hint = did_you_mean(&name, &known);
    Err(field.wrong(format!(
        "`{name}` is no setting of the models, no metric (as in ndcg@10) and none of {}{hint}",
        FIGURES.join(", ")
    )))
}

/// Names that refer to other parts of the file must be there.
fn check_names(top: &Fields<'_>, experiment: &Experiment) -> Result<()> {
    if let Some(label) = &experiment.compare {
        let labels: Vec<&str> = experiment.rows.iter().map(|row| row.label.as_str()).collect();
        if !labels.contains(&label.as_str()) {
            let hint = did_you_mean(label, &labels);
            let message = format!("compare: there is no row `{label}`{hint}; rows are: {}", labels.join(", "));
            return Err(top.error("compare", message));
        }
    }
    let (asked, given) = (experiment.selection.seeds, experiment.seeds.len());
    if asked > given {
        let message = format!("[choice] seeds: {asked} of the seeds are asked for, but there are {given}");
        return Err(top.error("choice", message));
    }
    Ok(())
}
