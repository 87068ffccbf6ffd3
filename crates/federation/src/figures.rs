//! What simulated devices can say of themselves.

use crate::FederationError;
use sottovoce_core::{Catalog, Histories};
use sottovoce_models::{TrainStats, criteria};
use sottovoce_protocol::{RoundTerms, Trained, UpdateError};
use std::collections::BTreeMap;

/// Figures that stay the same from round to round, by criterion and device. Others are known when a device has trained.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedFigures {
    columns: BTreeMap<String, Vec<f64>>,
}

impl SimulatedFigures {
    /// Nothing beside what training tells.
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
        criteria.into_iter().try_fold(Self::new(), |profile, criterion| {
            let values = match criterion {
                criteria::SIZE | criteria::CLOSENESS | criteria::LOSS => return Ok(profile),
                criteria::DIVERSITY => diversities(histories, catalog),
                criteria::RECENCY => recencies(histories),
                _ => Err("simulated devices report size, diversity, closeness, recency and loss"),
            };
            let lacking = |why| FederationError::Criterion { name: criterion.to_owned(), why };
            Ok(profile.with(criterion, values.map_err(lacking)?))
        })
    }

    /// Reports what the terms ask for and the device knows; the owner's policy comes after.
    pub(crate) fn report(
        &self,
        terms: &RoundTerms,
        (device, history): (u32, &[u32]),
        stats: &TrainStats,
        trained: &mut Trained,
    ) -> Result<(), UpdateError> {
        for (index, asked) in (0..).zip(&terms.criteria) {
            let value = match asked.name.as_str() {
                criteria::SIZE => Some(history.len() as f64),
                criteria::CLOSENESS => Some(criteria::closeness(trained.update())),
                criteria::LOSS => Some(stats.loss / stats.samples as f64),
                name => self.columns.get(name).and_then(|slab| slab.get(device as usize)).copied(),
            };
            if let Some(value) = value {
                trained.report(index, value)?;
            }
        }
        Ok(())
    }
}

type DeviceSlab = Result<Vec<f64>, &'static str>;

fn diversities(histories: Option<&Histories>, catalog: Option<&Catalog>) -> DeviceSlab {
    let histories = histories.ok_or("it needs all histories in memory")?;
    let categories = catalog.and_then(|catalog| catalog.categories.as_ref());
    let categories = categories.ok_or("the items have no categories")?;
    let of = |item: u32| categories.of(item as usize).to_vec();
    Ok(histories.iter().map(|history| criteria::diversity(history, of) as f64).collect())
}

/// The newest interaction of all is now.
fn recencies(histories: Option<&Histories>) -> DeviceSlab {
    let histories = histories.ok_or("it needs all histories in memory")?;
    let latest = |user| histories.times_of(user).iter().max().copied();
    let now = (0..histories.users()).filter_map(latest).max().ok_or("the interactions have no times")?;
    let recency = |user| latest(user).map_or(0.0, |latest| criteria::recency(latest, now));
    Ok((0..histories.users()).map(recency).collect())
}
