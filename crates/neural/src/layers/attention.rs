//! Multi-head attention (Vaswani et al. 2017).
//!
//! Queries X (time x width) look at a source S (time x width), which is X itself in self-attention. Each head has its
//! own stretch of d = width / heads columns of Q, K and V:
//! ```text
//! Q = X Wq + bq     K = S Wk + bk     V = S Wv + bv
//! P = softmax(Q K' / sqrt(d))     C = P V     Y = C Wo + bo
//!
//! dC = dY Wo'    dV += P' dC    dP = dC V'    dZ = softmax's backward of dP, / sqrt(d)     dQ += dZ K     dK += dZ' Q
//! ```
//! With a causal mask, step t looks at steps 0..=t only; the rest of its row of P is 0.

use super::linear::Linear;
use super::softmax::{softmax_row, softmax_row_backward};
use crate::error::{Result, expect_len, rows_of, setting, size};
use crate::kernels::kernel;
use crate::products::{Matrix, MatrixMut, add_product, add_product_by_transposed, add_transposed_product};
use crate::{Arithmetic, Layout, Real, Space};

/// Who looks at what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Everything at everything.
    None,
    /// Each step at itself and those before; queries and source have the same number of steps.
    Causal,
}

/// Multi-head attention.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    width: usize,
    heads: usize,
    mask: Mask,
    arithmetic: Arithmetic,
}

/// What backward needs of an [`Attention`]'s forward.
#[derive(Debug)]
pub struct AttentionTape<'a, R> {
    /// Y: batch x time of the queries x width.
    pub output: &'a mut [R],
    x: &'a [R],
    source: &'a [R],
    q: &'a mut [R],
    k: &'a mut [R],
    v: &'a mut [R],
    weights: &'a mut [R],
    context: &'a mut [R],
    shape: Shape,
}

impl<R> AttentionTape<'_, R> {
    /// P: batch x heads x time of the queries x time of the source.
    pub fn weights(&self) -> &[R] {
        self.weights
    }
}

/// Where the gradients of [`Attention`]'s inputs are added to, if anywhere. In self-attention the two are parts of one
/// gradient: add the second to the first.
#[derive(Debug, Default)]
pub struct AttentionGradients<'g, R> {
    /// Of the queries.
    pub queries: Option<&'g mut [R]>,
    /// Of the source.
    pub source: Option<&'g mut [R]>,
}

/// The gradients of what an [`Attention`] gives.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOutputGradients<'g, R> {
    /// Of Y.
    pub output: &'g [R],
    /// Of P, where a loss looks at the weights themselves; none for zeros.
    pub weights: Option<&'g [R]>,
}

/// Steps of queries and source.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: usize,
    queries: usize,
    source: usize,
}

impl Attention {
    /// Adds `name.query`, `name.key`, `name.value` and `name.output` (each weight and bias) to a layout, uniform within
    /// 1 / sqrt(width).
    ///
    /// # Errors
    /// If a size is 0, heads do not divide the width, or the name is taken.
    pub fn new(layout: &mut Layout, name: &str, width: usize, heads: usize, mask: Mask) -> Result<Self> {
        size("attention", &[width, heads])?;
        if !width.is_multiple_of(heads) {
            return Err(setting(format!("attention: {heads} heads do not divide a width of {width}")));
        }
        let mut linear = |part: &str| Linear::new(layout, &format!("{name}.{part}"), width, width);
        Ok(Self {
            query: linear("query")?,
            key: linear("key")?,
            value: linear("value")?,
            output: linear("output")?,
            width,
            heads,
            mask,
            arithmetic: layout.arithmetic(),
        })
    }

    /// Values that forward and backward together take from the arena.
    pub fn space(&self, batch: usize, queries: usize, source: usize) -> usize {
        let rows = queries.saturating_mul(5).saturating_add(source.saturating_mul(4)).saturating_mul(self.width);
        let weights = queries.saturating_mul(source).saturating_mul(self.heads);
        let scores = queries.saturating_mul(source);
        batch.saturating_mul(rows.saturating_add(weights)).saturating_add(scores)
    }

    /// Queries of a batch look at their sources; `x` and `source` are `batch` sequences each.
    ///
    /// # Errors
    /// If lengths contradict each other, or the arena or the parameters are too small.
    pub fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &'a [R],
        source: &'a [R],
        batch: usize,
        space: &mut Space<'a, R>,
    ) -> Result<AttentionTape<'a, R>> {
        let shape = self.shape(x.len(), source.len(), batch)?;
        let q = self.query.forward(parameters, x, space)?;
        let k = self.key.forward(parameters, source, space)?;
        let v = self.value.forward(parameters, source, space)?;
        let scores = size("attention weights", &[batch, self.heads, shape.queries, shape.source])?;
        let (weights, context) = (space.zeros(scores)?, space.zeros(x.len())?);
        for at in self.head_offsets(shape) {
            let p = &mut weights[at.scores..][..shape.scores()];
            let queries = self.head(q, at.queries, shape.queries)?;
            let keys = self.head(k, at.source, shape.source)?;
            add_product_by_transposed(self.arithmetic, queries, keys, MatrixMut::new(p, shape.source)?)?;
            normalise(p, shape, self.mask, self.scale());
            let values = self.head(v, at.source, shape.source)?;
            let into = self.head_mut(context, at.queries, shape.queries)?;
            add_product(self.arithmetic, Matrix::new(p, shape.source)?, values, into)?;
        }
        let output = self.output.forward(parameters, context, space)?;
        Ok(AttentionTape { output, x, source, q, k, v, weights, context, shape })
    }

    /// Adds all gradients, given those of output and weights.
    ///
    /// # Errors
    /// If lengths contradict each other or the arena is too small.
    pub fn backward<R: Real>(
        &self,
        parameters: &[R],
        tape: &AttentionTape<'_, R>,
        dy: AttentionOutputGradients<'_, R>,
        gradients: &mut [R],
        into: AttentionGradients<'_, R>,
        space: &mut Space<'_, R>,
    ) -> Result<()> {
        expect_len("gradient of attention", dy.output.len(), tape.x.len())?;
        if let Some(weights) = dy.weights {
            expect_len("gradient of attention weights", weights.len(), tape.weights.len())?;
        }
        let mut space = space.scratch();
        let dcontext = space.zeros(tape.x.len())?;
        self.output.backward(parameters, tape.context, dy.output, gradients, Some(dcontext))?;
        let mut d =
            Projections { q: space.zeros(tape.q.len())?, k: space.zeros(tape.k.len())?, v: space.zeros(tape.v.len())? };
        let scores = space.take(tape.shape.scores())?;
        for at in self.head_offsets(tape.shape) {
            match dy.weights {
                Some(weights) => scores.copy_from_slice(&weights[at.scores..][..tape.shape.scores()]),
                None => scores.fill(R::ZERO),
            }
            self.head_backward(tape, at, dcontext, &mut d, scores)?;
        }
        let AttentionGradients { queries, mut source } = into;
        self.query.backward(parameters, tape.x, d.q, gradients, queries)?;
        self.key.backward(parameters, tape.source, d.k, gradients, source.as_deref_mut())?;
        self.value.backward(parameters, tape.source, d.v, gradients, source)
    }

    /// One head of one sequence; `scores` holds what its weights' gradient has already.
    fn head_backward<R: Real>(
        &self,
        tape: &AttentionTape<'_, R>,
        at: HeadOffsets,
        dcontext: &[R],
        d: &mut Projections<'_, R>,
        scores: &mut [R],
    ) -> Result<()> {
        let (shape, arithmetic) = (tape.shape, self.arithmetic);
        let p = &tape.weights[at.scores..][..shape.scores()];
        let dcontext = self.head(dcontext, at.queries, shape.queries)?;
        let dv = self.head_mut(d.v, at.source, shape.source)?;
        add_transposed_product(arithmetic, Matrix::new(p, shape.source)?, dcontext, dv)?;
        let values = self.head(tape.v, at.source, shape.source)?;
        add_product_by_transposed(arithmetic, dcontext, values, MatrixMut::new(scores, shape.source)?)?;
        normalise_backward(p, scores, shape.source, self.scale());
        let dz = Matrix::new(scores, shape.source)?;
        let keys = self.head(tape.k, at.source, shape.source)?;
        add_product(arithmetic, dz, keys, self.head_mut(d.q, at.queries, shape.queries)?)?;
        let queries = self.head(tape.q, at.queries, shape.queries)?;
        add_transposed_product(arithmetic, dz, queries, self.head_mut(d.k, at.source, shape.source)?)
    }

    fn shape(&self, queries: usize, source: usize, batch: usize) -> Result<Shape> {
        let steps = |what, len: usize| {
            let rows = rows_of(what, len, self.width)?;
            rows_of(what, rows, batch)
        };
        let shape = Shape {
            batch,
            queries: steps("queries of attention", queries)?,
            source: steps("source of attention", source)?,
        };
        if self.mask == Mask::Causal && shape.queries != shape.source {
            return Err(setting(format!("causal attention: {} steps cannot look at {}", shape.queries, shape.source)));
        }
        Ok(shape)
    }

    fn scale<R: Real>(&self) -> R {
        R::of(1.0 / ((self.width / self.heads) as f64).sqrt())
    }

    /// Every head of every sequence.
    fn head_offsets(&self, shape: Shape) -> impl Iterator<Item = HeadOffsets> + use<> {
        let (heads, width) = (self.heads, self.width);
        (0..shape.batch * heads).map(move |n| {
            let (b, head) = (n / heads, n % heads);
            let column = head * (width / heads);
            HeadOffsets {
                scores: n * shape.scores(),
                queries: b * shape.queries * width + column,
                source: b * shape.source * width + column,
            }
        })
    }

    /// A head's columns of a sequence.
    fn head<'v, R: Real>(&self, values: &'v [R], start: usize, steps: usize) -> Result<Matrix<'v, R>> {
        Matrix::strided(&values[start..], steps, self.width / self.heads, self.width)
    }

    fn head_mut<'v, R: Real>(&self, values: &'v mut [R], start: usize, steps: usize) -> Result<MatrixMut<'v, R>> {
        MatrixMut::strided(&mut values[start..], steps, self.width / self.heads, self.width)
    }
}

impl Shape {
    /// Weights of one head of one sequence.
    fn scores(self) -> usize {
        self.queries * self.source
    }
}

/// Where a head of a sequence starts in the weights, in arrays like the queries, and in arrays like the source.
#[derive(Clone, Copy)]
struct HeadOffsets {
    scores: usize,
    queries: usize,
    source: usize,
}

/// Gradients of Q, K and V.
struct Projections<'s, R> {
    q: &'s mut [R],
    k: &'s mut [R],
    v: &'s mut [R],
}

kernel! {
    fn normalise<'s, R>(p: &'s mut [R], shape: Shape, mask: Mask, scale: R) {
        for (t, row) in p.chunks_exact_mut(shape.source).enumerate() {
            let seen = if mask == Mask::Causal { t + 1 } else { row.len() };
            let (seen, unseen) = row.split_at_mut(seen);
            seen.iter_mut().for_each(|score| *score *= scale);
            softmax_row(seen);
            unseen.fill(R::ZERO);
        }
    }
}

kernel! {
    /// What is masked has p = 0, and so no gradient.
    fn normalise_backward<'s, R>(p: &'s [R], scores: &'s mut [R], width: usize, scale: R) {
        for (p, row) in p.chunks_exact(width).zip(scores.chunks_exact_mut(width)) {
            softmax_row_backward(p, row);
            row.iter_mut().for_each(|gradient| *gradient *= scale);
        }
    }
}
