//! The commands of a device's owner.

use crate::harness::{Database, RunningProcess, TestServer, program};
use serde_json::Value;
use sottovoce_privacy::secagg::{Identity, Roster};
use sottovoce_privacy::tokens::to_hex;
use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server with the federation `films`.
struct Films {
    server: TestServer,
    token: String,
    _process: RunningProcess,
}

impl Films {
    fn start() -> Self {
        let server = TestServer::new(Database::Sqlite);
        let process = server.serve();
        let items: String = (0..40).map(|item| format!("i{item}\tItem {item}\tkind\n")).collect();
        let twins = "t1\tTwin\tkind\nt2\tTwin\tkind\n";
        fs::write(server.path("catalog.tsv"), format!("item\ttitle\tcategories\n{items}{twins}")).unwrap();
        let catalog = server.path("catalog.tsv");
        let create = ["--model", "fpl", "--catalog", catalog.to_str().unwrap(), "--check-in-seconds", "0"];
        // With decoys, rows of hidden items would leave too, as if their owner did not have them.
        let settings = ["triples=12", "factors=4", "cohort=1", "negatives=papers", "learning_rate=0.05"];
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        let criterion = ["--criterion", "auc=to see whether it learns"];
        let token = server.create("films", &[&create[..], &settings, &criterion].concat());
        let token = fs::read_to_string(token).unwrap();
        Self { server, token, _process: process }
    }
}

/// A folder with a device and a history.
struct Owner {
    folder: TempDir,
    server: String,
}

impl Owner {
    fn new(server: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine.tsv"), "item\ttimestamp\ni3\t10\ni7\t20\ni9\t15\nother\t1\n").unwrap();
        Self { folder, server: server.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = program();
        command.env("SOTTOVOCE_DEVICE", self.path("phone")).current_dir(self.folder.path());
        command.arg("device").args(arguments).output().unwrap()
    }

    fn prints(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.prints(&[arguments, &["--json"]].concat())).unwrap()
    }

    fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        text
    }

    /// Runs `run --once` until it reports an event.
    fn run_until(&self, event: &str) -> Value {
        let start = Instant::now();
        loop {
            let run = self.json(&["run", "--once"]);
            if run["event"] == event {
                return run;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "expected {event}, got {run}");
        }
    }

    fn enrol(&self, token: &str) -> Vec<String> {
        let mut words = self.enrol_unasked(token);
        words.extend(["--accept", "open"].map(str::to_owned));
        words
    }

    /// Without the word that an open federation needs.
    fn enrol_unasked(&self, token: &str) -> Vec<String> {
        let words =
            ["enrol", "--server", &self.server, "--federation", "films", "--token", token, "--history", "mine.tsv"];
        words.map(str::to_owned).to_vec()
    }
}

fn words(owned: &[String]) -> Vec<&str> {
    owned.iter().map(String::as_str).collect()
}

#[test]
fn owner_enrols_trains_recommends_and_withdraws() {
    let films = Films::start();
    let owner = Owner::new(&films.server.url());
    assert!(owner.fails(1, &["status"]).contains("sottovoce device enrol"));

    let enrolment = owner.enrol(&films.token);
    let with_key = [&words(&enrolment)[..], &["--key-file", "nowhere.key"]].concat();
    let printed = owner.fails(2, &with_key);
    assert!(printed.contains("nowhere.key") && printed.contains("without --key-file one is created"), "{printed}");
    let refused = owner.fails(2, &words(&owner.enrol_unasked(&films.token)));
    assert!(refused.contains("films is an open federation") && refused.contains("--accept open"), "{refused}");
    let printed = owner.prints(&words(&enrolment));
    assert!(printed.contains("the server sees each upload by itself, as you agreed"), "{printed}");
    assert!(printed.contains("Enrolled in films as device 0") && printed.contains("4 interactions"), "{printed}");
    assert!(printed.contains("1 with items that are not in the catalog"), "{printed}");
    assert!(owner.fails(2, &words(&enrolment)).contains("withdraw first, or use another store (--store)"));
    #[cfg(unix)]
    for name in ["phone.key", "phone/state"] {
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(owner.path(name)).unwrap());
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert!(owner.fails(1, &["recommend"]).contains("there is no model yet"));
    assert_eq!(owner.prints(&["ledger"]), "Nothing has left this device yet.\n");

    let policy = owner.json(&["policy", "--pi", "1", "--hide", "i7", "--report", "auc", "--least-cohort", "1"]);
    assert_eq!((policy["pi"].as_f64(), policy["hidden"][0].as_str()), (Some(1.0), Some("i7")));
    assert!(owner.fails(2, &["policy", "--pi", "2"]).contains("from 0 to 1"));
    assert!(owner.fails(2, &["policy", "--unhide", "i8"]).contains("i8"));
    // By title: one item, several or none. Nothing changes if one word is not understood.
    assert_eq!(owner.json(&["policy", "--hide", "item 8"])["hidden"], serde_json::json!(["i7", "i8"]));
    let printed = owner.fails(2, &["policy", "--hide", "i9", "--hide", "Twin"]);
    assert!(
        printed.contains("several items are called `Twin`") && printed.contains("Twin [t1], Twin [t2]"),
        "{printed}"
    );
    let printed = owner.fails(2, &["policy", "--hide", "tem 3"]);
    assert!(printed.contains("did you mean one of these: Item 3 [i3]"), "{printed}");
    assert!(owner.fails(2, &["policy", "--hide", "Heat"]).contains("no item with the id or title `Heat`"));
    // It is in the history and not in the catalog.
    assert_eq!(owner.json(&["policy", "--hide", "other"])["hidden"], serde_json::json!(["i7", "i8", "other"]));
    owner.prints(&["policy", "--unhide", "other"]);
    assert_eq!(owner.json(&["policy", "--unhide", "Item 8"]), policy);
    assert_eq!(owner.json(&["policy"]), policy);
    assert_eq!(policy["disclosure"], "fixed");
    for wrong in ["masks", "secure-aggregation.colluding>=many", "noise."] {
        let printed = owner.fails(2, &["policy", "--require", wrong]);
        assert!(printed.contains("layer") || printed.contains("a requirement is"), "{printed}");
    }
    let requirement = "secure-aggregation.colluding>=0.1";
    assert!(owner.prints(&["policy", "--require", requirement]).contains(requirement));
    let run = owner.run_until("declined");
    assert!(run["text"].as_str().unwrap().contains(requirement), "{run}");
    assert_eq!(owner.json(&["policy", "--no-require", requirement]), policy);
    assert!(owner.fails(2, &["policy", "--pi-draw", "sometimes"]).contains("per-round"));

    owner.run_until("done");
    films.server.operate(&["finish", "films"]);
    let status = owner.json(&["status"]);
    assert!(status["last_round"].is_u64() && status["state"] == "enrolled", "{status}");
    let ledger = owner.json(&["ledger"]);
    assert!(ledger["items"].as_array().unwrap().iter().all(|item| item["item"] != "i7"));
    assert!(ledger["rounds"][0]["figures"]["auc"].is_number());
    assert!(owner.prints(&["ledger"]).contains("1 update left this device"));
    assert!(owner.prints(&["ledger", "--item", "i7"]).contains("its row never left this device"));
    assert!(owner.prints(&["ledger", "--item", "Item 7"]).contains("its row never left this device"));
    assert!(owner.fails(2, &["ledger", "--item", "nothing"]).contains("no item"));
    let printed = owner.prints(&["ledger"]);
    assert!(printed.contains("nothing prevents it from guessing your history"), "{printed}");
    assert!(printed.contains("computed from 2 of your items"), "{printed}");
    assert_eq!((ledger["seen_singly"].as_u64(), ledger["seen_in_sums"].as_u64()), (Some(1), Some(0)));

    assert_eq!(owner.json(&["policy"])["shown"].as_array().unwrap().len(), 2);
    assert!(owner.prints(&["policy"]).contains("computed from 2 of your 3 items, always the same"));
    assert_eq!(owner.json(&["policy", "--pi", "0"])["shown"].as_array().unwrap().len(), 0);
    let anew = owner.prints(&["policy", "--pi-draw", "each-round", "--pi", "0.4"]);
    assert!(anew.contains("0.4: the row of an item you have leaves with this probability"), "{anew}");
    assert!(owner.json(&["policy"])["shown"].is_null());
    owner.prints(&["policy", "--pi-draw", "kept", "--pi", "1"]);

    let list = owner.json(&["recommend", "-k", "5"]);
    assert_eq!(list["items"].as_array().unwrap().len(), 5);
    assert!(owner.prints(&["recommend"]).contains("For you, by fpl"));

    std::fs::write(owner.path("more.csv"), "i3\ni11\n").unwrap();
    let imported = owner.json(&["import", "more.csv"]);
    assert_eq!((imported["added"].as_u64(), imported["repeated"].as_u64()), (Some(1), Some(1)));
    std::fs::write(owner.path("bad.csv"), "i3,yesterday\n").unwrap();
    let printed = owner.fails(1, &["import", "bad.csv"]);
    assert!(printed.contains("bad.csv") && printed.contains("line 1") && printed.contains("yesterday"), "{printed}");

    assert_eq!(owner.json(&["policy", "--pause"])["participation"], "paused");
    assert_eq!(owner.json(&["run", "--once"])["event"], "paused");
    let printed = owner.prints(&["withdraw"]);
    assert!(
        printed.contains("it has deleted this device's data") && printed.contains("from your update stays in it"),
        "{printed}"
    );
    assert_eq!(films.server.operate(&["show", "films"])["devices"], 0);
    assert_eq!(owner.json(&["status"])["state"], "withdrawn");
    owner.prints(&["recommend"]);
}

#[test]
fn owner_changes_the_roster() {
    let films = Films::start();
    let owner = Owner::new(&films.server.url());
    let others = [1, 2].map(|byte| Identity::new(&[byte; 32], Roster::new()).public());
    let text: Vec<String> = others.iter().map(|key| to_hex(key)).collect();
    std::fs::write(owner.path("bad.keys"), format!("# the choir\n{}\nAda\n", text[0])).unwrap();
    let with = |file: &str| [owner.enrol(&films.token), vec!["--roster".to_owned(), file.to_owned()]].concat();
    let printed = owner.fails(2, &words(&with("bad.keys")));
    assert!(printed.contains("bad.keys: line 3: \"Ada\" is not a public key"), "{printed}");
    std::fs::write(owner.path("choir.keys"), format!("{}\n\n{} # Bea\n", text[0], text[1])).unwrap();
    let printed = owner.prints(&words(&with("choir.keys")));
    assert!(printed.contains("2 public keys, but not this device's"), "{printed}");
    let own = owner.json(&["identity"])["identity"].as_str().unwrap().to_owned();
    assert!(owner.prints(&["identity"]).starts_with(&format!("{own}\n")));
    let required = "secure-aggregation.identities";
    assert_eq!(owner.json(&["policy"])["required_layers"][0], required);
    // It declines rounds without signed identities.
    let run = owner.run_until("declined");
    assert!(run["text"].as_str().unwrap().contains(required), "{run}");

    std::fs::write(owner.path("choir.keys"), format!("{}\n{own}\n", text.join("\n"))).unwrap();
    let told = owner.json(&["identity", "--roster", "choir.keys"]);
    assert_eq!((told["roster"].as_u64(), told["in_roster"].as_bool()), (Some(3), Some(true)));
    assert_eq!(owner.json(&["identity"]), told);
    let told = owner.json(&["identity", "--no-roster"]);
    assert!(told["roster"].is_null() && told["identity"] == own.as_str(), "{told}");
    assert_eq!(owner.json(&["policy"])["required_layers"].as_array().unwrap().len(), 0);
}

#[test]
fn errors_name_the_cause_and_the_remedy() {
    let films = Films::start();
    let owner = Owner::new(&films.server.url());
    let printed = owner.fails(1, &words(&owner.enrol("wrong")));
    assert!(printed.contains("bad-credential") && printed.contains("ask the operator"), "{printed}");
    // The store can be used with the right token.
    owner.prints(&words(&owner.enrol(&films.token)));
    // A wrong key is rejected, and nothing is lost.
    std::fs::write(owner.path("other.key"), format!("{}\n", "5a".repeat(32))).unwrap();
    assert!(owner.fails(1, &["status", "--key-file", "other.key"]).contains("encrypted under another key"));
    std::fs::write(owner.path("no.key"), "short").unwrap();
    assert!(owner.fails(1, &["status", "--key-file", "no.key"]).contains("64 hexadecimal digits"));
    // With pi = 0.5, one device in eight would use none of its three items.
    owner.prints(&["policy", "--pi", "1"]);
    owner.run_until("done");

    let far = Owner::new("http://films.example");
    assert!(far.fails(2, &words(&far.enrol("x"))).contains("use https"));
    let nobody = Owner::new("http://127.0.0.1:9");
    assert!(nobody.fails(1, &words(&nobody.enrol("x"))).contains("not enrolled yet"));
    assert_eq!(nobody.json(&["status"])["state"], "enrolling");
}

#[test]
fn owner_brings_clicks_and_nothing_of_their_pages_leaves() {
    let server = TestServer::new(Database::Sqlite);
    let _process = server.serve();
    fs::write(server.path("categories.tsv"), "item\ttitle\tcategories\n7\tSkiing\t\n8\tChess\t\n9\tOpera\t\n").unwrap();
    fs::write(server.path("titles.txt"), "Skis compared\nA queen's gambit\n").unwrap();
    let [catalog, titles] = ["categories.tsv", "titles.txt"].map(|name| server.path(name));
    let create = [
        ["--model", "lookalike", "--catalog", catalog.to_str().unwrap()],
        ["--titles", titles.to_str().unwrap(), "--set", "cohort=1"],
        ["--check-in-seconds", "0", "--set", "code=4"],
    ];
    let token = fs::read_to_string(server.create("films", &create.concat())).unwrap();
    let owner = Owner::new(&server.url());
    let log = "time\tpage\ttitle\tcategories\tseconds\n\
        1700000000\ta\tThe tourbillon turn\tSkiing\t40\n\
        1700000100\tb\tA gambit\t8\t30\n\
        1700000200\tc\tAdvice\tSkiing|Gambling\t60\n\
        1700000300\td\tAria\tOpera\t3\n";
    fs::write(owner.path("clicks.tsv"), log).unwrap();
    let url = server.url();
    let enrol = |more: &[&'static str]| -> Vec<String> {
        let words = ["enrol", "--server", &url, "--federation", "films", "--token", token.trim(), "--pi", "1"];
        let words = [&words[..], &["--accept", "open"]].concat();
        words.iter().chain(more).map(|&word| word.to_owned()).collect()
    };
    fs::write(owner.path("two.tsv"), "user\ttime\tpage\tcategories\nx\t1700000000\ta\t7\ny\t1700000000\ta\t7\n")
        .unwrap();
    let error = owner.fails(1, &words(&enrol(&["--clicks", "two.tsv"])));
    assert!(error.contains("line 3") && error.contains("one person's own log"), "{error}");
    assert!(owner.fails(2, &words(&enrol(&[]))).contains("--history"), "one of the two is needed");
    let told = owner.prints(&words(&enrol(&["--clicks", "clicks.tsv"])));
    assert!(told.contains("2 interactions") && told.contains("3 read last"), "{told}");
    owner.run_until("done");
    assert_eq!(owner.json(&["recommend"])["items"][0]["title"], "Opera");

    fs::write(owner.path("later.tsv"), format!("{log}1700000400\te\tArias\tOpera\t90\n")).unwrap();
    let told = owner.json(&["import", "--clicks", "later.tsv"]);
    let number = |key: &str| told[key].as_u64().unwrap();
    assert_eq!([number("interests"), number("pages"), number("replaced"), number("unknown")], [3, 4, 2, 0]);
    assert_eq!((told["clicks"]["sensitive"].as_u64(), told["clicks"]["used"].as_u64()), (Some(1), Some(4)));
    assert_eq!(owner.json(&["status"])["pages"], 4);
    fs::write(owner.path("other.tsv"), "time\tpage\tcategories\n1700000000\ta\tCurling\n").unwrap();
    let error = owner.fails(1, &["import", "--clicks", "other.tsv"]);
    assert!(error.contains("none of 1 clicks can be used") && error.contains("Curling"), "{error}");
    assert_eq!(owner.json(&["status"])["interactions"], 3, "a log that cannot be used changes nothing");
    for file in fs::read_dir(server.path("server")).unwrap().map(|entry| entry.unwrap().path()) {
        let bytes = if file.is_file() { fs::read(&file).unwrap() } else { Vec::new() };
        assert!(!bytes.windows(10).any(|window| window == b"tourbillon"), "{}", file.display());
    }
}
