//! Differential privacy in a federation: a clip that follows the updates, and noise on single interactions.

mod common;

use common::{Given, builder, fitted, people, tensor_values, word};
use sottovoce_federation::Coordinator;
use sottovoce_models::Summary;
use sottovoce_models::settings::Value;
use sottovoce_privacy::dp::accountant::{Accountant, Round};
use sottovoce_privacy::{PrivacyConfig, SECURE_AGGREGATION};
use sottovoce_protocol::{RowOrigin, Trained};

const COHORT: u32 = 200;

fn adaptive(more: &[Given]) -> Coordinator {
    let mut settings = vec![
        ("factors", Value::Integer(2)),
        ("triples", Value::Integer(2)),
        ("cohort", Value::Integer(COHORT.into())),
        ("noise", word("central")),
        ("sampling", word("fixed")),
        ("clip", Value::Real(0.2)),
        ("clip_quantile", Value::Real(0.5)),
    ];
    settings.extend_from_slice(more);
    let mut coordinator = builder(1000, 6, 3).build("fpl", settings).unwrap().coordinator;
    coordinator.ask_among((0..1000).collect());
    coordinator
}

fn clip(coordinator: &mut Coordinator) -> f32 {
    let terms = coordinator.terms(COHORT as usize).unwrap();
    PrivacyConfig::read(&terms.privacy).unwrap().quantization.unwrap().clip.unwrap()
}

/// A round of updates of lengths from 0 to `longest`, evenly.
fn round(coordinator: &mut Coordinator, longest: f32) {
    let (round, mut aggregate) = (coordinator.round(), coordinator.empty_aggregate());
    for device in 0..COHORT {
        let mut update = Trained::new(coordinator.layout());
        let length = longest * (device as f32 + 0.5) / COHORT as f32;
        update.push_row(0, device % 6, RowOrigin::Other).unwrap()[(device % 3) as usize] = length;
        aggregate.add(update.update());
    }
    coordinator.apply(round, &mut aggregate).unwrap();
    coordinator.skip();
}

#[test]
fn the_adaptive_clip_converges_to_the_quantile_and_is_in_the_terms() {
    for quantile in [0.5, 0.8] {
        let mut coordinator = adaptive(&[("clip_quantile", Value::Real(quantile))]);
        assert_eq!(clip(&mut coordinator), 0.2);
        (0..60).for_each(|_| round(&mut coordinator, 4.0));
        let found = clip(&mut coordinator);
        assert!((f64::from(found) - 4.0 * quantile).abs() < 0.5, "{found} at {quantile}");
        assert_eq!(coordinator.privacy_spent().unwrap().clip, Some(found));
        // Updates get shorter as a model learns, and the clip follows.
        (0..60).for_each(|_| round(&mut coordinator, 0.4));
        let found = f64::from(clip(&mut coordinator));
        assert!((found - 0.4 * quantile).abs() < 0.05, "{found} at {quantile}");
    }
}

#[test]
fn the_adaptive_clip_is_paid_for_from_the_privacy_budget() {
    let mut fixed = adaptive(&[("clip_quantile", Value::Real(0.0))]);
    let mut adaptive_clip = adaptive(&[]);
    for coordinator in [&mut fixed, &mut adaptive_clip] {
        (0..5).for_each(|_| round(coordinator, 1.0));
    }
    let (a, b) = (fixed.privacy_spent().unwrap(), adaptive_clip.privacy_spent().unwrap());
    assert_eq!((a.epsilon, a.multiplier), (b.epsilon, b.multiplier));
    let noise = |coordinator: &mut Coordinator| {
        let terms = coordinator.terms(COHORT as usize).unwrap();
        PrivacyConfig::read(&terms.privacy).unwrap().noise.unwrap()
    };
    let (fixed, adapted) = (noise(&mut fixed), noise(&mut adaptive_clip));
    assert_eq!(fixed.count_noise, None);
    let together = adapted.multiplier.powi(-2) + adapted.count_noise.unwrap().powi(-2);
    assert!(adapted.multiplier > fixed.multiplier, "more noise on updates makes up for it");
    assert!((together - fixed.multiplier.powi(-2)).abs() < 1e-12);
}

#[test]
fn a_restart_continues_with_the_adaptive_clip() {
    let mut coordinator = adaptive(&[]);
    (0..7).for_each(|_| round(&mut coordinator, 3.0));
    let mut saved = Vec::new();
    coordinator.save(&mut saved).unwrap();
    let mut restarted = adaptive(&[]);
    restarted.restore(&mut &saved[..]).unwrap();
    assert_eq!(clip(&mut restarted), clip(&mut coordinator));
    for coordinator in [&mut coordinator, &mut restarted] {
        round(coordinator, 3.0);
    }
    assert_eq!(clip(&mut restarted), clip(&mut coordinator));
    assert_eq!(restarted.shared().parameters, coordinator.shared().parameters);
    assert!(adaptive(&[]).restore(&mut &saved[..saved.len() - 1]).is_err());
}

fn train(model: &str, settings: &[Given]) -> Result<(Summary, Vec<f32>), String> {
    let fitted = fitted(model, settings, (&people(80, 40), None), 3);
    fitted.map(|(model, summary)| (summary, tensor_values(&*model))).map_err(|error| error.to_string())
}

fn sgd(more: &[Given]) -> Vec<Given> {
    let common = [
        ("factors", Value::Integer(4)),
        ("cohort", Value::Integer(30)),
        ("epochs", Value::Integer(3)),
        ("noise", word("sgd")),
        ("clip", Value::Real(1.0)),
    ];
    common.into_iter().chain(more.iter().cloned()).collect()
}

#[test]
fn dp_sgd_accounts_for_the_rounds_of_a_device() {
    for (model, rate) in [("fpl", 1.0), ("fpl", 0.25), ("fed-gmf", 0.25)] {
        let (summary, values) = train(model, &sgd(&[("interactions", Value::Real(rate))])).unwrap();
        let spent = summary.privacy.unwrap();
        assert_eq!((spent.hides, spent.placement, spent.clip), ("an interaction", "sgd", Some(1.0)));
        let each = Round::Poisson { rate, multiplier: 1.0 };
        let mut accountant = Accountant::default();
        accountant.record(each, spent.rounds).unwrap();
        assert_eq!(accountant.epsilon(1e-5).unwrap().tight, spent.epsilon);
        assert!(spent.rounds > 1 && spent.rounds < summary.turnout.rounds, "{} rounds", spent.rounds);
        assert!(values.iter().all(|value| value.is_finite()));
    }
}

#[test]
fn dp_sgd_adds_noise_to_the_private_model() {
    let quiet = [("noise_multiplier", Value::Real(0.05))];
    let (_, quiet) = train("fpl", &sgd(&quiet)).unwrap();
    let (_, loud) = train("fpl", &sgd(&[])).unwrap();
    // The first tensor holds the private models.
    let moved = |from: usize, to: usize| {
        let pairs = quiet[from..to].iter().zip(&loud[from..to]);
        pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>()
    };
    let people = 80 * 4;
    assert!(moved(0, people) > 0.1 && moved(people, quiet.len()) > 0.1);
}

#[test]
fn rejects_dp_sgd_for_models_without_it_and_settings_that_do_not_fit() {
    let error = train("fcf", &sgd(&[])).unwrap_err();
    assert!(error.contains("noise = \"sgd\"") && error.contains("gradient of fcf is not a sum"), "{error}");
    let error = train("fpl", &sgd(&[("clip", Value::Real(0.0))])).unwrap_err();
    assert!(error.contains("without a clip"), "{error}");
    let error = train("fpl", &sgd(&[("clip_quantile", Value::Real(0.5))])).unwrap_err();
    assert!(error.contains("clip_quantile"), "{error}");
    let fixed = [("noise", word("none")), ("clip_quantile", Value::Real(0.5)), ("seal", word("secagg"))];
    let error = train("fpl", &sgd(&fixed)).unwrap_err();
    assert!(error.contains("clip_quantile") && !error.contains(SECURE_AGGREGATION), "{error}");
}

#[test]
fn the_noise_multiplier_follows_from_the_budget() {
    let common = [
        ("factors", Value::Integer(4)),
        ("epochs", Value::Integer(4)),
        ("clip", Value::Real(1.0)),
        ("noise_multiplier", Value::Real(0.0)),
        ("epsilon", Value::Real(3.0)),
        ("learning_rate", Value::Real(0.001)),
    ];
    let with = |more: &[Given]| {
        let settings: Vec<_> = common.iter().cloned().chain(more.iter().cloned()).collect();
        train("fpl", &settings)
    };
    let all = ("cohort", Value::Integer(1000));
    for more in [
        vec![("noise", word("central")), ("cohort", Value::Integer(20))],
        vec![("noise", word("central")), ("cohort", Value::Integer(20)), ("clip_quantile", Value::Real(0.5))],
        vec![("noise", word("local")), all.clone()],
        vec![("noise", word("central")), ("noise_shape", word("laplace")), ("cohort", Value::Integer(20))],
        vec![("noise", word("local")), ("noise_shape", word("laplace")), all.clone()],
        vec![("noise", word("sgd")), ("interactions", Value::Real(0.3)), all.clone()],
    ] {
        let (summary, _) = with(&more).unwrap();
        let spent = summary.privacy.unwrap();
        assert!(spent.epsilon <= 3.0 && spent.epsilon > 2.9, "{} of 3 by {more:?}", spent.epsilon);
        assert_eq!((spent.ended, summary.epochs), (None, 4));
    }
    let wrong = [
        (vec![("epsilon", Value::Real(0.0)), ("noise", word("central"))], "goes with epsilon"),
        (vec![("noise", word("local")), ("cohort", Value::Integer(5))], "how often one will take part"),
        (vec![("noise", word("central")), ("noise_multiplier", Value::Real(0.01))], "at least 0.05"),
        (
            vec![("noise", word("central")), ("sampling", word("fixed")), ("cohort", Value::Integer(5))],
            "sampling = poisson",
        ),
    ];
    for (more, message) in wrong {
        let error = with(&more).unwrap_err();
        assert!(error.contains("noise_multiplier") && error.contains(message), "{error}");
    }
}

#[test]
fn laplace_noise_is_accounted_for_and_rejects_settings_that_do_not_fit() {
    let with = |more: &[Given]| {
        let common = [
            ("factors", Value::Integer(4)),
            ("epochs", Value::Integer(2)),
            ("cohort", Value::Integer(20)),
            ("clip", Value::Real(1.0)),
            ("noise_shape", word("laplace")),
        ];
        let settings: Vec<_> = common.into_iter().chain(more.iter().cloned()).collect();
        train("fpl", &settings)
    };
    // Of 80 users 69 can train.
    for (noise, rate) in [("central", 20.0 / 69.0), ("local", 1.0)] {
        let (summary, values) = with(&[("noise", word(noise))]).unwrap();
        let spent = summary.privacy.unwrap();
        let mut accountant = Accountant::default();
        accountant.record(Round::Laplace { rate, scale: 1.0 }, spent.rounds).unwrap();
        assert_eq!(accountant.epsilon(1e-5).unwrap().tight, spent.epsilon);
        assert_eq!((spent.shape, spent.placement), ("laplace", noise));
        assert!(values.iter().all(|value| value.is_finite()));
        let (_, gaussian) = with(&[("noise", word(noise)), ("noise_shape", word("gaussian"))]).unwrap();
        assert_ne!(values, gaussian);
    }
    for (more, message) in [
        (vec![("noise", word("distributed")), ("seal", word("secagg"))], "do not add up"),
        (vec![("noise", word("sgd"))], "do not add up"),
        (vec![("noise", word("central")), ("sampling", word("fixed"))], "sampling = poisson"),
        (vec![("noise", word("local")), ("clip_quantile", Value::Real(0.5))], "a clip that stays"),
    ] {
        let error = with(&more).unwrap_err();
        assert!(error.contains("aplace") && error.contains(message), "{error}");
    }
}
