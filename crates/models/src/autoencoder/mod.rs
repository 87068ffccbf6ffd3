//! Autoencoders of histories in a federation: MultVAE and MultDAE with every device one person.
//!
//! D. Liang, R. G. Krishnan, M. D. Hoffman, T. Jebara: Variational Autoencoders for Collaborative Filtering, WWW 2018, trained
//! by FedAvg or an adaptive relative of it.
//!
//! With x the owner's n items as ones, scaled to length 1, some of them dropped at random in training:
//! ```text
//! h = tanh(b + sum over x of x_i E_i)
//! d = h                                                                      denoising (MultDAE)
//! m = h W1 + b1, l = h W2 + b2, z = m + e exp(l/2), d = tanh(z W3 + b3)      variational (MultVAE); z = m when scoring
//! s_i = O_i . d + c_i
//! loss = - sum over the owner's items of ln softmax(s)_i [+ beta KL(N(m, e^l) || N(0, 1))]
//! ```
//! beta rises with the number of rounds that the device itself has trained in, which is all that it keeps as a private model.
//! A round is some steps of gradient descent from the shared model; the change is proposed. With one step the server
//! steps along the mean gradient of a cohort, so that FedAdam is what Adam on batches of people would be in one place.
//!
//! What leaves the device: rows of E for the owner's items (nothing else of E changes), rows (O_i, c_i) for all items of the
//! catalog, marked by whether the owner has them, and the middle layers whole. The history and what it is encoded to never leave.
//! An update for E names the owner's items plainly: choose pi with that in mind, or seal updates.

mod device;
mod layers;
mod output;
mod shared;

pub use device::{Device, Scratch};
pub use layers::Kind;
pub use shared::Shared;

/// The name in round terms, registries and random streams.
pub const NAME: &str = "fed-vae";
