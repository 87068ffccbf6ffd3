use super::*;
use crate::spectral::{Matrix, packed_cell};
use crate::{ClientModel, ServerModel, TrainInput};
use sottovoce_core::Rng;
use sottovoce_protocol::{Parameters, Table, Trained, Update};

const ITEMS: usize = 20;
const KEPT: usize = 12;

fn config() -> FedEaseTopConfig {
    FedEaseTopConfig { top_items: Some(KEPT), average_items: Some(0.7), ..FedEaseTopConfig::default() }
}

/// By place: how many times as popular as the mean an item is, to a power.
fn powers(items: &Table, exponent: f64) -> Vec<f64> {
    let mut counts = [0.0; KEPT];
    for item in 0..ITEMS {
        let row = items.row(item);
        if row[1] > 0.0 {
            counts[row[1] as usize - 1] = f64::from(row[0]);
        }
    }
    let mean = counts.iter().sum::<f64>() / KEPT as f64;
    counts.iter().map(|count| (count / mean).powf(exponent)).collect()
}

fn sent(shared: &Parameters, history: &[u32]) -> Update {
    let client = Client { config: config() };
    let mut trained = Trained::new(&shared.layout());
    let input = TrainInput { shared, prepared: &(), private: &mut [], history: history.into(), hidden: &[] };
    let stats = client.train(input, &mut client.scratch(ITEMS), &mut Rng::new(1), &mut trained).unwrap();
    assert_eq!(stats.samples, history.len() as u64);
    trained.update().clone()
}

fn norm(update: &Update) -> f64 {
    let squares =
        update.tables().iter().flat_map(sottovoce_protocol::Rows::values).map(|&value| f64::from(value).powi(2));
    squares.sum::<f64>().sqrt()
}

/// Adds up what everybody sends and takes the server's step.
fn round(step: &mut TopItemsStep, shared: &mut Parameters, people: &[Vec<u32>], noise: f64, rng: &mut Rng) {
    let AggregationSpec::TopItems(spec) = FedEaseTop::aggregation(&config(), 0) else { panic!("another strategy") };
    let mut sums = Parameters::zeros(&shared.layout());
    for history in people {
        let update = sent(shared, history);
        for (table, rows) in sums.tables_mut().iter_mut().zip(update.tables()) {
            for (row, values) in rows.iter() {
                table.row_mut(row).iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
    }
    for table in sums.tables_mut() {
        table.values_mut().iter_mut().for_each(|value| *value += (noise * rng.normal()) as f32);
    }
    step.take(&spec, shared, noise, |table, into: &mut Table| {
        into.values_mut().copy_from_slice(sums.tables()[table].values());
    });
}

fn people(count: usize) -> Vec<Vec<u32>> {
    let mut rng = Rng::new(3);
    let mut person = |_| (0..ITEMS as u32).filter(|&item| rng.chance(0.6 - 0.025 * f64::from(item))).collect();
    (0..count).map(&mut person).filter(|history: &Vec<u32>| !history.is_empty()).collect()
}

fn start() -> Parameters {
    FedEaseTop::server(&config(), &Arc::default()).init(ITEMS, &mut Rng::new(1)).unwrap()
}

#[test]
fn nobody_counts_more_than_once_in_either_round() {
    let (people, mut shared, mut step) = (people(30), start(), TopItemsStep::default());
    for history in &people {
        assert!((norm(&sent(&shared, history)) - 1.0).abs() < 1e-6);
    }
    round(&mut step, &mut shared, &people, 0.0, &mut Rng::new(1));
    let places: Vec<f32> = (0..ITEMS).map(|item| shared.tables()[0].row(item)[1]).collect();
    let kept = |item: &u32| places[*item as usize] > 0.0;
    assert_eq!((0..ITEMS as u32).filter(kept).count(), KEPT);
    for history in &people {
        let expected = if history.iter().any(kept) { 1.0 } else { 0.0 };
        assert!((norm(&sent(&shared, history)) - expected).abs() < 1e-6);
    }
    // A server that lies: all items in one place, or in none that there is.
    for lie in [1.0, 1e9, f32::NAN, -3.0] {
        (0..ITEMS).for_each(|item| shared.tables_mut()[0].row_mut(item)[1] = lie);
        assert!(people.iter().all(|history| norm(&sent(&shared, history)) < 1.0 + 1e-6), "{lie}");
    }
}

/// Without noise V V' is H G H (H G H + l I)^-1, which is what EASE's weights are made of, and W is H V.
#[test]
fn vectors_without_noise_are_those_of_ease() {
    // As many eigenvalues as people: fewer than there is room for.
    let (people, mut shared, mut step) = (people(6), start(), TopItemsStep::default());
    (0..2).for_each(|_| round(&mut step, &mut shared, &people, 0.0, &mut Rng::new(1)));
    let [items, vectors] = shared.tables() else { panic!("two tables") };
    let mut gram = Matrix::zeros(KEPT, KEPT);
    for history in &people {
        let places = history.iter().map(|&item| items.row(item as usize)[1] as usize).filter(|&place| place > 0);
        let had: Vec<usize> = places.map(|place| place - 1).collect();
        had.iter().for_each(|&i| had.iter().for_each(|&j| gram.row_mut(i)[j] += 1.0 / had.len() as f64));
    }
    let held_back = powers(items, -0.5 * config().popularity_scaling);
    for i in 0..KEPT {
        (0..KEPT).for_each(|j| gram.row_mut(i)[j] *= held_back[i] * held_back[j]);
    }
    let largest = crate::spectral::Eigen::symmetric(gram.clone()).values[0];
    let l = config().regularisation * largest;
    let dot = |i: usize, j: usize| -> f64 {
        let product = |(a, b): (&f32, &f32)| f64::from(*a) * f64::from(*b);
        let sum: f64 = vectors.row(i).iter().zip(vectors.row(j)).map(product).sum();
        sum / (held_back[i] * held_back[j])
    };
    for i in 0..KEPT {
        for j in 0..KEPT {
            // (V V') (G + l I) = G.
            let product: f64 = (0..KEPT).map(|k| dot(i, k) * gram.at(k, j)).sum::<f64>() + l * dot(i, j);
            assert!((product - gram.at(i, j)).abs() < 1e-4, "{i} {j}: {product} {}", gram.at(i, j));
        }
    }
}

#[test]
fn nothing_personal_is_made_of_noise() {
    let (mut shared, mut step, rng) = (start(), TopItemsStep::default(), &mut Rng::new(8));
    let people = people(3);
    (0..2).for_each(|_| round(&mut step, &mut shared, &people, 500.0, rng));
    let vectors = shared.tables()[1].values();
    let kept = vectors.iter().filter(|value| **value != 0.0).count();
    assert!(kept <= KEPT, "at most one of {KEPT} eigenvalues is above the edge of the noise: {kept}");
    let mut scores = vec![0.0; ITEMS];
    Client { config: config() }.score(&shared, &[], (&[1, 2]).into(), &mut scores);
    assert!(scores.iter().all(|score| score.is_finite()));
}

#[test]
fn cells_beside_the_diagonal_stand_for_two() {
    let (mut shared, mut step) = (start(), TopItemsStep::default());
    round(&mut step, &mut shared, &people(30), 0.0, &mut Rng::new(1));
    let item_at =
        |place: f32| (0..ITEMS as u32).find(|&item| shared.tables()[0].row(item as usize)[1] == place).unwrap();
    let mut history = [item_at(2.0), item_at(5.0)];
    history.sort_unstable();
    let update = sent(&shared, &history);
    let cell = |i, j| {
        let (row, col) = packed_cell(i, j, KEPT);
        update.tables()[1].iter().find(|(found, _)| *found == row).map(|(_, values)| values[col]).unwrap()
    };
    assert_eq!((cell(1, 1), cell(4, 4)), (0.5, 0.5));
    assert!((cell(1, 4) - 0.5 * 2f32.sqrt()).abs() < 1e-6);
}

/// Scores are those of EASE on the scaled matrix, and reasons add up to them.
#[test]
fn scores_and_reasons_are_those_of_the_formula() {
    let (people, mut shared, mut step) = (people(40), start(), TopItemsStep::default());
    (0..2).for_each(|_| round(&mut step, &mut shared, &people, 0.3, &mut Rng::new(5)));
    let [items, vectors] = shared.tables() else { panic!("two tables") };
    let (FedEaseTopConfig { popularity_scaling, popularity_exponent, .. }, average) = (config(), config().average());
    let (client, history) = (Client { config: config() }, &people[3][..]);
    let place = |item: u32| (items.row(item as usize)[1] as usize).checked_sub(1);
    let n = history.iter().filter(|&&item| place(item).is_some()).count() as f64;
    let [square, factors, popular] =
        [-popularity_scaling, -popularity_exponent * n / (n + 3.0), 1.0].map(|power| powers(items, power));
    let mut scores = vec![0.0; ITEMS];
    client.score(&shared, &[], history.into(), &mut scores);
    let all: Vec<u32> = (0..ITEMS as u32).collect();
    let reasons = client.explain(&shared, &[], history.into(), &all);
    let dot = |i: usize, j: usize| -> f64 {
        vectors.row(i).iter().zip(vectors.row(j)).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    for item in 0..ITEMS as u32 {
        let Some(j) = place(item) else { continue };
        let had = |i: usize| f64::from(u8::from(history.iter().any(|&item| place(item) == Some(i))));
        let weight = |i: usize| had(i) + average * popular[i] / KEPT as f64;
        let sum: f64 = (0..KEPT).filter(|&i| i != j).map(|i| weight(i) * dot(i, j)).sum();
        let expected = sum / (square[j] - dot(j, j)) * factors[j];
        let found = f64::from(scores[item as usize]);
        assert!((found - expected).abs() < 1e-4 * expected.abs().max(1.0), "{item}: {found} {expected}");
        let told: f32 = reasons[item as usize].iter().map(|reason| reason.weight).sum();
        assert!((f64::from(told) - found).abs() < 1e-4 * found.abs().max(1.0), "{item}: {told} {found}");
    }
}

#[test]
fn more_items_are_kept_with_more_people_and_less_noise() {
    let kept = |people, items, noise: f64| {
        FedEaseTopConfig::rule(&PublicFacts { people, items, noise: &|| noise, earlier: &[] })
    };
    // MovieLens 1M at epsilon 1, 2 and 8.
    let of_movielens = [3.73, 2.03, 0.6].map(|noise| kept(5954, 3705, noise));
    assert!(of_movielens.is_sorted() && of_movielens[0] == 231 && of_movielens[2] == 288, "{of_movielens:?}");
    assert!(of_movielens.iter().all(|&items| 2 * items * items + 8 * 3705 <= 200_000), "{of_movielens:?}");
    assert!(kept(100, 3705, 3.73) < kept(1000, 3705, 3.73));
    assert_eq!([22_363, 100_000, 1_000_000].map(|people| kept(people, 12_000, 3.73)), [449, 720, 1000]);
    assert_eq!((kept(5000, 40, 1.0), kept(0, 40, 1.0), kept(50, 1000, 0.0)), (40, 2, 288));
    let fitted = |top_items| {
        let config = FedEaseTopConfig { top_items, ..FedEaseTopConfig::default() };
        FedEaseTop::fitted(config, &PublicFacts { people: 5000, items: 40, noise: &|| 1.0, earlier: &[] }).top_items
    };
    assert_eq!((fitted(None), fitted(Some(7))), (Some(40), Some(7)));
}
