//! Click logs of people who do not exist, in the layout that the pipeline reads.

use crate::day::Day;
use crate::store::Folder;
use anyhow::{Context, Result, ensure};
use datafusion::arrow::array::{
    Array as _, ArrayRef, DictionaryArray, Float32Builder, Int32Array, Int64Array, RecordBatch, StringArray,
    StringBuilder,
};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema};
use datafusion::parquet::arrow::AsyncArrowWriter;
use datafusion::parquet::arrow::arrow_writer::ArrowWriterOptions;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use futures_util::{StreamExt, TryStreamExt};
use object_store::buffered::BufWriter;
use sottovoce_core::Rng;
use sottovoce_data::interests::Taxonomy;
use std::fmt::Write as _;
use std::sync::Arc;

/// Clicks of a file.
const FILE: u64 = 1 << 20;
/// Clicks that are made at once.
const BATCH: u64 = 1 << 16;
/// Pages of a category.
const PAGES: u32 = 256;
/// Favourite categories of a person.
const FAVOURITES: usize = 4;

/// How much to make.
#[derive(Clone, Debug)]
pub struct Amount {
    /// People.
    pub people: u32,
    /// Clicks in all, the same number on each day.
    pub clicks: u64,
    /// Days.
    pub days: u64,
    /// The first day.
    pub first: Day,
    /// Everything follows from it.
    pub seed: u64,
}

/// What all clicks choose from.
struct World {
    pages: Arc<StringArray>,
    titles: Arc<StringArray>,
    categories: Arc<StringArray>,
    schema: Arc<Schema>,
    amount: Amount,
}

/// Writes clicks: mostly on a person's favourite categories, few people with many clicks and many with few. Of 1,000
/// clicks about 5 come up to three days late, 5 are repeated, 20 without a time on page, and one each is in the future,
/// with an impossible time on page and of an unknown category. The same seed gives the same bytes.
///
/// # Errors
/// If nothing is asked for, or the folder cannot be written.
pub async fn generate(folder: &Folder, taxonomy: &Taxonomy, amount: &Amount, threads: usize) -> Result<()> {
    ensure!(amount.people > 0 && amount.days > 0, "nobody or no day is asked for");
    ensure!(amount.people <= 1 << 30, "{} people: expected up to {}", amount.people, 1 << 30);
    let world = Arc::new(World::new(taxonomy, amount.clone()));
    let a_day = amount.clicks / amount.days;
    ensure!(a_day > 0, "{} clicks on {} days: expected at least one a day", amount.clicks, amount.days);
    let files = (0..amount.days).flat_map(|day| (0..a_day.div_ceil(FILE)).map(move |part| (day, part)));
    let files = files.map(|(day, part)| {
        let (world, folder) = (world.clone(), folder.clone());
        let clicks = part * FILE..((part + 1) * FILE).min(a_day);
        tokio::spawn(async move { world.write(&folder, day, part, clicks, a_day).await })
    });
    futures_util::stream::iter(files).buffered(threads.max(1)).map(|done| done?).try_collect::<Vec<()>>().await?;
    Ok(())
}

impl World {
    fn new(taxonomy: &Taxonomy, amount: Amount) -> Self {
        let text = |name: &str| Field::new(name, DataType::Utf8, false);
        let key = |name: &str| Field::new_dictionary(name, DataType::Int32, DataType::Utf8, false);
        let schema = Arc::new(Schema::new(vec![
            text("person"),
            Field::new("time", DataType::Int64, false),
            key("page"),
            key("title"),
            key("categories"),
            Field::new("seconds", DataType::Float32, true),
        ]));
        let (mut pages, mut titles) = (Vec::new(), Vec::new());
        let all = taxonomy.categories();
        for (number, category) in all.iter().enumerate() {
            for page in 0..PAGES {
                pages.push(format!("page-{number}-{page}"));
                let mut rng = Rng::new(amount.seed).stream("title", (number as u64) << 16 | u64::from(page));
                let words: Vec<&str> = (0..4).map(|_| WORDS[rng.index(WORDS.len())]).collect();
                titles.push(format!("{} {}", category.name, words.join(" ")));
            }
        }
        // By category: itself, and with the one above it; then one that nobody knows.
        let with_parent = all.iter().flat_map(|category| {
            let parent = category.parent.map_or(category, |parent| &all[parent as usize]);
            [category.id.clone(), format!("{}|{}", category.id, parent.id)]
        });
        let categories: Vec<String> = with_parent.chain(["no-such-category".to_owned()]).collect();
        let [pages, titles, categories] = [pages, titles, categories].map(|all| Arc::new(StringArray::from(all)));
        Self { pages, titles, categories, schema, amount }
    }

    async fn write(
        &self,
        folder: &Folder,
        day: u64,
        part: u64,
        clicks: std::ops::Range<u64>,
        a_day: u64,
    ) -> Result<()> {
        let place = format!("day={}/part-{part:03}.parquet", self.amount.first.plus(day));
        let sink = BufWriter::new(folder.store(), folder.path(&place));
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
        // The dictionaries are how the texts are made here, not what a reader has to know.
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let mut file = AsyncArrowWriter::try_new_with_options(sink, self.schema.clone(), options)?;
        for start in clicks.clone().step_by(BATCH as usize) {
            let batch = self.batch(day, start..(start + BATCH).min(clicks.end), a_day)?;
            file.write(&batch).await?;
        }
        file.close().await.with_context(|| format!("writing {}", folder.address(&place)))?;
        Ok(())
    }

    fn batch(&self, day: u64, clicks: std::ops::Range<u64>, a_day: u64) -> Result<RecordBatch> {
        let mut rng = Rng::new(self.amount.seed).stream("day", day).stream("click", clicks.start);
        let rows = (clicks.end - clicks.start) as usize;
        let (mut people, mut name) = (StringBuilder::with_capacity(rows, 10 * rows), String::new());
        let mut seconds = Float32Builder::with_capacity(rows);
        let (mut times, mut pages, mut categories) = (Vec::new(), Vec::new(), Vec::new());
        let start = self.amount.first.plus(day).start();
        let mut last = None;
        for click in clicks {
            let now = start + (click * 86_400 / a_day) as i64;
            let (person, time, page, category, dwell) = match last.filter(|_| rng.chance(0.005)) {
                Some(again) => again,
                None => self.click(&mut rng, now),
            };
            last = Some((person, time, page, category, dwell));
            name.clear();
            write!(name, "u{person}")?;
            people.append_value(&name);
            times.push(time);
            pages.push(page);
            categories.push(category);
            seconds.append_option(dwell);
        }
        let pages = Int32Array::from(pages);
        let keyed = |keys: Int32Array, values: &Arc<StringArray>| -> Result<ArrayRef> {
            Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values.clone())?))
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(people.finish()),
            Arc::new(Int64Array::from(times)),
            keyed(pages.clone(), &self.pages)?,
            keyed(pages, &self.titles)?,
            keyed(Int32Array::from(categories), &self.categories)?,
            Arc::new(seconds.finish()),
        ];
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    /// A person, the time, the page, its categories and the seconds on it.
    fn click(&self, rng: &mut Rng, now: i64) -> (u32, i64, i32, i32, Option<f32>) {
        let all = (self.categories.len() / 2) as u32;
        let skewed = |rng: &mut Rng, n: u32| {
            let u = rng.unit();
            ((u * u * f64::from(n)) as u32).min(n - 1)
        };
        let person = skewed(rng, self.amount.people);
        let category = match rng.chance(0.7) {
            true => {
                let favourite = rng.index(FAVOURITES) as u64;
                Rng::new(self.amount.seed).stream("favourite", u64::from(person) << 2 | favourite).below(all)
            }
            false => rng.below(all),
        };
        let page = skewed(rng, PAGES);
        let odd = rng.below(1000);
        let time = match odd {
            0..5 => now - i64::from(1 + rng.below(3)) * 86_400,
            5 => now + 2 * 86_400,
            _ => now,
        };
        let categories = if odd == 6 { 2 * all } else { 2 * category + u32::from(page % 5 == 0) };
        let dwell = match odd {
            7 => Some(-1.0),
            8..28 => None,
            // To an eighth of a second, as a browser's timer might tell.
            _ => Some((rng.exponential() * 45.0 * 8.0).round() as f32 / 8.0),
        };
        (person, time, (category * PAGES + page) as i32, categories as i32, dwell)
    }
}

/// Words of titles.
const WORDS: [&str; 24] = [
    "guide", "review", "morning", "secret", "history", "winter", "summer", "local", "market", "record", "quiet",
    "garden", "city", "travel", "first", "young", "simple", "better", "lost", "river", "music", "evening", "price",
    "world",
];
