//! Encryption as a seal: devices share a key that the server does not have, encrypt their words with it, and open the sum.
//!
//! The key of each round follows from 32 bytes that owners or operators give to devices past the server. Who has them can
//! open what the server holds: one device that works with the server gives single updates away, which secure aggregation
//! resists.

use crate::he::{HeError, bfv, ckks};
use crate::quantize::RowLayout;
use crate::{SecureRng, Quantization, Scheme};
use sottovoce_protocol::RoundId;

/// How far an opened sum may be from a whole number, in steps of the grid: less than a half, so that it is known.
const TOLERANCE: f64 = 0.45;
/// Bytes around a ciphertext.
const FRAME: u64 = 64;

/// What is agreed on before anybody encrypts.
#[derive(Clone, Debug)]
pub struct SumEncryption {
    scheme: Parameters,
    /// The largest word, as a signed number.
    most: i64,
    length: usize,
}

#[derive(Clone, Debug)]
enum Parameters {
    Bfv(bfv::Parameters),
    Ckks(ckks::Parameters),
}

impl SumEncryption {
    /// For sums of words of this length, on a grid of so many steps in one, each device's values with noise that
    /// goes so far.
    ///
    /// # Errors
    /// If there are no parameters with room for so many devices.
    pub(crate) fn new(
        scheme: Scheme,
        integers: &Quantization,
        reach: f64,
        steps: f64,
        length: usize,
    ) -> Result<Self, HeError> {
        let largest = (f64::from(integers.range.min(integers.clip.unwrap_or(f32::MAX))) + reach) * steps;
        // Heads of cells use all of a word.
        let most = match integers.rows {
            RowLayout::Dense => largest.ceil().clamp(1.0, f64::from(u32::MAX >> 1)) as i64,
            RowLayout::Buckets(_) => 1 << 31,
        };
        let clients = integers.devices;
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
        let (degree, bits) = match &self.scheme {
            Parameters::Bfv(parameters) => (parameters.degree(), parameters.modulus_bits()),
            Parameters::Ckks(parameters) => (parameters.degree(), parameters.modulus_bits()),
        };
        let polynomial = (degree as u64 * u64::from(bits + 2)).div_ceil(8);
        FRAME + 2 * self.length.div_ceil(degree) as u64 * polynomial
    }

    fn key(key: &[u8; 32], round: RoundId) -> [u8; 32] {
        SecureRng::new(*key).stream("round", round.0).seed()
    }

    fn signed(&self, word: u32) -> i64 {
        i64::from(word as i32).clamp(-self.most, self.most)
    }

    /// Encrypts a device's words.
    ///
    /// # Errors
    /// If they are of another length.
    pub fn seal(
        &self,
        key: &[u8; 32],
        round: RoundId,
        words: &[u32],
        generator: &mut SecureRng,
    ) -> Result<Vec<u8>, HeError> {
        if words.len() != self.length {
            return Err(HeError::Length { found: words.len(), expected: self.length });
        }
        let key = Self::key(key, round);
        match &self.scheme {
            Parameters::Bfv(parameters) => {
                let values: Vec<i64> = words.iter().map(|&word| self.signed(word)).collect();
                let public = bfv::Decryptor::new(parameters, key).public_key()?;
                Ok(public.seal(&values, generator)?.encode())
            }
            Parameters::Ckks(parameters) => {
                let values: Vec<f64> = words.iter().map(|&word| self.signed(word) as f64).collect();
                let public = ckks::Decryptor::new(parameters, key, 0)?.public_key()?;
                Ok(public.seal(&values, generator)?.encode())
            }
        }
    }

    /// Opens a sum to words modulo 2^32.
    ///
    /// # Errors
    /// If it is not a sum of this round's updates.
    pub fn open(
        &self,
        key: &[u8; 32],
        round: RoundId,
        sum: &[u8],
        generator: &mut SecureRng,
    ) -> Result<Vec<u32>, HeError> {
        let key = Self::key(key, round);
        match &self.scheme {
            Parameters::Bfv(parameters) => {
                let sum = bfv::Ciphertext::decode(sum, parameters)?;
                let opened = bfv::Decryptor::new(parameters, key).open(&sum)?;
                Ok(opened.into_iter().map(|value| value as u32).collect())
            }
            Parameters::Ckks(parameters) => {
                let sum = ckks::Ciphertext::decode(sum, parameters)?;
                let opened = ckks::Decryptor::new(parameters, key, 0)?.open(&sum, generator)?;
                Ok(opened.into_iter().map(|value| value.round() as i64 as u32).collect())
            }
        }
    }
}

impl PartialEq for SumEncryption {
    fn eq(&self, other: &Self) -> bool {
        let same = std::mem::discriminant(&self.scheme) == std::mem::discriminant(&other.scheme);
        same && (self.most, self.length) == (other.most, other.length)
    }
}

/// A digest of a key, by which devices see that they have the federation's; it says nothing else of the key.
pub fn key_digest(key: &[u8; 32]) -> String {
    let digest = SecureRng::new(*key).stream("digest", 0).seed();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The server's half: a sum that it cannot open.
#[derive(Clone, Debug)]
pub struct EncryptedSum {
    encryption: SumEncryption,
    sum: Option<Ciphertext>,
}

#[derive(Clone, Debug)]
enum Ciphertext {
    Bfv(bfv::Ciphertext),
    Ckks(ckks::Ciphertext),
}

impl EncryptedSum {
    /// Nothing yet.
    pub fn new(encryption: SumEncryption) -> Self {
        Self { encryption: encryption, sum: None }
    }

    fn decode(&self, bytes: &[u8]) -> Result<Ciphertext, HeError> {
        let sealed = match &self.encryption.scheme {
            Parameters::Bfv(parameters) => Ciphertext::Bfv(bfv::Ciphertext::decode(bytes, parameters)?),
            Parameters::Ckks(parameters) => Ciphertext::Ckks(ckks::Ciphertext::decode(bytes, parameters)?),
        };
        let (found, added) = match &sealed {
            Ciphertext::Bfv(sealed) => (sealed.values(), sealed.added()),
            Ciphertext::Ckks(sealed) => (sealed.values(), sealed.added()),
        };
        let clients = 1;
        match (found == self.encryption.length, added == 1) {
            (true, true) => Ok(sealed),
            (false, _) => Err(HeError::Length { found, expected: self.encryption.length }),
            (true, false) => Err(HeError::TooMany { added: added.into(), clients }),
        }
    }

    /// Whether this can be a device's update.
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
        let next = self.decode(bytes)?;
        match (&mut self.sum, next, &self.encryption.scheme) {
            (None, next, _) => self.sum = Some(next),
            (Some(Ciphertext::Bfv(sum)), Ciphertext::Bfv(next), Parameters::Bfv(parameters)) => {
                sum.add(&next, parameters)?;
            }
            (Some(Ciphertext::Ckks(sum)), Ciphertext::Ckks(next), Parameters::Ckks(parameters)) => {
                sum.add(&next, parameters)?;
            }
            _ => return Err(HeError::ParameterMismatch),
        }
        Ok(())
    }

    /// The sum for devices to open; `None` if nothing was added.
    pub fn encode(&self) -> Option<Vec<u8>> {
        self.sum.as_ref().map(|sum| match sum {
            Ciphertext::Bfv(sum) => sum.encode(),
            Ciphertext::Ckks(sum) => sum.encode(),
        })
    }

    /// Updates added.
    pub fn added(&self) -> u64 {
        self.sum.as_ref().map_or(0, |sum| match sum {
            Ciphertext::Bfv(sum) => sum.added().into(),
            Ciphertext::Ckks(sum) => sum.added().into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(scheme: Scheme, rows: RowLayout, largest: i32) {
        let integers = Quantization { range: 8.0, clip: None, devices: 20, rows };
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
        // Another key opens to something else, and a sum is no update.
        assert!(lock.open(&[7; 32], round, &sealed, &mut source).map_or(true, |opened| opened != expected));
        assert!(sum.add(&sealed).is_err());
    }

    #[test]
    fn sums_open_exactly_with_either_scheme() {
        round_trip(Scheme::Bfv, RowLayout::Dense, 800_000);
        round_trip(Scheme::Ckks, RowLayout::Dense, 800_000);
        round_trip(Scheme::Bfv, RowLayout::Buckets(100), i32::MAX);
    }

    #[test]
    fn digests_tell_keys_apart() {
        assert_eq!(key_digest(&[1; 32]).len(), 64);
        assert_ne!(key_digest(&[1; 32]), key_digest(&[2; 32]));
    }
}
