//! The server's half of a round, and the simulator.
//!
//! A [`Coordinator`] is the server's half: it holds the shared model, draws cohorts, announces round terms, aggregates
//! updates and applies a [`Strategy`]. The coordinator service and the simulator use the same one. A [`Federation`] is
//! the simulator: a coordinator and [`SimulatedDevices`], which run the client's half of a round (`sottovoce-client`)
//! for many devices on all cores. A [`Simulation`] makes a recommender of any federated model, and [`registry`] lists
//! all models by name.
//!
//! The same seed gives the same bytes on any number of threads: each device and round draws from its own random stream,
//! and a cohort is partitioned by its size alone, with partial sums merged in order. Simulated equals deployed: both
//! draw the same numbers by the names in `sottovoce_client::streams`.
//!
//! Simulated devices have a [`DeviceProfile`]: they may be unavailable, slow or lost, on a virtual clock. A federation
//! can be saved after any round and resumed with the same bytes ([`Federation::save`]). Histories may stay in a file
//! ([`HistoryFile`]), so that memory does not bound the population. A [`Recorder`] is shown what the server sees.
//!
//! ```
//! use sottovoce_core::Histories;
//! use sottovoce_federation::registry;
//! use sottovoce_models::settings::Value;
//! use sottovoce_models::{Fit, Quiet};
//!
//! let lists: Vec<Vec<u32>> = (0..20).map(|user| vec![user % 3, 3 + user % 2]).collect();
//! let histories = Histories::from_lists(&lists, 6)?;
//! let fpl = registry::find("fpl")?;
//! let settings = fpl.settings([("epochs", Value::Integer(3)), ("pi", Value::Real(0.5))])?;
//! let mut recommender = fpl.build(&settings);
//! let summary = recommender.fit(&histories, &mut Fit::new(1, &mut Quiet))?;
//! assert_eq!(summary.turnout.rounds, 3);
//! assert!(summary.traffic.up > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod aggregate;
mod aggregation;
mod announcement;
mod availability;
mod builder;
mod checkpoint;
mod choice;
mod closing;
mod cohort;
mod config;
mod coordinator;
mod device_versions;
mod devices;
mod disclosure;
mod divergence;
mod downloads;
mod error;
mod federation;
mod figures;
mod footprint;
mod histories;
mod ordered_aggregator;
mod ordered_reduce;
mod participation;
mod partition;
mod privacy;
mod recorder;
pub mod registry;
mod row_updates;
mod selection;
mod simulation;
mod state;
pub mod strategy;
mod summaries;
mod uploads;
mod worker;

pub use aggregate::{Aggregate, RowSums};
pub use aggregation::{Aggregation, AggregationError, CriteriaScore, RobustAggregator, Weighting};
pub use availability::{Availability, DeviceProfile, Diurnal, Trace, TraceError};
pub use builder::{BuildError, FederationBuilder, HostedFederation};
pub use choice::{Changes, Choice, choose};
pub use closing::{Closing, RoundRules};
pub use cohort::{CohortSelector, SelectedCohort, WeightsError};
pub use config::PiSpread;
pub use coordinator::Coordinator;
pub use devices::{Delivery, ParticipationStats, SimulatedDevices};
pub use disclosure::Disclosure;
pub use downloads::{DownloadMessage, Downloads, Offer};
pub use error::FederationError;
pub use federation::{EpochReport, Federation};
pub use figures::SimulatedFigures;
pub use histories::{HistoryFile, HistoryFileError, HistorySource, HistoryWriter, Page};
pub use ordered_aggregator::{OrderedAggregator, OrderedAggregatorError};
pub use privacy::{KeeperKeys, PrivacyEngine, SEALED_FROM, Sampling};
pub use recorder::Recorder;
pub use row_updates::RowUpdates;
pub use simulation::Simulation;
pub use sottovoce_models::federated::{Cohort, Configuration, Population, Schedule};
pub use strategy::{Clustered, Clusterer, Strategy};
pub use uploads::{RoundWriter, StoredUploads, UploadWriter, UploadsError};
