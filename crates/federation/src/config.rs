//! Settings that models trained in a federation share.

use crate::participation::ParticipationConfig;
use crate::aggregation::Chosen;
use crate::privacy::{self, Training};
use crate::{
    Cohort, Configuration, Disclosure, Downloads, FederationError, PrivacyEngine, PiSpread, Schedule, Population,
};
use sottovoce_core::Rng;
use sottovoce_models::settings::{Setting, Settings};
use sottovoce_privacy::SecureRng;
use sottovoce_protocol::{DisclosureMode, Policy, ValueEncoding};

/// Ways to write values.
const VALUES: &[&str] = &["f32", "f16", "i8-row", "i8-table"];

/// Who is asked, for how long, what owners let leave, and how it travels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Common {
    /// Who is asked into a round; `None`: as the model says.
    pub(crate) cohort: Option<Cohort>,
    /// Epochs.
    pub(crate) epochs: usize,
    /// Mean pi of the owners.
    pub(crate) pi: f64,
    /// How pi varies around it.
    pub(crate) pi_spread: PiSpread,
    /// How often it is drawn what leaves by it.
    pub(crate) pi_draw: DisclosureMode,
    /// How devices write the values they send.
    pub(crate) values: ValueEncoding,
    /// Who is asked, and what devices are like.
    pub(crate) attending: ParticipationConfig,
    /// How the shared model gets to devices.
    pub(crate) downloads: Downloads,
    /// How updates are added up.
    pub(crate) counting: Chosen,
    /// How updates are protected.
    pub(crate) with_privacy: with_privacy::Chosen,
    /// Share of owners who let figures be reported.
    pub(crate) reporting: f64,
}

impl Common {
    /// Their definitions; what an epoch is and how many make a good default is the model's to say.
    pub(crate) fn settings(epochs: i64, an_epoch: &'static str) -> Vec<Setting> {
        let mut all = vec![
            Setting::integer(
                "cohort",
                0,
                0..=1_000_000_000,
                "Devices asked into a round; 0: the model's own",
            ),
            Setting::real(
                "pi",
                1.0,
                0.0..=1.0,
                "Share of what an owner has from which is learnt what leaves the device",
            ),
            Setting::choice(
                "pi_spread",
                PiSpread::NAMES,
                "How pi varies from owner to owner, around the same mean",
            ),
            Setting::choice(
                "pi_draw",
                DisclosureMode::NAMES,
                "Whether that share is drawn once for good, or anew each round, of the rows that leave (the papers' way)",
            ),
            Setting::integer("epochs", epochs, 1..=10_000, an_epoch).on_log_scale(),
            Setting::choice("values", VALUES, "How devices write the values they send"),
            Setting::choice("download", VALUES, "How the server writes the values of the shared model"),
            Setting::switch(
                "differences",
                false,
                "Whether devices get only the rows that changed since the version they have",
            ),
            Setting::real(
                "least_change",
                0.0,
                0.0..=1.0,
                "With differences: rows that moved by no more than this share of their largest value wait",
            ),
        ];
        all.extend(Chosen::settings());
        all.extend(with_privacy::Chosen::settings());
        all.push(Setting::real(
            "reporting",
            1.0,
            0.0..=1.0,
            "Share of owners who let their devices report what a round asks for: samples, criteria",
        ));
        all.extend(ParticipationConfig::settings());
        all
    }

    /// From checked settings.
    pub(crate) fn read(settings: &Settings) -> Self {
        Self {
            cohort: chosen(settings, "cohort").map(Cohort::Count),
            epochs: settings.integer("epochs"),
            pi: settings.real("pi"),
            pi_spread: PiSpread::named(settings.word("pi_spread")).unwrap_or(PiSpread::Fixed),
            pi_draw: DisclosureMode::named(settings.word("pi_draw")).unwrap_or_default(),
            values: encoding(settings.word("values")),
            attending: ParticipationConfig::read(settings),
            downloads: Downloads {
                values: encoding(settings.word("download")),
                differences: settings.switch("differences"),
                least_change: settings.real("least_change") as f32,
            },
            counting: Chosen::read(settings),
            with_privacy: with_privacy::Chosen::read(settings),
            reporting: settings.real("reporting"),
        }
    }

    /// The server's part of with_privacy so many rounds of so many updates in a population.
    pub(crate) fn privacy_engine(
        &self,
        (expected, population): (usize, usize),
        rounds: u64,
        key: Option<&str>,
        generator: SecureRng,
    ) -> Result<Option<PrivacyEngine>, FederationError> {
        let (asked, uniform) = (self.attending.rules().ask(expected), self.attending.is_uniform());
        let training = Training { expected, asked, population, rounds, uniform };
        self.with_privacy.privacy_engine(&training, key, generator)
    }

    /// The policies of a population.
    pub(crate) fn disclosure(&self, devices: usize, rng: &Rng) -> Result<Disclosure, FederationError> {
        let mut policy = Policy::new(self.pi)?;
        policy.disclosure = self.pi_draw;
        let disclosure = Disclosure::spread(policy, self.pi_spread, devices, rng);
        Ok(disclosure.reporting(self.reporting, devices, rng))
    }
}

/// How much a device does in a round, for models that learn from triples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    configuration: Configuration,
    /// Triples that a device draws in a round; `None`: as the configuration says.
    pub(crate) triples: Option<usize>,
}

impl Pace {
    /// The definitions of its settings.
    pub(crate) fn settings() -> [Setting; 2] {
        [
            Setting::choice(
                "configuration",
                Configuration::NAMES,
                "One device a round (s) or all (p); one triple, or with + as many as interactions a device",
            ),
            Setting::integer(
                "triples",
                0,
                0..=1_000_000,
                "Triples a device draws in a round; 0: as the configuration says",
            ),
        ]
    }

    /// From checked settings.
    pub(crate) fn read(settings: &Settings) -> Self {
        let configuration = Configuration::named(settings.word("configuration"));
        Self {
            configuration: configuration.unwrap_or(Configuration::ParallelPlus),
            triples: chosen(settings, "triples"),
        }
    }

    /// How a population's epoch is partition into rounds.
    pub(crate) fn schedule(&self, cohort: Option<Cohort>, population: &Population) -> Schedule {
        Schedule::of(self.configuration, population).with(cohort, self.triples, population)
    }
}

/// A number of which 0 means that the model decides.
pub(crate) fn chosen(settings: &Settings, key: &str) -> Option<usize> {
    Some(settings.integer(key)).filter(|&number| number > 0)
}

fn encoding(name: &str) -> ValueEncoding {
    let named = |encoding: &ValueEncoding| encoding.to_string() == name;
    ValueEncoding::ALL.into_iter().find(named).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_values_has_its_name() {
        assert_eq!(VALUES.iter().map(|name| encoding(name)).collect::<Vec<_>>(), ValueEncoding::ALL);
    }
}
