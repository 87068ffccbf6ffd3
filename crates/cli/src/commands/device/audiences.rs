//! `device audiences`.

use super::{as_usage, location};
use crate::args::{Audiences, Common, JoinAudiences, Location};
use crate::commands::audience::day;
use crate::output::{self, grouped, usage};
use anyhow::Result;
use serde_json::json;
use sottovoce_device::{AudienceMembership, Device};
use sottovoce_privacy::tokens::to_hex;
use std::fmt::Write;

/// `sottovoce device audiences`.
pub(crate) fn run(command: Option<&Audiences>, location: &Location, common: &Common) -> Result<()> {
    let location = match command {
        None => location,
        Some(Audiences::Join(args)) => &args.location,
        Some(Audiences::Leave { location, .. }) => location,
    };
    let mut device = location::open(location)?;
    match command {
        None => (),
        Some(Audiences::Join(args)) => join(&mut device, args)?,
        Some(Audiences::Leave { name, all, .. }) => match (name, all) {
            (_, true) => device.leave_audiences()?,
            (Some(name), _) => leave(&mut device, name)?,
            (None, false) => return usage("which audience? Give its name, or --all"),
        },
    }
    show(&device, common)
}

fn join(device: &mut Device, args: &JoinAudiences) -> Result<()> {
    if let Some(name) = &args.name
        && !device.rejoin_audience(name)?
    {
        return usage(format!("you have not left an audience {name:?}"));
    }
    for id in &args.exclude {
        device.exclude_category(id).map_err(as_usage)?;
    }
    if args.epsilon_per_day.is_some_and(|epsilon| epsilon.is_nan() || epsilon < 0.0) {
        return usage("--epsilon-per-day is a number from 0 on");
    }
    device.set_policy(|policy| {
        let audiences = &mut policy.audiences;
        args.include.iter().for_each(|id| drop(audiences.excluded.take(id)));
        audiences.least_published = args.least_published.unwrap_or(audiences.least_published);
        audiences.epsilon_per_day = args.epsilon_per_day.unwrap_or(audiences.epsilon_per_day);
        audiences.most_audiences = args.most_audiences.unwrap_or(audiences.most_audiences);
        let hours = args.least_rotation_hours.map(|hours| hours.saturating_mul(3600));
        audiences.least_rotation = hours.unwrap_or(audiences.least_rotation).max(1);
        Ok(())
    })?;
    Ok(device.join_audiences()?)
}

fn leave(device: &mut Device, name: &str) -> Result<()> {
    let known = device.audiences().unwrap_or_default();
    if !known.iter().any(|audience| audience.name == name) {
        return usage(format!("there is no audience {name:?}; `sottovoce device audiences` lists them"));
    }
    Ok(device.leave_audience(name)?)
}

fn show(device: &Device, common: &Common) -> Result<()> {
    let found = device.audiences();
    let policy = &device.policy().audiences;
    let (account, epsilon) = device.audience_account();
    let audiences = found.as_ref().map_or(&[][..], Vec::as_slice);
    let membership = |of: &AudienceMembership| {
        json!({
            "name": of.name, "categories": of.categories, "match": of.matching, "threshold": of.threshold,
            "expires": of.expires, "score": of.score, "in": of.is_in, "left": of.left, "excluded": of.excluded,
        })
    };
    let segments = device.segments().iter();
    let document = json!({
        "takes_part": policy.takes_part,
        "audiences": audiences.iter().map(membership).collect::<Vec<_>>(),
        "refusal": found.as_ref().err(),
        "segments": segments.map(|segment| {
            json!({"audience": segment.audience, "rotation": segment.rotation, "segment": to_hex(&segment.id)})
        }).collect::<Vec<_>>(),
        "epsilon": epsilon,
        "spent": account.iter().map(|spent| {
            json!({"when": spent.when, "epsilon": spent.epsilon, "what": spent.what})
        }).collect::<Vec<_>>(),
        "policy": {
            "least_published": policy.least_published, "epsilon_per_day": policy.epsilon_per_day,
            "most_audiences": policy.most_audiences, "least_rotation_seconds": policy.least_rotation,
            "excluded": policy.excluded, "left": policy.left,
        },
    });
    output::answer(common, &document, || page(device, found.as_ref()))
}

/// An audience in one line.
fn line(audience: &AudienceMembership) -> String {
    let joint = if audience.matching == "all" { " and " } else { " or " };
    let until = day(audience.expires);
    let verdict = match (audience.left, audience.excluded, audience.score) {
        (true, ..) => "you have left it".to_owned(),
        (_, true, _) => "it names a category that you exclude or hide, so that you are not in it".to_owned(),
        (.., None) => "not known yet: there is no model to score with".to_owned(),
        (.., Some(score)) if audience.is_in => format!("you are in it (score {score:.2})"),
        (.., Some(score)) => format!("you are not in it (score {score:.2})"),
    };
    let (name, categories, threshold) = (&audience.name, audience.categories.join(joint), audience.threshold);
    format!("{name}: people who would like {categories}, score {threshold} or more, until {until}: {verdict}\n")
}

fn page(device: &Device, audiences: Result<&Vec<AudienceMembership>, &String>) -> String {
    let policy = &device.policy().audiences;
    if !policy.takes_part {
        return "You take no part in audiences. `sottovoce device audiences join` changes that.\n".to_owned();
    }
    let mut out = match audiences {
        Err(why) => format!("Your device takes part in none of the server's audiences: {why}\n"),
        Ok(all) if all.is_empty() => "No audience is open, as far as this device knows.\n".to_owned(),
        Ok(all) => all.iter().map(line).collect(),
    };
    let (account, epsilon) = device.audience_account();
    let _ = writeln!(
        out,
        "\nMeasurements and reports came to epsilon {epsilon:.3} so far, at most {} a day; sizes below {} are not \
         published.",
        policy.epsilon_per_day,
        grouped(policy.least_published),
    );
    for spent in account.iter().rev().take(5) {
        let when = day(spent.when);
        let _ = writeln!(out, "  {when}  epsilon {:.3}: {}", spent.epsilon, spent.what);
    }
    if !policy.excluded.is_empty() {
        let excluded: Vec<&str> = policy.excluded.iter().map(String::as_str).collect();
        let _ = writeln!(out, "Excluded categories: {}", excluded.join(", "));
    }
    out
}
