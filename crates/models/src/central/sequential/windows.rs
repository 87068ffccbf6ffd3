//! Windows over histories: a few items, and those that followed. For models that look at the latest items only.

use super::objective::Objective;
use super::training::{MicroBatch, Worker};
use super::{SequenceTraining, latest};
use crate::config;
use sottovoce_core::Rng;

config! {
    /// Settings of windows.
    pub(super) struct Windows {
        /// Latest items that are looked at
        pub(super) window: usize = 5, in 1..=100 => [log];
        /// Items after the window that it is trained to predict
        pub(super) horizon: usize = 3, in 1..=100 => [log];
    }
}

impl Windows {
    /// Windows of a history at most: those that end in its latest items.
    pub(super) fn count(&self, history: &[u32], max_length: usize) -> usize {
        history.len().saturating_sub(1).min(max_length)
    }

    /// Samples of a history: pairs of a window and an item behind it.
    pub(super) fn samples(&self, history: &[u32], max_length: usize) -> usize {
        let windows = self.count(history, max_length);
        (1..=windows).map(|behind| behind.min(self.horizon)).sum()
    }

    /// Describes a micro-batch. Of scratch memory, `items` are those of all windows, `starts` where each begins,
    /// `targets` the items behind the windows, and `rows` twice as long: for each window its user, then for each target
    /// its window.
    pub(super) fn fill(
        &self,
        batch: &MicroBatch<'_>,
        training: &SequenceTraining,
        objective: &Objective,
        worker: &mut Worker,
        rng: &mut Rng,
    ) -> usize {
        let scratch = &mut worker.scratch;
        scratch.clear();
        for &user in batch.users {
            let history = batch.histories.of(user as usize);
            for behind in (1..=self.count(history, training.max_length)).rev() {
                scratch.items.extend_from_slice(latest(&history[..history.len() - behind], self.window));
                scratch.starts.push(scratch.items.len());
                scratch.rows.push(user);
            }
        }
        let windows = scratch.rows.len();
        let mut window = 0;
        for &user in batch.users {
            let history = batch.histories.of(user as usize);
            let before = scratch.targets.len();
            for behind in (1..=self.count(history, training.max_length)).rev() {
                let after = &history[history.len() - behind..];
                let targets = &after[..after.len().min(self.horizon)];
                scratch.targets.extend_from_slice(targets);
                scratch.rows.extend(targets.iter().map(|_| window));
                window += 1;
            }
            let targets = scratch.targets.len() - before;
            objective.draw(batch, user, targets, &mut scratch.negatives, rng);
        }
        objective.draw_shared(batch, &mut scratch.negatives);
        windows
    }
}
