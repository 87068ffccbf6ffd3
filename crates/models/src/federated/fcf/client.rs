//! The device's half: one exact solution, and what it means for every item.

use super::{FcfConfig, FcfNegatives};
use crate::central::factors::{self, with_stride};
use crate::central::least_squares::{self, Normal};
use crate::explanation::{LinearSystem, by_linear_system};
use crate::{ClientModel, Reason, ReasonKind, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{History, Rng, math};
use sottovoce_protocol::{Parameters, RowOrigin, Table, Trained, UpdateError};
use std::borrow::Cow;

/// How a device trains.
#[derive(Clone, Debug)]
pub struct Client {
    /// The settings.
    pub config: FcfConfig,
}

/// What follows from the items' factors alone.
#[derive(Debug)]
pub struct Prepared {
    /// The factors in padded rows.
    items: factors::Table,
    /// Q'Q, as long and as wide as a padded row.
    gram: Vec<f32>,
}

impl Prepared {
    fn of(table: Option<&Table>, width: usize) -> Self {
        let (rows, values) = table.map_or((0, &[][..]), |table| (table.shape().rows, table.values()));
        let items = factors::Table::from_dense(rows as usize, width, values);
        let gram = with_stride!(items.stride, N => least_squares::gram(items.padded::<N>()).into_flattened());
        Self { items, gram }
    }
}

/// Working memory of [`Client`]: a matrix, and a solution.
#[derive(Debug)]
pub struct Scratch {
    matrix: Vec<f32>,
    solution: Vec<f32>,
}

impl Client {
    /// Solves for the owner's vector, exactly.
    fn solve(&self, prepared: &Prepared, history: &[u32], scratch: &mut Scratch, user: &mut [f32]) {
        with_stride!(prepared.items.stride, N => self.solve_padded::<N>(prepared, history, scratch));
        user.copy_from_slice(&scratch.solution[..self.config.factors]);
    }

    fn solve_padded<const N: usize>(&self, prepared: &Prepared, history: &[u32], scratch: &mut Scratch) {
        let FcfConfig { factors, alpha, regularisation, .. } = self.config;
        let normal = Normal::new(prepared.gram.as_chunks().0, prepared.items.padded::<N>(), alpha as f32, factors);
        let matrix = scratch.matrix.as_chunks_mut().0;
        for solution in scratch.solution.as_chunks_mut().0 {
            normal.solve(None, history, regularisation as f32, matrix, solution);
        }
    }

    /// Puts f(u, i) of all items `into` the update; returns J of the owner's cells.
    fn write_gradient(
        &self,
        table: &Table,
        user: &[f32],
        history: &[u32],
        into: &mut Trained,
    ) -> Result<f64, UpdateError> {
        let mut own = history.iter().copied().peekable();
        let (mut loss, alpha) = (0.0, self.config.alpha as f32);
        for (item, row) in (0..).zip(table.values().chunks_exact(self.config.factors)) {
            let has = own.next_if_eq(&item).is_some();
            let (confidence, goal, mark) =
                if has { (1.0 + alpha, 1.0, RowOrigin::Consumed) } else { (1.0, 0.0, RowOrigin::Other) };
            let error = goal - math::dot(user, row);
            loss += f64::from(confidence * error * error);
            let row = into.push_row(0, item, mark)?;
            row.iter_mut().zip(user).for_each(|(to, p)| *to = confidence * error * p);
        }
        Ok(loss)
    }

    /// Covers rows of items that the owner has or hides by what they would be if they did not have them.
    fn write_decoys(&self, table: &Table, user: &[f32], own: &[u32], into: &mut Trained) -> Result<(), UpdateError> {
        let decoys = into.push_decoys(0, own)?.chunks_exact_mut(self.config.factors);
        for (decoy, &item) in decoys.zip(own) {
            let error = -math::dot(user, table.row(item as usize));
            decoy.iter_mut().zip(user).for_each(|(to, p)| *to = error * p);
        }
        Ok(())
    }
}

/// The items of both lists, ascending.
fn both<'a>(history: &'a [u32], hidden: &[u32]) -> Cow<'a, [u32]> {
    if hidden.is_empty() {
        return Cow::Borrowed(history);
    }
    let mut all = [history, hidden].concat();
    all.sort_unstable();
    all.dedup();
    Cow::Owned(all)
}

impl ClientModel for Client {
    type Scratch = Scratch;
    type Prepared = Prepared;

    fn prepare(&self, shared: &Parameters) -> Prepared {
        Prepared::of(shared.tables().first(), self.config.factors)
    }

    fn scratch(&self, _items: usize) -> Scratch {
        let stride = factors::Table::zeros(0, self.config.factors).stride;
        Scratch { matrix: vec![0.0; stride * stride], solution: vec![0.0; stride] }
    }

    fn private_values(&self) -> usize {
        self.config.factors
    }

    /// Zero: the first round solves for it.
    fn init_private(&self, private: &mut [f32], _rng: &mut Rng) {
        private.fill(0.0);
    }

    /// The samples are the owner's items. The loss is J of their cells in units of 1 + alpha: by the exact solution an
    /// item costs 1 at most, which is what knowing nothing costs.
    fn train(
        &self,
        input: TrainInput<'_, Prepared>,
        scratch: &mut Scratch,
        _rng: &mut Rng,
        into: &mut Trained,
    ) -> TrainResult {
        let TrainInput { shared, prepared, private: user, history: History { items: history, .. }, hidden, .. } = input;
        let Some(table) = shared.tables().first().filter(|_| !history.is_empty()) else {
            return Ok(TrainStats::default());
        };
        self.solve(prepared, history, scratch, user);
        let loss = self.write_gradient(table, user, history, into)?;
        if self.config.negatives == FcfNegatives::Decoys && !into.discloses_everything() {
            self.write_decoys(table, user, &both(history, hidden), into)?;
        }
        let samples = history.len() as u64;
        into.set_samples(samples);
        Ok(TrainStats { samples, loss: loss / f64::from(1.0 + self.config.alpha as f32) })
    }

    fn score(&self, shared: &Parameters, private: &[f32], _: History<'_>, into: &mut [f32]) {
        let table = shared.tables().first();
        assert_eq!(into.len(), table.map_or(0, |table| table.shape().rows as usize), "one score an item");
        let rows = table.into_iter().flat_map(|table| table.values().chunks_exact(private.len()));
        for (into, row) in into.iter_mut().zip(rows) {
            *into = math::dot(private, row);
        }
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn explain(&self, shared: &Parameters, private: &[f32], history: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        let vectors = Prepared::of(shared.tables().first(), self.config.factors).items;
        let FcfConfig { alpha, regularisation, .. } = self.config;
        let system = LinearSystem { items: &vectors, alpha: alpha as f32, penalty: regularisation as f32 };
        by_linear_system(system, private, &history, items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerModel;
    use crate::federated::fcf::Server;
    use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, proptest};
    use sottovoce_protocol::{DisclosureSeeds, Ledger, Policy, RoundTerms, TermsDraft};

    const ITEMS: usize = 25;
    const FACTORS: usize = 5;

    fn client(alpha: f64, regularisation: f64, negatives: FcfNegatives) -> Client {
        Client { config: FcfConfig { factors: FACTORS, alpha, regularisation, negatives, ..FcfConfig::default() } }
    }

    fn history() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::btree_set(0..ITEMS as u32, 1..ITEMS).prop_map(|items| items.into_iter().collect())
    }

    /// Half of -dJ_u/dp, which is zero at the solution: sum_i c_ui (r_ui - p . q_i) q_i - l p, over all items.
    fn slope(device: &Client, table: &Table, history: &[u32], p: &[f64]) -> Vec<f64> {
        let mut slope: Vec<f64> = p.iter().map(|p| -device.config.regularisation * p).collect();
        for item in 0..ITEMS {
            let (c, r) = cell(device, history, item);
            let error = r - inner(p, table.row(item));
            slope.iter_mut().zip(table.row(item)).for_each(|(s, q)| *s += c * error * f64::from(*q));
        }
        slope
    }

    fn cell(device: &Client, history: &[u32], item: usize) -> (f64, f64) {
        if history.contains(&(item as u32)) { (1.0 + device.config.alpha, 1.0) } else { (1.0, 0.0) }
    }

    fn inner(p: &[f64], q: &[f32]) -> f64 {
        p.iter().zip(q).map(|(p, q)| p * f64::from(*q)).sum()
    }

    proptest! {
        #[test]
        fn a_round_is_the_papers(
            history in history(),
            alpha in 0f64..20.0,
            regularisation in 0.2f64..5.0,
            seed in 0u64..10_000,
        ) {
            let mut rng = Rng::new(seed);
            let shared = Server { factors: FACTORS, init_deviation: 0.8 };
            let parameters = shared.init(ITEMS, &mut rng).unwrap();
            let table = &parameters.tables()[0];
            let device = client(alpha, regularisation, FcfNegatives::Papers);
            // What was there before does not matter: the solution is exact.
            let mut private = [7.0; FACTORS];
            let mut trained = Trained::new(&parameters.layout());
            let prepared = device.prepare(&parameters);
            let input = TrainInput { shared: &parameters, prepared: &prepared, private: &mut private, history: (&history).into(), hidden: &[] };
            let stats = device.train(input, &mut device.scratch(ITEMS), &mut rng, &mut trained).unwrap();

            let p: Vec<f64> = private.iter().map(|p| f64::from(*p)).collect();
            let flat = slope(&device, table, &history, &p);
            prop_assert!(flat.iter().all(|s| s.abs() < 2e-3), "{flat:?}");
            prop_assert_eq!(trained.update().rows(), ITEMS);
            let mut cost = 0.0;
            for ((item, values), mark) in trained.update().tables()[0].iter().zip(trained.origins(0)) {
                let (c, r) = cell(&device, &history, item);
                let error = r - inner(&p, table.row(item));
                cost += c * error * error;
                prop_assert_eq!(*mark == RowOrigin::Consumed, r == 1.0);
                for (found, p) in values.iter().zip(&p) {
                    prop_assert!((f64::from(*found) - c * error * p).abs() < 1e-3, "{found} {}", c * error * p);
                }
            }
            let cost = cost / (1.0 + alpha);
            prop_assert_eq!(stats.samples, history.len() as u64);
            prop_assert!((stats.loss - cost).abs() < 1e-3 && cost <= history.len() as f64 + 1e-3);
        }
    }

    #[test]
    fn of_decoys_it_shows_nothing_which_items_stay_at_home() {
        let shared = Server { factors: FACTORS, init_deviation: 0.8 }.init(6, &mut Rng::new(1)).unwrap();
        let device = client(2.0, 1.0, FcfNegatives::Decoys);
        let (mut private, mut trained) = ([0.0; FACTORS], Trained::new(&shared.layout()));
        let mut policy = Policy::new(0.0).unwrap();
        policy.hide(5);
        let (prepared, rng) = (device.prepare(&shared), &mut Rng::new(1));
        let input = TrainInput {
            shared: &shared,
            prepared: &prepared,
            private: &mut private,
            history: (&[1, 4]).into(),
            hidden: policy.hidden(),
        };
        device.train(input, &mut device.scratch(6), rng, &mut trained).unwrap();
        let terms = RoundTerms::freeze(TermsDraft::default()).unwrap();
        let left =
            trained.disclose(&policy, &terms, 0, &mut Ledger::totals_only(), DisclosureSeeds::once(rng)).unwrap();
        assert_eq!(left.update().rows(), 6);
        for (item, row) in left.update().tables()[0].iter() {
            let error = -math::dot(&private, shared.tables()[0].row(item));
            assert!(row.iter().zip(private).all(|(found, p)| (found - error * p).abs() < 1e-6), "{item}");
        }
    }

    #[test]
    fn who_has_nothing_changes_nothing() {
        let shared = Server { factors: FACTORS, init_deviation: 0.1 }.init(3, &mut Rng::new(1)).unwrap();
        let device = client(1.0, 1.0, FcfNegatives::Decoys);
        let (mut private, mut trained) = ([0.5; FACTORS], Trained::new(&shared.layout()));
        let input = TrainInput {
            shared: &shared,
            prepared: &device.prepare(&shared),
            private: &mut private,
            history: (&[]).into(),
            hidden: &[],
        };
        let stats = device.train(input, &mut device.scratch(3), &mut Rng::new(1), &mut trained).unwrap();
        assert_eq!((stats, trained.update().rows(), private), (TrainStats::default(), 0, [0.5; FACTORS]));
    }
}
