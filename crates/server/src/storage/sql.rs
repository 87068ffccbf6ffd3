//! The little of SQL that both databases share, so that what a change does is written once.

use super::Hash;

/// A new secret of the server.
pub(super) fn fresh_secret() -> Result<Hash, Fault> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| Fault::Failed(format!("no random numbers: {error}")))?;
    Ok(secret)
}

/// A value given to a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Int(i64),
    Optional(Option<i64>),
    Text(&'a str),
    OptionalText(Option<&'a str>),
    Blob(&'a [u8]),
}

impl<'a> Value<'a> {
    /// # Errors
    /// If it is above what databases count to.
    pub(super) fn of(value: u64) -> Result<Value<'a>, Fault> {
        i64::try_from(value).map(Value::Int).map_err(|_| too_large(value))
    }

    /// # Errors
    /// If it is above what databases count to.
    pub(super) fn of_optional(value: Option<u64>) -> Result<Value<'a>, Fault> {
        let value = value.map(|value| i64::try_from(value).map_err(|_| too_large(value)));
        Ok(Value::Optional(value.transpose()?))
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Value::Int(value.into())
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Int(value.into())
    }
}

fn too_large(value: u64) -> Fault {
    Fault::Refused(format!("{value} is above {}", i64::MAX))
}

/// Why a statement did not do what it should.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    /// It contradicts what is stored.
    Refused(String),
    /// What is stored makes no sense.
    Damaged(String),
    /// The database says no.
    Failed(String),
    /// The connection is gone.
    Lost(String),
}

/// A row of an answer.
pub(super) trait Row {
    fn int(&self, column: usize) -> Result<i64, Fault>;
    fn optional_int(&self, column: usize) -> Result<Option<i64>, Fault>;
    fn text(&self, column: usize) -> Result<&str, Fault>;
    fn optional_text(&self, column: usize) -> Result<Option<&str>, Fault>;
    fn blob(&self, column: usize) -> Result<&[u8], Fault>;
}

/// A statement that is run for many rows.
#[derive(Debug)]
pub(super) struct Batch {
    /// For one row at a time.
    pub(super) one: &'static str,
    /// For all rows at once: each parameter is the array of a column.
    pub(super) many: &'static str,
}

/// A connection, within a transaction where something is changed. Statements number their parameters `$1`, `$2`, ... in
/// the order in which they first appear, which both databases understand.
pub(super) trait Sql {
    /// Runs a statement; how many rows it changed.
    fn execute(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, Fault>;

    /// Runs a statement for each row; how many rows they changed together.
    fn execute_each<const N: usize>(
        &mut self,
        batch: &'static Batch,
        rows: &[[Value<'_>; N]],
    ) -> Result<u64, Fault>;

    /// Goes through an answer, until the visitor stops it.
    fn query<E: From<Fault>>(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Row) -> Result<(), E>,
    ) -> Result<(), E>;

    /// The one integer that the answer is, if it is one.
    fn number(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Option<i64>, Fault> {
        let mut found = None;
        self.query(sql, values, &mut |row| -> Result<(), Fault> {
            found = row.optional_int(0)?;
            Ok(())
        })?;
        Ok(found)
    }
}
