//! The curious server: what can be reconstructed from what devices disclose.
//!
//! A [`CuriousServer`] records what the server of a federation sees, in a simulated run or from uploads that a server
//! has stored, about a sample of users ([`Subjects`]). Each [`Attack`] scores every item by how likely it is in a
//! user's history. [`Findings`] say how well histories are reconstructed, beside a popularity baseline: without one a
//! number means nothing, since most users have some popular items.
//!
//! Attacks use no more than a server has: shared models, uploads or sums, who was in which round, and how popular items
//! are. Histories are used only to evaluate, except those of a fifth of the users, which stand for accounts that an
//! attacker creates to calibrate the combined attack.
//!
//! ```
//! use sottovoce_audit::{CuriousServer, ExposedTables, Subjects, View};
//! use sottovoce_core::Histories;
//! use sottovoce_federation::registry;
//! use sottovoce_models::settings::Value;
//! use sottovoce_models::{Fit, Quiet};
//! use std::sync::Arc;
//!
//! // Users of three tastes.
//! let lists: Vec<Vec<u32>> = (0..30).map(|user| (0..6).map(|n| user % 3 * 10 + n + user % 4).collect()).collect();
//! let histories = Histories::from_lists(&lists, 30)?;
//! let subjects = Subjects::draw(&histories, None, 30, 1);
//! let server = Arc::new(CuriousServer::new(ExposedTables::of("fpl", None)?, subjects, View::Uploads, vec![]));
//! let settings = registry::find("fpl")?.settings([("epochs", Value::Integer(5)), ("pi", Value::Real(1.0))])?;
//! let mut model = registry::recorded("fpl", &settings, server.clone()).unwrap();
//! model.fit(&histories, &mut Fit::new(1, &mut Quiet))?;
//! let signs = server.conclude()?.of("signs").unwrap().auc;
//! assert!(signs > 0.9, "full disclosure reveals histories");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
pub use evaluation::{Estimate, Reconstruction};
pub use exposed_table::ExposedTables;
pub use findings::{Checkpoint, Finding, Findings};
pub use subjects::Subjects;
