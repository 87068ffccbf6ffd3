//! Reading back what is stored.

use super::sql::{Fault, Row, Sql, Value};
use super::{
    AnonymousReceipt, DeviceRecord, FederationRecord, Hash, OpenRound, Purpose, Receipt, RoundOpening,
    RoundRecord, SealNote, Standing, StorageError, Stored, TokenRecord, VersionRecord, Visit, VisitAnonymous,
};

/// Everything but updates' bytes and rounds long over; to be called within one transaction.
pub(super) fn load(sql: &mut impl Sql) -> Result<Stored, Fault> {
    let mut stored = Stored {
        federations: all(sql, FEDERATIONS, &[], federation)?,
        devices: all(sql, DEVICES, &[], device)?,
        tokens: all(sql, TOKENS, &[], token)?,
        rounds: all(sql, OPEN_ROUNDS, &[], open_round)?,
        receipts: all(sql, RECEIPTS, &[], |row| {
            Ok((unsigned(row, 0)?, unsigned(row, 1)?, receipt(row, 2)?))
        })?,
        anonymous: all(sql, ANONYMOUS_RECEIPTS, &[], |row| {
            Ok((unsigned(row, 0)?, unsigned(row, 1)?, anonymous(row, 2)?))
        })?,
        versions: all(sql, VERSIONS, &[], version)?,
        next_federation: counter(sql, "SELECT next_federation FROM server")?,
        next_token: counter(sql, "SELECT next_token FROM server")?,
    };
    let received = all(sql, RECEIVED, &[], |row| Ok((unsigned(row, 0)?, receipt(row, 1)?)))?;
    let declined = all(sql, DECLINED, &[], |row| Ok((unsigned(row, 0)?, small(row, 1)?)))?;
    for (federation, receipt) in received {
        of_round(&mut stored.rounds, federation)?.received.push(receipt);
    }
    for (federation, device) in declined {
        of_round(&mut stored.rounds, federation)?.declined.push(device);
    }
    let notes = all(sql, NOTES, &[], |row| {
        let device = optional(row, 1)?.map(u32::try_from).transpose();
        let device = device.map_err(|_| Fault::Damaged("a seal's note is of no device".into()))?;
        Ok((unsigned(row, 0)?, SealNote { device, bytes: row.blob(2)?.to_vec().into() }))
    })?;
    for (federation, note) in notes {
        of_round(&mut stored.rounds, federation)?.notes.push(note);
    }
    let issued = all(sql, ISSUED, &[], |row| Ok((unsigned(row, 0)?, (small(row, 1)?, hash(row, 2)?))))?;
    for (federation, issued) in issued {
        of_round(&mut stored.rounds, federation)?.issued.push(issued);
    }
    let received = all(sql, ANONYMOUS_RECEIVED, &[], |row| Ok((unsigned(row, 0)?, anonymous(row, 1)?)))?;
    for (federation, receipt) in received {
        of_round(&mut stored.rounds, federation)?.anonymous.push(receipt);
    }
    Ok(stored)
}

fn of_round(rounds: &mut [OpenRound], federation: u64) -> Result<&mut OpenRound, Fault> {
    let at = rounds.binary_search_by_key(&federation, |round| round.opening.federation);
    let nowhere =
        || Fault::Damaged(format!("no round of federation {federation} is under way, but answers to it are"));
    at.ok().and_then(|at| rounds.get_mut(at)).ok_or_else(nowhere)
}

/// The server's secret.
pub(super) fn secret(sql: &mut impl Sql) -> Result<Hash, Fault> {
    let found = all(sql, "SELECT secret FROM server", &[], |row| hash(row, 0))?;
    found.first().copied().ok_or_else(|| Fault::Damaged("the server's secret is missing".into()))
}

/// Why a visit of updates ended early.
pub(super) enum Stop {
    Fault(Fault),
    Visitor(StorageError),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A round's updates by ascending device.
pub(super) fn updates(
    sql: &mut impl Sql,
    federation: u64,
    round: u64,
    visit: &mut Visit<'_>,
) -> Result<(), Stop> {
    let key = [Value::of(federation)?, Value::of(round)?];
    sql.query(
        "SELECT device, body.bytes FROM receipt JOIN body ON body.receipt = receipt.id
         WHERE federation = $1 AND round = $2 ORDER BY device",
        &key,
        &mut |row| visit(small(row, 0)?, row.blob(1)?).map_err(Stop::Visitor),
    )
}

/// A round's updates that came with a token, by ascending nullifier.
pub(super) fn anonymous_updates(
    sql: &mut impl Sql,
    federation: u64,
    round: u64,
    visit: &mut VisitAnonymous<'_>,
) -> Result<(), Stop> {
    let key = [Value::of(federation)?, Value::of(round)?];
    sql.query(
        "SELECT nullifier, bytes FROM anonymous_body WHERE federation = $1 AND round = $2 ORDER BY nullifier",
        &key,
        &mut |row| visit(&hash(row, 0)?, row.blob(1)?).map_err(Stop::Visitor),
    )
}

/// Rounds that are over, the latest first.
pub(super) fn rounds(
    sql: &mut impl Sql,
    federation: u64,
    before: Option<u64>,
    most: usize,
) -> Result<Vec<RoundRecord>, Fault> {
    let clip = |value: u64| Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
    let key = [Value::of(federation)?, clip(before.unwrap_or(u64::MAX)), clip(most as u64)];
    all(sql, ROUNDS, &key, round_record)
}

const FEDERATIONS: &str =
    "SELECT id, name, config, catalog, created, standing, next_device, next_round, version,
         undone, went_back, unlearn
     FROM federation ORDER BY id";
const DEVICES: &str =
    "SELECT federation, number, credential, enrolled, seen, revoked FROM device ORDER BY federation, number";
const TOKENS: &str =
    "SELECT id, federation, uses, role, hash, label, created, expires FROM token ORDER BY id";
const OPEN_ROUNDS: &str =
    "SELECT federation, round, version, cohort, wanted, minimum, opened, deadline, closing
     FROM open_round ORDER BY federation";
const RECEIVED: &str = "SELECT receipt.federation, device, key, digest, bytes FROM receipt
     JOIN open_round ON open_round.federation = receipt.federation AND open_round.round = receipt.round
     ORDER BY receipt.federation, device";
const RECEIPTS: &str = "SELECT federation, round, device, key, digest, bytes FROM receipt
     WHERE NOT EXISTS (SELECT 1 FROM open_round
         WHERE open_round.federation = receipt.federation AND open_round.round = receipt.round)
     ORDER BY federation, round, device";
const NOTES: &str = "SELECT seal_note.federation, device, bytes FROM seal_note
     JOIN open_round ON open_round.federation = seal_note.federation AND open_round.round = seal_note.round
     ORDER BY seal_note.id";
const ISSUED: &str = "SELECT federation, device, blinded FROM issued ORDER BY federation, device";
const ANONYMOUS_RECEIVED: &str =
    "SELECT anonymous_receipt.federation, nullifier, key, digest, bytes FROM anonymous_receipt
     JOIN open_round ON open_round.federation = anonymous_receipt.federation
         AND open_round.round = anonymous_receipt.round
     ORDER BY anonymous_receipt.federation, nullifier";
const ANONYMOUS_RECEIPTS: &str =
    "SELECT federation, round, nullifier, key, digest, bytes FROM anonymous_receipt
     WHERE NOT EXISTS (SELECT 1 FROM open_round
         WHERE open_round.federation = anonymous_receipt.federation AND open_round.round = anonymous_receipt.round)
     ORDER BY federation, round, nullifier";
const DECLINED: &str = "SELECT federation, device FROM decline ORDER BY federation, device";
const VERSIONS: &str =
    "SELECT federation, version, digest, bytes, created, rounds FROM version ORDER BY federation, version";
const ROUNDS: &str =
    "SELECT federation, round, version, asked, counted, declined, refused, bytes_up, bytes_down,
         opened, closed, criteria, remark
     FROM round_record WHERE federation = $1 AND round < $2 ORDER BY round DESC LIMIT $3";

fn all<T>(
    sql: &mut impl Sql,
    text: &'static str,
    values: &[Value<'_>],
    read: fn(&dyn Row) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut found = Vec::new();
    sql.query(text, values, &mut |row| -> Result<(), Fault> {
        found.push(read(row)?);
        Ok(())
    })?;
    Ok(found)
}

fn counter(sql: &mut impl Sql, text: &'static str) -> Result<u64, Fault> {
    let missing = || Fault::Damaged("the server's counters are missing".into());
    checked(sql.number(text, &[])?.ok_or_else(missing)?, "a counter")
}

fn checked<T: TryFrom<i64>>(value: i64, what: &str) -> Result<T, Fault> {
    T::try_from(value).map_err(|_| Fault::Damaged(format!("{value} cannot be {what}")))
}

fn unsigned(row: &dyn Row, column: usize) -> Result<u64, Fault> {
    checked(row.int(column)?, "a number from 0 on")
}

fn small(row: &dyn Row, column: usize) -> Result<u32, Fault> {
    checked(row.int(column)?, "a number of 32 bits")
}

fn optional(row: &dyn Row, column: usize) -> Result<Option<u64>, Fault> {
    row.optional_int(column)?.map(|value| checked(value, "a number from 0 on")).transpose()
}

fn hash(row: &dyn Row, column: usize) -> Result<Hash, Fault> {
    let found = row.blob(column)?;
    found.try_into().map_err(|_| Fault::Damaged(format!("a hash has {} bytes, expected 32", found.len())))
}

fn federation(row: &dyn Row) -> Result<FederationRecord, Fault> {
    Ok(FederationRecord {
        id: unsigned(row, 0)?,
        name: row.text(1)?.to_owned(),
        config: row.text(2)?.to_owned(),
        catalog: row.blob(3)?.to_vec(),
        created: unsigned(row, 4)?,
        standing: read_standing(row.text(5)?)?,
        next_device: small(row, 6)?,
        next_round: unsigned(row, 7)?,
        version: unsigned(row, 8)?,
        undone: unsigned(row, 9)?,
        went_back: optional(row, 10)?,
        unlearn: optional(row, 11)?,
    })
}

fn read_standing(text: &str) -> Result<Standing, Fault> {
    match text {
        "running" => Ok(Standing::Running),
        "paused" => Ok(Standing::Paused),
        "finished" => Ok(Standing::Finished),
        _ => {
            let why = text.strip_prefix("failed:").map(|why| Standing::Failed(why.to_owned()));
            why.ok_or_else(|| Fault::Damaged(format!("no federation can be {text:?}")))
        }
    }
}

fn device(row: &dyn Row) -> Result<DeviceRecord, Fault> {
    Ok(DeviceRecord {
        federation: unsigned(row, 0)?,
        number: small(row, 1)?,
        credential: hash(row, 2)?,
        enrolled: unsigned(row, 3)?,
        seen: unsigned(row, 4)?,
        revoked: row.int(5)? != 0,
    })
}

fn token(row: &dyn Row) -> Result<TokenRecord, Fault> {
    let purpose = match (optional(row, 1)?, row.optional_text(3)?) {
        (Some(federation), None) => Purpose::Enrolment { federation, uses: optional(row, 2)? },
        (None, Some(role)) => Purpose::Operator { role: role.to_owned() },
        _ => return Err(Fault::Damaged("a token is for nothing, or for two things".into())),
    };
    Ok(TokenRecord {
        id: unsigned(row, 0)?,
        purpose,
        hash: hash(row, 4)?,
        label: row.text(5)?.to_owned(),
        created: unsigned(row, 6)?,
        expires: optional(row, 7)?,
    })
}

fn open_round(row: &dyn Row) -> Result<OpenRound, Fault> {
    let (cohort, rest) = row.blob(3)?.as_chunks();
    if !rest.is_empty() {
        return Err(Fault::Damaged("a cohort ends within a number".into()));
    }
    let opening = RoundOpening {
        federation: unsigned(row, 0)?,
        round: unsigned(row, 1)?,
        version: unsigned(row, 2)?,
        cohort: cohort.iter().map(|number| u32::from_le_bytes(*number)).collect(),
        wanted: small(row, 4)?,
        minimum: small(row, 5)?,
        opened: unsigned(row, 6)?,
        deadline: optional(row, 7)?,
    };
    Ok(OpenRound {
        opening,
        closing: row.int(8)? != 0,
        declined: Vec::new(),
        received: Vec::new(),
        notes: Vec::new(),
        issued: Vec::new(),
        anonymous: Vec::new(),
    })
}

/// The columns of a receipt, from one on.
fn receipt(row: &dyn Row, from: usize) -> Result<Receipt, Fault> {
    Ok(Receipt {
        device: small(row, from)?,
        key: row.text(from + 1)?.to_owned(),
        digest: hash(row, from + 2)?,
        bytes: unsigned(row, from + 3)?,
    })
}

/// The columns of a receipt without a device, from one on.
fn anonymous(row: &dyn Row, from: usize) -> Result<AnonymousReceipt, Fault> {
    Ok(AnonymousReceipt {
        nullifier: hash(row, from)?,
        key: row.text(from + 1)?.to_owned(),
        digest: hash(row, from + 2)?,
        bytes: unsigned(row, from + 3)?,
    })
}

fn version(row: &dyn Row) -> Result<VersionRecord, Fault> {
    Ok(VersionRecord {
        federation: unsigned(row, 0)?,
        version: unsigned(row, 1)?,
        digest: hash(row, 2)?,
        bytes: unsigned(row, 3)?,
        created: unsigned(row, 4)?,
        rounds: unsigned(row, 5)?,
    })
}

fn round_record(row: &dyn Row) -> Result<RoundRecord, Fault> {
    Ok(RoundRecord {
        federation: unsigned(row, 0)?,
        round: unsigned(row, 1)?,
        version: optional(row, 2)?,
        asked: small(row, 3)?,
        counted: small(row, 4)?,
        declined: small(row, 5)?,
        refused: small(row, 6)?,
        bytes_up: unsigned(row, 7)?,
        bytes_down: unsigned(row, 8)?,
        opened: unsigned(row, 9)?,
        closed: unsigned(row, 10)?,
        criteria: row.text(11)?.to_owned(),
        remark: row.text(12)?.to_owned(),
    })
}
