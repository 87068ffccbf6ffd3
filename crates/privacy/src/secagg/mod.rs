//! Secure aggregation: the server learns the sum of a round and nothing else.
//!
//! SecAgg+ (Bell, Bonawitz, Gascón, Lepoint, Raykova, CCS 2020), which is the protocol of Bonawitz et al. (CCS 2017) on
//! a graph: each device speaks with `k` neighbours instead of all `n`. Inputs are vectors of `u32` of one length; sums
//! are modulo 2^32.
//!
//! | step | device to server | server to device |
//! |---|---|---|
//! | advertise | two X25519 keys | the keys of its neighbours |
//! | share | Shamir shares of its self-mask seed and mask key, encrypted for each neighbour | the shares meant for it |
//! | mask | input + self mask + masks shared with neighbours, which cancel in the sum | which neighbours' inputs came |
//! | confirm (with identities) | a signature for each neighbour it counts in | the signatures about itself |
//! | unmask | of each neighbour one share: of the seed if its input came, of the key if not | |
//!
//! [`Device`] and [`Server`] are state machines without I/O, clock or entropy: messages in, messages out. A server is a
//! function of its seed, the messages of each step and when each step was closed, so it can be rebuilt from stored
//! messages; a device is saved and restored as bytes. Repeating a message is no error; sending another in its place is.
//!
//! # What holds, against whom
//!
//! [`Parameters`] hold a threshold `t` for neighbourhoods of size `k`. Fewer than `t` shares of a secret reveal nothing
//! of it.
//! - A *semi-honest* server follows the protocol and pools what it sees with colluding devices: safe while fewer than
//!   `t` of a device's neighbours collude and the others still form one connected graph.
//! - A *malicious* server may tell devices different lists of who dropped out, to collect both secrets of one device.
//!   No honest device reveals both of one neighbour, so with `c` colluding neighbours `k + c` shares are all there are,
//!   and `2t > k + c` protects one of the secrets. See [`ThreatModel`].
//! - The server says who the neighbours are. Without identities from a roster ([`Identity`]) it can invent devices:
//!   then the threshold protects only if the server was honest when it built the graph. With identities, keys and
//!   configuration are signed, and a device unmasks only when `t` neighbours have signed that they count it in. The
//!   server checks signatures too, so that a device with false ones cannot make its neighbours leave, but it cannot
//!   know which identities are genuine.
//!
//! # What lying devices can do
//!
//! A false input is not detected: the sum hides it as it hides all others. Keys of small order are refused at the door.
//! False shares are corrected (as a Reed-Solomon code) while they are at most half of the shares beyond the
//! threshold, with the commitment as the proof that the secret is right. A box that does not open costs its sender one
//! share: the recipient keeps the mask they have in common, and names the seat by leaving it out of its last message.
//! Who sends boxes that many cannot open, shares that nobody can use, or false shares of many, is a
//! [suspect](Server::suspects): counted over all neighbours, so that few cannot make one of somebody honest.

mod config;
mod cost;
mod device;
mod graph;
mod identity;
mod keys;
mod mask;
mod messages;
mod parameters;
mod persistence;
mod reed_solomon;
mod server;
mod shamir;
mod step;
mod unmasking;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

pub(crate) use config::{CHECK_WORD, MOST_DEVICES, MOST_VALUES};
pub use config::{Config, ConfigError};
pub use cost::overhead_bytes;
pub use device::{Device, DeviceError};
pub(crate) use identity::signed;
pub use identity::{Identity, IdentityKey, Roster, RosterError, read_roster};
pub(crate) use keys::is_low_order;
pub use mask::add_keystream;
pub(crate) use messages::expect_byte;
pub use messages::{
    Advertise, Confirm, Confirmations, EncryptedShares, Header, Masked, Message, Neighbours, PublicKeys, RevealedShare,
    Shares, Survivors, Unmask,
};
pub(crate) use parameters::devices_in;
pub use parameters::{Parameters, ParametersError, ThreatModel};
pub use server::{Checked, Server};
pub use step::{AbortReason, Receipt, RejectedMessage, Step, Sum, Suspicion};

/// A device's index in one round, counted from 0. It says nothing of the device in other rounds.
pub type ClientIndex = u32;
