//! Loading, cleaning and splitting interactions; the synthetic town.

pub mod town;
