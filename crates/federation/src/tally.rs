//! Adding up what a cohort sent, one device after the other.

use crate::cut::Cut;
use crate::{Collected, Counting};
use sottovoce_protocol::{Layout, Update};

/// Adds up updates to the very sums that the simulator comes to: by the same parts of the cohort, merged in order.
pub struct Tally<'a> {
    cohort: &'a [u32],
    cut: Cut,
    /// The part that is being added up.
    part: usize,
    /// The first place in the cohort whose device may come next.
    next: usize,
    sums: Collected,
    all: Collected,
}

/// An update that was not expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TallyError {
    /// Of a device that was not asked.
    #[error("device {0} was not asked")]
    NotAsked(u32),
    /// Of a device that was added already, or should have been before another.
    #[error("device {0} comes twice, or after one with a larger number")]
    Order(u32),
}

impl<'a> Tally<'a> {
    /// Nothing yet, of a cohort that was asked; ascending.
    pub fn new(layout: &Layout, cohort: &'a [u32], counting: &Counting) -> Self {
        let cut = Cut::new(layout, cohort.len());
        let [sums, all] = [(); 2].map(|()| Collected::counting(layout, counting));
        Self { cohort, cut, part: 0, next: 0, sums, all }
    }

    /// Adds a device's update; devices come in ascending order.
    ///
    /// # Errors
    /// If the device was not asked, or is out of order; then nothing is added.
    pub fn add(&mut self, device: u32, update: &Update) -> Result<(), TallyError> {
        let place = self.cohort.binary_search(&device).map_err(|_| TallyError::NotAsked(device))?;
        if place < self.next {
            return Err(TallyError::Order(device));
        }
        self.next = place + 1;
        while place >= self.cut.part(self.part).end {
            self.merge();
        }
        self.sums.add(update);
        Ok(())
    }

    fn merge(&mut self) {
        self.all.drain(&mut self.sums);
        self.part += 1;
    }

    /// All of it.
    pub fn finish(mut self) -> Collected {
        if self.cut.parts() == 1 {
            return self.sums;
        }
        self.merge();
        self.all
    }
}
