//! `unlearn`: what a model retains of users who withdraw.

use crate::args::{Common, Preparing, SplitArgs, Unlearn};
use crate::commands::train::note_limits;
use crate::output::{self, Usage, grouped, usage};
use crate::prepared::from_arguments;
use anyhow::Result;
use serde_json::{Value, json};
use sottovoce_data::CatalogRule;
use sottovoce_experiment::unlearning::{Findings, Outcome, Plan, Separation, UnlearningError, measure};
use sottovoce_federation::registry;
use std::fmt::Write;

/// `sottovoce unlearn`.
pub(crate) fn run(args: &Unlearn, common: &Common) -> Result<()> {
    if args.preparing.catalog != CatalogRule::All {
        return usage("`unlearn` compares models of those who stay with one catalog: --catalog does not apply");
    }
    // Nothing is tuned: a validation part would only be lost to training.
    let split = SplitArgs { validation: None, ..args.preparing.split };
    let data = from_arguments(&args.data, &Preparing { split, ..args.preparing.clone() }, common)?;
    let settings = registry::find(&args.model)?.settings(args.settings.given())?;
    note_limits(&settings, &data, common);
    let plan = Plan {
        model: args.model.clone(),
        settings: args.settings.settings.clone(),
        share: args.share,
        joined: args.joined,
        fine_tune: args.fine_tune,
        attack_steps: args.attack_steps,
        seed: common.seed,
    };
    let mut on_training = |what: &str| {
        if !common.quiet {
            output::note(&format!("training: {what}"));
        }
    };
    let found = measure(&plan, &data.parts, &mut on_training).map_err(|error| match error {
        wrong @ UnlearningError::Value { .. } => Usage(wrong.to_string()).into(),
        other => anyhow::Error::from(other),
    })?;
    output::answer(common, &document(args, common, &data.name, &found), || table(args, &data.name, &found))
}

fn document(args: &Unlearn, common: &Common, data: &str, found: &Findings) -> Value {
    let separation = |found: &Separation| json!({"auc": found.auc, "low": found.low, "high": found.high});
    let outcome = |outcome: &Outcome| {
        json!({
            "way": outcome.method.name(), "epochs": outcome.epochs, "rounds": outcome.rounds, "ndcg@10": outcome.ndcg,
            "outsider": separation(&outcome.outsider), "informed": separation(&outcome.informed),
        })
    };
    json!({
        "model": args.model, "data": data, "seed": common.seed, "joined": args.joined, "attack_steps": args.attack_steps,
        "stayed": found.stayed, "withdrew": found.withdrew, "controls": found.withdrew,
        "epochs": found.epochs, "rounds": found.rounds,
        "ways": found.outcomes.iter().map(outcome).collect::<Vec<_>>(),
    })
}

fn table(args: &Unlearn, data: &str, found: &Findings) -> String {
    let (stayed, withdrew, rounds) = (grouped(found.stayed), grouped(found.withdrew), grouped(found.rounds));
    let mut text = format!(
        "{} on {data}: {stayed} users stayed, {withdrew} withdrew after {} epochs ({rounds} rounds), {withdrew} never \
         took part\n\n",
        args.model, found.epochs
    );
    let _ = writeln!(
        text,
        "{:<10} {:>7} {:>8} {:>8}   {:<22} {:<22}",
        "method", "epochs", "rounds", "nDCG@10", "attack (AUC)", "with a reference model"
    );
    let shown = |found: &Separation| format!("{:.3} [{:.3}, {:.3}]", found.auc, found.low, found.high);
    for outcome in &found.outcomes {
        let Outcome { epochs, ndcg, .. } = outcome;
        let (method, rounds) = (outcome.method.name(), grouped(outcome.rounds));
        let (outsider, informed) = (shown(&outcome.outsider), shown(&outcome.informed));
        let _ = writeln!(text, "{method:<10} {epochs:>7} {rounds:>8} {ndcg:>8.4}   {outsider:<22} {informed:<22}");
    }
    text
}
