//! FedEASE-Top's settings.

use crate::config;
use crate::federated::PublicFacts;

config! {
    /// FedEASE-Top's settings.
    pub struct FedEaseTopConfig {
        /// Items that are kept (M); 0: by rule, from the number of people, the catalog and the noise
        pub top_items: Option<usize> = None, in 0..=4096 => [device];
        /// L2 regularisation, in multiples of the largest eigenvalue
        pub regularisation: f64 = 2.0, in 1e-4..=1e4 => [log];
        /// How much popular items are held back before eigenvalues are regularised, as an exponent of their counts
        pub popularity_scaling: f64 = 0.5, in 0.0..=1.0 => [device];
        /// How much less popular items score for long histories, as an exponent of their counts times n / (n + 3)
        pub popularity_exponent: f64 = 0.5, in 0.0..=2.0 => [device];
        /// Items that an average person would have, which count as if the owner had them; 0: by rule, the more the
        /// larger the noise, and none without
        pub average_items: Option<f64> = None, in 0.0..=1000.0 => [device];
    }
}

/// Where nothing is known: before there is a federation.
const ANY: usize = 200;

/// M is so many times the root of the number of people where the noise is large, and more with less than this noise.
const PER_ROOT: f64 = 3.0;
const LARGE: f64 = 2.0;

/// Items of an average person by noise.
const AVERAGE: f64 = 0.25;

/// So many items' co-occurrences travel in less than 170 kB, which little noise does not go beyond.
const FEW: usize = 288;
/// And so many items' in about 1 MB, which many people do not go beyond; very many do, by the root of their number.
const MANY: f64 = 720.0;

impl FedEaseTopConfig {
    /// M.
    pub fn kept(&self) -> usize {
        self.top_items.unwrap_or(ANY)
    }

    /// k.
    pub fn average(&self) -> f64 {
        self.average_items.unwrap_or(0.0)
    }

    /// k by rule: what there is to find in a history is worth less in noise.
    pub fn average_by_rule(public: &PublicFacts<'_>) -> f64 {
        (AVERAGE * (public.noise)()).min(1000.0)
    }

    /// The number of items that is kept by rule: more among more people and with less noise.
    ///
    /// The edge of the noise on eigenvalues grows with the root of M, what there is to find with the number of people.
    /// The constants are fitted to validation parts of seven data sets.
    pub fn rule(public: &PublicFacts<'_>) -> usize {
        let (people, noise) = (public.people as f64, (public.noise)());
        let more = (LARGE / noise).max(1.0).sqrt();
        let wanted = if noise > 0.0 { PER_ROOT * more * people.sqrt() } else { f64::INFINITY };
        let among_many = (PER_ROOT * people.sqrt()).min(MANY).max(people.sqrt());
        let most = FEW.max(among_many.round() as usize).min(*Self::RANGE.end());
        let wanted = if wanted < most as f64 { wanted.round() as usize } else { most };
        wanted.min(public.items).max(*Self::RANGE.start())
    }

    const RANGE: std::ops::RangeInclusive<usize> = 2..=4096;
}
