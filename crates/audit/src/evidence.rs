//! What is kept of one person's uploads: enough for every attack, and no more with every round.

use crate::ExposedTable;
use sottovoce_core::math;
use sottovoce_protocol::{Parameters, Rows};

/// What a curious server knows of a person, row by row of the shared model.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Uploads seen.
    pub uploads: u32,
    /// Uploads that had the row.
    pub sent: Vec<u32>,
    /// Uploads in which it moved away from the person.
    pub away: Vec<u32>,
    /// How far it moved towards the person, added up over the uploads in which it did.
    pub towards: Vec<f32>,
    /// The person's vector as the last upload shows it; for rows that are items. Its length is unknown where rows have no
    /// bias.
    pub vector: Vec<f32>,
    /// What the row is worth to the person as the last upload with it shows; for rows that are features.
    pub worth: Vec<f32>,
    /// How far each row of the upload at hand moved.
    moves: Vec<f32>,
}

/// Steps of the power method: rows of one upload lie along one direction, so that few are enough.
const STEPS: usize = 8;

impl Evidence {
    /// Takes in an upload's rows; `shared` is the model that the device was given.
    pub fn take(&mut self, table: &ExposedTable, rows: &Rows, shared: &Parameters) {
        self.make_room(table.height(shared));
        self.uploads += 1;
        self.find_moves(table, rows);
        for (place, (row, values)) in rows.iter().enumerate() {
            let moved = self.moves[place];
            self.sent[row] += 1;
            if moved > 0.0 {
                self.towards[row] += moved;
            } else if moved < 0.0 {
                self.away[row] += 1;
            }
            if table.is_of_features() && moved != 0.0 {
                let Some(shared) = table.of(shared) else { continue };
                let (known, vector) = (shared.row(row), table.vector(values));
                let bias = known[known.len() - 1];
                self.worth[row] = math::dot(vector, &known[..vector.len()]) / moved + bias;
            }
        }
    }

    fn make_room(&mut self, height: usize) {
        self.sent.resize(height, 0);
        self.away.resize(height, 0);
        self.towards.resize(height, 0.0);
        self.worth.resize(height, 0.0);
    }

    /// Finds how far each row moved along the person's vector, and that vector.
    fn find_moves(&mut self, table: &ExposedTable, rows: &Rows) {
        self.moves.clear();
        if table.has_bias() {
            // The bias of a row moves by what its vector moves by in units of the person's: dq = S p, db = S.
            self.moves.extend(rows.iter().map(|(_, row)| row[row.len() - 1]));
            let energy: f32 = self.moves.iter().map(|moved| moved * moved).sum();
            if energy > 0.0 && !table.is_of_features() {
                self.vector.clear();
                self.vector.resize(rows.cols() - 1, 0.0);
                for ((_, row), moved) in rows.iter().zip(&self.moves) {
                    math::add_scaled(&mut self.vector, moved / energy, table.vector(row));
                }
            }
            return;
        }
        let Some(direction) = main_direction(rows.values(), rows.cols()) else {
            self.moves.resize(rows.len(), 0.0);
            return;
        };
        self.moves.extend(rows.iter().map(|(_, row)| math::dot(row, &direction)));
        self.vector = direction;
    }
}

/// The direction along which rows differ most, of length 1, pointing to where the few large ones are: somebody has few
/// items, which weigh more. `None` if all rows are zero.
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
    fn one_triple_shows_both_items_and_the_persons_vector() {
        let p = [0.5f32, -1.0];
        let (trained, shared) =
            rows_of(3, &[(1, &[0.3 * p[0], 0.3 * p[1], 0.3]), (4, &[-0.3 * p[0], -0.3 * p[1], -0.3])]);
        let table = ExposedTables::of("fpl", None).unwrap().first().clone();
        let mut evidence = Evidence::default();
        evidence.take(&table, &trained.update().tables()[0], &shared);
        assert_eq!(evidence.sent, [0, 1, 0, 0, 1, 0]);
        assert_eq!(evidence.away, [0, 0, 0, 0, 1, 0]);
        assert!(evidence.towards[1] > 0.29 && evidence.towards[4] == 0.0);
        assert!(evidence.vector.iter().zip(p).all(|(found, p)| (found - p).abs() < 1e-6));
    }

    #[test]
    fn without_a_bias_the_few_large_rows_are_the_persons() {
        let p = [0.6f32, 0.8, 0.0];
        let row = |weight: f32| p.map(|p| weight * p);
        let (own, other, another) = (row(1.2), row(-0.1), row(-0.2));
        let (trained, shared) =
            rows_of(3, &[(0, &other), (1, &another), (2, &own), (3, &other), (5, &another)]);
        let table = ExposedTables::of("fcf", None).unwrap().first().clone();
        let mut evidence = Evidence::default();
        evidence.take(&table, &trained.update().tables()[0], &shared);
        assert!(evidence.towards[2] > 1.19 && evidence.away == [1, 1, 0, 1, 0, 1]);
        assert!(evidence.vector.iter().zip(p).all(|(found, p)| (found - p).abs() < 1e-5));
    }
}
