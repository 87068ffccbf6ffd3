//! The device's half: what it sends at each step, and what it refuses.

use super::identity::{Identity, IdentityKey, signed};
use super::keys::{self, Secrets};
use super::mask::{add_keystream, digest, write_masked};
use super::messages::{
    Advertise, Confirm, Confirmations, EncryptedShares, Header, Masked, Message, Neighbours, PublicKeys, RevealedShare,
    Shares, Survivors, Unmask,
};
use super::shamir::{self, Share};
use super::{ClientIndex, Config, ConfigError, Parameters, config::CHECK_WORD};
use crate::tokens::to_hex;
use sottovoce_protocol::DecodeError;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a device returns.
type Result<T, E = DeviceError> = std::result::Result<T, E>;

/// Why a device does not answer. Its state is unchanged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DeviceError {
    /// An impossible configuration.
    #[error("the configuration: {0}")]
    Config(#[from] ConfigError),
    /// Bytes that are not a message.
    #[error("not a message: {0}")]
    Malformed(#[from] DecodeError),
    /// A message for another federation, round or device. Fields: whom it is for; who this is.
    #[error("a message for {0:?}, but this device is {1:?}")]
    WrongRecipient(Header, Header),
    /// An index that the round does not have. Fields: which; how many there are.
    #[error("client {0} in a round of {1} devices")]
    Client(ClientIndex, u32),
    /// A step before its predecessor.
    #[error("{0} before the step that comes first")]
    TooEarly(&'static str),
    /// Something other than what was received or sent before.
    #[error("{0} differs from what this device saw before")]
    Changed(&'static str),
    /// A neighbourhood of the wrong size. Fields: how many there are; how many devices the server says advertised; how
    /// many there must be.
    #[error("{0} neighbours, but {2} for {1} devices")]
    Neighbours(usize, u32, u32),
    /// A list that names this device, a device that is not, or one twice. Fields: who; where.
    #[error("client {0} must not be among the {1}")]
    Unexpected(ClientIndex, &'static str),
    /// A key that two devices share, or a point of small order.
    #[error("the key of client {0} is also another device's, or is not a key")]
    Key(ClientIndex),
    /// Keys without an identity's signature, or with a false one.
    #[error("the keys of client {0} are not signed by the identity that they name for the configuration of this round")]
    Unsigned(ClientIndex),
    /// An identity that is not in this device's roster. Fields: whose keys; the identity.
    #[error("client {0} has the identity {identity}, which is not in this device's roster: not listed yet, or invented", identity = to_hex(.1))]
    Unknown(ClientIndex, IdentityKey),
    /// One identity for two clients.
    #[error("the identity of client {0} is also another client's")]
    DuplicateIdentity(ClientIndex),
    /// Too few neighbours. Fields: who did what; how many; the threshold.
    #[error("{1} neighbours {0}, but {2} are needed")]
    TooFew(&'static str, usize, u32),
    /// An input of the wrong length. Fields: how many there are; how many there must be.
    #[error("{0} values, but the configuration says {1}")]
    Length(usize, u32),
    /// Config with signatures, but no identity was given; or the other way round.
    #[error("the configuration and this device do not agree on signatures")]
    Identity,
}

/// A neighbour's two shares that this device holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldShares {
    pub(crate) client: ClientIndex,
    pub(crate) self_mask: Share,
    pub(crate) mask_key: Share,
}

impl HeldShares {
    /// Of a neighbour whose box does not open: zeros, which nobody is told.
    fn unopened(client: ClientIndex) -> Self {
        Self { client, self_mask: [0; 32], mask_key: [0; 32] }
    }

    fn is_opened(&self) -> bool {
        (self.self_mask, self.mask_key) != ([0; 32], [0; 32])
    }
}

/// One device in one round.
pub struct Device {
    pub(crate) config: Config,
    pub(crate) client: ClientIndex,
    pub(crate) seed: [u8; 32],
    pub(crate) identity: Option<Identity>,
    pub(crate) neighbours: Option<Neighbours>,
    pub(crate) held: Option<Vec<HeldShares>>,
    /// Digest of the input: a second input under the same masks would reveal the difference.
    pub(crate) input: Option<[u8; 32]>,
    /// The only list that this device answers.
    pub(crate) survivors: Option<Survivors>,
}

impl Device {
    /// A device in a round, with an identity if and only if the configuration asks for signatures. The seed must be
    /// secret and fresh for every round; all secrets are derived from it.
    pub fn new(config: Config, client: ClientIndex, seed: [u8; 32], identity: Option<Identity>) -> Result<Self> {
        config.check()?;
        if client >= config.devices {
            return Err(DeviceError::Client(client, config.devices));
        }
        if config.signed != identity.is_some() {
            return Err(DeviceError::Identity);
        }
        Ok(Self { config, client, seed, identity, neighbours: None, held: None, input: None, survivors: None })
    }

    /// The round's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn header(&self) -> Header {
        Header::new(&self.config, self.client)
    }

    fn check_recipient(&self, message: &impl Message) -> Result<()> {
        let (found, expected) = (message.header(), self.header());
        if found == expected { Ok(()) } else { Err(DeviceError::WrongRecipient(found, expected)) }
    }

    /// Step 1: its keys.
    pub fn advertise(&self) -> Advertise {
        let header = self.header();
        let (encryption, masks) = Secrets::new(self.seed).public();
        let mut keys = PublicKeys { encryption, masks, signed: None };
        keys.signed = self
            .identity
            .as_ref()
            .map(|own| (own.public(), own.sign(&keys::keys_text(&self.config, self.client, &keys))));
        Advertise { header, keys }
    }

    /// Step 2: checks its neighbours' keys and shares its secrets among them.
    pub fn share(&mut self, neighbours: &Neighbours) -> Result<Shares> {
        self.check_recipient(neighbours)?;
        if self.neighbours.as_ref().is_some_and(|before| before != neighbours) {
            return Err(DeviceError::Changed("the list of neighbours"));
        }
        let parameters = self.check_neighbours(neighbours)?;
        let shares = self.encrypt_shares(&parameters, &neighbours.peers)?;
        self.neighbours = Some(neighbours.clone());
        Ok(shares)
    }

    fn check_neighbours(&self, neighbours: &Neighbours) -> Result<Parameters> {
        let parameters = self.config.parameters(neighbours.devices)?;
        let (found, expected) = (neighbours.peers.len(), parameters.neighbours);
        if found != expected as usize {
            return Err(DeviceError::Neighbours(found, neighbours.devices, expected));
        }
        let own = self.advertise().keys;
        let mut seen = BTreeSet::from([own.encryption, own.masks]);
        let mut identities: BTreeSet<_> = own.signed.map(|(identity, _)| identity).into_iter().collect();
        let mut last = None;
        for (client, keys) in &neighbours.peers {
            if *client == self.client || *client >= self.config.devices || last.is_some_and(|last| last >= *client) {
                return Err(DeviceError::Unexpected(*client, "neighbours"));
            }
            last = Some(*client);
            if !seen.insert(keys.encryption) || !seen.insert(keys.masks) {
                return Err(DeviceError::Key(*client));
            }
            self.check_identity(*client, keys, &mut identities)?;
        }
        Ok(parameters)
    }

    /// Without identities, keys are taken as the server gives them.
    fn check_identity(&self, client: ClientIndex, keys: &PublicKeys, seen: &mut BTreeSet<IdentityKey>) -> Result<()> {
        let Some(own) = &self.identity else { return Ok(()) };
        let Some((identity, signature)) = keys.signed else { return Err(DeviceError::Unsigned(client)) };
        if !own.roster.contains(&identity) {
            return Err(DeviceError::Unknown(client, identity));
        }
        if !seen.insert(identity) {
            return Err(DeviceError::DuplicateIdentity(client));
        }
        let text = keys::keys_text(&self.config, client, keys);
        if signed(&identity, &text, &signature) { Ok(()) } else { Err(DeviceError::Unsigned(client)) }
    }

    fn encrypt_shares(&self, parameters: &Parameters, peers: &[(ClientIndex, PublicKeys)]) -> Result<Shares> {
        let (secrets, header) = (Secrets::new(self.seed), self.header());
        let (threshold, count) = (parameters.threshold as usize, peers.len());
        let split = |secret: &[u8; 32], which| {
            let wrong = DeviceError::TooFew("are there", count, parameters.threshold);
            shamir::split(secret, threshold, count, &mut secrets.polynomial(which)).ok_or(wrong)
        };
        let (self_masks, mask_keys) = (split(&secrets.self_mask, 0)?, split(secrets.masks.as_bytes(), 1)?);
        let encrypt = |((to, keys), shares): (&(ClientIndex, PublicKeys), (&Share, &Share))| {
            let encrypted =
                keys::encrypt(&self.config, &secrets.encryption, self.client, (*to, &keys.encryption), shares);
            encrypted.map(|encrypted| (*to, encrypted)).ok_or(DeviceError::Key(*to))
        };
        let encrypted = peers.iter().zip(self_masks.iter().zip(&mask_keys)).map(encrypt);
        let commitment = keys::commitment(&secrets.self_mask);
        Ok(Shares { header, commitment, encrypted: encrypted.collect::<Result<_, _>>()? })
    }

    /// Step 3: decrypts its neighbours' shares and masks its input with every neighbour that shared. Once a round: the
    /// same input gives the same message again, another is refused.
    pub fn mask(&mut self, received: &EncryptedShares, input: &[u32]) -> Result<Masked> {
        self.take_input(received, input, |device, held| {
            device.masked(held, input).map(|words| Masked { header: device.header(), words })
        })
    }

    /// The same as the message's bytes, with no other copy of the input: what [`mask`](Self::mask) gives, encoded.
    pub fn mask_message(&mut self, received: &EncryptedShares, input: &[u32]) -> Result<Arc<[u8]>> {
        self.take_input(received, input, |device, held| {
            let keys = device.mask_keys(held)?;
            let empty = Masked { header: device.header(), words: Vec::new() }.encode();
            // The message of no words ends with their number.
            let start = empty.len() - 4;
            let length = empty.len() + 4 * device.config.words();
            let mut message: Arc<[u8]> = std::iter::repeat_n(0, length).collect();
            if let Some(bytes) = Arc::get_mut(&mut message) {
                bytes[..start].copy_from_slice(&empty[..start]);
                bytes[start..][..4].copy_from_slice(&(device.config.words() as u32).to_le_bytes());
                write_masked(&keys, input, CHECK_WORD, &mut bytes[start + 4..]);
            }
            Ok(message)
        })
    }

    /// Checks an input and what came with it, and remembers both once the message is made.
    fn take_input<T>(
        &mut self,
        received: &EncryptedShares,
        input: &[u32],
        message: impl FnOnce(&Self, &[HeldShares]) -> Result<T>,
    ) -> Result<T> {
        self.check_recipient(received)?;
        if input.len() != self.config.length as usize {
            return Err(DeviceError::Length(input.len(), self.config.length));
        }
        let digest = digest(input);
        if self.input.is_some_and(|before| before != digest) {
            return Err(DeviceError::Changed("the input"));
        }
        let held = self.decrypt_shares(received)?;
        if self.held.as_ref().is_some_and(|before| *before != held) {
            return Err(DeviceError::Changed("the encrypted shares"));
        }
        let message = message(self, &held)?;
        (self.held, self.input) = (Some(held), Some(digest));
        Ok(message)
    }

    fn neighbourhood(&self, before: &'static str) -> Result<(&Neighbours, Parameters)> {
        let neighbours = self.neighbours.as_ref().ok_or(DeviceError::TooEarly(before))?;
        Ok((neighbours, self.config.parameters(neighbours.devices)?))
    }

    fn peer(&self, client: ClientIndex, list: &'static str) -> Result<&PublicKeys> {
        let peers = &self.neighbours.as_ref().ok_or(DeviceError::TooEarly(list))?.peers;
        let found = peers.binary_search_by_key(&client, |(peer, _)| *peer);
        found.map(|position| &peers[position].1).map_err(|_| DeviceError::Unexpected(client, list))
    }

    fn decrypt_shares(&self, received: &EncryptedShares) -> Result<Vec<HeldShares>> {
        let threshold = self.neighbourhood("the encrypted shares")?.1.threshold;
        let secrets = Secrets::new(self.seed);
        let decrypt = |&(client, ref encrypted): &(ClientIndex, [u8; keys::CIPHERTEXT])| {
            let from = (client, &self.peer(client, "encrypted shares")?.encryption);
            let shares = keys::decrypt(&self.config, &secrets.encryption, self.client, from, encrypted);
            // A sender that lies, or a server: neither may end the round, and nothing depends on this box but its
            // sender's chance to be counted.
            let opened = |(self_mask, mask_key)| HeldShares { client, self_mask, mask_key };
            Ok(shares.map_or_else(|| HeldShares::unopened(client), opened))
        };
        let held: Vec<HeldShares> = received.encrypted.iter().map(decrypt).collect::<Result<_>>()?;
        if let Some(twice) = held.windows(2).find(|pair| pair[0].client >= pair[1].client) {
            return Err(DeviceError::Unexpected(twice[1].client, "encrypted shares"));
        }
        let opened = held.iter().filter(|held| held.is_opened()).count();
        enough("sent shares that decrypt", opened, threshold)?;
        Ok(held)
    }

    /// The input and the check word, masked.
    pub(super) fn masked(&self, held: &[HeldShares], input: &[u32]) -> Result<Vec<u32>> {
        let mut words = Vec::with_capacity(self.config.words());
        words.extend_from_slice(input);
        words.push(CHECK_WORD);
        for (key, subtract) in self.mask_keys(held)? {
            add_keystream(&key, subtract, &mut words);
        }
        Ok(words)
    }

    /// The key of the self mask, then those of the masks shared with each neighbour, and whether it is subtracted: the
    /// lower index adds, the higher subtracts.
    pub(crate) fn mask_keys(&self, held: &[HeldShares]) -> Result<Vec<([u8; 32], bool)>> {
        let secrets = Secrets::new(self.seed);
        let pair = |held: &HeldShares| {
            let (peer, public) = (held.client, &self.peer(held.client, "encrypted shares")?.masks);
            let key = keys::pair_key(&self.config, (self.client, &secrets.masks), (peer, public));
            Ok((key.ok_or(DeviceError::Key(peer))?, self.client > peer))
        };
        let own = Ok((keys::self_mask_key(&self.config, self.client, &secrets.self_mask), false));
        std::iter::once(own).chain(held.iter().map(pair)).collect()
    }

    /// Step 4, where the configuration asks for signatures: signs that it counts in the neighbours whose inputs came.
    pub fn confirm(&mut self, survivors: &Survivors) -> Result<Confirm> {
        let Some(identity) = self.identity.clone() else { return Err(DeviceError::Identity) };
        self.accept(survivors)?;
        let text = |about| keys::included_text(&self.config, self.client, about);
        let sign = |&client: &ClientIndex| (client, identity.sign(&text(client)));
        Ok(Confirm { header: self.header(), signatures: survivors.survived.iter().map(sign).collect() })
    }

    /// The last step: one share of each neighbour whose box opened, of the self-mask seed if its input came, of the
    /// mask key if not. The list is stored and no other is ever answered, so never both for one neighbour.
    pub fn unmask(&mut self, survivors: &Survivors) -> Result<Unmask> {
        if self.identity.is_some() {
            return Err(DeviceError::Identity);
        }
        self.accept(survivors)?;
        self.reveal()
    }

    /// The last step after [`confirm`](Self::confirm): only when enough neighbours have signed that they count this
    /// device in.
    pub fn unmask_confirmed(&mut self, confirmed: &Confirmations) -> Result<Unmask> {
        self.check_recipient(confirmed)?;
        if self.identity.is_none() {
            return Err(DeviceError::Identity);
        }
        let survivors = self.survivors.as_ref().ok_or(DeviceError::TooEarly("the confirmations"))?;
        let text = |by| keys::included_text(&self.config, by, self.client);
        let valid = |(client, signature): &&(ClientIndex, [u8; 64])| {
            let by = self.peer(*client, "confirmations").ok().and_then(|keys| keys.signed);
            let among = survivors.survived.binary_search(client).is_ok();
            among && by.is_some_and(|(by, _)| signed(&by, &text(*client), signature))
        };
        let by: BTreeSet<ClientIndex> = confirmed.signatures.iter().filter(valid).map(|(client, _)| *client).collect();
        enough(
            "confirmed that they count this device in",
            by.len(),
            self.neighbourhood("the confirmations")?.1.threshold,
        )?;
        self.reveal()
    }

    /// Accepts the only list of survivors, if it agrees with what this device saw.
    fn accept(&mut self, survivors: &Survivors) -> Result<()> {
        self.check_recipient(survivors)?;
        let held = self.held.as_ref().ok_or(DeviceError::TooEarly("the list of survivors"))?;
        if self.survivors.as_ref().is_some_and(|before| before != survivors) {
            return Err(DeviceError::Changed("the list of survivors"));
        }
        let mut named: Vec<ClientIndex> = survivors.survived.iter().chain(&survivors.dropped).copied().collect();
        named.sort_unstable();
        let shared: Vec<ClientIndex> = held.iter().map(|held| held.client).collect();
        if named != shared || !survivors.survived.is_sorted() || !survivors.dropped.is_sorted() {
            return Err(DeviceError::Changed("who shared, by the list of survivors,"));
        }
        enough("survived", survivors.survived.len(), self.neighbourhood("the list of survivors")?.1.threshold)?;
        self.survivors = Some(survivors.clone());
        Ok(())
    }

    fn reveal(&self) -> Result<Unmask> {
        let (Some(held), Some(survivors)) = (&self.held, &self.survivors) else {
            return Err(DeviceError::TooEarly("unmasking"));
        };
        let one = |held: &HeldShares| {
            let survived = survivors.survived.binary_search(&held.client).is_ok();
            (
                held.client,
                if survived { RevealedShare::SelfMask(held.self_mask) } else { RevealedShare::MaskKey(held.mask_key) },
            )
        };
        let shares = held.iter().filter(|held| held.is_opened()).map(one).collect();
        Ok(Unmask { header: self.header(), shares })
    }
}

/// Without the secrets.
impl std::fmt::Debug for Device {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Device").field("header", &self.header()).finish_non_exhaustive()
    }
}

fn enough(what: &'static str, found: usize, threshold: u32) -> Result<()> {
    if found >= threshold as usize { Ok(()) } else { Err(DeviceError::TooFew(what, found, threshold)) }
}
