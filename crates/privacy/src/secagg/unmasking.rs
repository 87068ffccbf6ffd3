//! Taking the masks off a sum, from the shares that came back.

use super::ClientIndex;
use super::keys;
use super::mask::{Sign, apply};
use super::messages::{Header, RevealedShare};
use super::outcome::{AbortReason, Step};
use super::server::Server;
use super::sharing::{self, Share};
use x25519_dalek::{PublicKey, StaticSecret};

/// The sum of the inputs that came, from the sum of the masked ones: without each survivor's own mask, and without the
/// masks that survivors share with those who fell silent, which nobody else's cancel.
pub(crate) fn unmasked(server: &Server) -> Result<Vec<u32>, AbortReason> {
    let mut sum = server.sum.clone();
    for &client in server.shares.keys() {
        if server.masked.contains_key(&client) {
            let key = keys::own_key(&Header::new(&server.terms, client), client, &own_mask(server, client)?);
            apply(&key, Sign::Minus, &mut sum);
        } else {
            remove_pairs(server, client, &mask_key(server, client)?, &mut sum)?;
        }
    }
    Ok(sum)
}

fn own_mask(server: &Server, client: ClientIndex) -> Result<[u8; 32], AbortReason> {
    let commitment = server.shares.get(&client).map(|shares| shares.commitment);
    recover(server, client, |own| Some(keys::commitment(own)) == commitment)
}

fn mask_key(server: &Server, client: ClientIndex) -> Result<StaticSecret, AbortReason> {
    let public = server.keys.get(&client).map(|keys| keys.masks);
    let fits = |secret: &[u8; 32]| Some(PublicKey::from(&StaticSecret::from(*secret)).to_bytes()) == public;
    recover(server, client, fits).map(StaticSecret::from)
}

fn recover(server: &Server, client: ClientIndex, fits: impl Fn(&[u8; 32]) -> bool) -> Result<[u8; 32], AbortReason> {
    let (shares, threshold) = (shares_of(server, client), server.threshold());
    if shares.len() < threshold as usize {
        return Err(AbortReason::TooFew { step: Step::Unmask, client, left: shares.len(), threshold });
    }
    sharing::recover(&shares, threshold as usize, fits).ok_or(AbortReason::Shares(client))
}

/// What was revealed of a device's one secret; which of the two, [`Server::receive`] has seen to.
fn shares_of(server: &Server, client: ClientIndex) -> Vec<(u8, Share)> {
    let Some(graph) = &server.graph else { return Vec::new() };
    let from = |&holder: &ClientIndex| {
        let revealed = &server.unmasked.get(&holder)?.shares;
        let place = revealed.binary_search_by_key(&client, |(of, _)| *of).ok()?;
        let (RevealedShare::SelfMask(share) | RevealedShare::MaskKey(share)) = revealed[place].1;
        Some((graph.point(client, holder)?, share))
    };
    graph.of(client).iter().filter_map(from).collect()
}

/// Each survivor added its mask with the device that fell silent as its own client told it to; this takes it off again.
fn remove_pairs(
    server: &Server,
    silent: ClientIndex,
    secret: &StaticSecret,
    sum: &mut [u32],
) -> Result<(), AbortReason> {
    let header = Header::new(&server.terms, silent);
    for peer in server.neighbours_in(silent, &server.masked) {
        let public = server.keys.get(&peer).map(|keys| keys.masks).unwrap_or_default();
        let key = keys::pair_key(&header, (silent, secret), (peer, &public)).ok_or(AbortReason::Shares(peer))?;
        let added = if peer < silent { Sign::Plus } else { Sign::Minus };
        apply(&key, added.flipped(), sum);
    }
    Ok(())
}
