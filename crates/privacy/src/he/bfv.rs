//! BFV: exact sums of integers.
//!
//! A value `m` is encoded as `(q/t) m` under noise; with `n` clients, sums stay below `t/2` and their noise below
//! `q/(2t)`, or the parameters are refused. The noise of one fresh coefficient is `e u + e1 + e2 s` with all of them of
//! variance 10: its variance is `2 N 10^2 + 10`, and there is room for twelve standard deviations of the sum of `n` (a
//! probability below 2^-100 a coefficient that it is not enough, so that wrong decryptions, which would leak the key,
//! do not happen).

use super::rand09::Rand09;
use super::ring::{Ring, check_length};
use super::{HeError, security};
use crate::SecureRng;
use fhe::bfv::{BfvParameters, BfvParametersBuilder, Encoding, Plaintext};
use fhe_math::rq::{Poly, Representation};
use fhe_traits::{DeserializeParametrized, FheDecoder, FheDecrypter, FheEncoder, FheEncrypter, Serialize};
use std::sync::Arc;

pub use super::ring::Ciphertext;

/// Degrees and sizes of primes, cheapest first; each within the standard's table.
const SIZES: [(usize, &[usize]); 2] = [(2048, &[54]), (4096, &[54, 55])];
const DEVIATIONS: f64 = 12.0;

/// Parameters that all parties agree on.
#[derive(Clone, Debug)]
pub struct Parameters {
    inner: Arc<BfvParameters>,
    ring: Ring,
    range: u32,
}

impl AsRef<Ring> for Parameters {
    fn as_ref(&self) -> &Ring {
        &self.ring
    }
}

impl Parameters {
    /// The cheapest parameters for sums of so many vectors with values from `-range` to `range`.
    ///
    /// # Errors
    /// If there are none.
    pub fn choose(clients: u32, range: u32) -> Result<Self, HeError> {
        let why = "the sum and its noise exceed the largest modulus";
        let none = HeError::Headroom(clients, range.into(), why);
        if clients == 0 || range == 0 {
            return Err(HeError::Headroom(clients, range.into(), "both must be above 0"));
        }
        // Sums are from -clients * range to clients * range and must all differ modulo t.
        let sums = 2 * u128::from(clients) * u128::from(range) + 1;
        let plain = u64::try_from(sums.next_power_of_two()).ok().filter(|plain| *plain < 1 << 62);
        let fitting = |plain| SIZES.into_iter().find(|(degree, sizes)| fits(*degree, sizes, clients, plain));
        let (plain, (degree, sizes)) = plain.and_then(|plain| Some((plain, fitting(plain)?))).ok_or(none)?;
        let inner = BfvParametersBuilder::new()
            .set_degree(degree)
            .set_plaintext_modulus(plain)
            .set_moduli_sizes(sizes)
            .build_arc()?;
        let context = inner.context_at_level(0)?.clone();
        let others = [inner.plaintext(), clients.into(), range.into()];
        let ring = Ring::new("bfv", context, degree, clients, &others)?;
        Ok(Self { inner, ring, range })
    }
}

/// Whether sums of so many fit below a modulus of these sizes, each prime being at least half its size.
fn fits(degree: usize, sizes: &[usize], clients: u32, plain: u64) -> bool {
    let variance = security::VARIANCE as f64;
    let one = 2.0 * degree as f64 * variance * variance + variance;
    // Rounding q m / t is off by less than one for each client.
    let noise = DEVIATIONS * (one * f64::from(clients)).sqrt() + f64::from(clients);
    let modulus = sizes.iter().fold(1.0, |product, size| product * (1u64 << (size - 1)) as f64);
    modulus / (2.0 * plain as f64) > noise
}

/// The party that decrypts sums: never the server.
pub struct Decryptor {
    parameters: Parameters,
    seed: [u8; 32],
    secret: fhe::bfv::SecretKey,
}

impl Decryptor {
    /// A key from 32 secret bytes; the same bytes give the same key.
    pub fn new(parameters: &Parameters, seed: [u8; 32]) -> Self {
        let mut rng = SecureRng::new(seed).stream("bfv secret", 0);
        let secret = fhe::bfv::SecretKey::random(&parameters.inner, &mut Rand09(&mut rng));
        Self { parameters: parameters.clone(), seed, secret }
    }

    /// The key that devices encrypt with: `(e - a s, a)`.
    ///
    /// # Errors
    /// If the library cannot build it.
    pub fn public_key(&self) -> Result<PublicKey, HeError> {
        let (rng, context) = (SecureRng::new(self.seed), &self.parameters.ring.context);
        let small = |label: &str| {
            let mut errors = rng.stream(label, 0);
            Poly::small(context, Representation::Ntt, security::VARIANCE, &mut Rand09(&mut errors))
        };
        // The same draw as the secret key's own.
        let secret = small("bfv secret")?;
        let a = Poly::random_from_seed(context, Representation::Ntt, rng.stream("bfv public", 0).seed());
        let mut b = small("bfv error")?;
        b -= &(&a * &secret);
        PublicKey::new(&self.parameters, &[b, a])
    }

    /// The sum.
    ///
    /// # Errors
    /// If the ciphertext is of other parameters, or the sum of too many.
    pub fn decrypt(&self, ciphertext: &Ciphertext) -> Result<Vec<i64>, HeError> {
        ciphertext.check(&self.parameters.ring)?;
        let mut values = Vec::with_capacity(ciphertext.values());
        for pair in &ciphertext.parts {
            let plain = self.secret.try_decrypt(&library_ciphertext(&self.parameters, pair)?)?;
            values.extend(Vec::<i64>::try_decode(&plain, Encoding::poly())?);
        }
        values.truncate(ciphertext.values());
        Ok(values)
    }
}

fn library_ciphertext(parameters: &Parameters, pair: &[Poly; 2]) -> Result<fhe::bfv::Ciphertext, HeError> {
    Ok(fhe::bfv::Ciphertext::new(pair.to_vec(), &parameters.inner)?)
}

/// Without the key.
impl std::fmt::Debug for Decryptor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Decryptor").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

/// What devices encrypt with.
#[derive(Clone, Debug)]
pub struct PublicKey {
    parameters: Parameters,
    inner: fhe::bfv::PublicKey,
}

impl PublicKey {
    fn new(parameters: &Parameters, polynomials: &[Poly; 2]) -> Result<Self, HeError> {
        let pair = library_ciphertext(parameters, polynomials)?.to_bytes();
        // The library reads keys from its own bytes only: one protobuf field, number 1, that holds the pair.
        let mut bytes = vec![0x0A];
        let mut length = pair.len();
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend(pair);
        let inner = fhe::bfv::PublicKey::from_bytes(&bytes, &parameters.inner)?;
        Ok(Self { parameters: parameters.clone(), inner })
    }

    /// Encrypts a vector.
    ///
    /// # Errors
    /// If it is empty or too long, or a value is out of range.
    pub fn encrypt(&self, values: &[i64], rng: &mut SecureRng) -> Result<Ciphertext, HeError> {
        let range = self.parameters.range;
        if let Some(at) = values.iter().position(|value| value.unsigned_abs() > range.into()) {
            return Err(HeError::Value(at, values[at] as f64, range.into()));
        }
        check_length(values.len())?;
        let mut encrypt = |part: &[i64]| {
            let plain = Plaintext::try_encode(part, Encoding::poly(), &self.parameters.inner)?;
            let pair = self.inner.try_encrypt(&plain, &mut Rand09(rng))?;
            <[Poly; 2]>::try_from(pair.to_vec()).map_err(|_| HeError::ParameterMismatch)
        };
        let ring = &self.parameters.ring;
        let parts = values.chunks(ring.degree).map(&mut encrypt).collect::<Result<_, HeError>>()?;
        Ok(Ciphertext::new(ring, values.len(), parts))
    }
}
