//! Arguments of `device`.

use super::{TOP_K, cutoff, disclosure_mode};
use clap::{Args, Subcommand};
use sottovoce_privacy::{ACCEPTABLE, ANONYMOUS, ENCRYPTION, KEEPER, NOISE, SECURE_AGGREGATION, UPLOAD_RETENTION};
use sottovoce_protocol::{DisclosureMode, LayerRequirement, Policy, SealedDisclosure};
use std::path::PathBuf;

/// Criteria that a device can report.
const CRITERIA: [&str; 6] = ["auc", "loss", "size", "diversity", "closeness", "recency"];

/// Privacy layers that an owner can require.
const LAYERS: [&str; 5] = [SECURE_AGGREGATION, KEEPER, ENCRYPTION, NOISE, ANONYMOUS];

/// Parses a requirement.
fn requirement(text: &str) -> Result<String, String> {
    match LayerRequirement::parse(text) {
        Some(demand) if LAYERS.contains(&demand.layer) => Ok(text.to_owned()),
        Some(demand) => Err(format!("there is no layer `{}`; there are {}", demand.layer, LAYERS.join(", "))),
        None => Err("a requirement is LAYER, LAYER.SETTING, LAYER.SETTING=WORD, LAYER.SETTING>=NUMBER or \
            LAYER.SETTING<=NUMBER"
            .to_owned()),
    }
}

/// `device`.
#[derive(Debug, Subcommand)]
pub(crate) enum Device {
    /// Join a federation with a history that stays on this device
    #[command(
        after_help = "Example:\n  sottovoce device enrol --server https://films.example:8443 --federation films \\\n      \
        --token-file token --history my-films.tsv\n\n\
        The history is delimited text: item id and, optionally, time in seconds since 1970. It is stored locally and \
        never sent.\n\nA federation without a seal is open: its server sees each upload by itself. \
        Joining one takes --accept open.\n\nFor look-alike modelling give your own click log instead (--clicks): your \
        device computes interests from it."
    )]
    Enrol(Enrol),
    /// Take part in rounds until stopped; it can be stopped at any moment
    #[command(after_help = "Examples:\n  sottovoce device run\n  sottovoce device run --once --json")]
    Run(RunDevice),
    /// Add to the history, or replace it by what your clicks say
    #[command(after_help = "Examples:\n  sottovoce device import watched-this-week.csv\n  \
        sottovoce device import --clicks clicks.tsv --taxonomy 'Content Taxonomy 3.1.tsv'\n\n\
        From a click log the device computes your interests, which replace the history, and remembers the pages that you \
        read last, for models that read titles. Neither leaves the device.")]
    Import {
        /// Delimited text: item and, optionally, timestamp
        #[arg(value_name = "FILE", required_unless_present = "clicks", conflicts_with = "clicks")]
        file: Option<PathBuf>,
        #[command(flatten)]
        clicks: ClickLog,
        #[command(flatten)]
        location: Location,
    },
    /// Recommend items that are not in your history, without network access
    #[command(after_help = "Example:\n  sottovoce device recommend -k 5 --explain")]
    Recommend {
        /// Number of items
        #[arg(short, long = "top-k", aliases = TOP_K, value_name = "K", default_value_t = 10, value_parser = cutoff)]
        k: usize,
        /// Explain each item, if the model can
        #[arg(long)]
        explain: bool,
        #[command(flatten)]
        location: Location,
    },
    /// Show or change what may leave this device
    #[command(
        after_help = "Examples:\n  sottovoce device policy\n  sottovoce device policy --pi 0.2 --hide tt0072271\n  \
        sottovoce device policy --require secure-aggregation \\\n      \
        --require 'secure-aggregation.colluding>=0.1'\n  \
        sottovoce device policy --pause\n\nA requirement is a privacy layer (secure-aggregation, encryption, noise, \
        anonymous-upload) or a setting of a layer in a round's terms: LAYER.SETTING (must be true), LAYER.SETTING=WORD, \
        LAYER.SETTING>=NUMBER or LAYER.SETTING<=NUMBER, such as 'noise.multiplier>=1' or noise.placement=distributed. \
        A change is stored and in force when this command returns."
    )]
    Policy(ChangePolicy),
    /// Show this device's public key, and show or change its roster of other devices' keys
    #[command(
        after_help = "Examples:\n  sottovoce device identity\n  sottovoce device identity --roster choir.keys\n\n\
        A roster is a text file with one public key per line, as printed by this command; # starts a comment. Get it from \
        somebody other than the operator of the server: it prevents the server from inventing the other devices of a round."
    )]
    Identity {
        /// Use the roster in this file, and decline rounds without signed identities
        #[arg(long, value_name = "FILE")]
        roster: Option<PathBuf>,
        /// Remove the roster, and take part in rounds without identities again
        #[arg(long, conflicts_with = "roster")]
        no_roster: bool,
        #[command(flatten)]
        location: Location,
    },
    /// Show what left this device, by round and by item
    #[command(after_help = "Examples:\n  sottovoce device ledger\n  sottovoce device ledger --item tt0050083 --json")]
    Ledger {
        /// Only this item, by id or title
        #[arg(long, value_name = "ITEM")]
        item: Option<String>,
        #[command(flatten)]
        location: Location,
    },
    /// Show which audiences of advertisers this device is in, join them or leave
    #[command(
        after_help = "Examples:\n  sottovoce device audiences\n  sottovoce device audiences join --exclude health\n  \
        sottovoce device audiences leave 'ski fans'\n  sottovoce device audiences leave --all\n\n\
        Your device decides alone whether it is in an audience, and takes no part until you join."
    )]
    #[command(args_conflicts_with_subcommands = true)]
    Audiences {
        #[command(subcommand)]
        command: Option<Audiences>,
        #[command(flatten)]
        location: Location,
    },
    /// Show the state of the device
    #[command(after_help = "Example:\n  sottovoce device status --json")]
    Status(Location),
    /// Leave the federation, and have the server delete this device's data
    #[command(
        after_help = "Example:\n  sottovoce device withdraw\n\nHistory, ledger and models stay on this device; `recommend` \
        still works. To come back, enrol again."
    )]
    Withdraw(Location),
}

/// The folder and key of the device.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Location")]
pub(crate) struct Location {
    /// Folder of the device [default: sottovoce/device in your data folder]
    #[arg(long, value_name = "DIR", env = "SOTTOVOCE_DEVICE")]
    pub(crate) store: Option<PathBuf>,
    /// Key that encrypts the folder [default: a file beside the folder, created when you enrol]
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
}

/// `device enrol`.
#[derive(Debug, Args)]
pub(crate) struct Enrol {
    /// Address of the server: https://HOST[:PORT]; http:// for this machine only
    #[arg(long, value_name = "URL")]
    pub(crate) server: String,
    /// Name of the federation
    #[arg(long, value_name = "NAME")]
    pub(crate) federation: String,
    /// Enrolment token from the operator
    #[arg(long, value_name = "TOKEN", required_unless_present = "token_file")]
    pub(crate) token: Option<String>,
    /// File with the token, which keeps it out of the process list
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    pub(crate) token_file: Option<PathBuf>,
    /// Your history: item and, optionally, timestamp
    #[arg(long, value_name = "FILE", required_unless_present = "clicks", conflicts_with = "clicks")]
    pub(crate) history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) clicks: ClickLog,
    /// Certificate authority to trust for this server instead of the web's, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Key that the federation's devices share for encrypted updates
    #[arg(long, value_name = "FILE")]
    pub(crate) federation_key: Option<PathBuf>,
    /// Roster of public keys of the federation's devices; see `device identity`
    #[arg(long, value_name = "FILE")]
    pub(crate) roster: Option<PathBuf>,
    /// Agree to rounds without a seal (open), in which the server sees each upload by itself, or with encryption, which
    /// protects less than it seems; repeatable
    #[arg(long, value_name = "WHAT", value_parser = ACCEPTABLE)]
    pub(crate) accept: Vec<String>,
    /// Fraction of your items used to compute uploads, from 0 to 1
    #[arg(long, value_name = "X", default_value_t = Policy::DEFAULT_PI)]
    pub(crate) pi: f64,
    /// The same in sealed rounds of at least --sealed-least devices
    #[arg(long, value_name = "X", default_value_t = SealedDisclosure::DEFAULT_PI)]
    pub(crate) sealed_pi: f64,
    /// Devices whose updates the server can open together, at least, for --sealed-pi to apply
    #[arg(long, value_name = "K", default_value_t = SealedDisclosure::DEFAULT_LEAST)]
    pub(crate) sealed_least: u32,
    /// Whether these items are drawn once, so that the others are never used, or in each round
    #[arg(long, alias = "pi-draw", value_name = "WHEN", default_value = DisclosureMode::default().name(), value_parser = disclosure_mode())]
    pub(crate) disclosure: DisclosureMode,
    #[command(flatten)]
    pub(crate) location: Location,
}

/// The owner's click log.
#[derive(Debug, Args)]
pub(crate) struct ClickLog {
    /// Your own click log: time, page, categories and, optionally, title and seconds; TSV, CSV, JSON lines or Parquet
    #[arg(long, value_name = "FILE")]
    pub(crate) clicks: Option<PathBuf>,
    /// Taxonomy of the log's categories, whose sensitive branches are left out [default: the federation's catalog;
    /// pages with a category that it does not have are left out]
    #[arg(long, value_name = "FILE", requires = "clicks")]
    pub(crate) taxonomy: Option<PathBuf>,
    /// Moment of your interests, as a date or in seconds since 1970 [default: your last click]
    #[arg(long, value_name = "TIME", requires = "clicks")]
    pub(crate) at: Option<String>,
}

/// `device audiences`.
#[derive(Debug, Subcommand)]
pub(crate) enum Audiences {
    /// Agree to take part, or come back to an audience that you left
    #[command(after_help = "Example:\n  sottovoce device audiences join --exclude health --epsilon-per-day 2")]
    Join(JoinAudiences),
    /// Leave one audience, or all: nothing about them leaves the device any more
    #[command(after_help = "Example:\n  sottovoce device audiences leave 'ski fans'")]
    Leave {
        /// Name of the audience
        #[arg(value_name = "NAME", conflicts_with = "all")]
        name: Option<String>,
        /// Leave all and take no part any more
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        location: Location,
    },
}

/// `device audiences join`.
#[derive(Debug, Args)]
pub(crate) struct JoinAudiences {
    /// Audience that you left before
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Category that never counts, and whose audiences get no report; repeatable
    #[arg(long, value_name = "ID")]
    pub(crate) exclude: Vec<String>,
    /// Category to stop excluding; repeatable
    #[arg(long, value_name = "ID")]
    pub(crate) include: Vec<String>,
    /// Refuse servers that publish smaller sizes [default: 1000]
    #[arg(long, value_name = "K")]
    pub(crate) least_published: Option<u32>,
    /// Most that measurements and reports of a day may say about you, as epsilon [default: 4]
    #[arg(long, value_name = "X")]
    pub(crate) epsilon_per_day: Option<f64>,
    /// Refuse longer lists of audiences [default: 100]
    #[arg(long, value_name = "N")]
    pub(crate) most_audiences: Option<u32>,
    /// Refuse to report more often than this [default: 24]
    #[arg(long, value_name = "HOURS")]
    pub(crate) least_rotation_hours: Option<u32>,
    #[command(flatten)]
    pub(crate) location: Location,
}

/// `device run`.
#[derive(Debug, Args)]
pub(crate) struct RunDevice {
    /// Do what is due now, then exit
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) location: Location,
}

/// `device policy`.
#[derive(Debug, Args)]
pub(crate) struct ChangePolicy {
    /// Fraction of your items used to compute uploads, from 0 to 1
    #[arg(long, value_name = "X")]
    pub(crate) pi: Option<f64>,
    /// The same in sealed rounds of at least --sealed-least devices
    #[arg(long, value_name = "X")]
    pub(crate) sealed_pi: Option<f64>,
    /// Devices whose updates the server can open together, at least, for --sealed-pi to apply
    #[arg(long, value_name = "K")]
    pub(crate) sealed_least: Option<u32>,
    /// Whether these items are drawn once, so that the others are never used, or in each round
    #[arg(long, alias = "pi-draw", value_name = "WHEN", value_parser = disclosure_mode())]
    pub(crate) disclosure: Option<DisclosureMode>,
    /// Item to hide, by id or title: uploads do not depend on whether you have it; repeatable
    #[arg(long, value_name = "ITEM")]
    pub(crate) hide: Vec<String>,
    /// Item to stop hiding, by id or title; repeatable
    #[arg(long, value_name = "ITEM")]
    pub(crate) unhide: Vec<String>,
    /// Take part in no round until --resume
    #[arg(long, conflicts_with = "resume")]
    pub(crate) pause: bool,
    /// Take part again
    #[arg(long)]
    pub(crate) resume: bool,
    /// Decline rounds with fewer devices
    #[arg(long, value_name = "N")]
    pub(crate) least_cohort: Option<u32>,
    /// Decline rounds that do not meet this requirement: see below
    #[arg(long, value_name = "REQUIREMENT", value_parser = requirement)]
    pub(crate) require: Vec<String>,
    /// Drop this requirement
    #[arg(long, value_name = "REQUIREMENT", value_parser = requirement)]
    pub(crate) no_require: Vec<String>,
    /// Decline rounds whose terms have this layer, such as retention of uploads
    #[arg(long, value_name = "LAYER", value_parser = [UPLOAD_RETENTION])]
    pub(crate) refuse: Vec<String>,
    /// Accept this layer again
    #[arg(long, value_name = "LAYER", value_parser = [UPLOAD_RETENTION])]
    pub(crate) no_refuse: Vec<String>,
    /// Agree to the weaker protection that the server asked for last, and to no less
    #[arg(long)]
    pub(crate) accept_weaker: bool,
    /// Agree to rounds without a seal (open), in which the server sees each upload by itself, or with encryption, which
    /// protects a stolen database, not you from the server
    #[arg(long, value_name = "WHAT", value_parser = ACCEPTABLE)]
    pub(crate) accept: Vec<String>,
    /// Decline such rounds again
    #[arg(long, value_name = "WHAT", value_parser = ACCEPTABLE)]
    pub(crate) no_accept: Vec<String>,
    /// Most that uploads may say about you to the server, as epsilon by this device's own account; 0: any
    #[arg(long, value_name = "X")]
    pub(crate) epsilon_budget: Option<f64>,
    /// Criterion that may be reported when a round asks for it
    #[arg(long, value_name = "CRITERION", value_parser = CRITERIA)]
    pub(crate) report: Vec<String>,
    /// Criterion to stop reporting
    #[arg(long, value_name = "CRITERION", value_parser = CRITERIA)]
    pub(crate) no_report: Vec<String>,
    #[command(flatten)]
    pub(crate) location: Location,
}
