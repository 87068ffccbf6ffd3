//! Secure aggregation: the server learns the sum of a round and nothing else.
//!
//! SecAgg+ (Bell, Bonawitz, Gascón, Lepoint, Raykova, CCS 2020), which is the protocol of Bonawitz et al. (CCS 2017) on a graph:
//! each device speaks with `k` neighbours instead of all `n`. Inputs are vectors of `u32` of one length; sums are modulo 2^32.
//!
//! | step | device to server | server to device |
//! |---|---|---|
//! | advertise | two X25519 keys | the keys of its neighbours |
//! | share | Shamir shares of its self-mask seed and of its mask key, one sealed box a neighbour | the boxes meant for it |
//! | mask | input + self mask + masks shared with each neighbour, signed so that they cancel | which neighbours' inputs came |
//! | confirm (with identities) | a signature for each neighbour it counts as in | the signatures about itself |
//! | unmask | of each neighbour one share: of the seed if its input came, of the key if not | |
//!
//! [`Device`] and [`Server`] are state machines without I/O, clock or entropy: messages in, messages out. A server is a function
//! of its seed, the messages of each step and when each step was closed, so it can be rebuilt from stored messages; a device
//! is saved and restored as bytes. The same message twice is no error; another message in its place is.
//!
//! # What holds, against whom
//!
//! [`Parameters`] hold a threshold `t` for neighbourhoods of size `k`. Who holds fewer than `t` shares of a secret trusts nothing of it.
//! - A *curious* server follows the protocol and pools what it sees with colluding devices: safe while fewer than `t` of a
//!   device's neighbours collude and the others still form one connected graph.
//! - A *lying* server may tell devices different stories of who dropped out, to collect both secrets of one device. No honest
//!   device gives both for one peer, so with `c` colluding neighbours `k + c` shares are all there are, and `2t > k + c`
//!   keeps one of the secrets. See [`ThreatModel`].
//! - Who the neighbours are, the server says. Without identities known from elsewhere ([`Identity`]) it can invent devices: then
//!   only what the server was at the time of the graph protects, not the threshold. With identities, keys and terms are signed,
//!   and a device unmasks only when `t` neighbours have signed that they count it in. The server looks at signatures too, so that
//!   a device with false ones cannot make its neighbours leave, but which identities are real it cannot know.
//!
//! A wrong input (a lie about one's own vector) is not recognised here: the sum hides it as it hides all others.

mod cost;
mod device;
mod graph;
mod identity;
mod keys;
mod mask;
mod messages;
mod outcome;
mod parameters;
mod saved;
mod server;
mod sharing;
mod terms;
mod trial;
mod unmasking;
mod wire;

#[cfg(test)]
mod coalition;

pub use cost::overhead_bytes;
pub use device::{Device, DeviceError};
pub use identity::{Identity, IdentityKey, Roster, RosterError, read_roster};
pub use mask::add_keystream;
pub use messages::{
    Advertise, Confirm, Confirmations, Header, EncryptedShares, Kind, Masked, Message, Neighbours, Peer, PublicKeys,
    RevealedShare, EncryptedShare, Shares, Survivors, Unmask,
};
pub use outcome::{AbortReason, Receipt, RejectedMessage, Step, Sum};
pub use parameters::{ThreatModel, Parameters, ParametersError};
pub use server::Server;
pub use terms::{Config, ConfigError};
pub use trial::{Figures, StepBytes, TrialError, trial};
pub use wire::Malformed;
#[doc(hidden)]
pub use wire::Reader;

/// A device's place in one round, counted from 0. It says nothing of the device in other rounds.
pub type ClientIndex = u32;
