//! Recommendations, computed on the device without the network.

use super::Device;
use crate::{DeviceError, Items};
use sottovoce_models::{Because, Reason};

/// One item of a recommendation.
#[derive(Clone, Debug, PartialEq)]
pub struct RecommendedItem {
    /// Its row.
    pub row: u32,
    /// Its id.
    pub item: String,
    /// Its title, where it has one.
    pub title: Option<String>,
    /// Its score; higher is better.
    pub score: f32,
    /// Explanations, strongest first, if asked for and the model can explain.
    pub reasons: Vec<Explanation>,
}

/// One reason for an item.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// In words.
    pub text: String,
    /// Its share of the weight of all reasons for the item.
    pub share: f64,
}

/// A ranked list, and the model it was made with.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// Version of the shared model.
    pub version: u64,
    /// The model's name.
    pub model: String,
    /// The items, best first.
    pub items: Vec<RecommendedItem>,
}

impl Device {
    /// The `k` best items that the owner does not have, best first, ties by the smaller row. Needs no network.
    ///
    /// # Errors
    /// If the device has not taken part in a round yet, and so has no model.
    pub fn recommend(&self, k: usize) -> Result<Recommendation, DeviceError> {
        self.explain(k, 0)
    }

    /// The same with up to `reasons` explanations of each item, if the model can explain.
    ///
    /// # Errors
    /// As [`recommend`](Self::recommend).
    pub fn explain(&self, k: usize, reasons: usize) -> Result<Recommendation, DeviceError> {
        let (Some(downloaded), Some(private)) = (&self.shared, &self.state.private) else {
            return Err(DeviceError::NoModel);
        };
        let items = self.items.as_ref().ok_or(DeviceError::NoCatalog)?;
        let model = self.options.models.load(&private.model, items.features_for(&private.model.name))?;
        let (shared, own) = (&downloaded.model.parameters, &private.values[..]);
        let pages = self.page_vectors(&model);
        let history = pages.history(self.rows.history());
        let mut scores = vec![0.0; items.len()];
        model.score(shared, own, history, &mut scores)?;
        let had = |row: &u32| self.rows.rows.binary_search(row).is_ok();
        let mut order: Vec<u32> = (0..items.len() as u32).filter(|row| !had(row)).collect();
        let better = |a: &u32, b: &u32| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b));
        if k < order.len() {
            order.select_nth_unstable_by(k, better);
            order.truncate(k);
        }
        order.sort_unstable_by(better);
        let mut list = Vec::with_capacity(order.len());
        for row in order {
            let why = if reasons > 0 { model.explain(shared, own, history, row)? } else { Vec::new() };
            list.push(RecommendedItem {
                row,
                item: items.id(row as usize).to_owned(),
                title: items.title(row as usize).map(str::to_owned),
                score: scores[row as usize],
                reasons: strongest(&why, reasons, items),
            });
        }
        self.options.models.release(model);
        Ok(Recommendation { version: downloaded.model.version.0, model: private.model.name.clone(), items: list })
    }
}

/// The strongest reasons as text, each with its share of all positive weights.
fn strongest(reasons: &[Reason], count: usize, items: &Items) -> Vec<Explanation> {
    let mut reasons: Vec<&Reason> = reasons.iter().filter(|reason| reason.weight > 0.0).collect();
    let total: f64 = reasons.iter().map(|reason| f64::from(reason.weight)).sum();
    reasons.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let explanation = |reason: &&Reason| Explanation {
        text: describe(reason.because, items),
        share: f64::from(reason.weight) / total,
    };
    reasons.iter().take(count).map(explanation).collect()
}

fn describe(because: Because, items: &Items) -> String {
    match because {
        Because::Had(row) => {
            let row = row as usize;
            format!("because of {}", items.title(row).unwrap_or_else(|| items.id(row)))
        }
        Because::Popular { people } => format!("{people} people have it"),
        Because::Neighbours { people } => format!("{people} people with a like history have it"),
        Because::Fact(feature) => items.facts().map_or_else(String::new, |facts| facts.name(feature as usize)),
    }
}
