//! The report of an experiment says what the results say.

mod common;

use common::{Fake, parse, run};
use sottovoce_evaluate::report::Report;
use sottovoce_experiment::compose::compose;

const TEXT: &str = r#"
    title = "What does disclosure cost?"
    question = "How far does accuracy fall with pi?"
    data = ["ml-100k", "synth:town"]
    seeds = 3
    compare = "MostPop"

    [protocol]
    at = [10, 5]

    [choice]
    every = 2
    test_curve = 2

    [[model]]
    name = "mostpop"

    [[model]]
    name = "factors"
    label = "Factors, pi {pi}"
    sweep = { pi = [0, 1] }
    grid = { learning_rate = [0.01, 0.04] }

    [[model]]
    name = "factors"
    label = "Hopeless"
    data = ["synth:town"]
    grid = { learning_rate = [0.7, 0.9] }

    [[plot]]
    x = "pi"
    y = "f1@10"

    [[plot]]
    x = "bytes_up"
    y = "ndcg@10"
    front = true
"#;

fn report(jobs: usize) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let experiment = parse(TEXT);
    let results = run(&experiment, &Fake::default(), folder.path(), jobs).unwrap().without_cost();
    compose(&experiment, TEXT, &results, &[("command".into(), "sottovoce run x.toml".into())])
}

#[test]
fn the_verdict_names_the_best_row_its_lead_and_its_rival() {
    let report = report(1);
    let first = &report.summary[0];
    assert!(first.starts_with("**Factors, pi 1** ranks best on ml-100k: nDCG@10 of 0."), "{first}");
    assert!(first.contains("% above **Factors, pi 0** (0."), "{first}");
    assert_eq!(report.summary.len(), 3);
}

#[test]
fn rows_are_marked_where_they_differ_from_the_row_they_are_compared_with() {
    let report = report(1);
    let table = report.tables().next().unwrap();
    assert_eq!(table.caption, "Accuracy of the first 10 on ml-100k");
    let ndcg = |row: usize| &table.rows[row].cells[0];
    assert!(ndcg(0).marks.is_empty(), "the reference itself");
    assert_eq!(ndcg(2).marks[0].symbol, "▲");
    let (low, high) = ndcg(2).interval.unwrap();
    assert!(low < high && ndcg(2).spread.unwrap() > 0.0);
    assert_eq!(table.rows[2].detail, "learning_rate 0.04, pi 1");
}

#[test]
fn plots_follow_the_file_and_failures_are_told() {
    let report = report(1);
    let titles: Vec<&str> = report.plots().map(|plot| plot.title.as_str()).collect();
    for wanted in [
        "F1@10 against pi, ml-100k",
        "nDCG@10 against bytes up, synth:town",
        "nDCG@10 on the test part of ml-100k",
        "nDCG@10 on the validation part of synth:town",
        "Bias disparity by category on ml-100k",
        "How often items are recommended on synth:town",
        "Best setting so far on ml-100k",
    ] {
        assert!(titles.contains(&wanted), "{wanted} is not among {titles:?}");
    }
    let page = report.to_html();
    assert!(page.contains("has no result: training diverged in epoch 1: lower the learning rate"));
}

#[test]
fn the_page_is_the_same_whatever_the_order() {
    assert_eq!(report(1).to_html(), report(4).to_html());
}
