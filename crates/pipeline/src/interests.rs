//! The first job: from a day's clicks to the interests of all who were active.

use crate::day::Day;
use crate::engine::{Engine, Query};
use crate::functions::{CodeMap, category_texts};
use crate::input::{Input, InputFile, open_day};
use crate::store::Folder;
use crate::tables::{Manifest, Run, Table, Tables, digest};
use anyhow::{Result, bail, ensure};
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use serde::{Deserialize, Serialize};
use sottovoce_data::interests::{ClickReport, ClickRules};
use sottovoce_text::HashedNgrams;
use std::collections::{BTreeMap, HashMap};

/// The name of the job in manifests.
pub const JOB: &str = "interests";

/// What the job is told.
pub struct Settings<'a> {
    /// Where the clicks are.
    pub clicks: Folder,
    /// Where the tables are.
    pub tables: Folder,
    /// The day.
    pub day: Day,
    /// Taxonomy, mapping and what is sensitive.
    pub rules: &'a ClickRules,
    /// Turns titles into vectors.
    pub encoder: &'a HashedNgrams,
    /// How many days late a click may come.
    pub late_days: u64,
    /// Buckets of people, if the tables are new.
    pub buckets: usize,
    /// Whether a day without any file is one on which nobody clicked.
    pub allow_empty: bool,
    /// Whether clicks without person, page or time are skipped and counted.
    pub skip_bad: bool,
}

/// What a day's manifest says beside the runs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct State {
    /// Buckets of people.
    pub buckets: usize,
    /// Ids of all categories that were ever used; their places are the codes in the tables.
    pub categories: Vec<String>,
    /// Digest of the encoder whose vectors the titles have.
    pub encoder: String,
    /// What was read.
    pub input: Vec<InputFile>,
    /// What was counted.
    pub report: DayReport,
}

/// What was read on a day and what was left out.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct DayReport {
    /// Clicks in the day's files.
    pub read: u64,
    /// Clicks used.
    pub used: u64,
    /// Of those: of earlier days.
    pub late: u64,
    /// Dropped: on a page in a sensitive branch.
    pub sensitive: u64,
    /// Dropped: no category.
    pub without_category: u64,
    /// Dropped: no category that is known.
    pub unknown_category: u64,
    /// Dropped: after the day.
    pub future: u64,
    /// Dropped: an impossible time on page.
    pub absurd_seconds: u64,
    /// Dropped: of a day too long ago.
    pub too_late: u64,
    /// Dropped: the same person, page and time as another click of this or an earlier day's files.
    pub repeated: u64,
    /// Skipped on request: without person, page or time.
    pub bad_rows: u64,
    /// The first unknown categories.
    pub unknown: Vec<String>,
    /// People with a click that was used.
    pub people: u64,
    /// Rows of interests written.
    pub interests: u64,
    /// Titles that were not known before.
    pub new_titles: u64,
}

impl DayReport {
    /// The same counts as a log that is read at once has. Late clicks are nothing special there.
    pub fn as_clicks(&self) -> ClickReport {
        ClickReport {
            read: self.read,
            used: self.used,
            sensitive: self.sensitive,
            without_category: self.without_category,
            unknown_category: self.unknown_category,
            future: self.future,
            absurd_seconds: self.absurd_seconds,
            repeated: self.repeated,
            bad_lines: self.bad_rows,
            unknown: self.unknown.clone(),
        }
    }
}

/// Unknown categories that a report names.
const UNKNOWN_NAMED: usize = 10;

/// Runs a day.
///
/// # Errors
/// If the input or the tables cannot be read or written, days come in the wrong order, or settings contradict those of
/// the days before.
pub async fn run(engine: &Engine, settings: &Settings<'_>) -> Result<Manifest<State>> {
    let Settings { day, rules, .. } = *settings;
    let (mut tables, old) = Tables::open::<State>(&settings.tables, engine, JOB, day).await?;
    let encoder = settings.encoder.to_bytes();
    let digest = digest(&encoder);
    let (buckets, mut categories) = match old {
        Some(old) => {
            ensure!(
                old.encoder == digest,
                "the titles in {} have vectors of another encoder ({}, now {digest}): use that one, or new tables",
                settings.tables.address(""),
                old.encoder
            );
            (old.buckets, old.categories)
        }
        None => (settings.buckets, Vec::new()),
    };
    ensure!((1..=1000).contains(&buckets), "{buckets} buckets of people: expected 1 to 1,000");
    let input = open_day(&settings.clicks, day, settings.allow_empty).await?;
    let mut report = DayReport::default();
    let codes = match &input {
        Some(input) => survey(engine, settings, input, &mut categories, &mut report).await?,
        None => CodeMap::new(),
    };
    let plan = Plan { settings, tables: &tables, input: input.as_ref(), codes: json(&codes)?, buckets };
    let (clicks, titles) = (plan.clicks(report.late > 0), plan.titles(&encoder));
    match clicks {
        Some(query) => report.used = tables.add_split(Table::Clicks, &query, buckets).await?.rows(),
        None => report.used = 0,
    }
    let survivors = report.used + report.repeated;
    debug_assert!(survivors >= report.used);
    report.repeated = report.repeated.saturating_sub(report.used);
    let today = |run: &Run| run.last == day && run.level == 0;
    if tables.runs(Table::Clicks).last().is_some_and(today) {
        let queries = (0..buckets).map(|bucket| visits(&tables, bucket));
        report.people = tables.add(Table::Visits, queries.collect()).await?.rows();
        let ids = json(&scored_ids(rules, &categories))?;
        let queries = (0..buckets).map(|bucket| interests(&tables, day, bucket, &ids));
        tables.add(Table::Interests, queries.collect()).await?;
        report.interests = count_interests(engine, &tables).await?;
        let queries = (0..buckets).map(|bucket| pages(&tables, day, bucket));
        tables.add(Table::Pages, queries.collect()).await?;
        if let Some(query) = titles {
            report.new_titles = tables.add(Table::Titles, vec![query]).await?.rows();
        }
        for table in [Table::Visits, Table::Interests, Table::Pages, Table::Titles] {
            tables.compact(table).await?;
        }
    }
    tables.forget(Table::Clicks, day.minus(settings.late_days.saturating_sub(1)));
    let input = input.map(|input| input.files).unwrap_or_default();
    tables.commit(State { buckets, categories, encoder: digest, input, report }).await
}

fn json(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(value)?)
}

/// Counts what must be left out, and gives all categories of the day their codes. In `repeated` it leaves the clicks
/// that survive all rules.
async fn survey(
    engine: &Engine,
    settings: &Settings<'_>,
    input: &Input,
    categories: &mut Vec<String>,
    report: &mut DayReport,
) -> Result<CodeMap> {
    let (day, rules) = (settings.day, settings.rules);
    let clicks = input.select(&["person", "time", "page", "categories", "dwell"]);
    let sql = format!(
        "SELECT categories, CASE WHEN coalesce(person, '') = '' OR coalesce(page, '') = '' OR time IS NULL THEN 'bad' \
         WHEN dwell = -1 THEN 'absurd' WHEN time > {} THEN 'future' WHEN time < {} THEN 'too late' \
         WHEN time < {} THEN 'late' ELSE 'used' END AS fate, count(*) AS clicks FROM ({clicks}) \
         GROUP BY categories, fate ORDER BY categories, fate",
        day.end(),
        day.minus(settings.late_days).start(),
        day.start()
    );
    let query = Query { scans: vec![input.scan()], sql, constants: Vec::new() };
    let mut groups: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
    for batch in engine.collect(&query).await? {
        let [texts, fates] = [0, 1].map(|at| cast(batch.column(at), &DataType::Utf8View));
        let (texts, fates) = (texts?, fates?);
        let (texts, fates) = (texts.as_string_view(), fates.as_string_view());
        let counts = batch.column(2).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let text = if texts.is_null(row) { "" } else { texts.value(row) };
            groups.entry(text.to_owned()).or_default().push((fates.value(row).to_owned(), counts.value(row) as u64));
        }
    }
    let mut known: HashMap<String, Option<Vec<u32>>> = HashMap::new();
    for (text, fates) in &groups {
        let bad: u64 = fates.iter().filter(|(fate, _)| fate == "bad").map(|(_, count)| count).sum();
        let rest = fates.iter().map(|(_, count)| count).sum::<u64>() - bad;
        report.bad_rows += bad;
        report.read += rest;
        let (mut sensitive, mut found) = (false, false);
        for single in category_texts(text) {
            let resolved = known.entry(single.to_owned()).or_insert_with(|| rules.resolve(single));
            let Some(resolved) = resolved else {
                sensitive = true;
                break;
            };
            found |= !resolved.is_empty();
        }
        if sensitive || !found {
            let named = category_texts(text).next().is_some();
            *match (sensitive, named) {
                (true, _) => &mut report.sensitive,
                (false, true) => &mut report.unknown_category,
                (false, false) => &mut report.without_category,
            } += rest;
            continue;
        }
        for (fate, count) in fates {
            match fate.as_str() {
                "absurd" => report.absurd_seconds += count,
                "future" => report.future += count,
                "too late" => report.too_late += count,
                "bad" => {}
                fate => {
                    report.late += if fate == "late" { *count } else { 0 };
                    report.repeated += count;
                }
            }
        }
    }
    if report.bad_rows > 0 && !settings.skip_bad {
        bail!("{} ({} such clicks on {day}); --skip-bad leaves them out", input.first_bad().await?, report.bad_rows);
    }
    let mut unknown: Vec<&String> =
        known.iter().filter(|(_, found)| found.as_ref().is_some_and(Vec::is_empty)).map(|(text, _)| text).collect();
    unknown.sort_unstable();
    report.unknown = unknown.into_iter().take(UNKNOWN_NAMED).cloned().collect();
    code(rules, known, categories)
}

/// Gives codes to all categories that have none yet.
fn code(rules: &ClickRules, known: HashMap<String, Option<Vec<u32>>>, categories: &mut Vec<String>) -> Result<CodeMap> {
    let all = rules.taxonomy().categories();
    let mut codes: HashMap<String, u16> = HashMap::new();
    for (code, id) in categories.iter().enumerate() {
        codes.insert(id.clone(), u16::try_from(code)?);
    }
    let mut used: Vec<u32> = known.values().flatten().flatten().copied().collect();
    used.sort_unstable();
    used.dedup();
    for category in used {
        let id = &all[category as usize].id;
        if !codes.contains_key(id) {
            let Ok(code) = u16::try_from(categories.len()) else {
                bail!("more than 65,536 categories have been used: write to new tables")
            };
            codes.insert(id.clone(), code);
            categories.push(id.clone());
        }
    }
    let coded = |found: Vec<u32>| found.into_iter().map(|category| codes[&all[category as usize].id]).collect();
    Ok(known.into_iter().map(|(text, found)| (text, found.map(coded))).collect())
}

/// Ids by code; none for categories that were used once, but are sensitive or gone by today's rules.
fn scored_ids<'a>(rules: &ClickRules, categories: &'a [String]) -> Vec<Option<&'a String>> {
    let fits = |id: &&String| rules.resolve(id).is_some_and(|found| !found.is_empty());
    categories.iter().map(|id| Some(id).filter(fits)).collect()
}

/// What the queries over the day's log have in common.
struct Plan<'a> {
    settings: &'a Settings<'a>,
    tables: &'a Tables,
    input: Option<&'a Input>,
    codes: String,
    buckets: usize,
}

impl Plan<'_> {
    /// What counts, and nothing else: no repeated click, no late one that came before.
    fn clicks(&self, has_late: bool) -> Option<Query> {
        let Settings { day, late_days, .. } = *self.settings;
        let mut scans = vec![self.input?.scan()];
        let earliest = day.minus(late_days);
        let mut sql = self.distinct(&format!("time >= {}", earliest.start()));
        let seen = self.tables.runs(Table::Clicks).iter().filter(|run| run.last >= earliest && run.last < day);
        let seen: Vec<&Run> = seen.collect();
        // Only late ones can be there already. No union of both kinds: a cluster may lose a branch of one and read
        // another twice, where branches are a single part each.
        if has_late && !seen.is_empty() {
            scans.push(self.tables.scan("seen", Table::Clicks, seen, None));
            sql = format!(
                "SELECT new.* FROM ({sql}) AS new WHERE NOT EXISTS (SELECT 1 FROM seen \
                 WHERE seen.person = new.person AND seen.page = new.page AND seen.time = new.time)"
            );
        }
        let sql = format!(
            "SELECT person_bucket(person, {}) AS bucket, person, time, page, codes, dwell \
             FROM ({sql}) ORDER BY bucket, person, time DESC, page",
            self.buckets
        );
        Some(Query { scans, sql, constants: self.constants() })
    }

    fn constants(&self) -> Vec<(&'static str, ScalarValue)> {
        vec![("codes", ScalarValue::Utf8(Some(self.codes.clone())))]
    }

    /// Clicks that survive the rules.
    fn usable(&self, names: &[&str], when: &str) -> Option<String> {
        let clicks = self.input?.select(names);
        Some(format!(
            "SELECT *, category_codes(categories, CAST($codes AS VARCHAR)) AS codes FROM ({clicks}) \
             WHERE person <> '' AND page <> '' AND (dwell IS NULL OR dwell >= 0) AND time <= {} AND {when}",
            self.settings.day.end()
        ))
    }

    /// Each click once. Of two that differ in anything else the longer time counts.
    fn distinct(&self, when: &str) -> String {
        let clicks = self.usable(&["person", "time", "page", "categories", "dwell"], when).unwrap_or_default();
        format!(
            "SELECT person, time, page, min(codes) AS codes, max(dwell) AS dwell FROM ({clicks}) \
             WHERE codes IS NOT NULL GROUP BY person, time, page"
        )
    }

    /// Titles of pages that have none yet.
    fn titles(&self, encoder: &[u8]) -> Option<Query> {
        let Settings { day, late_days, .. } = *self.settings;
        let mut scans = vec![self.input?.scan()];
        let when = format!("time >= {} AND trim(title) <> ''", day.minus(late_days).start());
        let clicks = self.usable(&["person", "time", "page", "categories", "title", "dwell"], &when)?;
        let mut new =
            format!("SELECT page, min(trim(title)) AS title FROM ({clicks}) WHERE codes IS NOT NULL GROUP BY page");
        let known = self.tables.runs(Table::Titles);
        if !known.is_empty() {
            scans.push(self.tables.scan("known", Table::Titles, known, None));
            new = format!(
                "SELECT * FROM ({new}) AS new WHERE NOT EXISTS (SELECT 1 FROM known WHERE known.page = new.page)"
            );
        }
        let sql = format!(
            "SELECT page, title, encode_title(title, arrow_cast($encoder, 'Binary')) AS embedding FROM ({new}) \
             ORDER BY page"
        );
        let mut constants = self.constants();
        constants.push(("encoder", ScalarValue::Binary(Some(encoder.to_vec()))));
        Some(Query { scans, sql, constants })
    }
}

/// Bounds between which all days are told apart.
const ALL_DAYS: &str = "-1000000000, 1000000000";

/// What everybody who was active visited on the day.
fn visits(tables: &Tables, bucket: usize) -> Query {
    let scans = vec![tables.scan("clicks", Table::Clicks, tables.runs(Table::Clicks).last(), Some(bucket))];
    let sql = format!(
        "SELECT person, visits_of(codes, time, dwell, {ALL_DAYS}) AS visits FROM clicks GROUP BY person ORDER BY person"
    );
    Query { scans, sql, constants: Vec::new() }
}

/// Scores of everybody who was active, from all that is known of them.
fn interests(tables: &Tables, day: Day, bucket: usize, ids: &str) -> Query {
    let scans = vec![
        tables.scan("today", Table::Visits, tables.runs(Table::Visits).last(), Some(bucket)),
        tables.scan("visits", Table::Visits, tables.runs(Table::Visits), Some(bucket)),
    ];
    let (now, month) = (day.end(), day.month_start());
    let sql = format!(
        "SELECT person, category_ids(found['category'], CAST($ids AS VARCHAR)) AS category, \
         found['recency'] AS recency, found['frequency'] AS frequency, found['seconds'] AS seconds, \
         found['score'] AS score, \
         arrow_cast({number}, 'Date32') AS day FROM (SELECT person, \
         score_visits(merge_visits(visits, {month}, {month}), {now}, {month}, CAST($ids AS VARCHAR)) AS found FROM \
         (SELECT visits.* FROM (SELECT person AS who FROM today) JOIN visits ON person = who) GROUP BY person) \
         ORDER BY person",
        number = day.number() as i32,
    );
    Query { scans, sql, constants: vec![("ids", ScalarValue::Utf8(Some(ids.to_owned())))] }
}

/// The last pages of the day of everybody who was active. Those of earlier days are in earlier runs.
fn pages(tables: &Tables, day: Day, bucket: usize) -> Query {
    let scans = vec![tables.scan("clicks", Table::Clicks, tables.runs(Table::Clicks).last(), Some(bucket))];
    let sql = format!(
        "SELECT person, pages_of(time, page) AS pages, arrow_cast({}, 'Date32') AS day FROM clicks GROUP BY person \
         ORDER BY person",
        day.number() as i32
    );
    Query { scans, sql, constants: Vec::new() }
}

/// How many interests the people have who were active.
async fn count_interests(engine: &Engine, tables: &Tables) -> Result<u64> {
    let scan = tables.scan("today", Table::Interests, tables.runs(Table::Interests).last(), None);
    let sql = "SELECT count(*) FROM (SELECT unnest(score) FROM today)".to_owned();
    let rows = engine.collect(&Query { scans: vec![scan], sql, constants: Vec::new() }).await?;
    Ok(rows.first().map_or(0, |batch| batch.column(0).as_primitive::<Int64Type>().value(0) as u64))
}
