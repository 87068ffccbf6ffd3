//! The names of all random streams of a training run, so that simulator, server and devices draw the same numbers.
//!
//! A run's root is `Rng::new(seed).stream(model, 0)`. Below it:
//!
//! | stream | index | draws |
//! |---|---|---|
//! | [`SHARED`] | 0 | the shared model's initial values |
//! | [`PRIVATE`], [`DISCLOSED`] | user | the initial values of the private models |
//! | [`FIXED_DISCLOSURE`] | user | which items are disclosed, once for all rounds |
//! | [`PI`], [`REPORTING`] | user | the policies of simulated users |
//! | [`ROUNDS`] | 0 | the parent of all rounds |
//! | [`PRIVACY_ENGINE`] | 0 | the server's noise, where it is simulated |
//!
//! Below [`ROUNDS`], [`GROUPS`] with the epoch's number, and [`ROUND`] with the round's, and below that [`DEVICE`],
//! [`UPLOAD_NOISE`] and [`TRAINING_NOISE`] with the user, [`COHORT`] with the attempt, [`POISSON`] with 0. Below
//! [`DEVICE`], [`OWN_TRAINING`] with 0 and [`ADAPTING`] with the number of interactions. A device that fits a private
//! model outside rounds has a stream of its own for it, and below that [`PRIVATE`] with 0 and [`FITTING`] with the
//! step.

use sottovoce_core::Rng;

/// Initial values of the shared model.
pub const SHARED: &str = "shared";
/// Initial values of private models.
pub const PRIVATE: &str = "private";
/// Initial values of the private models that are trained only on disclosed items.
pub const DISCLOSED: &str = "shown";
/// Which items are disclosed, once for all rounds.
pub const FIXED_DISCLOSURE: &str = "kept";
/// A simulated user's pi.
pub const PI: &str = "pi";
/// Whether a simulated user reports criteria.
pub const REPORTING: &str = "reporting";
/// Parent of all rounds.
pub const ROUNDS: &str = "rounds";
/// The server's noise in the simulator.
pub const PRIVACY_ENGINE: &str = "guardian";
/// Which group of an epoch each device is in, where cohorts do not overlap.
pub const GROUPS: &str = "groups";
/// One round.
pub const ROUND: &str = "round";
/// One device's training and disclosure in a round.
pub const DEVICE: &str = "device";
/// Training of the owner's private model on withheld items, in a round.
pub const OWN_TRAINING: &str = "own";
/// Adapting to new interactions after a round.
pub const ADAPTING: &str = "adapting";
/// A step of fitting a private model without taking part in a round.
pub const FITTING: &str = "fitting";
/// Noise that a device adds to its upload.
pub const UPLOAD_NOISE: &str = "noise";
/// Noise that DP-SGD adds to the private model.
pub const TRAINING_NOISE: &str = "steps";
/// An attempt to draw a cohort.
pub const COHORT: &str = "cohort";
/// The size of a cohort under Poisson sampling.
pub const POISSON: &str = "turnout";

/// A round of training for a user who was not in training; below a stream of the caller.
pub const NEWCOMER: &str = "lesson";

/// The root of a training run.
pub fn root(seed: u64, model: &str) -> Rng {
    Rng::new(seed).stream(model, 0)
}

/// The stream of one round, from the run's root.
pub fn round(root: &Rng, round: u64) -> Rng {
    root.stream(ROUNDS, 0).stream(ROUND, round)
}
