//! `federation`: the operators' commands.

mod catalog;
pub(crate) mod client;
mod living;

use crate::args::{Common, Create, Federation, FederationArgs};
use crate::commands::audience::described;
use crate::{folder, key_file, output};
use anyhow::Result;
use client::Client;
use serde_json::{Map, Value, json};
use sottovoce_federation::registry;
use sottovoce_privacy::key_digest;
use sottovoce_privacy::tokens::to_hex;
use std::fmt::Write;

/// `sottovoce federation ...`.
pub(crate) fn run(args: &Federation, common: &Common) -> Result<()> {
    let print = |value: &Value, text: &dyn Fn(&Value) -> String| output::answer(common, value, || text(value));
    match args {
        Federation::Create(create) => print(&self::create(create, common)?, &page),
        Federation::Key { out } => {
            let digest = key_digest(&key_file::create(out)?);
            print(&json!({"file": out, "digest": digest}), &|_| format!("{}: digest {digest}\n", out.display()))
        }
        Federation::List(server) => print(&Client::new(server)?.get("/federations")?, &list),
        Federation::Show(of) => print(&of.client()?.get(&of.path(""))?, &page),
        Federation::Pause(of) => print(&of.client()?.post(&of.path("/pause"), &json!({}))?, &page),
        Federation::Resume(of) => print(&of.client()?.post(&of.path("/resume"), &json!({}))?, &page),
        Federation::Finish(of) => print(&of.client()?.post(&of.path("/finish"), &json!({}))?, &page),
        Federation::Extend { of, rounds } => {
            print(&of.client()?.post(&of.path("/extend"), &json!({"rounds": rounds}))?, &page)
        }
        Federation::Schedule(args) => {
            print(&args.of.client()?.post(&args.of.path("/schedule"), &living::schedule(args))?, &page)
        }
        Federation::Tokens(of) => print(&living::tokens(of)?, &living::token_table),
        Federation::RevokeToken { of, token } => {
            print(&living::revoke_token(of, *token)?, &|_| format!("token {token} is revoked\n"))
        }
        Federation::Operators(server) => print(&Client::new(server)?.get("/tokens")?, &living::token_table),
        Federation::RevokeOperator { server, token } => {
            let revoked = Client::new(server)?.delete(&format!("/tokens/{token}"))?;
            print(&revoked, &|_| format!("operator's token {token} is revoked\n"))
        }
        Federation::Acts { server, limit } => {
            print(&Client::new(server)?.get(&format!("/acts?limit={limit}"))?, &living::acts)
        }
        Federation::Archive(args) => living::end(args, "archive", common),
        Federation::Delete(args) => living::end(args, "delete", common),
        Federation::Rollback { of, to } => {
            print(&of.client()?.post(&of.path("/rollback"), &json!({"version": to}))?, &page)
        }
        Federation::Release { of, device } => {
            let released = of.client()?.delete(&of.path(&format!("/quarantine/{device}")))?;
            print(&released, &|_| format!("device {device} is asked into rounds again\n"))
        }
        Federation::Rounds { of, limit } => {
            print(&of.client()?.get(&of.path(&format!("/rounds?limit={limit}")))?, &rounds)
        }
        Federation::Token { of, uses, hours, label } => {
            let expires = hours.map(|hours| hours.saturating_mul(3600));
            let body = json!({"label": label, "uses": uses, "expires_in_seconds": expires});
            print(&of.client()?.post(&of.path("/enrolment-tokens"), &body)?, &token)
        }
        Federation::Advertiser { of, per_day, hours, label } => {
            let expires = hours.map(|hours| hours.saturating_mul(3600));
            let body = json!({"label": label, "per_day": per_day, "expires_in_seconds": expires});
            print(&of.client()?.post(&of.path("/advertisers"), &body)?, &token)
        }
        Federation::Audiences(of) => print(&of.client()?.get(&of.path("/audiences"))?, &audiences),
        Federation::Revoke { of, device, close_tokens } => {
            let client = of.client()?;
            let mut revoked = client.delete(&of.path(&format!("/devices/{device}")))?;
            let open = unlimited(&client.get(&of.path("/enrolment-tokens"))?);
            if *close_tokens {
                for token in &open {
                    client.delete(&of.path(&format!("/enrolment-tokens/{token}")))?;
                }
                revoked["closed_tokens"] = json!(open);
            }
            print(&revoked, &|_| format!("access of device {device} revoked\n{}", about_tokens(&open, *close_tokens)))
        }
        Federation::Operator { server, role, hours, label } => {
            let expires = hours.map(|hours| hours.saturating_mul(3600));
            let body = json!({"label": label, "role": role, "expires_in_seconds": expires});
            print(&Client::new(server)?.post("/tokens", &body)?, &token)
        }
    }
}

impl FederationArgs {
    fn client(&self) -> Result<Client> {
        Client::new(&self.server)
    }

    fn path(&self, rest: &str) -> String {
        format!("/federations/{}{rest}", self.name)
    }
}

fn create(args: &Create, common: &Common) -> Result<Value> {
    // The server has the last word; a server of another version may know other models.
    if let (Ok(model), false) = (registry::find(&args.model), common.quiet) {
        model.settings(args.settings.given())?.notes().for_each(|note| output::note(&note));
    }
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
        "name": args.of.name,
        "catalog": catalog::of(args, common)?,
        "model": args.model,
        "settings": settings,
        "seed": common.seed,
        "devices": args.devices,
        "check_in_seconds": args.check_in_seconds,
        "seal_step_seconds": args.seal_step_seconds,
        "simulated_noise": args.simulated_noise,
        "record_uploads": args.record_uploads,
        "norm_bound": args.norm_bound,
        "samples": args.samples,
        "private_models": args.private_models,
        "unlearn": args.unlearn,
        "criteria": criteria,
    });
    if args.audiences || !args.audience_rules.is_empty() {
        let rules = args.audience_rules.iter().map(|(key, value)| Ok((key.clone(), serde_json::to_value(value)?)));
        body["audiences"] = Value::Object(rules.collect::<Result<_>>()?);
    }
    if let (Some(url), Some(key)) = (&args.keeper, &args.keeper_key) {
        let ca = args.keeper_ca.as_deref().map(folder::read_text).transpose()?;
        body["keeper"] = json!({"url": url, "key": to_hex(key), "plain_http": args.keeper_plain_http});
        if let Some(ca) = ca {
            body["keeper"]["ca"] = ca.into();
        }
    }
    let key = key_file::read_shared(args.federation_key.as_deref())?;
    let given = [
        ("seal_key_digest", key.as_ref().map(key_digest).map(Value::from)),
        ("rounds", args.rounds.map(Value::from)),
        ("minimum", args.minimum.map(Value::from)),
        ("present_within", args.present_within.map(Value::from)),
        ("row_norm", args.row_norm.map(Value::from)),
        ("keep_versions", args.keep_versions.map(Value::from)),
    ];
    for (key, value) in given.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        body[key] = value;
    }
    args.of.client()?.post("/federations", &body)
}

fn text(value: &Value, key: &str) -> String {
    match &value[key] {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

/// A table: for each column its title, key and width; negative widths align left.
fn table(rows: &Value, columns: &[(&str, &str, isize)]) -> String {
    let cell = |text: &str, width: isize| match width {
        ..0 => format!("{text:<width$} ", width = width.unsigned_abs()),
        _ => format!("{text:>width$} ", width = width.unsigned_abs()),
    };
    let line = |of: &dyn Fn(&str, &str) -> String| {
        let cells: String = columns.iter().map(|&(title, key, width)| cell(&of(title, key), width)).collect();
        format!("{}\n", cells.trim_end())
    };
    let rows = rows.as_array().map_or(&[][..], Vec::as_slice).iter();
    let header = line(&|title, _| title.to_owned());
    rows.fold(header, |table, row| table + &line(&|_, key| text(row, key)))
}

fn list(value: &Value) -> String {
    let mut all = value["federations"].clone();
    if all.as_array().is_none_or(Vec::is_empty) {
        return "no federation yet; `sottovoce federation create` creates one\n".to_owned();
    }
    for each in all.as_array_mut().into_iter().flatten() {
        each["round"] = format!("{} / {}", text(each, "round"), text(each, "rounds")).into();
    }
    let widths = [("name", -24), ("state", -10), ("model", -8), ("round", 10), ("devices", 9), ("present", 9)];
    table(&all, &widths.map(|(key, width)| (key, key, width)))
}

fn page(value: &Value) -> String {
    let fields = ["name", "state", "round", "rounds", "devices", "present", "revoked"];
    let [name, state, round, rounds, devices, present, revoked] = fields.map(|key| text(value, key));
    let [model, items, version, undone] = ["model", "items", "version", "undone"].map(|key| text(value, key));
    let of = if value["plan"]["endless"] == true { "of no end of".to_owned() } else { format!("of {rounds}") };
    let mut out = format!(
        "{name}: {state}, {round} {of} rounds done, {devices} devices ({present} active in the last five minutes, \
         {revoked} revoked)\nmodel {model} with {items} items, version {version}\n"
    );
    out.push_str(&match &value["seal"] {
        Value::String(seal) => format!("updates are sealed ({seal}): the server sees sums\n"),
        _ => "open: the server sees each update by itself, and devices join only with --accept open\n".to_owned(),
    });
    let spent = &value["privacy"];
    if spent.is_object() {
        let [delta, hides, placement, shape, rounds] =
            ["delta", "hides", "placement", "shape", "rounds"].map(|key| text(spent, key));
        let budget = spent["budget"].as_f64().map(|budget| format!(" of {budget}")).unwrap_or_default();
        let number = |key: &str, missing: f64| spent[key].as_f64().unwrap_or(missing);
        let server = spent["epsilon_server"].as_f64();
        let server = server.map_or_else(|| "without bound".to_owned(), |epsilon| format!("{epsilon:.3}"));
        let (epsilon, multiplier) = (number("epsilon", f64::INFINITY), number("noise_multiplier", 0.0));
        let _ = writeln!(
            out,
            "epsilon {epsilon:.3}{budget} against readers of the model, {server} against the server, at delta {delta} \
             of {hides} ({placement} {shape} noise of {multiplier:.3} clips of \
             {:.3}, {rounds} rounds)",
            number("clip", 0.0)
        );
    }
    if value["record_uploads"] == true {
        out.push_str("every upload is retained for an audit, which devices are told\n");
    }
    if value["plan"]["schedule"].is_object() {
        let _ = writeln!(out, "rounds are held {}", living::when(&value["plan"]["schedule"]));
    }
    if value["undone"].as_u64().unwrap_or(0) > 0 {
        let _ = writeln!(out, "{undone} rounds are held again after rollbacks");
    }
    if let Some(what) = value["waits_for"].as_str() {
        let _ = writeln!(out, "it waits for {what}");
    }
    if let Some(why) = value["failure"].as_str() {
        let _ = writeln!(out, "it failed: {why}");
    }
    let versions: Vec<String> = value["versions"].as_array().into_iter().flatten().map(Value::to_string).collect();
    if versions.len() > 1 {
        let _ = writeln!(out, "versions stored: {}", versions.join(", "));
    }
    for each in value["quarantined"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "device {} is quarantined: {}", each["device"], text(each, "reason"));
    }
    let keeper = &value["config"]["keeper"];
    if keeper.is_object() {
        let [url, key, opener] = ["url", "key", "opener"].map(|name| text(keeper, name));
        let _ = writeln!(out, "the keeper is {url} with the key {key}; to it the federation is the opener {opener}");
    }
    let open = &value["under_way"];
    if open.is_object() {
        let fields = ["round", "asked", "stored", "wanted", "declined", "refused"];
        let [round, asked, stored, wanted, declined, refused] = fields.map(|key| text(open, key));
        let _ = writeln!(
            out,
            "round {round} is open: {asked} devices selected, {stored} of {wanted} updates stored, {declined} declined, \
             {refused} rejected"
        );
        if let Some(why) = open["keeper"].as_str() {
            let _ = writeln!(out, "{why}");
        }
    }
    out
}

fn rounds(value: &Value) -> String {
    let mut all = value["rounds"].clone();
    for round in all.as_array_mut().into_iter().flatten() {
        let milliseconds = |key: &str| round[key].as_f64().unwrap_or(0.0);
        let seconds = (milliseconds("closed") - milliseconds("opened")) / 1000.0;
        round["seconds"] = format!("{seconds:.1}").into();
        round["remark"] = format!(" {}", text(round, "remark")).into();
    }
    let columns = [
        ("round", "round", 7),
        ("version", "version", 8),
        ("asked", "asked", 7),
        ("counted", "counted", 8),
        ("declined", "declined", 8),
        ("refused", "refused", 8),
        ("bytes up", "bytes_up", 12),
        ("bytes down", "bytes_down", 12),
        ("seconds", "seconds", 8),
        (" remark", "remark", -1),
    ];
    table(&all, &columns)
}

/// The numbers of tokens by which a revoked device could enrol again.
fn unlimited(tokens: &Value) -> Vec<u64> {
    let all = tokens["tokens"].as_array().map_or(&[][..], Vec::as_slice).iter();
    all.filter(|token| token["uses"].is_null()).filter_map(|token| token["id"].as_u64()).collect()
}

fn about_tokens(open: &[u64], closed: bool) -> String {
    let numbers: Vec<String> = open.iter().map(u64::to_string).collect();
    let numbers = numbers.join(", ");
    match closed {
        _ if open.is_empty() => String::new(),
        true => format!("closed enrolment tokens without a limit of uses: {numbers}\n"),
        false => {
            format!(
                "it can enrol again with a token that has no limit of uses: {numbers} (--close-tokens closes them)\n"
            )
        }
    }
}

fn audiences(value: &Value) -> String {
    let mut all = value["audiences"].clone();
    for each in all.as_array_mut().into_iter().flatten() {
        let size = match (&each["size"]["size"], &each["size"]["below"]) {
            (Value::Null, Value::Null) => "-".to_owned(),
            (Value::Null, below) => format!("below {below}"),
            (size, _) => size.to_string(),
        };
        each["noisy"] = size.into();
        each["about"] = format!(" {}", described(each)).into();
    }
    let columns = [
        ("audience", "audience", 8),
        ("advertiser", "advertiser", 10),
        (" name", "name", -24),
        ("state", "state", -10),
        ("size", "noisy", 12),
        (" about", "about", -1),
    ];
    let number = |key: &str| value[key].as_f64().unwrap_or(0.0);
    let spent = format!(
        "{} measurements have spent epsilon {:.3} of {} at delta {}; {} devices take part\n",
        value["measurements"],
        number("epsilon"),
        number("budget"),
        value["delta"],
        value["devices"],
    );
    if all.as_array().is_none_or(Vec::is_empty) {
        format!("no audience yet\n{spent}")
    } else {
        table(&all, &columns) + &spent
    }
}

/// The token alone, so that it can be redirected to a file.
fn token(value: &Value) -> String {
    format!("{}\n", text(value, "token"))
}
