//! The server's half of a federation, whether its devices are simulated or real.
//!
//! A round: [`draw`](Coordinator::draw) a cohort, send it the [`terms`](Coordinator::terms), let it download the
//! [`offer`](Coordinator::offer), add up its updates, and [`apply`](Coordinator::apply) the sum, or
//! [`skip`](Coordinator::skip) the round if too little came. Nothing here waits, reads a clock or sends anything.

use crate::announcement::RoundAnnouncement;
use crate::divergence;
use crate::downloads::ModelDistribution;
use crate::state::{put_f32s, put_u64s, take_f32s, take_numbers, unfit};
use crate::{
    Aggregate, Aggregation, Cohort, CohortSelector, Downloads, FederationError, Offer, OrderedAggregator,
    PrivacyEngine, RoundRules, SelectedCohort, Strategy, strategy,
};
use sottovoce_client::streams;
use sottovoce_core::Rng;
use sottovoce_models::federated::AggregationSpec;
use sottovoce_models::{ClusterFigures, Privacy};
use sottovoce_privacy::{PrivacyMechanism, SecureRng};
use sottovoce_protocol::{Layout, ModelVersion, Parameters, RoundId, RoundTerms, SharedModel, TermsDraft};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// The shared model, the strategy, and the rules by which cohorts are drawn.
pub struct Coordinator {
    pub(crate) strategy: Box<dyn Strategy>,
    cohort: Cohort,
    pub(crate) shared: SharedModel,
    pub(crate) distribution: ModelDistribution,
    pub(crate) layout: Layout,
    pub(crate) announcement: RoundAnnouncement,
    pub(crate) selector: CohortSelector,
    pub(crate) rules: RoundRules,
    aggregation: Aggregation,
    pub(crate) privacy_engine: Option<PrivacyEngine>,
    /// Larger values of the shared model say that training diverged.
    largest_value: f32,
    /// Rounds whose cohorts do not overlap: of an epoch, or of one of its passes.
    disjoint: Option<u64>,
    /// How many times an epoch everybody is asked, each time for another table.
    passes: u64,
    /// Bytes of the longest quantised update that any round so far asked for, or was tried with.
    largest_message: u64,
    rng: Rng,
    /// Other ways to read a round's sums, and the models that they made of the last round's.
    readouts: (Vec<AggregationSpec>, Vec<Parameters>),
    /// Standard deviation of the noise on the last round's sums.
    noise: f64,
    /// From which cohorts are drawn, if not from the seed that all may know.
    cohort_secret: Option<SecureRng>,
}

impl Coordinator {
    /// Before the first round, with nobody to ask; `terms` are what all rounds have in common.
    pub fn new(strategy: Box<dyn Strategy>, start: Parameters, terms: TermsDraft, cohort: Cohort, rng: Rng) -> Self {
        let shared = SharedModel { federation: terms.federation, version: ModelVersion(0), parameters: start };
        let aggregation = Aggregation { identified: strategy.identifies_devices(), ..Aggregation::default() };
        Self {
            strategy,
            cohort,
            layout: shared.parameters.layout(),
            distribution: ModelDistribution::plain(),
            shared,
            announcement: RoundAnnouncement::new(terms),
            selector: CohortSelector::new(Vec::new()),
            rules: RoundRules::default(),
            aggregation,
            privacy_engine: None,
            largest_value: f32::MAX,
            disjoint: None,
            passes: 1,
            largest_message: 0,
            rng,
            readouts: Default::default(),
            noise: 0.0,
            cohort_secret: None,
        }
    }

    /// The same with other rules for asking and for the end of a round.
    #[must_use]
    pub fn with_rules(mut self, rules: RoundRules) -> Self {
        self.rules = rules;
        self
    }

    /// The same that takes larger values of the shared model than this for divergence. (A server does not go by losses:
    /// one device that lies about its own could stop everybody.)
    #[must_use]
    pub fn stopping_at(mut self, largest_value: f32) -> Self {
        self.largest_value = largest_value;
        self
    }

    /// The same whose cohorts do not overlap within an epoch of so many rounds, if the model asks for that; where an
    /// epoch has several passes, each for another table, within a pass.
    #[must_use]
    pub fn asking_once(mut self, asks_once: bool, rounds: usize, passes: usize) -> Self {
        self.passes = if asks_once { passes.max(1) as u64 } else { 1 };
        self.disjoint = asks_once.then_some((rounds as u64 / self.passes).max(1));
        self
    }

    /// The same that also reads each round's sums in these ways, to compare them.
    #[must_use]
    pub(crate) fn with_readouts(mut self, readouts: Vec<AggregationSpec>) -> Self {
        self.readouts.0 = readouts;
        self
    }

    /// The models that other ways of reading made of the last round's sums, and the deviation of the noise on those.
    pub(crate) fn read(&mut self) -> (Vec<Parameters>, f64) {
        (std::mem::take(&mut self.readouts.1), self.noise)
    }

    /// The models that other ways of reading make of a round's sums; the strategy has not seen it yet.
    fn read_otherwise(&self, round: RoundId, aggregate: &Aggregate) -> io::Result<Vec<Parameters>> {
        let mut memory = Vec::new();
        if !self.readouts.0.is_empty() {
            self.strategy.save(&mut memory)?;
        }
        let read = |spec: &AggregationSpec| {
            let (mut strategy, mut shared) = (strategy::build(*spec), self.shared.parameters.clone());
            strategy.restore(&shared, &mut &memory[..])?;
            if let Some(rounds) = self.disjoint {
                strategy.begin_round(round.0 / rounds);
            }
            strategy.apply(&mut shared, aggregate);
            Ok(shared)
        };
        self.readouts.0.iter().map(read).collect()
    }

    /// The largest value of a sound shared model.
    pub fn largest_value(&self) -> f32 {
        self.largest_value
    }

    /// The same with another aggregation.
    ///
    /// # Errors
    /// If it does not go with the strategy.
    pub fn with_aggregation(mut self, aggregation: Aggregation) -> Result<Self, FederationError> {
        self.aggregation = match self.strategy.identifies_devices() {
            true => aggregation.identifying()?,
            false => aggregation,
        };
        Ok(self)
    }

    /// From now on does not wait for what the strategy computes on other threads, unless its settings say so: for
    /// servers, which have devices waiting. Results then depend on how fast that is.
    pub fn never_wait(&mut self) {
        self.strategy.never_wait();
    }

    /// What came of clustering, where the strategy finds clusters.
    pub fn clusters(&self) -> Option<&ClusterFigures> {
        self.strategy.clusters()
    }

    /// The same with a privacy engine, if there is one; call it after [`with_aggregation`](Self::with_aggregation).
    ///
    /// # Errors
    /// If the layers do not go together or with how updates are added up, or leave no room for so many devices.
    pub fn with_privacy(mut self, privacy_engine: Option<PrivacyEngine>) -> Result<Self, FederationError> {
        self.privacy_engine = privacy_engine;
        for table in 1..self.passes as u32 {
            if let Some(engine) = &mut self.privacy_engine {
                engine.ask_for(table);
            }
            self.protect_as_it_is()?;
        }
        self.protect()?;
        Ok(self)
    }

    /// Applies the privacy engine's configuration to the round that is next, for the table that it asks for.
    fn protect(&mut self) -> Result<(), FederationError> {
        if let (Some(engine), Some(rounds)) = (&mut self.privacy_engine, self.disjoint.filter(|_| self.passes > 1)) {
            engine.ask_for((self.announcement.round.0 / rounds % self.passes) as u32);
        }
        self.protect_as_it_is()
    }

    /// Where rounds ask for one table each, takes up that of the round that is next.
    pub(crate) fn take_up_table(&mut self) {
        if self.passes > 1 {
            let protected = self.protect();
            debug_assert!(protected.is_ok(), "every table was tried before the first round");
        }
    }

    /// Applies the privacy engine's configuration, from the next round on.
    fn protect_as_it_is(&mut self) -> Result<(), FederationError> {
        let Some(privacy_engine) = &self.privacy_engine else { return Ok(()) };
        if let Some(sum) = privacy_engine.quantized_sum(&self.layout)? {
            self.largest_message = self.largest_message.max(sum.mechanism.message_bytes());
            self.aggregation = self.aggregation.clone().protected(Arc::new(sum))?;
        }
        self.announcement.protect(privacy_engine.config().terms());
        Ok(())
    }

    /// An empty sum for the next round's updates that was one of an earlier round.
    pub(crate) fn renew(&self, aggregate: &mut Aggregate) {
        aggregate.renew(&self.aggregation);
    }

    /// How updates are protected, if they are.
    pub fn privacy(&self) -> Option<&PrivacyMechanism> {
        self.aggregation.privacy()
    }

    /// Bytes of the longest quantised update that rounds ask for.
    pub fn largest_message(&self) -> u64 {
        self.largest_message
    }

    /// Whether uploads do not say whose they are: a server then gives each device of a cohort one token.
    pub fn is_anonymous(&self) -> bool {
        self.privacy_engine.as_ref().is_some_and(PrivacyEngine::is_anonymous)
    }

    /// Records that these devices took part in the round; call it before [`apply`](Self::apply).
    ///
    /// # Errors
    /// If the privacy accountant fails.
    pub fn record_participants(&mut self, cohort: &[u32]) -> Result<(), FederationError> {
        self.privacy_engine.as_mut().map_or(Ok(()), |privacy_engine| privacy_engine.record_participants(cohort))
    }

    /// Whether differential privacy is accounted for.
    fn accounts(&self) -> bool {
        self.privacy_engine.as_ref().is_some_and(|privacy_engine| privacy_engine.accountant.is_some())
    }

    /// The differential privacy spent so far, if there is any.
    pub fn privacy_spent(&self) -> Option<Privacy> {
        self.privacy_engine.as_ref().and_then(PrivacyEngine::spent)
    }

    /// The same with another way to bring the shared model to devices.
    ///
    /// # Errors
    /// If its values cannot be written that way.
    pub fn with_downloads(mut self, downloads: Downloads) -> Result<Self, FederationError> {
        self.distribution = ModelDistribution::new(downloads, &self.shared)?;
        Ok(self)
    }

    /// Sets which devices may be asked from now on, ascending, all with the same probability.
    pub fn ask_among(&mut self, devices: Vec<u32>) {
        self.selector = CohortSelector::new(devices);
    }

    /// The same with cohorts drawn by weight, one a device that may be asked.
    ///
    /// # Errors
    /// If there is not one weight a device, or a weight is negative or not finite, or all are 0.
    pub fn with_weights(mut self, weights: &[f64]) -> Result<Self, FederationError> {
        self.selector = self.selector.weighted(weights)?;
        Ok(self)
    }

    /// Names and shapes of the shared model's tables.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The shared model.
    pub fn shared(&self) -> &SharedModel {
        &self.shared
    }

    /// The shared model as devices hold it that have its current version.
    pub fn distributed(&self) -> &SharedModel {
        self.distribution.held(&self.shared)
    }

    /// The round that is next, or under way.
    pub fn round(&self) -> RoundId {
        self.announcement.round
    }

    /// The rules for asking and for the end of a round.
    pub fn rules(&self) -> RoundRules {
        self.rules
    }

    /// Updates that the next round wants.
    pub fn wanted(&self) -> usize {
        let population = self.selector.population().len();
        let wanted = self.cohort.size(population);
        match &self.privacy_engine {
            Some(privacy_engine) => privacy_engine.wanted(wanted, population, &self.randomness()),
            None => wanted,
        }
    }

    /// Updates that a round wants on average: where cohorts are drawn by chance, a single one may want far fewer.
    pub fn expected(&self) -> usize {
        self.cohort.size(self.selector.population().len())
    }

    /// Sums have room for so many devices; more would all have to be turned away.
    fn room(&self) -> usize {
        let quantization = self.privacy().and_then(|privacy| privacy.config().quantization);
        quantization.map_or(usize::MAX, |quantization| quantization.devices as usize)
    }

    /// The most updates that a round wants, however many devices there are; `None`: any number.
    pub fn most_updates(&self) -> Option<usize> {
        let everybody = u32::MAX as usize;
        Some(self.cohort.size(everybody).min(self.room())).filter(|&most| most < everybody)
    }

    /// What a device needs to know of the model that it downloads without taking part in a round: terms without a
    /// round, criteria or layers of privacy, because nothing leaves.
    ///
    /// # Errors
    /// If they cannot be sent.
    pub fn model_terms(&self) -> Result<RoundTerms, FederationError> {
        let (federation, model) = self.announcement.model();
        let draft = TermsDraft { federation, model: model.clone(), ..TermsDraft::default() };
        Ok(RoundTerms::freeze(draft)?.for_round(self.round(), self.shared.version, 0))
    }

    /// Whether another round may be held: not if it would spend more than there is.
    ///
    /// # Errors
    /// If the budget of differential privacy does not allow it.
    pub fn check_budget(&self) -> Result<(), FederationError> {
        self.check_budget_of(self.selector.population().len())
    }

    /// The same with so many devices.
    ///
    /// # Errors
    /// As [`check_budget`](Self::check_budget).
    pub fn check_budget_of(&self, population: usize) -> Result<(), FederationError> {
        match &self.privacy_engine {
            Some(privacy_engine) => privacy_engine.may_spend(self.cohort.size(population), population),
            None => Ok(()),
        }
    }

    /// What to change after divergence.
    pub fn advice(&self) -> String {
        self.strategy.advice()
    }

    /// Randomness of the next round. Where cohorts are drawn in secret, each round has numbers of its own: who knows
    /// those of some rounds, and the seed that all know, cannot foretell another's.
    pub(crate) fn randomness(&self) -> Rng {
        let round = self.round().0;
        match &self.cohort_secret {
            Some(secret) => Rng::new(secret.stream(streams::COHORT, round).next_u64()),
            None => self.rng.stream(streams::ROUND, round),
        }
    }

    /// The same with cohorts that follow from a secret instead of from the seed of the federation. Amplification by
    /// sampling holds only against those who cannot tell who was asked.
    #[must_use]
    pub fn drawing_in_secret(self, secret: SecureRng) -> Self {
        Self { cohort_secret: Some(secret), ..self }
    }

    /// The cohort of the next round, of devices that can be reached.
    pub fn draw(&mut self, reachable: &dyn Fn(u32) -> bool) -> SelectedCohort<'_> {
        let rng = self.randomness();
        self.draw_attempt(&rng, 0, Some(reachable))
    }

    /// One attempt at the cohort of the next round, whose randomness is given; without a condition every device can be
    /// reached. The only place where cohorts are drawn, simulated or deployed.
    pub(crate) fn draw_attempt(
        &mut self,
        round: &Rng,
        attempt: u64,
        reachable: Option<&dyn Fn(u32) -> bool>,
    ) -> SelectedCohort<'_> {
        let ask = self.rules.ask(self.wanted()).min(self.room());
        let everybody = |_: u32| true;
        // Noise on sums is accounted for by how cohorts are drawn otherwise.
        if let Some(rounds) = self.disjoint.filter(|&rounds| rounds > 1 && !self.accounts()) {
            let (epoch, index) = (self.round().0 / rounds, self.round().0 % rounds);
            let order = self.rng.stream(streams::GROUPS, epoch);
            return self.selector.take_group((index, rounds), ask, &order, reachable.unwrap_or(&everybody));
        }
        let rng = &mut round.stream(streams::COHORT, attempt);
        match reachable {
            Some(reachable) => self.selector.draw_reachable(ask, rng, reachable),
            None => SelectedCohort { cohort: self.selector.draw(ask, rng), unavailable: 0 },
        }
    }

    /// The terms of the next round for so many devices.
    ///
    /// # Errors
    /// If they cannot be sent.
    pub fn terms(&mut self, asked: usize) -> Result<RoundTerms, FederationError> {
        let terms = self.announcement.freeze(self.shared.version, asked)?;
        self.announcement.put_back(terms.clone());
        Ok(terms)
    }

    /// An empty sum for a round's updates.
    pub fn empty_aggregate(&self) -> Aggregate {
        Aggregate::with(&self.layout, &self.aggregation)
    }

    /// To add up what a cohort sends, one device after the other.
    pub fn ordered_aggregator<'a>(&self, cohort: &'a [u32]) -> OrderedAggregator<'a> {
        OrderedAggregator::new(&self.layout, cohort, &self.aggregation)
    }

    /// What devices are given to train on.
    pub fn offer(&self) -> Offer<'_> {
        Offer::new(&self.distribution, &self.shared, &self.layout)
    }

    /// Moves to the next round with the shared model as it is.
    pub fn skip(&mut self) {
        let round = RoundId(self.round().0 + 1);
        self.set_round(round);
    }

    /// Continues with this round, as found in a record.
    pub fn set_round(&mut self, round: RoundId) {
        self.announcement.set_round(round);
        self.take_up_table();
    }

    /// Applies a round's aggregate: the next version of the shared model. The round's number stays.
    ///
    /// # Errors
    /// If training diverged, or the shared model cannot be sent.
    pub fn apply(&mut self, round: RoundId, aggregate: &mut Aggregate) -> Result<(), FederationError> {
        if let Some(privacy_engine) = &mut self.privacy_engine {
            let population = self.selector.population().len();
            let moved = privacy_engine.open(round, aggregate, (self.cohort.size(population), population))?;
            if moved {
                self.protect()?;
            }
        }
        aggregate.finish();
        self.noise = aggregate.noise;
        let read = self.read_otherwise(round, aggregate);
        self.readouts.1 = read.map_err(|error| FederationError::Start(error.to_string()))?;
        if let Some(rounds) = self.disjoint {
            self.strategy.begin_round(round.0 / rounds);
        }
        self.strategy.apply(&mut self.shared.parameters, aggregate);
        self.shared.version = ModelVersion(self.shared.version.0 + 1);
        if self.strategy.changes_unsent_rows() {
            aggregate.touch_all();
        }
        let values = (&self.shared.parameters, &*aggregate);
        divergence::check_values(round.0, values, self.largest_value)?;
        self.distribution.follow(&self.shared, aggregate)
    }

    /// Writes the state between two rounds.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        let fingerprint = u64::from(self.layout.fingerprint());
        put_u64s(out, &[fingerprint, self.shared.version.0, self.round().0])?;
        for table in self.shared.parameters.tables() {
            put_f32s(out, table.values())?;
        }
        self.save_memory(out)
    }

    /// Writes the state beside the shared model and the round's number.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save_memory(&self, out: &mut dyn Write) -> io::Result<()> {
        self.distribution.save(out)?;
        self.strategy.save(out)?;
        self.privacy_engine.as_ref().map_or(Ok(()), |privacy_engine| privacy_engine.save(out))
    }

    /// Restores what [`save`](Self::save) wrote, from a coordinator with the same settings. After an error this one is
    /// unusable.
    ///
    /// # Errors
    /// If it cannot be read, or is of another kind of federation.
    pub fn restore(&mut self, from: &mut dyn Read) -> io::Result<()> {
        let [fingerprint, version, round] = take_numbers(from)?;
        if fingerprint != u64::from(self.layout.fingerprint()) {
            return Err(unfit("the shared model has other tables"));
        }
        for table in self.shared.parameters.tables_mut() {
            take_f32s(from, table.values_mut())?;
        }
        self.announcement.set_round(RoundId(round));
        self.restore_memory(ModelVersion(version), from)
    }

    /// Continues from a version of the shared model that was stored elsewhere, and what
    /// [`save_memory`](Self::save_memory) wrote with it.
    ///
    /// # Errors
    /// If it cannot be read, or is of another kind of federation.
    pub fn resume(&mut self, version: ModelVersion, parameters: Parameters, memory: &mut dyn Read) -> io::Result<()> {
        parameters.check(&self.layout).map_err(|error| unfit(error.to_string()))?;
        self.shared.parameters = parameters;
        self.restore_memory(version, memory)
    }

    /// Returns to an earlier version under a new number. Devices then download the whole model, round numbers continue,
    /// and the privacy budget that was spent stays spent: the models were published.
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    pub fn go_back(&mut self, number: ModelVersion, parameters: Parameters, memory: &mut dyn Read) -> io::Result<()> {
        let accountant = self.privacy_engine.as_ref().and_then(|privacy_engine| privacy_engine.accountant.clone());
        let resumed = self.resume(number, parameters, memory);
        if let Some(privacy_engine) = &mut self.privacy_engine {
            privacy_engine.accountant = accountant;
        }
        resumed?;
        self.distribution.forget_past();
        Ok(())
    }

    fn restore_memory(&mut self, version: ModelVersion, from: &mut dyn Read) -> io::Result<()> {
        self.shared.version = version;
        self.distribution.restore(version, from)?;
        self.strategy.restore(&self.shared.parameters, from)?;
        if let Some(privacy_engine) = &mut self.privacy_engine {
            privacy_engine.restore(from)?;
            self.protect().map_err(|error| unfit(error.to_string()))?;
        }
        Ok(())
    }
}
