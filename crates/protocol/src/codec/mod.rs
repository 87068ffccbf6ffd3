//! The wire format, as `docs/wire-format.md` describes it.
//!
//! Every message is an envelope (magic, version, kind, length, checksum) around a payload. Each kind of message has a
//! version of its own; a message of another version is refused. Encoders append to a buffer of the
//! caller's; decoders take one whole message, never panic, and hold at most a small multiple of its length.

mod envelope;
mod model;
pub(crate) mod primitives;
mod quantized;
mod terms;
mod update;

pub use model::{
    apply_difference, decode_difference, decode_model, difference_bytes, encode_difference, encode_model, model_bytes,
};
pub use primitives::Reader;
pub use quantized::{QuantizedUpdate, decode_quantized, encode_quantized, quantized_bytes};
pub use terms::{decode_refusal, decode_terms, encode_refusal, encode_terms};
pub use update::{decode_update, encode_update, update_bytes};

pub(crate) use envelope::{Kind, next, seal};
pub(crate) use model::write_shape;
