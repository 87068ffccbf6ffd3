//! FCF: federated collaborative filtering.
//!
//! M. Ammad-ud-din, E. Ivannikova, S. A. Khan, W. Oyomno, Q. Fu, K. E. Tan, A. Flanagan: Federated Collaborative Filtering
//! for Privacy-Preserving Personalized Recommendation System, 2019.
//!
//! The matrix factorisation of implicit feedback (iALS) with the item factors Q on the server and each user's factors p on
//! their device: score(u, i) = p . q_i. It minimises, with r_ui = 1 and c_ui = 1 + alpha where u has i, else r_ui = 0 and
//! c_ui = 1,
//! ```text
//! J = sum_ui c_ui (r_ui - p_u . q_i)^2 + l (sum_u |p_u|^2 + sum_i |q_i|^2)
//! ```
//! In a round the server gives Q to a cohort. Each device solves for its p exactly,
//! ```text
//! (Q'Q + alpha sum_{i of u} q_i q_i' + l I) p = (1 + alpha) sum_{i of u} q_i
//! ```
//! and proposes its part of the items' gradient, f(u, i) = c_ui (r_ui - p . q_i) p, for all items of the catalog, so that
//! dJ/dq_i = -2 sum_u f(u, i) + 2 l q_i. The server steps along it, by Adam or plainly. Q'Q is the same for all devices of a
//! round and computed once.
//!
//! What leaves the device are rows of one table, [`Shared::TABLE`]: one for each item, marked by whether the owner has it,
//! so that their disclosure policy works as with every model; p and the history never leave. But all rows are multiples of
//! p, which anybody can tell who sees one device's update; see what that gives away before you use it without sealing.

mod device;
mod shared;

pub use device::{Device, Prepared, Scratch};
pub use shared::Shared;

/// The name in round terms, registries and random streams.
pub const NAME: &str = "fcf";
