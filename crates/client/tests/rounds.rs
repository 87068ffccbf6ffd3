//! A client's half of a round, step by step and as a whole.

use proptest::prelude::{ProptestConfig, any, prop, prop_assert_eq, proptest};
use sottovoce_client::{
    Buffers, ClientError, Declined, Device, DeviceRound, Digest, Figures, LoadedModel, NoFigures, Outcome, Round,
    Secret, Seeds, SimulatedRandomness, Training, Upload, criteria, streams,
};
use sottovoce_core::Rng;
use sottovoce_models::federated::{self, DynModel};
use sottovoce_models::settings::{Settings, Value};
use sottovoce_privacy::quantize::{Packing, RowLayout};
use sottovoce_privacy::{
    Noise, NoiseDistribution, PerExample, Placement, PrivacyConfig, PrivacyMechanism, Quantization,
};
use sottovoce_protocol::{
    CriterionRequest, FederationId, Ledger, ModelSpec, ModelVersion, Parameters, Policy, Refusal, Reportable,
    RoundTerms, SharedModel, TermsDraft, Update,
};
use std::sync::Arc;

const ITEMS: usize = 30;
const HISTORY: [u32; 6] = [1, 4, 9, 15, 22, 28];

/// A model with these settings over the defaults, as round terms name it.
fn spec(name: &str, given: &[(&'static str, Value)]) -> ModelSpec {
    let entry = federated::find(name).unwrap();
    let settings = Settings::check(name, &entry.schema(), given.iter().cloned()).unwrap();
    let model = entry.configure(&settings);
    let population = federated::Population { devices: (0..10).collect(), interactions: 200 };
    model.spec(&model.schedule(None, &population))
}

fn fpl() -> ModelSpec {
    spec("fpl", &[("factors", Value::Integer(4)), ("negatives", Value::Word("papers".to_owned()))])
}

fn terms(model: ModelSpec, criteria: &[&str], privacy: &PrivacyConfig) -> RoundTerms {
    let request = |name: &&str| CriterionRequest { name: (*name).to_owned(), purpose: "weighting".to_owned() };
    let criteria = criteria.iter().map(request).collect();
    let draft = TermsDraft { model, cohort_size: 5, criteria, privacy: privacy.terms(), ..TermsDraft::default() };
    RoundTerms::freeze(draft).unwrap()
}

fn load(terms: &RoundTerms) -> DynModel {
    federated::find(&terms.model.name).unwrap().from_terms(&terms.model, None).unwrap()
}

/// What came of the steps of a round: the outcome of training, the update that left, and the private model.
type Steps = (Result<Option<Update>, Declined>, Vec<f32>);

/// Trains and discloses, with the shared model as it begins unless another is given.
fn steps(
    terms: &RoundTerms,
    shared: Option<Parameters>,
    (history, figures, policy): (&[u32], &dyn Figures, &Policy),
    ledger: &mut Ledger,
) -> Steps {
    let model = load(terms);
    let client = model.client(None);
    let root = streams::root(3, "test");
    let shared = shared.unwrap_or_else(|| model.server().init(ITEMS, &mut Rng::new(1)).unwrap());
    let layout = shared.layout();
    let config = PrivacyConfig::read(&terms.privacy).unwrap();
    let privacy = PrivacyMechanism::new(&config, &layout, terms.cohort_size).unwrap();
    let (prepared, mut buffers) = (client.prepare(&shared), Buffers::new(&client, ITEMS, &layout));
    let round = Round::new((terms, privacy.as_ref()), &client, (&shared, &prepared), ITEMS);
    let [mut private, mut disclosed] = [streams::PRIVATE, streams::DISCLOSED].map(|label| {
        let mut private = vec![0.0; client.private_values()];
        client.init_private(&mut private, &mut root.stream(label, 0));
        private
    });
    let mut device =
        Device { private: &mut private, disclosed: &mut disclosed, history: history.into(), figures, policy };
    let randomness = SimulatedRandomness { root: &root, round: &streams::round(&root, 0), user: 0 };
    let trained = round.train(&mut device, &randomness, &mut buffers);
    let update = trained.and_then(|training| match training {
        Training::NothingDisclosed => Ok(None),
        Training::Trained(session) => {
            let disclosed = round.disclose(session, (policy, 7), ledger, &mut buffers)?;
            Ok(Some(disclosed.update().clone()))
        }
    });
    (update, private)
}

fn open_policy() -> Policy {
    Policy::new(1.0).unwrap()
}

#[test]
fn trains_discloses_and_records() {
    let terms = terms(fpl(), &[], &PrivacyConfig::default());
    let mut ledger = Ledger::new();
    let update = steps(&terms, None, (&HISTORY, &NoFigures, &open_policy()), &mut ledger).0.unwrap().unwrap();
    assert!(update.rows() > 0);
    assert_eq!(ledger.totals().rows, update.rows() as u64);
}

#[test]
fn declines_terms_that_the_policy_refuses() {
    let terms = terms(fpl(), &[], &PrivacyConfig::default());
    let mut paused = open_policy();
    paused.pause().unwrap();
    let mut cautious = open_policy();
    cautious.least_cohort = 6;
    for (policy, expected) in [(paused, Refusal::Paused), (cautious, Refusal::CohortTooSmall(6))] {
        let mut ledger = Ledger::new();
        let error = steps(&terms, None, (&HISTORY, &NoFigures, &policy), &mut ledger).0.unwrap_err();
        assert!(matches!(&error, Declined::Policy(refusal) if *refusal == expected), "{error}");
        assert_eq!((error.refusal(), ledger.totals().rows), (expected, 0));
    }
}

#[test]
fn declines_without_a_history() {
    let terms = terms(fpl(), &[], &PrivacyConfig::default());
    let error = steps(&terms, None, (&[], &NoFigures, &open_policy()), &mut Ledger::new()).0.unwrap_err();
    assert!(matches!(error, Declined::NoHistory) && error.refusal() == Refusal::NoHistory, "{error}");
}

#[test]
fn discloses_nothing_with_pi_0_and_trains_the_private_model() {
    let terms = terms(fpl(), &[], &PrivacyConfig::default());
    let (closed, mut ledger) = (Policy::new(0.0).unwrap(), Ledger::new());
    let (update, private) = steps(&terms, None, (&HISTORY, &NoFigures, &closed), &mut ledger);
    assert!(update.unwrap().is_none());
    assert_eq!(ledger.totals().rows, 0);
    let mut before = vec![0.0; private.len()];
    load(&terms).client(None).init_private(&mut before, &mut streams::root(3, "test").stream(streams::PRIVATE, 0));
    assert_ne!(private, before);
}

#[test]
fn declines_when_training_diverges() {
    let terms = terms(fpl(), &[], &PrivacyConfig::default());
    let mut shared = load(&terms).server().init(ITEMS, &mut Rng::new(1)).unwrap();
    shared.tables_mut()[0].values_mut().fill(f32::MAX);
    for pi in [1.0, 0.5] {
        let policy = Policy::new(pi).unwrap();
        let mut ledger = Ledger::new();
        let diverged = steps(&terms, Some(shared.clone()), (&HISTORY, &NoFigures, &policy), &mut ledger).0;
        let error = diverged.unwrap_err();
        assert!(matches!(error, Declined::NotFinite), "{error}");
        assert_eq!(ledger.totals().rows, 0);
    }
}

/// The latest of some items is one of them.
struct Latest(u32);

impl Figures for Latest {
    fn latest(&self, items: &[u32]) -> Option<u32> {
        items.contains(&self.0).then_some(self.0)
    }

    fn value(&self, criterion: &str, items: &[u32]) -> Option<f64> {
        (criterion == criteria::RECENCY).then_some(items.len() as f64)
    }
}

#[test]
fn the_auc_criterion_holds_the_latest_item_out() {
    let asked = [criteria::SIZE, criteria::AUC, criteria::RECENCY];
    let terms_with = |criteria: &[&str]| terms(fpl(), criteria, &PrivacyConfig::default());
    let mut policy = open_policy();
    policy.criteria = Reportable::All;
    let of = |terms: &RoundTerms, history: &[u32], policy: &Policy| {
        let steps = steps(terms, None, (history, &Latest(15), policy), &mut Ledger::new());
        (steps.0.unwrap().unwrap(), steps.1)
    };
    let (with, private) = of(&terms_with(&asked), &HISTORY, &policy);
    let values: Vec<(u32, f64)> = with.criteria().to_vec();
    assert_eq!((values[0], values[2], values.len()), ((0, 6.0), (2, 6.0), 3));
    assert!((0.0..=1.0).contains(&values[1].1), "{values:?}");
    let others: Vec<u32> = HISTORY.into_iter().filter(|&item| item != 15).collect();
    let (without, expected) = of(&terms_with(&[]), &others, &policy);
    assert!(with.tables() == without.tables() && private == expected, "trained on all items but the latest");
    // Owners who do not report it train on all items.
    policy.criteria = Reportable::Only([criteria::SIZE.to_owned()].into());
    let (with, private) = of(&terms_with(&asked), &HISTORY, &policy);
    let (all, expected) = of(&terms_with(&[]), &HISTORY, &policy);
    assert_eq!(with.criteria(), [(0, 6.0)]);
    assert!(with.tables() == all.tables() && private == expected);
}

fn quantization(clip: Option<f32>) -> Quantization {
    Quantization { range: 8.0, clip, devices: 10, rows: RowLayout::Dense, packing: Packing::Words }
}

fn dp_sgd() -> PrivacyConfig {
    let noise = Noise {
        distribution: NoiseDistribution::Gaussian,
        placement: Placement::Sgd,
        multiplier: 1.0,
        shares: 1,
        count_noise: None,
        per_example: Some(PerExample { clip: 0.5, rate: 1.0 }),
        part: None,
    };
    PrivacyConfig { quantization: Some(quantization(None)), noise: Some(noise), seal: None }
}

#[test]
fn declines_dp_sgd_for_models_without_it() {
    let of =
        |model| steps(&terms(model, &[], &dp_sgd()), None, (&HISTORY, &NoFigures, &open_policy()), &mut Ledger::new());
    let error = of(spec("fcf", &[])).0.unwrap_err();
    assert!(matches!(&error, Declined::Training(ClientError::NoDpSgd(name)) if name == "fcf"), "{error}");
    assert!(of(fpl()).0.unwrap().is_some());
}

/// A round of a device that may have trained before.
fn run(
    model: &mut LoadedModel,
    terms: &RoundTerms,
    history: &[u32],
    (policy, secret): (&Policy, &Secret),
    private: (Option<&[f32]>, Option<&[f32]>),
) -> Result<Outcome, Declined> {
    let parameters = model.model().server().init(ITEMS, &mut Rng::new(1)).unwrap();
    let shared = SharedModel { federation: FederationId(0), version: ModelVersion(0), parameters };
    let round = DeviceRound {
        terms,
        digest: Digest::of(&shared.parameters),
        shared: &Arc::new(shared),
        history: history.into(),
        figures: &NoFigures,
        policy,
        randomness: &Seeds::Own.in_round((secret, secret), &terms.model.name, terms.round, [5; 32]),
        key: None,
        identity: None,
        client_index: None,
        when: 1,
    };
    model.run_round(&round, private, &mut Ledger::new())
}

fn bytes(outcome: &Outcome) -> Option<Vec<u8>> {
    match &outcome.upload {
        Upload::Message(bytes) => Some(bytes.to_vec()),
        Upload::Nothing => None,
        Upload::Sealed(_) => panic!("nothing is sealed"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever a loaded model did before: a device that was killed sends the same again.
    #[test]
    fn the_same_round_gives_the_same_bytes(
        history in prop::collection::btree_set(0..ITEMS as u32, 1..ITEMS),
        pi in 0.0f64..=1.0,
        noisy in any::<bool>(),
        secret in any::<[u8; 32]>(),
    ) {
        let history: Vec<u32> = history.into_iter().collect();
        let (policy, secret) = (Policy::new(pi).unwrap(), Secret::new(secret));
        let privacy = if noisy { dp_sgd() } else { PrivacyConfig::default() };
        let terms = terms(fpl(), &[], &privacy);
        let mut fresh = LoadedModel::load(&terms.model, None).unwrap();
        let mut used = LoadedModel::load(&terms.model, None).unwrap();
        let other = Secret::new([9; 32]);
        run(&mut used, &terms, &HISTORY, (&open_policy(), &other), (None, None)).unwrap();
        let first = run(&mut fresh, &terms, &history, (&policy, &secret), (None, None)).unwrap();
        let again = run(&mut used, &terms, &history, (&policy, &secret), (None, None)).unwrap();
        prop_assert_eq!(bytes(&first), bytes(&again));
        prop_assert_eq!((&first.private, &first.disclosed), (&again.private, &again.disclosed));
        // The next round starts from these private models, and gives the same again as well.
        let next = |model: &mut LoadedModel| {
            let private = (Some(&first.private[..]), first.disclosed.as_deref());
            run(model, &terms, &history, (&policy, &secret), private).unwrap()
        };
        prop_assert_eq!(bytes(&next(&mut fresh)), bytes(&next(&mut used)));
    }
}

#[test]
fn rejects_histories_and_models_that_do_not_fit() {
    let terms = terms(fpl(), &[], &PrivacyConfig::default());
    let (policy, secret) = (open_policy(), Secret::new([1; 32]));
    let mut model = LoadedModel::load(&terms.model, None).unwrap();
    for history in [&[3, 3][..], &[4, 2], &[ITEMS as u32]] {
        let error = run(&mut model, &terms, history, (&policy, &secret), (None, None)).err().unwrap();
        assert!(matches!(error, Declined::Training(ClientError::History { items: ITEMS })), "{error}");
    }
    let shared = model.model().server().init(ITEMS, &mut Rng::new(1)).unwrap();
    let other = LoadedModel::load(&spec("fcf", &[]), None).unwrap();
    let mut scores = [0.0; ITEMS];
    assert!(matches!(other.score(&shared, &[0.0; 20], (&[]).into(), &mut scores), Err(ClientError::Shared(_))));
    assert!(matches!(
        model.score(&shared, &[0.0; 3], (&[]).into(), &mut scores),
        Err(ClientError::Private { found: 3, expected: 4 })
    ));
    assert!(matches!(
        model.score(&shared, &[0.0; 4], (&[]).into(), &mut scores[1..]),
        Err(ClientError::Scores { found: 29, expected: 30 })
    ));
}
