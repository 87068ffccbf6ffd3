//! A differencing attack: an advertiser who knows everybody but one person spends all of the budget on audiences that
//! differ in that person.

use sottovoce_core::Rng;
use sottovoce_federation::FederationBuilder;
use sottovoce_models::federated::audience_size::{Match, Question};
use sottovoce_models::settings::Value;
use sottovoce_privacy::{PrivacyMechanism, SecureRng};
use sottovoce_protocol::{
    Disclosed, DisclosureSeeds, FederationId, Ledger, ModelSpec, Policy, RoundTerms, RowOrigin, Trained,
};
use sottovoce_server::federation::AudienceConfig;

/// Devices of a measurement. Their shares make up all of the noise, however many they are.
const DEVICES: usize = 10;
/// Targets, of whom each second one is in the audience.
const TARGETS: usize = 600;

/// The mechanism of a measuring round, and an answer of 1 and one of 0.
struct Measurement {
    mechanism: PrivacyMechanism,
    answers: [Disclosed; 2],
}

impl Measurement {
    fn new(config: &AudienceConfig) -> Self {
        let question = Question { categories: vec![0], matching: Match::Any, thresholds: vec![0.6] };
        let builder = FederationBuilder {
            federation: FederationId(0),
            items: 1,
            facts: None,
            devices: DEVICES,
            seed: 0,
            samples: false,
            criteria: Vec::new(),
            rounds: Some(1),
            secret: None,
            key_digest: None,
            keeper: None,
        };
        let asked = question.settings(&ModelSpec { name: "lookalike".to_owned(), ..ModelSpec::default() });
        let settings: Vec<(&str, Value)> = config.round_settings(None).unwrap();
        let mut coordinator = builder.build_measurement(&asked, settings).unwrap().coordinator;
        let terms = coordinator.terms(DEVICES).unwrap();
        let mechanism = coordinator.privacy().unwrap().clone();
        let layout = coordinator.layout().clone();
        let answer = |is_in: bool| {
            let mut trained = Trained::new(&layout);
            if is_in {
                trained.push_row(0, 0, RowOrigin::Consumed).unwrap().fill(1.0);
            }
            disclose(trained, &terms)
        };
        Self { answers: [answer(false), answer(true)], mechanism }
    }

    /// The noisy count of one round, as the server opens it.
    fn count(&self, is_in: bool, rng: &mut Rng) -> f64 {
        let (mut sum, mut words) = (vec![0u32; self.mechanism.quantizer().length()], Vec::new());
        for device in 0..DEVICES {
            let answer = &self.answers[usize::from(is_in && device == 0)];
            let mut seed = [0; 32];
            seed.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&rng.next_u64().to_le_bytes()));
            self.mechanism.quantize(answer.update(), &mut SecureRng::new(seed), &mut words);
            sum.iter_mut().zip(&words).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
        }
        let mut count = 0.0;
        let mut server = SecureRng::new([0; 32]);
        self.mechanism.read(&sum, DEVICES as u32, &mut server, |_, _, _, row| count = f64::from(row[0])).unwrap();
        count
    }
}

fn disclose(trained: Trained, terms: &RoundTerms) -> Disclosed {
    let seeds = DisclosureSeeds { per_round: 0, fixed: 0 };
    trained.disclose(&Policy::new(1.0).unwrap(), terms, 0, &mut Ledger::new(), seeds).unwrap()
}

/// Measurements that a budget allows.
fn affordable(config: &AudienceConfig, budget: f64) -> u64 {
    (1..).take_while(|&made| config.spent(made) <= budget).last().unwrap_or(0)
}

/// How often a target who is in gets a higher score than one who is not: 0.5 is chance.
fn auc(scores: &[(f64, bool)]) -> f64 {
    let of = |wanted: bool| scores.iter().filter(move |(_, is_in)| *is_in == wanted).map(|(score, _)| *score);
    let won =
        |one: f64| of(false).map(move |other| if one > other { 1.0 } else { f64::from(u8::from(one == other)) / 2.0 });
    let wins: f64 = of(true).flat_map(won).sum();
    wins / (of(true).count() * of(false).count()) as f64
}

/// The attack: measures with the target and without, as often as the budget allows, and subtracts.
fn attack(config: &AudienceConfig, budget: f64) -> (u64, f64) {
    let measurement = Measurement::new(config);
    let pairs = affordable(config, budget) / 2;
    let mut rng = Rng::new(5);
    let scores: Vec<(f64, bool)> = (0..TARGETS)
        .map(|target| {
            let is_in = target % 2 == 0;
            let pair = |_| measurement.count(is_in, &mut rng) - measurement.count(false, &mut rng);
            ((0..pairs).map(pair).sum::<f64>(), is_in)
        })
        .collect();
    (pairs, auc(&scores))
}

#[test]
fn a_spent_budget_hardly_tells_one_person_from_none() {
    let config = AudienceConfig::default();
    let (pairs, auc) = attack(&config, config.advertiser_budget);
    assert!(pairs > 10, "the attack is worth its name: {pairs}");
    assert!((0.45..0.60).contains(&auc), "{auc}");
    // Advertisers who pool all that the federation has.
    let (_, auc) = attack(&config, config.budget);
    assert!((0.45..0.63).contains(&auc), "{auc}");
}

/// The same attack succeeds where the budget is wasted: the test above can fail.
#[test]
fn a_careless_budget_gives_everybody_away() {
    let careless = AudienceConfig { epsilon: 8.0, advertiser_budget: 60.0, budget: 60.0, ..AudienceConfig::default() };
    let (_, auc) = attack(&careless, careless.advertiser_budget);
    assert!(auc > 0.95, "{auc}");
}
