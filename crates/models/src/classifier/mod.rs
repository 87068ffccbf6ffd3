//! Image classifiers trained in a federation: the setting in which FedAvg and its kin are compared.
//!
//! B. McMahan et al., *Communication-efficient learning of deep networks from decentralized data*, AISTATS 2017;
//! client-aware aggregation after chapter 5 of A. Ferrara's thesis (Politecnico di Bari, 2022).
//!
//! Not a recommender: it is here because strategies and criteria are studied on it, against published figures. Images
//! take the place of items, so that a device's history lists the images it has, in a store that all simulated devices
//! share. Nothing is private but the images.
//!
//! **What leaves the device**: the local model minus the shared one, whole; the number of images, where the round asks
//! for it; and those [`Criterion`]s that the round asks for and the owner lets go.

mod client;
mod criteria;
mod network;
mod server;

pub use client::{Classifier, Scratch, TrainConfig};
pub use criteria::Criterion;
pub use network::{Architecture, Network};
pub use server::ClassifierServer;
