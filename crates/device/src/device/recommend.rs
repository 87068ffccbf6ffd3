//! What the owner might like: from what the device holds, without the network.

use super::Device;
use crate::DeviceError;

/// One item of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommended {
    /// Its row.
    pub row: u32,
    /// Its id.
    pub item: String,
    /// Its title, where it has one.
    pub title: Option<String>,
    /// Its score; higher is more wanted.
    pub score: f32,
}

/// A list, and what it was made with.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// Version of the shared model.
    pub version: u64,
    /// The model's name.
    pub model: String,
    /// The items, best first.
    pub items: Vec<Recommended>,
}

impl Device {
    /// The `most` best items that the owner does not have, best first, ties by the smaller row. Needs no network and asks
    /// nobody.
    ///
    /// # Errors
    /// If the device has not taken part in a round yet, and so has no model.
    pub fn recommend(&self, most: usize) -> Result<Recommendation, DeviceError> {
        let (Some(held), Some(private)) = (&self.held, &self.state.private) else {
            return Err(DeviceError::NoModel);
        };
        let items = self.items.as_ref().ok_or(DeviceError::NoCatalog)?;
        let learner = self.options.models.lend(&private.model)?;
        let mut scores = vec![0.0; items.len()];
        let scored = learner.score(&held.model.parameters, &private.values, &self.rows.rows, &mut scores);
        self.options.models.give_back(learner);
        scored?;
        let had = |row: &u32| self.rows.rows.binary_search(row).is_ok();
        let mut order: Vec<u32> = (0..items.len() as u32).filter(|row| !had(row)).collect();
        let better = |a: &u32, b: &u32| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b));
        if most < order.len() {
            order.select_nth_unstable_by(most, better);
            order.truncate(most);
        }
        order.sort_unstable_by(better);
        let entry = |row: u32| Recommended {
            row,
            item: items.id(row as usize).to_owned(),
            title: items.title(row as usize).map(str::to_owned),
            score: scores[row as usize],
        };
        Ok(Recommendation {
            version: held.model.version.0,
            model: private.model.name.clone(),
            items: order.into_iter().map(entry).collect(),
        })
    }
}
