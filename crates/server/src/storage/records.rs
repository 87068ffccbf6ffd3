//! Records of the database, and the changes that are made to them.

use bytes::Bytes;
use serde::{Serialize, Serializer};

/// Milliseconds since 1970.
pub type Millis = u64;

/// A hash of 256 bits.
pub type Hash = [u8; 32];

/// Whether a federation trains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Rounds are held.
    #[default]
    Running,
    /// No new round opens until an operator resumes training.
    Paused,
    /// All rounds are done, or an operator ended training.
    Finished,
    /// Training cannot continue, for this reason.
    Failed(String),
    /// An operator closed it for good: nothing is stored of its devices, and none can join.
    Archived,
}

impl Status {
    /// Its name, as the HTTP interface has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Finished => "finished",
            Self::Failed(_) => "failed",
            Self::Archived => "archived",
        }
    }
}

/// A federation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FederationRecord {
    /// Its number; never reused.
    pub id: u64,
    /// Its name in URLs; unique.
    pub name: String,
    /// Its configuration, as JSON.
    pub config: String,
    /// The catalog, as devices download it.
    pub catalog: Vec<u8>,
    /// When it was created.
    pub created: Millis,
    /// Whether it trains.
    pub status: Status,
    /// The number of the next device to enrol; numbers are never reused.
    pub next_device: u32,
    /// The open round, or the next one.
    pub next_round: u64,
    /// The current version of the shared model.
    pub version: u64,
    /// Rounds undone by rollbacks, which are held again.
    pub undone: u64,
    /// The version that the last rollback created.
    pub rolled_back: Option<u64>,
    /// A device that enrolled at this time has withdrawn, and the rollback is still to be done.
    pub unlearn: Option<Millis>,
    /// How training goes on, as JSON; empty: as the configuration says.
    pub plan: String,
}

impl FederationRecord {
    /// A new federation.
    pub fn new(id: u64, name: &str, config: String, catalog: Vec<u8>, created: Millis) -> Self {
        Self { id, name: name.to_owned(), config, catalog, created, ..Self::default() }
    }
}

/// A device that has enrolled and not withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRecord {
    /// Its federation.
    pub federation: u64,
    /// Its number.
    pub number: u32,
    /// Hash of its credential.
    pub credential: Hash,
    /// When it enrolled.
    pub enrolled: Millis,
    /// When it last checked in; written once a minute at most.
    pub seen: Millis,
    /// Whether an operator has revoked its access.
    pub revoked: bool,
    /// Why it is not asked into rounds any more, if it is quarantined.
    pub quarantine: Option<String>,
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum TokenPurpose {
    /// Enrolment of devices.
    Enrolment {
        /// The federation.
        #[serde(skip)]
        federation: u64,
        /// Enrolments left; `None`: no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        uses: Option<u64>,
    },
    /// Audiences of an advertiser.
    Advertiser {
        /// The federation.
        #[serde(skip)]
        federation: u64,
        /// New audiences and questions about thresholds within a day; `None`: no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        per_day: Option<u64>,
    },
    /// Access of an operator.
    Operator {
        /// The name of the operator's role.
        role: String,
    },
}

/// A token; as JSON what operators see of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TokenRecord {
    /// Its number; never reused.
    pub id: u64,
    /// Hash of the token.
    #[serde(skip)]
    pub hash: Hash,
    /// A name for people.
    pub label: String,
    /// When it was created.
    pub created: Millis,
    /// When it expires.
    pub expires: Option<Millis>,
    /// What it is for.
    #[serde(flatten)]
    pub purpose: TokenPurpose,
}

/// Who sent an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sender {
    /// The device of this number.
    Device(u32),
    /// The holder of the one-time token with this nullifier; nobody knows which device that is.
    Token(Hash),
}

/// A stored update without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Who sent it.
    pub sender: Sender,
    /// The idempotency key.
    pub key: String,
    /// Hash of the bytes.
    pub digest: Hash,
    /// Number of bytes.
    pub bytes: u64,
}

/// The start of a round.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundOpening {
    /// Its federation.
    pub federation: u64,
    /// Its number.
    pub round: u64,
    /// The version of the shared model that devices train on.
    pub version: u64,
    /// The devices selected, ascending.
    pub cohort: Vec<u32>,
    /// The number of updates after which the round closes.
    pub wanted: u32,
    /// With fewer updates the round is abandoned.
    pub minimum: u32,
    /// When it opened.
    pub opened: Millis,
    /// When it closes at the latest.
    pub deadline: Option<Millis>,
}

/// A message of the secure aggregation protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealMessage {
    /// The device that sent it; `None`: the server's mark that a step of the protocol is over.
    pub device: Option<u32>,
    /// The message.
    pub bytes: Bytes,
}

/// An open round.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRound {
    /// How it started.
    pub opening: RoundOpening,
    /// Whether it no longer accepts updates.
    pub closing: bool,
    /// Devices that declined, ascending.
    pub declined: Vec<u32>,
    /// Updates stored, by ascending sender.
    pub received: Vec<Receipt>,
    /// Messages of secure aggregation, in order of arrival.
    pub messages: Vec<SealMessage>,
    /// Devices that were issued a one-time token, ascending, with the blinded request of each.
    pub issued: Vec<(u32, Hash)>,
}

impl OpenRound {
    /// A round that has just opened.
    pub fn new(opening: RoundOpening) -> Self {
        let (closing, declined, received, messages, issued) = Default::default();
        Self { opening, closing, declined, received, messages, issued }
    }
}

/// A closed round.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RoundRecord {
    /// Its federation.
    #[serde(skip)]
    pub federation: u64,
    /// Its number.
    pub round: u64,
    /// The version it produced; `None` if it was abandoned.
    pub version: Option<u64>,
    /// Devices selected.
    pub asked: u32,
    /// Updates aggregated; none in an abandoned round.
    pub counted: u32,
    /// Devices that declined.
    pub declined: u32,
    /// Uploads rejected.
    pub refused: u32,
    /// Bytes of the updates aggregated.
    pub bytes_up: u64,
    /// Bytes of models sent during the round.
    pub bytes_down: u64,
    /// When it opened.
    pub opened: Millis,
    /// When it closed.
    pub closed: Millis,
    /// The mean of each criterion that devices reported, as JSON.
    #[serde(serialize_with = "as_json")]
    pub criteria: String,
    /// Why it was abandoned, or empty.
    pub remark: String,
}

fn as_json<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    let empty = || serde_json::Value::Object(serde_json::Map::new());
    serde_json::from_str(text).unwrap_or_else(|_| empty()).serialize(to)
}

/// A version of a shared model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRecord {
    /// Its federation.
    pub federation: u64,
    /// Its number.
    pub version: u64,
    /// Hash of the parameters.
    pub digest: Hash,
    /// Bytes of its object.
    pub bytes: u64,
    /// When its parameters were computed; a version made by a rollback has the time of the one it restores.
    pub created: Millis,
    /// Rounds aggregated into it.
    pub rounds: u64,
}

/// An audience: what an advertiser describes, and each device decides by itself whether it belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AudienceRecord {
    /// Its federation.
    pub federation: u64,
    /// Its number; never reused.
    pub id: u64,
    /// The number of the advertiser's token.
    pub advertiser: u64,
    /// Its name; unique among open ones.
    pub name: String,
    /// What it takes to be in it, as JSON.
    pub definition: String,
    /// When it was created.
    pub created: Millis,
    /// When it ends.
    pub expires: Millis,
    /// When it was closed before that.
    pub closed: Option<Millis>,
}

/// A measurement of an audience, or of thresholds. It spends privacy budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasurementRecord {
    /// Its federation.
    pub federation: u64,
    /// Its number; never reused.
    pub id: u64,
    /// The number of the advertiser's token.
    pub advertiser: u64,
    /// The audience measured; `None` for thresholds.
    pub audience: Option<u64>,
    /// What is asked, as JSON.
    pub question: String,
    /// When it was asked for.
    pub requested: Millis,
    /// The round in which devices answer, or answered.
    pub round: Option<u64>,
    /// What may be published of it, as JSON; `None` until its round is closed.
    pub result: Option<String>,
}

/// A device has had its tokens for the audiences of a rotation. Nothing says what it did with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudienceTokens {
    /// The federation.
    pub federation: u64,
    /// The rotation.
    pub rotation: u64,
    /// The device.
    pub device: u32,
    /// Hash of its request.
    pub digest: Hash,
}

/// A segment id that somebody reported with a one-time token. Nobody knows which device that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRecord {
    /// The federation.
    pub federation: u64,
    /// The audience.
    pub audience: u64,
    /// The rotation.
    pub rotation: u64,
    /// Of the token.
    pub nullifier: Hash,
    /// The id.
    pub segment: [u8; 16],
}

/// A federation that was deleted. Devices of it are told so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoneRecord {
    /// Its number.
    pub federation: u64,
    /// Its name; another may have it by now.
    pub name: String,
    /// When it was deleted.
    pub deleted: Millis,
    /// Numbers of versions whose objects are still to be removed, separated by spaces.
    pub versions: String,
}

/// Something that an operator did, or was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ActRecord {
    /// Its number, which the database gives.
    pub id: u64,
    /// When.
    pub at: Millis,
    /// The number of the operator's token; `None`: whoever runs the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// The token's name for people.
    pub label: String,
    /// The token's role.
    pub role: String,
    /// What was done.
    pub act: String,
    /// The federation, if it was about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub federation: Option<String>,
    /// More about it: a number, a setting, or why it was refused.
    pub detail: String,
    /// HTTP status of the answer.
    pub status: u32,
}

/// Everything that the server holds in memory while it runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    /// All federations, by ascending number.
    pub federations: Vec<FederationRecord>,
    /// All devices, by federation and number.
    pub devices: Vec<DeviceRecord>,
    /// All tokens, by number.
    pub tokens: Vec<TokenRecord>,
    /// Open rounds, by federation.
    pub rounds: Vec<OpenRound>,
    /// Federation, round and receipt of each update of the last closed rounds, ascending.
    pub receipts: Vec<(u64, u64, Receipt)>,
    /// All stored versions, by federation and version.
    pub versions: Vec<VersionRecord>,
    /// All audiences, by federation and number.
    pub audiences: Vec<AudienceRecord>,
    /// All measurements, by federation and number.
    pub measurements: Vec<MeasurementRecord>,
    /// Tokens issued for audiences, by federation, rotation and device.
    pub audience_tokens: Vec<AudienceTokens>,
    /// Segment ids, by federation, audience, rotation and nullifier.
    pub segments: Vec<SegmentRecord>,
    /// Deleted federations, by number.
    pub gone: Vec<GoneRecord>,
    /// The number of the next federation.
    pub next_federation: u64,
    /// The number of the next token.
    pub next_token: u64,
}

/// A change of the database.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Creates a federation and its first version.
    CreateFederation(Box<FederationRecord>, VersionRecord),
    /// Changes a federation's status.
    SetStatus {
        /// The federation.
        federation: u64,
        /// The new status.
        status: Status,
    },
    /// Changes how training goes on.
    SetPlan {
        /// The federation.
        federation: u64,
        /// The plan, as JSON.
        plan: String,
    },
    /// Archives a federation: deletes what is stored of its devices, with all tokens for it.
    Archive {
        /// The federation.
        federation: u64,
    },
    /// Deletes a federation, except that there was one.
    Delete(GoneRecord),
    /// The objects of a deleted federation's versions are removed.
    CleanUp {
        /// The federation.
        federation: u64,
    },
    /// Records what an operator did.
    AddAct(ActRecord),
    /// Enrols a device with a token, which has one use less afterwards.
    Enrol {
        /// The device; its number must not have been used before.
        device: DeviceRecord,
        /// The token.
        token: u64,
    },
    /// Revokes a device's access and deletes its update to the open round.
    Revoke {
        /// The federation.
        federation: u64,
        /// The device.
        device: u32,
    },
    /// Quarantines a device, or lifts its quarantine.
    Quarantine {
        /// The federation.
        federation: u64,
        /// The device.
        device: u32,
        /// Why; `None`: no longer.
        reason: Option<String>,
    },
    /// Deletes a device with its receipts and updates, except those sent with one-time tokens, which nobody can tell
    /// apart.
    Withdraw {
        /// The federation.
        federation: u64,
        /// The device.
        device: u32,
        /// Whether training is to be rolled back to before the device enrolled.
        unlearn: bool,
    },
    /// Ends a rollback for devices that withdrew, or an operator's.
    RollBack {
        /// The federation.
        federation: u64,
        /// The earliest time at which one of them enrolled; `None`: an operator's.
        from: Option<Millis>,
        /// The version restored and the number of rounds undone; `None` if no version had to be undone.
        to: Option<(VersionRecord, u64)>,
    },
    /// Updates the time of devices' last check-in.
    Seen {
        /// The federation.
        federation: u64,
        /// Numbers and times.
        devices: Vec<(u32, Millis)>,
    },
    /// Adds a token.
    AddToken(TokenRecord),
    /// Removes a token.
    RemoveToken {
        /// The token.
        id: u64,
    },
    /// Opens a round.
    OpenRound(RoundOpening),
    /// Stores an update.
    Upload {
        /// The federation.
        federation: u64,
        /// The round.
        round: u64,
        /// The receipt.
        receipt: Receipt,
        /// The message.
        bytes: Bytes,
    },
    /// A device declines a round.
    Decline {
        /// The federation.
        federation: u64,
        /// The round.
        round: u64,
        /// The device.
        device: u32,
    },
    /// Issues a one-time token to a device. Rejected if it has had one, or is revoked.
    IssueToken {
        /// The federation.
        federation: u64,
        /// The round.
        round: u64,
        /// The device.
        device: u32,
        /// The blinded request.
        blinded: Hash,
    },
    /// Stores a message of secure aggregation.
    Seal {
        /// The federation.
        federation: u64,
        /// The round.
        round: u64,
        /// The message.
        message: SealMessage,
    },
    /// Stops accepting updates for a round.
    StopUploads {
        /// The federation.
        federation: u64,
        /// The round.
        round: u64,
    },
    /// Closes a round: deletes the bytes of its updates, keeps the receipts of the last [`RECEIPT_ROUNDS`] rounds, and
    /// moves the federation on to the next round, and to the version if there is one.
    CloseRound(Box<RoundRecord>, Option<VersionRecord>),
    /// Adds an audience.
    AddAudience(AudienceRecord),
    /// Closes an audience.
    CloseAudience {
        /// The federation.
        federation: u64,
        /// The audience.
        id: u64,
        /// When.
        closed: Millis,
    },
    /// Adds a measurement that is to be made.
    AddMeasurement(MeasurementRecord),
    /// A measurement is made in this round.
    StartMeasurement {
        /// The federation.
        federation: u64,
        /// The measurement.
        id: u64,
        /// The round.
        round: u64,
    },
    /// A measurement is over.
    FinishMeasurement {
        /// The federation.
        federation: u64,
        /// The measurement.
        id: u64,
        /// What may be published of it, as JSON.
        result: String,
    },
    /// Issues a device its tokens for the audiences of a rotation. Rejected if it has had them, or is revoked.
    IssueAudienceTokens(AudienceTokens),
    /// Stores a segment id.
    AddSegment(SegmentRecord),
    /// Deletes tokens and segment ids of rotations before this one.
    EndRotations {
        /// The federation.
        federation: u64,
        /// The first rotation that stays.
        before: u64,
    },
    /// Removes a version whose object has been deleted.
    RemoveVersion {
        /// The federation.
        federation: u64,
        /// The version.
        version: u64,
    },
}

/// The number of closed rounds whose receipts are stored, so that a late repetition of an upload is recognised.
pub const RECEIPT_ROUNDS: u64 = 4;
