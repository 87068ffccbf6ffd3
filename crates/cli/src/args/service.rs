//! Arguments of `serve`, `federation` and `fleet`.

use super::{CleaningArgs, Loading, ModelSettings, Reading, disclosure_mode};
use clap::{ArgAction, Args, Subcommand};
use sottovoce_data::Split;
use sottovoce_privacy::ACCEPTABLE;
use sottovoce_protocol::{DisclosureMode, Policy};
use std::path::PathBuf;

/// `serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sottovoce serve                                        on this machine, in ./sottovoce-server
  sottovoce serve --listen 0.0.0.0:8470 --tls-certificate fullchain.pem --tls-key key.pem
  sottovoce serve --config /etc/sottovoce/server.toml --database postgres://sottovoce@db/sottovoce

Flags override environment variables, which override the file. The first start writes an admin's token into the data \
folder. See docs/deploying.md.")]
pub(crate) struct Serve {
    /// Configuration file in TOML
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Address and port; port 0 selects a free one [default: 127.0.0.1:8470]
    #[arg(long, value_name = "ADDRESS", env = "SOTTOVOCE_LISTEN")]
    pub(crate) listen: Option<String>,
    /// Address and port for operators alone, whom devices then cannot keep out [default: they share --listen]
    #[arg(long, value_name = "ADDRESS", env = "SOTTOVOCE_OPERATOR_LISTEN")]
    pub(crate) operator_listen: Option<String>,
    /// Folder for the database, models and the first token [default: sottovoce-server]
    #[arg(long, value_name = "DIR", env = "SOTTOVOCE_SERVER_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Database: a file, or postgres://USER@HOST/NAME [default: a file in the data folder]
    #[arg(long, value_name = "URL", env = "SOTTOVOCE_DATABASE")]
    pub(crate) database: Option<String>,
    /// Store of model versions: a folder, or s3://BUCKET/PREFIX [default: a folder in the data folder]
    #[arg(long, value_name = "URL", env = "SOTTOVOCE_MODELS")]
    pub(crate) models: Option<String>,
    /// Certificate chain, in PEM
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_TLS_CERTIFICATE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_TLS_KEY", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Create a self-signed certificate for this name or address, for development; repeatable
    #[arg(long, value_name = "NAME", conflicts_with_all = ["tls_certificate", "tls_key"])]
    pub(crate) tls_self_signed: Vec<String>,
    /// Log level (error, warn, info, debug) or filter [default: info]
    #[arg(long, value_name = "FILTER", env = "SOTTOVOCE_LOG")]
    pub(crate) log: Option<String>,
    /// Log in JSON, one object per line
    #[arg(long)]
    pub(crate) log_json: bool,
    /// Write a new admin's token into the data folder, if the others are lost; it is recorded as an act
    #[arg(long)]
    pub(crate) new_admin_token: bool,
}

/// `keep`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sottovoce keep                                         on this machine, in ./sottovoce-keeper
  sottovoce keep --listen 0.0.0.0:8471 --tls-certificate fullchain.pem --tls-key key.pem --least 50
  sottovoce keep --roster members.keys                   for devices whose identities you know

Run it with somebody other than the server's operator: both together could open single updates. The folder holds its key and the journal of the rounds that it has opened; never put back an older copy of it. See docs/deploying.md.")]
pub(crate) struct Keep {
    /// Address and port; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS", env = "SOTTOVOCE_KEEPER_LISTEN", default_value = "127.0.0.1:8471")]
    pub(crate) listen: String,
    /// Folder of the key and the journal
    #[arg(long, value_name = "DIR", env = "SOTTOVOCE_KEEPER_DATA", default_value = "sottovoce-keeper")]
    pub(crate) data: PathBuf,
    /// Open no sums of fewer updates than this, whatever the terms of a round say
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..))]
    pub(crate) least: u32,
    /// Open rounds only for devices with an identity in this file, one public key a line (`sottovoce device identity`)
    #[arg(long, value_name = "FILE")]
    pub(crate) roster: Option<PathBuf>,
    /// Serve only the federation with this opener, which `sottovoce federation show` prints; repeatable [default: all]
    #[arg(long, value_name = "DIGEST", action = ArgAction::Append, value_parser = super::digest)]
    pub(crate) opener: Vec<[u8; 32]>,
    /// Certificate chain, in PEM
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_KEEPER_TLS_CERTIFICATE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_KEEPER_TLS_KEY", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Log level (error, warn, info, debug) or filter
    #[arg(long, value_name = "FILTER", env = "SOTTOVOCE_LOG", default_value = "info")]
    pub(crate) log: String,
}

/// The server, and an operator's token.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Address of the server
    #[arg(long, value_name = "URL", env = "SOTTOVOCE_SERVER", default_value = "http://127.0.0.1:8470")]
    pub(crate) server: String,
    /// File with an operator's token [default: sottovoce-server/admin.token]
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificate to trust instead of the system's, in PEM, for a self-signed server
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_CA")]
    pub(crate) ca: Option<PathBuf>,
    /// Send the token to another machine by plain http, where whoever listens can read it
    #[arg(long)]
    pub(crate) plain_http: bool,
}

/// `federation`.
#[derive(Debug, Subcommand)]
pub(crate) enum Federation {
    /// Create a federation; it starts at once
    #[command(after_help = "Example:
  sottovoce federation create films --model fpl --catalog-of ml-100k \\
      --set triples=20 --set cohort=50 --devices 100 --rounds 500
  sottovoce federation create sealed --model fpl --catalog-of ml-100k \\
      --set triples=20 --set cohort=50 --set seal=keeper --devices 100 \\
      --keeper https://keeper.example:8471 \\
      --keeper-key 5866666666666666666666666666666666666666666666666666666666666666

The settings are the model's (`sottovoce models fpl`), among them cohort, over_selection, deadline and robust_aggregation.")]
    Create(Box<Create>),
    /// Create the key that devices share for encrypted updates, and that the server never sees
    #[command(after_help = "Example:
  sottovoce federation key --out films.key
  sottovoce federation create films --model fpl --catalog-of ml-100k \\
      --set triples=20 --set seal=bfv --devices 100 --federation-key films.key
  sottovoce device enrol --server https://films.example:8443 --federation films \\
      --token-file token --history my-films.tsv --federation-key films.key --accept encryption

Give the file to devices, not to the server. Whoever has it can decrypt the updates. Encryption
needs a build with the cargo feature `he`. It protects a database that is stolen from the server,
not devices from a server that lies.")]
    Key {
        /// File to write; it must not exist yet
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// List all federations
    #[command(after_help = "Example:\n  sottovoce federation list --server http://127.0.0.1:8470")]
    List(ServerArgs),
    /// Show a federation and its open round
    #[command(after_help = "Example:\n  sottovoce federation show films --json")]
    Show(FederationArgs),
    /// Open no new rounds until `resume`
    #[command(after_help = "Example:\n  sottovoce federation pause films")]
    Pause(FederationArgs),
    /// Open rounds again
    #[command(after_help = "Example:\n  sottovoce federation resume films")]
    Resume(FederationArgs),
    /// End training; the model can still be downloaded
    #[command(after_help = "Example:\n  sottovoce federation finish films")]
    Finish(FederationArgs),
    /// Add rounds; a federation that has finished trains again
    #[command(after_help = "Example:\n  sottovoce federation extend films --rounds 50")]
    Extend {
        #[command(flatten)]
        of: FederationArgs,
        /// Number of rounds to add
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
        rounds: u64,
    },
    /// Set when rounds are held, and whether there is an end to them
    #[command(after_help = "Examples:
  sottovoce federation schedule films --at 02:30 --endless
  sottovoce federation schedule films --every-hours 6 --rounds 3
  sottovoce federation schedule films --new-people 20 --endless
  sottovoce federation schedule films --off

Each replaces the schedule from before. Rounds that were missed while the server was off are held once, late. A
federation without end stops when its privacy budget is spent, if it has one.")]
    Schedule(Schedule),
    /// List closed rounds, the latest first
    #[command(after_help = "Example:\n  sottovoce federation rounds films --limit 5")]
    Rounds {
        #[command(flatten)]
        of: FederationArgs,
        /// Number of rounds
        #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Go back to an earlier version of the shared model
    #[command(after_help = "Example:\n  sottovoce federation rollback films 41

The version becomes current under a new number, and the rounds since are held again. A federation that has failed \
resumes. `federation show` lists the versions that are stored (--keep-versions of `federation create`).")]
    Rollback {
        #[command(flatten)]
        of: FederationArgs,
        /// Number of the version
        #[arg(value_name = "VERSION")]
        to: u64,
    },
    /// Lift the quarantine of a device
    #[command(after_help = "Example:\n  sottovoce federation release films 17

`federation show` lists the devices in quarantine, and why.")]
    Release {
        #[command(flatten)]
        of: FederationArgs,
        /// Number of the device
        #[arg(value_name = "DEVICE")]
        device: u32,
    },
    /// Create an enrolment token
    #[command(after_help = "Example:\n  sottovoce federation token films --uses 3 > enrol.token")]
    Token {
        #[command(flatten)]
        of: FederationArgs,
        /// Number of devices it admits [default: any]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        uses: Option<u64>,
        /// Hours after which it expires [default: never]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        hours: Option<u64>,
        /// Name of the token
        #[arg(long, default_value = "", value_name = "TEXT")]
        label: String,
    },
    /// List the tokens for enrolment and advertisers, with their uses left and when they expire
    #[command(after_help = "Example:\n  sottovoce federation tokens films")]
    Tokens(FederationArgs),
    /// Revoke a token for enrolment or of an advertiser
    #[command(after_help = "Example:\n  sottovoce federation revoke-token films 3

`federation tokens` lists their numbers. Devices that enrolled with it stay; `federation revoke` revokes a device.")]
    RevokeToken {
        #[command(flatten)]
        of: FederationArgs,
        /// Number of the token
        #[arg(value_name = "TOKEN")]
        token: u64,
    },
    /// Create an advertiser's token
    #[command(after_help = "Example:\n  sottovoce federation advertiser news --label 'ski shop' > advertiser.token")]
    Advertiser {
        #[command(flatten)]
        of: FederationArgs,
        /// New audiences and questions about thresholds a day; 0: no limit
        #[arg(long, value_name = "N", default_value_t = 10)]
        per_day: u64,
        /// Hours after which it expires [default: never]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        hours: Option<u64>,
        /// Name of the token
        #[arg(long, default_value = "", value_name = "TEXT")]
        label: String,
    },
    /// List all audiences, their noisy sizes and the privacy budget spent
    #[command(after_help = "Example:\n  sottovoce federation audiences news")]
    Audiences(FederationArgs),
    /// Revoke a device's access
    #[command(after_help = "Example:\n  sottovoce federation revoke films 17 --close-tokens")]
    Revoke {
        #[command(flatten)]
        of: FederationArgs,
        /// Number of the device
        #[arg(value_name = "DEVICE")]
        device: u32,
        /// Close the enrolment tokens without a limit of uses, by one of which it could come back
        #[arg(long)]
        close_tokens: bool,
    },
    /// Create an operator's token
    #[command(after_help = "Example:\n  sottovoce federation operator --role observer --label dashboard")]
    Operator {
        #[command(flatten)]
        server: ServerArgs,
        /// observer (reads), operator (creates, pauses, admits devices), admin (creates tokens, deletes)
        #[arg(long, value_parser = ["observer", "operator", "admin"])]
        role: String,
        /// Hours after which it expires [default: never]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        hours: Option<u64>,
        /// Name of the token
        #[arg(long, default_value = "", value_name = "TEXT")]
        label: String,
    },
    /// List operators' tokens
    #[command(after_help = "Example:\n  sottovoce federation operators")]
    Operators(ServerArgs),
    /// Revoke an operator's token
    #[command(after_help = "Example:\n  sottovoce federation revoke-operator 2

`federation operators` lists their numbers. If the last admin's token is lost, `sottovoce serve --new-admin-token`
writes another one on the server's own machine.")]
    RevokeOperator {
        #[command(flatten)]
        server: ServerArgs,
        /// Number of the token
        #[arg(value_name = "TOKEN")]
        token: u64,
    },
    /// List what operators did, the latest first
    #[command(after_help = "Example:\n  sottovoce federation acts --limit 5 --json")]
    Acts {
        #[command(flatten)]
        server: ServerArgs,
        /// Number of acts
        #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Close a federation for good: its model stays, nothing of its devices does
    #[command(after_help = "Examples:\n  sottovoce federation archive films          says what would be deleted
  sottovoce federation archive films --yes    does it")]
    Archive(End),
    /// Delete a federation with its model
    #[command(after_help = "Examples:\n  sottovoce federation delete films          says what would be deleted
  sottovoce federation delete films --yes    does it")]
    Delete(End),
}

/// `federation schedule`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("when").required(true).args(["every_hours", "at", "new_people", "off"]))]
pub(crate) struct Schedule {
    #[command(flatten)]
    pub(crate) of: FederationArgs,
    /// So many hours after the last rounds began
    #[arg(long, value_name = "HOURS")]
    pub(crate) every_hours: Option<f64>,
    /// At this time of the day, in UTC
    #[arg(long, value_name = "HH:MM")]
    pub(crate) at: Option<String>,
    /// When so many devices have enrolled since the last rounds began
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) new_people: Option<u32>,
    /// No schedule: one round after the other
    #[arg(long)]
    pub(crate) off: bool,
    /// Rounds each time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Without an end; otherwise training ends with its number of rounds
    #[arg(long)]
    pub(crate) endless: bool,
}

/// `federation archive` and `federation delete`.
#[derive(Debug, Args)]
pub(crate) struct End {
    #[command(flatten)]
    pub(crate) of: FederationArgs,
    /// Do it; otherwise this only says what would be deleted
    #[arg(long)]
    pub(crate) yes: bool,
}

/// A federation on a server.
#[derive(Clone, Debug, Args)]
pub(crate) struct FederationArgs {
    /// Name of the federation
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `federation create`.
#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    pub(crate) of: FederationArgs,
    /// Federated model; `sottovoce models` lists them
    #[arg(long, value_name = "NAME")]
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) settings: ModelSettings,
    /// Catalog: a file with the header `item<TAB>title<TAB>categories`, or with facts (docs/knowledge-graphs.md)
    #[arg(long, value_name = "FILE", required_unless_present = "catalog_of", conflicts_with = "catalog_of")]
    pub(crate) catalog: Option<PathBuf>,
    /// Catalog of a data set; of a click log its categories, with the encoder of its titles
    #[arg(long, value_name = "DATA")]
    pub(crate) catalog_of: Option<String>,
    /// The data set is a click log, with categories of this taxonomy (`own`: its own)
    #[arg(long, value_name = "FILE", requires = "catalog_of")]
    pub(crate) taxonomy: Option<String>,
    /// Titles of your pages, one a line: fits the encoder by which devices read titles [default: all words weigh alike]
    #[arg(long, value_name = "FILE", conflicts_with = "catalog_of")]
    pub(crate) titles: Option<PathBuf>,
    /// Number of rounds [default: as many as the model's epochs take]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: Option<u64>,
    /// Devices that must enrol before the first round
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) devices: u32,
    /// With fewer updates a round is abandoned [default: half of those wanted]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) minimum: Option<u32>,
    /// Select only devices that checked in within this time [default: all]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) present_within: Option<u32>,
    /// Mean time between check-ins of an idle device
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) check_in_seconds: u32,
    /// Timeout of each step of a sealed round but the first
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) seal_step_seconds: u32,
    /// Key of `federation key` for encrypted updates; only its digest is sent
    #[arg(long, value_name = "FILE")]
    pub(crate) federation_key: Option<PathBuf>,
    /// With seal=keeper: address of the keeper
    #[arg(long, value_name = "URL", requires = "keeper_key")]
    pub(crate) keeper: Option<String>,
    /// With seal=keeper: the keeper's public key, as `sottovoce keep` prints it
    #[arg(long, value_name = "KEY", requires = "keeper", value_parser = super::digest)]
    pub(crate) keeper_key: Option<[u8; 32]>,
    /// Certificate of the keeper to trust instead of the system's, in PEM
    #[arg(long, value_name = "FILE", requires = "keeper")]
    pub(crate) keeper_ca: Option<PathBuf>,
    /// Let the server ask a keeper on another machine by plain http, where whoever listens can do so too
    #[arg(long, requires = "keeper")]
    pub(crate) keeper_plain_http: bool,
    /// Derive the server's noise and cohorts from the seed, to compare with the simulator; never for real devices
    #[arg(long)]
    pub(crate) simulated_noise: bool,
    /// Retain every accepted upload for `sottovoce audit --uploads`; devices are told
    #[arg(long)]
    pub(crate) record_uploads: bool,
    /// Reject updates with a row of a larger norm [default: no bound]
    #[arg(long, value_name = "NORM")]
    pub(crate) row_norm: Option<f32>,
    /// Clip rows of open updates that are longer than this many times the median of the round's devices; 0: any
    #[arg(long, value_name = "TIMES", default_value_t = 200.0)]
    pub(crate) norm_bound: f32,
    /// Ask devices for the number of samples they trained on
    #[arg(long)]
    pub(crate) samples: bool,
    /// Ask devices for a criterion, with the reason: auc=\"to see whether it learns\"
    #[arg(long = "criterion", value_name = "NAME=WHY", action = ArgAction::Append)]
    pub(crate) criteria: Vec<String>,
    /// When a device withdraws: keep the model, or roll training back to before the device enrolled
    #[arg(long, value_name = "HOW", default_value = "none", value_parser = ["none", "retrain"])]
    pub(crate) unlearn: String,
    /// Serve audiences to advertisers, with the default rules (docs/audiences.md); for the model lookalike
    #[arg(long)]
    pub(crate) audiences: bool,
    /// Rule for audiences: k, epsilon, budget, advertiser_budget, rotation_seconds, ...; repeatable
    #[arg(long = "audience-set", value_name = "KEY=VALUE", value_parser = super::key_value, action = ArgAction::Append)]
    pub(crate) audience_rules: Vec<(String, sottovoce_models::settings::Value)>,
    /// Versions of the shared model to keep [default: 8]
    #[arg(long, value_name = "N")]
    pub(crate) keep_versions: Option<u32>,
    /// Only enrolled devices can download the shared model
    #[arg(long)]
    pub(crate) private_models: bool,
    #[command(flatten)]
    pub(crate) loading: Loading,
}

/// `fleet`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sottovoce fleet --devices 200 --server http://127.0.0.1:8470 --federation films \\
      --token-file enrol.token --data ml-100k
  sottovoce fleet --devices 10000 --federation town --token-file enrol.token \\
      --data synth:town:users=10000")]
pub(crate) struct Fleet {
    /// Number of devices: the first users of the data with training interactions [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) devices: Option<u32>,
    /// Address of the server
    #[arg(long, value_name = "URL", env = "SOTTOVOCE_SERVER", default_value = "http://127.0.0.1:8470")]
    pub(crate) server: String,
    /// Name of the federation
    #[arg(long, value_name = "NAME")]
    pub(crate) federation: String,
    /// File with an enrolment token
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: PathBuf,
    /// Certificate to trust, in PEM
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_CA")]
    pub(crate) ca: Option<PathBuf>,
    /// Key of `federation key` for encrypted updates
    #[arg(long, value_name = "FILE")]
    pub(crate) federation_key: Option<PathBuf>,
    /// Histories of the devices: a file, a folder, a bare name, synth:town[:users=N], or clicks such as
    /// synth:clicks[:users=N]
    #[arg(long, value_name = "DATA")]
    pub(crate) data: String,
    /// DATA is a click log, with categories of this taxonomy (`own`: its own)
    #[arg(long, value_name = "FILE")]
    pub(crate) taxonomy: Option<String>,
    /// What the devices agree to, as in `device enrol`: synthetic people have nothing to hide
    #[arg(long, value_name = "WHAT", value_parser = ACCEPTABLE, default_values = ACCEPTABLE)]
    pub(crate) accept: Vec<String>,
    /// Fraction of a user's items used to compute uploads
    #[arg(long, value_name = "PI", default_value_t = Policy::DEFAULT_PI)]
    pub(crate) pi: f64,
    /// The same in sealed rounds of at least 20 devices [default: as --pi]
    #[arg(long, value_name = "PI")]
    pub(crate) sealed_pi: Option<f64>,
    /// Whether these items are drawn once, or in each round
    #[arg(long, alias = "pi-draw", value_name = "WHEN", default_value = DisclosureMode::default().name(), value_parser = disclosure_mode())]
    pub(crate) disclosure: DisclosureMode,
    /// Take part in audiences, whatever the server's rules; for synthetic people only
    #[arg(long)]
    pub(crate) audiences: bool,
    /// Criterion that the devices report when asked, or `all`; repeatable
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    pub(crate) report: Vec<String>,
    /// Number of simultaneous connections
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) connections: u16,
    /// Stop after this time [default: when the federation is finished]
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    pub(crate) seconds: Option<f64>,
    /// Split of the histories: devices get the training part
    #[arg(long, value_name = "HOW")]
    pub(crate) split: Option<Split>,
    /// Folder for the devices' state, so that a stopped fleet can resume [default: in memory]
    #[arg(long, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// Write the user of each device to this file, one line `DEVICE<TAB>USER` each, for `sottovoce audit --devices`
    #[arg(long, value_name = "FILE")]
    pub(crate) devices_out: Option<PathBuf>,
    /// Write the final shared model to this file, as safetensors
    #[arg(long, value_name = "FILE")]
    pub(crate) model_out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) cleaning: CleaningArgs,
}
