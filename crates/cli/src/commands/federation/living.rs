//! More rounds, schedules, tokens, operators' acts, archives and deletions.

use super::{table, text};
use crate::args::{Common, End, FederationArgs, Schedule};
use crate::output;
use anyhow::Result;
use serde_json::{Value, json};
use sottovoce_server::utc;
use std::fmt::Write;

/// The request of `federation schedule`.
pub(super) fn schedule(args: &Schedule) -> Value {
    let Schedule { every_hours, at, new_people, off, rounds, endless, .. } = args;
    if *off {
        return json!({"endless": endless});
    }
    let mut schedule = json!({"rounds": rounds});
    let given = [
        ("every_hours", every_hours.map(Value::from)),
        ("at", at.clone().map(Value::from)),
        ("new_people", new_people.map(Value::from)),
    ];
    given.into_iter().for_each(|(key, value)| schedule[key] = value.unwrap_or_default());
    json!({"schedule": schedule, "endless": endless})
}

/// A schedule in words.
pub(super) fn when(schedule: &Value) -> String {
    let rounds = schedule["rounds"].as_u64().unwrap_or(1);
    let each = if rounds == 1 { "one".to_owned() } else { format!("{rounds} at a time") };
    match (schedule["every_hours"].as_f64(), schedule["at"].as_str(), schedule["new_people"].as_u64()) {
        (Some(hours), ..) => format!("every {hours} hours, {each}"),
        (_, Some(time), _) => format!("every day at {time} UTC, {each}"),
        (.., Some(people)) => format!("whenever {people} new devices have enrolled, {each}"),
        _ => "one after the other".to_owned(),
    }
}

/// Tokens for enrolment and of advertisers.
pub(super) fn tokens(of: &FederationArgs) -> Result<Value> {
    let client = of.client()?;
    let mut all = client.get(&of.path("/enrolment-tokens"))?;
    // A federation that serves no audiences has no advertisers.
    let advertisers = client.get(&of.path("/advertisers")).unwrap_or_default();
    let advertisers = advertisers["advertisers"].as_array().cloned().unwrap_or_default();
    if let Some(tokens) = all["tokens"].as_array_mut() {
        tokens.extend(advertisers);
    }
    Ok(all)
}

/// Revokes a token of either kind.
pub(super) fn revoke_token(of: &FederationArgs, token: u64) -> Result<Value> {
    let client = of.client()?;
    let all = client.get(&of.path("/enrolment-tokens"))?;
    let is = |each: &Value| each["id"] == token;
    let enrols = all["tokens"].as_array().is_some_and(|tokens| tokens.iter().any(is));
    let kind = if enrols { "enrolment-tokens" } else { "advertisers" };
    client.delete(&of.path(&format!("/{kind}/{token}")))
}

/// A time in milliseconds since 1970, as a date.
fn date(value: &Value) -> String {
    value.as_u64().map_or_else(|| "never".to_owned(), utc)
}

pub(super) fn token_table(value: &Value) -> String {
    let mut all = value["tokens"].clone();
    for each in all.as_array_mut().into_iter().flatten() {
        let what = match (each["role"].as_str(), &each["per_day"]) {
            (Some(role), _) => role.to_owned(),
            (None, Value::Null) => "enrolment".to_owned(),
            (None, per_day) => format!("advertiser, {per_day} a day"),
        };
        each["left"] = if each["uses"].is_null() { "any".into() } else { each["uses"].clone() };
        each["for"] = format!(" {what}").into();
        each["until"] = format!(" {}", date(&each["expires"])).into();
        each["made"] = format!(" {}", date(&each["created"])).into();
        each["name"] = format!(" {}", text(each, "label")).into();
    }
    if all.as_array().is_none_or(Vec::is_empty) {
        return "no token\n".to_owned();
    }
    let columns = [
        ("token", "id", 6),
        ("uses left", "left", 9),
        (" for", "for", -22),
        (" expires", "until", -21),
        (" created", "made", -21),
        (" label", "name", -1),
    ];
    table(&all, &columns)
}

pub(super) fn acts(value: &Value) -> String {
    let mut all = value["acts"].clone();
    for each in all.as_array_mut().into_iter().flatten() {
        let who = match each["token"].as_u64() {
            Some(token) => format!("{} (token {token}, {})", text(each, "label"), text(each, "role")),
            None => text(each, "label"),
        };
        each["when"] = date(&each["at"]).into();
        each["who"] = format!(" {}", who.trim()).into();
        each["what"] = format!(" {}", text(each, "act")).into();
        each["where"] = format!(" {}", text(each, "federation")).into();
        each["more"] = format!(" {}", text(each, "detail")).into();
    }
    if all.as_array().is_none_or(Vec::is_empty) {
        return "no operator has done anything yet\n".to_owned();
    }
    let columns = [
        ("when", "when", -20),
        (" who", "who", -32),
        (" what", "what", -24),
        (" federation", "where", -16),
        (" detail", "more", -1),
    ];
    table(&all, &columns)
}

/// `federation archive` and `federation delete`: says what would be deleted, and does it if told to.
pub(super) fn end(args: &End, how: &str, common: &Common) -> Result<()> {
    let (client, name) = (args.of.client()?, &args.of.name);
    let told = client.get(&args.of.path("/deletion"))?;
    if !args.yes {
        return output::answer(common, &told, || preview(&told, how));
    }
    match how {
        "archive" => client.post(&args.of.path("/archive"), &json!({"confirm": name}))?,
        _ => client.delete(&args.of.path(&format!("?confirm={name}")))?,
    };
    let done = if how == "archive" { "archived" } else { "deleted" };
    let document = json!({"name": name, "done": done, "deleted": told[format!("{how}_deletes")]});
    output::answer(common, &document, || format!("{name} is {done}; its devices are told when they check in\n"))
}

fn preview(told: &Value, how: &str) -> String {
    let name = text(told, "name");
    let mut out = String::new();
    for (title, key) in [("deletes", "deletes"), ("leaves", "keeps")] {
        let _ = writeln!(out, "sottovoce federation {how} {name} --yes {title}:");
        for each in told[format!("{how}_{key}")].as_array().into_iter().flatten() {
            let _ = writeln!(out, "  - {}", each.as_str().unwrap_or_default());
        }
    }
    out.push_str("This cannot be undone. Nothing has been done yet.\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_acts_are_tables() {
        let tokens = json!({"tokens": [
            {"id": 3, "label": "poster", "created": 0, "uses": 2, "expires": 86_400_000},
            {"id": 4, "label": "", "created": 0, "role": "observer"},
        ]});
        let shown = token_table(&tokens);
        assert!(shown.contains("1970-01-02 00:00") && shown.contains("observer") && shown.contains("any"), "{shown}");
        let told = json!({"acts": [{"at": 0, "label": "Ada", "token": 1, "role": "admin", "act": "extend",
            "federation": "town", "detail": "5 rounds", "status": 200}]});
        let shown = acts(&told);
        assert!(shown.contains("Ada (token 1, admin)") && shown.contains("5 rounds"), "{shown}");
    }

    #[test]
    fn previews_name_both_sides() {
        let told = json!({"name": "town", "archive_deletes": ["3 devices"], "archive_keeps": ["the model"]});
        let shown = preview(&told, "archive");
        assert!(
            shown.contains("--yes deletes:\n  - 3 devices\n") && shown.contains("leaves:\n  - the model\n"),
            "{shown}"
        );
    }
}
