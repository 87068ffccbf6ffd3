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

mod announcement;
mod reduce;
mod attending;
mod fed_vae;
mod behaviour;
mod checkpoint;
mod closing;
mod cohort;
mod aggregate;
mod coordinator;
mod counting;
mod partition;
mod disclosure;
mod distribution;
mod download;
mod error;
mod fcf;
mod fleet;
mod fpl;
mod gathering;
mod fed_gmf;
mod histories;
mod hosting;
mod kgflex;
mod worker;
mod observer;
mod schedule;
mod profile;
mod with_privacy;
mod recording;
pub mod registry;
mod rounds;
mod settings;
mod simulated;
mod state;
mod strategy;
mod summaries;
mod tally;
mod tensors;
mod uploads;

pub use behaviour::{Availability, Diurnal, DeviceProfile, Trace, TraceError};
pub use closing::{Closing, RoundRules};
pub use cohort::{Cohort, SelectedCohort, CohortSelector, WeightsError};
pub use aggregate::{Aggregate, Sums};
pub use coordinator::Coordinator;
pub use counting::{Aggregation, AggregationError, RobustAggregator, ProtectedAggregationError, CriteriaScore, Weighting};
pub use disclosure::{Disclosure, PiSpread};
pub use distribution::{Downloads, Message, Offer};
pub use error::{FederationError, Stage};
pub use fleet::{ParticipationStats, Call, Delivery, Fleet, InProcess, Reachability};
pub use histories::{HistoryFile, HistoryFileError, HistorySource, HistoryWriter, Page};
pub use hosting::{HostedFederation, FederationBuilder};
pub use observer::{Observer, RoundReport, RowUpdates};
pub use schedule::{Configuration, Schedule, Population};
pub use profile::SimulatedFigures;
pub use with_privacy::{PrivacyEngine, Sampling, PrivacySpent};
pub use recording::Recorder;
pub use rounds::{EpochReport, Federation, Setup};
pub use simulated::Streaming;
pub use strategy::{
    Adam, AdamSettings, AdaptiveSum, AdaptiveMean, AdaptiveMeanSettings, DampedSum, Sgd, Mean, OfMeans, OfRows,
    MeanOver, SecondMoment, Strategy, Sum,
};
pub use tally::{OrderedAggregator, OrderedAggregatorError};
pub use uploads::{RoundWriter, StoredUploads, UploadWriter, UploadsError};
