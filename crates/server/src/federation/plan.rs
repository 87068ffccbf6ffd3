//! How training goes on after it was set up: more rounds, rounds without end, and when they are held.

use super::Federation;
use super::State;
use super::config::{ConfigError, require};
use crate::error::ServerError;
use crate::storage::{Change, Millis, Status};
use serde::{Deserialize, Serialize};
use sottovoce_federation::FederationError;

const HOUR: f64 = 3_600_000.0;
const MINUTE: Millis = 60_000;
const DAY: Millis = 24 * 60 * MINUTE;

/// When rounds are held. Exactly one of the three conditions is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// So many hours after the last ones began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub every_hours: Option<f64>,
    /// At this time of the day, in UTC: `02:30`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at: Option<String>,
    /// When so many devices have enrolled since the last ones began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub new_people: Option<u32>,
    /// Rounds each time.
    #[serde(default = "one")]
    pub rounds: u32,
}

fn one() -> u32 {
    1
}

/// How training goes on, beside what the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// Rounds that operators have added.
    #[serde(skip_serializing_if = "is_zero")]
    pub added_rounds: u64,
    /// Whether training has no end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub endless: bool,
    /// When rounds are held; `None`: one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// When the schedule was set.
    #[serde(skip_serializing_if = "is_zero")]
    pub since: Millis,
    /// The rounds that the schedule began last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occasion: Option<Occasion>,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Rounds that a schedule began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occasion {
    /// When.
    pub began: Millis,
    /// The first of them.
    pub round: u64,
    /// The number that the next device to enrol had then.
    pub next_device: u32,
}

/// Minutes since midnight.
fn minutes(text: &str) -> Option<Millis> {
    let (hours, minutes) = text.split_once(':')?;
    let digits = |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let (hours, minutes) = (digits(hours).then_some(hours)?, digits(minutes).then_some(minutes)?);
    let (hours, minutes): (Millis, Millis) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(60 * hours + minutes)
}

impl Schedule {
    /// Checks that it says when.
    ///
    /// # Errors
    /// Names what is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Self { every_hours, at, new_people, rounds } = self;
        let given = usize::from(every_hours.is_some()) + usize::from(at.is_some()) + usize::from(new_people.is_some());
        require("schedule", given == 1, &format!("{given} conditions"), "one of every_hours, at and new_people")?;
        let hours = every_hours.unwrap_or(1.0);
        require("every_hours", (0.01..=87_600.0).contains(&hours), &hours, "0.01 to 87600 hours")?;
        let time = at.as_deref().unwrap_or("00:00");
        require("at", minutes(time).is_some(), &time, "a time of the day in UTC, such as 02:30")?;
        require("new_people", *new_people != Some(0), &0, "at least 1")?;
        require("rounds", *rounds > 0, rounds, "at least 1")
    }

    /// The first time after another at which rounds begin, unless new people decide.
    fn next_after(&self, time: Millis) -> Option<Millis> {
        let every = self.every_hours.map(|hours| time + (hours * HOUR) as Millis);
        let daily = self.at.as_deref().and_then(minutes).map(|minutes| {
            let today = time / DAY * DAY + minutes * MINUTE;
            if today > time { today } else { today + DAY }
        });
        every.or(daily)
    }
}

/// Why no round opens now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    At(Millis),
    /// So many of so many new people are there.
    People(u32, u32),
}

impl Plan {
    /// The plan of a stored federation.
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        if text.is_empty() { Ok(Self::default()) } else { serde_json::from_str(text) }
    }

    /// Whether the next round may open.
    pub(super) fn due(&self, next_round: u64, next_device: u32, now: Millis) -> Due {
        let Some(schedule) = &self.schedule else { return Due::Now };
        let under_way = |held: &Occasion| next_round < held.round.saturating_add(schedule.rounds.into());
        if self.occasion.as_ref().is_some_and(under_way) {
            return Due::Now;
        }
        if let Some(wanted) = schedule.new_people {
            let there = next_device.saturating_sub(self.occasion.map_or(0, |held| held.next_device));
            return if there >= wanted { Due::Now } else { Due::People(there, wanted) };
        }
        let last = match self.occasion {
            Some(held) => held.began,
            // The first rounds of an interval are held at once.
            None if schedule.every_hours.is_some() => return Due::Now,
            None => self.since,
        };
        schedule.next_after(last).filter(|&next| next > now).map_or(Due::Now, Due::At)
    }

    /// The plan once this round is opened, if it is the first of an occasion.
    pub(super) fn with_round(&self, round: u64, next_device: u32, began: Millis) -> Option<Self> {
        let schedule = self.schedule.as_ref()?;
        let under_way = |held: &Occasion| round < held.round.saturating_add(schedule.rounds.into());
        let begins = !self.occasion.as_ref().is_some_and(under_way);
        begins.then(|| Self { occasion: Some(Occasion { began, round, next_device }), ..self.clone() })
    }
}

impl Due {
    /// What is waited for; `None`: nothing.
    pub(super) fn describe(&self) -> Option<String> {
        match self {
            Self::Now => None,
            Self::At(time) => Some(format!("its schedule: the next round is due on {}", crate::utc(*time))),
            Self::People(there, wanted) => {
                let more = wanted - there;
                let devices = if more == 1 { "device" } else { "devices" };
                Some(format!("{more} more new {devices}: {there} of {wanted} enrolled since the last rounds"))
            }
        }
    }
}

/// Why a plan was not changed.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The schedule.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Not in this state.
    #[error("{0}")]
    State(String),
    /// It could not be stored.
    #[error(transparent)]
    Server(#[from] ServerError),
}

impl Federation {
    /// How training goes on.
    pub fn plan(&self) -> Plan {
        self.state().plan.clone()
    }

    /// Adds rounds; a federation that has held all its rounds resumes.
    ///
    /// # Errors
    /// If it has failed or is archived, its privacy budget allows no more rounds, or the change cannot be stored.
    pub async fn extend(&self, rounds: u64) -> Result<(), PlanError> {
        require("rounds", rounds > 0 && rounds <= u64::from(u32::MAX), &rounds, "1 to 4294967295")?;
        self.check_goes_on()?;
        let _planning = self.planning.lock().await;
        let plan = self.plan();
        self.set_plan(Plan { added_rounds: plan.added_rounds + rounds, ..plan }, true).await
    }

    /// Sets when rounds are held, and whether there is an end to them.
    ///
    /// # Errors
    /// As [`extend`](Self::extend), or if the schedule is invalid.
    pub async fn reschedule(&self, schedule: Option<Schedule>, endless: bool) -> Result<(), PlanError> {
        schedule.as_ref().map_or(Ok(()), Schedule::check)?;
        self.check_goes_on()?;
        let _planning = self.planning.lock().await;
        let since = schedule.as_ref().map_or(0, |_| self.now());
        let plan = Plan { schedule, endless, since, occasion: None, ..self.plan() };
        self.set_plan(plan, endless).await
    }

    /// That another round may be held at all.
    fn check_goes_on(&self) -> Result<(), PlanError> {
        match self.status() {
            Status::Failed(why) => {
                return Err(PlanError::State(format!(
                    "training has failed ({why}); `sottovoce federation rollback` goes back to an earlier version first"
                )));
            }
            Status::Archived => return Err(PlanError::State("the federation is archived".to_owned())),
            Status::Running | Status::Paused | Status::Finished => (),
        }
        let admitted = self.state().members.admitted();
        let coordinator = self.coordinator();
        match coordinator.check_budget_of(admitted.max(self.config.devices as usize)) {
            Err(FederationError::Budget(why)) => {
                Err(PlanError::State(format!("the privacy budget allows no further round: {why}")))
            }
            other => Ok(other.map_err(ServerError::from)?),
        }
    }

    /// Stores a plan, while plans are locked; `resumes`: a finished federation trains again.
    async fn set_plan(&self, plan: Plan, resumes: bool) -> Result<(), PlanError> {
        let federation = self.id;
        let text = serde_json::to_string(&plan).unwrap_or_default();
        let resumes = resumes && self.status() == Status::Finished;
        let mut changes = vec![Change::SetPlan { federation, plan: text }];
        changes.extend(resumes.then_some(Change::SetStatus { federation, status: Status::Running }));
        self.services.queue.commit(changes).await.map_err(ServerError::from)?;
        let mut state = self.state();
        state.plan = plan;
        if resumes {
            state.status = Status::Running;
        }
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// The rounds of training that are planned, without measurements; more than any number if there is no end.
    pub(super) fn planned_rounds(&self, state: &State) -> u64 {
        match state.plan.endless {
            true => u64::MAX,
            false => self.target_rounds + state.undone + state.plan.added_rounds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(schedule: Schedule) -> Plan {
        schedule.check().unwrap();
        Plan { schedule: Some(schedule), since: 0, ..Plan::default() }
    }

    fn schedule() -> Schedule {
        Schedule { every_hours: None, at: None, new_people: None, rounds: 1 }
    }

    #[test]
    fn intervals_begin_at_once_and_count_from_the_last_occasion() {
        let plan = plan(Schedule { every_hours: Some(24.0), rounds: 2, ..schedule() });
        assert_eq!(plan.due(5, 0, 7), Due::Now);
        let held = plan.with_round(5, 3, 1_000).unwrap();
        assert_eq!(held.with_round(6, 3, 2_000), None);
        assert_eq!(held.due(6, 9, 1_001), Due::Now);
        assert_eq!(held.due(7, 9, 1_001), Due::At(DAY + 1_000));
        assert_eq!(held.due(7, 9, DAY + 1_000), Due::Now);
        assert_eq!(held.with_round(7, 9, DAY + 5_000).unwrap().occasion.unwrap().round, 7);
    }

    #[test]
    fn times_of_the_day_are_the_next_ones_and_missed_ones_are_made_up_for() {
        let plan = plan(Schedule { at: Some("02:30".to_owned()), ..schedule() });
        let half_past_two = 150 * MINUTE;
        assert_eq!(plan.due(0, 0, 0), Due::At(half_past_two));
        assert_eq!(plan.due(0, 0, half_past_two), Due::Now);
        let held = plan.with_round(0, 0, half_past_two + 5).unwrap();
        assert_eq!(held.due(1, 0, half_past_two + 6), Due::At(DAY + half_past_two));
        // The server was off for a week: once, not seven times.
        assert_eq!(held.due(1, 0, 7 * DAY), Due::Now);
        let late = held.with_round(1, 0, 7 * DAY).unwrap();
        assert_eq!(late.due(2, 0, 7 * DAY), Due::At(7 * DAY + half_past_two));
        let told = Due::At(1_792_202_400_000).describe().unwrap();
        assert_eq!(told, "its schedule: the next round is due on 2026-10-17 02:00 UTC");
    }

    #[test]
    fn new_people_count_from_the_last_occasion() {
        let plan = plan(Schedule { new_people: Some(3), ..schedule() });
        assert_eq!(plan.due(0, 2, 0), Due::People(2, 3));
        let held = plan.with_round(0, 4, 0).unwrap();
        assert_eq!((held.due(1, 6, 0), held.due(1, 7, 0)), (Due::People(2, 3), Due::Now));
        let told = held.due(1, 6, 0).describe().unwrap();
        assert_eq!(told, "1 more new device: 2 of 3 enrolled since the last rounds");
    }

    #[test]
    fn schedules_say_when_once() {
        let wrong = |schedule: Schedule| schedule.check().unwrap_err().to_string();
        assert!(wrong(schedule()).contains("0 conditions, expected one of every_hours, at and new_people"));
        let twice = Schedule { every_hours: Some(1.0), new_people: Some(1), ..schedule() };
        assert!(wrong(twice).contains("2 conditions"));
        for time in ["24:00", "2", "2:60", "-1:00", "+2:00", "02:30:00", ""] {
            assert!(wrong(Schedule { at: Some(time.to_owned()), ..schedule() }).contains("02:30"), "{time}");
        }
        assert!(wrong(Schedule { every_hours: Some(f64::NAN), ..schedule() }).contains("hours"));
    }

    #[test]
    fn plans_round_trip_and_nothing_is_the_default() {
        assert_eq!(Plan::read("").unwrap(), Plan::default());
        let held = plan(Schedule { new_people: Some(3), ..schedule() }).with_round(4, 5, 6).unwrap();
        assert_eq!(Plan::read(&serde_json::to_string(&held).unwrap()).unwrap(), held);
    }
}
