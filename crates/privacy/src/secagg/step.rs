//! The steps of a round, and how messages and rounds fail.

use super::messages::Header;
use super::{ClientIndex, ConfigError, Malformed};

/// The step of a round: which message the server is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// [`Advertise`](super::Advertise) of every device asked.
    Advertise,
    /// [`Shares`](super::Shares) of those who advertised.
    Share,
    /// [`Masked`](super::Masked) of those who shared.
    Mask,
    /// [`Confirm`](super::Confirm) of those whose input came, where the configuration asks for signatures.
    Confirm,
    /// [`Unmask`](super::Unmask) of those whose input came, and who confirmed where the configuration asks for signatures.
    Unmask,
    /// None: the sum is known.
    Done,
}

/// How a message was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// For the first time.
    New,
    /// Again.
    Duplicate,
}

/// Why a message is rejected; the round goes on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RejectedMessage {
    /// Bytes that are not a message of this step.
    #[error("not a message of the step {step:?}: {why}")]
    Malformed {
        /// What the server is waiting for.
        step: Step,
        /// What is wrong.
        why: Malformed,
    },
    /// For another federation or round, or in another device's name.
    #[error("a message of {found:?} from client {client} of {expected:?}")]
    WrongSender {
        /// Its header.
        found: Header,
        /// Who sent it.
        client: ClientIndex,
        /// Which round this is.
        expected: Header,
    },
    /// From a device that is not, or no longer, in this step.
    #[error("client {client} is not in the step {step:?}")]
    NotParticipating {
        /// Who.
        client: ClientIndex,
        /// Where.
        step: Step,
    },
    /// Another message after the first.
    #[error("client {client} sent another message before in the step {step:?}")]
    Changed {
        /// Who.
        client: ClientIndex,
        /// Where.
        step: Step,
    },
    /// A key that another device advertised.
    #[error("client {0} advertises a key of another device")]
    Key(ClientIndex),
    /// Signed keys where none are asked for, or the reverse.
    #[error("the keys of client {0} are signed although the configuration asks for none, or the reverse")]
    Identity(ClientIndex),
    /// Keys or confirmations that the device's identity has not signed.
    #[error("client {client}: its identity did not sign its {list}")]
    Signature {
        /// Who.
        client: ClientIndex,
        /// Of what.
        list: &'static str,
    },
    /// One identity for two clients.
    #[error("the identity of client {0} is also another client's")]
    DuplicateIdentity(ClientIndex),
    /// A list that is not of exactly the expected devices, in order.
    #[error("client {client}: its {list} are not those of the expected devices")]
    List {
        /// Who.
        client: ClientIndex,
        /// Which list.
        list: &'static str,
    },
    /// An input of the wrong length.
    #[error("client {client}: {found} values, but the configuration says {expected}")]
    Length {
        /// Who.
        client: ClientIndex,
        /// How many there are.
        found: usize,
        /// How many there must be.
        expected: u32,
    },
}

/// Why a round ends without a sum. No input is revealed then.
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
    /// A device has too few neighbours left.
    #[error(
        "after the step {step:?}, {left} neighbours of client {client} are left, but {threshold} are needed"
    )]
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
    /// Shares that do not reconstruct the secret that its owner committed to.
    #[error("the shares of client {0} do not reconstruct its secret: some are false")]
    Shares(ClientIndex),
    /// No step is left to close.
    #[error("the round is over")]
    Over,
}

/// The result of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The sum of the inputs, modulo 2^32.
    pub words: Vec<u32>,
    /// Whose inputs, by ascending client.
    pub counted: Vec<ClientIndex>,
}
