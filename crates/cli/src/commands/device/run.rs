//! `device run` and `device withdraw`.

use super::location;
use super::now;
use crate::args::{Common, Location, RunDevice};
use crate::output;
use anyhow::{Result, bail};
use serde_json::{Value as Json, json};
use sottovoce_device::{Device, End, Next, Rest};
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
        device.count_failures_from(failures);
        let next = device.step(&transport, now())?;
        let participated = device.last_round();
        drop(device);
        let failed = match &next {
            Next::After(_, Rest::Failed { times, .. }) => *times,
            _ => 0,
        };
        failures = failed;
        if reported.as_ref() != Some(&why(&next)) || args.once {
            report(&next, participated, common)?;
            reported = Some(why(&next));
        }
        match next {
            Next::Never(End::Withdrawn) => return Ok(()),
            Next::Never(end) => bail!("{end}"),
            Next::After(_, rest) if args.once && failed > 0 => bail!("{rest}"),
            Next::After(..) if args.once => return Ok(()),
            Next::After(_, Rest::Idle { state }) if state == "finished" => return Ok(()),
            Next::After(pause, Rest::Paused | Rest::Conditions) => thread::sleep(pause.min(MAX_PAUSE)),
            Next::After(pause, _) => thread::sleep(pause),
        }
    }
}

fn why(next: &Next) -> String {
    match next {
        Next::After(_, rest) => rest.to_string(),
        Next::Never(end) => end.to_string(),
    }
}

/// Prints a line for an event, with the pause that follows.
fn report(next: &Next, round: Option<u64>, common: &Common) -> Result<()> {
    if common.json {
        let document = document(next, round);
        return output::print_line(&document.to_string());
    }
    let rest = match next {
        Next::After(pause, rest) if !pause.is_zero() && !matches!(rest, Rest::Paused | Rest::Conditions) => {
            format!("; next in {}", shown(*pause))
        }
        _ => String::new(),
    };
    let line = format!("{}{rest}", why(next));
    if common.quiet { Ok(()) } else { output::print_line(&line) }
}

fn document(next: &Next, round: Option<u64>) -> Json {
    let event = match next {
        Next::After(_, rest) => match rest {
            Rest::Done { .. } => "done",
            Rest::Dropped { .. } => "dropped",
            Rest::Declined { .. } => "declined",
            Rest::Idle { .. } => "idle",
            Rest::Failed { .. } => "failed",
            Rest::Conditions => "conditions",
            Rest::Paused => "paused",
        },
        Next::Never(End::Withdrawn) => "withdrawn",
        Next::Never(End::TurnedAway { .. }) => "turned-away",
    };
    let seconds = match next {
        Next::After(pause, _) => Some(pause.as_secs_f64()),
        Next::Never(_) => None,
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
    let confirmed = next == Next::Never(End::Withdrawn);
    report_withdrawal(&device, &next, confirmed, common)
}

fn report_withdrawal(device: &Device, next: &Next, confirmed: bool, common: &Common) -> Result<()> {
    if common.json {
        let federation = device.federation();
        return output::print_json(
            &json!({"federation": federation, "withdrawn": true, "server_knows": confirmed, "text": why(next)}),
        );
    }
    output::print(&if confirmed {
        format!("Withdrawn from {}: the server has deleted this device's data.\n", device.federation())
    } else {
        format!(
            "Withdrawn from {}: no more updates are sent. The server has not been told yet ({}); \
             `sottovoce device run` tells it.\n",
            device.federation(),
            why(next)
        )
    })
}
