//! Comparing the protection of a round with that which a device has kept of its federation.

use crate::keeper::KeeperSeal;
use crate::tokens::{anonymous_root, to_hex};
use crate::{
    ANONYMOUS, NOISE, NoiseDistribution, Placement, PrivacyConfig, PrivacyError, QUANTIZATION, Seal, UPLOAD_RETENTION,
};
use sha2::{Digest, Sha256};
use sottovoce_protocol::{PrivacyLayer, PrivacyTerms, RoundTerms, TermsDraft, codec};

/// The layers of a round without what differs from round to round: the clip where it follows the updates, the part of a
/// budget that rounds share unequally, and the key of one round's tokens. What stays of the latter is the federation's
/// key that it is derived from.
///
/// # Errors
/// If the key of the round's tokens is not derived from the federation's.
pub fn lasting(terms: &RoundTerms) -> Result<PrivacyTerms, PrivacyError> {
    let root = anonymous_root(terms)?;
    let mut layers = terms.privacy.layers.clone();
    for PrivacyLayer { name, settings } in &mut layers {
        match name.as_str() {
            // A round of a budget that rounds share unequally sends one table.
            QUANTIZATION => settings.retain(|key, _| key != "clip" && key != "table"),
            NOISE => drop(settings.remove("part")),
            ANONYMOUS => settings.retain(|key, _| key == "root"),
            _ => (),
        }
    }
    debug_assert_eq!(root.is_some(), layers.iter().any(|layer| layer.name == ANONYMOUS));
    Ok(PrivacyTerms { layers })
}

/// A short digest of a federation's [`lasting`] layers, for its enrolment tokens: the devices that get them learn what
/// the federation was founded with from whoever hands the tokens out.
///
/// # Errors
/// As [`lasting`].
pub fn commitment(terms: &RoundTerms) -> Result<String, PrivacyError> {
    let draft = TermsDraft { federation: terms.federation, privacy: lasting(terms)?, ..TermsDraft::default() };
    let mut bytes = Vec::new();
    // Terms without what differs from round to round are no longer than those they were made from.
    if let Ok(founding) = RoundTerms::freeze(draft) {
        codec::encode_terms(&founding, &mut bytes);
    }
    let digest = Sha256::new_with_prefix(b"sottovoce founding 1").chain_update(&bytes).finalize();
    Ok(to_hex(&digest[..16]))
}

/// In what the layers offered protect less than those kept, in words for the owner; both [`lasting`].
///
/// # Errors
/// If layers cannot be read.
pub fn weaker(kept: &PrivacyTerms, offered: &PrivacyTerms) -> Result<Vec<String>, PrivacyError> {
    let (before, now) = (read(kept)?, read(offered)?);
    let mut found = Vec::new();
    seals(before.seal.as_ref(), now.seal.as_ref(), &mut found);
    noises(&before, &now, &mut found);
    let layer = |terms: &PrivacyTerms, name: &str| terms.layers.iter().find(|layer| layer.name == name).cloned();
    match (layer(kept, ANONYMOUS), layer(offered, ANONYMOUS)) {
        (Some(_), None) => found.push("uploads would say whose they are".to_owned()),
        (Some(before), Some(now)) if before != now => {
            found.push(
                "the federation's key for tokens is another one: a key of its own would name the device".to_owned(),
            );
        }
        _ => (),
    }
    if layer(offered, UPLOAD_RETENTION).is_some() && layer(kept, UPLOAD_RETENTION).is_none() {
        found.push("the server would keep every upload".to_owned());
    }
    Ok(found)
}

/// The clip was left out; noise cannot be read without one.
fn read(terms: &PrivacyTerms) -> Result<PrivacyConfig, PrivacyError> {
    let mut terms = terms.clone();
    let is_whole = !terms.layers.iter().any(|layer| {
        layer.name == NOISE && layer.settings.get("placement").is_some_and(|at| at == Placement::Sgd.name())
    });
    for layer in terms.layers.iter_mut().filter(|layer| layer.name == QUANTIZATION && is_whole) {
        layer.settings.insert("clip".to_owned(), "1".to_owned());
    }
    PrivacyConfig::read(&terms)
}

fn seals(before: Option<&Seal>, now: Option<&Seal>, found: &mut Vec<String>) {
    use Seal::{Encryption, Keeper, SecureAggregation};
    match (before, now) {
        (None, _) => (),
        (Some(_), None) => found.push("the server would see single updates: the seal is gone".to_owned()),
        (Some(SecureAggregation { .. } | Keeper(_)), Some(Encryption { .. })) => {
            found.push("encryption in place of secure aggregation".to_owned());
        }
        (Some(Encryption { .. }), Some(SecureAggregation { .. } | Keeper(_))) => (),
        (Some(SecureAggregation { .. }), Some(Keeper(_))) => {
            found.push(
                "a keeper: with it the server could open single updates, which until now took devices".to_owned(),
            );
        }
        (Some(Keeper(kept)), Some(SecureAggregation { identities, .. })) => {
            if kept.identities && !identities {
                found.push("secure aggregation without identities".to_owned());
            }
        }
        (Some(Keeper(kept)), Some(Keeper(offered))) => keepers(kept, offered, found),
        (Some(before @ Encryption { .. }), Some(now @ Encryption { .. })) => {
            if before != now {
                found.push("encryption by another scheme, or under another key".to_owned());
            }
        }
        (
            Some(SecureAggregation { dropout, colluding, identities }),
            Some(SecureAggregation { dropout: more, colluding: fewer, identities: signed }),
        ) => {
            if *identities && !signed {
                found.push("secure aggregation without identities".to_owned());
            }
            if more > dropout {
                found.push(format!("a share of {more} instead of {dropout} may drop out: fewer shares open a mask"));
            }
            if fewer < colluding {
                found.push(format!("safe from a share of {fewer} instead of {colluding} that collude"));
            }
        }
    }
}

fn keepers(kept: &KeeperSeal, offered: &KeeperSeal, found: &mut Vec<String>) {
    if kept.key != offered.key {
        found.push(format!("another keeper: the key {} instead of {}", to_hex(&offered.key), to_hex(&kept.key)));
    }
    if kept.opener != offered.opener {
        found.push("another server that may ask the keeper".to_owned());
    }
    if kept.identities && !offered.identities {
        found.push("a keeper that does not know the devices: seeds without identities".to_owned());
    }
    if offered.least < kept.least {
        found.push(format!("sums of {} instead of {} updates may be opened", offered.least, kept.least));
    }
    if offered.colluding < kept.colluding {
        found.push(format!("safe from a share of {} instead of {} that collude", offered.colluding, kept.colluding));
    }
}

fn noises(before: &PrivacyConfig, now: &PrivacyConfig, found: &mut Vec<String>) {
    let Some(kept) = before.noise else { return };
    let Some(offered) = now.noise else {
        found.push("the noise is gone".to_owned());
        return;
    };
    let is_central = |placement| placement == Placement::Central;
    if kept.placement != offered.placement && !is_central(kept.placement) {
        found.push(format!("noise {} instead of {}", offered.placement.name(), kept.placement.name()));
    }
    if offered.multiplier < kept.multiplier {
        found.push(format!("a noise multiplier of {} instead of {}", offered.multiplier, kept.multiplier));
    }
    if offered.shares > kept.shares && offered.placement == kept.placement {
        found.push(format!("noise in {} instead of {} shares", offered.shares, kept.shares));
    }
    if kept.distribution == NoiseDistribution::Laplace && offered.distribution != kept.distribution {
        found.push("Gaussian noise instead of Laplace".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::RowLayout;
    use crate::tokens::{Issuer, Scope, anonymous_layer};
    use crate::{BudgetPart, Noise, Quantization};
    use sottovoce_protocol::{FederationId, RoundId};

    fn terms(config: &PrivacyConfig) -> PrivacyTerms {
        lasting(&RoundTerms::freeze(TermsDraft { privacy: config.terms(), ..TermsDraft::default() }).unwrap()).unwrap()
    }

    fn sealed() -> PrivacyConfig {
        let integers = Quantization { range: 8.0, clip: Some(1.0), devices: 100, rows: RowLayout::Dense };
        let noise = Noise { shares: 70, ..Noise::new(Placement::Distributed, 0.5) };
        let seal = Seal::SecureAggregation { dropout: 0.3, colluding: 0.1, identities: true };
        PrivacyConfig { quantization: Some(integers), noise: Some(noise), seal: Some(seal) }
    }

    #[test]
    fn names_each_weakening() {
        let of = |change: &dyn Fn(&mut PrivacyConfig)| {
            let mut offered = sealed();
            change(&mut offered);
            weaker(&terms(&sealed()), &terms(&offered)).unwrap()
        };
        assert!(of(&|_| ()).is_empty());
        let central = |config: &mut PrivacyConfig| config.noise = Some(Noise::new(Placement::Central, 0.5));
        let seal = |dropout, colluding, identities| Some(Seal::SecureAggregation { dropout, colluding, identities });
        type Change<'a> = &'a dyn Fn(&mut PrivacyConfig);
        let cases: [(&str, Change<'_>); 8] = [
            ("the seal is gone", &|config| {
                central(config);
                config.seal = None;
            }),
            ("noise central instead of distributed", &central),
            ("the noise is gone", &|config| config.noise = None),
            ("multiplier of 0.4", &|config| config.noise.as_mut().unwrap().multiplier = 0.4),
            ("71 instead of 70 shares", &|config| config.noise.as_mut().unwrap().shares = 71),
            ("without identities", &|config| config.seal = seal(0.3, 0.1, false)),
            ("may drop out", &|config| config.seal = seal(0.4, 0.1, true)),
            ("that collude", &|config| config.seal = seal(0.3, 0.05, true)),
        ];
        for (expected, change) in cases {
            let found = of(change).join("; ");
            assert!(found.contains(expected), "{expected}: {found}");
        }
        // More is not less, and neither is a clip that moves.
        assert!(of(&|config| config.seal = seal(0.2, 0.2, true)).is_empty());
        assert!(of(&|config| config.quantization.as_mut().unwrap().clip = Some(3.0)).is_empty());
        assert!(weaker(&PrivacyTerms::default(), &terms(&sealed())).unwrap().is_empty());
    }

    #[test]
    fn names_each_change_of_a_keeper() {
        let kept = KeeperSeal { key: [1; 32], opener: [2; 32], least: 50, colluding: 0.1, identities: true };
        let with = |seal| terms(&PrivacyConfig { seal: Some(seal), ..sealed() });
        let of = |change: &dyn Fn(&mut KeeperSeal)| {
            let mut offered = kept;
            change(&mut offered);
            weaker(&with(Seal::Keeper(kept)), &with(Seal::Keeper(offered))).unwrap().join("; ")
        };
        assert_eq!(of(&|_| ()), "");
        assert_eq!(of(&|keeper| (keeper.least, keeper.colluding) = (60, 0.2)), "");
        assert!(of(&|keeper| keeper.key = [3; 32]).contains("another keeper: the key 0303"));
        assert!(of(&|keeper| keeper.opener = [3; 32]).contains("another server"));
        assert!(of(&|keeper| keeper.identities = false).contains("does not know the devices"));
        assert!(of(&|keeper| keeper.least = 49).contains("sums of 49 instead of 50"));
        assert!(of(&|keeper| keeper.colluding = 0.05).contains("that collude"));
        // A second party in the place of none, and back again.
        let masks = |identities| Seal::SecureAggregation { dropout: 0.3, colluding: 0.1, identities };
        let between = |kept: Seal, offered: Seal| weaker(&with(kept), &with(offered)).unwrap().join("; ");
        assert!(between(masks(true), Seal::Keeper(kept)).contains("a keeper"));
        assert_eq!(between(Seal::Keeper(kept), masks(true)), "");
        assert!(between(Seal::Keeper(kept), masks(false)).contains("without identities"));
    }

    #[test]
    fn rounds_that_share_a_budget_are_those_of_one_federation() {
        let of = |whole, fraction, table| {
            let mut config = sealed();
            config.noise = config.noise.map(|noise| noise.spending(BudgetPart { whole, fraction }));
            config.quantization.as_mut().unwrap().rows = RowLayout::Table(table);
            assert_eq!(PrivacyConfig::read(&config.terms()).unwrap(), config);
            RoundTerms::freeze(TermsDraft { privacy: config.terms(), ..TermsDraft::default() }).unwrap()
        };
        let (first, second) = (of(0.7, 0.2, 0), of(0.7, 0.8, 1));
        assert_eq!(lasting(&first), lasting(&second));
        assert_eq!(commitment(&first), commitment(&second));
        let found = weaker(&lasting(&first).unwrap(), &lasting(&of(0.6, 0.2, 0)).unwrap()).unwrap();
        assert!(found.join("; ").contains("a noise multiplier of 0.6 instead of 0.7"), "{found:?}");
    }

    #[test]
    fn tokens_keys_of_all_rounds_have_one_root() {
        let of = |master: u8, round: u64| {
            let integers = Quantization { range: 8.0, clip: None, devices: 100, rows: RowLayout::Dense };
            let mut privacy = PrivacyConfig { quantization: Some(integers), ..PrivacyConfig::default() }.terms();
            let scope = Scope { federation: FederationId(7), round: RoundId(round) };
            privacy.layers.push(anonymous_layer(&Issuer::new([master; 32], scope)));
            let draft =
                TermsDraft { federation: FederationId(7), round: RoundId(round), privacy, ..TermsDraft::default() };
            RoundTerms::freeze(draft).unwrap()
        };
        assert_ne!(of(1, 3).privacy, of(1, 4).privacy);
        assert_eq!(lasting(&of(1, 3)), lasting(&of(1, 4)));
        assert_eq!(commitment(&of(1, 3)), commitment(&of(1, 4)));
        assert_ne!(commitment(&of(1, 3)), commitment(&of(2, 3)));
        let kept = lasting(&of(1, 3)).unwrap();
        assert_eq!(weaker(&kept, &lasting(&of(2, 4)).unwrap()).unwrap().len(), 1);
        // The key of one round, or of another federation's, does not pass for another's.
        let moved = of(1, 3).for_round(RoundId(4), Default::default(), 1);
        assert!(lasting(&moved).is_err());
    }
}
