//! The device's half: counts, then co-occurrences; and scores from the shared vectors.

use super::FedEaseTopConfig;
use crate::spectral::{ItemVectors, Readout, packed_cell};
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
        let (n, Scratch { places, cells }) = (self.config.top_items, scratch);
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
        let kept = self.config.top_items;
        let mut had: Vec<u32> = history.iter().filter_map(|&item| place(items, item, kept)).map(|i| i as u32).collect();
        had.sort_unstable();
        if vectors.values().iter().all(|&value| value == 0.0) {
            // Before the second round, or where nothing of it is above the noise: nothing personal is known.
            had.clear();
        }
        let (values, cols) = (vectors.values(), vectors.shape().cols as usize);
        let n = had.len() as f64;
        let exponent = -self.config.popularity_exponent * n / (n + 3.0);
        let rows = || (0..items.shape().rows as usize).map(move |item| items.row(item));
        let of_kept = || rows().filter(|row| row[1] > 0.0).map(|row| f64::from(row[0]));
        let mean = of_kept().sum::<f64>() / of_kept().count().max(1) as f64;
        let most = rows().map(|row| row[0]).fold(0.0, f32::max);
        let vectors = ItemVectors { values, cols, factors: cols, readout: Readout::Ease };
        Some(Scoring { items, vectors, had, kept, exponent, mean, most })
    }
}

/// Scores of one person.
struct Scoring<'a> {
    items: &'a Table,
    vectors: ItemVectors<'a>,
    /// Places of the owner's items.
    had: Vec<u32>,
    kept: usize,
    exponent: f64,
    /// Of the counts of kept items.
    mean: f64,
    /// The largest count.
    most: f32,
}

/// Below all scores of items that are kept.
const BEHIND: f32 = -1e6;

impl Scoring<'_> {
    fn place(&self, item: u32) -> Option<usize> {
        // Who has none of the kept items gets the popular ones.
        place(self.items, item, self.kept).filter(|_| !self.had.is_empty())
    }

    /// What scores of an item are multiplied with.
    fn factor(&self, item: u32) -> f32 {
        let count = f64::from(self.items.row(item as usize)[0]);
        if count > 0.0 && self.mean > 0.0 { math::pow(count / self.mean, self.exponent) as f32 } else { 1.0 }
    }

    /// The score of an item that is not kept: all of it popularity.
    fn popularity(&self, item: u32) -> f32 {
        let share = self.items.row(item as usize)[0] / self.most.max(f32::MIN_POSITIVE);
        if self.had.is_empty() { share } else { BEHIND * (1.0 - 0.5 * share) }
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
        let mut kept = vec![0.0; scoring.kept];
        scoring.vectors.score(&scoring.had, &mut kept);
        for (item, score) in (0..).zip(into.iter_mut()) {
            *score = match scoring.place(item) {
                Some(place) => kept[place] * scoring.factor(item),
                None => scoring.popularity(item),
            };
        }
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn explain(&self, shared: &Parameters, _: &[f32], history: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        let Some(scoring) = self.scoring(shared, &history) else { return vec![Vec::new(); items.len()] };
        let owned = |of: u32| history.iter().copied().find(|&item| scoring.place(item) == Some(of as usize));
        let of_item = |&item: &u32| {
            let Some(place) = scoring.place(item) else {
                let people = scoring.items.row(item as usize)[0].max(0.0).round() as u32;
                return vec![Reason { because: Because::Popular { people }, weight: scoring.popularity(item) }];
            };
            let factor = scoring.factor(item);
            let shares = scoring.vectors.reasons(&scoring.had, &[place as u32]).pop().unwrap_or_default();
            let named = shares.into_iter().filter_map(|reason| match reason.because {
                Because::Had(of) => Some(Reason::had(owned(of)?, reason.weight * factor)),
                _ => None,
            });
            named.collect()
        };
        items.iter().map(of_item).collect()
    }
}
