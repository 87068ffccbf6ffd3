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

/// `change += sum q`, for slices of one length, with the bits of [`gradient`].
#[inline(always)]
pub(super) fn add_scaled(sum: f32, q: &[f32], change: &mut [f32]) {
    for (change, q) in change.iter_mut().zip(q) {
        *change += sum * q;
    }
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

            let mut alone = before.clone();
            add_scaled(0.5, q, &mut alone);
            let (mut to, mut change) = (q.to_vec(), before.clone());
            gradient(&p, [0.5, 0.25], &mut to, &mut change);
            assert_eq!(change, alone, "{length}");
            for f in 0..length {
                assert_eq!((to[f], change[f]), (0.5 * p[f] - 0.25 * q[f], before[f] + 0.5 * q[f]));
            }
        }
    }
}
