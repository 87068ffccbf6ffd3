//! What a server waits for, what becomes of messages, and what a round gives.

use super::messages::Header;
use super::{Malformed, ClientIndex, ConfigError};

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
pub enum Receipt {
    /// It counts from now on.
    New,
    /// It was there already.
    Duplicate,
}

/// Why one message is not taken; the round goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectedMessage {
    /// Bytes that are no message of this step.
    #[error("not a message of the step {step:?}: {why}")]
    Malformed {
        /// What the server is waiting for.
        step: Step,
        /// What is wrong.
        why: Malformed,
    },
    /// For another federation or round, or in another device's name.
    #[error("a message of {found:?} from client {client} of {expected:?}")]
    Elsewhere {
        /// Where it belongs.
        found: Header,
        /// Who sent it.
        client: ClientIndex,
        /// Which round this is.
        expected: Header,
    },
    /// From a device that is not, or no longer, in this step.
    #[error("client {client} has no part in the step {step:?}")]
    NotParticipating {
        /// Who.
        client: ClientIndex,
        /// Where.
        step: Step,
    },
    /// Another message in the place of the first.
    #[error("client {client} sent another message before in the step {step:?}")]
    Changed {
        /// Who.
        client: ClientIndex,
        /// Where.
        step: Step,
    },
    /// The key of another device too.
    #[error("client {0} advertises a key that another device has")]
    Key(ClientIndex),
    /// Signed keys where none are asked for, or the other way round.
    #[error("the keys of client {0} are signed where the terms ask for none, or the other way round")]
    Identity(ClientIndex),
    /// Keys or confirmations that the device's identity has not signed.
    #[error("client {client}: its {list} do not bear the signature of its identity")]
    Signature {
        /// Who.
        client: ClientIndex,
        /// Of what.
        list: &'static str,
    },
    /// One identity in two clients.
    #[error("the identity of client {0} has another client in this round")]
    Twice(ClientIndex),
    /// A list that is not of exactly those devices it must be of, in their order.
    #[error("client {client}: its {list} are not of the devices they must be of")]
    List {
        /// Who.
        client: ClientIndex,
        /// Which list.
        list: &'static str,
    },
    /// An input of the wrong length.
    #[error("client {client}: {found} values, but the terms say {expected}")]
    Length {
        /// Who.
        client: ClientIndex,
        /// How many there are.
        found: usize,
        /// How many there must be.
        expected: u32,
    },
}

/// Why a round ends without a sum. Nothing of any input is known then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AbortReason {
    /// Too few devices advertised, or no parameters for so many.
    #[error("after the step {step:?}: {why}")]
    Config {
        /// Which step was closed.
        step: Step,
        /// What is wrong.
        why: ConfigError,
    },
    /// Some device has too few neighbours left.
    #[error("after the step {step:?}, {left} neighbours of client {client} are left, but {threshold} are needed")]
    TooFew {
        /// Which step was closed.
        step: Step,
        /// Whose neighbourhood.
        client: ClientIndex,
        /// How many are left.
        left: usize,
        /// The threshold.
        threshold: u32,
    },
    /// Shares that give no secret that fits what its owner said at first.
    #[error("the shares of client {0} give no secret of its: some are false")]
    Shares(ClientIndex),
    /// Nothing is left to close.
    #[error("the round is over")]
    Over,
}

/// What a round gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The sum of the inputs, modulo 2^32.
    pub words: Vec<u32>,
    /// Whose inputs, by ascending client.
    pub counted: Vec<ClientIndex>,
}
