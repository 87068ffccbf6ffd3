//! What the owner says and asks: policy, history, ledger, withdrawal.

use super::{Device, check_length};
use crate::DeviceError;
use crate::history::Imported;
use crate::state::Membership;
use sottovoce_client::Randomness;
use sottovoce_protocol::{
    DisclosedTable, DisclosureMode, Keyed, Ledger, LedgerEntry, Participation, Policy, PolicyError, RoundId,
    RowDisclosures,
};
use std::sync::Arc;

/// What left about one item.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemLeft {
    /// Its row.
    pub row: u32,
    /// Its id.
    pub item: String,
    /// Its title, where it has one.
    pub title: Option<String>,
    /// Whether the owner has it. The server cannot tell from one update: rows of other items leave too.
    pub had: bool,
    /// Whether the owner has it and shows it: whether it is learnt from, by the policy as it is now. A row of an item that is had and
    /// not disclosed leaves as one of an item that is not had.
    pub disclosed: bool,
    /// In how many updates, and the last of them.
    pub left: RowDisclosures,
}

/// What left in one round.
pub type OwnerReport = LedgerEntry;

impl Device {
    /// What the owner lets leave; hidden items are in rows of the catalog.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Ids of hidden items, ascending.
    pub fn hidden(&self) -> impl Iterator<Item = &str> {
        self.state.hidden.iter().map(String::as_str)
    }

    /// Changes the policy, all but its hidden items; when this returns, the change is kept. An update that is ready and was
    /// not acknowledged was made under the policy before; a pause gives it up.
    ///
    /// # Errors
    /// If the change makes no sense or cannot be kept; then nothing has changed.
    pub fn set_policy(
        &mut self,
        change: impl FnOnce(&mut Policy) -> Result<(), PolicyError>,
    ) -> Result<(), DeviceError> {
        self.change(|state| {
            change(&mut state.policy)?;
            if state.policy.participation() != Participation::Active {
                state.pending = None;
            }
            Ok(())
        })?;
        if self.policy.participation() == Participation::Withdrawn {
            return self.withdraw();
        }
        self.end_rest();
        Ok(())
    }

    /// Hides an item: its row never leaves from now on, whether the owner has it or not. One that the catalog does not know
    /// is hidden as soon as it does. An update that is ready and was not acknowledged is given up if the item is in it.
    ///
    /// # Errors
    /// If the change cannot be kept.
    pub fn hide(&mut self, item: &str) -> Result<(), DeviceError> {
        let row = self.items.as_ref().and_then(|items| items.find(item));
        let round = self.state.pending.as_ref().map(|pending| pending.round);
        let latest = self.state.ledger.entries().filter(|entry| Some(entry.round) == round).last();
        let has = |table: &DisclosedTable| match (&table.listed, row) {
            (Some(listed), Some(row)) => listed.binary_search(&row).is_ok(),
            (None, Some(row)) => u64::from(row) < table.rows,
            (_, None) => false,
        };
        let is_in_it = latest.is_some_and(|entry| entry.tables.iter().any(has));
        self.change(|state| {
            state.hidden.insert(item.to_owned());
            if is_in_it {
                state.pending = None;
            }
            Ok(())
        })
    }

    /// Hides an item no more; says whether it was hidden.
    ///
    /// # Errors
    /// If the change cannot be kept.
    pub fn unhide(&mut self, item: &str) -> Result<bool, DeviceError> {
        self.change(|state| Ok(state.hidden.remove(item)))
    }

    /// Adds interactions, as [`read_history`](crate::read_history) reads them.
    ///
    /// # Errors
    /// If there would be too many, or they cannot be kept; then none was added.
    pub fn import<'a>(
        &mut self,
        interactions: impl IntoIterator<Item = (&'a str, Option<i64>)>,
    ) -> Result<Imported, DeviceError> {
        let mut history = crate::History::clone(&self.state.history);
        let before = history.len();
        let (added, repeated) = history.extend(interactions);
        check_length(history.len(), &self.options.bounds)?;
        let unknown = self.items.as_ref().map_or(0, |items| history.unknown_to(items, before));
        self.change(|state| {
            state.history = Arc::new(history);
            Ok(())
        })?;
        Ok(Imported { added, repeated, unknown })
    }

    /// How many interactions are with items that the catalog does not know.
    pub fn unknown_items(&self) -> usize {
        self.items.as_ref().map_or(0, |items| self.state.history.unknown_to(items, 0))
    }

    /// Leaves the federation: nothing is sent any more but the wish to be forgotten, which goes with the next
    /// [`step`](Self::step)s until the server has confirmed it. History, ledger and models stay, for offline use.
    ///
    /// # Errors
    /// If it cannot be kept.
    pub fn withdraw(&mut self) -> Result<(), DeviceError> {
        self.change(|state| {
            state.policy.withdraw();
            state.pending = None;
            state.membership = match &state.membership {
                Membership::Enrolled { credential, .. } => {
                    Membership::Withdrawing { credential: credential.clone() }
                }
                Membership::Withdrawing { credential } => {
                    Membership::Withdrawing { credential: credential.clone() }
                }
                Membership::Enrolling { .. } | Membership::Withdrawn => Membership::Withdrawn,
            };
            Ok(())
        })?;
        self.phase = super::requests::Phase::Idle;
        self.end_rest();
        Ok(())
    }

    /// Forgets that it rests, so that a change takes hold at once.
    pub(super) fn end_rest(&mut self) {
        self.rest = None;
        self.failures = 0;
    }

    /// The record of everything that left.
    pub fn ledger(&self) -> &Ledger {
        &self.state.ledger
    }

    /// What left in each round, oldest first, as far as entries are kept one by one.
    pub fn told(&self) -> impl Iterator<Item = OwnerReport> {
        self.state.ledger.entries()
    }

    /// What left about each item of which something left, by row.
    ///
    /// # Errors
    /// If there is no catalog to name items by.
    pub fn items_left(&self) -> Result<Vec<ItemLeft>, DeviceError> {
        let items = self.items.as_ref().ok_or(DeviceError::NoCatalog)?;
        let mut sums = vec![RowDisclosures::default(); items.len()];
        let (federation, disclosed) = (self.state.federation.unwrap_or_default(), self.disclosed());
        for table in self.item_tables() {
            let left = self.state.ledger.by_row(federation, &table, items.len() as u32);
            sums.iter_mut().zip(left).for_each(|(sum, left)| add(sum, left));
        }
        let some = (0..).zip(sums).filter(|(_, left)| left.times > 0);
        Ok(some.map(|(row, left)| self.item_left(items, row, left, disclosed.as_deref())).collect())
    }

    /// What left about one item.
    ///
    /// # Errors
    /// If the catalog does not know it, or there is none.
    pub fn item_left_of(&self, item: &str) -> Result<ItemLeft, DeviceError> {
        let items = self.items.as_ref().ok_or(DeviceError::NoCatalog)?;
        let row = items.find(item).ok_or_else(|| DeviceError::UnknownItem(item.to_owned()))?;
        let mut sum = RowDisclosures::default();
        let federation = self.state.federation.unwrap_or_default();
        for table in self.item_tables() {
            add(&mut sum, self.state.ledger.row(federation, &table, row));
        }
        Ok(self.item_left(items, row, sum, self.disclosed().as_deref()))
    }

    fn item_left(
        &self,
        items: &crate::Items,
        row: u32,
        left: RowDisclosures,
        disclosed: Option<&[u32]>,
    ) -> ItemLeft {
        let had = self.rows.rows.binary_search(&row).is_ok();
        ItemLeft {
            row,
            item: items.id(row as usize).to_owned(),
            title: items.title(row as usize).map(str::to_owned),
            had,
            disclosed: disclosed
                .map_or(had && !self.policy.hides(row), |disclosed| disclosed.binary_search(&row).is_ok()),
            left,
        }
    }

    /// Rows of items that are disclosed: what leaves is learnt from these alone, in all rounds. `None` where it is drawn anew each round
    /// what leaves, or before a catalog is there.
    pub fn disclosed(&self) -> Option<Vec<u32>> {
        if self.policy.disclosure != DisclosureMode::Fixed || self.items.is_none() {
            return None;
        }
        let model = self.state.private.as_ref().map_or("", |private| private.model.name.as_str());
        let state = &self.state;
        let randomness = state.seeds.in_round(&state.secret, &state.disclosure_secret, model, RoundId(0));
        let disclosed = self.policy.disclosed_items(&self.rows.rows, randomness.fixed_disclosure());
        Some(disclosed.collect())
    }

    /// Names of the shared model's tables with a row an item.
    fn item_tables(&self) -> Vec<String> {
        let tables = self.held.iter().flat_map(|held| held.model.parameters.tables());
        let keyed = tables.filter(|table| table.shape().keyed == Keyed::Items);
        keyed.map(|table| table.shape().name.clone()).collect()
    }
}

/// All tables with a row an item share one decision per item and round, so the one that left most often tells.
fn add(sum: &mut RowDisclosures, left: RowDisclosures) {
    *sum = RowDisclosures { times: sum.times.max(left.times), last: sum.last.max(left.last) };
}
