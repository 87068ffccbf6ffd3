//! What a server waits for, what becomes of messages, and what a round gives.

use super::messages::Head;
use super::{Malformed, Seat, TermsError};

/// What the server is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// [`Advertise`](super::Advertise) of every device asked.
    Advertise,
    /// [`Shares`](super::Shares) of those who advertised.
    Share,
    /// [`Masked`](super::Masked) of those who shared.
    Mask,
    /// [`Confirm`](super::Confirm) of those whose input came, where the terms ask for signatures.
    Confirm,
    /// [`Unmask`](super::Unmask) of those whose input came, and who confirmed where the terms ask for signatures.
    Unmask,
    /// Nothing: the sum is there.
    Done,
}

/// What became of a message that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It counts from now on.
    New,
    /// It was there already.
    Again,
}

/// Why one message is not taken; the round goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Bytes that are no message of this step.
    #[error("not a message of the step {step:?}: {why}")]
    Malformed {
        /// What the server is waiting for.
        step: Step,
        /// What is wrong.
        why: Malformed,
    },
    /// For another federation or round, or in another device's name.
    #[error("a message of {found:?} from seat {seat} of {expected:?}")]
    Elsewhere {
        /// Where it belongs.
        found: Head,
        /// Who sent it.
        seat: Seat,
        /// Which round this is.
        expected: Head,
    },
    /// From a device that is not, or no longer, in this step.
    #[error("seat {seat} has no part in the step {step:?}")]
    NoPart {
        /// Who.
        seat: Seat,
        /// Where.
        step: Step,
    },
    /// Another message in the place of the first.
    #[error("seat {seat} sent another message before in the step {step:?}")]
    Changed {
        /// Who.
        seat: Seat,
        /// Where.
        step: Step,
    },
    /// The key of another device too.
    #[error("seat {0} advertises a key that another device has")]
    Key(Seat),
    /// Signed keys where none are asked for, or the other way round.
    #[error("the keys of seat {0} are signed where the terms ask for none, or the other way round")]
    Identity(Seat),
    /// Keys or confirmations that the device's identity has not signed.
    #[error("seat {seat}: its {list} do not bear the signature of its identity")]
    Signature {
        /// Who.
        seat: Seat,
        /// Of what.
        list: &'static str,
    },
    /// One identity in two seats.
    #[error("the identity of seat {0} has another seat in this round")]
    Twice(Seat),
    /// A list that is not of exactly those devices it must be of, in their order.
    #[error("seat {seat}: its {list} are not of the devices they must be of")]
    List {
        /// Who.
        seat: Seat,
        /// Which list.
        list: &'static str,
    },
    /// An input of the wrong length.
    #[error("seat {seat}: {found} values, but the terms say {expected}")]
    Length {
        /// Who.
        seat: Seat,
        /// How many there are.
        found: usize,
        /// How many there must be.
        expected: u32,
    },
}

/// Why a round ends without a sum. Nothing of any input is known then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Aborted {
    /// Too few devices advertised, or no parameters for so many.
    #[error("after the step {step:?}: {why}")]
    Terms {
        /// Which step was closed.
        step: Step,
        /// What is wrong.
        why: TermsError,
    },
    /// Some device has too few neighbours left.
    #[error("after the step {step:?}, {left} neighbours of seat {seat} are left, but {threshold} are needed")]
    TooFew {
        /// Which step was closed.
        step: Step,
        /// Whose neighbourhood.
        seat: Seat,
        /// How many are left.
        left: usize,
        /// The threshold.
        threshold: u32,
    },
    /// Shares that give no secret that fits what its owner said at first.
    #[error("the shares of seat {0} give no secret of its: some are false")]
    Shares(Seat),
    /// Nothing is left to close.
    #[error("the round is over")]
    Over,
}

/// What a round gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The sum of the inputs, modulo 2^32.
    pub words: Vec<u32>,
    /// Whose inputs, by ascending seat.
    pub counted: Vec<Seat>,
}
