//! The logistic loss of rankings.

use sottovoce_core::math;

/// Sum and mean of -ln p over many probabilities, with one logarithm for many.
pub(crate) struct Loss {
    product: f64,
    factors: u32,
    sum: f64,
    count: u64,
}

impl Loss {
    /// Of nothing yet.
    pub(crate) fn new() -> Self {
        Self { product: 1.0, factors: 0, sum: 0.0, count: 0 }
    }

    /// A probability under 1e-9 counts as 1e-9, so that 32 of them are within the range of a double.
    #[inline(always)]
    pub(crate) fn add(&mut self, probability: f32) {
        self.multiply(probability.max(1e-9), 1);
    }

    /// The same for some at once.
    #[inline(always)]
    pub(crate) fn add_all<const K: usize>(&mut self, probabilities: &[f32; K]) {
        let (fours, rest) = probabilities.as_chunks::<4>();
        for four in fours {
            // Four factors of 1e-9 are within the range of a float.
            let product: f32 = four.iter().map(|probability| probability.max(1e-9)).product();
            self.multiply(product, 4);
        }
        rest.iter().for_each(|&probability| self.add(probability));
    }

    #[inline(always)]
    fn multiply(&mut self, product: f32, factors: u32) {
        self.product *= f64::from(product);
        self.factors += factors;
        if self.factors > 28 {
            self.close();
        }
    }

    fn close(&mut self) {
        self.sum -= math::ln(self.product);
        self.count += u64::from(self.factors);
        (self.product, self.factors) = (1.0, 0);
    }

    /// The sum.
    pub(crate) fn sum(mut self) -> f64 {
        self.close();
        self.sum
    }

    /// The mean; 0 of nothing.
    pub(crate) fn mean(mut self) -> f64 {
        self.close();
        self.sum / self.count.max(1) as f64
    }
}
