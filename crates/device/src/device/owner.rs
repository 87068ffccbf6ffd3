//! The owner's requests: policy, history, ledger, withdrawal.

use super::requests::Phase;
use super::{Device, check_length};
use crate::history::ImportSummary;
use crate::reading::{self, ClickImport, Reading};
use crate::state::{Membership, State};
use crate::{DeviceError, History, Items};
use sottovoce_client::{Randomness, streams};
use sottovoce_protocol::{
    DisclosedTable, DisclosureMode, Keyed, Ledger, Participation, Policy, PolicyError, RoundId, RowDisclosures,
};
use std::sync::Arc;

/// What left the device about one item.
#[derive(Clone, Debug, PartialEq)]
pub struct DisclosedItem {
    /// Its row.
    pub row: u32,
    /// Its id.
    pub item: String,
    /// Its title, where it has one.
    pub title: Option<String>,
    /// Whether it is in the owner's history. The server cannot tell from one update: rows of other items leave too.
    pub in_history: bool,
    /// Whether updates are trained on it, by today's policy. The row of an item of the history that is not disclosed
    /// leaves like that of an item that is not in the history.
    pub disclosed: bool,
    /// In how many updates its row left, and the last of them.
    pub disclosures: RowDisclosures,
}

impl Device {
    /// The disclosure policy, with hidden items in rows of the catalog.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Ids of hidden items, ascending.
    pub fn hidden(&self) -> impl Iterator<Item = &str> {
        self.state.hidden.iter().map(String::as_str)
    }

    /// Changes the policy, except its hidden items; when this returns, the change is stored. A pending update was made
    /// under the earlier policy; a pause discards it.
    ///
    /// # Errors
    /// If the change is invalid or cannot be stored; then nothing has changed.
    pub fn set_policy(
        &mut self,
        change: impl FnOnce(&mut Policy) -> Result<(), PolicyError>,
    ) -> Result<(), DeviceError> {
        self.try_update(|state| {
            change(&mut state.policy)?;
            if state.policy.participation() != Participation::Active {
                state.pending = None;
            }
            Ok(())
        })?;
        if self.policy.participation() == Participation::Withdrawn {
            return self.withdraw();
        }
        self.end_wait();
        Ok(())
    }

    /// Hides an item: from now on nothing about it leaves, whether the owner has it or not. An item that the catalog
    /// does not know is hidden as soon as it does. A pending update with the item in it is discarded.
    ///
    /// # Errors
    /// If the change cannot be stored.
    pub fn hide(&mut self, item: &str) -> Result<(), DeviceError> {
        let row = self.items.as_ref().and_then(|items| items.find(item));
        let round = self.state.pending.as_ref().map(|pending| pending.round);
        let entry = self.state.ledger.entries().filter(|entry| Some(entry.round) == round).last();
        let has_item = |table: &DisclosedTable| match (&table.listed, row) {
            (Some(listed), Some(row)) => listed.binary_search(&row).is_ok(),
            (None, Some(row)) => u64::from(row) < table.rows,
            (_, None) => false,
        };
        let is_pending = entry.is_some_and(|entry| entry.tables.iter().any(has_item));
        self.update(|state| {
            if state.hidden.insert(item.to_owned()) {
                // It may have been trained on the item.
                state.disclosed = None;
            }
            if is_pending {
                state.pending = None;
            }
        })
    }

    /// Hides an item no more; returns whether it was hidden.
    ///
    /// # Errors
    /// If the change cannot be stored.
    pub fn unhide(&mut self, item: &str) -> Result<bool, DeviceError> {
        self.update(|state| state.hidden.remove(item))
    }

    /// Adds interactions, as [`read_history`](crate::read_history) reads them. A private model that can, or that was
    /// fitted outside rounds, adapts to them at once, without a round: nothing leaves, and the ledger does not change.
    ///
    /// # Errors
    /// If there would be too many, or they cannot be stored; then none was added.
    pub fn import<'a>(
        &mut self,
        interactions: impl IntoIterator<Item = (&'a str, Option<i64>)>,
    ) -> Result<ImportSummary, DeviceError> {
        let mut history = History::clone(&self.state.history);
        let before = history.len();
        let (added, repeated) = history.extend(interactions);
        check_length("interactions", history.len(), self.options.bounds.interactions)?;
        let unknown = self.items.as_ref().map_or(0, |items| history.unknown_to(items, before));
        self.update(|state| state.history = Arc::new(history))?;
        let adapted = added > unknown && (self.adapt()? | self.fit_again()?);
        Ok(ImportSummary { added, repeated, unknown, adapted })
    }

    /// Adapts the private model to the history, if there is one and it can; returns whether it did. A model that does
    /// not fit, or diverges, stays as it was: the next round trains it.
    fn adapt(&mut self) -> Result<bool, DeviceError> {
        let State { private, last_round, .. } = &self.state;
        let (Some(private), Some(shared), Some(round)) = (private, &self.shared, *last_round) else {
            return Ok(false);
        };
        let Ok(model) = self.load_model(&private.model) else { return Ok(false) };
        let mut values = private.values.clone();
        let randomness = self.state.randomness(&private.model.name, round, [0; 32]);
        let mut rng = randomness.round().stream(streams::ADAPTING, self.state.history.len() as u64);
        let adapted = model.adapt(&shared.model.parameters, &mut values, self.rows.history(), &mut rng);
        self.options.models.release(model);
        if !adapted.unwrap_or(false) {
            return Ok(false);
        }
        self.update(|state| {
            if let Some(private) = &mut state.private {
                private.values = values;
            }
        })?;
        Ok(true)
    }

    /// Replaces history and pages by what a click log says: interests change, and those of the past are no longer the
    /// owner's. Titles stay on this device, where models that read them encode them.
    ///
    /// # Errors
    /// If there are too many, or they cannot be stored; then nothing has changed.
    pub fn import_clicks(&mut self, reading: Reading) -> Result<ClickImport, DeviceError> {
        let Reading { interests, pages } = reading;
        let history = History::from_ids(interests.iter().map(String::as_str));
        check_length("interactions", history.len(), self.options.bounds.interactions)?;
        reading::check(&pages, &self.options.bounds)?;
        let unknown = self.items.as_ref().map_or(0, |items| history.unknown_to(items, 0));
        let (interests, count) = (history.len(), pages.len());
        let replaced = self.state.history.len();
        self.update(|state| (state.history, state.pages) = (Arc::new(history), Arc::new(pages)))?;
        Ok(ClickImport { interests, unknown, pages: count, replaced })
    }

    /// Number of interactions with items that the catalog does not know.
    pub fn unknown_items(&self) -> usize {
        self.items.as_ref().map_or(0, |items| self.state.history.unknown_to(items, 0))
    }

    /// Leaves the federation: nothing is sent any more but the request to be forgotten, which the next
    /// [`step`](Self::step)s repeat until the server has confirmed it. History, ledger and models stay, for offline
    /// use.
    ///
    /// # Errors
    /// If the change cannot be stored.
    pub fn withdraw(&mut self) -> Result<(), DeviceError> {
        self.update(|state| {
            state.policy.withdraw();
            state.pending = None;
            state.audiences.reports.clear();
            state.membership = match std::mem::replace(&mut state.membership, Membership::Withdrawn) {
                Membership::Enrolled { credential, .. } | Membership::Withdrawing { credential } => {
                    Membership::Withdrawing { credential }
                }
                Membership::Enrolling { .. } | Membership::Withdrawn => Membership::Withdrawn,
            };
        })?;
        self.phase = Phase::Idle;
        self.end_wait();
        Ok(())
    }

    /// Ends the wait, so that a change takes effect at once.
    pub(super) fn end_wait(&mut self) {
        self.waiting = None;
        self.failures = 0;
    }

    /// The record of everything that left.
    pub fn ledger(&self) -> &Ledger {
        &self.state.ledger
    }

    /// All items about which something left, by row.
    ///
    /// # Errors
    /// If there is no catalog to name items by.
    pub fn disclosed_items(&self) -> Result<Vec<DisclosedItem>, DeviceError> {
        let items = self.items.as_ref().ok_or(DeviceError::NoCatalog)?;
        let (federation, fixed) = (self.state.federation.unwrap_or_default(), self.fixed_disclosure());
        let mut by_row = vec![RowDisclosures::default(); items.len()];
        for table in self.item_tables() {
            let of_table = self.state.ledger.by_row(federation, &table, items.len() as u32);
            by_row.iter_mut().zip(of_table).for_each(|(all, one)| *all = most_frequent(*all, one));
        }
        let left = (0..).zip(by_row).filter(|(_, disclosures)| disclosures.times > 0);
        Ok(left.map(|(row, disclosures)| self.describe(items, row, disclosures, fixed.as_deref())).collect())
    }

    /// What left about one item.
    ///
    /// # Errors
    /// If the catalog does not know it, or there is none.
    pub fn disclosures_of(&self, item: &str) -> Result<DisclosedItem, DeviceError> {
        let items = self.items.as_ref().ok_or(DeviceError::NoCatalog)?;
        let row = items.find(item).ok_or_else(|| DeviceError::UnknownItem(item.to_owned()))?;
        let federation = self.state.federation.unwrap_or_default();
        let tables = self.item_tables();
        let by_table = tables.iter().map(|table| self.state.ledger.row(federation, table, row));
        let disclosures = by_table.fold(RowDisclosures::default(), most_frequent);
        Ok(self.describe(items, row, disclosures, self.fixed_disclosure().as_deref()))
    }

    fn describe(&self, items: &Items, row: u32, disclosures: RowDisclosures, fixed: Option<&[u32]>) -> DisclosedItem {
        let in_history = self.rows.rows.binary_search(&row).is_ok();
        let per_round = in_history && !self.policy.hides(row);
        DisclosedItem {
            row,
            item: items.id(row as usize).to_owned(),
            title: items.title(row as usize).map(str::to_owned),
            in_history,
            disclosed: fixed.map_or(per_round, |fixed| fixed.binary_search(&row).is_ok()),
            disclosures,
        }
    }

    /// Rows of the items that updates are trained on, in the rounds that disclose most: the same in all of them. `None`
    /// if the policy draws them in each round, or if there is no catalog yet.
    pub fn fixed_disclosure(&self) -> Option<Vec<u32>> {
        self.disclosed_under(&self.policy.at_most())
    }

    /// The same in rounds that are not sealed, or whose sums may be of too few devices for the owner.
    pub fn open_disclosure(&self) -> Option<Vec<u32>> {
        self.disclosed_under(&self.policy.in_round(None))
    }

    /// The same in sealed rounds.
    pub fn sealed_disclosure(&self) -> Option<Vec<u32>> {
        self.disclosed_under(&self.policy.in_round(Some(u32::MAX)))
    }

    fn disclosed_under(&self, policy: &Policy) -> Option<Vec<u32>> {
        if policy.disclosure != DisclosureMode::Fixed || self.items.is_none() {
            return None;
        }
        let model = self.state.private.as_ref().map_or("", |private| private.model.name.as_str());
        let seed = self.state.randomness(model, RoundId(0), [0; 32]).fixed_disclosure();
        Some(policy.disclosed_items(&self.rows.rows, seed).collect())
    }

    /// Names of the shared model's tables that have a row for each item.
    fn item_tables(&self) -> Vec<String> {
        let tables = self.shared.iter().flat_map(|shared| shared.model.parameters.tables());
        let keyed = tables.filter(|table| table.shape().keyed == Keyed::Items);
        keyed.map(|table| table.shape().name.clone()).collect()
    }
}

/// All tables of items share one decision per item and round, so the one whose row left most often counts.
fn most_frequent(one: RowDisclosures, other: RowDisclosures) -> RowDisclosures {
    RowDisclosures { times: one.times.max(other.times), last: one.last.max(other.last) }
}
