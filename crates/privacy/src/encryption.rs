//! Encryption as a seal: devices share a key that the server does not have, encrypt their quantised updates with it,
//! and decrypt the sum.
//!
//! The key of each round is derived from 32 bytes that owners or operators give to devices past the server. Whoever has
//! them can decrypt what the server holds: one device that colludes with the server reveals single updates, which
//! secure aggregation prevents.

use crate::he::{Ciphertext, HeError, Ring, bfv, ckks};
use crate::quantize::RowLayout;
use crate::{Quantization, Scheme, SecureRng};
use sottovoce_protocol::RoundId;

/// By how much a decrypted sum may differ from an integer, in steps of the grid: less than a half, so that rounding is
/// exact.
const TOLERANCE: f64 = 0.45;
/// Bytes around the polynomials.
const OVERHEAD: u64 = 64;

/// The parameters of encrypted sums.
#[derive(Clone, Debug)]
pub struct SumEncryption {
    scheme: Parameters,
    /// The largest integer, as a signed number.
    most: i64,
    length: usize,
}

#[derive(Clone, Debug)]
enum Parameters {
    Bfv(bfv::Parameters),
    Ckks(ckks::Parameters),
}

impl AsRef<Ring> for SumEncryption {
    fn as_ref(&self) -> &Ring {
        match &self.scheme {
            Parameters::Bfv(parameters) => parameters.as_ref(),
            Parameters::Ckks(parameters) => parameters.as_ref(),
        }
    }
}

impl SumEncryption {
    /// For sums of updates of this length, on a grid of so many steps in 1, each device's values with noise of at most
    /// `noise_bound`.
    ///
    /// # Errors
    /// If there are no parameters with room for so many devices.
    pub(crate) fn new(
        scheme: Scheme,
        quantization: &Quantization,
        noise_bound: f64,
        steps: f64,
        length: usize,
    ) -> Result<Self, HeError> {
        let range = quantization.range.min(quantization.clip.unwrap_or(f32::MAX));
        let largest = (f64::from(range) + noise_bound) * steps;
        // Bucket headers use all 32 bits.
        let most = match quantization.rows {
            RowLayout::Dense | RowLayout::Table(_) => largest.ceil().clamp(1.0, f64::from(u32::MAX >> 1)) as i64,
            RowLayout::Buckets(_) => 1 << 31,
        };
        let clients = quantization.devices;
        let scheme = match scheme {
            Scheme::Bfv => Parameters::Bfv(bfv::Parameters::choose(clients, most as u32)?),
            Scheme::Ckks => {
                let published = length.max(1) as u64;
                Parameters::Ckks(ckks::Parameters::choose(clients, most as f64, TOLERANCE, published)?)
            }
        };
        Ok(Self { scheme, most, length })
    }

    /// Bytes of an encrypted update, at most.
    pub fn bytes(&self) -> u64 {
        let ring = self.as_ref();
        let polynomial = (ring.degree as u64 * u64::from(ring.modulus_bits() + 2)).div_ceil(8);
        OVERHEAD + 2 * self.length.div_ceil(ring.degree) as u64 * polynomial
    }

    fn round_key(key: &[u8; 32], round: RoundId) -> [u8; 32] {
        SecureRng::new(*key).stream("round", round.0).seed()
    }

    fn signed(&self, word: u32) -> i64 {
        i64::from(word as i32).clamp(-self.most, self.most)
    }

    /// Encrypts a device's quantised update.
    ///
    /// # Errors
    /// If it is of another length.
    pub fn seal(&self, key: &[u8; 32], round: RoundId, words: &[u32], rng: &mut SecureRng) -> Result<Vec<u8>, HeError> {
        if words.len() != self.length {
            return Err(HeError::Length(words.len(), self.length));
        }
        let key = Self::round_key(key, round);
        let encrypted = match &self.scheme {
            Parameters::Bfv(parameters) => {
                let values: Vec<i64> = words.iter().map(|&word| self.signed(word)).collect();
                bfv::Decryptor::new(parameters, key).public_key()?.encrypt(&values, rng)
            }
            Parameters::Ckks(parameters) => {
                let values: Vec<f64> = words.iter().map(|&word| self.signed(word) as f64).collect();
                ckks::Decryptor::new(parameters, key, 0)?.public_key()?.encrypt(&values, rng)
            }
        };
        Ok(encrypted?.encode())
    }

    /// Decrypts a sum to integers modulo 2^32.
    ///
    /// # Errors
    /// If it is not a sum of this round's updates.
    pub fn open(&self, key: &[u8; 32], round: RoundId, sum: &[u8], rng: &mut SecureRng) -> Result<Vec<u32>, HeError> {
        let (key, sum) = (Self::round_key(key, round), Ciphertext::decode(sum, self)?);
        Ok(match &self.scheme {
            Parameters::Bfv(parameters) => {
                let values = bfv::Decryptor::new(parameters, key).decrypt(&sum)?;
                values.into_iter().map(|value| value as u32).collect()
            }
            Parameters::Ckks(parameters) => {
                let values = ckks::Decryptor::new(parameters, key, 0)?.decrypt(&sum, rng)?;
                values.into_iter().map(|value| value.round() as i64 as u32).collect()
            }
        })
    }
}

impl PartialEq for SumEncryption {
    fn eq(&self, other: &Self) -> bool {
        let same = std::mem::discriminant(&self.scheme) == std::mem::discriminant(&other.scheme);
        same && (self.most, self.length) == (other.most, other.length)
    }
}

/// The server's half: a sum that it cannot decrypt.
#[derive(Clone, Debug)]
pub struct EncryptedSum {
    encryption: SumEncryption,
    sum: Option<Ciphertext>,
}

impl EncryptedSum {
    /// An empty sum.
    pub fn new(encryption: SumEncryption) -> Self {
        Self { encryption, sum: None }
    }

    fn decode(&self, bytes: &[u8]) -> Result<Ciphertext, HeError> {
        let update = Ciphertext::decode(bytes, &self.encryption)?;
        if update.values() != self.encryption.length {
            return Err(HeError::Length(update.values(), self.encryption.length));
        }
        match update.added() {
            1 => Ok(update),
            added => Err(HeError::TooMany(added.into(), 1)),
        }
    }

    /// That this can be a device's update.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn validate(&self, bytes: &[u8]) -> Result<(), HeError> {
        self.decode(bytes).map(|_| ())
    }

    /// Adds a device's update.
    ///
    /// # Errors
    /// If it is none, or there are more than there is room for; nothing is added then.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), HeError> {
        let update = self.decode(bytes)?;
        match &mut self.sum {
            Some(sum) => sum.add(&update, &self.encryption),
            None => {
                self.sum = Some(update);
                Ok(())
            }
        }
    }

    /// The sum for devices to decrypt; `None` if nothing was added.
    pub fn encode(&self) -> Option<Vec<u8>> {
        self.sum.as_ref().map(Ciphertext::encode)
    }

    /// Updates added.
    pub fn added(&self) -> u64 {
        self.sum.as_ref().map_or(0, |sum| sum.added().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(scheme: Scheme, rows: RowLayout, largest: i32) {
        let integers =
            Quantization { range: 8.0, clip: None, devices: 20, rows, packing: crate::quantize::Packing::Words };
        let lock = SumEncryption::new(scheme, &integers, 0.0, 100_000.0, 3000).unwrap();
        let (key, round, mut source) = ([5; 32], RoundId(3), SecureRng::new([6; 32]));
        let mut sum = EncryptedSum::new(lock.clone());
        let mut expected = vec![0u32; 3000];
        for device in 0..20 {
            let mut numbers = source.stream("words", device);
            let words: Vec<u32> = (0..3000)
                .map(|_| (numbers.next_u64() % (2 * largest as u64)) as i64 as u32)
                .map(|word| word.wrapping_sub(largest as u32))
                .collect();
            expected.iter_mut().zip(&words).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
            let bytes = lock.seal(&key, round, &words, &mut source).unwrap();
            assert!(bytes.len() as u64 <= lock.bytes(), "{} {}", bytes.len(), lock.bytes());
            sum.validate(&bytes).unwrap();
            sum.add(&bytes).unwrap();
        }
        let sealed = sum.encode().unwrap();
        assert_eq!(sum.added(), 20);
        assert_eq!(lock.open(&key, round, &sealed, &mut source).unwrap(), expected);
        // Another key decrypts to something else, and a sum is not accepted as an update.
        assert!(lock.open(&[7; 32], round, &sealed, &mut source).map_or(true, |opened| opened != expected));
        assert!(sum.add(&sealed).is_err());
    }

    #[test]
    fn sums_decrypt_exactly_with_either_scheme() {
        round_trip(Scheme::Bfv, RowLayout::Dense, 800_000);
        round_trip(Scheme::Ckks, RowLayout::Dense, 800_000);
        round_trip(Scheme::Bfv, RowLayout::Buckets(100), i32::MAX);
    }
}
