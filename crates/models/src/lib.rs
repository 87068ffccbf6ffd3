//! Recommenders, centralised and federated.
//!
//! [`central`] holds the baselines that see all data, [`federated`] the models whose histories stay on devices, one
//! folder each. Every model says once what it is, which paper defines it and which settings it has; settings are typed
//! structs made by [`config!`]. A centralised model implements [`Recommender`], a federated one
//! [`FederatedModel`](federated::FederatedModel); `sottovoce-federation` lists both and makes recommenders of federated
//! models by simulating their devices.
//!
//! ```
//! use sottovoce_core::Histories;
//! use sottovoce_models::{Fit, Quiet, central};
//!
//! let histories = Histories::from_lists(&[vec![0, 1], vec![1, 2], vec![1]], 3)?;
//! let mostpop = central::MODELS.iter().find(|model| model.info.name == "mostpop").unwrap().model();
//! let mut recommender = mostpop.build(&mostpop.settings([])?);
//! recommender.fit(&histories, &mut Fit::new(1, &mut Quiet))?;
//! let mut scores = [0.0; 3];
//! recommender.score(0, &mut scores);
//! assert!(scores[1] > scores[2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod central;
pub mod classifier;
pub mod criteria;
mod explanation;
pub(crate) mod features;
pub mod federated;
mod loss;
mod recommender;
pub mod registry;
pub(crate) mod sequential;
pub mod settings;
pub mod spectral;
pub mod stored;

pub use explanation::{Because, Reason, ReasonKind, strongest};
pub use federated::{ClientModel, DpSgd, Negatives, ServerModel, TrainInput, TrainResult, TrainStats};
pub use recommender::{
    ClusterFigures, DeviceFootprint, Fit, Flow, Milestone, ModelError, Privacy, Progress, Quiet, Recommender, Summary,
    Tensor, TensorData, Traffic, Turnout, Watch,
};
