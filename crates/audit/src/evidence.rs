//! Statistics of one user's uploads: enough for every attack, of constant size.

use crate::exposed_table::ExposedTable;
use sottovoce_core::math;
use sottovoce_protocol::{Parameters, Rows};

/// What a curious server knows about a user, by row of the shared model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    /// Number of uploads.
    pub(crate) uploads: u32,
    /// Number of uploads that update the row.
    pub(crate) updates: Vec<u32>,
    /// Number of uploads in which it moves against the user's vector, as a negative does.
    pub(crate) negative_updates: Vec<u32>,
    /// How far it moves along the user's vector, as a positive does, summed over uploads.
    pub(crate) positive_sums: Vec<f32>,
    /// The user's vector by the last upload, where rows are items. Its length is unknown where rows have no bias.
    pub(crate) user_vector: Vec<f32>,
    /// The user's score of the row by the last upload with it, where rows are features.
    pub(crate) feature_scores: Vec<f32>,
    /// How far each row of the current upload moves along the user's vector.
    moves: Vec<f32>,
}

/// Iterations of the power method: rows of one upload lie along one direction, so that few are enough.
const STEPS: usize = 8;

impl Evidence {
    /// Adds an upload's rows; `shared` is the model that the device was given.
    pub(crate) fn add(&mut self, table: &ExposedTable, rows: &Rows, shared: &Parameters) {
        self.resize(table.height(shared));
        self.uploads += 1;
        self.find_moves(table, rows);
        for (index, (row, values)) in rows.iter().enumerate() {
            let moved = self.moves[index];
            self.updates[row] += 1;
            if moved > 0.0 {
                self.positive_sums[row] += moved;
            } else if moved < 0.0 {
                self.negative_updates[row] += 1;
            }
            if table.is_of_features() && moved != 0.0 {
                let Some(shared) = table.of(shared) else { continue };
                let (known, vector) = (shared.row(row), table.vector(values));
                let bias = known[known.len() - 1];
                self.feature_scores[row] = math::dot(vector, &known[..vector.len()]) / moved + bias;
            }
        }
    }

    fn resize(&mut self, height: usize) {
        self.updates.resize(height, 0);
        self.negative_updates.resize(height, 0);
        self.positive_sums.resize(height, 0.0);
        self.feature_scores.resize(height, 0.0);
    }

    /// Finds the user's vector, and how far each row moves along it.
    fn find_moves(&mut self, table: &ExposedTable, rows: &Rows) {
        self.moves.clear();
        if table.bias {
            // A row's bias moves by the factor that its vector moves by along the user's: dq = S p, db = S.
            self.moves.extend(rows.iter().map(|(_, row)| row[row.len() - 1]));
            let energy: f32 = self.moves.iter().map(|moved| moved * moved).sum();
            if energy > 0.0 && !table.is_of_features() {
                self.user_vector.clear();
                self.user_vector.resize(rows.cols() - 1, 0.0);
                for ((_, row), moved) in rows.iter().zip(&self.moves) {
                    math::add_scaled(&mut self.user_vector, moved / energy, table.vector(row));
                }
            }
            return;
        }
        let Some(direction) = main_direction(rows.values(), rows.cols()) else {
            self.moves.resize(rows.len(), 0.0);
            return;
        };
        self.moves.extend(rows.iter().map(|(_, row)| math::dot(row, &direction)));
        self.user_vector = direction;
    }
}

/// The first principal direction of the rows, of length 1, pointing to the few large ones: a user has few items, and
/// they weigh more. `None` if all rows are zero.
pub(crate) fn main_direction(values: &[f32], cols: usize) -> Option<Vec<f32>> {
    let rows = || values.chunks_exact(cols.max(1));
    let square = |row: &[f32]| math::dot(row, row);
    let largest = rows().max_by(|a, b| square(a).total_cmp(&square(b)))?;
    let mut direction = unit(largest.to_vec())?;
    for _ in 0..STEPS {
        let mut next = vec![0.0; direction.len()];
        for row in rows() {
            math::add_scaled(&mut next, math::dot(row, &direction), row);
        }
        direction = unit(next)?;
    }
    let cubes: f64 = rows().map(|row| f64::from(math::dot(row, &direction)).powi(3)).sum();
    if cubes < 0.0 {
        direction.iter_mut().for_each(|value| *value = -*value);
    }
    Some(direction)
}

fn unit(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    let length = math::dot(&vector, &vector).sqrt();
    if !(length > 0.0 && length.is_finite()) {
        return None;
    }
    vector.iter_mut().for_each(|value| *value /= length);
    Some(vector)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExposedTables;
    use sottovoce_protocol::{Keyed, Layout, RowOrigin, Shape, Trained};

    fn rows_of(cols: u32, rows: &[(u32, &[f32])]) -> (Trained, Parameters) {
        let layout = Layout::new(vec![Shape::new("items", 6, cols, Keyed::Items)]).unwrap();
        let mut trained = Trained::new(&layout);
        for (row, values) in rows {
            trained.push_row(0, *row, RowOrigin::Other).unwrap().copy_from_slice(values);
        }
        (trained, Parameters::zeros(&layout))
    }

    #[test]
    fn one_triple_reveals_both_items_and_the_users_vector() {
        let p = [0.5f32, -1.0];
        let (trained, shared) =
            rows_of(3, &[(1, &[0.3 * p[0], 0.3 * p[1], 0.3]), (4, &[-0.3 * p[0], -0.3 * p[1], -0.3])]);
        let table = ExposedTables::of("fpl", None).unwrap().first().unwrap().clone();
        let mut evidence = Evidence::default();
        evidence.add(&table, &trained.update().tables()[0], &shared);
        assert_eq!(evidence.updates, [0, 1, 0, 0, 1, 0]);
        assert_eq!(evidence.negative_updates, [0, 0, 0, 0, 1, 0]);
        assert!(evidence.positive_sums[1] > 0.29 && evidence.positive_sums[4] == 0.0);
        assert!(evidence.user_vector.iter().zip(p).all(|(found, p)| (found - p).abs() < 1e-6));
    }

    #[test]
    fn without_a_bias_the_few_large_rows_are_positives() {
        let p = [0.6f32, 0.8, 0.0];
        let row = |weight: f32| p.map(|p| weight * p);
        let (own, other, another) = (row(1.2), row(-0.1), row(-0.2));
        let (trained, shared) = rows_of(3, &[(0, &other), (1, &another), (2, &own), (3, &other), (5, &another)]);
        let table = ExposedTables::of("fcf", None).unwrap().first().unwrap().clone();
        let mut evidence = Evidence::default();
        evidence.add(&table, &trained.update().tables()[0], &shared);
        assert!(evidence.positive_sums[2] > 1.19 && evidence.negative_updates == [1, 1, 0, 1, 0, 1]);
        assert!(evidence.user_vector.iter().zip(p).all(|(found, p)| (found - p).abs() < 1e-5));
    }
}
