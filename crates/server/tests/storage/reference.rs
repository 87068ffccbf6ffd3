//! A reference implementation of the storage in memory.

use sottovoce_server::storage::{
    AudienceRecord, AudienceTokens, Change, FederationRecord, MeasurementRecord, OpenRound, RECEIPT_ROUNDS,
    RoundRecord, SegmentRecord, Sender, Status, Stored, TokenPurpose, VersionRecord,
};
use std::collections::BTreeMap;

/// The expected contents of a database.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reference {
    pub(crate) stored: Stored,
    /// By federation, round and sender.
    pub(crate) bodies: BTreeMap<(u64, u64, Sender), Body>,
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

/// The change contradicts what is stored.
#[derive(Debug)]
pub(crate) struct Rejected;

fn must(holds: bool) -> Result<(), Rejected> {
    if holds { Ok(()) } else { Err(Rejected) }
}

impl Reference {
    /// All or none.
    pub(crate) fn commit(&mut self, changes: &[Change]) -> Result<(), Rejected> {
        let mut next = self.clone();
        changes.iter().try_for_each(|change| next.apply(change))?;
        *self = next;
        Ok(())
    }

    fn federation(&mut self, id: u64) -> Result<&mut FederationRecord, Rejected> {
        self.stored.federations.iter_mut().find(|federation| federation.id == id).ok_or(Rejected)
    }

    fn round(&mut self, federation: u64, round: u64) -> Result<&mut OpenRound, Rejected> {
        let is = |open: &&mut OpenRound| open.opening.federation == federation && open.opening.round == round;
        self.stored.rounds.iter_mut().find(is).ok_or(Rejected)
    }

    fn has_device(&self, federation: u64, number: u32) -> bool {
        self.stored.devices.iter().any(|device| device.federation == federation && device.number == number)
    }

    fn apply(&mut self, change: &Change) -> Result<(), Rejected> {
        match change {
            Change::CreateFederation(federation, version) => self.create(federation, version),
            Change::SetStatus { federation, status } => {
                self.federation(*federation)?.status = status.clone();
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
                self.delete_update(*federation, *device);
                Ok(())
            }
            Change::Quarantine { federation, device, reason } => {
                let is = |known: &&mut _| is_device(known, *federation, *device);
                if let Some(known) = self.stored.devices.iter_mut().find(is) {
                    known.quarantine.clone_from(reason);
                }
                Ok(())
            }
            Change::Withdraw { federation, device, unlearn } => {
                let leaves = self.stored.devices.iter().find(|known| is_device(known, *federation, *device)).cloned();
                if let Some(leaves) = leaves.filter(|_| *unlearn) {
                    let pending = &mut self.federation(*federation)?.unlearn;
                    *pending = Some(pending.map_or(leaves.enrolled, |pending| pending.min(leaves.enrolled)));
                }
                self.delete_update(*federation, *device);
                for open in self.stored.rounds.iter_mut().filter(|open| open.opening.federation == *federation) {
                    open.declined.retain(|declined| declined != device);
                    open.messages.retain(|message| message.device != Some(*device));
                    open.issued.retain(|(given, _)| given != device);
                }
                let sender = Sender::Device(*device);
                self.stored.receipts.retain(|(of, _, receipt)| (*of, receipt.sender) != (*federation, sender));
                self.stored.audience_tokens.retain(|known| (known.federation, known.device) != (*federation, *device));
                self.stored.devices.retain(|known| (known.federation, known.number) != (*federation, *device));
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
                if let TokenPurpose::Enrolment { federation, .. } | TokenPurpose::Advertiser { federation, .. } =
                    token.purpose
                {
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
            Change::SetPlan { federation, plan } => {
                self.federation(*federation)?.plan.clone_from(plan);
                Ok(())
            }
            Change::Archive { federation } => {
                let known = self.federation(*federation)?;
                (known.status, known.unlearn) = (Status::Archived, None);
                self.forget_people(*federation);
                Ok(())
            }
            Change::Delete(gone) => {
                must(self.federation(gone.federation)?.name == gone.name)?;
                self.forget_people(gone.federation);
                let Stored { federations, versions, audiences, measurements, .. } = &mut self.stored;
                federations.retain(|known| known.id != gone.federation);
                versions.retain(|known| known.federation != gone.federation);
                audiences.retain(|known| known.federation != gone.federation);
                measurements.retain(|known| known.federation != gone.federation);
                self.rounds.retain(|known| known.federation != gone.federation);
                self.stored.gone.push(gone.clone());
                self.stored.gone.sort_by_key(|gone| gone.federation);
                Ok(())
            }
            Change::CleanUp { federation } => {
                let those = self.stored.gone.iter_mut().filter(|gone| gone.federation == *federation);
                those.for_each(|gone| gone.versions.clear());
                Ok(())
            }
            Change::AddAct(_) => Ok(()),
            other => self.apply_audience(other).unwrap_or_else(|| self.apply_round(other)),
        }
    }

    /// Forgets all that is stored of a federation's people.
    fn forget_people(&mut self, id: u64) {
        let stored = &mut self.stored;
        stored.devices.retain(|known| known.federation != id);
        stored.rounds.retain(|open| open.opening.federation != id);
        stored.receipts.retain(|(of, ..)| *of != id);
        stored.audience_tokens.retain(|known| known.federation != id);
        stored.segments.retain(|known| known.federation != id);
        stored.tokens.retain(|token| match token.purpose {
            TokenPurpose::Enrolment { federation, .. } | TokenPurpose::Advertiser { federation, .. } => {
                federation != id
            }
            TokenPurpose::Operator { .. } => true,
        });
        self.bodies.retain(|(of, ..), _| *of != id);
    }

    /// `None` for changes that are not about audiences.
    fn apply_audience(&mut self, change: &Change) -> Option<Result<(), Rejected>> {
        Some(match change {
            Change::AddAudience(record) => self.add_audience(record),
            Change::CloseAudience { federation, id, closed } => {
                let is = |known: &&mut AudienceRecord| (known.federation, known.id) == (*federation, *id);
                let found = self.stored.audiences.iter_mut().find(is).filter(|known| known.closed.is_none());
                found.map(|known| known.closed = Some(*closed)).ok_or(Rejected)
            }
            Change::AddMeasurement(record) => self.add_measurement(record),
            Change::StartMeasurement { federation, id, round } => {
                let found = self.measurement(*federation, *id).filter(|known| known.round.is_none());
                found.map(|known| known.round = Some(*round)).ok_or(Rejected)
            }
            Change::FinishMeasurement { federation, id, result } => {
                let found = self.measurement(*federation, *id).filter(|known| known.result.is_none());
                found.map(|known| known.result = Some(result.clone())).ok_or(Rejected)
            }
            Change::IssueAudienceTokens(issued) => self.issue_audience_tokens(issued),
            Change::AddSegment(record) => {
                let key = |of: &SegmentRecord| (of.federation, of.audience, of.rotation, of.nullifier);
                let fresh = self.stored.segments.iter().all(|known| key(known) != key(record));
                self.stored.segments.push(*record);
                self.stored.segments.sort_by_key(key);
                must(fresh)
            }
            Change::EndRotations { federation, before } => {
                let ends = |of: u64, rotation: u64| of == *federation && rotation < *before;
                self.stored.audience_tokens.retain(|known| !ends(known.federation, known.rotation));
                self.stored.segments.retain(|known| !ends(known.federation, known.rotation));
                Ok(())
            }
            _ => return None,
        })
    }

    fn measurement(&mut self, federation: u64, id: u64) -> Option<&mut MeasurementRecord> {
        self.stored.measurements.iter_mut().find(|known| (known.federation, known.id) == (federation, id))
    }

    fn add_audience(&mut self, record: &AudienceRecord) -> Result<(), Rejected> {
        self.federation(record.federation)?;
        let key = |of: &AudienceRecord| (of.federation, of.id);
        must(self.stored.audiences.iter().all(|known| key(known) != key(record)))?;
        self.stored.audiences.push(record.clone());
        self.stored.audiences.sort_by_key(key);
        Ok(())
    }

    fn add_measurement(&mut self, record: &MeasurementRecord) -> Result<(), Rejected> {
        self.federation(record.federation)?;
        must(self.measurement(record.federation, record.id).is_none())?;
        self.stored.measurements.push(record.clone());
        self.stored.measurements.sort_by_key(|known| (known.federation, known.id));
        Ok(())
    }

    fn issue_audience_tokens(&mut self, issued: &AudienceTokens) -> Result<(), Rejected> {
        let is = |known: &&_| is_device(known, issued.federation, issued.device);
        must(!self.stored.devices.iter().find(is).ok_or(Rejected)?.revoked)?;
        let key = |of: &AudienceTokens| (of.federation, of.rotation, of.device);
        must(self.stored.audience_tokens.iter().all(|known| key(known) != key(issued)))?;
        self.stored.audience_tokens.push(*issued);
        self.stored.audience_tokens.sort_by_key(key);
        Ok(())
    }

    fn apply_round(&mut self, change: &Change) -> Result<(), Rejected> {
        match change {
            Change::OpenRound(opening) => {
                must(self.federation(opening.federation)?.next_round == opening.round)?;
                must(self.round(opening.federation, opening.round).is_err())?;
                self.stored.rounds.push(OpenRound::new(opening.clone()));
                self.stored.rounds.sort_by_key(|open| open.opening.federation);
                Ok(())
            }
            Change::Upload { federation, round, receipt, bytes } => {
                if let Sender::Device(device) = receipt.sender {
                    must(self.has_device(*federation, device))?;
                }
                let open = self.round(*federation, *round)?;
                must(!open.closing && open.received.iter().all(|other| other.sender != receipt.sender))?;
                open.received.push(receipt.clone());
                open.received.sort_by_key(|receipt| receipt.sender);
                self.bodies.insert((*federation, *round, receipt.sender), Body::from(&bytes[..]));
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
            Change::Seal { federation, round, message } => {
                let there = message.device.is_none_or(|device| self.has_device(*federation, device));
                let open = self.round(*federation, *round)?;
                must(!open.closing)?;
                open.messages.extend(there.then(|| message.clone()));
                Ok(())
            }
            Change::IssueToken { federation, round, device, blinded } => {
                let is = |known: &&_| is_device(known, *federation, *device);
                let known = self.stored.devices.iter().find(is).ok_or(Rejected)?;
                must(!known.revoked)?;
                let open = self.round(*federation, *round)?;
                must(!open.closing && open.issued.iter().all(|(given, _)| given != device))?;
                open.issued.push((*device, *blinded));
                open.issued.sort_unstable();
                Ok(())
            }
            Change::StopUploads { federation, round } => {
                self.round(*federation, *round)?.closing = true;
                Ok(())
            }
            Change::CloseRound(record, version) => self.close(record, version.as_ref()),
            Change::RollBack { federation, from, to } => self.roll_back(*federation, *from, to.as_ref()),
            Change::RemoveVersion { federation, version } => {
                must(self.federation(*federation).map_or(true, |current| current.version != *version))?;
                let is = |kept: &VersionRecord| (kept.federation, kept.version) == (*federation, *version);
                self.stored.versions.retain(|kept| !is(kept));
                Ok(())
            }
            _ => Err(Rejected),
        }
    }

    fn roll_back(&mut self, id: u64, from: Option<u64>, to: Option<&(VersionRecord, u64)>) -> Result<(), Rejected> {
        if let (Some(from), Ok(federation)) = (from, self.federation(id)) {
            federation.unlearn = federation.unlearn.filter(|pending| *pending < from);
        }
        let Some((version, undone)) = to else { return Ok(()) };
        let federation = self.federation(id)?;
        must(version.federation == id && version.version > federation.version)?;
        (federation.version, federation.rolled_back) = (version.version, Some(version.version));
        federation.undone += undone;
        self.stored.versions.push(version.clone());
        self.stored.versions.sort_by_key(|version| (version.federation, version.version));
        Ok(())
    }

    fn create(&mut self, federation: &FederationRecord, version: &VersionRecord) -> Result<(), Rejected> {
        must(federation.id >= self.stored.next_federation)?;
        must(self.stored.federations.iter().all(|other| other.name != federation.name))?;
        must((version.federation, version.version) == (federation.id, federation.version))?;
        self.stored.next_federation = federation.id + 1;
        self.stored.federations.push(federation.clone());
        self.stored.versions.push(version.clone());
        Ok(())
    }

    fn use_token(&mut self, id: u64, of: u64) -> Result<(), Rejected> {
        let token = self.stored.tokens.iter_mut().find(|token| token.id == id).ok_or(Rejected)?;
        match &mut token.purpose {
            TokenPurpose::Enrolment { federation, uses: None } if *federation == of => Ok(()),
            TokenPurpose::Enrolment { federation, uses: Some(left) } if *federation == of && *left > 0 => {
                *left -= 1;
                Ok(())
            }
            _ => Err(Rejected),
        }
    }

    /// Deletes an update to the open round, and its receipt.
    fn delete_update(&mut self, federation: u64, device: u32) {
        for open in self.stored.rounds.iter_mut().filter(|open| open.opening.federation == federation) {
            open.received.retain(|receipt| receipt.sender != Sender::Device(device));
        }
        self.bodies.retain(|(of, _, from), _| (*of, *from) != (federation, Sender::Device(device)));
    }

    fn close(&mut self, record: &RoundRecord, version: Option<&VersionRecord>) -> Result<(), Rejected> {
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
        self.stored.receipts.extend(open.received.into_iter().map(|receipt| (key.0, key.1, receipt)));
        self.stored.receipts.retain(|(of, round, _)| *of != key.0 || round + RECEIPT_ROUNDS > key.1);
        self.stored.receipts.sort_by_key(|(federation, round, receipt)| (*federation, *round, receipt.sender));
        self.rounds.push(record.clone());
        Ok(())
    }
}

fn is_device(known: &sottovoce_server::storage::DeviceRecord, federation: u64, number: u32) -> bool {
    (known.federation, known.number) == (federation, number)
}
