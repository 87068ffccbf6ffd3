//! People of a click log, and models of their interests.

use sottovoce_core::Histories;
use sottovoce_data::interests::{ClickRules, ClickSource, Taxonomy};
use sottovoce_evaluate::Protocol;
use sottovoce_experiment::lookalike::{LookalikeError, LookalikePlan, TrainedLookalike, train};
use sottovoce_experiment::people::{Part, People, PeopleError};
use sottovoce_experiment::training::Context;
use sottovoce_federation::registry;
use sottovoce_models::Flow;
use sottovoce_models::federated::lookalike::Text;
use sottovoce_models::settings::Value;
use std::collections::HashSet;

fn people(name: &str, seed: u64) -> People {
    People::read(&ClickSource::find(name, None).unwrap(), name, None, seed).unwrap()
}

fn log(lines: &[&str]) -> Result<People, PeopleError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.tsv");
    std::fs::write(&path, format!("user\ttime\tpage\tcategories\n{}\n", lines.join("\n"))).unwrap();
    let source = ClickSource::find(path.to_str().unwrap(), None).unwrap();
    let taxonomy = Taxonomy::flat("own", [("1", "Skiing"), ("2", "Chess"), ("3", "Opera")]).unwrap();
    People::read(&source, "log", Some(ClickRules::new(taxonomy)), 1)
}

#[test]
fn people_are_in_one_part_each_and_have_two_interests() {
    let town = people("synth:clicks:users=600", 3);
    let parts = [Part::Train, Part::Validation, Part::Test];
    let all: Vec<u32> = parts.iter().flat_map(|&part| town.numbers(part).to_vec()).collect();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "nobody is in two parts");
    assert_eq!(all.len() + town.unseen + town.without_interests, 600);
    assert!(all.iter().all(|&person| town.interests(person).len() > 1));
    let [train, validation, test] = parts.map(|part| town.count(part));
    assert_eq!(train, (600 - town.without_interests).div_ceil(2));
    assert!(validation > test && test > 80, "{validation} {test}");
    let known: HashSet<u32> =
        town.numbers(Part::Train).iter().flat_map(|&person| town.interests(person)).copied().collect();
    let asked = town.numbers(Part::Test).iter().flat_map(|&person| town.interests(person));
    assert!(asked.copied().all(|row| known.contains(&row)), "what nobody in training has is not asked for");
    let again = people("synth:clicks:users=600", 3);
    assert_eq!(parts.map(|part| town.numbers(part)), parts.map(|part| again.numbers(part)));
    assert_ne!(town.numbers(Part::Test), people("synth:clicks:users=600", 4).numbers(Part::Test));
}

#[test]
fn of_a_hidden_interest_neither_row_nor_page_is_shown() {
    let town = people("synth:clicks:users=300", 3);
    let pages = town.pages(Text::Titles, 16).unwrap();
    let question = town.one_hidden(Part::Test, &pages).unwrap();
    let whole = town.all_interests(Part::Test, &pages).unwrap();
    let mut left_out = 0;
    for person in 0..whole.users() {
        let (shown, secret) = (question.shown.history(person), question.hidden.of(person)[0]);
        let mut together = [&*shown, &[secret]].concat();
        together.sort_unstable();
        assert_eq!(together, whole.of(person), "hidden and shown are all there is");
        assert!(shown.pages.iter().all(|(_, categories)| !categories.contains(&secret)));
        left_out += whole.history(person).pages.iter().count() - shown.pages.iter().count();
    }
    assert!(left_out > whole.users(), "{left_out}");
    let titles: Vec<&str> = town.recent(town.numbers(Part::Test)[0]).map(|(title, _)| title).collect();
    assert_eq!(titles.len(), whole.history(0).pages.iter().count());
}

#[test]
fn too_few_people_are_an_error_that_says_so() {
    let error = log(&["a\t1700000000\tx\t1", "b\t1700000000\tx\t2"]).unwrap_err().to_string();
    assert_eq!(error, "log: nobody of 2 people has two interests or more, one of which could be hidden");
    let source = ClickSource::find(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), None).unwrap();
    let error = People::read(&source, "log", None, 1).unwrap_err().to_string();
    assert_eq!(error, "log: a click log needs the taxonomy of its categories: name it by --taxonomy");
}

fn trained(
    name: &str,
    given: &[(&str, Value)],
    (people, before): (&People, Option<&People>),
) -> Result<TrainedLookalike, LookalikeError> {
    let model = registry::find(name).unwrap();
    let settings = model.settings(given.iter().cloned()).unwrap();
    let plan = LookalikePlan { model, settings: &settings, seed: 5, people, before, part: Part::Validation };
    train(&plan, &mut |_, _| Flow::Continue, Context::default())
}

const SMALL: [(&str, Value); 4] = [
    ("code", Value::Integer(6)),
    ("units", Value::Integer(4)),
    ("dim", Value::Integer(16)),
    ("epochs", Value::Integer(2)),
];

fn with(more: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
    SMALL.iter().chain(more).cloned().collect()
}

#[test]
fn figures_by_tier_make_up_those_of_all() {
    let town = people("synth:clicks:users=400", 3);
    let model = trained("lookalike-central", &with(&[]), (&town, None)).unwrap();
    let metrics = model.metrics(&town);
    let mean = |of: fn(&sottovoce_evaluate::HiddenInterestMetrics) -> f64| {
        let sum: f64 = metrics.by_tier.values().map(|tier| of(tier) * tier.people as f64).sum();
        sum / metrics.all.people as f64
    };
    assert_eq!(metrics.all.people, town.count(Part::Validation));
    assert!(metrics.by_tier.len() > 1);
    assert!((mean(|tier| tier.hit_at_4) - metrics.all.hit_at_4).abs() < 1e-12);
    assert!((mean(|tier| tier.taxonomy_distance) - metrics.all.taxonomy_distance).abs() < 1e-9);
    let lists = model.evaluate(&Protocol::all_unrated([4])).unwrap();
    assert!((lists.at[&4].hit_rate - metrics.all.hit_at_4).abs() < 1e-12, "two ways to count the same");
    let precisions = &metrics.precision_at_recall;
    assert!(precisions.iter().all(|&(_, precision)| precision > 0.0 && precision <= 1.0));
}

#[test]
fn suggestions_are_for_common_interests_and_ranked() {
    let town = people("synth:clicks:users=400:period=1", 3);
    let model = trained("lookalike-central", &with(&[]), (&town, None)).unwrap();
    let popularity = model.train.popularity();
    let most = (0..popularity.len()).max_by_key(|&row| (popularity[row], std::cmp::Reverse(row))).unwrap();
    let suggestions = model.suggestions(&town);
    assert_eq!((suggestions.len(), Some(suggestions[0].interest.as_str())), (3, town.catalog.title(most)));
    assert!(suggestions.iter().all(|one| one.suggested.is_sorted_by(|a, b| a.1 >= b.1) && one.suggested.len() == 6));
}

#[test]
fn replayed_people_have_two_interests_and_read_about_them() {
    let (now, before) = (people("synth:clicks:users=400:period=2", 3), people("synth:clicks:users=400:period=1", 3));
    let replay = with(&[("continual", Value::Word("replay".to_owned()))]);
    let model = trained("lookalike-central", &replay, (&now, Some(&before))).unwrap();
    let made_up = now.count(Part::Train) / 4;
    assert_eq!(model.train.users(), now.count(Part::Train) + made_up);
    for person in 0..made_up {
        let history = model.train.history(person);
        assert_eq!(history.items.len(), 2);
        assert!(history.pages.iter().all(|(_, about)| about.iter().any(|row| history.contains(row))));
    }
    let reading = (0..made_up).filter(|&person| !model.train.history(person).pages.is_empty()).count();
    assert!(2 * reading > made_up, "{reading} of {made_up} read");
    // One in five of those evaluated is from the earlier period.
    let (old, new) = (now.count(Part::Validation) / 4, now.count(Part::Validation));
    assert_eq!(model.question.shown.users(), old.min(before.count(Part::Validation)) + new);
    let same = trained("lookalike-central", &replay, (&now, Some(&before))).unwrap();
    assert_eq!(lists(&model.train), lists(&same.train), "the same people, whoever asks");
}

fn lists(people: &Histories) -> Vec<Vec<u32>> {
    people.iter().map(<[u32]>::to_vec).collect()
}

#[test]
fn merging_takes_earlier_people_and_refining_none() {
    let (now, before) = (people("synth:clicks:users=300:period=2", 3), people("synth:clicks:users=300:period=1", 3));
    let train = |how: &str| {
        let model =
            trained("lookalike-central", &with(&[("continual", Value::Word(how.to_owned()))]), (&now, Some(&before)));
        lists(&model.unwrap().train)
    };
    let (merged, refined) = (train("merge"), train("refine"));
    let earlier = now.count(Part::Train) / 4;
    assert_eq!(merged.len(), refined.len() + earlier);
    let first: Vec<&[u32]> = before.numbers(Part::Train).iter().map(|&person| before.interests(person)).collect();
    assert_eq!(merged[..earlier], first[..earlier]);
    assert_eq!(merged[earlier..], refined);
}

#[test]
fn what_does_not_go_together_is_refused_with_the_reason() {
    let town = people("synth:clicks:users=300", 3);
    let error = |result: Result<TrainedLookalike, LookalikeError>| match result {
        Ok(_) => panic!("it was accepted"),
        Err(error) => error.to_string(),
    };
    let alone = trained("lookalike-central", &with(&[("continual", Value::Word("replay".to_owned()))]), (&town, None));
    assert!(error(alone).starts_with("continual = replay goes on from earlier data, and there is none"));
    let other = log(&[
        "a\t1700000000\tx\t1|2",
        "b\t1700000000\ty\t1|2",
        "c\t1700000000\tx\t1|2",
        "d\t1700000000\tx\t1|2",
        "e\t1700000000\tx\t1|2",
    ]);
    let other = other.unwrap();
    let refine = with(&[("continual", Value::Word("refine".to_owned()))]);
    let different = trained("lookalike-central", &refine, (&town, Some(&other)));
    assert_eq!(error(different), "earlier and new data have different categories");
    let known_only = error(trained("bpr-mf", &[("epochs", Value::Integer(1))], (&town, None)));
    assert!(known_only.contains("cannot score people who were not in training"), "{known_only}");
}
