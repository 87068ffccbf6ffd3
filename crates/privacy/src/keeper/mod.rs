//! One visit is enough: masks with a keeper.
//!
//! A device sends `x + PRG(seed)` to the server, and the seed along with it, encrypted to a second party: the keeper.
//! The server sees no update, the keeper sees no masked one. When a round closes the server passes the sealed seeds of
//! the devices that came on, and the keeper returns one vector: the sum of their masks. A device sends one message and
//! is done; whoever drops out before costs nothing.
//!
//! | who | does |
//! |---|---|
//! | device | [`seal`]: masks its input and seals the seed |
//! | server | [`Upload::check`] at the door; an [`Opening`] when the round closes; [`unmask`] with the answer |
//! | keeper | [`Keeper::admit`] checks an opening against its [`Record`], [`Masks::sum`] adds up the masks |
//!
//! Masks are ChaCha20 keystreams over words modulo 2^32, as in [`secagg`](crate::secagg). It is the split of Prio
//! (Corrigan-Gibbs and Boneh, NSDI 2017) with one of two shares compressed to its seed, and without proofs about
//! inputs.
//!
//! # What holds, against whom
//!
//! - Neither the server nor the keeper alone learns more than the sum. Both together open every update.
//! - Seed and mask are bound to the round, the device's index, and the digest of terms and model ([`Config::binding`]):
//!   a seed of another round, or of a device that was told something else, does not open.
//! - A round is opened once, for one set of devices: two sets would differ by single updates. The same request again
//!   gets the same answer, so that a server that was killed may repeat it.
//! - No fewer updates are opened together than the keeper's floor, the terms' and that of each device's owner, which
//!   comes sealed with the seed.
//! - Only the server that founded a federation can have its rounds opened: it shows the secret behind
//!   [`Config::opener`].
//! - The server says who the devices are. Without identities it can invent all but one. With [`Config::signed`] each
//!   seed is signed by an identity that the keeper knows from a roster of its own.
//! - A keeper that lies can spoil the sum, as a device can. It learns nothing by that.

mod boxes;
mod messages;
mod opening;
mod server;

#[cfg(test)]
mod tests;

pub use boxes::{SealError, seal};
pub use messages::{Answer, Entry, Opening, Refused, SealedSeed, Upload};
pub use opening::{Fault, Keeper, Masks, MemoryRecord, OpenError, Record, RoundKey, SpentSeed};
pub use server::{RejectedUpload, unmask};

use crate::secagg::ClientIndex;
use sha2::{Digest, Sha256};
use sottovoce_protocol::codec::Reader;
use sottovoce_protocol::{DecodeError, FederationId, RoundId};

/// The fewest updates that may ever be opened together.
pub const LEAST: u32 = 3;

/// What a keeper's seal of a federation is about; part of the round terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeeperSeal {
    /// The keeper's public key: X25519.
    pub key: [u8; 32],
    /// Digest of the secret by which the server shows that it may have rounds opened: [`opener`].
    pub opener: [u8; 32],
    /// The fewest updates that may be opened together.
    pub least: u32,
    /// Share of the devices that may collude with the server, and take their noise off again.
    pub colluding: f64,
    /// Whether seeds are signed by identities that the keeper knows.
    pub identities: bool,
}

/// The configuration of one round, the same for devices, server and keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The federation.
    pub federation: FederationId,
    /// The round.
    pub round: RoundId,
    /// Who may have it opened: whoever knows what this is the digest of.
    pub opener: [u8; 32],
    /// Digest of everything else that a device was told of the round: its terms and the model.
    pub binding: [u8; 32],
    /// Values of an input.
    pub length: u32,
    /// The fewest updates that may be opened together.
    pub least: u32,
    /// Whether seeds are signed by identities that the keeper knows.
    pub signed: bool,
}

/// What a server tells devices of a secret that it shows to the keeper alone.
pub fn opener(secret: &[u8; 32]) -> [u8; 32] {
    Sha256::new_with_prefix(b"sottovoce keeper opener 1").chain_update(secret).finalize().into()
}

impl Config {
    /// Words of a masked input: its values and the check word.
    pub fn words(&self) -> usize {
        self.length as usize + 1
    }

    /// Binds a derived key or a signature to its purpose, to the round and to a device's index.
    fn context(&self, purpose: &str, client: ClientIndex) -> Vec<u8> {
        let mut text = Vec::with_capacity(128);
        text.push(purpose.len() as u8);
        text.extend(purpose.as_bytes());
        self.write(&mut text);
        text.extend(client.to_le_bytes());
        text
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.federation.0.to_le_bytes());
        out.extend(self.round.0.to_le_bytes());
        out.extend(self.opener);
        out.extend(self.binding);
        out.extend(self.length.to_le_bytes());
        out.extend(self.least.to_le_bytes());
        out.push(self.signed.into());
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            federation: FederationId(from.u64("federation")?),
            round: RoundId(from.u64("round")?),
            opener: from.array("opener")?,
            binding: from.array("binding")?,
            length: from.u32("length")?,
            least: from.u32("least updates")?,
            signed: from.flag("signed")?,
        })
    }
}
