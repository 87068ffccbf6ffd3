//! Steps along the mean of what devices propose.
//!
//! Devices send the change from the shared model w to their own, d_u = w_u - w, so that with weights p_u that sum to 1
//! the mean of the devices' models is w + sum of p_u d_u: **FedAvg** (McMahan, Moore, Ramage, Hampson, Agüera y Arcas,
//! AISTATS 2017) is a step of length 1 along the mean. A device that makes one step of rate 1 on all its samples sends
//! its gradient, times -1: **FedSGD** with eta is then a step of length eta.
//!
//! A mean is stored as a sum and a number, which takes as much memory for any cohort as the running mean
//! `g += (x - g) / (c + 1)`, and agrees with it but for rounding; unlike that, sums of parts of a cohort can be put
//! together.

use super::Strategy;
use crate::{Aggregate, RowSums};
use sottovoce_core::math;
use sottovoce_models::federated::{Mean, MeanOver};
use sottovoce_protocol::Parameters;

/// What the sum of a row's values is multiplied with to get their mean.
pub(super) fn mean_share(over: MeanOver, round: &Aggregate, sums: &RowSums, row: usize) -> f32 {
    match over {
        MeanOver::All => 1.0 / round.updates as f32,
        MeanOver::Senders => 1.0 / sums.weight(row),
    }
}

/// A step along the mean in some tables.
pub(super) fn step_along_mean(
    mean: &Mean,
    shared: &mut Parameters,
    round: &Aggregate,
    is_included: impl Fn(usize) -> bool,
) {
    let tables = shared.tables_mut().iter_mut().zip(round.tables()).enumerate();
    for (_, (table, sums)) in tables.filter(|(index, _)| is_included(*index)) {
        for (row, _, sum) in sums.rows() {
            let step = mean.learning_rate * mean_share(mean.over, round, sums, row);
            math::add_scaled(table.row_mut(row), step, sum);
        }
    }
}

impl Strategy for Mean {
    fn apply(&mut self, shared: &mut Parameters, round: &Aggregate) {
        step_along_mean(self, shared, round, |_| true);
    }

    fn advice(&self) -> String {
        format!("take a smaller learning_rate on the devices, or a server_rate below {}", self.learning_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::shared;
    use super::*;
    use crate::{Aggregation, CriteriaScore, RobustAggregator, Weighting};
    use proptest::prelude::{Just, prop, prop_assert, prop_oneof, proptest};
    use proptest::strategy::Strategy as Generated;
    use sottovoce_protocol::{
        CriterionRequest, Keyed, Ledger, Policy, Reportable, RoundTerms, RowOrigin, Shape, Table,
    };
    use sottovoce_protocol::{DisclosureSeeds, Layout, TermsDraft, Trained};

    /// What a device sends: changed rows, samples, criteria.
    #[derive(Clone, Debug)]
    struct Sent {
        rows: Vec<(u32, [f32; 2])>,
        samples: u64,
        criteria: Vec<f64>,
    }

    /// A round in which these are sent, by parts of two.
    fn round(aggregation: &Aggregation, sent: &[Sent]) -> Aggregate {
        let layout = shared().layout();
        let asked = ["a", "b", "c"].map(|name| CriterionRequest { name: name.into(), purpose: String::new() });
        let terms = TermsDraft { samples: true, criteria: asked.into(), ..TermsDraft::default() };
        let terms = RoundTerms::freeze(terms).unwrap();
        let mut policy = Policy::new(1.0).unwrap();
        policy.criteria = Reportable::All;
        let mut all = Aggregate::with(&layout, aggregation);
        for part in sent.chunks(2) {
            let mut sums = Aggregate::with(&layout, aggregation);
            for sent in part {
                let mut trained = Trained::new(&layout);
                for (row, values) in &sent.rows {
                    trained.push_row(0, *row, RowOrigin::Other).unwrap().copy_from_slice(values);
                }
                trained.set_samples(sent.samples);
                for (index, value) in (0..).zip(&sent.criteria) {
                    trained.report(index, *value).unwrap();
                }
                let mut rng = sottovoce_core::Rng::new(1);
                let ledger = &mut Ledger::totals_only();
                sums.add(
                    trained.disclose(&policy, &terms, 0, ledger, DisclosureSeeds::once(&mut rng)).unwrap().update(),
                );
            }
            all.merge(&mut sums);
        }
        all.finish();
        all.finish();
        all
    }

    fn sent() -> impl Generated<Value = Sent> {
        let rows = prop::collection::btree_map(0u32..4, [-1f32..1.0, -1f32..1.0], 1..4);
        let reported = prop_oneof![1 => 0usize..3, 4 => Just(3usize)];
        (rows, 0u64..20, [0f64..5.0, 0f64..5.0, 0f64..5.0], reported).prop_map(|(rows, samples, criteria, reported)| {
            Sent { rows: rows.into_iter().collect(), samples, criteria: criteria[..reported].to_vec() }
        })
    }

    /// The means of rows over all or over the senders, by the literal definition of weights.
    fn expected(weighting: &Weighting, over: MeanOver, sent: &[Sent]) -> Vec<f64> {
        let reported = |sent: &Sent| match weighting {
            Weighting::Samples => (sent.samples > 0).then(|| vec![sent.samples as f64]),
            Weighting::Criteria { count, .. } => (sent.criteria.len() == 3).then(|| sent.criteria[..*count].to_vec()),
            Weighting::Equal | Weighting::Active => None,
        };
        let weights = weighting.weights(&sent.iter().map(reported).collect::<Vec<_>>());
        let mut means = Vec::new();
        for (row, column) in (0..4).flat_map(|row| [(row, 0), (row, 1)]) {
            let value = |sent: &Sent| sent.rows.iter().find(|(own, _)| *own == row).map(|(_, v)| v[column]);
            let pairs = sent.iter().zip(&weights).filter_map(|(sent, weight)| Some((value(sent)?, *weight)));
            let (sum, weight) = pairs.fold((0.0, 0.0), |(sum, all), (v, w)| (sum + w * f64::from(v), all + w));
            let by = if over == MeanOver::All || weight == 0.0 { sent.len() as f64 } else { weight };
            means.push(sum / by);
        }
        means
    }

    proptest! {
        #[test]
        fn means_are_those_of_the_definition(sent in prop::collection::vec(sent(), 1..7)) {
            let weights: std::sync::Arc<[f64]> = [0.6, 0.4].into();
            let of = |score, count| Weighting::Criteria { score, count };
            let weighings = [
                Weighting::Equal,
                Weighting::Samples,
                of(CriteriaScore::Prioritised, 3),
                of(CriteriaScore::Prioritised, 1),
                of(CriteriaScore::Mean, 2),
                of(CriteriaScore::Weighted(weights.clone()), 2),
                of(CriteriaScore::Ordered(weights), 2),
            ];
            for weighting in weighings {
                // Of fewer criteria than are asked for, all the same whoever reports the first ones is reporting.
                let reporting = |sent: &Sent| match &weighting {
                    Weighting::Criteria { count, .. } if sent.criteria.len() >= *count => {
                        Sent { criteria: [&sent.criteria[..], &[1.0; 3]].concat()[..3].to_vec(), ..sent.clone() }
                    }
                    _ => sent.clone(),
                };
                let sent: Vec<Sent> = sent.iter().map(reporting).collect();
                let aggregation = Aggregation::new(RobustAggregator::None, weighting.clone()).unwrap();
                let aggregate = round(&aggregation, &sent);
                for over in [MeanOver::All, MeanOver::Senders] {
                    let (before, mut after) = (shared(), shared());
                    Mean { learning_rate: 1.0, over }.apply(&mut after, &aggregate);
                    let pairs = after.tables()[0].values().iter().zip(before.tables()[0].values());
                    for ((after, before), mean) in pairs.zip(expected(&weighting, over, &sent)) {
                        let found = f64::from(after - before);
                        prop_assert!((found - mean).abs() < 1e-5, "{weighting:?} {over:?}: {found} {mean}");
                    }
                }
            }
        }

        #[test]
        fn weighted_mean_equals_running_mean(values in prop::collection::vec((-1f32..1.0, 1u64..50), 1..40)) {
            let one = |&(value, samples): &(f32, u64)| {
                Sent { rows: vec![(1, [value, -value])], samples, criteria: Vec::new() }
            };
            let sent: Vec<Sent> = values.iter().map(one).collect();
            let aggregation = Aggregation::new(RobustAggregator::None, Weighting::Samples).unwrap();
            let mut found = Parameters::zeros(&shared().layout());
            Mean { learning_rate: 1.0, over: MeanOver::All }.apply(&mut found, &round(&aggregation, &sent));
            let (mut mean, mut weight) = (0f64, 0f64);
            for (value, samples) in values {
                weight += samples as f64;
                mean += (f64::from(value) - mean) * samples as f64 / weight;
            }
            prop_assert!((f64::from(found.tables()[0].row(1)[0]) - mean).abs() < 1e-5);
        }
    }

    /// Devices with a quadratic loss each, |w - centre|^2 / 2: its gradient is w - centre.
    fn quadratic(start: &Parameters, centres: &[([f32; 2], u64)], rate: f32) -> Vec<Sent> {
        let row = start.tables()[0].row(0);
        let device = |(centre, samples): &([f32; 2], u64)| {
            let change = [0, 1].map(|column| -rate * (row[column] - centre[column]));
            Sent { rows: vec![(0, change)], samples: *samples, criteria: Vec::new() }
        };
        centres.iter().map(device).collect()
    }

    /// FedSGD as it is written: the mean gradient by samples, and a step of eta against it.
    fn fed_sgd(start: &Parameters, centres: &[([f32; 2], u64)], eta: f32) -> Vec<f32> {
        let all: u64 = centres.iter().map(|centre| centre.1).sum();
        let row = start.tables()[0].row(0);
        let gradient = |column: usize| {
            let parts = centres.iter().map(|(centre, n)| (row[column] - centre[column]) * *n as f32);
            parts.sum::<f32>() / all as f32
        };
        [0, 1].map(|column| row[column] - eta * gradient(column)).to_vec()
    }

    #[test]
    fn fedsgd_with_learning_rate_1_equals_fedavg_with_one_local_step() {
        let centres = [([0.5, -1.0], 3), ([2.0, 0.25], 1), ([-0.75, 0.0], 4)];
        let aggregation = Aggregation::new(RobustAggregator::None, Weighting::Samples).unwrap();
        let start = shared();
        for eta in [1.0, 0.3] {
            // FedAvg's own: the mean of the devices' models.
            let mut found = start.clone();
            let aggregate = round(&aggregation, &quadratic(&start, &centres, 1.0));
            Mean { learning_rate: eta, over: MeanOver::All }.apply(&mut found, &aggregate);
            let expected = fed_sgd(&start, &centres, eta);
            for (found, expected) in found.tables()[0].row(0).iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-6, "{found} {expected}");
            }
            if eta == 1.0 {
                let all: u64 = centres.iter().map(|centre| centre.1).sum();
                let mean = |column: usize| -> f32 {
                    centres.iter().map(|(centre, n)| centre[column] * *n as f32 / all as f32).sum()
                };
                assert!((found.tables()[0].row(0)[0] - mean(0)).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn active_aggregation_moves_rows_by_whom_they_matter_to() {
        let one = |values: [f32; 2]| Sent { rows: vec![(1, values)], samples: 1, criteria: Vec::new() };
        // Lengths 5, 0 and 10: the mean is (5 * 3 + 10 * 6) / 15, (5 * 4 - 10 * 8) / 15.
        let sent = [one([3.0, 4.0]), one([0.0, 0.0]), one([6.0, -8.0])];
        let aggregation = Aggregation::new(RobustAggregator::None, Weighting::Active).unwrap();
        for over in [MeanOver::All, MeanOver::Senders] {
            let mut found = Parameters::zeros(&shared().layout());
            Mean { learning_rate: 1.0, over }.apply(&mut found, &round(&aggregation, &sent));
            assert_eq!(found.tables()[0].row(1), [5.0, -4.0]);
        }
        let zeros = [one([0.0, 0.0])];
        let mut found = Parameters::zeros(&shared().layout());
        Mean { learning_rate: 1.0, over: MeanOver::All }.apply(&mut found, &round(&aggregation, &zeros));
        assert_eq!(found.tables()[0].row(1), [0.0, 0.0]);
    }

    #[test]
    fn robust_aggregators_bound_or_exclude_an_outlier() {
        let honest = |value| Sent { rows: vec![(0, [value, 1.0])], samples: 1, criteria: Vec::new() };
        let mut sent: Vec<Sent> = [0.9, 1.0, 1.1, 1.05].map(honest).into();
        sent.insert(2, Sent { rows: vec![(0, [-1e5, 1e5]), (3, [7.0, 7.0])], ..honest(0.0) });
        let mean = |guard| {
            let mut found = Parameters::zeros(&shared().layout());
            Mean { learning_rate: 1.0, over: MeanOver::All }
                .apply(&mut found, &round(&Aggregation::from(guard), &sent));
            (found.tables()[0].row(0)[0], found.tables()[0].row(3)[0])
        };
        assert!(mean(RobustAggregator::None).0 < -1e4);
        let clipped = mean(RobustAggregator::ClipUpdate(1.5)).0;
        assert!((0.5..1.0).contains(&clipped), "{clipped}");
        // One liar in five; the honest one nearest to two others.
        let (krum, lied) = mean(RobustAggregator::Krum(0.2));
        assert!((1.0..1.051).contains(&krum) && lied == 0.0, "{krum} {lied}");
        let (honest, lied) = mean(RobustAggregator::MultiKrum(0.2));
        assert!((honest - 1.0125).abs() < 1e-5 && lied == 0.0, "{honest} {lied}");
    }

    #[test]
    fn dense_tables_are_means_of_models() {
        let shape = Shape::new("weights", 2, 3, Keyed::Dense);
        let layout = Layout::new(vec![shape.clone()]).unwrap();
        let mut aggregate = Aggregate::new(&layout);
        for value in [1.0, 4.0] {
            let mut trained = Trained::new(&layout);
            trained.copy_whole(0, &[value; 6]).unwrap();
            aggregate.add(trained.update());
        }
        aggregate.finish();
        let mut found = Parameters::new(vec![Table::new(shape, vec![0.5; 6]).unwrap()]).unwrap();
        Mean { learning_rate: 1.0, over: MeanOver::All }.apply(&mut found, &aggregate);
        assert_eq!(found.tables()[0].values(), [3.0; 6]);
    }
}
