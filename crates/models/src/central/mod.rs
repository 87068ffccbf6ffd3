//! Baselines that see all data.
//!
//! Each file holds one model and opens with what it is, its paper and its equations. What several share: `factors`
//! (tables of latent factors), `neighbours` (most similar rows of a sparse matrix), `negatives` (items a user does not
//! have), `least_squares` and `inverse` (small and large linear systems), `tf_idf` (weights of
//! features), `logistic` (a table of the function).

mod bpr_mf;
mod ease;
pub(crate) mod factors;
mod ials;
mod inverse;
mod item_knn;
mod kahfm;
pub(crate) mod least_squares;
mod mf;
mod mostpop;
mod multivae;
pub(crate) mod ncf;
mod negatives;
mod neighbours;
mod order;
mod random;
mod tf_idf;
mod user_knn;
mod vsm;

use crate::registry::Model;

/// The baselines, in the order in which they are shown.
pub static MODELS: &[Model] = &[
    random::MODEL,
    mostpop::MODEL,
    user_knn::MODEL,
    item_knn::MODEL,
    bpr_mf::MODEL,
    ials::MODEL,
    ease::MODEL,
    multivae::MODEL,
    ncf::GMF,
    ncf::NEUMF,
    mf::MODEL,
    vsm::MODEL,
    kahfm::MODEL,
    crate::kgflex::CENTRAL,
];
