//! Largest secure moduli by the Homomorphic Encryption Standard (HomomorphicEncryption.org, 2018, table 1).

use super::HeError;

/// Degree and the bits of the largest modulus for 128 bits of security against classical attacks, with secrets of -1, 0 and 1
/// and errors of standard deviation 3.2. (Secrets drawn like errors, as BFV's here are, would allow two bits more.)
pub const MOST_BITS: [(usize, u32); 6] = [(1024, 27), (2048, 54), (4096, 109), (8192, 218), (16384, 438), (32768, 881)];

/// The variance of (centred binomial) errors: a standard deviation of 3.16, for the table's 3.2.
pub(crate) const VARIANCE: usize = 10;

/// Refuses a degree that is in no table and a modulus too large for it. Bits are those of the product of all primes.
pub fn check(degree: usize, bits: u32) -> Result<(), HeError> {
    let most = MOST_BITS.iter().find(|(of, _)| *of == degree).map_or(0, |(_, most)| *most);
    if bits <= most { Ok(()) } else { Err(HeError::Insecure(degree, bits, most)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_tables_limit_and_no_more() {
        for (degree, most) in MOST_BITS {
            assert_eq!(check(degree, most), Ok(()));
            assert_eq!(check(degree, most + 1), Err(HeError::Insecure(degree, most + 1, most)));
        }
        assert_eq!(check(512, 10), Err(HeError::Insecure(512, 10, 0)));
        assert_eq!(check(3000, 10), Err(HeError::Insecure(3000, 10, 0)));
    }
}
