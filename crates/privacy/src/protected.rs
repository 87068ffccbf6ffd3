//! What both halves of a protected round go by.

use crate::dp::noise::{DiscreteGaussian, Noise as _};
use crate::packing::{Packing, Unreadable, signed};
use crate::{Generator, Lock, Placement, Protection, ProtectionError, Seal, secagg};
use sottovoce_protocol::{Layout, Update};

/// Bytes of a message around its words: names of federation and round, lengths, a check.
const FRAME: u64 = 64;

/// How the updates of a layout are protected.
#[derive(Clone, Debug, PartialEq)]
pub struct Protected {
    protection: Protection,
    packing: Packing,
    /// What each device adds, on the grid.
    of_a_device: Option<DiscreteGaussian>,
    /// What the server adds, on the grid.
    of_the_server: Option<DiscreteGaussian>,
    /// Where words are encrypted.
    lock: Option<Lock>,
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
        let grid = packing.form().grid;
        let on_grid = |clips: f64| {
            let steps = clips * f64::from(grid.clip().unwrap_or(grid.range())) * grid.steps();
            (steps > 0.0).then(|| DiscreteGaussian::new(steps)).transpose()
        };
        let noise = protection.noise;
        let central = noise.filter(|noise| noise.placement == Placement::Central);
        let lock = protection.lock(packing.length())?;
        Ok(Some(Self {
            lock,
            of_a_device: on_grid(noise.map_or(0.0, |noise| noise.of_a_device()))?,
            of_the_server: on_grid(central.map_or(0.0, |noise| noise.multiplier))?,
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
        self.of_a_device.is_some()
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
        if let Some(noise) = &self.of_a_device {
            for word in into {
                *word = word.wrapping_add(noise.sample(generator) as u32);
            }
        }
    }

    /// Reads a sum of so many devices' words with the server's noise: table, row, how many updates had it, and its sum.
    ///
    /// # Errors
    /// If there are more rows than the buckets hold.
    pub fn read(
        &self,
        sum: &[u32],
        updates: u32,
        generator: &mut Generator,
        each: impl FnMut(usize, usize, u32, &[f32]),
    ) -> Result<(), Unreadable> {
        let mut sum = signed(sum);
        if let Some(noise) = &self.of_the_server {
            noise.add_to(generator, &mut sum);
        }
        self.packing.unpack(&sum, updates, each)
    }
}
