//! Inner loops over factors, in simd of a fixed order that compilers turn into vector instructions.

use wide::f32x4;

/// One row of a table with rows of this length.
#[inline(always)]
pub(super) fn row(table: &[f32], length: usize, row: u32) -> &[f32] {
    &table[row as usize * length..][..length]
}

/// b_i + p . q_i of an item's row, the bias in its last column.
#[inline(always)]
pub(super) fn score(user: &[f32], row: &[f32]) -> f32 {
    let (factors, bias) = row.split_at(user.len());
    let (user, user_rest) = user.as_chunks::<4>();
    let (factors, factors_rest) = factors.as_chunks::<4>();
    let mut simd = f32x4::splat(0.0);
    for (p, q) in user.iter().zip(factors) {
        simd += f32x4::from(*p) * f32x4::from(*q);
    }
    let simd = simd.to_array();
    let mut score = bias[0] + ((simd[0] + simd[2]) + (simd[1] + simd[3]));
    for (p, q) in user_rest.iter().zip(factors_rest) {
        score += p * q;
    }
    score
}

/// The scores of four rows, each with the bits of [`score`].
#[inline(always)]
pub(super) fn score_four(user: &[f32], rows: [&[f32]; 4]) -> f32x4 {
    let width = user.len();
    let (blocks, rest) = user.as_chunks::<4>();
    let a = rows[0][..width].as_chunks::<4>().0;
    let b = rows[1][..width].as_chunks::<4>().0;
    let c = rows[2][..width].as_chunks::<4>().0;
    let d = rows[3][..width].as_chunks::<4>().0;
    let mut simd = [f32x4::splat(0.0); 4];
    for f in 0..blocks.len() {
        let p = f32x4::from(blocks[f]);
        simd[0] += p * f32x4::from(a[f]);
        simd[1] += p * f32x4::from(b[f]);
        simd[2] += p * f32x4::from(c[f]);
        simd[3] += p * f32x4::from(d[f]);
    }
    let [a, b, c, d] = f32x4::transpose(simd);
    let bias = f32x4::from([rows[0][width], rows[1][width], rows[2][width], rows[3][width]]);
    let mut scores = bias + ((a + c) + (b + d));
    for (f, p) in (4 * blocks.len()..).zip(rest) {
        scores += f32x4::splat(*p) * f32x4::from([rows[0][f], rows[1][f], rows[2][f], rows[3][f]]);
    }
    scores
}

/// For each triple (i, j) writes q_j - q_i into `apart` and score_j - score_i into `wrong`. Both have room for a block.
#[inline(always)]
pub(super) fn compare(user: &[f32], table: &[f32], triples: &[[u32; 2]], apart: &mut [f32], wrong: &mut [f32]) {
    let width = user.len();
    let pair = |[i, j]: [u32; 2]| [row(table, width + 1, i), row(table, width + 1, j)];
    let (fours, rest) = triples.as_chunks::<4>();
    let (wrong, wrong_rest) = wrong[..triples.len()].as_chunks_mut::<4>();
    let (apart, apart_rest) = apart.split_at_mut(4 * width * fours.len());
    for ((four, apart), wrong) in fours.iter().zip(apart.chunks_exact_mut(4 * width)).zip(wrong) {
        let (mut simd, mut bias) = ([f32x4::ZERO; 4], [0.0; 4]);
        for (k, apart) in apart.chunks_exact_mut(width).enumerate() {
            (simd[k], bias[k]) = compare_one(user, pair(four[k]), apart);
        }
        let [a, b, c, d] = f32x4::transpose(simd);
        *wrong = (f32x4::from(bias) + ((a + c) + (b + d))).to_array();
    }
    for ((triple, apart), wrong) in rest.iter().zip(apart_rest.chunks_exact_mut(width)).zip(wrong_rest) {
        let (simd, bias) = compare_one(user, pair(*triple), apart);
        let [a, b, c, d] = simd.to_array();
        *wrong = bias + ((a + c) + (b + d));
    }
}

/// Writes q_j - q_i; p . (q_j - q_i) in four sums, and what is left over of it with the difference of biases.
#[inline(always)]
fn compare_one(user: &[f32], [q_i, q_j]: [&[f32]; 2], apart: &mut [f32]) -> (f32x4, f32) {
    let width = user.len();
    let (user, user_rest) = user.as_chunks::<4>();
    let (own, own_rest) = q_i[..width].as_chunks::<4>();
    let (other, other_rest) = q_j[..width].as_chunks::<4>();
    let (apart, apart_rest) = apart[..width].as_chunks_mut::<4>();
    let (mut simd, mut bias) = (f32x4::ZERO, q_j[width] - q_i[width]);
    for f in 0..user.len() {
        let difference = f32x4::from(other[f]) - f32x4::from(own[f]);
        apart[f] = difference.to_array();
        simd += f32x4::from(user[f]) * difference;
    }
    for f in 0..user_rest.len() {
        apart_rest[f] = other_rest[f] - own_rest[f];
        bias += user_rest[f] * apart_rest[f];
    }
    (simd, bias)
}

/// `change += sum q`, then `q = sum p - back q`, for slices of one length.
#[inline(always)]
pub(super) fn gradient(p: &[f32], by: [f32; 2], q: &mut [f32], change: &mut [f32]) {
    let (p, p_rest) = p.as_chunks::<8>();
    let (q, q_rest) = q.as_chunks_mut::<8>();
    let (change, change_rest) = change.as_chunks_mut::<8>();
    for ((p, q), change) in p.iter().zip(q).zip(change) {
        gradient_lanes(p, by, q, change);
    }
    let (p, p_rest) = p_rest.as_chunks::<4>();
    let (q, q_rest) = q_rest.as_chunks_mut::<4>();
    let (change, change_rest) = change_rest.as_chunks_mut::<4>();
    for ((p, q), change) in p.iter().zip(q).zip(change) {
        gradient_lanes(p, by, q, change);
    }
    for ((p, q), change) in p_rest.iter().zip(q_rest).zip(change_rest) {
        gradient_lanes(&[*p], by, std::array::from_mut(q), std::array::from_mut(change));
    }
}

/// `change -= by[k] rows[k]` for all k; rows are as long as `change`. Some columns after the other, each for all rows,
/// so that sums stay in registers.
#[inline(always)]
pub(super) fn subtract_scaled(by: &[f32], rows: &[f32], change: &mut [f32]) {
    let width = change.len();
    let (eights, rest) = change.as_chunks_mut::<8>();
    for (n, change) in eights.iter_mut().enumerate() {
        subtract_columns(by, rows, (width, 8 * n), change);
    }
    let done = 8 * eights.len();
    let (fours, ones) = rest.as_chunks_mut::<4>();
    for change in fours.iter_mut() {
        subtract_columns(by, rows, (width, done), change);
    }
    let done = done + 4 * fours.len();
    for (n, change) in ones.iter_mut().enumerate() {
        subtract_columns(by, rows, (width, done + n), std::array::from_mut(change));
    }
}

#[inline(always)]
fn subtract_columns<const L: usize>(by: &[f32], rows: &[f32], (width, first): (usize, usize), change: &mut [f32; L]) {
    let mut sums = *change;
    for (by, row) in by.iter().zip(rows.chunks_exact(width)) {
        let row = &row[first..first + L];
        for lane in 0..L {
            sums[lane] -= by * row[lane];
        }
    }
    *change = sums;
}

/// Reads before it writes, so that compilers need not fear that slices overlap.
#[inline(always)]
fn gradient_lanes<const L: usize>(p: &[f32; L], [sum, back]: [f32; 2], q: &mut [f32; L], change: &mut [f32; L]) {
    let (mut new, mut changed) = (*q, *change);
    for lane in 0..L {
        changed[lane] += sum * new[lane];
        new[lane] = sum * p[lane] - back * new[lane];
    }
    (*q, *change) = (new, changed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_core::Rng;

    #[test]
    fn every_length_gives_what_the_formulas_say() {
        let mut rng = Rng::new(3);
        for length in 0..40 {
            let mut random = |length| {
                let mut values = vec![0.0; length];
                rng.fill_normal(1.0, &mut values);
                values
            };
            let (p, row, before) = (random(length), random(length + 1), random(length));
            let q = &row[..length];
            let exact: f64 = p.iter().zip(q).map(|(p, q)| f64::from(*p) * f64::from(*q)).sum();
            assert!((f64::from(score(&p, &row)) - exact - f64::from(row[length])).abs() < 1e-4, "{length}");

            let others = [random(length + 1), random(length + 1), random(length + 1)];
            let rows = [&others[0][..], &others[1], &row, &others[2]];
            assert_eq!(score_four(&p, rows).to_array(), rows.map(|row| score(&p, row)), "{length}");

            let (mut apart, mut wrong) = (vec![0.0; 5 * length], [0.0; 5]);
            let table = [rows[0], rows[1], rows[2], rows[3]].concat();
            let triples = [[0, 1], [2, 1], [3, 0], [0, 2], [1, 3]];
            if length > 0 {
                compare(&p, &table, &triples, &mut apart, &mut wrong);
            }
            for (n, [i, j]) in triples.map(|triple| triple.map(|item| rows[item as usize])).iter().enumerate() {
                if length > 0 {
                    assert!((wrong[n] - score(&p, j) + score(&p, i)).abs() < 1e-4, "{length}");
                }
                assert!((0..length).all(|f| apart[n * length + f] == j[f] - i[f]), "{length}");
            }

            let mut alone = before.clone();
            subtract_scaled(&[-0.5], q, &mut alone);
            let mut both = before.clone();
            subtract_scaled(&[-0.5, 2.0], &[q, &p].concat(), &mut both);
            assert!((0..length).all(|f| both[f] == alone[f] - 2.0 * p[f]), "{length}");
            let (mut to, mut change) = (q.to_vec(), before.clone());
            gradient(&p, [0.5, 0.25], &mut to, &mut change);
            assert_eq!(change, alone, "{length}");
            for f in 0..length {
                assert_eq!((to[f], change[f]), (0.5 * p[f] - 0.25 * q[f], before[f] + 0.5 * q[f]));
            }
        }
    }
}
