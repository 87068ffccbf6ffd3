//! What every federated model must do.

use super::harness::{every_dp_sgd_model, every_federated_model, has, small};
use crate::common::deployed::Deployment;
use crate::common::{Given, catalog, people, per_round, tensor_bits, word};
use sottovoce_client::{Buffers, Device, NoFigures, Round, SimulatedRandomness, Training, check_decoys, streams};
use sottovoce_core::{Catalog, Histories, History};
use sottovoce_federation::{Delivery, Population, Schedule, Simulation, registry};
use sottovoce_models::federated::{DynClient, DynModel, Entry, RowMeaning, find};
use sottovoce_models::settings::{Settings, Value};
use sottovoce_models::{Fit, Quiet, Recommender};
use sottovoce_privacy::SECURE_AGGREGATION;
use sottovoce_protocol::{
    Keyed, Ledger, Parameters, Policy, PrivacyLayer, PrivacyTerms, RoundTerms, TermsDraft, Update,
};
use std::collections::BTreeMap;

const ITEMS: usize = 40;
const SEED: u64 = 5;

/// One upload a device, and no other sum than with other seals.
#[test]
fn equality_keeper() {
    let seal = [COHORT, ("seal", word("keeper"))];
    every_federated_model(|entry| assert_equality(entry, &seal, &[], Policy::new(1.0).unwrap()));
}

/// With noise that devices add in shares, and that the keeper takes no more off than the server.
#[test]
fn equality_keeper_with_noise() {
    let noise = [("noise", word("distributed")), ("clip", Value::Real(0.5)), ("sampling", word("fixed"))];
    let settings: Vec<Given> = [COHORT, ("seal", word("keeper"))].into_iter().chain(noise).collect();
    assert_equality(&find("fpl").unwrap(), &settings, &[], Policy::new(1.0).unwrap());
}

fn checked(entry: &Entry, given: Vec<Given>) -> Settings {
    registry::find(entry.info.name).unwrap().settings(given).unwrap()
}

/// Small settings that a server can be hosted with.
fn given(entry: &Entry, more: &[Given]) -> Vec<Given> {
    let model = registry::find(entry.info.name).unwrap();
    let mut all: Vec<Given> = small(model).into_iter().map(|(key, value)| (key, Value::parse(value))).collect();
    all.push(("epochs", Value::Integer(3)));
    // A server does not know how long histories are; this many make an epoch one round of all devices.
    all.extend(has(model, "triples").then_some(("triples", Value::Integer(40))));
    all.extend_from_slice(more);
    all
}

/// A model with the catalog's features, and a schedule for these users.
fn configured(entry: &Entry, histories: &Histories, catalog: &Catalog) -> (DynModel, Schedule) {
    let mut model = entry.configure(&checked(entry, given(entry, &[])));
    model.set_features(Some(catalog)).unwrap();
    let schedule = model.schedule(None, &Population::of(histories));
    (model, schedule)
}

/// One client and what it needs for a round.
struct OneClient {
    client: DynClient,
    shared: Parameters,
    terms: RoundTerms,
}

impl OneClient {
    fn new(model: &DynModel, schedule: &Schedule, client: DynClient) -> Self {
        let root = streams::root(SEED, "test");
        let shared = model.server().init(ITEMS, &mut root.stream(streams::SHARED, 0)).unwrap();
        let seal = PrivacyLayer { name: SECURE_AGGREGATION.to_owned(), ..PrivacyLayer::default() };
        let privacy = PrivacyTerms { layers: client.needs_seal().then_some(seal).into_iter().collect() };
        let draft = TermsDraft { model: model.spec(schedule), cohort_size: 1, privacy, ..TermsDraft::default() };
        Self { client, shared, terms: RoundTerms::freeze(draft).unwrap() }
    }

    /// What leaves in a round, and the private models after it.
    fn round(&self, history: &[u32], policy: &Policy) -> (Option<Update>, [Vec<f32>; 2]) {
        let root = streams::root(SEED, "test");
        let randomness = SimulatedRandomness { root: &root, round: &streams::round(&root, 0), user: 3 };
        let layout = self.shared.layout();
        let mut buffers = Buffers::new(&self.client, ITEMS, &layout);
        let prepared = self.client.prepare(&self.shared);
        let round = Round::new((&self.terms, None), &self.client, (&self.shared, &prepared), ITEMS);
        let mut private = [streams::PRIVATE, streams::DISCLOSED].map(|label| {
            let mut private = vec![0.0; self.client.private_values()];
            self.client.init_private(&mut private, &mut root.stream(label, 3));
            private
        });
        let [own, disclosed] = &mut private;
        let history = History { sequence: history, ..history.into() };
        let mut device = Device { private: own, disclosed, history, figures: &NoFigures, policy };
        let update = match round.train(&mut device, &randomness, &mut buffers).unwrap() {
            Training::NothingDisclosed => None,
            Training::Trained(session) => {
                let ledger = &mut Ledger::new();
                let disclosed = round.disclose(session, (policy, 0), ledger, &mut buffers).unwrap();
                Some(disclosed.update().clone())
            }
        };
        (update, private)
    }
}

const HISTORY: [u32; 9] = [0, 3, 4, 9, 12, 17, 23, 30, 38];

#[test]
fn round_terms_give_the_same_client() {
    let (histories, catalog) = (people(60, ITEMS), catalog(ITEMS));
    every_federated_model(|entry| {
        let (model, schedule) = configured(entry, &histories, &catalog);
        let spec = model.spec(&schedule);
        let loaded = entry.from_terms(&spec, Some(&catalog.content())).unwrap();
        assert_eq!(loaded.server().layout(ITEMS).unwrap(), model.server().layout(ITEMS).unwrap());
        let own = OneClient::new(&model, &schedule, model.client(Some(&schedule)));
        let remote = OneClient::new(&model, &schedule, loaded.client(None));
        let policies = [Policy::new(1.0).unwrap(), Policy::new(0.5).unwrap(), per_round(0.5)];
        for policy in policies.into_iter().filter(|policy| check_decoys(policy, &spec).is_ok()) {
            let expected = own.round(&HISTORY, &policy);
            assert!(expected.0.as_ref().is_some_and(|update| update.rows() > 0));
            assert_eq!(remote.round(&HISTORY, &policy), expected);
        }
    });
}

#[test]
fn round_terms_reject_unknown_missing_and_excessive_settings() {
    let (histories, catalog) = (people(60, ITEMS), catalog(ITEMS));
    every_federated_model(|entry| {
        let (model, schedule) = configured(entry, &histories, &catalog);
        let spec = model.spec(&schedule);
        let error = |spec: &_| entry.from_terms(spec, Some(&catalog.content())).err().unwrap().to_string();
        for key in spec.settings.keys() {
            let mut missing = spec.clone();
            missing.settings.remove(key);
            assert!(error(&missing).contains(key.as_str()), "{key} is missing");
            let mut wrong = spec.clone();
            wrong.settings.insert(key.clone(), "1e300".to_owned());
            assert!(error(&wrong).contains(key.as_str()), "{key} = 1e300");
        }
        let mut unknown = spec.clone();
        unknown.settings.insert("colour".to_owned(), "red".to_owned());
        assert!(error(&unknown).contains("colour"));
    });
}

#[test]
fn exposes_tables_of_its_layout() {
    let (histories, catalog) = (people(60, ITEMS), catalog(ITEMS));
    every_federated_model(|entry| {
        let layout = configured(entry, &histories, &catalog).0.server().layout(ITEMS).unwrap();
        assert!(!entry.exposure().is_empty(), "nothing is exposed, so that nothing can be audited");
        for exposure in entry.exposure() {
            let shape = &layout.shapes()[exposure.table];
            let expected = match exposure.rows {
                RowMeaning::Items => Keyed::Items,
                RowMeaning::Features | RowMeaning::Clusters => Keyed::Others,
            };
            assert_eq!(shape.keyed, expected, "table {}", shape.name);
        }
    });
}

#[test]
fn withheld_items_do_not_influence_the_update() {
    let (histories, catalog) = (people(60, ITEMS), catalog(ITEMS));
    every_federated_model(|entry| {
        let (model, schedule) = configured(entry, &histories, &catalog);
        let client = OneClient::new(&model, &schedule, model.client(Some(&schedule)));
        let policy = Policy::new(0.5).unwrap();
        let root = streams::root(SEED, "test");
        let fixed = root.stream(streams::FIXED_DISCLOSURE, 3).next_u64();
        let disclosed: Vec<u32> = policy.disclosed_items(&HISTORY, fixed).collect();
        assert!(!disclosed.is_empty() && disclosed.len() < HISTORY.len());
        let (all, fewer) = (client.round(&HISTORY, &policy), client.round(&disclosed, &policy));
        assert_eq!(all.0, fewer.0);
        assert_eq!(all.1[1], fewer.1[1], "the private model that is trained only on disclosed items");
        let open = Policy::new(1.0).unwrap();
        assert_ne!(client.round(&HISTORY, &open).0, client.round(&disclosed, &open).0);
    });
}

/// A row of a hidden item leaves only as a decoy, which does not depend on whether the user has the item.
#[test]
fn hidden_items_leave_as_decoys_only() {
    let (histories, catalog) = (people(60, ITEMS), catalog(ITEMS));
    every_federated_model(|entry| {
        let (model, schedule) = configured(entry, &histories, &catalog);
        let client = OneClient::new(&model, &schedule, model.client(Some(&schedule)));
        let hidden = [4, 23];
        let mut policy = Policy::new(1.0).unwrap();
        hidden.iter().for_each(|&item| policy.hide(item));
        let update = client.round(&HISTORY, &policy).0.unwrap();
        let layout = client.shared.layout();
        let open = client.round(&HISTORY, &Policy::new(1.0).unwrap()).0.unwrap();
        for exposure in entry.exposure().iter().filter(|exposure| exposure.rows == RowMeaning::Items) {
            assert_eq!(layout.shapes()[exposure.table].keyed, Keyed::Items);
            let row = |update: &Update, item: u32| {
                update.tables()[exposure.table].iter().find(|(row, _)| *row == item as usize).map(|(_, v)| v.to_vec())
            };
            for item in hidden {
                let left = row(&update, item);
                assert!(left.is_none() || left != row(&open, item), "item {item} left as it was trained");
            }
        }
    });
}

/// Simulated, with messages as bytes, and deployed: shared and private models.
fn assert_equality(entry: &Entry, settings: &[Given], owners: &[Given], policy: Policy) {
    let (histories, catalog) = (people(60, ITEMS), catalog(ITEMS));
    let given = given(entry, settings);
    let all = checked(entry, [&given[..], owners].concat());
    let simulated = |delivery| {
        let mut simulation = Simulation::new(entry, &all).with_delivery(delivery);
        let mut quiet = Quiet;
        let mut fit = Fit::new(SEED, &mut quiet).knowing(Some(&catalog));
        let summary = simulation.fit(&histories, &mut fit).unwrap();
        (tensor_bits(&simulation), summary.turnout.rounds)
    };
    let (mut direct, rounds) = simulated(Delivery::Direct);
    assert!(simulated(Delivery::Bytes) == (direct.clone(), rounds), "delivery by bytes");
    let mut deployed = Deployment::new((entry.info.name, &given), (&histories, Some(&catalog)), policy, SEED);
    deployed.train(rounds);
    let users = direct.remove("users").unwrap();
    assert!(deployed.tensor_bits() == direct, "the shared model");
    let width = users.len() / histories.users();
    let private = deployed.private_bits();
    assert!(!private.is_empty());
    let of = |user: &u32| users[*user as usize * width..][..width].to_vec();
    let expected: BTreeMap<u32, Vec<u32>> = private.keys().map(|user| (*user, of(user))).collect();
    assert!(private == expected, "private models");
}

const COHORT: Given = ("cohort", Value::Integer(20));

#[test]
fn equality_pi_1() {
    every_federated_model(|entry| assert_equality(entry, &[COHORT], &[], Policy::new(1.0).unwrap()));
}

#[test]
fn equality_fixed_disclosure() {
    let owners = [("pi", Value::Real(0.5)), ("disclosure", word("fixed"))];
    every_federated_model(|entry| assert_equality(entry, &[COHORT], &owners, Policy::new(0.5).unwrap()));
}

#[test]
fn equality_per_round_disclosure() {
    let owners = [("pi", Value::Real(0.5)), ("disclosure", word("per-round"))];
    every_federated_model(|entry| {
        // Decoys do not go with it.
        let papers = ["fpl", "fcf"].contains(&entry.info.name).then(|| ("negatives", word("papers")));
        let settings: Vec<_> = [COHORT].into_iter().chain(papers).collect();
        assert_equality(entry, &settings, &owners, per_round(0.5));
    });
}

#[test]
fn equality_local_noise() {
    let noise = [COHORT, ("noise", word("local")), ("clip", Value::Real(0.5))];
    every_federated_model(|entry| assert_equality(entry, &noise, &[], Policy::new(1.0).unwrap()));
}

/// Rounds that share epsilon unequally, each for one table, under a seal; the server restarts between them.
#[test]
fn equality_shares_of_epsilon() {
    let private = find("fed-ease-top").unwrap();
    let (noise, seal) = (("noise", word("distributed")), ("seal", word("secagg")));
    let budget =
        [("epsilon", Value::Real(50.0)), ("noise_multiplier", Value::Integer(0)), ("epochs", Value::Integer(2))];
    let settings: Vec<Given> = [noise, seal].into_iter().chain(budget).collect();
    assert_equality(&private, &settings, &[], Policy::new(1.0).unwrap());
}

#[test]
fn equality_dp_sgd() {
    // A network of many parameters diverges under much noise.
    let noise = [COHORT, ("noise", word("sgd")), ("clip", Value::Real(0.01))];
    let owners = [("pi", Value::Real(0.5)), ("disclosure", word("fixed"))];
    every_dp_sgd_model(|entry| assert_equality(entry, &noise, &owners, Policy::new(0.5).unwrap()));
}

/// The server looks at single updates to find the clusters.
#[test]
fn equality_clustered_by_sampler() {
    let refrs = find("refrs").unwrap();
    let sampler = [("assignment", word("sampler")), ("sampler_epochs", Value::Integer(2))];
    assert_equality(&refrs, &sampler, &[], Policy::new(1.0).unwrap());
}

#[test]
fn equality_secure_aggregation() {
    let seal = [COHORT, ("seal", word("secagg"))];
    every_federated_model(|entry| assert_equality(entry, &seal, &[], Policy::new(1.0).unwrap()));
}
