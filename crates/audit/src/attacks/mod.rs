//! The attacks: each scores every item by how likely it is in a user's history.

pub(crate) mod cluster;
mod combined;
mod disaggregation;
mod uploads;

pub(crate) use combined::{Account, Combined};
pub(crate) use disaggregation::Disaggregation;

use crate::evidence::Evidence;
use crate::exposed_table::{ExposedTable, ExposedTables};
use crate::sums::Sums;
use sottovoce_core::math;
use sottovoce_protocol::Parameters;

/// An attack on one user's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attack {
    /// Rows whose update has the sign of a positive are the user's items.
    Signs,
    /// Rows that are updated often are.
    Frequency,
    /// Items that are never updated as a negative are.
    Complement,
    /// The user's vector follows from the updated rows, and their preferences from that vector.
    Inversion,
    /// Items of others in the same cluster of devices are.
    Cluster,
    /// A round's sum is taken for the update of each user in it.
    Attribution,
    /// Sums of many rounds with different users in them are solved for single users.
    Disaggregation,
}

impl Attack {
    /// Attacks on uploads that the server can read.
    pub const ON_UPLOADS: &'static [Attack] =
        &[Attack::Signs, Attack::Frequency, Attack::Complement, Attack::Inversion];

    /// Attacks on sums.
    pub const ON_SUMS: &'static [Attack] = &[Attack::Attribution, Attack::Disaggregation];

    /// Its name.
    pub fn name(self) -> &'static str {
        self.describe().0
    }

    /// What it does, in a sentence.
    pub fn what(self) -> &'static str {
        self.describe().1
    }

    fn describe(self) -> (&'static str, &'static str) {
        match self {
            Attack::Signs => ("signs", "ranks items by the size of updates with the sign of a positive"),
            Attack::Frequency => ("frequency", "ranks items by how often their rows are updated"),
            Attack::Complement => ("complement", "ranks items by how seldom they are updated as negatives"),
            Attack::Inversion => {
                ("inversion", "reconstructs the user's vector from updated rows, and scores all items with it")
            }
            Attack::Cluster => {
                ("cluster", "ranks items by how many of the attacker's own accounts in the same clusters have them")
            }
            Attack::Attribution => ("attribution", "takes a round's sum for the update of each user in it"),
            Attack::Disaggregation => {
                ("disaggregation", "solves the sums of many rounds for single users, by who was in which")
            }
        }
    }
}

/// Scores of all items by an attack on rows of uploads; none for others. `evidence` is one user's, by table.
pub(crate) fn on_uploads(
    attack: Attack,
    tables: &ExposedTables,
    evidence: &[Evidence],
    shared: &Parameters,
) -> Vec<f32> {
    let scores = |(table, evidence): (&ExposedTable, &Evidence)| match attack {
        Attack::Signs => uploads::signs(table, evidence),
        Attack::Frequency => uploads::frequency(table, evidence),
        Attack::Complement => uploads::complement(table, evidence),
        Attack::Inversion => uploads::inversion(table, evidence, shared),
        Attack::Cluster | Attack::Attribution | Attack::Disaggregation => Vec::new(),
    };
    over_tables(tables.tables().iter().zip(evidence).map(scores).collect())
}

/// Scores of all items by each attack on sums, in the order of [`Attack::ON_SUMS`]. `sums` are by table.
pub(crate) fn on_sums(
    tables: &ExposedTables,
    sums: &[Sums],
    disaggregation: &[Disaggregation<'_>],
    user: u32,
) -> [Vec<f32>; 2] {
    let scores = |estimate: &dyn Fn(usize) -> Vec<f32>| {
        let of_table = |(index, table): (usize, &ExposedTable)| table.to_items(sums[index].directions(estimate(index)));
        over_tables(tables.tables().iter().enumerate().map(of_table).collect())
    };
    [scores(&|table| attribute(&sums[table], user)), scores(&|table| disaggregation[table].estimate(user))]
}

/// Attribution: the sum of the mean updates of the rounds that the user was in.
fn attribute(sums: &Sums, user: u32) -> Vec<f32> {
    let mut mean = vec![0.0; sums.values()];
    for round in sums.rounds().filter(|round| round.has(user)) {
        math::add_scaled(&mut mean, 1.0 / round.users.len() as f32, &round.values);
    }
    mean
}

/// One score an item from those of several tables: the sum of ranks, because tables have different scales.
fn over_tables(mut scores: Vec<Vec<f32>>) -> Vec<f32> {
    if scores.len() == 1 {
        return scores.remove(0);
    }
    let mut sum = vec![0.0; scores.first().map_or(0, Vec::len)];
    scores.iter().for_each(|scores| math::add(&mut sum, &combined::ranks(scores)));
    sum
}

/// Membership by the shared model alone, for an attacker who knows a user's items: items that were trained on together
/// have similar vectors.
pub(crate) fn membership_by_model(vectors: &[Vec<f32>], known: &[u32]) -> Vec<f32> {
    let of = |item: u32| &vectors[item as usize][..];
    let mut centre = vec![0.0; vectors.first().map_or(0, Vec::len)];
    known.iter().for_each(|&item| math::add(&mut centre, of(item)));
    known.iter().map(|&item| math::dot(of(item), &centre) - math::dot(of(item), of(item))).collect()
}
