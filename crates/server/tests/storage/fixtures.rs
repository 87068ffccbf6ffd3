//! Records for tests: fields have distinct values, so that mistaking one for another shows.

use sottovoce_server::storage::{
    ActRecord, AudienceRecord, AudienceTokens, Change, DeviceRecord, FederationRecord, GoneRecord, MeasurementRecord,
    Receipt, RoundOpening, RoundRecord, SegmentRecord, Sender, Status, TokenPurpose, TokenRecord, VersionRecord,
};

pub(crate) fn hash(of: u64) -> [u8; 32] {
    let mut hash = [0xa5; 32];
    hash[..8].copy_from_slice(&of.to_le_bytes());
    hash
}

pub(crate) fn federation(id: u64) -> FederationRecord {
    FederationRecord {
        id,
        name: format!("town-{id}"),
        config: format!("{{\"rounds\": {id}}}"),
        catalog: format!("item\ttitle\tcategories\n{id}\tCaffè\t\n").into_bytes(),
        created: 1_000 + id,
        status: Status::Running,
        next_device: 0,
        next_round: 0,
        version: 3,
        undone: 5,
        rolled_back: id.is_multiple_of(2).then_some(2),
        unlearn: None,
        plan: format!("{{\"added_rounds\":{id}}}"),
    }
}

/// The record of an act; the number is the database's.
pub(crate) fn act(id: u64) -> ActRecord {
    ActRecord {
        id,
        at: 60 + id,
        token: id.is_multiple_of(2).then_some(7),
        label: "Ada".to_owned(),
        role: "admin".to_owned(),
        act: format!("extend {id}"),
        federation: id.is_multiple_of(3).then(|| "town".to_owned()),
        detail: "5 rounds".to_owned(),
        status: 200,
    }
}

/// What stays of a federation that is deleted.
pub(crate) fn gone(federation: u64) -> GoneRecord {
    GoneRecord { federation, name: format!("town-{federation}"), deleted: 70, versions: "0 3".to_owned() }
}

pub(crate) fn version(federation: u64, version: u64) -> VersionRecord {
    VersionRecord {
        federation,
        version,
        digest: hash(100 * federation + version),
        bytes: 77 + version,
        created: 2_000 + version,
        rounds: 6 + version,
    }
}

pub(crate) fn create(id: u64) -> Change {
    Change::CreateFederation(Box::new(federation(id)), version(id, 3))
}

pub(crate) fn enrolment(id: u64, federation: u64, uses: Option<u64>) -> TokenRecord {
    let purpose = TokenPurpose::Enrolment { federation, uses };
    TokenRecord { id, purpose, hash: hash(id), label: format!("poster {id}"), created: 5 + id, expires: Some(9_999) }
}

pub(crate) fn operator(id: u64) -> TokenRecord {
    let purpose = TokenPurpose::Operator { role: "admin".into() };
    TokenRecord { id, purpose, hash: hash(id), label: "Ada".into(), created: 6 + id, expires: None }
}

pub(crate) fn advertiser(id: u64, federation: u64) -> TokenRecord {
    let purpose = TokenPurpose::Advertiser { federation, per_day: Some(7) };
    TokenRecord { id, purpose, hash: hash(id), label: "Ski shop".into(), created: 7 + id, expires: None }
}

/// One of the changes to audiences; the small numbers meet often enough to be valid and to contradict each other.
pub(crate) fn about_audiences(kind: u8, federation: u64, device: u32, luck: u8) -> Change {
    let id = u64::from(device % 2);
    let (rotation, closed) = (3 + u64::from(luck % 2), (luck > 17).then_some(33));
    match (kind, luck) {
        (0, 0..12) => Change::AddAudience(AudienceRecord {
            federation,
            id,
            advertiser: 5,
            name: format!("audience {id}"),
            definition: "{}".to_owned(),
            created: 31,
            expires: 32,
            closed,
        }),
        (0, _) => Change::CloseAudience { federation, id, closed: 34 },
        (1, 0..8) => Change::AddMeasurement(MeasurementRecord {
            federation,
            id,
            advertiser: 6,
            audience: (luck > 3).then_some(id),
            question: "{\"q\":1}".to_owned(),
            requested: 35,
            round: None,
            result: None,
        }),
        (1, 8..14) => Change::StartMeasurement { federation, id, round: 36 },
        (1, _) => Change::FinishMeasurement { federation, id, result: format!("{luck}") },
        (2, _) => {
            Change::IssueAudienceTokens(AudienceTokens { federation, rotation, device, digest: hash(luck.into()) })
        }
        (3, 0..16) => {
            let nullifier = hash(u64::from(luck % 4));
            Change::AddSegment(SegmentRecord { federation, audience: id, rotation, nullifier, segment: [luck; 16] })
        }
        _ => Change::EndRotations { federation, before: rotation },
    }
}

pub(crate) fn device(federation: u64, number: u32) -> DeviceRecord {
    let credential = hash(1_000 * federation + u64::from(number));
    // Higher numbers enrolled earlier here, so that the order of numbers differs from that of times.
    let enrolled = 90 - u64::from(number.min(80));
    DeviceRecord { federation, number, credential, enrolled, seen: 12, revoked: false, quarantine: None }
}

pub(crate) fn enrol(federation: u64, number: u32, token: u64) -> Change {
    Change::Enrol { device: device(federation, number), token }
}

pub(crate) fn opening(federation: u64, round: u64) -> RoundOpening {
    RoundOpening {
        federation,
        round,
        version: 3 + round,
        cohort: vec![0, 1, 2, 70_000],
        wanted: 3,
        minimum: 2,
        opened: 20 + round,
        deadline: round.is_multiple_of(2).then_some(30 + round),
    }
}

pub(crate) fn receipt(device: u32) -> Receipt {
    let body = body(device);
    Receipt {
        sender: Sender::Device(device),
        key: format!("key-{device}"),
        digest: hash(u64::from(device) + 7),
        bytes: body.len() as u64,
    }
}

/// The bytes of a device's update: long enough to overflow the page of their row.
pub(crate) fn body(device: u32) -> Vec<u8> {
    format!("update of device {device:06};").into_bytes().repeat(1 + 400 * (device as usize % 3))
}

pub(crate) fn upload(federation: u64, round: u64, device: u32) -> Change {
    Change::Upload { federation, round, receipt: receipt(device), bytes: body(device).into() }
}

/// An upload with a one-time token.
pub(crate) fn upload_with_token(federation: u64, round: u64, token: u32) -> Change {
    let receipt = Receipt { sender: token_sender(token), ..receipt(token) };
    Change::Upload { federation, round, receipt, bytes: body(token).into() }
}

pub(crate) fn token_sender(token: u32) -> Sender {
    Sender::Token(hash(u64::from(token) + 90))
}

pub(crate) fn issue(federation: u64, round: u64, device: u32) -> Change {
    Change::IssueToken { federation, round, device, blinded: hash(u64::from(device) + 80) }
}

pub(crate) fn record(federation: u64, round: u64, version: Option<u64>) -> RoundRecord {
    RoundRecord {
        federation,
        round,
        version,
        asked: 4,
        counted: 3,
        declined: 1,
        refused: 2,
        bytes_up: 3_000,
        bytes_down: 40_000,
        opened: 20 + round,
        closed: 29 + round,
        criteria: "{\"loss\":0.5}".into(),
        remark: if version.is_some() { String::new() } else { "too few".into() },
    }
}

pub(crate) fn close(federation: u64, round: u64, produces: Option<u64>) -> Change {
    let made = produces.map(|number| version(federation, number));
    Change::CloseRound(Box::new(record(federation, round, produces)), made)
}

/// Federation 0 with devices 0 to 2, and round 0 open.
pub(crate) fn with_open_round() -> Vec<Change> {
    vec![
        create(0),
        Change::AddToken(enrolment(0, 0, None)),
        enrol(0, 0, 0),
        enrol(0, 1, 0),
        enrol(0, 2, 0),
        Change::OpenRound(opening(0, 0)),
    ]
}
