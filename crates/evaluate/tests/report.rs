//! The report: ranks in tables, escaping, files, plots.

use proptest::prelude::*;
use sottovoce_evaluate::report::plot::{
    Axis, Bars, Orientation, ParetoAxes, Point, Series, Shape, Style, Summary, Unit, pareto_front,
};
use sottovoce_evaluate::report::{
    Cell, CellRank, Column, DataCard, Direction, Format, KeyFigure, Mark, Plot, Report, Row, Section, Table,
};
use std::fs;

/// A title that breaks out of every context it is put into without escaping.
const HOSTILE: &str = "</title></style></script>\"'><script>alert(1)</script><img src=x onerror=alert(2)>&\u{0}\u{1b}";

fn column(values: &[Option<f64>], column: Column) -> Table {
    let rows = values.iter().map(|&value| Row::new("model").cell(Cell::maybe(value)));
    rows.fold(Table::new("t", "Model").column(column), Table::row)
}

fn cell_ranks(values: &[Option<f64>], with: Column) -> Vec<CellRank> {
    column(values, with).cell_ranks().into_iter().map(|row| row[0]).collect()
}

use CellRank::{Best, Other, Second};

#[test]
fn ranks_follow_the_direction() {
    let values = [Some(0.3), Some(0.1), Some(0.2)];
    assert_eq!(cell_ranks(&values, Column::new("a", "A").higher()), [Best, Other, Second]);
    assert_eq!(cell_ranks(&values, Column::new("a", "A").lower()), [Other, Best, Second]);
    assert_eq!(cell_ranks(&values, Column::new("a", "A")), [Other, Other, Other]);
}

#[test]
fn values_with_equal_text_have_equal_ranks() {
    let near = [Some(0.500_04), Some(0.500_01), Some(0.2), Some(0.1)];
    assert_eq!(cell_ranks(&near, Column::new("a", "A").higher().digits(4)), [Best, Best, Other, Other]);
    assert_eq!(cell_ranks(&near, Column::new("a", "A").higher().digits(5)), [Best, Second, Other, Other]);
    let second = [Some(0.9), Some(0.2), Some(0.2)];
    assert_eq!(cell_ranks(&second, Column::new("a", "A").higher()), [Best, Second, Second]);
}

#[test]
fn missing_values_and_nan_are_never_best() {
    let values = [Some(f64::NAN), None, Some(0.1), Some(f64::INFINITY), Some(0.2)];
    assert_eq!(cell_ranks(&values, Column::new("a", "A").lower()), [Other, Other, Best, Other, Other]);
    assert_eq!(cell_ranks(&values, Column::new("a", "A").higher()), [Other, Other, Other, Other, Best]);
}

#[test]
fn no_rank_without_a_choice() {
    assert_eq!(cell_ranks(&[Some(1.0)], Column::new("a", "A").higher()), [Other]);
    assert_eq!(cell_ranks(&[Some(1.0), Some(1.0)], Column::new("a", "A").higher()), [Other, Other]);
    assert_eq!(cell_ranks(&[None, None], Column::new("a", "A").higher()), [Other, Other]);
    assert_eq!(cell_ranks(&[], Column::new("a", "A").higher()), []);
    assert_eq!(cell_ranks(&[Some(1.0), Some(2.0)], Column::new("a", "A").higher()), [Other, Best]);
}

#[test]
fn groups_are_ranked_separately_and_references_not_at_all() {
    let line = |group: &str, value: f64| Row::new("m").group(group).cell(Cell::number(value));
    let table = Table::new("t", "Model")
        .column(Column::new("a", "A").higher())
        .row(line("x", 0.1))
        .row(line("y", 0.7))
        .row(line("x", 0.2))
        .row(line("y", 0.6))
        .row(line("y", 0.9).reference());
    let first: Vec<CellRank> = table.cell_ranks().iter().map(|row| row[0]).collect();
    assert_eq!(first, [Other, Best, Other, Second, Other]);
    let grouped: Vec<CellRank> = table.best_in_group().cell_ranks().iter().map(|row| row[0]).collect();
    assert_eq!(grouped, [Other, Best, Best, Other, Other]);
}

fn hostile_report() -> Report {
    let table = Table::new(HOSTILE, HOSTILE)
        .label(HOSTILE)
        .note(HOSTILE)
        .column(Column::new(HOSTILE, HOSTILE).help(HOSTILE).higher())
        .column(Column::new("words", HOSTILE).format(Format::Text))
        .row(
            Row::new(HOSTILE)
                .group(HOSTILE)
                .detail(HOSTILE)
                .cell(Cell::number(1.0).mark(Mark::new(HOSTILE, HOSTILE).detail(HOSTILE)))
                .cell(Cell::text(HOSTILE)),
        );
    let card = DataCard {
        name: HOSTILE.into(),
        source: HOSTILE.into(),
        fingerprint: HOSTILE.into(),
        filters: vec![HOSTILE.into()],
        split: HOSTILE.into(),
        parts: vec![(HOSTILE.into(), 3)],
        facts: vec![(HOSTILE.into(), HOSTILE.into())],
        ..DataCard::default()
    };
    let section = Section::new(HOSTILE).text(HOSTILE).table(table).note(HOSTILE);
    let section = plots(HOSTILE).into_iter().fold(section, Section::plot);
    Report::new(HOSTILE)
        .subtitle(HOSTILE)
        .sentence(HOSTILE)
        .figure(KeyFigure::new(HOSTILE, HOSTILE, HOSTILE))
        .section(section)
        .data_card(card)
        .configuration(HOSTILE, HOSTILE)
        .provenance(HOSTILE, HOSTILE)
}

/// Less of x for more of y: accuracy against its cost.
const LOW_X_HIGH_Y: ParetoAxes = ParetoAxes { x: Direction::LowerBetter, y: Direction::HigherBetter };

/// One plot of every kind, with a name everywhere a name can rank.
fn plots(name: &str) -> Vec<Plot> {
    let point = |x: f64, y: f64| Point::new(x, y).bounds(y - 0.5, y + 0.5).label(name);
    let series = |shift: f64| Series::of(name, vec![point(1.0, shift), point(10.0, shift + 2.0), point(f64::NAN, 1.0)]);
    let axis = || Axis::new(name);
    let other = || Series::new(format!("{name} 2"), [(2.0, 3.0), (5.0, 1.0)]);
    vec![
        Plot::lines(name, axis().log(), axis().unit(Unit::Bytes), vec![series(1.0), other()])
            .caption(name)
            .reference(1.5, name),
        Plot::pareto(name, axis(), axis().unit(Unit::Percent), vec![series(1.0), other()], LOW_X_HIGH_Y),
        Plot::scatter(name, axis(), axis(), vec![Series::new(name, [(1.0, 1.0)]), Series::new("b", [(2.0, 2.0)])]),
        Plot::bars(
            name,
            axis(),
            [name, "b"],
            vec![Bars::new(name, [1.0, -2.0]).bounds([(0.5, 1.5), (-2.5, -1.5)]), Bars::new("c", [2.0])],
        ),
        Plot::bars(name, axis(), [name, "b"], vec![Bars::new(name, [1.0, -2.0])]).orientation(Orientation::Vertical),
        Plot::bars(name, axis(), [name, "b"], vec![Bars::new(name, [1.0, -2.0])])
            .orientation(Orientation::Horizontal)
            .full_width(),
        Plot::boxes(name, axis(), vec![Summary::of(name, &[1.0, 5.0, 2.0]), Summary::of("none", &[])]),
    ]
}

#[test]
fn hostile_names_are_escaped() {
    let page = hostile_report().to_html();
    assert_eq!(page.matches("<script").count(), 1, "only the page's own script");
    assert_eq!(page.matches("</script").count(), 1);
    assert_eq!(page.matches("</style").count(), 1);
    assert!(!page.contains("<img") && !page.contains('\u{0}') && !page.contains('\u{1b}'));
    // The quote of the hostile name would end an attribute: it must never appear unescaped before a tag.
    assert!(!page.contains("\"'>"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn contents_link_to_sections_and_their_tables() {
    let table = |name: &str| Table::new(name, "Model").column(Column::new("x", "X")).row(Row::new("a").numbers([1.0]));
    let section = |name: &str| Section::new(name).table(table(&format!("Table of {name}")));
    let page =
        ["One", "Two", "Three"].iter().fold(Report::new("r"), |report, name| report.section(section(name))).to_html();
    let (_, rest) = page.split_once("<nav").unwrap();
    let nav = rest.split_once("</nav>").unwrap().0;
    for name in ["One", "Two", "Three"] {
        for title in [name.to_owned(), format!("Table of {name}")] {
            let link = nav.split("<a href=\"#").find(|link| link.contains(&format!(">{title}</a>"))).unwrap();
            let (to, _) = link.split_once('"').unwrap();
            assert!(page.contains(&format!("id=\"{to}\"")), "{title}: {to}");
        }
    }
}

#[test]
fn lines_too_near_each_other_for_their_names_are_named_together() {
    let curve = || vec![Series::new("curve", [(0.0, 0.0), (10.0, 10.0)])];
    let plot = Plot::lines("p", Axis::new("x"), Axis::new("y"), curve());
    let page = |plot: Plot| Report::new("r").section(Section::new("s").plot(plot)).to_html();
    let near = page(plot.clone().reference(4.0, "lower").reference(4.1, "upper"));
    assert!(near.contains(">upper, lower<") && !near.contains(">lower<"));
    let far = page(plot.reference(2.0, "lower").reference(8.0, "upper"));
    assert!(far.contains(">lower<") && far.contains(">upper<"));
}

#[test]
fn page_fetches_nothing() {
    let page = hostile_report().to_html().to_lowercase();
    let outside = page.replace(&HOSTILE.to_lowercase(), "");
    for fetch in [
        "@import", "url(", "<link", "<iframe", "<object", "<embed", "<base", "srcset", "http://", "https://", "fetch(",
        "xmlhttp",
    ] {
        assert!(!outside.contains(fetch), "{fetch}");
    }
    assert_eq!(outside.matches(" src=").count(), outside.matches("&lt;img src=").count(), "src only as words");
    for link in page.split("href=\"").skip(1) {
        assert!(link.starts_with('#') || link.starts_with("data:text/csv"), "{}", &link[..40.min(link.len())]);
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn plots_are_well_formed_and_accessible() {
    for name in ["plain", HOSTILE, "", "π ∈ [0, 1] 日本語"] {
        for plot in plots(name) {
            let svg = plot.to_svg();
            let document = roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{e}: {svg}"));
            let root = document.root_element();
            assert_eq!(root.attribute("role"), Some("img"));
            assert!(root.attribute("aria-label").is_some_and(|label| !label.is_empty()));
            assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
            assert!(root.descendants().any(|node| node.has_tag_name("title") || node.tag_name().name() == "title"));
        }
    }
}

#[test]
fn plot_marks_are_inside_the_picture() {
    for plot in plots("inside") {
        let svg = plot.to_svg();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let view: Vec<f64> =
            document.root_element().attribute("viewBox").unwrap().split(' ').map(|v| v.parse().unwrap()).collect();
        for mark in document.descendants().filter(|node| node.has_attribute("data-x")) {
            let at = |name: &str| mark.attribute(name).unwrap().parse::<f64>().unwrap();
            assert!((view[0]..=view[0] + view[2]).contains(&at("data-x")), "{}", plot.title);
            assert!((view[1]..=view[1] + view[3]).contains(&at("data-y")), "{}", plot.title);
        }
    }
}

#[test]
fn counts_values_that_cannot_be_shown() {
    let series = vec![Series::new("a", [(0.0, 1.0), (1.0, 2.0), (10.0, f64::NAN), (100.0, 3.0)])];
    let plot = Plot::lines("t", Axis::new("x").log(), Axis::new("y"), series);
    assert!(plot.to_svg().contains("Not shown: 2 values"));
    let whole = Plot::lines("t", Axis::new("x"), Axis::new("y"), vec![Series::new("a", [(0.0, 1.0), (1.0, 2.0)])]);
    assert!(!whole.to_svg().contains("Not shown"));
}

#[test]
fn extreme_numbers_do_not_break_axes() {
    let cases = [
        vec![(1.4e12, 5.7e-294), (1.3e300, 2.4e-14)],
        vec![(-1.7e308, 1.0), (1.7e308, 2.0)],
        vec![(5e-324, 1.0), (0.0, 2.0)],
        vec![(1e15, 1.0), (1e15 + 0.125, 1.0)],
    ];
    for points in cases {
        for axis in [Axis::new("x"), Axis::new("x").log()] {
            let plot = Plot::lines("t", axis.clone(), axis, vec![Series::new("a", points.clone())]);
            roxmltree::Document::parse(&plot.to_svg()).unwrap();
            assert!(plot.to_svg().len() < 20_000);
        }
    }
}

#[test]
fn empty_plots_and_tables_have_a_message() {
    let x = || Axis::new("x");
    let empty = [
        Plot::lines("t", x(), x(), Vec::new()),
        Plot::lines("t", x().log(), x(), vec![Series::new("a", [(-1.0, 1.0)])]),
        Plot::scatter("t", x(), x(), vec![Series::new("a", [])]),
        Plot::bars("t", x(), [""; 0], vec![Bars::new("a", [])]),
        Plot::bars("t", x(), ["a"], vec![Bars::new("a", [f64::NAN])]),
        Plot::boxes("t", x(), Vec::new()),
    ];
    for plot in &empty {
        assert!(plot.to_svg().contains("No data to show"), "{:?}", plot.shape);
        roxmltree::Document::parse(&plot.to_svg()).unwrap();
    }
    let table = Table::new("Nothing", "Model").column(Column::new("a", "A"));
    assert!(Report::new("r").table("s", table.clone()).to_html().contains("No rows"));
    assert_eq!(table.to_csv(), "model,a\r\n");
    assert!(table.to_text(80).starts_with("Nothing\nModel"));
    assert!(Report::default().to_html().ends_with("</html>\n"));
}

#[test]
fn pareto_front_of_fixed_points() {
    let points = [(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 4.0), (2.0, 3.0), (f64::NAN, 9.0), (5.0, 4.0)];
    assert_eq!(pareto_front(&points, LOW_X_HIGH_Y), [0, 1, 4, 3]);
    let both = ParetoAxes { x: Direction::HigherBetter, y: Direction::HigherBetter };
    assert_eq!(pareto_front(&points, both), [6]);
    let low = ParetoAxes { x: Direction::HigherBetter, y: Direction::LowerBetter };
    assert_eq!(pareto_front(&points, low), [0, 2, 6]);
    assert!(pareto_front(&[], both).is_empty());
}

proptest! {
    #[test]
    fn dominated_points_are_dominated_by_the_front(
        points in prop::collection::vec((0..20_i32, 0..20_i32), 1..40)
    ) {
        let points: Vec<(f64, f64)> = points.into_iter().map(|(x, y)| (x.into(), y.into())).collect();
        let front = pareto_front(&points, LOW_X_HIGH_Y);
        let beats = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 && a.1 >= b.1 && a != b;
        prop_assert!(!front.is_empty());
        for (at, &point) in points.iter().enumerate() {
            let beaten = front.iter().any(|&f| beats(points[f], point));
            prop_assert_eq!(beaten, !front.contains(&at));
        }
    }

    #[test]
    fn any_curve_gives_well_formed_svg(
        points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..30),
        log in any::<(bool, bool)>(),
        name in "\\PC{0,12}",
    ) {
        let axis = |log: bool| if log { Axis::new("a").log() } else { Axis::new("a") };
        let plot = Plot::lines(name.clone(), axis(log.0), axis(log.1), vec![Series::new(name, points)]);
        let svg = plot.to_svg();
        prop_assert!(roxmltree::Document::parse(&svg).is_ok(), "{}", svg);
    }

    #[test]
    fn csv_round_trips(fields in prop::collection::vec("[a-z,\"\r\n ;=é]{0,6}", 1..5)) {
        let table = fields.iter().fold(Table::new("t", "Model").column(Column::new("w", "W").format(Format::Text)), |t, f| {
            t.row(Row::new(f.clone()).cell(Cell::text(f.clone())))
        });
        let read = read_csv(&table.to_csv());
        prop_assert_eq!(read.len(), fields.len() + 1);
        for (line, field) in read[1..].iter().zip(&fields) {
            prop_assert_eq!(line, &vec![field.clone(), field.clone()]);
        }
    }
}

/// A plain RFC 4180 reader.
fn read_csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                field.push('"');
                chars.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted && chars.peek() == Some(&'\n') => {
                chars.next();
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    rows
}

#[test]
fn csv_has_full_precision_and_uncertainty() {
    let table = Table::new("t", "Model")
        .column(Column::new("ndcg", "nDCG").digits(2))
        .column(Column::new("note", "Note").format(Format::Text))
        .row(
            Row::new("a, \"b\"")
                .group("g")
                .cell(Cell::number(1.0 / 3.0).spread(0.01).interval(0.3, 0.4).mark(Mark::new("†", "less")))
                .cell(Cell::text("two\nlines")),
        )
        .row(Row::new("short").group("g"));
    let expected = "group,model,ndcg,ndcg_sd,ndcg_low,ndcg_high,ndcg_marks,note\r\n\
                    g,\"a, \"\"b\"\"\",0.3333333333333333,0.01,0.3,0.4,†,\"two\nlines\"\r\n\
                    g,short,,,,,,\r\n";
    assert_eq!(table.to_csv(), expected);
}

#[test]
fn terminal_tables_align_wide_characters() {
    let table = Table::new("Accuracy", "Model")
        .label("sampled: 99 negatives")
        .column(Column::new("ndcg", "nDCG").higher().digits(3))
        .column(Column::new("note", "Note").format(Format::Text))
        .row(Row::new("最近傍").cell(Cell::number(0.25).spread(0.01)).cell(Cell::text("wide")))
        .row(Row::new("naïve").cell(Cell::number(0.5)).cell(Cell::text("narrow")))
        .row(Row::new("none"))
        .note("A **note**.");
    let expected = "Accuracy [sampled: 99 negatives]\n\
                    Model    nDCG          Note\n\
                    ─────────────────────────────\n\
                    最近傍  0.250  ±0.010  wide\n\
                    naïve   0.500*         narrow\n\
                    none        –          –\n\
                    * best of its column\n\
                    A note.\n";
    assert_eq!(table.to_text(80), expected);
    assert!(!table.to_text(80).contains('\u{1b}'));
    assert!(table.to_text_styled(80).contains("\u{1b}[1m0.500*\u{1b}[0m"));
}

#[test]
fn terminal_tables_shorten_long_labels() {
    let table = Table::new("t", "Model")
        .column(Column::new("a", "A"))
        .row(Row::new("a label that is much longer than the terminal is wide").numbers([0.5]));
    let text = table.to_text(40);
    assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    assert!(text.contains("a label that is much") && text.contains("…"));
}

#[test]
fn terminal_tables_keep_labels_apart() {
    let table = Table::new("t", "Model")
        .column(Column::new("a", "A"))
        .row(Row::new("FPL, sealed, π 0.5, with noise").numbers([0.5]))
        .row(Row::new("FPL, sealed, π 1, with noise").numbers([0.25]));
    let text = table.to_text(20);
    assert!(text.contains("FPL, sealed, π 0") && text.contains("FPL, sealed, π 1"), "{text}");
    assert!(!text.contains("with"), "no longer than needed: {text}");
}

#[test]
fn write_is_atomic_and_leaves_no_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("made/on the way");
    let report = hostile_report().table("again", Table::new(HOSTILE, "Model"));
    let page = report.write(&target).unwrap();
    assert_eq!(fs::read_to_string(&page).unwrap(), report.to_html());
    let names = |dir: &std::path::Path| {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&target), ["report.html", "report.json", "tables"]);
    let tables = names(&target.join("tables"));
    assert_eq!(tables.len(), 2, "{tables:?}");
    let first = report.tables().next().unwrap();
    let wanted = first.to_csv();
    assert!(tables.iter().any(|name| fs::read_to_string(target.join("tables").join(name)).unwrap() == wanted));
    // A second writing replaces the first.
    Report::new("short").write(&target).unwrap();
    assert!(fs::read_to_string(&page).unwrap().contains("<h1>short</h1>"));
}

#[test]
fn failed_write_keeps_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    // A folder in the place of the page cannot be replaced by a file.
    fs::create_dir_all(folder.path().join("report.html/inner")).unwrap();
    let error = Report::new("r").write(folder.path()).unwrap_err().to_string();
    assert!(error.contains("report.html"), "{error}");
    let left: Vec<String> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(left.iter().all(|name| !name.ends_with(".part")), "{left:?}");
}

#[test]
fn the_same_report_gives_the_same_html_and_json() {
    let report = || Report::new("r").section(plots("p").into_iter().fold(Section::new("s"), Section::plot));
    assert_eq!(report().to_html(), report().to_html());
    let json = serde_json::to_value(report()).unwrap();
    assert_eq!(json["sections"][0]["blocks"].as_array().unwrap().len(), plots("p").len());
    assert_eq!(json["sections"][0]["blocks"][0]["plot"]["references"][0]["value"], 1.5);
}

#[test]
fn series_have_one_colour_throughout_a_report() {
    let one = |names: &[&str]| {
        let series = names.iter().map(|name| Series::new(*name, [(0.0, 1.0), (1.0, 2.0)])).collect();
        Plot::lines("t", Axis::new("x"), Axis::new("y"), series)
    };
    let page =
        Report::new("r").section(Section::new("s").plot(one(&["ials", "ease"])).plot(one(&["bpr", "ials"]))).to_html();
    let class_of = |name: &str| {
        let mark = format!("<title>{name}\n");
        let classes: Vec<&str> = page
            .split(&mark)
            .skip(1)
            .map(|rest| rest.split("pl-mark ").nth(1).unwrap().split('"').next().unwrap())
            .collect();
        assert!(classes.iter().all(|class| *class == classes[0]), "{name}: {classes:?}");
        classes[0].to_string()
    };
    assert_eq!([class_of("ials"), class_of("ease"), class_of("bpr")], ["pl-c1", "pl-c2", "pl-c2"]);
}

#[test]
fn tones_use_the_ramp_and_names_the_palette() {
    let curve = |name: &str| Series::new(name, [(0.0, 1.0), (1.0, 2.0)]);
    let steps = (0..5).map(|at| curve(&format!("step {at}")).style(Style::Tone(f64::from(at) / 4.0)));
    let series = steps.chain([curve("crowd").style(Style::Reference), curve("named")]).collect();
    let plot = Plot::lines("t", Axis::new("x"), Axis::new("y"), series);
    let page = Report::new("r").section(Section::new("s").plot(plot.clone())).to_html();
    let class_of = |name: &str| {
        let mark = page.split(&format!("<title>{name}\n")).nth(1).unwrap();
        mark.split("pl-mark ").nth(1).unwrap().split('"').next().unwrap().to_string()
    };
    // Half-way steps of the ramp are rounded to its eleven colours.
    let classes = ["step 0", "step 1", "step 2", "step 4", "crowd", "named"].map(class_of);
    assert_eq!(classes, ["pl-r0", "pl-r3", "pl-r5", "pl-r10", "pl-ink pl-d1", "pl-c1"]);
    for class in ["pl-r0", "pl-r3", "pl-r10", "pl-ink"] {
        assert!(page.contains(&format!(".{class}{{--c:")), "{class} has a colour");
    }
    let bars = ["a", "b"].map(|name| Bars::new(name, [1.0]).style(Style::Tone(2.0)));
    let svg = Plot::bars("t", Axis::new("y"), ["c"], bars.to_vec()).to_svg();
    assert!(svg.contains("pl-fill pl-r10"), "beyond the end of the ramp is its end");
    let json = serde_json::to_string(&plot).unwrap();
    assert!(json.contains(r#""style":{"tone":0.25}"#) && json.contains(r#""style":"reference""#), "{json}");
}

#[test]
fn dense_curves_are_thinned_but_keep_extremes() {
    let mut points: Vec<(f64, f64)> = (0..50_000).map(|at| (f64::from(at), f64::from(at % 7))).collect();
    points[30_000].1 = 100.0;
    let plot = Plot::lines("t", Axis::new("x"), Axis::new("y"), vec![Series::new("a", points)]);
    let svg = plot.to_svg();
    assert!(svg.len() < 120_000, "{}", svg.len());
    let stroke = svg.split("class=\"pl-line pl-c1\" d=\"").nth(1).unwrap().split('"').next().unwrap();
    let heights =
        stroke.split(['M', 'L']).filter_map(|pair| pair.split_once(' ')).map(|(_, y)| y.parse::<f64>().unwrap());
    let mut sorted: Vec<f64> = heights.collect();
    sorted.sort_by(f64::total_cmp);
    assert!(sorted[1] - sorted[0] > 200.0, "the single peak survives");
    let Shape::Lines(series) = &plot.shape else { panic!("lines") };
    assert_eq!(series[0].points.len(), 50_000);
}
