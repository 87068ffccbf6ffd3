//! PrivacyConfig as round terms say it.

use super::{
    ANONYMOUS, BudgetPart, ENCRYPTION, KEEPER, NOISE, Noise, NoiseDistribution, PerExample, Placement, PrivacyConfig,
    PrivacyError, QUANTIZATION, Quantization, SECURE_AGGREGATION, Scheme, Seal, UPLOAD_RETENTION,
};
use crate::keeper::KeeperSeal;
use crate::quantize::RowLayout;
use crate::tokens::{from_hex, to_hex};
use sottovoce_protocol::{PrivacyLayer, PrivacyTerms, Settings};
use std::fmt::Display;
use std::str::FromStr;

impl PrivacyConfig {
    /// As round terms carry it.
    pub fn terms(&self) -> PrivacyTerms {
        let mut layers = Vec::new();
        if let Some(Quantization { range, clip, devices, rows }) = &self.quantization {
            let mut settings = Settings::from([setting("range", range), setting("devices", devices)]);
            settings.extend(clip.as_ref().map(|clip| setting("clip", clip)));
            match rows {
                RowLayout::Buckets(cells) => settings.extend([setting("buckets", cells)]),
                RowLayout::Table(table) => settings.extend([setting("table", table)]),
                RowLayout::Dense => {}
            }
            layers.push(PrivacyLayer { name: QUANTIZATION.to_owned(), settings });
        }
        if let Some(Noise { placement, distribution, multiplier, shares, count_noise, per_example, part }) = &self.noise
        {
            let mut settings = Settings::from([
                setting("placement", placement.name()),
                setting("shape", distribution.name()),
                setting("multiplier", part.map_or(*multiplier, |part| part.whole)),
            ]);
            if *placement == Placement::Distributed {
                settings.extend([setting("shares", shares)]);
            }
            settings.extend(part.map(|part| setting("part", part.fraction)));
            settings.extend(count_noise.as_ref().map(|deviation| setting("votes", deviation)));
            settings
                .extend(per_example.iter().flat_map(|of| [setting("clip", of.clip), setting("interactions", of.rate)]));
            layers.push(PrivacyLayer { name: NOISE.to_owned(), settings });
        }
        if let Some(seal) = &self.seal {
            let settings = match seal {
                Seal::SecureAggregation { dropout, colluding, identities } => {
                    let always = [setting("dropout", dropout), setting("colluding", colluding)];
                    always.into_iter().chain(identities.then(|| setting("identities", true))).collect()
                }
                Seal::Keeper(KeeperSeal { key, opener, least, colluding, identities }) => {
                    let keys = [setting("key", to_hex(key)), setting("opener", to_hex(opener))];
                    let always = [setting("least", least), setting("colluding", colluding)];
                    let identities = identities.then(|| setting("identities", true));
                    keys.into_iter().chain(always).chain(identities).collect()
                }
                Seal::Encryption { scheme, key } => {
                    Settings::from([setting("scheme", scheme.name()), setting("key", key)])
                }
            };
            layers.push(PrivacyLayer { name: seal.layer().to_owned(), settings });
        }
        PrivacyTerms { layers }
    }

    /// From round terms; ignores layers that do not change the update.
    ///
    /// # Errors
    /// If a layer is unknown, a setting is wrong, or layers are incompatible.
    pub fn read(terms: &PrivacyTerms) -> Result<Self, PrivacyError> {
        let mut found = Self::default();
        for layer in terms.layers.iter().filter(|layer| ![ANONYMOUS, UPLOAD_RETENTION].contains(&&*layer.name)) {
            match layer.name.as_str() {
                QUANTIZATION if found.is_none() => found.quantization = Some(read_quantization(&layer.settings)?),
                NOISE if found.noise.is_none() && found.seal.is_none() => {
                    found.noise = Some(read_noise(&layer.settings)?);
                }
                SECURE_AGGREGATION | KEEPER | ENCRYPTION if found.seal.is_none() => {
                    found.seal = Some(read_seal(&layer.name, &layer.settings)?);
                }
                _ => return Err(PrivacyError::Unknown(layer.name.clone())),
            }
        }
        found.check()?;
        Ok(found)
    }
}

fn setting(key: &str, value: impl Display) -> (String, String) {
    (key.to_owned(), value.to_string())
}

/// Reads one layer's settings.
struct Reader<'a> {
    layer: &'static str,
    settings: &'a Settings,
}

impl Reader<'_> {
    fn wrong(&self, key: &'static str, expected: &'static str) -> PrivacyError {
        let found = self.settings.get(key).cloned().unwrap_or_default();
        PrivacyError::Setting(self.layer, key, found, expected)
    }

    fn optional<T: FromStr>(
        &self,
        key: &'static str,
        fits: impl Fn(&T) -> bool,
        expected: &'static str,
    ) -> Result<Option<T>, PrivacyError> {
        let Some(text) = self.settings.get(key) else { return Ok(None) };
        text.parse().ok().filter(fits).map(Some).ok_or_else(|| self.wrong(key, expected))
    }

    fn needed<T: FromStr>(
        &self,
        key: &'static str,
        fits: impl Fn(&T) -> bool,
        expected: &'static str,
    ) -> Result<T, PrivacyError> {
        self.optional(key, fits, expected)?.ok_or_else(|| self.wrong(key, expected))
    }

    /// 32 bytes.
    fn key(&self, key: &'static str) -> Result<[u8; 32], PrivacyError> {
        let bytes = self.settings.get(key).and_then(|digits| from_hex(digits)?.try_into().ok());
        bytes.ok_or_else(|| self.wrong(key, "64 hexadecimal digits"))
    }
}

const POSITIVE: &str = "a number above 0";

fn read_quantization(settings: &Settings) -> Result<Quantization, PrivacyError> {
    let from = Reader { layer: QUANTIZATION, settings };
    let positive = |value: &f32| value.is_finite() && *value > 0.0;
    let cells = from.optional("buckets", |&cells: &u32| cells > 0, "a number of buckets")?;
    let table = from.optional("table", |_: &u32| cells.is_none(), "the number of a table, and no buckets")?;
    Ok(Quantization {
        range: from.needed("range", positive, POSITIVE)?,
        clip: from.optional("clip", positive, POSITIVE)?,
        devices: from.needed("devices", |&devices: &u32| devices > 0, "a number of devices")?,
        rows: cells.map(RowLayout::Buckets).or(table.map(RowLayout::Table)).unwrap_or_default(),
    })
}

fn read_noise(settings: &Settings) -> Result<Noise, PrivacyError> {
    let from = Reader { layer: NOISE, settings };
    let placement = settings.get("placement").and_then(|name| Placement::named(name));
    let placement = placement.ok_or_else(|| from.wrong("placement", "central, local, distributed or sgd"))?;
    let distribution = settings.get("shape").and_then(|name| NoiseDistribution::named(name));
    let distribution = distribution.ok_or_else(|| from.wrong("shape", "gaussian or laplace"))?;
    let positive = |value: &f64| value.is_finite() && *value > 0.0;
    let shares = match placement {
        Placement::Distributed => from.needed("shares", |&shares: &u32| shares > 0, "a number of devices")?,
        _ => 1,
    };
    let per_example = match placement {
        Placement::Sgd => Some(PerExample {
            clip: from.needed("clip", |clip: &f32| clip.is_finite() && *clip > 0.0, POSITIVE)?,
            rate: from.needed("interactions", |rate| positive(rate) && *rate <= 1.0, "a share up to 1")?,
        }),
        _ => None,
    };
    let whole = from.needed("multiplier", positive, POSITIVE)?;
    let noise = Noise {
        placement,
        distribution,
        multiplier: whole,
        shares,
        count_noise: from.optional("votes", positive, POSITIVE)?,
        per_example,
        part: None,
    };
    let fraction = from.optional("part", |part| positive(part) && *part <= 1.0, "a fraction up to 1")?;
    Ok(fraction.map_or(noise, |fraction| noise.spending(BudgetPart { whole, fraction })))
}

fn read_seal(name: &str, settings: &Settings) -> Result<Seal, PrivacyError> {
    if name == SECURE_AGGREGATION {
        let from = Reader { layer: SECURE_AGGREGATION, settings };
        let share = |value: &f64| (0.0..1.0).contains(value);
        return Ok(Seal::SecureAggregation {
            dropout: from.needed("dropout", share, "a share below 1")?,
            colluding: from.needed("colluding", share, "a share below 1")?,
            identities: from.optional("identities", |_: &bool| true, "true or false")?.unwrap_or(false),
        });
    }
    if name == KEEPER {
        let from = Reader { layer: KEEPER, settings };
        return Ok(Seal::Keeper(KeeperSeal {
            key: from.key("key")?,
            opener: from.key("opener")?,
            least: from.needed("least", |&least: &u32| least > 0, "a number of devices")?,
            colluding: from.needed("colluding", |share: &f64| (0.0..1.0).contains(share), "a share below 1")?,
            identities: from.optional("identities", |_: &bool| true, "true or false")?.unwrap_or(false),
        }));
    }
    let from = Reader { layer: ENCRYPTION, settings };
    let scheme = match settings.get("scheme").map(String::as_str) {
        Some("bfv") => Scheme::Bfv,
        Some("ckks") => Scheme::Ckks,
        _ => return Err(from.wrong("scheme", "bfv or ckks")),
    };
    let hex = |key: &String| key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    Ok(Seal::Encryption { scheme, key: from.needed("key", hex, "64 hexadecimal digits")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_protocol::Layout;

    fn kept(identities: bool) -> Seal {
        Seal::Keeper(KeeperSeal { key: [1; 32], opener: [0xab; 32], least: 30, colluding: 0.1, identities })
    }

    fn all() -> Vec<PrivacyConfig> {
        let integers = Quantization { range: 8.0, clip: None, devices: 100, rows: RowLayout::Dense };
        let clipped = Quantization { clip: Some(0.5), ..integers };
        let noise = |placement, shares| Some(Noise { shares, ..Noise::new(placement, 1.5) });
        let sgd = Noise { per_example: Some(PerExample { clip: 0.25, rate: 0.1 }), ..Noise::new(Placement::Sgd, 2.0) };
        let masks = Seal::SecureAggregation { dropout: 0.3, colluding: 0.1, identities: false };
        let known = Seal::SecureAggregation { dropout: 0.2, colluding: 0.1, identities: true };
        let encrypted = Seal::Encryption { scheme: Scheme::Bfv, key: "0a".repeat(32) };
        let buckets = Quantization { rows: RowLayout::Buckets(500), ..integers };
        vec![
            PrivacyConfig::default(),
            PrivacyConfig { quantization: Some(integers), seal: Some(masks.clone()), noise: None },
            PrivacyConfig { quantization: Some(buckets), seal: Some(encrypted.clone()), noise: None },
            PrivacyConfig { quantization: Some(clipped), noise: noise(Placement::Central, 1), seal: Some(encrypted) },
            PrivacyConfig { quantization: Some(clipped), noise: noise(Placement::Local, 1), seal: None },
            PrivacyConfig {
                quantization: Some(clipped),
                noise: noise(Placement::Distributed, 70),
                seal: Some(masks.clone()),
            },
            PrivacyConfig { quantization: Some(integers), noise: Some(sgd), seal: None },
            PrivacyConfig {
                quantization: Some(clipped),
                noise: Some(Noise { count_noise: Some(9.5), shares: 70, ..Noise::new(Placement::Distributed, 1.5) }),
                seal: Some(masks),
            },
            PrivacyConfig { quantization: Some(integers), seal: Some(known), noise: None },
            PrivacyConfig { quantization: Some(integers), seal: Some(kept(false)), noise: None },
            PrivacyConfig {
                quantization: Some(clipped),
                noise: noise(Placement::Distributed, 70),
                seal: Some(kept(true)),
            },
            PrivacyConfig {
                quantization: Some(Quantization { rows: RowLayout::Table(1), ..clipped }),
                noise: noise(Placement::Central, 1),
                seal: None,
            },
            PrivacyConfig {
                quantization: Some(clipped),
                noise: Some(Noise { distribution: NoiseDistribution::Laplace, ..Noise::new(Placement::Local, 1.5) }),
                seal: None,
            },
        ]
    }

    #[test]
    fn terms_round_trip() {
        for config in all() {
            assert_eq!(PrivacyConfig::read(&config.terms()), Ok(config));
        }
    }

    #[test]
    fn rejects_incompatible_layers() {
        let [_, sealed, bucketed, central, local, distributed, sgd, ..] = <[_; 13]>::try_from(all()).unwrap();
        let changed = |of: &PrivacyConfig, change: &dyn Fn(Noise) -> Noise| PrivacyConfig {
            noise: of.noise.map(change),
            ..of.clone()
        };
        let wrong = [
            (
                PrivacyConfig { quantization: None, ..sealed.clone() },
                "\"secure-aggregation\" needs the layer \"integers\"",
            ),
            (PrivacyConfig { noise: central.noise, ..sealed.clone() }, "without a clip"),
            (PrivacyConfig { seal: None, ..distributed.clone() }, "needs a seal"),
            (
                PrivacyConfig {
                    quantization: bucketed.quantization.map(|integers| Quantization { clip: Some(1.0), ..integers }),
                    ..central.clone()
                },
                "do not go with noise",
            ),
            (changed(&sgd, &|noise| Noise { count_noise: Some(2.0), ..noise }), "whole updates only"),
            (changed(&local, &|noise| Noise { placement: Placement::Sgd, ..noise }), "setting \"clip\""),
            (
                changed(&distributed, &|noise| Noise { distribution: NoiseDistribution::Laplace, ..noise }),
                "do not add up to it",
            ),
            (
                changed(&sgd, &|noise| Noise { distribution: NoiseDistribution::Laplace, ..noise }),
                "do not add up to it",
            ),
            (
                changed(&local, &|noise| Noise {
                    distribution: NoiseDistribution::Laplace,
                    count_noise: Some(2.0),
                    ..noise
                }),
                "say of their lengths",
            ),
        ];
        for (config, expected) in wrong {
            let error = PrivacyConfig::read(&config.terms()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn names_unknown_layers_and_settings() {
        let mut terms = all()[1].terms();
        terms.layers[1].settings.insert("dropout".to_owned(), "most".to_owned());
        let error = PrivacyConfig::read(&terms).unwrap_err();
        assert_eq!(
            error.to_string(),
            "privacy layer \"secure-aggregation\": setting \"dropout\" is \"most\", expected a share below 1"
        );
        terms.layers.remove(1);
        terms.layers.push(PrivacyLayer { name: "onions".to_owned(), ..PrivacyLayer::default() });
        assert_eq!(PrivacyConfig::read(&terms), Err(PrivacyError::Unknown("onions".to_owned())));
        let layout = Layout::new(vec![]).unwrap();
        let error = all()[1].quantizer(&layout, 101).unwrap_err();
        assert_eq!(error, PrivacyError::Cohort(101, 100));
    }
}
