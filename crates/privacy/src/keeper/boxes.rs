//! The device's half: a mask, and its seed sealed for the keeper.

use super::Config;
use super::messages::{SealedSeed, Upload};
use crate::SecureRng;
use crate::secagg::{CHECK_WORD, ClientIndex, Header, Identity, add_keystream};
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{ChaCha20Poly1305, KeyInit};
use hkdf::Hkdf;
use sha2::Sha256;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::{Zeroize, Zeroizing};

/// Bytes that are sealed: the seed and what its device's owner demands.
const PLAIN: usize = 32 + 4;
/// Bytes of a sealed seed: those and the authentication tag.
pub(super) const CIPHERTEXT: usize = PLAIN + 16;

/// Why a device does not seal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// An input of the wrong length. Fields: how many there are; how many there must be.
    #[error("{0} values, but the configuration says {1}")]
    Length(usize, u32),
    /// The keeper's key is a point of small order, with which anybody could read the seed.
    #[error("the keeper's public key is not a key")]
    Key,
    /// Configuration with signatures, but no identity was given.
    #[error("the keeper wants seeds signed, and this device has no identity")]
    Identity,
}

/// A seed as the keeper reads it.
pub(super) struct OpenedSeed {
    pub(super) seed: Zeroizing<[u8; 32]>,
    /// The fewest updates that its owner wants opened together.
    pub(super) least: u32,
}

/// Masks an input and seals the mask's seed for the keeper with this public key; for an owner who demands that no fewer
/// than `least` updates are opened together. The secret must be fresh for every attempt at a round.
///
/// # Errors
/// If the input does not fit, the keeper's key is none, or an identity is missing.
pub fn seal(
    config: &Config,
    keeper: &[u8; 32],
    (client, secret): (ClientIndex, [u8; 32]),
    least: u32,
    identity: Option<&Identity>,
    words: Vec<u32>,
) -> Result<Upload, SealError> {
    if words.len() != config.length as usize {
        return Err(SealError::Length(words.len(), config.length));
    }
    let identity = identity.filter(|_| config.signed);
    if config.signed && identity.is_none() {
        return Err(SealError::Identity);
    }
    let source = SecureRng::new(secret);
    let seed = Zeroizing::new(source.stream("keeper seed", 0).seed());
    let ephemeral = StaticSecret::from(source.stream("keeper box", 0).seed());
    let public = PublicKey::from(&ephemeral).to_bytes();
    let shared = ephemeral.diffie_hellman(&PublicKey::from(*keeper));
    if !shared.was_contributory() {
        return Err(SealError::Key);
    }
    let key = box_key(config, client, shared.as_bytes(), &public, keeper);
    let mut plain = Zeroizing::new([0; PLAIN]);
    plain[..32].copy_from_slice(&*seed);
    plain[32..].copy_from_slice(&least.to_le_bytes());
    let payload = Payload { msg: &plain[..], aad: &config.context("box", client) };
    // The key is used once, so the nonce may be zero.
    let sealed = ChaCha20Poly1305::new(&(*key).into()).encrypt(&[0; 12].into(), payload);
    let ciphertext = sealed.ok().and_then(|bytes| bytes.try_into().ok()).ok_or(SealError::Key)?;
    let mut sealed = SealedSeed { ephemeral: public, ciphertext, signed: None };
    sealed.signed = identity.map(|own| (own.public(), own.sign(&signed_text(config, client, &sealed))));
    let mut masked = Vec::with_capacity(config.words());
    masked.push(CHECK_WORD);
    masked.extend(words);
    add_keystream(&mask_key(config, client, &seed), false, &mut masked);
    let words = masked;
    Ok(Upload { header: Header { federation: config.federation, round: config.round, client }, sealed, words })
}

/// Opens a seed; `None` unless it was sealed for this keeper, round and index.
pub(super) fn open(
    config: &Config,
    client: ClientIndex,
    sealed: &SealedSeed,
    (secret, public): (&StaticSecret, &[u8; 32]),
) -> Option<OpenedSeed> {
    let shared = secret.diffie_hellman(&PublicKey::from(sealed.ephemeral));
    if !shared.was_contributory() {
        return None;
    }
    let key = box_key(config, client, shared.as_bytes(), &sealed.ephemeral, public);
    let payload = Payload { msg: &sealed.ciphertext, aad: &config.context("box", client) };
    let mut plain = ChaCha20Poly1305::new(&(*key).into()).decrypt(&[0; 12].into(), payload).ok()?;
    let opened = plain.split_first_chunk::<32>().and_then(|(seed, least)| {
        let least = u32::from_le_bytes(least.try_into().ok()?);
        Some(OpenedSeed { seed: Zeroizing::new(*seed), least })
    });
    plain.zeroize();
    opened
}

/// The key of a mask.
pub(super) fn mask_key(config: &Config, client: ClientIndex, seed: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    expand(seed, &config.context("mask", client))
}

fn box_key(
    config: &Config,
    client: ClientIndex,
    shared: &[u8; 32],
    ephemeral: &[u8; 32],
    keeper: &[u8; 32],
) -> Zeroizing<[u8; 32]> {
    let mut text = config.context("box", client);
    text.extend(ephemeral);
    text.extend(keeper);
    expand(shared, &text)
}

fn expand(secret: &[u8; 32], text: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    // HKDF fails only for outputs far longer than 32 bytes.
    let enough = Hkdf::<Sha256>::new(Some(b"sottovoce keeper 1"), secret).expand(text, &mut *key);
    debug_assert!(enough.is_ok());
    key
}

/// What an identity signs of a sealed seed.
pub(super) fn signed_text(config: &Config, client: ClientIndex, sealed: &SealedSeed) -> Vec<u8> {
    let mut text = config.context("sottovoce keeper seed", client);
    text.extend(sealed.ephemeral);
    text.extend(sealed.ciphertext);
    text
}
