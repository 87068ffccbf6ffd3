//! The SQL of changes to how long a federation lives, and of the record of operators' acts.

use super::changes::{one_row, rejected};
use super::sql::{Result, Sql, parameters};
use super::{ActRecord, GoneRecord};

/// What is stored about people, and what they sent.
const OF_PEOPLE: [&str; 12] = [
    "DELETE FROM body WHERE receipt IN (SELECT id FROM receipt WHERE federation = $1)",
    "DELETE FROM receipt WHERE federation = $1",
    "DELETE FROM anonymous_body WHERE federation = $1",
    "DELETE FROM anonymous_receipt WHERE federation = $1",
    "DELETE FROM decline WHERE federation = $1",
    "DELETE FROM seal_note WHERE federation = $1",
    "DELETE FROM issued WHERE federation = $1",
    "DELETE FROM audience_issued WHERE federation = $1",
    "DELETE FROM segment WHERE federation = $1",
    "DELETE FROM open_round WHERE federation = $1",
    "DELETE FROM device WHERE federation = $1",
    "DELETE FROM token WHERE federation = $1",
];

/// What an archive keeps.
const OF_TRAINING: [&str; 5] = [
    "DELETE FROM round_record WHERE federation = $1",
    "DELETE FROM version WHERE federation = $1",
    "DELETE FROM measurement WHERE federation = $1",
    "DELETE FROM audience WHERE federation = $1",
    "DELETE FROM federation WHERE id = $1",
];

pub(super) fn set_plan(sql: &mut dyn Sql, federation: u64, plan: &str) -> Result<()> {
    let changed = sql.execute("UPDATE federation SET plan = $1 WHERE id = $2", &[plan.into(), federation.into()])?;
    one_row(changed, || "there is no such federation".into())
}

pub(super) fn archive(sql: &mut dyn Sql, federation: u64) -> Result<()> {
    let archived = "UPDATE federation SET standing = 'archived', unlearn = NULL WHERE id = $1";
    one_row(sql.execute(archived, &[federation.into()])?, || "there is no such federation".into())?;
    OF_PEOPLE.iter().try_for_each(|delete| sql.execute(delete, &[federation.into()]).map(drop))
}

pub(super) fn delete(sql: &mut dyn Sql, gone: &GoneRecord) -> Result<()> {
    let GoneRecord { federation, name, deleted, versions } = gone;
    let known = "SELECT id FROM federation WHERE id = $1 AND name = $2";
    if sql.integer(known, parameters![federation, name])?.is_none() {
        return rejected("there is no such federation");
    }
    for delete in OF_PEOPLE.iter().chain(&OF_TRAINING) {
        sql.execute(delete, &[federation.into()])?;
    }
    let insert = "INSERT INTO gone (federation, name, deleted, versions) VALUES ($1, $2, $3, $4)";
    sql.execute(insert, parameters![federation, name, deleted, versions]).map(drop)
}

pub(super) fn clean_up(sql: &mut dyn Sql, federation: u64) -> Result<()> {
    sql.execute("UPDATE gone SET versions = '' WHERE federation = $1", &[federation.into()]).map(drop)
}

pub(super) fn add_act(sql: &mut dyn Sql, act: &ActRecord) -> Result<()> {
    let ActRecord { id: _, at, token, label, role, act, federation, detail, status } = act;
    let insert = "INSERT INTO act (happened, token, label, role, act, federation, detail, status)
                  VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    sql.execute(insert, parameters![at, token, label, role, act, federation, detail, status]).map(drop)
}
