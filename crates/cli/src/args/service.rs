//! The command line of a federation for real: server, operators, fleet.

use super::{CleaningArgs, GraphArgs, ModelSettings, Reading, pi_draw};
use clap::{ArgAction, Args, Subcommand};
use sottovoce_data::Split;
use sottovoce_protocol::DisclosureMode;
use std::path::PathBuf;

/// `serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sottovoce serve                                        on this machine, everything in ./sottovoce-server
  sottovoce serve --listen 0.0.0.0:8470 --tls-certificate fullchain.pem --tls-key key.pem
  sottovoce serve --config /etc/sottovoce/server.toml --database postgres://sottovoce@db/sottovoce

Flags go before the environment, the environment before the file. On the first start the token of an admin is written \
into the data folder. docs/deploying.md tells the rest.")]
pub(crate) struct Serve {
    /// A configuration file in TOML
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Address and port; port 0 takes a free one [default: 127.0.0.1:8470]
    #[arg(long, value_name = "ADDRESS", env = "SOTTOVOCE_LISTEN")]
    pub(crate) listen: Option<String>,
    /// The folder for database, models and the first token [default: sottovoce-server]
    #[arg(long, value_name = "DIR", env = "SOTTOVOCE_SERVER_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// The database: a file, or postgres://USER@HOST/NAME [default: a file in the data folder]
    #[arg(long, value_name = "URL", env = "SOTTOVOCE_DATABASE")]
    pub(crate) database: Option<String>,
    /// Where versions of the shared models go: a folder, or s3://BUCKET/PREFIX [default: a folder in the data folder]
    #[arg(long, value_name = "URL", env = "SOTTOVOCE_MODELS")]
    pub(crate) models: Option<String>,
    /// The certificate and those that vouch for it, in PEM
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_TLS_CERTIFICATE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_TLS_KEY", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Make a certificate for this name or address, for development; may be given several times
    #[arg(long, value_name = "NAME", conflicts_with_all = ["tls_certificate", "tls_key"])]
    pub(crate) tls_self_signed: Vec<String>,
    /// What is logged: error, warn, info, debug, or a filter [default: info]
    #[arg(long, value_name = "FILTER", env = "SOTTOVOCE_LOG")]
    pub(crate) log: Option<String>,
    /// Log lines of JSON
    #[arg(long)]
    pub(crate) log_json: bool,
}

/// How an operator reaches a server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct Reaching {
    /// The server's address
    #[arg(long, value_name = "URL", env = "SOTTOVOCE_SERVER", default_value = "http://127.0.0.1:8470")]
    pub(crate) server: String,
    /// A file with an operator's token [default: sottovoce-server/admin.token]
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// A certificate to trust beside none of the system's, in PEM: for a server with a certificate of its own making
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_CA")]
    pub(crate) ca: Option<PathBuf>,
}

/// `federation`.
#[derive(Debug, Subcommand)]
pub(crate) enum Federation {
    /// Create a federation; it runs at once
    #[command(after_help = "Example:
  sottovoce federation create films --model fpl --catalog-of ml-100k --set triples=20 --set cohort=50 --devices 100 \\
      --rounds 500

The settings are the model's (`sottovoce models fpl`); cohort, over_selection, deadline and guard among them.")]
    Create(Box<Create>),
    /// Make a key that devices share and the server never sees, for updates that are encrypted
    #[command(after_help = "Example:
  sottovoce federation key --out films.key
  sottovoce federation create films --model fpl --set triples=20 --set seal=bfv --federation-key films.key ...
  sottovoce device enrol --federation films --federation-key films.key ...

Give the file to devices past the server. Who has it can open updates that the server holds.")]
    Key {
        /// The file to write; it must not be there yet
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// All federations
    List {
        #[command(flatten)]
        reaching: Reaching,
    },
    /// One federation: its state, its round under way
    Show {
        #[command(flatten)]
        which: Which,
    },
    /// No new round begins until `resume`
    Pause {
        #[command(flatten)]
        which: Which,
    },
    /// Rounds go on
    Resume {
        #[command(flatten)]
        which: Which,
    },
    /// End training; the model stays to be downloaded
    Finish {
        #[command(flatten)]
        which: Which,
    },
    /// Rounds that are over, the latest first
    Rounds {
        #[command(flatten)]
        which: Which,
        /// How many
        #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Make a token that lets devices in
    #[command(after_help = "Example:\n  sottovoce federation token films --uses 3 > enrol.token")]
    Token {
        #[command(flatten)]
        which: Which,
        /// How many devices it lets in [default: any number]
        #[arg(long, value_name = "N")]
        uses: Option<u64>,
        /// After how many hours it is no longer taken [default: never]
        #[arg(long, value_name = "N")]
        hours: Option<u64>,
        /// What to call it
        #[arg(long, default_value = "", value_name = "TEXT")]
        label: String,
    },
    /// Shut a device out
    Revoke {
        #[command(flatten)]
        which: Which,
        /// Its number
        #[arg(value_name = "DEVICE")]
        device: u32,
    },
    /// Make an operator's token
    Operator {
        #[command(flatten)]
        reaching: Reaching,
        /// observer (looks), operator (creates, pauses, lets in), admin (makes tokens)
        #[arg(long, value_parser = ["observer", "operator", "admin"])]
        role: String,
        /// What to call it
        #[arg(long, default_value = "", value_name = "TEXT")]
        label: String,
    },
}

/// A federation on a server.
#[derive(Clone, Debug, Args)]
pub(crate) struct Which {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) reaching: Reaching,
}

/// `federation create`.
#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    pub(crate) which: Which,
    /// The model: one that is trained in a federation; `sottovoce models` lists them
    #[arg(long, value_name = "NAME")]
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) settings: ModelSettings,
    /// The items: a file with the header `item<TAB>title<TAB>categories`, or as docs/knowledge-graphs.md has it with facts
    #[arg(long, value_name = "FILE", required_unless_present = "catalog_of", conflicts_with = "catalog_of")]
    pub(crate) catalog: Option<PathBuf>,
    /// The items: those of a data set
    #[arg(long, value_name = "DATA")]
    pub(crate) catalog_of: Option<String>,
    /// Rounds after which it is finished [default: as the model's epochs come to]
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<u64>,
    /// Devices without which no round begins
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) devices: u32,
    /// Updates without which a round is abandoned [default: half of those wanted]
    #[arg(long, value_name = "N")]
    pub(crate) minimum: Option<u32>,
    /// Ask only devices heard of within so many seconds [default: all]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) present_within: Option<u32>,
    /// Mean time between check-ins of a device that has nothing to do
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) check_in_seconds: u32,
    /// Where updates are sealed: how long a step but the first waits for devices
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) seal_step_seconds: u32,
    /// The key of `federation key` under which devices encrypt; only its digest is sent
    #[arg(long, value_name = "FILE")]
    pub(crate) federation_key: Option<PathBuf>,
    /// Let the server's noise follow from the seed, to hold a federation against the simulator; never for people's devices
    #[arg(long)]
    pub(crate) simulated_noise: bool,
    /// Keep every upload that is taken, in the server's folder, for `sottovoce audit --uploads`; devices are told
    #[arg(long)]
    pub(crate) record_uploads: bool,
    /// Refuse updates that have a row of a larger norm [default: none is refused for that]
    #[arg(long, value_name = "NORM")]
    pub(crate) row_norm: Option<f32>,
    /// Ask devices how many samples they learnt from
    #[arg(long)]
    pub(crate) samples: bool,
    /// Ask devices for a criterion, and say why: auc=\"to see whether it learns\"
    #[arg(long = "criterion", value_name = "NAME=WHY", action = ArgAction::Append)]
    pub(crate) criteria: Vec<String>,
    /// What becomes of what was learnt from somebody who withdraws: it stays, or training goes back to before they enrolled
    #[arg(long, value_name = "HOW", default_value = "none", value_parser = ["none", "retrain"])]
    pub(crate) unlearn: String,
    /// Versions of the shared model that are kept [default: 8]
    #[arg(long, value_name = "N")]
    pub(crate) keep_versions: Option<u32>,
    /// Give the shared model to enrolled devices only
    #[arg(long)]
    pub(crate) private_models: bool,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) graph: GraphArgs,
    #[command(flatten)]
    pub(crate) cleaning: CleaningArgs,
}

/// `fleet`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sottovoce fleet --devices 200 --server http://127.0.0.1:8470 --federation films --token-file enrol.token --data ml-100k
  sottovoce fleet --devices 10000 --federation films --token-file enrol.token --data synth:town:users=10000 --until-finished")]
pub(crate) struct Fleet {
    /// How many devices: the first people of the data who have something to learn from [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) devices: Option<u32>,
    /// The server's address
    #[arg(long, value_name = "URL", env = "SOTTOVOCE_SERVER", default_value = "http://127.0.0.1:8470")]
    pub(crate) server: String,
    /// The federation
    #[arg(long, value_name = "NAME")]
    pub(crate) federation: String,
    /// A file with a token that lets devices in
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: PathBuf,
    /// A certificate to trust, in PEM
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_CA")]
    pub(crate) ca: Option<PathBuf>,
    /// The key of `federation key` under which devices encrypt
    #[arg(long, value_name = "FILE")]
    pub(crate) federation_key: Option<PathBuf>,
    /// Whose histories the devices have: a file, a folder, a bare name, or synth:town[:users=N]
    #[arg(long, value_name = "DATA")]
    pub(crate) data: String,
    /// Share of what people have from which is learnt what leaves their devices
    #[arg(long, value_name = "PI", default_value_t = 1.0)]
    pub(crate) pi: f64,
    /// Whether that share is drawn once for good, or anew each round
    #[arg(long, value_name = "WHEN", default_value = DisclosureMode::default().name(), value_parser = pi_draw())]
    pub(crate) pi_draw: DisclosureMode,
    /// A figure that the devices report when a round asks for it, or `all`; may be given several times
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    pub(crate) report: Vec<String>,
    /// Connections at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) connections: u16,
    /// Stop after so many seconds [default: when the federation is finished]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<f64>,
    /// How histories are divided: devices have the part that `train` learns from
    #[arg(long, value_name = "HOW")]
    pub(crate) split: Option<Split>,
    /// Keep devices in this folder, so that a fleet that was stopped goes on [default: in memory]
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// Write which device is whose here, one line `DEVICE<TAB>USER` each, for `sottovoce audit --devices`
    #[arg(long, value_name = "FILE")]
    pub(crate) devices_out: Option<PathBuf>,
    /// Write the final shared model here, as safetensors
    #[arg(long, value_name = "FILE")]
    pub(crate) model_out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) cleaning: CleaningArgs,
}
