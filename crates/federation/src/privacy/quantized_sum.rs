//! The sum of a cohort's updates as integers.

use sottovoce_privacy::quantize::BucketOverflow;
use sottovoce_privacy::{PrivacyMechanism, SecureRng};
use sottovoce_protocol::Update;
use std::sync::Arc;

/// How words are added up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QuantizedSumConfig {
    pub(crate) mechanism: PrivacyMechanism,
    /// With noise: the updates that a mean is taken over, whoever came. `None`: as many as came.
    pub(crate) expected: Option<u64>,
    /// Bytes that a device sends beside its update, so that it need not say whose it is.
    pub(crate) token_bytes: u64,
}

/// QuantizedSum added modulo 2^32: in any order the same.
#[derive(Clone, Debug)]
pub(crate) struct QuantizedSum {
    how: Arc<QuantizedSumConfig>,
    sum: Vec<u32>,
    /// Whether it was read since it was empty.
    read: bool,
}

impl QuantizedSum {
    pub(crate) fn new(how: &Arc<QuantizedSumConfig>) -> Self {
        Self { how: Arc::clone(how), sum: vec![0; how.mechanism.quantizer().length()], read: false }
    }

    pub(crate) fn add(&mut self, update: &Update) {
        let sum = &mut self.sum;
        self.how.mechanism.quantizer().quantize(update, |index, word| sum[index] = sum[index].wrapping_add(word));
    }

    pub(crate) fn add_quantized(&mut self, words: &[u32]) {
        for (sum, word) in self.sum.iter_mut().zip(words) {
            *sum = sum.wrapping_add(*word);
        }
    }

    pub(crate) fn merge(&mut self, others: &mut Self) {
        self.add_quantized(&others.sum);
        others.clear();
    }

    /// From now on by other rules, with nothing added yet.
    pub(crate) fn renew(&mut self, how: &Arc<QuantizedSumConfig>) {
        self.sum.clear();
        self.sum.resize(how.mechanism.quantizer().length(), 0);
        self.how = Arc::clone(how);
    }

    /// Reads the sum with the server's noise, once; `updates` becomes the number that means are taken over. Returns
    /// what updates say of their lengths, where the clip follows them.
    pub(crate) fn read(
        &mut self,
        updates: &mut u64,
        generator: &mut SecureRng,
        each: impl FnMut(usize, usize, u32, &[f32]),
    ) -> Result<Option<i64>, BucketOverflow> {
        if std::mem::replace(&mut self.read, true) {
            return Ok(None);
        }
        *updates = self.how.expected.unwrap_or(*updates);
        let count = u32::try_from(*updates).unwrap_or(u32::MAX);
        self.how.mechanism.read(&self.sum, count, generator, each)
    }

    pub(crate) fn clear(&mut self) {
        self.sum.fill(0);
        self.read = false;
    }
}
