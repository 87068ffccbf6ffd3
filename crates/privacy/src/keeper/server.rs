//! The server's half: uploads at the door, and the sum without its masks.

use super::messages::Upload;
use super::{Config, boxes};
use crate::secagg::{CHECK_WORD, ClientIndex, Header, Message as _, is_low_order, signed};
use sottovoce_protocol::DecodeError;

/// Why an upload is rejected before it is stored.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RejectedUpload {
    /// Bytes that are no upload.
    #[error("not an update with a sealed seed: {0}")]
    Malformed(#[from] DecodeError),
    /// For another federation, round or index.
    #[error("the update is for another round, federation or seat")]
    WrongRound,
    /// An input of the wrong length. Fields: how many words there are; how many there must be, the check word included.
    #[error("{0} words, expected {1}")]
    Length(usize, usize),
    /// A one-time key of small order.
    #[error("the one-time key of the sealed seed is not a key")]
    Key,
    /// A signature that is missing, false, or not asked for.
    #[error("the sealed seed is not signed as the terms ask")]
    Signature,
}

impl Upload {
    /// An upload of a device with this index. What its sealed seed holds, only the keeper sees.
    ///
    /// # Errors
    /// If it does not belong to this round and device, or cannot be used.
    pub fn check(config: &Config, client: ClientIndex, bytes: &[u8]) -> Result<Self, RejectedUpload> {
        let upload = Self::decode(bytes)?;
        if upload.header != (Header { federation: config.federation, round: config.round, client }) {
            return Err(RejectedUpload::WrongRound);
        }
        if upload.words.len() != config.words() {
            return Err(RejectedUpload::Length(upload.words.len(), config.words()));
        }
        if is_low_order(&upload.sealed.ephemeral) {
            return Err(RejectedUpload::Key);
        }
        let is_signed = match &upload.sealed.signed {
            Some((identity, signature)) => {
                config.signed && signed(identity, &boxes::signed_text(config, client, &upload.sealed), signature)
            }
            None => !config.signed,
        };
        if is_signed { Ok(upload) } else { Err(RejectedUpload::Signature) }
    }
}

/// Takes the keeper's sum of masks off the sum of so many masked inputs. `None` if the masks are not theirs: then
/// nothing of any input is revealed.
pub fn unmask(mut masked: Vec<u32>, masks: &[u32], updates: u32) -> Option<Vec<u32>> {
    if masked.len() != masks.len() {
        return None;
    }
    masked.iter_mut().zip(masks).for_each(|(word, mask)| *word = word.wrapping_sub(*mask));
    let (check, values) = masked.split_first()?;
    (*check == updates.wrapping_mul(CHECK_WORD)).then(|| values.to_vec())
}
