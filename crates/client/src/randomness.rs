//! Where a client's random numbers come from.

use crate::streams;
use sottovoce_core::Rng;
use sottovoce_privacy::SecureRng;
use sottovoce_protocol::RoundId;
use zeroize::Zeroize;

/// The random numbers of one client in one round.
pub trait Randomness {
    /// Initial values of the private model.
    fn private_init(&self) -> Rng;

    /// Initial values of the private model that is trained only on disclosed items.
    fn disclosed_init(&self) -> Rng;

    /// Decides which items are disclosed, once for all rounds.
    fn fixed_disclosure(&self) -> u64;

    /// Training, then disclosure.
    fn round(&self) -> Rng;

    /// Noise that DP-SGD adds to the private model.
    fn training_noise(&self) -> SecureRng;

    /// Noise that the device adds to its upload.
    fn upload_noise(&self) -> SecureRng;

    /// 32 secret bytes of this round for a sealed message, by purpose.
    fn seal_seed(&self, purpose: &str) -> [u8; 32];
}

/// Random numbers that follow from a run's seed: of simulated devices, and of deployed ones that are compared with
/// them.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedRandomness<'a> {
    /// The run's root: [`streams::root`].
    pub root: &'a Rng,
    /// The round's stream: [`streams::round`].
    pub round: &'a Rng,
    /// The user's number.
    pub user: u64,
}

impl Randomness for SimulatedRandomness<'_> {
    fn private_init(&self) -> Rng {
        self.root.stream(streams::PRIVATE, self.user)
    }

    fn disclosed_init(&self) -> Rng {
        self.root.stream(streams::DISCLOSED, self.user)
    }

    fn fixed_disclosure(&self) -> u64 {
        self.root.stream(streams::FIXED_DISCLOSURE, self.user).next_u64()
    }

    fn round(&self) -> Rng {
        self.round.stream(streams::DEVICE, self.user)
    }

    fn training_noise(&self) -> SecureRng {
        SecureRng::simulated(self.round, streams::TRAINING_NOISE, self.user)
    }

    fn upload_noise(&self) -> SecureRng {
        SecureRng::simulated(self.round, streams::UPLOAD_NOISE, self.user)
    }

    /// Simulated updates are not sealed; a deployed device has its secret for this.
    fn seal_seed(&self, purpose: &str) -> [u8; 32] {
        SecureRng::simulated(self.round, purpose, self.user).seed()
    }
}

/// Random bytes that a device is given at enrolment and never sends. Its random numbers and idempotency keys follow
/// from them, masks and noise together with fresh ones.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Secret {
    /// From random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, to be stored.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn derive(&self, label: &str, detail: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&(label.len() as u64).to_le_bytes()).update(label.as_bytes()).update(detail);
        hasher.finalize()
    }

    /// An idempotency key for a request: 64 hexadecimal digits that reveal nothing.
    pub fn idempotency_key(&self, label: &str, number: u64) -> String {
        self.derive(label, &number.to_le_bytes()).to_hex().to_string()
    }

    /// 32 secret bytes of a round.
    pub fn key(&self, label: &str, round: RoundId) -> [u8; 32] {
        *self.derive(label, &round.0.to_le_bytes()).as_bytes()
    }

    /// The secret half of the device's identity.
    pub fn identity(&self) -> [u8; 32] {
        *self.derive("identity", &[]).as_bytes()
    }

    /// Random numbers by label.
    pub fn rng(&self, label: &str, detail: &[u8]) -> Rng {
        let [a, b, c, d, e, f, g, h, ..] = *self.derive(label, detail).as_bytes();
        Rng::new(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }
}

/// Which random numbers a device uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seeds {
    /// The device's own, from its secret.
    #[default]
    Own,
    /// Those of a simulated user, so that a deployed federation can be compared with the simulator. Anybody who knows
    /// the seed knows what this device draws: never for people's devices.
    Simulated {
        /// The simulation's seed.
        seed: u64,
        /// The user's number.
        user: u64,
    },
}

impl Seeds {
    /// The random numbers of a round, from the device's secret and the one that decides which items are disclosed; the
    /// latter outlives the former when an owner enrols again. `fresh` are random bytes of the moment, for masks and
    /// noise: a device restored from a back-up would otherwise hide another update of the same round under the same
    /// ones, and the difference of the two would be in the open.
    pub fn in_round<'a>(
        &self,
        (secret, disclosure): (&'a Secret, &'a Secret),
        model: &'a str,
        round: RoundId,
        fresh: [u8; 32],
    ) -> InRound<'a> {
        let simulated = match *self {
            Self::Own => None,
            Self::Simulated { seed, user } => {
                let root = streams::root(seed, model);
                let in_round = streams::round(&root, round.0);
                Some((root, in_round, user))
            }
        };
        InRound { secret, disclosure, model, round, fresh, simulated }
    }
}

/// The random numbers of a deployed device in a round.
pub struct InRound<'a> {
    secret: &'a Secret,
    disclosure: &'a Secret,
    model: &'a str,
    round: RoundId,
    fresh: [u8; 32],
    simulated: Option<(Rng, Rng, u64)>,
}

impl InRound<'_> {
    /// 32 secret bytes that no other attempt at this round has.
    fn fresh_key(&self, label: &str) -> [u8; 32] {
        let detail = [&self.round.0.to_le_bytes()[..], &self.fresh].concat();
        *self.secret.derive(label, &detail).as_bytes()
    }

    fn simulated(&self) -> Option<SimulatedRandomness<'_>> {
        let (root, round, user) = self.simulated.as_ref()?;
        Some(SimulatedRandomness { root, round, user: *user })
    }
}

impl Randomness for InRound<'_> {
    fn private_init(&self) -> Rng {
        let own = || self.secret.rng(streams::PRIVATE, self.model.as_bytes());
        self.simulated().map_or_else(own, |simulated| simulated.private_init())
    }

    fn disclosed_init(&self) -> Rng {
        let own = || self.secret.rng(streams::DISCLOSED, self.model.as_bytes());
        self.simulated().map_or_else(own, |simulated| simulated.disclosed_init())
    }

    /// Never another, whatever the model and the round, as long as the device has this secret.
    fn fixed_disclosure(&self) -> u64 {
        let own = || self.disclosure.rng(streams::FIXED_DISCLOSURE, &[]).next_u64();
        self.simulated().map_or_else(own, |simulated| simulated.fixed_disclosure())
    }

    fn round(&self) -> Rng {
        let detail = || [&self.round.0.to_le_bytes()[..], self.model.as_bytes()].concat();
        let own = || self.secret.rng(streams::ROUND, &detail());
        self.simulated().map_or_else(own, |simulated| simulated.round())
    }

    fn training_noise(&self) -> SecureRng {
        let own = || SecureRng::new(self.fresh_key(streams::TRAINING_NOISE));
        self.simulated().map_or_else(own, |simulated| simulated.training_noise())
    }

    fn upload_noise(&self) -> SecureRng {
        let own = || SecureRng::new(self.fresh_key(streams::UPLOAD_NOISE));
        self.simulated().map_or_else(own, |simulated| simulated.upload_noise())
    }

    /// Always the device's own: masks and encryption cancel in the sum.
    fn seal_seed(&self, purpose: &str) -> [u8; 32] {
        self.fresh_key(purpose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_numbers_differ_by_secret_purpose_and_round_and_repeat() {
        let (one, two) = (Secret::new([1; 32]), Secret::new([2; 32]));
        let of = |secret, model, round| Seeds::Own.in_round((secret, secret), model, RoundId(round), [0; 32]);
        let drawn = |secret, round| of(secret, "fpl", round).round().next_u64();
        assert_eq!(drawn(&one, 3), drawn(&one, 3));
        let mut all = vec![drawn(&one, 3), drawn(&one, 4), drawn(&two, 3)];
        all.push(of(&one, "fpl", 3).private_init().next_u64());
        all.push(of(&one, "fcf", 3).private_init().next_u64());
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 5);
        assert_eq!(of(&one, "fpl", 3).fixed_disclosure(), of(&one, "fcf", 8).fixed_disclosure());
        assert_ne!(of(&one, "fpl", 3).fixed_disclosure(), of(&two, "fpl", 3).fixed_disclosure());
        assert_ne!(one.idempotency_key("update", 1), one.idempotency_key("update", 2));
        assert_eq!(format!("{one:?}"), "Secret(..)");
    }

    #[test]
    fn masks_and_noise_of_a_second_attempt_are_others() {
        let secret = Secret::new([1; 32]);
        let attempt = |fresh| Seeds::Own.in_round((&secret, &secret), "fpl", RoundId(3), [fresh; 32]);
        let (one, two) = (attempt(1), attempt(2));
        assert_eq!(one.seal_seed("seal"), attempt(1).seal_seed("seal"));
        assert_ne!(one.seal_seed("seal"), two.seal_seed("seal"));
        assert_ne!(one.upload_noise().seed(), two.upload_noise().seed());
        assert_ne!(one.training_noise().seed(), two.training_noise().seed());
        // Which items are disclosed must not be drawn again.
        assert_eq!(one.round().next_u64(), two.round().next_u64());
    }

    #[test]
    fn simulated_numbers_are_the_simulators() {
        let secret = Secret::new([0; 32]);
        let deployed = Seeds::Simulated { seed: 7, user: 12 }.in_round((&secret, &secret), "fpl", RoundId(5), [0; 32]);
        let root = streams::root(7, "fpl");
        let round = streams::round(&root, 5);
        let simulated = SimulatedRandomness { root: &root, round: &round, user: 12 };
        assert_eq!(deployed.fixed_disclosure(), simulated.fixed_disclosure());
        assert_eq!(deployed.private_init().next_u64(), simulated.private_init().next_u64());
        assert_eq!(deployed.round().next_u64(), simulated.round().next_u64());
        assert_eq!(deployed.upload_noise().next_u64(), simulated.upload_noise().next_u64());
        // The names of streams are part of every published result.
        let expected = Rng::new(7).stream("fpl", 0).stream("rounds", 0).stream("round", 5).stream("device", 12);
        assert_eq!(simulated.round().next_u64(), expected.clone().next_u64());
    }
}
