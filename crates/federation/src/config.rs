//! Settings that all federated models share.

use crate::aggregation::AggregationConfig;
use crate::participation::SimulatedParticipation;
use crate::privacy::{PrivacySettings, SealKeys};
use crate::{Cohort, Coordinator, Disclosure, Downloads, FederationError, Population, PrivacyEngine, RoundRules};
use sottovoce_core::Rng;
use sottovoce_models::federated::{DynModel, Epochs, PublicFacts};
use sottovoce_models::settings::{Config, Setting, Value};
use sottovoce_models::{Tensor, choices, config};
use sottovoce_privacy::SecureRng;
use sottovoce_protocol::{DisclosureMode, Policy, ValueEncoding};

choices! {
    /// How pi varies over a population; its mean is the given one in any case.
    #[derive(Default)]
    pub enum PiSpread {
        /// Everyone has the same.
        #[default]
        Fixed => "fixed",
        /// Uniform on the widest interval around the mean within 0 to 1.
        Uniform => "uniform",
        /// Some disclose everything, the others nothing.
        AllOrNothing => "all-or-nothing",
    }
}

config! {
    /// What owners of simulated devices let leave them.
    pub(crate) struct OwnerConfig in Disclosure {
        /// Fraction of a user's items used to compute uploads
        pub(crate) pi: f64 = Policy::DEFAULT_PI, in 0.0..=1.0;
        /// How pi varies from user to user, around the same mean
        pi_spread: PiSpread = PiSpread::Fixed;
        /// Which items are disclosed: drawn once for all rounds, or anew each round, row by row (as in the papers)
        disclosure: DisclosureMode = DisclosureMode::Fixed => [was("pi_draw")];
        /// Fraction of users who let their devices report what a round asks for: samples, criteria
        reporting: f64 = 1.0, in 0.0..=1.0;
    }
}

config! {
    /// Settings of a simulated federation, whatever the model. A server takes those that are not about simulated
    /// devices.
    pub(crate) struct FederationConfig {
        /// Devices asked into a round; 0: the model's own default
        pub(crate) cohort: Option<usize> = None, in 0..=1_000_000_000;
        /// Epochs
        pub(crate) epochs: usize = 50, in 1..=10_000 => [log];
        /// Encoding of the values that devices send
        pub(crate) values: ValueEncoding = ValueEncoding::F32;
        /// Encoding of the shared model's values
        download: ValueEncoding = ValueEncoding::F32;
        /// Whether devices download only the rows that changed since the version they have
        differences: bool = false;
        /// With differences: rows that moved by no more than this fraction of their largest value wait
        min_change: f64 = 0.0, in 0.0..=1.0 => [was("least_change")];
        include
        /// How updates are weighted.
        pub(crate) aggregation: AggregationConfig = AggregationConfig::default();
        include
        /// How updates are protected.
        pub(crate) privacy: PrivacySettings = PrivacySettings::default();
        include
        /// When rounds end.
        pub(crate) round: RoundRules = RoundRules::default();
        include
        /// What owners disclose.
        pub(crate) owners: OwnerConfig = OwnerConfig::default();
        include
        /// What devices are like.
        pub(crate) participation: SimulatedParticipation = SimulatedParticipation::default();
    }
}

impl FederationConfig {
    /// The definitions, with the model's meaning of an epoch.
    pub(crate) fn schema_for(epochs: &Epochs) -> Vec<Setting> {
        let mut all = Self::default().schema();
        if let Some(setting) = all.iter_mut().find(|setting| setting.key == "epochs") {
            setting.help = epochs.help;
            setting.default = Value::Integer(epochs.default as i64);
        }
        all
    }

    /// Whether a setting is about simulated devices, or is their owners' to choose.
    pub(crate) fn is_of_devices(key: &str) -> bool {
        let owners = OwnerConfig::default().schema();
        let participation = SimulatedParticipation::default().schema();
        owners.iter().chain(&participation).any(|setting| setting.key == key || setting.aliases.contains(&key))
    }

    /// The cohort that was asked for, if one was.
    pub(crate) fn cohort(&self) -> Option<Cohort> {
        self.cohort.map(Cohort::Count)
    }

    /// The server's half with these rules, aggregation and downloads, and with this privacy engine.
    pub(crate) fn configured(
        &self,
        coordinator: Coordinator,
        engine: Option<PrivacyEngine>,
    ) -> Result<Coordinator, FederationError> {
        let &Self { download: values, differences, min_change, .. } = self;
        coordinator
            .with_rules(self.round)
            .with_aggregation(self.aggregation.aggregation()?)?
            .with_privacy(engine)?
            .with_downloads(Downloads { values, differences, min_change: min_change as f32 })
    }

    /// The server's half of the privacy layers for a model, for so many rounds of so many updates in a population.
    pub(crate) fn privacy_engine(
        &self,
        model: &DynModel,
        (expected, population): (usize, usize),
        rounds: u64,
        keys: &SealKeys<'_>,
        rng: SecureRng,
    ) -> Result<Option<PrivacyEngine>, FederationError> {
        let (asked, uniform) = (self.round.ask(expected), self.participation.is_uniform());
        let privacy = self.privacy.bounded(model.sensitivity(), model.sends_ones());
        privacy.check_passes(model.passes())?;
        privacy.engine((expected, asked, population), (rounds, uniform), model.budget_shares(), keys, rng)
    }

    /// Fills in the settings that were left to the model's rules, for a population and so many rounds; `earlier` is the
    /// model that training goes on from.
    pub(crate) fn fitted(
        &self,
        model: &DynModel,
        population: &Population,
        items: usize,
        rounds: Option<u64>,
        earlier: &[Tensor],
    ) -> DynModel {
        let people = population.devices.len();
        let noise = || {
            let schedule = model.schedule(self.cohort(), population);
            let rounds = rounds.unwrap_or((schedule.rounds * self.epochs) as u64);
            let rounds = if model.budget_shares().is_empty() { rounds } else { 1 };
            let sizes = (schedule.cohort.size(people), people);
            // What is wrong with these settings is said where the noise is made.
            let multiplier = self.privacy.noise_multiplier(sizes, rounds, self.participation.is_uniform());
            self.privacy.noise_on_sums(multiplier.unwrap_or_default(), sizes.0)
        };
        model.fitted(&PublicFacts { people, items, noise: &noise, earlier })
    }

    /// Whether what owners disclose of their items is drawn once for all rounds.
    pub(crate) fn discloses_items_once(&self) -> bool {
        self.owners.disclosure == DisclosureMode::Fixed
    }

    /// Whether no simulated device ever discloses anything.
    pub(crate) fn discloses_nothing(&self) -> bool {
        self.owners.pi == 0.0 && self.owners.disclosure == DisclosureMode::Fixed
    }

    /// The policies of a population.
    pub(crate) fn disclosure(&self, devices: usize, rng: &Rng) -> Result<Disclosure, FederationError> {
        let owners = &self.owners;
        let mut policy = Policy::new(owners.pi)?;
        policy.disclosure = owners.disclosure;
        let disclosure = Disclosure::spread(policy, owners.pi_spread, devices, rng);
        Ok(disclosure.reporting(owners.reporting, devices, rng))
    }
}
