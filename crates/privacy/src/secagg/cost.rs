//! What secure aggregation adds to the bytes of an input.

use super::messages::{
    Advertise, Confirm, Header, Masked, Message as _, PublicKeys, RevealedShare, EncryptedShare, Shares, Unmask,
};
use super::{Parameters, Config};
use sottovoce_protocol::{FederationId, RoundId};

/// Bytes that a device of a cohort of `n` sends in a round beside its input: keys, shares and the frame around its words.
/// With identities also signatures. Where there are no parameters for such a cohort, as if everybody were everybody's neighbour.
pub fn overhead_bytes(n: u32, dropout: f64, colluding: f64, signed: bool) -> u64 {
    let neighbours = Parameters::choose_for(n, dropout, colluding, signed)
        .map_or(n.saturating_sub(1), |found| found.neighbours);
    let header = Header::new(&Config::new(FederationId(0), RoundId(0), n, 1), 0);
    let keys = PublicKeys { boxes: [0; 32], masks: [0; 32], signed: signed.then_some(([0; 32], [0; 64])) };
    let sealed = |client| EncryptedShare { client, sealed: [0; super::keys::BOX] };
    let messages = [
        Advertise { header, keys }.encode().len(),
        Shares { header, commitment: [0; 32], boxes: (0..neighbours).map(sealed).collect() }.encode().len(),
        Masked { header, words: Vec::new() }.encode().len(),
        Unmask { header, shares: (0..neighbours).map(|client| (client, RevealedShare::SelfMask([0; 32]))).collect() }
            .encode()
            .len(),
    ];
    let confirm = Confirm { header, signatures: (0..neighbours).map(|client| (client, [0; 64])).collect() };
    let confirm = signed.then(|| confirm.encode().len());
    messages.into_iter().chain(confirm).map(|bytes| bytes as u64).sum()
}
