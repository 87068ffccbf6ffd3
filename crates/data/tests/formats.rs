//! Every format loads as what it is, from memory, with the titles and categories that lie beside it.

use sottovoce_data::{DataError, Dataset, Format, LoadOptions, load, load_bytes};
use sottovoce_testing::mutation::{Case, Seed, seeds};

fn load_case(case: &Case, options: &LoadOptions) -> Result<Dataset, DataError> {
    let files: Vec<(&str, &[u8])> = case.files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
    load_bytes("case", &files, options)
}

fn text(name: &str, text: &str) -> Result<Dataset, DataError> {
    load_bytes("case", &[(name, text.as_bytes())], &LoadOptions::default())
}

fn refusal(name: &str, content: &str) -> String {
    match text(name, content) {
        Ok(set) => panic!("loaded as {:?}", set.interactions),
        Err(error) => error.to_string(),
    }
}

fn seed_of(format: Format) -> Seed {
    seeds().into_iter().find(|seed| seed.format == format).unwrap()
}

fn titles(set: &Dataset) -> Vec<&str> {
    (0..set.interactions.catalog.len()).map(|item| set.interactions.catalog.title(item).unwrap_or("-")).collect()
}

fn categories(set: &Dataset, item: usize) -> Vec<&str> {
    let categories = set.interactions.catalog.categories.as_ref().unwrap();
    categories.of(item).iter().map(|&category| &categories.names()[category as usize]).collect()
}

#[test]
fn every_example_loads_as_its_format_with_its_counts() {
    for seed in seeds() {
        let set = load_case(&seed.case, &LoadOptions::default()).unwrap_or_else(|error| panic!("{error}\n{seed:?}"));
        let all = &set.interactions;
        let name = &seed.case.files[0].0;
        assert_eq!(set.format, seed.format, "{name}");
        assert_eq!((all.users.len(), all.catalog.len(), all.len()), seed.counts, "{name}");
        assert_eq!(set.report.bad.skipped, 0);
    }
}

#[test]
fn movielens_titles_are_latin1_and_genres_named() {
    let set = load_case(&seed_of(Format::MovieLens100k).case, &LoadOptions::default()).unwrap();
    assert_eq!(titles(&set), ["Misérables, Les (1995)", "L.A. Confidential (1997)"]);
    assert_eq!(categories(&set, 0), ["Action", "Adventure"]);
    assert_eq!((categories(&set, 1), set.report.latin1), (vec!["unknown"], 1));
    let set = load_case(&seed_of(Format::MovieLens1m).case, &LoadOptions::default()).unwrap();
    assert_eq!(titles(&set), ["-", "James and the Giant Peach (1996)", "Léon"]);
    assert_eq!(set.report.only_described, 1);
    let set = load_case(&seed_of(Format::MovieLens20m).case, &LoadOptions::default()).unwrap();
    assert_eq!(titles(&set)[1], "City of Lost \"Children\", The (1995)");
    assert_eq!((categories(&set, 0), categories(&set, 1)), (vec!["Adventure", "Fantasy"], vec![]));
}

#[test]
fn check_ins_have_categories_and_moments() {
    let set = load_case(&seed_of(Format::Foursquare).case, &LoadOptions::default()).unwrap();
    assert_eq!(set.interactions.time, [1_333_476_009, 1_333_476_025, 1_333_562_409]);
    assert_eq!((categories(&set, 0), categories(&set, 1)), (vec!["Café"], vec!["Bridge"]));
    let set = load_case(&seed_of(Format::FoursquareGlobal).case, &LoadOptions::default()).unwrap();
    assert_eq!((categories(&set, 0), categories(&set, 1)), (vec![], vec!["Train Station"]));
}

#[test]
fn lastfm_has_names_tags_and_artists_without_a_number() {
    let set = load_case(&seed_of(Format::LastFm2k).case, &LoadOptions::default()).unwrap();
    assert_eq!((titles(&set)[1], categories(&set, 0)), ("Morcheeba ü", vec!["new wave"]));
    assert_eq!(set.interactions.rating, [13_883.0, 11_690.0, 1.0]);
    let set = load_case(&seed_of(Format::LastFm360k).case, &LoadOptions::default()).unwrap();
    assert_eq!(&set.interactions.catalog.ids[1], "die Ärzte");
    assert_eq!(titles(&set)[0], "betty blowtorch");
}

#[test]
fn amazon_columns_are_told_by_their_ids_and_milliseconds_become_seconds() {
    let swapped = seeds().into_iter().find(|seed| seed.case.files[0].0 == "Gift_Cards.csv").unwrap();
    let set = load_case(&swapped.case, &LoadOptions::default()).unwrap();
    assert_eq!((&set.interactions.users[0], &set.interactions.catalog.ids[0]), ("A3G8U1G1V082SN", "B001GXRQW0"));
    let newest = seeds().into_iter().find(|seed| seed.case.files[0].0 == "All_Beauty.jsonl").unwrap();
    let set = load_case(&newest.case, &LoadOptions::default()).unwrap();
    assert_eq!(set.interactions.time, [1_588_687_728, 1_588_615_855]);
    assert_eq!(&set.interactions.catalog.ids[0], "B00YQ6X8EA");
    assert!(set.report.remarks[0].contains("milliseconds"), "{:?}", set.report);
}

#[test]
fn other_formats_keep_their_particulars() {
    let set = load_case(&seed_of(Format::YahooMovies).case, &LoadOptions::default()).unwrap();
    assert_eq!((set.interactions.rating.clone(), titles(&set)[0]), (vec![1.0, 4.0, 5.0], "Some Film (2001)"));
    let set = load_case(&seed_of(Format::LibraryThing).case, &LoadOptions::default()).unwrap();
    assert_eq!((set.interactions.rating, set.interactions.time), (vec![5.0, 3.5], vec![1_194_393_600, 1_333_756_800]));
    let set = load_case(&seed_of(Format::MsWeb).case, &LoadOptions::default()).unwrap();
    assert_eq!((&set.interactions.users[0], titles(&set)[0], set.report.only_described), ("data10001", "regwiz", 1));
    let set = load_case(&seed_of(Format::RecBole).case, &LoadOptions::default()).unwrap();
    assert_eq!((titles(&set)[1], categories(&set, 1)), ("L.A. Confidential", vec!["Crime", "Film-Noir"]));
    let set = load_case(&seed_of(Format::Sequences).case, &LoadOptions::default()).unwrap();
    assert_eq!((set.interactions.item.clone(), categories(&set, 3)), (vec![0, 1, 2, 2, 3, 1], vec!["6"]));
}

#[test]
fn quoted_fields_dates_and_given_columns() {
    let set = text("a.csv", "\"date\";\"uid\";\"song\"\n\"2012-04-03\";\"a;b\";\"x \"\"y\"\"\"\n").unwrap();
    assert_eq!((&set.interactions.users[0], &set.interactions.catalog.ids[0]), ("a;b", "x \"y\""));
    assert_eq!(set.interactions.time, [1_333_411_200]);
    let options = LoadOptions { columns: Some("user=2,item=0,time=3".parse().unwrap()), ..LoadOptions::default() };
    let set = load_bytes("c", &[("x.csv", b"song,x,anna,1700000000,9\nfuga,y,anna,1700000001,9\n")], &options).unwrap();
    assert_eq!((&set.interactions.users[0], &set.interactions.catalog.ids[1]), ("anna", "song"));
    let options = LoadOptions { columns: Some("user=who,item=what".parse().unwrap()), ..LoadOptions::default() };
    let set = load_bytes("c", &[("x.csv", b"what,who\na,b\n")], &options).unwrap();
    assert_eq!((&set.interactions.users[0], set.interactions.len()), ("b", 1));
    let error = load_bytes("c", &[("x.csv", b"what,whom\na,b\n")], &options).unwrap_err().to_string();
    assert!(error.contains("no column who") && error.contains("what, whom"), "{error}");
}

#[test]
fn ids_keep_their_spaces_and_any_script() {
    let set = text("a.tsv", "user\titem\n anna \t\"x\n日本\tx y\n").unwrap();
    assert_eq!(set.interactions.users.iter().collect::<Vec<_>>(), [" anna ", "日本"]);
    assert_eq!(set.interactions.catalog.ids.iter().collect::<Vec<_>>(), ["\"x", "x y"]);
}

#[test]
fn a_bad_line_is_named_by_file_line_and_field() {
    let error = refusal("ratings.dat", "1::2::5::978300760\n1::3::five::978300760\n");
    assert!(error.contains("ratings.dat, line 2, field rating") && error.contains("`five`"), "{error}");
    let error = refusal("x.tsv", "user\titem\trating\n1\t2\tNaN\n");
    assert!(error.contains("line 2, field rating: expected a finite number"), "{error}");
    let error = refusal("x.tsv", "user\titem\ttime\n1\t2\t5\n\n1\t3\tsoon\n");
    assert!(error.contains("line 4, field timestamp"), "{error}");
    let error = refusal("x.tsv", "user\titem\n1\t2\n\t2\n");
    assert!(error.contains("line 3, field user: expected an id"), "{error}");
    let error = refusal("x.tsv", "user\titem\n1\t2\n1\t2\t3\n");
    assert!(error.contains("line 3, field row: expected 2 fields, not 3, found `1\\t2\\t3`"), "{error}");
    let error = refusal("x.jsonl", "{\"user\":\"a\",\"item\":\"b\"}\n{\"user\":\n");
    assert!(error.contains("line 2, field object: expected a JSON object"), "{error}");
}

#[test]
fn bad_lines_are_skipped_and_counted_on_request() {
    let options = LoadOptions { skip_bad: true, ..LoadOptions::default() };
    let rows = "1\t2\t5\n".to_owned() + &"1\t3\tx\n".repeat(8) + "4\t5\t-2.5\n";
    let set = load_bytes("c", &[("x.tsv", rows.as_bytes())], &options).unwrap();
    assert_eq!((set.report.bad.skipped, set.report.bad.examples.len(), set.interactions.len()), (8, 5, 2));
    assert!(set.report.bad.examples[0].contains("line 2"), "{:?}", set.report);
    assert_eq!(set.interactions.rating, [5.0, -2.5]);
    let error = load_bytes("c", &[("x.tsv", b"user\titem\trating\n1\t2\tx\n")], &options).unwrap_err().to_string();
    assert!(error.contains("no interactions") && error.contains("1 bad ones"), "{error}");
}

#[test]
fn nothing_to_read_is_said_plainly() {
    assert!(refusal("x.tsv", "").contains("the file is empty"));
    assert!(refusal("x.tsv", "\n\n").contains("no interactions"));
    assert!(refusal("x.tsv", "user\titem\n").contains("no interactions"));
    assert!(refusal("x.txt", "word\nword\n").contains("no delimiter"));
    assert!(refusal("x.csv", "1,2,3,4,5\n").contains("5 columns and no header"));
    assert!(refusal("x.json", "[{\"user\":1}]").contains("JSON array"));
}

#[test]
fn a_folder_with_several_sets_lists_them_and_parts_stand_back() {
    let sequences: &[u8] = b"1 2 3 4 5 6\n2 3 4\n";
    let files = [("Beauty.txt", sequences), ("Toys.txt", sequences)];
    let error = load_bytes("s3", &files, &LoadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("name one of: Beauty.txt, Toys.txt"), "{error}");
    let (a, b): (&[u8], &[u8]) = (b"user\titem\n1\t2\n", b"user\titem\n1\t3\n2\t2\n");
    let files = [("Milano.tsv", a), ("Roma.tsv", b), ("italy_train.tsv", b), ("README", b"see\n")];
    let set = load_bytes("italy", &files, &LoadOptions::default()).unwrap();
    assert_eq!(set.interactions.len(), 3);
    assert_eq!(set.report.remarks, ["joined 2 files: Milano.tsv, Roma.tsv"]);
    let set = load_bytes("parts", &[("train.tsv", a), ("test.tsv", b)], &LoadOptions::default()).unwrap();
    assert_eq!(set.interactions.len(), 3);
    let other: &[u8] = b"user\titem\trating\n1\t3\t4\n";
    assert!(load_bytes("mixed", &[("a.tsv", a), ("b.tsv", other)], &LoadOptions::default()).is_err());
}

#[test]
fn bare_names_are_looked_up_in_the_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("ml-100k")).unwrap();
    for (name, bytes) in &seed_of(Format::MovieLens100k).case.files {
        std::fs::write(folder.path().join("ml-100k").join(name), bytes).unwrap();
    }
    let options = LoadOptions { data_dir: Some(folder.path().to_owned()), ..LoadOptions::default() };
    let set = load("ml-100k", &options).unwrap();
    assert_eq!((set.name.as_str(), set.interactions.len()), ("ml-100k", 3));
    let file = folder.path().join("ml-100k").join("u.data");
    let alone = load(file.to_str().unwrap(), &LoadOptions::default()).unwrap();
    assert_eq!(alone.interactions, set.interactions);
    let error = load("ml-1m", &options).unwrap_err().to_string();
    assert!(error.contains("grouplens.org/datasets/movielens/1m"), "{error}");
    assert!(matches!(load("synth:atlantis", &options), Err(DataError::Synthetic(..))));
}

#[test]
fn a_named_format_is_believed() {
    let rows: &[u8] = b"1 2 3\n4 5 6\n";
    let set = load_bytes("x", &[("x.txt", rows)], &LoadOptions::default()).unwrap();
    assert_eq!((set.format, set.interactions.len()), (Format::Delimited, 2));
    let options = LoadOptions { format: Some(Format::Sequences), ..LoadOptions::default() };
    let set = load_bytes("x", &[("x.txt", rows)], &options).unwrap();
    assert_eq!((set.format, set.interactions.len()), (Format::Sequences, 4));
    let table_with_a_bad_line = "1 2 3\n".repeat(9) + "1 2 3 4 5\n";
    assert!(refusal("x.txt", &table_with_a_bad_line).contains("line 10, field row"));
}

fn with_columns(name: &str, content: &str, columns: &str) -> Result<Dataset, DataError> {
    let options = LoadOptions { columns: Some(columns.parse().unwrap()), ..LoadOptions::default() };
    load_bytes("case", &[(name, content.as_bytes())], &options)
}

fn users(set: &Dataset) -> Vec<&str> {
    set.interactions.users.iter().collect()
}

#[test]
fn header_lines_are_not_taken_for_data() {
    for (name, content) in [
        ("unknown.csv", "who,what\n1,2\n1,3\n4,2\n"),
        ("half.csv", "user_id,song_name\nanna,x\nbruno,y\n"),
        ("rated.tsv", "somebody\tthing\tpoints\nanna\tx\t3\nbruno\ty\t4\n"),
    ] {
        let message = refusal(name, content);
        assert!(
            message.contains("looks like a header")
                && message.contains(content.lines().next().unwrap().split([',', '\t']).next().unwrap()),
            "{message}"
        );
        let error = text(name, content).unwrap_err();
        assert_eq!(error.remedy(), Some(sottovoce_data::Remedy::Columns));
    }
    // Columns by number: the header is a header all the same.
    let set = with_columns("half.csv", "user_id,song_name\nanna,x\nbruno,y\n", "user=0,item=1").unwrap();
    assert_eq!(users(&set), ["anna", "bruno"]);
    assert_eq!(set.report.columns.unwrap().item, "song_name");
    // Files put one behind the other.
    let joined = "user,item\nanna,x\nuser,item\nbruno,y\n";
    let set = text("joined.csv", joined).unwrap();
    assert_eq!((users(&set), set.report.repeated_headers), (vec!["anna", "bruno"], 1));
    assert_eq!(set.report.remarks, ["1 lines that repeat the header skipped"]);
}

#[test]
fn columns_are_reported_and_must_differ() {
    let set = text("more.csv", "userId,movieId,rating,mood,place\n1,2,3,good,Bari\n2,3,4,bad,Bari\n").unwrap();
    let shown = set.report.columns.unwrap().to_string();
    assert_eq!(shown, "user = userId, item = movieId, rating = rating, no timestamp; ignored: mood, place");
    let set = text("bare.tsv", "7\t8\t100000001\n9\t8\t100000002\n").unwrap();
    assert_eq!(
        set.report.columns.unwrap().to_string(),
        "user = column 0, item = column 1, no rating, timestamp = column 2"
    );
    let set = text("lines.json", "{\"user\": \"a\", \"asin\": \"b\", \"mood\": \"good\"}\n").unwrap();
    assert_eq!(
        set.report.columns.unwrap().to_string(),
        "user = user, item = asin, no rating, no timestamp; ignored: mood"
    );
    let named = "{\"who\": \"a\", \"what\": \"b\", \"asin\": \"c\"}\n";
    let set = with_columns("lines.json", named, "user=who,item=what").unwrap();
    assert_eq!((users(&set), set.interactions.catalog.ids.get(0)), (vec!["a"], Some("b")));

    assert!(refusal("twice.csv", "user,item,item\n1,2,3\n").contains("columns 1 and 2 are all called `item` (item)"));
    assert!(refusal("same.csv", "1,1\n2,2\n3,3\n").contains("hold the same in every line"));
    let error = with_columns("one.csv", "1,2\n3,4\n", "user=0,item=0").unwrap_err().to_string();
    assert!(error.contains("column 0 is asked for as user and as item"), "{error}");
    let error =
        with_columns("sequences.txt", "1 5 7 8 9 3\n2 6 4 8\n3 1 2\n", "user=0,item=1").unwrap_err().to_string();
    assert!(error.contains("no columns to choose"), "{error}");
    assert!(
        load("synth:town:users=60", &LoadOptions { columns: "user=0,item=1".parse().ok(), ..LoadOptions::default() })
            .is_err()
    );
}

#[test]
fn coordinates_are_not_taken_for_ids_or_times() {
    assert!(refusal("places.csv", "45.4642,9.1900\n41.9,12.48\n").contains("decimal numbers such as 45.4642"));
    assert!(
        refusal("poi.tsv", "17\t45.4642\t9.1900\n18\t41.9028\t12.48\n").contains("column 1 would be read as the item")
    );
    assert!(refusal("visits.tsv", "a\tx\t45.4642\t9.19\nb\ty\t41.9\t12.48\n").contains("look like coordinates"));
    // Ids as some programs write whole numbers, and times with fractions of a second.
    assert_eq!(users(&text("floats.csv", "1.0,5.0\n2.0,6.0\n").unwrap()), ["1.0", "2.0"]);
    assert!(text("times.csv", "a,x,3,978300760.5\nb,y,4,978300761.5\n").is_ok());
    let folder: [(&str, &[u8]); 2] = [
        ("checkins.txt", b"1\t7\t1286000000\n2\t8\t1286000001\n"),
        ("coordinates.txt", b"7\t45.4642\t9.19\n8\t41.9\t12.48\n"),
    ];
    let set = load_bytes("places", &folder, &LoadOptions::default()).unwrap();
    assert_eq!((set.report.files, set.interactions.len()), (vec!["checkins.txt".to_owned()], 2));
}
