//! The interface between titles and models.

use sottovoce_core::math;

/// Turns a title into a vector of fixed dimension. Models take any encoder; implement this trait to bring your own.
///
/// An encoder is a pure function: the same text gives the same bits every time and on every machine, because devices
/// and the server must agree on what a title means.
///
/// ```
/// use sottovoce_text::Encoder;
///
/// /// Length of the title and number of its words.
/// struct Size;
///
/// impl Encoder for Size {
///     fn dim(&self) -> usize {
///         2
///     }
///
///     fn encode(&self, text: &str, into: &mut [f32]) {
///         into.copy_from_slice(&[text.chars().count() as f32, sottovoce_text::words(text).len() as f32]);
///     }
/// }
///
/// assert_eq!(Size.vector("Two words"), [9.0, 2.0]);
/// ```
pub trait Encoder: Send + Sync {
    /// Number of values of a vector.
    fn dim(&self) -> usize;

    /// Writes the vector of a text. A text in which the encoder knows nothing gives the zero vector.
    ///
    /// # Panics
    /// If `into` has not [`dim`](Self::dim) values.
    fn encode(&self, text: &str, into: &mut [f32]);

    /// The vector of a text, newly allocated.
    fn vector(&self, text: &str) -> Vec<f32> {
        let mut vector = vec![0.0; self.dim()];
        self.encode(text, &mut vector);
        vector
    }
}

/// Scales to length 1; leaves the zero vector, and one too short or too long for its square, as zeros.
pub(crate) fn scale_to_unit(vector: &mut [f32]) {
    let square = math::dot(vector, vector);
    let scale = if square > 0.0 && square.is_finite() { 1.0 / square.sqrt() } else { 0.0 };
    for value in vector {
        *value *= scale;
    }
}
