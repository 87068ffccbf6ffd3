//! Keys of a device in one round, and what is derived from them with a peer's.

use super::sharing::Share;
use super::{Header, PublicKeys, ClientIndex, Config};
use crate::SecureRng;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};
use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};

/// Bytes of a box: two shares and the tag of their cipher.
pub(crate) const BOX: usize = 64 + 16;

/// What a device keeps to itself in a round, all from its seed.
pub(crate) struct Secrets {
    pub(crate) boxes: StaticSecret,
    pub(crate) masks: StaticSecret,
    /// The seed of the mask that only this device adds.
    pub(crate) own: [u8; 32],
    shares: [u8; 32],
}

impl Secrets {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        let source = SecureRng::new(seed);
        let secret = |label| source.stream(label, 0).seed();
        Self {
            boxes: secret("secagg boxes").into(),
            masks: secret("secagg masks").into(),
            own: secret("secagg own mask"),
            shares: secret("secagg shares"),
        }
    }

    pub(crate) fn public(&self) -> ([u8; 32], [u8; 32]) {
        (PublicKey::from(&self.boxes).to_bytes(), PublicKey::from(&self.masks).to_bytes())
    }

    /// For the polynomials of the own mask's seed (0) and of the mask key (1).
    pub(crate) fn polynomial(&self, which: u64) -> SecureRng {
        SecureRng::new(self.shares).stream("secagg polynomial", which)
    }
}

/// By which a server trusts the seed again that shares gave it.
pub(crate) fn commitment(own: &[u8; 32]) -> [u8; 32] {
    Sha256::new_with_prefix(b"sottovoce secagg own mask").chain_update(own).finalize().into()
}

/// The key of the mask that two devices share: the same for both, whichever computes it. `None`: the public key is one that
/// gives the same secret with every other.
pub(crate) fn pair_key(header: &Header, own: (ClientIndex, &StaticSecret), peer: (ClientIndex, &[u8; 32])) -> Option<[u8; 32]> {
    let (low, high) = (own.0.min(peer.0), own.0.max(peer.0));
    derive(own.1, peer.1, "pair mask", header, low, high)
}

/// The key of the mask that only its owner adds.
pub(crate) fn own_key(header: &Header, client: ClientIndex, own: &[u8; 32]) -> [u8; 32] {
    expand(own, "own mask", header, client, client)
}

/// Seals the two shares `from` one device `to` another. The key serves for this one box, so its nonce may be zero.
pub(crate) fn seal(
    header: &Header,
    secret: &StaticSecret,
    from: ClientIndex,
    to: (ClientIndex, &[u8; 32]),
    shares: (&Share, &Share),
) -> Option<[u8; BOX]> {
    let key = derive(secret, to.1, "box", header, from, to.0)?;
    let plain = [*shares.0, *shares.1].concat();
    let payload = Payload { msg: &plain, aad: &about("box", header, from, to.0) };
    ChaCha20Poly1305::new(&key.into()).encrypt(&[0; 12].into(), payload).ok()?.try_into().ok()
}

/// Opens a box; `None` when it was not sealed by that device for this one in this round.
pub(crate) fn open(
    header: &Header,
    secret: &StaticSecret,
    to: ClientIndex,
    from: (ClientIndex, &[u8; 32]),
    sealed: &[u8; BOX],
) -> Option<(Share, Share)> {
    let key = derive(secret, from.1, "box", header, from.0, to)?;
    let payload = Payload { msg: sealed, aad: &about("box", header, from.0, to) };
    let plain = ChaCha20Poly1305::new(&key.into()).decrypt(&[0; 12].into(), payload).ok()?;
    let (own, mask) = plain.split_at_checked(32)?;
    Some((own.try_into().ok()?, mask.try_into().ok()?))
}

fn derive(
    secret: &StaticSecret,
    public: &[u8; 32],
    purpose: &str,
    header: &Header,
    a: ClientIndex,
    b: ClientIndex,
) -> Option<[u8; 32]> {
    let shared = secret.diffie_hellman(&PublicKey::from(*public));
    shared.was_contributory().then(|| expand(shared.as_bytes(), purpose, header, a, b))
}

fn expand(secret: &[u8; 32], purpose: &str, header: &Header, a: ClientIndex, b: ClientIndex) -> [u8; 32] {
    let mut key = [0; 32];
    // 32 bytes are far below what HKDF can give, the only error there is.
    let enough = Hkdf::<Sha256>::new(Some(b"sottovoce secagg 1"), secret)
        .expand(&about(purpose, header, a, b), &mut key);
    debug_assert!(enough.is_ok());
    key
}

/// What binds a derived key to its purpose, round and devices.
pub(crate) fn about(purpose: &str, header: &Header, a: ClientIndex, b: ClientIndex) -> Vec<u8> {
    let mut text = Vec::with_capacity(64);
    text.push(purpose.len() as u8);
    text.extend(purpose.as_bytes());
    text.extend(header.federation.0.to_le_bytes());
    text.extend(header.round.0.to_le_bytes());
    text.extend(a.to_le_bytes());
    text.extend(b.to_le_bytes());
    text
}

/// What an identity signs of a device's keys: also the terms, so that devices that were told others do not meet.
pub(crate) fn keys_text(terms: &Config, client: ClientIndex, keys: &PublicKeys) -> Vec<u8> {
    let mut text = about("sottovoce secagg keys", &Header::new(terms, client), client, client);
    terms.write(&mut text);
    text.extend(keys.boxes);
    text.extend(keys.masks);
    text
}

/// What an identity signs of a neighbour whose input it counts as in.
pub(crate) fn included_text(header: &Header, from: ClientIndex, about_whom: ClientIndex) -> Vec<u8> {
    about("sottovoce secagg included", header, from, about_whom)
}
