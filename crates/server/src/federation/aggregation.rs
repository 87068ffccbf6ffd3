//! Aggregation of the updates of a round.

use super::Federation;
use super::keeper::KeptSum;
use super::norm_bound::{NormBound, Verdict, longest_rows};
use super::quarantine::Offences;
use super::seal::Seal;
use crate::error::ServerError;
use crate::storage::{Sender, StorageError};
use sottovoce_federation::{Aggregate, OrderedAggregator, OrderedAggregatorError};
use sottovoce_protocol::{RoundTerms, codec};
use std::sync::Arc;

/// The aggregate of a round.
pub(super) struct Aggregation {
    pub(super) sum: Aggregate,
    /// The mean of each criterion, as JSON.
    pub(super) criteria: String,
    /// What single updates had wrong.
    pub(super) offences: Offences,
    /// What was done to single updates, for the round's record.
    pub(super) remark: String,
}

impl Aggregation {
    fn without_criteria(sum: Aggregate) -> Self {
        Self { sum, criteria: "{}".to_owned(), offences: Offences::default(), remark: String::new() }
    }
}

impl Federation {
    /// Aggregates the stored updates of the open round; the inner error says why there is no aggregate.
    pub(super) fn aggregate(&self) -> Result<Result<Aggregation, String>, ServerError> {
        let (round, cohort, terms, sealed) = {
            let state = self.state();
            let Some(round) = &state.round else { return Ok(Err("no round is open".to_owned())) };
            let remark = |seal: &Seal| seal.kept().map_or_else(String::new, KeptSum::remark);
            let sealed = round.seal.as_ref().map(|seal| (seal.sum(), round.opening.minimum, remark(seal)));
            (round.opening.round, round.opening.cohort.clone(), Arc::clone(&round.terms), sealed)
        };
        if let Some((sum, minimum, remark)) = sealed {
            let aggregated = sum.and_then(|sum| self.of_sealed(sum, minimum));
            return Ok(aggregated.map(|found| Aggregation { remark, ..found }));
        }
        if let Some(length) = self.quantized_length {
            return self.aggregate_quantized(round, length).map(Ok);
        }
        self.aggregate_updates(round, &cohort, &terms).map(Ok)
    }

    fn of_sealed(&self, (values, updates): (Vec<u32>, u64), minimum: u32) -> Result<Aggregation, String> {
        if updates < u64::from(minimum) {
            return Err(format!("{updates} updates came, at least {minimum} are needed"));
        }
        let mut sum = self.with_coordinator(self.is_measuring(), |of| of.empty_aggregate());
        sum.add_sum(&values, updates);
        Ok(Aggregation::without_criteria(sum))
    }

    fn aggregate_quantized(&self, round: u64, length: usize) -> Result<Aggregation, ServerError> {
        let (layout, mut sum) = (self.layout.fingerprint(), self.coordinator().empty_aggregate());
        self.services.storage.updates(self.id, round, &mut |_, bytes| {
            let words = codec::decode_quantized(bytes, layout, length);
            sum.add_quantized(&words.map_err(|error| self.corrupt(round, &error))?.words);
            Ok(())
        })?;
        Ok(Aggregation::without_criteria(sum))
    }

    fn aggregate_updates(&self, round: u64, cohort: &[u32], terms: &RoundTerms) -> Result<Aggregation, ServerError> {
        // In the simulator's order: one part of the cohort after the other. Anonymous updates are summed as integers,
        // whose sum is the same in any order.
        let mut ordered = (!self.anonymous).then(|| self.coordinator().ordered_aggregator(cohort));
        let mut unordered = self.coordinator().empty_aggregate();
        let mut buffer = self.buffer();
        let mut criteria = vec![(0.0, 0u64); terms.criteria.len()];
        let bound = self.norm_bound(round)?;
        let (mut offences, mut clipped) = (Offences::default(), 0u32);
        self.services.storage.updates(self.id, round, &mut |sender, bytes| {
            codec::decode_update(bytes, &mut buffer).map_err(|error| self.corrupt(round, &error))?;
            let longest = bound.as_ref().map(|_| longest_rows(buffer.update())).unwrap_or_default();
            match bound.as_ref().map_or(Verdict::Within, |bound| bound.apply(&longest, &mut buffer)) {
                Verdict::Within => (),
                Verdict::Clipped => clipped += 1,
                Verdict::LeftOut => {
                    if let Sender::Device(device) = sender {
                        offences.of.push((device, "rows far beyond those of the other devices".to_owned()));
                    }
                    return Ok(());
                }
            }
            for &(index, value) in buffer.update().criteria() {
                if let Some((sum, count)) = criteria.get_mut(index as usize) {
                    *sum += value;
                    *count += 1;
                }
            }
            let added = match (&mut ordered, sender) {
                (Some(ordered), Sender::Device(device)) => ordered.add(device, buffer.update()),
                (Some(_), Sender::Token(_)) => Err(OrderedAggregatorError::NotAsked(u32::MAX)),
                (None, _) => {
                    unordered.add(buffer.update());
                    Ok(())
                }
            };
            added.map_err(|error| self.corrupt(round, &error))
        })?;
        let reported = terms.criteria.iter().zip(criteria).filter(|(_, (_, count))| *count > 0);
        let means = reported.map(|(asked, (sum, count))| {
            (asked.name.clone(), serde_json::json!({"mean": sum / count as f64, "devices": count}))
        });
        let criteria = serde_json::Value::Object(means.collect()).to_string();
        let remark = match (clipped, offences.of.len()) {
            (0, 0) => String::new(),
            (clipped, left_out) => format!("norm bound: {clipped} updates clipped, {left_out} left out"),
        };
        Ok(Aggregation { sum: ordered.map_or(unordered, OrderedAggregator::finish), criteria, offences, remark })
    }

    /// The bound on rows that follows from the round's updates, unless there is to be none.
    fn norm_bound(&self, round: u64) -> Result<Option<NormBound>, ServerError> {
        if self.config.norm_bound == 0.0 {
            return Ok(None);
        }
        let (mut buffer, mut longest) = (self.buffer(), Vec::new());
        self.services.storage.updates(self.id, round, &mut |_, bytes| {
            codec::decode_update(bytes, &mut buffer).map_err(|error| self.corrupt(round, &error))?;
            longest.push(longest_rows(buffer.update()));
            Ok(())
        })?;
        let largest = f64::from(self.coordinator().largest_value());
        let bound = NormBound::of(&longest, f64::from(self.config.norm_bound), largest);
        let excess = bound.largest_excess(&longest);
        tracing::debug!(federation = %self.name, round, excess, "the longest row of the round's updates, in bounds");
        Ok(Some(bound))
    }

    pub(super) fn corrupt(&self, round: u64, error: &dyn ToString) -> StorageError {
        let what = format!("an update of round {round} of federation {}", self.name);
        StorageError::Corrupt { what, reason: error.to_string() }
    }
}
