//! The device's half: counts, then co-occurrences; and scores from the shared vectors.

use super::FedEaseTopConfig;
use super::server::popularity;
use crate::spectral::packed_cell;
use crate::{Because, ClientModel, Reason, ReasonKind, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{History, Rng, math};
use sottovoce_protocol::{Parameters, RowOrigin, Table, Trained};

/// What runs on devices.
#[derive(Clone, Debug)]
pub struct Client {
    /// The settings.
    pub config: FedEaseTopConfig,
}

/// Working memory of [`Client`]: places of the owner's items, a row of the table.
#[derive(Debug, Default)]
pub struct Scratch {
    places: Vec<usize>,
    cells: Vec<(usize, usize)>,
}

/// The place of an item among those that are kept, from 0 on. A server that says impossible places is not believed.
fn place(items: &Table, item: u32, kept: usize) -> Option<usize> {
    let place = items.row(item as usize)[1];
    (place >= 1.0 && place <= kept as f32).then(|| place as usize - 1)
}

impl Client {
    fn write_counts(items: &[u32], into: &mut Trained) -> TrainResult {
        let count = (1.0 / (items.len() as f64).sqrt()) as f32;
        for &item in items {
            into.push_row(0, item, RowOrigin::Consumed)?.copy_from_slice(&[count, 0.0]);
        }
        Ok(TrainStats { samples: items.len() as u64, loss: items.len() as f64 })
    }

    /// y y' / |y|, half of it: cells beside the diagonal stand for two.
    fn write_co_occurrences(
        &self,
        items: &[u32],
        table: &Table,
        scratch: &mut Scratch,
        into: &mut Trained,
    ) -> TrainResult {
        let (n, Scratch { places, cells }) = (self.config.kept(), scratch);
        places.clear();
        places.extend(items.iter().filter_map(|&item| place(table, item, n)));
        places.sort_unstable();
        places.dedup();
        cells.clear();
        for (index, &i) in places.iter().enumerate() {
            cells.extend(places[index..].iter().map(|&j| packed_cell(i, j, n)));
        }
        cells.sort_unstable();
        let own = 1.0 / places.len().max(1) as f64;
        let (own, pair) = (own as f32, (std::f64::consts::SQRT_2 * own) as f32);
        for row in cells.chunk_by(|a, b| a.0 == b.0) {
            let into = into.push_row(1, row[0].0 as u32, RowOrigin::Consumed)?;
            into.fill(0.0);
            for &(_, col) in row {
                into[col] = if col == 0 { own } else { pair };
            }
        }
        Ok(TrainStats { samples: items.len() as u64, loss: (items.len() - places.len()) as f64 })
    }

    /// What scores are computed from: both tables, and the places of the owner's items.
    fn scoring<'a>(&self, shared: &'a Parameters, history: &[u32]) -> Option<Scoring<'a>> {
        let [items, vectors] = shared.tables() else { return None };
        let FedEaseTopConfig { popularity_scaling, popularity_exponent, .. } = self.config;
        let kept = self.config.kept();
        let mut had: Vec<usize> = history.iter().filter_map(|&item| place(items, item, kept)).collect();
        had.sort_unstable();
        had.dedup();
        if vectors.values().iter().all(|&value| value == 0.0) {
            // Before the second round, or where nothing of it is above the noise: nothing personal is known.
            had.clear();
        }
        let popularity = popularity(items, kept);
        let n = had.len() as f64;
        let exponent = -popularity_exponent * n / (n + LONG);
        let power = |exponent: f64| popularity.iter().map(|&c| math::pow(c, exponent) as f32).collect();
        let average = popularity.iter().map(|&c| (self.config.average() * c / kept as f64) as f32).collect();
        let most = (0..items.shape().rows as usize).map(|item| items.row(item)[0]).fold(0.0, f32::max);
        let (held_back, factors) = (power(-popularity_scaling), power(exponent));
        Some(Scoring { items, vectors, had, average, held_back, factors, most })
    }
}

/// Scores of one person.
struct Scoring<'a> {
    items: &'a Table,
    vectors: &'a Table,
    /// Places of the owner's items, ascending.
    had: Vec<usize>,
    /// By place: how much an average person's items count.
    average: Vec<f32>,
    /// By place: H^2.
    held_back: Vec<f32>,
    /// By place: what scores are multiplied with.
    factors: Vec<f32>,
    /// The largest count.
    most: f32,
}

/// Below all scores of items that are kept.
const BEHIND: f32 = -1e6;

/// Items of a history from which on it is long.
const LONG: f64 = 3.0;

impl Scoring<'_> {
    fn place(&self, item: u32) -> Option<usize> {
        // Who has none of the kept items gets the popular ones.
        place(self.items, item, self.average.len()).filter(|_| !self.had.is_empty())
    }

    fn row(&self, place: usize) -> &[f32] {
        self.vectors.row(place)
    }

    /// What products with an item's vector are multiplied with.
    fn scale(&self, place: usize) -> f32 {
        let (own, held_back) = (math::dot(self.row(place), self.row(place)), self.held_back[place]);
        self.factors[place] / (held_back - own).max(1e-3 * held_back)
    }

    /// The sums of the vectors of the owner's items and of those of an average person.
    fn sums(&self) -> [Vec<f32>; 2] {
        let mut sums = [(); 2].map(|()| vec![0.0; self.vectors.shape().cols as usize]);
        self.had.iter().for_each(|&place| math::add(&mut sums[0], self.row(place)));
        for (place, &average) in self.average.iter().enumerate() {
            math::add_scaled(&mut sums[1], average, self.row(place));
        }
        sums
    }

    /// What the items of an average person add to the score of an item.
    fn of_average(&self, place: usize, sum: &[f32]) -> f32 {
        let row = self.row(place);
        (math::dot(sum, row) - self.average[place] * math::dot(row, row)) * self.scale(place)
    }

    /// What the owner's items add.
    fn of_owner(&self, place: usize, sum: &[f32]) -> f32 {
        let row = self.row(place);
        let own = if self.had.binary_search(&place).is_ok() { math::dot(row, row) } else { 0.0 };
        (math::dot(sum, row) - own) * self.scale(place)
    }

    /// The score of an item that is not kept: all of it popularity.
    fn popularity(&self, item: u32) -> f32 {
        let share = self.items.row(item as usize)[0] / self.most.max(f32::MIN_POSITIVE);
        if self.had.is_empty() { share } else { BEHIND * (1.0 - 0.5 * share) }
    }

    /// How popular an item is, as a reason.
    fn popular(&self, item: u32, weight: f32) -> Reason {
        let people = self.items.row(item as usize)[0].max(0.0).round() as u32;
        Reason { because: Because::Popular { people }, weight }
    }
}

impl ClientModel for Client {
    type Scratch = Scratch;
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, _: usize) -> Scratch {
        Scratch::default()
    }

    /// The samples are the owner's items, whether they are kept or not: that a device has none of the kept ones must
    /// not show. The loss is the number that are not kept.
    fn train(&self, input: TrainInput<'_>, scratch: &mut Scratch, _: &mut Rng, into: &mut Trained) -> TrainResult {
        let history = input.visible();
        let Some(table) = input.shared.tables().first().filter(|_| !history.is_empty()) else {
            return Ok(TrainStats::default());
        };
        let counted = (0..table.shape().rows as usize).any(|item| table.row(item)[1] > 0.0);
        into.set_samples(history.len() as u64);
        match counted {
            false => Self::write_counts(&history, into),
            true => self.write_co_occurrences(&history, table, scratch, into),
        }
    }

    fn score(&self, shared: &Parameters, _: &[f32], history: History<'_>, into: &mut [f32]) {
        let Some(scoring) = self.scoring(shared, &history) else {
            return assert!(into.is_empty(), "one score an item");
        };
        assert_eq!(into.len(), scoring.items.shape().rows as usize, "one score an item");
        let [owner, average] = scoring.sums();
        for (item, score) in (0..).zip(into.iter_mut()) {
            *score = match scoring.place(item) {
                Some(place) => scoring.of_owner(place, &owner) + scoring.of_average(place, &average),
                None => scoring.popularity(item),
            };
        }
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn explain(&self, shared: &Parameters, _: &[f32], history: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        let Some(scoring) = self.scoring(shared, &history) else { return vec![Vec::new(); items.len()] };
        let [_, average] = scoring.sums();
        let of_item = |&item: &u32| {
            let Some(place) = scoring.place(item) else {
                return vec![scoring.popular(item, scoring.popularity(item))];
            };
            let scale = scoring.scale(place);
            let share = |had: &u32| {
                let other = scoring.place(*had).filter(|&other| other != place)?;
                Some(Reason::had(*had, math::dot(scoring.row(other), scoring.row(place)) * scale))
            };
            let popular = scoring.of_average(place, &average);
            let popular = (popular != 0.0).then(|| scoring.popular(item, popular));
            history.iter().filter_map(share).chain(popular).collect()
        };
        items.iter().map(of_item).collect()
    }
}
