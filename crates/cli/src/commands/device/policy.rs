//! `device policy`.

use super::location;
use super::{as_usage, item, named};
use crate::args::{ChangePolicy, Common};
use crate::output::{self, grouped, usage};
use anyhow::Result;
use serde_json::json;
use sottovoce_device::{Device, DeviceError};
use sottovoce_privacy::ACCEPTABLE;
use sottovoce_protocol::{
    DisclosureMode, Participation, Policy, PolicyError, PrivacyTerms, Reportable, SealedDisclosure,
};
use std::collections::BTreeSet;
use std::fmt::Write;

/// `sottovoce device policy`.
pub(crate) fn run(args: &ChangePolicy, common: &Common) -> Result<()> {
    let mut device = location::open(&args.location)?;
    if args.accept_weaker && device.weaker_protection().is_none() {
        return usage("the server has not asked for weaker protection: there is nothing to accept");
    }
    // Everything is understood before anything changes.
    let hide = args.hide.iter().map(|word| to_hide(&device, word, common)).collect::<Result<Vec<_>>>()?;
    let unhide = args.unhide.iter().map(|word| hidden_item(&device, word)).collect::<Result<Vec<_>>>()?;
    change(&mut device, args, &hide, &unhide).map_err(as_usage)?;
    if args.accept_weaker {
        device.accept_weaker()?;
    }
    show(&device, common)
}

/// The id of the item to hide. One that the catalog does not know is hidden if it is in the history: uploads will
/// depend on it once the catalog knows it.
fn to_hide(device: &Device, word: &str, common: &Common) -> Result<String> {
    let later = |why: &str| {
        if !common.quiet {
            output::note(&format!("`{word}` {why}; it is taken as an id, and hidden once the catalog has it"));
        }
        Ok(word.to_owned())
    };
    match device.items() {
        None => later("cannot be looked up: there is no catalog yet"),
        Some(items) if items.find(word).is_none() && device.history().iter().any(|(id, _)| id == word) => {
            later("is in your history, but not in the catalog")
        }
        Some(items) => item(items, word),
    }
}

/// The id of an item that is hidden.
fn hidden_item(device: &Device, word: &str) -> Result<String> {
    let is_hidden = |id: &str| device.hidden().any(|hidden| hidden == id);
    if is_hidden(word) {
        return Ok(word.to_owned());
    }
    let id = device.items().map_or_else(|| Ok(word.to_owned()), |items| item(items, word))?;
    match is_hidden(&id) {
        true => Ok(id),
        false => usage(format!("`{word}` is not hidden; `sottovoce device policy` lists what is")),
    }
}

fn change(device: &mut Device, args: &ChangePolicy, hide: &[String], unhide: &[String]) -> Result<(), DeviceError> {
    let participates = args.pause || args.resume;
    let figures = !args.report.is_empty() || !args.no_report.is_empty();
    let layers = [&args.require, &args.no_require, &args.refuse, &args.no_refuse];
    let layers = layers.iter().any(|names| !names.is_empty());
    let pi = args.pi.or(args.sealed_pi).is_some() || args.sealed_least.is_some() || args.disclosure.is_some();
    if pi || participates || figures || layers || args.least_cohort.is_some() {
        device.set_policy(|policy| apply(policy, args))?;
    }
    if let Some(budget) = args.epsilon_budget {
        device.set_epsilon_budget(Some(budget).filter(|budget| *budget != 0.0))?;
    }
    for (layers, accepted) in [(&args.accept, true), (&args.no_accept, false)] {
        for layer in layers {
            device.set_accepted(layer, accepted)?;
        }
    }
    for item in hide {
        device.hide(item)?;
    }
    for item in unhide {
        device.unhide(item)?;
    }
    Ok(())
}

fn apply(policy: &mut Policy, args: &ChangePolicy) -> Result<(), PolicyError> {
    if let Some(pi) = args.pi {
        policy.set_pi(pi)?;
    }
    if args.sealed_pi.is_some() || args.sealed_least.is_some() {
        // Who had one pi for all rounds keeps it where nothing else is said.
        let before = policy.sealed;
        let pi = args.sealed_pi.unwrap_or_else(|| before.map_or(policy.pi(), SealedDisclosure::pi));
        let least = before.map_or(SealedDisclosure::DEFAULT_LEAST, |sealed| sealed.least);
        policy.sealed = Some(SealedDisclosure::new(pi, args.sealed_least.unwrap_or(least))?);
    }
    policy.disclosure = args.disclosure.unwrap_or(policy.disclosure);
    if let Some(least) = args.least_cohort {
        policy.least_cohort = least;
    }
    policy.required_layers.extend(args.require.iter().cloned());
    args.no_require.iter().for_each(|name| drop(policy.required_layers.take(name)));
    policy.refused_layers.extend(args.refuse.iter().cloned());
    args.no_refuse.iter().for_each(|name| drop(policy.refused_layers.take(name)));
    let mut reported = match &policy.criteria {
        Reportable::Only(names) => names.clone(),
        Reportable::All => BTreeSet::from(["auc".to_owned(), "loss".to_owned()]),
    };
    reported.extend(args.report.iter().cloned());
    args.no_report.iter().for_each(|name| drop(reported.take(name)));
    policy.criteria = Reportable::Only(reported);
    match (args.pause, args.resume) {
        (true, _) => policy.pause(),
        (_, true) => policy.resume(),
        _ => Ok(()),
    }
}

fn layer_names(terms: &PrivacyTerms) -> Vec<&str> {
    terms.layers.iter().map(|layer| layer.name.as_str()).collect()
}

fn listed(layers: &BTreeSet<String>) -> String {
    let layers: Vec<&str> = layers.iter().map(String::as_str).collect();
    if layers.is_empty() { "none".to_owned() } else { layers.join(", ") }
}

/// What uploads are computed from, given from how many items where these are fixed.
fn of_items(device: &Device, shown: Option<usize>) -> String {
    let had = device.history().len() - device.unknown_items();
    match (device.policy().disclosure, shown) {
        (DisclosureMode::PerRound, _) => {
            "the row of an item you have leaves with this probability, drawn in each round".to_owned()
        }
        (DisclosureMode::Fixed, None) => "uploads are computed from this fraction of your items, drawn once".to_owned(),
        (DisclosureMode::Fixed, Some(0)) => "uploads are computed from none of your items".to_owned(),
        (DisclosureMode::Fixed, Some(shown)) => {
            let (shown, had) = (grouped(shown), grouped(had));
            format!("uploads are computed from {shown} of your {had} items, always the same ones")
        }
    }
}

fn show(device: &Device, common: &Common) -> Result<()> {
    let policy = device.policy();
    let participation = match policy.participation() {
        Participation::Active => "active",
        Participation::Paused => "paused",
        Participation::Withdrawn => "withdrawn",
    };
    let told: Vec<&str> = match &policy.criteria {
        Reportable::All => vec!["all that is asked for"],
        Reportable::Only(names) => names.iter().map(String::as_str).collect(),
    };
    let hidden: Vec<&str> = device.hidden().collect();
    let accepted: Vec<&str> = ACCEPTABLE.into_iter().filter(|layer| device.accepts(layer)).collect();
    let items = device.items();
    let id = |&row: &u32| items.map(|items| items.id(row as usize));
    let ids = |rows: Option<Vec<u32>>| rows.map(|rows| rows.iter().filter_map(id).collect::<Vec<_>>());
    let shown = ids(device.open_disclosure());
    let sealed = policy.sealed;
    let shown_sealed = sealed.and_then(|_| ids(device.sealed_disclosure()));
    if common.json {
        return output::print_json(&json!({
            "participation": participation, "pi": policy.pi(), "disclosure": policy.disclosure.name(), "shown": shown,
            "sealed_pi": sealed.map(SealedDisclosure::pi), "sealed_least": sealed.map(|sealed| sealed.least),
            "shown_sealed": shown_sealed,
            "hidden": hidden, "least_cohort": policy.least_cohort,
            "required_layers": policy.required_layers, "refused_layers": policy.refused_layers,
            "report": told, "samples": policy.samples,
            "protection": device.kept_protection().map(layer_names),
            "weaker_protection_asked": device.weaker_protection().map(layer_names), "accepted_layers": accepted,
            "epsilon_budget": device.epsilon_budget(),
        }));
    }
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:14} {value}");
    };
    line("participation", participation);
    line("pi", &format!("{}: {}", policy.pi(), of_items(device, shown.map(|ids| ids.len()))));
    match sealed {
        None => line("", "in sealed rounds as in others"),
        Some(sealed) => {
            let of_items = of_items(device, shown_sealed.map(|ids| ids.len()));
            line("sealed pi", &format!("{}: {of_items}", sealed.pi()));
            line("", &format!("in sealed rounds of at least {} devices", sealed.least));
        }
    }
    line("least cohort", &format!("{}: rounds with fewer devices are declined", policy.least_cohort));
    line("layers", &format!("{}: rounds without them are declined", listed(&policy.required_layers)));
    line("refused", &format!("{}: rounds with them are declined", listed(&policy.refused_layers)));
    let kept = match device.kept_protection().map(layer_names) {
        None => "not known before the first round".to_owned(),
        Some(names) if names.is_empty() => "none: the server sees single updates".to_owned(),
        Some(names) => format!("{}: rounds with less are declined", names.join(", ")),
    };
    line("protection", &kept);
    if let Some(offered) = device.weaker_protection().map(layer_names) {
        let names = if offered.is_empty() { "none".to_owned() } else { offered.join(", ") };
        line("", &format!("the server asks for less ({names}): --accept-weaker agrees"));
    }
    let budget = device.epsilon_budget().map_or("none".to_owned(), |budget| {
        format!("epsilon {budget} against the server: rounds that would spend more are declined")
    });
    line("budget", &budget);
    if !accepted.is_empty() {
        line("accepted", &accepted.join(", "));
    }
    let told = if told.is_empty() { "none".to_owned() } else { told.join(", ") };
    line("reported", &told);
    line("hidden items", if hidden.is_empty() { "none" } else { "uploads do not depend on whether you have these:" });
    for id in hidden {
        let items = device.items();
        let title = items.and_then(|items| items.find(id).and_then(|row| items.title(row as usize)));
        line("", &named(id, title));
    }
    output::print(&text)
}
