//! Audiences: measurements that the device answers, and segment ids that it reports.
//!
//! The device decides alone whether it is in an audience, from what its policy discloses. It fetches the list without
//! saying who it is, asks for a token of every audience whether it is in it or not, and reports with a token, at a
//! random moment, over a connection that never carried its credential.

use super::Device;
use super::requests::{Invitation, RequestKind};
use crate::DeviceError;
use crate::audiences::{Audience, AudienceList, Report, Segment, Spending};
use crate::history::DeviceFigures;
use sottovoce_client::{
    Declined, DeviceRound, LoadedModel, Outcome, Randomness, category_scores, measurement_epsilon, question_score,
    record_report,
};
use sottovoce_core::{History, math};
use sottovoce_models::federated::audience_size::{self, AudienceSizeConfig, Question};
use sottovoce_models::settings::{Choice as _, Config as _};
use sottovoce_privacy::tokens::{BlindedElement, Scope, TokenRequest, TokenResponse};
use sottovoce_privacy::{PrivacyConfig, SecureRng};
use sottovoce_protocol::{Ledger, ModelSpec, Parameters, RoundId, RoundTerms, SharedModel};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of an audience's number in messages.
const NUMBER: usize = 8;
/// Seconds before the end of a rotation after which nothing is sent any more.
const MARGIN: u64 = 60;

/// An audience, as the owner sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct AudienceMembership {
    /// Its name.
    pub name: String,
    /// Titles of its categories, or their ids.
    pub categories: Vec<String>,
    /// `any` or `all` of them.
    pub matching: &'static str,
    /// The score from which on a device is in it.
    pub threshold: f32,
    /// When it ends, in seconds since 1970.
    pub expires: u64,
    /// The owner's score; `None` before there is a model.
    pub score: Option<f32>,
    /// Whether the device counts itself in.
    pub is_in: bool,
    /// Whether the owner has left it.
    pub left: bool,
    /// Whether it names a category that the owner excludes.
    pub excluded: bool,
}

/// What a measuring round asks.
pub(super) struct Measurement {
    question: Question,
    scored_by: ModelSpec,
    audience: String,
}

impl Measurement {
    fn read(terms: &RoundTerms) -> Result<(Self, AudienceSizeConfig), Declined> {
        let config = AudienceSizeConfig::from_terms(&terms.model).map_err(Declined::terms)?;
        let question = Question::read(&config).map_err(Declined::terms)?;
        let scored_by = config.scoring_model().map_err(Declined::terms)?;
        Ok((Self { question, scored_by, audience: config.audience.clone() }, config))
    }

    fn what(&self) -> String {
        match self.audience.as_str() {
            "" => "a measurement of thresholds".to_owned(),
            name => format!("a measurement of {name}"),
        }
    }
}

/// Whether terms are those of a measuring round.
pub(super) fn measures(terms: &RoundTerms) -> bool {
    terms.model.name == audience_size::NAME
}

/// The model whose shared parameters a round's terms are for.
pub(super) fn shared_model(terms: &RoundTerms) -> Result<ModelSpec, Declined> {
    match measures(terms) {
        true => Measurement::read(terms).map(|(measurement, _)| measurement.scored_by),
        false => Ok(terms.model.clone()),
    }
}

impl Device {
    /// That the owner agreed to a measurement like this one.
    pub(super) fn check_measurement(&self, terms: &RoundTerms, privacy: &PrivacyConfig) -> Result<(), Declined> {
        let (_, config) = Measurement::read(terms)?;
        let policy = &self.policy.audiences;
        let least = u32::try_from(config.least_published).unwrap_or(u32::MAX);
        policy.check_published(least).map_err(Declined::terms)?;
        let epsilon = measurement_epsilon(privacy, terms.cohort_size)?;
        let last_day = self.state.audiences.last_day(self.clock.as_secs());
        policy.check_epsilon(epsilon, last_day).map_err(Declined::terms)
    }

    /// Answers a measurement's question.
    pub(super) fn run_measurement(
        &self,
        invitation: &Invitation,
        shared: &Arc<SharedModel>,
        when: u64,
        ledger: &mut Ledger,
    ) -> Result<(Outcome, Spending), Declined> {
        let terms = &invitation.terms;
        let (measurement, _) = Measurement::read(terms)?;
        let privacy = PrivacyConfig::read(&terms.privacy).map_err(Declined::terms)?;
        let epsilon = measurement_epsilon(&privacy, terms.cohort_size)?;
        let has_left = self.policy.audiences.left.contains(&measurement.audience);
        let cell = match has_left {
            true => None,
            false => {
                let scores = self.scores(&measurement.scored_by, &shared.parameters)?;
                measurement.question.cell(question_score(&measurement.question, &scores))
            }
        };
        let mut model = self.load_model(&terms.model)?;
        let layout = model.layout(measurement.question.thresholds.len()).map_err(Declined::terms)?;
        let counts = SharedModel {
            federation: terms.federation,
            version: terms.version,
            parameters: Parameters::zeros(&layout),
        };
        // What is disclosed was chosen when the score was computed: all of the answer leaves.
        let mut policy = self.state.policy.clone();
        policy.set_pi(1.0).map_err(Declined::terms)?;
        let round = DeviceRound {
            terms,
            shared: &Arc::new(counts),
            digest: invitation.digest,
            history: cell.as_slice().into(),
            figures: &DeviceFigures { rows: &self.rows, items: self.items.as_deref(), now: when },
            policy: &policy,
            randomness: &self.state.randomness(&terms.model.name, terms.round, self.fresh()?),
            key: None,
            identity: self.signing_identity(),
            client_index: invitation.client_index,
            when,
        };
        let outcome = model.run_round(&round, (None, None), ledger);
        self.options.models.release(model);
        Ok((outcome?, Spending { when, epsilon, what: measurement.what() }))
    }

    /// The score of each category, computed from what the policy discloses, as everything that leaves is.
    fn scores(&self, model: &ModelSpec, shared: &Parameters) -> Result<Vec<f32>, Declined> {
        let seed = self.state.randomness(&model.name, RoundId(0), [0; 32]).fixed_disclosure();
        let history: Vec<u32> = self.policy.disclosed_items(&self.rows.rows, seed).collect();
        let excluded: Vec<u32> = self.excluded_rows();
        let leaves_out = |category: u32| self.policy.hides(category) || excluded.contains(&category);
        let loaded: LoadedModel = self.load_model(model)?;
        let (pages, mut kept) = (self.page_vectors(&loaded), Vec::new());
        // As in a round: pages about what is withheld are not read.
        let is_withheld = |category: u32| {
            leaves_out(category)
                || self.rows.rows.binary_search(&category).is_ok() && history.binary_search(&category).is_err()
        };
        let read = pages.history(&history).pages.without(is_withheld, &mut kept);
        let scores = category_scores(&loaded, shared, History { pages: read, ..(&history).into() }, leaves_out);
        self.options.models.release(loaded);
        Ok(scores?)
    }

    fn excluded_rows(&self) -> Vec<u32> {
        let excluded = self.policy.audiences.excluded.iter();
        excluded.filter_map(|id| self.items.as_ref()?.find(id)).collect()
    }

    /// The score that decides whether the device is in an audience; `None` before there is a model.
    fn score_of(&self, audience: &Audience, scores: Option<&Vec<f32>>) -> Option<f32> {
        let (items, scores) = (self.items.as_ref()?, scores?);
        let categories = audience.categories.iter().map(|id| items.find(id)).collect::<Option<Vec<u32>>>()?;
        let question = Question { categories, matching: audience.matching, thresholds: vec![audience.threshold] };
        Some(question_score(&question, scores))
    }

    /// Scores by the model of a list.
    fn list_scores(&self, list: &AudienceList) -> Option<Vec<f32>> {
        self.scores(&list.model, &self.shared.as_ref()?.model.parameters).ok()
    }

    fn names_excluded(&self, audience: &Audience) -> bool {
        audience
            .categories
            .iter()
            .any(|id| self.policy.audiences.excluded.contains(id) || self.state.hidden.contains(id))
    }

    /// The audiences that the server last offered, and whether this device is in them. Needs no network.
    ///
    /// # Errors
    /// With the reason if there is no list that the owner agreed to.
    pub fn audiences(&self) -> Result<Vec<AudienceMembership>, String> {
        let state = &self.state.audiences;
        if !state.refusal.is_empty() {
            return Err(state.refusal.clone());
        }
        if state.list.is_empty() {
            return Ok(Vec::new());
        }
        let list = AudienceList::parse(&state.list)?;
        let scores = self.list_scores(&list);
        let title = |id: &String| {
            let items = self.items.as_ref();
            let found = items.and_then(|items| items.title(items.find(id)? as usize));
            found.map_or_else(|| id.clone(), str::to_owned)
        };
        let describe = |audience: &Audience| {
            let score = self.score_of(audience, scores.as_ref());
            let left = self.policy.audiences.left.contains(&audience.name);
            let excluded = self.names_excluded(audience);
            AudienceMembership {
                name: audience.name.clone(),
                categories: audience.categories.iter().map(title).collect(),
                matching: audience.matching.name(),
                threshold: audience.threshold,
                expires: audience.expires,
                score,
                is_in: score.is_some_and(|score| score >= audience.threshold) && !left && !excluded,
                left,
                excluded,
            }
        };
        Ok(list.audiences.iter().map(describe).collect())
    }

    /// Segment ids that the device has reported; those of the last rotation are in use.
    pub fn segments(&self) -> &[Segment] {
        &self.state.audiences.segments
    }

    /// What measurements and reports may have said about the owner: the latest ones, and epsilon of all.
    pub fn audience_account(&self) -> (&[Spending], f64) {
        (&self.state.audiences.account, self.state.audiences.epsilon)
    }

    /// The owner agrees to take part in audiences.
    ///
    /// # Errors
    /// If the change cannot be stored.
    pub fn join_audiences(&mut self) -> Result<(), DeviceError> {
        self.update(|state| {
            state.policy.audiences.takes_part = true;
            state.audiences.window = None;
        })?;
        self.end_wait();
        Ok(())
    }

    /// The owner comes back to an audience; returns whether they had left it.
    ///
    /// # Errors
    /// If the change cannot be stored.
    pub fn rejoin_audience(&mut self, name: &str) -> Result<bool, DeviceError> {
        self.update(|state| state.policy.audiences.left.remove(name))
    }

    /// The owner leaves one audience: nothing about it leaves the device any more.
    ///
    /// # Errors
    /// If the change cannot be stored.
    pub fn leave_audience(&mut self, name: &str) -> Result<(), DeviceError> {
        self.update(|state| {
            state.policy.audiences.left.insert(name.to_owned());
            state.audiences.reports.retain(|report| report.name != name);
        })
    }

    /// The owner leaves all audiences and takes part in no measurement.
    ///
    /// # Errors
    /// If the change cannot be stored.
    pub fn leave_audiences(&mut self) -> Result<(), DeviceError> {
        self.update(|state| {
            state.policy.audiences.takes_part = false;
            state.audiences.reports.clear();
            (state.audiences.list, state.audiences.refusal) = (String::new(), String::new());
        })
    }

    /// Excludes a category: it never counts, and audiences that name it get no report.
    ///
    /// # Errors
    /// If the catalog does not know it, or the change cannot be stored.
    pub fn exclude_category(&mut self, id: &str) -> Result<(), DeviceError> {
        if self.items.as_ref().is_some_and(|items| items.find(id).is_none()) {
            return Err(DeviceError::UnknownItem(id.to_owned()));
        }
        self.update(|state| {
            state.policy.audiences.excluded.insert(id.to_owned());
            // They were decided before.
            state.audiences.reports.clear();
        })
    }

    /// The next request about audiences, if one is due.
    pub(super) fn next_audience_request(&mut self, now: Duration) -> Result<Option<RequestKind>, DeviceError> {
        if !self.policy.audiences.takes_part {
            return Ok(None);
        }
        let seconds = now.as_secs();
        if let Some(index) = self.state.audiences.reports.iter().position(|report| report.at <= seconds) {
            return self.next_report(index, seconds).map(Some);
        }
        if self.list_is_due(seconds) {
            return Ok(Some(RequestKind::Audiences));
        }
        let list = AudienceList::parse(&self.state.audiences.list).ok();
        let wants = list.is_some_and(|list| {
            !list.audiences.is_empty() && self.state.audiences.rotation.is_none_or(|last| last < list.rotation)
        });
        Ok(wants.then_some(RequestKind::AudienceTokens))
    }

    /// Whether to fetch the list: once in each of the owner's least rotations, at a random moment of its first half.
    fn list_is_due(&self, now: u64) -> bool {
        let length = u64::from(self.policy.audiences.least_rotation.max(1));
        let window = now / length;
        let Some(last) = self.state.audiences.window else { return true };
        let moment = self.state.secret.rng("audience list", &window.to_le_bytes()).unit();
        window > last && (now % length) as f64 >= moment * length as f64 / 2.0
    }

    /// Puts a report first in line, and into the ledger before it leaves.
    fn next_report(&mut self, index: usize, now: u64) -> Result<RequestKind, DeviceError> {
        let federation = self.state.federation.unwrap_or_default();
        self.try_update(|state| {
            let mut report = state.audiences.reports.remove(index);
            if !report.recorded {
                let (of, bytes) = ((federation, report.rotation), report.segment.len() as u64);
                // An entry of one row always fits.
                report.recorded = record_report(of, &report.name, (now, bytes), &mut state.ledger).is_ok();
            }
            state.audiences.reports.insert(0, report);
            Ok(())
        })?;
        Ok(RequestKind::Report)
    }

    /// The server's list came.
    pub(super) fn take_audience_list(&mut self, body: &[u8]) -> Result<(), DeviceError> {
        let now = self.clock.as_secs();
        let text = String::from_utf8_lossy(body).into_owned();
        let checked = AudienceList::parse(&text).and_then(|list| self.check_list(&list, now).map(|()| list));
        let window = now / u64::from(self.policy.audiences.least_rotation.max(1));
        self.update(|state| {
            let audiences = &mut state.audiences;
            audiences.window = Some(window);
            match checked {
                Ok(list) => {
                    (audiences.list, audiences.refusal) = (text, String::new());
                    audiences.reports.retain(|report| report.rotation + 1 >= list.rotation);
                    audiences.segments.retain(|segment| segment.rotation + 1 >= list.rotation);
                    state.federation = state.federation.or(Some(list.federation));
                }
                Err(why) => (audiences.list, audiences.refusal) = (String::new(), why),
            }
        })
    }

    /// There is no list.
    pub(super) fn no_audience_list(&mut self, why: String) -> Result<(), DeviceError> {
        let window = self.clock.as_secs() / u64::from(self.policy.audiences.least_rotation.max(1));
        self.update(|state| {
            state.audiences.window = Some(window);
            (state.audiences.list, state.audiences.refusal) = (String::new(), why);
        })
    }

    /// That the list is one that the owner agreed to, of this federation and of this time.
    fn check_list(&self, list: &AudienceList, now: u64) -> Result<(), String> {
        let policy = &self.policy.audiences;
        let refused = policy.check_list(list.k, list.audiences.len(), list.rotation_seconds);
        refused.map_err(|refusal| refusal.to_string())?;
        if self.state.federation.is_some_and(|federation| federation != list.federation) {
            return Err(format!("the list of audiences is of another {}", list.federation));
        }
        let own = now / u64::from(list.rotation_seconds);
        if list.rotation.abs_diff(own) > 1 {
            return Err(format!(
                "the server says it is rotation {}, by this device's clock it is {own}",
                list.rotation
            ));
        }
        Ok(())
    }

    fn token_request(&self, list: &AudienceList, audience: u64) -> TokenRequest {
        let round = RoundId(list.rotation);
        let seed = self.state.secret.key(&format!("audience token {audience}"), round);
        TokenRequest::new(&mut SecureRng::new(seed), Scope { federation: list.federation, round })
    }

    /// The rotation and the body of the request for tokens: one of every audience, whether the device is in it or not.
    pub(super) fn audience_token_request(&self) -> (u64, Vec<u8>) {
        let Ok(list) = AudienceList::parse(&self.state.audiences.list) else { return Default::default() };
        let mut body = Vec::with_capacity(list.audiences.len() * (NUMBER + BlindedElement::BYTES));
        for audience in &list.audiences {
            body.extend_from_slice(&audience.id.to_le_bytes());
            body.extend_from_slice(&self.token_request(&list, audience.id).blinded().to_bytes());
        }
        (list.rotation, body)
    }

    /// The tokens came: decides what to report, and when. `None`: the server gave none.
    pub(super) fn take_audience_tokens(&mut self, body: Option<&[u8]>) -> Result<(), DeviceError> {
        let Ok(list) = AudienceList::parse(&self.state.audiences.list) else { return Ok(()) };
        let now = self.clock.as_secs();
        let (reports, answers) = body.map_or_else(Default::default, |body| self.decide(&list, body, now));
        self.update(|state| {
            state.audiences.rotation = Some(list.rotation);
            state.audiences.reports.extend(reports);
            for (digest, name) in answers {
                if state.audiences.answered.insert(digest) {
                    state.audiences.spend(now, list.report_epsilon, format!("whether you are in {name}"));
                }
            }
        })
    }

    /// The reports to send, and the questions answered by sending one or none.
    fn decide(&self, list: &AudienceList, body: &[u8], now: u64) -> (Vec<Report>, Vec<([u8; 32], String)>) {
        let (mut reports, mut answers) = (Vec::new(), Vec::new());
        let Some(scores) = self.list_scores(list) else { return (reports, answers) };
        let mut spent = self.state.audiences.last_day(now);
        for entry in body.as_chunks::<{ NUMBER + TokenResponse::BYTES }>().0 {
            let (number, response) = entry.split_at(NUMBER);
            let number = u64::from_le_bytes(number.try_into().unwrap_or_default());
            let Some(audience) = list.audiences.iter().find(|audience| audience.id == number) else { continue };
            let has_left = self.policy.audiences.left.contains(&audience.name);
            let Some(score) = self.score_of(audience, Some(&scores)) else { continue };
            if has_left || self.names_excluded(audience) {
                continue;
            }
            let digest = audience.digest(list.report_epsilon);
            if !self.state.audiences.answered.contains(&digest) {
                if self.policy.audiences.check_epsilon(list.report_epsilon, spent).is_err() {
                    continue;
                }
                spent += list.report_epsilon;
            }
            answers.push((digest, audience.name.clone()));
            let lies = self.lies(&digest, list.report_epsilon);
            let token = TokenResponse::from_bytes(response)
                .and_then(|response| self.token_request(list, audience.id).finalize(&response, &audience.key));
            if let (true, Ok(token)) = ((score >= audience.threshold) != lies, token) {
                reports.push(self.report(list, audience, token, now));
            }
        }
        (reports, answers)
    }

    /// Whether the device says the opposite of what is true: drawn once for each question, so that asking again says
    /// nothing more.
    fn lies(&self, digest: &[u8; 32], epsilon: f64) -> bool {
        self.state.disclosure_secret.rng("audience answer", digest).unit() < 1.0 / (1.0 + math::exp(epsilon))
    }

    fn report(
        &self,
        list: &AudienceList,
        audience: &Audience,
        token: sottovoce_privacy::tokens::Token,
        now: u64,
    ) -> Report {
        let rotation = RoundId(list.rotation);
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] =
            self.state.secret.key(&format!("audience segment {}", audience.id), rotation);
        let end = (list.rotation + 1).saturating_mul(list.rotation_seconds.into()).saturating_sub(MARGIN);
        let left = end.saturating_sub(now);
        let detail = [audience.id.to_le_bytes(), list.rotation.to_le_bytes()].concat();
        let moment = self.state.secret.rng("audience moment", &detail).unit();
        Report {
            audience: audience.id,
            name: audience.name.clone(),
            rotation: list.rotation,
            at: now + (moment * left as f64) as u64,
            segment: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p],
            token,
            recorded: false,
        }
    }

    /// The first report was answered, whatever the answer: it is not sent again.
    pub(super) fn report_sent(&mut self, accepted: bool) -> Result<(), DeviceError> {
        self.update(|state| {
            if state.audiences.reports.is_empty() {
                return;
            }
            let Report { name, rotation, segment, .. } = state.audiences.reports.remove(0);
            if accepted {
                state.audiences.segments.push(Segment { audience: name, rotation, id: segment });
            }
        })
    }
}
