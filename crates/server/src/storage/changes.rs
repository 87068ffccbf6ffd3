//! What each change does to the tables.
//!
//! A change that contradicts what is stored is refused: it would mean that memory and database have parted. What is to
//! be taken away and is not there counts as taken away.

use super::sql::{Batch, Fault, Sql, Value};
use super::{
    AnonymousReceipt, Change, DeviceRecord, FederationRecord, Hash, Purpose, RECEIPT_ROUNDS, RoundOpening,
    RoundRecord, SealNote, Standing, TokenRecord, VersionRecord,
};

/// Uploads that go to the database in one statement, to bound what it must hold at once.
const UPLOADS_AT_ONCE: usize = 512;
const BYTES_AT_ONCE: usize = 16 << 20;

/// Makes all changes, in order; on a fault, also says which change it is about.
pub(super) fn apply(sql: &mut impl Sql, changes: &[Change]) -> Result<(), (String, Fault)> {
    let both_uploads = |a: &Change, b: &Change| is_upload(a) && is_upload(b);
    for run in changes.chunk_by(both_uploads) {
        match run {
            [change] if !is_upload(change) => apply_one(sql, change),
            uploads => upload_all(sql, uploads),
        }
        .map_err(|fault| (describe(run), fault))?;
    }
    Ok(())
}

fn is_upload(change: &Change) -> bool {
    matches!(change, Change::Upload { .. })
}

/// Names a change without what is secret or large in it.
fn describe(run: &[Change]) -> String {
    match run {
        [Change::Found(federation, _)] => format!("founding federation {}", federation.id),
        [Change::Stand { federation, .. }] => format!("standing of federation {federation}"),
        [Change::Enrol { device, .. }] => of_device("enrolment", device.federation, device.number),
        [Change::Revoke { federation, device }] => of_device("revocation", *federation, *device),
        [Change::Withdraw { federation, device, .. }] => of_device("withdrawal", *federation, *device),
        [Change::Unlearnt { federation, .. }] => format!("going back of federation {federation}"),
        [Change::Seen { federation, .. }] => format!("devices seen in federation {federation}"),
        [Change::AddToken(token)] => format!("new token {}", token.id),
        [Change::RemoveToken { id }] => format!("removal of token {id}"),
        [Change::Open(opening)] => of_round("opening", opening.federation, opening.round),
        [Change::Decline { federation, round, device }] => {
            of_round(&format!("device {device} declining"), *federation, *round)
        }
        [Change::Issue { federation, round, device, .. }] => {
            of_round(&format!("token of device {device}"), *federation, *round)
        }
        [Change::UploadAnonymous { federation, round, .. }] => {
            of_round("upload with a token", *federation, *round)
        }
        [Change::Seal { federation, round, .. }] => of_round("note of a seal", *federation, *round),
        [Change::Closing { federation, round }] => of_round("last call", *federation, *round),
        [Change::Close(record, _)] => of_round("end", record.federation, record.round),
        [Change::RemoveVersion { federation, version }] => {
            format!("removal of version {version} of federation {federation}")
        }
        [Change::Upload { federation, round, receipt, .. }] => {
            of_round(&format!("upload by device {}", receipt.device), *federation, *round)
        }
        uploads => format!("{} uploads", uploads.len()),
    }
}

fn of_device(what: &str, federation: u64, device: u32) -> String {
    format!("{what} of device {device} of federation {federation}")
}

fn of_round(what: &str, federation: u64, round: u64) -> String {
    format!("{what}, round {round} of federation {federation}")
}

fn apply_one(sql: &mut impl Sql, change: &Change) -> Result<(), Fault> {
    match change {
        Change::Found(federation, version) => found(sql, federation, version),
        Change::Stand { federation, standing } => stand(sql, *federation, standing),
        Change::Enrol { device, token } => enrol(sql, device, *token),
        Change::Revoke { federation, device } => revoke(sql, *federation, *device),
        Change::Withdraw { federation, device, unlearn } => withdraw(sql, *federation, *device, *unlearn),
        Change::Unlearnt { federation, from, back } => unlearnt(sql, *federation, *from, back.as_ref()),
        Change::Seen { federation, devices } => seen(sql, *federation, devices),
        Change::AddToken(token) => add_token(sql, token),
        Change::RemoveToken { id } => remove_token(sql, *id),
        Change::Open(opening) => open(sql, opening),
        Change::Upload { .. } => upload_all(sql, std::slice::from_ref(change)),
        Change::Decline { federation, round, device } => decline(sql, *federation, *round, *device),
        Change::Issue { federation, round, device, blinded } => {
            issue(sql, (*federation, *round), *device, blinded)
        }
        Change::UploadAnonymous { federation, round, receipt, bytes } => {
            upload_anonymous(sql, (*federation, *round), receipt, bytes)
        }
        Change::Seal { federation, round, note } => seal(sql, *federation, *round, note),
        Change::Closing { federation, round } => closing(sql, *federation, *round),
        Change::Close(record, version) => close(sql, record, version.as_ref()),
        Change::RemoveVersion { federation, version } => remove_version(sql, *federation, *version),
    }
}

/// Refuses unless exactly one row was changed.
fn one(changed: u64, reason: impl FnOnce() -> String) -> Result<(), Fault> {
    if changed == 1 { Ok(()) } else { Err(Fault::Refused(reason())) }
}

fn found(sql: &mut impl Sql, federation: &FederationRecord, version: &VersionRecord) -> Result<(), Fault> {
    if (version.federation, version.version) != (federation.id, federation.version) {
        return Err(Fault::Refused("its first version is that of something else".into()));
    }
    let id = Value::of(federation.id)?;
    let taken = "UPDATE server SET next_federation = $1 + 1 WHERE next_federation <= $1";
    one(sql.execute(taken, &[id])?, || "the number was used before".into())?;
    let named = "SELECT id FROM federation WHERE name = $1";
    if sql.number(named, &[Value::Text(&federation.name)])?.is_some() {
        return Err(Fault::Refused(format!("there is a federation named {:?}", federation.name)));
    }
    sql.execute(
        "INSERT INTO federation (id, name, config, catalog, created, standing, next_device, next_round, version,
                                 undone, went_back, unlearn)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        &[
            id,
            Value::Text(&federation.name),
            Value::Text(&federation.config),
            Value::Blob(&federation.catalog),
            Value::of(federation.created)?,
            Value::Text(&standing_text(&federation.standing)),
            federation.next_device.into(),
            Value::of(federation.next_round)?,
            Value::of(federation.version)?,
            Value::of(federation.undone)?,
            Value::of_optional(federation.went_back)?,
            Value::of_optional(federation.unlearn)?,
        ],
    )?;
    add_version(sql, version)
}

/// How a standing is stored; [`read_standing`](super::reading) is its inverse.
pub(super) fn standing_text(standing: &Standing) -> String {
    match standing {
        Standing::Running => "running".into(),
        Standing::Paused => "paused".into(),
        Standing::Finished => "finished".into(),
        Standing::Failed(why) => format!("failed:{why}"),
    }
}

fn stand(sql: &mut impl Sql, federation: u64, standing: &Standing) -> Result<(), Fault> {
    let changed = sql.execute(
        "UPDATE federation SET standing = $1 WHERE id = $2",
        &[Value::Text(&standing_text(standing)), Value::of(federation)?],
    )?;
    one(changed, || "there is no such federation".into())
}

fn enrol(sql: &mut impl Sql, device: &DeviceRecord, token: u64) -> Result<(), Fault> {
    let (federation, number) = (Value::of(device.federation)?, Value::from(device.number));
    let used = sql.execute(
        "UPDATE token SET uses = uses - 1 WHERE id = $1 AND federation = $2 AND (uses IS NULL OR uses > 0)",
        &[Value::of(token)?, federation],
    )?;
    one(used, || format!("token {token} does not admit it"))?;
    let taken = sql.execute(
        "UPDATE federation SET next_device = $1 + 1 WHERE id = $2 AND next_device <= $1",
        &[number, federation],
    )?;
    one(taken, || "the number was used before".into())?;
    sql.execute(
        "INSERT INTO device (federation, number, credential, enrolled, seen, revoked)
         VALUES ($1, $2, $3, $4, $5, $6)",
        &[
            federation,
            number,
            Value::Blob(&device.credential),
            Value::of(device.enrolled)?,
            Value::of(device.seen)?,
            device.revoked.into(),
        ],
    )?;
    Ok(())
}

fn revoke(sql: &mut impl Sql, federation: u64, device: u32) -> Result<(), Fault> {
    let key = [Value::of(federation)?, device.into()];
    sql.execute("UPDATE device SET revoked = 1 WHERE federation = $1 AND number = $2", &key)?;
    for delete in [
        "DELETE FROM body WHERE receipt IN (SELECT id FROM receipt WHERE federation = $1 AND device = $2
         AND round = (SELECT round FROM open_round WHERE federation = $1))",
        "DELETE FROM receipt WHERE federation = $1 AND device = $2
         AND round = (SELECT round FROM open_round WHERE federation = $1)",
    ] {
        sql.execute(delete, &key)?;
    }
    Ok(())
}

fn withdraw(sql: &mut impl Sql, federation: u64, device: u32, unlearn: bool) -> Result<(), Fault> {
    let key = [Value::of(federation)?, device.into()];
    let enrolled = "SELECT enrolled FROM device WHERE federation = $1 AND number = $2";
    if let Some(enrolled) = sql.number(enrolled, &key)?.filter(|_| unlearn) {
        sql.execute(
            "UPDATE federation SET unlearn = $1 WHERE id = $2 AND (unlearn IS NULL OR unlearn > $1)",
            &[Value::Int(enrolled), key[0]],
        )?;
    }
    let next = sql.number("SELECT next_round FROM federation WHERE id = $1", &key[..1])?;
    // Receipts are of these rounds only, and found by round first.
    let next = next.unwrap_or(0);
    for round in next.saturating_sub_unsigned(RECEIPT_ROUNDS)..=next {
        let key = [key[0], Value::Int(round), key[1]];
        for delete in [
            "DELETE FROM body WHERE receipt IN
             (SELECT id FROM receipt WHERE federation = $1 AND round = $2 AND device = $3)",
            "DELETE FROM receipt WHERE federation = $1 AND round = $2 AND device = $3",
            "DELETE FROM decline WHERE federation = $1 AND round = $2 AND device = $3",
            "DELETE FROM seal_note WHERE federation = $1 AND round = $2 AND device = $3",
            "DELETE FROM issued WHERE federation = $1 AND round = $2 AND device = $3",
        ] {
            sql.execute(delete, &key)?;
        }
    }
    sql.execute("DELETE FROM device WHERE federation = $1 AND number = $2", &key)?;
    Ok(())
}

/// Somebody who enrolled before the moment and withdrew meanwhile is still to be unlearnt.
fn unlearnt(
    sql: &mut impl Sql,
    federation: u64,
    from: u64,
    back: Option<&(VersionRecord, u64)>,
) -> Result<(), Fault> {
    let (id, from) = (Value::of(federation)?, Value::of(from)?);
    sql.execute("UPDATE federation SET unlearn = NULL WHERE id = $1 AND unlearn >= $2", &[id, from])?;
    let Some((version, undone)) = back else { return Ok(()) };
    if version.federation != federation {
        return Err(Fault::Refused("the version is another federation's".into()));
    }
    let moved = sql.execute(
        "UPDATE federation SET version = $1, went_back = $1, undone = undone + $2 WHERE id = $3 AND version < $1",
        &[Value::of(version.version)?, Value::of(*undone)?, id],
    )?;
    one(moved, || format!("version {} does not come after the current one", version.version))?;
    add_version(sql, version)
}

static SEEN: Batch = Batch {
    one: "UPDATE device SET seen = $1 WHERE federation = $2 AND number = $3",
    many: "UPDATE device SET seen = new.seen
           FROM UNNEST($1::BIGINT[], $2::BIGINT[], $3::BIGINT[]) AS new (seen, federation, number)
           WHERE device.federation = new.federation AND device.number = new.number",
};

/// Of a device named twice the last time counts.
fn seen(sql: &mut impl Sql, federation: u64, devices: &[(u32, u64)]) -> Result<(), Fault> {
    let federation = Value::of(federation)?;
    let last: std::collections::BTreeMap<_, _> = devices.iter().copied().collect();
    let rows = last.into_iter().map(|(device, seen)| Ok([Value::of(seen)?, federation, device.into()]));
    sql.execute_each(&SEEN, &rows.collect::<Result<Vec<_>, Fault>>()?)?;
    Ok(())
}

fn add_token(sql: &mut impl Sql, token: &TokenRecord) -> Result<(), Fault> {
    let id = Value::of(token.id)?;
    let taken = sql.execute("UPDATE server SET next_token = $1 + 1 WHERE next_token <= $1", &[id])?;
    one(taken, || "the number was used before".into())?;
    let (federation, uses, role) = match &token.purpose {
        Purpose::Enrolment { federation, uses } => (Some(*federation), *uses, None),
        Purpose::Operator { role } => (None, None, Some(role.as_str())),
    };
    sql.execute(
        "INSERT INTO token (id, federation, uses, role, hash, label, created, expires)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &[
            id,
            Value::of_optional(federation)?,
            Value::of_optional(uses)?,
            Value::OptionalText(role),
            Value::Blob(&token.hash),
            Value::Text(&token.label),
            Value::of(token.created)?,
            Value::of_optional(token.expires)?,
        ],
    )?;
    Ok(())
}

fn remove_token(sql: &mut impl Sql, id: u64) -> Result<(), Fault> {
    sql.execute("DELETE FROM token WHERE id = $1", &[Value::of(id)?])?;
    Ok(())
}

fn open(sql: &mut impl Sql, opening: &RoundOpening) -> Result<(), Fault> {
    let (federation, round) = (Value::of(opening.federation)?, Value::of(opening.round)?);
    let next = "SELECT next_round FROM federation WHERE id = $1 AND next_round = $2";
    if sql.number(next, &[federation, round])?.is_none() {
        return Err(Fault::Refused("it is not the federation's next round".into()));
    }
    if sql.number("SELECT round FROM open_round WHERE federation = $1", &[federation])?.is_some() {
        return Err(Fault::Refused("it is under way already".into()));
    }
    let cohort: Vec<u8> = opening.cohort.iter().flat_map(|device| device.to_le_bytes()).collect();
    sql.execute(
        "INSERT INTO open_round (federation, round, version, cohort, wanted, minimum, opened, deadline, closing)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0)",
        &[
            federation,
            round,
            Value::of(opening.version)?,
            Value::Blob(&cohort),
            opening.wanted.into(),
            opening.minimum.into(),
            Value::of(opening.opened)?,
            Value::of_optional(opening.deadline)?,
        ],
    )?;
    Ok(())
}

/// A receipt is only written where the round takes updates and the device is there: one row at a time, because something
/// would be missing in it; all at once, because their number tells. (SQLite keeps a copy of each page that a statement
/// with rows from a query changes, in case it fails halfway; not so with VALUES.)
static RECEIPTS: Batch = Batch {
    one: "INSERT INTO receipt (key, digest, bytes, federation, round, device) VALUES ($1, $2, $3,
              (SELECT federation FROM open_round WHERE federation = $4 AND round = $5 AND closing = 0), $5,
              (SELECT number FROM device WHERE federation = $4 AND number = $6))",
    many: "INSERT INTO receipt (federation, round, device, key, digest, bytes)
           SELECT new.federation, new.round, new.device, new.key, new.digest, new.bytes
           FROM UNNEST($1::TEXT[], $2::BYTEA[], $3::BIGINT[], $4::BIGINT[], $5::BIGINT[], $6::BIGINT[])
                AS new (key, digest, bytes, federation, round, device)
           JOIN open_round ON open_round.federation = new.federation AND open_round.round = new.round
           JOIN device ON device.federation = new.federation AND device.number = new.device
           WHERE open_round.closing = 0",
};

static BODIES: Batch = Batch {
    one: "INSERT INTO body (bytes, receipt) VALUES ($1,
              (SELECT id FROM receipt WHERE federation = $2 AND round = $3 AND device = $4))",
    many: "INSERT INTO body (bytes, receipt)
           SELECT new.bytes, receipt.id
           FROM UNNEST($1::BYTEA[], $2::BIGINT[], $3::BIGINT[], $4::BIGINT[])
                AS new (bytes, federation, round, device)
           JOIN receipt ON receipt.federation = new.federation AND receipt.round = new.round
                AND receipt.device = new.device",
};

fn upload_all(sql: &mut impl Sql, uploads: &[Change]) -> Result<(), Fault> {
    let (mut receipts, mut bodies, mut size) = (Vec::new(), Vec::new(), 0);
    for change in uploads {
        let Change::Upload { federation, round, receipt, bytes } = change else {
            return Err(Fault::Refused("it is not an upload".into()));
        };
        if bodies.len() == UPLOADS_AT_ONCE || size > BYTES_AT_ONCE {
            store(sql, &receipts, &bodies)?;
            (receipts, bodies, size) = (Vec::new(), Vec::new(), 0);
        }
        let (federation, round, device) =
            (Value::of(*federation)?, Value::of(*round)?, receipt.device.into());
        let (key, digest) = (Value::Text(&receipt.key), Value::Blob(&receipt.digest));
        receipts.push([key, digest, Value::of(receipt.bytes)?, federation, round, device]);
        bodies.push([Value::Blob(bytes), federation, round, device]);
        size += bytes.len();
    }
    store(sql, &receipts, &bodies)
}

fn store(sql: &mut impl Sql, receipts: &[[Value<'_>; 6]], bodies: &[[Value<'_>; 4]]) -> Result<(), Fault> {
    let refused =
        || Fault::Refused("the round takes no updates, or the device is gone or has sent one".into());
    match sql.execute_each(&RECEIPTS, receipts) {
        Ok(stored) if stored == receipts.len() as u64 => {}
        Ok(_) | Err(Fault::Refused(_)) => return Err(refused()),
        Err(fault) => return Err(fault),
    }
    sql.execute_each(&BODIES, bodies)?;
    Ok(())
}

/// Of a device that has withdrawn meanwhile nothing is written.
fn decline(sql: &mut impl Sql, federation: u64, round: u64, device: u32) -> Result<(), Fault> {
    let key = [Value::of(federation)?, Value::of(round)?, device.into()];
    let under_way = "SELECT round FROM open_round WHERE federation = $1 AND round = $2";
    if sql.number(under_way, &key[..2])?.is_none() {
        return Err(Fault::Refused("the round is not under way".into()));
    }
    sql.execute(
        "INSERT INTO decline (federation, round, device)
         SELECT $1, $2, number FROM device WHERE federation = $1 AND number = $3
         ON CONFLICT DO NOTHING",
        &key,
    )?;
    Ok(())
}

fn takes_updates(sql: &mut impl Sql, key: &[Value<'_>; 2]) -> Result<(), Fault> {
    let open = "SELECT round FROM open_round WHERE federation = $1 AND round = $2 AND closing = 0";
    let found = sql.number(open, key)?;
    found.map(drop).ok_or_else(|| Fault::Refused("the round takes no updates".into()))
}

fn issue(
    sql: &mut impl Sql,
    (federation, round): (u64, u64),
    device: u32,
    blinded: &Hash,
) -> Result<(), Fault> {
    let key = [Value::of(federation)?, Value::of(round)?];
    takes_updates(sql, &key)?;
    let refused = || Fault::Refused("the device is gone, shut out, or has had its token".into());
    let given = sql.execute(
        "INSERT INTO issued (federation, round, blinded, device)
         SELECT $1, $2, $3, number FROM device WHERE federation = $1 AND number = $4 AND revoked = 0",
        &[key[0], key[1], Value::Blob(blinded), device.into()],
    );
    match given {
        Ok(1) => Ok(()),
        Ok(_) | Err(Fault::Refused(_)) => Err(refused()),
        Err(fault) => Err(fault),
    }
}

fn upload_anonymous(
    sql: &mut impl Sql,
    (federation, round): (u64, u64),
    receipt: &AnonymousReceipt,
    bytes: &[u8],
) -> Result<(), Fault> {
    let key = [Value::of(federation)?, Value::of(round)?];
    takes_updates(sql, &key)?;
    let nullifier = Value::Blob(&receipt.nullifier);
    let stored = sql.execute(
        "INSERT INTO anonymous_receipt (federation, round, nullifier, key, digest, bytes)
         VALUES ($1, $2, $3, $4, $5, $6)",
        &[
            key[0],
            key[1],
            nullifier,
            Value::Text(&receipt.key),
            Value::Blob(&receipt.digest),
            Value::of(receipt.bytes)?,
        ],
    );
    stored.map_err(|fault| match fault {
        Fault::Refused(_) => Fault::Refused("the token is spent".into()),
        fault => fault,
    })?;
    sql.execute(
        "INSERT INTO anonymous_body (federation, round, nullifier, bytes) VALUES ($1, $2, $3, $4)",
        &[key[0], key[1], nullifier, Value::Blob(bytes)],
    )?;
    Ok(())
}

/// Of a device that has withdrawn meanwhile nothing is written.
fn seal(sql: &mut impl Sql, federation: u64, round: u64, note: &SealNote) -> Result<(), Fault> {
    let (federation, round) = (Value::of(federation)?, Value::of(round)?);
    let under_way = "SELECT round FROM open_round WHERE federation = $1 AND round = $2 AND closing = 0";
    if sql.number(under_way, &[federation, round])?.is_none() {
        return Err(Fault::Refused("the round is not under way".into()));
    }
    let bytes = Value::Blob(&note.bytes);
    match note.device {
        Some(device) => sql.execute(
            "INSERT INTO seal_note (federation, round, bytes, device)
             SELECT $1, $2, $3, number FROM device WHERE federation = $1 AND number = $4",
            &[federation, round, bytes, device.into()],
        ),
        None => sql.execute(
            "INSERT INTO seal_note (federation, round, device, bytes) VALUES ($1, $2, NULL, $3)",
            &[federation, round, bytes],
        ),
    }?;
    Ok(())
}

fn closing(sql: &mut impl Sql, federation: u64, round: u64) -> Result<(), Fault> {
    let changed = sql.execute(
        "UPDATE open_round SET closing = 1 WHERE federation = $1 AND round = $2",
        &[Value::of(federation)?, Value::of(round)?],
    )?;
    one(changed, || "the round is not under way".into())
}

fn close(sql: &mut impl Sql, record: &RoundRecord, version: Option<&VersionRecord>) -> Result<(), Fault> {
    let leads_to = version.map(|version| (version.federation, version.version));
    if leads_to != record.version.map(|version| (record.federation, version)) {
        return Err(Fault::Refused("the version is not the one that the round led to".into()));
    }
    let key = [Value::of(record.federation)?, Value::of(record.round)?];
    let over = sql.execute("DELETE FROM open_round WHERE federation = $1 AND round = $2", &key)?;
    one(over, || "the round is not under way".into())?;
    sql.execute(
        "DELETE FROM body WHERE receipt IN (SELECT id FROM receipt WHERE federation = $1 AND round = $2)",
        &key,
    )?;
    sql.execute("DELETE FROM decline WHERE federation = $1 AND round = $2", &key)?;
    sql.execute("DELETE FROM seal_note WHERE federation = $1 AND round = $2", &key)?;
    sql.execute("DELETE FROM issued WHERE federation = $1 AND round = $2", &key)?;
    sql.execute("DELETE FROM anonymous_body WHERE federation = $1 AND round = $2", &key)?;
    if let Some(oldest) = record.round.checked_sub(RECEIPT_ROUNDS) {
        let key = [key[0], Value::of(oldest)?];
        sql.execute("DELETE FROM receipt WHERE federation = $1 AND round <= $2", &key)?;
        sql.execute("DELETE FROM anonymous_receipt WHERE federation = $1 AND round <= $2", &key)?;
    }
    sql.execute("UPDATE federation SET next_round = $1 + 1 WHERE id = $2", &[key[1], key[0]])?;
    if let Some(version) = version {
        let moved = "UPDATE federation SET version = $1 WHERE id = $2 AND version < $1";
        one(sql.execute(moved, &[Value::of(version.version)?, key[0]])?, || {
            format!("version {} does not come after the current one", version.version)
        })?;
        add_version(sql, version)?;
    }
    write_record(sql, record)
}

fn write_record(sql: &mut impl Sql, record: &RoundRecord) -> Result<(), Fault> {
    sql.execute(
        "INSERT INTO round_record (federation, round, version, asked, counted, declined, refused, bytes_up, bytes_down,
                                   opened, closed, criteria, remark)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        &[
            Value::of(record.federation)?,
            Value::of(record.round)?,
            Value::of_optional(record.version)?,
            record.asked.into(),
            record.counted.into(),
            record.declined.into(),
            record.refused.into(),
            Value::of(record.bytes_up)?,
            Value::of(record.bytes_down)?,
            Value::of(record.opened)?,
            Value::of(record.closed)?,
            Value::Text(&record.criteria),
            Value::Text(&record.remark),
        ],
    )?;
    Ok(())
}

fn add_version(sql: &mut impl Sql, version: &VersionRecord) -> Result<(), Fault> {
    sql.execute(
        "INSERT INTO version (federation, version, digest, bytes, created, rounds) VALUES ($1, $2, $3, $4, $5, $6)",
        &[
            Value::of(version.federation)?,
            Value::of(version.version)?,
            Value::Blob(&version.digest),
            Value::of(version.bytes)?,
            Value::of(version.created)?,
            Value::of(version.rounds)?,
        ],
    )?;
    Ok(())
}

fn remove_version(sql: &mut impl Sql, federation: u64, version: u64) -> Result<(), Fault> {
    let key = [Value::of(federation)?, Value::of(version)?];
    if sql.number("SELECT id FROM federation WHERE id = $1 AND version = $2", &key)?.is_some() {
        return Err(Fault::Refused("it is the current version".into()));
    }
    sql.execute("DELETE FROM version WHERE federation = $1 AND version = $2", &key)?;
    Ok(())
}
