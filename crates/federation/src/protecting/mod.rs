//! What protects updates beyond their owners' policies, in the simulator and on a server alike.
//!
//! What both halves of a round go by is [`sottovoce_privacy::PrivacyMechanism`]; a [`Guardian`] is the server's: it adds the noise
//! that is the server's to add, opens sums, draws cohorts as the accounts assume, and keeps those accounts.

mod accounts;
mod chosen;
mod guardian;
mod words;

pub use accounts::Spent;
pub(crate) use chosen::{Chosen, Training};
pub use guardian::{Guardian, Sampling};
pub(crate) use words::{Summed, Words};
