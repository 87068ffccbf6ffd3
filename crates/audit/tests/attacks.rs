//! Attacks find what is disclosed, and nothing where nothing is.

use sottovoce_audit::{CuriousServer, ExposedTables, Findings, Subjects, View};
use sottovoce_core::{Catalog, Facts, Histories, Rng};
use sottovoce_federation::registry;
use sottovoce_models::federated::RowMeaning;
use sottovoce_models::settings::Value;
use sottovoce_models::{Fit, Quiet};
use std::sync::Arc;

const ITEMS: usize = 150;

/// Users of five tastes: most of their items are of one kind, the rest are popular ones.
fn users(count: usize) -> Histories {
    let mut rng = Rng::new(5);
    let lists: Vec<Vec<u32>> = (0..count)
        .map(|user| {
            let mut items: Vec<u32> = (0..10 + rng.index(12))
                .map(|_| match rng.chance(0.6) {
                    true => (user % 5 * 30) as u32 + rng.below(30),
                    false => (rng.unit() * rng.unit() * ITEMS as f64) as u32,
                })
                .collect();
            items.sort_unstable();
            items.dedup();
            items
        })
        .collect();
    Histories::from_lists(&lists, ITEMS).unwrap()
}

/// Each item has a feature of its kind, one that it shares with every seventh item, and one of its own.
fn facts() -> Arc<Facts> {
    let names: Vec<String> = (0..12 + ITEMS).map(|feature| format!("fact: {feature}")).collect();
    let names: Vec<(&str, u8)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let lists: Vec<Vec<u32>> = (0..ITEMS as u32).map(|item| vec![item / 30, 5 + item % 7, 12 + item]).collect();
    Arc::new(Facts::of_lists(&names, &lists))
}

fn audit(model: &str, train: &Histories, view: View, settings: &[(&str, Value)]) -> Findings {
    let facts = facts();
    let tables = ExposedTables::of(model, Some(&facts)).unwrap();
    let subjects = Subjects::draw(train, None, 80, 3);
    let server = Arc::new(CuriousServer::new(tables, subjects, view, vec![1, 20, 100]));
    let settings = registry::find(model).unwrap().settings(settings.iter().cloned()).unwrap();
    let mut model = registry::recorded(model, &settings, server.clone()).unwrap();
    let catalog = Catalog { facts: Some(facts), ..Catalog::default() };
    model.fit(train, &mut Fit::new(1, &mut Quiet).knowing(Some(&catalog))).unwrap();
    server.conclude().unwrap()
}

fn word(text: &str) -> Value {
    Value::Word(text.to_owned())
}

fn combined(findings: &Findings) -> f64 {
    findings.combined().unwrap().auc
}

/// One triple per user and round, single uploads seen.
fn one_triple(pi: f64, negatives: &str, epochs: i64) -> Findings {
    disclosing("per-round", pi, negatives, epochs)
}

/// The same, with this mode of disclosure.
fn disclosing(mode: &str, pi: f64, negatives: &str, epochs: i64) -> Findings {
    let settings = [
        ("configuration", word("pfpl")),
        ("pi", Value::Real(pi)),
        ("disclosure", word(mode)),
        ("negatives", word(negatives)),
        ("epochs", Value::Integer(epochs)),
    ];
    audit("fpl", &users(120), View::Uploads, &settings)
}

#[test]
fn single_uploads_of_one_triple_reveal_histories() {
    let findings = one_triple(1.0, "papers", 8);
    let all = findings.combined().unwrap();
    // Popularity is the same for all attacks; what all uploads have in common is more.
    let alone = findings.attacks.iter().map(|found| found.guess_auc).next().unwrap();
    assert!((all.popularity_auc - alone).abs() < 0.03 && all.guess_auc > all.popularity_auc, "{all:?}");
    assert!(all.auc > 0.95 && all.auc > all.guess_auc + 0.1, "{all:?}");
    assert!(all.precision > 0.8 && all.personal.low > 0.2, "{all:?}");
    assert!(findings.of("signs").unwrap().auc > 0.95);
    // Decoys do not change that: disclosed positives remain visible.
    assert!(combined(&one_triple(1.0, "decoys", 8)) > 0.95);
}

#[test]
fn auc_grows_with_pi() {
    for (mode, negatives) in [("per-round", "papers"), ("fixed", "decoys")] {
        let found: Vec<f64> = [0.0, 0.1, 0.4, 1.0].map(|pi| combined(&disclosing(mode, pi, negatives, 8))).to_vec();
        assert!(found.is_sorted_by(|less, more| less < more), "{mode}: {found:?}");
    }
}

#[test]
fn nothing_is_revealed_without_uploads() {
    let findings = disclosing("fixed", 0.0, "decoys", 3);
    assert_eq!(findings.uploads, 0);
    let all = findings.combined().unwrap();
    assert!(findings.of("signs").unwrap().auc == 0.5 && all.auc == all.guess_auc, "{all:?}");
}

/// Users who were not seen must not pass for users who reveal nothing.
#[test]
fn fails_if_only_unaudited_users_sent_updates() {
    let all: Vec<Vec<u32>> = users(60).iter().map(<[u32]>::to_vec).collect();
    let some = |from: usize, to: usize| {
        let of = |(user, history): (usize, &Vec<u32>)| {
            if (from..to).contains(&user) { history.clone() } else { Vec::new() }
        };
        Histories::from_lists(&all.iter().enumerate().map(of).collect::<Vec<_>>(), ITEMS).unwrap()
    };
    let subjects = Subjects::draw(&some(0, 30), None, 20, 3);
    let tables = ExposedTables::of("fpl", None).unwrap();
    let server = Arc::new(CuriousServer::new(tables, subjects, View::Uploads, vec![1]));
    let settings = registry::find("fpl").unwrap().settings([("epochs", Value::Integer(1))]).unwrap();
    let mut model = registry::recorded("fpl", &settings, server.clone()).unwrap();
    model.fit(&some(30, 60), &mut Fit::new(1, &mut Quiet)).unwrap();
    assert!(server.conclude().is_err());
}

#[test]
fn fixed_disclosure_does_not_reveal_more_over_rounds() {
    let over_rounds = |(mode, negatives), epochs| disclosing(mode, 0.3, negatives, epochs).of("signs").unwrap().auc;
    let [few, many] = [8, 40].map(|epochs| over_rounds(("per-round", "papers"), epochs));
    assert!(many > 0.95 && many > few, "{few} {many}");
    let [few, many] = [8, 40].map(|epochs| over_rounds(("fixed", "decoys"), epochs));
    assert!(many < 0.85, "{few} {many}");
}

#[test]
fn complement_reveals_histories_at_pi_0_unless_decoys_are_sent() {
    let over_rounds = |negatives: &str| -> Vec<f64> {
        let findings = one_triple(0.0, negatives, 40);
        let of = |auc: &[(&str, f64)]| auc.iter().find(|(name, _)| *name == "complement").unwrap().1;
        let mut over_rounds: Vec<f64> = findings.over_rounds.iter().map(|checkpoint| of(&checkpoint.auc)).collect();
        over_rounds.push(findings.of("complement").unwrap().auc);
        over_rounds
    };
    let papers = over_rounds("papers");
    assert!(papers.is_sorted() && papers[0] < 0.52 && papers[3] > 0.95, "{papers:?}");
    let decoys = over_rounds("decoys");
    assert!(decoys.iter().all(|auc| (auc - 0.5).abs() < 0.03), "{decoys:?}");
    let pool = over_rounds("pool");
    assert!(pool[3] > 0.55 && pool[3] < 0.65, "{pool:?}");
}

#[test]
fn sums_of_a_hundred_devices_reveal_no_more_than_popularity() {
    let settings = [("cohort", Value::Integer(100)), ("epochs", Value::Integer(1))];
    let findings = audit("fpl", &users(400), View::Sums, &settings);
    let all = findings.combined().unwrap();
    assert!(all.gain.low < 0.01 && all.personal.low < 0.01, "{all:?}");
    // Single uploads of the same run reveal everything.
    let open = audit("fpl", &users(400), View::Uploads, &settings);
    let open = open.combined().unwrap();
    assert!(open.auc > all.auc + 0.05 && open.personal.low > 0.1, "{open:?}");
}

#[test]
fn disaggregation_solves_sums_of_small_cohorts() {
    let settings = [("cohort", Value::Integer(4)), ("epochs", Value::Integer(4)), ("negatives", word("papers"))];
    let findings = audit("fpl", &users(60), View::Sums, &settings);
    let found = findings.of("disaggregation").unwrap();
    assert!(found.personal.low > 0.1, "{found:?}");
}

#[test]
fn reads_gradients_of_all_items_and_rows_of_features() {
    let fcf = audit("fcf", &users(120), View::Uploads, &[("epochs", Value::Integer(3))]);
    assert!(fcf.of("signs").unwrap().auc > 0.95, "{:?}", fcf.of("signs"));
    let kgflex = audit("kgflex", &users(120), View::Uploads, &[("epochs", Value::Integer(3))]);
    let found = kgflex.combined().unwrap();
    assert!(found.auc > 0.9 && found.personal.low > 0.1, "{found:?}");
}

#[test]
fn findings_do_not_depend_on_threads() {
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| serde_json::to_string(&one_triple(0.5, "papers", 2)).unwrap())
    };
    assert_eq!(on(1), on(4));
}

/// Every federated model whose rows are items or features, those registered later included: disclosing everything
/// reveals histories, and disclosing nothing does not.
#[test]
fn every_federated_model_reveals_histories_at_pi_1_and_not_at_pi_0() {
    for entry in sottovoce_models::federated::all() {
        let name = entry.info.name;
        // FedEASE is never trained in the open: there are no single updates to look at.
        if ["fed-ease", "fed-item-knn", "fed-popularity"].contains(&name)
            || entry.exposure().iter().all(|exposure| exposure.rows == RowMeaning::Clusters)
        {
            continue;
        }
        let at = |pi: f64| {
            let settings = [("pi", Value::Real(pi)), ("epochs", Value::Integer(3))];
            audit(name, &users(120), View::Uploads, &settings)
        };
        let (open, closed) = (at(1.0), at(0.0));
        let found = open.combined().unwrap();
        assert!(found.auc > found.guess_auc + 0.1 && found.personal.low > 0.1, "{name}: {found:?}");
        let found = closed.combined().unwrap();
        assert!(found.auc < found.guess_auc + 0.02 && found.personal.low < 0.02, "{name}: {found:?}");
    }
}

/// An encoder row is updated if and only if the user has the item.
#[test]
fn rows_of_fed_vae_name_the_users_items() {
    let settings = [("pi", Value::Real(1.0)), ("epochs", Value::Integer(1))];
    let findings = audit("fed-vae", &users(120), View::Uploads, &settings);
    assert!(findings.of("frequency").unwrap().auc > 0.99, "{:?}", findings.of("frequency"));
}
