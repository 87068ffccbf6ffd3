//! Rounds: distribute, train, disclose, aggregate.
//!
//! A [`Federation`] has a shared model, a [`Plan`] (who is asked into a round, and how many rounds an epoch has), a
//! [`Strategy`] that turns updates into the next shared model, and a [`Fleet`] that carries a round to the devices and
//! back. [`InProcess`] is the fleet of the simulator: it keeps many devices' private models in one column and trains them
//! on all cores. Everything a device proposes passes its owner's disclosure policy ([`Disclosure`]), here as on a phone.
//!
//! The same seed gives the same bytes on any number of threads: each device and round draws from its own random stream,
//! and a cohort is cut into parts that depend on its size only, whose sums are merged in order.
//!
//! [`registry`] lists all models: those trained in one place and those trained in a federation.

mod cohort;
mod collected;
mod disclosure;
mod error;
mod fleet;
mod fpl;
mod lane;
mod observer;
mod plan;
pub mod registry;
mod rounds;
mod strategy;

pub use cohort::Cohort;
pub use collected::{Collected, Sums};
pub use disclosure::{Disclosure, PiSpread};
pub use error::{FederationError, Stage};
pub use fleet::{Attendance, Delivery, Fleet, InProcess};
pub use observer::{Observer, RoundReport, RowUpdates};
pub use plan::{Configuration, Plan, Population};
pub use rounds::{EpochReport, Federation, Setup};
pub use strategy::{Damped, Strategy, Sum};
