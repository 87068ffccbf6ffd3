//! The weighted product of a user's and an item's vector in generalised matrix factorisation.
//!
//! With p a user's vector, q_s the vector of sample s, h the output vector, and g_s the gradient of sample s's logit:
//! ```text
//! x_s += sum_f h_f p_f q_sf
//! dp_f += sum_s g_s h_f q_sf      dq_sf += g_s h_f p_f      dh_f += sum_s g_s p_f q_sf
//! ```
//! Sums run in eight lanes in a fixed order, so that results are bit for bit the same on every machine.

use sottovoce_core::{SimdKernel, simd_dispatch};

const LANES: usize = 8;

/// Vectors of one length: h once, p for each user, q for each sample. All users have the same number of consecutive
/// samples.
#[derive(Clone, Copy)]
pub(super) struct Vectors<'a> {
    /// The output vector.
    pub(super) h: &'a [f32],
    /// A row for each user.
    pub(super) p: &'a [f32],
    /// A row for each sample.
    pub(super) q: &'a [f32],
}

impl<'a> Vectors<'a> {
    fn width(&self) -> usize {
        self.h.len().max(1)
    }

    /// Samples of each user.
    fn each(&self) -> usize {
        (self.q.len() / self.p.len().max(1)).max(1)
    }

    fn users(&self) -> impl Iterator<Item = &'a [f32]> + use<'a> {
        self.p.chunks_exact(self.width())
    }
}

/// Sums of gradients, as long as the vectors.
pub(super) struct Gradients<'a> {
    /// Of the output vector.
    pub(super) h: &'a mut [f32],
    /// Of each user's.
    pub(super) p: &'a mut [f32],
    /// Of each sample's.
    pub(super) q: &'a mut [f32],
}

/// Adds each sample's weighted product to its logit.
pub(super) fn add_logits(vectors: Vectors<'_>, x: &mut [f32]) {
    simd_dispatch(Logits { vectors, x });
}

/// Adds the gradients of all vectors, given those of the logits.
pub(super) fn add_gradients(vectors: Vectors<'_>, dx: &[f32], gradients: Gradients<'_>) {
    simd_dispatch(Backward { vectors, dx, gradients });
}

/// Adds the gradient of `regularisation / 2 |values|^2`.
pub(super) fn add_weight_decay(regularisation: f32, values: &[f32], gradients: &mut [f32]) {
    if regularisation != 0.0 {
        gradients.iter_mut().zip(values).for_each(|(gradient, value)| *gradient += regularisation * value);
    }
}

struct Logits<'a, 'x> {
    vectors: Vectors<'a>,
    x: &'x mut [f32],
}

impl SimdKernel for Logits<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (width, each, h) = (self.vectors.width(), self.vectors.each(), self.vectors.h);
        let users = self.vectors.users().zip(self.vectors.q.chunks(each * width));
        for ((p, q), x) in users.zip(self.x.chunks_mut(each)) {
            for (q, x) in q.chunks_exact(width).zip(x) {
                *x += weighted_dot(h, p, q);
            }
        }
    }
}

#[inline(always)]
fn weighted_dot(h: &[f32], p: &[f32], q: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let ((h, h_rest), (p, p_rest), (q, q_rest)) =
        (h.as_chunks::<LANES>(), p.as_chunks::<LANES>(), q.as_chunks::<LANES>());
    for ((h, p), q) in h.iter().zip(p).zip(q) {
        for lane in 0..LANES {
            lanes[lane] += h[lane] * p[lane] * q[lane];
        }
    }
    for (lane, ((h, p), q)) in h_rest.iter().zip(p_rest).zip(q_rest).enumerate() {
        lanes[lane] += h * p * q;
    }
    ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
}

struct Backward<'a, 's> {
    vectors: Vectors<'a>,
    dx: &'a [f32],
    gradients: Gradients<'s>,
}

impl SimdKernel for Backward<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Backward { vectors, dx, gradients } = self;
        let (width, each, h) = (vectors.width(), vectors.each(), vectors.h);
        let users = vectors.users().zip(vectors.q.chunks(each * width)).zip(dx.chunks(each));
        let of_users = gradients.p.chunks_exact_mut(width).zip(gradients.q.chunks_mut(each * width));
        for (((p, q), dx), (dp, dq)) in users.zip(of_users) {
            let samples = q.chunks_exact(width).zip(dq.chunks_exact_mut(width)).zip(dx);
            for ((q, dq), &g) in samples {
                add_sample(g, [h, p, q], [gradients.h, dp, dq]);
            }
        }
    }
}

/// One sample; all slices are equally long.
#[inline(always)]
fn add_sample(g: f32, [h, p, q]: [&[f32]; 3], [dh, dp, dq]: [&mut [f32]; 3]) {
    let given = h.iter().zip(p).zip(q);
    let gradients = dh.iter_mut().zip(dp).zip(dq);
    for (((&h, &p), &q), ((dh, dp), dq)) in given.zip(gradients) {
        let (gh, old) = (g * h, (*dh, *dp, *dq));
        *dh = old.0 + g * p * q;
        *dp = old.1 + gh * q;
        *dq = old.2 + gh * p;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, proptest};
    use sottovoce_core::Rng;

    fn normals(len: usize, rng: &mut Rng) -> Vec<f32> {
        let mut values = vec![0.0; len];
        rng.fill_normal(1.0, &mut values);
        values
    }

    proptest! {
        /// The equations above, literally and in double precision, for every width and number of samples.
        #[test]
        fn sums_follow_the_equations(width in 1usize..20, users in 1usize..4, each in 1usize..6, seed in 0u64..1000) {
            let mut rng = Rng::new(seed);
            let samples = users * each;
            let [h, p, q, dx] = [width, users * width, samples * width, samples].map(|len| normals(len, &mut rng));
            let vectors = Vectors { h: &h, p: &p, q: &q };
            let mut x = vec![1.0; samples];
            add_logits(vectors, &mut x);
            let (mut dh, mut dp, mut dq) = (vec![0.0; h.len()], vec![0.0; p.len()], vec![0.0; q.len()]);
            add_gradients(vectors, &dx, Gradients { h: &mut dh, p: &mut dp, q: &mut dq });

            let at = |values: &[f32], row: usize, f: usize| f64::from(values[row * width + f]);
            let near = |found: f32, exact: f64| (f64::from(found) - exact).abs() < 1e-4;
            for s in 0..samples {
                let u = s / each;
                let exact: f64 = (0..width).map(|f| at(&h, 0, f) * at(&p, u, f) * at(&q, s, f)).sum();
                prop_assert!(near(x[s], 1.0 + exact));
                for f in 0..width {
                    prop_assert!(near(dq[s * width + f], f64::from(dx[s]) * at(&h, 0, f) * at(&p, u, f)));
                }
            }
            for f in 0..width {
                let of = |s: usize| f64::from(dx[s]) * at(&q, s, f);
                let exact: f64 = (0..samples).map(|s| of(s) * at(&p, s / each, f)).sum();
                prop_assert!(near(dh[f], exact));
                for u in 0..users {
                    let exact: f64 = (u * each..(u + 1) * each).map(|s| of(s) * at(&h, 0, f)).sum();
                    prop_assert!(near(dp[u * width + f], exact));
                }
            }
        }

        #[test]
        fn weight_decay_is_the_gradient_of_the_squared_norm(values in prop::collection::vec(-1f32..1.0, 0..20)) {
            let mut gradients = vec![0.5; values.len()];
            add_weight_decay(0.1, &values, &mut gradients);
            prop_assert!(gradients.iter().zip(&values).all(|(gradient, value)| *gradient == 0.5 + 0.1 * value));
        }
    }
}
