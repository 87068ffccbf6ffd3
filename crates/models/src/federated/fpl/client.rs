//! The client's half: triples of the user's history, and the gradient.
//!
//! Because parameters stay as they are within a round, the sums of the equations come apart by row: with S the sum of
//! the row's s (positive where the item was i, negative where it was j) and n how often it came,
//! ```text
//! dq = S p - n l q        db = S - n l b        dp = sum over rows of S q - T l_u p
//! ```
//! so that a triple costs two scores to compare, and only rows, which are fewer, cost work for each factor.

use super::scratch::{BLOCK, Drawing, Scratch, loss};
use super::{Steps, dp_sgd, simd};
use crate::explanation::by_vectors;
use crate::federated::dp_sgd::{Gradient, Sums};
use crate::federated::negatives::{Negatives, Pool};
use crate::loss::Loss;
use crate::{ClientModel, DpSgd, Reason, ReasonKind, TrainInput, TrainResult, TrainStats};
use sottovoce_core::{History, Rng, SimdKernel, math, simd_dispatch};
use sottovoce_protocol::{Parameters, RowOrigin, Table, Trained};

/// Strengths of L2 regularisation, times the learning rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Regularisation {
    /// Of the user's vector (l_u).
    pub user: f32,
    /// Of the row of an item the user has (l_i).
    pub positive: f32,
    /// Of the row of an item the user does not have (l_j).
    pub negative: f32,
    /// Whether that of rows is of their biases too.
    pub biases: bool,
    /// Items that people have on average, where the strengths are those for 100 items.
    pub mean_history: Option<f32>,
}

/// Items of the history that strengths are given for.
const REFERENCE_HISTORY: f32 = 100.0;

impl Regularisation {
    /// The strengths where this fraction of what people have is trained on: the fewer items there are to learn a vector
    /// from, the stronger; the user's not above `most`.
    fn for_fraction(self, fraction: f64, most: f32) -> Self {
        let Some(mean) = self.mean_history else { return self };
        let times = (REFERENCE_HISTORY / (mean * fraction as f32).max(1.0)).sqrt();
        let Self { user, positive, negative, .. } = self;
        Self { user: (times * user).min(most), positive: times * positive, negative: times * negative, ..self }
    }

    /// Strength for the bias of a row with this one.
    pub(super) fn of_bias(self, row: f32) -> f32 {
        if self.biases { row } else { 0.0 }
    }
}

/// What runs on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Client {
    /// Length of the user's vector.
    pub factors: usize,
    /// Triples drawn in a round (T).
    pub triples: usize,
    /// Learning rate of the user's vector (alpha).
    pub learning_rate: f32,
    /// L2 regularisation.
    pub regularisation: Regularisation,
    /// Standard deviation of the user's first random vector.
    pub init_deviation: f32,
    /// Where negatives are drawn from.
    pub negatives: Negatives,
    /// When the user's vector moves.
    pub steps: Steps,
}

/// One device's work in a round; `F` is the number of factors, or 0 for one without a loop of its own.
struct Training<'a, const F: usize> {
    device: &'a Client,
    regularisation: Regularisation,
    table: &'a Table,
    user: &'a mut [f32],
    drawing: Drawing<'a>,
    hidden: &'a [u32],
    scratch: &'a mut Scratch,
    rng: &'a mut Rng,
    into: &'a mut Trained,
}

impl<const F: usize> SimdKernel for Training<'_, F> {
    type Output = TrainResult;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let Training { device, regularisation, table, user, drawing, hidden, scratch, rng, into } = self;
        let user = &mut user[..if F == 0 { device.factors } else { F }];
        if into.is_discarded() && device.steps == Steps::Together {
            let loss = device.train_alone::<F>(regularisation, table, user, &drawing, scratch, rng);
            return Ok(TrainStats { samples: device.triples as u64, loss });
        }
        scratch.draw(&drawing, device.triples, rng);
        // Decoys are what would have left of anybody at the round's start; with them, steps are taken together.
        if device.steps == Steps::Sequential && scratch.decoys.is_empty() && hidden.is_empty() {
            let rows = into.push_rows(0, &scratch.items, &scratch.marks)?;
            let loss = device.train_in_sequence(regularisation, (table, user), scratch, rows);
            into.set_samples(device.triples as u64);
            return Ok(TrainStats { samples: device.triples as u64, loss });
        }
        // Rows are copied when they are scored and become their own gradients: the table is gone through once.
        let rows = into.push_rows(0, &scratch.items, &scratch.marks)?;
        scratch.score(user, table.values(), rows);
        let loss = scratch.compare();
        // Hidden items need decoys only where negatives are drawn from the whole catalog.
        let hidden = if drawing.negatives == Negatives::Decoys { hidden } else { &[] };
        // Something was drawn that the owner has, or may have been that they hide.
        if !(scratch.decoys.is_empty() && hidden.is_empty()) {
            scratch.make_decoys(user, table.values(), regularisation);
            device.step::<F>(regularisation, user, scratch, rows);
            scratch.settle_decoys(hidden, user.len() + 1, rows);
            into.push_decoys(0, &scratch.decoy_items)?.copy_from_slice(&scratch.decoy_rows);
        } else {
            device.step::<F>(regularisation, user, scratch, rows);
        }
        into.set_samples(device.triples as u64);
        Ok(TrainStats { samples: device.triples as u64, loss })
    }
}

impl Client {
    /// Turns `values`, the rows of all touched items, into their gradients, and trains the user's vector.
    #[inline(always)]
    fn step<const F: usize>(
        &self,
        regularisation: Regularisation,
        user: &mut [f32],
        scratch: &mut Scratch,
        values: &mut [f32],
    ) {
        // By row origin. Looked up, not branched on: origins are unpredictable.
        let mut by_origin = [regularisation.negative; 3];
        by_origin[RowOrigin::Consumed as usize] = regularisation.positive;
        let of_biases = f32::from(u8::from(regularisation.biases));
        // dp without the regularisation: in registers where its length is known.
        let mut near = [0.0; F];
        let change = if F == 0 { &mut scratch.change[..user.len()] } else { &mut near[..] };
        change.fill(0.0);
        let (rows, touched) = (&scratch.rows[..], scratch.items.iter().zip(&scratch.marks));
        for (row, (&item, &mark)) in values.chunks_exact_mut(user.len() + 1).zip(touched) {
            let [_, sum, times, _] = rows[item as usize].0.to_array();
            let back = times * by_origin[mark as usize];
            let (factors, bias) = row.split_at_mut(user.len());
            simd::gradient(user, [sum, back], factors, change);
            bias[0] = sum - of_biases * back * bias[0];
        }
        self.move_user(regularisation.user, user, change);
    }

    /// Triple after triple, each with the user's vector that the last one left; rows stay as they were distributed.
    fn train_in_sequence(
        &self,
        regularisation: Regularisation,
        (table, user): (&Table, &mut [f32]),
        scratch: &Scratch,
        values: &mut [f32],
    ) -> f64 {
        let (width, mut loss) = (user.len() + 1, Loss::new());
        for &[positive, negative] in &scratch.triples {
            let [q_i, q_j] = [positive, negative].map(|item| simd::row(table.values(), width, item));
            let wrong = math::sigmoid(simd::score(user, q_j) - simd::score(user, q_i));
            loss.add(1.0 - wrong);
            let rows =
                [(positive, q_i, wrong, regularisation.positive), (negative, q_j, -wrong, regularisation.negative)];
            for (item, q, wrong, back) in rows {
                let Ok(at) = scratch.items.binary_search(&item) else { continue };
                let (factors, bias) = values[at * width..][..width].split_at_mut(user.len());
                for ((sum, p), q) in factors.iter_mut().zip(&*user).zip(q) {
                    *sum += wrong * p - back * q;
                }
                bias[0] += wrong - regularisation.of_bias(back) * q[user.len()];
            }
            for ((p, q_i), q_j) in user.iter_mut().zip(q_i).zip(q_j) {
                *p += self.learning_rate * (wrong * (q_i - q_j) - regularisation.user * *p);
            }
        }
        loss.sum()
    }

    /// The same draws and steps for the user's vector only, to within rounding: where no gradient of a row is written,
    /// nobody needs to know which rows there are, and triples are gone through as they were drawn.
    #[inline(always)]
    fn train_alone<const F: usize>(
        &self,
        regularisation: Regularisation,
        table: &Table,
        user: &mut [f32],
        drawing: &Drawing<'_>,
        scratch: &mut Scratch,
        rng: &mut Rng,
    ) -> f64 {
        scratch.draw_unlisted(drawing, self.triples, rng);
        let mut near = [0.0; F];
        let change = if F == 0 { &mut scratch.change[..user.len()] } else { &mut near[..] };
        change.fill(0.0);
        let Scratch { triples, wrong, apart, .. } = scratch;
        let width = user.len();
        for (triples, wrong) in triples.chunks(BLOCK).zip(wrong.chunks_exact_mut(BLOCK)) {
            simd::compare(user, table.values(), triples, &mut apart[..BLOCK * width], wrong);
            for wrong in &mut *wrong {
                *wrong = math::sigmoid(*wrong);
            }
            simd::subtract_scaled(&wrong[..triples.len()], &apart[..BLOCK * width], change);
        }
        let loss = loss(&wrong[..triples.len()]);
        self.move_user(regularisation.user, user, change);
        loss
    }

    /// p += alpha dp, which `change` is without the regularisation.
    #[inline(always)]
    fn move_user(&self, regularisation: f32, user: &mut [f32], change: &[f32]) {
        let back = self.triples as f32 * regularisation;
        for (p, change) in user.iter_mut().zip(change) {
            *p += self.learning_rate * (*change - back * *p);
        }
    }
}

/// Runs an expression with the constant `$f` equal to the number of factors where loops of that length are compiled,
/// and 0 elsewhere.
macro_rules! with_factors {
    ($factors:expr, $f:ident => $body:expr) => {
        with_factors!(@arms $factors, $f, $body, 8 10 16 20 32 50 64)
    };
    (@arms $factors:expr, $f:ident, $body:expr, $($width:literal)*) => {
        match $factors {
            $($width => { const $f: usize = $width; $body })*
            _ => { const $f: usize = 0; $body }
        }
    };
}

impl ClientModel for Client {
    type Scratch = Scratch;
    type Prepared = ();

    fn prepare(&self, _: &Parameters) {}

    fn scratch(&self, items: usize) -> Scratch {
        Scratch::new(items, self.triples, self.factors)
    }

    /// The user's vector and, where negatives come from a pool, the number that determines the pool.
    fn private_values(&self) -> usize {
        self.factors + usize::from(self.negatives == Negatives::Pool)
    }

    fn init_private(&self, private: &mut [f32], rng: &mut Rng) {
        let (vector, pool) = private.split_at_mut(self.factors);
        rng.fill_normal(self.init_deviation, vector);
        pool.iter_mut().for_each(|number| *number = rng.unit() as f32);
    }

    fn train(&self, input: TrainInput<'_>, scratch: &mut Scratch, rng: &mut Rng, into: &mut Trained) -> TrainResult {
        let TrainInput { shared, private: user, history: History { items: history, .. }, hidden, .. } = input;
        let Some(table) = shared.tables().first() else { return Ok(TrainStats::default()) };
        let items = table.shape().rows;
        // A user with no items, or with all, has no triples.
        if history.is_empty() || history.len() >= items as usize {
            return Ok(TrainStats::default());
        }
        // Stronger would take the user's vector past 0.
        let most = 1.0 / (self.learning_rate * self.triples as f32);
        let regularisation = self.regularisation.for_fraction(into.trained_fraction(), most);
        let pool = user.get(self.factors).map(|&number| Pool::of(number));
        // A user who discloses everything needs no decoys.
        let negatives = match self.negatives {
            Negatives::Decoys if into.discloses_everything() => Negatives::Papers,
            as_asked => as_asked,
        };
        let drawing = Drawing { history, items, negatives, pool };
        with_factors!(self.factors, F => {
            simd_dispatch(Training::<F> { device: self, regularisation, table, user, drawing, hidden, scratch, rng, into })
        })
    }

    fn supports_dp_sgd(&self) -> bool {
        true
    }

    /// Learns from each interaction by its chance, against an item of the whole catalog. Samples are all interactions
    /// that there are, taken or not.
    fn train_dp_sgd(
        &self,
        input: TrainInput<'_>,
        dp_sgd: &mut DpSgd<'_>,
        rng: &mut Rng,
        into: &mut Trained,
    ) -> TrainResult {
        let history = input.visible();
        let TrainInput { shared, private, hidden, .. } = input;
        let Some(table) = shared.tables().first().filter(|_| !history.is_empty()) else {
            return Ok(TrainStats::default());
        };
        let triples = dp_sgd::draw(&history, table.shape().rows, dp_sgd.probability, rng);
        let user = &mut private[..self.factors];
        // What is withheld is drawn with probability 0, and the noise must not depend on how much that is.
        let regularisation = self.regularisation.for_fraction(1.0, f32::MAX);
        let items = triples.iter().flatten().copied().collect();
        let mut sums = Sums::new(items, self.factors + 1, (self.factors, 0));
        let (mut gradient, mut loss) = (Gradient::default(), Loss::new());
        for &triple in &triples {
            loss.add(self.gradient(regularisation, (table, user), triple, &mut gradient) as f32);
            sums.add(&gradient, dp_sgd);
        }
        sums.finish(dp_sgd, (user, self.learning_rate), (&history, hidden), loss, into)
    }

    fn score(&self, shared: &Parameters, private: &[f32], _: History<'_>, into: &mut [f32]) {
        let table = shared.tables().first();
        assert_eq!(into.len(), table.map_or(0, |table| table.shape().rows as usize), "one score an item");
        let user = &private[..self.factors];
        let rows = table.into_iter().flat_map(|table| table.values().chunks_exact(user.len() + 1));
        for (into, row) in into.iter_mut().zip(rows) {
            *into = simd::score(user, row);
        }
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Vectors
    }

    fn explain(&self, shared: &Parameters, private: &[f32], history: History<'_>, items: &[u32]) -> Vec<Vec<Reason>> {
        let [table] = shared.tables() else { return vec![Vec::new(); items.len()] };
        let row = |item: usize| {
            let (factors, bias) = table.row(item).split_at(self.factors);
            (factors, bias[0])
        };
        by_vectors(&private[..self.factors], table.shape().rows as usize, row, &history, items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerModel;
    use crate::federated::fpl::Server;
    use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, proptest};
    use sottovoce_protocol::{DisclosureSeeds, Ledger, Policy, RoundTerms, TermsDraft};

    const ITEMS: usize = 30;
    const FACTORS: usize = 5;

    fn device(triples: usize) -> Client {
        let regularisation =
            Regularisation { user: 0.3, positive: 0.2, negative: 0.1, biases: true, mean_history: None };
        let negatives = Negatives::Papers;
        let (steps, init_deviation) = (Steps::Together, 0.5);
        Client { factors: FACTORS, triples, learning_rate: 0.07, regularisation, init_deviation, negatives, steps }
    }

    /// The sums of one round as the paper writes them, triple after triple, in double precision: dQ with db in the last
    /// column, and dp.
    fn literally(device: &Client, table: &Table, p: &[f32], triples: &[[u32; 2]]) -> (Vec<[f64; 6]>, [f64; 5]) {
        let wide = |value: f32| f64::from(value);
        let (l_u, l_i, l_j) = (
            wide(device.regularisation.user),
            wide(device.regularisation.positive),
            wide(device.regularisation.negative),
        );
        let mut rows = vec![[0.0; FACTORS + 1]; ITEMS];
        let mut dp = [0.0; FACTORS];
        for &[i, j] in triples {
            let (q_i, q_j) = (table.row(i as usize), table.row(j as usize));
            let x = |q: &[f32]| wide(q[FACTORS]) + (0..FACTORS).map(|f| wide(p[f]) * wide(q[f])).sum::<f64>();
            let s = 1.0 / (1.0 + (x(q_i) - x(q_j)).exp());
            for f in 0..FACTORS {
                dp[f] += s * (wide(q_i[f]) - wide(q_j[f])) - l_u * wide(p[f]);
                rows[i as usize][f] += s * wide(p[f]) - l_i * wide(q_i[f]);
                rows[j as usize][f] += -s * wide(p[f]) - l_j * wide(q_j[f]);
            }
            rows[i as usize][FACTORS] += s - l_i * wide(q_i[FACTORS]);
            rows[j as usize][FACTORS] += -s - l_j * wide(q_j[FACTORS]);
        }
        (rows, dp)
    }

    /// The rows if they were negatives and nothing else.
    fn negatives_alone(device: &Client, table: &Table, p: &[f32], triples: &[[u32; 2]]) -> Vec<[f64; 6]> {
        let (wide, l_j) = (|value: f32| f64::from(value), f64::from(device.regularisation.negative));
        let mut rows = vec![[0.0; FACTORS + 1]; ITEMS];
        for &[i, j] in triples {
            let (q_i, q_j) = (table.row(i as usize), table.row(j as usize));
            let x = |q: &[f32]| wide(q[FACTORS]) + (0..FACTORS).map(|f| wide(p[f]) * wide(q[f])).sum::<f64>();
            let s = 1.0 / (1.0 + (x(q_i) - x(q_j)).exp());
            for f in 0..FACTORS {
                rows[j as usize][f] += -s * wide(p[f]) - l_j * wide(q_j[f]);
            }
            rows[j as usize][FACTORS] += -s - l_j * wide(q_j[FACTORS]);
        }
        rows
    }

    fn history() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::btree_set(0..ITEMS as u32, 1..ITEMS).prop_map(|items| items.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_round_follows_the_paper(history in history(), triples in 1usize..60, seed in 0u64..10_000) {
            let mut rng = Rng::new(seed);
            let shared = Server { factors: FACTORS, init_deviation: 0.8 };
            let mut parameters = shared.init(ITEMS, &mut rng).unwrap();
            for item in 0..ITEMS {
                parameters.tables_mut()[0].row_mut(item)[FACTORS] = rng.normal() as f32;
            }
            let device = device(triples);
            let mut p = [0.0; FACTORS];
            device.init_private(&mut p, &mut rng);
            let before = p;
            let mut scratch = device.scratch(ITEMS);
            let mut trained = Trained::new(&parameters.layout());
            let input = TrainInput { shared: &parameters, prepared: &(), private: &mut p, history: (&history).into(), hidden: &[] };
            let stats = device.train(input, &mut scratch, &mut rng, &mut trained).unwrap();

            prop_assert_eq!(stats.samples, triples as u64);
            prop_assert_eq!(scratch.triples.len(), triples);
            for [i, j] in &scratch.triples {
                prop_assert!(history.contains(i) && !history.contains(j));
            }
            let (rows, dp) = literally(&device, &parameters.tables()[0], &before, &scratch.triples);
            for f in 0..FACTORS {
                let expected = f64::from(before[f]) + f64::from(device.learning_rate) * dp[f];
                prop_assert!((f64::from(p[f]) - expected).abs() < 1e-4, "p {f}: {} {expected}", p[f]);
            }
            let mut sent = vec![[0.0f32; FACTORS + 1]; ITEMS];
            for ((item, values), mark) in trained.update().tables()[0].iter().zip(trained.origins(0)) {
                sent[item].copy_from_slice(values);
                prop_assert_eq!(*mark == RowOrigin::Consumed, history.contains(&(item as u32)));
            }
            for (item, (found, expected)) in sent.iter().zip(&rows).enumerate() {
                for (found, expected) in found.iter().zip(expected) {
                    prop_assert!((f64::from(*found) - expected).abs() < 1e-4, "item {item}: {found} {expected}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn decoys_do_not_depend_on_the_history(
            one in history(), other in history(), hidden in history(), few in prop::bool::ANY, seed in 0u64..10_000,
        ) {
            let length = one.len().min(other.len());
            let device = Client { negatives: Negatives::Decoys, ..device(if few { 4 } else { 50 }) };
            let shared = Server { factors: FACTORS, init_deviation: 0.8 }.init(ITEMS, &mut Rng::new(1)).unwrap();
            let mut policy = Policy::new(0.0).unwrap();
            hidden.iter().for_each(|&item| policy.hide(item));
            let leaves = |history: &[u32]| {
                let mut rng = Rng::new(seed);
                let (mut p, mut scratch) = ([0.3; FACTORS], device.scratch(ITEMS));
                let mut trained = Trained::new(&shared.layout());
                let input = TrainInput { shared: &shared, prepared: &(), private: &mut p, history: history.into(), hidden: policy.hidden() };
                device.train(input, &mut scratch, &mut rng, &mut trained).unwrap();
                let terms = RoundTerms::freeze(TermsDraft::default()).unwrap();
                let ledger = &mut Ledger::totals_only();
                let left = trained.disclose(&policy, &terms, 0, ledger, DisclosureSeeds::once(&mut rng)).unwrap();
                let rows: Vec<(usize, Vec<f32>)> =
                    left.update().tables()[0].iter().map(|(row, values)| (row, values.to_vec())).collect();
                let mut open = scratch.triples.clone();
                scratch.decoys.iter().for_each(|decoy| open[decoy.triple as usize][1] = decoy.item);
                (rows, open)
            };
            let (rows, open) = leaves(&one[..length]);
            let (others, _) = leaves(&other[..length]);
            let indices = |rows: &[(usize, Vec<f32>)]| rows.iter().map(|(row, _)| *row).collect::<Vec<_>>();
            prop_assert_eq!(indices(&rows), indices(&others));
            // What leaves follows from the negatives alone.
            let alone = negatives_alone(&device, &shared.tables()[0], &[0.3; FACTORS], &open);
            for (row, values) in &rows {
                for (found, expected) in values.iter().zip(&alone[*row]) {
                    prop_assert!((f64::from(*found) - expected).abs() < 1e-4, "{row}: {found} {expected}");
                }
            }
        }

        #[test]
        fn a_pool_is_the_same_in_all_rounds(history in history(), seed in 0u64..10_000) {
            let device = Client { negatives: Negatives::Pool, ..device(40) };
            let shared = Server { factors: FACTORS, init_deviation: 0.8 }.init(ITEMS, &mut Rng::new(1)).unwrap();
            let mut rng = Rng::new(seed);
            let mut private = vec![0.0; device.private_values()];
            device.init_private(&mut private, &mut rng);
            let pool = Pool::of(private[FACTORS]);
            let any = (0..ITEMS as u32).any(|item| pool.has(item) && !history.contains(&item));
            for _ in 0..3 {
                let (mut scratch, mut trained) = (device.scratch(ITEMS), Trained::new(&shared.layout()));
                let input =
                    TrainInput { shared: &shared, prepared: &(), private: &mut private, history: (&history).into(), hidden: &[] };
                device.train(input, &mut scratch, &mut rng, &mut trained).unwrap();
                for [i, j] in &scratch.triples {
                    prop_assert!(history.contains(i) && !history.contains(j) && (pool.has(*j) || !any));
                }
            }
        }
    }

    #[test]
    fn sequential_steps_move_the_user_after_every_triple() {
        let mut rng = Rng::new(3);
        let shared = Server { factors: FACTORS, init_deviation: 0.8 }.init(ITEMS, &mut rng).unwrap();
        let device = Client { steps: Steps::Sequential, ..device(9) };
        let (mut p, mut scratch, history) = ([0.4f32; FACTORS], device.scratch(ITEMS), [2, 3, 11, 29]);
        let mut trained = Trained::new(&shared.layout());
        let input =
            TrainInput { shared: &shared, prepared: &(), private: &mut p, history: (&history[..]).into(), hidden: &[] };
        device.train(input, &mut scratch, &mut rng, &mut trained).unwrap();
        // The round of one triple, nine times, with rows as they were.
        let (one, mut expected, mut rows) = (self::device(1), [0.4f32; FACTORS], vec![[0.0; FACTORS + 1]; ITEMS]);
        for triple in &scratch.triples {
            let (of_triple, dp) = literally(&one, &shared.tables()[0], &expected, std::slice::from_ref(triple));
            expected.iter_mut().zip(dp).for_each(|(p, dp)| *p += device.learning_rate * dp as f32);
            rows.iter_mut().zip(of_triple).for_each(|(row, add)| row.iter_mut().zip(add).for_each(|(v, a)| *v += a));
        }
        for (p, expected) in p.iter().zip(expected) {
            assert!((p - expected).abs() < 1e-5, "{p} {expected}");
        }
        for (item, values) in trained.update().tables()[0].iter() {
            for (found, expected) in values.iter().zip(rows[item]) {
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{item}: {found} {expected}");
            }
        }
    }

    #[test]
    fn the_private_vector_trained_alone_is_the_same_to_within_rounding() {
        let shared = Server { factors: FACTORS, init_deviation: 0.8 }.init(ITEMS, &mut Rng::new(3)).unwrap();
        for triples in [3, 40, 133] {
            let device = device(triples);
            let of = |discarded: bool| {
                let (mut p, mut trained) = ([0.4f32; FACTORS], Trained::new(&shared.layout()));
                trained.expect_policy(&Policy::new(1.0).unwrap());
                if discarded {
                    trained.expect_no_disclosure();
                }
                let history = (&[2, 3, 11, 29][..]).into();
                let input = TrainInput { shared: &shared, prepared: &(), private: &mut p, history, hidden: &[] };
                let stats = device.train(input, &mut device.scratch(ITEMS), &mut Rng::new(7), &mut trained).unwrap();
                (p, stats, trained.update().rows())
            };
            let (of_both, alone) = (of(false), of(true));
            let near = |a: f32, b: f32| (a - b).abs() < 1e-5;
            assert!(of_both.0.iter().zip(alone.0).all(|(&a, b)| near(a, b)), "{of_both:?} {alone:?}");
            assert_eq!(of_both.1.samples, alone.1.samples);
            assert!((of_both.1.loss - alone.1.loss).abs() < 1e-4);
            assert!(of_both.2 > 0 && alone.2 == 0);
        }
    }

    #[test]
    fn regularisation_is_stronger_where_there_is_less_to_learn_from() {
        let of = |mean_history| Regularisation { user: 0.5, positive: 1.0, negative: 1.5, biases: false, mean_history };
        assert_eq!(of(None).for_fraction(0.1, 9.0), of(None));
        assert_eq!(of(Some(100.0)).for_fraction(1.0, 9.0).user, 0.5);
        let sparse = of(Some(25.0)).for_fraction(1.0, 9.0);
        assert_eq!((sparse.user, sparse.positive, sparse.negative), (1.0, 2.0, 3.0));
        assert_eq!(of(Some(100.0)).for_fraction(0.25, 9.0), Regularisation { mean_history: Some(100.0), ..sparse });
        // Never as if there were less than one item.
        assert_eq!(of(Some(2.0)).for_fraction(0.0, 9.0).user, 5.0);
        assert_eq!(of(Some(2.0)).for_fraction(0.0, 1.5).user, 1.5);
    }

    #[test]
    fn users_without_triples_change_nothing() {
        let shared = Server { factors: FACTORS, init_deviation: 0.1 }.init(3, &mut Rng::new(1)).unwrap();
        let device = device(4);
        for history in [&[][..], &[0, 1, 2]] {
            let mut p = [0.5; FACTORS];
            let mut trained = Trained::new(&shared.layout());
            let input =
                TrainInput { shared: &shared, prepared: &(), private: &mut p, history: history.into(), hidden: &[] };
            let stats = device.train(input, &mut device.scratch(3), &mut Rng::new(1), &mut trained).unwrap();
            assert_eq!((stats, trained.update().rows(), p), (TrainStats::default(), 0, [0.5; FACTORS]));
        }
    }
}
