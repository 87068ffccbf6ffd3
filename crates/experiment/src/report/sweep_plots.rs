//! Plots and tables of a parameter sweep: accuracy, item coverage, communication, popularity, bias.

use super::disclosure::Exposure;
use super::sweep::{self, Family};
use super::{metric_title, plots, tables};
use crate::file::Experiment;
use crate::metric::MetricAt;
use crate::results::{DataResults, Results, Row, Spread};
use sottovoce_evaluate::Metric;
use sottovoce_evaluate::report::plot::{Axis, Bars, ParetoAxes, Point, Series, Style, Unit};
use sottovoce_evaluate::report::{Direction, Plot, Section};
use std::cmp::Reverse;

/// Items in the curves of update and of recommendation frequency, as in the papers.
const MOST_UPDATED: usize = 1000;
const MOST_RECOMMENDED: usize = 250;

/// The share of the best value that the summary calls enough.
const ENOUGH: f64 = 0.9;

/// Most values of a sweep in one bar plot.
const BARS: usize = 6;

/// The sections of all sweeps, two a data set at most.
pub(super) fn sections(experiment: &Experiment, results: &Results) -> Vec<Section> {
    let many = results.data.len() > 1;
    let of = |data| {
        let families = sweep::families(data);
        let key = families.first()?.key;
        let on = if many { format!(" on {}", data.label) } else { String::new() };
        let sweeps = Sweeps { experiment, data, families };
        let first = sweeps.accuracy(Section::new(format!("Sweep over {}{on}", sweep::symbol(key))));
        let title = format!("Popularity and bias over {}{on}", sweep::symbol(key));
        let second = sweeps.popularity(Section::new(title));
        Some([first, second].into_iter().filter(|section| !section.blocks.is_empty()))
    };
    results.data.iter().filter_map(of).flatten().collect()
}

/// How accuracy changes over the sweep of the best family, in a sentence.
pub(super) fn summary(experiment: &Experiment, data: &DataResults) -> Option<String> {
    let metric = experiment.selection.metric;
    let mean = |row: &Row| row.metric(metric.key, metric.cutoff).map(|spread| spread.mean);
    let families = sweep::families(data);
    let best = |family: &Family<'_>| {
        let values = family.rows.iter().filter_map(|(_, row)| mean(row)).map(|value| metric.objective(value));
        values.max_by(f64::total_cmp)
    };
    // What protects most comes first, as in the other sentences.
    let exposure = |family: &Family<'_>| family.rows.first().map(|(_, row)| Exposure::of(row));
    let least = families.iter().map(exposure).min()?;
    let families = families.iter().filter(|family| exposure(family) == least);
    let family = families.max_by(|a, b| best(a).partial_cmp(&best(b)).unwrap_or(std::cmp::Ordering::Equal))?;
    let points: Vec<(f64, f64)> = family.rows.iter().filter_map(|(x, row)| Some((*x, mean(row)?))).collect();
    let (&(first, low), &(last, high)) = (points.first()?, points.last()?);
    let &(top, most) = points.iter().max_by(|a, b| metric.objective(a.1).total_cmp(&metric.objective(b.1)))?;
    let value_at = |x: f64, y: f64| format!("{y:.4} at {}", sweep::at(family.key, x));
    let peak = match top == first || top == last {
        true => String::new(),
        false => format!(", with a maximum of {}", value_at(top, most)),
    };
    let share = |y: f64| y / most;
    let enough = points.iter().find(|(x, y)| *x < top && share(*y) >= ENOUGH).map_or_else(String::new, |(x, y)| {
        format!("; {} suffices for {:.0} % of that", sweep::at(family.key, *x), 100.0 * share(*y))
    });
    let enough = if metric.key.direction() == Direction::HigherBetter { enough } else { String::new() };
    Some(format!(
        "Over the sweep of {}, {} of **{}** on {} goes from {} to {}{peak}{enough}.",
        sweep::symbol(family.key),
        metric_title(metric),
        family.name,
        data.label,
        value_at(first, low),
        value_at(last, high),
    ))
}

struct Sweeps<'a> {
    experiment: &'a Experiment,
    data: &'a DataResults,
    families: Vec<Family<'a>>,
}

impl Sweeps<'_> {
    /// Accuracy, item coverage and communication over the sweep.
    fn accuracy(&self, section: Section) -> Section {
        let main = self.experiment.selection.metric;
        let f1 = MetricAt { key: Metric::F1, cutoff: main.cutoff };
        let metrics = if main == f1 { vec![main] } else { vec![main, f1] };
        let mut section = metrics.into_iter().filter_map(|metric| self.against(metric)).fold(section, Section::plot);
        let rest = [self.coverage(), self.front("tcc"), self.front("bytes")];
        section = rest.into_iter().flatten().fold(section, Section::plot);
        section.table(tables::sweep(self.experiment, self.data, &self.families))
    }

    /// Update and recommendation frequency of items, and bias by category, a family at a time.
    fn popularity(&self, mut section: Section) -> Section {
        for family in &self.families {
            let curves = [self.updates(family), self.recommendations(family)];
            section = curves.into_iter().flatten().fold(section, Section::plot);
        }
        self.families.iter().filter_map(|family| self.bias(family)).fold(section, Section::plot)
    }

    fn key(&self) -> &str {
        self.families.first().map_or("", |family| family.key)
    }

    /// The help text of the swept setting.
    fn setting_help(&self) -> String {
        let key = self.key();
        let swept = self.families.iter().flat_map(|family| &family.rows);
        let specs = &self.experiment.rows;
        let swept = swept.filter_map(|(_, row)| specs.iter().find(|spec| spec.label == row.label));
        let models = swept.filter_map(|spec| spec.learner.recommender());
        let setting = models.flat_map(sottovoce_models::registry::Model::schema).find(|setting| setting.key == key);
        match setting.map(|setting| setting.help).filter(|help| !help.is_empty()) {
            Some(help) => format!("{}: {}.", sweep::symbol(key), lower_first(help)),
            None => String::new(),
        }
    }

    /// A metric against the swept setting, other rows as horizontal lines.
    fn against(&self, metric: MetricAt) -> Option<Plot> {
        let value = |row: &Row| row.metric(metric.key, metric.cutoff);
        let series: Vec<Series> = self
            .families
            .iter()
            .map(|family| {
                let points = family.rows.iter().filter_map(|(x, row)| Some(plots::bounded(*x, value(row)?)));
                Series::of(&family.name, points.collect())
            })
            .filter(|series| !series.points.is_empty())
            .collect();
        let title = metric_title(metric);
        let headline = format!("{title} against {} on {}", sweep::symbol(self.key()), self.data.label);
        let axis = Axis::new(sweep::symbol(self.key()));
        let plot = Plot::lines(headline, axis, Axis::new(title), series.clone()).caption(self.setting_help());
        let singles = sweep::single_rows(self.data, &self.families);
        (!series.is_empty()).then(|| plots::with_levels(plot, &series, &singles, value))
    }

    /// Precision against the number of items recommended, over the sweep.
    fn coverage(&self) -> Option<Plot> {
        let cutoff = self.experiment.main_cutoff();
        let series =
            self.curves(|row| row.metric(Metric::ItemCoverage, cutoff), |row| row.metric(Metric::Precision, cutoff));
        let axis = |key| Axis::new(metric_title(MetricAt { key, cutoff }));
        let items = Axis::new(format!("distinct items in the top {cutoff} of any user"));
        (!series.is_empty()).then(|| {
            let title = format!("Precision against item coverage on {}", self.data.label);
            Plot::lines(title, items, axis(Metric::Precision), series)
                .caption(format!("Each curve follows {}; its ends are labelled.", sweep::symbol(self.key())))
        })
    }

    /// Accuracy against communication: `tcc` in vectors as in the papers, `bytes` as encoded.
    fn front(&self, what: &str) -> Option<Plot> {
        let metric = self.experiment.selection.metric;
        let value = |row: &Row| row.metric(metric.key, metric.cutoff);
        let series = self.curves(|row| sent(row, what), value);
        if series.is_empty() {
            return None;
        }
        let (x, unit) = match what {
            "tcc" => (Axis::new("vectors sent both ways in all of training (TCC)").log(), "in vectors"),
            _ => (Axis::new("bytes sent both ways in all of training").unit(Unit::Bytes).log(), "in bytes"),
        };
        let title = format!("{} against communication {unit} on {}", metric_title(metric), self.data.label);
        let y = Axis::new(metric_title(metric));
        let front = ParetoAxes { x: Direction::LowerBetter, y: metric.key.direction() };
        let plot = Plot::pareto(title, x, y, series.clone(), front)
            .caption("Filled: on the Pareto front. Horizontal lines: centralised models, which send no model.");
        let mut singles = sweep::single_rows(self.data, &self.families);
        singles.retain(|row| sent(row, what).is_none());
        Some(plots::with_levels(plot, &series, &singles, value))
    }

    /// A curve a family through the points of its rows; the ends are labelled.
    fn curves(&self, x: impl Fn(&Row) -> Option<Spread>, y: impl Fn(&Row) -> Option<Spread>) -> Vec<Series> {
        let curve = |family: &Family<'_>| {
            let mut points: Vec<Point> = Vec::new();
            let count = family.rows.len();
            for (at, (value, row)) in family.rows.iter().enumerate() {
                let (Some(x), Some(y)) = (x(row), y(row)) else { continue };
                let point = Point::new(x.mean, y.mean);
                let end = at == 0 || at + 1 == count;
                points.push(if end { point.label(sweep::at(family.key, *value)) } else { point });
            }
            Series::of(&family.name, points)
        };
        self.families.iter().map(curve).filter(|series| !series.points.is_empty()).collect()
    }

    /// How often the rows of single items were sent, most often first.
    fn updates(&self, family: &Family<'_>) -> Option<Plot> {
        let series = self.frequencies(family, MOST_UPDATED, |row| {
            let counts: Vec<f64> = row.values.first()?.updates.iter().map(|count| *count as f64).collect();
            (!counts.is_empty()).then_some(counts)
        });
        let caption =
            "A flat curve: all items equally often, as when only items outside the history are sent. First seed.";
        self.frequency_plot(family, MOST_UPDATED, series, ["Update", "updated", "rows sent", caption])
    }

    /// How often single items are recommended, most often first, and how often they are in histories.
    fn recommendations(&self, family: &Family<'_>) -> Option<Plot> {
        let mut series = self.frequencies(family, MOST_RECOMMENDED, |row| {
            Some(row.values.first()?.recommended.iter().map(|count| f64::from(*count)).collect())
        });
        if !series.is_empty() {
            let popularity = self.data.card.popularity.iter().map(|count| f64::from(*count)).collect();
            let training = frequency("training part", popularity, MOST_RECOMMENDED);
            series.extend(training.map(|curve| curve.style(Style::Reference)));
        }
        let caption = "Dashed: the frequency of items in the training part, most popular first. First seed.";
        let words = ["Recommendation", "recommended", "recommendations", caption];
        self.frequency_plot(family, MOST_RECOMMENDED, series, words)
    }

    /// Curves of frequencies: what they are of, how items are ordered, what the shares are of, and the caption.
    fn frequency_plot(
        &self,
        family: &Family<'_>,
        most: usize,
        series: Vec<Series>,
        [what, ordered, all, caption]: [&str; 4],
    ) -> Option<Plot> {
        let title = format!("{what} frequency of items: {} on {}", family.name, self.data.label);
        let items = Axis::new(format!("item, most {ordered} first, up to {most}"));
        let shares = Axis::new(format!("share of all {all}")).unit(Unit::Percent).log();
        (!series.is_empty()).then(|| Plot::lines(title, items, shares, series).caption(caption))
    }

    fn frequencies(&self, family: &Family<'_>, most: usize, counts: impl Fn(&Row) -> Option<Vec<f64>>) -> Vec<Series> {
        let curves = family.rows.iter().enumerate().filter_map(|(at, (value, row))| {
            let curve = frequency(&sweep::at(family.key, *value), counts(row)?, most)?;
            Some(curve.style(tone(at, family.rows.len())))
        });
        curves.collect()
    }

    /// Bias disparity by category for some values of the sweep.
    fn bias(&self, family: &Family<'_>) -> Option<Plot> {
        let rows: Vec<(f64, &Row)> =
            family.rows.iter().filter(|(_, row)| !row.bias_disparity.is_empty()).copied().collect();
        let refs: Vec<&Row> = rows.iter().map(|(_, row)| *row).collect();
        let (categories, which) = plots::differing_categories(self.data, &refs)?;
        let bars = evenly_spaced(rows.len()).map(|at| {
            let (value, row) = rows[at];
            let value_of = |category: &String| row.bias_disparity.get(category).copied().unwrap_or(f64::NAN);
            Bars::new(sweep::at(family.key, value), categories.iter().map(value_of)).style(tone(at, rows.len()))
        });
        let (setting, label) = (sweep::symbol(family.key), &self.data.label);
        let over = format!("over {setting}: {} on {label}", family.name);
        Some(plots::bias_bars(&over, bars.collect(), categories, &which))
    }
}

/// A figure of what was sent; `bytes` are those of both ways.
fn sent(row: &Row, what: &str) -> Option<Spread> {
    if what != "bytes" {
        return row.figures.get(what).copied();
    }
    let (down, up) = (row.figures.get("bytes_down")?, row.figures.get("bytes_up")?);
    Some(Spread { mean: down.mean + up.mean, ..*down })
}

/// Shares of counts, largest first.
fn frequency(name: &str, mut counts: Vec<f64>, most: usize) -> Option<Series> {
    let total: f64 = counts.iter().sum();
    if total <= 0.0 {
        return None;
    }
    counts.sort_unstable_by_key(|count| Reverse(*count as u64));
    counts.truncate(most);
    let shares = plots::spaced(counts.len()).map(|at| ((at + 1) as f64, counts[at] / total));
    Some(Series::new(name, shares.filter(|point| point.1 > 0.0)))
}

fn tone(at: usize, of: usize) -> Style {
    Style::Tone(at as f64 / (of.max(2) - 1) as f64)
}

/// At most [`BARS`] indices of so many, evenly spaced, first and last included.
fn evenly_spaced(of: usize) -> impl Iterator<Item = usize> {
    let shown = of.min(BARS);
    (0..shown).map(move |at| (at * of.saturating_sub(1)) / shown.saturating_sub(1).max(1))
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenly_spaced_indices_are_distinct_and_reach_both_ends() {
        for of in 1..40 {
            let indices: Vec<usize> = evenly_spaced(of).collect();
            assert_eq!((indices[0], indices[indices.len() - 1]), (0, of - 1), "{of}");
            assert!(indices.windows(2).all(|pair| pair[0] < pair[1]) && indices.len() == of.min(BARS), "{indices:?}");
        }
    }

    #[test]
    fn shares_are_of_all_counts_also_of_those_not_shown() {
        let series = frequency("a", vec![1.0, 0.0, 6.0, 3.0], 2).unwrap();
        let points: Vec<(f64, f64)> = series.points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(points, [(1.0, 0.6), (2.0, 0.3)]);
        assert!(frequency("none", vec![0.0; 3], 2).is_none());
    }
}
