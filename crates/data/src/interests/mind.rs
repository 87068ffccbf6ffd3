//! Microsoft News (MIND) as published: `behaviors.tsv` and `news.tsv`.
//!
//! F. Wu and others: MIND: A Large-scale Dataset for News Recommendation, ACL 2020. A behaviour is an impression: a
//! user, a time, the articles read before (without times) and those shown, marked `-1` if clicked. Articles have a
//! category, a subcategory, a title and Wikidata entities. How long people stayed is not told.

use super::clicks::{Builder, ClickRules, Clicks, RawClick};
use super::taxonomy::Taxonomy;
use crate::builder::{RowError, TimeUnit};
use crate::error::{DataError, Result};
use crate::files::{Files, unpacked_name};
use crate::lines::Lines;
use crate::text::decode;
use chrono::NaiveDateTime;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::fmt::Write;
use std::path::Path;

const NEWS: &str = "news.tsv";
const BEHAVIORS: &str = "behaviors.tsv";

/// An article.
struct Article {
    categories: [String; 2],
    title: String,
    entities: Vec<String>,
}

/// An entity as the columns of entities list it, in JSON.
#[derive(Deserialize)]
struct Entity {
    #[serde(rename = "Label")]
    label: String,
}

/// The folder's file of this name, compressed or not.
fn named(files: &Files<'_>, wanted: &str) -> Result<String> {
    let names = files.names()?;
    let found = names.iter().find(|name| unpacked_name(name) == wanted).cloned();
    found.ok_or_else(|| {
        let reason = format!("a folder of clicks has MIND's {NEWS} and {BEHAVIORS}; {wanted} is missing");
        DataError::Unrecognised(files.label(""), reason)
    })
}

/// Calls `row` with the fields of each line.
fn each(files: &Files<'_>, name: &str, mut row: impl FnMut(u64, &[&str]) -> Result<()>) -> Result<()> {
    let label = files.label(name);
    let mut lines = Lines::new(files.open(name)?);
    while let Some(line) = lines.next().map_err(|error| DataError::io(&label, error))? {
        let line = decode(line).0.into_owned();
        row(lines.number(), &line.split('\t').collect::<Vec<_>>())?;
    }
    Ok(())
}

fn articles(files: &Files<'_>) -> Result<FxHashMap<String, Article>> {
    let (name, mut all) = (named(files, NEWS)?, FxHashMap::default());
    each(files, &name, |number, fields| {
        let [id, category, subcategory, title, ..] = *fields else {
            let reason = format!("line {number}: expected an id, a category, a subcategory, a title");
            return Err(DataError::Mismatch(files.label(&name), reason));
        };
        let entities = |text: &&str| serde_json::from_str::<Vec<Entity>>(text).unwrap_or_default();
        let entities = fields.get(6).into_iter().chain(fields.get(7)).flat_map(entities).map(|entity| entity.label);
        let article = Article {
            categories: [category, subcategory].map(str::to_owned),
            title: title.to_owned(),
            entities: entities.collect(),
        };
        all.insert(id.to_owned(), article);
        Ok(())
    })?;
    Ok(all)
}

/// The two tiers of categories that the articles of a MIND folder have.
///
/// # Errors
/// If `news.tsv` is missing or cannot be read.
pub fn mind_taxonomy(folder: &Path) -> Result<Taxonomy> {
    let files = Files::Disk(folder.to_owned());
    let mut pairs: Vec<[String; 2]> = articles(&files)?.into_values().map(|article| article.categories).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let mut text = "id\tparent\tname\n".to_owned();
    let mut above = None;
    for [category, subcategory] in &pairs {
        if above.replace(category) != Some(category) {
            let _ = writeln!(text, "{category}\t\t{category}");
        }
        let _ = writeln!(text, "{category}/{subcategory}\t{category}\t{subcategory}");
    }
    Taxonomy::parse(&files.label(NEWS), text.as_bytes())
}

/// Reads the clicks of a MIND folder.
pub(super) fn read(folder: &Path, rules: &ClickRules) -> Result<Clicks> {
    let files = Files::Disk(folder.to_owned());
    let articles = articles(&files)?;
    let name = named(&files, BEHAVIORS)?;
    let mut builder = Builder::new(&files.label(&name), rules);
    builder.unit = TimeUnit::PerSecond(1);
    each(&files, &name, |number, fields| {
        let row = impression(fields, &articles, &mut builder);
        builder.check(number, row)
    })?;
    builder.finish()
}

fn impression(
    fields: &[&str],
    articles: &FxHashMap<String, Article>,
    builder: &mut Builder<'_>,
) -> Result<(), RowError> {
    let [_, person, time, _, shown] = *fields else {
        return Err(RowError::bad("row", format!("5 fields, not {}", fields.len()), fields.join("\t").as_bytes()));
    };
    let Ok(time) = NaiveDateTime::parse_from_str(time, "%m/%d/%Y %I:%M:%S %p") else {
        return Err(RowError::bad("time", "a time such as 11/15/2019 9:05:58 AM", time.as_bytes()));
    };
    for page in shown.split_ascii_whitespace().filter_map(|shown| shown.strip_suffix("-1")) {
        let Some(article) = articles.get(page) else {
            return Err(RowError::bad("impressions", format!("an article of {NEWS}"), page.as_bytes()));
        };
        let [category, subcategory] = &article.categories;
        // With MIND's own taxonomy the pair is the id; with another one each name is looked up.
        let pair = format!("{category}/{subcategory}");
        let categories = match builder.knows(&pair) {
            true => vec![pair.as_str()],
            false => vec![category.as_str(), subcategory.as_str()],
        };
        builder.push(&RawClick {
            person,
            page,
            title: &article.title,
            categories,
            entities: article.entities.iter().map(String::as_str).collect(),
            time: time.and_utc().timestamp(),
            seconds: None,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interests::{Interests, read_clicks};

    #[test]
    fn reads_behaviors_and_news_as_published() {
        let folder = tempfile::tempdir().unwrap();
        let news = "N1\tsports\tskiing\tDownhill again\tAbstract\thttps://x\t[{\"Label\": \"Alps\", \"Type\": \"G\"}]\t[]\n\
                    N2\thealth\tmedical\tA cure\t\t\t[]\t[]\nN3\tnews\tnewsscience\tStars\t\t\t\t\n";
        let behaviors = "1\tU1\t11/15/2019 9:05:58 AM\tN9 N8\tN1-1 N2-1 N3-0\n2\tU1\t11/15/2019 1:05:58 PM\t\tN3-1\n";
        std::fs::write(folder.path().join("news.tsv"), news).unwrap();
        std::fs::write(folder.path().join("behaviors.tsv"), behaviors).unwrap();
        let rules = ClickRules::new(mind_taxonomy(folder.path()).unwrap());
        let clicks = read_clicks(folder.path(), &rules).unwrap();
        assert_eq!((clicks.report().read, clicks.report().sensitive, clicks.report().used), (3, 1, 2));
        assert_eq!(clicks.iter().map(|click| click.time).collect::<Vec<_>>(), [1_573_808_758, 1_573_823_158]);
        assert_eq!((clicks.title(0), clicks.entities(0)), ("Downhill again", &["Alps".to_owned()][..]));
        let named = |category: u32| rules.taxonomy().categories()[category as usize].name.as_str();
        let interested: Vec<&str> = Interests::score(&clicks).interested(0).map(named).collect();
        assert_eq!(interested, ["newsscience", "skiing"]);
        std::fs::remove_file(folder.path().join("news.tsv")).unwrap();
        let error = read_clicks(folder.path(), &rules).unwrap_err().to_string();
        assert!(error.contains("news.tsv is missing"), "{error}");
    }
}
