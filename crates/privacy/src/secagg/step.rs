//! The steps of a round, and how messages and rounds fail.

use super::messages::Header;
use super::{ClientIndex, ConfigError};
use sottovoce_protocol::DecodeError;

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
    /// [`Unmask`](super::Unmask) of those whose input came, and who confirmed where the configuration asks for
    /// signatures.
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
    /// Bytes that are not a message of this step. Fields: what the server is waiting for; what is wrong.
    #[error("not a message of the step {0:?}: {1}")]
    Malformed(Step, DecodeError),
    /// For another federation or round, or in another device's name. Fields: its header; who sent it; which round this
    /// is.
    #[error("a message of {0:?} from client {1} of {2:?}")]
    WrongSender(Header, ClientIndex, Header),
    /// From a device that is not, or no longer, in this step. Fields: who; where.
    #[error("client {0} is not in the step {1:?}")]
    NotParticipating(ClientIndex, Step),
    /// A message of a step that was closed without it. Fields: who; which step it is now.
    #[error("a message of client {0} came too late: the round is in the step {1:?}")]
    Late(ClientIndex, Step),
    /// Another message after the first. Fields: who; where.
    #[error("client {0} sent another message before in the step {1:?}")]
    Changed(ClientIndex, Step),
    /// A key of small order: with it, everybody would have the same secret.
    #[error("client {0} advertises a key of small order")]
    LowOrder(ClientIndex),
    /// A key that another device advertised.
    #[error("client {0} advertises a key of another device")]
    Key(ClientIndex),
    /// Signed keys where none are asked for, or the reverse.
    #[error("the keys of client {0} are signed although the configuration asks for none, or the reverse")]
    Identity(ClientIndex),
    /// Keys or confirmations that the device's identity has not signed. Fields: who; of what.
    #[error("client {0}: its identity did not sign its {1}")]
    Signature(ClientIndex, &'static str),
    /// One identity for two clients.
    #[error("the identity of client {0} is also another client's")]
    DuplicateIdentity(ClientIndex),
    /// A list that is not of exactly the expected devices, in order. Fields: who; which list.
    #[error("client {0}: its {1} are not those of the expected devices")]
    List(ClientIndex, &'static str),
    /// An input of the wrong length. Fields: who; how many words there are; how many there must be, the check word
    /// included.
    #[error("client {0}: {1} words, but the configuration says {2}")]
    Length(ClientIndex, usize, usize),
}

impl RejectedMessage {
    /// Whether an honest device may have sent it: one that is slow, or was away.
    pub fn is_late(&self) -> bool {
        matches!(self, Self::Late(..) | Self::NotParticipating(..))
    }
}

/// Why a round ends without a sum. No input is revealed then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AbortReason {
    /// Too few devices advertised, or no parameters for so many. Fields: which step was closed; what is wrong.
    #[error("after the step {0:?}: {1}")]
    Config(Step, ConfigError),
    /// A device has too few neighbours left. Fields: which step was closed; whose neighbourhood; how many are left; the
    /// threshold.
    #[error("after the step {0:?}, {2} neighbours of client {1} are left, but {3} are needed")]
    TooFew(Step, ClientIndex, usize, u32),
    /// Shares that do not reconstruct the secret that its owner committed to.
    #[error("the shares of client {0} do not reconstruct its secret: some are false")]
    Shares(ClientIndex),
    /// Masks did not cancel. Fields: inputs in the sum.
    #[error(
        "the masks of {0} inputs do not cancel: some device was told other terms or another model than the others, or \
         sent false values. Nothing of any input is revealed, nor whose mask is left"
    )]
    Residue(usize),
    /// No step is left to close.
    #[error("the round is over")]
    Over,
}

/// Why a device is suspected of lying; counted over its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Suspicion {
    /// Its secret cannot be reconstructed although enough neighbours answered, so that the round was lost.
    #[error("its shares do not reconstruct its secret")]
    Shares,
    /// With more than half of its neighbours a box did not open or a share was false.
    #[error("boxes that do not open or false shares between it and more than half of its neighbours")]
    Neighbours,
}

/// The result of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The sum of the inputs, modulo 2^32.
    pub words: Vec<u32>,
    /// Whose inputs, by ascending client.
    pub counted: Vec<ClientIndex>,
}
