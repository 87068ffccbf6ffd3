//! What both schemes do with polynomials: draw small ones, write them as bytes, read them strictly.

use super::HeError;
use crate::SecureRng;
use crate::secagg::{Malformed, Reader};
use fhe_math::rq::traits::TryConvertFrom;
use fhe_math::rq::{Context, Poly, Representation};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The most values of a vector.
pub(crate) const MOST_VALUES: usize = 1 << 26;

/// Bits of the product of a context's primes.
pub(crate) fn modulus_bits(context: &Context) -> u32 {
    context.modulus().bits() as u32
}

/// Coefficients of -1, 0 and 1, each as likely.
pub(crate) fn ternary(
    context: &Arc<Context>,
    degree: usize,
    source: &mut SecureRng,
) -> Result<Poly, HeError> {
    let mut drawn = Vec::with_capacity(degree);
    while drawn.len() < degree {
        let mut bits = source.next_u64();
        for _ in 0..32 {
            // Two bits at a time; 3 is none of the three.
            if bits & 3 != 3 && drawn.len() < degree {
                drawn.push((bits & 3) as i64 - 1);
            }
            bits >>= 2;
        }
    }
    let mut small = Poly::try_convert_from(drawn.as_slice(), context, false, Representation::PowerBasis)?;
    small.change_representation(Representation::Ntt);
    Ok(small)
}

/// 8 bytes by which parameters are known again.
pub(crate) fn fingerprint(scheme: &str, context: &Context, degree: usize, others: &[u64]) -> [u8; 8] {
    let mut hash = Sha256::new_with_prefix(scheme);
    hash.update((degree as u64).to_le_bytes());
    for number in context.moduli().iter().chain(others) {
        hash.update(number.to_le_bytes());
    }
    let mut found = [0; 8];
    found.copy_from_slice(&hash.finalize()[..8]);
    found
}

/// What is known of a sealed vector without opening it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Label {
    /// Of the parameters it is sealed with.
    pub(crate) fingerprint: [u8; 8],
    /// Its length.
    pub(crate) values: usize,
    /// How many vectors it is the sum of.
    pub(crate) added: u32,
}

impl Label {
    /// That it is sealed with these parameters, and not the sum of more than they have room for.
    pub(crate) fn check(&self, fingerprint: [u8; 8], clients: u32) -> Result<(), HeError> {
        if self.fingerprint != fingerprint {
            return Err(HeError::ParameterMismatch);
        }
        has_room(self.added.into(), clients)
    }

    /// Of the sum with another vector, if there is room for it. Nothing is changed otherwise.
    pub(crate) fn add(&mut self, other: &Self, fingerprint: [u8; 8], clients: u32) -> Result<(), HeError> {
        self.check(fingerprint, clients)?;
        other.check(fingerprint, clients)?;
        if other.values != self.values {
            return Err(HeError::Length { found: other.values, expected: self.values });
        }
        has_room(u64::from(self.added) + u64::from(other.added), clients)?;
        self.added += other.added;
        Ok(())
    }
}

fn has_room(added: u64, clients: u32) -> Result<(), HeError> {
    if added > clients.into() { Err(HeError::TooMany { added, clients }) } else { Ok(()) }
}

/// What stands in bytes.
pub(crate) struct Body {
    pub(crate) label: Label,
    pub(crate) polynomials: Vec<Poly>,
}

/// What a byte string holds.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    PublicKey = 1,
    Ciphertext = 2,
}

pub(crate) fn write(kind: Kind, label: &Label, polynomials: &[&Poly]) -> Vec<u8> {
    let mut out = vec![1, kind as u8];
    out.extend(label.fingerprint);
    out.extend((label.values as u32).to_le_bytes());
    out.extend(label.added.to_le_bytes());
    for polynomial in polynomials {
        let degree = polynomial.coefficients().ncols();
        let coefficients = Vec::<u64>::from(*polynomial);
        for (row, modulus) in coefficients.chunks(degree).zip(polynomial.ctx().moduli_operators()) {
            out.extend(modulus.serialize_vec(row));
        }
    }
    out
}

/// Two polynomials for every `degree` values, and nothing after them.
pub(crate) fn read(
    kind: Kind,
    fingerprint: [u8; 8],
    context: &Arc<Context>,
    degree: usize,
    bytes: &[u8],
) -> Result<Body, HeError> {
    let mut from = Reader::new(bytes);
    let (form, found) = (from.u8("form")?, from.u8("kind")?);
    if form != 1 || found != kind as u8 {
        return Err(from
            .wrong("form and kind", u64::from(form) * 256 + u64::from(found), "those of what is read")
            .into());
    }
    if from.array("parameters")? != fingerprint {
        return Err(HeError::ParameterMismatch);
    }
    let values = from.u32("values")? as usize;
    if values == 0 || values > MOST_VALUES {
        return Err(from.wrong("values", values as u64, "1 to 2^26").into());
    }
    let added = from.u32("added")?;
    let count = 2 * values.div_ceil(degree);
    // All lengths are fixed, so nothing is allocated for what is not there.
    let length: usize =
        context.moduli_operators().iter().map(|modulus| modulus.serialization_length(degree)).sum();
    if from.left() != count * length {
        return Err(Malformed::Truncated {
            field: "polynomials",
            at: 18,
            needed: count * length,
            left: from.left(),
        }
        .into());
    }
    let polynomials = (0..count).map(|_| read_one(&mut from, context, degree)).collect::<Result<_, _>>()?;
    from.end()?;
    Ok(Body { label: Label { fingerprint, values, added }, polynomials })
}

fn read_one(from: &mut Reader<'_>, context: &Arc<Context>, degree: usize) -> Result<Poly, HeError> {
    let mut coefficients = Vec::with_capacity(degree * context.moduli().len());
    for modulus in context.moduli_operators() {
        let row = modulus.deserialize_vec(from.bytes("coefficients", modulus.serialization_length(degree))?);
        if let Some(large) = row.iter().find(|value| **value >= **modulus) {
            return Err(from.wrong("coefficient", *large, "below its modulus").into());
        }
        coefficients.extend(row.iter().take(degree));
    }
    Ok(Poly::try_convert_from(coefficients, context, false, Representation::Ntt)?)
}
