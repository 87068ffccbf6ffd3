//! The server's half with devices that are not the simulator's: the same model, bit for bit.

mod common;

use common::deployed::Deployment;
use common::{Given, builder, fitted, people, tensor_bits, word};
use sottovoce_federation::{BuildError, FederationBuilder, FederationError, Population};
use sottovoce_models::settings::Value;
use sottovoce_protocol::{Policy, Received, Reportable};

const SEED: u64 = 11;
const EPOCHS: i64 = 3;

fn settings(cohort: i64, more: &[Given]) -> Vec<Given> {
    let mut all = vec![
        ("factors", Value::Integer(4)),
        ("triples", Value::Integer(6)),
        ("cohort", Value::Integer(cohort)),
        ("learning_rate", Value::Real(0.02)),
        ("epochs", Value::Integer(EPOCHS)),
    ];
    all.extend_from_slice(more);
    all
}

/// Devices answer in any order, and the server restarts after half of the rounds.
#[test]
fn deployed_equals_simulated_for_every_way_to_aggregate() {
    let histories = people(200, 40);
    let interactions = Population::of(&histories).interactions;
    let small = [
        ("download", word("i8-row")),
        ("values", word("f16")),
        ("differences", Value::Switch(true)),
        ("strategy", word("adaptive")),
    ];
    let median = [("guard", word("median"))];
    let krum = [("guard", word("multi-krum"))];
    let samples = [("weighting", word("samples"))];
    let [prioritised, owa] = ["prioritised", "owa"].map(|weighting| {
        [("weighting", word(weighting)), ("criteria", word("size,closeness")), ("criteria_weights", word("0.7,0.3"))]
    });
    let mut policy = Policy::new(1.0).unwrap();
    (policy.samples, policy.criteria) = (true, Reportable::All);
    for (cohort, more) in [
        (130, &[][..]),
        (9, &[]),
        (130, &small),
        (130, &median),
        (70, &krum),
        (130, &samples),
        (130, &prioritised),
        (70, &owa),
    ] {
        let settings = settings(cohort, more);
        let (simulated, _) = fitted("fpl", &settings, (&histories, None), SEED).unwrap();
        let mut expected = tensor_bits(&*simulated);
        expected.remove("users");
        let mut deployed = Deployment::new(("fpl", &settings), (&histories, None), policy.clone(), SEED);
        let rounds = (interactions / (cohort as usize * 6)).max(1) * EPOCHS as usize;
        deployed.train(rounds as u64);
        assert!(deployed.tensor_bits() == expected, "cohort {cohort}, {more:?}");
    }
}

#[test]
fn an_ordered_aggregator_adds_each_device_of_the_cohort_once_and_in_order() {
    let server = builder(10, 8, SEED).build("fcf", []).unwrap().coordinator;
    let cohort = [2, 3, 7];
    let mut updates = server.ordered_aggregator(&cohort);
    let update = Received::new(server.layout());
    updates.add(3, update.update()).unwrap();
    assert_eq!(updates.add(5, update.update()).unwrap_err().to_string(), "device 5 was not asked");
    for device in [2, 3] {
        let wrong = updates.add(device, update.update()).unwrap_err().to_string();
        assert_eq!(wrong, format!("device {device} comes twice, or after one with a larger number"));
    }
    updates.add(7, update.update()).unwrap();
    assert_eq!(updates.finish().updates, 2);
}

#[test]
fn a_server_rejects_settings_of_devices_and_missing_ones() {
    let build = |name, given: &[Given]| builder(10, 8, SEED).build(name, given.iter().cloned()).err().unwrap();
    let error = build("fpl", &[]);
    assert!(matches!(error, BuildError::Start(FederationError::NotHostable { key: "triples", .. })), "{error}");
    for key in ["pi", "selection", "dropout", "availability"] {
        let error = build("fcf", &[(key, Value::Real(0.5))]).to_string();
        assert!(error.starts_with(&format!("setting {key} is about simulated devices")), "{error}");
    }
    assert!(build("bpr-mf", &[]).to_string().contains("fpl, fcf"));
}

/// Cohorts that follow from a public seed are foretold by whoever knows it: amplification by sampling is void then. A
/// server draws them from a secret of its own; the simulator's can be repeated.
#[test]
fn cohorts_cannot_be_foretold_from_the_public_seed() {
    let cohorts = |secret: Option<[u8; 32]>| {
        let host = FederationBuilder { secret, ..builder(200, 40, SEED) };
        let given = settings(20, &[("noise", word("central")), ("clip", Value::Real(0.5))]);
        let mut server = host.build("fpl", given).unwrap().coordinator;
        server.ask_among((0..200).collect());
        let mut one = || {
            let drawn = server.draw(&|_| true).cohort.to_vec();
            server.skip();
            drawn
        };
        (0..14).map(|_| one()).collect::<Vec<_>>()
    };
    let (foretold, one, other) = (cohorts(None), cohorts(Some([1; 32])), cohorts(Some([2; 32])));
    assert_eq!(foretold, cohorts(None));
    assert_eq!(one, cohorts(Some([1; 32])), "a server that was restarted with its secret goes on");
    for (round, ((foretold, one), other)) in foretold.iter().zip(&one).zip(&other).enumerate() {
        assert!(foretold != one && one != other && foretold != other, "round {round}");
    }
    // Also the sizes, by which each device's own chance shows.
    let sizes = |cohorts: &[Vec<u32>]| cohorts.iter().map(Vec::len).collect::<Vec<_>>();
    assert_ne!(sizes(&foretold), sizes(&one));
}
