//! Queries.

#![allow(clippy::redundant_closure_for_method_calls, reason = "the method is not general over lifetimes")]

use super::changes::ADVERTISER;
use super::sql::{Result, Row, Sql, SqlError, Value};
use super::{
    ActRecord, AudienceRecord, AudienceTokens, DeviceRecord, FederationRecord, GoneRecord, Hash, MeasurementRecord,
    OpenRound, Receipt, RoundOpening, RoundRecord, SealMessage, SegmentRecord, Sender, Status, Stored, TokenPurpose,
    TokenRecord, VersionRecord,
};

/// Everything but the bytes of updates and the records of closed rounds; within one transaction.
pub(super) fn load(sql: &mut dyn Sql) -> Result<Stored> {
    let mut stored = Stored {
        federations: all(sql, FEDERATIONS, &[], federation)?,
        devices: all(sql, DEVICES, &[], device)?,
        tokens: all(sql, TOKENS, &[], token)?,
        rounds: all(sql, OPEN_ROUNDS, &[], open_round)?,
        receipts: Vec::new(),
        versions: all(sql, VERSIONS, &[], version)?,
        audiences: all(sql, AUDIENCES, &[], audience)?,
        measurements: all(sql, MEASUREMENTS, &[], measurement)?,
        audience_tokens: all(sql, AUDIENCE_TOKENS, &[], audience_tokens)?,
        segments: all(sql, SEGMENTS, &[], segment)?,
        gone: all(sql, GONE, &[], gone)?,
        next_federation: counter(sql, "SELECT next_federation FROM server")?,
        next_token: counter(sql, "SELECT next_token FROM server")?,
    };
    let mut receipts =
        all(sql, RECEIPTS, &[], |row| Ok((row.get()?, row.get()?, receipt(Sender::Device(row.get()?), row)?)))?;
    receipts.extend(all(sql, TOKEN_RECEIPTS, &[], |row| {
        Ok((row.get()?, row.get()?, receipt(Sender::Token(row.get()?), row)?))
    })?);
    for (federation, round, receipt) in receipts {
        match open_round_of(&mut stored.rounds, federation) {
            Some(open) if open.opening.round == round => open.received.push(receipt),
            _ => stored.receipts.push((federation, round, receipt)),
        }
    }
    stored.receipts.sort_by_key(|(federation, round, receipt)| (*federation, *round, receipt.sender));
    let rounds = &mut stored.rounds;
    attach(sql, rounds, DECLINED, |row| row.get(), |round, device| round.declined.push(device))?;
    attach(sql, rounds, SEAL_MESSAGES, seal_message, |round, message| round.messages.push(message))?;
    attach(sql, rounds, ISSUED, |row| Ok((row.get()?, row.get()?)), |round, each| round.issued.push(each))?;
    Ok(stored)
}

fn open_round_of(rounds: &mut [OpenRound], federation: u64) -> Option<&mut OpenRound> {
    let at = rounds.binary_search_by_key(&federation, |round| round.opening.federation).ok()?;
    rounds.get_mut(at)
}

/// Adds the rows of a query, whose first column is the federation, to the open rounds.
fn attach<T>(
    sql: &mut dyn Sql,
    rounds: &mut [OpenRound],
    query: &'static str,
    read: fn(&mut Columns<'_>) -> Result<T>,
    put: fn(&mut OpenRound, T),
) -> Result<()> {
    for (federation, value) in all(sql, query, &[], |row| Ok((row.get()?, read(row)?)))? {
        let none = || format!("no round of federation {federation} is open, but responses to one are stored");
        let round = open_round_of(rounds, federation).ok_or_else(|| SqlError::Corrupt(none()))?;
        put(round, value);
    }
    Ok(())
}

/// The server's secret.
pub(super) fn secret(sql: &mut dyn Sql) -> Result<Hash> {
    let found = all(sql, "SELECT secret FROM server", &[], |row| row.get::<Hash>())?;
    found.first().copied().ok_or_else(|| SqlError::Corrupt("the server's secret is missing".into()))
}

/// A visitor of updates.
pub(super) type VisitUpdate<'a> = dyn FnMut(Sender, &[u8]) -> Result<()> + 'a;

/// Visits a round's updates: those of devices by number, then those sent with tokens by nullifier.
pub(super) fn updates(sql: &mut dyn Sql, federation: u64, round: u64, visit: &mut VisitUpdate<'_>) -> Result<()> {
    let key = [federation.into(), round.into()];
    let of_devices = "SELECT device, body.bytes FROM receipt JOIN body ON body.receipt = receipt.id
                      WHERE federation = $1 AND round = $2 ORDER BY device";
    sql.query(of_devices, &key, &mut |row| visit(Sender::Device(Columns::of(row).get()?), row.blob(1)?))?;
    let of_tokens = "SELECT nullifier, bytes FROM anonymous_body WHERE federation = $1 AND round = $2
                     ORDER BY nullifier";
    sql.query(of_tokens, &key, &mut |row| visit(Sender::Token(Columns::of(row).get()?), row.blob(1)?))
}

/// Closed rounds, the latest first.
pub(super) fn rounds(
    sql: &mut dyn Sql,
    federation: u64,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<RoundRecord>> {
    let clip = |value: u64| i64::try_from(value).unwrap_or(i64::MAX).into();
    let key = [federation.into(), clip(before.unwrap_or(u64::MAX)), clip(limit as u64)];
    all(sql, ROUNDS, &key, round_record)
}

/// Operators' acts, the latest first.
pub(super) fn acts(sql: &mut dyn Sql, before: Option<u64>, limit: usize) -> Result<Vec<ActRecord>> {
    let clip = |value: u64| i64::try_from(value).unwrap_or(i64::MAX).into();
    all(sql, ACTS, &[clip(before.unwrap_or(u64::MAX)), clip(limit as u64)], act)
}

const GONE: &str = "SELECT federation, name, deleted, versions FROM gone ORDER BY federation";
const ACTS: &str = "SELECT id, happened, token, label, role, act, federation, detail, status
     FROM act WHERE id < $1 ORDER BY id DESC LIMIT $2";
const FEDERATIONS: &str = "SELECT id, name, config, catalog, created, standing, next_device, next_round, version,
         undone, went_back, unlearn, plan
     FROM federation ORDER BY id";
const DEVICES: &str = "SELECT federation, number, credential, enrolled, seen, revoked, quarantine
     FROM device ORDER BY federation, number";
const TOKENS: &str = "SELECT id, federation, role, uses, hash, label, created, expires FROM token ORDER BY id";
const OPEN_ROUNDS: &str = "SELECT federation, round, version, cohort, wanted, minimum, opened, deadline, closing
     FROM open_round ORDER BY federation";
const RECEIPTS: &str =
    "SELECT federation, round, device, key, digest, bytes FROM receipt ORDER BY federation, round, device";
const TOKEN_RECEIPTS: &str = "SELECT federation, round, nullifier, key, digest, bytes FROM anonymous_receipt
     ORDER BY federation, round, nullifier";
const SEAL_MESSAGES: &str = "SELECT seal_note.federation, device, bytes FROM seal_note
     JOIN open_round ON open_round.federation = seal_note.federation AND open_round.round = seal_note.round
     ORDER BY seal_note.id";
const ISSUED: &str = "SELECT federation, device, blinded FROM issued ORDER BY federation, device";
const DECLINED: &str = "SELECT federation, device FROM decline ORDER BY federation, device";
const VERSIONS: &str =
    "SELECT federation, version, digest, bytes, created, rounds FROM version ORDER BY federation, version";
const AUDIENCES: &str = "SELECT federation, id, advertiser, name, definition, created, expires, closed
     FROM audience ORDER BY federation, id";
const MEASUREMENTS: &str = "SELECT federation, id, advertiser, audience, question, requested, round, result
     FROM measurement ORDER BY federation, id";
const AUDIENCE_TOKENS: &str =
    "SELECT federation, rotation, device, digest FROM audience_issued ORDER BY federation, rotation, device";
const SEGMENTS: &str = "SELECT federation, audience, rotation, nullifier, segment
     FROM segment ORDER BY federation, audience, rotation, nullifier";
const ROUNDS: &str = "SELECT federation, round, version, asked, counted, declined, refused, bytes_up, bytes_down,
         opened, closed, criteria, remark
     FROM round_record WHERE federation = $1 AND round < $2 ORDER BY round DESC LIMIT $3";

fn all<T>(
    sql: &mut dyn Sql,
    text: &'static str,
    values: &[Value<'_>],
    read: impl Fn(&mut Columns<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut found = Vec::new();
    sql.query(text, values, &mut |row| {
        found.push(read(&mut Columns::of(row))?);
        Ok(())
    })?;
    Ok(found)
}

fn counter(sql: &mut dyn Sql, text: &'static str) -> Result<u64> {
    let missing = || SqlError::Corrupt("the server's counters are missing".into());
    checked(sql.integer(text, &[])?.ok_or_else(missing)?)
}

fn checked<T: TryFrom<i64>>(value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| SqlError::Corrupt(format!("the number {value} is out of range")))
}

/// Reads the columns of a row one after the other.
struct Columns<'a> {
    row: &'a dyn Row,
    next: usize,
}

impl<'a> Columns<'a> {
    fn of(row: &'a dyn Row) -> Self {
        Self { row, next: 0 }
    }

    fn step(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    fn required<T>(&mut self, read: fn(&mut Self) -> Result<Option<T>>) -> Result<T> {
        let value = read(self)?;
        value.ok_or_else(|| SqlError::Corrupt(format!("column {} of a result is NULL", self.next)))
    }

    fn integer<T: TryFrom<i64>>(&mut self) -> Result<Option<T>> {
        self.row.int(self.step())?.map(checked).transpose()
    }

    fn text(&mut self) -> Result<Option<String>> {
        Ok(self.row.text(self.step())?.map(str::to_owned))
    }

    fn blob(&mut self) -> Result<&'a [u8]> {
        self.row.blob(self.step())
    }

    fn get<T: Column>(&mut self) -> Result<T> {
        T::read(self)
    }
}

/// A type that a column can be read as.
trait Column: Sized {
    fn read(row: &mut Columns<'_>) -> Result<Self>;
}

macro_rules! columns {
    ($($kind:ty: |$row:ident| $read:expr,)*) => {
        $(impl Column for $kind {
            fn read($row: &mut Columns<'_>) -> Result<Self> {
                $read
            }
        })*
    };
}

columns! {
    u64: |row| row.required(Columns::integer),
    u32: |row| row.required(Columns::integer),
    bool: |row| Ok(row.required(Columns::integer::<i64>)? != 0),
    Option<u64>: |row| row.integer(),
    Option<u32>: |row| row.integer(),
    String: |row| row.required(Columns::text),
    Option<String>: |row| row.text(),
    Vec<u8>: |row| Ok(row.blob()?.to_vec()),
    Hash: |row| array(row.blob()?),
    [u8; 16]: |row| array(row.blob()?),
    Status: |row| read_status(&row.required(Columns::text)?),
}

fn array<const N: usize>(found: &[u8]) -> Result<[u8; N]> {
    found.try_into().map_err(|_| SqlError::Corrupt(format!("a hash has {} bytes, expected {N}", found.len())))
}

/// The inverse of [`status_text`](super::changes::status_text).
fn read_status(text: &str) -> Result<Status> {
    let known = [Status::Running, Status::Paused, Status::Finished, Status::Archived]
        .into_iter()
        .find(|each| each.name() == text);
    let failed = || text.strip_prefix("failed:").map(|why| Status::Failed(why.to_owned()));
    known.or_else(failed).ok_or_else(|| SqlError::Corrupt(format!("a federation cannot be {text:?}")))
}

/// Functions that read records whose fields are the columns of a query, in its order.
macro_rules! records {
    ($($name:ident: $kind:ident { $($field:ident),* },)*) => {
        $(fn $name(row: &mut Columns<'_>) -> Result<$kind> {
            Ok($kind { $($field: row.get()?),* })
        })*
    };
}

records! {
    federation: FederationRecord {
        id, name, config, catalog, created, status, next_device, next_round, version, undone, rolled_back, unlearn,
        plan
    },
    gone: GoneRecord { federation, name, deleted, versions },
    act: ActRecord { id, at, token, label, role, act, federation, detail, status },
    device: DeviceRecord { federation, number, credential, enrolled, seen, revoked, quarantine },
    version: VersionRecord { federation, version, digest, bytes, created, rounds },
    audience: AudienceRecord { federation, id, advertiser, name, definition, created, expires, closed },
    measurement: MeasurementRecord { federation, id, advertiser, audience, question, requested, round, result },
    audience_tokens: AudienceTokens { federation, rotation, device, digest },
    segment: SegmentRecord { federation, audience, rotation, nullifier, segment },
    round_record: RoundRecord {
        federation, round, version, asked, counted, declined, refused, bytes_up, bytes_down, opened, closed, criteria,
        remark
    },
}

fn token(row: &mut Columns<'_>) -> Result<TokenRecord> {
    let (id, federation, role, uses): (_, _, Option<String>, _) = (row.get()?, row.get()?, row.get()?, row.get()?);
    let purpose = match (federation, role) {
        (Some(federation), None) => TokenPurpose::Enrolment { federation, uses },
        (Some(federation), Some(role)) if role == ADVERTISER => TokenPurpose::Advertiser { federation, per_day: uses },
        (None, Some(role)) => TokenPurpose::Operator { role },
        _ => return Err(SqlError::Corrupt("a token has no purpose, or two".into())),
    };
    let (hash, label, created, expires) = (row.get()?, row.get()?, row.get()?, row.get()?);
    Ok(TokenRecord { id, purpose, hash, label, created, expires })
}

fn open_round(row: &mut Columns<'_>) -> Result<OpenRound> {
    let (federation, round, version) = (row.get()?, row.get()?, row.get()?);
    let (cohort, rest) = row.blob()?.as_chunks();
    if !rest.is_empty() {
        return Err(SqlError::Corrupt("a cohort ends within a number".into()));
    }
    let cohort = cohort.iter().map(|number| u32::from_le_bytes(*number)).collect();
    let (wanted, minimum, opened, deadline) = (row.get()?, row.get()?, row.get()?, row.get()?);
    let opening = RoundOpening { federation, round, version, cohort, wanted, minimum, opened, deadline };
    Ok(OpenRound { closing: row.get()?, ..OpenRound::new(opening) })
}

fn receipt(sender: Sender, row: &mut Columns<'_>) -> Result<Receipt> {
    Ok(Receipt { sender, key: row.get()?, digest: row.get()?, bytes: row.get()? })
}

fn seal_message(row: &mut Columns<'_>) -> Result<SealMessage> {
    Ok(SealMessage { device: row.get()?, bytes: row.blob()?.to_vec().into() })
}
