//! Recommendations, computed on the device without the network.

use super::Device;
use crate::{DeviceError, Items};
use sottovoce_models::{Because, Reason, ReasonKind, strongest};
use std::borrow::Cow;

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
    /// The item of the owner's history, if the reason is one.
    pub item: Option<String>,
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
    /// What the model's reasons are.
    pub reasons: ReasonKind,
    /// The items, best first.
    pub items: Vec<RecommendedItem>,
}

impl Device {
    /// The `k` best items that the owner does not have, best first, ties by the smaller row. Needs no network.
    ///
    /// # Errors
    /// If the device has no model yet.
    pub fn recommend(&self, k: usize) -> Result<Recommendation, DeviceError> {
        self.explain(k, 0)
    }

    /// The same with up to `reasons` explanations of each item, if the model can explain. They are computed from what
    /// the device has, may name items that the owner hides or withholds, and do not leave it.
    ///
    /// # Errors
    /// As [`recommend`](Self::recommend).
    pub fn explain(&self, k: usize, reasons: usize) -> Result<Recommendation, DeviceError> {
        let (Some(downloaded), Some(private)) = (&self.shared, self.recommending()) else {
            return Err(DeviceError::NoModel);
        };
        let items = self.items.as_ref().ok_or(DeviceError::NoCatalog)?;
        let model = self.options.models.load(&private.model, items.features_for(&private.model.name))?;
        let (shared, own) = (&downloaded.model.parameters, &private.values[..]);
        let pages = self.page_vectors(&model);
        let history = pages.history(self.rows.history());
        let mut scores = vec![0.0; items.len()];
        model.score(shared, own, history, &mut scores)?;
        if scores.iter().any(|score| !score.is_finite()) {
            return Err(DeviceError::Diverged(downloaded.model.version.0));
        }
        let had = |row: &u32| self.rows.rows.binary_search(row).is_ok();
        let mut order: Vec<u32> = (0..items.len() as u32).filter(|row| !had(row)).collect();
        let better = |a: &u32, b: &u32| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b));
        if k < order.len() {
            order.select_nth_unstable_by(k, better);
            order.truncate(k);
        }
        order.sort_unstable_by(better);
        let kind = model.reason_kind();
        let explained = if reasons > 0 { model.explain(shared, own, history, &order)? } else { Vec::new() };
        let mut list = Vec::with_capacity(order.len());
        for (place, row) in order.into_iter().enumerate() {
            let why = explained.get(place).map_or(&[][..], Vec::as_slice);
            list.push(RecommendedItem {
                row,
                item: items.id(row as usize).to_owned(),
                title: items.title(row as usize).map(str::to_owned),
                score: scores[row as usize],
                reasons: in_words(why, reasons, items),
            });
        }
        self.options.models.release(model);
        let (version, name) = (downloaded.model.version.0, private.model.name.clone());
        Ok(Recommendation { version, model: name, reasons: kind, items: list })
    }
}

/// The strongest reasons as text, each with its share of all that speaks for the item.
fn in_words(reasons: &[Reason], count: usize, items: &Items) -> Vec<Explanation> {
    let title = |row: u32| Cow::from(items.title(row as usize).unwrap_or_else(|| items.id(row as usize)));
    let feature = |fact: u32| items.facts().map_or_else(String::new, |facts| facts.name(fact as usize));
    let explanation = |(because, share): (Because, f64)| {
        let item = if let Because::Had(row) = because { Some(items.id(row as usize).to_owned()) } else { None };
        Some(Explanation { text: because.in_words(title, feature)?, item, share })
    };
    strongest(reasons, count).into_iter().filter_map(explanation).collect()
}
