//! `device run` and `device withdraw`.

use super::location;
use super::now;
use crate::args::{Common, Location, RunDevice};
use crate::commands::fleet::about;
use crate::output;
use anyhow::{Result, bail};
use serde_json::{Value as Json, json};
use sottovoce_device::{Device, NextStep, StopReason, WaitReason};
use std::thread;
use std::time::Duration;

/// The longest pause, so that changes of policy by other commands are noticed.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// `sottovoce device run`.
///
/// The store is open only while there is something to do, so that other commands can use it in between.
pub(crate) fn run(args: &RunDevice, common: &Common) -> Result<()> {
    let mut failures = 0;
    let mut reported = None;
    loop {
        let mut device = location::open_waiting(&args.location, location::Wait::Forever)?;
        let transport = location::transport(device.server(), device.ca())?;
        device.set_failures(failures);
        let before = device.fitted_version();
        let next = device.step(&transport, now())?;
        let participated = device.last_round();
        let fitted = device.fitted_version().filter(|_| device.fitted_version() != before);
        let waits_for = device.waits_for().map(str::to_owned);
        drop(device);
        if let Some(version) = fitted {
            report_fitted(version, common)?;
        }
        let failed = match &next {
            NextStep::Wait(_, WaitReason::Failed { times, .. }) => *times,
            _ => 0,
        };
        failures = failed;
        let told = (why(&next), waits_for);
        if reported.as_ref() != Some(&told) || args.once {
            report(&next, participated, told.1.as_deref(), common)?;
            reported = Some(told);
        }
        match next {
            NextStep::Stop(StopReason::Withdrawn) => return Ok(()),
            // The federation is archived or deleted: there is nothing to do, and nothing wrong.
            NextStep::Stop(StopReason::Rejected { status: 410, .. }) => return Ok(()),
            NextStep::Stop(end) => bail!("{end}"),
            NextStep::Wait(_, rest) if args.once && failed > 0 => bail!("{rest}"),
            NextStep::Wait(..) if args.once => return Ok(()),
            NextStep::Wait(_, WaitReason::NoRound { state }) if state == "finished" => return Ok(()),
            NextStep::Wait(pause, WaitReason::Paused | WaitReason::Conditions) => thread::sleep(pause.min(MAX_PAUSE)),
            NextStep::Wait(pause, _) => thread::sleep(pause),
        }
    }
}

fn why(next: &NextStep) -> String {
    match next {
        NextStep::Wait(_, rest) => rest.to_string(),
        NextStep::Stop(end) => end.to_string(),
    }
}

/// Says that there is a model to recommend with, although the device was in no round of late.
fn report_fitted(version: u64, common: &Common) -> Result<()> {
    let text = format!("fitted your private model to version {version} of the shared one; nothing left this device");
    if common.json {
        return output::print_line(&json!({"event": "fitted", "text": text, "version": version}).to_string());
    }
    if common.quiet { Ok(()) } else { output::print_line(&text) }
}

/// Prints a line for an event, with the pause that follows.
fn report(next: &NextStep, round: Option<u64>, waits_for: Option<&str>, common: &Common) -> Result<()> {
    // Only where there is no round for the device.
    let waits_for = waits_for.filter(|_| matches!(next, NextStep::Wait(_, WaitReason::NoRound { .. })));
    if common.json {
        let mut document = document(next, round);
        if let Some(waits_for) = waits_for {
            document["waits_for"] = waits_for.into();
        }
        return output::print_line(&document.to_string());
    }
    let rest = match next {
        NextStep::Wait(pause, rest)
            if !pause.is_zero() && !matches!(rest, WaitReason::Paused | WaitReason::Conditions) =>
        {
            format!("; next in {}", shown(*pause))
        }
        _ => String::new(),
    };
    let waits_for = waits_for.map(|what| format!("; the federation waits for {what}")).unwrap_or_default();
    let line = format!("{}{waits_for}{rest}", why(next));
    if common.quiet { Ok(()) } else { output::print_line(&line) }
}

fn document(next: &NextStep, round: Option<u64>) -> Json {
    let event = match next {
        NextStep::Wait(_, rest) => match rest {
            WaitReason::UpdateAccepted { .. } => "done",
            WaitReason::UpdateRejected { .. } => "dropped",
            WaitReason::Declined { .. } => "declined",
            WaitReason::NoRound { .. } => "idle",
            WaitReason::Failed { .. } => "failed",
            WaitReason::Conditions => "conditions",
            WaitReason::Paused => "paused",
        },
        NextStep::Stop(StopReason::Withdrawn) => "withdrawn",
        NextStep::Stop(StopReason::Rejected { .. }) => "turned-away",
    };
    let seconds = match next {
        NextStep::Wait(pause, _) => Some(pause.as_secs_f64()),
        NextStep::Stop(_) => None,
    };
    json!({"event": event, "text": why(next), "next_in_seconds": seconds, "last_round": round})
}

fn shown(pause: Duration) -> String {
    let seconds = pause.as_secs_f64();
    if seconds < 120.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}

/// `sottovoce device withdraw`.
pub(crate) fn withdraw(location: &Location, common: &Common) -> Result<()> {
    let mut device = location::open(location)?;
    let transport = location::transport(device.server(), device.ca())?;
    // If the server does not answer, it cannot be told either.
    let unlearns = about(&transport, device.federation()).ok().map(|about| about["unlearn"] == "retrain");
    device.withdraw()?;
    let next = device.step(&transport, now())?;
    let confirmed = next == NextStep::Stop(StopReason::Withdrawn);
    report_withdrawal(&device, &next, confirmed, unlearns, common)
}

fn report_withdrawal(
    device: &Device,
    next: &NextStep,
    confirmed: bool,
    unlearns: Option<bool>,
    common: &Common,
) -> Result<()> {
    let (federation, text) = (device.federation(), why(next));
    let updates = device.ledger().totals().updates;
    let stays = what_stays(updates, unlearns);
    let document = json!({
        "federation": federation, "withdrawn": true, "server_knows": confirmed, "text": text,
        "updates": updates, "server_retrains": unlearns, "what_stays": stays,
    });
    output::answer(common, &document, || match confirmed {
        true => format!(
            "Withdrawn from {federation}: the server says that it has deleted this device's data; no device can check \
             that.\n{stays}\n"
        ),
        false => format!(
            "Withdrawn from {federation}: no more updates are sent. The server has not been told yet ({text}); \
             `sottovoce device run` tells it.\n{stays}\n"
        ),
    })
}

/// What the shared model keeps of a device that withdraws, in plain words.
fn what_stays(updates: u64, unlearns: Option<bool>) -> String {
    let learnt = match updates {
        0 => return "No update had left this device, so the shared model has learnt nothing from it.".to_owned(),
        1 => "What the shared model learnt from your update".to_owned(),
        updates => format!("What the shared model learnt from your {} updates", output::grouped(updates)),
    };
    let copies = "Copies of the model that others downloaded keep it either way.";
    match unlearns {
        Some(true) => format!(
            "{learnt} is to be undone: the federation says that it trains again from before you enrolled, which takes \
             some rounds. {copies}"
        ),
        Some(false) => format!("{learnt} stays in it: this federation does not train again without you. {copies}"),
        None => format!("{learnt} stays in it, unless the federation trains again without you. {copies}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withdrawal_says_what_stays_learnt() {
        assert!(what_stays(0, Some(false)).contains("learnt nothing"));
        assert!(what_stays(3, Some(false)).contains("from your 3 updates stays in it"));
        assert!(what_stays(1, Some(true)).contains("trains again from before you enrolled"));
        assert!(what_stays(1, None).contains("unless"));
    }
}
