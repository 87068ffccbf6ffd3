//! A training step allocates nothing: neither the reference model's nor that of any layer or loss.
//!
//! One test only: the counter is that of the whole process.

use sottovoce_core::Rng;
use sottovoce_neural::losses::{bpr, cross_entropy, kl_gaussian, mse, multinomial, sample_gaussian};
use sottovoce_neural::{
    Activation, Adam, Arena, Arithmetic, Attention, AttentionGradients, AttentionOutputGradients, BatchNorm, Conv2d,
    Conv2dShape, Dropout, Embedding, Init, LayerNorm, Layout, Linear, Mask, NeuralError, Pool, PoolShape, Pooling,
    Quantiser, Recurrent, RecurrentCell, RowGradients, SequenceGradients, Sequences, Sgd, Space, SparseRows,
    StateGradients, Statistics,
};
use sottovoce_testing::allocation::CountingAllocator;
use sottovoce_testing::reference::{INTERESTS, PAGE, PAGES, Reference};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

fn allocations(mut work: impl FnMut()) -> usize {
    work();
    let before = ALLOCATOR.count();
    (0..10).for_each(|_| work());
    ALLOCATOR.count() - before
}

/// Every layer that the reference model does not have.
struct Others {
    layout: Layout,
    embedding: Embedding,
    rnn: Recurrent,
    lstm: Recurrent,
    attention: Attention,
    layer_norm: LayerNorm,
    batch_norm: BatchNorm,
    conv: Conv2d,
    pool: Pool,
    quantiser: Quantiser,
    output: Linear,
    dropout: Dropout,
}

const WIDTH: usize = 8;
const BATCH: usize = 2;
const TIME: usize = 4;
const VALUES: usize = BATCH * TIME * WIDTH;

impl Others {
    fn new() -> Result<Self, NeuralError> {
        let mut layout = Layout::default();
        let image = [TIME, WIDTH];
        let conv = Conv2dShape { channels: 1, image, filters: 2, kernel: [3, 3], stride: [1, 1], padding: [1, 1] };
        Ok(Self {
            embedding: Embedding::new(&mut layout, "items", 10, WIDTH, Init::Normal(0.1))?,
            rnn: Recurrent::new(&mut layout, "rnn", RecurrentCell::Rnn, WIDTH, WIDTH)?,
            lstm: Recurrent::new(&mut layout, "lstm", RecurrentCell::Lstm, WIDTH, WIDTH)?,
            attention: Attention::new(&mut layout, "attention", WIDTH, 2, Mask::Causal)?,
            layer_norm: LayerNorm::new(&mut layout, "layer", WIDTH)?,
            batch_norm: BatchNorm::new(&mut layout, "batch", WIDTH)?,
            conv: Conv2d::new(&mut layout, "conv", conv)?,
            pool: Pool::new(Pooling::Max, PoolShape { channels: 2, image, window: [2, 2], stride: [2, 2] })?,
            quantiser: Quantiser::new(&mut layout, "codes", 5, WIDTH, 0.25)?,
            output: Linear::new(&mut layout, "output", WIDTH, 3)?,
            dropout: Dropout::new(0.2)?,
            layout,
        })
    }

    /// Goes through all layers and losses; gradients flow as far as is needed to call every backward.
    fn pass(
        &self,
        p: &mut [f32],
        g: &mut [f32],
        rows: &mut RowGradients<f32>,
        space: &mut Space<'_, f32>,
    ) -> Result<f64, NeuralError> {
        let indices = [1, 5, 2, 2, 9, 0, 3, 4];
        let x = self.embedding.forward(p, &indices, space)?;
        let mask = self.dropout.forward(x, &mut Rng::new(1), space)?;
        let x = &*x;
        let dx = space.zeros(VALUES)?;
        let dy = StateGradients { states: x, last_cells: None };
        let rnn = self.rnn.forward(p, Sequences::new(x, BATCH, TIME), space)?;
        let into = SequenceGradients { values: Some(&mut *dx), start: None };
        self.rnn.backward(p, &rnn, dy, g, into, space)?;
        let lstm = self.lstm.forward(p, Sequences::new(x, BATCH, TIME), space)?;
        self.lstm.backward(p, &lstm, dy, g, SequenceGradients::default(), space)?;
        let attention = self.attention.forward(p, x, x, BATCH, space)?;
        let dy = AttentionOutputGradients { output: x, weights: None };
        self.attention.backward(p, &attention, dy, g, AttentionGradients::default(), space)?;
        let norm = self.layer_norm.forward(p, x, space)?;
        self.layer_norm.backward(p, &norm, x, g, Some(dx))?;
        let norm = self.batch_norm.forward(p, x, Statistics::Batch, space)?;
        self.batch_norm.backward(p, &norm, x, g, Some(dx), space)?;
        self.batch_norm.update_running(p, &norm, 0.1)?;
        let images = self.conv.forward(p, x, space)?;
        Activation::Tanh.apply(images);
        let pooled = self.pool.forward(images, space)?;
        let dimages = space.zeros(images.len())?;
        self.pool.backward(images, pooled, dimages)?;
        Activation::Tanh.backward(images, dimages)?;
        self.conv.backward(p, x, dimages, g, Some(dx), space)?;
        let codes = self.quantiser.forward(p, x, space)?;
        self.quantiser.backward(&codes, x, x, 1.0, g, dx)?;
        let y = self.output.forward(p, x, space)?;
        let dy = space.zeros(y.len())?;
        let classes = SparseRows::one(&[1, 3], None, y.len())?;
        let mut loss = cross_entropy(y, 3, &[0, 1, 2, 0, 1, 2, 0, 1], 0.1, Some(dy))?;
        loss += multinomial(y, &classes, 0.1, Some(dy))? + mse(y, y, 1.0, Some(dy))?;
        self.output.backward(p, x, dy, g, Some(dx))?;
        let (dm, dl) = (space.zeros(VALUES)?, space.zeros(VALUES)?);
        loss += kl_gaussian(x, x, 0.1, Some((dm, dl)))? + bpr(x, dx, 0.1, Some((dm, dl)))?;
        sample_gaussian(x, x, &mut Rng::new(2), space)?;
        self.dropout.backward(mask, dx)?;
        self.embedding.backward_rows(&indices, dx, rows)?;
        Ok(loss)
    }
}

#[test]
fn steps_allocate_nothing() {
    let mut model = Reference::<f32>::new(Arithmetic::Portable, 1, 1).unwrap();
    let interests = SparseRows::one(&[4, 90, 200, 311, 470], None, INTERESTS).unwrap();
    let pages = vec![0.1; PAGES * PAGE];
    assert_eq!(allocations(|| assert!(model.step(&interests, &pages).is_ok())), 0);

    let others = Others::new().unwrap();
    let mut parameters = others.layout.zeros();
    others.layout.initialise(&mut parameters, &Rng::new(3)).unwrap();
    let mut gradients = others.layout.zeros();
    let mut rows = others.embedding.row_gradients(8).unwrap();
    let mut arena = Arena::new(8000, 8).unwrap();
    let mut adam = Adam::new(1e-3, parameters.len());
    let mut sgd = Sgd::with_momentum(1e-3, 0.9, parameters.len()).unwrap();
    let step = || {
        let loss = others.pass(&mut parameters, &mut gradients, &mut rows, &mut arena.space()).unwrap();
        assert!(loss.is_finite());
        adam.next_step();
        adam.step_rows(others.embedding.table(), &mut parameters, &mut rows).unwrap();
        adam.step_part(0..20, &mut parameters, &mut gradients).unwrap();
        sgd.step(&mut parameters, &mut gradients).unwrap();
    };
    assert_eq!(allocations(step), 0);
}
