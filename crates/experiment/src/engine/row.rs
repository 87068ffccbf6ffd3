//! The progress of one row: candidates on the validation part, the selection, the final trials.

use crate::classifier::{Classification, HALF_REACHED};
use crate::file::{Learner, Search, Tuning};
use crate::journal::{Journal, Recorded};
use crate::outcome::Summary;
use crate::plan::{RowPlan, Trial};
use crate::search::{Observation, Searcher};
use sottovoce_models::settings::Value;

/// A point of the tuned settings, and the trials that evaluate it.
pub(crate) struct Candidate {
    pub(crate) point: Vec<(String, Value)>,
    pub(crate) trials: Vec<Trial>,
}

/// How good a candidate is on the validation part.
pub(crate) struct Score {
    /// The metric of selection, the mean over seeds.
    pub(crate) value: f64,
    /// The same, turned so that more is better.
    objective: f64,
    /// The epochs after which it was best, where it was evaluated during training.
    epochs: Option<usize>,
}

/// What was selected.
#[derive(Clone)]
pub(crate) struct Selected {
    /// Index of the candidate, if there were any.
    pub(crate) candidate: Option<usize>,
    /// The best number of epochs on the validation part, if it was evaluated during training.
    pub(crate) epochs: Option<usize>,
}

/// A row, with the trials it has asked for so far.
///
/// What comes next is a function of the journal, so an interrupted run continues as if it had not been interrupted.
pub(crate) struct RowProgress {
    pub(crate) plan: RowPlan,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) finals: Vec<Trial>,
    pub(crate) selected: Option<Selected>,
    /// Candidates whose final training failed: their indices, and why.
    pub(crate) rejected: Vec<(usize, String)>,
    /// The row whose tuned settings this row takes over. Its trials are those of that row, and run once.
    leader: Option<Box<RowProgress>>,
    exhausted: bool,
}

impl RowProgress {
    /// # Errors
    /// If a combination of settings is rejected by the model.
    pub(crate) fn new(plan: RowPlan) -> Result<Self, String> {
        let leader = plan.leader().map(RowProgress::new).transpose()?.map(Box::new);
        let points = if leader.is_some() { Vec::new() } else { plan.grid() };
        let mut row = Self {
            plan,
            candidates: Vec::new(),
            finals: Vec::new(),
            selected: None,
            rejected: Vec::new(),
            leader,
            exhausted: false,
        };
        for point in points {
            row.add(point)?;
        }
        Ok(row)
    }

    fn add(&mut self, point: Vec<(String, Value)>) -> Result<(), String> {
        let trials = self.plan.validation(&point)?;
        self.candidates.push(Candidate { point, trials });
        Ok(())
    }

    /// The trials to be run next, in any order, given what is recorded; none if all is recorded or nothing could be
    /// selected.
    pub(crate) fn advance(&mut self, journal: &Journal) -> Result<Vec<Trial>, String> {
        if let Some(leader) = &mut self.leader {
            let needed = leader.advance(journal)?;
            // The final trials of the leader are its own business, unless they may change the selection.
            let undecided = leader.selected.is_none() || leader.plan.selection.next_if_failed;
            if undecided && !needed.is_empty() {
                return Ok(needed);
            }
            self.follow()?;
        }
        loop {
            let missing: Vec<Trial> =
                self.trials().filter(|trial| journal.trial(&trial.key).is_none()).cloned().collect();
            if !missing.is_empty() {
                return Ok(missing);
            }
            if self.selected.is_some() && !self.reject(journal) {
                return Ok(Vec::new());
            }
            if !self.propose(journal)? && !self.select(journal)? {
                return Ok(Vec::new());
            }
        }
    }

    /// The trials asked for so far.
    fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.candidates.iter().flat_map(|candidate| &candidate.trials).chain(&self.finals)
    }

    /// Takes over what the leader selected, as the only candidate: the number of epochs may still be this row's own.
    fn follow(&mut self) -> Result<(), String> {
        let selected = self.leader.as_ref().and_then(|leader| leader.point());
        match selected.filter(|_| self.candidates.is_empty()) {
            Some(point) => self.add(point),
            None => Ok(()),
        }
    }

    /// The tuned settings that were selected.
    fn point(&self) -> Option<Vec<(String, Value)>> {
        let at = self.selected.as_ref()?.candidate?;
        Some(self.candidates[at].point.clone())
    }

    /// Rejects the selected candidate if its final training failed, the file asks for that, and there is another. Only
    /// whether training failed counts, never how good the model was on the test part.
    fn reject(&mut self, journal: &Journal) -> bool {
        let reason = self.finals.iter().find_map(|trial| match journal.trial(&trial.key) {
            Some(Recorded::Failed(reason)) => Some(reason.clone()),
            _ => None,
        });
        let failed = self.selected.as_ref().and_then(|selected| selected.candidate).zip(reason);
        let Some((candidate, reason)) = failed.filter(|_| self.plan.selection.next_if_failed) else {
            return false;
        };
        self.rejected.push((candidate, reason));
        if self.best(journal).is_none() {
            self.rejected.pop();
            return false;
        }
        self.selected = None;
        true
    }

    /// Lets a search propose its next points; false if there is nothing more to try.
    fn propose(&mut self, journal: &Journal) -> Result<bool, String> {
        let Tuning::Search(search) = self.plan.spec.tuning.clone() else { return Ok(false) };
        if self.leader.is_some() {
            return Ok(false);
        }
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
                objective: self.score(candidate, journal).map(|score| score.objective),
            })
            .collect();
        let seed = self.plan.search_seed();
        let searcher = Searcher { space: &search.space, method: search.method, startup: search.startup, seed };
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

    /// Selects a candidate and asks for the final trials; false if every candidate failed.
    fn select(&mut self, journal: &Journal) -> Result<bool, String> {
        let selected = match self.plan.spec.tuning {
            Tuning::None => Some(Selected { candidate: None, epochs: None }),
            _ => self.best(journal),
        };
        let Some(selected) = selected else { return Ok(false) };
        let mut point = selected.candidate.map_or_else(Vec::new, |at| self.candidates[at].point.clone());
        if let (Some(epochs), Some(key)) = (selected.epochs, self.epochs_key()) {
            point.push((key.to_owned(), Value::Integer(epochs as i64)));
        }
        self.finals = self.plan.test(&point)?;
        self.selected = Some(selected);
        Ok(true)
    }

    fn best(&self, journal: &Journal) -> Option<Selected> {
        let is_rejected = |at: usize| self.rejected.iter().any(|(rejected, _)| *rejected == at);
        let eligible = self.candidates.iter().enumerate().filter(|(at, _)| !is_rejected(*at));
        let scored = eligible.filter_map(|(at, candidate)| Some((self.score(candidate, journal)?, at)));
        let (score, at) = scored.reduce(|best, next| if next.0.objective > best.0.objective { next } else { best })?;
        Some(Selected { candidate: Some(at), epochs: score.epochs })
    }

    /// How good a candidate is; nothing if a trial failed or is missing.
    pub(crate) fn score(&self, candidate: &Candidate, journal: &Journal) -> Option<Score> {
        let summaries: Vec<&Summary> =
            candidate.trials.iter().map(|trial| journal.done(&trial.key)).collect::<Option<_>>()?;
        if let Learner::Classifier(task) = &self.plan.spec.learner {
            return classifier_score(task, summaries.first()?);
        }
        let metric = &self.plan.selection.metric;
        let (value, epochs) =
            if self.plan.selection.every.is_some() && summaries.iter().all(|summary| !summary.curve.is_empty()) {
                best_epoch(&summaries, |value| metric.objective(value))?
            } else {
                let values: Vec<f64> =
                    summaries.iter().map(|summary| metric.of(&summary.metrics)).collect::<Option<_>>()?;
                (values.iter().sum::<f64>() / values.len() as f64, None)
            };
        (!value.is_nan()).then(|| Score { value, objective: metric.objective(value), epochs })
    }

    fn epochs_key(&self) -> Option<&'static str> {
        let model = self.plan.spec.learner.recommender()?;
        ["epochs", "iterations"].into_iter().find(|key| model.schema().any(|setting| setting.key == *key))
    }

    /// How many of the trials asked for so far are recorded.
    pub(crate) fn recorded(&self, journal: &Journal) -> usize {
        self.trials().filter(|trial| journal.trial(&trial.key).is_some()).count()
    }
}

/// The sooner half of the devices reach the last target, the better; among equals, and if they never do, the more
/// accurate.
fn classifier_score(task: &Classification, summary: &Summary) -> Option<Score> {
    let value = summary.accuracy_curve.as_ref()?.best.accuracy;
    let round = summary.figures.get(HALF_REACHED).copied().unwrap_or(task.rounds as f64 + 1.0);
    Some(Score { value, objective: value / 2.0 - round, epochs: None })
}

/// The epoch at which the mean of the curves is best, and that mean; the earlier of equals.
fn best_epoch(summaries: &[&Summary], objective: impl Fn(f64) -> f64) -> Option<(f64, Option<usize>)> {
    let at = |summary: &Summary, epoch: usize| {
        summary.curve.iter().find(|point| point.epoch == epoch).and_then(|point| point.value)
    };
    let mean = |epoch: usize| {
        let values: Vec<f64> = summaries.iter().map(|summary| at(summary, epoch)).collect::<Option<_>>()?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (!mean.is_nan()).then_some((mean, Some(epoch)))
    };
    let means = summaries.first()?.curve.iter().filter_map(|point| mean(point.epoch));
    means.reduce(|best, next| if objective(next.0) > objective(best.0) { next } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classifier::AccuracyCurve;

    #[test]
    fn prefers_the_fastest_learning_rate_and_otherwise_the_most_accurate() {
        let task = Classification { rounds: 9, ..Classification::default() };
        let summary = |round: Option<f64>, accuracy| {
            let mut curve = AccuracyCurve::default();
            curve.best.accuracy = accuracy;
            let figures = round.map(|round| (HALF_REACHED.to_owned(), round)).into_iter().collect();
            Summary { accuracy_curve: Some(curve), figures, ..Summary::default() }
        };
        let best = |tried: &[Summary]| {
            let scores: Vec<f64> = tried.iter().map(|one| classifier_score(&task, one).unwrap().objective).collect();
            (1..scores.len()).fold(0, |best, at| if scores[at] > scores[best] { at } else { best })
        };
        let fast = [(None, 0.99), (Some(8.0), 0.9), (Some(5.0), 0.8), (Some(5.0), 0.8), (Some(5.0), 0.7)];
        assert_eq!(best(&fast.map(|(round, accuracy)| summary(round, accuracy))), 2);
        assert_eq!(best(&[summary(None, 0.5), summary(None, 0.7)]), 1);
    }
}
