//! What simulated devices can say of themselves.

use crate::FederationError;
use sottovoce_client::Figures;
use sottovoce_core::{Catalog, Histories};
use sottovoce_models::criteria;
use std::collections::BTreeMap;

/// Figures that stay the same from round to round, by criterion and device. Others are known when a device has trained.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedFigures {
    columns: BTreeMap<String, Vec<f64>>,
    /// Each device's most recent item, where AUC is asked for.
    latest: Vec<Option<u32>>,
}

impl SimulatedFigures {
    /// Nothing beside what training gives.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with a criterion, one value a device.
    #[must_use]
    pub fn with(mut self, criterion: &str, values: Vec<f64>) -> Self {
        self.columns.insert(criterion.to_owned(), values);
        self
    }

    /// What the criteria need to know of people's histories and of the items.
    ///
    /// # Errors
    /// If it is not known, or a criterion is not one of a recommender's.
    pub fn of<'a>(
        criteria: impl IntoIterator<Item = &'a str>,
        histories: Option<&Histories>,
        catalog: Option<&Catalog>,
    ) -> Result<Self, FederationError> {
        let mut figures = Self::new();
        let histories = histories.ok_or("it needs all histories in memory");
        for criterion in criteria {
            let lacking = |why| FederationError::Criterion { name: criterion.to_owned(), why };
            let values = match criterion {
                criteria::SIZE | criteria::CLOSENESS | criteria::KERNEL_CLOSENESS | criteria::LOSS => continue,
                criteria::AUC => {
                    figures.latest = histories.and_then(latest).map_err(lacking)?;
                    continue;
                }
                criteria::DIVERSITY => histories.and_then(|histories| diversities(histories, catalog)),
                criteria::RECENCY => histories.and_then(recencies),
                _ => Err("devices report size, diversity, closeness, recency, loss and auc"),
            };
            figures = figures.with(criterion, values.map_err(lacking)?);
        }
        Ok(figures)
    }

    /// Those of one device.
    pub(crate) fn of_device(&self, device: u32) -> FiguresOf<'_> {
        FiguresOf { figures: self, device: device as usize }
    }
}

/// The figures of one simulated device.
pub(crate) struct FiguresOf<'a> {
    figures: &'a SimulatedFigures,
    device: usize,
}

impl Figures for FiguresOf<'_> {
    fn latest(&self, _: &[u32]) -> Option<u32> {
        self.figures.latest.get(self.device).copied().flatten()
    }

    fn value(&self, criterion: &str, _: &[u32]) -> Option<f64> {
        self.figures.columns.get(criterion).and_then(|column| column.get(self.device)).copied()
    }
}

type Column = Result<Vec<f64>, &'static str>;

fn diversities(histories: &Histories, catalog: Option<&Catalog>) -> Column {
    let categories = catalog.and_then(|catalog| catalog.categories.as_ref());
    let categories = categories.ok_or("the items have no categories")?;
    let of = |item: u32| categories.of(item as usize).to_vec();
    Ok(histories.iter().map(|history| criteria::diversity(history, of) as f64).collect())
}

/// The newest interaction of all is now.
fn recencies(histories: &Histories) -> Column {
    let latest = |user| histories.times_of(user).iter().max().copied();
    let now = (0..histories.users()).filter_map(latest).max().ok_or("the interactions have no times")?;
    let recency = |user| latest(user).map_or(0.0, |latest| criteria::recency(latest, now));
    Ok((0..histories.users()).map(recency).collect())
}

/// Each user's most recent item: by time, and of several at the same time the last.
fn latest(histories: &Histories) -> Result<Vec<Option<u32>>, &'static str> {
    if histories.times().is_empty() {
        return Err("the interactions have no times");
    }
    let latest = |user| {
        let items = histories.of(user).iter().zip(histories.times_of(user));
        items.max_by_key(|(_, time)| **time).map(|(item, _)| *item)
    };
    Ok((0..histories.users()).map(latest).collect())
}
