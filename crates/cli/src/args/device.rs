//! `device`: one owner's device in a federation.

use super::{cutoff, pi_draw};
use clap::{Args, Subcommand};
use sottovoce_privacy::{ANONYMOUS, ENCRYPTION, UPLOAD_RETENTION, NOISE, SECURE_AGGREGATION};
use sottovoce_protocol::{LayerRequirement, DisclosureMode};
use std::path::PathBuf;

/// What a device can tell of itself.
const FIGURES: [&str; 6] = ["auc", "loss", "size", "diversity", "closeness", "recency"];

/// Layers that an owner can make demands of.
const LAYERS: [&str; 4] = [SECURE_AGGREGATION, ENCRYPTION, NOISE, ANONYMOUS];

/// What an owner demands, in its words.
fn demand(text: &str) -> Result<String, String> {
    match LayerRequirement::parse(text) {
        Some(demand) if LAYERS.contains(&demand.layer()) => Ok(text.to_owned()),
        Some(demand) => {
            Err(format!("there is no layer `{}`; there are {}", demand.layer(), LAYERS.join(", ")))
        }
        None => Err("a demand is LAYER, LAYER.SETTING, LAYER.SETTING=WORD, LAYER.SETTING>=NUMBER or \
            LAYER.SETTING<=NUMBER"
            .to_owned()),
    }
}

/// `device`.
#[derive(Debug, Subcommand)]
pub(crate) enum Device {
    /// Join a federation with a history that stays here
    #[command(
        after_help = "Example:\n  sottovoce device enrol --server https://films.example:8443 --federation films \
        --token-file token --history my-films.tsv\n\n\
        The history is delimited text: an item's id and perhaps a time in seconds since 1970. It is kept in the store and \
        never sent."
    )]
    Enrol(Enrol),
    /// Take part in rounds, until it is stopped; it can be stopped at any moment
    #[command(after_help = "Examples:\n  sottovoce device run\n  sottovoce device run --once --json")]
    Run(RunDevice),
    /// Add to the history
    #[command(after_help = "Example:\n  sottovoce device import watched-this-week.csv")]
    Import {
        /// Delimited text: item and perhaps timestamp
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// The best items that you do not have; asks nobody
    #[command(after_help = "Example:\n  sottovoce device recommend -k 5 --explain")]
    Recommend {
        /// How many items
        #[arg(short, value_name = "K", default_value_t = 10, value_parser = cutoff)]
        k: usize,
        /// Say why each item is there, where the model can tell
        #[arg(long)]
        explain: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Show or change what may leave this device
    #[command(
        after_help = "Examples:\n  sottovoce device policy\n  sottovoce device policy --pi 0.2 --hide tt0072271\n  \
        sottovoce device policy --require secure-aggregation --require 'secure-aggregation.colluding>=0.1'\n  \
        sottovoce device policy --pause\n\nA demand is a layer (secure-aggregation, encryption, noise, anonymous-upload), or \
        a setting of a layer as a round's terms say it: LAYER.SETTING (must be true), LAYER.SETTING=WORD, LAYER.SETTING>=NUMBER \
        or LAYER.SETTING<=NUMBER, such as 'noise.multiplier>=1' or noise.placement=distributed. A change is kept before this command returns, and holds from then on."
    )]
    Policy(ChangePolicy),
    /// Show this device's public key, and show or change whose keys it knows
    #[command(
        after_help = "Examples:\n  sottovoce device identity\n  sottovoce device identity --roster choir.keys\n\n\
        A roster is a text file with a public key a line, as this command prints it; # begins a comment. Get it from somebody \
        other than the operator of the server: it is what keeps a server from making up the others of your rounds."
    )]
    Identity {
        /// Know the devices of this file, and refuse rounds in which devices do not show who they are
        #[arg(long, value_name = "FILE")]
        roster: Option<PathBuf>,
        /// Know nobody any more, and take part in rounds without identities again
        #[arg(long, conflicts_with = "roster")]
        no_roster: bool,
        #[command(flatten)]
        place: Place,
    },
    /// What left this device, by round and by item
    #[command(
        after_help = "Examples:\n  sottovoce device ledger\n  sottovoce device ledger --item tt0050083 --json"
    )]
    Ledger {
        /// About this item only
        #[arg(long, value_name = "ITEM")]
        item: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// How the device stands
    #[command(after_help = "Example:\n  sottovoce device status --json")]
    Status {
        #[command(flatten)]
        place: Place,
    },
    /// Leave the federation, and have the server forget this device
    #[command(
        after_help = "Example:\n  sottovoce device withdraw\n\nHistory, ledger and models stay here; `recommend` goes on \
        working. To come back, enrol anew."
    )]
    Withdraw {
        #[command(flatten)]
        place: Place,
    },
}

/// Where the device is.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Place")]
pub(crate) struct Place {
    /// The device's folder [default: sottovoce/device in your folder for data]
    #[arg(long, value_name = "DIR", env = "SOTTOVOCE_DEVICE")]
    pub(crate) store: Option<PathBuf>,
    /// The key that it is sealed with [default: a file beside the folder, made when you enrol]
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
}

/// `device enrol`.
#[derive(Debug, Args)]
pub(crate) struct Enrol {
    /// The server's address: https:// and a host, perhaps with a port; http:// for this machine only
    #[arg(long, value_name = "URL")]
    pub(crate) server: String,
    /// The federation's name
    #[arg(long, value_name = "NAME")]
    pub(crate) federation: String,
    /// The enrolment token that the operator gave you
    #[arg(long, value_name = "TOKEN", required_unless_present = "token_file")]
    pub(crate) token: Option<String>,
    /// A file with the token, which then does not show among processes
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    pub(crate) token_file: Option<PathBuf>,
    /// Your history: item and perhaps timestamp
    #[arg(long, value_name = "FILE")]
    pub(crate) history: PathBuf,
    /// A certificate authority to trust for this server instead of the web's, as PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The key that devices of the federation share, where updates are encrypted
    #[arg(long, value_name = "FILE")]
    pub(crate) federation_key: Option<PathBuf>,
    /// Public keys of the federation's devices, from somebody other than the server's operator; see `device identity`
    #[arg(long, value_name = "FILE")]
    pub(crate) roster: Option<PathBuf>,
    /// Share of the items you have from which is learnt what leaves, from 0 to 1
    #[arg(long, value_name = "X", default_value_t = 0.5)]
    pub(crate) pi: f64,
    /// Whether that share is drawn once for good, so that nothing ever leaves of the others, or anew each round
    #[arg(long, value_name = "WHEN", default_value = DisclosureMode::default().name(), value_parser = pi_draw())]
    pub(crate) pi_draw: DisclosureMode,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// `device run`.
#[derive(Debug, Args)]
pub(crate) struct RunDevice {
    /// Do what there is to do now, and end
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// `device policy`.
#[derive(Debug, Args)]
pub(crate) struct ChangePolicy {
    /// Share of the items you have from which is learnt what leaves, from 0 to 1
    #[arg(long, value_name = "X")]
    pub(crate) pi: Option<f64>,
    /// Whether that share is drawn once for good, so that nothing ever leaves of the others, or anew each round
    #[arg(long, value_name = "WHEN", value_parser = pi_draw())]
    pub(crate) pi_draw: Option<DisclosureMode>,
    /// An item of which nothing leaves that has to do with you; may be given several times
    #[arg(long, value_name = "ITEM")]
    pub(crate) hide: Vec<String>,
    /// An item to hide no more
    #[arg(long, value_name = "ITEM")]
    pub(crate) unhide: Vec<String>,
    /// Take part in no round until you resume
    #[arg(long, conflicts_with = "resume")]
    pub(crate) pause: bool,
    /// Take part again
    #[arg(long)]
    pub(crate) resume: bool,
    /// Stay out of rounds with fewer devices than this
    #[arg(long, value_name = "N")]
    pub(crate) least_cohort: Option<u32>,
    /// Refuse rounds without this layer of protection, or whose layer is not so: see below
    #[arg(long, value_name = "DEMAND", value_parser = demand)]
    pub(crate) require: Vec<String>,
    /// Demand it no more
    #[arg(long, value_name = "DEMAND", value_parser = demand)]
    pub(crate) no_require: Vec<String>,
    /// Refuse rounds whose server says that it does this: keep uploads
    #[arg(long, value_name = "LAYER", value_parser = [UPLOAD_RETENTION])]
    pub(crate) refuse: Vec<String>,
    /// Put up with it again
    #[arg(long, value_name = "LAYER", value_parser = [UPLOAD_RETENTION])]
    pub(crate) no_refuse: Vec<String>,
    /// A figure that may be told when a round asks for it
    #[arg(long, value_name = "FIGURE", value_parser = FIGURES)]
    pub(crate) report: Vec<String>,
    /// A figure to tell no more
    #[arg(long, value_name = "FIGURE", value_parser = FIGURES)]
    pub(crate) no_report: Vec<String>,
    #[command(flatten)]
    pub(crate) place: Place,
}
