//! Removing the masks from a sum by the revealed shares.

use super::ClientIndex;
use super::keys;
use super::mask::add_keystream;
use super::messages::RevealedShare;
use super::reed_solomon::{self, Recovered};
use super::server::{Doubts, Server, find};
use super::shamir::Share;
use super::step::{AbortReason, Step};
use x25519_dalek::{PublicKey, StaticSecret};

/// The sum of the inputs from the sum of the masked ones: without each survivor's self mask, and without the masks that
/// survivors share with devices that dropped out, which nothing cancels. Counts boxes that did not open and false
/// shares, also if there is no sum in the end.
pub(crate) fn unmasked(server: &Server, doubts: &mut Doubts) -> Result<Vec<u32>, AbortReason> {
    count_unopened(server, doubts);
    let mut sum = server.sum.clone();
    for &client in server.shares.keys() {
        if server.masked.contains_key(&client) {
            let key = keys::self_mask_key(&server.config, client, &self_mask(server, client, doubts)?);
            add_keystream(&key, true, &mut sum);
        } else {
            remove_pairs(server, client, &mask_key(server, client, doubts)?, &mut sum)?;
        }
    }
    Ok(sum)
}

fn self_mask(server: &Server, client: ClientIndex, doubts: &mut Doubts) -> Result<[u8; 32], AbortReason> {
    let commitment = server.shares.get(&client).map(|shares| shares.commitment);
    recover(server, client, doubts, |seed| Some(keys::commitment(seed)) == commitment)
}

fn mask_key(server: &Server, client: ClientIndex, doubts: &mut Doubts) -> Result<StaticSecret, AbortReason> {
    let public = server.keys.get(&client).map(|keys| keys.masks);
    let fits = |secret: &[u8; 32]| Some(PublicKey::from(&StaticSecret::from(*secret)).to_bytes()) == public;
    recover(server, client, doubts, fits).map(StaticSecret::from)
}

/// Who left a neighbour out of its shares says that its box did not open. One of the two lies: both are in doubt.
fn count_unopened(server: &Server, doubts: &mut Doubts) {
    for (&holder, message) in &server.unmasked {
        let owners = server.neighbours_in(holder, &server.shares);
        for owner in owners.into_iter().filter(|owner| find(&message.shares, *owner).is_none()) {
            doubt(doubts, [owner, holder]);
        }
    }
}

/// Either the owner of a secret or the holder of its share lied.
fn doubt(doubts: &mut Doubts, both: [ClientIndex; 2]) {
    both.into_iter().for_each(|client| *doubts.entry(client).or_default() += 1);
}

/// One holder's share of a secret.
struct HeldShare {
    holder: ClientIndex,
    share: (u8, Share),
}

fn recover(
    server: &Server,
    client: ClientIndex,
    doubts: &mut Doubts,
    fits: impl Fn(&[u8; 32]) -> bool,
) -> Result<[u8; 32], AbortReason> {
    let (mut held, threshold) = (shares_of(server, client), server.threshold());
    if held.len() < threshold as usize {
        return Err(AbortReason::TooFew(Step::Unmask, client, held.len(), threshold));
    }
    // Whose shares were false before come last: correcting errors is dear, and a liar is found once.
    held.sort_by_key(|held| doubts.get(&held.holder).copied().unwrap_or(0));
    let shares: Vec<(u8, Share)> = held.iter().map(|held| held.share).collect();
    let recovered = reed_solomon::recover(&shares, threshold as usize, fits);
    let Recovered { secret, mut wrong } = recovered.ok_or(AbortReason::Shares(client))?;
    if wrong.is_empty() {
        // The first shares were true; those of devices in doubt are compared with them.
        let (first, rest) = shares.split_at(threshold as usize);
        let doubted = held[threshold as usize..].iter().position(|held| doubts.contains_key(&held.holder));
        let doubted = doubted.unwrap_or(rest.len());
        wrong = reed_solomon::unlike(first, &rest[doubted..]);
        wrong.iter_mut().for_each(|position| *position += threshold as usize + doubted);
    }
    wrong.into_iter().for_each(|position| doubt(doubts, [client, held[position].holder]));
    Ok(secret)
}

/// The revealed shares of a device's secret; [`Server::check`] has seen to it that they are of the right one of two.
fn shares_of(server: &Server, client: ClientIndex) -> Vec<HeldShare> {
    let Some(graph) = &server.graph else { return Vec::new() };
    let from = |&holder: &ClientIndex| {
        let (RevealedShare::SelfMask(share) | RevealedShare::MaskKey(share)) =
            find(&server.unmasked.get(&holder)?.shares, client)?;
        Some(HeldShare { holder, share: (graph.point(client, holder)?, *share) })
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
