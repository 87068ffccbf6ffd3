//! The change a device proposes, at each station of its way.

use crate::error::{UpdateError, ValueError};
use crate::parameters::{Keyed, Layout};
use crate::rows::Rows;
use crate::{DecodeError, FederationId, Policy, RoundId, RoundTerms, ValueEncoding, limits};

/// What a row says about the person: the private half of an update, never encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrigin {
    /// The row changed because of something in the owner's history.
    Consumed,
    /// It did not: a sampled negative, a decoy.
    Other,
    /// Nothing but items that the owner hides explains it: it never leaves. For rows that are no items, of which a
    /// policy cannot tell; rows of hidden items stay whatever their mark.
    Hidden,
}

/// What a device knows of a table's rows and never sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Private {
    /// One mark a listed row.
    pub(crate) marks: Vec<RowOrigin>,
    /// Rows of which something may leave when their own change stays at home, ascending.
    pub(crate) covered: Vec<u32>,
    /// What that is, one row after the other.
    pub(crate) covers: Vec<f32>,
}

impl Private {
    pub(crate) fn clear(&mut self) {
        self.marks.clear();
        self.covered.clear();
        self.covers.clear();
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
        Self {
            layout: layout.fingerprint(),
            tables: Rows::of_layout(layout),
            samples: 0,
            criteria: Vec::new(),
        }
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

    /// Samples trained on; 0: not said.
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

    /// Finds the first table with a value that cannot be written so.
    pub(crate) fn check_values(&self, encoding: ValueEncoding) -> Result<(), ValueError> {
        match self.tables.iter().position(|rows| !encoding.carries(&rows.values)) {
            Some(table) => Err(ValueError { table, encoding }),
            None => Ok(()),
        }
    }
}

/// Fresh from training. Knows which rows concern consumed items; cannot be encoded.
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
    pub(crate) private: Vec<Private>,
    /// Whether the owner keeps nothing at home.
    open: bool,
    /// Whether it was learnt from nothing that stays at home for good.
    pub(crate) of_shown: bool,
}

impl Trained {
    /// Nothing changed yet.
    pub fn new(layout: &Layout) -> Self {
        let private = vec![Private::default(); layout.shapes().len()];
        Self { update: Update::new(layout), private, open: false, of_shown: false }
    }

    /// Says, before training, under which policy it will be disclosed: where the owner keeps nothing at home, a model need not
    /// hide what it keeps. The policy in force when it is disclosed decides all the same.
    pub fn expect_policy(&mut self, policy: &Policy) {
        (self.open, self.of_shown) = (policy.pi() >= 1.0 && policy.hidden().is_empty(), false);
    }

    /// Says, before training, that it will be from what the policy shows and nothing else ([`Policy::disclosed_items`]).
    pub fn expect_disclosed_items(&mut self, policy: &Policy) {
        (self.open, self.of_shown) = (policy.hidden().is_empty(), true);
    }

    /// Says, before training, that it will not be disclosed: only the private model is wanted.
    pub fn expect_no_disclosure(&mut self) {
        (self.open, self.of_shown) = (true, false);
    }

    /// Whether every row is expected to leave.
    pub fn discloses_everything(&self) -> bool {
        self.open
    }

    /// Forgets everything but the buffers' memory.
    pub fn clear(&mut self) {
        self.update.clear();
        self.private.iter_mut().for_each(Private::clear);
    }

    /// Adds a row, all zero, and lends it to be filled. Rows of a table come in ascending order.
    ///
    /// # Errors
    /// If the table is dense, or the row is past its end or out of order.
    #[inline]
    pub fn push_row(&mut self, table: usize, row: u32, mark: RowOrigin) -> Result<&mut [f32], UpdateError> {
        self.push_rows(table, &[row], &[mark])
    }

    /// Adds rows, ascending, all zero, and lends the values of all of them to be filled, one row after the other.
    ///
    /// # Errors
    /// As [`push_row`](Self::push_row), or if there is not one mark a row; then none of them is added.
    pub fn push_rows(
        &mut self,
        table: usize,
        added: &[u32],
        marks: &[RowOrigin],
    ) -> Result<&mut [f32], UpdateError> {
        let tables = self.update.tables.len();
        let rows = self.update.tables.get_mut(table).ok_or(UpdateError::Table { table, tables })?;
        if rows.keyed == Keyed::Dense {
            return Err(UpdateError::NeedsWhole { table });
        }
        if added.len() != marks.len() {
            return Err(UpdateError::Origins { table, rows: added.len(), marks: marks.len() });
        }
        let last = rows.indices.last().copied();
        if let (Some(&first), Some(last)) = (added.first(), last.filter(|last| added.first() <= Some(last))) {
            return Err(UpdateError::Order { table, row: first, last });
        }
        // Looks at all pairs instead of stopping at the first bad one: that is what runs in whole vectors.
        let pairs = || added.iter().zip(added.iter().skip(1));
        if !pairs().fold(true, |fine, (one, next)| fine & (one < next)) {
            let wrong = pairs().find(|(one, next)| one >= next);
            let (&last, &row) = wrong.unwrap_or((&0, &0));
            return Err(UpdateError::Order { table, row, last });
        }
        if let Some(&row) = added.last().filter(|&&row| row >= rows.rows) {
            return Err(UpdateError::Row { table, row, rows: rows.rows });
        }
        let start = rows.indices.len() * rows.cols as usize;
        rows.indices.extend_from_slice(added);
        self.private[table].marks.extend_from_slice(marks);
        rows.values.resize(rows.indices.len() * rows.cols as usize, 0.0);
        Ok(&mut rows.values[start..])
    }

    /// Says of rows, ascending, each pushed before, what leaves in their place when the owner keeps their own change at home;
    /// lends it, all zero, to be filled, one row after the other. It must be what would have left had the owner not had the
    /// item: a negative that was drawn without looking at the history. Without it nothing leaves of such a row, and that
    /// nothing ever does tells who has it.
    ///
    /// # Errors
    /// If there is no such table, or a row was not pushed, or out of order; then none of them is covered.
    pub fn push_decoys(&mut self, table: usize, covered: &[u32]) -> Result<&mut [f32], UpdateError> {
        let tables = self.update.tables.len();
        let rows = self.update.tables.get(table).ok_or(UpdateError::Table { table, tables })?;
        let Private { covered: before, covers, .. } = &mut self.private[table];
        let mut last = before.last().copied();
        for &row in covered {
            if let Some(last) = last.filter(|&last| last >= row) {
                return Err(UpdateError::Order { table, row, last });
            }
            if rows.indices.binary_search(&row).is_err() {
                return Err(UpdateError::Row { table, row, rows: rows.rows });
            }
            last = Some(row);
        }
        let start = covers.len();
        before.extend_from_slice(covered);
        covers.resize(start + covered.len() * rows.cols as usize, 0.0);
        Ok(&mut covers[start..])
    }

    /// Takes all of a dense table, all zero, and lends it to be filled.
    ///
    /// # Errors
    /// If the table is not dense: rows that may concern somebody's items need their marks.
    pub fn whole(&mut self, table: usize) -> Result<&mut [f32], UpdateError> {
        let rows = self.dense(table)?;
        rows.whole = true;
        rows.values.clear();
        rows.values.resize(rows.rows as usize * rows.cols as usize, 0.0);
        Ok(&mut rows.values)
    }

    /// Takes all of a dense table from values that are there already; spares clearing what [`whole`](Self::whole) lends.
    ///
    /// # Errors
    /// If the table is not dense, or not of so many values.
    pub fn copy_whole(&mut self, table: usize, values: &[f32]) -> Result<(), UpdateError> {
        let rows = self.dense(table)?;
        let expected = rows.rows as usize * rows.cols as usize;
        if values.len() != expected {
            return Err(UpdateError::Values { table, found: values.len(), expected });
        }
        rows.whole = true;
        rows.values.clear();
        rows.values.extend_from_slice(values);
        Ok(())
    }

    fn dense(&mut self, table: usize) -> Result<&mut Rows, UpdateError> {
        let tables = self.update.tables.len();
        let rows = self.update.tables.get_mut(table).ok_or(UpdateError::Table { table, tables })?;
        if rows.keyed == Keyed::Dense { Ok(rows) } else { Err(UpdateError::NeedsOrigins { table }) }
    }

    /// The values of all rows pushed so far to a table, one row after the other.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn values_mut(&mut self, table: usize) -> &mut [f32] {
        &mut self.update.tables[table].values
    }

    /// Says on how many samples was trained. It leaves the device only if the terms ask and the policy allows.
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
            return Err(UpdateError::Criterion { criterion });
        }
        self.update.criteria.push((criterion, value));
        Ok(())
    }

    /// What was learned, for the device itself to look at.
    pub fn update(&self) -> &Update {
        &self.update
    }

    /// The marks of a table's rows, parallel to their indices.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn origins(&self, table: usize) -> &[RowOrigin] {
        &self.private[table].marks
    }
}

/// Passed the owner's policy: the only thing the codec takes. Made by [`Trained::disclose`] and nothing else.
#[derive(Debug)]
pub struct Disclosed {
    pub(crate) update: Update,
    /// Emptied, and kept for its memory.
    pub(crate) private: Vec<Private>,
    pub(crate) federation: FederationId,
    pub(crate) round: RoundId,
    pub(crate) encoding: ValueEncoding,
}

impl Disclosed {
    /// What will leave.
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

    /// How its values will be written.
    pub fn encoding(&self) -> ValueEncoding {
        self.encoding
    }

    /// Changes values in place, table by table: clipping and noise. No row can be added.
    ///
    /// # Errors
    /// If a value can no longer be encoded.
    pub fn transform(mut self, mut change: impl FnMut(usize, &mut [f32])) -> Result<Self, ValueError> {
        for (table, rows) in self.update.tables.iter_mut().enumerate() {
            change(table, &mut rows.values);
        }
        self.update.check_values(self.encoding)?;
        Ok(self)
    }

    /// What the server would hold after encoding and decoding, without the bytes: for the simulator.
    pub fn into_received(mut self) -> Received {
        for rows in &mut self.update.tables {
            self.encoding.round(&mut rows.values, rows.cols as usize);
            // The codec writes a full list of rows as a whole table.
            if rows.is_whole() {
                rows.whole = true;
                rows.indices.clear();
            }
        }
        let Disclosed { update, private, federation, round, encoding } = self;
        Received { update, private, federation, round, encoding }
    }

    /// The emptied buffers, for the next device.
    pub fn recycle(self) -> Trained {
        emptied(self.update, self.private)
    }
}

/// What came from outside: well-formed, finite and of the right shapes, but otherwise not to be trusted.
#[derive(Clone, Debug)]
pub struct Received {
    pub(crate) update: Update,
    pub(crate) private: Vec<Private>,
    pub(crate) federation: FederationId,
    pub(crate) round: RoundId,
    pub(crate) encoding: ValueEncoding,
}

impl Received {
    /// Empty buffers for updates of this layout.
    pub fn new(layout: &Layout) -> Self {
        let Trained { update, private, .. } = Trained::new(layout);
        let (federation, round, encoding) = Default::default();
        Self { update, private, federation, round, encoding }
    }

    /// What was sent.
    pub fn update(&self) -> &Update {
        &self.update
    }

    /// The federation it says it is for.
    pub fn federation(&self) -> FederationId {
        self.federation
    }

    /// The round it says it is for.
    pub fn round(&self) -> RoundId {
        self.round
    }

    /// How its values were written.
    pub fn encoding(&self) -> ValueEncoding {
        self.encoding
    }

    /// Whether it answers these terms: federation, round, encoding, and nothing that was not asked for.
    ///
    /// # Errors
    /// Says what differs.
    pub fn check(&self, terms: &RoundTerms) -> Result<(), DecodeError> {
        let wrong = if self.federation != terms.federation {
            format!("for {}, expected {}", self.federation, terms.federation)
        } else if self.round != terms.round {
            format!("for {}, expected {}", self.round, terms.round)
        } else if self.encoding != terms.values {
            format!("values as {}, expected {}", self.encoding, terms.values)
        } else if self.update.samples != 0 && !terms.samples {
            "a sample count that was not asked for".to_owned()
        } else if self.update.criteria.last().is_some_and(|&(last, _)| last as usize >= terms.criteria.len())
        {
            "a criterion that was not asked for".to_owned()
        } else {
            return Ok(());
        };
        Err(DecodeError::Content(wrong))
    }

    /// The emptied buffers, for the next device of a simulator.
    pub fn recycle(self) -> Trained {
        emptied(self.update, self.private)
    }
}

fn emptied(update: Update, private: Vec<Private>) -> Trained {
    let mut trained = Trained { update, private, open: false, of_shown: false };
    trained.clear();
    trained
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    #[test]
    fn what_does_not_belong_into_an_update_is_refused() {
        let shapes = vec![Shape::new("items", 4, 2, Keyed::Items), Shape::new("net", 3, 1, Keyed::Dense)];
        let mut trained = Trained::new(&Layout::new(shapes).unwrap());
        trained.push_row(0, 2, RowOrigin::Other).unwrap();
        let wrong = [
            (trained.push_row(0, 2, RowOrigin::Other).unwrap_err(), "table 0: row 2 after row 2"),
            (trained.push_row(0, 4, RowOrigin::Other).unwrap_err(), "table 0: row 4 of 4"),
            (trained.push_row(2, 0, RowOrigin::Other).unwrap_err(), "table 2 of 2"),
            (
                trained.push_row(1, 0, RowOrigin::Other).unwrap_err(),
                "table 1 is dense: it goes whole or not at all",
            ),
            (
                trained.whole(0).unwrap_err(),
                "table 0 is not dense: push its rows one by one, with their marks",
            ),
        ];
        for (error, text) in wrong {
            assert_eq!(error.to_string(), text);
        }
        for added in [[3, 4], [3, 3], [2, 3]] {
            assert!(trained.push_rows(0, &added, &[RowOrigin::Other; 2]).is_err());
            assert_eq!((trained.update().rows(), trained.origins(0).len()), (1, 1));
        }
        let error = trained.push_rows(0, &[3], &[]).unwrap_err();
        assert_eq!(error.to_string(), "table 0: 1 rows with 0 marks");
        let error = trained.push_decoys(0, &[1]).unwrap_err();
        assert_eq!(error, UpdateError::Row { table: 0, row: 1, rows: 4 });
        assert!(trained.push_decoys(2, &[]).is_err() && trained.push_decoys(0, &[2, 2]).is_err());
        assert_eq!(trained.push_decoys(0, &[2]).unwrap(), [0.0; 2]);
        trained.report(3, 0.5).unwrap();
        for (criterion, value) in [(3, 0.1), (4, f64::NAN), (32, 0.0)] {
            assert_eq!(trained.report(criterion, value), Err(UpdateError::Criterion { criterion }));
        }
        let error = trained.copy_whole(1, &[1.0, 2.0]).unwrap_err();
        assert_eq!(error, UpdateError::Values { table: 1, found: 2, expected: 3 });
        assert!(trained.copy_whole(0, &[0.0; 8]).is_err() && trained.update().tables()[1].is_empty());
        trained.copy_whole(1, &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(trained.update().tables()[1].values(), [1.0, 2.0, 3.0]);
        assert_eq!(trained.whole(1).unwrap(), [0.0; 3]);
        assert_eq!((trained.update().rows(), trained.origins(0)), (4, &[RowOrigin::Other][..]));
    }
}
