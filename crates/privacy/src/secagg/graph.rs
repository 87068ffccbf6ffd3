//! Who is whose neighbour.

use super::{Parameters, Seat};
use crate::Generator;
use std::collections::BTreeMap;

/// Each seat's neighbours, ascending. A neighbour's place in that list, from 1, is the point at which its shares lie.
pub(crate) struct Graph(BTreeMap<Seat, Vec<Seat>>);

impl Graph {
    /// The seats on a ring in random order, each tied to `k/2` on both sides; or all to all.
    pub(crate) fn new(seats: &[Seat], parameters: &Parameters, mut source: Generator) -> Self {
        if parameters.complete() {
            let others = |seat: Seat| seats.iter().copied().filter(|&other| other != seat).collect();
            return Self(seats.iter().map(|&seat| (seat, others(seat))).collect());
        }
        let mut ring = seats.to_vec();
        for last in (1..ring.len()).rev() {
            ring.swap(last, below(&mut source, last as u64 + 1) as usize);
        }
        let reach = parameters.neighbours as usize / 2;
        Self((0..ring.len()).map(|at| (ring[at], around(&ring, at, reach))).collect())
    }

    pub(crate) fn of(&self, seat: Seat) -> &[Seat] {
        self.0.get(&seat).map_or(&[], Vec::as_slice)
    }

    /// The point, from 1, of `holder` among those who hold `owner`'s shares.
    pub(crate) fn point(&self, owner: Seat, holder: Seat) -> Option<u8> {
        point(self.of(owner), holder)
    }
}

pub(crate) fn point(neighbours: &[Seat], holder: Seat) -> Option<u8> {
    neighbours.binary_search(&holder).ok().and_then(|place| u8::try_from(place + 1).ok())
}

fn around(ring: &[Seat], at: usize, reach: usize) -> Vec<Seat> {
    let n = ring.len();
    let mut found: Vec<Seat> =
        (1..=reach).flat_map(|step| [ring[(at + step) % n], ring[(at + n - step) % n]]).collect();
    found.sort_unstable();
    found
}

/// A number below `bound`; the high half of a product, which for such bounds is even to one part in 2^32.
fn below(source: &mut Generator, bound: u64) -> u64 {
    ((u128::from(source.next_u64()) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secagg::Against;

    #[test]
    fn every_device_has_as_many_neighbours_and_they_have_it() {
        let seats: Vec<Seat> = (0..1200).filter(|seat| seat % 6 != 0).collect();
        let parameters = Parameters::choose_against(seats.len() as u32, 0.3, 0.1, Against::Curious).unwrap();
        let graph = Graph::new(&seats, &parameters, Generator::new([1; 32]));
        for &seat in &seats {
            assert_eq!(graph.of(seat).len(), parameters.neighbours as usize);
            assert!(graph.of(seat).is_sorted_by(|a, b| a < b));
            assert!(graph.of(seat).iter().all(|&other| graph.point(other, seat).is_some()));
        }
        let shuffled = Graph::new(&seats, &parameters, Generator::new([2; 32]));
        assert_ne!(graph.of(1), shuffled.of(1));
    }
}
