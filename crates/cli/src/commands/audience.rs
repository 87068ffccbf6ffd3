//! `audience`: the advertisers' commands.

use super::federation::client::{Client, secret};
use crate::args::{AdvertiserArgs, Audience, Categories, Common, Waiting};
use crate::output::{self, grouped, usage};
use anyhow::Result;
use serde_json::{Value, json};
use sottovoce_data::format_date;
use std::fmt::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a measurement is looked at.
const POLL: Duration = Duration::from_secs(1);

/// `sottovoce audience ...`.
pub(crate) fn run(args: &Audience, common: &Common) -> Result<()> {
    let print = |value: &Value, text: &dyn Fn(&Value) -> String| output::answer(common, value, || text(value));
    match args {
        Audience::Create { name, categories: Categories { ids, matching }, threshold, days, waiting, of } => {
            let client = of.client()?;
            let body =
                json!({"name": name, "categories": ids, "match": matching, "threshold": threshold, "days": days});
            let created = client.post("/audiences", &body)?;
            let path = format!("/audiences/{}", created["audience"]);
            print(&until(*waiting, created, &is_measured, || client.get(&path))?, &page)
        }
        Audience::List(of) => print(&of.client()?.get("/audiences")?, &list),
        Audience::Size { audience, again, waiting, of } => {
            let client = of.client()?;
            let path = format!("/audiences/{}", find(&client, audience)?);
            if *again {
                client.post(&format!("{path}/measurements"), &json!({}))?;
            }
            print(&until(*waiting, client.get(&path)?, &is_measured, || client.get(&path))?, &page)
        }
        Audience::Thresholds { categories: Categories { ids, matching }, waiting, of } => {
            let client = of.client()?;
            let asked = client.post("/thresholds", &json!({"categories": ids, "match": matching}))?;
            let path = format!("/measurements/{}", asked["measurement"]);
            print(&until(*waiting, asked, &is_over, || client.get(&path))?, &sizes)
        }
        Audience::Close { audience, of } => {
            let client = of.client()?;
            print(&client.delete(&format!("/audiences/{}", find(&client, audience)?))?, &page)
        }
        Audience::Segments { audience, rotation, of } => {
            let client = of.client()?;
            let query = rotation.map(|rotation| format!("?rotation={rotation}")).unwrap_or_default();
            let found = client.get(&format!("/audiences/{}/segments{query}", find(&client, audience)?))?;
            print(&found, &|found| {
                let ids = found["segments"].as_array().into_iter().flatten().filter_map(Value::as_str);
                ids.map(|id| format!("{id}\n")).collect()
            })
        }
    }
}

impl AdvertiserArgs {
    fn client(&self) -> Result<Client> {
        let token = match (&self.token, &self.token_file) {
            (Some(token), _) => token.clone(),
            (None, Some(file)) => secret(file)?,
            (None, None) => return usage("an advertiser's token is required (--token or --token-file)"),
        };
        let base = format!("/v1/advertiser/federations/{}", self.federation);
        Client::with_token((&self.server, self.plain_http), self.ca.as_deref(), token, &base)
    }
}

/// The number of an audience, by number or by name; of several of one name the latest.
fn find(client: &Client, audience: &str) -> Result<u64> {
    let all = client.get("/audiences")?;
    let all = all["audiences"].as_array().cloned().unwrap_or_default();
    let is = |each: &&Value| {
        each["name"] == audience || each["audience"].as_u64().is_some_and(|number| number.to_string() == audience)
    };
    match all.iter().rev().find(is).and_then(|each| each["audience"].as_u64()) {
        Some(number) => Ok(number),
        None => usage(format!("you have no audience {audience:?}; `sottovoce audience list` lists yours")),
    }
}

/// Looks again until something is over, or the time is up.
fn until(
    waiting: Waiting,
    first: Value,
    is_over: &dyn Fn(&Value) -> bool,
    again: impl Fn() -> Result<Value>,
) -> Result<Value> {
    let (start, mut value) = (Instant::now(), first);
    while !is_over(&value) && start.elapsed() < Duration::from_secs(waiting.wait) {
        sleep(POLL);
        value = again()?;
    }
    Ok(value)
}

fn is_over(measurement: &Value) -> bool {
    matches!(measurement["state"].as_str(), Some("done" | "failed"))
}

fn is_measured(audience: &Value) -> bool {
    is_over(&audience["measurement"])
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A size in words.
fn size(of: &Value) -> String {
    match (of["size"].as_u64(), of["below"].as_u64()) {
        (Some(size), _) => format!("about {} people", grouped(size)),
        (None, Some(k)) => format!("below {}", grouped(k)),
        _ => "not measured yet".to_owned(),
    }
}

/// The day of a time in seconds since 1970.
pub(crate) fn day(seconds: u64) -> String {
    let mut text = i64::try_from(seconds).ok().and_then(format_date).unwrap_or_default();
    text.truncate(10);
    text
}

/// An audience in words.
pub(crate) fn described(audience: &Value) -> String {
    let ids: Vec<String> = audience["categories"].as_array().into_iter().flatten().map(text).collect();
    let joint = if audience["match"] == "all" { " and " } else { " or " };
    let until = day(audience["expires"].as_u64().unwrap_or(0) / 1000);
    format!("{}, score {} or more, until {until}", ids.join(joint), audience["threshold"])
}

fn page(audience: &Value) -> String {
    let state = text(&audience["state"]);
    let mut out = format!("{} ({state}): {}\n", text(&audience["name"]), described(audience));
    let noise = audience["measurement"]["noise"].as_f64().unwrap_or(0.0);
    let _ = match audience["size"].is_object() {
        true => writeln!(out, "  {} (the noise has a standard deviation of {noise:.0})", size(&audience["size"])),
        false => writeln!(out, "  {}: enough devices have to come for that", size(&audience["size"])),
    };
    if state == "below k" {
        out.push_str("  it is not served: an audience of so few would say too much about them\n");
    }
    if let Some(why) = audience["measurement"]["failure"].as_str() {
        let _ = writeln!(out, "  the last measurement failed and spent nothing: {why}");
    }
    out
}

fn list(value: &Value) -> String {
    let all = value["audiences"].as_array().cloned().unwrap_or_default();
    let mut out = String::new();
    for audience in &all {
        let (number, name, state) =
            (audience["audience"].to_string(), text(&audience["name"]), text(&audience["state"]));
        let _ = writeln!(out, "{number:>4}  {name} ({state}): {}", size(&audience["size"]));
        let _ = writeln!(out, "      {}", described(audience));
    }
    if all.is_empty() {
        out.push_str("no audience yet; `sottovoce audience create` describes one\n");
    }
    let number = |key: &str| value[key].as_f64().unwrap_or(0.0);
    let _ = writeln!(
        out,
        "{} measurements have spent epsilon {:.3} of {}; sizes are shown from {} people on",
        value["measurements"],
        number("epsilon"),
        number("budget"),
        grouped(value["k"].as_u64().unwrap_or(0)),
    );
    out
}

fn sizes(measurement: &Value) -> String {
    let mut out = match measurement["state"].as_str() {
        Some("failed") => format!("the measurement failed and spent nothing: {}\n", text(&measurement["failure"])),
        Some("done") => String::new(),
        _ => format!(
            "measurement {} is {}; `--wait SECONDS` waits for it, and the same command asks for the same one\n",
            measurement["measurement"],
            text(&measurement["state"])
        ),
    };
    for each in measurement["sizes"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "  score {:>4} or more: {}", each["threshold"].to_string(), size(each));
    }
    out
}
