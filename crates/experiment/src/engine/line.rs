//! One row of one table on its way: candidates on the validation part, the choice, the final trials.

use crate::file::{Alternatives, Search};
use crate::journal::{Journal, Recorded};
use crate::outcome::Summary;
use crate::plan::{Place, Trial};
use crate::search::{Observation, Searcher};
use sottovoce_models::settings::Value;

/// What has to happen next.
pub(crate) enum Step {
    /// These trials, in any order; then ask again.
    Need(Vec<Trial>),
    /// Nothing: all is recorded, or nothing could be chosen.
    Finished,
}

/// A setting that was tried on the validation part.
pub(crate) struct Candidate {
    pub(crate) point: Vec<(String, Value)>,
    pub(crate) trials: Vec<Trial>,
}

/// What was chosen.
#[derive(Clone)]
pub(crate) struct Chosen {
    /// Its place among the candidates, if there were any.
    pub(crate) candidate: Option<usize>,
    /// The number of epochs that was best on the validation part, if it was asked.
    pub(crate) epochs: Option<usize>,
}

/// A choice that was given up because its final training failed.
pub(crate) struct PassedOver {
    /// Its place among the candidates.
    pub(crate) candidate: usize,
    /// Why its final training failed.
    pub(crate) reason: String,
}

/// A row, with the trials it has asked for so far.
///
/// What comes next is a function of the journal, so a run that was interrupted goes on as if it had not been.
pub(crate) struct Line {
    pub(crate) place: Place,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) finals: Vec<Trial>,
    pub(crate) chosen: Option<Chosen>,
    pub(crate) passed_over: Vec<PassedOver>,
    /// The row of the same sweep whose choice this row follows. Its trials are those of that row, and run once.
    guide: Option<Box<Line>>,
    exhausted: bool,
}

impl Line {
    /// # Errors
    /// If a combination of settings is refused by the model.
    pub(crate) fn new(place: Place) -> Result<Self, String> {
        let guide = place.guide().map(Line::new).transpose()?.map(Box::new);
        let points = if guide.is_some() { Vec::new() } else { place.grid() };
        let mut line = Self {
            place,
            candidates: Vec::new(),
            finals: Vec::new(),
            chosen: None,
            passed_over: Vec::new(),
            guide,
            exhausted: false,
        };
        for point in points {
            line.add(point)?;
        }
        Ok(line)
    }

    fn add(&mut self, point: Vec<(String, Value)>) -> Result<(), String> {
        let trials = self.place.validation(&point)?;
        self.candidates.push(Candidate { point, trials });
        Ok(())
    }

    /// What has to happen next, given what is recorded.
    pub(crate) fn advance(&mut self, journal: &Journal) -> Result<Step, String> {
        if let Some(guide) = &mut self.guide {
            match guide.advance(journal)? {
                Step::Finished => self.follow()?,
                needed => return Ok(needed),
            }
        }
        loop {
            let trials = self.candidates.iter().flat_map(|candidate| &candidate.trials);
            let missing = missing(trials.chain(&self.finals), journal);
            if !missing.is_empty() {
                return Ok(Step::Need(missing));
            }
            if self.chosen.is_some() && !self.pass_over(journal) {
                return Ok(Step::Finished);
            }
            if !self.propose(journal)? && !self.choose(journal)? {
                return Ok(Step::Finished);
            }
        }
    }

    /// Takes over what the guide chose, as the only candidate: the number of epochs may still be this row's own.
    fn follow(&mut self) -> Result<(), String> {
        let chosen = self.guide.as_ref().and_then(|guide| guide.point());
        match chosen.filter(|_| self.candidates.is_empty()) {
            Some(point) => self.add(point),
            None => Ok(()),
        }
    }

    /// The settings that were chosen among, as they were chosen.
    fn point(&self) -> Option<Vec<(String, Value)>> {
        let at = self.chosen.as_ref()?.candidate?;
        Some(self.candidates[at].point.clone())
    }

    /// Gives up a choice whose final training failed, if the file asks for that and there is another; only training is
    /// looked at, never how good the model was on the test part.
    fn pass_over(&mut self, journal: &Journal) -> bool {
        let reason = self.finals.iter().find_map(|trial| match journal.trial(&trial.key) {
            Some(Recorded::Failed(reason)) => Some(reason.clone()),
            _ => None,
        });
        let given_up = self.chosen.as_ref().and_then(|chosen| chosen.candidate).zip(reason);
        let Some((candidate, reason)) = given_up.filter(|_| self.place.choice().next_if_failed) else {
            return false;
        };
        self.passed_over.push(PassedOver { candidate, reason });
        if self.best(journal).is_none() {
            self.passed_over.pop();
            return false;
        }
        self.chosen = None;
        true
    }

    /// Lets a search propose its next points; false if there is nothing more to try.
    fn propose(&mut self, journal: &Journal) -> Result<bool, String> {
        if self.guide.is_some() {
            return Ok(false);
        }
        let Alternatives::Search(search) = self.place.contender.alternatives.clone() else {
            return Ok(false);
        };
        let tried = self.candidates.len();
        if self.exhausted || tried >= search.trials {
            return Ok(false);
        }
        let points = self.proposals(&search, journal);
        self.exhausted = points.is_empty();
        for point in points {
            let keys = search.space.dimensions.iter().map(|dimension| dimension.key.clone());
            self.add(keys.zip(point).collect())?;
        }
        Ok(!self.exhausted)
    }

    fn proposals(&self, search: &Search, journal: &Journal) -> Vec<Vec<Value>> {
        let history: Vec<Observation> = self
            .candidates
            .iter()
            .map(|candidate| Observation {
                point: candidate.point.iter().map(|(_, value)| value.clone()).collect(),
                worth: self.worth(candidate, journal),
            })
            .collect();
        let seed = self.place.search_seed();
        let searcher =
            Searcher { space: &search.space, method: search.method, startup: search.startup, seed };
        // Random proposals do not look at results, so they can all be made at once.
        let tried = history.len();
        let batch = search.startup.saturating_sub(tried).max(search.at_once).min(search.trials - tried);
        let mut points = Vec::new();
        while points.len() < batch {
            let Some(point) = searcher.propose(&history, &points) else { break };
            points.push(point);
        }
        points
    }

    /// Chooses and asks for the final trials; false if every candidate failed.
    fn choose(&mut self, journal: &Journal) -> Result<bool, String> {
        let chosen = match self.place.chooses() {
            false => Some(Chosen { candidate: None, epochs: None }),
            true => self.best(journal),
        };
        let Some(chosen) = chosen else { return Ok(false) };
        let mut point = chosen.candidate.map_or_else(Vec::new, |at| self.candidates[at].point.clone());
        if let (Some(epochs), Some(key)) = (chosen.epochs, self.epochs_key()) {
            point.push((key.to_owned(), Value::Integer(epochs as i64)));
        }
        self.finals = self.place.test(&point)?;
        self.chosen = Some(chosen);
        Ok(true)
    }

    fn best(&self, journal: &Journal) -> Option<Chosen> {
        let mut best: Option<(f64, usize)> = None;
        let given_up = |at: usize| self.passed_over.iter().any(|one| one.candidate == at);
        for (at, candidate) in self.candidates.iter().enumerate().filter(|(at, _)| !given_up(*at)) {
            if let Some(worth) = self.worth(candidate, journal)
                && best.is_none_or(|(before, _)| worth > before)
            {
                best = Some((worth, at));
            }
        }
        let (_, at) = best?;
        let epochs = self.judged(&self.candidates[at], journal).and_then(|(_, epochs)| epochs);
        Some(Chosen { candidate: Some(at), epochs })
    }

    /// How good a candidate is on the validation part: the mean over its seeds, turned so that more is better.
    fn worth(&self, candidate: &Candidate, journal: &Journal) -> Option<f64> {
        self.judged(candidate, journal).map(|(value, _)| self.place.choice().metric.worth(value))
    }

    /// The metric of choice and, where it was judged on the way, the epochs after which it was best.
    pub(crate) fn judged(&self, candidate: &Candidate, journal: &Journal) -> Option<(f64, Option<usize>)> {
        let summaries: Vec<&Summary> = candidate
            .trials
            .iter()
            .map(|trial| match journal.trial(&trial.key) {
                Some(Recorded::Done(summary)) => Some(summary),
                _ => None,
            })
            .collect::<Option<_>>()?;
        let metric = &self.place.choice().metric;
        if self.place.choice().every.is_some() && summaries.iter().all(|summary| !summary.curve.is_empty()) {
            return best_epoch(&summaries, |value| metric.worth(value));
        }
        let values: Vec<f64> =
            summaries.iter().map(|summary| metric.of(&summary.metrics)).collect::<Option<_>>()?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (!mean.is_nan()).then_some((mean, None))
    }

    fn epochs_key(&self) -> Option<&'static str> {
        let keys: Vec<_> =
            (self.place.contender.model.settings)().iter().map(|setting| setting.key).collect();
        ["epochs", "iterations"].into_iter().find(|key| keys.contains(key))
    }

    /// How many of the trials asked for so far are recorded.
    pub(crate) fn recorded(&self, journal: &Journal) -> usize {
        let trials = self.candidates.iter().flat_map(|candidate| &candidate.trials);
        trials.chain(&self.finals).filter(|trial| journal.trial(&trial.key).is_some()).count()
    }
}

/// The epoch at which the mean of the curves is best, and that mean; the earlier of equals.
fn best_epoch(summaries: &[&Summary], worth: impl Fn(f64) -> f64) -> Option<(f64, Option<usize>)> {
    let at = |summary: &Summary, epoch: usize| {
        summary.curve.iter().find(|point| point.epoch == epoch).and_then(|point| point.value)
    };
    let mut best: Option<(f64, Option<usize>)> = None;
    for epoch in summaries.first()?.curve.iter().map(|point| point.epoch) {
        let values: Option<Vec<f64>> = summaries.iter().map(|summary| at(summary, epoch)).collect();
        let Some(values) = values else { continue };
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        if !mean.is_nan() && best.is_none_or(|(before, _)| worth(mean) > worth(before)) {
            best = Some((mean, Some(epoch)));
        }
    }
    best
}

fn missing<'a>(trials: impl Iterator<Item = &'a Trial>, journal: &Journal) -> Vec<Trial> {
    trials.filter(|trial| journal.trial(&trial.key).is_none()).cloned().collect()
}
