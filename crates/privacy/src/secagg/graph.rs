//! Who is whose neighbour.

use super::{ClientIndex, Parameters};
use crate::SecureRng;
use std::collections::BTreeMap;

/// Each client's neighbours, ascending. A neighbour's position in that list, from 1, is the evaluation point of its shares.
pub(crate) struct Graph(BTreeMap<ClientIndex, Vec<ClientIndex>>);

impl Graph {
    /// The clients on a ring in random order, each joined to `k/2` on both sides; or the complete graph.
    pub(crate) fn new(clients: &[ClientIndex], parameters: &Parameters, mut rng: SecureRng) -> Self {
        if parameters.complete() {
            let others = |client: ClientIndex| clients.iter().copied().filter(|&other| other != client).collect();
            return Self(clients.iter().map(|&client| (client, others(client))).collect());
        }
        let mut ring = clients.to_vec();
        for last in (1..ring.len()).rev() {
            ring.swap(last, below(&mut rng, last as u64 + 1) as usize);
        }
        let reach = parameters.neighbours as usize / 2;
        Self((0..ring.len()).map(|at| (ring[at], around(&ring, at, reach))).collect())
    }

    pub(crate) fn of(&self, client: ClientIndex) -> &[ClientIndex] {
        self.0.get(&client).map_or(&[], Vec::as_slice)
    }

    /// The point, from 1, of `holder` among those who hold `owner`'s shares.
    pub(crate) fn point(&self, owner: ClientIndex, holder: ClientIndex) -> Option<u8> {
        point(self.of(owner), holder)
    }
}

pub(crate) fn point(neighbours: &[ClientIndex], holder: ClientIndex) -> Option<u8> {
    neighbours.binary_search(&holder).ok().and_then(|position| u8::try_from(position + 1).ok())
}

fn around(ring: &[ClientIndex], at: usize, reach: usize) -> Vec<ClientIndex> {
    let n = ring.len();
    let mut found: Vec<ClientIndex> =
        (1..=reach).flat_map(|step| [ring[(at + step) % n], ring[(at + n - step) % n]]).collect();
    found.sort_unstable();
    found
}

/// A number below `bound`; the high half of a product, which for such bounds is even to one part in 2^32.
fn below(rng: &mut SecureRng, bound: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secagg::ThreatModel;

    #[test]
    fn graph_is_regular_and_symmetric() {
        let clients: Vec<ClientIndex> = (0..1200).filter(|client| client % 6 != 0).collect();
        let parameters = Parameters::choose(clients.len() as u32, 0.3, 0.1, Some(ThreatModel::SemiHonest)).unwrap();
        let graph = Graph::new(&clients, &parameters, SecureRng::new([1; 32]));
        for &client in &clients {
            assert_eq!(graph.of(client).len(), parameters.neighbours as usize);
            assert!(graph.of(client).is_sorted_by(|a, b| a < b));
            assert!(graph.of(client).iter().all(|&other| graph.point(other, client).is_some()));
        }
        let shuffled = Graph::new(&clients, &parameters, SecureRng::new([2; 32]));
        assert_ne!(graph.of(1), shuffled.of(1));
    }
}
