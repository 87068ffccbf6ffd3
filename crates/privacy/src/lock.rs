//! Encryption as a seal: devices share a key that the server does not have, encrypt their words with it, and open the sum.
//!
//! The key of each round follows from 32 bytes that owners or operators give to devices past the server. Who has them can
//! open what the server holds: one device that works with the server gives single updates away, which secure aggregation
//! resists.

use crate::he::{HeError, bfv, ckks};
use crate::packing::RowsAs;
use crate::{Generator, Integers, Scheme};
use sottovoce_protocol::RoundId;

/// How far an opened sum may be from a whole number, in steps of the grid: less than a half, so that it is known.
const TOLERANCE: f64 = 0.45;
/// Bytes around a ciphertext.
const FRAME: u64 = 64;

/// What is agreed on before anybody encrypts.
#[derive(Clone, Debug)]
pub struct Lock {
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

impl Lock {
    /// For sums of words of this length, on a grid of so many steps in one, each device's values with noise that
    /// goes so far.
    ///
    /// # Errors
    /// If there are no parameters with room for so many devices.
    pub(crate) fn new(
        scheme: Scheme,
        integers: &Integers,
        reach: f64,
        steps: f64,
        length: usize,
    ) -> Result<Self, HeError> {
        let largest = (f64::from(integers.range.min(integers.clip.unwrap_or(f32::MAX))) + reach) * steps;
        // Heads of cells use all of a word.
        let most = match integers.rows {
            RowsAs::Dense => largest.ceil().clamp(1.0, f64::from(u32::MAX >> 1)) as i64,
            RowsAs::Buckets(_) => 1 << 31,
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
        Generator::new(*key).stream("round", round.0).seed()
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
        generator: &mut Generator,
    ) -> Result<Vec<u8>, HeError> {
        if words.len() != self.length {
            return Err(HeError::Length { found: words.len(), expected: self.length });
        }
        let key = Self::key(key, round);
        match &self.scheme {
            Parameters::Bfv(parameters) => {
                let values: Vec<i64> = words.iter().map(|&word| self.signed(word)).collect();
                let public = bfv::Keeper::new(parameters, key).public_key()?;
                Ok(public.seal(&values, generator)?.encode())
            }
            Parameters::Ckks(parameters) => {
                let values: Vec<f64> = words.iter().map(|&word| self.signed(word) as f64).collect();
                let public = ckks::Keeper::new(parameters, key, 0)?.public_key()?;
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
        generator: &mut Generator,
    ) -> Result<Vec<u32>, HeError> {
        let key = Self::key(key, round);
        match &self.scheme {
            Parameters::Bfv(parameters) => {
                let sum = bfv::Sealed::decode(sum, parameters)?;
                let opened = bfv::Keeper::new(parameters, key).open(&sum)?;
                Ok(opened.into_iter().map(|value| value as u32).collect())
            }
            Parameters::Ckks(parameters) => {
                let sum = ckks::Sealed::decode(sum, parameters)?;
                let opened = ckks::Keeper::new(parameters, key, 0)?.open(&sum, generator)?;
                Ok(opened.into_iter().map(|value| value.round() as i64 as u32).collect())
            }
        }
    }
}

impl PartialEq for Lock {
    fn eq(&self, other: &Self) -> bool {
        let same = std::mem::discriminant(&self.scheme) == std::mem::discriminant(&other.scheme);
        same && (self.most, self.length) == (other.most, other.length)
    }
}

/// The server's half: a sum that it cannot open.
#[derive(Clone, Debug)]
pub struct LockedSum {
    lock: Lock,
    sum: Option<Sealed>,
}

#[derive(Clone, Debug)]
enum Sealed {
    Bfv(bfv::Sealed),
    Ckks(ckks::Sealed),
}

impl LockedSum {
    /// Nothing yet.
    pub fn new(lock: Lock) -> Self {
        Self { lock, sum: None }
    }

    fn decode(&self, bytes: &[u8]) -> Result<Sealed, HeError> {
        let sealed = match &self.lock.scheme {
            Parameters::Bfv(parameters) => Sealed::Bfv(bfv::Sealed::decode(bytes, parameters)?),
            Parameters::Ckks(parameters) => Sealed::Ckks(ckks::Sealed::decode(bytes, parameters)?),
        };
        let (found, added) = match &sealed {
            Sealed::Bfv(sealed) => (sealed.values(), sealed.added()),
            Sealed::Ckks(sealed) => (sealed.values(), sealed.added()),
        };
        let clients = 1;
        match (found == self.lock.length, added == 1) {
            (true, true) => Ok(sealed),
            (false, _) => Err(HeError::Length { found, expected: self.lock.length }),
            (true, false) => Err(HeError::TooMany { added: added.into(), clients }),
        }
    }

    /// Whether this can be a device's update.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn look_at(&self, bytes: &[u8]) -> Result<(), HeError> {
        self.decode(bytes).map(|_| ())
    }

    /// Adds a device's update.
    ///
    /// # Errors
    /// If it is none, or there are more than there is room for; nothing is added then.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), HeError> {
        let next = self.decode(bytes)?;
        match (&mut self.sum, next, &self.lock.scheme) {
            (None, next, _) => self.sum = Some(next),
            (Some(Sealed::Bfv(sum)), Sealed::Bfv(next), Parameters::Bfv(parameters)) => {
                sum.add(&next, parameters)?;
            }
            (Some(Sealed::Ckks(sum)), Sealed::Ckks(next), Parameters::Ckks(parameters)) => {
                sum.add(&next, parameters)?;
            }
            _ => return Err(HeError::Foreign),
        }
        Ok(())
    }

    /// The sum for devices to open; `None` if nothing was added.
    pub fn encode(&self) -> Option<Vec<u8>> {
        self.sum.as_ref().map(|sum| match sum {
            Sealed::Bfv(sum) => sum.encode(),
            Sealed::Ckks(sum) => sum.encode(),
        })
    }

    /// Updates added.
    pub fn added(&self) -> u64 {
        self.sum.as_ref().map_or(0, |sum| match sum {
            Sealed::Bfv(sum) => sum.added().into(),
            Sealed::Ckks(sum) => sum.added().into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(scheme: Scheme, rows: RowsAs, largest: i32) {
        let integers = Integers { range: 8.0, clip: None, devices: 20, rows };
        let lock = Lock::new(scheme, &integers, 0.0, 100_000.0, 3000).unwrap();
        let (key, round, mut source) = ([5; 32], RoundId(3), Generator::new([6; 32]));
        let mut sum = LockedSum::new(lock.clone());
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
            sum.look_at(&bytes).unwrap();
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
        round_trip(Scheme::Bfv, RowsAs::Dense, 800_000);
        round_trip(Scheme::Ckks, RowsAs::Dense, 800_000);
        round_trip(Scheme::Bfv, RowsAs::Buckets(100), i32::MAX);
    }
}
