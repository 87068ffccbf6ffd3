//! Statements on a SQLite connection.

use super::super::sql::{Batch, EachRow, Result, Row, Sql, SqlError, Value};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Statement, ToSql, params_from_iter};

/// A connection within a transaction.
pub(super) struct Session<'a>(pub(super) &'a Connection);

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Value::Int(Some(value)) => ValueRef::Integer(*value),
            Value::Text(Some(value)) => ValueRef::Text(value.as_bytes()),
            Value::Blob(value) => ValueRef::Blob(value),
            Value::Int(None) | Value::Text(None) | Value::TooLarge(_) => ValueRef::Null,
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

impl Sql for Session<'_> {
    fn run(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64> {
        let mut statement = self.0.prepare_cached(sql).map_err(sql_error)?;
        run(&mut statement, values)
    }

    fn run_batch(&mut self, batch: &'static Batch, rows: &[Vec<Value<'_>>]) -> Result<u64> {
        let mut statement = self.0.prepare_cached(batch.one).map_err(sql_error)?;
        rows.iter().map(|row| run(&mut statement, row)).sum()
    }

    fn visit(&mut self, sql: &'static str, values: &[Value<'_>], each: &mut EachRow<'_>) -> Result<()> {
        let mut statement = self.0.prepare_cached(sql).map_err(sql_error)?;
        let mut rows = statement.query(params_from_iter(values)).map_err(sql_error)?;
        while let Some(row) = rows.next().map_err(sql_error)? {
            each(row)?;
        }
        Ok(())
    }
}

fn run(statement: &mut Statement<'_>, values: &[Value<'_>]) -> Result<u64> {
    statement.execute(params_from_iter(values)).map(|changed| changed as u64).map_err(sql_error)
}

/// Classifies SQLite's errors.
#[allow(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
pub(super) fn sql_error(error: rusqlite::Error) -> SqlError {
    let reason = match &error {
        rusqlite::Error::SqliteFailure(code, None) => code.to_string(),
        other => other.to_string(),
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => SqlError::Rejected(reason),
        Some(ErrorCode::NotADatabase) => SqlError::Corrupt("is not a SQLite database".into()),
        Some(ErrorCode::DatabaseCorrupt) => SqlError::Corrupt(reason),
        _ => SqlError::Failed(reason),
    }
}

impl Row for rusqlite::Row<'_> {
    fn int(&self, column: usize) -> Result<Option<i64>> {
        value(self, column)?.as_i64_or_null().map_err(|_| unexpected(column, "a number"))
    }

    fn text(&self, column: usize) -> Result<Option<&str>> {
        value(self, column)?.as_str_or_null().map_err(|_| unexpected(column, "text"))
    }

    fn blob(&self, column: usize) -> Result<&[u8]> {
        value(self, column)?.as_blob().map_err(|_| unexpected(column, "bytes"))
    }
}

fn value<'a>(row: &'a rusqlite::Row<'_>, column: usize) -> Result<ValueRef<'a>> {
    row.get_ref(column).map_err(sql_error)
}

fn unexpected(column: usize, expected: &str) -> SqlError {
    SqlError::Corrupt(format!("column {column} of a result is not {expected}"))
}
