//! Arguments of `audience`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `audience`.
#[derive(Debug, Subcommand)]
pub(crate) enum Audience {
    /// Describe an audience; it is measured, and served once at least k people are in it
    #[command(after_help = "Example:
  sottovoce audience create 'ski fans' --category skiing --category hiking --days 14 \\
      --server https://news.example --federation news --token-file advertiser.token")]
    Create {
        /// Name, which owners of devices read
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        categories: Categories,
        /// Score, after calibration, from which on a device is in it
        #[arg(long, value_name = "X", default_value_t = 0.6)]
        threshold: f64,
        /// Days after which it ends
        #[arg(long, value_name = "N", default_value_t = 30)]
        days: u32,
        #[command(flatten)]
        waiting: Waiting,
        #[command(flatten)]
        of: AdvertiserArgs,
    },
    /// List your audiences, and what is left of your privacy budget
    #[command(after_help = "Example:\n  sottovoce audience list --federation news --token-file advertiser.token")]
    List(AdvertiserArgs),
    /// Show the size of an audience: a noisy count, or that it is below k
    #[command(after_help = "Examples:
  sottovoce audience size 'ski fans' --federation news --token-file advertiser.token
  sottovoce audience size 'ski fans' --again --wait 600 \\
      --federation news --token-file advertiser.token")]
    Size {
        /// Name or number of the audience
        #[arg(value_name = "AUDIENCE")]
        audience: String,
        /// Measure it again, which spends privacy budget
        #[arg(long)]
        again: bool,
        #[command(flatten)]
        waiting: Waiting,
        #[command(flatten)]
        of: AdvertiserArgs,
    },
    /// Measure sizes at several thresholds before you create an audience; spends privacy budget once
    #[command(after_help = "Example:
  sottovoce audience thresholds --category skiing --wait 600 \\
      --federation news --token-file advertiser.token")]
    Thresholds {
        #[command(flatten)]
        categories: Categories,
        #[command(flatten)]
        waiting: Waiting,
        #[command(flatten)]
        of: AdvertiserArgs,
    },
    /// Close an audience; what was spent on it stays spent
    #[command(
        after_help = "Example:\n  sottovoce audience close 'ski fans' --federation news --token-file advertiser.token"
    )]
    Close {
        /// Name or number of the audience
        #[arg(value_name = "AUDIENCE")]
        audience: String,
        #[command(flatten)]
        of: AdvertiserArgs,
    },
    /// List the segment ids that devices reported in a rotation that is over
    #[command(after_help = "Example:
  sottovoce audience segments 'ski fans' \\
      --federation news --token-file advertiser.token > segments")]
    Segments {
        /// Name or number of the audience
        #[arg(value_name = "AUDIENCE")]
        audience: String,
        /// The rotation [default: the last one]
        #[arg(long, value_name = "N")]
        rotation: Option<u64>,
        #[command(flatten)]
        of: AdvertiserArgs,
    },
}

/// What an audience is about.
#[derive(Clone, Debug, Args)]
pub(crate) struct Categories {
    /// Id of a category in the federation's catalog; repeatable
    #[arg(long = "category", value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Whether any of the categories is enough, or all are needed
    #[arg(long = "match", value_name = "HOW", default_value = "any", value_parser = ["any", "all"])]
    pub(crate) matching: String,
}

/// How long to wait for a measurement.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Waiting {
    /// Wait up to this long for the measurement [default: do not wait]
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true)]
    pub(crate) wait: u64,
}

/// A federation on a server, and an advertiser's token.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct AdvertiserArgs {
    /// Address of the server
    #[arg(long, value_name = "URL", env = "SOTTOVOCE_SERVER", default_value = "http://127.0.0.1:8470")]
    pub(crate) server: String,
    /// Name of the federation
    #[arg(long, value_name = "NAME")]
    pub(crate) federation: String,
    /// Advertiser's token from the operator
    #[arg(long, value_name = "TOKEN", required_unless_present = "token_file")]
    pub(crate) token: Option<String>,
    /// File with the token, which keeps it out of the process list
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificate to trust instead of the system's, in PEM, for a self-signed server
    #[arg(long, value_name = "FILE", env = "SOTTOVOCE_CA")]
    pub(crate) ca: Option<PathBuf>,
    /// Send the token to another machine by plain http, where whoever listens can read it
    #[arg(long)]
    pub(crate) plain_http: bool,
}
