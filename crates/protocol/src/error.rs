//! What can go wrong, by who finds it.

use crate::{ModelVersion, Refusal, ValueEncoding};
use thiserror::Error;

/// Bytes that are not a message, or not the one expected. Each says where and what was expected.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum DecodeError {
    /// The message ends inside a field.
    #[error("{field} at byte {at}: {needed} bytes expected, {left} left")]
    Truncated {
        /// Field being read.
        field: &'static str,
        /// Where it begins.
        at: usize,
        /// Bytes the field needs.
        needed: u64,
        /// Bytes there are.
        left: usize,
    },
    /// The first four bytes are not `SOTV`.
    #[error("not a Sottovoce message: it begins with {found:02x?} instead of \"SOTV\"")]
    Magic {
        /// What was found.
        found: [u8; 4],
    },
    /// A version of this kind of message that this build does not speak.
    #[error("wire format version {found}, this build speaks {spoken}")]
    Version {
        /// Version of the message.
        found: u8,
        /// Version of this build.
        spoken: u8,
    },
    /// Another kind of message.
    #[error("message kind {found}, expected {expected}")]
    Kind {
        /// Kind of the message.
        found: u8,
        /// Kind the caller asked for.
        expected: u8,
    },
    /// The stated length is not the length of what was given.
    #[error("payload of {stated} bytes stated, {found} given")]
    Length {
        /// In the envelope.
        stated: u64,
        /// By the size of the message.
        found: u64,
    },
    /// Bytes were changed on the way.
    #[error("checksum {stated:08x} stated, {computed:08x} computed")]
    Checksum {
        /// In the message.
        stated: u32,
        /// Of the message.
        computed: u32,
    },
    /// A number is past its limit, or an index past the end of what it points into.
    #[error("{field} at byte {at}: {found}, at most {most} expected")]
    Limit {
        /// Field being read.
        field: &'static str,
        /// Where it begins.
        at: usize,
        /// The number found.
        found: u64,
        /// The largest allowed.
        most: u64,
    },
    /// A variable-length number is longer than its value needs, or does not fit 64 bits.
    #[error("{field} at byte {at}: not a variable-length number in its shortest form")]
    Number {
        /// Field being read.
        field: &'static str,
        /// Where it begins.
        at: usize,
    },
    /// A text is not UTF-8.
    #[error("{field} at byte {at}: not UTF-8")]
    Text {
        /// Field being read.
        field: &'static str,
        /// Where it begins.
        at: usize,
    },
    /// Something that must ascend does not, or comes twice.
    #[error("{field} at byte {at}: not in ascending order")]
    Order {
        /// Field being read.
        field: &'static str,
        /// Where it begins.
        at: usize,
    },
    /// A code with no meaning in this version.
    #[error("{field} at byte {at}: unknown code {found}")]
    Code {
        /// Field being read.
        field: &'static str,
        /// Where it is.
        at: usize,
        /// What was found.
        found: u8,
    },
    /// A value that is not finite, or an 8-bit value of -128.
    #[error("{field} at byte {at}: not a finite number within the encoding's range")]
    Value {
        /// Field being read.
        field: &'static str,
        /// Where the block or number begins.
        at: usize,
    },
    /// The message was made for tables of other shapes.
    #[error("made for layout {stated:08x}, this model has {expected:08x}")]
    Layout {
        /// In the message.
        stated: u32,
        /// Of the model at hand.
        expected: u32,
    },
    /// The content ended before the message did.
    #[error("{0} bytes after the end of the content")]
    Trailing(usize),
    /// Well-formed, but what it describes cannot be built.
    #[error("{0}")]
    Content(String),
}

/// Tables that do not fit together, or a difference that does not fit the model.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ModelError {
    /// A number is 0 or past its limit.
    #[error("table {table:?}: {field} is {found}, expected 1 to {most}")]
    Limit {
        /// Name of the table, or empty.
        table: String,
        /// Which number.
        field: &'static str,
        /// The number.
        found: u64,
        /// The largest allowed.
        most: u64,
    },
    /// The number of values is not rows times columns.
    #[error("table {table:?}: {found} values for {rows} rows of {cols}")]
    Values {
        /// Name of the table.
        table: String,
        /// Values given.
        found: usize,
        /// Rows.
        rows: u32,
        /// Columns.
        cols: u32,
    },
    /// Two tables have one name.
    #[error("two tables are called {0:?}")]
    Twice(String),
    /// Values that are not finite.
    #[error("table {0:?} holds a value that is not finite")]
    NotFinite(String),
    /// The tables are not those of the layout.
    #[error("tables of layout {found:08x}, expected {expected:08x}")]
    Layout {
        /// Of the tables.
        found: u32,
        /// Expected.
        expected: u32,
    },
    /// A difference made for another version or federation than the one held.
    #[error("the difference is to {needed} of federation {federation}, held is {held}")]
    Base {
        /// Federation of the difference.
        federation: u64,
        /// Version it was made for.
        needed: ModelVersion,
        /// Version at hand.
        held: ModelVersion,
    },
    /// The version held has not the content the difference was made for.
    #[error("held values have checksum {held:08x}, the difference is to {needed:08x}: take the whole model")]
    Content {
        /// Of the values at hand.
        held: u32,
        /// Of the values it was made for.
        needed: u32,
    },
    /// A value cannot be encoded.
    #[error(transparent)]
    Value(#[from] ValueError),
}

/// A value that the encoding cannot carry.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("table {table}: a value is not finite or too large for {encoding}")]
pub struct ValueError {
    /// Index of the table in the layout.
    pub table: usize,
    /// The encoding asked for.
    pub encoding: ValueEncoding,
}

/// A row or criterion that does not belong into an update: a mistake of the model that trains.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum UpdateError {
    /// The layout has no such table.
    #[error("table {table} of {tables}")]
    Table {
        /// Index given.
        table: usize,
        /// Number of tables.
        tables: usize,
    },
    /// A row past the end of its table.
    #[error("table {table}: row {row} of {rows}")]
    Row {
        /// Index of the table.
        table: usize,
        /// Row given.
        row: u32,
        /// Rows of the table.
        rows: u32,
    },
    /// Rows come in ascending order, each once.
    #[error("table {table}: row {row} after row {last}")]
    Order {
        /// Index of the table.
        table: usize,
        /// Row given.
        row: u32,
        /// Row before it.
        last: u32,
    },
    /// Every row has an origin.
    #[error("table {table}: {rows} rows with {origins} origins")]
    Origins {
        /// Index of the table.
        table: usize,
        /// Rows.
        rows: usize,
        /// Origins.
        origins: usize,
    },
    /// A whole table has all its values.
    #[error("table {table}: {found} values, expected {expected}")]
    Values {
        /// Index of the table.
        table: usize,
        /// Values given.
        found: usize,
        /// Values of the table.
        expected: usize,
    },
    /// Only dense tables go whole; rows that concern somebody's items need their origin.
    #[error("table {0} is not dense: push its rows one by one, with their origins")]
    NeedsOrigins(usize),
    /// Dense tables have no rows to choose from.
    #[error("table {0} is dense: it goes whole or not at all")]
    NeedsWhole(usize),
    /// Criteria come in ascending order of their index in the round terms, each once, finite.
    #[error("criterion {0}: out of order, past the limit, or not finite")]
    Criterion(u32),
}

/// Why nothing left.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum DisclosureError {
    /// The owner does not take part in this round.
    #[error("the owner's policy: {0}")]
    Refused(#[from] Refusal),
    /// A value cannot be encoded as the terms ask.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The update reports a criterion the terms do not ask for.
    #[error("criterion {found} reported, the terms ask for {asked}")]
    Criterion {
        /// Index reported.
        found: u32,
        /// Number asked for.
        asked: usize,
    },
    /// The message would be larger than the wire format allows.
    #[error("a message of {bytes} bytes, at most {most} can be sent")]
    TooLarge {
        /// Size of the message.
        bytes: u64,
        /// The limit.
        most: u64,
    },
}

/// A change of policy that is not possible.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum PolicyError {
    /// pi is a probability.
    #[error("pi is {0}, expected a number from 0 to 1")]
    Pi(f64),
    /// A withdrawn owner comes back by enrolling anew.
    #[error("the owner has withdrawn; enrol anew to take part again")]
    Withdrawn,
}

/// Round terms that cannot be sent.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("round terms: {field} is {found} long, at most {most} can be sent")]
pub struct TermsError {
    /// Which part.
    pub field: &'static str,
    /// Its length or count.
    pub found: u64,
    /// The largest allowed.
    pub most: u64,
}
