//! The accountant as bytes, stored with the model.

use super::{Accountant, DpError, Round};
use sha2::{Digest, Sha256};
use sottovoce_protocol::DecodeError;
use sottovoce_protocol::codec::Reader;

const MAGIC: &[u8; 4] = b"SVpa";
const VERSION: u8 = 1;
/// Bytes of the SHA-256 of everything before.
const CHECK: usize = 8;

impl Accountant {
    /// As bytes.
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

    /// The accountant from [`Accountant::to_bytes`].
    ///
    /// # Errors
    /// If the bytes are malformed or were changed.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DpError> {
        let (body, check) = bytes.split_at_checked(bytes.len().wrapping_sub(CHECK)).unwrap_or_default();
        let mut from = Reader::new(body);
        if from.array("magic").ok().as_ref() != Some(MAGIC) {
            return Err(wrong("they do not begin as privacy accounts do"));
        }
        match from.byte("version") {
            Ok(VERSION) => (),
            version => return Err(wrong(format!("version {} is not known", version.unwrap_or_default()))),
        }
        if digest(body) != check {
            return Err(wrong("the checksum does not match: they were cut or changed"));
        }
        let mut accountant = Self::default();
        let runs = from.u32("entries").map_err(wrong)?;
        for entry in 0..runs {
            let (round, count) = read(&mut from).map_err(wrong)?;
            accountant.record(round, count).map_err(|error| wrong(format!("entry {entry}: {error}")))?;
        }
        from.end().map_err(wrong)?;
        Ok(accountant)
    }
}

#[allow(clippy::needless_pass_by_value, reason = "a function for map_err")]
fn wrong(problem: impl ToString) -> DpError {
    DpError::Stored("privacy accounts", problem.to_string())
}

fn digest(bytes: &[u8]) -> [u8; CHECK] {
    let mut check = [0; CHECK];
    check.copy_from_slice(&Sha256::digest(bytes)[..CHECK]);
    check
}

fn written(round: &Round) -> (u8, [u64; 3]) {
    match *round {
        Round::Poisson { rate, multiplier } => (0, [rate.to_bits(), multiplier.to_bits(), 0]),
        Round::FixedCohort { cohort, population, multiplier } => (1, [cohort, population, multiplier.to_bits()]),
        Round::Laplace { rate, scale } => (2, [rate.to_bits(), scale.to_bits(), 0]),
    }
}

fn read(from: &mut Reader<'_>) -> Result<(Round, u64), DecodeError> {
    let (at, kind) = (from.at(), from.byte("kind")?);
    let numbers = [from.u64("number")?, from.u64("number")?, from.u64("number")?];
    let float = |index: usize| f64::from_bits(numbers[index]);
    let round = match kind {
        0 => Round::Poisson { rate: float(0), multiplier: float(1) },
        1 => Round::FixedCohort { cohort: numbers[0], population: numbers[1], multiplier: float(2) },
        2 => Round::Laplace { rate: float(0), scale: float(1) },
        found => return Err(DecodeError::Code("kind", at, found)),
    };
    Ok((round, from.u64("count")?))
}
