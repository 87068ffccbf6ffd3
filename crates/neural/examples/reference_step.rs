//! Times a training step of the reference model (66,743 parameters) and prints one line of JSON a batch size.
//!
//! On a machine with other work to do, the least of many short runs is what the step itself takes; the median tells how
//! busy the machine was.
#![allow(clippy::print_stdout)]

use sottovoce_core::Rng;
use sottovoce_neural::reference::{INTERESTS, PAGE, PAGES, Reference};
use sottovoce_neural::{Arithmetic, NeuralError, SparseRows};
use std::time::Instant;

/// About one interest in a hundred, as in the PyTorch step that this is compared with.
fn batch(rows: usize, rng: &mut Rng) -> (Vec<usize>, Vec<u32>, Vec<f32>) {
    let (mut starts, mut columns) = (vec![0], Vec::new());
    for _ in 0..rows {
        columns.extend((0..INTERESTS as u32).filter(|_| rng.chance(0.01)));
        starts.push(columns.len());
    }
    let mut pages = vec![0.0; rows * PAGES * PAGE];
    rng.fill_normal(1.0, &mut pages);
    (starts, columns, pages)
}

fn time(arithmetic: Arithmetic, rows: usize) -> Result<(f64, f64), NeuralError> {
    let mut model = Reference::<f32>::new(arithmetic, rows, 1)?;
    let (starts, columns, pages) = batch(rows, &mut Rng::new(2));
    let interests = SparseRows::new(&starts, &columns, None, INTERESTS)?;
    let steps = (64 / rows).max(1);
    let mut runs = Vec::new();
    for _ in 0..400 {
        let begun = Instant::now();
        for _ in 0..steps {
            model.step(&interests, &pages)?;
        }
        runs.push(1e6 * begun.elapsed().as_secs_f64() / steps as f64);
    }
    runs.sort_by(f64::total_cmp);
    Ok((runs[0], runs[runs.len() / 2]))
}

fn main() -> Result<(), NeuralError> {
    for rows in [1, 4, 16, 64] {
        for arithmetic in [Arithmetic::Portable, Arithmetic::Machine] {
            let (least, median) = time(arithmetic, rows)?;
            println!(
                r#"{{"batch":{rows},"arithmetic":"{arithmetic:?}","us_least":{least:.1},"us_median":{median:.1}}}"#
            );
        }
    }
    Ok(())
}
