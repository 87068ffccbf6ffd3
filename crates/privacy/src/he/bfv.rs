//! BFV: sums of whole numbers, exact.
//!
//! A value `m` is hidden as `(q/t) m` under noise; with `n` clients, sums stay below `t/2` and their noise below `q/(2t)`, or the
//! parameters are refused. The noise of one sealed coefficient is `e u + e1 + e2 s` with all of them of variance 10: its variance is
//! `2 N 10^2 + 10`, and twelve standard deviations of the sum of `n` are left for it (a chance below 2^-100 a coefficient
//! that it is not enough, so that wrong openings, which would speak of the key, do not happen).

use super::entropy::Entropy;
use super::ring::{self, Kind, Label};
use super::{HeError, security};
use crate::SecureRng;
use fhe::bfv::{BfvParameters, BfvParametersBuilder, Ciphertext as PolynomialPair, Encoding, Plaintext};
use fhe_math::rq::{Context, Poly, Representation};
use fhe_traits::{DeserializeParametrized, FheDecoder, FheDecrypter, FheEncoder, FheEncrypter, Serialize};
use std::sync::Arc;

/// Degrees and sizes of primes, cheapest first; each within the standard's table.
const SIZES: [(usize, &[usize]); 2] = [(2048, &[54]), (4096, &[54, 55])];
const DEVIATIONS: f64 = 12.0;

/// What is agreed on before anybody seals.
#[derive(Clone, Debug)]
pub struct Parameters {
    inner: Arc<BfvParameters>,
    context: Arc<Context>,
    clients: u32,
    range: u32,
}

impl Parameters {
    /// The cheapest parameters for sums of so many vectors with values from `-range` to `range`.
    pub fn choose(clients: u32, range: u32) -> Result<Self, HeError> {
        let why = "the sum and its noise exceed the largest modulus";
        let none = HeError::Headroom { clients, range: range.into(), why };
        if clients == 0 || range == 0 {
            return Err(HeError::Headroom { clients, range: range.into(), why: "both must be above 0" });
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
        security::check(degree, ring::modulus_bits(&context))?;
        Ok(Self { inner, context, clients, range })
    }

    /// Coefficients of a polynomial.
    pub fn degree(&self) -> usize {
        self.inner.degree()
    }

    /// Bits of the modulus.
    pub fn modulus_bits(&self) -> u32 {
        ring::modulus_bits(&self.context)
    }

    /// Sums are modulo this.
    pub fn plain_modulus(&self) -> u64 {
        self.inner.plaintext()
    }

    /// How many vectors may be added.
    pub fn clients(&self) -> u32 {
        self.clients
    }

    /// The largest value, either way.
    pub fn range(&self) -> u32 {
        self.range
    }

    fn fingerprint(&self) -> [u8; 8] {
        let others = [self.plain_modulus(), self.clients.into(), self.range.into()];
        ring::fingerprint("bfv", &self.context, self.degree(), &others)
    }
}

/// Whether sums of so many fit below a modulus of these sizes, of whose every prime at least half is there.
fn fits(degree: usize, sizes: &[usize], clients: u32, plain: u64) -> bool {
    let variance = security::VARIANCE as f64;
    let one = 2.0 * degree as f64 * variance * variance + variance;
    // Rounding q m / t is off by less than one for each client.
    let noise = DEVIATIONS * (one * f64::from(clients)).sqrt() + f64::from(clients);
    let modulus = sizes.iter().fold(1.0, |product, size| product * (1u64 << (size - 1)) as f64);
    modulus / (2.0 * plain as f64) > noise
}

/// Who opens sums: never the server.
pub struct Decryptor {
    parameters: Parameters,
    seed: [u8; 32],
    secret: fhe::bfv::SecretKey,
}

impl Decryptor {
    /// A new key from 32 secret bytes; the same bytes give the same key, so they are all there is to keep.
    pub fn new(parameters: &Parameters, seed: [u8; 32]) -> Self {
        let mut source = SecureRng::new(seed).stream("bfv secret", 0);
        let secret = fhe::bfv::SecretKey::random(&parameters.inner, &mut Entropy(&mut source));
        Self { parameters: parameters.clone(), seed, secret }
    }

    /// The secret bytes.
    pub fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    /// The key that devices seal with: `(e - a s, a)`.
    pub fn public_key(&self) -> Result<PublicKey, HeError> {
        let (source, context) = (SecureRng::new(self.seed), &self.parameters.context);
        let small = |label: &str| {
            Poly::small(
                context,
                Representation::Ntt,
                security::VARIANCE,
                &mut Entropy(&mut source.stream(label, 0)),
            )
        };
        // The same draw as the secret key's own.
        let secret = small("bfv secret")?;
        let a = Poly::random_from_seed(context, Representation::Ntt, source.stream("bfv public", 0).seed());
        let mut b = small("bfv error")?;
        b -= &(&a * &secret);
        PublicKey::new(&self.parameters, b, a)
    }

    /// The sum that is sealed.
    pub fn open(&self, sealed: &Ciphertext) -> Result<Vec<i64>, HeError> {
        sealed.check(&self.parameters)?;
        let mut values = Vec::with_capacity(sealed.label.values);
        for part in &sealed.parts {
            let plain = self.secret.try_decrypt(part)?;
            values.extend(Vec::<i64>::try_decode(&plain, Encoding::poly())?);
        }
        values.truncate(sealed.label.values);
        Ok(values)
    }
}

/// Says nothing of the key.
impl std::fmt::Debug for Decryptor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Decryptor").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

/// What devices seal with.
#[derive(Clone, Debug)]
pub struct PublicKey {
    parameters: Parameters,
    polynomials: [Poly; 2],
    inner: fhe::bfv::PublicKey,
}

impl PublicKey {
    fn new(parameters: &Parameters, b: Poly, a: Poly) -> Result<Self, HeError> {
        let pair = PolynomialPair::new(vec![b.clone(), a.clone()], &parameters.inner)?.to_bytes();
        // The library takes keys as its own bytes only: one field, number 1, that holds the pair.
        let mut bytes = vec![0x0A];
        let mut length = pair.len();
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend(pair);
        let inner = fhe::bfv::PublicKey::from_bytes(&bytes, &parameters.inner)?;
        Ok(Self { parameters: parameters.clone(), polynomials: [b, a], inner })
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let [b, a] = &self.polynomials;
        let label = Label { fingerprint: self.parameters.fingerprint(), values: 1, added: 0 };
        ring::write(Kind::PublicKey, &label, &[b, a])
    }

    /// From bytes that may be anything.
    pub fn decode(bytes: &[u8], parameters: &Parameters) -> Result<Self, HeError> {
        let body = ring::read(
            Kind::PublicKey,
            parameters.fingerprint(),
            &parameters.context,
            parameters.degree(),
            bytes,
        )?;
        let [b, a] = <[Poly; 2]>::try_from(body.polynomials).map_err(|_| HeError::ParameterMismatch)?;
        Self::new(parameters, b, a)
    }

    /// Seals a vector; all values must be within range.
    pub fn seal(&self, values: &[i64], source: &mut SecureRng) -> Result<Ciphertext, HeError> {
        let range = self.parameters.range;
        if let Some(at) = values.iter().position(|value| value.unsigned_abs() > range.into()) {
            return Err(HeError::Value { at, value: values[at] as f64, range: range.into() });
        }
        if values.is_empty() || values.len() > ring::MOST_VALUES {
            return Err(HeError::Length { found: values.len(), expected: 1 });
        }
        let mut seal = |part: &[i64]| {
            let plain = Plaintext::try_encode(part, Encoding::poly(), &self.parameters.inner)?;
            Ok(self.inner.try_encrypt(&plain, &mut Entropy(source))?)
        };
        let parts = values.chunks(self.parameters.degree()).map(&mut seal).collect::<Result<_, HeError>>()?;
        let fingerprint = self.parameters.fingerprint();
        Ok(Ciphertext { label: Label { fingerprint, values: values.len(), added: 1 }, parts })
    }
}

/// One sealed vector, or the sum of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Ciphertext {
    label: Label,
    parts: Vec<PolynomialPair>,
}

impl Ciphertext {
    /// How many vectors it is the sum of.
    pub fn added(&self) -> u32 {
        self.label.added
    }

    /// How many values.
    pub fn values(&self) -> usize {
        self.label.values
    }

    fn check(&self, parameters: &Parameters) -> Result<(), HeError> {
        self.label.check(parameters.fingerprint(), parameters.clients)
    }

    /// Adds another, if there is room for it. Nothing is changed otherwise.
    pub fn add(&mut self, other: &Self, parameters: &Parameters) -> Result<(), HeError> {
        self.label.add(&other.label, parameters.fingerprint(), parameters.clients)?;
        self.parts.iter_mut().zip(&other.parts).for_each(|(sum, part)| *sum += part);
        Ok(())
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let polynomials: Vec<&Poly> = self.parts.iter().flat_map(|part| part.iter()).collect();
        ring::write(Kind::Ciphertext, &self.label, &polynomials)
    }

    /// From bytes that may be anything.
    pub fn decode(bytes: &[u8], parameters: &Parameters) -> Result<Self, HeError> {
        let body = ring::read(
            Kind::Ciphertext,
            parameters.fingerprint(),
            &parameters.context,
            parameters.degree(),
            bytes,
        )?;
        let pair = |pair: &[Poly]| Ok(PolynomialPair::new(pair.to_vec(), &parameters.inner)?);
        let parts = body.polynomials.chunks(2).map(pair).collect::<Result<_, HeError>>()?;
        let label = Label { added: body.label.added.max(1), ..body.label };
        let sealed = Self { label, parts };
        sealed.check(parameters)?;
        Ok(sealed)
    }
}
