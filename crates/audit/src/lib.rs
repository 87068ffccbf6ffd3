//! The curious server: what can be rebuilt from what devices disclose.
//!
//! A [`CuriousServer`] is shown what the server of a federation sees, in a simulated run or from uploads that a server stored, and
//! keeps what attacks need of a sample of people ([`Subjects`]). Each [`Attack`] gives every item a score that says how
//! likely it is in a person's history. [`Findings`] say how much of histories was rebuilt, beside what guessing the popular
//! items finds: without that a number means nothing, since most people have some of what most people have.
//!
//! Attacks get no more than a server has: shared models, uploads or sums, who was in which round, and how popular items are.
//! Histories are looked at only to evaluate, but for those of a fifth of the people, which stand for accounts that an attacker
//! made up to calibrate all attacks together.

mod attacks;
mod curious_server;
mod error;
mod evaluation;
mod evidence;
mod exposed_table;
mod findings;
pub mod report;
mod subjects;
mod sums;

pub use attacks::Attack;
pub use curious_server::{CuriousServer, View};
pub use error::AuditError;
pub use evaluation::{Figure, Rebuilt, evaluate};
pub use evidence::Evidence;
pub use exposed_table::{ExposedTable, ExposedTables};
pub use findings::{COMBINED, Checkpoint, Finding, Findings};
pub use subjects::Subjects;
