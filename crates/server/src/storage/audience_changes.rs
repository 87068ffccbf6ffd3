//! The SQL of changes to audiences.

use super::changes::{one_row, rejected};
use super::sql::{Result, Sql, SqlError, parameters};
use super::{AudienceRecord, AudienceTokens, MeasurementRecord, Millis, SegmentRecord};

/// Inserts a row whose key was not used before.
fn insert(inserted: Result<u64>, taken: &str) -> Result<()> {
    match inserted {
        Err(SqlError::Rejected(_)) => rejected(taken),
        inserted => inserted.map(drop),
    }
}

pub(super) fn add(sql: &mut dyn Sql, record: &AudienceRecord) -> Result<()> {
    let AudienceRecord { federation, id, advertiser, name, definition, created, expires, closed } = record;
    let statement = "INSERT INTO audience (federation, id, advertiser, name, definition, created, expires, closed)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let values = parameters![federation, id, advertiser, name, definition, created, expires, closed];
    insert(sql.execute(statement, values), "the number was used before")
}

pub(super) fn close(sql: &mut dyn Sql, federation: u64, id: u64, closed: Millis) -> Result<()> {
    let update = "UPDATE audience SET closed = $1 WHERE federation = $2 AND id = $3 AND closed IS NULL";
    let changed = sql.execute(update, &[closed.into(), federation.into(), id.into()])?;
    one_row(changed, || "it is not open".into())
}

pub(super) fn add_measurement(sql: &mut dyn Sql, record: &MeasurementRecord) -> Result<()> {
    let MeasurementRecord { federation, id, advertiser, audience, question, requested, round, result } = record;
    let statement = "INSERT INTO measurement (federation, id, advertiser, audience, question, requested, round, result)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let values = parameters![federation, id, advertiser, audience, question, requested, round, result.as_deref()];
    insert(sql.execute(statement, values), "the number was used before")
}

pub(super) fn start_measurement(sql: &mut dyn Sql, federation: u64, id: u64, round: u64) -> Result<()> {
    let update = "UPDATE measurement SET round = $1 WHERE federation = $2 AND id = $3 AND round IS NULL";
    let changed = sql.execute(update, &[round.into(), federation.into(), id.into()])?;
    one_row(changed, || "it is not waiting for a round".into())
}

pub(super) fn finish_measurement(sql: &mut dyn Sql, federation: u64, id: u64, result: &str) -> Result<()> {
    let update = "UPDATE measurement SET result = $1 WHERE federation = $2 AND id = $3 AND result IS NULL";
    let changed = sql.execute(update, &[result.into(), federation.into(), id.into()])?;
    one_row(changed, || "it is over already".into())
}

pub(super) fn issue_tokens(sql: &mut dyn Sql, issued: &AudienceTokens) -> Result<()> {
    let AudienceTokens { federation, rotation, device, digest } = issued;
    let active = "SELECT number FROM device WHERE federation = $1 AND number = $2 AND revoked = 0";
    if sql.integer(active, parameters![federation, device])?.is_none() {
        return rejected("the device is gone or revoked");
    }
    let statement = "INSERT INTO audience_issued (federation, rotation, device, digest) VALUES ($1, $2, $3, $4)";
    insert(sql.execute(statement, parameters![federation, rotation, device, digest]), "the device has its tokens")
}

pub(super) fn add_segment(sql: &mut dyn Sql, record: &SegmentRecord) -> Result<()> {
    let SegmentRecord { federation, audience, rotation, nullifier, segment } = record;
    let statement = "INSERT INTO segment (federation, audience, rotation, nullifier, segment)
                     VALUES ($1, $2, $3, $4, $5)";
    let values = parameters![federation, audience, rotation, nullifier, &segment[..]];
    insert(sql.execute(statement, values), "the token is spent")
}

pub(super) fn end_rotations(sql: &mut dyn Sql, federation: u64, before: u64) -> Result<()> {
    for delete in [
        "DELETE FROM audience_issued WHERE federation = $1 AND rotation < $2",
        "DELETE FROM segment WHERE federation = $1 AND rotation < $2",
    ] {
        sql.execute(delete, &[federation.into(), before.into()])?;
    }
    Ok(())
}
