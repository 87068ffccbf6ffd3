//! Settings of how updates are protected, the same for every model trained in a federation.

use super::accounts::Accounts;
use super::{Guardian, Sampling};
use crate::FederationError;
use sottovoce_models::settings::{Setting, Settings};
use sottovoce_privacy::packing::RowsAs;
use sottovoce_privacy::{Generator, Integers, Noise, Placement, Protection, ProtectionError, Scheme, Seal};

/// How updates are protected, as it was set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chosen {
    clip: Option<f32>,
    noise: Option<Placement>,
    multiplier: f64,
    delta: f64,
    budget: Option<f64>,
    fixed: bool,
    seal: String,
    buckets: Option<u32>,
    range: f32,
    dropout: f64,
    colluding: f64,
    identities: bool,
    anonymous: bool,
}

impl Chosen {
    /// Their definitions.
    pub(crate) fn settings() -> Vec<Setting> {
        let mut all = noises();
        all.extend(seals());
        all
    }

    /// From checked settings.
    pub(crate) fn read(settings: &Settings) -> Self {
        let above_0 = |key| Some(settings.real(key)).filter(|&value| value > 0.0);
        Self {
            clip: above_0("clip").map(|clip| clip as f32),
            noise: Placement::named(settings.word("noise")),
            multiplier: settings.real("noise_multiplier"),
            delta: settings.real("delta"),
            budget: above_0("epsilon"),
            fixed: settings.word("sampling") == "fixed",
            seal: settings.word("seal").to_owned(),
            buckets: Some(settings.integer("buckets") as u32).filter(|&cells| cells > 0),
            range: settings.real("seal_range") as f32,
            dropout: settings.real("seal_dropout"),
            colluding: settings.real("seal_colluding"),
            identities: settings.switch("seal_identities"),
            anonymous: settings.switch("anonymous"),
        }
    }

    /// Whether nothing protects updates beyond their owners' policies.
    pub(crate) fn is_none(&self) -> bool {
        self.noise.is_none() && self.seal == "none" && !self.anonymous
    }

    /// The server's part for rounds of so many updates, for which so many devices are asked at most; `None` if nothing
    /// protects them. `key` is the digest of the key that devices share, where updates are encrypted.
    ///
    /// # Errors
    /// If the layers do not go together.
    pub(crate) fn guardian(
        &self,
        (expected, asked): (usize, usize),
        uniform: bool,
        key: Option<&str>,
        generator: Generator,
    ) -> Result<Option<Guardian>, FederationError> {
        if self.identities && self.seal != "secagg" {
            return Err(FederationError::Setting {
                key: "seal_identities",
                found: format!("true with seal = {}", self.seal),
                expected: "seal = secagg: only its keys are signed".to_owned(),
            });
        }
        if self.is_none() {
            return Ok(None);
        }
        if let Some(wrong) =
            key.filter(|key| !(key.len() == 64 && key.bytes().all(|b| b.is_ascii_hexdigit())))
        {
            return Err(FederationError::Setting {
                key: "seal_key_digest",
                found: wrong.to_owned(),
                expected: "64 hexadecimal digits, as `federation key` prints them".to_owned(),
            });
        }
        let protection = self.protection((expected, asked), key);
        protection.check()?;
        if self.identities {
            protection.seals(asked as u32)?;
        }
        if self.anonymous && protection.seal.is_some() {
            return Err(ProtectionError::AnonymousSeal.into());
        }
        let sampling = match (uniform, self.fixed) {
            (false, _) => Sampling::Uneven,
            (true, true) => Sampling::Fixed,
            (true, false) => Sampling::Poisson,
        };
        let accounts =
            protection.noise.map(|noise| Accounts::new(&noise, self.delta, self.budget)).transpose()?;
        let guardian = Guardian::new(protection, expected, sampling, accounts, generator);
        Ok(Some(if self.anonymous { guardian.anonymous() } else { guardian }))
    }

    fn protection(&self, (expected, asked): (usize, usize), key: Option<&str>) -> Protection {
        let noise = self.noise.map(|placement| Noise {
            placement,
            multiplier: self.multiplier,
            shares: match placement {
                Placement::Distributed => ((expected as f64 * (1.0 - self.dropout)).floor() as u32).max(1),
                _ => 1,
            },
        });
        let devices = if noise.is_some() && !self.fixed { with_luck(asked) } else { asked };
        let rows = self.buckets.map_or(RowsAs::Dense, RowsAs::Buckets);
        let integers = Integers { range: self.range, clip: self.clip, devices: devices as u32, rows };
        let encrypted = |scheme| Seal::Encryption { scheme, key: key.unwrap_or(&"0".repeat(64)).to_owned() };
        let seal = match self.seal.as_str() {
            "secagg" => Some(Seal::SecureAggregation {
                dropout: self.dropout,
                colluding: self.colluding,
                identities: self.identities,
            }),
            "bfv" => Some(encrypted(Scheme::Bfv)),
            "ckks" => Some(encrypted(Scheme::Ckks)),
            _ => None,
        };
        Protection { integers: Some(integers), noise, seal }
    }
}

/// Devices that come where each comes by its own chance: more than this in one of 10^14 rounds.
fn with_luck(expected: usize) -> usize {
    expected + (8.0 * (expected as f64).sqrt()).ceil() as usize + 8
}

fn noises() -> Vec<Setting> {
    vec![
        Setting::choice(
            "noise",
            &["none", "central", "local", "distributed"],
            "Differential privacy of whole histories: noise added by the server to the sum, by each device, or by each device its share (with a seal)",
        ),
        Setting::real(
            "clip",
            0.0,
            0.0..=1e6,
            "The longest update (norm of all its values); longer ones are cut down; 0: any",
        ),
        Setting::real("noise_multiplier", 1.0, 1e-3..=1e4, "With noise: its standard deviation, in clips")
            .on_log_scale(),
        Setting::real("delta", 1e-5, 1e-12..=0.1, "With noise: the delta for which epsilon is told")
            .on_log_scale(),
        Setting::real(
            "epsilon",
            0.0,
            0.0..=1e6,
            "With noise: training ends before it would spend more than this; 0: no bound",
        ),
        Setting::choice(
            "sampling",
            &["poisson", "fixed"],
            "With noise on sums: each device comes by its own chance, or cohorts have one size",
        ),
    ]
}

fn seals() -> Vec<Setting> {
    vec![
        Setting::choice(
            "seal",
            &["none", "secagg", "bfv", "ckks"],
            "What keeps the server from single updates: masks that cancel in the sum, or encryption under a key that devices share",
        ),
        Setting::integer(
            "buckets",
            0,
            0..=100_000_000,
            "With a seal: rows in so many hashed buckets a table instead of whole tables; 0: whole tables",
        ),
        Setting::real(
            "seal_range",
            8.0,
            1e-6..=1e6,
            "With a seal or noise: the largest value; larger ones are cut",
        )
        .on_log_scale(),
        Setting::real(
            "seal_dropout",
            0.3,
            0.0..=0.9,
            "With seal = secagg: share of a cohort that may be lost on the way",
        ),
        Setting::real(
            "seal_colluding",
            0.1,
            0.0..=0.9,
            "With seal = secagg: share of a cohort that may work with the server",
        ),
        Setting::switch(
            "seal_identities",
            false,
            "With seal = secagg: keys are signed by identities that devices know from elsewhere than the server, and who is counted is confirmed",
        ),
        Setting::switch(
            "anonymous",
            false,
            "Without a seal: uploads carry a one-time token of their round instead of the device's credential",
        ),
    ]
}
