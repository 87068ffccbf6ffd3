//! The papers' count of communication, in vectors; beside it always belong the bytes that were really sent.

/// Communication of a whole training: TCC = CCE * epochs to the best validation score, in vectors.
///
/// CCE, the communication of one epoch, is rpe * |cohort| * (|I| + T (1 + pi)): in each of its rounds, each device of
/// the cohort gets the vectors of the catalog, and sends back those of the negative items of its T triples and, of the
/// share pi of them, of the positive items.
pub fn tcc(cce: f64, epochs: usize) -> f64 {
    cce * epochs as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_computed_by_hand() {
        assert_eq!(tcc(2.0 * (10.0 + 3.0), 7), 182.0);
    }
}
