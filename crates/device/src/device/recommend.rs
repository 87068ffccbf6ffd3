//! What the owner might like: from what the device holds, without the network.

use super::Device;
use crate::{DeviceError, Items};
use sottovoce_models::{Because, Reason};

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
    /// What speaks for it, strongest first, where the model can tell and was asked to.
    pub reasons: Vec<Explanation>,
}

/// Something that speaks for an item.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// In words.
    pub text: String,
    /// Its share of all that speaks for the item.
    pub share: f64,
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
        self.list(most, 0)
    }

    /// The same with up to so many reasons for each item, where the model can tell.
    ///
    /// # Errors
    /// As [`recommend`](Self::recommend).
    pub fn explain(&self, most: usize, reasons: usize) -> Result<Recommendation, DeviceError> {
        self.list(most, reasons)
    }

    fn list(&self, most: usize, reasons: usize) -> Result<Recommendation, DeviceError> {
        let (Some(held), Some(private)) = (&self.held, &self.state.private) else {
            return Err(DeviceError::NoModel);
        };
        let items = self.items.as_ref().ok_or(DeviceError::NoCatalog)?;
        let model = self.options.models.lend(&private.model, items.facts())?;
        let (shared, own, history) = (&held.model.parameters, &private.values[..], &self.rows.rows[..]);
        let mut scores = vec![0.0; items.len()];
        model.score(shared, own, history, &mut scores)?;
        let had = |row: &u32| self.rows.rows.binary_search(row).is_ok();
        let mut order: Vec<u32> = (0..items.len() as u32).filter(|row| !had(row)).collect();
        let better = |a: &u32, b: &u32| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b));
        if most < order.len() {
            order.select_nth_unstable_by(most, better);
            order.truncate(most);
        }
        order.sort_unstable_by(better);
        let mut list = Vec::with_capacity(order.len());
        for row in order {
            let why = if reasons > 0 { model.explain(shared, own, history, row)? } else { Vec::new() };
            list.push(Recommended {
                row,
                item: items.id(row as usize).to_owned(),
                title: items.title(row as usize).map(str::to_owned),
                score: scores[row as usize],
                reasons: strongest(&why, reasons, items),
            });
        }
        self.options.models.give_back(model);
        Ok(Recommendation { version: held.model.version.0, model: private.model.name.clone(), items: list })
    }
}

/// The strongest reasons in words, each with its share of all that speaks for the item.
fn strongest(reasons: &[Reason], most: usize, items: &Items) -> Vec<Explanation> {
    let mut reasons: Vec<&Reason> = reasons.iter().filter(|reason| reason.weight > 0.0).collect();
    let total: f64 = reasons.iter().map(|reason| f64::from(reason.weight)).sum();
    reasons.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let said = |reason: &&Reason| Explanation {
        text: in_words(reason.because, items),
        share: f64::from(reason.weight) / total,
    };
    reasons.iter().take(most).map(said).collect()
}

fn in_words(because: Because, items: &Items) -> String {
    match because {
        Because::Had(row) => {
            let row = row as usize;
            format!("because of {}", items.title(row).unwrap_or_else(|| items.id(row)))
        }
        Because::Popular { people } => format!("{people} people have it"),
        Because::Neighbours { people } => format!("{people} people with a like history have it"),
        Because::Fact(feature) => {
            items.facts().map_or_else(String::new, |facts| facts.name(feature as usize))
        }
    }
}
