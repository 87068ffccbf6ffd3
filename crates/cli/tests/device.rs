//! A device as its owner uses it, against a server in memory behind a real socket.

mod common;
#[path = "../../device/tests/common/mod.rs"]
mod fake;

use fake::Server;
use serde_json::Value;
use sottovoce_privacy::secagg::{Identity, Roster};
use sottovoce_privacy::tokens::to_hex;
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

struct Owner {
    place: TempDir,
    server: String,
}

impl Owner {
    fn new(server: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("mine.tsv"), "item\ttimestamp\ni3\t10\ni7\t20\ni9\t15\nother\t1\n")
            .unwrap();
        Self { place, server: server.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command: Command = common::program();
        command.env("SOTTOVOCE_DEVICE", self.path("phone")).current_dir(self.place.path());
        command.arg("device").args(arguments).output().unwrap()
    }

    fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.says(&[arguments, &["--json"]].concat())).unwrap()
    }

    fn complains(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        text
    }

    fn enrol(&self, token: &str) -> Vec<String> {
        let words = [
            "enrol",
            "--server",
            &self.server,
            "--federation",
            "films",
            "--token",
            token,
            "--history",
            "mine.tsv",
        ];
        words.map(str::to_owned).to_vec()
    }
}

fn words(owned: &[String]) -> Vec<&str> {
    owned.iter().map(String::as_str).collect()
}

#[test]
fn an_owner_enrols_takes_part_looks_decides_and_leaves() {
    let server = Server::new();
    let owner = Owner::new(&fake::http::serve(server.clone()));
    assert!(owner.complains(1, &["status"]).contains("sottovoce device enrol"));

    let said = owner.says(&words(&owner.enrol(fake::TOKEN)));
    assert!(said.contains("Enrolled in films as device 0") && said.contains("4 interactions"), "{said}");
    assert!(said.contains("1 with items that the catalog does not know"), "{said}");
    assert!(owner.complains(2, &words(&owner.enrol(fake::TOKEN))).contains("withdraw first"));
    #[cfg(unix)]
    for name in ["phone.key", "phone/state"] {
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(owner.path(name)).unwrap());
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert!(owner.complains(1, &["recommend"]).contains("there is no model yet"));
    assert_eq!(owner.says(&["ledger"]), "Nothing has left this device yet.\n");

    let policy =
        owner.json(&["policy", "--pi", "1", "--hide", "i7", "--report", "auc", "--least-cohort", "2"]);
    assert_eq!((policy["pi"].as_f64(), policy["hidden"][0].as_str()), (Some(1.0), Some("i7")));
    assert!(owner.complains(2, &["policy", "--pi", "2"]).contains("from 0 to 1"));
    assert!(owner.complains(2, &["policy", "--unhide", "i8"]).contains("i8"));
    assert_eq!(owner.json(&["policy"]), policy);
    assert_eq!(policy["pi_draw"], "kept");
    for wrong in ["masks", "secure-aggregation.colluding>=many", "noise."] {
        let said = owner.complains(2, &["policy", "--require", wrong]);
        assert!(said.contains("layer") || said.contains("a demand is"), "{said}");
    }
    let demand = "secure-aggregation.colluding>=0.1";
    assert!(owner.says(&["policy", "--require", demand]).contains(demand));
    let run = owner.json(&["run", "--once"]);
    assert!(run["event"] == "declined" && run["text"].as_str().unwrap().contains(demand), "{run}");
    assert_eq!(owner.json(&["policy", "--no-require", demand]), policy);
    assert!(owner.complains(2, &["policy", "--pi-draw", "sometimes"]).contains("each-round"));

    server.ask_for("auc");
    assert_eq!(owner.json(&["run", "--once"])["event"], "done");
    assert_eq!(owner.json(&["run", "--once"])["event"], "idle");
    let status = owner.json(&["status"]);
    assert_eq!((status["last_round"].as_u64(), status["state"].as_str()), (Some(0), Some("enrolled")));
    let ledger = owner.json(&["ledger"]);
    assert!(ledger["items"].as_array().unwrap().iter().all(|item| item["item"] != "i7"));
    assert!(ledger["rounds"][0]["figures"]["auc"].is_number());
    assert!(owner.says(&["ledger"]).contains("1 updates left this device"));
    assert!(owner.says(&["ledger", "--item", "i7"]).contains("its row never left this device"));
    assert!(owner.complains(2, &["ledger", "--item", "nothing"]).contains("no item"));

    assert_eq!(owner.json(&["policy"])["shown"].as_array().unwrap().len(), 2);
    assert!(owner.says(&["policy"]).contains("learnt from 2 of the 3 items you have, always the same"));
    assert_eq!(owner.json(&["policy", "--pi", "0"])["shown"].as_array().unwrap().len(), 0);
    let anew = owner.says(&["policy", "--pi-draw", "each-round", "--pi", "0.4"]);
    assert!(anew.contains("0.4: the row of an item you have leaves with this probability"), "{anew}");
    assert!(owner.json(&["policy"])["shown"].is_null());
    owner.says(&["policy", "--pi-draw", "kept", "--pi", "1"]);

    let list = owner.json(&["recommend", "-k", "5"]);
    assert_eq!(list["items"].as_array().unwrap().len(), 5);
    assert!(owner.says(&["recommend"]).contains("For you, by fpl"));

    std::fs::write(owner.path("more.csv"), "i3\ni11\n").unwrap();
    let imported = owner.json(&["import", "more.csv"]);
    assert_eq!((imported["added"].as_u64(), imported["repeated"].as_u64()), (Some(1), Some(1)));
    std::fs::write(owner.path("bad.csv"), "i3,yesterday\n").unwrap();
    let said = owner.complains(1, &["import", "bad.csv"]);
    assert!(said.contains("bad.csv") && said.contains("line 1") && said.contains("yesterday"), "{said}");

    assert_eq!(owner.json(&["policy", "--pause"])["participation"], "paused");
    assert_eq!(owner.json(&["run", "--once"])["event"], "paused");
    assert!(owner.says(&["withdraw"]).contains("the server has forgotten this device"));
    assert_eq!(server.with(|world| world.withdrawn.clone()), [0]);
    assert_eq!(owner.json(&["status"])["state"], "withdrawn");
    owner.says(&["recommend"]);
}

#[test]
fn an_owner_has_an_identity_and_a_roster_that_can_be_changed() {
    let owner = Owner::new(&fake::http::serve(Server::new()));
    let others = [1, 2].map(|byte| Identity::new(&[byte; 32], Roster::new()).public());
    let text: Vec<String> = others.iter().map(|key| to_hex(key)).collect();
    std::fs::write(owner.path("bad.keys"), format!("# the choir\n{}\nAda\n", text[0])).unwrap();
    let with = |file: &str| [owner.enrol(fake::TOKEN), vec!["--roster".to_owned(), file.to_owned()]].concat();
    let said = owner.complains(2, &words(&with("bad.keys")));
    assert!(said.contains("bad.keys: line 3: \"Ada\" is no public key"), "{said}");
    std::fs::write(owner.path("choir.keys"), format!("{}\n\n{} # Bea\n", text[0], text[1])).unwrap();
    let said = owner.says(&words(&with("choir.keys")));
    assert!(said.contains("2 public keys, but not this device's"), "{said}");
    let own = owner.json(&["identity"])["identity"].as_str().unwrap().to_owned();
    assert!(owner.says(&["identity"]).starts_with(&format!("{own}\n")));
    let demanded = "secure-aggregation.identities";
    assert_eq!(owner.json(&["policy"])["required_layers"][0], demanded);
    // A round in which devices do not show who they are goes without it.
    let run = owner.json(&["run", "--once"]);
    assert!(run["event"] == "declined" && run["text"].as_str().unwrap().contains(demanded), "{run}");

    std::fs::write(owner.path("choir.keys"), format!("{}\n{own}\n", text.join("\n"))).unwrap();
    let told = owner.json(&["identity", "--roster", "choir.keys"]);
    assert_eq!((told["roster"].as_u64(), told["in_roster"].as_bool()), (Some(3), Some(true)));
    assert_eq!(owner.json(&["identity"]), told);
    let told = owner.json(&["identity", "--no-roster"]);
    assert!(told["roster"].is_null() && told["identity"] == own.as_str(), "{told}");
    assert_eq!(owner.json(&["policy"])["required_layers"].as_array().unwrap().len(), 0);
}

#[test]
fn what_goes_wrong_is_said_with_what_to_do() {
    let server = Server::new();
    let owner = Owner::new(&fake::http::serve(server.clone()));
    let said = owner.complains(1, &words(&owner.enrol("wrong")));
    assert!(said.contains("bad-credential") && said.contains("ask the operator"), "{said}");
    // The store is free for the right token.
    owner.says(&words(&owner.enrol(fake::TOKEN)));
    server.with(|world| world.faults = vec![Some(fake::Fault::Busy)]);
    assert!(owner.complains(1, &["run", "--once"]).contains("503 busy"));
    // Another key opens nothing, and nothing is lost by trying.
    std::fs::write(owner.path("other.key"), format!("{}\n", "5a".repeat(32))).unwrap();
    assert!(owner.complains(1, &["status", "--key-file", "other.key"]).contains("sealed with another key"));
    std::fs::write(owner.path("no.key"), "short").unwrap();
    assert!(owner.complains(1, &["status", "--key-file", "no.key"]).contains("64 hexadecimal digits"));
    // Of three likes, half of them shown by a secret of the device's, one device in eight shows none.
    owner.says(&["policy", "--pi", "1"]);
    assert_eq!(owner.json(&["run", "--once"])["event"], "done");

    let far = Owner::new("http://films.example");
    assert!(far.complains(2, &words(&far.enrol("x"))).contains("use https"));
    let nobody = Owner::new("http://127.0.0.1:9");
    assert!(nobody.complains(1, &words(&nobody.enrol("x"))).contains("not enrolled yet"));
    assert_eq!(nobody.json(&["status"])["state"], "enrolling");
}
