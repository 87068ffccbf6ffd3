//! What can go wrong, by who finds it.

use crate::{ModelVersion, Refusal, ValueEncoding};
use thiserror::Error;

/// Bytes that are not a message, or not the one expected. Each says where and what was expected.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum DecodeError {
    /// The message ends inside a field. Fields: field being read; where it begins; bytes the field needs; bytes there
    /// are.
    #[error("{0} at byte {1}: {2} bytes expected, {3} left")]
    Truncated(&'static str, usize, u64, usize),
    /// The first four bytes are not `SOTV`. Fields: what was found.
    #[error("not a Sottovoce message: it begins with {0:02x?} instead of \"SOTV\"")]
    Magic([u8; 4]),
    /// A version of this kind of message that this build does not speak. Fields: version of the message; version of this
    /// build.
    #[error("wire format version {0}, this build speaks {1}")]
    Version(u8, u8),
    /// Another kind of message. Fields: kind of the message; kind the caller asked for.
    #[error("message kind {0}, expected {1}")]
    Kind(u8, u8),
    /// The stated length is not the length of what was given. Fields: in the envelope; by the size of the message.
    #[error("payload of {0} bytes stated, {1} given")]
    Length(u64, u64),
    /// Bytes were changed on the way. Fields: in the message; of the message.
    #[error("checksum {0:08x} stated, {1:08x} computed")]
    Checksum(u32, u32),
    /// A number is past its limit, or an index past the end of what it points into. Fields: field being read; where it
    /// begins; the number found; the largest allowed.
    #[error("{0} at byte {1}: {2}, at most {3} expected")]
    Limit(&'static str, usize, u64, u64),
    /// A variable-length number is longer than its value needs, or does not fit 64 bits. Fields: field being read; where
    /// it begins.
    #[error("{0} at byte {1}: not a variable-length number in its shortest form")]
    Number(&'static str, usize),
    /// A text is not UTF-8. Fields: field being read; where it begins.
    #[error("{0} at byte {1}: not UTF-8")]
    Text(&'static str, usize),
    /// Something that must ascend does not, or comes twice. Fields: field being read; where it begins.
    #[error("{0} at byte {1}: not in ascending order")]
    Order(&'static str, usize),
    /// A code with no meaning in this version. Fields: field being read; where it is; what was found.
    #[error("{0} at byte {1}: unknown code {2}")]
    Code(&'static str, usize, u8),
    /// A value that is not finite, or an 8-bit value of -128. Fields: field being read; where the block or number begins.
    #[error("{0} at byte {1}: not a finite number within the encoding's range")]
    Value(&'static str, usize),
    /// The message was made for tables of other shapes. Fields: in the message; of the model at hand.
    #[error("made for layout {0:08x}, this model has {1:08x}")]
    Layout(u32, u32),
    /// The content ended before the message did.
    #[error("{0} bytes after the end of the content")]
    Trailing(usize),
    /// Well-formed, but what it describes cannot be built.
    #[error("{0}")]
    Content(String),
}

/// What decoding returns.
pub(crate) type Result<T, E = DecodeError> = std::result::Result<T, E>;

/// Tables that do not fit together, or a difference that does not fit the model.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ModelError {
    /// A number is 0 or past its limit. Fields: name of the table, or empty; which number; the number; the largest
    /// allowed.
    #[error("table {0:?}: {1} is {2}, expected 1 to {3}")]
    Limit(String, &'static str, u64, u64),
    /// The number of values is not rows times columns. Fields: name of the table; values given; rows; columns.
    #[error("table {0:?}: {1} values for {2} rows of {3}")]
    Values(String, usize, u32, u32),
    /// Two tables have one name.
    #[error("two tables are called {0:?}")]
    Twice(String),
    /// Values that are not finite.
    #[error("table {0:?} holds a value that is not finite")]
    NotFinite(String),
    /// The tables are not those of the layout. Fields: of the tables; expected.
    #[error("tables of layout {0:08x}, expected {1:08x}")]
    Layout(u32, u32),
    /// A difference made for another version or federation than the one held. Fields: federation of the difference;
    /// version it was made for; version at hand.
    #[error("the difference is to {1} of federation {0}, held is {2}")]
    Base(u64, ModelVersion, ModelVersion),
    /// The version held has not the content the difference was made for. Fields: of the values at hand; of the values
    /// it was made for.
    #[error("held values have checksum {0:08x}, the difference is to {1:08x}: take the whole model")]
    Content(u32, u32),
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
    /// The layout has no such table. Fields: index given; number of tables.
    #[error("table {0} of {1}")]
    Table(usize, usize),
    /// A row past the end of its table. Fields: index of the table; row given; rows of the table.
    #[error("table {0}: row {1} of {2}")]
    Row(usize, u32, u32),
    /// Rows come in ascending order, each once. Fields: index of the table; row given; row before it.
    #[error("table {0}: row {1} after row {2}")]
    Order(usize, u32, u32),
    /// Every row has an origin. Fields: index of the table; rows; origins.
    #[error("table {0}: {1} rows with {2} origins")]
    Origins(usize, usize, usize),
    /// A whole table has all its values. Fields: index of the table; values given; values of the table.
    #[error("table {0}: {1} values, expected {2}")]
    Values(usize, usize, usize),
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
    /// The update reports a criterion the terms do not ask for. Fields: index reported; number asked for.
    #[error("criterion {0} reported, the terms ask for {1}")]
    Criterion(u32, usize),
    /// The message would be larger than the wire format allows. Fields: size of the message; the limit.
    #[error("a message of {0} bytes, at most {1} can be sent")]
    TooLarge(u64, u64),
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
