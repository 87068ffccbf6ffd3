//! What a device does not go below, whatever the server asks for and whatever its owner's policy leaves open.

use crate::secagg::{Parameters, ParametersError, ThreatModel};
use crate::{PrivacyConfig, Seal};
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::{Packing, RowLayout};
    use crate::{Noise, Placement, Quantization};

    fn sealed(dropout: f64, colluding: f64) -> PrivacyConfig {
        let seal = Seal::SecureAggregation { dropout, colluding, identities: false };
        let integers =
            Quantization { range: 8.0, clip: Some(1.0), devices: 100, rows: RowLayout::Dense, packing: Packing::Words };
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
    fn refuses_noise_in_name_only() {
        let noisy = |multiplier, shares| {
            let noise = Noise { shares, ..Noise::new(Placement::Distributed, multiplier) };
            PrivacyConfig { noise: Some(noise), ..sealed(0.3, 0.1) }
        };
        assert_eq!(noisy(0.5, 70).check_floors(100, 0), Ok(()));
        assert_eq!(noisy(1e-9, 70).check_floors(100, 0), Err(FloorError::Multiplier(1e-9)));
        assert_eq!(noisy(0.5, 4_000_000_000).check_floors(100, 0), Err(FloorError::Shares(4_000_000_000, 100)));
    }
}
