//! The attacks: each gives every item a score that says how likely it is in somebody's history.

mod attribution;
mod combined;
mod complement;
mod disaggregation;
mod frequency;
mod inversion;
pub(crate) mod membership;
mod signs;

pub(crate) use combined::{Account, Combined};
pub(crate) use disaggregation::Disaggregation;

use crate::sums::Sums;
use crate::{Evidence, ExposedTable, ExposedTables};
use sottovoce_core::math;
use sottovoce_protocol::Parameters;

/// An attack on one person's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attack {
    /// Rows that move towards the person are of items they have.
    Signs,
    /// Rows that come often are.
    Frequency,
    /// Items that never come as something the person does not have are.
    Complement,
    /// The person's vector follows from their rows, and what they like from their vector.
    Inversion,
    /// What a round's sum says is true of each person in it.
    Attribution,
    /// Sums of many rounds with different people in them come apart.
    Disaggregation,
}

impl Attack {
    /// On uploads that the server can read.
    pub const ON_UPLOADS: &'static [Attack] =
        &[Attack::Signs, Attack::Frequency, Attack::Complement, Attack::Inversion];

    /// On sums.
    pub const ON_SUMS: &'static [Attack] = &[Attack::Attribution, Attack::Disaggregation];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Attack::Signs => "signs",
            Attack::Frequency => "frequency",
            Attack::Complement => "complement",
            Attack::Inversion => "inversion",
            Attack::Attribution => "attribution",
            Attack::Disaggregation => "disaggregation",
        }
    }

    /// What it does, in a sentence.
    pub fn what(self) -> &'static str {
        match self {
            Attack::Signs => "takes rows that move towards the person for items they have",
            Attack::Frequency => "takes rows that come often for items they have",
            Attack::Complement => "takes items that never come as ones they do not have for ones they have",
            Attack::Inversion => "rebuilds the person's vector from their rows, and scores all items with it",
            Attack::Attribution => "takes the sum of a round for what each person in it sent",
            Attack::Disaggregation => "takes the sums of many rounds apart by who was in which",
        }
    }
}

/// Scores of all items by an attack on uploads; none for attacks on sums. `evidence` is one person's, by table.
pub(crate) fn on_uploads(
    attack: Attack,
    tables: &ExposedTables,
    evidence: &[Evidence],
    shared: &Parameters,
) -> Vec<f32> {
    let scores = |(table, evidence): (&ExposedTable, &Evidence)| match attack {
        Attack::Signs => signs::scores(table, evidence),
        Attack::Frequency => frequency::scores(table, evidence),
        Attack::Complement => complement::scores(table, evidence),
        Attack::Inversion => inversion::scores(table, evidence, shared),
        Attack::Attribution | Attack::Disaggregation => Vec::new(),
    };
    over_tables(tables.tables().iter().zip(evidence).map(scores).collect())
}

/// Scores of all items by each attack on sums, in the order of [`Attack::ON_SUMS`]. `sums` are by table.
pub(crate) fn on_sums(
    tables: &ExposedTables,
    sums: &[Sums],
    disaggregation: &[Disaggregation<'_>],
    person: u32,
) -> [Vec<f32>; 2] {
    let by_table = || tables.tables().iter().zip(sums).zip(disaggregation);
    let attribution =
        by_table().map(|((table, sums), _)| table.to_items(sums.moves(attribution::sent(sums, person))));
    let disaggregated =
        by_table().map(|((table, sums), apart)| table.to_items(sums.moves(apart.sent(person))));
    [over_tables(attribution.collect()), over_tables(disaggregated.collect())]
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
