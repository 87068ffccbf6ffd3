//! What is stored.

/// Milliseconds since 1970.
pub type Millis = u64;

/// A hash of a secret: of a credential, of a token.
pub type Hash = [u8; 32];

/// Whether a federation trains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Rounds go on.
    Running,
    /// No new round begins until an operator resumes.
    Paused,
    /// All rounds are done, or an operator ended it.
    Finished,
    /// Training cannot go on; says why.
    Failed(String),
}

/// A federation.
#[derive(Clone, Debug, PartialEq)]
pub struct FederationRecord {
    /// Its number; never used again.
    pub id: u64,
    /// Its name in addresses; unique.
    pub name: String,
    /// Its configuration, as JSON.
    pub config: String,
    /// The catalog, as devices get it.
    pub catalog: Vec<u8>,
    /// When it was created.
    pub created: Millis,
    /// Whether it trains.
    pub standing: Standing,
    /// The number that the next device gets; numbers of devices that left are not used again.
    pub next_device: u32,
    /// The round that is next, or under way.
    pub next_round: u64,
    /// The current version of the shared model.
    pub version: u64,
    /// Rounds that were undone so far, to be held again.
    pub undone: u64,
    /// The version with which training last went back.
    pub went_back: Option<u64>,
    /// Somebody withdrew who enrolled then, and training has not gone back yet.
    pub unlearn: Option<Millis>,
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
    /// When it was last heard of, to within what was written last.
    pub seen: Millis,
    /// Whether an operator has shut it out.
    pub revoked: bool,
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Devices enrol with it.
    Enrolment {
        /// In this federation.
        federation: u64,
        /// So many more times; `None`: without limit.
        uses: Option<u64>,
    },
    /// An operator works with it, in this role.
    Operator {
        /// The role's name.
        role: String,
    },
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// Its number; never used again.
    pub id: u64,
    /// What it is for.
    pub purpose: Purpose,
    /// Hash of it.
    pub hash: Hash,
    /// What its maker calls it.
    pub label: String,
    /// When it was made.
    pub created: Millis,
    /// From when on it is no longer taken.
    pub expires: Option<Millis>,
}

/// An update that was stored: all but its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The device that sent it.
    pub device: u32,
    /// The key by which a repetition is known.
    pub key: String,
    /// Hash of the bytes.
    pub digest: Hash,
    /// How many bytes.
    pub bytes: u64,
}

/// An update that came with a one-time token: all but its bytes. It does not say whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnonymousReceipt {
    /// The token's own part, by which it is known as spent.
    pub nullifier: Hash,
    /// The key by which a repetition is known.
    pub key: String,
    /// Hash of the bytes.
    pub digest: Hash,
    /// How many bytes.
    pub bytes: u64,
}

/// A round as it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundOpening {
    /// Its federation.
    pub federation: u64,
    /// Its number.
    pub round: u64,
    /// The version of the shared model that devices train on.
    pub version: u64,
    /// Devices asked, ascending.
    pub cohort: Vec<u32>,
    /// Updates that are enough.
    pub wanted: u32,
    /// Fewer updates are thrown away.
    pub minimum: u32,
    /// When it began.
    pub opened: Millis,
    /// When it is over in any case.
    pub deadline: Option<Millis>,
}

/// Something said between a device and the server so that a sealed sum can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealNote {
    /// The device that said it; `None`: the server's own note that a step is over.
    pub device: Option<u32>,
    /// The message.
    pub bytes: bytes::Bytes,
}

/// A round that is under way, as found at the start.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRound {
    /// How it began.
    pub opening: RoundOpening,
    /// Whether updates are no longer taken.
    pub closing: bool,
    /// Devices that will not answer, ascending.
    pub declined: Vec<u32>,
    /// Updates stored, by ascending device.
    pub received: Vec<Receipt>,
    /// What was said beside updates, in the order in which it was.
    pub notes: Vec<SealNote>,
    /// Devices that have had a token of the round, ascending, and what each asked with. It says nothing of the token.
    pub issued: Vec<(u32, Hash)>,
    /// Updates that came with a token, by ascending nullifier.
    pub anonymous: Vec<AnonymousReceipt>,
}

/// A round that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundRecord {
    /// Its federation.
    pub federation: u64,
    /// Its number.
    pub round: u64,
    /// The version it led to; `None` if it was abandoned.
    pub version: Option<u64>,
    /// Devices asked.
    pub asked: u32,
    /// Updates counted; those of an abandoned round are not.
    pub counted: u32,
    /// Devices that said they would not answer.
    pub declined: u32,
    /// Uploads refused.
    pub refused: u32,
    /// Bytes of the updates counted.
    pub bytes_up: u64,
    /// Bytes of models sent during the round.
    pub bytes_down: u64,
    /// When it began.
    pub opened: Millis,
    /// When it was over.
    pub closed: Millis,
    /// Mean of each criterion that devices reported, as JSON.
    pub criteria: String,
    /// Why it was abandoned, or empty.
    pub remark: String,
}

/// A version of a shared model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRecord {
    /// Its federation.
    pub federation: u64,
    /// Its number.
    pub version: u64,
    /// Hash of the parameters as devices hold them.
    pub digest: Hash,
    /// Bytes of its object.
    pub bytes: u64,
    /// When its values were made: one that goes back to an earlier version has that one's time.
    pub created: Millis,
    /// Rounds that are in it.
    pub rounds: u64,
}

/// Everything that is kept in memory while the server runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    /// All federations, by ascending number.
    pub federations: Vec<FederationRecord>,
    /// All devices, by federation and number.
    pub devices: Vec<DeviceRecord>,
    /// All tokens, by number.
    pub tokens: Vec<TokenRecord>,
    /// Rounds under way, by federation.
    pub rounds: Vec<OpenRound>,
    /// Receipts of rounds that were over lately, by federation and round.
    pub receipts: Vec<(u64, u64, Receipt)>,
    /// The same of updates that came with a token.
    pub anonymous: Vec<(u64, u64, AnonymousReceipt)>,
    /// All versions that are kept, by federation and version.
    pub versions: Vec<VersionRecord>,
    /// The number that the next federation gets.
    pub next_federation: u64,
    /// The number that the next token gets.
    pub next_token: u64,
}

/// One change of what is stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A new federation, and its first version.
    Found(Box<FederationRecord>, VersionRecord),
    /// A federation's standing.
    Stand {
        /// Which.
        federation: u64,
        /// What it is now.
        standing: Standing,
    },
    /// A device enrols with a token, one of whose uses is gone then.
    Enrol {
        /// The device; its number becomes the federation's last.
        device: DeviceRecord,
        /// The token.
        token: u64,
    },
    /// An operator shuts a device out; what it sent to a round under way is deleted.
    Revoke {
        /// Its federation.
        federation: u64,
        /// Its number.
        device: u32,
    },
    /// A device withdraws: nothing of it is kept, receipts and updates of rounds under way included; but for updates that
    /// came with a token, of which nobody knows whose they are.
    Withdraw {
        /// Its federation.
        federation: u64,
        /// Its number.
        device: u32,
        /// Whether training is to go back to before it enrolled.
        unlearn: bool,
    },
    /// Nothing is left of those who enrolled from a moment on and withdrew.
    Unlearnt {
        /// The federation.
        federation: u64,
        /// The moment.
        from: Millis,
        /// The version with which training goes on, and rounds that are undone; `None` if none had to be.
        back: Option<(VersionRecord, u64)>,
    },
    /// When devices were last heard of.
    Seen {
        /// Their federation.
        federation: u64,
        /// Number and time.
        devices: Vec<(u32, Millis)>,
    },
    /// A new token.
    AddToken(TokenRecord),
    /// A token is no longer taken.
    RemoveToken {
        /// Which.
        id: u64,
    },
    /// A round begins.
    Open(RoundOpening),
    /// An update comes.
    Upload {
        /// Its federation.
        federation: u64,
        /// The round that it is for.
        round: u64,
        /// Who sent it.
        receipt: Receipt,
        /// The message.
        bytes: bytes::Bytes,
    },
    /// A device will not answer.
    Decline {
        /// Its federation.
        federation: u64,
        /// The round.
        round: u64,
        /// The device.
        device: u32,
    },
    /// A device gets its token of a round. Refused if it has had one, or is shut out.
    Issue {
        /// Its federation.
        federation: u64,
        /// The round.
        round: u64,
        /// The device.
        device: u32,
        /// What it asks with.
        blinded: Hash,
    },
    /// An update comes with a token.
    UploadAnonymous {
        /// Its federation.
        federation: u64,
        /// The round that it is for.
        round: u64,
        /// By what it is known again.
        receipt: AnonymousReceipt,
        /// The message.
        bytes: bytes::Bytes,
    },
    /// Something is said so that a sealed sum can be opened.
    Seal {
        /// The federation.
        federation: u64,
        /// The round.
        round: u64,
        /// What is said.
        note: SealNote,
    },
    /// No more updates are taken.
    Closing {
        /// The federation.
        federation: u64,
        /// The round.
        round: u64,
    },
    /// A round is over: the updates' bytes are deleted, receipts of the latest [`RECEIPT_ROUNDS`] rounds are kept, the
    /// federation's next round is the one after it and its version is this one, if there is one.
    Close(Box<RoundRecord>, Option<VersionRecord>),
    /// A version's object is no longer there.
    RemoveVersion {
        /// Its federation.
        federation: u64,
        /// Its number.
        version: u64,
    },
}

/// Rounds over lately of which receipts are kept, so that an upload repeated late is still known.
pub const RECEIPT_ROUNDS: u64 = 4;
