//! Taking the masks off a sum, from the shares that came back.

use super::Seat;
use super::keys;
use super::mask::{Sign, apply};
use super::messages::{Head, Revealed};
use super::outcome::{Aborted, Step};
use super::server::Server;
use super::sharing::{self, Share};
use x25519_dalek::{PublicKey, StaticSecret};

/// The sum of the inputs that came, from the sum of the masked ones: without each survivor's own mask, and without the
/// masks that survivors share with those who fell silent, which nobody else's cancel.
pub(crate) fn unmasked(server: &Server) -> Result<Vec<u32>, Aborted> {
    let mut sum = server.sum.clone();
    for &seat in server.shares.keys() {
        if server.masked.contains_key(&seat) {
            let key = keys::own_key(&Head::new(&server.terms, seat), seat, &own_mask(server, seat)?);
            apply(&key, Sign::Minus, &mut sum);
        } else {
            remove_pairs(server, seat, &mask_key(server, seat)?, &mut sum)?;
        }
    }
    Ok(sum)
}

fn own_mask(server: &Server, seat: Seat) -> Result<[u8; 32], Aborted> {
    let commitment = server.shares.get(&seat).map(|shares| shares.commitment);
    recover(server, seat, |own| Some(keys::commitment(own)) == commitment)
}

fn mask_key(server: &Server, seat: Seat) -> Result<StaticSecret, Aborted> {
    let public = server.keys.get(&seat).map(|keys| keys.masks);
    let fits = |secret: &[u8; 32]| Some(PublicKey::from(&StaticSecret::from(*secret)).to_bytes()) == public;
    recover(server, seat, fits).map(StaticSecret::from)
}

fn recover(server: &Server, seat: Seat, fits: impl Fn(&[u8; 32]) -> bool) -> Result<[u8; 32], Aborted> {
    let (shares, threshold) = (shares_of(server, seat), server.threshold());
    if shares.len() < threshold as usize {
        return Err(Aborted::TooFew { step: Step::Unmask, seat, left: shares.len(), threshold });
    }
    sharing::recover(&shares, threshold as usize, fits).ok_or(Aborted::Shares(seat))
}

/// What was revealed of a device's one secret; which of the two, [`Server::receive`] has seen to.
fn shares_of(server: &Server, seat: Seat) -> Vec<(u8, Share)> {
    let Some(graph) = &server.graph else { return Vec::new() };
    let from = |&holder: &Seat| {
        let revealed = &server.unmasked.get(&holder)?.shares;
        let place = revealed.binary_search_by_key(&seat, |(of, _)| *of).ok()?;
        let (Revealed::OwnMask(share) | Revealed::MaskKey(share)) = revealed[place].1;
        Some((graph.point(seat, holder)?, share))
    };
    graph.of(seat).iter().filter_map(from).collect()
}

/// Each survivor added its mask with the device that fell silent as its own seat told it to; this takes it off again.
fn remove_pairs(
    server: &Server,
    silent: Seat,
    secret: &StaticSecret,
    sum: &mut [u32],
) -> Result<(), Aborted> {
    let head = Head::new(&server.terms, silent);
    for peer in server.neighbours_in(silent, &server.masked) {
        let public = server.keys.get(&peer).map(|keys| keys.masks).unwrap_or_default();
        let key = keys::pair_key(&head, (silent, secret), (peer, &public)).ok_or(Aborted::Shares(peer))?;
        let added = if peer < silent { Sign::Plus } else { Sign::Minus };
        apply(&key, added.flipped(), sum);
    }
    Ok(())
}
