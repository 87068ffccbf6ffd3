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
//! With a causal mask, step t looks at steps 0..=t only; the rest of its row of P is 0. With dropout, C = D V for
//! D = P m and dropout's mask m; P and D are stored, and with dD = dC V', dP P = dD D.
//!
//! Sequences of one batch have equal lengths, or, in self-attention, each its own ([`Packed`]): one after the other,
//! without padding.

use super::linear::Linear;
use super::softmax::{softmax_row, softmax_row_backward};
use crate::error::{Result, expect_len, rows_of, setting, size};
use crate::kernels::{dots, kernel};
use crate::products::{Matrix, MatrixMut, add_product, add_product_by_transposed, add_transposed_product};
use crate::{Arithmetic, Dropout, Init, Layout, NeuralError, Real, Space};
use sottovoce_core::Rng;

/// Who looks at what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Everything at everything.
    None,
    /// Each step at itself and those before; queries and source have the same number of steps.
    Causal,
}

/// Sequences of different lengths, one after the other without padding.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'s> {
    starts: &'s [usize],
}

impl<'s> Packed<'s> {
    /// Sequence s has the rows `starts[s]..starts[s + 1]`.
    ///
    /// # Errors
    /// If starts do not rise from 0, or a sequence is empty.
    pub fn new(starts: &'s [usize]) -> Result<Self> {
        if starts.len() < 2 || !starts.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(NeuralError::Empty("one of packed sequences"));
        }
        if starts[0] != 0 {
            return Err(setting("packed sequences: the first starts at 0"));
        }
        Ok(Self { starts })
    }

    /// Number of sequences.
    pub fn sequences(&self) -> usize {
        self.starts.len() - 1
    }

    /// Rows of all sequences.
    pub fn rows(&self) -> usize {
        self.starts[self.sequences()]
    }

    /// Where each sequence starts, and where the last one ends.
    pub fn starts(&self) -> &'s [usize] {
        self.starts
    }

    /// Rows of each sequence.
    pub fn lengths(&self) -> impl Iterator<Item = usize> + use<'s> {
        self.starts.windows(2).map(|pair| pair[1] - pair[0])
    }
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
    /// D, with dropout; otherwise empty.
    dropped: &'a mut [R],
    context: &'a mut [R],
    shape: Shape<'a>,
}

impl<R> AttentionTape<'_, R> {
    /// P: for each sequence heads x time of the queries x time of the source.
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
enum Shape<'s> {
    Equal { batch: usize, queries: usize, source: usize },
    Packed(Packed<'s>),
}

impl Attention {
    /// Adds `name.query`, `name.key`, `name.value` and `name.output` (each weight and bias) to a layout, uniform within
    /// 1 / sqrt(width).
    ///
    /// # Errors
    /// If a size is 0, heads do not divide the width, or the name is taken.
    pub fn new(layout: &mut Layout, name: &str, width: usize, heads: usize, mask: Mask) -> Result<Self> {
        Self::with_init(layout, name, (width, heads), mask, Init::fan_in(width))
    }

    /// The same, of (width, heads), with another start for weights and biases.
    ///
    /// # Errors
    /// If a size is 0, heads do not divide the width, or the name is taken.
    pub fn with_init(
        layout: &mut Layout,
        name: &str,
        (width, heads): (usize, usize),
        mask: Mask,
        init: Init,
    ) -> Result<Self> {
        size("attention", &[width, heads])?;
        if !width.is_multiple_of(heads) {
            return Err(setting(format!("attention: {heads} heads do not divide a width of {width}")));
        }
        let mut linear = |part: &str| Linear::with_init(layout, &format!("{name}.{part}"), width, width, init);
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

    /// The same for self-attention over so many rows in all, of sequences no longer than this; with dropout.
    pub fn space_packed(&self, rows: usize, longest: usize) -> usize {
        let weights = rows.saturating_mul(longest).saturating_mul(2 * self.heads);
        let scores = longest.saturating_mul(longest);
        rows.saturating_mul(9 * self.width).saturating_add(weights).saturating_add(scores)
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
        self.attend(parameters, x, source, shape, None, space)
    }

    /// Self-attention over sequences of different lengths, with dropout of the weights where it is given.
    ///
    /// # Errors
    /// If x has not the rows of the sequences, or the arena or the parameters are too small.
    pub fn forward_packed<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &'a [R],
        sequences: Packed<'a>,
        dropout: Option<(Dropout, &mut Rng)>,
        space: &mut Space<'a, R>,
    ) -> Result<AttentionTape<'a, R>> {
        expect_len("rows of packed sequences", rows_of("input of attention", x.len(), self.width)?, sequences.rows())?;
        self.attend(parameters, x, x, Shape::Packed(sequences), dropout, space)
    }

    fn attend<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &'a [R],
        source: &'a [R],
        shape: Shape<'a>,
        dropout: Option<(Dropout, &mut Rng)>,
        space: &mut Space<'a, R>,
    ) -> Result<AttentionTape<'a, R>> {
        let q = self.query.forward(parameters, x, space)?;
        let k = self.key.forward(parameters, source, space)?;
        let v = self.value.forward(parameters, source, space)?;
        let (weights, context) = (space.zeros(self.scores(shape)?)?, space.zeros(x.len())?);
        for at in self.head_offsets(shape) {
            let p = &mut weights[at.scores..][..at.len()];
            let queries = self.head(q, at.queries, at.query_steps)?;
            let keys = self.head(k, at.source, at.source_steps)?;
            add_product_by_transposed(self.arithmetic, queries, keys, MatrixMut::new(p, at.source_steps)?)?;
            normalise(p, at.source_steps, self.mask, self.scale());
        }
        let dropped = match dropout {
            Some((dropout, rng)) => {
                let dropped = space.copy(weights)?;
                dropout.apply(dropped, rng);
                dropped
            }
            None => space.take(0)?,
        };
        for at in self.head_offsets(shape) {
            let used = if dropped.is_empty() { &*weights } else { &*dropped };
            let values = self.head(v, at.source, at.source_steps)?;
            let into = self.head_mut(context, at.queries, at.query_steps)?;
            let used = Matrix::new(&used[at.scores..][..at.len()], at.source_steps)?;
            add_product(self.arithmetic, used, values, into)?;
        }
        let output = self.output.forward(parameters, context, space)?;
        Ok(AttentionTape { output, x, source, q, k, v, weights, dropped, context, shape })
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
            if !tape.dropped.is_empty() {
                return Err(setting("attention: with dropout, a loss cannot look at the weights"));
            }
            expect_len("gradient of attention weights", weights.len(), tape.weights.len())?;
        }
        let mut space = space.scratch();
        let dcontext = space.zeros(tape.x.len())?;
        self.output.backward(parameters, tape.context, dy.output, gradients, Some(dcontext))?;
        let mut d =
            Projections { q: space.zeros(tape.q.len())?, k: space.zeros(tape.k.len())?, v: space.zeros(tape.v.len())? };
        let most = self.head_offsets(tape.shape).map(|at| at.len()).max().unwrap_or(0);
        let scores = space.take(most)?;
        for at in self.head_offsets(tape.shape) {
            let scores = &mut scores[..at.len()];
            match dy.weights {
                Some(weights) => scores.copy_from_slice(&weights[at.scores..][..at.len()]),
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
        let (arithmetic, range) = (self.arithmetic, at.scores..at.scores + at.len());
        let p = &tape.weights[range.clone()];
        let used = if tape.dropped.is_empty() { p } else { &tape.dropped[range] };
        let dcontext = self.head(dcontext, at.queries, at.query_steps)?;
        let dv = self.head_mut(d.v, at.source, at.source_steps)?;
        add_transposed_product(arithmetic, Matrix::new(used, at.source_steps)?, dcontext, dv)?;
        let values = self.head(tape.v, at.source, at.source_steps)?;
        add_product_by_transposed(arithmetic, dcontext, values, MatrixMut::new(scores, at.source_steps)?)?;
        if tape.dropped.is_empty() {
            normalise_backward(p, scores, at.source_steps, self.scale());
        } else {
            dropped_backward(p, used, scores, at.source_steps, self.scale());
        }
        let dz = Matrix::new(scores, at.source_steps)?;
        let keys = self.head(tape.k, at.source, at.source_steps)?;
        add_product(arithmetic, dz, keys, self.head_mut(d.q, at.queries, at.query_steps)?)?;
        let queries = self.head(tape.q, at.queries, at.query_steps)?;
        add_transposed_product(arithmetic, dz, queries, self.head_mut(d.k, at.source, at.source_steps)?)
    }

    fn shape(&self, queries: usize, source: usize, batch: usize) -> Result<Shape<'static>> {
        let steps = |what, len: usize| {
            let rows = rows_of(what, len, self.width)?;
            rows_of(what, rows, batch)
        };
        let (queries, source) = (steps("queries of attention", queries)?, steps("source of attention", source)?);
        if self.mask == Mask::Causal && queries != source {
            return Err(setting(format!("causal attention: {queries} steps cannot look at {source}")));
        }
        Ok(Shape::Equal { batch, queries, source })
    }

    /// Weights of all heads of all sequences.
    fn scores(&self, shape: Shape<'_>) -> Result<usize> {
        match shape {
            Shape::Equal { batch, queries, source } => size("attention weights", &[batch, self.heads, queries, source]),
            Shape::Packed(sequences) => {
                let squares = sequences.lengths().map(|steps| steps.saturating_mul(steps));
                size("attention weights", &[self.heads, squares.fold(0usize, usize::saturating_add)])
            }
        }
    }

    fn scale<R: Real>(&self) -> R {
        R::of(1.0 / ((self.width / self.heads) as f64).sqrt())
    }

    /// Every head of every sequence.
    fn head_offsets<'s>(&self, shape: Shape<'s>) -> impl Iterator<Item = HeadOffsets> + use<'s> {
        let (heads, width) = (self.heads, self.width);
        let mut scores = 0;
        (0..shape.sequences() * heads).map(move |n| {
            let (queries, source) = shape.rows(n / heads);
            let column = n % heads * (width / heads);
            let at = HeadOffsets {
                scores,
                queries: queries.start * width + column,
                source: source.start * width + column,
                query_steps: queries.len(),
                source_steps: source.len(),
            };
            scores += at.len();
            at
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

impl Shape<'_> {
    fn sequences(&self) -> usize {
        match self {
            Self::Equal { batch, .. } => *batch,
            Self::Packed(packed) => packed.sequences(),
        }
    }

    /// Rows of a sequence's queries and of its source.
    fn rows(&self, sequence: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        match self {
            Self::Equal { queries, source, .. } => {
                let of = |steps: usize| sequence * steps..(sequence + 1) * steps;
                (of(*queries), of(*source))
            }
            Self::Packed(packed) => {
                let rows = packed.starts[sequence]..packed.starts[sequence + 1];
                (rows.clone(), rows)
            }
        }
    }
}

/// Where a head of a sequence starts in the weights, in arrays like the queries, and in arrays like the source; and how
/// many steps these have.
#[derive(Clone, Copy)]
struct HeadOffsets {
    scores: usize,
    queries: usize,
    source: usize,
    query_steps: usize,
    source_steps: usize,
}

impl HeadOffsets {
    /// Weights of this head.
    fn len(&self) -> usize {
        self.query_steps * self.source_steps
    }
}

/// Gradients of Q, K and V.
struct Projections<'s, R> {
    q: &'s mut [R],
    k: &'s mut [R],
    v: &'s mut [R],
}

kernel! {
    fn normalise<'s, R>(p: &'s mut [R], width: usize, mask: Mask, scale: R) {
        for (t, row) in p.chunks_exact_mut(width).enumerate() {
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

kernel! {
    /// The same after dropout: `scores` is the gradient of D, of which each value is P's or 0 times a constant.
    fn dropped_backward<'s, R>(p: &'s [R], dropped: &'s [R], scores: &'s mut [R], width: usize, scale: R) {
        let rows = p.chunks_exact(width).zip(dropped.chunks_exact(width));
        for ((p, dropped), row) in rows.zip(scores.chunks_exact_mut(width)) {
            let [along] = dots(dropped, [&*row]);
            for ((gradient, &p), &dropped) in row.iter_mut().zip(p).zip(dropped) {
                *gradient = scale * (*gradient * dropped - p * along);
            }
        }
    }
}
