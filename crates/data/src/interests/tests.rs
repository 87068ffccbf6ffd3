//! Click logs of all kinds, and what is left out of them.

use super::*;
use crate::error::Result;
use crate::town::Town;
#[cfg(feature = "parquet")]
use std::fs::File;

const TREE: &str = "id\tparent\tname\n1\t\tSports\n2\t1\tSkiing\n3\t2\tTelemark\n4\t\tPolitics\n5\t4\tTaxes\n";

fn rules() -> ClickRules {
    ClickRules::new(Taxonomy::parse("own", TREE.as_bytes()).unwrap())
}

fn read(text: &str, rules: &ClickRules) -> Result<Clicks> {
    clicks_of_bytes("log.tsv", text.as_bytes(), rules)
}

const HEADER: &str = "user\ttime\tpage\ttitle\tcategories\tentities\tseconds\n";

#[test]
fn counts_what_is_left_out_by_reason() {
    let log = [
        "anna\t1700000000\ta\tSlalom\tSkiing|Sports\tAlps;Tyrol\t40",
        "anna\t1700000100\tb\t雪\t3\t\t12.5",
        "anna\t1700000000\ta\tSlalom\tSkiing\t\t40",
        "anna\t1700000200\tc\t\tSkiing|Taxes\t\t40",
        "anna\t1700000200\td\t\tSkiing;Gambling\t\t40",
        "bea\t1700000200\te\t\tCurling\t\t40",
        "bea\t1700000200\tf\t\t\t\t40",
        "bea\t1700000200\tg\t\tSkiing\t\t-1",
        "bea\t1700000200\th\t\tSkiing\t\tNaN",
        "bea\t1700000200\ti\t\tSkiing\t\t1e9",
        "bea\t4000000000\tj\t\tSkiing\t\t1",
    ];
    let clicks = read(&(HEADER.to_owned() + &log.join("\n")), &rules()).unwrap();
    let expected = ClickReport {
        read: 11,
        used: 2,
        sensitive: 2,
        without_category: 1,
        unknown_category: 1,
        future: 1,
        absurd_seconds: 3,
        repeated: 1,
        bad_lines: 0,
        unknown: vec!["Curling".to_owned()],
    };
    assert_eq!(*clicks.report(), expected);
    let first = clicks.iter().next().unwrap();
    assert_eq!((first.categories, first.seconds, clicks.title(first.page)), (&[1, 0][..], Some(40.0), "Slalom"));
    assert_eq!(clicks.entities(first.page), ["Alps", "Tyrol"]);
    assert_eq!((clicks.title(1), clicks.now(), clicks.are_timed()), ("雪", 1_700_000_100, true));
}

#[test]
fn configures_what_is_sensitive_and_lifts_tiers() {
    let log = "user\ttime\tpage\tcategory\na\t2024-01-30\tp\tTaxes\na\t2024-01-30\tq\tTelemark\n";
    let used = |rules: &ClickRules| -> Vec<u32> {
        read(log, rules).unwrap().iter().flat_map(|click| click.categories.to_vec()).collect()
    };
    assert_eq!(used(&rules()), [2]);
    let with_more = "who\tuser\ttime\tpage\tcategory\turl\nx\ta\t2024-01-30\tq\tTelemark\ty\n";
    let columns = read(with_more, &rules()).unwrap().columns().to_string();
    assert_eq!(columns, "user = user, time = time, page = page, categories = category; ignored: who, url");
    assert_eq!(used(&rules().not_sensitive(["Politics"]).unwrap()), [4, 2]);
    assert_eq!(used(&rules().in_tier(Some(1))), [0]);
    let error = read(log, &rules().also_sensitive(["Sports"]).unwrap()).unwrap_err().to_string();
    assert!(error.contains("none of 2 clicks can be used: 2 are sensitive"), "{error}");
    assert!(rules().also_sensitive(["Curling"]).is_err());
    // Without a column of seconds nothing counts as clicked by accident.
    let clicks = read(log, &rules()).unwrap();
    assert!(!clicks.are_timed());
    assert_eq!(Interests::score(&clicks).interested(0).collect::<Vec<_>>(), [2]);
}

#[test]
fn reads_json_lines_with_lists_and_commas() {
    let json = "{\"user\": 7, \"timestamp\": 1700000000000, \"url\": \"a\", \"categories\": [\"Skiing\", 1], \"dwell\": 11}\n\
                {\"user\": 7, \"timestamp\": 1700000000001, \"url\": \"b\", \"categories\": \"Skiing|1\", \"dwell\": null}\n";
    let clicks = read(json, &rules()).unwrap();
    let columns = "user = user, time = timestamp, page = url, categories = categories, seconds = dwell";
    assert_eq!(clicks.columns().to_string(), columns);
    let all: Vec<_> = clicks.iter().map(|click| (click.time, click.categories.to_vec(), click.seconds)).collect();
    assert_eq!(all, [(1_700_000_000, vec![1, 0], Some(11.0)), (1_700_000_000, vec![1, 0], None)]);
    let csv = "user,time,page,title,category\nx,1700000000,a,\"Snow, more snow\",Skiing\n";
    assert_eq!(read(csv, &rules()).unwrap().title(0), "Snow, more snow");
}

#[cfg(feature = "parquet")]
#[test]
fn reads_parquet_with_lists_and_nulls() {
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    let schema = "message clicks { required binary user (UTF8); required int64 time; required binary page (UTF8);
        required group categories (LIST) { repeated group list { required binary element (UTF8); } }
        optional double seconds; }";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clicks.parquet");
    let schema = parse_message_type(schema).unwrap().into();
    let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let texts = |all: &[&'static str]| all.iter().map(|text| ByteArray::from(*text)).collect::<Vec<_>>();
    for index in 0..5 {
        let mut column = group.next_column().unwrap().unwrap();
        match index {
            1 => column.typed::<Int64Type>().write_batch(&[1_700_000_000_000, 1_700_000_001_000], None, None),
            3 => {
                let (values, levels) = (texts(&["Skiing", "1", "Telemark"]), [0, 1, 0]);
                column.typed::<ByteArrayType>().write_batch(&values, Some(&[1, 1, 1]), Some(&levels))
            }
            4 => column.typed::<DoubleType>().write_batch(&[40.0], Some(&[1, 0]), None),
            _ => column.typed::<ByteArrayType>().write_batch(&texts(&["a", "b"]), None, None),
        }
        .unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    let clicks = read_clicks(&path, &rules()).unwrap();
    let all: Vec<_> = clicks.iter().map(|click| (click.time, click.categories.to_vec(), click.seconds)).collect();
    assert_eq!(all, [(1_700_000_000, vec![1, 0], Some(40.0)), (1_700_000_001, vec![2], None)]);
    // A file that is cut off is an error, not a panic.
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = read_clicks(&path, &rules()).unwrap_err().to_string();
    assert!(error.contains("clicks.parquet") && error.contains("Parquet"), "{error}");
}

#[test]
fn scores_as_of_a_moment() {
    let day = 86_400;
    let mut log = "user\ttime\tpage\tcategory\tseconds\n".to_owned();
    for visit in 0..6 {
        log += &format!("a\t{}\tp{visit}\tSkiing\t2\n", 1_700_000_000 - visit * day);
    }
    let rules = rules().at(Some(1_700_000_000 + 7 * day));
    let clicks = read(&log, &rules).unwrap();
    let interests = Interests::score(&clicks);
    let skiing = interests.of(0)[0];
    assert_eq!((skiing.recency, skiing.frequency, skiing.seconds, skiing.score()), (2, 2, Some(12.0), 4));
    // What happened after the moment is in the future.
    let early = read(&log, &rules.at(Some(1_700_000_000 - 1))).unwrap();
    assert_eq!(early.report().future, 1);
}

#[test]
fn names_what_is_wrong_and_where() {
    let cases = [
        ("", "the file is empty"),
        ("user\ttime\tpage\n", "no column categories; the columns are: user, time, page"),
        (
            "user\ttime\tpage\tcategory\na\tnow\tp\tSkiing\n",
            "line 2, field time: expected a number or a date, found `now`",
        ),
        ("user\ttime\tpage\tcategory\n\t5\tp\tSkiing\n", "line 2, field user: expected an id"),
        ("user\ttime\tpage\tcategory\na\t5\tSkiing\n", "line 2, field row: expected 4 fields, not 3"),
        ("{\"user\": 1\n", "line 1, field object: expected a JSON object"),
        ("{\"user\": 1, \"time\": 5, \"page\": 1}\n", "line 1, field categories: expected a value"),
        ("user\ttime\tpage\tcategory\na\t5\tp\tCurling\n", "1 of unknown categories (such as Curling)"),
    ];
    for (text, expected) in cases {
        let error = read(text, &rules()).unwrap_err().to_string();
        assert!(error.contains("log.tsv") && error.contains(expected), "{error}");
    }
    let text = "user\ttime\tpage\tcategory\na\tnow\tp\tSkiing\na\t5\tp\tSkiing\n";
    let clicks = read(text, &rules().skipping_bad_lines(true)).unwrap();
    assert_eq!((clicks.report().bad_lines, clicks.report().used), (1, 1));
}

#[test]
fn a_towns_page_views_are_clicks() {
    let town = Town::build(&"synth:town:users=60:seed=3".parse().unwrap()).unwrap();
    let rules = ClickRules::new(Taxonomy::town());
    let clicks = town_clicks(&town, &rules).unwrap();
    assert!(clicks.report().sensitive > 0 && clicks.report().unknown_category == 0);
    assert!(clicks.iter().all(|click| click.categories.iter().all(|&category| !rules.is_sensitive(category))));
    let interests = Interests::score(&clicks);
    // People are interested in what the town says they care for more often than in anything else.
    let (mut hits, mut all) = (0, 0);
    for (person, id) in (0..interests.people()).zip(clicks.people().iter()) {
        let truth = town.interests(id.parse().unwrap());
        for category in interests.interested(person) {
            let topic: u32 = rules.taxonomy().categories()[category as usize].id.parse().unwrap();
            hits += usize::from(truth.contains(&topic));
            all += 1;
        }
    }
    assert!(all > 40 && 10 * hits > 8 * all, "{hits} of {all}");
}

#[test]
fn ones_own_log_needs_no_column_of_people_and_may_not_name_two() {
    let own = rules().of_one_person();
    let log = "time\tpage\tcategories\n1700000000\ta\tSkiing\n1700000001\tb\tSports\n";
    assert!(read(log, &rules()).unwrap_err().to_string().contains("user"));
    let clicks = read(log, &own).unwrap();
    assert_eq!((clicks.people().len(), clicks.report().used), (1, 2));
    let json = r#"{"time": 1700000000, "page": "a", "categories": ["Skiing"]}"#;
    assert_eq!(read(json, &own).unwrap().people().len(), 1);
    let two = "user\ttime\tpage\tcategories\nx\t1700000000\ta\tSkiing\ny\t1700000001\tb\tSports\n";
    let error = read(two, &own).unwrap_err().to_string();
    assert!(error.contains("line 3") && error.contains("one person's own log"), "{error}");
}

#[test]
fn without_sensitive_branches_unknown_categories_are_taken_for_sensitive() {
    let catalog = Taxonomy::flat("catalog", [("2", "Skiing"), ("3", "Telemark")]).unwrap();
    let log = "user\ttime\tpage\tcategories\nx\t1700000000\ta\tSkiing|5\nx\t1700000001\tb\t3\n";
    let lenient = read(log, &ClickRules::new(catalog.clone())).unwrap();
    let strict = read(log, &ClickRules::new(catalog).known_categories_only()).unwrap();
    assert_eq!((lenient.report().used, strict.report().used, strict.report().unknown_category), (2, 1, 1));
    assert!(Taxonomy::flat("catalog", [("2", "a"), ("2", "b")]).is_err());
}
