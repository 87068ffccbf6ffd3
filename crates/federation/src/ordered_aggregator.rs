//! Adding up what a cohort sent, one device after the other.

use crate::partition::Partition;
use crate::{Aggregate, Aggregation};
use sottovoce_protocol::{Layout, Update};

/// Adds up updates to the very sums that the simulator comes to: by the same parts of the cohort, merged in order.
pub struct OrderedAggregator<'a> {
    cohort: &'a [u32],
    partition: Partition,
    /// The part that is being added up.
    part: usize,
    /// The first index in the cohort whose device may come next.
    next: usize,
    sums: Aggregate,
    all: Aggregate,
}

/// An update that was not expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderedAggregatorError {
    /// Of a device that was not asked.
    #[error("device {0} was not asked")]
    NotAsked(u32),
    /// Of a device that was added already, or should have been before another.
    #[error("device {0} comes twice, or after one with a larger number")]
    Order(u32),
}

impl<'a> OrderedAggregator<'a> {
    /// Nothing yet, of a cohort that was asked; ascending.
    pub fn new(layout: &Layout, cohort: &'a [u32], aggregation: &Aggregation) -> Self {
        let partition = Partition::new(layout, cohort.len());
        let [sums, all] = [(); 2].map(|()| Aggregate::with(layout, aggregation));
        Self { cohort, partition, part: 0, next: 0, sums, all }
    }

    /// Adds a device's update; devices come in ascending order.
    ///
    /// # Errors
    /// If the device was not asked, or is out of order; then nothing is added.
    pub fn add(&mut self, device: u32, update: &Update) -> Result<(), OrderedAggregatorError> {
        let index = self.cohort.binary_search(&device).map_err(|_| OrderedAggregatorError::NotAsked(device))?;
        if index < self.next {
            return Err(OrderedAggregatorError::Order(device));
        }
        self.next = index + 1;
        while index >= self.partition.part(self.part).end {
            self.merge_part();
        }
        self.sums.add_from(device, update);
        Ok(())
    }

    fn merge_part(&mut self) {
        self.all.merge(&mut self.sums);
        self.part += 1;
    }

    /// All of it.
    pub fn finish(mut self) -> Aggregate {
        if self.partition.parts() == 1 {
            return self.sums;
        }
        self.merge_part();
        self.all
    }
}
