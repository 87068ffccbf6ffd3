//! Exact parts of the score where the user's vector solves a linear system (Hu, Koren, Volinsky 2008, section 5).
//!
//! With items' vectors y, the vector x of a user who has the items h solves
//! ```text
//! A x = (1 + alpha) sum_h y_h,        A = Y'Y + alpha sum_h y_h y_h' + l I
//! ```
//! so that the score of item i is a sum over the history:
//! ```text
//! <x, y_i> = sum_h (1 + alpha) y_i' A^-1 y_h
//! ```
//! A trained vector solved this system for items' vectors that may have moved since (in iALS by half an iteration, in
//! FCF since the device's last round). What that makes of the score is [`Because::Rest`].

use super::{Because, Reason};
use crate::central::factors::{Table, with_stride};
use crate::central::least_squares::{self, Normal};
use sottovoce_core::math;

/// The system of one user.
#[derive(Clone, Copy)]
pub(crate) struct LinearSystem<'a> {
    /// The items' vectors (Y).
    pub(crate) items: &'a Table,
    /// Weight that an interaction adds to the 1 of every cell.
    pub(crate) alpha: f32,
    /// L2 regularisation of the user's vector (l).
    pub(crate) penalty: f32,
}

/// Reasons for the items `of`, for a user with this vector who has `own`.
pub(crate) fn by_linear_system(system: LinearSystem<'_>, user: &[f32], own: &[u32], of: &[u32]) -> Vec<Vec<Reason>> {
    with_stride!(system.items.stride, N => padded::<N>(system, user, own, of))
}

fn padded<const N: usize>(system: LinearSystem<'_>, user: &[f32], own: &[u32], of: &[u32]) -> Vec<Vec<Reason>> {
    let LinearSystem { items, alpha, penalty } = system;
    let gram = least_squares::gram(items.padded::<N>());
    let normal = Normal::new(&gram, items.padded::<N>(), alpha, user.len());
    let mut matrix = vec![[0.0; N]; N];
    let reasons = |&item: &u32| {
        let parts = normal.parts(own, penalty, item, &mut matrix);
        let named: f32 = parts.iter().sum();
        let rest = math::dot(user, items.row(item as usize)) - named;
        let had = own.iter().zip(parts).map(|(&had, part)| Reason::had(had, part));
        had.chain([Reason { because: Because::Rest, weight: rest }]).collect()
    };
    of.iter().map(reasons).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One factor: Y = (1, 2, 3), alpha 1, l 2, history {0, 1}. A = 14 + (1 + 4) + 2 = 21, x = 2 (1 + 2) / 21 = 2/7;
    /// of item 2, item 0 has 2 * 3 * 1 / 21 = 2/7 and item 1 4/7.
    #[test]
    fn parts_are_those_worked_by_hand() {
        let items = Table::from_dense(3, 1, &[1.0, 2.0, 3.0]);
        let system = LinearSystem { items: &items, alpha: 1.0, penalty: 2.0 };
        let found = by_linear_system(system, &[2.0 / 7.0], &[0, 1], &[2]);
        let expected =
            [Reason::had(0, 2.0 / 7.0), Reason::had(1, 4.0 / 7.0), Reason { because: Because::Rest, weight: 0.0 }];
        for (found, expected) in found[0].iter().zip(expected) {
            assert_eq!(found.because, expected.because);
            assert!((found.weight - expected.weight).abs() < 1e-6, "{found:?} {expected:?}");
        }
        assert_eq!(found[0].len(), 3);
        // A vector of an earlier system: the difference is nobody's.
        let moved = by_linear_system(system, &[1.0], &[0, 1], &[2]);
        assert_eq!(moved[0][..2], found[0][..2]);
        assert!((moved[0][2].weight - (3.0 - 6.0 / 7.0)).abs() < 1e-6, "{moved:?}");
    }
}
