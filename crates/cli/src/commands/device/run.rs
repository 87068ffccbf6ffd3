//! `device run` and `device withdraw`.

use super::location;
use super::now;
use crate::args::{Common, Location, RunDevice};
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
        let next = device.step(&transport, now())?;
        let participated = device.last_round();
        drop(device);
        let failed = match &next {
            NextStep::Wait(_, WaitReason::Failed { times, .. }) => *times,
            _ => 0,
        };
        failures = failed;
        if reported.as_ref() != Some(&why(&next)) || args.once {
            report(&next, participated, common)?;
            reported = Some(why(&next));
        }
        match next {
            NextStep::Stop(StopReason::Withdrawn) => return Ok(()),
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

/// Prints a line for an event, with the pause that follows.
fn report(next: &NextStep, round: Option<u64>, common: &Common) -> Result<()> {
    if common.json {
        let document = document(next, round);
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
    let line = format!("{}{rest}", why(next));
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
    device.withdraw()?;
    let next = device.step(&transport, now())?;
    let confirmed = next == NextStep::Stop(StopReason::Withdrawn);
    report_withdrawal(&device, &next, confirmed, common)
}

fn report_withdrawal(device: &Device, next: &NextStep, confirmed: bool, common: &Common) -> Result<()> {
    let (federation, text) = (device.federation(), why(next));
    let document = json!({"federation": federation, "withdrawn": true, "server_knows": confirmed, "text": text});
    output::answer(common, &document, || match confirmed {
        true => format!("Withdrawn from {federation}: the server has deleted this device's data.\n"),
        false => format!(
            "Withdrawn from {federation}: no more updates are sent. The server has not been told yet ({text}); \
             `sottovoce device run` tells it.\n"
        ),
    })
}
