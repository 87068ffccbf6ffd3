//! The limits of the wire format, each defined here and nowhere else.
//!
//! They keep what a decoder may be asked to hold within reason; whoever receives bytes may set lower ones before
//! decoding. Constructors check the same limits, so that whatever can be built can be sent.

/// Bytes of a whole message, envelope included: 256 MiB.
pub const MESSAGE_BYTES: u64 = 1 << 28;
/// Tables of a model.
pub const TABLES: u64 = 256;
/// Rows of a table.
pub const ROWS: u64 = 1 << 28;
/// Columns of a table.
pub const COLS: u64 = 1 << 22;
/// Bytes of a name (table, model, setting, criterion, privacy layer).
pub const NAME_BYTES: u64 = 128;
/// Bytes of a text (a setting's value, a reason).
pub const TEXT_BYTES: u64 = 4096;
/// Settings of a model or a privacy layer.
pub const SETTINGS: u64 = 256;
/// Criteria asked for in a round or reported in an update.
pub const CRITERIA: u64 = 32;
/// Privacy layers of a round.
pub const LAYERS: u64 = 8;
