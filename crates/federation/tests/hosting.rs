//! The server's half, with devices that are not the simulator's: the same model, byte for byte.

mod common;

use sottovoce_core::{Histories, Rng};
use sottovoce_federation::registry::{self, HostError};
use sottovoce_federation::{Coordinator, FederationError, HostedFederation, FederationBuilder, Message, Population};
use sottovoce_models::federated::fpl::{Client, Regularisation};
use sottovoce_models::settings::Value;
use sottovoce_models::{ClientModel, Fit, Negatives, Quiet, TrainInput, TensorData, criteria};
use sottovoce_protocol::{
    DisclosureSeeds, FederationId, Ledger, Policy, Received, Reportable, RoundTerms, SharedModel, Trained, codec,
};
use std::collections::BTreeMap;

const SEED: u64 = 11;
const EPOCHS: i64 = 3;

fn settings(cohort: i64, more: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
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

/// What a device keeps.
struct Phone {
    private: Vec<f32>,
    history: Vec<u32>,
    user: u64,
    held: Option<SharedModel>,
}

/// Devices of those who have something to learn from; they answer in any order.
struct Phones {
    device: Client,
    phones: Vec<Phone>,
    seed: Rng,
}

impl Phones {
    fn of(histories: &Histories, population: &Population) -> Self {
        let pull = |share: f64| (0.02 * share) as f32;
        let pull = Regularisation { user: pull(0.05), positive: pull(0.05), negative: pull(0.005) };
        let negatives = Negatives::default();
        let device = Client { factors: 4, triples: 6, rate: 0.02, pull, init_deviation: 0.1, negatives };
        let seed = Rng::new(SEED).stream("fpl", 0);
        let phone = |&user: &u32| {
            let (mut private, user) = (vec![0.0; 4], u64::from(user));
            device.start(&mut private, &mut seed.stream("private", user));
            Phone { private, history: histories.of(user as usize).to_vec(), user, held: None }
        };
        let phones = population.devices.iter().map(phone).collect();
        Self { device, phones, seed }
    }

    /// What one of them sends.
    fn answer(&mut self, number: u32, terms: &RoundTerms, server: &Coordinator) -> Vec<u8> {
        let phone = &mut self.phones[number as usize];
        download(&mut phone.held, server);
        let shared = &phone.held.as_ref().unwrap().parameters;
        let mut rng =
            self.seed.stream("rounds", 0).stream("round", terms.round.0).stream("device", phone.user);
        let mut trained = Trained::new(&shared.layout());
        trained.expect_policy(&Policy::new(1.0).unwrap());
        let mut scratch = self.device.scratch(shared.tables()[0].shape().rows as usize);
        let task =
            TrainInput { shared, prepared: &(), private: &mut phone.private, history: &phone.history, hidden: &[] };
        self.device.train(task, &mut scratch, &mut rng, &mut trained).unwrap();
        for (index, asked) in (0..).zip(&terms.criteria) {
            let value = match asked.name.as_str() {
                criteria::SIZE => phone.history.len() as f64,
                _ => criteria::closeness(trained.update()),
            };
            trained.report(index, value).unwrap();
        }
        let (mut policy, mut ledger, mut bytes) = (Policy::new(1.0).unwrap(), Ledger::new(), Vec::new());
        policy.criteria = Reportable::All;
        let disclosed = trained.disclose(&policy, terms, 0, &mut ledger, DisclosureSeeds::once(&mut rng)).unwrap();
        codec::encode_update(&disclosed, &mut bytes);
        bytes
    }
}

fn download(held: &mut Option<SharedModel>, server: &Coordinator) {
    let (offer, mut bytes) = (server.offer(), Vec::new());
    match (offer.message(held.as_ref().map(|held| held.version)).unwrap(), &mut *held) {
        (Message::Difference(difference), Some(held)) => {
            codec::encode_difference(&difference, &mut bytes).unwrap();
            codec::apply_difference(&bytes, held).unwrap();
        }
        _ => {
            codec::encode_model(offer.model(), offer.values(), &mut bytes).unwrap();
            *held = Some(codec::decode_model(&bytes).unwrap());
        }
    }
}

fn hosting(devices: usize, items: usize) -> FederationBuilder {
    let (federation, criteria) = (FederationId(5), Vec::new());
    let (noise, key_digest) = (None, None);
    FederationBuilder {
        federation,
        items,
        facts: None,
        devices,
        seed: SEED,
        samples: false,
        criteria,
        rounds: None,
        noise,
        key_digest,
    }
}

/// A round over real messages that come in any order.
fn round(server: &mut Coordinator, phones: &mut Phones, order: &mut Rng) {
    server.ask_among((0..phones.phones.len() as u32).collect());
    let cohort = server.draw(&|_| true).cohort.to_vec();
    let terms = server.terms(cohort.len()).unwrap();
    let mut arriving = cohort.clone();
    order.shuffle(&mut arriving);
    let inbox: BTreeMap<u32, Vec<u8>> =
        arriving.iter().map(|&number| (number, phones.answer(number, &terms, server))).collect();
    let (mut tally, mut received) = (server.tally(&cohort), Received::new(server.layout()));
    for (number, bytes) in inbox {
        codec::decode_update(&bytes, &mut received).unwrap();
        received.check(&terms).unwrap();
        tally.add(number, received.update()).unwrap();
    }
    server.apply(terms.round, &mut tally.finish()).unwrap();
    server.skip();
}

/// The shared model of the simulator: items' vectors and biases.
fn simulated(histories: &Histories, settings: &[(&'static str, Value)]) -> Vec<Vec<f32>> {
    let model = registry::find("fpl").unwrap();
    let mut recommender = (model.build)(&model.settings(settings.iter().cloned()).unwrap());
    recommender.fit(histories, &mut Fit::new(SEED, &mut Quiet)).unwrap();
    let shared = recommender.tensors().into_iter().filter(|tensor| tensor.name != "users");
    shared
        .map(|tensor| match tensor.data {
            TensorData::F32(values) => values,
            _ => panic!("{} has no floats", tensor.name),
        })
        .collect()
}

fn hosted(histories: &Histories, cohort: usize, settings: &[(&'static str, Value)]) -> Coordinator {
    let population = Population::of(histories);
    let mut phones = Phones::of(histories, &population);
    let hosting = hosting(population.devices.len(), histories.catalog_size());
    let HostedFederation { coordinator: mut server, .. } =
        registry::host("fpl", settings.iter().cloned(), &hosting).unwrap();
    let rounds = (population.interactions / (cohort * 6)).max(1) * EPOCHS as usize;
    let mut order = Rng::new(99);
    for number in 0..rounds {
        if number == rounds / 2 {
            server = restarted(&server, settings, &hosting);
        }
        round(&mut server, &mut phones, &mut order);
    }
    server
}

/// Another one that goes on where the first one was.
fn restarted(server: &Coordinator, settings: &[(&'static str, Value)], hosting: &FederationBuilder) -> Coordinator {
    let mut bytes = Vec::new();
    server.save(&mut bytes).unwrap();
    let mut other = registry::host("fpl", settings.iter().cloned(), hosting).unwrap().coordinator;
    other.restore(&mut &bytes[..]).unwrap();
    other
}

#[test]
fn devices_that_answer_in_any_order_lead_to_the_simulators_bytes() {
    let histories = common::people(200, 40);
    let small = [
        ("download", Value::Word("i8-row".into())),
        ("values", Value::Word("f16".into())),
        ("differences", Value::Switch(true)),
        ("strategy", Value::Word("adaptive".into())),
    ];
    let median = [("guard", Value::Word("median".into()))];
    let krum = [("guard", Value::Word("multi-krum".into()))];
    let samples = [("weighting", Value::Word("samples".into()))];
    let [prioritised, owa] = ["prioritised", "owa"].map(|weighting| {
        [
            ("weighting", Value::Word(weighting.into())),
            ("criteria", Value::Word("size,closeness".into())),
            ("criteria_weights", Value::Word("0.7,0.3".into())),
        ]
    });
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
        let (expected, server) =
            (simulated(&histories, &settings), hosted(&histories, cohort as usize, &settings));
        let table = &server.distributed().parameters.tables()[0];
        for row in 0..40 {
            let (vector, bias) = table.row(row).split_at(4);
            assert_eq!((vector, bias), (&expected[0][4 * row..][..4], &expected[1][row..][..1]), "row {row}");
        }
    }
}

#[test]
fn a_tally_takes_each_of_the_cohort_once_and_in_order() {
    let server = registry::host("fcf", [], &hosting(10, 8)).unwrap().coordinator;
    let cohort = [2, 3, 7];
    let mut tally = server.tally(&cohort);
    let update = Received::new(server.layout());
    tally.add(3, update.update()).unwrap();
    assert_eq!(tally.add(5, update.update()).unwrap_err().to_string(), "device 5 was not asked");
    for device in [2, 3] {
        let wrong = tally.add(device, update.update()).unwrap_err().to_string();
        assert_eq!(wrong, format!("device {device} comes twice, or after one with a larger number"));
    }
    tally.add(7, update.update()).unwrap();
    assert_eq!(tally.finish().updates, 2);
}

#[test]
fn a_server_needs_its_own_settings_and_no_others() {
    let host = |name, given: &[(&'static str, Value)]| {
        registry::host(name, given.iter().cloned(), &hosting(10, 8)).err().unwrap()
    };
    let error = host("fpl", &[]);
    assert!(matches!(error, HostError::Start(FederationError::Unhosted { key: "triples", .. })), "{error}");
    for key in ["pi", "selection", "dropout", "availability"] {
        let error = host("fcf", &[(key, Value::Real(0.5))]).to_string();
        assert!(error.starts_with(&format!("setting {key} is about simulated devices")), "{error}");
    }
    assert!(host("bpr-mf", &[]).to_string().contains("fpl, fcf"));
}
