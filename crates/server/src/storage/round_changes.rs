//! The SQL of changes to rounds.

use super::changes::{add_version, one_row, rejected};
use super::sql::{Batch, Result, Sql, SqlError, Value, parameters};
use super::{Change, Hash, RECEIPT_ROUNDS, Receipt, RoundOpening, RoundRecord, SealMessage, Sender, VersionRecord};

/// Uploads per statement, to bound what the database holds at once.
const UPLOADS_PER_STATEMENT: usize = 512;
const BYTES_PER_STATEMENT: usize = 16 << 20;

pub(super) fn open(sql: &mut dyn Sql, opening: &RoundOpening) -> Result<()> {
    let (federation, round) = (opening.federation.into(), opening.round.into());
    let next = "SELECT next_round FROM federation WHERE id = $1 AND next_round = $2";
    if sql.integer(next, &[federation, round])?.is_none() {
        return rejected("it is not the federation's next round");
    }
    if sql.integer("SELECT round FROM open_round WHERE federation = $1", &[federation])?.is_some() {
        return rejected("it is open already");
    }
    let cohort: Vec<u8> = opening.cohort.iter().flat_map(|device| device.to_le_bytes()).collect();
    let (cohort, RoundOpening { version, wanted, minimum, opened, deadline, .. }) = (&cohort, opening);
    let insert =
        "INSERT INTO open_round (federation, round, version, cohort, wanted, minimum, opened, deadline, closing)
                  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0)";
    let values = parameters![federation, round, version, cohort, wanted, minimum, opened, deadline];
    sql.execute(insert, values).map(drop)
}

/// A receipt is written only if the round accepts updates and the device exists: for one row because a NULL would
/// violate a constraint, for many because their number shows. (SQLite keeps a copy of every page that an INSERT ...
/// SELECT changes, in case it fails halfway; not so with VALUES.)
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

/// Stores updates of devices.
pub(super) fn upload_all(sql: &mut dyn Sql, uploads: &[Change]) -> Result<()> {
    let (mut receipts, mut bodies, mut size) = (Vec::new(), Vec::new(), 0);
    for change in uploads {
        let Change::Upload { federation, round, receipt, bytes } = change else {
            return rejected("it is not an upload");
        };
        let Sender::Device(device) = receipt.sender else { return rejected("no device sent it") };
        if bodies.len() == UPLOADS_PER_STATEMENT || size > BYTES_PER_STATEMENT {
            store(sql, &receipts, &bodies)?;
            (receipts, bodies, size) = (Vec::new(), Vec::new(), 0);
        }
        let Receipt { key, digest, bytes: length, .. } = receipt;
        let to: [Value<'_>; 3] = [(*federation).into(), (*round).into(), device.into()];
        receipts.push([&[key.as_str().into(), digest.into(), (*length).into()][..], &to].concat());
        bodies.push([&[Value::Blob(bytes)][..], &to].concat());
        size += bytes.len();
    }
    store(sql, &receipts, &bodies)
}

fn store(sql: &mut dyn Sql, receipts: &[Vec<Value<'_>>], bodies: &[Vec<Value<'_>>]) -> Result<()> {
    match sql.execute_batch(&RECEIPTS, receipts) {
        Ok(stored) if stored == receipts.len() as u64 => {}
        Ok(_) | Err(SqlError::Rejected(_)) => {
            return rejected("the round accepts no updates, or the device is gone or has sent one");
        }
        Err(error) => return Err(error),
    }
    sql.execute_batch(&BODIES, bodies).map(drop)
}

/// Stores an update sent with a one-time token.
pub(super) fn upload_with_token(
    sql: &mut dyn Sql,
    (federation, round): (u64, u64),
    receipt: &Receipt,
    bytes: &[u8],
) -> Result<()> {
    let Sender::Token(nullifier) = &receipt.sender else { return rejected("it was sent without a token") };
    let key: [Value<'_>; 3] = [federation.into(), round.into(), nullifier.into()];
    accepts_updates(sql, &key[..2])?;
    let insert = "INSERT INTO anonymous_receipt (federation, round, nullifier, key, digest, bytes)
                  VALUES ($1, $2, $3, $4, $5, $6)";
    let of_receipt = [receipt.key.as_str().into(), (&receipt.digest).into(), receipt.bytes.into()];
    match sql.execute(insert, &[&key[..], &of_receipt].concat()) {
        Err(SqlError::Rejected(_)) => return rejected("the token is spent"),
        stored => stored?,
    };
    let insert = "INSERT INTO anonymous_body (federation, round, nullifier, bytes) VALUES ($1, $2, $3, $4)";
    sql.execute(insert, &[&key[..], &[bytes.into()]].concat()).map(drop)
}

fn accepts_updates(sql: &mut dyn Sql, key: &[Value<'_>]) -> Result<()> {
    let open = "SELECT round FROM open_round WHERE federation = $1 AND round = $2 AND closing = 0";
    if sql.integer(open, key)?.is_some() { Ok(()) } else { rejected("the round accepts no updates") }
}

/// Nothing is stored for a device that has withdrawn in the meantime.
pub(super) fn decline(sql: &mut dyn Sql, federation: u64, round: u64, device: u32) -> Result<()> {
    let key = [federation.into(), round.into(), device.into()];
    let open = "SELECT round FROM open_round WHERE federation = $1 AND round = $2";
    if sql.integer(open, &key[..2])?.is_none() {
        return rejected("the round is not open");
    }
    let insert = "INSERT INTO decline (federation, round, device)
                  SELECT $1, $2, number FROM device WHERE federation = $1 AND number = $3
                  ON CONFLICT DO NOTHING";
    sql.execute(insert, &key).map(drop)
}

pub(super) fn issue_token(
    sql: &mut dyn Sql,
    (federation, round): (u64, u64),
    device: u32,
    blinded: &Hash,
) -> Result<()> {
    let values = [federation.into(), round.into(), blinded.into(), device.into()];
    accepts_updates(sql, &values[..2])?;
    let insert = "INSERT INTO issued (federation, round, blinded, device)
                  SELECT $1, $2, $3, number FROM device WHERE federation = $1 AND number = $4 AND revoked = 0";
    match sql.execute(insert, &values) {
        Ok(1) => Ok(()),
        Ok(_) | Err(SqlError::Rejected(_)) => rejected("the device is gone, revoked, or has had its token"),
        Err(error) => Err(error),
    }
}

/// Nothing is stored for a device that has withdrawn in the meantime.
pub(super) fn seal(sql: &mut dyn Sql, federation: u64, round: u64, message: &SealMessage) -> Result<()> {
    let values: [Value<'_>; 3] = [federation.into(), round.into(), Value::Blob(&message.bytes)];
    accepts_updates(sql, &values[..2])?;
    match message.device {
        Some(device) => sql.execute(
            "INSERT INTO seal_note (federation, round, bytes, device)
             SELECT $1, $2, $3, number FROM device WHERE federation = $1 AND number = $4",
            &[&values[..], &[device.into()]].concat(),
        ),
        None => {
            sql.execute("INSERT INTO seal_note (federation, round, bytes, device) VALUES ($1, $2, $3, NULL)", &values)
        }
    }
    .map(drop)
}

pub(super) fn stop_uploads(sql: &mut dyn Sql, federation: u64, round: u64) -> Result<()> {
    let update = "UPDATE open_round SET closing = 1 WHERE federation = $1 AND round = $2";
    let changed = sql.execute(update, &[federation.into(), round.into()])?;
    one_row(changed, || "the round is not open".into())
}

pub(super) fn close(sql: &mut dyn Sql, record: &RoundRecord, version: Option<&VersionRecord>) -> Result<()> {
    let produced = version.map(|version| (version.federation, version.version));
    if produced != record.version.map(|version| (record.federation, version)) {
        return rejected("the version is not the one that the round produced");
    }
    let key = [record.federation.into(), record.round.into()];
    let closed = sql.execute("DELETE FROM open_round WHERE federation = $1 AND round = $2", &key)?;
    one_row(closed, || "the round is not open".into())?;
    for delete in [
        "DELETE FROM body WHERE receipt IN (SELECT id FROM receipt WHERE federation = $1 AND round = $2)",
        "DELETE FROM decline WHERE federation = $1 AND round = $2",
        "DELETE FROM seal_note WHERE federation = $1 AND round = $2",
        "DELETE FROM issued WHERE federation = $1 AND round = $2",
        "DELETE FROM anonymous_body WHERE federation = $1 AND round = $2",
    ] {
        sql.execute(delete, &key)?;
    }
    if let Some(oldest) = record.round.checked_sub(RECEIPT_ROUNDS) {
        let key = [key[0], oldest.into()];
        sql.execute("DELETE FROM receipt WHERE federation = $1 AND round <= $2", &key)?;
        sql.execute("DELETE FROM anonymous_receipt WHERE federation = $1 AND round <= $2", &key)?;
    }
    sql.execute("UPDATE federation SET next_round = $1 + 1 WHERE id = $2", &[key[1], key[0]])?;
    if let Some(version) = version {
        let moved = "UPDATE federation SET version = $1 WHERE id = $2 AND version < $1";
        one_row(sql.execute(moved, &[version.version.into(), key[0]])?, || {
            format!("version {} does not follow the current one", version.version)
        })?;
        add_version(sql, version)?;
    }
    insert_record(sql, record)
}

fn insert_record(sql: &mut dyn Sql, record: &RoundRecord) -> Result<()> {
    let RoundRecord { federation, round, version, asked, counted, declined, refused, bytes_up, bytes_down, .. } =
        record;
    let RoundRecord { opened, closed, criteria, remark, .. } = record;
    sql.execute(
        "INSERT INTO round_record (federation, round, version, asked, counted, declined, refused, bytes_up, bytes_down,
                                   opened, closed, criteria, remark)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        parameters![
            federation, round, version, asked, counted, declined, refused, bytes_up, bytes_down, opened, closed,
            criteria, remark
        ],
    )
    .map(drop)
}
