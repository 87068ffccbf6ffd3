//! The same rules in memory, written without a database.

use sottovoce_server::storage::{
    AnonymousReceipt, Change, FederationRecord, OpenRound, Purpose, RECEIPT_ROUNDS, RoundRecord, Stored,
    VersionRecord,
};
use std::collections::BTreeMap;

/// What a database should hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) stored: Stored,
    /// By federation, round and device.
    pub(crate) bodies: BTreeMap<(u64, u64, u32), Body>,
    /// By federation, round and nullifier.
    pub(crate) anonymous: BTreeMap<(u64, u64, [u8; 32]), Body>,
    pub(crate) rounds: Vec<RoundRecord>,
}

/// An update's bytes, shown by their beginning.
#[derive(Clone, PartialEq)]
pub(crate) struct Body(Vec<u8>);

impl From<&[u8]> for Body {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} bytes: {}", self.0.len(), self.0[..self.0.len().min(24)].escape_ascii())
    }
}

/// The change contradicts what is there.
#[derive(Debug)]
pub(crate) struct Contradiction;

fn must(holds: bool) -> Result<(), Contradiction> {
    if holds { Ok(()) } else { Err(Contradiction) }
}

impl Model {
    /// All or none.
    pub(crate) fn commit(&mut self, changes: &[Change]) -> Result<(), Contradiction> {
        let mut next = self.clone();
        changes.iter().try_for_each(|change| next.apply(change))?;
        *self = next;
        Ok(())
    }

    fn federation(&mut self, id: u64) -> Result<&mut FederationRecord, Contradiction> {
        self.stored.federations.iter_mut().find(|federation| federation.id == id).ok_or(Contradiction)
    }

    fn round(&mut self, federation: u64, round: u64) -> Result<&mut OpenRound, Contradiction> {
        let is = |open: &&mut OpenRound| open.opening.federation == federation && open.opening.round == round;
        self.stored.rounds.iter_mut().find(is).ok_or(Contradiction)
    }

    fn has_device(&self, federation: u64, number: u32) -> bool {
        self.stored.devices.iter().any(|device| device.federation == federation && device.number == number)
    }

    fn apply(&mut self, change: &Change) -> Result<(), Contradiction> {
        match change {
            Change::Found(federation, version) => self.found(federation, version),
            Change::Stand { federation, standing } => {
                self.federation(*federation)?.standing = standing.clone();
                Ok(())
            }
            Change::Enrol { device, token } => {
                must(i64::try_from(device.seen).is_ok())?;
                self.use_token(*token, device.federation)?;
                let federation = self.federation(device.federation)?;
                must(device.number >= federation.next_device)?;
                federation.next_device = device.number + 1;
                self.stored.devices.push(device.clone());
                self.stored.devices.sort_by_key(|device| (device.federation, device.number));
                Ok(())
            }
            Change::Revoke { federation, device } => {
                for known in &mut self.stored.devices {
                    known.revoked |= (known.federation, known.number) == (*federation, *device);
                }
                self.forget_answer(*federation, *device);
                Ok(())
            }
            Change::Withdraw { federation, device, unlearn } => {
                let leaves =
                    self.stored.devices.iter().find(|known| is_device(known, *federation, *device)).cloned();
                if let Some(leaves) = leaves.filter(|_| *unlearn) {
                    let pending = &mut self.federation(*federation)?.unlearn;
                    *pending = Some(pending.map_or(leaves.enrolled, |pending| pending.min(leaves.enrolled)));
                }
                self.forget_answer(*federation, *device);
                for open in
                    self.stored.rounds.iter_mut().filter(|open| open.opening.federation == *federation)
                {
                    open.declined.retain(|declined| declined != device);
                    open.notes.retain(|note| note.device != Some(*device));
                    open.issued.retain(|(given, _)| given != device);
                }
                self.stored.receipts.retain(|(of, _, receipt)| (of, &receipt.device) != (federation, device));
                self.stored
                    .devices
                    .retain(|known| (known.federation, known.number) != (*federation, *device));
                Ok(())
            }
            Change::Seen { federation, devices } => {
                for (number, seen) in devices {
                    let is = |known: &&mut _| is_device(known, *federation, *number);
                    if let Some(known) = self.stored.devices.iter_mut().find(is) {
                        known.seen = *seen;
                    }
                }
                Ok(())
            }
            Change::AddToken(token) => {
                must(token.id >= self.stored.next_token)?;
                if let Purpose::Enrolment { federation, .. } = token.purpose {
                    self.federation(federation)?;
                }
                self.stored.next_token = token.id + 1;
                self.stored.tokens.push(token.clone());
                Ok(())
            }
            Change::RemoveToken { id } => {
                self.stored.tokens.retain(|token| token.id != *id);
                Ok(())
            }
            other => self.apply_round(other),
        }
    }

    fn apply_round(&mut self, change: &Change) -> Result<(), Contradiction> {
        match change {
            Change::Open(opening) => {
                must(self.federation(opening.federation)?.next_round == opening.round)?;
                must(self.round(opening.federation, opening.round).is_err())?;
                let opening = opening.clone();
                let (closing, declined, received, notes, issued, anonymous) = Default::default();
                let open = OpenRound { opening, closing, declined, received, notes, issued, anonymous };
                self.stored.rounds.push(open);
                self.stored.rounds.sort_by_key(|open| open.opening.federation);
                Ok(())
            }
            Change::Upload { federation, round, receipt, bytes } => {
                must(self.has_device(*federation, receipt.device))?;
                let open = self.round(*federation, *round)?;
                must(!open.closing && open.received.iter().all(|other| other.device != receipt.device))?;
                open.received.push(receipt.clone());
                open.received.sort_by_key(|receipt| receipt.device);
                self.bodies.insert((*federation, *round, receipt.device), Body::from(&bytes[..]));
                Ok(())
            }
            Change::Decline { federation, round, device } => {
                let there = self.has_device(*federation, *device);
                let declined = &mut self.round(*federation, *round)?.declined;
                if there && !declined.contains(device) {
                    declined.push(*device);
                    declined.sort_unstable();
                }
                Ok(())
            }
            Change::Seal { federation, round, note } => {
                let there = note.device.is_none_or(|device| self.has_device(*federation, device));
                let open = self.round(*federation, *round)?;
                must(!open.closing)?;
                open.notes.extend(there.then(|| note.clone()));
                Ok(())
            }
            Change::Issue { federation, round, device, blinded } => {
                let is = |known: &&_| is_device(known, *federation, *device);
                let known = self.stored.devices.iter().find(is).ok_or(Contradiction)?;
                must(!known.revoked)?;
                let open = self.round(*federation, *round)?;
                must(!open.closing && open.issued.iter().all(|(given, _)| given != device))?;
                open.issued.push((*device, *blinded));
                open.issued.sort_unstable();
                Ok(())
            }
            Change::UploadAnonymous { federation, round, receipt, bytes } => {
                let open = self.round(*federation, *round)?;
                let spent = |other: &AnonymousReceipt| other.nullifier == receipt.nullifier;
                must(!open.closing && !open.anonymous.iter().any(spent))?;
                open.anonymous.push(receipt.clone());
                open.anonymous.sort_by_key(|receipt| receipt.nullifier);
                self.anonymous.insert((*federation, *round, receipt.nullifier), bytes[..].into());
                Ok(())
            }
            Change::Closing { federation, round } => {
                self.round(*federation, *round)?.closing = true;
                Ok(())
            }
            Change::Close(record, version) => self.close(record, version.as_ref()),
            Change::Unlearnt { federation, from, back } => self.unlearnt(*federation, *from, back.as_ref()),
            Change::RemoveVersion { federation, version } => {
                must(self.federation(*federation).map_or(true, |current| current.version != *version))?;
                let is = |kept: &VersionRecord| (kept.federation, kept.version) == (*federation, *version);
                self.stored.versions.retain(|kept| !is(kept));
                Ok(())
            }
            _ => Err(Contradiction),
        }
    }

    fn unlearnt(
        &mut self,
        id: u64,
        from: u64,
        back: Option<&(VersionRecord, u64)>,
    ) -> Result<(), Contradiction> {
        if let Ok(federation) = self.federation(id) {
            federation.unlearn = federation.unlearn.filter(|pending| *pending < from);
        }
        let Some((version, undone)) = back else { return Ok(()) };
        let federation = self.federation(id)?;
        must(version.federation == id && version.version > federation.version)?;
        (federation.version, federation.went_back) = (version.version, Some(version.version));
        federation.undone += undone;
        self.stored.versions.push(version.clone());
        self.stored.versions.sort_by_key(|version| (version.federation, version.version));
        Ok(())
    }

    fn found(&mut self, federation: &FederationRecord, version: &VersionRecord) -> Result<(), Contradiction> {
        must(federation.id >= self.stored.next_federation)?;
        must(self.stored.federations.iter().all(|other| other.name != federation.name))?;
        must((version.federation, version.version) == (federation.id, federation.version))?;
        self.stored.next_federation = federation.id + 1;
        self.stored.federations.push(federation.clone());
        self.stored.versions.push(version.clone());
        Ok(())
    }

    fn use_token(&mut self, id: u64, of: u64) -> Result<(), Contradiction> {
        let token = self.stored.tokens.iter_mut().find(|token| token.id == id).ok_or(Contradiction)?;
        match &mut token.purpose {
            Purpose::Enrolment { federation, uses: None } if *federation == of => Ok(()),
            Purpose::Enrolment { federation, uses: Some(left) } if *federation == of && *left > 0 => {
                *left -= 1;
                Ok(())
            }
            _ => Err(Contradiction),
        }
    }

    /// An update to a round under way, and its receipt.
    fn forget_answer(&mut self, federation: u64, device: u32) {
        for open in self.stored.rounds.iter_mut().filter(|open| open.opening.federation == federation) {
            open.received.retain(|receipt| receipt.device != device);
        }
        self.bodies.retain(|(of, _, from), _| (*of, *from) != (federation, device));
    }

    fn close(&mut self, record: &RoundRecord, version: Option<&VersionRecord>) -> Result<(), Contradiction> {
        let key = (record.federation, record.round);
        let open = self.round(key.0, key.1)?.clone();
        must(record.version == version.map(|version| version.version))?;
        must(version.is_none_or(|version| version.federation == record.federation))?;
        let federation = self.federation(key.0)?;
        federation.next_round = record.round + 1;
        if let Some(version) = version {
            must(version.version > federation.version)?;
            federation.version = version.version;
            self.stored.versions.push(version.clone());
            self.stored.versions.sort_by_key(|version| (version.federation, version.version));
        }
        self.stored.rounds.retain(|other| other.opening.federation != key.0);
        self.bodies.retain(|body, _| (body.0, body.1) != key);
        self.anonymous.retain(|body, _| (body.0, body.1) != key);
        self.stored.anonymous.extend(open.anonymous.into_iter().map(|receipt| (key.0, key.1, receipt)));
        self.stored.anonymous.retain(|(of, round, _)| *of != key.0 || round + RECEIPT_ROUNDS > key.1);
        self.stored
            .anonymous
            .sort_by_key(|(federation, round, receipt)| (*federation, *round, receipt.nullifier));
        self.stored.receipts.extend(open.received.into_iter().map(|receipt| (key.0, key.1, receipt)));
        self.stored.receipts.retain(|(of, round, _)| *of != key.0 || round + RECEIPT_ROUNDS > key.1);
        self.stored
            .receipts
            .sort_by_key(|(federation, round, receipt)| (*federation, *round, receipt.device));
        self.rounds.push(record.clone());
        Ok(())
    }
}

fn is_device(known: &sottovoce_server::storage::DeviceRecord, federation: u64, number: u32) -> bool {
    (known.federation, known.number) == (federation, number)
}
