//! The subset of SQL that both databases share, so that each change and query is written once.

use super::Hash;

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Int(Option<i64>),
    Text(Option<&'a str>),
    Blob(&'a [u8]),
    /// Databases count to `i64::MAX`; statements with such a value are rejected.
    TooLarge(u64),
}

impl From<Option<u64>> for Value<'_> {
    fn from(value: Option<u64>) -> Self {
        match value.map(|value| i64::try_from(value).map_err(|_| value)).transpose() {
            Ok(value) => Value::Int(value),
            Err(value) => Value::TooLarge(value),
        }
    }
}

/// Conversions of parameters.
macro_rules! values {
    ($($kind:ty: |$value:ident| $of:expr,)*) => {
        $(impl<'a> From<$kind> for Value<'a> {
            fn from($value: $kind) -> Self {
                $of
            }
        })*
    };
}

values! {
    u64: |value| Some(value).into(),
    i64: |value| Value::Int(Some(value)),
    u32: |value| Value::Int(Some(value.into())),
    bool: |value| Value::Int(Some(value.into())),
    &'a str: |value| Value::Text(Some(value)),
    Option<&'a str>: |value| Value::Text(value),
    &'a [u8]: |value| Value::Blob(value),
    &'a Hash: |value| Value::Blob(value),
    &'a u64: |value| (*value).into(),
    &'a u32: |value| (*value).into(),
    &'a bool: |value| (*value).into(),
    &'a Option<u64>: |value| (*value).into(),
    &'a Option<String>: |value| Value::Text(value.as_deref()),
    &'a String: |value| Value::Text(Some(value)),
    &'a Vec<u8>: |value| Value::Blob(value),
}

/// The parameters of a statement, converted.
macro_rules! parameters {
    ($($value:expr),* $(,)?) => {
        &[$($crate::storage::sql::Value::from($value)),*]
    };
}
pub(super) use parameters;

/// The result of a statement.
pub(super) type Result<T, E = SqlError> = std::result::Result<T, E>;

/// Why a statement failed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SqlError {
    /// It contradicts what is stored.
    Rejected(String),
    /// What is stored is invalid.
    Corrupt(String),
    /// The database reported an error.
    Failed(String),
    /// The connection was lost.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "SQLite has no connection to lose"))]
    ConnectionLost(String),
    /// A visitor of rows asked to stop.
    Stopped,
}

/// A row of a result.
pub(super) trait Row {
    fn int(&self, column: usize) -> Result<Option<i64>>;
    fn text(&self, column: usize) -> Result<Option<&str>>;
    fn blob(&self, column: usize) -> Result<&[u8]>;
}

/// A visitor of rows.
pub(super) type EachRow<'a> = dyn FnMut(&dyn Row) -> Result<()> + 'a;

/// A statement that is run for many rows.
#[derive(Debug)]
pub(super) struct Batch {
    /// For one row at a time.
    pub(super) one: &'static str,
    /// For all rows at once: each parameter is the array of a column.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "SQLite takes one row at a time"))]
    pub(super) many: &'static str,
}

/// A connection within a transaction. Statements number their parameters `$1`, `$2`, ... in order of first appearance,
/// which both databases understand.
pub(super) trait Sql {
    /// Runs a statement; returns the number of rows changed.
    fn run(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64>;

    /// Runs a statement for each of the rows; returns the number of rows changed.
    fn run_batch(&mut self, batch: &'static Batch, rows: &[Vec<Value<'_>>]) -> Result<u64>;

    /// Visits the rows of a result.
    fn visit(&mut self, sql: &'static str, values: &[Value<'_>], each: &mut EachRow<'_>) -> Result<()>;
}

fn check(values: &[Value<'_>]) -> Result<()> {
    match values.iter().find_map(|value| if let Value::TooLarge(large) = value { Some(large) } else { None }) {
        Some(large) => Err(SqlError::Rejected(format!("{large} is above {}", i64::MAX))),
        None => Ok(()),
    }
}

impl dyn Sql + '_ {
    /// Runs a statement; returns the number of rows changed.
    pub(super) fn execute(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64> {
        check(values)?;
        self.run(sql, values)
    }

    /// Runs a statement for each of the rows; returns the number of rows changed.
    pub(super) fn execute_batch(&mut self, batch: &'static Batch, rows: &[Vec<Value<'_>>]) -> Result<u64> {
        rows.iter().try_for_each(|row| check(row))?;
        if rows.is_empty() { Ok(0) } else { self.run_batch(batch, rows) }
    }

    /// Visits the rows of a result.
    pub(super) fn query(&mut self, sql: &'static str, values: &[Value<'_>], each: &mut EachRow<'_>) -> Result<()> {
        check(values)?;
        self.visit(sql, values, each)
    }

    /// The integer in the first column of the result, if there is one.
    pub(super) fn integer(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Option<i64>> {
        let mut found = None;
        self.query(sql, values, &mut |row| {
            found = row.int(0)?;
            Ok(())
        })?;
        Ok(found)
    }
}
