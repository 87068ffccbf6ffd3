//! What both schemes have in common: the ring of polynomials, ciphertexts, and their strict encoding.

use super::{HeError, security};
use crate::SecureRng;
use crate::secagg::expect_byte;
use fhe_math::rq::traits::TryConvertFrom;
use fhe_math::rq::{Context, Poly, Representation};
use sha2::{Digest, Sha256};
use sottovoce_protocol::DecodeError;
use sottovoce_protocol::codec::Reader;
use std::sync::Arc;

/// The longest vector.
pub(crate) const MOST_VALUES: usize = 1 << 26;
/// The version of the encoding.
const VERSION: u8 = 1;
/// The kind of message, among those of this encoding.
const CIPHERTEXT: u8 = 2;
/// Bytes before the polynomials.
const HEAD: usize = 18;

/// The ring of a scheme's polynomials, and how many ciphertexts may be added in it.
#[derive(Clone, Debug)]
pub struct Ring {
    pub(crate) context: Arc<Context>,
    /// Coefficients of a polynomial.
    pub degree: usize,
    /// How many vectors may be added.
    pub clients: u32,
    /// Identifies scheme and parameters.
    fingerprint: [u8; 8],
}

impl Ring {
    /// Refuses rings with less than 128 bits of security.
    pub(crate) fn new(
        scheme: &str,
        context: Arc<Context>,
        degree: usize,
        clients: u32,
        others: &[u64],
    ) -> Result<Self, HeError> {
        let mut hash = Sha256::new_with_prefix(scheme);
        hash.update((degree as u64).to_le_bytes());
        for number in context.moduli().iter().chain(others) {
            hash.update(number.to_le_bytes());
        }
        let mut fingerprint = [0; 8];
        fingerprint.copy_from_slice(&hash.finalize()[..8]);
        let ring = Self { context, degree, clients, fingerprint };
        security::check(degree, ring.modulus_bits())?;
        Ok(ring)
    }

    /// Bits of the modulus.
    pub fn modulus_bits(&self) -> u32 {
        self.context.modulus().bits() as u32
    }

    /// Coefficients of -1, 0 and 1, equally likely.
    pub(crate) fn ternary(&self, rng: &mut SecureRng) -> Result<Poly, HeError> {
        let mut drawn = Vec::with_capacity(self.degree);
        while drawn.len() < self.degree {
            let mut bits = rng.next_u64();
            for _ in 0..32 {
                // Two bits at a time; 3 is rejected.
                if bits & 3 != 3 && drawn.len() < self.degree {
                    drawn.push((bits & 3) as i64 - 1);
                }
                bits >>= 2;
            }
        }
        let mut small = Poly::try_convert_from(drawn.as_slice(), &self.context, false, Representation::PowerBasis)?;
        small.change_representation(Representation::Ntt);
        Ok(small)
    }

    /// Number of values, number of vectors added, and two polynomials for every `degree` values; nothing after them.
    fn decode(&self, bytes: &[u8]) -> Result<(usize, u32, Vec<[Poly; 2]>), HeError> {
        let mut from = Reader::new(bytes);
        expect_byte(&mut from, "version", VERSION)?;
        expect_byte(&mut from, "kind", CIPHERTEXT)?;
        if from.array("parameters")? != self.fingerprint {
            return Err(HeError::ParameterMismatch);
        }
        let (at, values) = (from.at(), from.u32("values")? as usize);
        if values == 0 || values > MOST_VALUES {
            let (found, most) = (values as u64, MOST_VALUES as u64);
            return Err(DecodeError::Limit("values", at, found, most).into());
        }
        let added = from.u32("added")?;
        let pairs = values.div_ceil(self.degree);
        // All lengths are fixed, so nothing is allocated for what is not there.
        let lengths = self.context.moduli_operators().iter().map(|of| of.serialization_length(self.degree));
        let needed = (2 * pairs * lengths.sum::<usize>()) as u64;
        if from.left() as u64 != needed {
            let left = from.left();
            return Err(DecodeError::Truncated("polynomials", HEAD, needed, left).into());
        }
        let pair = |_| Ok([self.read_polynomial(&mut from)?, self.read_polynomial(&mut from)?]);
        Ok((values, added, (0..pairs).map(pair).collect::<Result<_, HeError>>()?))
    }

    fn read_polynomial(&self, from: &mut Reader<'_>) -> Result<Poly, HeError> {
        let mut coefficients = Vec::with_capacity(self.degree * self.context.moduli().len());
        for modulus in self.context.moduli_operators() {
            let (at, length) = (from.at(), modulus.serialization_length(self.degree));
            let row = modulus.deserialize_vec(from.bytes("coefficients", length as u64)?);
            if let Some(&found) = row.iter().find(|value| **value >= **modulus) {
                return Err(DecodeError::Limit("coefficient", at, found, **modulus - 1).into());
            }
            coefficients.extend(row.iter().take(self.degree));
        }
        Ok(Poly::try_convert_from(coefficients, &self.context, false, Representation::Ntt)?)
    }
}

/// One encrypted vector, or the sum of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Ciphertext {
    fingerprint: [u8; 8],
    values: usize,
    added: u32,
    pub(crate) parts: Vec<[Poly; 2]>,
}

impl Ciphertext {
    /// One vector of so many values, encrypted part by part.
    pub(crate) fn new(ring: &Ring, values: usize, parts: Vec<[Poly; 2]>) -> Self {
        Self { fingerprint: ring.fingerprint, values, added: 1, parts }
    }

    /// How many vectors it is the sum of.
    pub fn added(&self) -> u32 {
        self.added
    }

    /// How many values.
    pub fn values(&self) -> usize {
        self.values
    }

    /// That it was encrypted with these parameters, and is not the sum of more than they have room for.
    pub(crate) fn check(&self, ring: &Ring) -> Result<(), HeError> {
        match self.fingerprint == ring.fingerprint {
            true => has_room(self.added.into(), ring.clients),
            false => Err(HeError::ParameterMismatch),
        }
    }

    /// Adds another.
    ///
    /// # Errors
    /// If it does not fit, or there is no room for it; nothing is changed then.
    pub fn add(&mut self, other: &Self, parameters: &impl AsRef<Ring>) -> Result<(), HeError> {
        let ring = parameters.as_ref();
        self.check(ring)?;
        other.check(ring)?;
        if other.values != self.values {
            return Err(HeError::Length(other.values, self.values));
        }
        has_room(u64::from(self.added) + u64::from(other.added), ring.clients)?;
        self.added += other.added;
        for (sum, part) in self.parts.iter_mut().flatten().zip(other.parts.iter().flatten()) {
            *sum += part;
        }
        Ok(())
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, CIPHERTEXT];
        out.extend(self.fingerprint);
        out.extend((self.values as u32).to_le_bytes());
        out.extend(self.added.to_le_bytes());
        for polynomial in self.parts.iter().flatten() {
            let degree = polynomial.coefficients().ncols();
            let coefficients = Vec::<u64>::from(polynomial);
            for (row, modulus) in coefficients.chunks(degree).zip(polynomial.ctx().moduli_operators()) {
                out.extend(modulus.serialize_vec(row));
            }
        }
        out
    }

    /// From untrusted bytes.
    ///
    /// # Errors
    /// If they are not a ciphertext of these parameters.
    pub fn decode(bytes: &[u8], parameters: &impl AsRef<Ring>) -> Result<Self, HeError> {
        let ring = parameters.as_ref();
        let (values, added, parts) = ring.decode(bytes)?;
        let decoded = Self { added: added.max(1), ..Self::new(ring, values, parts) };
        decoded.check(ring)?;
        Ok(decoded)
    }
}

fn has_room(added: u64, clients: u32) -> Result<(), HeError> {
    if added > clients.into() { Err(HeError::TooMany(added, clients)) } else { Ok(()) }
}

/// That a vector can be encrypted.
pub(crate) fn check_length(values: usize) -> Result<(), HeError> {
    let fits = (1..=MOST_VALUES).contains(&values);
    if fits { Ok(()) } else { Err(HeError::Length(values, 1)) }
}
