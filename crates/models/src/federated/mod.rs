//! Federated models, one folder each.
//!
//! A model implements [`FederatedModel`], which asks for everything that a model must answer for: its settings, the
//! client's and the server's half, its schedule, how its updates are aggregated, and what an update exposes. One line
//! in [`MODELS`] makes it known to the simulator, the server, devices, the audit and the command line. Models from
//! outside this workspace call [`register`] instead.
//!
//! What leaves a device is written at the top of each folder's `mod.rs`.

mod aggregation;
pub mod audience_size;
pub mod candidate_scores;
mod client;
pub mod clustering;
pub(crate) mod dp_sgd;
mod dynamic;
mod exposure;
mod model;
mod negatives;
mod registry;
mod schedule;
mod server;

pub use aggregation::{
    AdamSettings, AdaptiveMeanSettings, AdaptiveSum, AggregationSpec, DampedSum, LastColumn, Mean, MeanAggregation,
    MeanOver, MeanStrategy, RowAggregation, RowStrategy, SecondMoment, Sgd, Sum,
};
pub use client::{ClientModel, TrainInput, TrainResult, TrainStats, WorkingMemory};
pub use dp_sgd::DpSgd;
pub use dynamic::{AnyClient, AnyModel, DynClient, DynModel, Prepared, Scratch, erased};
pub use exposure::{Exposure, RowMeaning};
pub use model::{BudgetShare, EpochTraffic, Epochs, FeatureUse, FederatedModel, ModelInfo, PublicFacts};
pub use negatives::Negatives;
pub use registry::{AUDIENCE_SIZE, CANDIDATE_SCORES, Entry, RegisterError, all, find, register};
pub use schedule::{Cohort, Configuration, Population, RoundsPerEpoch, Schedule, TripleSchedule};
pub use server::{ItemFactors, ServerModel, TensorSlice, item_rows};

/// Declares each model's module and lists it in [`MODELS`].
macro_rules! models {
    ($($module:ident::$model:ident,)+) => {
        $( pub mod $module; )+

        /// The federated models of this workspace, in the order in which they are shown.
        pub static MODELS: &[Entry] = &[$( Entry::of::<$module::$model>() ),+];
    };
}

// One line a model.
models! {
    fpl::Fpl,
    fcf::Fcf,
    fed_mf::FedMf,
    fed_spectral::FedSpectral,
    fed_ease::FedEase,
    fed_ease_top::FedEaseTop,
    fed_gmf::FedGmf,
    fed_vae::FedVae,
    kgflex::KgFlex,
    lookalike::Lookalike,
    fed_sequential::FedSequential,
    refrs::Refrs,
}
