//! The SQL of each change.
//!
//! A change that contradicts what is stored is rejected: memory and database would have diverged. Removing what does
//! not exist is no contradiction.

use super::audience_changes as audiences;
use super::living_changes as living;
use super::round_changes as rounds;
use super::sql::{Batch, Result, Sql, SqlError, Value, parameters};
use super::{
    Change, DeviceRecord, FederationRecord, MeasurementRecord, Millis, RECEIPT_ROUNDS, SegmentRecord, Sender, Status,
    TokenPurpose, TokenRecord, VersionRecord,
};
use std::collections::BTreeMap;

/// Makes all changes in order; an error also says which change it is about.
pub(super) fn apply(sql: &mut dyn Sql, changes: &[Change]) -> Result<(), (String, SqlError)> {
    let both_uploads = |a: &Change, b: &Change| is_device_upload(a) && is_device_upload(b);
    for run in changes.chunk_by(both_uploads) {
        match run {
            [change] if !is_device_upload(change) => apply_one(sql, change),
            uploads => rounds::upload_all(sql, uploads),
        }
        .map_err(|error| (describe(run), error))?;
    }
    Ok(())
}

/// Updates of devices are stored in batches.
fn is_device_upload(change: &Change) -> bool {
    matches!(change, Change::Upload { receipt, .. } if matches!(receipt.sender, Sender::Device(_)))
}

/// Names a change without its secret or large parts.
fn describe(run: &[Change]) -> String {
    let of_device =
        |what: &str, federation: u64, device: u32| format!("{what} of device {device} of federation {federation}");
    let of_round =
        |what: &str, federation: u64, round: u64| format!("{what}, round {round} of federation {federation}");
    let [change] = run else { return format!("{} uploads", run.len()) };
    match change {
        Change::CreateFederation(federation, _) => format!("creation of federation {}", federation.id),
        Change::SetStatus { federation, .. } => format!("status of federation {federation}"),
        Change::SetPlan { federation, .. } => format!("plan of federation {federation}"),
        Change::Archive { federation } => format!("archiving of federation {federation}"),
        Change::Delete(gone) => format!("deletion of federation {}", gone.federation),
        Change::CleanUp { federation } => format!("versions of deleted federation {federation}"),
        Change::AddAct(act) => format!("record of an act at {}", act.at),
        Change::Enrol { device, .. } => of_device("enrolment", device.federation, device.number),
        Change::Revoke { federation, device } => of_device("revocation", *federation, *device),
        Change::Quarantine { federation, device, .. } => of_device("quarantine", *federation, *device),
        Change::Withdraw { federation, device, .. } => of_device("withdrawal", *federation, *device),
        Change::RollBack { federation, .. } => format!("rollback of federation {federation}"),
        Change::Seen { federation, .. } => format!("check-ins in federation {federation}"),
        Change::AddToken(token) => format!("new token {}", token.id),
        Change::RemoveToken { id } => format!("removal of token {id}"),
        Change::OpenRound(opening) => of_round("opening", opening.federation, opening.round),
        Change::Decline { federation, round, device } => {
            of_round(&format!("device {device} declining"), *federation, *round)
        }
        Change::IssueToken { federation, round, device, .. } => {
            of_round(&format!("token of device {device}"), *federation, *round)
        }
        Change::Seal { federation, round, .. } => of_round("message of a seal", *federation, *round),
        Change::StopUploads { federation, round } => of_round("end of uploads", *federation, *round),
        Change::CloseRound(record, _) => of_round("closing", record.federation, record.round),
        Change::AddAudience(audience) => format!("audience {} of federation {}", audience.id, audience.federation),
        Change::CloseAudience { federation, id, .. } => format!("end of audience {id} of federation {federation}"),
        Change::AddMeasurement(MeasurementRecord { federation, id, .. })
        | Change::StartMeasurement { federation, id, .. }
        | Change::FinishMeasurement { federation, id, .. } => format!("measurement {id} of federation {federation}"),
        Change::IssueAudienceTokens(issued) => of_device("tokens for audiences", issued.federation, issued.device),
        Change::AddSegment(SegmentRecord { federation, audience, .. }) => {
            format!("segment id of audience {audience} of federation {federation}")
        }
        Change::EndRotations { federation, before } => {
            format!("end of rotations before {before} of federation {federation}")
        }
        Change::RemoveVersion { federation, version } => {
            format!("removal of version {version} of federation {federation}")
        }
        Change::Upload { federation, round, receipt, .. } => match receipt.sender {
            Sender::Device(device) => of_round(&format!("upload by device {device}"), *federation, *round),
            Sender::Token(_) => of_round("upload with a token", *federation, *round),
        },
    }
}

fn apply_one(sql: &mut dyn Sql, change: &Change) -> Result<()> {
    match change {
        Change::CreateFederation(federation, version) => create_federation(sql, federation, version),
        Change::SetStatus { federation, status } => set_status(sql, *federation, status),
        Change::SetPlan { federation, plan } => living::set_plan(sql, *federation, plan),
        Change::Archive { federation } => living::archive(sql, *federation),
        Change::Delete(gone) => living::delete(sql, gone),
        Change::CleanUp { federation } => living::clean_up(sql, *federation),
        Change::AddAct(act) => living::add_act(sql, act),
        Change::Enrol { device, token } => enrol(sql, device, *token),
        Change::Revoke { federation, device } => revoke(sql, *federation, *device),
        Change::Quarantine { federation, device, reason } => quarantine(sql, *federation, *device, reason.as_deref()),
        Change::Withdraw { federation, device, unlearn } => withdraw(sql, *federation, *device, *unlearn),
        Change::RollBack { federation, from, to } => roll_back(sql, *federation, *from, to.as_ref()),
        Change::Seen { federation, devices } => seen(sql, *federation, devices),
        Change::AddToken(token) => add_token(sql, token),
        Change::RemoveToken { id } => sql.execute("DELETE FROM token WHERE id = $1", &[(*id).into()]).map(drop),
        Change::OpenRound(opening) => rounds::open(sql, opening),
        Change::Upload { federation, round, receipt, bytes } => {
            rounds::upload_with_token(sql, (*federation, *round), receipt, bytes)
        }
        Change::Decline { federation, round, device } => rounds::decline(sql, *federation, *round, *device),
        Change::IssueToken { federation, round, device, blinded } => {
            rounds::issue_token(sql, (*federation, *round), *device, blinded)
        }
        Change::Seal { federation, round, message } => rounds::seal(sql, *federation, *round, message),
        Change::StopUploads { federation, round } => rounds::stop_uploads(sql, *federation, *round),
        Change::CloseRound(record, version) => rounds::close(sql, record, version.as_ref()),
        Change::AddAudience(audience) => audiences::add(sql, audience),
        Change::CloseAudience { federation, id, closed } => audiences::close(sql, *federation, *id, *closed),
        Change::AddMeasurement(measurement) => audiences::add_measurement(sql, measurement),
        Change::StartMeasurement { federation, id, round } => {
            audiences::start_measurement(sql, *federation, *id, *round)
        }
        Change::FinishMeasurement { federation, id, result } => {
            audiences::finish_measurement(sql, *federation, *id, result)
        }
        Change::IssueAudienceTokens(issued) => audiences::issue_tokens(sql, issued),
        Change::AddSegment(segment) => audiences::add_segment(sql, segment),
        Change::EndRotations { federation, before } => audiences::end_rotations(sql, *federation, *before),
        Change::RemoveVersion { federation, version } => remove_version(sql, *federation, *version),
    }
}

pub(super) fn rejected<T>(reason: impl Into<String>) -> Result<T> {
    Err(SqlError::Rejected(reason.into()))
}

/// Rejects unless exactly one row was changed.
pub(super) fn one_row(changed: u64, reason: impl FnOnce() -> String) -> Result<()> {
    if changed == 1 { Ok(()) } else { rejected(reason()) }
}

fn create_federation(sql: &mut dyn Sql, federation: &FederationRecord, version: &VersionRecord) -> Result<()> {
    if (version.federation, version.version) != (federation.id, federation.version) {
        return rejected("its first version belongs to something else");
    }
    let id = federation.id.into();
    let taken = "UPDATE server SET next_federation = $1 + 1 WHERE next_federation <= $1";
    one_row(sql.execute(taken, &[id])?, || "the number was used before".into())?;
    let named = "SELECT id FROM federation WHERE name = $1";
    if sql.integer(named, &[federation.name.as_str().into()])?.is_some() {
        return rejected(format!("there is a federation named {:?}", federation.name));
    }
    let FederationRecord { id, name, config, catalog, created, status, next_device, next_round, .. } = federation;
    let FederationRecord { version: current, undone, rolled_back, unlearn, plan, .. } = federation;
    let status = &status_text(status);
    sql.execute(
        "INSERT INTO federation (id, name, config, catalog, created, standing, next_device, next_round, version,
                                 undone, went_back, unlearn, plan)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        parameters![
            id,
            name,
            config,
            catalog,
            created,
            status,
            next_device,
            next_round,
            current,
            undone,
            rolled_back,
            unlearn,
            plan
        ],
    )?;
    add_version(sql, version)
}

/// How a status is stored; [`load`](super::load) reads it back.
pub(super) fn status_text(status: &Status) -> String {
    match status {
        Status::Failed(why) => format!("failed:{why}"),
        other => other.name().to_owned(),
    }
}

fn set_status(sql: &mut dyn Sql, federation: u64, status: &Status) -> Result<()> {
    let update = "UPDATE federation SET standing = $1 WHERE id = $2";
    let changed = sql.execute(update, &[status_text(status).as_str().into(), federation.into()])?;
    one_row(changed, || "there is no such federation".into())
}

fn enrol(sql: &mut dyn Sql, device: &DeviceRecord, token: u64) -> Result<()> {
    let (federation, number) = (device.federation.into(), device.number.into());
    let used = sql.execute(
        "UPDATE token SET uses = uses - 1 WHERE id = $1 AND federation = $2 AND role IS NULL
             AND (uses IS NULL OR uses > 0)",
        &[token.into(), federation],
    )?;
    one_row(used, || format!("token {token} does not admit it"))?;
    let taken = sql.execute(
        "UPDATE federation SET next_device = $1 + 1 WHERE id = $2 AND next_device <= $1",
        &[number, federation],
    )?;
    one_row(taken, || "the number was used before".into())?;
    let DeviceRecord { federation, number, credential, enrolled, seen, revoked, quarantine } = device;
    let insert = "INSERT INTO device (federation, number, credential, enrolled, seen, revoked, quarantine)
                  VALUES ($1, $2, $3, $4, $5, $6, $7)";
    sql.execute(insert, parameters![federation, number, credential, enrolled, seen, revoked, quarantine]).map(drop)
}

fn quarantine(sql: &mut dyn Sql, federation: u64, device: u32, reason: Option<&str>) -> Result<()> {
    let update = "UPDATE device SET quarantine = $1 WHERE federation = $2 AND number = $3";
    sql.execute(update, &[reason.into(), federation.into(), device.into()]).map(drop)
}

fn revoke(sql: &mut dyn Sql, federation: u64, device: u32) -> Result<()> {
    let key = [federation.into(), device.into()];
    for statement in [
        "UPDATE device SET revoked = 1 WHERE federation = $1 AND number = $2",
        "DELETE FROM body WHERE receipt IN (SELECT id FROM receipt WHERE federation = $1 AND device = $2
         AND round = (SELECT round FROM open_round WHERE federation = $1))",
        "DELETE FROM receipt WHERE federation = $1 AND device = $2
         AND round = (SELECT round FROM open_round WHERE federation = $1)",
    ] {
        sql.execute(statement, &key)?;
    }
    Ok(())
}

fn withdraw(sql: &mut dyn Sql, federation: u64, device: u32, unlearn: bool) -> Result<()> {
    let key: [Value<'_>; 2] = [federation.into(), device.into()];
    let enrolled = "SELECT enrolled FROM device WHERE federation = $1 AND number = $2";
    if let Some(enrolled) = sql.integer(enrolled, &key)?.filter(|_| unlearn) {
        sql.execute(
            "UPDATE federation SET unlearn = $1 WHERE id = $2 AND (unlearn IS NULL OR unlearn > $1)",
            &[enrolled.into(), key[0]],
        )?;
    }
    // Receipts exist for these rounds only, and are found by round first.
    let next = sql.integer("SELECT next_round FROM federation WHERE id = $1", &key[..1])?.unwrap_or(0);
    for round in next.saturating_sub_unsigned(RECEIPT_ROUNDS)..=next {
        let key = [key[0], round.into(), key[1]];
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
    sql.execute("DELETE FROM audience_issued WHERE federation = $1 AND device = $2", &key)?;
    sql.execute("DELETE FROM device WHERE federation = $1 AND number = $2", &key).map(drop)
}

/// The rollback for a device that enrolled before `from` and withdrew in the meantime is still to be done.
fn roll_back(
    sql: &mut dyn Sql,
    federation: u64,
    from: Option<Millis>,
    to: Option<&(VersionRecord, u64)>,
) -> Result<()> {
    let id = federation.into();
    if let Some(from) = from {
        sql.execute("UPDATE federation SET unlearn = NULL WHERE id = $1 AND unlearn >= $2", &[id, from.into()])?;
    }
    let Some((version, undone)) = to else { return Ok(()) };
    if version.federation != federation {
        return rejected("the version belongs to another federation");
    }
    let moved = sql.execute(
        "UPDATE federation SET version = $1, went_back = $1, undone = undone + $2 WHERE id = $3 AND version < $1",
        &[version.version.into(), (*undone).into(), id],
    )?;
    one_row(moved, || format!("version {} does not follow the current one", version.version))?;
    add_version(sql, version)
}

static SEEN: Batch = Batch {
    one: "UPDATE device SET seen = $1 WHERE federation = $2 AND number = $3",
    many: "UPDATE device SET seen = new.seen
           FROM UNNEST($1::BIGINT[], $2::BIGINT[], $3::BIGINT[]) AS new (seen, federation, number)
           WHERE device.federation = new.federation AND device.number = new.number",
};

/// If a device is listed twice, the last time counts.
fn seen(sql: &mut dyn Sql, federation: u64, devices: &[(u32, Millis)]) -> Result<()> {
    let last: BTreeMap<_, _> = devices.iter().copied().collect();
    let rows = last.into_iter().map(|(device, seen)| vec![seen.into(), federation.into(), device.into()]);
    sql.execute_batch(&SEEN, &rows.collect::<Vec<_>>()).map(drop)
}

/// The role of advertisers' tokens, which belong to a federation.
pub(super) const ADVERTISER: &str = "advertiser";

fn add_token(sql: &mut dyn Sql, token: &TokenRecord) -> Result<()> {
    let id = token.id.into();
    let taken = sql.execute("UPDATE server SET next_token = $1 + 1 WHERE next_token <= $1", &[id])?;
    one_row(taken, || "the number was used before".into())?;
    let (federation, uses, role) = match &token.purpose {
        TokenPurpose::Enrolment { federation, uses } => (Some(*federation), *uses, None),
        TokenPurpose::Advertiser { federation, per_day } => (Some(*federation), *per_day, Some(ADVERTISER)),
        TokenPurpose::Operator { role } => (None, None, Some(role.as_str())),
    };
    let TokenRecord { id, hash, label, created, expires, .. } = token;
    let insert = "INSERT INTO token (id, federation, uses, role, hash, label, created, expires)
                  VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    sql.execute(insert, parameters![id, federation, uses, role, hash, label, created, expires]).map(drop)
}

pub(super) fn add_version(sql: &mut dyn Sql, record: &VersionRecord) -> Result<()> {
    let VersionRecord { federation, version, digest, bytes, created, rounds } = record;
    let insert =
        "INSERT INTO version (federation, version, digest, bytes, created, rounds) VALUES ($1, $2, $3, $4, $5, $6)";
    sql.execute(insert, parameters![federation, version, digest, bytes, created, rounds]).map(drop)
}

fn remove_version(sql: &mut dyn Sql, federation: u64, version: u64) -> Result<()> {
    let key = [federation.into(), version.into()];
    if sql.integer("SELECT id FROM federation WHERE id = $1 AND version = $2", &key)?.is_some() {
        return rejected("it is the current version");
    }
    sql.execute("DELETE FROM version WHERE federation = $1 AND version = $2", &key).map(drop)
}
