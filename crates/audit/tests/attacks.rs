//! The audit finds what it should, and nothing where there is nothing to find.

use sottovoce_audit::{CuriousServer, ExposedTables, Findings, Subjects, View};
use sottovoce_core::{Catalog, Facts, Histories, Rng};
use sottovoce_federation::registry;
use sottovoce_models::settings::Value;
use sottovoce_models::{Fit, Quiet};
use std::sync::Arc;

const ITEMS: usize = 150;

/// People of five tastes: most of what they have is of their kind of items, the rest is what everybody has.
fn people(count: usize) -> Histories {
    let mut rng = Rng::new(5);
    let lists: Vec<Vec<u32>> = (0..count)
        .map(|person| {
            let mut items: Vec<u32> = (0..10 + rng.index(12))
                .map(|_| match rng.chance(0.6) {
                    true => (person % 5 * 30) as u32 + rng.below(30),
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

/// Each item has a fact of its kind, one that it shares with every seventh, and one of its own.
fn facts() -> Arc<Facts> {
    let names: Vec<String> = (0..12 + ITEMS).map(|feature| format!("fact: {feature}")).collect();
    let names: Vec<(&str, u8)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let lists: Vec<Vec<u32>> =
        (0..ITEMS as u32).map(|item| vec![item / 30, 5 + item % 7, 12 + item]).collect();
    Arc::new(Facts::of_lists(&names, &lists))
}

fn audit(model: &str, train: &Histories, view: View, settings: &[(&str, Value)]) -> Findings {
    let facts = facts();
    let surface = ExposedTables::of(model, Some(&facts)).unwrap();
    let subjects = Subjects::draw(train, None, 80, 3);
    let witness = Arc::new(CuriousServer::new(surface, subjects, view, vec![1, 20, 100]));
    let settings = registry::find(model).unwrap().settings(settings.iter().cloned()).unwrap();
    let mut model = registry::recorded(model, &settings, witness.clone()).unwrap();
    let catalog = Catalog { facts: Some(facts), ..Catalog::default() };
    model.fit(train, &mut Fit::new(1, &mut Quiet).knowing(Some(&catalog))).unwrap();
    witness.conclude().unwrap()
}

fn word(text: &str) -> Value {
    Value::Word(text.to_owned())
}

fn combined(findings: &Findings) -> f64 {
    findings.combined().unwrap().auc
}

/// One triple a round from everybody, seen one by one.
fn one_triple(pi: f64, negatives: &str, epochs: i64) -> Findings {
    drawing("each-round", pi, negatives, epochs)
}

/// The same, with this way to draw by pi.
fn drawing(draw: &str, pi: f64, negatives: &str, epochs: i64) -> Findings {
    let settings = [
        ("configuration", word("pfpl")),
        ("pi", Value::Real(pi)),
        ("pi_draw", word(draw)),
        ("negatives", word(negatives)),
        ("epochs", Value::Integer(epochs)),
    ];
    audit("fpl", &people(120), View::Uploads, &settings)
}

#[test]
fn single_uploads_of_one_triple_give_histories_away() {
    let findings = one_triple(1.0, "papers", 8);
    let all = findings.combined().unwrap();
    assert!(all.auc > 0.95 && all.auc > all.guess_auc + 0.1, "{all:?}");
    assert!(all.precision > 0.8 && all.personal.low > 0.2, "{all:?}");
    assert!(findings.of("signs").unwrap().auc > 0.95);
    // Decoys do not change that: what somebody discloses of their own is there to be seen.
    assert!(combined(&one_triple(1.0, "decoys", 8)) > 0.95);
}

#[test]
fn the_more_is_disclosed_the_more_is_rebuilt() {
    for negatives in ["papers", "decoys"] {
        let found: Vec<f64> = [0.0, 0.1, 0.4, 1.0].map(|pi| combined(&one_triple(pi, negatives, 8))).to_vec();
        assert!(found.is_sorted_by(|less, more| less < more), "{negatives}: {found:?}");
    }
    let found: Vec<f64> = [0.0, 0.1, 0.4, 1.0].map(|pi| combined(&drawing("kept", pi, "decoys", 8))).to_vec();
    assert!(found.is_sorted_by(|less, more| less < more), "{found:?}");
}

#[test]
fn who_sends_nothing_gives_nothing_away() {
    let findings = drawing("kept", 0.0, "decoys", 3);
    assert_eq!(findings.uploads, 0);
    let all = findings.combined().unwrap();
    assert!(findings.of("signs").unwrap().auc == 0.5 && all.auc == all.guess_auc, "{all:?}");
}

/// Not to be taken for people who give nothing away: they were not seen.
#[test]
fn where_only_others_sent_something_nothing_is_concluded() {
    let all: Vec<Vec<u32>> = people(60).iter().map(<[u32]>::to_vec).collect();
    let some = |from: usize, to: usize| {
        let of = |(user, history): (usize, &Vec<u32>)| {
            if (from..to).contains(&user) { history.clone() } else { Vec::new() }
        };
        Histories::from_lists(&all.iter().enumerate().map(of).collect::<Vec<_>>(), ITEMS).unwrap()
    };
    let subjects = Subjects::draw(&some(0, 30), None, 20, 3);
    let surface = ExposedTables::of("fpl", None).unwrap();
    let witness = Arc::new(CuriousServer::new(surface, subjects, View::Uploads, vec![1]));
    let settings = registry::find("fpl").unwrap().settings([("epochs", Value::Integer(1))]).unwrap();
    let mut model = registry::recorded("fpl", &settings, witness.clone()).unwrap();
    model.fit(&some(30, 60), &mut Fit::new(1, &mut Quiet)).unwrap();
    assert!(witness.conclude().is_err());
}

#[test]
fn a_share_drawn_once_for_good_stays_a_share() {
    let over_rounds = |draw, epochs| drawing(draw, 0.3, "decoys", epochs).of("signs").unwrap().auc;
    let (few, many) = (over_rounds("each-round", 8), over_rounds("each-round", 40));
    assert!(many > 0.95 && many > few, "{few} {many}");
    let (few, many) = (over_rounds("kept", 8), over_rounds("kept", 40));
    assert!(many < 0.85, "{few} {many}");
}

#[test]
fn without_any_row_of_theirs_the_complement_tells_unless_decoys_are_sent() {
    let over_rounds = |negatives: &str| -> Vec<f64> {
        let findings = one_triple(0.0, negatives, 40);
        let of = |auc: &[(&str, f64)]| auc.iter().find(|(name, _)| *name == "complement").unwrap().1;
        let mut over_rounds: Vec<f64> =
            findings.over_rounds.iter().map(|checkpoint| of(&checkpoint.auc)).collect();
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
fn of_a_sum_over_a_hundred_devices_nothing_is_left_but_what_is_popular() {
    let settings = [("cohort", Value::Integer(100)), ("epochs", Value::Integer(1))];
    let findings = audit("fpl", &people(400), View::Sums, &settings);
    let all = findings.combined().unwrap();
    assert!(all.gain.low < 0.01 && all.personal.low < 0.01, "{all:?}");
    // One by one the same uploads give everything away.
    let open = audit("fpl", &people(400), View::Uploads, &settings);
    let open = open.combined().unwrap();
    assert!(open.auc > all.auc + 0.05 && open.personal.low > 0.1, "{open:?}");
}

#[test]
fn sums_of_many_rounds_with_few_people_come_apart() {
    let settings =
        [("cohort", Value::Integer(4)), ("epochs", Value::Integer(4)), ("negatives", word("papers"))];
    let findings = audit("fpl", &people(60), View::Sums, &settings);
    let found = findings.of("disaggregation").unwrap();
    assert!(found.personal.low > 0.1, "{found:?}");
}

#[test]
fn gradients_of_all_items_and_rows_of_features_are_read_as_well() {
    let fcf = audit("fcf", &people(120), View::Uploads, &[("epochs", Value::Integer(3))]);
    assert!(fcf.of("signs").unwrap().auc > 0.95, "{:?}", fcf.of("signs"));
    let kgflex = audit("kgflex", &people(120), View::Uploads, &[("epochs", Value::Integer(3))]);
    let found = kgflex.combined().unwrap();
    assert!(found.auc > 0.9 && found.personal.low > 0.1, "{found:?}");
}

#[test]
fn the_same_run_gives_the_same_findings_on_any_number_of_threads() {
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| serde_json::to_string(&one_triple(0.5, "decoys", 2)).unwrap())
    };
    assert_eq!(on(1), on(4));
}
