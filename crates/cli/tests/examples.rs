//! Every example in every help text runs, on small data. Those that talk to a server are parsed by the program's own
//! tests (`args.rs`), and what they do is tested in `service`.

mod common;

use common::program;
use std::fs;
use std::path::Path;

/// Commands whose examples need a server, open a shell's folder, or measure speed for minutes.
const ELSEWHERE: [&str; 6] = ["serve", "federation", "audience", "device", "fleet", "bench"];

/// A folder with everything that the examples name.
fn folder() -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name);
    let write = |name: &str, text: &str| {
        fs::create_dir_all(path(name).parent().unwrap()).unwrap();
        fs::write(path(name), text).unwrap();
    };
    let row =
        |user: usize, turn: usize| (user, (user * 13 + turn * 7) % 101, 1 + (user + turn) % 5, 1000 * turn + user);
    let rows = || (1..=40).chain([196]).flat_map(move |user| (0..60).map(move |turn| row(user, turn)));
    let table = |separator: &str| -> String {
        rows().map(|(u, i, r, t)| [u, i, r, t].map(|n| n.to_string()).join(separator) + "\n").collect()
    };
    write("data/ml-100k/u.data", &table("\t"));
    write("data/ml-1m/ratings.dat", &table("::"));
    write("ratings.csv.gz", &table(","));
    write("ml-latest/ratings.csv", &format!("userId,movieId,rating,timestamp\n{}", table(",")));
    write("train.tsv", "user\titem\na\tx\nb\ty\n");
    write("test.tsv", "user\titem\na\ty\nb\tx\n");
    write("elliot.tsv", "user\titem\tscore\na\ty\t1\nb\tz\t1\n");
    write("items.tsv", "item\tcategories\nx\tone\ny\ttwo\nz\tone\n");
    write("Content_Taxonomy_3.1.tsv", "id\tparent\tname\n1\t\tSports\n2\t1\tSkiing\n");
    write("clicks.tsv", "user\ttime\tpage\tcategories\na\t1700000000\tp\tSkiing\na\t1700000100\tq\tSports\n");
    write("MINDsmall_train/news.tsv", "N1\tnews\tnewscrime\tA\tB\tu\t[]\t[]\nN2\tsports\tgolf\tC\tD\tu\t[]\t[]\n");
    write("MINDsmall_train/behaviors.tsv", "1\tU1\t11/13/2019 8:36:57 AM\tN1 N2\tN2-1 N1-0\n");
    write("experiments/baselines-ml-100k.toml", "title = \"t\"\ndata = [\"ml-100k\"]\n[[model]]\nname = \"ease\"\n");
    temp
}

/// The examples in a help text of the default width, as their words.
fn examples(help: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut lines = help.lines();
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("  sottovoce ") else { continue };
        let mut whole = command.to_owned();
        while let Some(begun) = whole.strip_suffix('\\') {
            whole = format!("{} {}", begun.trim_end(), lines.next().expect("a continued line").trim());
        }
        found.push(words(&whole));
    }
    found
}

/// What a shell makes of a line: words and quotes, up to a remark, a pipe or a redirection.
fn words(line: &str) -> Vec<String> {
    let line = line.split("   ").next().unwrap_or_default();
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().expect("one at least").push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    let end = words.iter().position(|word| [">", "|"].contains(&word.as_str())).unwrap_or(words.len());
    words.truncate(end);
    words
}

fn help(command: &[&str]) -> String {
    let output = program().args(command).arg("--help").env_remove("COLUMNS").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The same on little data.
fn made_small(word: &str, folder: &Path) -> String {
    let data = folder.join("data");
    let small = word.replace("~/data", data.to_str().unwrap());
    match small.as_str() {
        "synth:town" => "synth:town:users=60".to_owned(),
        town if town.contains("town:users=") => {
            let (before, after) = town.split_once("users=").unwrap();
            format!("{before}users=60{}", after.trim_start_matches(|letter: char| letter.is_ascii_digit()))
        }
        _ => small,
    }
}

fn check(commands: &[&str]) {
    let temp = folder();
    for command in commands {
        let mut all = examples(&help(&command.split_whitespace().collect::<Vec<_>>()));
        assert!(!all.is_empty(), "{command} has no example");
        if *command == "train" {
            // It comes from an example of `data convert`.
            all.insert(0, words("data convert synth:town town.histories"));
        }
        for example in all.iter().filter(|example| !ELSEWHERE.contains(&example[0].as_str())) {
            // What a server retained is made in `service`.
            if example.iter().any(|word| word == "--uploads") {
                continue;
            }
            let mut arguments: Vec<String> = example.iter().map(|word| made_small(word, temp.path())).collect();
            let given = |option: &str| example.iter().any(|word| word == option);
            match example[0].as_str() {
                "run" => arguments.push("--plan".to_owned()),
                "demo" => {
                    arguments.extend(["--users", "60"].map(str::to_owned));
                    arguments.extend((!given("--no-open")).then(|| "--no-open".to_owned()));
                }
                "train" | "audit"
                    if !given("epochs=1") && ["fpl", "bpr-mf", "kgflex", "sasrec"].iter().any(|name| given(name)) =>
                {
                    arguments.extend(["--set", "epochs=3"].map(str::to_owned));
                }
                _ => {}
            }
            let output = program()
                .args(&arguments)
                .env("SOTTOVOCE_DATA", temp.path().join("data"))
                .current_dir(temp.path())
                .output()
                .unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {errors}", arguments.join(" "));
        }
    }
}

#[test]
fn examples_of_training_run() {
    check(&["train"]);
}

#[test]
fn examples_of_recommending_and_evaluating_run() {
    check(&["recommend", "evaluate", "unlearn", "run", "models"]);
}

#[test]
fn examples_of_the_audit_run() {
    check(&["audit"]);
}

#[test]
fn examples_of_data_run() {
    check(&["data describe", "data convert", "data synth", "data history", "data interests", "data split"]);
}

#[test]
fn examples_of_the_program_run() {
    check(&["", "demo", "completions", "man"]);
}

/// Nobody can copy an example that is cut in the middle by the width of the terminal.
#[test]
fn no_example_is_wrapped() {
    fn visit(command: &[&str]) {
        let (help, wide) = (help(command), {
            let output = program().args(command).arg("--help").env("COLUMNS", "1000").output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        });
        let lines = |help: &str| -> Vec<String> {
            help.lines()
                .filter(|line| line.starts_with("  sottovoce "))
                .map(|line| line.trim_end().to_owned())
                .collect()
        };
        assert_eq!(lines(&help), lines(&wide), "{command:?}");
        for example in examples(&help) {
            assert!(!example.iter().any(|word| word == "..."), "{example:?}");
        }
        let section = help.split("\nCommands:\n").nth(1).unwrap_or_default();
        let names = section.lines().take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
        for name in
            names.filter_map(|line| line.split_whitespace().next()).filter(|name| !["help", "pipeline"].contains(name))
        {
            visit(&[command, &[name]].concat());
        }
    }
    visit(&[]);
}
