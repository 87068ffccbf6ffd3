//! Steps (forward and backward) of the reference model and of single layers.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use sottovoce_core::Rng;
use sottovoce_neural::products::{Matrix, MatrixMut, add_product};
use sottovoce_neural::{
    Arena, Arithmetic, Attention, AttentionGradients, AttentionOutputGradients, Conv2d, Conv2dShape, Layout, Mask,
    NeuralError, Recurrent, RecurrentCell, SequenceGradients, Sequences, SparseRows, StateGradients,
};
use sottovoce_testing::reference::{INTERESTS, PAGE, PAGES, Reference};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(200);
const BOTH: [Arithmetic; 2] = [Arithmetic::Portable, Arithmetic::Machine];

fn normals(len: usize) -> Vec<f32> {
    let mut values = vec![0.0; len];
    Rng::new(1).fill_normal(0.5, &mut values);
    values
}

fn parameters(layout: &Layout) -> Vec<f32> {
    let mut values = layout.zeros();
    layout.initialise(&mut values, &Rng::new(1)).expect("a buffer of this layout");
    values
}

fn reference(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reference-step");
    for arithmetic in BOTH {
        for batch in [1, 64] {
            let mut model = Reference::<f32>::new(arithmetic, batch, 1).expect("a small model");
            let columns: Vec<u32> = (0..5 * batch as u32).map(|n| n * 97 % INTERESTS as u32).collect();
            let starts: Vec<usize> = (0..=batch).map(|row| 5 * row).collect();
            let interests = SparseRows::new(&starts, &columns, None, INTERESTS).expect("columns of the model");
            let pages = normals(batch * PAGES * PAGE);
            group.bench_function(BenchmarkId::new(format!("{arithmetic:?}"), batch), |bencher| {
                bencher.iter(|| model.step(&interests, &pages));
            });
        }
    }
}

/// Where `gemm` becomes faster than plain loops: dense products of rows x depth times depth x columns.
fn products(criterion: &mut Criterion) {
    for (depth, columns) in [(16, 16), (64, 64), (60, 473), (600, 200)] {
        let mut group = criterion.benchmark_group(format!("product-{depth}x{columns}"));
        group.sample_size(20).warm_up_time(SHORT).measurement_time(SHORT);
        let weight = normals(depth * columns);
        for rows in [2, 4, 8, 16, 64] {
            let (x, mut y) = (normals(rows * depth), vec![0.0; rows * columns]);
            for arithmetic in BOTH {
                group.bench_function(BenchmarkId::new(format!("{arithmetic:?}"), rows), |bencher| {
                    bencher.iter(|| {
                        let (x, weight) = (Matrix::new(&x, depth)?, Matrix::new(&weight, columns)?);
                        add_product(arithmetic, x, weight, MatrixMut::new(&mut y, columns)?)
                    });
                });
            }
        }
    }
}

/// Samples of a step: as on a device, and as in one place.
const BATCHES: [usize; 2] = [1, 32];

fn gru(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("gru-64x64-20-steps");
    for (arithmetic, batch) in BOTH.into_iter().flat_map(|a| BATCHES.map(|batch| (a, batch))) {
        let mut layout = Layout::new(arithmetic);
        let layer = Recurrent::new(&mut layout, "gru", RecurrentCell::Gru, 64, 64).expect("sizes above 0");
        let (p, mut g, x) = (parameters(&layout), layout.zeros::<f32>(), normals(batch * 20 * 64));
        let mut arena = Arena::new(layer.space(batch, 20), 0).expect("a small arena");
        let mut step = || -> Result<(), NeuralError> {
            let mut space = arena.space();
            let tape = layer.forward(&p, Sequences::new(&x, batch, 20), &mut space)?;
            let dy = StateGradients { states: &x, last_cells: None };
            layer.backward(&p, &tape, dy, &mut g, SequenceGradients::default(), &mut space)
        };
        step().expect("shapes that fit");
        group.bench_function(BenchmarkId::new(format!("{arithmetic:?}"), batch), |bencher| {
            bencher.iter(&mut step);
        });
    }
}

fn attention(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("attention-32-2-heads-50-steps");
    for (arithmetic, batch) in BOTH.into_iter().flat_map(|a| BATCHES.map(|batch| (a, batch))) {
        let mut layout = Layout::new(arithmetic);
        let layer = Attention::new(&mut layout, "attention", 32, 2, Mask::Causal).expect("heads that divide the width");
        let (p, mut g, x) = (parameters(&layout), layout.zeros::<f32>(), normals(batch * 50 * 32));
        let mut arena = Arena::new(layer.space(batch, 50, 50), 0).expect("a small arena");
        let mut step = || -> Result<(), NeuralError> {
            let mut space = arena.space();
            let tape = layer.forward(&p, &x, &x, batch, &mut space)?;
            let dy = AttentionOutputGradients { output: &x, weights: None };
            layer.backward(&p, &tape, dy, &mut g, AttentionGradients::default(), &mut space)
        };
        step().expect("shapes that fit");
        group.bench_function(BenchmarkId::new(format!("{arithmetic:?}"), batch), |bencher| {
            bencher.iter(&mut step);
        });
    }
}

fn conv(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("conv-32x14x14-64-5x5");
    for (arithmetic, batch) in BOTH.into_iter().flat_map(|a| BATCHES.map(|batch| (a, batch))) {
        let mut layout = Layout::new(arithmetic);
        let image = [14, 14];
        let shape = Conv2dShape { channels: 32, image, filters: 64, kernel: [5, 5], stride: [1, 1], padding: [2, 2] };
        let layer = Conv2d::new(&mut layout, "conv", shape).expect("a patch that fits");
        let (p, mut g, x) = (parameters(&layout), layout.zeros::<f32>(), normals(batch * layer.inputs()));
        let (dy, mut dx) = (normals(batch * layer.outputs()), vec![0.0; x.len()]);
        let mut arena = Arena::new(layer.space(batch), 0).expect("a small arena");
        let mut step = || -> Result<(), NeuralError> {
            let mut space = arena.space();
            layer.forward(&p, &x, &mut space)?;
            layer.backward(&p, &x, &dy, &mut g, Some(&mut dx), &mut space)
        };
        step().expect("shapes that fit");
        group.bench_function(BenchmarkId::new(format!("{arithmetic:?}"), batch), |bencher| {
            bencher.iter(&mut step);
        });
    }
}

criterion_group!(benches, reference, products, gru, attention, conv);
criterion_main!(benches);
