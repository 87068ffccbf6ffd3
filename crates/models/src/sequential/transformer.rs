//! Self-attention over a sequence of items: SASRec, and without its mask BERT4Rec's encoder.
//!
//! W.-C. Kang, J. McAuley: Self-Attentive Sequential Recommendation, ICDM 2018.
//! F. Sun et al.: BERT4Rec: Sequential Recommendation with Bidirectional Encoder Representations from Transformer,
//! CIKM 2019.
//!
//! ```text
//! y_0 = dropout(LN(x + P))
//! a_l = LN(y_(l-1) + dropout(attention(y_(l-1))))        y_l = LN(a_l + dropout(gelu(a_l W1 + b1) W2 + b2))     h = y_L
//! ```
//! P has a vector for each position, counted from the end: the last item of every sequence has the last position, as
//! with padding in front. Normalisation follows each sum, as in BERT4Rec and in K. Zhou et al.: S3-Rec, CIKM 2020, with
//! whose table SASRec is compared; Kang and McAuley normalise before attention and use ReLU.

use super::{MAX_LAYERS, add, check_layers};
use sottovoce_core::Rng;
use sottovoce_neural::{
    Attention, AttentionGradients, AttentionOutputGradients, AttentionTape, Dropout, Init, LayerNorm, LayerNormTape,
    Layout, Linear, Mask, NeuralError, Packed, Real, Role, Slot, Space, gelu, gelu_backward,
};

/// How weights start.
pub(crate) const INIT: Init = Init::Normal(0.02);

/// The shape of a [`Transformer`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TransformerShape {
    /// Length of an item's vector.
    pub(crate) width: usize,
    /// Heads of attention.
    pub(crate) heads: usize,
    /// Blocks.
    pub(crate) layers: usize,
    /// Units of the layer within a block.
    pub(crate) inner: usize,
    /// Length of the longest sequence.
    pub(crate) positions: usize,
    /// Whether a step sees those behind it.
    pub(crate) mask: Mask,
    /// Probability with which values are dropped in training.
    pub(crate) dropout: f64,
}

/// The network.
#[derive(Clone, Debug)]
pub(crate) struct Transformer {
    positions: Slot,
    norm: LayerNorm,
    blocks: Vec<Block>,
    shape: TransformerShape,
    dropout: Dropout,
}

#[derive(Clone, Debug)]
struct Block {
    attention: Attention,
    attention_norm: LayerNorm,
    first: Linear,
    second: Linear,
    norm: LayerNorm,
}

/// What backward needs of a [`Transformer`]'s forward.
pub(crate) struct TransformerTape<'a, R> {
    /// h of each row.
    pub(crate) output: &'a [R],
    norm: LayerNormTape<'a, R>,
    mask: Option<&'a mut [R]>,
    blocks: [Option<BlockTape<'a, R>>; MAX_LAYERS],
    sequences: Packed<'a>,
}

struct BlockTape<'a, R> {
    attention: AttentionTape<'a, R>,
    attention_mask: Option<&'a mut [R]>,
    attention_norm: LayerNormTape<'a, R>,
    /// a, a W1 + b1, and its GELU.
    middle: &'a [R],
    before: &'a mut [R],
    activated: &'a mut [R],
    mask: Option<&'a mut [R]>,
    norm: LayerNormTape<'a, R>,
}

impl Block {
    fn new(layout: &mut Layout, name: &str, shape: &TransformerShape) -> Result<Self, NeuralError> {
        let TransformerShape { width, heads, inner, mask, .. } = *shape;
        Ok(Self {
            attention: Attention::with_init(layout, &format!("{name}.attention"), (width, heads), mask, INIT)?,
            attention_norm: LayerNorm::new(layout, &format!("{name}.attention_norm"), width)?,
            first: Linear::with_init(layout, &format!("{name}.first"), width, inner, INIT)?,
            second: Linear::with_init(layout, &format!("{name}.second"), inner, width, INIT)?,
            norm: LayerNorm::new(layout, &format!("{name}.norm"), width)?,
        })
    }

    /// y of the block and what backward needs.
    fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &'a [R],
        sequences: Packed<'a>,
        dropout: Dropout,
        mut rng: Option<&mut Rng>,
        space: &mut Space<'a, R>,
    ) -> Result<(&'a [R], BlockTape<'a, R>), NeuralError> {
        let of_weights = rng.as_deref_mut().map(|rng| (dropout, rng));
        let attention = self.attention.forward_packed(parameters, x, sequences, of_weights, space)?;
        let attention_mask = match rng.as_deref_mut() {
            Some(rng) => Some(dropout.forward(attention.output, rng, space)?),
            None => None,
        };
        add(attention.output, x);
        let mut attention_norm = self.attention_norm.forward(parameters, attention.output, space)?;
        let middle: &'a [R] = take_output(&mut attention_norm);
        let before = self.first.forward(parameters, middle, space)?;
        let activated = space.zeros(before.len())?;
        gelu(before, activated)?;
        let sum = self.second.forward(parameters, activated, space)?;
        let mask = match rng {
            Some(rng) => Some(dropout.forward(sum, rng, space)?),
            None => None,
        };
        add(sum, middle);
        let mut norm = self.norm.forward(parameters, sum, space)?;
        let output: &'a [R] = take_output(&mut norm);
        Ok((output, BlockTape { attention, attention_mask, attention_norm, middle, before, activated, mask, norm }))
    }

    /// Replaces the gradient of the block's output by that of its input.
    fn backward<R: Real>(
        &self,
        parameters: &[R],
        tape: &BlockTape<'_, R>,
        dropout: Dropout,
        d: &mut [R],
        gradients: &mut [R],
        space: &mut Space<'_, R>,
    ) -> Result<(), NeuralError> {
        let mut space = space.scratch();
        // Of the sum, which is that of the middle too; behind dropout; of the layer within.
        let dmiddle = space.zeros(d.len())?;
        self.norm.backward(parameters, &tape.norm, d, gradients, Some(&mut *dmiddle))?;
        let dsecond = space.copy(dmiddle)?;
        if let Some(mask) = &tape.mask {
            dropout.backward(mask, dsecond)?;
        }
        let dfirst = space.zeros(tape.before.len())?;
        self.second.backward(parameters, tape.activated, dsecond, gradients, Some(&mut *dfirst))?;
        gelu_backward(tape.before, dfirst)?;
        self.first.backward(parameters, tape.middle, dfirst, gradients, Some(&mut *dmiddle))?;

        d.fill(R::ZERO);
        self.attention_norm.backward(parameters, &tape.attention_norm, dmiddle, gradients, Some(&mut *d))?;
        let doutput = space.copy(d)?;
        if let Some(mask) = &tape.attention_mask {
            dropout.backward(mask, doutput)?;
        }
        let dsource = space.zeros(d.len())?;
        let dy = AttentionOutputGradients { output: doutput, weights: None };
        let into = AttentionGradients { queries: Some(&mut *d), source: Some(&mut *dsource) };
        self.attention.backward(parameters, &tape.attention, dy, gradients, into, &mut space)?;
        add(d, dsource);
        Ok(())
    }
}

/// The output, which backward does not need, for as long as the step lasts.
fn take_output<'a, R>(tape: &mut LayerNormTape<'a, R>) -> &'a [R] {
    std::mem::take::<&'a mut [R]>(&mut tape.output)
}

impl Transformer {
    /// Adds `name.positions`, `name.norm` and `name.block0`, ... to a layout.
    ///
    /// # Errors
    /// If a size is 0 or too large, heads do not divide the width, or the name is taken.
    pub(crate) fn new(layout: &mut Layout, name: &str, shape: &TransformerShape) -> Result<Self, NeuralError> {
        check_layers(shape.layers)?;
        let table = [shape.positions, shape.width];
        Ok(Self {
            positions: layout.add(format!("{name}.positions"), &table, Role::Weight, INIT)?,
            norm: LayerNorm::new(layout, &format!("{name}.norm"), shape.width)?,
            blocks: (0..shape.layers)
                .map(|n| Block::new(layout, &format!("{name}.block{n}"), shape))
                .collect::<Result<_, _>>()?,
            shape: *shape,
            dropout: Dropout::new(shape.dropout)?,
        })
    }

    pub(super) fn width(&self) -> usize {
        self.shape.width
    }

    pub(crate) fn space(&self, rows: usize, longest: usize) -> usize {
        let TransformerShape { width, inner, layers, .. } = self.shape;
        let attention = self.blocks.first().map_or(0, |block| block.attention.space_packed(rows, longest));
        // Two norms of 2 width + 1, masks, the second layer's output; the layer within, its GELU.
        let block = attention.saturating_add(rows.saturating_mul(7 * width + 2 + 2 * inner));
        // Of a block's backward: four gradients of its width, one of the layer within.
        let backward = rows.saturating_mul(5 * width + inner);
        block.saturating_mul(layers).saturating_add(backward).saturating_add(rows.saturating_mul(6 * width + 1))
    }

    /// h of each row of x; drops values where a random stream is given.
    pub(crate) fn forward<'a, R: Real>(
        &self,
        parameters: &[R],
        x: &[R],
        sequences: Packed<'a>,
        mut dropout: Option<&mut Rng>,
        space: &mut Space<'a, R>,
    ) -> Result<TransformerTape<'a, R>, NeuralError> {
        let sum = space.copy(x)?;
        let positions = self.positions.of(parameters)?;
        self.for_each_sequence(sequences, sum.len(), |rows, places| add(&mut sum[rows], &positions[places]))?;
        let mut norm = self.norm.forward(parameters, sum, space)?;
        let mask = match dropout.as_deref_mut() {
            Some(rng) => Some(self.dropout.forward(norm.output, rng, space)?),
            None => None,
        };
        let mut output: &'a [R] = take_output(&mut norm);
        let mut blocks: [Option<BlockTape<'a, R>>; MAX_LAYERS] = Default::default();
        for (block, kept) in self.blocks.iter().zip(&mut blocks) {
            let (y, tape) =
                block.forward(parameters, output, sequences, self.dropout, dropout.as_deref_mut(), space)?;
            output = y;
            *kept = Some(tape);
        }
        Ok(TransformerTape { output, norm, mask, blocks, sequences })
    }

    /// Adds the gradients of the parameters, and of x where asked for.
    pub(crate) fn backward<R: Real>(
        &self,
        parameters: &[R],
        tape: &TransformerTape<'_, R>,
        dh: &[R],
        gradients: &mut [R],
        dx: Option<&mut [R]>,
        space: &mut Space<'_, R>,
    ) -> Result<(), NeuralError> {
        let mut space = space.scratch();
        let d = space.copy(dh)?;
        for (block, tape) in self.blocks.iter().zip(&tape.blocks).rev() {
            if let Some(tape) = tape {
                block.backward(parameters, tape, self.dropout, d, gradients, &mut space)?;
            }
        }
        if let Some(mask) = &tape.mask {
            self.dropout.backward(mask, d)?;
        }
        let dsum = space.zeros(d.len())?;
        self.norm.backward(parameters, &tape.norm, d, gradients, Some(&mut *dsum))?;
        let dpositions = self.positions.of_mut(gradients)?;
        self.for_each_sequence(tape.sequences, dsum.len(), |rows, places| add(&mut dpositions[places], &dsum[rows]))?;
        if let Some(dx) = dx {
            add(dx, dsum);
        }
        Ok(())
    }

    /// Calls with the values of each sequence and those of its positions.
    fn for_each_sequence(
        &self,
        sequences: Packed<'_>,
        values: usize,
        mut each: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>),
    ) -> Result<(), NeuralError> {
        let TransformerShape { width, positions, .. } = self.shape;
        if values != sequences.rows() * width {
            return Err(NeuralError::Length("vectors of packed sequences", sequences.rows() * width, values));
        }
        for rows in sequences.starts().windows(2) {
            let steps = rows[1] - rows[0];
            if steps > positions {
                return Err(NeuralError::Index("position of a sequence", steps - 1, positions));
            }
            each(rows[0] * width..rows[1] * width, (positions - steps) * width..positions * width);
        }
        Ok(())
    }
}
