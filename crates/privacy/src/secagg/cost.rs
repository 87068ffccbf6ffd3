//! The communication overhead of secure aggregation.

use super::messages::{Advertise, Confirm, Header, Masked, Message as _, PublicKeys, RevealedShare, Shares, Unmask};
use super::{Config, Parameters, ThreatModel};
use sottovoce_protocol::{FederationId, RoundId};

/// Bytes that a device in a cohort of `n` sends in a round beside its input: keys, shares and headers, with identities
/// also signatures. Where there are no parameters for such a cohort, those of the complete graph.
pub fn overhead_bytes(n: u32, dropout: f64, colluding: f64, signed: bool) -> u64 {
    let neighbours = Parameters::choose(n, dropout, colluding, signed.then_some(ThreatModel::Malicious))
        .map_or(n.saturating_sub(1), |found| found.neighbours);
    let header = Header::new(&Config::new(FederationId(0), RoundId(0), n, 1), 0);
    let keys = PublicKeys { encryption: [0; 32], masks: [0; 32], signed: signed.then_some(([0; 32], [0; 64])) };
    let encrypted = |client| (client, [0; super::keys::CIPHERTEXT]);
    let messages = [
        Advertise { header, keys }.encode().len(),
        Shares { header, commitment: [0; 32], encrypted: (0..neighbours).map(encrypted).collect() }.encode().len(),
        Masked { header, words: vec![0] }.encode().len(),
        Unmask { header, shares: (0..neighbours).map(|client| (client, RevealedShare::SelfMask([0; 32]))).collect() }
            .encode()
            .len(),
    ];
    let confirm = Confirm { header, signatures: (0..neighbours).map(|client| (client, [0; 64])).collect() };
    let confirm = signed.then(|| confirm.encode().len());
    messages.into_iter().chain(confirm).map(|bytes| bytes as u64).sum()
}
