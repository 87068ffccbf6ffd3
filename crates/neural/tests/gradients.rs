//! Every layer and loss against central differences, for random shapes and values, in double precision.
//!
//! A point is parameters and inputs one after the other. A layer's loss is the sum of its outputs times fixed random
//! weights, so that a gradient that is wrong anywhere shows.

use proptest::prelude::{ProptestConfig, any, proptest};
use sottovoce_core::Rng;
use sottovoce_neural::losses::{
    bce_with_logits, bce_with_logits_sparse, bpr, cross_entropy, kl_gaussian, mse, multinomial, sample_gaussian,
    sample_gaussian_backward,
};
use sottovoce_neural::{
    Activation, Arena, Attention, AttentionGradients, AttentionOutputGradients, BatchNorm, Conv1dShape, Conv2d,
    Conv2dShape, Dropout, Embedding, Init, LayerNorm, Layout, Linear, Mask, Packed, Pool, PoolShape, Pooling,
    Quantiser, Recurrent, RecurrentCell, SequenceGradients, Sequences, SparseRows, StateGradients, Statistics, gelu,
    gelu_backward, softmax, softmax_backward,
};

/// Random values, the same for the same seed and label.
fn normals(seed: u64, label: &str, len: usize) -> Vec<f64> {
    let mut rng = Rng::new(seed).stream(label, 0);
    (0..len).map(|_| rng.normal()).collect()
}

/// Values that differ by 0.1 at least and are not near 0: no small step changes which is largest, or a sign.
fn apart(seed: u64, len: usize) -> Vec<f64> {
    let mut values: Vec<f64> = (0..len).map(|n| (n as f64 - (len / 2) as f64) * 0.1 + 0.05).collect();
    Rng::new(seed).stream("apart", 0).shuffle(&mut values);
    values
}

/// Compares the gradient that `loss` adds with central differences of what it returns.
fn check(point: &[f64], loss: impl Fn(&[f64], &mut [f64]) -> f64) {
    let mut gradient = vec![0.0; point.len()];
    let value = loss(point, &mut gradient);
    assert!(value.is_finite());
    let (mut moved, mut unused) = (point.to_vec(), vec![0.0; point.len()]);
    let step = 1e-5;
    for n in 0..point.len() {
        let mut at = |shift: f64| {
            moved[n] = point[n] + shift;
            loss(&moved, &mut unused)
        };
        let slope = (at(step) - at(-step)) / (2.0 * step);
        moved[n] = point[n];
        let far = (slope - gradient[n]).abs();
        assert!(far <= 1e-6 * (1.0 + slope.abs()), "place {n}: {} instead of {slope}", gradient[n]);
    }
}

/// A layer's parameters and inputs as one random point.
fn point(layout: &Layout, inputs: usize, seed: u64) -> Vec<f64> {
    normals(seed, "point", layout.len() + inputs)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn arena(reals: usize) -> Arena<f64> {
    Arena::new(reals, 64).unwrap()
}

fn check_convolution(layer: &Conv2d, layout: &Layout, batch: usize, seed: u64) {
    let dy = normals(seed, "dy", batch * layer.outputs());
    check(&point(layout, batch * layer.inputs(), seed), |point, gradient| {
        let ((p, x), (dp, dx)) = (point.split_at(layout.len()), gradient.split_at_mut(layout.len()));
        let mut arena = arena(layer.space(batch));
        let mut space = arena.space();
        let y = layer.forward(p, x, &mut space).unwrap();
        layer.backward(p, x, &dy, dp, Some(dx), &mut space).unwrap();
        dot(y, &dy)
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn linear(seed in any::<u64>(), batch in 1..6usize, inputs in 1..11usize, outputs in 1..11usize) {
        let mut layout = Layout::default();
        let layer = Linear::new(&mut layout, "l", inputs, outputs).unwrap();
        let dy = normals(seed, "dy", batch * outputs);
        check(&point(&layout, batch * inputs, seed), |point, gradient| {
            let ((p, x), (dp, dx)) = (point.split_at(layout.len()), gradient.split_at_mut(layout.len()));
            let mut arena = arena(layer.space(batch));
            let y = layer.forward(p, x, &mut arena.space()).unwrap();
            layer.backward(p, x, &dy, dp, Some(dx)).unwrap();
            dot(y, &dy)
        });
    }

    #[test]
    fn sparse_linear(seed in any::<u64>(), outputs in 1..11usize, first in 0..4usize, second in 0..4usize) {
        let mut layout = Layout::default();
        let layer = Linear::new(&mut layout, "l", 7, outputs).unwrap();
        let mut rng = Rng::new(seed);
        let columns: Vec<u32> = (0..first + second).map(|_| rng.below(7)).collect();
        let values = normals(seed, "values", columns.len());
        let starts = [0, first, first + second];
        let x = SparseRows::new(&starts, &columns, Some(&values), 7).unwrap();
        let dy = normals(seed, "dy", 2 * outputs);
        check(&point(&layout, 0, seed), |p, dp| {
            let mut arena = arena(layer.space(2));
            let y = layer.forward_sparse(p, &x, &mut arena.space()).unwrap();
            layer.backward_sparse(&x, &dy, dp).unwrap();
            dot(y, &dy)
        });
    }

    #[test]
    fn recurrent(
        seed in any::<u64>(), cell in proptest::sample::select(vec![RecurrentCell::Rnn, RecurrentCell::Gru, RecurrentCell::Lstm]),
        batch in 1..4usize, time in 1..5usize, inputs in 1..5usize, units in 1..6usize, started in any::<bool>(),
    ) {
        let lstm = cell == RecurrentCell::Lstm;
        let mut layout = Layout::default();
        let layer = Recurrent::new(&mut layout, "r", cell, inputs, units).unwrap();
        let (values, start) = (batch * time * inputs, batch * units * if lstm { 2 } else { 1 });
        let (dy, dc) = (normals(seed, "dy", batch * time * units), normals(seed, "dc", batch * units));
        check(&point(&layout, values + start, seed), |point, gradient| {
            let ((p, x), (dp, dx)) = (point.split_at(layout.len()), gradient.split_at_mut(layout.len()));
            let ((x, h), (dx, dh)) = (x.split_at(values), dx.split_at_mut(values));
            let mut arena = arena(layer.space(batch, time));
            let mut space = arena.space();
            let x = Sequences { values: x, batch, time, start: started.then_some(h) };
            let tape = layer.forward(p, x, &mut space).unwrap();
            let into = SequenceGradients { values: Some(dx), start: started.then_some(dh) };
            let outputs = StateGradients { states: &dy, last_cells: lstm.then_some(&dc[..]) };
            layer.backward(p, &tape, outputs, dp, into, &mut space).unwrap();
            let cells = |b| if lstm { dot(tape.last_cell(b), &dc[b * units..][..units]) } else { 0.0 };
            dot(tape.states(), &dy) + (0..batch).map(cells).sum::<f64>()
        });
    }

    #[test]
    fn conv1d(
        seed in any::<u64>(), batch in 1..3usize, channels in 1..4usize, length in 3..8usize, filters in 1..4usize,
        kernel in 1..4usize, stride in 1..3usize, padding in 0..3usize,
    ) {
        let mut layout = Layout::default();
        let shape = Conv1dShape { channels, length, filters, kernel, stride, padding };
        let layer = Conv2d::over_sequences(&mut layout, "c", shape).unwrap();
        check_convolution(&layer, &layout, batch, seed);
    }

    #[test]
    fn conv2d(
        seed in any::<u64>(), channels in 1..3usize, filters in 1..3usize, image in [3..6usize, 3..6usize],
        kernel in [1..4usize, 1..4usize], stride in [1..3usize, 1..4usize], padding in [0..3usize, 0..4usize],
    ) {
        let mut layout = Layout::default();
        let layer = Conv2d::new(&mut layout, "c", Conv2dShape { channels, image, filters, kernel, stride, padding }).unwrap();
        check_convolution(&layer, &layout, 2, seed);
    }

    #[test]
    fn pooling(
        seed in any::<u64>(), channels in 1..3usize, image in [3..7usize, 3..7usize], window in [1..4usize, 1..4usize],
        stride in [1..4usize, 1..4usize], largest in any::<bool>(),
    ) {
        let kind = if largest { Pooling::Max } else { Pooling::Mean };
        let layer = Pool::new(kind, PoolShape { channels, image, window, stride }).unwrap();
        let dy = normals(seed, "dy", 2 * layer.outputs());
        check(&apart(seed, 2 * layer.inputs()), |x, dx| {
            let mut arena = arena(layer.space(2));
            let y = layer.forward(x, &mut arena.space()).unwrap();
            layer.backward(x, &dy, dx).unwrap();
            dot(y, &dy)
        });
    }

    #[test]
    fn attention(
        seed in any::<u64>(), batch in 1..3usize, queries in 1..5usize, source in 1..5usize, heads in 1..4usize, wide in 1..4usize,
        causal in any::<bool>(),
    ) {
        let (width, source) = (heads * wide, if causal { queries } else { source });
        let mut layout = Layout::default();
        let mask = if causal { Mask::Causal } else { Mask::None };
        let layer = Attention::new(&mut layout, "a", width, heads, mask).unwrap();
        let (values, others) = (batch * queries * width, batch * source * width);
        let dy = normals(seed, "dy", values);
        let dp_weights = normals(seed, "dw", batch * heads * queries * source);
        let mut start = point(&layout, values + others, seed);
        start.iter_mut().for_each(|value| *value *= 0.5);
        check(&start, |point, gradient| {
            let ((p, x), (dp, dx)) = (point.split_at(layout.len()), gradient.split_at_mut(layout.len()));
            let ((x, s), (dx, ds)) = (x.split_at(values), dx.split_at_mut(values));
            let mut arena = arena(layer.space(batch, queries, source));
            let mut space = arena.space();
            let tape = layer.forward(p, x, s, batch, &mut space).unwrap();
            let into = AttentionGradients { queries: Some(dx), source: Some(ds) };
            let outputs = AttentionOutputGradients { output: &dy, weights: Some(&dp_weights) };
            layer.backward(p, &tape, outputs, dp, into, &mut space).unwrap();
            dot(tape.output, &dy) + dot(tape.weights(), &dp_weights)
        });
    }

    #[test]
    fn packed_attention(
        seed in any::<u64>(), lengths in proptest::collection::vec(1..5usize, 1..4), causal in any::<bool>(), drop in any::<bool>(),
    ) {
        let mut layout = Layout::default();
        let mask = if causal { Mask::Causal } else { Mask::None };
        let layer = Attention::new(&mut layout, "a", 4, 2, mask).unwrap();
        let mut starts = vec![0];
        lengths.iter().for_each(|length| starts.push(starts[starts.len() - 1] + length));
        let rows = starts[lengths.len()];
        let dy = normals(seed, "dy", rows * 4);
        let mut start = point(&layout, rows * 4, seed);
        start.iter_mut().for_each(|value| *value *= 0.5);
        check(&start, |point, gradient| {
            let ((p, x), (dp, dx)) = (point.split_at(layout.len()), gradient.split_at_mut(layout.len()));
            let mut arena = arena(layer.space_packed(rows, 4));
            let mut space = arena.space();
            let mut rng = Rng::new(seed);
            let dropout = drop.then(|| (Dropout::new(0.4).unwrap(), &mut rng));
            let tape = layer.forward_packed(p, x, Packed::new(&starts).unwrap(), dropout, &mut space).unwrap();
            let mut dsource = vec![0.0; dx.len()];
            let into = AttentionGradients { queries: Some(&mut *dx), source: Some(&mut dsource) };
            let outputs = AttentionOutputGradients { output: &dy, weights: None };
            layer.backward(p, &tape, outputs, dp, into, &mut space).unwrap();
            dx.iter_mut().zip(&dsource).for_each(|(dx, d)| *dx += d);
            dot(tape.output, &dy)
        });
    }

    #[test]
    fn layer_norm(seed in any::<u64>(), rows in 1..5usize, width in 2..12usize) {
        let mut layout = Layout::default();
        let layer = LayerNorm::new(&mut layout, "n", width).unwrap();
        let dy = normals(seed, "dy", rows * width);
        let mut start = point(&layout, 0, seed);
        start.extend(apart(seed, rows * width));
        check(&start, |point, gradient| {
            let ((p, x), (dp, dx)) = (point.split_at(layout.len()), gradient.split_at_mut(layout.len()));
            let mut arena = arena(layer.space(rows));
            let tape = layer.forward(p, x, &mut arena.space()).unwrap();
            layer.backward(p, &tape, &dy, dp, Some(dx)).unwrap();
            dot(tape.output, &dy)
        });
    }

    /// The running statistics are no parameters: their places in the point are left out of the comparison.
    #[test]
    fn batch_norm(seed in any::<u64>(), rows in 1..5usize, width in 1..6usize, batch in any::<bool>()) {
        let mut layout = Layout::default();
        let layer = BatchNorm::new(&mut layout, "n", width).unwrap();
        let statistics = if batch && rows > 1 { Statistics::Batch } else { Statistics::Running };
        let dy = normals(seed, "dy", rows * width);
        let running: Vec<f64> = normals(seed, "running", 2 * width).iter().map(|value| 0.5 + value.abs()).collect();
        let mut start = normals(seed, "point", 2 * width);
        start.extend(apart(seed, rows * width));
        check(&start, |point, gradient| {
            let parameters = [&point[..2 * width], &running].concat();
            let mut gradients = layout.zeros();
            let mut arena = arena(layer.space(rows));
            let mut space = arena.space();
            let tape = layer.forward(&parameters, &point[2 * width..], statistics, &mut space).unwrap();
            let (dp, dx) = gradient.split_at_mut(2 * width);
            layer.backward(&parameters, &tape, &dy, &mut gradients, Some(dx), &mut space).unwrap();
            assert!(gradients[2 * width..].iter().all(|&statistic| statistic == 0.0));
            dp.copy_from_slice(&gradients[..2 * width]);
            dot(tape.output, &dy)
        });
    }

    #[test]
    fn embedding(seed in any::<u64>(), indices in proptest::collection::vec(0..5u32, 1..8)) {
        let mut layout = Layout::default();
        let layer = Embedding::new(&mut layout, "e", 5, 3, Init::Normal(1.0)).unwrap();
        let dy = normals(seed, "dy", layer.space(indices.len()));
        check(&point(&layout, 0, seed), |p, dp| {
            let mut arena = arena(layer.space(indices.len()));
            let y = layer.forward(p, &indices, &mut arena.space()).unwrap();
            layer.backward(&indices, &dy, dp).unwrap();
            dot(y, &dy)
        });
    }

    #[test]
    fn activations(seed in any::<u64>(), len in 1..20usize) {
        let dy = normals(seed, "dy", len);
        let all = [
            Activation::Identity, Activation::Relu, Activation::LeakyRelu(0.2), Activation::Sigmoid, Activation::Tanh,
        ];
        for activation in all {
            check(&apart(seed, len), |x, dx| {
                let mut y = x.to_vec();
                activation.apply(&mut y);
                dx.copy_from_slice(&dy);
                activation.backward(&y, dx).unwrap();
                dot(&y, &dy)
            });
        }
        check(&normals(seed, "x", len), |x, dx| {
            let mut y = vec![0.0; len];
            gelu(x, &mut y).unwrap();
            dx.copy_from_slice(&dy);
            gelu_backward(x, dx).unwrap();
            dot(&y, &dy)
        });
    }

    #[test]
    fn softmax_over_rows(seed in any::<u64>(), rows in 1..4usize, width in 1..12usize) {
        let dy = normals(seed, "dy", rows * width);
        check(&normals(seed, "x", rows * width), |x, dx| {
            let mut y = x.to_vec();
            softmax(&mut y, width).unwrap();
            dx.copy_from_slice(&dy);
            softmax_backward(&y, dx, width).unwrap();
            dot(&y, &dy)
        });
    }

    #[test]
    fn dropout(seed in any::<u64>(), len in 1..20usize, probability in 0.0..0.9f64) {
        let layer = Dropout::new(probability).unwrap();
        let dy = normals(seed, "dy", len);
        check(&normals(seed, "x", len), |x, dx| {
            let mut arena = arena(len);
            let mut y = x.to_vec();
            let mask = layer.forward(&mut y, &mut Rng::new(seed), &mut arena.space()).unwrap();
            dx.copy_from_slice(&dy);
            layer.backward(mask, dx).unwrap();
            dot(&y, &dy)
        });
    }

    /// Codes move by the first term of the loss only and inputs by the second: each against its own differences.
    #[test]
    fn quantiser(seed in any::<u64>(), rows in 1..5usize, factor in 0.1..2.0f64) {
        let mut layout = Layout::default();
        let layer = Quantiser::new(&mut layout, "q", 4, 3, 0.25).unwrap();
        let z = normals(seed, "z", rows * 3);
        let codebook = normals(seed, "codes", 12);
        let dy = normals(seed, "dy", rows * 3);
        let distance = |codebook: &[f64], z: &[f64]| {
            let mut arena = arena(layer.space(rows));
            let tape = layer.forward(codebook, z, &mut arena.space()).unwrap();
            layer.loss(&tape, factor) / 1.25
        };
        let backward = |codebook: &[f64], z: &[f64], dy: &[f64]| {
            let mut arena = arena(layer.space(rows));
            let tape = layer.forward(codebook, z, &mut arena.space()).unwrap();
            let (mut de, mut dz) = (layout.zeros(), vec![0.0; z.len()]);
            layer.backward(&tape, z, dy, factor, &mut de, &mut dz).unwrap();
            (de, dz)
        };
        let zeros = vec![0.0; z.len()];
        check(&codebook, |codebook, de| {
            de.copy_from_slice(&backward(codebook, &z, &zeros).0);
            distance(codebook, &z)
        });
        check(&z, |z, dz| {
            dz.copy_from_slice(&backward(&codebook, z, &zeros).1);
            0.25 * distance(&codebook, z)
        });
        let (with, without) = (backward(&codebook, &z, &dy).1, backward(&codebook, &z, &zeros).1);
        for n in 0..z.len() {
            assert!((with[n] - without[n] - dy[n]).abs() < 1e-12);
        }
    }

    #[test]
    fn losses(seed in any::<u64>(), rows in 1..4usize, width in 1..20usize, factor in 0.1..2.0f64) {
        let len = rows * width;
        let x = normals(seed, "x", len);
        let mut rng = Rng::new(seed);
        let targets: Vec<f64> = (0..len).map(|_| rng.unit()).collect();
        check(&x, |x, dx| bce_with_logits(x, &targets, factor, Some(dx)).unwrap());
        check(&x, |x, dx| mse(x, &targets, factor, Some(dx)).unwrap());
        let classes: Vec<u32> = (0..rows).map(|_| rng.below(width as u32)).collect();
        check(&x, |x, dx| cross_entropy(x, width, &classes, factor, Some(dx)).unwrap());
        let starts: Vec<usize> = (0..=rows).map(|row| 2 * row).collect();
        let columns: Vec<u32> = (0..2 * rows).map(|_| rng.below(width as u32)).collect();
        let counts: Vec<f64> = (0..2 * rows).map(|_| 2.0 * rng.unit()).collect();
        let sparse = SparseRows::new(&starts, &columns, Some(&counts), width).unwrap();
        check(&x, |x, dx| multinomial(x, &sparse, factor, Some(dx)).unwrap());
        check(&x, |x, dx| bce_with_logits_sparse(x, &sparse, factor, Some(dx)).unwrap());
        let both = normals(seed, "both", 2 * len);
        check(&both, |x, dx| {
            let ((p, n), (dp, dn)) = (x.split_at(len), dx.split_at_mut(len));
            bpr(p, n, factor, Some((dp, dn))).unwrap()
        });
        check(&both, |x, dx| {
            let ((m, l), (dm, dl)) = (x.split_at(len), dx.split_at_mut(len));
            kl_gaussian(m, l, factor, Some((dm, dl))).unwrap()
        });
        let dz = normals(seed, "dz", len);
        check(&both, |x, dx| {
            let ((m, l), (dm, dl)) = (x.split_at(len), dx.split_at_mut(len));
            let mut arena = arena(2 * len);
            let (z, deviations) = sample_gaussian(m, l, &mut Rng::new(seed), &mut arena.space()).unwrap();
            sample_gaussian_backward(deviations, &dz, dm, dl).unwrap();
            dot(z, &dz)
        });
    }
}
