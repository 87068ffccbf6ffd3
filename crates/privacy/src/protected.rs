//! What both halves of a protected round go by.

use crate::dp::DpError;
use crate::dp::noise::{Discrete, DiscreteGaussian, DiscreteLaplace, Noise as _};
use crate::packing::{Packing, Unreadable, signed};
use crate::{Generator, Lock, Placement, Protection, ProtectionError, Seal, Shape, secagg};
use sottovoce_protocol::{Layout, Update};

/// Bytes of a message around its words: names of federation and round, lengths, a check.
const FRAME: u64 = 64;

/// How the updates of a layout are protected.
#[derive(Clone, Debug, PartialEq)]
pub struct Protected {
    protection: Protection,
    packing: Packing,
    /// What each device adds.
    of_a_device: OnGrid,
    /// What the server adds.
    of_the_server: OnGrid,
    /// Where words are encrypted.
    lock: Option<Lock>,
}

/// Noise on words: on values, in steps of the grid, and on the vote of an update's length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct OnGrid {
    values: Option<Discrete>,
    vote: Option<Discrete>,
}

impl OnGrid {
    fn new(shape: Shape, values: f64, vote: f64) -> Result<Self, DpError> {
        let discrete = |steps: f64| match shape {
            Shape::Gaussian => DiscreteGaussian::new(steps).map(Discrete::Gaussian),
            Shape::Laplace => DiscreteLaplace::new(steps).map(Discrete::Laplace),
        };
        let noise = |steps: f64| (steps > 0.0).then(|| discrete(steps)).transpose();
        Ok(Self { values: noise(values)?, vote: noise(vote)? })
    }

    /// The noise of one word.
    fn draw(noise: Option<&Discrete>, generator: &mut Generator) -> i64 {
        noise.map_or(0, |noise| noise.sample(generator))
    }
}

impl Protected {
    /// For updates of this layout in a cohort of this size; `None` if nothing protects them.
    ///
    /// # Errors
    /// If the layers do not go together, or leave no room.
    pub fn new(
        protection: &Protection,
        layout: &Layout,
        cohort: u32,
    ) -> Result<Option<Self>, ProtectionError> {
        protection.check()?;
        let Some(packing) = protection.packing(layout, cohort)? else { return Ok(None) };
        let (noise, steps) = (protection.noise, packing.form().grid.steps());
        let central = noise.filter(|noise| noise.placement == Placement::Central);
        let lock = protection.lock(packing.length())?;
        let shape = noise.map_or(Shape::Gaussian, |noise| noise.shape);
        let of_a_vote = noise.map_or(0.0, |noise| noise.of_a_vote());
        let of_votes = central.and_then(|noise| noise.votes).unwrap_or(0.0);
        Ok(Some(Self {
            lock,
            of_a_device: OnGrid::new(shape, protection.of_a_device() * steps, of_a_vote)?,
            of_the_server: OnGrid::new(shape, protection.of_the_server() * steps, of_votes)?,
            protection: protection.clone(),
            packing,
        }))
    }

    /// Which layers there are.
    pub fn protection(&self) -> &Protection {
        &self.protection
    }

    /// How updates become integers.
    pub fn packing(&self) -> &Packing {
        &self.packing
    }

    /// Whether devices send words: all of them, instead of the rows that they touched.
    pub fn sends_words(&self) -> bool {
        self.protection.sends_words()
    }

    /// Whether the server sees sums only.
    pub fn is_sealed(&self) -> bool {
        self.protection.seal.is_some()
    }

    /// Whether devices add noise.
    pub fn adds_noise(&self) -> bool {
        self.of_a_device.values.is_some()
    }

    /// Steps of the grid in one, where gradients of interactions are added up on it.
    pub fn steps(&self) -> f64 {
        self.packing.form().grid.steps()
    }

    /// Adds a device's noise to sums on the grid that stay with it.
    pub fn add_noise(&self, generator: &mut Generator, sums: &mut [i64]) {
        for sum in sums {
            *sum += OnGrid::draw(self.of_a_device.values.as_ref(), generator);
        }
    }

    /// How words are encrypted, if they are.
    pub fn lock(&self) -> Option<&Lock> {
        self.lock.as_ref()
    }

    /// Bytes of the message that holds a device's words, at most.
    pub fn message_bytes(&self) -> u64 {
        let words = FRAME + 4 * self.packing.length() as u64;
        self.lock.as_ref().map_or(words, Lock::bytes)
    }

    /// Bytes that a device of a cohort of this size sends in a round, all messages of the seal together. The two devices that
    /// open an encrypted sum send its words on top.
    pub fn upload_bytes(&self, cohort: u32) -> u64 {
        let beside = match self.protection.seal {
            Some(Seal::SecureAggregation { dropout, colluding, identities }) => {
                secagg::bytes_beside(cohort, dropout, colluding, identities)
            }
            _ => 0,
        };
        self.message_bytes() + beside
    }

    /// All words of a device's update, with its noise.
    pub fn words(&self, update: &Update, generator: &mut Generator, into: &mut Vec<u32>) {
        into.clear();
        into.resize(self.packing.length(), 0);
        self.packing.pack(update, |place, word| into[place] = into[place].wrapping_add(word));
        if self.adds_noise() {
            for (place, word) in into.iter_mut().enumerate() {
                let noise = OnGrid::draw(self.noise_at(&self.of_a_device, place), generator);
                *word = word.wrapping_add(noise as u32);
            }
        }
    }

    fn noise_at<'a>(&self, noise: &'a OnGrid, place: usize) -> Option<&'a Discrete> {
        let vote = self.packing.vote() == Some(place);
        if vote { noise.vote.as_ref() } else { noise.values.as_ref() }
    }

    /// Reads a sum of so many devices' words with the server's noise: table, row, how many updates had it, and its sum. Returns
    /// what updates say of their lengths, noise included, where the clip follows them.
    ///
    /// # Errors
    /// If there are more rows than the buckets hold.
    pub fn read(
        &self,
        sum: &[u32],
        updates: u32,
        generator: &mut Generator,
        each: impl FnMut(usize, usize, u32, &[f32]),
    ) -> Result<Option<i64>, Unreadable> {
        let mut sum = signed(sum);
        if self.of_the_server.values.is_some() {
            for (place, sum) in sum.iter_mut().enumerate() {
                *sum += OnGrid::draw(self.noise_at(&self.of_the_server, place), generator);
            }
        }
        self.packing.unpack(&sum, updates, each)?;
        Ok(self.packing.vote().map(|place| sum[place]))
    }
}
