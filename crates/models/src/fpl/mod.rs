//! FPL: federated pair-wise learning.
//!
//! V. W. Anelli, Y. Deldjoo, T. Di Noia, A. Ferrara, F. Narducci: How to put users in control of their data in federated
//! top-N recommendation with learning to rank, SAC 2021; and, by the same: User-controlled federated matrix factorization
//! for recommender systems, Journal of Intelligent Information Systems 2022.
//!
//! Matrix factorisation with the item factors Q and biases b on the server and each user's factors p on their device:
//! score(u, i) = b_i + p . q_i. In a round the server gives (Q, b) to a cohort. Each device draws T triples of its owner,
//! an item i they have and an item j they do not have, and with all parameters as they were at the round's start and
//! s = 1 / (1 + e^(score_i - score_j)) sums up
//! ```text
//! dp   += s (q_i - q_j) - l_u p
//! dq_i +=  s p - l_i q_i          db_i +=  s - l_i b_i
//! dq_j += -s p - l_j q_j          db_j += -s - l_j b_j
//! ```
//! It applies p += alpha dp at once. Of dQ and db it proposes the touched rows, marked by whether the owner has the item;
//! their disclosure policy decides what leaves: rows of items they do not have do, the row of an item they have does with
//! probability pi. The server adds alpha times the sum of what it receives.
//!
//! In the papers j is an item that the user does not have. Then a row that never leaves belongs to an item that they do have,
//! and from many rounds a server can tell, at pi = 0 as well. By default, j is therefore drawn from the whole catalog
//! ([`Negatives::Decoys`](crate::Negatives::Decoys)): which rows leave as negatives is independent of the history, and where the row of
//! an item had or hidden is to stay at home, what was drawn of it leaves all the same, and nothing else.
//!
//! What leaves the device, then, is rows of one table, [`Shared::TABLE`]; p and the history never do.

mod bounded;
mod device;
mod lanes;
mod scratch;
mod shared;
mod touched;

pub use device::{Device, Pull};
pub use shared::Shared;

/// The name in round terms, registries and random streams.
pub const NAME: &str = "fpl";
