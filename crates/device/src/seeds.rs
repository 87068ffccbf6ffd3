//! Where a device's randomness comes from.

use sottovoce_core::Rng;
use sottovoce_privacy::SecureRng;
use sottovoce_protocol::RoundId;

/// Random bytes that a device is given at enrolment and never sends: what it draws and the keys under which it repeats
/// requests follow from them, so that a device killed in the middle does the very same again.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// From random bytes of the embedder's.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// From the machine's random numbers.
    ///
    /// # Errors
    /// If the machine gives none.
    #[cfg(feature = "files")]
    pub fn random() -> Result<Self, crate::store::StoreError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|error| crate::store::StoreError::Random { what: error.to_string() })?;
        Ok(Self(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn derive(&self, label: &str, detail: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&(label.len() as u64).to_le_bytes()).update(label.as_bytes()).update(detail);
        hasher.finalize()
    }

    /// A key that makes a request repeatable: 64 hexadecimal digits that tell nobody anything.
    pub(crate) fn idempotency_key(&self, label: &str, number: u64) -> String {
        self.derive(label, &number.to_le_bytes()).to_hex().to_string()
    }

    /// 32 bytes of a round, for what must be new in each and nobody else's.
    pub(crate) fn key(&self, label: &str, round: RoundId) -> [u8; 32] {
        *self.derive(label, &round.0.to_le_bytes()).as_bytes()
    }

    /// The secret half of the device's identity, the same as long as it has this secret.
    pub(crate) fn identity(&self) -> [u8; 32] {
        *self.derive("identity", &[]).as_bytes()
    }

    pub(crate) fn rng(&self, label: &str, detail: &[u8]) -> Rng {
        let [a, b, c, d, e, f, g, h, ..] = *self.derive(label, detail).as_bytes();
        Rng::new(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }
}

/// Which random numbers a device learns with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seeds {
    /// The device's own, from its secret.
    #[default]
    Own,
    /// Those that the simulator gives the user of this number, so that a deployed federation can be held against it. Anybody
    /// who knows the seed knows what this device draws: never for people's devices.
    Simulated {
        /// The simulation's seed.
        seed: u64,
        /// The user's number.
        user: u64,
    },
}

impl Seeds {
    /// The numbers that a private model of this model starts from.
    pub fn private(&self, secret: &Secret, model: &str) -> Rng {
        match self {
            Self::Own => secret.rng("private", model.as_bytes()),
            Self::Simulated { seed, user } => root(*seed, model).stream("private", *user),
        }
    }

    /// The numbers that the private model of this model starts from with which is learnt what is shown, where some of the history
    /// stays at home for good.
    pub(crate) fn shown(&self, secret: &Secret, model: &str) -> Rng {
        match self {
            Self::Own => secret.rng("shown", model.as_bytes()),
            Self::Simulated { seed, user } => root(*seed, model).stream("shown", *user),
        }
    }

    /// What it is drawn from, once for good, which of the owner's items leave; never another, whatever the model and the round,
    /// as long as the device has this secret.
    pub(crate) fn kept(&self, parting: &Secret, model: &str) -> u64 {
        match self {
            Self::Own => parting.rng("kept", &[]).next_u64(),
            Self::Simulated { seed, user } => root(*seed, model).stream("kept", *user).next_u64(),
        }
    }

    /// The noise of a round: on what leaves (`noise`), and on what is kept (`steps`).
    pub(crate) fn generator(&self, secret: &Secret, label: &str, model: &str, round: RoundId) -> SecureRng {
        match self {
            Self::Own => SecureRng::new(secret.key(label, round)),
            Self::Simulated { seed, user } => {
                let rounds = root(*seed, model).stream("rounds", 0).stream("round", round.0);
                SecureRng::simulated(&rounds, label, *user)
            }
        }
    }

    /// The numbers of a round: first training draws from them, then disclosure.
    pub fn round(&self, secret: &Secret, model: &str, round: RoundId) -> Rng {
        match self {
            Self::Own => secret.rng("round", &[&round.0.to_le_bytes()[..], model.as_bytes()].concat()),
            Self::Simulated { seed, user } => {
                root(*seed, model).stream("rounds", 0).stream("round", round.0).stream("device", *user)
            }
        }
    }
}

fn root(seed: u64, model: &str) -> Rng {
    Rng::new(seed).stream(model, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_numbers_differ_by_secret_purpose_and_round_and_come_again() {
        let (one, two) = (Secret::new([1; 32]), Secret::new([2; 32]));
        let drawn = |secret: &Secret, round| Seeds::Own.round(secret, "fpl", RoundId(round)).next_u64();
        assert_eq!(drawn(&one, 3), drawn(&one, 3));
        let mut all = vec![drawn(&one, 3), drawn(&one, 4), drawn(&two, 3)];
        all.push(Seeds::Own.private(&one, "fpl").next_u64());
        all.push(Seeds::Own.private(&one, "fcf").next_u64());
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 5);
        assert_eq!(Seeds::Own.kept(&one, "fpl"), Seeds::Own.kept(&one, "fcf"));
        assert_ne!(Seeds::Own.kept(&one, "fpl"), Seeds::Own.kept(&two, "fpl"));
        assert_ne!(one.idempotency_key("update", 1), one.idempotency_key("update", 2));
        assert_eq!(format!("{one:?}"), "Secret(..)");
    }

    #[test]
    fn simulated_numbers_are_the_simulators() {
        let seeds = Seeds::Simulated { seed: 7, user: 12 };
        let (secret, root) = (Secret::new([0; 32]), Rng::new(7).stream("fpl", 0));
        let private = root.stream("private", 12).next_u64();
        assert_eq!(seeds.kept(&secret, "fpl"), root.stream("kept", 12).next_u64());
        assert_eq!(seeds.private(&secret, "fpl").next_u64(), private);
        let round = root.stream("rounds", 0).stream("round", 5).stream("device", 12).next_u64();
        assert_eq!(seeds.round(&secret, "fpl", RoundId(5)).next_u64(), round);
    }
}
