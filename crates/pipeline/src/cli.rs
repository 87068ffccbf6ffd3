//! The command line.

#[cfg(feature = "cluster")]
use crate::cluster;
use crate::day::Day;
use crate::engine::Engine;
use crate::generate::{self, Amount};
use crate::interests::{self, DayReport};
use crate::lookalikes;
use crate::merged;
use crate::store::Folder;
use crate::tables::{Manifest, Table};
use crate::trained;
use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use sottovoce_data::interests::{CategoryMapping, ClickRules, Taxonomy};
use sottovoce_text::{HashedNgrams, NgramConfig};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The daily batch pipeline of look-alike modelling, for operators who hold consented click logs
#[derive(Debug, Parser)]
#[command(name = "sottovoce-pipeline", bin_name = "sottovoce pipeline", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Scores interests of the people who were active on a day, and embeds titles that are new
    Interests(InterestsArgs),
    /// Scores those people with a model, and counts the audiences
    Lookalikes(LookalikesArgs),
    /// Writes a table with all people as of a day, each as of the last day on which they were active
    Export(ExportArgs),
    /// Writes the popularity baseline as a model for `lookalikes`
    Popularity(PopularityArgs),
    /// Writes click logs of people who do not exist
    Generate(GenerateArgs),
    /// Runs the scheduler of a cluster
    #[cfg(feature = "cluster")]
    Scheduler(cluster::SchedulerArgs),
    /// Runs an executor of a cluster
    #[cfg(feature = "cluster")]
    Executor(cluster::ExecutorArgs),
}

#[derive(Debug, Args)]
struct EngineArgs {
    /// Runs on the cluster of this scheduler instead of in this process; all machines must reach the same folders
    #[arg(long, value_name = "HOST:PORT")]
    scheduler: Option<String>,
    /// Seconds after which a step that a cluster has not finished is submitted again; after three times the job fails
    #[arg(long, default_value_t = 1800)]
    step_timeout: u64,
    /// Threads [default: all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// Memory in MiB for sorting and grouping, beyond which data goes to temporary files
    #[arg(long, default_value_t = 4096)]
    memory: usize,
}

impl EngineArgs {
    fn open(&self) -> Result<Engine> {
        let threads = self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        Engine::new(threads, self.memory << 20, self.scheduler.as_deref(), Duration::from_secs(self.step_timeout))
    }
}

#[derive(Debug, Args)]
struct InterestsArgs {
    /// Folder or s3://BUCKET/FOLDER of the clicks, with folders day=YYYY-MM-DD of Parquet files
    #[arg(long)]
    clicks: String,
    /// Folder or s3://BUCKET/FOLDER of the tables
    #[arg(long)]
    tables: String,
    /// The day, in UTC
    #[arg(long)]
    day: Day,
    /// Taxonomy of the categories (IAB Content Taxonomy 2.x or 3.x, or columns id, parent, name), or synth:town
    #[arg(long)]
    taxonomy: PathBuf,
    /// Mapping of categories that the taxonomy does not have, such as the IAB's Content_1.0_to_Content_2.0.tsv
    #[arg(long)]
    mapping: Option<PathBuf>,
    /// More branches whose pages are dropped, by id or name
    #[arg(long, value_name = "CATEGORY")]
    sensitive: Vec<String>,
    /// Branches that are not sensitive after all, by id or name
    #[arg(long, value_name = "CATEGORY")]
    not_sensitive: Vec<String>,
    /// Replaces categories below this tier by those above them
    #[arg(long)]
    tier: Option<u32>,
    /// Days that a click may come late
    #[arg(long, default_value_t = 7)]
    late_days: u64,
    /// Buckets of people in new tables: parts of a job that are worked on at a time
    #[arg(long, default_value_t = 16)]
    buckets: usize,
    /// Encoder of titles: titles.encoder in a model's folder [default: one that has seen no titles]
    #[arg(long)]
    encoder: Option<PathBuf>,
    /// Values of a title's vector, without --encoder
    #[arg(long, default_value_t = 64)]
    dim: usize,
    /// Takes a day without files as one on which nobody clicked
    #[arg(long)]
    allow_empty: bool,
    /// Skips and counts clicks without person, page or time
    #[arg(long)]
    skip_bad: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Debug, Args)]
struct LookalikesArgs {
    /// Folder or s3://BUCKET/FOLDER of the tables
    #[arg(long)]
    tables: String,
    /// The day, whose interests must be there
    #[arg(long)]
    day: Day,
    /// The model: a folder that `sottovoce train --model lookalike --out` wrote, or a file of `popularity`
    #[arg(long)]
    model: PathBuf,
    /// Score from which a person belongs to the audience of a category
    #[arg(long)]
    threshold: f32,
    #[command(flatten)]
    engine: EngineArgs,
}

/// A table that can be written with all people.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Exported {
    Interests,
    Pages,
    Lookalikes,
}

#[derive(Debug, Args)]
struct ExportArgs {
    /// Folder or s3://BUCKET/FOLDER of the tables
    #[arg(long)]
    tables: String,
    /// The day
    #[arg(long)]
    day: Day,
    /// The table
    #[arg(long)]
    table: Exported,
    /// Folder or s3://BUCKET/FOLDER for the Parquet files, one for each bucket
    #[arg(long)]
    out: String,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Debug, Args)]
struct PopularityArgs {
    /// Folder or s3://BUCKET/FOLDER of the tables
    #[arg(long)]
    tables: String,
    /// The day, whose interests must be there
    #[arg(long)]
    day: Day,
    /// The model's file
    #[arg(long)]
    out: PathBuf,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Debug, Args)]
struct GenerateArgs {
    /// Folder or s3://BUCKET/FOLDER for the clicks
    #[arg(long)]
    out: String,
    /// People
    #[arg(long, default_value_t = 10_000)]
    people: u32,
    /// Clicks in all
    #[arg(long, default_value_t = 1_000_000)]
    clicks: u64,
    /// Days
    #[arg(long, default_value_t = 10)]
    days: u64,
    /// The first day
    #[arg(long, default_value = "2026-01-01")]
    first: Day,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Taxonomy of the categories
    #[arg(long, default_value = TOWN)]
    taxonomy: PathBuf,
}

const TOWN: &str = "synth:town";

fn taxonomy(path: &Path) -> Result<Taxonomy> {
    match path.to_str() {
        Some(TOWN) => Ok(Taxonomy::town()),
        _ => Ok(Taxonomy::read(path)?),
    }
}

/// Does what the arguments say; what it prints is for people.
///
/// # Errors
/// Whatever goes wrong.
pub async fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Interests(args) => run_interests(&args).await,
        Command::Lookalikes(args) => run_lookalikes(&args).await,
        Command::Export(args) => {
            let table = match args.table {
                Exported::Interests => Table::Interests,
                Exported::Pages => Table::Pages,
                Exported::Lookalikes => Table::Lookalikes,
            };
            let (tables, out) = (Folder::open(&args.tables)?, Folder::open(&args.out)?);
            let rows = merged::export(&args.engine.open()?, &tables, args.day, table, &out).await?;
            println!("{rows} rows of {} as of {} in {}", table.name(), args.day, args.out);
            Ok(())
        }
        Command::Popularity(args) => {
            let model = lookalikes::popularity(&args.engine.open()?, &Folder::open(&args.tables)?, args.day).await?;
            std::fs::write(&args.out, serde_json::to_vec(&model)?)
                .with_context(|| format!("writing {}", args.out.display()))
        }
        Command::Generate(args) => {
            let GenerateArgs { people, clicks, days, first, seed, .. } = args;
            let amount = Amount { people, clicks, days, first, seed };
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            generate::generate(&Folder::open(&args.out)?, &taxonomy(&args.taxonomy)?, &amount, threads).await?;
            println!("{} clicks a day on {days} days from {first} in {}", clicks / days.max(1), args.out);
            Ok(())
        }
        #[cfg(feature = "cluster")]
        Command::Scheduler(args) => cluster::scheduler(&args).await,
        #[cfg(feature = "cluster")]
        Command::Executor(args) => cluster::executor(&args).await,
    }
}

async fn run_interests(args: &InterestsArgs) -> Result<()> {
    let mut rules = ClickRules::new(taxonomy(&args.taxonomy)?).in_tier(args.tier);
    if let Some(file) = &args.mapping {
        let mapping = CategoryMapping::read(file, rules.taxonomy())?;
        rules = rules.mapped(mapping);
    }
    rules = rules.also_sensitive(args.sensitive.iter().map(String::as_str))?;
    rules = rules.not_sensitive(args.not_sensitive.iter().map(String::as_str))?;
    let encoder = match &args.encoder {
        Some(path) => {
            let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
            HashedNgrams::from_bytes(&bytes).with_context(|| path.display().to_string())?
        }
        None => HashedNgrams::new(NgramConfig { dim: args.dim, ..NgramConfig::default() })?,
    };
    let settings = interests::Settings {
        clicks: Folder::open(&args.clicks)?,
        tables: Folder::open(&args.tables)?,
        day: args.day,
        rules: &rules,
        encoder: &encoder,
        late_days: args.late_days,
        buckets: args.buckets,
        allow_empty: args.allow_empty,
        skip_bad: args.skip_bad,
    };
    let manifest = interests::run(&args.engine.open()?, &settings).await?;
    print!("{}", told(&manifest));
    Ok(())
}

/// A day's counts in words.
fn told(manifest: &Manifest<interests::State>) -> String {
    let DayReport { read, used, late, people, interests, new_titles, unknown, .. } = &manifest.state.report;
    let report = &manifest.state.report;
    let mut text = format!("{}: {used} of {read} clicks used, {late} of them late\n", manifest.day);
    let drops = [
        ("sensitive", report.sensitive),
        ("without category", report.without_category),
        ("of unknown categories", report.unknown_category),
        ("after the day", report.future),
        ("with an impossible time on page", report.absurd_seconds),
        ("too late", report.too_late),
        ("repeated", report.repeated),
        ("without person, page or time", report.bad_rows),
    ];
    let drops: Vec<String> =
        drops.iter().filter(|(_, count)| *count > 0).map(|(why, count)| format!("{count} {why}")).collect();
    if !drops.is_empty() {
        text += &format!("dropped: {}\n", drops.join(", "));
    }
    if !unknown.is_empty() {
        text += &format!("unknown categories, the first: {}\n", unknown.join(", "));
    }
    text + &format!("{people} people active, {interests} interests, {new_titles} new titles\n")
}

async fn run_lookalikes(args: &LookalikesArgs) -> Result<()> {
    let model = match args.model.is_dir() {
        true => trained::pack(&args.model),
        false => std::fs::read(&args.model).map_err(anyhow::Error::from),
    };
    let model = model.with_context(|| args.model.display().to_string())?;
    let settings =
        lookalikes::Settings { tables: Folder::open(&args.tables)?, day: args.day, model, threshold: args.threshold };
    let engine = args.engine.open()?;
    let run = lookalikes::run(&engine, &settings).await;
    let manifest = run.with_context(|| format!("look-alikes of {} by {}", args.day, args.model.display()))?;
    let lookalikes::State { people, members, segments, .. } = &manifest.state;
    println!("{}: {people} people scored, {members} places in {segments} audiences", args.day);
    Ok(())
}
