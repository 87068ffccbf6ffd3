//! `federation`: what operators do.

mod catalog;
pub(crate) mod client;

use crate::args::{Common, Create, Federation};
use crate::{key_file, output};
use anyhow::Result;
use client::Client;
use serde_json::{Map, Value, json};
use sottovoce_privacy::key_digest;
use std::fmt::Write;

/// `sottovoce federation ...`.
pub(crate) fn run(args: &Federation, common: &Common) -> Result<()> {
    let tell = |value: &Value, text: &dyn Fn(&Value) -> String| match common.json {
        true => output::print_json(value),
        false => output::print(&text(value)),
    };
    match args {
        Federation::Create(create) => tell(&self::create(create, common)?, &page),
        Federation::Key { out } => {
            let digest = key_digest(&key_file::write(out)?);
            tell(&json!({"file": out, "digest": digest}), &|_| {
                format!("{}: digest {digest}\n", out.display())
            })
        }
        Federation::List { reaching } => tell(&Client::new(reaching)?.get("/federations")?, &list),
        Federation::Show { which } => {
            tell(&Client::new(&which.reaching)?.get(&format!("/federations/{}", which.name))?, &page)
        }
        Federation::Pause { which } => tell(&stand(which, "pause")?, &page),
        Federation::Resume { which } => tell(&stand(which, "resume")?, &page),
        Federation::Finish { which } => tell(&stand(which, "finish")?, &page),
        Federation::Rounds { which, limit } => {
            let path = format!("/federations/{}/rounds?limit={limit}", which.name);
            tell(&Client::new(&which.reaching)?.get(&path)?, &rounds)
        }
        Federation::Token { which, uses, hours, label } => {
            let expires = hours.map(|hours| hours.saturating_mul(3600));
            let body = json!({"label": label, "uses": uses, "expires_in_seconds": expires});
            let path = format!("/federations/{}/enrolment-tokens", which.name);
            tell(&Client::new(&which.reaching)?.post(&path, &body)?, &token)
        }
        Federation::Revoke { which, device } => {
            let path = format!("/federations/{}/devices/{device}", which.name);
            tell(&Client::new(&which.reaching)?.delete(&path)?, &|_| format!("device {device} is shut out\n"))
        }
        Federation::Operator { reaching, role, label } => {
            let body = json!({"label": label, "role": role});
            tell(&Client::new(reaching)?.post("/tokens", &body)?, &token)
        }
    }
}

fn stand(which: &crate::args::Which, action: &str) -> Result<Value> {
    Client::new(&which.reaching)?.post(&format!("/federations/{}/{action}", which.name), &json!({}))
}

fn create(args: &Create, common: &Common) -> Result<Value> {
    let client = Client::new(&args.which.reaching)?;
    let settings: Map<String, Value> = args
        .settings
        .given()
        .map(|(key, value)| Ok((key.to_owned(), serde_json::to_value(value)?)))
        .collect::<Result<_>>()?;
    let criteria: Vec<Value> = args
        .criteria
        .iter()
        .map(|text| text.split_once('=').unwrap_or((text, "")))
        .map(|(name, why)| json!({"name": name, "why": why}))
        .collect();
    let mut body = json!({
        "name": args.which.name,
        "catalog": catalog::of(args, common)?,
        "model": args.model,
        "settings": settings,
        "seed": common.seed,
        "devices": args.devices,
        "check_in_seconds": args.check_in_seconds,
        "seal_step_seconds": args.seal_step_seconds,
        "simulated_noise": args.simulated_noise,
        "record_uploads": args.record_uploads,
        "samples": args.samples,
        "private_models": args.private_models,
        "unlearn": args.unlearn,
        "criteria": criteria,
    });
    let key = key_file::read(args.federation_key.as_deref())?;
    let given = [
        ("seal_key_digest", key.as_ref().map(key_digest).map(Value::from)),
        ("rounds", args.rounds.map(Value::from)),
        ("minimum", args.minimum.map(Value::from)),
        ("present_within", args.present_within.map(Value::from)),
        ("row_norm", args.row_norm.map(Value::from)),
        ("keep_versions", args.keep_versions.map(Value::from)),
    ];
    for (key, value) in given {
        if let Some(value) = value {
            body[key] = value;
        }
    }
    client.post("/federations", &body)
}

fn text(value: &Value, key: &str) -> String {
    match &value[key] {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

fn list(value: &Value) -> String {
    let all = value["federations"].as_array().map_or(&[][..], Vec::as_slice);
    if all.is_empty() {
        return "no federation yet; `sottovoce federation create` makes one\n".to_owned();
    }
    let mut out = format!(
        "{:<24} {:<10} {:<8} {:>10} {:>9} {:>9}\n",
        "name", "state", "model", "round", "devices", "present"
    );
    for each in all {
        let round = format!("{} / {}", text(each, "round"), text(each, "rounds"));
        let _ = writeln!(
            out,
            "{:<24} {:<10} {:<8} {:>10} {:>9} {:>9}",
            text(each, "name"),
            text(each, "state"),
            text(each, "model"),
            round,
            text(each, "devices"),
            text(each, "present")
        );
    }
    out
}

fn page(value: &Value) -> String {
    let of = |key| text(value, key);
    let mut out = format!(
        "{}: {}, {} of {} rounds done, {} devices ({} heard of in five minutes, {} shut out)\n",
        of("name"),
        of("state"),
        of("round"),
        of("rounds"),
        of("devices"),
        of("present"),
        of("revoked")
    );
    let _ = writeln!(out, "model {} with {} items, version {}", of("model"), of("items"), of("version"));
    if value["privacy"].is_object() {
        let spent = &value["privacy"];
        let of = |key| text(spent, key);
        let budget = if spent["budget"].is_null() { String::new() } else { format!(" of {}", of("budget")) };
        let _ = writeln!(
            out,
            "epsilon {:.3}{budget} at delta {} of {} ({} {} noise of {:.3} clips of {:.3}, {} rounds)",
            spent["epsilon"].as_f64().unwrap_or(f64::INFINITY),
            of("delta"),
            of("hides"),
            of("placement"),
            of("shape"),
            spent["noise_multiplier"].as_f64().unwrap_or(0.0),
            spent["clip"].as_f64().unwrap_or(0.0),
            of("rounds")
        );
    }
    if value["record_uploads"] == true {
        out.push_str("every upload is kept for an audit, which devices are told\n");
    }
    if value["undone"].as_u64().unwrap_or(0) > 0 {
        let _ = writeln!(out, "{} rounds are held again without people who withdrew", of("undone"));
    }
    if let Some(why) = value["failure"].as_str() {
        let _ = writeln!(out, "it failed: {why}");
    }
    if value["under_way"].is_object() {
        let round = &value["under_way"];
        let of = |key| text(round, key);
        let _ = writeln!(
            out,
            "round {} is under way: {} asked, {} of {} wanted updates stored, {} declined, {} refused",
            of("round"),
            of("asked"),
            of("stored"),
            of("wanted"),
            of("declined"),
            of("refused")
        );
    }
    out
}

fn rounds(value: &Value) -> String {
    let mut out = format!(
        "{:>7} {:>8} {:>7} {:>8} {:>8} {:>8} {:>12} {:>12} {:>8}  remark\n",
        "round", "version", "asked", "counted", "declined", "refused", "bytes up", "bytes down", "seconds"
    );
    for round in value["rounds"].as_array().map_or(&[][..], Vec::as_slice) {
        let of = |key| text(round, key);
        let seconds =
            (round["closed"].as_f64().unwrap_or(0.0) - round["opened"].as_f64().unwrap_or(0.0)) / 1000.0;
        let _ = writeln!(
            out,
            "{:>7} {:>8} {:>7} {:>8} {:>8} {:>8} {:>12} {:>12} {:>8.1}  {}",
            of("round"),
            of("version"),
            of("asked"),
            of("counted"),
            of("declined"),
            of("refused"),
            of("bytes_up"),
            of("bytes_down"),
            seconds,
            of("remark")
        );
    }
    out
}

/// The token alone, so that it can go into a file.
fn token(value: &Value) -> String {
    format!("{}\n", text(value, "token"))
}
