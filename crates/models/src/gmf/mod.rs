//! GMF in a federation: generalised matrix factorisation with each person's vector on their device.
//!
//! X. He, L. Liao, H. Zhang, L. Nie, X. Hu, T.-S. Chua: Neural Collaborative Filtering, WWW 2017, trained by FedAvg (McMahan,
//! Moore, Ramage, Hampson, Agüera y Arcas, AISTATS 2017).
//!
//! With items' vectors Q and the output's weights h on the server and p on the device, probability and loss are
//! ```text
//! y(u, i) = sigma(sum over f of h_f p_f q_if)
//! J_u = - sum over u's items of ln y - sum over sampled items that u does not have of ln (1 - y)  + pull terms
//! ```
//! In a round a device draws its negatives, goes through its samples some times by stochastic gradient descent on p, the rows
//! of Q it meets, and h, and proposes the difference to what it was given. With gradients asked for (FedSGD) it proposes one
//! step of rate 1 down the mean gradient of all samples instead.
//!
//! What leaves the device are the rows of items met, marked by whether the owner has them, and the change of h; p and the
//! history never leave.

mod bounded;
mod device;
mod shared;

pub use device::{Device, Scratch};
pub use shared::Shared;

/// The name in round terms, registries and random streams.
pub const NAME: &str = "fed-gmf";
