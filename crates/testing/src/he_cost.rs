//! The cost of additive encryption: both schemes on random vectors.

use sottovoce_privacy::SecureRng;
use sottovoce_privacy::he::{HeError, Ring, bfv, ckks};

/// What one scheme cost.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemeFigures {
    /// Coefficients of a polynomial.
    pub degree: usize,
    /// Bits of the modulus.
    pub modulus_bits: u32,
    /// Seconds of the caller's clock for sealing and writing one vector: longest and mean.
    pub seal_seconds: (f64, f64),
    /// Seconds for reading and adding one, mean.
    pub add_seconds: f64,
    /// Seconds for opening the sum.
    pub open_seconds: f64,
    /// Bytes on the wire, by value.
    pub bytes_per_value: f64,
    /// The largest difference between the decrypted and the true sum; 0 for the exact scheme.
    pub error: f64,
}

/// What both cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Whole numbers of 24 bits.
    pub bfv: SchemeFigures,
    /// Real numbers from -1 to 1, to 1e-6, flooded.
    pub ckks: SchemeFigures,
    /// How well flooding hides the key: see [`ckks::Parameters::statistical_bits`].
    pub statistical_bits: f64,
}

/// Why a scheme could not be measured.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CostError {
    /// A scheme would not.
    #[error(transparent)]
    He(#[from] HeError),
    /// Nothing to measure.
    #[error("a measurement needs at least one client and one value")]
    Nothing,
}

const RANGE: u32 = (1 << 23) - 1;
const TOLERANCE: f64 = 1e-6;

/// Encrypts, adds and decrypts `clients` vectors of `values` values with each scheme, timed by the caller's clock in
/// seconds.
///
/// # Errors
/// If there is nothing to measure, or a scheme refuses.
pub fn measure(clients: u32, values: usize, seed: [u8; 32], clock: &dyn Fn() -> f64) -> Result<Figures, CostError> {
    if clients == 0 || values == 0 {
        return Err(CostError::Nothing);
    }
    let source = SecureRng::new(seed);
    let approximate = ckks::Parameters::choose(clients, 1.0, TOLERANCE, values as u64)?;
    Ok(Figures {
        bfv: exact(clients, values, &source, clock)?,
        statistical_bits: approximate.statistical_bits(),
        ckks: real(&approximate, values, &source, clock)?,
    })
}

/// Times of one scheme, as they come.
#[derive(Default)]
struct Times {
    longest: f64,
    sealing: f64,
    adding: f64,
    opening: f64,
    bytes: usize,
}

impl Times {
    fn sealed(&mut self, seconds: f64, bytes: usize) {
        self.longest = self.longest.max(seconds);
        self.sealing += seconds;
        self.bytes = bytes;
    }

    fn figures(self, ring: &Ring, clients: u32, values: usize, error: f64) -> SchemeFigures {
        let mean = |total: f64| total / f64::from(clients);
        SchemeFigures {
            degree: ring.degree,
            modulus_bits: ring.modulus_bits(),
            seal_seconds: (self.longest, mean(self.sealing)),
            add_seconds: mean(self.adding),
            open_seconds: self.opening,
            bytes_per_value: self.bytes as f64 / values as f64,
            error,
        }
    }
}

fn exact(clients: u32, values: usize, source: &SecureRng, clock: &dyn Fn() -> f64) -> Result<SchemeFigures, HeError> {
    let parameters = bfv::Parameters::choose(clients, RANGE)?;
    let decryptor = bfv::Decryptor::new(&parameters, source.stream("bfv keeper", 0).seed());
    let key = decryptor.public_key()?;
    let (mut times, mut expected, mut sum) = (Times::default(), vec![0i64; values], None::<bfv::Ciphertext>);
    for client in 0..clients {
        let mut own = source.stream("bfv client", client.into());
        let input: Vec<i64> =
            (0..values).map(|_| i64::from(own.next_u32() % (2 * RANGE + 1)) - i64::from(RANGE)).collect();
        expected.iter_mut().zip(&input).for_each(|(sum, value)| *sum += value);
        let start = clock();
        let bytes = key.encrypt(&input, &mut own)?.encode();
        times.sealed(clock() - start, bytes.len());
        let start = clock();
        let sealed = bfv::Ciphertext::decode(&bytes, &parameters)?;
        match &mut sum {
            None => sum = Some(sealed),
            Some(sum) => sum.add(&sealed, &parameters)?,
        }
        times.adding += clock() - start;
    }
    let start = clock();
    let decrypted = sum.map(|sum| decryptor.decrypt(&sum)).transpose()?.unwrap_or_default();
    times.opening = clock() - start;
    let error = decrypted.iter().zip(&expected).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0) as f64;
    Ok(times.figures(parameters.as_ref(), clients, values, error))
}

fn real(
    parameters: &ckks::Parameters,
    values: usize,
    source: &SecureRng,
    clock: &dyn Fn() -> f64,
) -> Result<SchemeFigures, HeError> {
    let clients = parameters.as_ref().clients;
    let mut decryptor = ckks::Decryptor::new(parameters, source.stream("ckks keeper", 0).seed(), 0)?;
    let key = decryptor.public_key()?;
    let (mut times, mut expected, mut sum) = (Times::default(), vec![0f64; values], None::<ckks::Ciphertext>);
    for client in 0..clients {
        let mut own = source.stream("ckks client", client.into());
        let input: Vec<f64> = (0..values).map(|_| f64::from(own.next_u32()) / f64::from(1u32 << 31) - 1.0).collect();
        expected.iter_mut().zip(&input).for_each(|(sum, value)| *sum += value);
        let start = clock();
        let bytes = key.encrypt(&input, &mut own)?.encode();
        times.sealed(clock() - start, bytes.len());
        let start = clock();
        let sealed = ckks::Ciphertext::decode(&bytes, parameters)?;
        match &mut sum {
            None => sum = Some(sealed),
            Some(sum) => sum.add(&sealed, parameters)?,
        }
        times.adding += clock() - start;
    }
    let start = clock();
    let mut noise = source.stream("ckks flooding", 0);
    let decrypted = sum.map(|sum| decryptor.decrypt(&sum, &mut noise)).transpose()?.unwrap_or_default();
    times.opening = clock() - start;
    let error = decrypted.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    Ok(times.figures(parameters.as_ref(), clients, values, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_within_their_bounds() {
        let figures = measure(5, 6000, [1; 32], &|| 0.0).unwrap();
        assert_eq!(figures.bfv.error, 0.0);
        assert!(figures.ckks.error > 0.0 && figures.ckks.error <= 1e-6, "{}", figures.ckks.error);
        assert!(figures.statistical_bits > 24.0);
        assert_eq!((figures.bfv.degree, figures.bfv.modulus_bits), (2048, 54));
        assert_eq!((figures.ckks.degree, figures.ckks.modulus_bits), (4096, 74));
    }
}
