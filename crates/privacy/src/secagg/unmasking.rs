//! Removing the masks from a sum by the revealed shares.

use super::ClientIndex;
use super::keys;
use super::mask::add_keystream;
use super::messages::RevealedShare;
use super::server::{Server, find};
use super::shamir::{self, Share};
use super::step::{AbortReason, Step};
use x25519_dalek::{PublicKey, StaticSecret};

/// The sum of the inputs from the sum of the masked ones: without each survivor's self mask, and without the masks that
/// survivors share with devices that dropped out, which nothing cancels.
pub(crate) fn unmasked(server: &Server) -> Result<Vec<u32>, AbortReason> {
    let mut sum = server.sum.clone();
    for &client in server.shares.keys() {
        if server.masked.contains_key(&client) {
            let key = keys::self_mask_key(&server.config, client, &self_mask(server, client)?);
            add_keystream(&key, true, &mut sum);
        } else {
            remove_pairs(server, client, &mask_key(server, client)?, &mut sum)?;
        }
    }
    Ok(sum)
}

fn self_mask(server: &Server, client: ClientIndex) -> Result<[u8; 32], AbortReason> {
    let commitment = server.shares.get(&client).map(|shares| shares.commitment);
    recover(server, client, |seed| Some(keys::commitment(seed)) == commitment)
}

fn mask_key(server: &Server, client: ClientIndex) -> Result<StaticSecret, AbortReason> {
    let public = server.keys.get(&client).map(|keys| keys.masks);
    let fits = |secret: &[u8; 32]| Some(PublicKey::from(&StaticSecret::from(*secret)).to_bytes()) == public;
    recover(server, client, fits).map(StaticSecret::from)
}

fn recover(server: &Server, client: ClientIndex, fits: impl Fn(&[u8; 32]) -> bool) -> Result<[u8; 32], AbortReason> {
    let (shares, threshold) = (shares_of(server, client), server.threshold());
    if shares.len() < threshold as usize {
        return Err(AbortReason::TooFew(Step::Unmask, client, shares.len(), threshold));
    }
    shamir::recover(&shares, threshold as usize, fits).ok_or(AbortReason::Shares(client))
}

/// The revealed shares of a device's secret; [`Server::receive`] has checked which of the two it is.
fn shares_of(server: &Server, client: ClientIndex) -> Vec<(u8, Share)> {
    let Some(graph) = &server.graph else { return Vec::new() };
    let from = |&holder: &ClientIndex| {
        let (RevealedShare::SelfMask(share) | RevealedShare::MaskKey(share)) =
            find(&server.unmasked.get(&holder)?.shares, client)?;
        Some((graph.point(client, holder)?, *share))
    };
    graph.of(client).iter().filter_map(from).collect()
}

/// Removes the masks that survivors share with a device that dropped out.
fn remove_pairs(
    server: &Server,
    dropped: ClientIndex,
    secret: &StaticSecret,
    sum: &mut [u32],
) -> Result<(), AbortReason> {
    for peer in server.neighbours_in(dropped, &server.masked) {
        let public = server.keys.get(&peer).map(|keys| keys.masks).unwrap_or_default();
        let key =
            keys::pair_key(&server.config, (dropped, secret), (peer, &public)).ok_or(AbortReason::Shares(peer))?;
        // The lower index has added it.
        add_keystream(&key, peer < dropped, sum);
    }
    Ok(())
}
