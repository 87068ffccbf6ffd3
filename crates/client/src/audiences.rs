//! A client's half of audiences: what it answers to a measurement's question, and its ledger's entry of a report.

use crate::{ClientError, Declined, LoadedModel};
use sottovoce_core::History;
use sottovoce_models::federated::audience_size::Question;
use sottovoce_privacy::dp::accountant::{Accountant, Round};
use sottovoce_privacy::{ANONYMOUS, Noise, NoiseDistribution, Placement, PrivacyConfig, Quantization, Seal};
use sottovoce_protocol::{
    AUDIENCE_DELTA, DisclosureError, DisclosureSeeds, FederationId, Keyed, Layout, Ledger, Parameters, Policy,
    PrivacyLayer, PrivacyTerms, RoundId, RoundTerms, Shape, TermsDraft, Trained,
};

/// The layer of a report in the ledger: the device may have said the opposite of what is true.
pub const RANDOMISED_RESPONSE: &str = "randomised-response";

/// Drop-outs that a measurement may allow for: with more, too little of the noise would be left.
const MOST_DROPOUT: f64 = 0.5;

/// The scores by which a device decides: of each category the model's, 1 for those in the history, 0 for those that
/// `leaves_out` names.
///
/// # Errors
/// If the model, the shared model or the history do not fit.
pub fn category_scores(
    model: &LoadedModel,
    shared: &Parameters,
    history: History<'_>,
    leaves_out: impl Fn(u32) -> bool,
) -> Result<Vec<f32>, ClientError> {
    let mut scores = vec![0.0; model.items(shared)];
    model.score(shared, &vec![0.0; model.private_values()], history, &mut scores)?;
    history.iter().for_each(|&category| scores[category as usize] = 1.0);
    for (category, score) in (0..).zip(&mut scores) {
        if leaves_out(category) || !score.is_finite() {
            *score = 0.0;
        }
    }
    Ok(scores)
}

/// The score that decides a question; categories that the catalog does not have count as 0.
pub fn question_score(question: &Question, scores: &[f32]) -> f32 {
    question.score(|category| scores.get(category as usize).copied().unwrap_or(0.0))
}

/// Epsilon of a measurement, computed from the noise that devices add and not from what the server says it is.
///
/// # Errors
/// If answers are not sealed, or the noise is not what an answer of norm 1 needs.
pub fn measurement_epsilon(privacy: &PrivacyConfig, cohort: u32) -> Result<f64, Declined> {
    let refused = |why: &str| Err(Declined::terms(format!("a measurement {why}")));
    let Some(Seal::SecureAggregation { dropout, .. }) = privacy.seal else {
        return refused("without secure aggregation, in which single answers could be read");
    };
    let Some(Quantization { clip: Some(clip), range, .. }) = privacy.quantization else {
        return refused("without a bound on an answer");
    };
    let Some(Noise { placement: Placement::Distributed, distribution, multiplier, shares, count_noise: None, .. }) =
        privacy.noise
    else {
        return refused("without noise by the devices themselves");
    };
    if distribution != NoiseDistribution::Gaussian || clip.to_bits() != 1.0f32.to_bits() || range < 1.0 {
        return refused("with noise that is not meant for an answer of 0 or 1");
    }
    if dropout > MOST_DROPOUT || f64::from(shares) > (f64::from(cohort) * (1.0 - dropout)).floor().max(1.0) {
        return refused("in which too few devices could make up the noise");
    }
    let mut accountant = Accountant::default();
    let spent = accountant.record(Round::Poisson { rate: 1.0, multiplier }, 1);
    spent.and_then(|()| accountant.epsilon(AUDIENCE_DELTA)).map(|spent| spent.tight).map_err(Declined::terms)
}

/// Records in the ledger that a report to an audience leaves, in this rotation and at this time.
///
/// # Errors
/// If the ledger cannot take it; then nothing may leave.
pub fn record_report(
    (federation, rotation): (FederationId, u64),
    audience: &str,
    (when, bytes): (u64, u64),
    ledger: &mut Ledger,
) -> Result<(), DisclosureError> {
    // Not a round, but disclosed by the same types as one.
    let layer = |name: &str| PrivacyLayer { name: name.to_owned(), ..PrivacyLayer::default() };
    let draft = TermsDraft {
        federation,
        round: RoundId(rotation),
        privacy: PrivacyTerms { layers: vec![layer(RANDOMISED_RESPONSE), layer(ANONYMOUS)] },
        ..TermsDraft::default()
    };
    let terms = RoundTerms::freeze(draft).map_err(|_| DisclosureError::TooLarge(bytes, 0))?;
    let shape = Shape::new(&format!("audience {audience}"), 1, 1, Keyed::Dense);
    let layout = Layout::new(vec![shape]).map_err(|_| DisclosureError::TooLarge(bytes, 0))?;
    let mut report = Trained::new(&layout);
    report.whole(0).map_err(|_| DisclosureError::TooLarge(bytes, 0))?.fill(1.0);
    let seeds = DisclosureSeeds { per_round: 0, fixed: 0 };
    let Ok(policy) = Policy::new(1.0) else { return Ok(()) };
    report.disclose_wrapped(&policy, &terms, (when, Some(bytes)), ledger, seeds).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_privacy::quantize::{Packing, RowLayout};

    fn honest() -> PrivacyConfig {
        PrivacyConfig {
            quantization: Some(Quantization {
                range: 1.0,
                clip: Some(1.0),
                devices: 1000,
                rows: RowLayout::Dense,
                packing: Packing::Words,
            }),
            noise: Some(Noise { shares: 700, ..Noise::new(Placement::Distributed, 40.0) }),
            seal: Some(Seal::SecureAggregation { dropout: 0.3, colluding: 0.1, identities: false }),
        }
    }

    #[test]
    fn epsilon_follows_from_the_noise() {
        let of = |config: &PrivacyConfig| measurement_epsilon(config, 1000).map_err(|declined| declined.to_string());
        let epsilon = of(&honest()).unwrap();
        assert!(epsilon > 0.05 && epsilon < 0.11, "{epsilon}");
        let less = PrivacyConfig { noise: honest().noise.map(|noise| Noise { multiplier: 1e-3, ..noise }), ..honest() };
        assert!(of(&less).is_err() || of(&less).unwrap() > 1e3);
        let changed = |change: &dyn Fn(&mut PrivacyConfig)| {
            let mut config = honest();
            change(&mut config);
            of(&config).unwrap_err()
        };
        assert!(changed(&|config| config.seal = None).contains("single answers"));
        assert!(changed(&|config| config.noise = None).contains("devices themselves"));
        assert!(changed(&|config| config.noise = Some(Noise::new(Placement::Central, 40.0))).contains("themselves"));
        let shares = |config: &mut PrivacyConfig| config.noise.as_mut().unwrap().shares = 701;
        assert!(changed(&shares).contains("too few devices"));
        let clip = |config: &mut PrivacyConfig| config.quantization.as_mut().unwrap().clip = Some(0.1);
        assert!(changed(&clip).contains("0 or 1"));
        let dropout = |config: &mut PrivacyConfig| {
            config.seal = Some(Seal::SecureAggregation { dropout: 0.9, colluding: 0.0, identities: false });
            config.noise.as_mut().unwrap().shares = 100;
        };
        assert!(changed(&dropout).contains("too few devices"));
    }

    #[test]
    fn reports_are_in_the_ledger() {
        let mut ledger = Ledger::new();
        record_report((FederationId(3), 20_000), "ski fans", (1_700_000_000, 16), &mut ledger).unwrap();
        let entry = ledger.entries().next().unwrap();
        assert_eq!(
            (entry.round, entry.bytes, entry.tables[0].name.as_str()),
            (RoundId(20_000), 16, "audience ski fans")
        );
        assert_eq!(entry.layers, [RANDOMISED_RESPONSE, ANONYMOUS]);
    }
}
