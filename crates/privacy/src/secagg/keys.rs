//! Keys of a device in one round, and what is derived from them with a peer's.

use super::shamir::Share;
use super::{ClientIndex, Config, PublicKeys};
use crate::SecureRng;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};
use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroize;

/// Bytes of two encrypted shares: their own and the authentication tag.
pub(crate) const CIPHERTEXT: usize = 64 + 16;

/// A device's secrets in a round, all derived from its seed.
pub(crate) struct Secrets {
    pub(crate) encryption: StaticSecret,
    pub(crate) masks: StaticSecret,
    /// The seed of the self mask.
    pub(crate) self_mask: [u8; 32],
    shares: [u8; 32],
}

/// The keys of both pairs wipe themselves.
impl Drop for Secrets {
    fn drop(&mut self) {
        self.self_mask.zeroize();
        self.shares.zeroize();
    }
}

impl Secrets {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        let source = SecureRng::new(seed);
        let secret = |label| source.stream(label, 0).seed();
        Self {
            encryption: secret("secagg boxes").into(),
            masks: secret("secagg masks").into(),
            self_mask: secret("secagg own mask"),
            shares: secret("secagg shares"),
        }
    }

    pub(crate) fn public(&self) -> ([u8; 32], [u8; 32]) {
        (PublicKey::from(&self.encryption).to_bytes(), PublicKey::from(&self.masks).to_bytes())
    }

    /// Randomness for the polynomials of the self-mask seed (0) and of the mask key (1).
    pub(crate) fn polynomial(&self, which: u64) -> SecureRng {
        SecureRng::new(self.shares).stream("secagg polynomial", which)
    }
}

/// By which a server checks a reconstructed self-mask seed.
pub(crate) fn commitment(self_mask: &[u8; 32]) -> [u8; 32] {
    Sha256::new_with_prefix(b"sottovoce secagg own mask").chain_update(self_mask).finalize().into()
}

/// Whether a public key is a point of small order, with which every secret gives the same result.
pub(crate) fn is_low_order(public: &[u8; 32]) -> bool {
    // Any scalar will do: as the protocol uses them, all are multiples of 8.
    !StaticSecret::from([1; 32]).diffie_hellman(&PublicKey::from(*public)).was_contributory()
}

/// The key of a pairwise mask, the same whichever of the two devices computes it. `None` for a public key of small
/// order, which gives the same secret with every other.
pub(crate) fn pair_key(
    config: &Config,
    own: (ClientIndex, &StaticSecret),
    peer: (ClientIndex, &[u8; 32]),
) -> Option<[u8; 32]> {
    let (low, high) = (own.0.min(peer.0), own.0.max(peer.0));
    derive(own.1, peer.1, "pair mask", config, low, high)
}

/// The key of a self mask.
pub(crate) fn self_mask_key(config: &Config, client: ClientIndex, seed: &[u8; 32]) -> [u8; 32] {
    expand(seed, "own mask", config, client, client)
}

/// Encrypts the two shares `from` one device `to` another. The key is used once, so the nonce may be zero.
pub(crate) fn encrypt(
    config: &Config,
    secret: &StaticSecret,
    from: ClientIndex,
    to: (ClientIndex, &[u8; 32]),
    shares: (&Share, &Share),
) -> Option<[u8; CIPHERTEXT]> {
    let key = derive(secret, to.1, "box", config, from, to.0)?;
    let plain = [*shares.0, *shares.1].concat();
    let payload = Payload { msg: &plain, aad: &context("box", config, from, to.0) };
    ChaCha20Poly1305::new(&key.into()).encrypt(&[0; 12].into(), payload).ok()?.try_into().ok()
}

/// Decrypts two shares; `None` unless that device encrypted them for this one in this round.
pub(crate) fn decrypt(
    config: &Config,
    secret: &StaticSecret,
    to: ClientIndex,
    from: (ClientIndex, &[u8; 32]),
    encrypted: &[u8; CIPHERTEXT],
) -> Option<(Share, Share)> {
    let key = derive(secret, from.1, "box", config, from.0, to)?;
    let payload = Payload { msg: encrypted, aad: &context("box", config, from.0, to) };
    let plain = ChaCha20Poly1305::new(&key.into()).decrypt(&[0; 12].into(), payload).ok()?;
    let (self_mask, mask_key) = plain.split_at_checked(32)?;
    Some((self_mask.try_into().ok()?, mask_key.try_into().ok()?))
}

fn derive(
    secret: &StaticSecret,
    public: &[u8; 32],
    purpose: &str,
    config: &Config,
    a: ClientIndex,
    b: ClientIndex,
) -> Option<[u8; 32]> {
    let shared = secret.diffie_hellman(&PublicKey::from(*public));
    shared.was_contributory().then(|| expand(shared.as_bytes(), purpose, config, a, b))
}

fn expand(secret: &[u8; 32], purpose: &str, config: &Config, a: ClientIndex, b: ClientIndex) -> [u8; 32] {
    let mut key = [0; 32];
    // HKDF fails only for outputs far longer than 32 bytes.
    let enough =
        Hkdf::<Sha256>::new(Some(b"sottovoce secagg 2"), secret).expand(&context(purpose, config, a, b), &mut key);
    debug_assert!(enough.is_ok());
    key
}

/// Binds a derived key or a signature to its purpose, round and devices, and to the terms and the model that the device
/// was told: what two devices derive from different ones does not cancel, and does not verify.
pub(crate) fn context(purpose: &str, config: &Config, a: ClientIndex, b: ClientIndex) -> Vec<u8> {
    let mut text = Vec::with_capacity(96);
    text.push(purpose.len() as u8);
    text.extend(purpose.as_bytes());
    text.extend(config.federation.0.to_le_bytes());
    text.extend(config.round.0.to_le_bytes());
    text.extend(config.binding);
    text.extend(a.to_le_bytes());
    text.extend(b.to_le_bytes());
    text
}

/// What an identity signs of a device's keys. It includes the configuration, so that devices that were told different
/// ones reject each other.
pub(crate) fn keys_text(config: &Config, client: ClientIndex, keys: &PublicKeys) -> Vec<u8> {
    let mut text = context("sottovoce secagg keys", config, client, client);
    config.write(&mut text);
    text.extend(keys.encryption);
    text.extend(keys.masks);
    text
}

/// What an identity signs of a neighbour whose input it counts in.
pub(crate) fn included_text(config: &Config, from: ClientIndex, about: ClientIndex) -> Vec<u8> {
    context("sottovoce secagg included", config, from, about)
}
