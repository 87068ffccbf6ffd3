//! The accounts as bytes, to be kept with the model they belong to.

use super::{Accountant, DpError, Round};
use sha2::{Digest, Sha256};

const MAGIC: &[u8; 4] = b"SVpa";
const VERSION: u8 = 1;
const HEAD: usize = 4 + 1 + 4;
/// Kind, three numbers of eight bytes, count.
const RUN: usize = 1 + 3 * 8 + 8;
/// The first bytes of the digest of everything before.
const CHECK: usize = 8;

impl Accountant {
    /// The accounts as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &[VERSION]].concat();
        bytes.extend((self.runs.len() as u32).to_le_bytes());
        for (round, count) in self.recorded() {
            let (kind, numbers) = written(&round);
            bytes.push(kind);
            numbers.iter().chain([&count]).for_each(|number| bytes.extend(number.to_le_bytes()));
        }
        let check = digest(&bytes);
        bytes.extend(check);
        bytes
    }

    /// The accounts from [`Accountant::to_bytes`].
    ///
    /// # Errors
    /// If the bytes are not such accounts, or were changed.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DpError> {
        if bytes.len() < HEAD + CHECK || &bytes[..4] != MAGIC {
            return Err(wrong("they do not begin as privacy accounts do"));
        }
        if bytes[4] != VERSION {
            return Err(wrong(format!("version {} is not known", bytes[4])));
        }
        let (body, check) = bytes.split_at(bytes.len() - CHECK);
        if digest(body) != check {
            return Err(wrong("the checksum does not fit: they were cut or changed"));
        }
        let runs = u32::from_le_bytes([body[5], body[6], body[7], body[8]]) as usize;
        if Some(body.len() - HEAD) != runs.checked_mul(RUN) {
            return Err(wrong(format!("{} bytes are not {runs} entries", body.len() - HEAD)));
        }
        let mut accountant = Self::default();
        for (place, run) in body[HEAD..].chunks_exact(RUN).enumerate() {
            let (round, count) =
                read(run).ok_or_else(|| wrong(format!("entry {place} is of kind {}", run[0])))?;
            accountant.record(round, count).map_err(|e| wrong(format!("entry {place}: {e}")))?;
        }
        Ok(accountant)
    }
}

fn wrong(problem: impl Into<String>) -> DpError {
    DpError::Stored { what: "privacy accounts", problem: problem.into() }
}

fn digest(bytes: &[u8]) -> [u8; CHECK] {
    let mut check = [0; CHECK];
    check.copy_from_slice(&Sha256::digest(bytes)[..CHECK]);
    check
}

fn written(round: &Round) -> (u8, [u64; 3]) {
    match *round {
        Round::Poisson { rate, multiplier } => (0, [rate.to_bits(), multiplier.to_bits(), 0]),
        Round::FixedCohort { cohort, population, multiplier } => {
            (1, [cohort, population, multiplier.to_bits()])
        }
        Round::Laplace { rate, scale } => (2, [rate.to_bits(), scale.to_bits(), 0]),
    }
}

fn read(run: &[u8]) -> Option<(Round, u64)> {
    let number = |place: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&run[1 + 8 * place..9 + 8 * place]);
        u64::from_le_bytes(eight)
    };
    let float = |place| f64::from_bits(number(place));
    let round = match run[0] {
        0 => Round::Poisson { rate: float(0), multiplier: float(1) },
        1 => Round::FixedCohort { cohort: number(0), population: number(1), multiplier: float(2) },
        2 => Round::Laplace { rate: float(0), scale: float(1) },
        _ => return None,
    };
    Some((round, number(3)))
}
