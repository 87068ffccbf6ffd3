//! Which items of the history a trained user vector comes from, for scores b_i + <p, q_i>.
//!
//! Training adds to p, with weights of at least 0, vectors of the user's items minus vectors of items drawn at random.
//! How often and how much was added is not kept. So p is rebuilt: with c the mean of all items' vectors, those weights
//! a_h >= 0 of the history's items are taken that minimise
//! ```text
//! |p - sum_h a_h (q_h - c)|^2 + l sum_h a_h^2,        l a tenth of the mean of |q_h - c|^2
//! ```
//! Then, with r what is left of p and b the mean of all biases, by how much item i is above the catalog's mean comes
//! apart into
//! ```text
//! <p, q_i - c> + b_i - b = sum_h a_h <q_h - c, q_i - c> + <r, q_i - c> + (b_i - b)
//! ```
//! The first sum are parts of items of the history, [`Because::Rest`] has the second term and [`Because::Bias`] the
//! third. The sum is exact. That p is made of these items in these proportions is an approximation.

use super::{Because, Reason};

/// l, in mean squared lengths of the history's centred vectors. It keeps the solution unique when there are more items
/// than factors, and divides weight among items that are alike.
const RIDGE: f64 = 0.1;

/// Most passes over the history; the change of p by a pass at which it ends earlier, relative to p.
const PASSES: usize = 500;
const PRECISION: f64 = 1e-8;

/// Reasons for the items `of`, for a user with this vector who has `own`; `row` gives an item's vector and its bias.
pub(crate) fn by_vectors<'a>(
    user: &[f32],
    catalog: usize,
    row: impl Fn(usize) -> (&'a [f32], f32),
    own: &[u32],
    of: &[u32],
) -> Vec<Vec<Reason>> {
    let (centre, mean_bias) = centre(user.len(), catalog, &row);
    let centred = |&item: &u32| -> Vec<f64> {
        let vector = row(item as usize).0;
        vector.iter().zip(&centre).map(|(value, centre)| f64::from(*value) - centre).collect()
    };
    let own_vectors: Vec<Vec<f64>> = own.iter().map(centred).collect();
    let (weights, rest) = rebuild(user, &own_vectors);
    let reasons = |item: &u32| {
        let vector = centred(item);
        let history = own.iter().zip(&own_vectors).zip(&weights).filter(|(_, weight)| **weight > 0.0);
        let had = history.map(|((&had, own), weight)| Reason::had(had, (weight * dot(own, &vector)) as f32));
        let rest = Reason { because: Because::Rest, weight: dot(&rest, &vector) as f32 };
        let bias = (f64::from(row(*item as usize).1) - mean_bias) as f32;
        let bias = (bias != 0.0).then_some(Reason { because: Because::Bias, weight: bias });
        had.chain([rest]).chain(bias).collect()
    };
    of.iter().map(reasons).collect()
}

/// The means of all items' vectors and biases.
fn centre<'a>(width: usize, catalog: usize, row: &impl Fn(usize) -> (&'a [f32], f32)) -> (Vec<f64>, f64) {
    let (mut centre, mut mean_bias) = (vec![0.0; width], 0.0);
    for (vector, bias) in (0..catalog).map(row) {
        centre.iter_mut().zip(vector).for_each(|(sum, value)| *sum += f64::from(*value));
        mean_bias += f64::from(bias);
    }
    let share = 1.0 / catalog.max(1) as f64;
    centre.iter_mut().for_each(|sum| *sum *= share);
    (centre, mean_bias * share)
}

/// The weights that rebuild a user's vector from these, and what is left of it; by coordinate descent, which comes to
/// the one minimum there is.
fn rebuild(user: &[f32], own: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
    let mut rest: Vec<f64> = user.iter().copied().map(f64::from).collect();
    let enough = PRECISION * PRECISION * dot(&rest, &rest);
    let squares: Vec<f64> = own.iter().map(|vector| dot(vector, vector)).collect();
    let ridge = RIDGE * squares.iter().sum::<f64>() / own.len().max(1) as f64;
    let mut weights = vec![0.0; own.len()];
    if ridge == 0.0 {
        return (weights, rest);
    }
    for _ in 0..PASSES {
        let mut moved = 0.0;
        for ((vector, square), weight) in own.iter().zip(&squares).zip(&mut weights) {
            let better = ((dot(vector, &rest) + *weight * square) / (square + ridge)).max(0.0);
            let step = better - *weight;
            *weight = better;
            rest.iter_mut().zip(vector).for_each(|(rest, value)| *rest -= step * value);
            moved += step * step * square;
        }
        if moved <= enough {
            break;
        }
    }
    (weights, rest)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Four items around the origin, so that the centre is 0, with biases whose mean is 1.
    const ITEMS: [[f32; 2]; 4] = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]];
    const BIASES: [f32; 4] = [1.0, 2.0, 1.0, 0.0];

    fn row(item: usize) -> (&'static [f32], f32) {
        (&ITEMS[item], BIASES[item])
    }

    /// l is 0.1, so an item h alone in its direction has the weight <p, q_h> / 1.1; item 2 points away from p, and has
    /// 0.
    #[test]
    fn parts_are_those_worked_by_hand() {
        let found = by_vectors(&[2.2, 1.1], 4, row, &[0, 2], &[1, 0]);
        let expected = [
            // Item 1 is at right angles to item 0: the rest of p and the bias speak for it.
            vec![(Because::Had(0), 0.0), (Because::Rest, 1.1), (Because::Bias, 1.0)],
            vec![(Because::Had(0), 2.0), (Because::Rest, 0.2)],
        ];
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, (because, weight)) in found.iter().zip(expected) {
                assert_eq!(found.because, *because);
                assert!((found.weight - weight).abs() < 1e-6, "{found:?} {weight}");
            }
        }
    }

    #[test]
    fn twins_share_their_weight() {
        let twins = [[1.0f32, 0.0], [1.0, 0.0], [-2.0, 0.0]];
        let found = by_vectors(&[2.1, 0.0], 3, |item| (&twins[item][..], 0.0), &[0, 1], &[0]);
        // a minimises (2.1 - 2a)^2 + 0.2 a^2: a = 1.
        for (found, weight) in found[0].iter().zip([1.0, 1.0, 0.1]) {
            assert!((found.weight - weight).abs() < 1e-6, "{found:?} {weight}");
        }
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_distance_from_the_mean_score(
            items in prop::collection::vec(prop::array::uniform4(-1.0f32..1.0), 1..30),
            user in prop::array::uniform3(-2.0f32..2.0),
            own in prop::collection::btree_set(0u32..30, 0..20),
        ) {
            let own: Vec<u32> = own.into_iter().filter(|&item| (item as usize) < items.len()).collect();
            let of: Vec<u32> = (0..items.len() as u32).collect();
            let row = |item: usize| (&items[item][..3], items[item][3]);
            let score = |item: usize| f64::from(items[item][3])
                + (0..3).map(|f| f64::from(user[f]) * f64::from(items[item][f])).sum::<f64>();
            let mean = (0..items.len()).map(score).sum::<f64>() / items.len() as f64;
            for (item, reasons) in by_vectors(&user, items.len(), row, &own, &of).iter().enumerate() {
                let sum: f64 = reasons.iter().map(|reason| f64::from(reason.weight)).sum();
                prop_assert!((sum - (score(item) - mean)).abs() < 1e-5, "{sum} {}", score(item) - mean);
            }
        }
    }
}
