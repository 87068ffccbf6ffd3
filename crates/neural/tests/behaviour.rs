//! What must hold beside gradients: sparse equals dense, the same bits, single samples, and errors instead of panics.

use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use sottovoce_core::Rng;
use sottovoce_neural::losses::{bce_with_logits, bce_with_logits_sparse, bpr, cross_entropy, kl_gaussian, mse};
use sottovoce_neural::{
    Activation, Adam, Arena, Arithmetic, Attention, BatchNorm, Conv1dShape, Conv2d, Conv2dShape, Dropout, Embedding,
    Init, LayerNorm, Layout, Linear, Mask, NeuralError, Pool, PoolShape, Pooling, Quantiser, Recurrent, RecurrentCell,
    RowGradients, SequenceGradients, Sequences, Sgd, SparseRows, StateGradients, Statistics, softmax,
};
use sottovoce_testing::reference::{INTERESTS, PAGE, PAGES, Reference};

fn normals(seed: u64, len: usize) -> Vec<f64> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.normal()).collect()
}

fn arena(reals: usize) -> Arena<f64> {
    Arena::new(reals, 16).unwrap()
}

/// A dense copy of sparse rows.
fn dense(x: &SparseRows<'_, f64>) -> Vec<f64> {
    let mut values = vec![0.0; x.rows() * x.width()];
    for row in 0..x.rows() {
        for (column, value) in x.row(row) {
            values[row * x.width() + column] += value;
        }
    }
    values
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn sparse_equals_dense(seed in any::<u64>(), columns in proptest::collection::vec(0..9u32, 0..12), outputs in 1..20usize) {
        let mut layout = Layout::default();
        let layer = Linear::new(&mut layout, "l", 9, outputs).unwrap();
        let mut parameters = layout.zeros();
        layout.initialise(&mut parameters, &Rng::new(seed)).unwrap();
        let half = columns.len() / 2;
        let starts = [0, half, columns.len()];
        let values = normals(seed, columns.len());
        let sparse = SparseRows::new(&starts, &columns, Some(&values), 9).unwrap();
        let x = dense(&sparse);
        let (mut first, mut second) = (arena(layer.space(2)), arena(layer.space(2)));
        let y = layer.forward_sparse(&parameters, &sparse, &mut first.space()).unwrap();
        let expected = layer.forward(&parameters, &x, &mut second.space()).unwrap();
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        prop_assert!(close(y, expected));

        let dy = normals(seed ^ 1, 2 * outputs);
        let (mut by_dense, mut by_sparse, mut by_rows) = (layout.zeros(), layout.zeros(), layout.zeros());
        layer.backward(&parameters, &x, &dy, &mut by_dense, None).unwrap();
        layer.backward_sparse(&sparse, &dy, &mut by_sparse).unwrap();
        let mut rows = RowGradients::new(9, outputs, 4).unwrap();
        layer.backward_rows(&sparse, &dy, &mut rows, &mut by_rows).unwrap();
        rows.add_to(layer.weight().of_mut(&mut by_rows).unwrap()).unwrap();
        prop_assert!(close(&by_dense, &by_sparse) && close(&by_dense, &by_rows));

        let logits = normals(seed ^ 2, 18);
        let (mut dense_dx, mut sparse_dx) = (vec![0.0; 18], vec![0.0; 18]);
        let a = bce_with_logits(&logits, &x, 0.5, Some(&mut dense_dx)).unwrap();
        let b = bce_with_logits_sparse(&logits, &sparse, 0.5, Some(&mut sparse_dx)).unwrap();
        prop_assert!((a - b).abs() < 1e-12 && close(&dense_dx, &sparse_dx));
    }

    /// Steps by rows move touched rows as steps with the whole table do, and leave the others alone.
    #[test]
    fn steps_by_rows_equal_whole_steps(seed in any::<u64>(), touched in proptest::collection::vec(0..6u32, 1..8)) {
        let mut layout = Layout::default();
        let table = Embedding::new(&mut layout, "e", 6, 3, Init::Normal(1.0)).unwrap();
        let start = normals(seed, layout.len());
        let dy = normals(seed ^ 3, touched.len() * 3);
        let gradient = || {
            let (mut whole, mut rows) = (layout.zeros(), table.row_gradients(8).unwrap());
            table.backward(&touched, &dy, &mut whole).unwrap();
            table.backward_rows(&touched, &dy, &mut rows).unwrap();
            (whole, rows)
        };
        let (mut by_whole, mut by_rows) = (start.clone(), start.clone());
        let (mut sgd, (mut whole, mut rows)) = (Sgd::new(0.1), gradient());
        sgd.step(&mut by_whole, &mut whole).unwrap();
        sgd.step_rows(table.table(), &mut by_rows, &mut rows).unwrap();
        prop_assert!(rows.is_empty() && by_whole == by_rows);
        let (mut one, mut other) = (Adam::new(0.1, 18), Adam::new(0.1, 18));
        let (mut whole, mut rows) = gradient();
        one.step(&mut by_whole, &mut whole).unwrap();
        other.next_step();
        other.step_rows(table.table(), &mut by_rows, &mut rows).unwrap();
        prop_assert!(by_whole == by_rows);
    }

    /// What goes through `gemm` is what the plain loops compute, up to rounding.
    #[test]
    fn machine_arithmetic_agrees_with_portable(seed in any::<u64>(), batch in 1..40usize) {
        let of = |arithmetic| {
            let mut layout = Layout::new(arithmetic);
            let layer = Linear::new(&mut layout, "l", 37, 41).unwrap();
            let mut parameters = layout.zeros();
            layout.initialise(&mut parameters, &Rng::new(seed)).unwrap();
            let (x, dy) = (normals(seed, batch * 37), normals(seed ^ 5, batch * 41));
            let mut arena = arena(layer.space(batch));
            let y = layer.forward(&parameters, &x, &mut arena.space()).unwrap().to_vec();
            let (mut gradients, mut dx) = (layout.zeros(), vec![0.0; x.len()]);
            layer.backward(&parameters, &x, &dy, &mut gradients, Some(&mut dx)).unwrap();
            [y, gradients, dx].concat()
        };
        let pairs = of(Arithmetic::Portable).into_iter().zip(of(Arithmetic::Machine));
        prop_assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-10));
    }
}

/// Parameters of the reference model after some steps.
fn trained(arithmetic: Arithmetic, batch: usize) -> Vec<f32> {
    let mut model = Reference::<f32>::new(arithmetic, batch, 7).unwrap();
    let mut rng = Rng::new(8);
    for _ in 0..20 {
        let columns: Vec<u32> = (0..5 * batch).map(|_| rng.below(INTERESTS as u32)).collect();
        let starts: Vec<usize> = (0..=batch).map(|row| 5 * row).collect();
        let interests = SparseRows::new(&starts, &columns, None, INTERESTS).unwrap();
        let mut pages = vec![0.0; batch * PAGES * PAGE];
        rng.fill_normal(1.0, &mut pages);
        model.step(&interests, &pages).unwrap();
    }
    model.parameters().to_vec()
}

/// The bits themselves, summed up so that any change shows.
fn digest(values: &[f32]) -> u64 {
    values.iter().fold(0xcbf2_9ce4_8422_2325, |digest, value| {
        (digest ^ u64::from(value.to_bits())).wrapping_mul(0x0100_0000_01b3)
    })
}

#[test]
fn portable_bits_are_fixed_for_all_machines() {
    assert_eq!(digest(&trained(Arithmetic::Portable, 1)), FIXED, "a device would compute another update");
}
const FIXED: u64 = 7_703_642_815_438_922_375;

#[test]
fn the_same_seed_gives_the_same_bits_on_any_number_of_threads() {
    for arithmetic in [Arithmetic::Portable, Arithmetic::Machine] {
        let alone = trained(arithmetic, 8);
        let together: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| trained(arithmetic, 8))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(together.iter().all(|parameters| *parameters == alone), "{arithmetic:?}");
    }
}

#[test]
fn batch_statistics_of_one_sample_are_refused() {
    let mut layout = Layout::default();
    let layer = BatchNorm::new(&mut layout, "n", 3).unwrap();
    let mut parameters = layout.zeros();
    layout.initialise(&mut parameters, &Rng::new(1)).unwrap();
    let mut arena = arena(layer.space(1));
    let error = layer.forward(&parameters, &[1.0, 2.0, 3.0], Statistics::Batch, &mut arena.space()).unwrap_err();
    assert_eq!(error, NeuralError::BatchOfOne);
    assert!(error.to_string().contains("running statistics"), "{error}");
}

/// What single devices report adds up to what a batch of all of them would have shown.
#[test]
fn single_samples_pull_running_statistics_to_those_of_the_cohort() {
    let mut layout = Layout::default();
    let layer = BatchNorm::new(&mut layout, "n", 1).unwrap();
    let mut parameters = layout.zeros::<f64>();
    layout.initialise(&mut parameters, &Rng::new(1)).unwrap();
    let samples: Vec<f64> = normals(4, 500).iter().map(|value| 3.0 + 2.0 * value).collect();
    let mut sgd = Sgd::new(1.0);
    for _ in 0..2 {
        let mut gradients = layout.zeros();
        for sample in &samples {
            let mut arena = arena(layer.space(1));
            let tape = layer.forward(&parameters, &[*sample], Statistics::Running, &mut arena.space()).unwrap();
            layer.add_running_gradient(&parameters, &tape, &mut gradients).unwrap();
        }
        gradients.iter_mut().for_each(|gradient| *gradient /= samples.len() as f64);
        sgd.step(&mut parameters, &mut gradients).unwrap();
    }
    let mean = samples.iter().sum::<f64>() / 500.0;
    let variance = samples.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 500.0;
    assert!((parameters[2] - mean).abs() < 1e-9 && (parameters[3] - variance).abs() < 1e-9, "{parameters:?}");
}

#[test]
fn dropout_keeps_the_mean_and_drops_its_share() {
    let layer = Dropout::new(0.3).unwrap();
    let mut arena = arena(20_000);
    let mut values = vec![1.0; 20_000];
    let mask = layer.forward(&mut values, &mut Rng::new(1), &mut arena.space()).unwrap();
    let dropped = mask.iter().filter(|&&factor| factor == 0.0).count() as f64 / 20_000.0;
    let mean = values.iter().sum::<f64>() / 20_000.0;
    assert!((dropped - 0.3).abs() < 0.01 && (mean - 1.0).abs() < 0.02, "{dropped} {mean}");
    let mut kept = vec![1.0; 10];
    Dropout::new(0.0).unwrap().forward(&mut kept, &mut Rng::new(1), &mut arena.space()).unwrap();
    assert_eq!(kept, [1.0; 10]);
}

#[test]
fn what_is_not_a_number_shows_in_activations_and_losses() {
    for activation in [Activation::Relu, Activation::LeakyRelu(0.1), Activation::Sigmoid, Activation::Tanh] {
        let mut values = [1.0f32, f32::NAN];
        activation.apply(&mut values);
        assert!(values[1].is_nan() && !values[0].is_nan(), "{activation:?}");
    }
    let x = [0.5f32, f32::NAN, 1.0];
    assert!(bce_with_logits(&x, &[0.0; 3], 1.0, None).unwrap().is_nan());
    assert!(cross_entropy(&x, 3, &[0], 1.0, None).unwrap().is_nan());
    assert!(mse(&x, &[0.0; 3], 1.0, None).unwrap().is_nan());
    let pool = PoolShape { channels: 1, image: [1, 3], window: [1, 3], stride: [1, 1] };
    let pool = Pool::new(Pooling::Max, pool).unwrap();
    let mut arena = Arena::new(1, 0).unwrap();
    assert!(pool.forward(&x, &mut arena.space()).unwrap()[0].is_nan());
}

#[test]
fn large_logits_do_not_overflow() {
    let x = [800.0f32, -800.0, 0.0];
    assert!((bce_with_logits(&x, &[1.0, 0.0, 0.5], 1.0, None).unwrap() - 2.0f64.ln()).abs() < 1e-6);
    assert!(cross_entropy(&x, 3, &[0], 1.0, None).unwrap().abs() < 1e-6);
    assert!((bpr(&[-800.0f32], &[0.0], 1.0, None).unwrap() - 800.0).abs() < 1e-6);
}

#[test]
fn sizes_without_meaning_are_errors() {
    let mut layout = Layout::default();
    let l = &mut layout;
    assert!(Linear::new(l, "a", 0, 3).is_err() && Linear::new(l, "b", 3, 0).is_err());
    assert!(Linear::new(l, "c", usize::MAX, 3).is_err());
    let recurrent = |l: &mut Layout, name, cell, inputs, units| Recurrent::new(l, name, cell, inputs, units).is_err();
    assert!(recurrent(l, "d", RecurrentCell::Rnn, 0, 3) && recurrent(l, "e", RecurrentCell::Gru, 3, 0));
    assert!(recurrent(l, "f", RecurrentCell::Lstm, 3, usize::MAX / 2));
    assert!(Attention::new(l, "g", 6, 4, Mask::None).is_err() && Attention::new(l, "h", 6, 0, Mask::None).is_err());
    assert!(LayerNorm::new(l, "i", 0).is_err() && BatchNorm::new(l, "j", 0).is_err());
    assert!(Embedding::new(l, "k", 0, 3, Init::ZEROS).is_err());
    assert!(Quantiser::new(l, "m", 0, 3, 0.25).is_err());
    let conv = |kernel, stride, padding| Conv1dShape { channels: 1, length: 4, filters: 1, kernel, stride, padding };
    for (n, shape) in [conv(5, 1, 0), conv(1, 0, 0), conv(0, 1, 0), conv(1, 1, usize::MAX)].into_iter().enumerate() {
        assert!(Conv2d::over_sequences(l, &format!("n{n}"), shape).is_err(), "{shape:?}");
    }
    let image = Conv2dShape { channels: 0, image: [4, 4], filters: 1, kernel: [1, 1], stride: [1, 1], padding: [0, 0] };
    assert!(Conv2d::new(l, "o", image).is_err());
    assert!(Conv2d::new(l, "p", Conv2dShape { channels: 1, filters: 0, ..image }).is_err());
    let pool = PoolShape { channels: 1, image: [2, 2], window: [3, 1], stride: [1, 1] };
    assert!(Pool::new(Pooling::Max, pool).is_err());
    assert!(Pool::new(Pooling::Max, PoolShape { window: [1, 1], stride: [0, 1], ..pool }).is_err());
    for wrong in [1.0, -0.1, f64::NAN] {
        assert!(Dropout::new(wrong).is_err() && Sgd::<f32>::with_momentum(0.1, wrong, 1).is_err());
        assert!(Adam::<f32>::new(0.1, 1).with_constants([0.9, wrong], 1e-8).is_err());
    }
    assert!(Adam::<f32>::new(0.1, 1).with_constants([0.9, 0.9], 0.0).is_err());
}

/// Calls with a good shape once, and with inputs that are empty or one value too long or short.
#[test]
fn slices_of_wrong_lengths_are_errors() {
    let mut layout = Layout::default();
    let linear = Linear::new(&mut layout, "a", 3, 2).unwrap();
    let gru = Recurrent::new(&mut layout, "b", RecurrentCell::Gru, 3, 2).unwrap();
    let attention = Attention::new(&mut layout, "c", 4, 2, Mask::Causal).unwrap();
    let conv = Conv1dShape { channels: 1, length: 4, filters: 2, kernel: 2, stride: 1, padding: 0 };
    let conv = Conv2d::over_sequences(&mut layout, "d", conv).unwrap();
    let norm = LayerNorm::new(&mut layout, "e", 4).unwrap();
    let codes = Quantiser::new(&mut layout, "f", 3, 4, 0.25).unwrap();
    let table = Embedding::new(&mut layout, "g", 5, 2, Init::ZEROS).unwrap();
    let p = vec![0.1; layout.len()];
    let mut g = layout.zeros();
    let values = vec![0.5; 40];
    let mut arena = arena(600);
    for (len, good) in [(0, false), (11, false), (12, true), (13, false)] {
        let x = &values[..len];
        let mut space = arena.space();
        assert_eq!(linear.forward(&p, x, &mut space).is_ok(), good);
        assert_eq!(linear.backward(&p, x, &values[..8], &mut g, None).is_ok(), good);
        let gru_tape = gru.forward(&p, Sequences::new(x, 2, 2), &mut space);
        assert_eq!(gru_tape.is_ok(), good);
        assert_eq!(attention.forward(&p, x, x, 1, &mut space).is_ok(), good);
        assert_eq!(conv.forward(&p, x, &mut space).is_ok(), good);
        assert_eq!(norm.forward(&p, x, &mut space).is_ok(), good);
        assert_eq!(codes.forward(&p, x, &mut space).is_ok(), good);
        assert_eq!(softmax(&mut x.to_vec(), 4).is_ok(), good);
        assert_eq!(mse(x, &values[..12], 1.0, None).is_ok(), good);
        assert_eq!(bpr(x, &values[..12], 1.0, None).is_ok(), good);
        assert_eq!(kl_gaussian(x, &values[..12], 1.0, None).is_ok(), good);
        assert_eq!(cross_entropy(x, 4, &[0, 1, 3], 1.0, None).is_ok(), good);
    }
    let mut space = arena.space();
    assert!(linear.backward(&p, &values[..3], &values[..2], &mut g, Some(&mut [0.0; 2])).is_err());
    assert!(linear.forward(&p[..3], &values[..3], &mut space).is_err());
    assert!(linear.backward(&p, &values[..3], &values[..2], &mut g[..3], None).is_err());
    let started = Sequences { start: Some(&values[..3]), ..Sequences::new(&values[..12], 2, 2) };
    assert!(gru.forward(&p, started, &mut space).is_err());
    for (batch, time) in [(0, 4), (4, 0), (3, 2), (usize::MAX, 4)] {
        assert!(gru.forward(&p, Sequences::new(&values[..12], batch, time), &mut space).is_err());
    }
    let tape = gru.forward(&p, Sequences::new(&values[..12], 2, 2), &mut space).unwrap();
    let dy = StateGradients { states: &values[..7], last_cells: None };
    assert!(gru.backward(&p, &tape, dy, &mut g, SequenceGradients::default(), &mut space).is_err());
    assert_eq!((tape.last(1).len(), tape.last(2).len(), tape.last(usize::MAX).len()), (2, 0, 0));
    assert!(attention.forward(&p, &values[..8], &values[..12], 1, &mut space).is_err());
    assert!(attention.forward(&p, &values[..12], &values[..12], 2, &mut space).is_err());
    assert!(table.forward(&p, &[5], &mut space).is_err() && table.forward(&p, &[], &mut space).is_err());
    assert!(cross_entropy(&values[..8], 4, &[0, 4], 1.0, None).is_err());
    assert!(Sgd::new(0.1).step(&mut [0.0; 3], &mut [0.0; 2]).is_err());
    assert!(Sgd::new(0.1).step_part(2..4, &mut [0.0; 3], &mut [0.0; 3]).is_err());
    let mut adam = Adam::new(0.1, 3);
    assert!(
        adam.step(&mut [0.0; 2], &mut [0.0; 2]).is_err() && adam.step_part(0..1, &mut [0.0; 3], &mut [0.0; 3]).is_err()
    );
    let mut heavy = Sgd::with_momentum(0.1, 0.9, layout.len()).unwrap();
    assert!(heavy.step_rows(table.table(), &mut g, &mut table.row_gradients(1).unwrap()).is_err());
}

#[test]
fn an_arena_that_is_too_small_is_an_error_that_says_so() {
    let mut layout = Layout::default();
    let layer = Recurrent::new(&mut layout, "r", RecurrentCell::Lstm, 2, 3).unwrap();
    let p = vec![0.1; layout.len()];
    let x = [0.5; 8];
    let need = layer.space(2, 2);
    for size in 0..need {
        let mut arena = arena(size);
        let mut space = arena.space();
        let done = layer.forward(&p, Sequences::new(&x, 2, 2), &mut space).and_then(|tape| {
            let dy = StateGradients { states: &[1.0; 12], last_cells: None };
            layer.backward(&p, &tape, dy, &mut layout.zeros(), SequenceGradients::default(), &mut space)
        });
        assert!(matches!(done, Err(NeuralError::Arena(..))), "{size} of {need}");
    }
}

#[test]
fn momentum_carries_steps_on() {
    let (mut sgd, mut parameters) = (Sgd::with_momentum(0.1, 0.5, 2).unwrap(), [1.0, 1.0]);
    sgd.step(&mut parameters, &mut [1.0, 0.0]).unwrap();
    sgd.step(&mut parameters, &mut [1.0, 0.0]).unwrap();
    // v = 1, then 1.5: 1 - 0.1 - 0.15.
    assert!((parameters[0] - 0.75f64).abs() < 1e-12 && parameters[1] == 1.0);
}
