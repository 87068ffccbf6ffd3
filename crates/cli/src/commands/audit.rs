//! `audit`: what an honest-but-curious server could reconstruct of users' histories.

mod stored;

use crate::args::{Audit, Common, Sweep};
use crate::commands::train::{Bytes, note_limits, test_question, train_with_bar};
use crate::output::Usage;
use crate::prepared::from_arguments;
use crate::{folder, output, people};
use anyhow::{Context, Result};
use serde::Serialize;
use sottovoce_audit::report::{self, Named};
use sottovoce_audit::{AuditError, CuriousServer, ExposedTables, Findings, Subjects};
use sottovoce_evaluate::report::{Report, Section};
use sottovoce_evaluate::{Metrics, Protocol};
use sottovoce_experiment::lookalike;
use sottovoce_experiment::prepare::Prepared;
use sottovoce_experiment::training::{self, Context as TrainingContext, ModelPlan};
use sottovoce_federation::registry;
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Choice, Settings, Value};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The cutoff of accuracy.
const CUTOFF: usize = 10;

/// What `audit --json` prints.
#[derive(Serialize)]
struct Outcome<'a> {
    model: &'a str,
    data: &'a str,
    fingerprint: &'a str,
    seed: u64,
    version: &'static str,
    split: String,
    view: String,
    people: usize,
    #[serde(flatten)]
    base: &'a Audited,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    sweeps: &'a [Swept],
}

/// One training, and the attacks on its uploads.
#[derive(Serialize)]
struct Audited {
    settings: BTreeMap<String, String>,
    #[serde(flatten)]
    findings: Findings,
    /// The privacy loss that differential privacy bounds, against readers of the model; none where there is none.
    epsilon: Option<f64>,
    /// The same against the server; none where there is no bound.
    epsilon_server: Option<f64>,
    metrics: BTreeMap<usize, Metrics>,
    /// Traffic of the training.
    bytes: Bytes,
    seconds: f64,
}

/// A setting at several values.
#[derive(Serialize)]
struct Swept {
    setting: String,
    points: Vec<SweptPoint>,
}

#[derive(Serialize)]
struct SweptPoint {
    value: Value,
    #[serde(flatten)]
    audited: Audited,
}

/// `sottovoce audit`.
pub(crate) fn run(args: &Audit, common: &Common) -> Result<()> {
    if let Some(folder) = &args.uploads {
        return stored::run(args, common, folder);
    }
    let model = registry::find(args.model.as_deref().unwrap_or_default())?;
    if !registry::is_federated(model.name) {
        return Err(Usage(AuditError::Model(model.name.to_owned()).to_string()).into());
    }
    let given = |key: Option<(&str, &Value)>| {
        let settings = args.settings.given().filter(|(each, _)| key.is_none_or(|(key, _)| key != *each));
        model.settings(settings.chain(key.map(|(key, value)| (key, value.clone()))))
    };
    let base = given(None)?;
    if !common.quiet {
        base.notes().for_each(|note| output::note(&note));
    }
    let mut sweeps = Vec::new();
    for Sweep { key, values } in &args.sweep {
        let settings: Result<Vec<_>> =
            values.iter().map(|value| Ok((value.clone(), given(Some((key, value)))?))).collect();
        sweeps.push((key.clone(), settings?));
    }
    let data = if people::are_clicks(&args.data, args.taxonomy.as_deref()) {
        let (text, dim) = lookalike::text(&base);
        people::read(&args.data, args.taxonomy.as_deref(), common)?.prepared(text, dim)?
    } else {
        from_arguments(&args.data, &args.preparing, common)?
    };
    note_limits(&base, &data, common);
    let auditor = Auditor { args, common, model, data: &data };
    let base = auditor.audit(&base)?;
    let sweeps: Result<Vec<Swept>> = sweeps.into_iter().map(|(key, values)| auditor.sweep(key, values)).collect();
    let sweeps = sweeps?;
    finish(args, common, &data, (model.name, auditor.subjects().devices().len()), &base, &sweeps)
}

/// Writes the report, and prints the outcome of attacks on so many users of a model.
fn finish(
    args: &Audit,
    common: &Common,
    data: &Prepared,
    (model, people): (&str, usize),
    base: &Audited,
    sweeps: &[Swept],
) -> Result<()> {
    let (seed, fingerprint) = (common.seed, &data.description.fingerprint);
    let (version, split, view) = (env!("CARGO_PKG_VERSION"), data.split.to_string(), args.view.name().to_owned());
    let outcome = Outcome { model, data: &data.name, fingerprint, seed, version, split, view, people, base, sweeps };
    if let Some(out) = &args.out {
        store(out, data, &outcome)?;
    }
    if common.json { output::print_json(&outcome) } else { show(args, data, &outcome) }
}

struct Auditor<'a> {
    args: &'a Audit,
    common: &'a Common,
    model: &'static Model,
    data: &'a Prepared,
}

impl Auditor<'_> {
    fn subjects(&self) -> Subjects {
        let parts = &self.data.parts;
        Subjects::draw(&parts.train, Some(&parts.test), self.args.people as usize, self.common.seed)
    }

    fn sweep(&self, setting: String, values: Vec<(Value, Settings)>) -> Result<Swept> {
        let point = |(value, settings): (Value, Settings)| Ok(SweptPoint { value, audited: self.audit(&settings)? });
        let points: Result<Vec<SweptPoint>> = values.into_iter().map(point).collect();
        Ok(Swept { setting, points: points? })
    }

    /// Trains a model and attacks its uploads.
    fn audit(&self, settings: &Settings) -> Result<Audited> {
        let (started, parts) = (Instant::now(), &self.data.parts);
        let surface = ExposedTables::of(self.model.name, parts.catalog.facts.as_ref())
            .map_err(|error| Usage(error.to_string()))?;
        let witness = Arc::new(CuriousServer::new(surface, self.subjects(), self.args.view, rounds(self.args)));
        let plan = ModelPlan { model: self.model, settings, seed: self.common.seed, evaluations: None };
        let context = TrainingContext { recorder: Some(witness.clone()), ..TrainingContext::default() };
        let trained = train_with_bar(&plan, self.data, context, self.common)?;
        let findings = witness.conclude()?;
        let (question, protocol) = (test_question(self.data), Protocol::all_unrated([CUTOFF]));
        let metrics = match question.test.interactions() {
            0 => BTreeMap::new(),
            _ => training::evaluate(&question, &protocol, trained.recommender.as_ref())?.at,
        };
        let seconds = started.elapsed().as_secs_f64();
        let settings = settings.iter().map(|(key, value)| (key.to_owned(), value.to_string())).collect();
        let spent = trained.summary.privacy.as_ref();
        let (epsilon, epsilon_server) =
            (spent.map(|spent| spent.epsilon), spent.and_then(|spent| spent.epsilon_server));
        let (down, up) = (trained.summary.traffic.down, trained.summary.traffic.up);
        Ok(Audited { settings, findings, epsilon, epsilon_server, metrics, bytes: Bytes { down, up }, seconds })
    }
}

/// The rounds given; or 1, 2, 5, 10, 20, 50 and so on.
fn rounds(args: &Audit) -> Vec<u64> {
    if args.rounds.is_empty() {
        let decades = (0..9).map(|power| 10u64.pow(power));
        return decades.flat_map(|decade| [decade, 2 * decade, 5 * decade]).collect();
    }
    let mut rounds = args.rounds.clone();
    rounds.sort_unstable();
    rounds.dedup();
    rounds
}

impl Audited {
    fn ndcg(&self) -> Option<f64> {
        self.metrics.get(&CUTOFF).map(|metrics| metrics.ndcg)
    }

    fn named(&self, label: String, value: Option<f64>) -> Named<'_> {
        let epsilon = (self.epsilon, self.epsilon_server);
        Named { label, value, findings: &self.findings, accuracy: self.ndcg(), epsilon }
    }
}

impl Swept {
    fn named(&self) -> Vec<Named<'_>> {
        let label = |value: &Value| format!("{} = {value}", self.setting);
        self.points.iter().map(|point| point.audited.named(label(&point.value), point.value.number())).collect()
    }

    fn title(&self) -> String {
        format!("AUC of the attacks by {}", self.setting)
    }
}

const ACCURACY: &str = "nDCG@10";

fn show(args: &Audit, data: &Prepared, outcome: &Outcome<'_>) -> Result<()> {
    let findings = &outcome.base.findings;
    let [rounds, uploads] = [findings.rounds, findings.uploads].map(output::grouped);
    let accuracy = outcome.base.ndcg().map_or_else(String::new, |ndcg| format!("; {ACCURACY} {ndcg:.4}"));
    let (model, data, people) = (outcome.model, &data.name, output::grouped(outcome.people));
    output::print_line(&format!(
        "{model} on {data}: {rounds} rounds, {uploads} uploads of {people} attacked users{accuracy}"
    ))?;
    output::print(&output::table(&report::attacks_table(findings)))?;
    output::print_line(&in_words(findings))?;
    for swept in outcome.sweeps {
        output::print(&output::table(&report::sweep_table(&swept.title(), ACCURACY, &swept.named())))?;
    }
    if let Some(out) = &args.out {
        output::print_line(&format!("report written to {}", out.join("report.html").display()))?;
    }
    Ok(())
}

/// The result in a sentence.
fn in_words(findings: &Findings) -> String {
    let Some(combined) = findings.combined() else { return String::new() };
    if findings.uploads == 0 {
        return format!(
            "Nothing was uploaded: the attacks are no better than the popularity baseline (AUC {:.3}).",
            combined.guess_auc
        );
    }
    let gain = combined.gain;
    if gain.low > 0.0 && combined.personal.low > 0.0 {
        format!(
            "All attacks combined reconstruct histories with an AUC of {:.3}; ranking by popularity reaches {:.3}, and \
             {:.3} together with what all uploads have in common. For {:.0} % of users, most of the reconstructed \
             items are right.",
            combined.auc,
            combined.popularity_auc,
            combined.guess_auc,
            100.0 * combined.exposed
        )
    } else {
        format!(
            "All attacks combined (AUC {:.3}) are no better than a baseline of popularity and what all uploads have in \
             common ({:.3}; popularity alone {:.3}), or than the same attacks on another user's uploads ({:.3}).",
            combined.auc, combined.guess_auc, combined.popularity_auc, combined.control_auc
        )
    }
}

fn store(out: &Path, data: &Prepared, outcome: &Outcome<'_>) -> Result<()> {
    let report = compose(outcome);
    folder::write_whole(out, |folder| {
        report.write(folder).context("writing the report")?;
        folder::write(&folder.join("audit.json"), serde_json::to_vec_pretty(outcome)?)?;
        folder::write(&folder.join("people.tsv"), by_user(data, &outcome.base.findings))
    })
}

/// The values of each user, one line an attack.
fn by_user(data: &Prepared, findings: &Findings) -> String {
    let mut text = String::from("user\tattack\tauc\tprecision\trecall\n");
    for finding in &findings.attacks {
        for (device, attack) in &finding.each {
            let user = &data.parts.users[*device as usize];
            let (auc, precision, recall) = (attack.auc, attack.precision, attack.recall);
            let _ = writeln!(text, "{user}\t{}\t{auc}\t{precision}\t{recall}", finding.name);
        }
    }
    text
}

fn compose(outcome: &Outcome<'_>) -> Report {
    let findings = &outcome.base.findings;
    let base = [outcome.base.named("as given".to_owned(), None)];
    let mut first = Section::new("Attacks").table(report::attacks_table(findings));
    if let Some(plot) = report::rounds_plot(None, &base) {
        first = first.plot(plot);
    }
    let mut report = Report::new(format!("Audit of {} on {}", outcome.model, outcome.data))
        .subtitle("audit")
        .sentence(in_words(findings))
        .section(first);
    for swept in outcome.sweeps {
        let named = swept.named();
        let mut section =
            Section::new(format!("By {}", swept.setting)).table(report::sweep_table(&swept.title(), ACCURACY, &named));
        let plots = [
            report::sweep_plot(&swept.setting, &named),
            report::price_plot(ACCURACY, &named),
            report::rounds_plot(Some("complement"), &named),
        ];
        section = plots.into_iter().flatten().fold(section, Section::plot);
        report = report.section(section);
    }
    let settings = outcome.base.settings.iter().map(|(key, value)| format!("{key} = {value}\n"));
    report
        .configuration("settings", settings.collect::<String>())
        .provenance("version", format!("sottovoce {}", env!("CARGO_PKG_VERSION")))
        .provenance("data fingerprint", outcome.fingerprint)
        .provenance("seed", outcome.seed.to_string())
}
