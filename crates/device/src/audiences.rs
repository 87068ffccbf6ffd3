//! What a device knows and remembers about audiences.

use serde_json::Value;
use sottovoce_client::bytes::{Read, Reader, Writer};
use sottovoce_models::federated::audience_size::Match;
use sottovoce_models::settings::Choice as _;
use sottovoce_privacy::tokens::{PublicKey, Token, from_hex};
use sottovoce_protocol::{FederationId, ModelSpec, Settings};
use std::collections::BTreeSet;

/// A day, in seconds.
pub(crate) const DAY: u64 = 86_400;
/// Bytes of an audience's name.
const MAX_NAME: usize = 64;
/// Entries of the account that are kept one by one.
const MAX_SPENDINGS: usize = 200;

/// An audience that the server offers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Audience {
    pub(crate) id: u64,
    pub(crate) name: String,
    /// Ids of categories.
    pub(crate) categories: Vec<String>,
    pub(crate) matching: Match,
    pub(crate) threshold: f32,
    /// Seconds since 1970.
    pub(crate) expires: u64,
    /// Of this rotation's tokens.
    pub(crate) key: PublicKey,
}

/// The server's list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AudienceList {
    pub(crate) federation: FederationId,
    pub(crate) k: u32,
    pub(crate) rotation: u64,
    pub(crate) rotation_seconds: u32,
    pub(crate) report_epsilon: f64,
    pub(crate) model: ModelSpec,
    pub(crate) audiences: Vec<Audience>,
}

impl AudienceList {
    /// Reads the server's document.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let document: Value = serde_json::from_str(text).map_err(|error| format!("the list of audiences: {error}"))?;
        let wrong = |field: &str| format!("the list of audiences: {field} is missing or wrong");
        let number = |of: &Value, field: &str| of[field].as_u64().ok_or_else(|| wrong(field));
        let small = |field: &str| u32::try_from(number(&document, field)?).map_err(|_| wrong(field));
        let epsilon = document["report_epsilon"].as_f64().filter(|epsilon| *epsilon > 0.0 && epsilon.is_finite());
        let settings = document["settings"].as_object().ok_or_else(|| wrong("settings"))?;
        let settings = settings.iter().map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let listed = document["audiences"].as_array().ok_or_else(|| wrong("audiences"))?;
        let list = Self {
            federation: FederationId(number(&document, "federation")?),
            k: small("k")?,
            rotation: number(&document, "rotation")?,
            rotation_seconds: small("rotation_seconds")?,
            report_epsilon: epsilon.ok_or_else(|| wrong("report_epsilon"))?,
            model: ModelSpec {
                name: document["model"].as_str().ok_or_else(|| wrong("model"))?.to_owned(),
                settings: settings.collect::<Option<Settings>>().ok_or_else(|| wrong("settings"))?,
            },
            audiences: listed
                .iter()
                .map(|each| audience(each).ok_or_else(|| wrong("an audience")))
                .collect::<Result<_, _>>()?,
        };
        let ascends = list.audiences.is_sorted_by(|one, next| one.id < next.id);
        if ascends { Ok(list) } else { Err(wrong("the order of audiences")) }
    }
}

fn audience(of: &Value) -> Option<Audience> {
    let name = of["name"].as_str().filter(|name| (1..=MAX_NAME).contains(&name.len()))?;
    let categories = of["categories"].as_array()?.iter().map(|id| id.as_str().map(str::to_owned));
    let threshold = of["threshold"].as_f64().filter(|score| *score > 0.0 && *score <= 1.0)?;
    Some(Audience {
        id: of["audience"].as_u64()?,
        name: Some(name).filter(|name| !name.chars().any(char::is_control))?.to_owned(),
        categories: categories.collect::<Option<_>>()?,
        matching: Match::named(of["match"].as_str()?)?,
        threshold: threshold as f32,
        expires: of["expires"].as_u64()?,
        key: PublicKey::from_bytes(&from_hex(of["key"].as_str()?)?).ok()?,
    })
}

impl Audience {
    /// Digest of what is asked, and with how much privacy: the same question again gets the same answer.
    pub(crate) fn digest(&self, epsilon: f64) -> [u8; 32] {
        let mut categories = self.categories.clone();
        categories.sort_unstable();
        let mut hasher = blake3::Hasher::new();
        for id in &categories {
            hasher.update(&(id.len() as u64).to_le_bytes()).update(id.as_bytes());
        }
        hasher.update(self.matching.name().as_bytes()).update(&self.threshold.to_le_bytes());
        hasher.update(&epsilon.to_le_bytes());
        *hasher.finalize().as_bytes()
    }
}

/// A report that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) audience: u64,
    pub(crate) name: String,
    pub(crate) rotation: u64,
    /// When, in seconds since 1970.
    pub(crate) at: u64,
    pub(crate) segment: [u8; 16],
    pub(crate) token: Token,
    /// Whether it is in the ledger.
    pub(crate) recorded: bool,
}

/// A segment id that was reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The audience's name.
    pub audience: String,
    /// The rotation in which it was reported; it is in use in the next.
    pub rotation: u64,
    /// The id.
    pub id: [u8; 16],
}

/// What a measurement or a report may have said about the owner.
#[derive(Clone, Debug, PartialEq)]
pub struct Spending {
    /// When, in seconds since 1970.
    pub when: u64,
    /// How much, at most.
    pub epsilon: f64,
    /// What it was.
    pub what: String,
}

/// What a device remembers about audiences.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AudienceState {
    /// The server's last list, as it came; empty if there is none that the owner agreed to.
    pub(crate) list: String,
    /// Why there is none.
    pub(crate) refusal: String,
    /// When the list was fetched last, in the owner's least rotations since 1970.
    pub(crate) window: Option<u64>,
    /// The last rotation for which tokens were requested.
    pub(crate) rotation: Option<u64>,
    pub(crate) reports: Vec<Report>,
    pub(crate) segments: Vec<Segment>,
    /// Digests of the questions answered: the same question again says nothing new.
    pub(crate) answered: BTreeSet<[u8; 32]>,
    /// The latest spendings.
    pub(crate) account: Vec<Spending>,
    /// Epsilon of all, those that are not listed any more included.
    pub(crate) epsilon: f64,
}

impl AudienceState {
    /// What was spent in the day before a time.
    pub(crate) fn last_day(&self, now: u64) -> f64 {
        self.account.iter().filter(|spent| spent.when.saturating_add(DAY) > now).map(|spent| spent.epsilon).sum()
    }

    pub(crate) fn spend(&mut self, when: u64, epsilon: f64, what: String) {
        self.epsilon += epsilon;
        self.account.push(Spending { when, epsilon, what });
        let is_past = |spent: &Spending| spent.when.saturating_add(DAY) <= when;
        while self.account.len() > MAX_SPENDINGS && self.account.first().is_some_and(is_past) {
            self.account.remove(0);
        }
    }

    /// What outlives a withdrawal: a server could otherwise have the same questions answered anew.
    pub(crate) fn after_withdrawal(&self) -> Self {
        let Self { answered, account, epsilon, .. } = self.clone();
        Self { answered, account, epsilon, ..Self::default() }
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.block(self.list.as_bytes());
        out.block(self.refusal.as_bytes());
        out.optional(self.window, Writer::number);
        out.optional(self.rotation, Writer::number);
        out.number(self.reports.len() as u64);
        for report in &self.reports {
            out.number(report.audience);
            out.block(report.name.as_bytes());
            out.number(report.rotation);
            out.number(report.at);
            out.0.extend_from_slice(&report.segment);
            out.0.extend_from_slice(&report.token.to_bytes());
            out.byte(report.recorded.into());
        }
        out.number(self.segments.len() as u64);
        for segment in &self.segments {
            out.block(segment.audience.as_bytes());
            out.number(segment.rotation);
            out.0.extend_from_slice(&segment.id);
        }
        out.number(self.answered.len() as u64);
        self.answered.iter().for_each(|digest| out.0.extend_from_slice(digest));
        out.number(self.account.len() as u64);
        for spent in &self.account {
            out.number(spent.when);
            out.number(spent.epsilon.to_bits());
            out.block(spent.what.as_bytes());
        }
        out.number(self.epsilon.to_bits());
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Read<Self> {
        Ok(Self {
            list: from.text("list of audiences")?.to_owned(),
            refusal: from.text("list of audiences")?.to_owned(),
            window: from.optional("list of audiences", |from| from.number("list of audiences"))?,
            rotation: from.optional("rotation", |from| from.number("rotation"))?,
            reports: many(from, "reports", read_report)?,
            segments: many(from, "segments", |from| {
                let audience = from.text("segments")?.to_owned();
                Ok(Segment { audience, rotation: from.number("segments")?, id: from.array("segments")? })
            })?,
            answered: many(from, "answers", |from| from.array("answers"))?.into_iter().collect(),
            account: many(from, "account", |from| {
                let (when, epsilon) = (from.number("account")?, read_epsilon(from)?);
                Ok(Spending { when, epsilon, what: from.text("account")?.to_owned() })
            })?,
            epsilon: read_epsilon(from)?,
        })
    }
}

fn many<'a, T>(from: &mut Reader<'a>, field: &'static str, read: impl Fn(&mut Reader<'a>) -> Read<T>) -> Read<Vec<T>> {
    let count = from.count(field)?;
    (0..count).map(|_| read(from)).collect()
}

fn read_epsilon(from: &mut Reader<'_>) -> Read<f64> {
    Some(f64::from_bits(from.number("account")?)).filter(|epsilon| *epsilon >= 0.0).ok_or("account")
}

fn read_report(from: &mut Reader<'_>) -> Read<Report> {
    Ok(Report {
        audience: from.number("reports")?,
        name: from.text("reports")?.to_owned(),
        rotation: from.number("reports")?,
        at: from.number("reports")?,
        segment: from.array("reports")?,
        token: Token::from_bytes(&from.array::<{ Token::BYTES }>("reports")?).map_err(|_| "reports")?,
        recorded: from.flag("reports")?,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn state() -> AudienceState {
        let token = Token::from_bytes(&[5; Token::BYTES]).unwrap();
        let (name, segment) = ("ski fans".to_owned(), [6; 16]);
        let report = Report { audience: 4, name: name.clone(), rotation: 7, at: 99, segment, token, recorded: true };
        let mut state = AudienceState {
            list: "{}".to_owned(),
            refusal: "no".to_owned(),
            window: Some(3),
            rotation: Some(7),
            reports: vec![report],
            segments: vec![Segment { audience: name, rotation: 6, id: [8; 16] }],
            answered: [[9; 32]].into(),
            ..AudienceState::default()
        };
        state.spend(50, 0.25, "a measurement".to_owned());
        state
    }

    #[test]
    fn accounts_for_the_last_day() {
        let mut state = AudienceState::default();
        for hour in 0..30 {
            state.spend(hour * 3600, 0.5, String::new());
        }
        assert_eq!((state.last_day(29 * 3600), state.epsilon), (12.0, 15.0));
        for _ in 0..2 * MAX_SPENDINGS {
            state.spend(30 * 3600, 0.5, String::new());
        }
        assert_eq!(state.last_day(30 * 3600), 0.5 * (2 * MAX_SPENDINGS + 23) as f64, "nothing of the last day is lost");
    }

    #[test]
    fn names_what_is_wrong_with_a_list() {
        let key = "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76";
        let audience = format!(
            r#"{{"audience":1,"name":"n","categories":["a"],"match":"any","threshold":0.6,"expires":9,"key":"{key}"}}"#
        );
        let list = |head: &str, audiences: &str| {
            AudienceList::parse(&format!(
                r#"{{{head}"federation":1,"k":1000,"rotation":5,"rotation_seconds":86400,"report_epsilon":2.0,
                    "model":"lookalike","settings":{{}},"audiences":[{audiences}]}}"#
            ))
        };
        assert_eq!(list("", &audience).unwrap().audiences.len(), 1);
        assert!(list("", &format!("{audience},{audience}")).unwrap_err().contains("order"));
        for (from, to) in [("0.6", "1.6"), ("any", "some"), (key, "00"), ("\"n\"", "\"\\u0007\"")] {
            assert!(list("", &audience.replace(from, to)).unwrap_err().contains("an audience"), "{to}");
        }
        assert!(AudienceList::parse("<html>").is_err());
        assert!(AudienceList::parse("{}").unwrap_err().contains("missing or wrong"));
    }
}
