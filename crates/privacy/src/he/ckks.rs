//! Sums of real numbers to a stated tolerance, after CKKS: a value `x` is the coefficient `round(scale x)`, and what is opened
//! is `c0 + c1 s`, the sum with its noise.
//!
//! # Noise and flooding
//! The noise of one sealed coefficient is `e u + e1 + e2 s`, `u` and `s` of -1, 0, 1, errors of variance 10: its variance is
//! `v = 2 N 10 (2/3) + 10`. Who sees the opened value beside the ciphertext can solve for `s` (Li and Micciancio, Eurocrypt 2021). So the
//! decryptor adds Gaussian noise of deviation `f` to what it publishes. Two Gaussians apart by `e` have a divergence of
//! `|e|^2 / (2 f^2)`; so all that is published, `P` coefficients of sums of `n`, differs from the true sum with noise that
//! knows nothing of the key by a total variation of at most `|e| / (2 f)` (Pinsker), where `|e|` is about `sqrt(n P v)`, taken 1.1 times. The
//! *statistical parameter* is that distance's negative logarithm. `f` is the largest that keeps 7.5 deviations within the tolerance.

use super::entropy::Entropy;
use super::ring::{self, Kind, Label};
use super::{HeError, security};
use crate::SecureRng;
use fhe_math::rq::traits::TryConvertFrom;
use fhe_math::rq::{Context, Poly, Representation};
use fhe_math::zq::primes::generate_prime;
use sottovoce_core::math;
use std::sync::Arc;

const DEGREE: usize = 4096;
/// Two primes of so many bits: the most for 20 bytes a value.
const PRIME_BITS: usize = 37;
/// Of the flooded sum's noise, within the tolerance: a chance of 1e-13 a value that it is more.
const DEVIATIONS: f64 = 7.5;
/// The least statistical parameter.
const LEAST_BITS: f64 = 20.0;

/// What is agreed on before anybody seals.
#[derive(Clone, Debug)]
pub struct Parameters {
    context: Arc<Context>,
    clients: u32,
    range: f64,
    tolerance: f64,
    publishable: u64,
    scale_bits: u32,
    flood: f64,
}

impl Parameters {
    /// For sums of so many vectors of values from `-range` to `range`, right to `tolerance`, of which a decryptor publishes so
    /// many values under one key.
    pub fn choose(clients: u32, range: f64, tolerance: f64, publishable: u64) -> Result<Self, HeError> {
        let none = |why| HeError::Headroom { clients, range, why };
        let sensible =
            clients > 0 && publishable > 0 && [range, tolerance].iter().all(|x| x.is_finite() && *x > 0.0);
        if !sensible {
            return Err(none("all must be above 0"));
        }
        let context = context()?;
        security::check(DEGREE, ring::modulus_bits(&context))?;
        let half = context.moduli().iter().fold(0.5, |product, prime| product * *prime as f64);
        let room = math::log2(0.99 * half / (f64::from(clients) * range)).floor();
        if room < 1.0 {
            return Err(none("the sum exceeds the modulus"));
        }
        let scale_bits = room.min(100.0) as u32;
        let spread = f64::from(clients) * variance();
        // Each client's rounding is off by at most a half.
        let bound = (tolerance * scale(scale_bits) - 0.5 * f64::from(clients)) / DEVIATIONS;
        let flood = (bound * bound - spread).max(0.0).sqrt();
        let chosen = Self { context, clients, range, tolerance, publishable, scale_bits, flood };
        match bound > 0.0 && chosen.statistical_bits() >= LEAST_BITS {
            true => Ok(chosen),
            false => Err(none("within the tolerance there is no room for noise that hides the key")),
        }
    }

    /// Coefficients of a polynomial.
    pub fn degree(&self) -> usize {
        DEGREE
    }

    /// Bits of the modulus.
    pub fn modulus_bits(&self) -> u32 {
        ring::modulus_bits(&self.context)
    }

    /// How many vectors may be added.
    pub fn clients(&self) -> u32 {
        self.clients
    }

    /// The largest value, either way.
    pub fn range(&self) -> f64 {
        self.range
    }

    /// By how much an opened sum may be off.
    pub fn tolerance(&self) -> f64 {
        self.tolerance
    }

    /// The standard deviation of the noise that is added to what is published, in values.
    pub fn flooding(&self) -> f64 {
        self.flood / scale(self.scale_bits)
    }

    /// The negative logarithm (base 2) of the chance by which all that is published tells more than the sums.
    pub fn statistical_bits(&self) -> f64 {
        let norm = 1.1 * (variance() * f64::from(self.clients) * self.publishable as f64).sqrt();
        math::log2((2.0 * self.flood / norm).max(f64::MIN_POSITIVE))
    }

    fn fingerprint(&self) -> [u8; 8] {
        let others = [self.clients.into(), self.range.to_bits(), self.tolerance.to_bits(), self.publishable];
        ring::fingerprint("ckks", &self.context, DEGREE, &others)
    }
}

fn variance() -> f64 {
    let error = security::VARIANCE as f64;
    2.0 * DEGREE as f64 * error * (2.0 / 3.0) + error
}

fn scale(bits: u32) -> f64 {
    f64::from_bits(u64::from(1023 + bits) << 52)
}

fn context() -> Result<Arc<Context>, HeError> {
    let prime = |below| generate_prime(PRIME_BITS, 2 * DEGREE as u64, below);
    let primes = prime(1 << PRIME_BITS).and_then(|first| Some([first, prime(first)?]));
    let primes = primes.ok_or_else(|| HeError::Library("no primes for the modulus".into()))?;
    Ok(Context::new_arc(&primes, DEGREE)?)
}

/// Who opens sums: never the server.
pub struct Decryptor {
    parameters: Parameters,
    seed: [u8; 32],
    secret: Poly,
    published: u64,
}

impl Decryptor {
    /// A new key from 32 secret bytes, of which `published` values have been published; both are all there is to keep.
    pub fn new(parameters: &Parameters, seed: [u8; 32], published: u64) -> Result<Self, HeError> {
        let secret =
            ring::ternary(&parameters.context, DEGREE, &mut SecureRng::new(seed).stream("ckks secret", 0))?;
        Ok(Self { parameters: parameters.clone(), seed, secret, published })
    }

    /// The secret bytes.
    pub fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    /// How many values this key has opened for others.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// The key that devices seal with: `(e - a s, a)`.
    pub fn public_key(&self) -> Result<PublicKey, HeError> {
        let (source, context) = (SecureRng::new(self.seed), &self.parameters.context);
        let a = Poly::random_from_seed(context, Representation::Ntt, source.stream("ckks public", 0).seed());
        let mut error = source.stream("ckks error", 0);
        let mut b = Poly::small(context, Representation::Ntt, security::VARIANCE, &mut Entropy(&mut error))?;
        b -= &(&a * &self.secret);
        Ok(PublicKey::new(&self.parameters, b, a))
    }

    /// The sum that is sealed, to the tolerance, flooded so that it may be published. Refuses more than the parameters allow.
    pub fn open(&mut self, sealed: &Ciphertext, source: &mut SecureRng) -> Result<Vec<f64>, HeError> {
        let (published, most) = (self.published + sealed.label.values as u64, self.parameters.publishable);
        if published > most {
            return Err(HeError::Published { published, most });
        }
        let phase = self.phase(sealed)?;
        self.published = published;
        let (flood, scale) = (self.parameters.flood, scale(self.parameters.scale_bits));
        Ok(phase.into_iter().map(|value| (value + gaussian(flood, source)) as f64 / scale).collect())
    }

    /// The sum with the encryption's own noise: for a decryptor that shows it to nobody who sees ciphertexts. Published, it
    /// gives the key away.
    pub fn decrypt_unflooded(&self, sealed: &Ciphertext) -> Result<Vec<f64>, HeError> {
        let scale = scale(self.parameters.scale_bits);
        Ok(self.phase(sealed)?.into_iter().map(|value| value as f64 / scale).collect())
    }

    /// `c0 + c1 s`, from -q/2 to q/2.
    fn phase(&self, sealed: &Ciphertext) -> Result<Vec<i128>, HeError> {
        sealed.check(&self.parameters)?;
        let mut values = Vec::with_capacity(sealed.parts.len() * DEGREE);
        for [c0, c1] in &sealed.parts {
            let mut phase = c1 * &self.secret;
            phase += c0;
            phase.change_representation(Representation::PowerBasis);
            centred(&phase, &mut values)?;
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

/// Coefficients from their remainders by the two primes, around zero.
fn centred(polynomial: &Poly, into: &mut Vec<i128>) -> Result<(), HeError> {
    let [p, q] = polynomial.ctx().moduli_operators() else { return Err(HeError::ParameterMismatch) };
    let inverse = q.inv(q.reduce(**p)).ok_or(HeError::ParameterMismatch)?;
    let rests = Vec::<u64>::from(polynomial);
    let (by_p, by_q) = rests.split_at(rests.len() / 2);
    let modulus = i128::from(**p) * i128::from(**q);
    into.extend(by_p.iter().zip(by_q).map(|(&a, &b)| {
        let steps = q.mul(q.sub(b, q.reduce(a)), inverse);
        let value = i128::from(a) + i128::from(**p) * i128::from(steps);
        if value > modulus / 2 { value - modulus } else { value }
    }));
    Ok(())
}

/// A whole number near a draw from a Gaussian of this deviation (Box and Muller).
fn gaussian(deviation: f64, source: &mut SecureRng) -> i128 {
    const UNIT: f64 = 1.0 / (1u64 << 53) as f64;
    let first = ((source.next_u64() >> 11) + 1) as f64 * UNIT;
    let angle = std::f64::consts::TAU * ((source.next_u64() >> 11) as f64 * UNIT);
    (deviation * (-2.0 * math::ln(first)).sqrt() * math::cos(angle)).round() as i128
}

/// What devices seal with.
#[derive(Clone, Debug)]
pub struct PublicKey {
    parameters: Parameters,
    /// As written, and prepared for products.
    polynomials: [Poly; 2],
    prepared: [Poly; 2],
}

impl PublicKey {
    fn new(parameters: &Parameters, b: Poly, a: Poly) -> Self {
        let prepare = |polynomial: &Poly| {
            let mut prepared = polynomial.clone();
            prepared.change_representation(Representation::NttShoup);
            prepared
        };
        let prepared = [prepare(&b), prepare(&a)];
        Self { parameters: parameters.clone(), polynomials: [b, a], prepared }
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let [b, a] = &self.polynomials;
        let label = Label { fingerprint: self.parameters.fingerprint(), values: 1, added: 0 };
        ring::write(Kind::PublicKey, &label, &[b, a])
    }

    /// From bytes that may be anything.
    pub fn decode(bytes: &[u8], parameters: &Parameters) -> Result<Self, HeError> {
        let body = ring::read(Kind::PublicKey, parameters.fingerprint(), &parameters.context, DEGREE, bytes)?;
        let [b, a] = <[Poly; 2]>::try_from(body.polynomials).map_err(|_| HeError::ParameterMismatch)?;
        Ok(Self::new(parameters, b, a))
    }

    /// Seals a vector; all values must be within range.
    pub fn seal(&self, values: &[f64], source: &mut SecureRng) -> Result<Ciphertext, HeError> {
        let range = self.parameters.range;
        if let Some(at) = values.iter().position(|value| !(-range..=range).contains(value)) {
            return Err(HeError::Value { at, value: values[at], range });
        }
        if values.is_empty() || values.len() > ring::MOST_VALUES {
            return Err(HeError::Length { found: values.len(), expected: 1 });
        }
        let parts =
            values.chunks(DEGREE).map(|part| self.seal_part(part, source)).collect::<Result<_, _>>()?;
        let fingerprint = self.parameters.fingerprint();
        Ok(Ciphertext { label: Label { fingerprint, values: values.len(), added: 1 }, parts })
    }

    fn seal_part(&self, values: &[f64], source: &mut SecureRng) -> Result<[Poly; 2], HeError> {
        let context = &self.parameters.context;
        let u = ring::ternary(context, DEGREE, source)?;
        let mut error = |form| Poly::small(context, form, security::VARIANCE, &mut Entropy(source));
        let mut plain = encode(values, scale(self.parameters.scale_bits), context)?;
        plain += &error(Representation::PowerBasis)?;
        plain.change_representation(Representation::Ntt);
        let [b, a] = &self.prepared;
        let (mut c0, mut c1) = (&u * b, &u * a);
        c0 += &plain;
        c1 += &error(Representation::Ntt)?;
        Ok([c0, c1])
    }
}

/// Whole numbers `round(scale x)` by their remainders.
fn encode(values: &[f64], scale: f64, context: &Arc<Context>) -> Result<Poly, HeError> {
    let mut rests = vec![0; DEGREE * context.moduli().len()];
    for (row, modulus) in rests.chunks_mut(DEGREE).zip(context.moduli_operators()) {
        for (rest, value) in row.iter_mut().zip(values) {
            let whole = (value * scale).round() as i128;
            let size = modulus.reduce_u128(whole.unsigned_abs());
            *rest = if whole < 0 { modulus.neg(size) } else { size };
        }
    }
    Ok(Poly::try_convert_from(rests, context, false, Representation::PowerBasis)?)
}

/// One sealed vector, or the sum of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Ciphertext {
    label: Label,
    parts: Vec<[Poly; 2]>,
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
        for (sum, part) in self.parts.iter_mut().zip(&other.parts) {
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
        Ok(())
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let polynomials: Vec<&Poly> = self.parts.iter().flatten().collect();
        ring::write(Kind::Ciphertext, &self.label, &polynomials)
    }

    /// From bytes that may be anything.
    pub fn decode(bytes: &[u8], parameters: &Parameters) -> Result<Self, HeError> {
        let body = ring::read(Kind::Ciphertext, parameters.fingerprint(), &parameters.context, DEGREE, bytes)?;
        let pair = |pair: &[Poly]| <[Poly; 2]>::try_from(pair.to_vec()).map_err(|_| HeError::ParameterMismatch);
        let parts = body.polynomials.chunks(2).map(pair).collect::<Result<_, _>>()?;
        let label = Label { added: body.label.added.max(1), ..body.label };
        let sealed = Self { label, parts };
        sealed.check(parameters)?;
        Ok(sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Solves `c0 + c1 s = opened` for `s`, the attack of Li and Micciancio; gives its coefficients.
    fn attack(sealed: &Ciphertext, opened: &[f64], parameters: &Parameters) -> Vec<i128> {
        let context = &parameters.context;
        let mut right = encode(opened, scale(parameters.scale_bits), context).unwrap();
        right.change_representation(Representation::Ntt);
        let [c0, c1] = &sealed.parts[0];
        right -= c0;
        let mut divided = Vec::<u64>::from(&right);
        let divisors = Vec::<u64>::from(c1);
        for (row, modulus) in context.moduli_operators().iter().enumerate() {
            for at in row * DEGREE..(row + 1) * DEGREE {
                divided[at] = modulus.mul(divided[at], modulus.inv(divisors[at]).unwrap_or(0));
            }
        }
        let mut secret = Poly::try_convert_from(divided, context, false, Representation::Ntt).unwrap();
        secret.change_representation(Representation::PowerBasis);
        let mut found = Vec::new();
        centred(&secret, &mut found).unwrap();
        found
    }

    #[test]
    fn an_opened_sum_gives_the_key_away_unless_it_is_flooded() {
        let parameters = Parameters::choose(3, 1.0, 1e-6, 1 << 20).unwrap();
        let mut decryptor = Decryptor::new(&parameters, [1; 32], 0).unwrap();
        let mut source = SecureRng::new([2; 32]);
        let key = decryptor.public_key().unwrap();
        let mut sum = key.seal(&[0.0; DEGREE], &mut source).unwrap();
        sum.add(&key.seal(&[0.0; DEGREE], &mut source).unwrap(), &parameters).unwrap();
        let mut secret = decryptor.secret.clone();
        secret.change_representation(Representation::PowerBasis);
        let mut expected = Vec::new();
        centred(&secret, &mut expected).unwrap();
        assert_eq!(attack(&sum, &decryptor.decrypt_unflooded(&sum).unwrap(), &parameters), expected);

        let found = attack(&sum, &decryptor.open(&sum, &mut source).unwrap(), &parameters);
        let right = found.iter().zip(&expected).filter(|(found, expected)| found == expected).count();
        assert!(right < 5, "{right} coefficients of the key");
    }

    #[test]
    fn noise_and_flooding_are_as_large_as_stated() {
        let parameters = Parameters::choose(10, 1.0, 1e-6, 1 << 20).unwrap();
        let mut decryptor = Decryptor::new(&parameters, [1; 32], 0).unwrap();
        let mut source = SecureRng::new([2; 32]);
        let sealed = decryptor.public_key().unwrap().seal(&[0.0; 2 * DEGREE], &mut source).unwrap();
        let deviation =
            |values: &[f64]| (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt();
        let noise = deviation(&decryptor.decrypt_unflooded(&sealed).unwrap()) * scale(parameters.scale_bits);
        assert!((noise / variance().sqrt() - 1.0).abs() < 0.05, "{noise}");
        let flooded = deviation(&decryptor.open(&sealed, &mut source).unwrap());
        assert!((flooded / parameters.flooding() - 1.0).abs() < 0.05, "{flooded}");
    }

    #[test]
    fn a_keeper_publishes_no_more_than_its_noise_was_chosen_for() {
        let parameters = Parameters::choose(10, 1.0, 1e-6, 100).unwrap();
        let mut decryptor = Decryptor::new(&parameters, [1; 32], 30).unwrap();
        let mut source = SecureRng::new([2; 32]);
        let sealed = decryptor.public_key().unwrap().seal(&[0.5; 60], &mut source).unwrap();
        assert!(decryptor.open(&sealed, &mut source).is_ok());
        assert_eq!(decryptor.open(&sealed, &mut source), Err(HeError::Published { published: 150, most: 100 }));
        assert_eq!(decryptor.published(), 90);
    }
}
