//! The synthetic town: is it the same every time, well formed, and like real data?

use sottovoce_core::{Histories, Names};
use sottovoce_data::town::taxonomy::{LEAVES, TOPICS, topic_name};
use sottovoce_data::town::{CheckIn, FEWEST, READING_DAYS, START, Town, TownError};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

fn town(name: &str) -> Town {
    Town::build(&name.parse().unwrap()).unwrap()
}

fn checkins(town: &Town, user: usize) -> Vec<CheckIn> {
    let mut visits = Vec::new();
    town.checkins(user, &mut visits);
    visits
}

/// Everyone's history with timestamps.
fn histories(town: &Town) -> Histories {
    let all = town.collect();
    Histories::from_columns(all.offsets, all.place, Vec::new(), all.time, town.places().len()).unwrap()
}

fn all_bytes(folder: &std::path::Path) -> Vec<u8> {
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names.iter().flat_map(|path| std::fs::read(path).unwrap()).collect()
}

fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

#[test]
fn a_small_town_is_the_same_for_all_time() {
    let folder = tempfile::tempdir().unwrap();
    town("synth:town:users=60:seed=7").write(&folder.path().join("town"), |_| {}).unwrap();
    let hash = blake3::hash(&all_bytes(&folder.path().join("town"))).to_hex().to_string();
    assert_eq!(hash, FIXED, "towns changed: every result on one changes with them");
}
const FIXED: &str = "46ac4e35ac0b8d20a0efc546c5d3c31d9d1434c32faecdfd16e728a4adc3f72f";

#[test]
fn threads_make_no_difference() {
    let town = town("synth:town:users=700");
    let alone = with_threads(1, || town.collect());
    assert_eq!(alone, with_threads(3, || town.collect()));
    assert_eq!(alone.offsets.len(), 701);
}

#[test]
fn a_resident_is_the_same_alone_in_a_crowd_and_in_another_crowd() {
    let (small, large) = (town("synth:town:users=1000"), town("synth:town:users=9000"));
    let all = histories(&small);
    for user in [0, 17, 999] {
        let alone = checkins(&large, user);
        assert_eq!(alone, checkins(&small, user));
        assert!(alone.iter().map(|visit| visit.place).eq(all.of(user).iter().copied()));
        assert!(alone.iter().map(|visit| visit.time).eq(all.times_of(user).iter().copied()));
    }
    let (mut here, mut there) = (Vec::new(), Vec::new());
    small.reading(3, &mut here);
    large.reading(3, &mut there);
    assert_eq!(here, there);
}

#[test]
fn seeds_make_different_towns() {
    let (one, two) = (town("users=50:seed=1"), town("users=50:seed=2"));
    assert_ne!(one.collect(), two.collect());
    assert_ne!(one.places()[5].title, two.places()[5].title);
}

#[test]
fn checkins_are_in_order_in_time_and_in_open_places() {
    let town = town("synth:town:users=400:seed=5");
    assert_eq!(town.end() - START, 730 * 86_400);
    for user in 0..town.users() {
        let visits = checkins(&town, user);
        assert!(visits.len() >= FEWEST);
        assert!(visits.is_sorted_by_key(|visit| visit.time));
        let joined = town.resident(user).joined;
        for visit in visits {
            assert!((START.max(joined)..town.end()).contains(&visit.time));
            assert!(town.places()[visit.place as usize].opened <= visit.time);
        }
    }
}

#[test]
fn extreme_towns_are_built() {
    for name in [
        "users=50:places=100:groups=64:districts=64:days=14:checkins=500:repeat=0:drift=1:taste=3",
        "users=50:places=100:pages=100:groups=1:districts=1:checkins=10:views=1:repeat=0.9:drift=0:taste=0",
    ] {
        let town = town(name);
        let all = town.collect();
        assert!(all.user.len() >= 50 * FEWEST, "{name}");
        let mut views = Vec::new();
        town.reading(49, &mut views);
        assert!(!views.is_empty(), "{name}");
        assert!(town.write_ntriples(std::io::sink()).unwrap() > 1000);
    }
}

#[test]
fn twenty_thousand_are_streamed_without_being_held() {
    static LIVE: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    struct Held(usize);
    impl Held {
        fn new(residents: usize) -> Self {
            MOST.fetch_max(LIVE.fetch_add(residents, Ordering::SeqCst) + residents, Ordering::SeqCst);
            Held(residents)
        }
    }
    impl Drop for Held {
        fn drop(&mut self) {
            LIVE.fetch_sub(self.0, Ordering::SeqCst);
        }
    }
    let town = town("synth:town:users=100000");
    let mut seen = 0;
    let done: Result<(), ()> = town.stream(
        |residents| Held::new(residents.len()),
        |held| {
            seen += held.0;
            Ok(())
        },
    );
    assert!(done.is_ok());
    assert_eq!(seen, 100_000);
    let most = MOST.load(Ordering::SeqCst);
    assert!(most <= 16_384, "{most} residents were held at once");
    let rows = self::town("synth:town:users=20000").write_checkins(std::io::sink(), |_| {}).unwrap();
    assert!((600_000..840_000).contains(&rows), "{rows}");
}

#[test]
fn streaming_stops_at_the_first_error() {
    let mut calls = 0;
    let failed = town("synth:town:users=5000").stream(
        |residents| residents.start,
        |first| {
            calls += 1;
            if first >= 512 { Err("full") } else { Ok(()) }
        },
    );
    assert_eq!((failed, calls), (Err("full"), 3));
}

#[test]
fn popularity_and_history_lengths_look_like_real_data() {
    let histories = histories(&town("synth:town:users=2000"));
    let mut popularity = histories.popularity();
    popularity.sort_unstable_by(|a, b| b.cmp(a));
    let slope = log_slope(&popularity[9..500]);
    assert!((-1.0..-0.5).contains(&slope), "Zipf slope {slope}");
    let total: u32 = popularity.iter().sum();
    let head = f64::from(popularity[..200].iter().sum::<u32>()) / f64::from(total);
    assert!((0.4..0.6).contains(&head), "the top tenth has {head}");

    let mut lengths: Vec<usize> = histories.iter().map(<[u32]>::len).collect();
    lengths.sort_unstable();
    let mean = histories.interactions() as f64 / 2000.0;
    assert!((33.0..39.0).contains(&mean), "{mean}");
    assert!(lengths[1980] > 6 * lengths[1000], "no long tail: {} against {}", lengths[1980], lengths[1000]);

    let distinct: usize = histories.iter().map(|row| row.iter().collect::<HashSet<_>>().len()).sum();
    let repeats = 1.0 - distinct as f64 / histories.interactions() as f64;
    assert!((0.12..0.22).contains(&repeats), "{repeats}");
}

/// Least-squares slope of log count against log rank; the first count has rank 10.
fn log_slope(counts: &[u32]) -> f64 {
    let points: Vec<(f64, f64)> =
        counts.iter().enumerate().map(|(index, &count)| (((index + 10) as f64).ln(), f64::from(count).ln())).collect();
    let n = points.len() as f64;
    let mean = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / n, sum.1 + point.1 / n));
    let (mut cross, mut square) = (0.0, 0.0);
    for (x, y) in points {
        cross += (x - mean.0) * (y - mean.1);
        square += (x - mean.0) * (x - mean.0);
    }
    cross / square
}

/// How often someone visited each category between two moments of the period (0 to 1).
fn visited_categories(town: &Town, user: usize, from: f64, until: f64) -> [f64; LEAVES] {
    let mut counts = [0.0; LEAVES];
    let length = (town.end() - START) as f64;
    for visit in checkins(town, user) {
        let moment = (visit.time - START) as f64 / length;
        if (from..until).contains(&moment) {
            counts[town.places()[visit.place as usize].category as usize] += 1.0;
        }
    }
    counts
}

fn add(to: &mut [f64; LEAVES], what: &[f64; LEAVES]) {
    for (sum, value) in to.iter_mut().zip(what) {
        *sum += value;
    }
}

fn cosine(a: &[f64; LEAVES], b: &[f64; LEAVES]) -> f64 {
    let dot = |a: &[f64; LEAVES], b: &[f64; LEAVES]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(1e-12)
}

#[test]
fn groups_can_be_told_from_visits() {
    let town = town("synth:town:users=1200:drift=0");
    let mut centres = vec![[0.0; LEAVES]; town.groups().len()];
    for user in 0..600 {
        let group = town.resident(user).group as usize;
        add(&mut centres[group], &visited_categories(&town, user, 0.0, 1.0));
    }
    let told = (600..1200).filter(|&user| {
        let own = visited_categories(&town, user, 0.0, 1.0);
        let best = (0..centres.len()).max_by(|&a, &b| cosine(&own, &centres[a]).total_cmp(&cosine(&own, &centres[b])));
        best == Some(town.resident(user).group as usize)
    });
    let share = told.count() as f64 / 600.0;
    assert!((0.4..0.98).contains(&share), "{share} of the groups recovered; chance is 0.08");
}

#[test]
fn a_resident_visits_what_their_taste_says() {
    let town = town("synth:town:users=300:drift=0:checkins=200");
    let (mut own, mut others) = (0.0, 0.0);
    for user in 0..100 {
        let visits = visited_categories(&town, user, 0.0, 1.0);
        let taste = |of: usize| town.taste(&town.resident(of), 0.0).map(f64::from);
        assert!((taste(user).iter().sum::<f64>() - 1.0).abs() < 1e-4);
        own += cosine(&visits, &taste(user)) / 100.0;
        others += cosine(&visits, &taste(user + 100)) / 100.0;
    }
    assert!(own > others + 0.2, "{own} {others}");
}

#[test]
fn tastes_drift_only_where_asked_to() {
    // How much nearer visits are to the taste of the next group late than early.
    let shift = |name: &str| {
        let town = town(name);
        let nearer = |from, until| {
            (0..800)
                .map(|user| {
                    let resident = town.resident(user);
                    let visits = visited_categories(&town, user, from, until);
                    let liking = |group: u32| cosine(&visits, &town.groups()[group as usize].taste().map(f64::from));
                    (liking(resident.next_group) - liking(resident.group)) / 800.0
                })
                .sum::<f64>()
        };
        nearer(0.75, 1.0) - nearer(0.5, 0.75)
    };
    let (without, much) = (shift("synth:town:users=1000:drift=0"), shift("synth:town:users=1000:drift=1"));
    assert!(without.abs() < 0.03 && much > 0.06, "{without} {much}");
    let town = town("synth:town:users=100:drift=0.6");
    let (resident, first) = (town.resident(3), town.taste(&town.resident(3), 0.0));
    assert_ne!(first, town.taste(&resident, 1.0));
}

#[test]
fn reading_shows_the_group() {
    let town = town("synth:town:users=600:drift=0:seed=4");
    let mut views = Vec::new();
    let mut profiles = Vec::new();
    for user in 0..town.users() {
        town.reading(user, &mut views);
        assert!(!views.is_empty() && views.is_sorted_by_key(|view| view.time));
        let mut seconds = [0.0; TOPICS];
        for view in &views {
            assert!(view.time < town.end() && view.time >= town.end() - i64::from(READING_DAYS) * 86_400);
            assert!((1.0..=3600.0).contains(&view.dwell));
            seconds[town.pages()[view.page as usize].topic as usize] += f64::from(view.dwell);
        }
        let favourite = (0..TOPICS).max_by(|&a, &b| seconds[a].total_cmp(&seconds[b])).unwrap();
        profiles.push((town.resident(user).group, favourite, town.interests(user)));
    }
    let interested = profiles.iter().filter(|(_, favourite, own)| own.contains(&(*favourite as u32))).count();
    assert!(interested > 550, "{interested} of 600 read most about an interest");
    let (mut alike, mut unlike) = ((0, 0), (0, 0));
    for (index, (group, favourite, _)) in profiles.iter().enumerate() {
        for (other, best, _) in &profiles[..index] {
            let tally = if group == other { &mut alike } else { &mut unlike };
            tally.0 += usize::from(favourite == best);
            tally.1 += 1;
        }
    }
    let (within, across) = (alike.0 as f64 / alike.1 as f64, unlike.0 as f64 / unlike.1 as f64);
    assert!(within > 1.5 * across, "{within} {across}");
}

#[test]
fn titles_are_distinct_and_pages_speak_of_their_topic() {
    let town = town("synth:town:users=200");
    let titles: HashSet<_> = town.places().iter().map(|place| place.title.as_str()).collect();
    assert_eq!(titles.len(), town.places().len());
    for page in town.pages() {
        let topic = topic_name(page.topic as usize).to_lowercase();
        assert!(page.title.to_lowercase().contains(&topic), "{}: {topic}", page.title);
    }
}

#[test]
fn the_catalog_has_titles_and_both_levels_of_categories() {
    let town = town("synth:town:users=80");
    let catalog = town.catalog();
    assert_eq!((catalog.len(), town.user_names().len()), (town.places().len(), 80));
    assert_eq!(catalog.title(3), Some(town.places()[3].title.as_str()));
    let categories = catalog.categories.unwrap();
    let names: &Names = categories.names();
    let cafe = town.places().iter().position(|place| &names[place.category as usize] == "Café").unwrap();
    let own: Vec<_> = categories.of(cafe).iter().map(|&category| &names[category as usize]).collect();
    assert_eq!(own, ["Café", "Drinks"]);
}

/// Subject, predicate and object of a line of N-Triples, or what is wrong with it.
fn statement(line: &str) -> Result<(&str, &str, &str), String> {
    let wrong = |what: &str| format!("{what}: {line}");
    let body = line.strip_suffix(" .").ok_or_else(|| wrong("no full stop"))?;
    let mut parts = body.splitn(3, ' ');
    let (Some(subject), Some(predicate), Some(object)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wrong("not three parts"));
    };
    let is_iri = |text: &str| {
        text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).is_some_and(|iri| {
            iri.starts_with("http://") && !iri.contains(['<', '>', '"', ' ', '{', '}', '|', '^', '`', '\\'])
        })
    };
    let is_literal = object
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix("\"@en"))
        .is_some_and(|text| !text.replace("\\\"", "").contains('"'));
    match is_iri(subject) && is_iri(predicate) && (is_iri(object) || is_literal) {
        true => Ok((subject, predicate, object)),
        false => Err(wrong("not an N-Triples statement")),
    }
}

#[test]
fn the_graph_is_well_formed_and_leads_two_hops_far() {
    let town = town("synth:town:users=150");
    let mut bytes = Vec::new();
    let count = town.write_ntriples(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let statements: Vec<_> = text.lines().map(|line| statement(line).unwrap()).collect();
    assert_eq!(statements.len(), count);
    assert_eq!(statements.iter().collect::<HashSet<_>>().len(), count, "a statement is made twice");

    let named: HashSet<_> =
        statements.iter().filter(|(_, how, _)| how.ends_with("#label>")).map(|(what, ..)| *what).collect();
    let links: Vec<_> = statements.iter().filter(|(_, how, _)| how.contains("town.example")).collect();
    assert!(links.iter().all(|(from, _, to)| named.contains(from) && named.contains(to)));

    let from = |thing: &str| links.iter().filter(|link| link.0 == thing).map(|link| link.2).collect::<Vec<_>>();
    for place in 0..town.places().len() {
        let near = from(&format!("<http://town.example/place/{place}>"));
        assert!(near.len() >= 6, "{near:?}");
        let far: HashSet<_> = near.iter().flat_map(|thing| from(thing)).collect();
        assert!(far.iter().any(|thing| thing.contains("main-category")), "{far:?}");
    }
}

#[test]
fn a_folder_appears_whole_or_not_at_all() {
    let base = tempfile::tempdir().unwrap();
    let town = town("synth:town:users=300");
    let folder = base.path().join("invented");
    let mut told = Vec::new();
    let written = town.write(&folder, |users| told.push(users)).unwrap();
    assert_eq!(told, [256, 300]);
    let rows = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap().lines().count() - 1;
    assert_eq!((rows("checkins.tsv"), rows("reading.tsv")), (written.checkins, written.views));
    assert_eq!(rows("graph.nt") + 1, written.statements);
    assert_eq!((rows("residents.tsv"), rows("places.tsv"), rows("pages.tsv")), (300, 1095, 1095));
    assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 1);

    assert!(matches!(town.write(&folder, |_| {}), Err(TownError::Exists(..))));
    let impossible = folder.join("town.txt").join("inside");
    let error = town.write(&impossible, |_| {}).unwrap_err().to_string();
    assert!(error.contains("town.txt"), "{error}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 7);
}
