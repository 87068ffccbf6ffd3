//! Experiments run whole, in pieces, in parallel and after crashes, always with the same result.

mod common;

use common::{Fake, bytes, parse, run, run_with, without_cost};
use sottovoce_evaluate::Metric;
use sottovoce_experiment::engine::{self, Event, Options, RunError};
use sottovoce_experiment::journal::Existing;
use sottovoce_models::settings::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const MIXED: &str = r#"
    title = "A bit of everything"
    data = ["ml-100k", "synth:town"]
    seeds = [3, 5]

    [protocol]
    at = [10, 5]

    [choice]
    seeds = 2

    [[model]]
    name = "mostpop"

    [[model]]
    name = "factors"
    label = "Grid"
    grid = { learning_rate = [0.01, 0.04, 0.8], factors = [10, 20] }

    [[model]]
    name = "factors"
    label = "Search"
    set = { epochs = 7 }
    search = { trials = 9, over = ["learning_rate", "factors", "bias"] }

    [[model]]
    name = "factors"
    label = "Sweep at {pi}"
    sweep = { pi = [0, 0.5, 1] }
"#;

fn whole() -> String {
    let folder = tempfile::tempdir().unwrap();
    bytes(&run(&parse(MIXED), &Fake::default(), folder.path(), 1).unwrap())
}

#[test]
fn rows_are_selected_on_validation_and_tested_with_every_seed() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::default();
    let results = run(&parse(MIXED), &fake, folder.path(), 1).unwrap();
    let labels: Vec<_> = results.data[0].rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(labels, ["MostPop", "Grid", "Search", "Sweep at 0", "Sweep at 0.5", "Sweep at 1"]);

    let grid = &results.data[1].rows[1];
    assert_eq!(grid.tried.len(), 6);
    let order: Vec<_> =
        grid.tried.iter().map(|t| (t.settings["learning_rate"].clone(), t.settings["factors"].clone())).collect();
    assert_eq!(order[1], (Value::Real(0.01), Value::Integer(20)), "the last setting varies fastest");
    assert_eq!(grid.chosen, Some(3), "{:?}", grid.tried);
    assert_eq!(grid.settings["learning_rate"], Value::Real(0.04));
    assert_eq!(grid.tried[4].run.failed.as_deref(), Some("training diverged in epoch 1: lower the learning rate"));
    let seeds: Vec<_> = grid.finals.iter().map(|each| each.seed).collect();
    assert_eq!(seeds, [3, 5]);
    let ndcg = grid.metric(Metric::Ndcg, 10).unwrap();
    assert!(ndcg.n == 2 && ndcg.sd > 0.0);

    let search = &results.data[0].rows[2];
    assert_eq!((search.tried.len(), search.settings["epochs"].clone()), (9, Value::Integer(7)));
    // Per data set: 1 x 2 final; 6 x 2 + 2; 9 x 2 + 2; 3 x 2.
    assert_eq!(fake.ran.lock().unwrap().len(), 2 * (2 + 14 + 20 + 6));
}

#[test]
fn jobs_do_not_change_the_results() {
    let expected = whole();
    for jobs in [2, 5] {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(bytes(&run(&parse(MIXED), &Fake::default(), folder.path(), jobs).unwrap()), expected);
    }
}

#[test]
fn batched_searches_are_reproducible() {
    let text = MIXED.replace("trials = 9", "trials = 12, startup = 3, at_once = 4");
    let run_on = |jobs| {
        let folder = tempfile::tempdir().unwrap();
        bytes(&run(&parse(&text), &Fake::default(), folder.path(), jobs).unwrap())
    };
    assert_eq!(run_on(1), run_on(4));
}

#[test]
fn a_finished_run_is_only_read() {
    let folder = tempfile::tempdir().unwrap();
    let first = run(&parse(MIXED), &Fake::default(), folder.path(), 1).unwrap();
    let fake = Fake::default();
    let second = run(&parse(MIXED), &fake, folder.path(), 1).unwrap();
    assert!(fake.ran.lock().unwrap().is_empty());
    assert_eq!(first, second, "costs and per-user values included");
}

#[test]
fn a_broken_or_panicking_trial_ends_the_run_and_can_be_repeated() {
    let expected = whole();
    let folder = tempfile::tempdir().unwrap();
    let broken = Fake { break_after: Some(5), ..Fake::default() };
    let error = run(&parse(MIXED), &broken, folder.path(), 1).unwrap_err().to_string();
    assert_eq!(error, "factors learning_rate=0.01 on ml-100k, seed 5, validation: the disk is full");
    let panics = Fake { panic_after: Some(11), ..Fake::default() };
    let error = run(&parse(MIXED), &panics, folder.path(), 3).unwrap_err().to_string();
    assert!(error.ends_with("panicked: the fake panics"), "{error}");
    assert_eq!(bytes(&run(&parse(MIXED), &Fake::default(), folder.path(), 2).unwrap()), expected);
}

#[test]
fn stopping_keeps_finished_trials() {
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let report = |event: Event<'_>| {
        if let Event::Finished { recorded: 7, .. } = event {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let options = Options { stop: &stop, report: &report, ..Options::new(folder.path()) };
    let error = engine::run(&parse(MIXED), &Fake::default(), &options).unwrap_err();
    assert!(matches!(error, RunError::Interrupted));

    let fake = Fake::default();
    assert_eq!(bytes(&run(&parse(MIXED), &fake, folder.path(), 1).unwrap()), whole());
    assert_eq!(fake.ran.lock().unwrap().len(), 84 - 7);
}

/// What a kill leaves behind is the run folder as it is at that moment.
#[test]
fn resumes_from_the_folder_of_any_moment_with_the_same_bytes() {
    let expected = whole();
    let folder = tempfile::tempdir().unwrap();
    let copies = tempfile::tempdir().unwrap();
    let report = |event: Event<'_>| {
        if let Event::Started(_) | Event::Finished { .. } = event {
            let moment = fs::read_dir(copies.path()).unwrap().count();
            let copy = copies.path().join(moment.to_string());
            fs::create_dir_all(copy.join("values")).unwrap();
            fs::copy(journal(folder.path()), journal(&copy)).unwrap();
            for entry in fs::read_dir(folder.path().join("values")).unwrap() {
                let entry = entry.unwrap();
                fs::copy(entry.path(), copy.join("values").join(entry.file_name())).unwrap();
            }
        }
    };
    let options = Options { report: &report, ..Options::new(folder.path()) };
    engine::run(&parse(MIXED), &Fake::default(), &options).unwrap();
    for moment in [1usize, 2, 61, 75, 167] {
        let fake = Fake::default();
        let copy = copies.path().join(moment.to_string());
        assert_eq!(bytes(&run(&parse(MIXED), &fake, &copy, 2).unwrap()), expected);
        // A trial starts and finishes; what was finished is not run again.
        assert_eq!(fake.ran.lock().unwrap().len(), 84 - moment.div_ceil(2), "moment {moment}");
    }
}

fn journal(folder: &Path) -> PathBuf {
    folder.join("journal.jsonl")
}

/// A run folder after ten trials.
fn ten_trials() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake { break_after: Some(10), ..Fake::default() };
    run(&parse(MIXED), &fake, folder.path(), 1).unwrap_err();
    folder
}

#[test]
fn drops_and_reports_a_torn_last_line() {
    let expected = whole();
    let folder = ten_trials();
    let text = fs::read(journal(folder.path())).unwrap();
    let last = text[..text.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    for end in [last + 1, last + 40, text.len() - 2, text.len() - 1] {
        fs::write(journal(folder.path()), &text[..end]).unwrap();
        let seen = Mutex::new(None);
        let report = |event: Event<'_>| {
            if let Event::Begun { recorded, torn, .. } = event {
                *seen.lock().unwrap() = Some((recorded, torn));
            }
        };
        let options = Options { report: &report, ..Options::new(folder.path()) };
        let results = engine::run(&parse(MIXED), &Fake::default(), &options).unwrap();
        assert_eq!(*seen.lock().unwrap(), Some((9, true)), "torn at {end}");
        assert_eq!(bytes(&results), expected);
    }
}

#[test]
fn treats_trailing_zeros_as_a_torn_line() {
    let folder = ten_trials();
    let mut text = fs::read(journal(folder.path())).unwrap();
    text.extend([0; 600]);
    fs::write(journal(folder.path()), &text).unwrap();
    assert_eq!(bytes(&run(&parse(MIXED), &Fake::default(), folder.path(), 1).unwrap()), whole());
}

#[test]
fn repeats_trials_whose_values_are_lost() {
    let folder = tempfile::tempdir().unwrap();
    let first = run(&parse(MIXED), &Fake::default(), folder.path(), 1).unwrap();
    let lost = fs::read_dir(folder.path().join("values")).unwrap().next().unwrap().unwrap();
    fs::remove_file(lost.path()).unwrap();
    let fake = Fake::default();
    let second = run(&parse(MIXED), &fake, folder.path(), 1).unwrap();
    assert_eq!(fake.ran.lock().unwrap().len(), 1);
    assert_eq!(without_cost(&first), without_cost(&second), "per-user values included");
}

#[test]
fn rejects_damage_before_the_last_line() {
    let folder = ten_trials();
    let text = fs::read_to_string(journal(folder.path())).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[4] = r#"{"trial":{"key":"#;
    fs::write(journal(folder.path()), lines.join("\n") + "\n").unwrap();
    let error = run(&parse(MIXED), &Fake::default(), folder.path(), 1).unwrap_err().to_string();
    assert!(error.contains("journal.jsonl:5: not a line of a journal ("), "{error}");
    assert!(error.ends_with("--fresh starts again"), "{error}");
}

#[test]
fn a_changed_experiment_is_rejected_amended_or_restarted() {
    let folder = ten_trials();
    let changed = parse(&MIXED.replace("[0.01, 0.04, 0.8]", "[0.01, 0.04]"));
    let error = run(&changed, &Fake::default(), folder.path(), 1).unwrap_err().to_string();
    let expected = format!(
        "{} was started with another version of the experiment file; --fresh starts again, --amend keeps the trials \
         that are still asked for, --out takes another folder",
        journal(folder.path()).display()
    );
    assert_eq!(error, expected);

    let fake = Fake::default();
    run_with(&changed, &fake, folder.path(), 1, Existing::Amend).unwrap();
    assert_eq!(fake.ran.lock().unwrap().len(), 76 - 10, "ten of the trials are still asked for");
    let fake = Fake::default();
    run_with(&changed, &fake, folder.path(), 1, Existing::Fresh).unwrap();
    assert_eq!(fake.ran.lock().unwrap().len(), 76);
}

#[test]
fn titles_and_labels_may_change() {
    let folder = ten_trials();
    let reworded = parse(&MIXED.replace("A bit of everything", "Something else").replace("\"Grid\"", "\"Net\""));
    let fake = Fake::default();
    run(&reworded, &fake, folder.path(), 1).unwrap();
    assert_eq!(fake.ran.lock().unwrap().len(), 74);
}

#[test]
fn rejects_changed_data() {
    let folder = ten_trials();
    let other = Fake { fingerprint: "other".into(), ..Fake::default() };
    let error = run(&parse(MIXED), &other, folder.path(), 1).unwrap_err().to_string();
    assert!(
        error.ends_with("the data set ml-100k has changed since this run started; --fresh starts again"),
        "{error}"
    );
}

#[test]
fn finds_a_missing_data_set_before_the_first_trial() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::default();
    let error = run(&parse(&MIXED.replace("synth:town", "missing")), &fake, folder.path(), 1).unwrap_err();
    assert_eq!(error.to_string(), "data set missing: there is no such data set");
    assert!(fake.ran.lock().unwrap().is_empty());
}

#[test]
fn rejects_a_second_process() {
    let folder = tempfile::tempdir().unwrap();
    let report = |event: Event<'_>| {
        if let Event::Started(_) = event {
            let error = run(&parse(MIXED), &Fake::default(), folder.path(), 1).unwrap_err().to_string();
            assert!(error.ends_with("another process is running this experiment"), "{error}");
        }
    };
    let text = "title = \"t\"\ndata = [\"a\"]\n[[model]]\nname = \"mostpop\"\n";
    let options = Options { report: &report, ..Options::new(folder.path()) };
    engine::run(&parse(text), &Fake::default(), &options).unwrap();
}

#[test]
fn selects_the_number_of_epochs_on_validation() {
    let text = MIXED.replace("seeds = 2", "seeds = 2\nevery = 2\npatience = 3\ntest_curve = 3");
    let folder = tempfile::tempdir().unwrap();
    let results = run(&parse(&text), &Fake::default(), folder.path(), 1).unwrap();
    let grid = &results.data[0].rows[1];
    assert_eq!((grid.best_epochs, grid.settings["epochs"].clone()), (Some(6), Value::Integer(6)));
    let epochs: Vec<_> = grid.finals[1].run.curve.iter().map(|point| point.epoch).collect();
    assert_eq!(epochs, [3, 6]);
    assert_eq!(results.data[0].rows[0].best_epochs, None, "nothing is chosen for MostPop");
}

#[test]
fn reports_rows_whose_candidates_all_failed() {
    let text = r#"
        title = "t"
        data = ["a"]
        [[model]]
        name = "factors"
        grid = { learning_rate = [0.7, 0.9] }
    "#;
    let folder = tempfile::tempdir().unwrap();
    let results = run(&parse(text), &Fake::default(), folder.path(), 1).unwrap();
    let row = &results.data[0].rows[0];
    assert_eq!(row.failed(), Some("training diverged in epoch 1: lower the learning rate"));
    assert!(row.finals.is_empty() && row.chosen.is_none());
}

#[test]
fn equal_trials_of_two_rows_run_once() {
    let text = r#"
        title = "t"
        data = ["a"]
        seeds = 2
        [[model]]
        name = "factors"
        [[model]]
        name = "factors"
        label = "Again"
        sweep = { pi = [1, 0.5] }
    "#;
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::default();
    let results = run(&parse(text), &fake, folder.path(), 2).unwrap();
    assert_eq!(fake.ran.lock().unwrap().len(), 4, "pi = 1 is the default");
    let rows = &results.data[0].rows;
    assert_eq!(rows[0].metrics, rows[1].metrics);
    assert_ne!(rows[0].metrics, rows[2].metrics);
}

const GUIDED: &str = r#"
    title = "One choice for a sweep"
    data = ["synth:town"]
    seeds = [3, 5]

    [choice]
    every = 2
    if_failed = "next"

    [[model]]
    name = "factors"
    label = "At {pi}"
    sweep = { pi = [0, 0.5, 1] }
    grid = { learning_rate = [0.0005, 0.4, 0.002] }
    choose_at = { pi = 1 }
"#;

#[test]
fn tunes_a_sweep_at_one_of_its_values() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::default();
    let text = GUIDED.replace("0.4", "0.04");
    let results = run(&parse(&text), &fake, folder.path(), 2).unwrap();
    let rows = &results.data[0].rows;
    let tried: Vec<usize> = rows.iter().map(|row| row.tried.len()).collect();
    assert_eq!(tried, [1, 1, 3], "only the leader tries all");
    for row in rows {
        assert_eq!(row.settings["learning_rate"], Value::Real(0.04), "{}", row.label);
        assert_eq!(row.best_epochs, Some(6), "epochs are each row's own choice");
    }
    // 3 + 1 + 1 on the validation part, 3 x 2 final.
    assert_eq!(fake.ran.lock().unwrap().len(), 5 + 6);
    let again = tempfile::tempdir().unwrap();
    assert_eq!(bytes(&run(&parse(&text), &Fake::default(), again.path(), 1).unwrap()), bytes(&results));
}

#[test]
fn takes_the_next_best_if_the_final_training_diverges() {
    let folder = tempfile::tempdir().unwrap();
    let results = run(&parse(GUIDED), &Fake::default(), folder.path(), 1).unwrap();
    let rows = &results.data[0].rows;
    assert!(rows.iter().all(|row| row.settings["learning_rate"] == Value::Real(0.002) && row.failed().is_none()));
    let guide = &rows[2];
    assert_eq!(guide.passed_over.len(), 1);
    assert_eq!(guide.passed_over[0].settings["learning_rate"], Value::Real(0.4));
    assert!(guide.passed_over[0].reason.contains("diverged in epoch 9"));
    assert_eq!(guide.chosen, Some(2), "the best of the rest, not the first");
    assert!(rows[0].passed_over.is_empty(), "rows that follow never tried it");

    let told = run(
        &parse(&GUIDED.replace("if_failed = \"next\"", "")),
        &Fake::default(),
        tempfile::tempdir().unwrap().path(),
        1,
    );
    assert!(told.unwrap().data[0].rows.iter().all(|row| row.failed().is_some_and(|why| why.contains("epoch 9"))));
}

#[test]
fn a_row_fails_when_no_candidate_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let text = GUIDED.replace("[0.0005, 0.4, 0.002]", "[0.4, 0.45, 0.7]");
    let results = run(&parse(&text), &Fake::default(), folder.path(), 1).unwrap();
    let guide = &results.data[0].rows[2];
    assert_eq!((guide.passed_over.len(), guide.chosen), (1, Some(1)));
    assert!(results.data[0].rows.iter().all(|row| row.failed().is_some()));
}
