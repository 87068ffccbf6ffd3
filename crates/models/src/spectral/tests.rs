use super::*;

const ITEMS: usize = 12;

/// G of some histories, and the histories.
fn example() -> (Matrix, Vec<Vec<u32>>) {
    let mut rng = Rng::new(7);
    let people: Vec<Vec<u32>> = (0..40).map(|_| (0..ITEMS as u32).filter(|_| rng.chance(0.35)).collect()).collect();
    let mut gram = Matrix::zeros(ITEMS, ITEMS);
    for history in &people {
        for &i in history {
            history.iter().for_each(|&j| gram.row_mut(i as usize)[j as usize] += 1.0);
        }
    }
    (gram, people)
}

fn table(spectrum: &Spectrum, factors: usize, readout: Readout, regularisation: f64) -> Vec<f32> {
    let mut vectors = spectrum.vectors.clone();
    let weights = spectrum.weights(factors, readout, regularisation);
    vectors.scale_columns(&weights);
    (0..ITEMS).flat_map(|item| vectors.row(item)[..weights.len()].to_vec()).map(|value| value as f32).collect()
}

#[test]
fn subspace_iteration_finds_the_spectrum() {
    let (gram, _) = example();
    let exact = Eigen::symmetric(gram.clone());
    let found = Spectrum::iterated(ITEMS, 6, 30, &Rng::new(1), |basis| gram.times(basis));
    for (index, value) in found.values.iter().take(3).enumerate() {
        assert!((value - exact.values[index]).abs() < 1e-6 * exact.values[0], "{value} {}", exact.values[index]);
        let along: f64 = (0..ITEMS).map(|i| found.vectors.at(i, index) * exact.vectors.at(i, index)).sum();
        assert!((along.abs() - 1.0).abs() < 1e-4, "vector {index}: {along}");
    }
}

/// With all vectors, low-rank EASE is EASE: solved here by elimination, which shares nothing with it.
#[test]
fn full_rank_is_ease_itself() {
    let (gram, people) = example();
    let spectrum = Spectrum::iterated(ITEMS, ITEMS, 3, &Rng::new(2), |basis| gram.times(basis));
    assert_eq!(spectrum.values.len(), ITEMS);
    let regularisation = 4.0;
    let l = regularisation * spectrum.values[ITEMS - 1];
    let inverse = inverted(&gram, l);
    let values = table(&spectrum, ITEMS, Readout::Ease, regularisation);
    let vectors = ItemVectors { values: &values, cols: ITEMS, factors: ITEMS, readout: Readout::Ease };
    for history in &people {
        let mut scores = [0.0; ITEMS];
        vectors.score(history, &mut scores);
        let all: Vec<u32> = (0..ITEMS as u32).collect();
        for (item, reasons) in vectors.reasons(history, &all).iter().enumerate() {
            let others = history.iter().map(|&i| i as usize).filter(|&i| i != item);
            let expected: f64 = others.map(|i| -inverse[i][item] / inverse[item][item]).sum();
            let explained: f32 = reasons.iter().map(|reason| reason.weight).sum();
            assert!((f64::from(scores[item]) - expected).abs() < 1e-4, "{item}: {} {expected}", scores[item]);
            assert!((explained - scores[item]).abs() < 1e-4);
        }
    }
}

/// (G + l I)^-1 by Gauss and Jordan.
fn inverted(gram: &Matrix, l: f64) -> Vec<Vec<f64>> {
    let row = |i: usize| {
        let identity = (0..ITEMS).map(|j| f64::from(u8::from(i == j)));
        let left = (0..ITEMS).map(|j| gram.at(i, j) + if i == j { l } else { 0.0 });
        left.chain(identity).collect::<Vec<f64>>()
    };
    let mut rows: Vec<Vec<f64>> = (0..ITEMS).map(row).collect();
    for k in 0..ITEMS {
        let pivot = rows[k][k];
        rows[k].iter_mut().for_each(|value| *value /= pivot);
        for i in (0..ITEMS).filter(|&i| i != k) {
            let factor = rows[i][k];
            for j in 0..2 * ITEMS {
                rows[i][j] -= factor * rows[k][j];
            }
        }
    }
    rows.iter().map(|row| row[ITEMS..].to_vec()).collect()
}

#[test]
fn fewer_people_than_vectors_leave_no_noise() {
    // Two people: rank 2, however many vectors are asked for.
    let mut gram = Matrix::zeros(ITEMS, ITEMS);
    for history in [[0usize, 1, 2], [2, 3, 4]] {
        history.iter().for_each(|&i| history.iter().for_each(|&j| gram.row_mut(i)[j] += 1.0));
    }
    let spectrum = Spectrum::iterated(ITEMS, 8, 3, &Rng::new(3), |basis| gram.times(basis));
    assert_eq!(spectrum.values.len(), 2);
    assert!((spectrum.values[0] - 4.0).abs() < 1e-9 && (spectrum.values[1] - 2.0).abs() < 1e-9);
    // Nobody at all.
    let nothing = Spectrum::iterated(ITEMS, 8, 2, &Rng::new(3), |basis| Matrix::zeros(ITEMS, basis.cols()));
    assert!(nothing.values.is_empty() && nothing.weights(5, Readout::Ease, 10.0).is_empty());
}
