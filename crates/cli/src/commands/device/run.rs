//! `device run` and `device withdraw`.

use super::now;
use super::place::{self, Patience};
use crate::args::{Common, Place, RunDevice};
use crate::output;
use anyhow::{Result, bail};
use serde_json::{Value as Json, json};
use sottovoce_device::{Device, End, Next, Rest};
use std::thread;
use std::time::Duration;

/// Looking for changes of policy that another command made is cheap; so a rest is never longer than this at a time.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// `sottovoce device run`.
///
/// The store is open only while there is something to do, so that other commands get at it in between.
pub(crate) fn run(args: &RunDevice, common: &Common) -> Result<()> {
    let mut failures = 0;
    let mut said = None;
    loop {
        let mut device = place::open(&args.place, Patience::Endless)?;
        let transport = place::transport(device.server(), device.ca())?;
        device.count_failures_from(failures);
        let next = device.step(&transport, now())?;
        let participated = device.last_round();
        drop(device);
        let failed = match &next {
            Next::After(_, Rest::Failed { times, .. }) => *times,
            _ => 0,
        };
        failures = failed;
        if said.as_ref() != Some(&why(&next)) || args.once {
            tell(&next, participated, common)?;
            said = Some(why(&next));
        }
        match next {
            Next::Never(End::Withdrawn) => return Ok(()),
            Next::Never(end) => bail!("{end}"),
            Next::After(_, rest) if args.once && failed > 0 => bail!("{rest}"),
            Next::After(..) if args.once => return Ok(()),
            Next::After(_, Rest::Idle { state }) if state == "finished" => return Ok(()),
            Next::After(pause, Rest::Paused | Rest::Conditions) => thread::sleep(pause.min(LONGEST_REST)),
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

/// A line an event, with how long it rests.
fn tell(next: &Next, round: Option<u64>, common: &Common) -> Result<()> {
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
pub(crate) fn withdraw(place: &Place, common: &Common) -> Result<()> {
    let mut device = place::open(place, Patience::Some)?;
    let transport = place::transport(device.server(), device.ca())?;
    device.withdraw()?;
    let next = device.step(&transport, now())?;
    let heard = next == Next::Never(End::Withdrawn);
    tell_withdrawal(&device, &next, heard, common)
}

fn tell_withdrawal(device: &Device, next: &Next, heard: bool, common: &Common) -> Result<()> {
    if common.json {
        let federation = device.federation();
        return output::print_json(
            &json!({"federation": federation, "withdrawn": true, "server_knows": heard, "text": why(next)}),
        );
    }
    output::print(&if heard {
        format!("Withdrawn from {}: the server has forgotten this device.\n", device.federation())
    } else {
        format!(
            "Withdrawn from {}: nothing is sent any more. The server does not know yet ({}); \
             `sottovoce device run` tells it.\n",
            device.federation(),
            why(next)
        )
    })
}
