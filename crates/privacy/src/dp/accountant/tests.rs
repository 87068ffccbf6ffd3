use super::*;
use proptest::prelude::*;

fn after(round: Round, count: u64) -> Accountant {
    let mut accountant = Accountant::default();
    accountant.record(round, count).unwrap();
    accountant
}

fn poisson(rate: f64, multiplier: f64) -> Round {
    Round::Poisson { rate, multiplier }
}

fn laplace(rate: f64, scale: f64) -> Round {
    Round::Laplace { rate, scale }
}

/// Figures of dp-accounting with its default orders and its privacy loss distributions.
#[test]
fn epsilon_equals_the_reference() {
    for (rate, multiplier, steps, delta, rdp, tight) in
        [(0.01, 1.0, 1000, 1e-5, 2.101367, 1.828244), (1.0, 2.0, 50, 1e-6, 23.703891, 22.424516)]
    {
        let spent = after(poisson(rate, multiplier), steps).epsilon(delta).unwrap();
        assert!((spent.rdp / rdp - 1.0).abs() < 1e-5, "{spent:?}");
        assert!((spent.tight / tight - 1.0).abs() < 2e-3, "{spent:?}");
    }
    let exact = after(poisson(1.0, 2.0), 50).epsilon(1e-6).unwrap().tight;
    assert!((exact - 22.424516).abs() < 1e-6, "without sampling it is exact: {exact}");
}

#[test]
fn composition_is_independent_of_order() {
    let (a, b) = (poisson(0.01, 1.0), poisson(0.02, 1.5));
    let mut one = after(a, 10);
    one.record(b, 5).unwrap();
    one.record(a, 10).unwrap();
    let mut other = after(b, 5);
    other.record(a, 20).unwrap();
    assert_eq!(one.rounds(), 25);
    assert_eq!(one.recorded().count(), 2);
    let (x, y) = (one.epsilon(1e-6).unwrap(), other.epsilon(1e-6).unwrap());
    assert!((x.rdp - y.rdp).abs() < 1e-12 && (x.tight - y.tight).abs() < 1e-9);
    other.record(a, 0).unwrap();
    assert_eq!(other.epsilon(1e-6).unwrap().rdp, y.rdp);
}

#[test]
fn empty_accountant_spends_nothing() {
    let accountant = Accountant::default();
    assert_eq!(accountant.epsilon(1e-5).unwrap(), Spent { rdp: 0.0, tight: 0.0 });
    assert!(accountant.epsilon(0.0).is_err() && accountant.epsilon(1.5).is_err());
}

#[test]
fn cached_answers_depend_on_delta() {
    let accountant = after(poisson(0.1, 2.0), 10);
    let loose = accountant.epsilon(1e-3).unwrap();
    let strict = accountant.epsilon(1e-7).unwrap();
    assert!(strict.tight > loose.tight);
    assert_eq!(accountant.epsilon(1e-3).unwrap(), loose);
    let mut more = accountant.clone();
    more.record(poisson(0.1, 2.0), 10).unwrap();
    assert!(more.epsilon(1e-3).unwrap().tight > loose.tight);
}

#[test]
fn many_kinds_of_rounds_are_merged_conservatively() {
    let mut accountant = Accountant::default();
    for n in 0..100 {
        accountant.record(poisson(0.05 + 1e-5 * f64::from(n), 1.0), 1).unwrap();
    }
    let found = accountant.epsilon(1e-5).unwrap().tight;
    let low = after(poisson(0.05, 1.0), 100).epsilon(1e-5).unwrap().tight;
    let high = after(poisson(0.051, 1.0), 100).epsilon(1e-5).unwrap().tight;
    assert!(low < found && found < 1.01 * high, "{low} {found} {high}");
    assert!(accountant.listed().len() < 20);
}

#[test]
fn fixed_cohorts_use_replace_one_adjacency() {
    let fixed = Round::FixedCohort { cohort: 100, population: 10_000, multiplier: 4.0 };
    let mut accountant = after(fixed, 100);
    let spent = accountant.epsilon(1e-6).unwrap();
    assert_eq!(spent.tight, spent.rdp);
    assert!(spent.rdp > after(poisson(0.01, 4.0), 100).rdp(1e-6).unwrap());
    let problem = accountant.record(poisson(0.01, 4.0), 1).unwrap_err().to_string();
    assert!(problem.contains("replacing one person") && problem.contains("adding or removing"), "{problem}");
    accountant.record(laplace(1.0, 3.0), 1).unwrap();
    // A cohort of everybody: the exact Gaussian with two bounds of sensitivity.
    let all = after(Round::FixedCohort { cohort: 9, population: 9, multiplier: 4.0 }, 3).epsilon(1e-6).unwrap();
    assert!((all.tight - after(poisson(1.0, 2.0), 3).epsilon(1e-6).unwrap().tight).abs() < 1e-9);
}

#[test]
fn laplace_composes_below_the_sum_of_epsilons() {
    let spent = after(laplace(1.0, 2.0), 4).epsilon(1e-9).unwrap();
    assert!(spent.tight <= 2.0 + 1e-3 && spent.tight > 1.9, "{spent:?}");
    let many = after(laplace(1.0, 20.0), 100).epsilon(1e-5).unwrap();
    assert!(many.tight < 0.6 * 5.0, "advanced composition: {many:?}");
}

/// Figures of dp-accounting's privacy loss distributions, at a step of 1e-5.
#[test]
fn sampled_laplace_equals_the_reference() {
    for (rate, scale, rounds, delta, expected) in [
        (0.1, 2.0, 100, 1e-5, 1.892438),
        (0.01, 0.5, 1000, 1e-6, 3.039550),
        (1.0, 20.0, 100, 1e-5, 1.947709),
        (0.5, 3.0, 10, 1e-4, 1.584174),
    ] {
        let spent = after(laplace(rate, scale), rounds).epsilon(delta).unwrap();
        assert!((spent.tight / expected - 1.0).abs() < 5e-3, "{spent:?} instead of {expected}");
        assert!(spent.tight <= spent.rdp && spent.rdp < 1.6 * spent.tight, "{spent:?}");
    }
    let sampled = after(laplace(0.5, 2.0), 3);
    assert!(sampled.clone().record(Round::FixedCohort { cohort: 1, population: 2, multiplier: 1.0 }, 1).is_err());
    assert_eq!(Accountant::from_bytes(&sampled.to_bytes()).unwrap().rdp(1e-5), sampled.rdp(1e-5));
}

#[test]
fn rejects_numbers_out_of_range() {
    for (round, names) in [
        (poisson(0.0, 1.0), "sampling rate is 0"),
        (poisson(1.1, 1.0), "sampling rate is 1.1"),
        (poisson(0.1, 0.0), "noise multiplier is 0"),
        (poisson(0.1, f64::NAN), "noise multiplier is NaN"),
        (Round::FixedCohort { cohort: 5, population: 4, multiplier: 1.0 }, "the cohort is 5"),
        (laplace(0.0, 1.0), "sampling rate is 0"),
        (laplace(1.0, -1.0), "scale of Laplace noise is -1"),
    ] {
        let problem = Accountant::default().record(round, 1).unwrap_err().to_string();
        assert!(problem.contains(names), "{problem}");
    }
    let mut many = after(poisson(1.0, 1.0), 1 << 40);
    assert!(many.record(poisson(1.0, 1.0), u64::MAX).unwrap_err().to_string().contains("number of rounds"));
    assert!(Budget::new(0.0, 1e-5).is_err() && Budget::new(1.0, 0.0).is_err());
}

#[test]
fn budget_is_never_exceeded() {
    let budget = Budget::new(2.5, 1e-5).unwrap();
    let round = poisson(0.05, 1.0);
    let mut accountant = Accountant::default();
    let refusal = loop {
        match accountant.admit(round, &budget) {
            Ok(()) => assert!(accountant.rounds() < 1000),
            Err(refusal) => break refusal,
        }
    };
    let spent = accountant.epsilon(1e-5).unwrap();
    assert!(spent.tight <= 2.5 && spent.rdp > 2.5, "the tight figure lets more rounds in: {spent:?}");
    let next = after(round, accountant.rounds() + 1).epsilon(1e-5).unwrap();
    assert!(next.tight > 2.5);
    assert_eq!(refusal, DpError::OverBudget(spent, next.tight, budget));
    assert!(refusal.to_string().contains("past the budget of 2.5 at delta 1e-5"), "{refusal}");
    let rounds = accountant.rounds();
    assert!(accountant.admit(round, &budget).is_err());
    assert_eq!(accountant.rounds(), rounds);
}

#[test]
fn noise_for_meets_the_budget() {
    let budget = Budget::new(2.0, 1e-5).unwrap();
    let multiplier = noise_for(&budget, poisson(0.02, 1.0), 300).unwrap();
    let spend = |m: f64| after(poisson(0.02, m), 300).epsilon(1e-5).unwrap().tight;
    assert!(spend(multiplier) <= 2.0 && spend(multiplier * 0.995) > 2.0, "{multiplier}");
    assert!(noise_for(&Budget::new(1e-5, 1e-12).unwrap(), poisson(1.0, 1.0), 1_000_000).is_err());
    assert!(noise_for(&budget, poisson(2.0, 1.0), 1).is_err());
    let scale = noise_for(&budget, laplace(0.02, 1.0), 300).unwrap();
    let spend = |b: f64| after(laplace(0.02, b), 300).epsilon(1e-5).unwrap().tight;
    assert!(spend(scale) <= 2.0 && spend(scale * 0.995) > 2.0, "{scale}");
}

#[test]
fn state_round_trips_and_corruption_is_rejected() {
    let mut accountant = after(poisson(0.01, 1.0), 7);
    accountant.record(laplace(1.0, 3.0), 2).unwrap();
    let bytes = accountant.to_bytes();
    let back = Accountant::from_bytes(&bytes).unwrap();
    assert_eq!(back.recorded().collect::<Vec<_>>(), accountant.recorded().collect::<Vec<_>>());
    assert_eq!(back.epsilon(1e-5).unwrap(), accountant.epsilon(1e-5).unwrap());
    for cut in 0..bytes.len() {
        assert!(Accountant::from_bytes(&bytes[..cut]).is_err());
    }
    for place in 0..bytes.len() {
        let mut broken = bytes.clone();
        broken[place] ^= 1;
        assert!(matches!(Accountant::from_bytes(&broken), Err(DpError::Stored(..))), "byte {place}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn epsilon_is_monotone(
        rate in 0.005..0.5f64, multiplier in 0.6..4.0f64, count in 1u64..300, delta in 1e-7..1e-3f64,
    ) {
        let spend = |rate, multiplier, count| after(poisson(rate, multiplier), count).epsilon(delta).unwrap();
        let base = spend(rate, multiplier, count);
        prop_assert!(base.tight <= base.rdp);
        for more in [
            spend(rate * 1.3, multiplier, count),
            spend(rate, multiplier / 1.2, count),
            spend(rate, multiplier, count + 1 + count / 3),
        ] {
            prop_assert!(more.rdp >= base.rdp && more.tight >= base.tight * 0.999, "{base:?} {more:?}");
        }
    }

    #[test]
    fn admitted_rounds_stay_within_the_budget(
        rounds in prop::collection::vec((0.01..1.0f64, 0.6..5.0f64), 1..8), epsilon in 0.2..8.0f64,
    ) {
        let budget = Budget::new(epsilon, 1e-5).unwrap();
        let mut accountant = Accountant::default();
        for (rate, multiplier) in rounds {
            let before = accountant.rounds();
            match accountant.admit(poisson(rate, multiplier), &budget) {
                Ok(()) => prop_assert_eq!(accountant.rounds(), before + 1),
                Err(DpError::OverBudget(_, asked, _)) => prop_assert!(asked > epsilon),
                Err(other) => prop_assert!(false, "{}", other),
            }
            prop_assert!(accountant.epsilon(1e-5).unwrap().tight <= epsilon);
        }
    }
}
