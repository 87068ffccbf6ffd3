//! The report of an experiment.

mod common;

use common::{Fake, parse, run, without_cost};
use sottovoce_data::LoadOptions;
use sottovoce_evaluate::report::plot::{Scale, Series, Shape, Style};
use sottovoce_evaluate::report::{Plot, Report};
use sottovoce_experiment::Experiment;
use sottovoce_experiment::engine::{self, Options};
use sottovoce_experiment::recommender::Recommenders;
use sottovoce_experiment::report::compose;
use sottovoce_federation::registry;

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
    let results = without_cost(&run(&experiment, &Fake::default(), folder.path(), jobs).unwrap());
    compose(&experiment, TEXT, &results, &[("command".into(), "sottovoce run x.toml".into())])
}

#[test]
fn summary_names_the_best_row_and_the_runner_up() {
    let report = report(1);
    assert!(report.summary[0].starts_with("With every history left on its device"), "{}", report.summary[0]);
    let first = &report.summary[1];
    assert!(first.starts_with("**Factors, pi 1** ranks best on ml-100k: nDCG@10 of 0."), "{first}");
    assert!(first.contains("% above **Factors, pi 0** (0."), "{first}");
    assert!(
        report.summary[2].starts_with("Over the sweep of π, nDCG@10 of **Factors** on ml-100k goes from 0."),
        "{}",
        report.summary[2]
    );
    assert_eq!(report.summary.len(), 2 * 3 + 1);
}

#[test]
fn marks_rows_that_differ_from_the_reference() {
    let report = report(1);
    let caption = "Accuracy of the top 10 on ml-100k";
    let table = report.tables().find(|table| table.caption == caption).unwrap();
    let ndcg = |row: usize| &table.rows[row].cells[0];
    assert!(ndcg(0).marks.is_empty(), "the reference itself");
    assert_eq!(ndcg(2).marks[0].symbol, "▲");
    let (low, high) = ndcg(2).interval.unwrap();
    assert!(low < high && ndcg(2).spread.unwrap() > 0.0);
    assert_eq!(table.rows[2].detail, "learning_rate 0.04", "pi is in the label");
}

#[test]
fn has_the_plots_of_the_file_and_lists_failures() {
    let report = report(1);
    let titles: Vec<&str> = report.plots().map(|plot| plot.title.as_str()).collect();
    for wanted in [
        "F1@10 against π, ml-100k",
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
fn bias_table_starts_with_the_training_part() {
    let report = report(1);
    let caption = "Bias by category of the top 10 on ml-100k";
    let table = report.tables().find(|table| table.caption == caption).unwrap();
    let titles: Vec<&str> = table.columns.iter().map(|column| column.title.as_str()).collect();
    assert_eq!(titles, ["bars", "parks", "zoos"]);
    let labels: Vec<&str> = table.rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(labels, ["Training part (B_T)", "MostPop", "Factors, pi 0", "Factors, pi 1"]);
    let value = |row: usize, column: usize| table.rows[row].cells[column].value.unwrap();
    assert_eq!([value(0, 0), value(0, 2), value(1, 1)], [1.4, 0.1, -0.2]);
}

#[test]
fn shares_of_the_users_get_learning_curves() {
    let text = "title = \"x\"\ndata = [{ name = \"ml-100k\", user_share = [1, 0.1, 0.5] }, \"synth:town\"]\n\
        seeds = 2\n[[model]]\nname = \"mostpop\"\n[[model]]\nname = \"factors\"\n";
    let (experiment, folder) = (parse(text), tempfile::tempdir().unwrap());
    let results = run(&experiment, &Fake::default(), folder.path(), 1).unwrap();
    let report = compose(&experiment, text, &results, &[]);
    let title = "nDCG@10 by share of the users of ml-100k";
    let plot = report.plots().find(|plot| plot.title == title).unwrap();
    let Shape::Lines(series) = &plot.shape else { panic!("a plot of curves") };
    let shares: Vec<Vec<f64>> = series.iter().map(|one| one.points.iter().map(|point| point.x).collect()).collect();
    assert_eq!(shares, [[0.1, 0.5, 1.0], [0.1, 0.5, 1.0]]);
    let table = report.tables().find(|table| table.caption == title).unwrap();
    let titles: Vec<&str> = table.columns.iter().map(|column| column.title.as_str()).collect();
    assert_eq!(titles, ["10 %", "50 %", "100 %"]);
    assert!(report.plots().all(|plot| plot.title != "nDCG@10 by share of the users of synth:town"));
}

#[test]
fn page_does_not_depend_on_the_number_of_jobs() {
    assert_eq!(report(1).to_html(), report(4).to_html());
}

/// Of real trainings: what is held, stored and paid, beside the figures that the paper of ReFRS prints.
#[test]
fn federated_rows_have_a_footprint() {
    let text = "title = \"x\"\ndata = [\"synth:town:users=50\"]\n[protocol]\nsplit = \"last\"\n\
        [[model]]\nname = \"mostpop\"\n[[model]]\nname = \"fpl\"\nset = { epochs = 1 }\n\
        [[model]]\nname = \"refrs\"\nset = { epochs = 3, local_epochs = 1, recommender_epochs = 1 }\n";
    let file = Experiment::parse("x.toml", text, &registry::all()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let trials = Recommenders::new(LoadOptions::default(), || None);
    let results = engine::run(&file, &trials, &Options::new(folder.path())).unwrap();
    let report = compose(&file, text, &results, &[]);
    let table = report.tables().find(|table| table.caption == "What a device holds").unwrap();
    let labels: Vec<&str> = table.rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(labels, ["FPL", "ReFRS", "FedAvg and FedFast, GMF (published)", "ReFRS (published)"]);
    let value = |row: usize, column: usize| table.rows[row].cells[column].value;
    let items = results.data[0].card.card.items as f64;
    assert_eq!((value(0, 0), value(1, 0)), (Some(items), Some(100.0)));
    let (parameters, stored) = (value(1, 1).unwrap(), value(1, 3).unwrap());
    assert!((45_000.0..55_000.0).contains(&parameters) && stored == 4.0 * parameters, "{parameters} {stored}");
    assert!(value(1, 4).unwrap() > 4.0 * value(1, 2).unwrap(), "the message has a head");
    assert!(value(0, 5).is_none() && value(1, 5).unwrap() > 100_000.0);
    assert!(value(0, 6).unwrap() > 0.0 && value(0, 7).is_none());
    assert!(value(1, 6).unwrap() > 0.0 && value(1, 7).unwrap() > 0.0);
    let plot = report.plots().find(|plot| plot.title == "Bytes on a device").unwrap();
    assert!(matches!(&plot.shape, Shape::Bars { categories, .. } if categories.len() == 2));
    // A server has one cluster until the second round takes up what it began to look for after the first.
    let plot = report.plots().find(|plot| plot.title.starts_with("Clusters over the rounds")).unwrap();
    let Shape::Lines(series) = &plot.shape else { panic!("a plot of curves") };
    let points: Vec<(f64, f64)> = series[0].points.iter().map(|point| (point.x, point.y)).collect();
    let found = points[2].1;
    assert_eq!(points, [(0.0, 1.0), (2.0, 1.0), (2.0, found), (3.0, found)]);
}

/// An experiment with more rows than a table can show.
const WIDE: &str = r#"
    title = "What does disclosure cost?"
    data = ["synth:town"]
    seeds = 2

    [choice]
    every = 2

    [[model]]
    name = "mostpop"

    [[model]]
    name = "factors"
    label = "Small, π = {pi}"
    set = { factors = 5 }
    sweep = { pi = [1, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6] }
    grid = { learning_rate = [0.01, 0.04] }
    choose_at = { pi = 1 }

    [[model]]
    name = "factors"
    label = "Large, π = {pi}"
    sweep = { pi = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 1] }
    grid = { learning_rate = [0.01, 0.04] }
    choose_at = { pi = 1 }
"#;

fn wide() -> Report {
    let folder = tempfile::tempdir().unwrap();
    let experiment = parse(WIDE);
    let results = without_cost(&run(&experiment, &Fake::default(), folder.path(), 1).unwrap());
    compose(&experiment, WIDE, &results, &[])
}

fn lines<'a>(report: &'a Report, title: &str) -> (&'a Plot, &'a [Series]) {
    let titles: Vec<&str> = report.plots().map(|plot| plot.title.as_str()).collect();
    let plot = report.plots().find(|plot| plot.title == title).unwrap_or_else(|| panic!("{titles:?}"));
    match &plot.shape {
        Shape::Lines(series) | Shape::Scatter { series, .. } => (plot, series),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_wide_sweep_is_one_row_of_the_main_tables() {
    let report = wide();
    let labels = |caption: &str| {
        let table = report.tables().find(|table| table.caption == caption).unwrap();
        table.rows.iter().map(|row| row.label.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(labels("Accuracy of the top 10 on synth:town"), ["MostPop", "Small, π = 1", "Large, π = 1"]);
    let swept = labels("Top 10 over π on synth:town");
    assert_eq!(swept[..9], ["0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "1", "0"]);
    let titles: Vec<&str> = report.sections.iter().map(|section| section.title.as_str()).collect();
    assert_eq!(titles[..4], ["Disclosure", "Sweep over π", "Popularity and bias over π", "Results"]);
    let results = &report.sections[3];
    assert!(results.text.contains("best on the validation part is shown"), "{}", results.text);
}

#[test]
fn plots_a_metric_over_the_sweep() {
    let report = wide();
    let (plot, series) = lines(&report, "nDCG@10 against π on synth:town");
    assert_eq!([series[0].name.as_str(), series[1].name.as_str()], ["Small", "Large"]);
    let xs: Vec<f64> = series[0].points.iter().map(|point| point.x).collect();
    assert_eq!(xs, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0], "in order, whatever the file says");
    assert!(series[0].points.iter().all(|point| point.bounds.is_some_and(|(low, high)| low < high)));
    // MostPop is a fraction of the others: as a line it would leave the curves no room.
    assert!(plot.references.is_empty() && plot.caption.contains("Outside the plot: MostPop 0."), "{}", plot.caption);
}

#[test]
fn plots_accuracy_against_communication() {
    let report = wide();
    let (plot, series) = lines(&report, "nDCG@10 against communication in bytes on synth:town");
    assert_eq!((plot.x.scale, series.len()), (Scale::Log, 2));
    assert_eq!(series[0].points[0].label.as_deref(), Some("π = 0"));
    assert_eq!(series[0].points[3].label, None, "only the ends are labelled");
    let table = report.tables().find(|table| table.caption == "What leaves a device on synth:town").unwrap();
    let page = report.to_html();
    assert_eq!(table.rows.len(), 3);
    assert!(page.contains("the whole history") && page.contains("updates from 100 % of the history"));
    assert!(report.summary[0].starts_with("With every history left on its device, **Large, π = 1** reaches"));
    // Accuracy is 0.4 and a twentieth of π: π = 0.1 or 0.2 reaches nine tenths of what π = 1 does.
    assert!(report.summary[2].contains(" suffices for 9"), "{}", report.summary[2]);
}

#[test]
fn plots_update_and_recommendation_frequency() {
    let report = wide();
    let (_, updates) = lines(&report, "Update frequency of items: Small on synth:town");
    assert_eq!((updates.len(), updates[0].name.as_str(), updates[0].style), (8, "π = 0", Style::Tone(0.0)));
    assert_eq!(updates[7].style, Style::Tone(1.0));
    assert!(updates[0].points.windows(2).all(|pair| pair[0].y >= pair[1].y));
    let (_, lists) = lines(&report, "Recommendation frequency of items: Large on synth:town");
    assert_eq!((lists.last().unwrap().name.as_str(), lists.last().unwrap().style), ("training part", Style::Reference));
}

#[test]
fn bias_plot_omits_rare_categories() {
    let report = wide();
    let plot =
        report.plots().find(|plot| plot.title == "Bias disparity by category over π: Small on synth:town").unwrap();
    let Shape::Bars { categories, series, .. } = &plot.shape else { panic!("{:?}", plot.shape) };
    assert_eq!(categories, &["bars", "parks"], "zoos are rare");
    let names: Vec<&str> = series.iter().map(|bars| bars.name.as_str()).collect();
    assert_eq!(names, ["π = 0", "π = 0.1", "π = 0.2", "π = 0.4", "π = 0.5", "π = 1"]);
}

#[test]
fn lists_rejected_candidates() {
    let folder = tempfile::tempdir().unwrap();
    let text = WIDE.replace("every = 2", "if_failed = \"next\"").replace("[0.01, 0.04]", "[0.4, 0.001]");
    let experiment = parse(&text);
    let results = run(&experiment, &Fake::default(), folder.path(), 1).unwrap();
    let page = compose(&experiment, &text, &results, &[]).to_html();
    assert!(page.contains("learning_rate = 0.4 was best on the validation part, but its final training failed"));
}
