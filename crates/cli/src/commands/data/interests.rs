//! `data interests`: from clicks to scores of interest.

use crate::args::{Common, InterestsArgs};
use crate::folder;
use crate::output::{self, grouped, usage};
use anyhow::Result;
use serde_json::json;
use sottovoce_data::interests::{CategoryMapping, ClickReport, ClickRules, ClickSource, Clicks, Interests, Taxonomy};
use sottovoce_data::{format_date, parse_time};
use std::fmt::Write;

/// Categories that the summary names.
const SHOWN: usize = 10;

/// `sottovoce data interests`.
pub(super) fn run(args: &InterestsArgs, common: &Common) -> Result<()> {
    let (clicks, rules) = read(args, common)?;
    let interests = Interests::score(&clicks);
    if let Some(path) = &args.out {
        folder::write_file(path, scores(&clicks, &interests, rules.taxonomy()).as_bytes())?;
    }
    let mut counts = vec![0usize; rules.taxonomy().categories().len()];
    let mut people = [0usize; 3];
    for person in 0..interests.people() {
        let mut count = 0;
        for category in interests.interested(person) {
            counts[category as usize] += 1;
            count += 1;
        }
        people[count.min(2)] += 1;
    }
    let mut common_first: Vec<usize> = (0..counts.len()).filter(|&category| counts[category] > 0).collect();
    common_first.sort_by_key(|&category| std::cmp::Reverse(counts[category]));
    let name = |category: usize| &rules.taxonomy().categories()[category].name;
    if common.json {
        let named: Vec<_> = common_first
            .iter()
            .map(|&category| {
                let about = &rules.taxonomy().categories()[category];
                json!({"id": about.id, "name": about.name, "tier": about.tier, "people": counts[category]})
            })
            .collect();
        return output::print_json(&json!({
            "clicks": clicks.report(), "people": interests.people(), "without_interest": people[0],
            "with_one_interest": people[1], "at": clicks.now(), "categories": named, "columns": clicks.columns(),
        }));
    }
    let mut text = format!("{} (interests as of {})\n", args.clicks, format_date(clicks.now()).unwrap_or_default());
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:14} {value}");
    };
    let columns = clicks.columns().to_string();
    if !columns.is_empty() {
        line("columns", columns);
    }
    line("people", grouped(interests.people()));
    line("clicks", format!("{} of {} used", grouped(clicks.report().used), grouped(clicks.report().read)));
    for (why, count) in dropped(clicks.report()) {
        line("dropped", format!("{} {why}", grouped(count)));
    }
    if !clicks.report().unknown.is_empty() {
        line("unknown", clicks.report().unknown.join(", "));
    }
    if !clicks.are_timed() {
        line("time on page", "not in the log: every visit counts as meant".to_owned());
    }
    let [none, one, more] = people.map(grouped);
    line("interests", format!("{more} people have two or more, {one} have one, {none} have none"));
    for &category in common_first.iter().take(SHOWN) {
        line("", format!("{} ({})", name(category), grouped(counts[category])));
    }
    if common_first.len() > SHOWN {
        line("", format!("and {} more categories", grouped(common_first.len() - SHOWN)));
    }
    output::print(&text)
}

fn read(args: &InterestsArgs, common: &Common) -> Result<(Clicks, ClickRules)> {
    let source = ClickSource::find(&args.clicks, common.data_dir.as_deref())?;
    let taxonomy = match &args.taxonomy {
        Some(file) => Some(Taxonomy::read(file)?),
        None => source.taxonomy()?,
    };
    let Some(taxonomy) = taxonomy else {
        return usage("a click log needs the taxonomy of its categories: name it by --taxonomy");
    };
    let mut rules = ClickRules::new(taxonomy);
    if let Some(file) = &args.mapping {
        let mapping = CategoryMapping::read(file, rules.taxonomy())?;
        rules = rules.mapped(mapping);
    }
    rules = rules.also_sensitive(args.sensitive.iter().map(String::as_str))?;
    rules = rules.not_sensitive(args.not_sensitive.iter().map(String::as_str))?;
    let at = match &args.at {
        Some(text) => match parse_time(text) {
            Some(at) => Some(at),
            None => return usage(format!("--at {text}: expected a date or seconds since 1970")),
        },
        None => None,
    };
    rules = rules.in_tier(args.tier).at(at).skipping_bad_lines(args.skip_bad);
    let clicks = source.read(&rules)?;
    Ok((clicks, rules))
}

/// What was left out, as far as anything was.
pub(crate) fn dropped(report: &ClickReport) -> Vec<(&'static str, u64)> {
    let all = [
        ("on sensitive pages", report.sensitive),
        ("without a category", report.without_category),
        ("of unknown categories", report.unknown_category),
        ("in the future", report.future),
        ("with an impossible time on page", report.absurd_seconds),
        ("repeated", report.repeated),
        ("on lines that cannot be read", report.bad_lines),
    ];
    all.into_iter().filter(|&(_, count)| count > 0).collect()
}

/// The scores as tab-separated text.
fn scores(clicks: &Clicks, interests: &Interests, taxonomy: &Taxonomy) -> String {
    let mut text = "user\tcategory\tname\tscore\trecency\tfrequency\tseconds\tinterested\n".to_owned();
    for (person, id) in clicks.people().iter().enumerate() {
        for interest in interests.of(person) {
            let category = &taxonomy.categories()[interest.category as usize];
            let seconds = interest.seconds.map(|seconds| format!("{seconds:.1}")).unwrap_or_default();
            let _ = writeln!(
                text,
                "{id}\t{}\t{}\t{}\t{}\t{}\t{seconds}\t{}",
                category.id,
                category.name,
                interest.score(),
                interest.recency,
                interest.frequency,
                u8::from(interest.interested())
            );
        }
    }
    text
}
