//! CKKS: sums of real numbers to a stated tolerance. A value `x` is the coefficient `round(scale x)`, and what is
//! decrypted is `c0 + c1 s`, the sum with its noise.
//!
//! # Noise and flooding
//! The noise of one fresh coefficient is `e u + e1 + e2 s`, `u` and `s` ternary, errors of variance 10: its variance is
//! `v = 2 N 10 (2/3) + 10`. Somebody who sees the decrypted value beside the ciphertext can solve for `s` (Li and
//! Micciancio, Eurocrypt 2021). So the decryptor adds Gaussian noise of deviation `f` to what it publishes (noise
//! flooding). Two Gaussians apart by `e` have a divergence of `|e|^2 / (2 f^2)`; so all that is published, `P`
//! coefficients of sums of `n`, differs from the true sum with noise independent of the key by a total variation of at
//! most `|e| / (2 f)` (Pinsker), where `|e|` is about `sqrt(n P v)`, taken 1.1 times. The *statistical parameter* is
//! that distance's negative logarithm. `f` is the largest that keeps 7.5 deviations within the tolerance.

use super::rand09::Rand09;
use super::ring::{Ring, check_length};
use super::{HeError, security};
use crate::SecureRng;
use fhe_math::rq::traits::TryConvertFrom;
use fhe_math::rq::{Context, Poly, Representation};
use fhe_math::zq::primes::generate_prime;
use sottovoce_core::math;
use std::sync::Arc;

pub use super::ring::Ciphertext;

const DEGREE: usize = 4096;
/// Two primes of so many bits: the largest with 20 bytes a value.
const PRIME_BITS: usize = 37;
/// Deviations of the flooded sum's noise within the tolerance: exceeded with probability 1e-13 a value.
const DEVIATIONS: f64 = 7.5;
/// The least statistical parameter.
const LEAST_BITS: f64 = 20.0;

/// Parameters that all parties agree on.
#[derive(Clone, Debug)]
pub struct Parameters {
    ring: Ring,
    range: f64,
    publishable: u64,
    scale_bits: u32,
    flood: f64,
}

impl AsRef<Ring> for Parameters {
    fn as_ref(&self) -> &Ring {
        &self.ring
    }
}

impl Parameters {
    /// For sums of so many vectors of values from `-range` to `range`, correct to `tolerance`, of which a decryptor
    /// publishes so many values under one key.
    ///
    /// # Errors
    /// If there are none.
    pub fn choose(clients: u32, range: f64, tolerance: f64, publishable: u64) -> Result<Self, HeError> {
        let none = |why| HeError::Headroom(clients, range, why);
        let sensible = clients > 0 && publishable > 0 && [range, tolerance].iter().all(|x| x.is_finite() && *x > 0.0);
        if !sensible {
            return Err(none("all must be above 0"));
        }
        let context = context()?;
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
        let others = [clients.into(), range.to_bits(), tolerance.to_bits(), publishable];
        let ring = Ring::new("ckks", context, DEGREE, clients, &others)?;
        let chosen = Self { ring, range, publishable, scale_bits, flood };
        match bound > 0.0 && chosen.statistical_bits() >= LEAST_BITS {
            true => Ok(chosen),
            false => Err(none("within the tolerance there is no room for noise that hides the key")),
        }
    }

    /// Standard deviation of the flooding noise, in values.
    pub fn flooding(&self) -> f64 {
        self.flood / scale(self.scale_bits)
    }

    /// The statistical parameter: the negative base-2 logarithm of the total variation between what is published and
    /// the sums with independent noise.
    pub fn statistical_bits(&self) -> f64 {
        let norm = 1.1 * (variance() * f64::from(self.ring.clients) * self.publishable as f64).sqrt();
        math::log2((2.0 * self.flood / norm).max(f64::MIN_POSITIVE))
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

/// The party that decrypts sums: never the server.
pub struct Decryptor {
    parameters: Parameters,
    seed: [u8; 32],
    secret: Poly,
    published: u64,
}

impl Decryptor {
    /// A key from 32 secret bytes, under which `published` values have been published so far.
    ///
    /// # Errors
    /// If the library cannot build it.
    pub fn new(parameters: &Parameters, seed: [u8; 32], published: u64) -> Result<Self, HeError> {
        let secret = parameters.ring.ternary(&mut SecureRng::new(seed).stream("ckks secret", 0))?;
        Ok(Self { parameters: parameters.clone(), seed, secret, published })
    }

    /// The key that devices encrypt with: `(e - a s, a)`.
    ///
    /// # Errors
    /// If the library cannot build it.
    pub fn public_key(&self) -> Result<PublicKey, HeError> {
        let (rng, context) = (SecureRng::new(self.seed), &self.parameters.ring.context);
        let mut a = Poly::random_from_seed(context, Representation::Ntt, rng.stream("ckks public", 0).seed());
        let mut error = rng.stream("ckks error", 0);
        let mut b = Poly::small(context, Representation::Ntt, security::VARIANCE, &mut Rand09(&mut error))?;
        b -= &(&a * &self.secret);
        [&mut a, &mut b].into_iter().for_each(|each| each.change_representation(Representation::NttShoup));
        Ok(PublicKey { parameters: self.parameters.clone(), polynomials: [b, a] })
    }

    /// The sum to the tolerance, flooded so that it may be published.
    ///
    /// # Errors
    /// If the ciphertext is of other parameters or the sum of too many, or more would be published than the parameters
    /// allow.
    pub fn decrypt(&mut self, ciphertext: &Ciphertext, rng: &mut SecureRng) -> Result<Vec<f64>, HeError> {
        let (published, most) = (self.published + ciphertext.values() as u64, self.parameters.publishable);
        if published > most {
            return Err(HeError::Published(published, most));
        }
        let phase = self.phase(ciphertext)?;
        self.published = published;
        let (flood, scale) = (self.parameters.flood, scale(self.parameters.scale_bits));
        Ok(phase.into_iter().map(|value| (value + gaussian(flood, rng)) as f64 / scale).collect())
    }

    /// The sum with the encryption's own noise, which reveals the key to whoever sees it beside the ciphertext: `c0 +
    /// c1 s`, from -q/2 to q/2.
    fn phase(&self, ciphertext: &Ciphertext) -> Result<Vec<i128>, HeError> {
        ciphertext.check(&self.parameters.ring)?;
        let mut values = Vec::with_capacity(ciphertext.parts.len() * DEGREE);
        for [c0, c1] in &ciphertext.parts {
            let mut phase = c1 * &self.secret;
            phase += c0;
            phase.change_representation(Representation::PowerBasis);
            centred(&phase, &mut values)?;
        }
        values.truncate(ciphertext.values());
        Ok(values)
    }
}

/// Without the key.
impl std::fmt::Debug for Decryptor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Decryptor").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

/// Coefficients from their residues by the two primes, centred around zero.
fn centred(polynomial: &Poly, into: &mut Vec<i128>) -> Result<(), HeError> {
    let [p, q] = polynomial.ctx().moduli_operators() else { return Err(HeError::ParameterMismatch) };
    let inverse = q.inv(q.reduce(**p)).ok_or(HeError::ParameterMismatch)?;
    let residues = Vec::<u64>::from(polynomial);
    let (by_p, by_q) = residues.split_at(residues.len() / 2);
    let modulus = i128::from(**p) * i128::from(**q);
    into.extend(by_p.iter().zip(by_q).map(|(&a, &b)| {
        let steps = q.mul(q.sub(b, q.reduce(a)), inverse);
        let value = i128::from(a) + i128::from(**p) * i128::from(steps);
        if value > modulus / 2 { value - modulus } else { value }
    }));
    Ok(())
}

/// A Gaussian of this deviation, rounded (Box and Muller).
fn gaussian(deviation: f64, rng: &mut SecureRng) -> i128 {
    const UNIT: f64 = 1.0 / (1u64 << 53) as f64;
    let first = ((rng.next_u64() >> 11) + 1) as f64 * UNIT;
    let angle = std::f64::consts::TAU * ((rng.next_u64() >> 11) as f64 * UNIT);
    (deviation * (-2.0 * math::ln(first)).sqrt() * math::cos(angle)).round() as i128
}

/// What devices encrypt with.
#[derive(Clone, Debug)]
pub struct PublicKey {
    parameters: Parameters,
    /// Prepared for products.
    polynomials: [Poly; 2],
}

impl PublicKey {
    /// Encrypts a vector.
    ///
    /// # Errors
    /// If it is empty or too long, or a value is out of range.
    pub fn encrypt(&self, values: &[f64], rng: &mut SecureRng) -> Result<Ciphertext, HeError> {
        let range = self.parameters.range;
        if let Some(at) = values.iter().position(|value| !(-range..=range).contains(value)) {
            return Err(HeError::Value(at, values[at], range));
        }
        check_length(values.len())?;
        let parts = values.chunks(DEGREE).map(|part| self.encrypt_part(part, rng));
        Ok(Ciphertext::new(&self.parameters.ring, values.len(), parts.collect::<Result<_, _>>()?))
    }

    fn encrypt_part(&self, values: &[f64], rng: &mut SecureRng) -> Result<[Poly; 2], HeError> {
        let context = &self.parameters.ring.context;
        let u = self.parameters.ring.ternary(rng)?;
        let mut error = |form| Poly::small(context, form, security::VARIANCE, &mut Rand09(rng));
        let mut plain = encode(values, scale(self.parameters.scale_bits), context)?;
        plain += &error(Representation::PowerBasis)?;
        plain.change_representation(Representation::Ntt);
        let [b, a] = &self.polynomials;
        let (mut c0, mut c1) = (&u * b, &u * a);
        c0 += &plain;
        c1 += &error(Representation::Ntt)?;
        Ok([c0, c1])
    }
}

/// Integers `round(scale x)` by their residues.
fn encode(values: &[f64], scale: f64, context: &Arc<Context>) -> Result<Poly, HeError> {
    let mut residues = vec![0; DEGREE * context.moduli().len()];
    for (row, modulus) in residues.chunks_mut(DEGREE).zip(context.moduli_operators()) {
        for (residue, value) in row.iter_mut().zip(values) {
            let whole = (value * scale).round() as i128;
            let size = modulus.reduce_u128(whole.unsigned_abs());
            *residue = if whole < 0 { modulus.neg(size) } else { size };
        }
    }
    Ok(Poly::try_convert_from(residues, context, false, Representation::PowerBasis)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unflooded(decryptor: &Decryptor, ciphertext: &Ciphertext) -> Vec<f64> {
        let scale = scale(decryptor.parameters.scale_bits);
        decryptor.phase(ciphertext).unwrap().into_iter().map(|value| value as f64 / scale).collect()
    }

    /// Solves `c0 + c1 s = decrypted` for `s`, the attack of Li and Micciancio; gives its coefficients.
    fn attack(ciphertext: &Ciphertext, decrypted: &[f64], parameters: &Parameters) -> Vec<i128> {
        let context = &parameters.ring.context;
        let mut right = encode(decrypted, scale(parameters.scale_bits), context).unwrap();
        right.change_representation(Representation::Ntt);
        let [c0, c1] = &ciphertext.parts[0];
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
    fn decrypted_sums_reveal_the_key_unless_flooded() {
        let parameters = Parameters::choose(3, 1.0, 1e-6, 1 << 20).unwrap();
        let mut decryptor = Decryptor::new(&parameters, [1; 32], 0).unwrap();
        let mut source = SecureRng::new([2; 32]);
        let key = decryptor.public_key().unwrap();
        let mut sum = key.encrypt(&[0.0; DEGREE], &mut source).unwrap();
        sum.add(&key.encrypt(&[0.0; DEGREE], &mut source).unwrap(), &parameters).unwrap();
        let mut secret = decryptor.secret.clone();
        secret.change_representation(Representation::PowerBasis);
        let mut expected = Vec::new();
        centred(&secret, &mut expected).unwrap();
        assert_eq!(attack(&sum, &unflooded(&decryptor, &sum), &parameters), expected);

        let found = attack(&sum, &decryptor.decrypt(&sum, &mut source).unwrap(), &parameters);
        let right = found.iter().zip(&expected).filter(|(found, expected)| found == expected).count();
        assert!(right < 5, "{right} coefficients of the key");
    }

    #[test]
    fn noise_and_flooding_have_the_stated_deviations() {
        let parameters = Parameters::choose(10, 1.0, 1e-6, 1 << 20).unwrap();
        let mut decryptor = Decryptor::new(&parameters, [1; 32], 0).unwrap();
        let mut source = SecureRng::new([2; 32]);
        let ciphertext = decryptor.public_key().unwrap().encrypt(&[0.0; 2 * DEGREE], &mut source).unwrap();
        let deviation = |values: &[f64]| (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt();
        let noise = deviation(&unflooded(&decryptor, &ciphertext)) * scale(parameters.scale_bits);
        assert!((noise / variance().sqrt() - 1.0).abs() < 0.05, "{noise}");
        let flooded = deviation(&decryptor.decrypt(&ciphertext, &mut source).unwrap());
        assert!((flooded / parameters.flooding() - 1.0).abs() < 0.05, "{flooded}");
    }

    #[test]
    fn a_keeper_publishes_no_more_than_its_noise_was_chosen_for() {
        let parameters = Parameters::choose(10, 1.0, 1e-6, 100).unwrap();
        let mut decryptor = Decryptor::new(&parameters, [1; 32], 30).unwrap();
        let mut source = SecureRng::new([2; 32]);
        let ciphertext = decryptor.public_key().unwrap().encrypt(&[0.5; 60], &mut source).unwrap();
        assert!(decryptor.decrypt(&ciphertext, &mut source).is_ok());
        assert_eq!(decryptor.decrypt(&ciphertext, &mut source), Err(HeError::Published(150, 100)));
        assert_eq!(decryptor.published, 90);
    }
}
