//! Rounds: distribute, train, disclose, aggregate.
//!
//! A [`Coordinator`] is the server's half: a shared model, the rules by which cohorts are drawn, and a [`Strategy`] that turns
//! updates into the next shared model. The deployed server and the simulator both use it. A [`Federation`] is the simulator's
//! loop: a coordinator, a [`Schedule`] (how large cohorts are, and how many rounds an epoch has) and [`SimulatedDevices`],
//! which hold the private models of many devices in one slab and train them on all cores. The client's half of a round is that of
//! `sottovoce-client`, as on a deployed device. [`Downloads`] configures how the shared model is distributed. Every update
//! passes the user's disclosure policy ([`Disclosure`]).
//!
//! The same seed gives the same bytes on any number of threads: each device and round draws from its own random stream,
//! and a cohort is divided into parts that depend on its size only, whose sums are merged in order.
//!
//! The server's rules, [`CohortSelector`] (which devices to ask) and [`Closing`] (when a round is over), do not know whether
//! devices are simulated. Simulated devices have a [`DeviceProfile`]: they may be unavailable, slow or lost, on a virtual
//! clock. A federation's state can be saved after any round and restored to the same bytes ([`Federation::save`]). A
//! [`Recorder`] sees what the server sees, for the audit.
//!
//! Histories may stay in a file ([`HistoryFile`]), of which each worker holds a block of users at a time, so that memory does
//! not bound the population.
//!
//! [`registry`] lists all models, centralised and federated. To train one in the simulator:
//!
//! ```
//! use sottovoce_core::Histories;
//! use sottovoce_federation::registry;
//! use sottovoce_models::settings::Value;
//! use sottovoce_models::{Fit, Quiet};
//!
//! let fpl = registry::find("fpl")?;
//! let settings = fpl.settings([("factors", Value::Integer(2)), ("epochs", Value::Integer(3))])?;
//! let mut model = fpl.build(&settings);
//! let histories = Histories::from_lists(&[vec![0, 1], vec![1, 2], vec![0, 3]], 5).unwrap();
//! let summary = model.fit(&histories, &mut Fit::new(1, &mut Quiet))?;
//! assert_eq!(summary.epochs, 3);
//! # Ok::<(), sottovoce_models::ModelError>(())
//! ```

mod aggregate;
mod aggregation;
mod announcement;
mod availability;
mod builder;
mod checkpoint;
mod closing;
mod cohort;
mod config;
mod coordinator;
mod device_versions;
mod devices;
mod disclosure;
mod downloads;
mod error;
mod federation;
mod figures;
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
pub use aggregation::{
    Aggregation, AggregationError, CriteriaScore, ProtectedAggregationError, RobustAggregator, Weighting,
};
pub use availability::{Availability, DeviceProfile, Diurnal, Trace, TraceError};
pub use builder::{BuildError, FederationBuilder, HostedFederation};
pub use closing::{Closing, RoundRules};
pub use cohort::{CohortSelector, SelectedCohort, WeightsError};
pub use config::PiSpread;
pub use coordinator::Coordinator;
pub use devices::{Delivery, ParticipationStats, SimulatedDevices};
pub use disclosure::Disclosure;
pub use downloads::{DownloadMessage, Downloads, Offer};
pub use error::{FederationError, Stage};
pub use federation::{EpochReport, Federation, Setup};
pub use figures::SimulatedFigures;
pub use histories::{HistoryFile, HistoryFileError, HistorySource, HistoryWriter, Page};
pub use ordered_aggregator::{OrderedAggregator, OrderedAggregatorError};
pub use privacy::{PrivacyEngine, PrivacySpent, Sampling};
pub use recorder::Recorder;
pub use row_updates::RowUpdates;
pub use simulation::Simulation;
pub use sottovoce_models::federated::{Cohort, Configuration, Population, Schedule};
pub use strategy::Strategy;
pub use uploads::{RoundWriter, StoredUploads, UploadWriter, UploadsError};
