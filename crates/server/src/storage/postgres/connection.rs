//! Statements on a PostgreSQL connection.

use super::super::sql::{Batch, EachRow, Result, Row, Sql, SqlError, Value};
use ::postgres::fallible_iterator::FallibleIterator;
use ::postgres::types::private::BytesMut;
use ::postgres::types::{IsNull, ToSql, Type};
use ::postgres::{Client, Statement};
use std::collections::HashMap;
use std::error::Error;
use std::io;

/// A connection and its prepared statements.
pub(super) struct Session {
    pub(super) client: Client,
    statements: HashMap<&'static str, Statement>,
}

impl Session {
    pub(super) fn new(client: Client) -> Self {
        Self { client, statements: HashMap::new() }
    }

    fn prepared(&mut self, sql: &'static str, types: &[Type]) -> Result<Statement> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare_typed(sql, types).map_err(sql_error)?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    fn prepared_for(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Statement> {
        let types: Vec<_> = values.iter().map(Value::kind).collect();
        self.prepared(sql, &types)
    }
}

impl Value<'_> {
    fn kind(&self) -> Type {
        match self {
            Value::Int(_) | Value::TooLarge(_) => Type::INT8,
            Value::Text(_) => Type::TEXT,
            Value::Blob(_) => Type::BYTEA,
        }
    }
}

type Encoded = Result<IsNull, Box<dyn Error + Sync + Send>>;

impl ToSql for Value<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Encoded {
        match self {
            Value::Int(value) => value.to_sql(kind, out),
            Value::Text(value) => value.to_sql(kind, out),
            Value::Blob(value) => value.to_sql(kind, out),
            Value::TooLarge(value) => Err(format!("{value} is too large").into()),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::TEXT, Type::BYTEA].contains(kind)
    }

    ::postgres::types::to_sql_checked!();
}

/// The values of one column, as an array.
fn column<'a>(rows: &[Vec<Value<'a>>], index: usize) -> Box<dyn ToSql + Sync + 'a> {
    let values = rows.iter().map(|row| row[index]);
    match rows[0][index] {
        Value::Text(_) => {
            let text = |value| if let Value::Text(text) = value { text } else { None };
            Box::new(values.map(text).collect::<Vec<_>>())
        }
        Value::Blob(_) => {
            let blob = |value| if let Value::Blob(blob) = value { Some(blob) } else { None };
            Box::new(values.map(blob).collect::<Vec<_>>())
        }
        Value::Int(_) | Value::TooLarge(_) => {
            let int = |value| if let Value::Int(int) = value { int } else { None };
            Box::new(values.map(int).collect::<Vec<_>>())
        }
    }
}

impl Sql for Session {
    fn run(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64> {
        let statement = self.prepared_for(sql, values)?;
        let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        self.client.execute(&statement, &values).map_err(sql_error)
    }

    fn run_batch(&mut self, batch: &'static Batch, rows: &[Vec<Value<'_>>]) -> Result<u64> {
        // The statement declares the types of its arrays.
        let statement = self.prepared(batch.many, &[])?;
        let columns: Vec<_> = (0..rows[0].len()).map(|index| column(rows, index)).collect();
        let columns: Vec<_> = columns.iter().map(|column| &**column).collect();
        self.client.execute(&statement, &columns).map_err(sql_error)
    }

    fn visit(&mut self, sql: &'static str, values: &[Value<'_>], each: &mut EachRow<'_>) -> Result<()> {
        let statement = self.prepared_for(sql, values)?;
        let mut rows = self.client.query_raw(&statement, values.iter().copied()).map_err(sql_error)?;
        while let Some(row) = rows.next().map_err(sql_error)? {
            each(&row)?;
        }
        Ok(())
    }
}

/// Classifies PostgreSQL's errors.
#[allow(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
pub(super) fn sql_error(error: ::postgres::Error) -> SqlError {
    let code = error.code().map_or("", |code| code.code());
    let reason = match error.as_db_error() {
        Some(said) => said.message().to_owned(),
        None => with_source(&error),
    };
    // Classes of SQLSTATE: 08 connection lost, 57P server shutting down, 22 and 23 invalid data.
    match code.get(..2).unwrap_or("") {
        "08" => SqlError::ConnectionLost(reason),
        "57" if code.starts_with("57P") => SqlError::ConnectionLost(reason),
        "22" | "23" => SqlError::Rejected(reason),
        _ if error.is_closed() || is_io(&error) => SqlError::ConnectionLost(reason),
        _ => SqlError::Failed(reason),
    }
}

fn is_io(error: &::postgres::Error) -> bool {
    error.source().is_some_and(<dyn Error + 'static>::is::<io::Error>)
}

fn with_source(error: &::postgres::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

impl Row for ::postgres::Row {
    fn int(&self, column: usize) -> Result<Option<i64>> {
        self.try_get(column).map_err(unexpected)
    }

    fn text(&self, column: usize) -> Result<Option<&str>> {
        self.try_get(column).map_err(unexpected)
    }

    fn blob(&self, column: usize) -> Result<&[u8]> {
        self.try_get(column).map_err(unexpected)
    }
}

#[allow(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn unexpected(error: ::postgres::Error) -> SqlError {
    SqlError::Corrupt(with_source(&error))
}
