//! From what was learned to what leaves: the one place where the owner's policy is applied.

use crate::error::DisclosureError;
use crate::parameters::Keyed;
use crate::policy::{DisclosureMode, Policy};
use crate::update::{Disclosed, RowOrigin, Private, Trained, Update};
use crate::{Ledger, RoundTerms, codec, limits};
use sottovoce_core::Rng;

impl Trained {
    /// Applies the owner's policy and writes the ledger; the only way to a [`Disclosed`].
    ///
    /// Rows marked [`RowOrigin::Other`] go; a row marked [`RowOrigin::Consumed`] goes with probability pi, decided once per item,
    /// for all rounds or for this one as the policy has it, and for all tables keyed by items; rows of hidden items and rows marked [`RowOrigin::Hidden`] never go. A row that does not go but
    /// is covered ([`Trained::push_decoys`]) goes with what covers it instead: what would have left had the owner not had the
    /// item. Dense tables go whole. The sample count and each
    /// criterion go only if the terms ask for them and the policy allows it. `when` is the caller's clock, in seconds,
    /// for the ledger.
    ///
    /// # Errors
    /// If the policy refuses the round, or a value cannot be encoded as the terms ask. Nothing has left then, and the
    /// ledger is as it was.
    pub fn disclose(
        self,
        policy: &Policy,
        terms: &RoundTerms,
        when: u64,
        ledger: &mut Ledger,
        draws: DisclosureSeeds,
    ) -> Result<Disclosed, DisclosureError> {
        self.disclose_wrapped(policy, terms, (when, None), ledger, draws)
    }

    /// The same for an update that leaves in another form than its own, in so many bytes: what the ledger is told.
    ///
    /// # Errors
    /// As [`disclose`](Self::disclose).
    pub fn disclose_wrapped(
        mut self,
        policy: &Policy,
        terms: &RoundTerms,
        (when, wrapped): (u64, Option<u64>),
        ledger: &mut Ledger,
        draws: DisclosureSeeds,
    ) -> Result<Disclosed, DisclosureError> {
        policy.check_terms(terms)?;
        for table in 0..self.update.tables.len() {
            self.keep_disclosed_rows(table, policy, draws);
        }
        withhold(&mut self.update, policy, terms)?;
        self.update.check_values(terms.values)?;
        let Trained { update, mut private, .. } = self;
        private.iter_mut().for_each(Private::clear);
        let (federation, round, encoding) = (terms.federation, terms.round, terms.values);
        let disclosed = Disclosed { update, private, federation, round, encoding };
        let bytes = wrapped.unwrap_or_else(|| codec::update_bytes(&disclosed));
        if bytes > limits::MESSAGE_BYTES {
            return Err(DisclosureError::TooLarge { bytes, most: limits::MESSAGE_BYTES });
        }
        ledger.record(&disclosed, terms, when, bytes);
        Ok(disclosed)
    }

    fn keep_disclosed_rows(&mut self, table: usize, policy: &Policy, draws: DisclosureSeeds) {
        let of_shown = self.of_shown && policy.disclosure == DisclosureMode::Fixed;
        let rows = &mut self.update.tables[table];
        let Private { marks, covered, covers } = &mut self.private[table];
        // Tables by item share one decision per item; others have their own per row.
        let (hidden, space) = match rows.keyed {
            Keyed::Dense => return,
            Keyed::Items => (policy.hidden(), 0),
            Keyed::Others => (&[][..], (table as u64 + 1) << 32),
        };
        // The commonest case, in which no row stays at home.
        if policy.pi() >= 1.0 && hidden.is_empty() && !marks.contains(&RowOrigin::Hidden) {
            return;
        }
        let goes = |place: usize, row: u32| {
            let goes = match marks[place] {
                RowOrigin::Other => true,
                // Rows that are no items were drawn with the items that they come from.
                RowOrigin::Consumed if of_shown && space > 0 => true,
                RowOrigin::Consumed => draws.let_leave(policy, space + u64::from(row)),
                RowOrigin::Hidden => false,
            };
            goes && (hidden.is_empty() || hidden.binary_search(&row).is_err())
        };
        let cols = rows.cols as usize;
        // Only rows that go with what covers them stay in this list.
        let mut covers = covers.chunks_exact(cols);
        covered.retain(|&row| {
            let (place, cover) = (rows.indices.binary_search(&row), covers.next());
            let Some((place, cover)) = place.ok().zip(cover).filter(|&(place, _)| !goes(place, row)) else {
                return false;
            };
            rows.values[place * cols..][..cols].copy_from_slice(cover);
            true
        });
        rows.retain(|place, row| goes(place, row) || covered.binary_search(&row).is_ok());
    }
}

fn withhold(update: &mut Update, policy: &Policy, terms: &RoundTerms) -> Result<(), DisclosureError> {
    let asked = terms.criteria.len();
    if let Some(&(found, _)) = update.criteria.last().filter(|(index, _)| *index as usize >= asked) {
        return Err(DisclosureError::Criterion { found, asked });
    }
    update.criteria.retain(|&(index, _)| policy.reports(&terms.criteria[index as usize].name));
    if !(policy.samples && terms.samples) {
        update.samples = 0;
    }
    Ok(())
}

/// What it is drawn from which of the owner's rows leave. Nobody else may know these numbers.
#[derive(Clone, Copy)]
pub struct DisclosureSeeds {
    /// Another in each round.
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
    /// For a device that takes part in one round only: one number, for what is drawn in the round and for what is kept.
    pub fn once(rng: &mut Rng) -> Self {
        let seed = rng.next_u64();
        Self { per_round: seed, fixed: seed }
    }

    /// Whether a row that has to do with the owner leaves, by its key.
    #[inline]
    pub(crate) fn let_leave(self, policy: &Policy, key: u64) -> bool {
        let seed = match policy.disclosure {
            DisclosureMode::Fixed => self.fixed,
            DisclosureMode::PerRound => self.per_round,
        };
        uniform(seed, key) < policy.pi()
    }
}

/// One uniform number for each key: SplitMix64 from a seed, read at the key's place, so that a draw depends neither on
/// the order of rows nor on which other rows there are. A larger pi lets all rows leave that a smaller one did.
#[inline]
fn uniform(seed: u64, key: u64) -> f64 {
    let mut z = seed.wrapping_add(key.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}
