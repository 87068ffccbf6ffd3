//! The change a device proposes, from training to the server.

use crate::error::{UpdateError, ValueError};
use crate::parameters::{Keyed, Layout};
use crate::rows::Rows;
use crate::{DecodeError, FederationId, Policy, RoundId, RoundTerms, ValueEncoding, limits};
use std::marker::PhantomData;

/// Why a row changed: private to the device, never encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrigin {
    /// The row changed because of something in the owner's history.
    Consumed,
    /// It did not: a sampled negative, a decoy.
    Other,
    /// It changed because of hidden items only, so it never leaves. For rows that are no items, where the policy cannot
    /// tell; rows of hidden items stay on the device whatever their origin.
    Hidden,
}

/// What a device knows of a table's rows and never sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrivateRows {
    /// One for each listed row.
    pub(crate) origins: Vec<RowOrigin>,
    /// Rows that have a decoy, ascending.
    pub(crate) decoy_rows: Vec<u32>,
    /// The decoys' values, row after row.
    pub(crate) decoys: Vec<f32>,
}

impl PrivateRows {
    pub(crate) fn clear(&mut self) {
        self.origins.clear();
        self.decoy_rows.clear();
        self.decoys.clear();
    }
}

/// Changed rows or all of each table, the sample count and the reported criteria.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    pub(crate) layout: u32,
    pub(crate) tables: Vec<Rows>,
    pub(crate) samples: u64,
    pub(crate) criteria: Vec<(u32, f64)>,
}

impl Update {
    fn new(layout: &Layout) -> Self {
        Self { layout: layout.fingerprint(), tables: Rows::of_layout(layout), samples: 0, criteria: Vec::new() }
    }

    fn clear(&mut self) {
        self.tables.iter_mut().for_each(Rows::clear);
        self.samples = 0;
        self.criteria.clear();
    }

    /// Fingerprint of the layout the tables belong to.
    pub fn layout(&self) -> u32 {
        self.layout
    }

    /// The rows of each table of the layout, in its order; a table that is not touched is empty.
    pub fn tables(&self) -> &[Rows] {
        &self.tables
    }

    /// Samples trained on; 0: not reported.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Index in the round terms' list and value of each reported criterion, ascending.
    pub fn criteria(&self) -> &[(u32, f64)] {
        &self.criteria
    }

    /// Number of rows in all tables.
    pub fn rows(&self) -> usize {
        self.tables.iter().map(Rows::len).sum()
    }

    /// That every value can be encoded; otherwise names the first table with one that cannot.
    pub(crate) fn check_values(&self, encoding: ValueEncoding) -> Result<(), ValueError> {
        match self.tables.iter().position(|rows| !encoding.carries(&rows.values)) {
            Some(table) => Err(ValueError { table, encoding }),
            None => Ok(()),
        }
    }
}

/// Fresh from training. Knows the origin of each row; cannot be encoded.
///
/// ```
/// use sottovoce_protocol::{Keyed, Layout, RowOrigin, Shape, Trained};
/// let layout = Layout::new(vec![Shape::new("items", 5, 2, Keyed::Items)])?;
/// let mut trained = Trained::new(&layout);
/// trained.push_row(0, 1, RowOrigin::Consumed)?.copy_from_slice(&[0.5, -0.25]);
/// trained.push_row(0, 4, RowOrigin::Other)?[1] = 0.25;
/// assert_eq!(trained.update().rows(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Trained {
    pub(crate) update: Update,
    /// By table.
    pub(crate) private: Vec<PrivateRows>,
    /// Whether the policy withholds nothing.
    discloses_everything: bool,
    /// Whether only items of the fixed disclosed set were trained on.
    pub(crate) on_disclosed_items: bool,
    /// Expected fraction of the owner's items that are trained on.
    trained_fraction: f64,
    /// Whether nothing of it will be disclosed.
    is_discarded: bool,
    /// The only table that the round asks for, if it asks for one.
    only_table: Option<u32>,
}

impl Trained {
    /// Nothing changed yet.
    pub fn new(layout: &Layout) -> Self {
        Self::of(Update::new(layout), vec![PrivateRows::default(); layout.shapes().len()])
    }

    fn of(update: Update, private: Vec<PrivateRows>) -> Self {
        let (discloses_everything, on_disclosed_items, is_discarded) = (false, false, false);
        let (trained_fraction, only_table) = (1.0, None);
        Self { update, private, discloses_everything, on_disclosed_items, trained_fraction, is_discarded, only_table }
    }

    /// Announces, before training, which table the round asks for, if it asks for one: nothing of the others will
    /// leave.
    pub fn expect_table(&mut self, table: Option<u32>) {
        self.only_table = table;
    }

    /// Whether the round asks for a table.
    pub fn asks_for(&self, table: usize) -> bool {
        self.only_table.is_none_or(|only| only as usize == table)
    }

    /// Announces, before training, the policy that will be applied: where it withholds nothing, a model need not hide
    /// what is withheld. The policy in force at disclosure still decides.
    pub fn expect_policy(&mut self, policy: &Policy) {
        self.expect(policy.pi() >= 1.0 && policy.hidden().is_empty(), false);
    }

    /// Announces, before training, that only the policy's disclosed items are trained on ([`Policy::disclosed_items`]).
    pub fn expect_disclosed_items(&mut self, policy: &Policy) {
        self.expect(policy.hidden().is_empty(), true);
        self.trained_fraction = policy.pi();
    }

    /// Announces, before training, that nothing will be disclosed: only the private model is trained.
    pub fn expect_no_disclosure(&mut self) {
        self.expect(true, false);
        self.is_discarded = true;
    }

    fn expect(&mut self, discloses_everything: bool, on_disclosed_items: bool) {
        (self.discloses_everything, self.on_disclosed_items) = (discloses_everything, on_disclosed_items);
        (self.trained_fraction, self.is_discarded) = (1.0, false);
    }

    /// Whether every row is expected to leave.
    pub fn discloses_everything(&self) -> bool {
        self.discloses_everything
    }

    /// Expected fraction of the owner's items that are trained on: π where only the disclosed items are, otherwise 1.
    pub fn trained_fraction(&self) -> f64 {
        self.trained_fraction
    }

    /// Whether nothing will be disclosed, so that the update itself need not be computed.
    pub fn is_discarded(&self) -> bool {
        self.is_discarded
    }

    /// Clears everything but keeps the buffers' memory.
    pub fn clear(&mut self) {
        self.update.clear();
        self.private.iter_mut().for_each(PrivateRows::clear);
    }

    /// Adds a row, all zero, and lends it to be filled. Rows of a table come in ascending order.
    ///
    /// # Errors
    /// If the table is dense, or the row is past its end or out of order.
    #[inline]
    pub fn push_row(&mut self, table: usize, row: u32, origin: RowOrigin) -> Result<&mut [f32], UpdateError> {
        self.push_rows(table, &[row], &[origin])
    }

    /// Adds rows, ascending, all zero, and lends the values of all of them to be filled, one row after the other.
    ///
    /// # Errors
    /// As [`push_row`](Self::push_row), or if there is not one origin a row; then none of them is added.
    pub fn push_rows(&mut self, table: usize, added: &[u32], origins: &[RowOrigin]) -> Result<&mut [f32], UpdateError> {
        let (rows, private) = self.table(table)?;
        if rows.shape.keyed == Keyed::Dense {
            return Err(UpdateError::NeedsWhole(table));
        }
        if added.len() != origins.len() {
            return Err(UpdateError::Origins(table, added.len(), origins.len()));
        }
        let last = rows.indices.last().copied();
        if let (Some(&first), Some(last)) = (added.first(), last.filter(|last| added.first() <= Some(last))) {
            return Err(UpdateError::Order(table, first, last));
        }
        // Checks all pairs instead of stopping at the first bad one, which vectorises.
        let pairs = || added.iter().zip(added.iter().skip(1));
        if !pairs().fold(true, |fine, (one, next)| fine & (one < next)) {
            let wrong = pairs().find(|(one, next)| one >= next);
            let (&last, &row) = wrong.unwrap_or((&0, &0));
            return Err(UpdateError::Order(table, row, last));
        }
        if let Some(&row) = added.last().filter(|&&row| row >= rows.shape.rows) {
            return Err(UpdateError::Row(table, row, rows.shape.rows));
        }
        let start = rows.indices.len() * rows.cols();
        rows.indices.extend_from_slice(added);
        private.origins.extend_from_slice(origins);
        rows.values.resize(rows.indices.len() * rows.cols(), 0.0);
        Ok(&mut rows.values[start..])
    }

    fn table(&mut self, table: usize) -> Result<(&mut Rows, &mut PrivateRows), UpdateError> {
        let tables = self.update.tables.len();
        let both = self.update.tables.get_mut(table).zip(self.private.get_mut(table));
        both.ok_or(UpdateError::Table(table, tables))
    }

    /// Gives rows, ascending and pushed before, a decoy: what leaves in place of a row whose own change is withheld.
    /// Lends the decoys' values, all zero, to be filled, row after row. A decoy must be what would have left had the
    /// owner not consumed the item: a negative sampled without looking at the history. Without one, the row's constant
    /// absence would reveal who consumed the item.
    ///
    /// # Errors
    /// If there is no such table, or a row was not pushed, or is out of order; then none of them gets a decoy.
    pub fn push_decoys(&mut self, table: usize, added: &[u32]) -> Result<&mut [f32], UpdateError> {
        let (rows, PrivateRows { decoy_rows, decoys, .. }) = self.table(table)?;
        let mut last = decoy_rows.last().copied();
        for &row in added {
            if let Some(last) = last.filter(|&last| last >= row) {
                return Err(UpdateError::Order(table, row, last));
            }
            if rows.indices.binary_search(&row).is_err() {
                return Err(UpdateError::Row(table, row, rows.shape.rows));
            }
            last = Some(row);
        }
        let start = decoys.len();
        decoy_rows.extend_from_slice(added);
        decoys.resize(start + added.len() * rows.cols(), 0.0);
        Ok(&mut decoys[start..])
    }

    /// Takes all of a dense table, all zero, and lends it to be filled.
    ///
    /// # Errors
    /// If the table is not dense: rows that may concern somebody's items need their origins.
    pub fn whole(&mut self, table: usize) -> Result<&mut [f32], UpdateError> {
        let rows = self.dense(table)?;
        rows.whole = true;
        rows.values.clear();
        rows.values.resize(rows.shape.values(), 0.0);
        Ok(&mut rows.values)
    }

    /// Takes all of a dense table from values at hand, which saves clearing what [`whole`](Self::whole) lends.
    ///
    /// # Errors
    /// If the table is not dense, or not of so many values.
    pub fn copy_whole(&mut self, table: usize, values: &[f32]) -> Result<(), UpdateError> {
        let rows = self.dense(table)?;
        let expected = rows.shape.values();
        if values.len() != expected {
            return Err(UpdateError::Values(table, values.len(), expected));
        }
        rows.whole = true;
        rows.values.clear();
        rows.values.extend_from_slice(values);
        Ok(())
    }

    fn dense(&mut self, table: usize) -> Result<&mut Rows, UpdateError> {
        let (rows, _) = self.table(table)?;
        if rows.shape.keyed == Keyed::Dense { Ok(rows) } else { Err(UpdateError::NeedsOrigins(table)) }
    }

    /// The values of all rows pushed so far to a table, one row after the other.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn values_mut(&mut self, table: usize) -> &mut [f32] {
        &mut self.update.tables[table].values
    }

    /// Sets the number of samples trained on. It leaves the device only if the terms ask for it and the policy allows
    /// it.
    pub fn set_samples(&mut self, samples: u64) {
        self.update.samples = samples;
    }

    /// Reports a criterion by its index in the round terms' list, in ascending order.
    ///
    /// # Errors
    /// If it is out of order, past the limit or not finite.
    pub fn report(&mut self, criterion: u32, value: f64) -> Result<(), UpdateError> {
        let ascends = self.update.criteria.last().is_none_or(|&(last, _)| last < criterion);
        if !ascends || u64::from(criterion) >= limits::CRITERIA || !value.is_finite() {
            return Err(UpdateError::Criterion(criterion));
        }
        self.update.criteria.push((criterion, value));
        Ok(())
    }

    /// The update itself, for the device.
    pub fn update(&self) -> &Update {
        &self.update
    }

    /// The origins of a table's rows, parallel to their indices.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn origins(&self, table: usize) -> &[RowOrigin] {
        &self.private[table].origins
    }
}

/// An update with the federation and round it is for. `State` says how far it has come: see [`Disclosed`] and
/// [`Received`].
#[derive(Clone, Debug)]
pub struct AddressedUpdate<State> {
    pub(crate) update: Update,
    /// Empty; here for its memory.
    pub(crate) private: Vec<PrivateRows>,
    pub(crate) federation: FederationId,
    pub(crate) round: RoundId,
    pub(crate) encoding: ValueEncoding,
    pub(crate) state: PhantomData<State>,
}

/// Passed the owner's policy: the only thing the codec takes. Made by [`Trained::disclose`] and nothing else.
pub type Disclosed = AddressedUpdate<AtDevice>;

/// What came from outside: well-formed, finite and of the right shapes, but otherwise not to be trusted.
pub type Received = AddressedUpdate<AtServer>;

/// The state of an update that is about to leave a device.
#[derive(Debug)]
pub enum AtDevice {}

/// The state of an update that has arrived.
#[derive(Clone, Debug)]
pub enum AtServer {}

impl<State> AddressedUpdate<State> {
    /// The update itself.
    pub fn update(&self) -> &Update {
        &self.update
    }

    /// The federation it is for.
    pub fn federation(&self) -> FederationId {
        self.federation
    }

    /// The round it is for.
    pub fn round(&self) -> RoundId {
        self.round
    }

    /// How its values are encoded.
    pub fn encoding(&self) -> ValueEncoding {
        self.encoding
    }

    /// The emptied buffers, for the next device.
    pub fn recycle(self) -> Trained {
        let Self { update, private, .. } = self;
        let mut trained = Trained::of(update, private);
        trained.clear();
        trained
    }
}

impl Disclosed {
    /// What the server holds after encoding and decoding, without going through bytes: for the simulator.
    pub fn into_received(self) -> Received {
        let Self { mut update, private, federation, round, encoding, .. } = self;
        for rows in &mut update.tables {
            encoding.round(&mut rows.values, rows.shape.cols as usize);
            // The codec writes a full list of rows as a whole table.
            if rows.is_whole() {
                rows.whole = true;
                rows.indices.clear();
            }
        }
        Received { update, private, federation, round, encoding, state: PhantomData }
    }
}

impl Received {
    /// Empty buffers for updates of this layout.
    pub fn new(layout: &Layout) -> Self {
        let Trained { update, private, .. } = Trained::new(layout);
        let (federation, round, encoding, state) = Default::default();
        Self { update, private, federation, round, encoding, state }
    }

    /// Scales rows down that are longer than the bound of their table.
    pub fn clip_rows(&mut self, bounds: &[f64]) {
        for (rows, bound) in self.update.tables.iter_mut().zip(bounds) {
            let cols = rows.shape.cols as usize;
            for values in rows.values.chunks_exact_mut(cols) {
                let norm = values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
                if norm > *bound {
                    values.iter_mut().for_each(|value| *value = (f64::from(*value) * bound / norm) as f32);
                }
            }
        }
    }

    /// That it answers these terms: federation, round, encoding, and nothing that was not asked for.
    ///
    /// # Errors
    /// Says what differs.
    pub fn check(&self, terms: &RoundTerms) -> Result<(), DecodeError> {
        let last_criterion = self.update.criteria.last().map(|&(last, _)| last as usize);
        let wrong = if self.federation != terms.federation {
            format!("for {}, expected {}", self.federation, terms.federation)
        } else if self.round != terms.round {
            format!("for {}, expected {}", self.round, terms.round)
        } else if self.encoding != terms.values {
            format!("values as {}, expected {}", self.encoding, terms.values)
        } else if self.update.samples != 0 && !terms.samples {
            "a sample count that was not asked for".to_owned()
        } else if last_criterion >= Some(terms.criteria.len()) {
            "a criterion that was not asked for".to_owned()
        } else {
            return Ok(());
        };
        Err(DecodeError::Content(wrong))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    #[test]
    fn rejects_rows_that_do_not_fit_the_layout() {
        let shapes = vec![Shape::new("items", 4, 2, Keyed::Items), Shape::new("net", 3, 1, Keyed::Dense)];
        let mut trained = Trained::new(&Layout::new(shapes).unwrap());
        trained.push_row(0, 2, RowOrigin::Other).unwrap();
        let wrong = [
            (trained.push_row(0, 2, RowOrigin::Other).unwrap_err(), "table 0: row 2 after row 2"),
            (trained.push_row(0, 4, RowOrigin::Other).unwrap_err(), "table 0: row 4 of 4"),
            (trained.push_row(2, 0, RowOrigin::Other).unwrap_err(), "table 2 of 2"),
            (trained.push_row(1, 0, RowOrigin::Other).unwrap_err(), "table 1 is dense: it goes whole or not at all"),
            (trained.whole(0).unwrap_err(), "table 0 is not dense: push its rows one by one, with their origins"),
        ];
        for (error, text) in wrong {
            assert_eq!(error.to_string(), text);
        }
        for added in [[3, 4], [3, 3], [2, 3]] {
            assert!(trained.push_rows(0, &added, &[RowOrigin::Other; 2]).is_err());
            assert_eq!((trained.update().rows(), trained.origins(0).len()), (1, 1));
        }
        let error = trained.push_rows(0, &[3], &[]).unwrap_err();
        assert_eq!(error.to_string(), "table 0: 1 rows with 0 origins");
        let error = trained.push_decoys(0, &[1]).unwrap_err();
        assert_eq!(error, UpdateError::Row(0, 1, 4));
        assert!(trained.push_decoys(2, &[]).is_err() && trained.push_decoys(0, &[2, 2]).is_err());
        assert_eq!(trained.push_decoys(0, &[2]).unwrap(), [0.0; 2]);
        trained.report(3, 0.5).unwrap();
        for (criterion, value) in [(3, 0.1), (4, f64::NAN), (32, 0.0)] {
            assert_eq!(trained.report(criterion, value), Err(UpdateError::Criterion(criterion)));
        }
        let error = trained.copy_whole(1, &[1.0, 2.0]).unwrap_err();
        assert_eq!(error, UpdateError::Values(1, 2, 3));
        assert!(trained.copy_whole(0, &[0.0; 8]).is_err() && trained.update().tables()[1].is_empty());
        trained.copy_whole(1, &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(trained.update().tables()[1].values(), [1.0, 2.0, 3.0]);
        assert_eq!(trained.whole(1).unwrap(), [0.0; 3]);
        assert_eq!((trained.update().rows(), trained.origins(0)), (4, &[RowOrigin::Other][..]));
    }
}
