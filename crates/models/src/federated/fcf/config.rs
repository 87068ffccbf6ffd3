//! FCF's settings.

use crate::{choices, config};

choices! {
    /// What leaves in place of a withheld row.
    #[derive(Default)]
    pub enum FcfNegatives {
        /// A decoy: the row as it would be if the user did not have the item.
        #[default]
        Decoys => "decoys",
        /// Nothing, as in the paper, so that its absence is seen.
        Papers => "papers",
    }
}

choices! {
    /// How the server steps down the gradient.
    #[derive(Default)]
    pub enum ServerOptimiser {
        /// By Adam.
        #[default]
        Adam => "adam",
        /// By plain gradient descent.
        Sgd => "sgd",
    }
}

config! {
    /// FCF's settings.
    pub struct FcfConfig {
        /// Whether decoys leave in place of withheld rows, or (papers) nothing, so that their absence is seen
        pub negatives: FcfNegatives = FcfNegatives::Decoys => [device];
        /// Length of users' and items' vectors
        pub factors: usize = 20, in 1..=512 => [log device];
        /// Weight that an interaction adds to the 1 of every cell
        pub alpha: f64 = 0.3, in 0.0..=1000.0 => [device];
        /// L2 regularisation of all vectors, of 1,000 devices unless scale_regularisation = false
        pub regularisation: f64 = 8.0, in 1e-6..=1e5 => [log device];
        /// Whether regularisation grows with the root of the number of devices, as the singular values do that it is
        /// subtracted from
        pub scale_regularisation: bool = true;
        /// Standard deviation of initial vectors
        pub init_deviation: f64 = 0.1, in 1e-6..=1.0 => [log];
        /// How the server steps down the gradient
        pub server: ServerOptimiser = ServerOptimiser::Adam;
        /// Learning rate of the server
        pub learning_rate: f64 = 0.05, in 1e-9..=10.0 => [log];
        /// With server = adam: decay of the first moment (beta 1)
        pub beta1: f64 = 0.1, in 0.0..=0.999 => [was("momentum")];
        /// With server = adam: decay of the second moment (beta 2)
        pub beta2: f64 = 0.99, in 0.0..=0.9999 => [was("memory")];
    }
}
