//! What a device does not go below, whatever the server asks for and whatever its owner's policy leaves open.

use crate::keeper::{self, KeeperSeal};
use crate::secagg::{self, Parameters, ParametersError, ThreatModel};
use crate::{PrivacyConfig, Seal};
use sottovoce_protocol::{FederationId, RoundId};
use thiserror::Error;

/// The least noise multiplier. With less, one round alone spends an epsilon of about 100: noise in name only.
pub const LEAST_NOISE_MULTIPLIER: f64 = 0.1;

/// Shares that may drop out and collude by default. Rounds too large for a graph that is secure against a malicious
/// server at these are held to them.
const DEFAULT_SHARES: (f64, f64) = (0.3, 0.1);

/// Protection that is none.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum FloorError {
    /// Next to no noise. Fields: the multiplier.
    #[error(
        "a noise multiplier of {0} hides nothing: this device adds or accepts no less than {LEAST_NOISE_MULTIPLIER}"
    )]
    Multiplier(f64),
    /// Noise in more shares than there are devices. Fields: shares; devices asked.
    #[error("noise in {0} shares, but the round asks {1} devices: what they add makes up too little of it")]
    Shares(u32, u32),
    /// Too few shares open a mask. Fields: devices asked; the share that may drop out; the share that may collude.
    #[error(
        "secure aggregation of {0} devices of which a share of {1} may drop out and {2} collude: a server that lies \
         about who dropped out could open a single mask (2t > k + colluders does not hold)"
    )]
    Threshold(u32, f64, f64),
    /// A part of the round smaller than the owner demands could be opened by itself. Fields: neighbours of each device;
    /// the least cohort.
    #[error(
        "each device shares its masks with {0} others only, so the server could open a sum of fewer than the {1} \
         devices that the owner demands"
    )]
    LeastSum(u32, u32),
    /// With a keeper, sums that have less than all of the noise. Fields: shares of it; updates opened together.
    #[error("noise in {0} shares, but the keeper opens sums of {1} updates: what they add makes up too little of it")]
    KeptShares(u32, u32),
    /// No parameters at all.
    #[error("secure aggregation: {0}")]
    Parameters(#[from] ParametersError),
}

impl PrivacyConfig {
    /// That these layers are protection and not only its name, in a round that asks so many devices, for an owner who
    /// demands that no fewer than `least_sum` devices' updates can be opened together.
    ///
    /// # Errors
    /// Says what is too weak.
    pub fn check_floors(&self, cohort: u32, least_sum: u32) -> Result<(), FloorError> {
        if let Some(noise) = self.noise {
            if noise.multiplier < LEAST_NOISE_MULTIPLIER {
                return Err(FloorError::Multiplier(noise.multiplier));
            }
            if noise.shares > cohort {
                return Err(FloorError::Shares(noise.shares, cohort));
            }
            match self.seal {
                Some(Seal::Keeper(KeeperSeal { least, .. })) if noise.shares > least => {
                    return Err(FloorError::KeptShares(noise.shares, least));
                }
                _ => (),
            }
        }
        let Some(Seal::SecureAggregation { dropout, colluding, .. }) = self.seal else { return Ok(()) };
        let against_a_liar =
            |(dropout, colluding)| Parameters::choose(cohort, dropout, colluding, Some(ThreatModel::Malicious));
        let no_weaker = dropout <= DEFAULT_SHARES.0 && colluding >= DEFAULT_SHARES.1;
        let parameters = match against_a_liar((dropout, colluding)) {
            Ok(parameters) => parameters,
            Err(error @ ParametersError::TooFew(_)) => return Err(error.into()),
            // So many devices that no graph is large enough: then no weaker than what a federation has by default.
            Err(_) if no_weaker && against_a_liar(DEFAULT_SHARES).is_err() => {
                Parameters::choose(cohort, dropout, colluding, None)?
            }
            Err(_) => return Err(FloorError::Threshold(cohort, dropout, colluding)),
        };
        if parameters.neighbours + 1 < least_sum {
            return Err(FloorError::LeastSum(parameters.neighbours, least_sum));
        }
        Ok(())
    }

    /// The fewest devices whose updates a server that lies can open the sum of, in a round that asks so many. `None` if
    /// it can read single updates: without a seal, and under encryption, where devices open whatever it gives them.
    pub fn smallest_sum(&self, cohort: u32) -> Option<u32> {
        match self.seal.as_ref()? {
            &Seal::SecureAggregation { dropout, colluding, identities } => {
                let config = secagg::Config::new(FederationId::default(), RoundId::default(), cohort, 1);
                let config = secagg::Config { dropout, colluding, ..config };
                let config = if identities { config.signed() } else { config };
                // The server says how many came, and thresholds follow from that.
                let opened = |came| Some(config.parameters(came).ok()?.threshold + 1);
                Some(opened(cohort)?.min(opened(config.least).unwrap_or(u32::MAX)))
            }
            Seal::Keeper(KeeperSeal { least, .. }) => Some((*least).max(keeper::LEAST)),
            Seal::Encryption { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::RowLayout;
    use crate::{Noise, Placement, Quantization};
    use sottovoce_protocol::SealedDisclosure;

    fn sealed(dropout: f64, colluding: f64) -> PrivacyConfig {
        let seal = Seal::SecureAggregation { dropout, colluding, identities: false };
        let integers = Quantization { range: 8.0, clip: Some(1.0), devices: 100, rows: RowLayout::Dense };
        PrivacyConfig { quantization: Some(integers), noise: None, seal: Some(seal) }
    }

    #[test]
    fn refuses_thresholds_that_a_liar_reaches() {
        for cohort in [5, 30, 100, 300] {
            assert_eq!(sealed(0.3, 0.1).check_floors(cohort, 0), Ok(()), "{cohort}");
            let weak = FloorError::Threshold(cohort, 0.9, 0.1);
            assert!(matches!(sealed(0.9, 0.1).check_floors(cohort, 0), Err(found) if found == weak), "{cohort}");
        }
        // Too many for such a graph: the default, or more than it.
        assert_eq!(sealed(0.3, 0.1).check_floors(1000, 0), Ok(()));
        assert_eq!(sealed(0.2, 0.1).check_floors(1000, 0), Ok(()));
        assert!(matches!(sealed(0.5, 0.1).check_floors(1000, 0), Err(FloorError::Threshold(..))));
        assert!(matches!(sealed(0.1, 0.1).check_floors(2, 0), Err(FloorError::Parameters(_))));
    }

    #[test]
    fn refuses_graphs_of_which_less_than_the_least_cohort_can_be_opened() {
        assert_eq!(sealed(0.3, 0.1).check_floors(100, 73), Ok(()));
        assert_eq!(sealed(0.3, 0.1).check_floors(100, 100), Err(FloorError::LeastSum(72, 100)));
        assert_eq!(sealed(0.3, 0.1).check_floors(30, 30), Ok(()));
    }

    #[test]
    fn knows_the_smallest_sum_that_can_be_opened() {
        assert_eq!(PrivacyConfig::default().smallest_sum(100), None);
        // 70 of 100 are enough for a round, and the threshold among 70 is lower than the 42 among 100.
        let among_70 = Parameters::choose(70, 0.3, 0.1, None).unwrap().threshold;
        assert!((20..42).contains(&among_70), "{among_70}");
        assert_eq!(sealed(0.3, 0.1).smallest_sum(100), Some(among_70 + 1));
        for cohort in [100, 300, 500, 1000, 100_000] {
            let smallest = sealed(0.3, 0.1).smallest_sum(cohort);
            assert!(smallest.is_some_and(|sum| sum >= SealedDisclosure::DEFAULT_LEAST), "{cohort}: {smallest:?}");
        }
        assert_eq!(sealed(0.3, 0.1).smallest_sum(2), None);
    }

    #[test]
    fn refuses_noise_in_name_only() {
        let noisy = |multiplier, shares| {
            let noise = Noise { shares, ..Noise::new(Placement::Distributed, multiplier) };
            PrivacyConfig { noise: Some(noise), ..sealed(0.3, 0.1) }
        };
        assert_eq!(noisy(0.5, 70).check_floors(100, 0), Ok(()));
        assert_eq!(noisy(1e-9, 70).check_floors(100, 0), Err(FloorError::Multiplier(1e-9)));
        let kept = KeeperSeal { key: [9; 32], opener: [0; 32], least: 50, colluding: 0.1, identities: false };
        let kept = |shares| PrivacyConfig { seal: Some(Seal::Keeper(kept)), ..noisy(0.5, shares) };
        assert_eq!(kept(50).check_floors(100, 100), Ok(()));
        assert_eq!(kept(51).check_floors(100, 100), Err(FloorError::KeptShares(51, 50)));
        assert_eq!(noisy(0.5, 4_000_000_000).check_floors(100, 0), Err(FloorError::Shares(4_000_000_000, 100)));
    }
}
