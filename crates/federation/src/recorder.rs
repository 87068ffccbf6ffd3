//! What the server of a simulated federation gets to see, for those who want to know what it could learn from it.

use crate::Aggregate;
use sottovoce_protocol::{Parameters, Update};

/// Sees what the server sees of a round. It changes nothing.
///
/// [`begin`](Self::begin) and [`sum`](Self::sum) are called on the thread that runs the rounds, before and after all of a
/// round's uploads. [`upload`](Self::upload) and [`sealed`](Self::sealed) are called from several threads at once, in no
/// particular order within a round, once a device: what is recorded must not depend on that order.
pub trait Recorder: Send + Sync {
    /// A round begins: its number, from 0, the shared model that devices are given, and who is asked.
    fn begin(&self, round: u64, shared: &Parameters, cohort: &[u32]);

    /// An upload that came in time and that the server can read.
    fn upload(&self, round: u64, device: u32, update: &Update);

    /// An upload that came in time and that the server cannot read; it knows which device sent it.
    fn sealed(&self, round: u64, device: u32);

    /// What all uploads of a round come to.
    fn sum(&self, round: u64, aggregate: &Aggregate);
}
