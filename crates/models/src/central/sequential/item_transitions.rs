//! Item transitions: what people had after the latest items, a neighbourhood model of the order.
//!
//! M. Ludewig, D. Jannach: Evaluation of Session-based Recommendation Algorithms, UMUAI 28, 2018: Markov chains and
//! sequential rules.
//!
//! ```text
//! w(a, b)      = sum of 1 / d over all places where b follows a at a distance d of at most `steps`
//! sim(a, b)    = w(a, b) / (sum of w(a, .) + shrinkage), for the k items b with the largest
//! score(b)     = sum over the latest items a_0, a_1, ... (`recent` of them) of decay^n sim(a_n, b)
//! ```
//! With steps = 1 and recent = 1 it is a first-order Markov chain.

use super::latest;
use crate::central::neighbours::{Neighbours, retain_best};
use crate::registry::{CentralModel, ModelInfo};
use crate::settings::Config;
use crate::{Fit, ModelError, Reason, ReasonKind, Recommender, Summary, Tensor, config};
use rayon::prelude::*;
use sottovoce_core::{Histories, History};

/// The registry's entry.
pub(super) const MODEL: CentralModel = CentralModel {
    info: ModelInfo::new("item-transitions", "Item transitions")
        .summary(
            "Items that people had soon after the latest items of a history; a Markov chain with steps=1, recent=1",
        )
        .paper("Ludewig, Jannach: Evaluation of Session-based Recommendation Algorithms. UMUAI 28, 2018"),
    schema: || TransitionConfig::default().schema(),
    build: |settings| {
        Box::new(ItemTransitions { config: TransitionConfig::read(settings), ..ItemTransitions::default() })
    },
};

config! {
    /// Settings of item transitions.
    struct TransitionConfig {
        /// Followers of each item
        k: usize = 400, in 1..=10_000 => [log];
        /// Distance up to which an item follows another
        steps: usize = 10, in 1..=1000 => [log];
        /// Latest items of a history that count
        recent: usize = 10, in 1..=1000 => [log];
        /// Weight of an item against the one after it
        decay: f64 = 0.8, in 0.0..=1.0;
        /// Added to the denominator, which lowers the similarity of items with few followers
        shrinkage: f64 = 1.0, in 0.0..=1000.0;
    }
}

#[derive(Default)]
struct ItemTransitions {
    config: TransitionConfig,
    users: Histories,
    followers: Neighbours,
}

impl ItemTransitions {
    /// The followers of an item, given the places where it occurs.
    fn followers_of(&self, train: &Histories, places: &[u32], weights: &mut [f32]) -> Vec<(u32, f32)> {
        let (mut found, mut total) = (Vec::new(), 0.0);
        for &place in places {
            let place = place as usize;
            let user = train.offsets().partition_point(|&start| start <= place) - 1;
            let end = train.offsets()[user + 1].min(place + 1 + self.config.steps);
            for (distance, &item) in train.items()[place + 1..end].iter().enumerate() {
                let weight = 1.0 / (distance + 1) as f32;
                if weights[item as usize] == 0.0 {
                    found.push(item);
                }
                weights[item as usize] += weight;
                total += weight;
            }
        }
        let scale = 1.0 / (total + self.config.shrinkage as f32);
        let mut list: Vec<(u32, f32)> =
            found.into_iter().map(|item| (item, std::mem::take(&mut weights[item as usize]) * scale)).collect();
        retain_best(&mut list, self.config.k);
        list
    }

    /// The latest items of a history and their weights.
    fn recent<'h>(&self, history: &'h [u32]) -> impl Iterator<Item = (u32, f32)> + use<'h> {
        let decay = self.config.decay as f32;
        let mut weight = 1.0;
        latest(history, self.config.recent).iter().rev().map(move |&item| {
            let now = weight;
            weight *= decay;
            (item, now)
        })
    }
}

impl Recommender for ItemTransitions {
    fn fit(&mut self, train: &Histories, _: &mut Fit<'_>) -> Result<Summary, ModelError> {
        if u32::try_from(train.interactions()).is_err() {
            return Err(ModelError::Data("item-transitions: more than 4,294,967,295 interactions".to_owned()));
        }
        // The places of each item among all interactions.
        let mut places = vec![Vec::new(); train.catalog_size()];
        for (place, &item) in train.items().iter().enumerate() {
            places[item as usize].push(place as u32);
        }
        let items = train.catalog_size();
        let lists: Vec<Vec<(u32, f32)>> = places
            .par_iter()
            .map_init(|| vec![0.0; items], |weights, places| self.followers_of(train, places, weights))
            .collect();
        self.followers = Neighbours::from_lists(&lists);
        self.users = train.clone();
        Ok(Summary::default())
    }

    fn score(&self, user: usize, into: &mut [f32]) {
        self.score_newcomer(self.users.history(user), into);
    }

    fn score_after(&self, _: usize, history: History<'_>, into: &mut [f32]) {
        self.score_newcomer(history, into);
    }

    fn score_newcomer(&self, history: History<'_>, into: &mut [f32]) -> bool {
        assert_eq!(into.len(), self.users.catalog_size(), "one score per item");
        into.fill(0.0);
        for (item, weight) in self.recent(&history) {
            for (follower, similarity) in self.followers.of(item as usize) {
                into[follower as usize] += weight * similarity;
            }
        }
        true
    }

    fn reason_kind(&self) -> ReasonKind {
        ReasonKind::Shares
    }

    fn reasons(&self, user: usize, items: &[u32]) -> Vec<Vec<Reason>> {
        let reason = |(had, weight): (u32, f32), item: u32| {
            let found = self.followers.of(had as usize).find(|(follower, _)| *follower == item);
            found.map(|(_, similarity)| Reason::had(had, weight * similarity))
        };
        let recent = || self.recent(self.users.of(user));
        items.iter().map(|&item| recent().filter_map(|had| reason(had, item)).collect()).collect()
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.followers.tensors()
    }

    fn restore(&mut self, tensors: &[Tensor], train: &Histories) -> Result<(), ModelError> {
        self.followers = Neighbours::restore(tensors, train.catalog_size())?;
        self.users = train.clone();
        Ok(())
    }
}
