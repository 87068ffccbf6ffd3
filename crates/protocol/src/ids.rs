//! Numbers that must not be mixed up.

use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $word:literal,)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    )+};
}

ids! {
    /// One training task: server, devices, configuration.
    FederationId "federation",
    /// A round of a federation, counted from 0.
    RoundId "round",
    /// A state of a federation's shared model, counted from 0.
    ModelVersion "version",
}
