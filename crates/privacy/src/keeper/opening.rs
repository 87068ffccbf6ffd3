//! The keeper's half: what it opens, once, and what it refuses.

use super::boxes::{OpenedSeed, mask_key, open, signed_text};
use super::messages::{Entry, Opening};
use super::opener;
use crate::secagg::{CHECK_WORD, ClientIndex, IdentityKey, MOST_VALUES, Roster, add_keystream, signed};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

/// Which round it is, among all federations of a keeper.
pub type RoundKey = [u8; 32];

/// By which a keeper recognises a seed that it has used, without being able to read it.
pub type SpentSeed = [u8; 16];

/// What is wrong with one device's seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Fault {
    /// Damaged, or sealed for something else.
    #[error(
        "its sealed seed does not open: it is damaged, or was sealed for another round, other terms, another model or \
         another keeper"
    )]
    Unopened = 1,
    /// Two devices with one seed.
    #[error("its seed is also another device's")]
    Repeated = 2,
    /// A seed of a round that was opened before.
    #[error("its seed was used in an earlier round")]
    Spent = 3,
    /// No signature, or a false one.
    #[error("its seed is not signed by the identity that it names")]
    Signature = 4,
    /// An identity that the keeper does not know.
    #[error("its identity is not on the keeper's roster")]
    Unknown = 5,
    /// One identity for two devices.
    #[error("its identity is also another device's")]
    DuplicateIdentity = 6,
    /// Fewer devices came than its owner demands.
    #[error("its owner wants no sum of so few updates opened")]
    LeastCohort = 7,
    /// Another mask than the seed's.
    #[error("its update is not masked by what its seed says")]
    Mask = 8,
}

impl Fault {
    const ALL: [Self; 8] = [
        Self::Unopened,
        Self::Repeated,
        Self::Spent,
        Self::Signature,
        Self::Unknown,
        Self::DuplicateIdentity,
        Self::LeastCohort,
        Self::Mask,
    ];

    /// By its code in messages.
    pub(super) fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| *fault as u8 == code)
    }

    /// Whether no honest device has it.
    pub fn is_offence(self) -> bool {
        self != Self::LeastCohort
    }
}

/// Why a keeper opens nothing. Nothing is spent then, unless its record failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Not from the server that founded the federation.
    #[error("the request does not come from the server of this federation: its secret is another")]
    Opener,
    /// A sum that is too long.
    #[error("{0} values: must be 1 to {MOST_VALUES}")]
    Length(u32),
    /// The round's devices do not sign, but the keeper has a roster.
    #[error("this keeper has a roster, and opens only rounds whose devices sign: set seal_identities = true")]
    Unsigned,
    /// The round's devices sign, but the keeper does not know them.
    #[error(
        "the devices of this round sign with identities, and this keeper has no roster to look them up in: start it \
         with --roster"
    )]
    NoRoster,
    /// Another set of devices of this round.
    #[error("this round was opened before, for other devices or from other seeds: it is opened once")]
    AlreadyOpened,
    /// Too few devices. Fields: how many there are; how many there must be.
    #[error("{0} updates, and no fewer than {1} are opened together")]
    TooFew(usize, u32),
    /// Seeds that cannot be used, of these devices, by ascending index.
    #[error("the seeds of {} devices cannot be used; of device {}: {}", .0.len(), .0[0].0, .0[0].1)]
    Faults(Vec<(ClientIndex, Fault)>),
    /// The record of rounds and seeds.
    #[error("the keeper's record failed: {0}")]
    Record(String),
}

/// What a keeper remembers for good: the rounds that it opened and the seeds that it used.
pub trait Record {
    /// The digest of the request for which this round was opened, if it was.
    ///
    /// # Errors
    /// If it cannot be read.
    fn opened(&self, round: &RoundKey) -> Result<Option<[u8; 32]>, String>;

    /// Whether this seed was used before.
    ///
    /// # Errors
    /// If it cannot be read.
    fn is_spent(&self, seed: &SpentSeed) -> Result<bool, String>;

    /// Remembers a round and its seeds. All of it is durable when this returns, or nothing.
    ///
    /// # Errors
    /// If it cannot be stored.
    fn spend(&mut self, round: &RoundKey, request: &[u8; 32], seeds: &[SpentSeed]) -> Result<(), String>;
}

/// A record that ends with the process, for tests and measurements.
#[derive(Clone, Debug, Default)]
pub struct MemoryRecord {
    rounds: HashMap<RoundKey, [u8; 32]>,
    seeds: HashSet<SpentSeed>,
}

impl Record for MemoryRecord {
    fn opened(&self, round: &RoundKey) -> Result<Option<[u8; 32]>, String> {
        Ok(self.rounds.get(round).copied())
    }

    fn is_spent(&self, seed: &SpentSeed) -> Result<bool, String> {
        Ok(self.seeds.contains(seed))
    }

    fn spend(&mut self, round: &RoundKey, request: &[u8; 32], seeds: &[SpentSeed]) -> Result<(), String> {
        self.rounds.insert(*round, *request);
        self.seeds.extend(seeds);
        Ok(())
    }
}

/// A keeper: its key, and whom it knows.
pub struct Keeper {
    secret: StaticSecret,
    public: [u8; 32],
    least: u32,
    roster: Option<Arc<Roster>>,
}

/// The masks of a round that is spent; they wipe themselves.
pub struct Masks {
    keys: Vec<Zeroizing<[u8; 32]>>,
    words: usize,
}

impl Masks {
    /// The sum of the masks. One vector, whatever the number of devices.
    pub fn sum(&self) -> Vec<u32> {
        let mut sum = vec![0; self.words];
        self.keys.iter().for_each(|key| add_keystream(key, false, &mut sum));
        sum
    }
}

impl Keeper {
    /// From the 32 secret bytes of an X25519 key. It opens no fewer than `least` updates together; with a roster only
    /// rounds whose devices sign with an identity on it.
    pub fn new(secret: [u8; 32], least: u32, roster: Option<Arc<Roster>>) -> Self {
        let secret = StaticSecret::from(secret);
        let public = PublicKey::from(&secret).to_bytes();
        Self { secret, public, least, roster }
    }

    /// Its public key, which devices seal seeds for.
    pub fn public(&self) -> [u8; 32] {
        self.public
    }

    /// Checks a request, and spends the round and its seeds. The same request again is admitted again.
    ///
    /// # Errors
    /// If it must not be followed; nothing is spent then.
    pub fn admit(&self, opening: &Opening, record: &mut dyn Record) -> Result<Masks, OpenError> {
        self.check(opening)?;
        let (round, request) = (round_key(opening), opening.digest());
        let before = record.opened(&round).map_err(OpenError::Record)?;
        if before.is_some_and(|before| before != request) {
            return Err(OpenError::AlreadyOpened);
        }
        let is_spent = |seed: &SpentSeed| match before {
            Some(_) => Ok(false),
            None => record.is_spent(seed).map_err(OpenError::Record),
        };
        let (keys, seeds) = self.read_seeds(opening, is_spent)?;
        let (found, least) = (keys.len(), opening.floor(self.least));
        if found < least as usize {
            return Err(OpenError::TooFew(found, least));
        }
        if before.is_none() {
            record.spend(&round, &request, &seeds).map_err(OpenError::Record)?;
        }
        Ok(Masks { keys, words: opening.config.words() })
    }

    /// What is wrong with a request as a whole.
    fn check(&self, opening: &Opening) -> Result<(), OpenError> {
        let config = &opening.config;
        if opener(&opening.secret) != config.opener {
            return Err(OpenError::Opener);
        }
        if config.length == 0 || config.length > MOST_VALUES {
            return Err(OpenError::Length(config.length));
        }
        match (config.signed, &self.roster) {
            (false, Some(_)) => return Err(OpenError::Unsigned),
            (true, None) => return Err(OpenError::NoRoster),
            _ => (),
        }
        let (found, least) = (opening.entries.len(), opening.floor(self.least));
        if found < least as usize { Err(OpenError::TooFew(found, least)) } else { Ok(()) }
    }

    /// The keys of all masks, and by what their seeds are recognised.
    #[expect(clippy::type_complexity, reason = "two lists, used once")]
    fn read_seeds(
        &self,
        opening: &Opening,
        is_spent: impl Fn(&SpentSeed) -> Result<bool, OpenError>,
    ) -> Result<(Vec<Zeroizing<[u8; 32]>>, Vec<SpentSeed>), OpenError> {
        let (mut keys, mut seeds) = (Vec::new(), Vec::new());
        let (mut faults, mut demands) = (BTreeMap::new(), Vec::new());
        let (mut holders, mut identities) = (HashMap::<SpentSeed, ClientIndex>::new(), BTreeSet::new());
        for entry in &opening.entries {
            let client = entry.client;
            let read = self.check_signature(opening, entry, &mut identities).and_then(|()| self.read(opening, entry));
            let (opened, key) = match read {
                Ok(read) => read,
                Err(fault) => {
                    faults.insert(client, fault);
                    continue;
                }
            };
            let spent = spent_seed(&opened.seed);
            if let Some(other) = holders.insert(spent, client) {
                faults.extend([(other, Fault::Repeated), (client, Fault::Repeated)]);
            } else if is_spent(&spent)? {
                faults.insert(client, Fault::Spent);
            }
            demands.push((client, opened.least));
            keys.push(key);
            seeds.push(spent);
        }
        unmet_demands(&demands, &mut faults);
        if faults.is_empty() { Ok((keys, seeds)) } else { Err(OpenError::Faults(faults.into_iter().collect())) }
    }

    /// A device's seed and the key of its mask.
    fn read(&self, opening: &Opening, entry: &Entry) -> Result<(OpenedSeed, Zeroizing<[u8; 32]>), Fault> {
        let own = (&self.secret, &self.public);
        let opened = open(&opening.config, entry.client, &entry.sealed, own).ok_or(Fault::Unopened)?;
        let key = mask_key(&opening.config, entry.client, &opened.seed);
        let mut check = [entry.check];
        add_keystream(&key, true, &mut check);
        if check == [CHECK_WORD] { Ok((opened, key)) } else { Err(Fault::Mask) }
    }

    fn check_signature(
        &self,
        opening: &Opening,
        Entry { client, sealed, .. }: &Entry,
        seen: &mut BTreeSet<IdentityKey>,
    ) -> Result<(), Fault> {
        let Some(roster) = &self.roster else { return Ok(()) };
        let (identity, signature) = sealed.signed.as_ref().ok_or(Fault::Signature)?;
        if !roster.contains(identity) {
            return Err(Fault::Unknown);
        }
        if !signed(identity, &signed_text(&opening.config, *client, sealed), signature) {
            return Err(Fault::Signature);
        }
        if seen.insert(*identity) { Ok(()) } else { Err(Fault::DuplicateIdentity) }
    }
}

/// Devices whose owners demand more updates than are left without the devices that have faults: whoever is left out
/// makes the sum smaller for the others.
fn unmet_demands(demands: &[(ClientIndex, u32)], faults: &mut BTreeMap<ClientIndex, Fault>) {
    let mut left: Vec<_> = demands.iter().filter(|(client, _)| !faults.contains_key(client)).collect();
    left.sort_by_key(|(client, demand)| (*demand, *client));
    while let Some((client, _)) = left.last().filter(|(_, demand)| *demand as usize > left.len()) {
        faults.insert(*client, Fault::LeastCohort);
        left.pop();
    }
}

fn round_key(opening: &Opening) -> RoundKey {
    let config = &opening.config;
    let text = Sha256::new_with_prefix(b"sottovoce keeper round 1").chain_update(config.opener);
    text.chain_update(config.federation.0.to_le_bytes()).chain_update(config.round.0.to_le_bytes()).finalize().into()
}

fn spent_seed(seed: &[u8; 32]) -> SpentSeed {
    let digest: [u8; 32] = Sha256::new_with_prefix(b"sottovoce spent seed 1").chain_update(seed).finalize().into();
    let mut short = SpentSeed::default();
    short.copy_from_slice(&digest[..16]);
    short
}
