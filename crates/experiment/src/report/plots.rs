//! The plots of the report.

use super::sweep::{family_name, symbol};
use super::{list, metric_title, unless_empty};
use crate::file::{self, Experiment};
use crate::results::{DataResults, Results, Row, Spread};
use sottovoce_evaluate::report::plot::{Axis, Bars, ParetoAxes, Point, Series, Summary, Unit};
use sottovoce_evaluate::report::{Direction, Plot, Section};
use std::cmp::Reverse;

/// Most categories that a plot shows.
const CATEGORIES: usize = 8;

/// The share of the training part from which a category is not rare.
const COMMON: f64 = 0.02;

/// Points of a popularity curve: enough for the eye, few enough for the page.
const CURVE_POINTS: usize = 160;

/// The metric of selection by row.
pub(super) fn bars(experiment: &Experiment, data: &DataResults) -> Plot {
    let metric = experiment.selection.metric;
    let rows: Vec<(&Row, Spread)> =
        data.rows.iter().filter_map(|row| Some((row, row.metric(metric.key, metric.cutoff)?))).collect();
    let title = metric_title(metric);
    let values = rows.iter().map(|(_, spread)| spread.mean);
    let mut bars = Bars::new("", values);
    if rows.iter().any(|(_, spread)| spread.n > 1) {
        bars = bars.bounds(rows.iter().map(|(_, spread)| (spread.mean - spread.sd, spread.mean + spread.sd)));
    }
    let labels = rows.iter().map(|(row, _)| row.label.clone());
    Plot::bars(format!("{title} on {}", data.label), Axis::new(title), labels, vec![bars])
}

/// How the metric of selection is distributed over users.
pub(super) fn users(experiment: &Experiment, data: &DataResults) -> Option<Plot> {
    let metric = experiment.selection.metric;
    let boxes: Vec<Summary> = data
        .rows
        .iter()
        .filter_map(|row| Some(Summary::of(&row.label, &row.per_user(metric.key, metric.cutoff)?.1)))
        .collect();
    let title = metric_title(metric);
    (!boxes.is_empty()).then(|| {
        Plot::boxes(format!("{title} of single users on {}", data.label), Axis::new(title), boxes)
            .caption("Box: middle half of users; whiskers: middle 90%; line: median; diamond: mean.")
    })
}

/// How often items are recommended: by their own rank, and by their popularity in training.
pub(super) fn popularity(data: &DataResults) -> Vec<Plot> {
    let rows: Vec<(&Row, &[u32])> = data
        .rows
        .iter()
        .filter_map(|row| Some((row, row.values.first()?.recommended.as_slice())))
        .filter(|(_, counts)| counts.iter().any(|count| *count > 0))
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let frequency = rows.iter().map(|(row, counts)| {
        let mut sorted = counts.to_vec();
        sorted.sort_unstable_by_key(|count| Reverse(*count));
        let points = spaced(sorted.len()).map(|at| ((at + 1) as f64, f64::from(sorted[at])));
        Series::new(&row.label, points.filter(|point| point.1 >= 1.0))
    });
    let frequency = Plot::lines(
        format!("How often items are recommended on {}", data.label),
        Axis::new("item, most recommended first").log(),
        Axis::new("recommendations").log(),
        frequency.collect(),
    )
    .caption("A curve that falls early means that few items fill all lists. First seed.");
    let mut plots = vec![frequency];
    plots.extend(against_popularity(data, &rows));
    plots
}

fn against_popularity(data: &DataResults, rows: &[(&Row, &[u32])]) -> Option<Plot> {
    let popularity = &data.card.popularity;
    if popularity.is_empty() {
        return None;
    }
    let mut order: Vec<usize> = (0..popularity.len()).collect();
    order.sort_by_key(|item| Reverse(popularity[*item]));
    // Cumulative shares: a row above the curve of "training" amplifies popularity.
    let cumulative = |name: &str, counts: &[u32]| {
        let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
        let mut sum = 0.0;
        let sums: Vec<f64> = order
            .iter()
            .map(|item| {
                sum += counts.get(*item).map_or(0.0, |count| f64::from(*count));
                sum / total
            })
            .collect();
        let share = |at: usize| ((at + 1) as f64 / order.len() as f64, sums[at]);
        Series::new(name, spaced(order.len()).map(share))
    };
    let mut series: Vec<Series> = rows.iter().map(|(row, counts)| cumulative(&row.label, counts)).collect();
    series.push(cumulative("training part", popularity));
    let axis = |title: &str| Axis::new(title).unit(Unit::Percent);
    let title = format!("Share of recommendations by item popularity on {}", data.label);
    Some(
        Plot::lines(
            title,
            axis("items, most popular first").log(),
            axis("share of recommendations").from_zero(),
            series,
        )
        .caption("Above the curve of the training part: popular items are recommended more than people chose them."),
    )
}

/// About evenly spaced indices on a logarithmic scale, first and last included.
pub(super) fn spaced(n: usize) -> impl Iterator<Item = usize> {
    let mut last = None;
    (0..CURVE_POINTS).filter_map(move |step| {
        let at = ((n as f64).powf(step as f64 / (CURVE_POINTS - 1) as f64).round() as usize).clamp(1, n) - 1;
        (last != Some(at)).then(|| {
            last = Some(at);
            at
        })
    })
}

/// How much more (or less) categories are recommended than they were chosen.
pub(super) fn bias(data: &DataResults) -> Option<Plot> {
    let rows: Vec<&Row> = data.rows.iter().filter(|row| !row.bias_disparity.is_empty()).collect();
    let (categories, which) = differing_categories(data, &rows)?;
    let bars = rows.iter().map(|row| {
        let value = |category: &String| row.bias_disparity.get(category).copied().unwrap_or(f64::NAN);
        Bars::new(&row.label, categories.iter().map(value))
    });
    Some(bias_bars(&format!("on {}", data.label), bars.collect(), categories, &which))
}

/// The plot of bias disparity by category; `which` says what categories are left out.
pub(super) fn bias_bars(of: &str, bars: Vec<Bars>, categories: Vec<String>, which: &str) -> Plot {
    Plot::bars(format!("Bias disparity by category {of}"), Axis::new("bias disparity"), categories, bars)
        .caption(format!("Above 0: recommended more than chosen; −1: never recommended.{which}"))
        .full_width()
}

/// The categories in which rows differ most, in the order of their names, among those that are not rare: a plot of all
/// would be unreadable, and rare ones are noise. With a sentence about those left out.
pub(super) fn differing_categories(data: &DataResults, rows: &[&Row]) -> Option<(Vec<String>, String)> {
    let spread = |category: &String| {
        let values = rows.iter().filter_map(|row| row.bias_disparity.get(category));
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &v| (low.min(v), high.max(v)));
        high - low
    };
    let all = &rows.first()?.bias_disparity;
    let common = |name: &&String| data.card.categories.get(*name).is_none_or(|share| *share >= COMMON);
    let mut categories: Vec<(f64, &String)> = all.keys().filter(common).map(|name| (spread(name), name)).collect();
    categories.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let mut chosen: Vec<String> = categories.into_iter().take(CATEGORIES).map(|(_, name)| name.clone()).collect();
    chosen.sort_unstable();
    let which = match all.len() > chosen.len() {
        true => format!(
            " Shown are {} of {} categories: those that differ most, of those with at least {:.0} % of the training part.",
            chosen.len(),
            all.len(),
            COMMON * 100.0
        ),
        false => String::new(),
    };
    (!chosen.is_empty()).then_some((chosen, which))
}

/// Draws horizontal lines for rows in a plot of curves. Those far off would flatten the curves: they are listed in the
/// caption.
pub(super) fn with_levels(
    plot: Plot,
    curves: &[Series],
    rows: &[&Row],
    value: impl Fn(&Row) -> Option<Spread>,
) -> Plot {
    let heights = || curves.iter().flat_map(|series| &series.points).map(|point| point.y);
    let (low, high) = (heights().fold(f64::INFINITY, f64::min), heights().fold(f64::NEG_INFINITY, f64::max));
    let slack = (high - low).max(high.abs() * 0.45);
    let (near, far): (Vec<_>, Vec<_>) = rows
        .iter()
        .filter_map(|row| Some((row, value(row)?.mean)))
        .partition(|(_, level)| (low - slack..=high + slack).contains(level));
    let plot = near.into_iter().fold(plot, |plot, (row, level)| plot.reference(level, &row.label));
    if far.is_empty() {
        return plot;
    }
    let far = list(far.iter().map(|(row, level)| format!("{} {level:.4}", row.label)));
    let caption = format!("{} Outside the plot: {far}.", plot.caption).trim().to_owned();
    plot.caption(caption)
}

/// Learning curves of final trials and of chosen candidates.
pub(super) fn learning(experiment: &Experiment, results: &Results) -> Option<Section> {
    let title = metric_title(experiment.selection.metric);
    let mut section = Section::new("Learning curves");
    for data in &results.data {
        let finals: Vec<Series> = data.rows.iter().filter_map(final_curve).collect();
        let chosen: Vec<Series> = data
            .rows
            .iter()
            .filter_map(|row| {
                let points = row.tried[row.chosen?].run.curve.iter();
                let points: Vec<_> = points.filter_map(|p| Some((p.epoch as f64, p.value?))).collect();
                (!points.is_empty()).then(|| Series::new(&row.label, points))
            })
            .collect();
        for (part, series) in [("test", finals), ("validation", chosen)] {
            if !series.is_empty() {
                section = section.plot(Plot::lines(
                    format!("{title} on the {part} part of {}", data.label),
                    Axis::new("epoch").from_zero(),
                    Axis::new(title.clone()),
                    series,
                ));
            }
        }
    }
    unless_empty(section)
}

/// Mean over the seeds, with a band from the smallest to the largest.
fn final_curve(row: &Row) -> Option<Series> {
    let first = row.finals.iter().find(|each| !each.run.curve.is_empty())?;
    let point = |epoch: usize| {
        let values: Vec<f64> = row
            .finals
            .iter()
            .filter_map(|each| each.run.curve.iter().find(|point| point.epoch == epoch)?.value)
            .collect();
        let mean = Spread::of(&values)?.mean;
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let point = Point::new(epoch as f64, mean);
        Some(if values.len() > 1 { point.bounds(low, high) } else { point })
    };
    let points: Vec<Point> = first.run.curve.iter().filter_map(|at| point(at.epoch)).collect();
    (!points.is_empty()).then(|| Series::of(&row.label, points))
}

/// How many clusters of devices servers found, over the rounds; first seed.
pub(super) fn clusters(results: &Results) -> Option<Section> {
    let mut section = Section::new("Clusters of devices");
    for data in &results.data {
        let series = data.rows.iter().filter_map(|row| {
            let found = &row.finals.first()?.run.clusterings;
            let rounds = row.figures.get("rounds").map_or(0.0, |spread| spread.mean);
            (!found.is_empty()).then(|| Series::new(&row.label, steps(found, rounds)))
        });
        let series: Vec<Series> = series.collect();
        if !series.is_empty() {
            let title = format!("Clusters over the rounds on {}", data.label);
            let (rounds, count) = (Axis::new("round").from_zero(), Axis::new("clusters").from_zero());
            section = section.plot(
                Plot::lines(title, rounds, count, series)
                    .caption("First seed. Steps are the rounds that took up a clustering."),
            );
        }
    }
    unless_empty(section)
}

/// Counts that stay until the next one, from a single cluster on, to the last round.
fn steps(found: &[(u64, usize)], rounds: f64) -> Vec<(f64, f64)> {
    let (mut points, mut before) = (vec![(0.0, 1.0)], 1.0);
    for &(round, count) in found {
        points.extend([(round as f64, before), (round as f64, count as f64)]);
        before = count as f64;
    }
    points.push((rounds, before));
    points
}

/// The best value so far in searches and grids, candidate by candidate.
pub(super) fn searches(experiment: &Experiment, results: &Results) -> Vec<Plot> {
    let metric = experiment.selection.metric;
    let title = format!("validation {}", metric_title(metric));
    let mut plots = Vec::new();
    for data in &results.data {
        let series: Vec<Series> = data
            .rows
            .iter()
            .filter(|row| row.tried.len() > 1)
            .map(|row| {
                let mut best: Option<f64> = None;
                let points = row.tried.iter().enumerate().filter_map(|(at, tried)| {
                    let better = tried
                        .value
                        .filter(|value| best.is_none_or(|before| metric.objective(*value) > metric.objective(before)));
                    best = better.or(best);
                    Some(((at + 1) as f64, best?))
                });
                Series::new(&row.label, points.collect::<Vec<_>>())
            })
            .collect();
        if !series.is_empty() {
            plots.push(Plot::lines(
                format!("Best setting so far on {}", data.label),
                Axis::new("settings tried").from_zero(),
                Axis::new(title.clone()),
                series,
            ));
        }
    }
    plots
}

/// The plots of the file.
pub(super) fn of_file(experiment: &Experiment, results: &Results) -> Option<Section> {
    let many = results.data.len() > 1;
    let of = |spec| results.data.iter().filter_map(move |data| plot_of_file(spec, data, many));
    let plots = experiment.plots.iter().flat_map(of);
    unless_empty(plots.fold(Section::new("Plots of the experiment"), Section::plot))
}

fn plot_of_file(spec: &file::Plot, data: &DataResults, many: bool) -> Option<Plot> {
    let mut series: Vec<Series> = Vec::new();
    let mut levels: Vec<&Row> = Vec::new();
    for row in &data.rows {
        let (Some(x), Some(y)) = (value(row, &spec.x), value(row, &spec.y)) else {
            levels.push(row);
            continue;
        };
        let swept: Vec<String> = row.swept.iter().map(|(key, value)| format!("{key} {value}")).collect();
        let mut point = bounded(x.mean, y);
        if !swept.is_empty() && !matches!(spec.x, file::Axis::Setting(_)) {
            point = point.label(swept.join(", "));
        }
        match series.iter_mut().find(|series| series.name == family_name(row)) {
            Some(series) => series.points.push(point),
            None => series.push(Series::of(family_name(row), vec![point])),
        }
    }
    if series.is_empty() {
        return None;
    }
    let (x, y) = (axis(&spec.x), axis(&spec.y));
    let title = spec.title.clone().unwrap_or_else(|| format!("{} against {}", y.title, x.title));
    let title = if many { format!("{title}, {}", data.label) } else { title };
    let is_curve = series.iter().any(|series| series.points.len() > 1);
    let curves = series.clone();
    let plot = match spec.front {
        true => {
            Plot::pareto(title, x, y, series, ParetoAxes { x: axis_direction(&spec.x), y: axis_direction(&spec.y) })
        }
        false if is_curve => Plot::lines(title, x, y, series),
        false => Plot::scatter(title, x, y, series),
    };
    Some(with_levels(plot, &curves, &levels, |row| value(row, &spec.y)))
}

/// A mean over seeds, with a standard deviation to each side where there are several.
pub(super) fn bounded(x: f64, y: Spread) -> Point {
    let point = Point::new(x, y.mean);
    if y.n > 1 { point.bounds(y.mean - y.sd, y.mean + y.sd) } else { point }
}

fn value(row: &Row, axis: &file::Axis) -> Option<Spread> {
    match axis {
        file::Axis::Metric(metric) => row.metric(metric.key, metric.cutoff),
        file::Axis::Figure(name) => row.figures.get(name).copied(),
        file::Axis::Setting(key) => Spread::of(&[row.settings.get(key)?.number()?]),
    }
}

fn axis(what: &file::Axis) -> Axis {
    match what {
        file::Axis::Metric(metric) => Axis::new(metric_title(*metric)),
        file::Axis::Setting(key) => Axis::new(symbol(key)),
        file::Axis::Figure(name) if name.starts_with("bytes") => {
            Axis::new(name.replace('_', " ")).unit(Unit::Bytes).log()
        }
        file::Axis::Figure(name) => Axis::new(name.replace('_', " ")),
    }
}

/// More of a metric is better (or less, for some); less of a figure or a setting is cheaper.
fn axis_direction(axis: &file::Axis) -> Direction {
    match axis {
        file::Axis::Metric(metric) => metric.key.direction(),
        _ => Direction::LowerBetter,
    }
}
