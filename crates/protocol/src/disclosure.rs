//! From what was trained to what leaves: the one place where the owner's policy is applied.

use crate::error::DisclosureError;
use crate::parameters::Keyed;
use crate::policy::{DisclosureMode, Policy};
use crate::update::{Disclosed, PrivateRows, RowOrigin, Trained, Update};
use crate::{Ledger, RoundTerms, codec, limits};
use sottovoce_core::Rng;
use std::marker::PhantomData;

impl Trained {
    /// Applies the owner's policy and writes the ledger; the only way to a [`Disclosed`].
    ///
    /// Rows of origin [`RowOrigin::Other`] leave. A row of origin [`RowOrigin::Consumed`] leaves with probability pi,
    /// drawn once per item for all tables keyed by items: once for all rounds or in each round, as
    /// [`Policy::disclosure`] says. Rows of hidden items and rows of origin [`RowOrigin::Hidden`] never leave. A
    /// withheld row that has a decoy ([`Trained::push_decoys`]) leaves with the decoy's values. Dense tables leave
    /// whole. The sample count and each criterion leave only if the terms ask for them and the policy allows it. `when`
    /// is the caller's clock, in seconds, for the ledger.
    ///
    /// # Errors
    /// If the policy refuses the round, or a value cannot be encoded as the terms ask. Nothing has left then, and the
    /// ledger is unchanged.
    pub fn disclose(
        self,
        policy: &Policy,
        terms: &RoundTerms,
        when: u64,
        ledger: &mut Ledger,
        seeds: DisclosureSeeds,
    ) -> Result<Disclosed, DisclosureError> {
        self.disclose_wrapped(policy, terms, (when, None), ledger, seeds)
    }

    /// The same for an update that is sent in another form (quantised or sealed), of so many bytes: the ledger records
    /// these.
    ///
    /// # Errors
    /// As [`disclose`](Self::disclose).
    pub fn disclose_wrapped(
        mut self,
        policy: &Policy,
        terms: &RoundTerms,
        (when, wrapped): (u64, Option<u64>),
        ledger: &mut Ledger,
        seeds: DisclosureSeeds,
    ) -> Result<Disclosed, DisclosureError> {
        policy.check_terms(terms)?;
        for table in 0..self.update.tables.len() {
            self.withhold_rows(table, policy, seeds);
        }
        withhold_statistics(&mut self.update, policy, terms)?;
        self.update.check_values(terms.values)?;
        let Trained { update, mut private, .. } = self;
        private.iter_mut().for_each(PrivateRows::clear);
        let (federation, round, encoding) = (terms.federation, terms.round, terms.values);
        let disclosed = Disclosed { update, private, federation, round, encoding, state: PhantomData };
        let bytes = wrapped.unwrap_or_else(|| codec::update_bytes(&disclosed));
        if bytes > limits::MESSAGE_BYTES {
            return Err(DisclosureError::TooLarge(bytes, limits::MESSAGE_BYTES));
        }
        ledger.record(&disclosed, terms, when, bytes);
        Ok(disclosed)
    }

    fn withhold_rows(&mut self, table: usize, policy: &Policy, seeds: DisclosureSeeds) {
        let on_disclosed_items = self.on_disclosed_items && policy.disclosure == DisclosureMode::Fixed;
        let rows = &mut self.update.tables[table];
        let PrivateRows { origins, decoy_rows, decoys } = &mut self.private[table];
        // Tables by item share one decision per item; others have their own per row.
        let (hidden, key_space) = match rows.shape.keyed {
            Keyed::Dense => return,
            Keyed::Items => (policy.hidden(), 0),
            Keyed::Others => (&[][..], (table as u64 + 1) << 32),
        };
        // The commonest case: nothing is withheld.
        if policy.pi() >= 1.0 && hidden.is_empty() && !origins.contains(&RowOrigin::Hidden) {
            return;
        }
        let draw = seeds.draw(policy);
        // Rows that are no items were drawn with the items that they come from.
        let drawn_before = on_disclosed_items && key_space > 0;
        let is_drawn = |row: u32| drawn_before || draw.discloses(key_space + u64::from(row));
        // As common, with fixed disclosure: only what is disclosed was trained on. Nothing has to be moved. All rows
        // are drawn, also those that need not be, because whose they are cannot be guessed, and guesses take longer.
        let leaves = |(origin, &row): (&RowOrigin, &u32)| {
            (*origin == RowOrigin::Other) | ((*origin == RowOrigin::Consumed) & is_drawn(row))
        };
        if hidden.is_empty() && origins.iter().zip(&rows.indices).fold(true, |all, row| all & leaves(row)) {
            return;
        }
        let leaves = |position: usize, row: u32| {
            leaves((&origins[position], &row)) && (hidden.is_empty() || hidden.binary_search(&row).is_err())
        };
        let cols = rows.cols();
        // Keeps only the rows that leave with their decoy.
        let mut decoys = decoys.chunks_exact(cols);
        decoy_rows.retain(|&row| {
            let (position, decoy) = (rows.indices.binary_search(&row), decoys.next());
            let withheld = position.ok().zip(decoy).filter(|&(position, _)| !leaves(position, row));
            let Some((position, decoy)) = withheld else { return false };
            rows.values[position * cols..][..cols].copy_from_slice(decoy);
            true
        });
        rows.retain(|position, row| leaves(position, row) || decoy_rows.binary_search(&row).is_ok());
    }
}

fn withhold_statistics(update: &mut Update, policy: &Policy, terms: &RoundTerms) -> Result<(), DisclosureError> {
    let asked = terms.criteria.len();
    if let Some(&(found, _)) = update.criteria.last().filter(|(index, _)| *index as usize >= asked) {
        return Err(DisclosureError::Criterion(found, asked));
    }
    update.criteria.retain(|&(index, _)| policy.reports(&terms.criteria[index as usize].name));
    if !(policy.samples && terms.samples) {
        update.samples = 0;
    }
    Ok(())
}

/// The secret seeds from which is drawn which of the owner's rows leave.
#[derive(Clone, Copy)]
pub struct DisclosureSeeds {
    /// Fresh in each round.
    pub per_round: u64,
    /// The same as long as the device takes part.
    pub fixed: u64,
}

impl std::fmt::Debug for DisclosureSeeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DisclosureSeeds(..)")
    }
}

impl DisclosureSeeds {
    /// For a device that takes part in one round only: one seed for both.
    pub fn once(rng: &mut Rng) -> Self {
        let seed = rng.next_u64();
        Self { per_round: seed, fixed: seed }
    }

    /// How a policy draws from them.
    #[inline]
    pub(crate) fn draw(self, policy: &Policy) -> DisclosureDraw {
        let seed = match policy.disclosure {
            DisclosureMode::Fixed => self.fixed,
            DisclosureMode::PerRound => self.per_round,
        };
        // Exact: a power of two, and no fraction of one is left over that could matter.
        DisclosureDraw { seed, below: (policy.pi() * (1u64 << 53) as f64).ceil() as u64 }
    }
}

/// Which rows leave at some pi.
#[derive(Clone, Copy)]
pub(crate) struct DisclosureDraw {
    seed: u64,
    /// pi in units of 2^-53, rounded up.
    below: u64,
}

impl DisclosureDraw {
    /// Whether the row of this key leaves.
    #[inline]
    pub(crate) fn discloses(self, key: u64) -> bool {
        bits(self.seed, key) < self.below
    }
}

/// One uniform number of 53 bits for each key: SplitMix64 from a seed, evaluated at the key, so that a draw depends
/// neither on the order of rows nor on which other rows there are. A larger pi discloses a superset of what a smaller
/// one does.
#[inline]
fn bits(seed: u64, key: u64) -> u64 {
    let mut z = seed.wrapping_add(key.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) >> 11
}
