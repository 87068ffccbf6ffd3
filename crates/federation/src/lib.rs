//! Rounds: distribute, train, disclose, aggregate.
//!
//! A [`Coordinator`] is the server's half: a shared model, the rules by which devices are asked, and a [`Strategy`] that turns
//! updates into the next shared model. It serves the real server and the simulator alike. A [`Federation`] is the simulator's
//! loop: a coordinator, a [`Schedule`] (who is asked into a round, and how many rounds an epoch has), and a [`Fleet`] that carries
//! a round to the devices and back. [`InProcess`] is the fleet of the simulator: it keeps many devices' private models in one slab and trains them
//! on all cores. [`Downloads`] says how the shared model gets to devices, which train on what they then hold. Everything a
//! device proposes passes its owner's disclosure policy ([`Disclosure`]), here as on a phone.
//!
//! The same seed gives the same bytes on any number of threads: each device and round draws from its own random stream,
//! and a cohort is partition into parts that depend on its size only, whose sums are merged in order.
//!
//! The server's rules, [`CohortSelector`] (whom to ask) and [`Closing`] (when a round is over), do not know whether devices are
//! simulated. Simulated ones have [`DeviceProfile`]: they may be away, slow or lost, on a virtual clock. A federation's state can
//! be saved after any round and taken up again with the same bytes ([`Federation::save`]); an [`Observer`] is told of each
//! round and epoch.
//!
//! Histories may stay in a file ([`HistoryFile`]), of which each worker holds a block of people at a time, so that memory does
//! not bound the population.
//!
//! [`registry`] lists all models: those trained in one place and those trained in a federation.

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
