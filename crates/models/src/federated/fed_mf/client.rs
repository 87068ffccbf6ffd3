//! The client's half: one pass over the user's cells.

use super::FedMfConfig;
use crate::explanation::by_vectors;
use crate::federated::TrainResult;
use crate::{ClientModel, Reason, ReasonKind, TrainInput, TrainStats};
use sottovoce_core::{History, Rng, math};
use sottovoce_protocol::{Parameters, RowOrigin, Table, Trained};

/// How a device trains.
#[derive(Clone, Debug)]
pub struct Client {
    /// The settings.
    pub config: FedMfConfig,
}

/// Working memory.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Items, and whether the user has them.
    cells: Vec<(u32, bool)>,
    /// The items of the cells, ascending, each once.
    items: Vec<u32>,
    origins: Vec<RowOrigin>,
}

impl Scratch {
    /// Samples the cells of a round. Some item is neither in `history` nor in `hidden`, and both are ascending.
    fn sample(&mut self, history: &[u32], hidden: &[u32], catalog: u32, negatives: usize, rng: &mut Rng) {
        let Self { cells, items, origins } = self;
        cells.clear();
        let has = |item: &u32| history.binary_search(item).is_ok();
        for &item in history {
            cells.push((item, true));
            let others = std::iter::repeat_with(|| rng.below(catalog))
                .filter(|item| !has(item) && hidden.binary_search(item).is_err());
            cells.extend(others.take(negatives).map(|item| (item, false)));
        }
        rng.shuffle(cells);
        items.clear();
        items.extend(cells.iter().map(|&(item, _)| item));
        items.sort_unstable();
        items.dedup();
        origins.clear();
        origins.extend(items.iter().map(|item| if has(item) { RowOrigin::Consumed } else { RowOrigin::Other }));
    }
}

impl ClientModel for Client {
    type Scratch = Scratch;
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, _: usize) -> Scratch {
        Scratch::default()
    }

    fn private_values(&self) -> usize {
        self.config.factors
    }

    fn init_private(&self, private: &mut [f32], rng: &mut Rng) {
        rng.fill_normal(self.config.init_deviation as f32, private);
    }

    fn train(&self, input: TrainInput<'_>, scratch: &mut Scratch, rng: &mut Rng, into: &mut Trained) -> TrainResult {
        let history = &*input.visible();
        let TrainInput { shared, private: user, hidden, .. } = input;
        let [vectors] = shared.tables() else { return Ok(TrainStats::default()) };
        let catalog = vectors.shape().rows;
        // A user with nothing, or with everything, has no cells to tell apart.
        if history.is_empty() || history.len() + hidden.len() >= catalog as usize {
            return Ok(TrainStats::default());
        }
        scratch.sample(history, hidden, catalog, self.config.negatives, rng);
        let Scratch { cells, items, origins } = scratch;
        let gradients = into.push_rows(0, items, origins)?;
        let FedMfConfig { factors, learning_rate, regularisation, .. } = self.config;
        let (rate, regularisation) = (learning_rate as f32, regularisation as f32);
        let mut loss = 0.0;
        for &(item, positive) in &*cells {
            let row = vectors.row(item as usize);
            let error = f32::from(u8::from(positive)) - math::dot(user, row);
            loss += f64::from(error * error);
            let index = items.partition_point(|&other| other < item);
            let gradient = &mut gradients[index * factors..][..factors];
            for ((user, q), g) in user.iter_mut().zip(row).zip(gradient) {
                *g += error * *user - regularisation * q;
                *user += rate * (error * q - regularisation * *user);
            }
        }
        into.set_samples(history.len() as u64);
        // A sample is an interaction with the cells sampled for it.
        Ok(TrainStats { samples: history.len() as u64, loss })
    }

    fn score(&self, shared: &Parameters, private: &[f32], _: History<'_>, into: &mut [f32]) {
        // The model of an empty catalog has no table.
        let vectors = shared.tables().first().map_or(&[][..], Table::values);
        assert_eq!(into.len(), vectors.len() / self.config.factors, "one score an item");
        for (score, row) in into.iter_mut().zip(vectors.chunks_exact(self.config.factors)) {
            *score = math::dot(private, row);
        }
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Vectors
    }

    fn explain(&self, shared: &Parameters, private: &[f32], history: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        let [vectors] = shared.tables() else { return vec![Vec::new(); items.len()] };
        let row = |item: usize| (vectors.row(item), 0.0);
        by_vectors(private, vectors.shape().rows as usize, row, &history, items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerModel;
    use crate::federated::fed_mf::Server;

    const FACTORS: usize = 3;
    const ITEMS: usize = 9;

    fn client() -> Client {
        let config = FedMfConfig { factors: FACTORS, negatives: 2, learning_rate: 0.1, ..FedMfConfig::default() };
        Client { config }
    }

    fn shared() -> Parameters {
        Server { factors: FACTORS, init_deviation: 0.5 }.init(ITEMS, &mut Rng::new(4)).unwrap()
    }

    fn train(private: &mut [f32], history: &[u32], hidden: &[u32]) -> (Trained, Scratch, TrainStats) {
        let (shared, mut scratch) = (shared(), Scratch::default());
        let mut into = Trained::new(&shared.layout());
        let input = TrainInput { shared: &shared, prepared: &(), private, history: history.into(), hidden };
        let stats = client().train(input, &mut scratch, &mut Rng::new(7), &mut into).unwrap();
        (into, scratch, stats)
    }

    /// The paper's equations in double precision, on the cells that were sampled.
    #[test]
    fn follows_the_equations() {
        let mut private = [0.3f32, -0.8, 0.5];
        let mut user = private.map(f64::from);
        let (trained, scratch, stats) = train(&mut private, &[1, 4, 6], &[]);
        assert_eq!((stats.samples, scratch.cells.len()), (3, 9));
        let shared = shared();
        let (mut gradients, mut loss) = ([[0.0; FACTORS]; ITEMS], 0.0);
        for &(item, positive) in &scratch.cells {
            let q: Vec<f64> = shared.tables()[0].row(item as usize).iter().map(|&value| f64::from(value)).collect();
            let predicted: f64 = user.iter().zip(&q).map(|(user, q)| user * q).sum();
            let error = f64::from(u8::from(positive)) - predicted;
            loss += error * error;
            for f in 0..FACTORS {
                gradients[item as usize][f] += error * user[f] - 0.05 * q[f];
                user[f] += 0.1 * (error * q[f] - 0.05 * user[f]);
            }
        }
        assert!((stats.loss - loss).abs() < 1e-5, "{} {loss}", stats.loss);
        assert!(private.iter().zip(user).all(|(found, expected)| (f64::from(*found) - expected).abs() < 1e-6));
        for (row, values) in trained.update().tables()[0].iter() {
            let same = |(found, expected): (&f32, &f64)| (f64::from(*found) - expected).abs() < 1e-6;
            assert!(values.iter().zip(&gradients[row]).all(same), "row {row}");
        }
    }

    #[test]
    fn sends_rows_of_all_cells_and_marks_the_users_own() {
        let (trained, scratch, _) = train(&mut [0.3, -0.8, 0.5], &[1, 4, 6], &[]);
        let own: Vec<u32> = (scratch.items.iter().zip(trained.origins(0)))
            .filter_map(|(&item, &origin)| (origin == RowOrigin::Consumed).then_some(item))
            .collect();
        assert_eq!(own, [1, 4, 6]);
        assert!(scratch.cells.iter().all(|&(item, positive)| positive == own.contains(&item)));
    }

    #[test]
    fn nothing_depends_on_hidden_items() {
        let mut private = [[0.3, -0.8, 0.5]; 2];
        let [one, other] = &mut private;
        let (hiding, scratch, _) = train(one, &[1, 4, 6], &[2, 4]);
        assert_eq!(hiding.update(), train(other, &[1, 6], &[2, 4]).0.update());
        assert!(scratch.items.iter().all(|item| ![2, 4].contains(item)));
        assert_eq!(private[0], private[1]);
    }

    #[test]
    fn nothing_leaves_where_there_is_nothing_to_tell_apart() {
        let all: Vec<u32> = (0..ITEMS as u32).collect();
        for (history, hidden) in [(&[][..], &[][..]), (&all, &[]), (&all[..5], &all[5..])] {
            let (trained, _, stats) = train(&mut [0.3, -0.8, 0.5], history, hidden);
            assert_eq!((trained.update().rows(), stats.samples), (0, 0));
        }
    }
}
