//! What every database must do, and what each does with bad luck.

mod conformance;
mod files;
mod model;
mod place;
mod postgres;
mod proxy;
mod random;
mod scene;
