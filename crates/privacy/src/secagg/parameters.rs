//! Degree of the graph and threshold of the secret sharing.
//!
//! A graph of `n` devices on a ring in random order, each tied to the `k/2` before and after it (all others, if `k = n - 1`). Let `D`
//! be the devices that drop out and `C` those that collude, spread over the ring by the server's shuffle, which they do not know.
//! A neighbourhood then holds a hypergeometric number of each, and the chances below are sums of its exact tails over all `n`
//! devices (union bound):
//! - *exposure*: some neighbourhood holds too many colluders for the threshold, or those who are neither dropped nor colluding
//!   fall apart, which on such a ring takes a gap of `k/2` in a row: at most 2^-40;
//! - *abort*: some neighbourhood keeps fewer than `t`: at most 2^-30.
//!
//! `k` is the smallest number for which a threshold satisfies both, `t` the largest such threshold: what the stated drop-out does
//! not need goes to secrecy. All arithmetic is exact IEEE (no logarithms), so a device finds the same parameters as the server.

/// Shares are points of GF(256), of which one is the secret's.
pub(crate) const MOST_NEIGHBOURS: u32 = 255;
/// Up to so many devices the graph is complete.
const COMPLETE: u32 = 32;
const EXPOSURE: f64 = 1.0 / (1u64 << 40) as f64;
const ABORT: f64 = 1.0 / (1u64 << 30) as f64;

/// The server that secrets are protected against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreatModel {
    /// It follows the protocol and reads everything: fewer than `t` colluders in a neighbourhood.
    SemiHonest,
    /// It may tell devices different lists of who dropped out: `2t > k + c` with `c` colluders in a neighbourhood.
    Malicious,
}

/// The graph's degree and the threshold for so many devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Devices.
    pub n: u32,
    /// Neighbours of each: `k`.
    pub neighbours: u32,
    /// Shares that reconstruct a secret: `t`.
    pub threshold: u32,
    /// Devices that may drop out.
    pub dropped: u32,
    /// Devices that may collude.
    pub colluding: u32,
    /// The server it is secure against.
    pub threat_model: ThreatModel,
    /// Probability that server and colluding devices can reconstruct some secret.
    pub exposure: f64,
    /// Probability that a round aborts although no more devices dropped out than stated.
    pub abort: f64,
}

/// Why there are no parameters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParametersError {
    /// Too few devices for secrets to be shared.
    #[error("secure aggregation needs at least 3 devices, not {0}")]
    TooFew(u32),
    /// Not a share. Fields: which; what it is.
    #[error("the {0} share is {1}: must be from 0 to below 1")]
    Share(&'static str, f64),
    /// So many may drop out and collude that no threshold lies between. Fields: devices; may drop out; may collude;
    /// what server it was to be safe threat_model.
    #[error("no threshold for {0} devices of which {1} may drop out and {2} collude, against a {3:?} server")]
    None(u32, u32, u32, ThreatModel),
}

/// How many whole devices a share of them is.
pub(crate) fn devices_in(share: f64, n: u32) -> u32 {
    // The small term keeps 0.3 of 10 at 3 although 0.3 is a little less than three tenths.
    (share * f64::from(n) + 1e-9).floor() as u32
}

impl Parameters {
    /// The cheapest parameters against this server. `None`: against a malicious one, or against a semi-honest one where
    /// neighbourhoods would have to be larger than 255; [`threat_model`](Self::threat_model) says which.
    ///
    /// # Errors
    /// If there are none.
    pub fn choose(
        n: u32,
        dropout: f64,
        colluding: f64,
        threat_model: Option<ThreatModel>,
    ) -> Result<Self, ParametersError> {
        let Some(threat_model) = threat_model else {
            let choose = |against| Self::choose(n, dropout, colluding, Some(against));
            return choose(ThreatModel::Malicious).or_else(|_| choose(ThreatModel::SemiHonest));
        };
        if n < 3 {
            return Err(ParametersError::TooFew(n));
        }
        for (name, value) in [("drop-out", dropout), ("colluding", colluding)] {
            if !(0.0..1.0).contains(&value) {
                return Err(ParametersError::Share(name, value));
            }
        }
        let cohort = Cohort { n, dropped: devices_in(dropout, n), colluding: devices_in(colluding, n), threat_model };
        let Cohort { dropped, colluding, .. } = cohort;
        let none = ParametersError::None(n, dropped, colluding, threat_model);
        degrees(n).find_map(|k| cohort.with(k)).ok_or(none)
    }

    /// Whether the graph is complete.
    pub fn complete(&self) -> bool {
        self.neighbours == self.n - 1
    }
}

/// Even degrees, then the complete graph where it is small enough. Among few devices it costs little, and what holds for
/// neighbourhoods then holds for the whole round.
fn degrees(n: u32) -> impl Iterator<Item = u32> {
    let most = if n <= COMPLETE { 0 } else { MOST_NEIGHBOURS.min(n - 1) };
    let complete = (n - 1 <= MOST_NEIGHBOURS).then_some(n - 1);
    (2..=most).step_by(2).filter(move |&k| k < n - 1).chain(complete)
}

struct Cohort {
    n: u32,
    dropped: u32,
    colluding: u32,
    threat_model: ThreatModel,
}

impl Cohort {
    fn with(&self, k: u32) -> Option<Parameters> {
        let n = f64::from(self.n);
        let lost = Tail::new(self.n - 1, self.dropped, k);
        // The largest threshold that the drop-outs leave: t <= k - y wherever "more than y lost" is rare enough.
        let spare = (0..=k).find(|&y| n * lost.above(y) <= ABORT)?;
        let threshold = k - spare;
        let too_many = match self.threat_model {
            ThreatModel::SemiHonest => threshold,
            ThreatModel::Malicious => (2 * threshold).saturating_sub(k),
        };
        let colluders =
            if too_many == 0 { 1.0 } else { n * Tail::new(self.n - 1, self.colluding, k).above(too_many - 1) };
        let exposure = (colluders + self.disconnected(k)).min(1.0);
        (threshold >= 2 && exposure <= EXPOSURE).then(|| Parameters {
            n: self.n,
            neighbours: k,
            threshold,
            dropped: self.dropped,
            colluding: self.colluding,
            threat_model: self.threat_model,
            exposure,
            abort: (n * lost.above(spare)).min(1.0),
        })
    }

    /// A bound on the probability that honest survivors are disconnected: `k/2` in a row on the ring dropped out or collude.
    fn disconnected(&self, k: u32) -> f64 {
        if k == self.n - 1 {
            return 0.0;
        }
        let bad = (self.dropped + self.colluding).min(self.n);
        let run = (0..k / 2).fold(1.0, |chance, i| chance * f64::from(bad.saturating_sub(i)) / f64::from(self.n - i));
        f64::from(self.n) * run
    }
}

/// Upper tail of the hypergeometric distribution: the probability of more than so many marked among `draws` of `population`.
struct Tail(Vec<f64>);

impl Tail {
    fn new(population: u32, marked: u32, draws: u32) -> Self {
        let marked = marked.min(population);
        let lowest = (draws + marked).saturating_sub(population);
        let highest = draws.min(marked);
        let ratio = |x: u32| {
            let up = f64::from(marked - x) * f64::from(draws - x);
            up / (f64::from(x + 1) * f64::from(population + x + 1 - marked - draws))
        };
        // Relative to the most likely number, so that only what is negligible underflows.
        let mode = (lowest..highest).find(|&x| ratio(x) <= 1.0).unwrap_or(highest);
        let mut weights = vec![0.0; highest as usize + 1];
        weights[mode as usize] = 1.0;
        for x in mode..highest {
            weights[x as usize + 1] = weights[x as usize] * ratio(x);
        }
        for x in (lowest..mode).rev() {
            weights[x as usize] = weights[x as usize + 1] / ratio(x);
        }
        let total: f64 = weights.iter().sum();
        // From the smallest up, so that small tails keep their digits.
        let mut above = 0.0;
        for weight in weights.iter_mut().rev() {
            (above, *weight) = (above + *weight / total, above);
        }
        Self(weights)
    }

    /// The probability of more than `x`.
    fn above(&self, x: u32) -> f64 {
        self.0.get(x as usize).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tails_equal_small_cases_counted_by_hand() {
        // Two of five marked, two drawn: 3, 6 and 1 of the 10 pairs hold none, one and two.
        let tail = Tail::new(5, 2, 2);
        for (x, expected) in [(0, 0.7), (1, 0.1), (2, 0.0), (9, 0.0)] {
            assert!((tail.above(x) - expected).abs() < 1e-15);
        }
        assert_eq!(Tail::new(4, 3, 4).0, [1.0, 1.0, 1.0, 0.0]);
    }

    #[test]
    fn small_cohorts_are_complete_graphs() {
        let five = Parameters::choose(5, 0.3, 0.1, None).unwrap();
        assert_eq!((five.neighbours, five.threshold, five.threat_model), (4, 3, ThreatModel::Malicious));
        let hundred = Parameters::choose(100, 0.3, 0.1, None).unwrap();
        assert_eq!((hundred.neighbours, hundred.threshold, hundred.threat_model), (72, 42, ThreatModel::Malicious));
        let thousand = Parameters::choose(1000, 0.3, 0.1, None).unwrap();
        assert_eq!(thousand.threat_model, ThreatModel::SemiHonest);
        let many = Parameters::choose(100_000, 0.3, 0.1, None).unwrap();
        assert!(thousand.neighbours < 120 && many.neighbours < 2 * thousand.neighbours, "{thousand:?} {many:?}");
    }

    #[test]
    fn rejects_impossible_shares() {
        assert_eq!(Parameters::choose(2, 0.0, 0.0, None), Err(ParametersError::TooFew(2)));
        assert!(matches!(Parameters::choose(9, 1.0, 0.0, None), Err(ParametersError::Share("drop-out", _))));
        assert!(matches!(Parameters::choose(9, 0.0, f64::NAN, None), Err(ParametersError::Share(..))));
        assert!(matches!(Parameters::choose(100, 0.6, 0.5, None), Err(ParametersError::None(..))));
    }

    proptest! {
        #[test]
        fn chosen_parameters_meet_their_bounds(n in 3u32..3000, dropout in 0.0f64..0.5, colluding in 0.0f64..0.4) {
            let Ok(chosen) = Parameters::choose(n, dropout, colluding, None) else { return Ok(()) };
            prop_assert!(chosen.neighbours < n && chosen.neighbours <= 255);
            prop_assert!(chosen.complete() || chosen.neighbours % 2 == 0);
            prop_assert!(chosen.threshold >= 2 && chosen.threshold <= chosen.neighbours);
            prop_assert!(chosen.exposure <= EXPOSURE && chosen.abort <= ABORT);
            if chosen.complete() {
                prop_assert!(chosen.neighbours - chosen.dropped >= chosen.threshold);
                prop_assert!(chosen.colluding < chosen.threshold);
            }
        }
    }
}
