//! Statements on a SQLite connection.

use super::super::sql::{Batch, Fault, Row, Sql, Value};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Statement, ToSql, params_from_iter};

/// A connection within a transaction.
pub(super) struct Lane<'a>(pub(super) &'a Connection);

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Value::Int(value) | Value::Optional(Some(value)) => ValueRef::Integer(*value),
            Value::Text(value) | Value::OptionalText(Some(value)) => ValueRef::Text(value.as_bytes()),
            Value::Blob(value) => ValueRef::Blob(value),
            Value::Optional(None) | Value::OptionalText(None) => ValueRef::Null,
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

impl Sql for Lane<'_> {
    fn execute(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, Fault> {
        let mut statement = self.0.prepare_cached(sql).map_err(fault)?;
        run(&mut statement, values)
    }

    fn execute_each<const N: usize>(
        &mut self,
        batch: &'static Batch,
        rows: &[[Value<'_>; N]],
    ) -> Result<u64, Fault> {
        let mut statement = self.0.prepare_cached(batch.one).map_err(fault)?;
        rows.iter().map(|row| run(&mut statement, row)).sum()
    }

    fn query<E: From<Fault>>(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut statement = self.0.prepare_cached(sql).map_err(fault)?;
        let mut rows = statement.query(params_from_iter(values)).map_err(fault)?;
        while let Some(row) = rows.next().map_err(fault)? {
            each(row)?;
        }
        Ok(())
    }
}

fn run(statement: &mut Statement<'_>, values: &[Value<'_>]) -> Result<u64, Fault> {
    statement.execute(params_from_iter(values)).map(|changed| changed as u64).map_err(fault)
}

/// What SQLite's answer means.
#[allow(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
pub(super) fn fault(error: rusqlite::Error) -> Fault {
    let reason = match &error {
        rusqlite::Error::SqliteFailure(code, None) => code.to_string(),
        other => other.to_string(),
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => Fault::Refused(reason),
        Some(ErrorCode::NotADatabase) => Fault::Damaged("is not a SQLite database".into()),
        Some(ErrorCode::DatabaseCorrupt) => Fault::Damaged(reason),
        _ => Fault::Failed(reason),
    }
}

impl Row for rusqlite::Row<'_> {
    fn int(&self, column: usize) -> Result<i64, Fault> {
        value(self, column)?.as_i64().map_err(|_| unexpected(column, "a number"))
    }

    fn optional_int(&self, column: usize) -> Result<Option<i64>, Fault> {
        value(self, column)?.as_i64_or_null().map_err(|_| unexpected(column, "a number or nothing"))
    }

    fn text(&self, column: usize) -> Result<&str, Fault> {
        value(self, column)?.as_str().map_err(|_| unexpected(column, "text"))
    }

    fn optional_text(&self, column: usize) -> Result<Option<&str>, Fault> {
        value(self, column)?.as_str_or_null().map_err(|_| unexpected(column, "text or nothing"))
    }

    fn blob(&self, column: usize) -> Result<&[u8], Fault> {
        value(self, column)?.as_blob().map_err(|_| unexpected(column, "bytes"))
    }
}

fn value<'a>(row: &'a rusqlite::Row<'_>, column: usize) -> Result<ValueRef<'a>, Fault> {
    row.get_ref(column).map_err(fault)
}

fn unexpected(column: usize, expected: &str) -> Fault {
    Fault::Damaged(format!("column {column} of an answer is not {expected}"))
}
