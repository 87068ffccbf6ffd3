//! Statements on a PostgreSQL connection.

use super::super::sql::{Batch, Fault, Row, Sql, Value};
use ::postgres::fallible_iterator::FallibleIterator;
use ::postgres::types::private::BytesMut;
use ::postgres::types::{IsNull, ToSql, Type};
use ::postgres::{Client, Statement};
use std::collections::HashMap;
use std::error::Error;
use std::io;

/// A connection and the statements that the server knows on it.
pub(super) struct Lane {
    pub(super) client: Client,
    statements: HashMap<&'static str, Statement>,
}

impl Lane {
    pub(super) fn new(client: Client) -> Self {
        Self { client, statements: HashMap::new() }
    }

    fn prepared(&mut self, sql: &'static str, types: &[Type]) -> Result<Statement, Fault> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare_typed(sql, types).map_err(fault)?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    fn prepared_for(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Statement, Fault> {
        let types: Vec<_> = values.iter().map(Value::kind).collect();
        self.prepared(sql, &types)
    }
}

impl Value<'_> {
    fn kind(&self) -> Type {
        match self {
            Value::Int(_) | Value::Optional(_) => Type::INT8,
            Value::Text(_) | Value::OptionalText(_) => Type::TEXT,
            Value::Blob(_) => Type::BYTEA,
        }
    }
}

type Encoded = Result<IsNull, Box<dyn Error + Sync + Send>>;

impl ToSql for Value<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Encoded {
        match self {
            Value::Int(value) => value.to_sql(kind, out),
            Value::Optional(value) => value.to_sql(kind, out),
            Value::Text(value) => value.to_sql(kind, out),
            Value::OptionalText(value) => value.to_sql(kind, out),
            Value::Blob(value) => value.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::TEXT, Type::BYTEA].contains(kind)
    }

    ::postgres::types::to_sql_checked!();
}

/// The values of one column, as an array.
fn column<'a, const N: usize>(rows: &[[Value<'a>; N]], at: usize) -> Box<dyn ToSql + Sync + 'a> {
    let values = rows.iter().map(|row| row[at]);
    match rows.first().map(|row| row[at]) {
        Some(Value::Text(_) | Value::OptionalText(_)) => Box::new(values.map(text).collect::<Vec<_>>()),
        Some(Value::Blob(_)) => Box::new(values.map(blob).collect::<Vec<_>>()),
        _ => Box::new(values.map(int).collect::<Vec<_>>()),
    }
}

fn int(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int(value) => Some(value),
        Value::Optional(value) => value,
        _ => None,
    }
}

fn text(value: Value<'_>) -> Option<&str> {
    match value {
        Value::Text(value) => Some(value),
        Value::OptionalText(value) => value,
        _ => None,
    }
}

fn blob(value: Value<'_>) -> Option<&[u8]> {
    match value {
        Value::Blob(value) => Some(value),
        _ => None,
    }
}

impl Sql for Lane {
    fn execute(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, Fault> {
        let statement = self.prepared_for(sql, values)?;
        let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        self.client.execute(&statement, &values).map_err(fault)
    }

    fn execute_each<const N: usize>(
        &mut self,
        batch: &'static Batch,
        rows: &[[Value<'_>; N]],
    ) -> Result<u64, Fault> {
        // The statement itself says which arrays it takes.
        let statement = self.prepared(batch.many, &[])?;
        let columns: Vec<_> = (0..N).map(|at| column(rows, at)).collect();
        let columns: Vec<_> = columns.iter().map(|column| &**column).collect();
        self.client.execute(&statement, &columns).map_err(fault)
    }

    fn query<E: From<Fault>>(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
        each: &mut dyn FnMut(&dyn Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let statement = self.prepared_for(sql, values)?;
        let mut rows = self.client.query_raw(&statement, values.iter().copied()).map_err(fault)?;
        while let Some(row) = rows.next().map_err(fault)? {
            each(&row)?;
        }
        Ok(())
    }
}

/// What PostgreSQL's answer means.
#[allow(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
pub(super) fn fault(error: ::postgres::Error) -> Fault {
    let code = error.code().map_or("", |code| code.code());
    let reason = match (error.as_db_error(), error.source()) {
        (Some(said), _) => said.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    };
    // Classes of SQLSTATE: 08 connection lost, 57P the server goes down, 22 and 23 the data do not fit.
    match code.get(..2).unwrap_or("") {
        "08" => Fault::Lost(reason),
        "57" if code.starts_with("57P") => Fault::Lost(reason),
        "22" | "23" => Fault::Refused(reason),
        _ if error.is_closed() || is_io(&error) => Fault::Lost(reason),
        _ => Fault::Failed(reason),
    }
}

fn is_io(error: &::postgres::Error) -> bool {
    error.source().is_some_and(<dyn Error + 'static>::is::<io::Error>)
}

impl Row for ::postgres::Row {
    fn int(&self, column: usize) -> Result<i64, Fault> {
        self.try_get(column).map_err(unexpected)
    }

    fn optional_int(&self, column: usize) -> Result<Option<i64>, Fault> {
        self.try_get(column).map_err(unexpected)
    }

    fn text(&self, column: usize) -> Result<&str, Fault> {
        self.try_get(column).map_err(unexpected)
    }

    fn optional_text(&self, column: usize) -> Result<Option<&str>, Fault> {
        self.try_get(column).map_err(unexpected)
    }

    fn blob(&self, column: usize) -> Result<&[u8], Fault> {
        self.try_get(column).map_err(unexpected)
    }
}

#[allow(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn unexpected(error: ::postgres::Error) -> Fault {
    Fault::Damaged(match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    })
}
