//! What a device spends of differential privacy against the server, by its own account.

use crate::dp::accountant::Round;
use crate::keeper::{self, KeeperSeal};
use crate::secagg::{Parameters, devices_in};
use crate::{NoiseDistribution, Placement, PrivacyConfig, Seal};

impl PrivacyConfig {
    /// Of so many devices whose updates are in a sum, those whose noise nobody else can take off: all but the share
    /// that may collude. Under encryption any one that colludes opens single updates.
    pub fn honest(&self, counted: u32) -> u32 {
        match self.seal {
            Some(Seal::SecureAggregation { colluding, .. } | Seal::Keeper(KeeperSeal { colluding, .. })) => {
                (counted - devices_in(colluding, counted)).max(1)
            }
            _ => 1,
        }
    }

    /// A round as a device accounts for it against a server that lies and devices that collude with it: without
    /// amplification by sampling, because the server knows whom it asks, and with no more noise than must be in what
    /// the server can open. `None` where there is no bound: without noise, with noise that the server adds, or with
    /// noise on single interactions, which does not hide a person.
    ///
    /// With noise in shares, the least that can be opened are the updates of `t + 1` devices (with a keeper: of as many
    /// as the terms say), or of as many as the owner demands (`least_sum`); of these a share of `colluding` may take
    /// their noise off again.
    pub fn against_server(&self, cohort: u32, least_sum: u32) -> Option<Round> {
        let noise = self.noise?;
        let multiplier = match (noise.placement, &self.seal) {
            (Placement::Central | Placement::Sgd, _) => return None,
            (Placement::Local, _) => noise.multiplier,
            (Placement::Distributed, Some(Seal::SecureAggregation { dropout, colluding, identities })) => {
                let against = identities.then_some(crate::secagg::ThreatModel::Malicious);
                let parameters = Parameters::choose(cohort, *dropout, *colluding, against).ok()?;
                let opened = (parameters.threshold + 1).max(least_sum).min(parameters.neighbours + 1);
                noise.device_noise() * f64::from(self.honest(opened)).sqrt()
            }
            (Placement::Distributed, Some(Seal::Keeper(KeeperSeal { least, .. }))) => {
                let opened = (*least).max(least_sum).max(keeper::LEAST).min(cohort.max(1));
                noise.device_noise() * f64::from(self.honest(opened)).sqrt()
            }
            // Single updates may be opened.
            (Placement::Distributed, _) => noise.device_noise(),
        };
        Some(match noise.distribution {
            NoiseDistribution::Gaussian => Round::Poisson { rate: 1.0, multiplier },
            NoiseDistribution::Laplace => Round::Laplace { rate: 1.0, scale: multiplier },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::RowLayout;
    use crate::{Noise, Quantization};

    fn with(placement: Placement, shares: u32, seal: Option<Seal>) -> PrivacyConfig {
        let integers = Quantization { range: 8.0, clip: Some(1.0), devices: 100, rows: RowLayout::Dense };
        let noise = Noise { shares, ..Noise::new(placement, 2.0) };
        PrivacyConfig { quantization: Some(integers), noise: Some(noise), seal }
    }

    #[test]
    fn counts_the_noise_that_must_be_there() {
        let seal = || Some(Seal::SecureAggregation { dropout: 0.3, colluding: 0.1, identities: false });
        assert_eq!(with(Placement::Central, 1, None).against_server(100, 0), None);
        assert_eq!(PrivacyConfig::default().against_server(100, 0), None);
        let local = with(Placement::Local, 1, None).against_server(100, 0);
        assert_eq!(local, Some(Round::Poisson { rate: 1.0, multiplier: 2.0 }));
        // t = 42: of 43 devices 4 may collude, so 39 of 70 shares are sure.
        let of = |least| match with(Placement::Distributed, 70, seal()).against_server(100, least) {
            Some(Round::Poisson { rate: 1.0, multiplier }) => multiplier,
            other => panic!("{other:?}"),
        };
        assert!((of(0) - 2.0 * (39.0f64 / 70.0).sqrt()).abs() < 1e-12, "{}", of(0));
        // The owner demands 60, and 6 may collude; no more than the neighbourhood of 72 can be certain.
        assert!((of(60) - 2.0 * (54.0f64 / 70.0).sqrt()).abs() < 1e-12);
        assert_eq!(of(1000), of(73));
        let kept = KeeperSeal { key: [9; 32], opener: [0; 32], least: 70, colluding: 0.1, identities: false };
        let kept = with(Placement::Distributed, 70, Some(Seal::Keeper(kept)));
        for (least, honest) in [(0, 63.0f64), (90, 81.0)] {
            let Some(Round::Poisson { rate: 1.0, multiplier }) = kept.against_server(100, least) else { panic!() };
            assert!((multiplier - 2.0 * (honest / 70.0).sqrt()).abs() < 1e-12, "{multiplier}");
        }
        let alone = with(Placement::Distributed, 64, None).against_server(100, 0);
        assert_eq!(alone, Some(Round::Poisson { rate: 1.0, multiplier: 0.25 }));
    }
}
