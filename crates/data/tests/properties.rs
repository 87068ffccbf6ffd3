//! What must hold of cleaning, parting, writing and fingerprints, whatever the data.

use proptest::prelude::*;
use sottovoce_core::{Catalog, Histories, Names};
use sottovoce_data::{
    CatalogRule, Cleaning, Format, Interactions, LoadOptions, Repeats, Split, SplitConfig, UserSample, clean,
    describe_interactions, fingerprint, load, load_bytes, split, split_with, write_parquet, write_split, write_tsv,
};
use std::collections::{BTreeMap, BTreeSet};

type Row = (u32, u32, u8, i64);

/// Loads rows through the TSV reader, so that numbering is canonical.
fn interactions(rows: &[Row]) -> Interactions {
    let mut text = "user\titem\trating\ttimestamp\n".to_owned();
    for (user, item, rating, time) in rows {
        text += &format!("u{user}\t{item}\t{rating}\t{time}\n");
    }
    load_bytes("rows", &[("rows.tsv", text.as_bytes())], &LoadOptions::default()).unwrap().interactions
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec((0u32..9, 0u32..14, 1u8..6, 0i64..40), 1..120)
}

/// Ids of each interaction with its rating and time, in input order.
fn plain(all: &Interactions) -> Vec<(String, String, f32, i64)> {
    let row = |row: usize| {
        let (user, item) = (&all.users[all.user[row] as usize], &all.catalog.ids[all.item[row] as usize]);
        (user.to_owned(), item.to_owned(), all.rating_at(row), all.time_at(row))
    };
    (0..all.len()).map(row).collect()
}

fn counts<'a>(keys: impl Iterator<Item = &'a String>) -> BTreeMap<&'a String, usize> {
    let mut counts = BTreeMap::new();
    keys.for_each(|key| *counts.entry(key).or_insert(0) += 1);
    counts
}

/// The k-core by its definition: take away whoever has too few until nobody has.
fn core_by_definition(mut rows: Vec<(String, String, f32, i64)>, k: usize) -> Vec<(String, String, f32, i64)> {
    loop {
        let (users, items) = (counts(rows.iter().map(|row| &row.0)), counts(rows.iter().map(|row| &row.1)));
        let kept: Vec<_> = rows.iter().filter(|row| users[&row.0] >= k && items[&row.1] >= k).cloned().collect();
        if kept.len() == rows.len() {
            return kept;
        }
        rows = kept;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn cleaning_agrees_with_its_definition(rows in rows(), k in 1usize..5, least in 1usize..7) {
        let all = interactions(&rows);
        let keep = Cleaning { repeats: Repeats::Keep, ..Cleaning::default() };
        let above: Vec<_> = plain(&all).into_iter().filter(|row| row.2 >= 3.0).collect();
        let (left, report) = clean(all.clone(), &Cleaning { threshold: Some(3.0), ..keep.clone() });
        prop_assert_eq!(plain(&left), above);
        prop_assert_eq!(report.before - report.below_threshold, report.after);
        let (core, _) = clean(all.clone(), &Cleaning { k_core: Some(k), ..keep.clone() });
        prop_assert_eq!(plain(&core), core_by_definition(plain(&all), k));
        let (active, report) = clean(all.clone(), &Cleaning { min_interactions: Some(least), ..keep });
        let lengths = plain(&all);
        let lengths = counts(lengths.iter().map(|row| &row.0));
        let expected: Vec<_> = plain(&all).into_iter().filter(|row| lengths[&row.0] >= least).collect();
        prop_assert_eq!(plain(&active), expected);
        prop_assert_eq!(report.users_dropped, all.users.len() - active.users.len());
    }

    #[test]
    fn cleaning_keeps_the_earliest_or_the_latest_of_repeated_pairs(rows in rows()) {
        let all = interactions(&rows);
        let before = plain(&all);
        for repeats in [Repeats::Earliest, Repeats::Latest] {
            let (once, report) = clean(all.clone(), &Cleaning { repeats, ..Cleaning::default() });
            let mut kept: BTreeMap<(String, String), (i64, usize)> = BTreeMap::new();
            for (place, row) in before.iter().cloned().enumerate() {
                let best = kept.entry((row.0, row.1)).or_insert((row.3, place));
                let this = (row.3, place);
                *best = if repeats == Repeats::Latest { (*best).max(this) } else { (*best).min(this) };
            }
            let places: BTreeSet<usize> = kept.values().map(|&(_, place)| place).collect();
            let expected: Vec<_> = places.iter().map(|&place| before[place].clone()).collect();
            prop_assert_eq!(plain(&once), expected);
            prop_assert_eq!(describe_interactions("x", Format::Delimited, &all).repeats, report.repeated);
        }
    }

    #[test]
    fn samples_of_users_are_nested_and_keep_whole_histories(
        rows in rows(), smaller in 0.01f64..1.0, more in 0.0f64..1.0, seed in 0u64..9,
    ) {
        let all = interactions(&rows);
        let sample = |share| {
            let user_sample = Some(UserSample { share, seed });
            clean(all.clone(), &Cleaning { repeats: Repeats::Keep, user_sample, ..Cleaning::default() })
        };
        let (small, report) = sample(smaller);
        let (large, _) = sample(smaller + (1.0 - smaller) * more);
        let expected = ((smaller * all.users.len() as f64).round() as usize).max(1);
        prop_assert_eq!((small.users.len(), report.sampled), (expected, Some((expected, all.users.len()))));
        prop_assert_eq!(report.before - report.outside_sample, report.after);
        let names = |some: &Interactions| -> BTreeSet<String> { some.users.iter().map(String::from).collect() };
        prop_assert!(names(&small).is_subset(&names(&large)));
        let kept: Vec<_> = plain(&all).into_iter().filter(|row| names(&small).contains(&row.0)).collect();
        prop_assert_eq!(plain(&small), kept);
        prop_assert_eq!(plain(&sample(1.0).0), plain(&all));
    }

    #[test]
    fn temporal_split_partitions_in_time_order(rows in rows(), share in 0.05f64..0.95, seed in 0u64..5, kind in 0..4) {
        let all = interactions(&rows);
        let how = [Split::Temporal(share), Split::Random(share), Split::Last, Split::Newest(share)][kind as usize];
        let parts = split(&all, how, Some(how), seed);
        let held = parts.validation.as_ref().unwrap();
        let mut without = 0;
        for user in 0..all.users.len() {
            let mine: Vec<usize> = (0..all.len()).filter(|&row| all.user[row] as usize == user).collect();
            let mut expected: Vec<_> = mine.iter().map(|&row| (all.time[row], all.item[row])).collect();
            let [train, validation, test] = [&parts.train, held, &parts.test].map(|part| pairs(part, user));
            prop_assert!(!train.is_empty());
            for part in [&train, &validation, &test] {
                prop_assert!(part.is_sorted_by_key(|pair| pair.0));
            }
            if kind != 1 {
                prop_assert!(train.last().map(|pair| pair.0) <= test.first().map(|pair| pair.0).or(Some(i64::MAX)));
                prop_assert!(validation.last().is_none_or(|last| test.first().is_none_or(|first| last.0 <= first.0)));
            }
            without += usize::from(test.is_empty());
            let mut found = [train, validation, test].concat();
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
        prop_assert_eq!(parts.without_test, without);
    }

    #[test]
    fn random_split_does_not_depend_on_other_users(rows in rows(), seed in 0u64..9) {
        let all = interactions(&rows);
        let alone: Vec<Row> = rows.iter().copied().filter(|row| row.0 == rows[0].0).collect();
        let alone = interactions(&alone);
        let name = &alone.users[0];
        let (all_parts, own) = (split(&all, Split::Random(0.6), None, seed), split(&alone, Split::Random(0.6), None, seed));
        let user = all.users.position(name).unwrap();
        let ids = |names: &Names, items: &[u32]| -> Vec<String> { names.select(items).iter().map(String::from).collect() };
        prop_assert_eq!(ids(&all.catalog.ids, all_parts.test.of(user)), ids(&alone.catalog.ids, own.test.of(0)));
    }

    #[test]
    fn fingerprint_detects_changes_but_not_row_order_of_users(rows in rows()) {
        let all = interactions(&rows);
        let mut by_user = rows.clone();
        by_user.sort_by_key(|row| row.0);
        prop_assert_eq!(fingerprint(&all), fingerprint(&interactions(&by_user)));
        let mut changed = rows.clone();
        changed[0].2 = changed[0].2 % 5 + 1;
        prop_assert_ne!(fingerprint(&all), fingerprint(&interactions(&changed)));
        let mut later = rows;
        later[0].3 += 1_000;
        prop_assert_ne!(fingerprint(&all), fingerprint(&interactions(&later)));
    }

    #[test]
    fn written_data_round_trips(
        rows in prop::collection::vec(("[^\t\n\r]{1,8}", "[^\t\n\r]{1,8}", any::<f32>(), any::<i32>()), 1..30),
        rated: bool,
        timed: bool,
        ending in prop::sample::select(vec!["tsv", "tsv.gz", "tsv.zst", "parquet"]),
    ) {
        let mut raw = Interactions::default();
        let number = |ids: &mut Names, id: &str| ids.position(id).unwrap_or_else(|| ids.push(id)) as u32;
        for (user, item, rating, time) in &rows {
            raw.user.push(number(&mut raw.users, user));
            raw.item.push(number(&mut raw.catalog.ids, item));
            raw.rating.extend((rated && !rating.is_nan()).then_some(rating.clamp(-1e30, 1e30) + 0.0));
            raw.time.extend(timed.then_some(i64::from(*time) * 3));
        }
        if raw.rating.len() != raw.user.len() {
            raw.rating.clear();
        }
        let (all, _) = clean(raw, &Cleaning { repeats: Repeats::Keep, ..Cleaning::default() });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("rows.{ending}"));
        if ending == "parquet" { write_parquet(&all, &path).unwrap() } else { write_tsv(&all, &path).unwrap() }
        let back = load(path.to_str().unwrap(), &LoadOptions::default()).unwrap();
        prop_assert_eq!(&back.interactions, &all);
        prop_assert_eq!(fingerprint(&back.interactions), fingerprint(&all));
        prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

fn pairs(part: &Histories, user: usize) -> Vec<(i64, u32)> {
    part.times_of(user).iter().copied().zip(part.of(user).iter().copied()).collect()
}

#[test]
fn a_sample_of_users_is_drawn_after_cleaning_and_changes_with_the_seed() {
    // 100 users with two items, and 100 with one, who are cleaned away first.
    let rows: Vec<Row> =
        (0..200).flat_map(|user| (0..1 + u32::from(user < 100)).map(move |item| (user, item, 5, 0))).collect();
    let sample = |seed| {
        let user_sample = Some(UserSample { share: 0.1, seed });
        clean(interactions(&rows), &Cleaning { min_interactions: Some(2), user_sample, ..Cleaning::default() })
    };
    let (one, report) = sample(1);
    assert_eq!((one.users.len(), one.len(), report.sampled), (10, 20, Some((10, 100))));
    assert_eq!(report.messages()[1], "180 interactions left out: the random sample has 10 of 100 users");
    assert_eq!(one, sample(1).0);
    assert_ne!(one.users, sample(2).0.users);
    assert_ne!(fingerprint(&one), fingerprint(&sample(2).0));
}

#[test]
fn shares_are_rounded_as_people_reckon() {
    let rows: Vec<Row> = (0..100).map(|item| (0, item, 5, i64::from(item))).collect();
    let sizes = |n: usize, share: f64| {
        let parts = split(&interactions(&rows[..n]), Split::Temporal(share), None, 0);
        (parts.train.interactions(), parts.test.interactions(), parts.without_test)
    };
    assert_eq!(sizes(5, 0.8), (4, 1, 0));
    assert_eq!(sizes(100, 0.29), (29, 71, 0));
    assert_eq!(sizes(9, 0.8), (7, 2, 0));
    assert_eq!(sizes(2, 0.1), (1, 1, 0));
    assert_eq!(sizes(1, 0.8), (1, 0, 1));
}

#[test]
fn the_last_is_tested_and_the_one_before_validates() {
    let all = interactions(&[(1, 7, 5, 30), (1, 8, 5, 10), (1, 9, 5, 20), (2, 7, 5, 1)]);
    let parts = split(&all, Split::Last, Some(Split::Last), 0);
    let validation = parts.validation.unwrap();
    assert_eq!((parts.train.of(0), validation.of(0), parts.test.of(0)), (&[1][..], &[2][..], &[0][..]));
    assert_eq!((parts.train.of(1), parts.test.of(1), parts.without_test), (&[0][..], &[][..], 1));
}

#[test]
fn equal_times_keep_their_input_order() {
    let all = interactions(&[(1, 9, 5, 10), (1, 3, 5, 10), (1, 5, 5, 10), (1, 1, 5, 9)]);
    let parts = split(&all, Split::Temporal(0.75), None, 0);
    assert_eq!((parts.train.of(0), parts.test.of(0)), (&[0, 3, 1][..], &[2][..]));
}

#[test]
fn the_newest_are_held_out_and_of_equal_times_the_first_in_the_file() {
    // Newest first, stable: 9, 3, 5 (time 10, order of the file), 1, 7; a fifth of five is one.
    let all = interactions(&[(1, 9, 5, 10), (1, 3, 5, 10), (1, 5, 5, 10), (1, 1, 5, 9), (1, 7, 5, 8)]);
    let ids = |items: &[u32]| -> Vec<String> { all.catalog.ids.select(items).iter().map(String::from).collect() };
    let parts = split(&all, Split::Newest(0.2), Some(Split::Newest(0.25)), 0);
    assert_eq!((ids(parts.test.of(0)), ids(parts.validation.unwrap().of(0))), (vec!["9".into()], vec!["3".into()]));
    assert_eq!(ids(parts.train.of(0)), ["7", "1", "5"], "oldest first");
    let sizes = |n: usize, share: f64| {
        let rows: Vec<Row> = (0..n as u32).map(|item| (0, item, 5, i64::from(item))).collect();
        let parts = split(&interactions(&rows), Split::Newest(share), None, 0);
        (parts.train.interactions(), parts.test.interactions(), parts.without_test)
    };
    // int(0.2 n) are held out, where `temporal:0.8` keeps floor(0.8 n) and holds out 5 of 21.
    assert_eq!(
        [sizes(4, 0.2), sizes(5, 0.2), sizes(21, 0.2), sizes(24, 0.2)],
        [(4, 0, 1), (4, 1, 0), (17, 4, 0), (20, 4, 0)]
    );
    assert_eq!((sizes(100, 0.29), sizes(1, 0.9)), ((71, 29, 0), (1, 0, 1)));
}

#[test]
fn the_catalog_of_the_training_part_leaves_out_items_that_nobody_has_in_training() {
    // Item 30 is in u2's test part only, item 20 in u1's test part and in u2's training part.
    let rows = [(1, 4, 5, 1), (1, 10, 5, 2), (1, 20, 5, 3), (2, 20, 4, 1), (2, 4, 4, 2), (2, 30, 4, 3), (3, 10, 3, 1)];
    let all = interactions(&rows);
    let how = SplitConfig { test: Split::Last, validation: None, relevant: None, catalog: CatalogRule::All, seed: 0 };
    let whole = split_with(&all, how);
    assert_eq!((whole.catalog.len(), whole.cold.items, whole.cold.test_items()), (4, 0, None));
    let parts = split_with(&all, SplitConfig { catalog: CatalogRule::Training, ..how });
    assert_eq!(parts.catalog.ids.iter().collect::<Vec<_>>(), ["4", "10", "20"]);
    assert_eq!((parts.cold.items, parts.cold.test_items()), (1, Some(&[0, 1, 0][..])));
    assert_eq!((parts.train.of(0), parts.test.of(0)), (&[0, 1][..], &[2][..]));
    assert_eq!((parts.train.of(1), parts.test.of(1)), (&[2, 0][..], &[][..]));
    assert_eq!((parts.test.ratings(), parts.train.times_of(1)), (&[5.0][..], &[1, 2][..]));
    assert_eq!(
        (parts.test.catalog_size(), parts.without_test),
        (3, 1),
        "u2 has a test item, though nobody can find it"
    );
    // Items of the validation part are items of the training part, relevant or not: one catalog for choosing settings
    // and for the test.
    let chosen = SplitConfig { validation: Some(Split::Last), catalog: CatalogRule::Training, ..how };
    let strict = split_with(&all, SplitConfig { relevant: Some(5.0), ..chosen });
    assert_eq!((&strict.catalog, strict.cold.items), (&parts.catalog, 1));
    let chosen = split_with(&all, chosen);
    assert_eq!((&chosen.catalog, &chosen.cold), (&parts.catalog, &parts.cold));
}

#[test]
fn splits_are_written_as_they_are_read() {
    for text in ["temporal:0.8", "random:0.65", "newest:0.2", "last"] {
        assert_eq!(text.parse::<Split>().unwrap().to_string(), text);
    }
    for wrong in ["temporal", "temporal:1", "temporal:0", "random:x", "first", "temporal:NaN"] {
        assert!(wrong.parse::<Split>().is_err(), "{wrong}");
    }
}

#[test]
fn written_split_can_be_loaded() {
    let all = interactions(&[(1, 7, 5, 30), (1, 8, 4, 10), (1, 9, 3, 20), (2, 7, 2, 1)]);
    let parts = split(&all, Split::Last, Some(Split::Last), 0);
    let folder = tempfile::tempdir().unwrap();
    write_split(&parts, folder.path(), "tsv").unwrap();
    for (file, rows) in [("train.tsv", "u1\t8\t4\t10\nu2\t7\t2\t1\n"), ("test.tsv", "u1\t7\t5\t30\n")] {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert_eq!(text, format!("user\titem\trating\ttimestamp\n{rows}"), "{file}");
    }
    let whole = load(folder.path().to_str().unwrap(), &LoadOptions::default()).unwrap();
    assert_eq!(whole.interactions.len(), all.len());
    assert!(write_split(&parts, folder.path(), "xlsx").is_err());
}

#[test]
fn ids_that_text_cannot_hold_are_refused_and_parquet_takes_them() {
    let all = Interactions {
        users: ["a\tb"].into_iter().collect(),
        catalog: Catalog::of_ids(["x"].into_iter().collect()),
        user: vec![0],
        item: vec![0],
        ..Interactions::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let error = write_tsv(&all, &folder.path().join("x.tsv")).unwrap_err().to_string();
    assert!(error.contains("user id `a\\tb`"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let path = folder.path().join("x.parquet");
    write_parquet(&all, &path).unwrap();
    assert_eq!(load(path.to_str().unwrap(), &LoadOptions::default()).unwrap().interactions, all);
}

#[test]
fn a_description_counts_what_is_there() {
    let all = interactions(&[(1, 7, 5, 30), (1, 7, 4, 10), (1, 9, 3, 20), (2, 7, 1, 1)]);
    let about = describe_interactions("small", Format::Delimited, &all);
    assert_eq!((about.users, about.items, about.interactions, about.repeats), (2, 2, 4, 1));
    assert!((about.density - 1.0).abs() < 1e-12 && about.timestamps);
    assert_eq!((about.history.min, about.history.median, about.history.max), (1, 1, 3));
    assert_eq!((about.popularity.head, about.popularity.max, about.popularity.once), (2, 3, 1));
    assert!((about.popularity.gini - 0.5).abs() < 1e-12, "{}", about.popularity.gini);
    let ratings = about.ratings.unwrap();
    assert_eq!((ratings.min, ratings.max, ratings.mean, ratings.distinct), (1.0, 5.0, 3.25, 4));
    assert_eq!(about.first_date.as_deref(), Some("1970-01-01T00:00:01Z"));
}
