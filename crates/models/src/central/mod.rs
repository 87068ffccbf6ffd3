//! Centralised baselines, which see all data.
//!
//! Each file holds one model and opens with its paper and its equations. Shared by several models: `factors` (tables of
//! latent factors, and the models that consist of them), `epochs` (the loop over epochs), `epoch_order` (the order of
//! interactions in an epoch), `negative_sampler` (items that a user does not have), `neighbours` (the most similar rows
//! of a sparse matrix), `item_weights` (dense weights between items), `least_squares` and `matrix_inverse` (small and
//! large linear systems), `tf_idf` (weights of features), `layout_tensors` (storing neural networks), `micro_batches`
//! (parallel parts of their batches).
//! `sequential` has the models that go by the order of items.

mod bpr_mf;
mod ease;
mod epoch_order;
pub(crate) mod epochs;
pub(crate) mod factors;
mod gf_cf;
mod ials;
mod item_knn;
mod item_weights;
mod kahfm;
pub(crate) mod layout_tensors;
pub(crate) mod least_squares;
mod low_rank;
pub(crate) mod matrix_inverse;
mod mf;
mod micro_batches;
mod mostpop;
mod multivae;
mod ncf;
mod negative_sampler;
pub(crate) mod neighbours;
mod random;
mod sequential;
mod tf_idf;
mod user_knn;
mod vsm;

use crate::registry::CentralModel;

/// The baselines, in the order in which they are shown.
pub static MODELS: &[CentralModel] = &[
    random::MODEL,
    mostpop::MODEL,
    user_knn::MODEL,
    item_knn::MODEL,
    bpr_mf::MODEL,
    ials::MODEL,
    ease::MODEL,
    low_rank::EASE,
    low_rank::PURE_SVD,
    gf_cf::MODEL,
    multivae::MODEL,
    ncf::GMF,
    ncf::NEUMF,
    mf::MODEL,
    vsm::MODEL,
    kahfm::MODEL,
    sequential::ITEM_TRANSITIONS,
    sequential::GRU4REC,
    sequential::SASREC,
    sequential::GSASREC,
    sequential::BERT4REC,
    sequential::CASER,
    sequential::HGN,
    sequential::FDSA,
    sequential::S3REC,
    sequential::AUTOINT,
    crate::federated::kgflex::CENTRAL,
    crate::federated::lookalike::CENTRAL,
];
