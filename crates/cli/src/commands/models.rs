//! `models`: the models and their settings.

use crate::args::{Common, Models};
use crate::output;
use anyhow::Result;
use serde_json::{Value as Json, json};
use sottovoce_federation::registry;
use sottovoce_models::registry::Model;
use sottovoce_models::settings::{Domain, Group, Setting};
use std::fmt::Write;

/// `sottovoce models [NAME]`.
pub(crate) fn run(args: &Models, common: &Common) -> Result<()> {
    let chosen = match &args.name {
        Some(name) => vec![registry::find(name)?],
        None => registry::all(),
    };
    let models: Vec<_> = chosen.iter().map(|model| describe(model)).collect();
    output::answer(common, &json!({ "models": models }), || match &args.name {
        Some(_) => chosen.iter().map(|model| page(model)).collect(),
        None => overview(&chosen),
    })
}

fn overview(models: &[&'static Model]) -> String {
    let width = models.iter().map(|model| model.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for model in models {
        let _ = writeln!(text, "{:width$}  {}", model.name, model.summary);
    }
    text.push_str("\nRun `sottovoce models NAME` for the settings of a model.\n");
    text
}

fn page(model: &Model) -> String {
    let mut text = format!("{} ({})\n  {}\n  {}\n", model.name, model.title, model.summary, model.paper);
    let settings: Vec<&Setting> = model.schema().collect();
    if settings.is_empty() {
        text.push_str("\n  No settings.\n");
    }
    for group in Group::ALL {
        let own: Vec<&&Setting> = settings.iter().filter(|setting| setting.group == group).collect();
        if !own.is_empty() {
            let _ = writeln!(text, "\n{}", group.name());
        }
        for Setting { key, default, help, domain, .. } in own {
            let _ = write!(text, "\n  {key} = {default}\n      {help}\n      {domain}\n");
        }
    }
    text
}

fn describe(model: &Model) -> Json {
    json!({
        "name": model.name,
        "title": model.title,
        "what": model.summary,
        "paper": model.paper,
        "settings": model.schema().map(describe_setting).collect::<Vec<_>>(),
    })
}

fn describe_setting(setting: &Setting) -> Json {
    let domain = match &setting.domain {
        Domain::Integer { low, high, log } => {
            json!({"kind": "integer", "low": low, "high": high, "log": log})
        }
        Domain::Real { low, high, log } => json!({"kind": "real", "low": low, "high": high, "log": log}),
        Domain::Choice(words) => json!({"kind": "choice", "of": words}),
        Domain::Switch => json!({"kind": "switch"}),
        Domain::Text => json!({"kind": "text"}),
    };
    json!({
        "key": setting.key, "group": setting.group.name(), "help": setting.help, "default": setting.default,
        "domain": domain, "earlier_names": setting.aliases,
    })
}
