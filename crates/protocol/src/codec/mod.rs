//! The wire format, version 1: what `docs/wire-format.md` describes.
//!
//! Every message is an envelope (magic, version, kind, length, checksum) around a payload. Encoders append to a buffer of
//! the caller's; decoders take one whole message, never panic, and hold at most a small multiple of its length.

mod envelope;
mod model;
mod terms;
mod update;
pub(crate) mod wire;
mod words;

pub use envelope::{Kind, VERSION, kind_of};
pub use model::{
    apply_difference, decode_difference, decode_model, difference_bytes, encode_difference, encode_model,
    model_bytes,
};
pub use terms::{decode_refusal, decode_terms, encode_refusal, encode_terms};
pub use update::{decode_update, encode_update, update_bytes};
pub use words::{QuantizedUpdate, decode_quantized, encode_quantized, quantized_bytes};

pub(crate) use envelope::{next, seal};
pub(crate) use model::write_shape;
