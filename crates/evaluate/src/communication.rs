//! The papers' count of communication, in vectors; beside it always belong the bytes that were really sent.

/// Communication of one epoch: CCE = rpe * |cohort| * (|I| + T (1 + pi)), in vectors.
///
/// In each of `rounds` rounds an epoch (rpe), each device of the cohort gets the `items` vectors of the catalog, and
/// sends back those of the negative items of its `triples` T and, of the share `pi` of them, of the positive items.
pub fn cce(rounds: f64, cohort: usize, items: usize, triples: f64, pi: f64) -> f64 {
    rounds * cohort as f64 * (items as f64 + triples * (1.0 + pi))
}

/// Communication of a whole training: TCC = CCE * epochs to the best validation score, in vectors.
pub fn tcc(cce: f64, epochs: usize) -> f64 {
    cce * epochs as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_computed_by_hand() {
        // 20 rounds, 8 devices: each gets 300 vectors and sends 5 and half of 5.
        assert_eq!(cce(20.0, 8, 300, 5.0, 0.5), 20.0 * 8.0 * 307.5);
        assert_eq!(tcc(cce(2.0, 1, 10, 3.0, 0.0), 7), 182.0);
    }
}
