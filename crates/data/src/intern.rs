//! String interning: ids to indices.

use crate::text;
use rustc_hash::FxHasher;
use sottovoce_core::Names;
use std::hash::Hasher;

/// More than 32 bits of ids, or of their text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Gives each distinct id a number, in order of first appearance.
///
/// An open-addressing table of (hash, number) beside the ids' text, so an id is stored once. Rows of one user often
/// follow each other, so the last result is tried first.
pub(crate) struct Interner {
    names: Names,
    /// `hash << 32 | number + 1`; 0 is a free slot. The length is a power of two, at most half full.
    slots: Vec<u64>,
    last: u32,
    text_bytes: usize,
    /// How many look-ups had bytes that are not UTF-8.
    pub(crate) latin1: u64,
}

impl Default for Interner {
    fn default() -> Self {
        Self { names: Names::new(), slots: vec![0; 1024], last: 0, text_bytes: 0, latin1: 0 }
    }
}

impl Interner {
    /// The id's number; new ids get the next one.
    #[inline]
    pub(crate) fn number(&mut self, id: &[u8]) -> Result<u32, Full> {
        if self.names.get(self.last as usize).is_some_and(|name| name.as_bytes() == id) {
            return Ok(self.last);
        }
        let hash = hash_of(id);
        self.last = match self.find(id, hash) {
            Ok(number) => number,
            Err(slot) => self.add(id, hash, slot)?,
        };
        Ok(self.last)
    }

    /// The number of an id that was added before.
    pub(crate) fn get(&self, id: &[u8]) -> Option<u32> {
        let (text, _) = text::decode(id);
        self.find(text.as_bytes(), hash_of(text.as_bytes())).ok()
    }

    /// The number, or the free slot where it belongs.
    #[inline]
    fn find(&self, id: &[u8], hash: u32) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let entry = self.slots[slot];
            if entry == 0 {
                return Err(slot);
            }
            let number = entry as u32 - 1;
            if (entry >> 32) as u32 == hash && self.names[number as usize].as_bytes() == id {
                return Ok(number);
            }
            slot = (slot + 1) & mask;
        }
    }

    #[cold]
    fn add(&mut self, id: &[u8], hash: u32, slot: usize) -> Result<u32, Full> {
        let (text, latin1) = text::decode(id);
        if !latin1 {
            return self.insert(&text, hash, slot);
        }
        // Bytes that are not UTF-8 are looked up by their text, so that both spellings are one id.
        self.latin1 += 1;
        let hash = hash_of(text.as_bytes());
        self.find(text.as_bytes(), hash).or_else(|slot| self.insert(&text, hash, slot))
    }

    fn insert(&mut self, text: &str, hash: u32, slot: usize) -> Result<u32, Full> {
        self.text_bytes += text.len();
        if self.text_bytes > u32::MAX as usize || self.names.len() >= u32::MAX as usize - 1 {
            return Err(Full);
        }
        let number = self.names.push(text) as u32;
        self.slots[slot] = u64::from(hash) << 32 | u64::from(number + 1);
        if self.names.len() * 2 > self.slots.len() {
            self.grow();
        }
        Ok(number)
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        let mut slots = vec![0; mask + 1];
        for &entry in self.slots.iter().filter(|&&entry| entry != 0) {
            let mut slot = (entry >> 32) as usize & mask;
            while slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            slots[slot] = entry;
        }
        self.slots = slots;
    }

    /// How many ids there are.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The ids in order of first appearance.
    pub(crate) fn into_names(self) -> Names {
        self.names
    }
}

#[inline]
fn hash_of(id: &[u8]) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write(id);
    let hash = hasher.finish();
    (hash ^ (hash >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn latin1_and_utf8_spellings_are_one_id() {
        let mut ids = Interner::default();
        assert_eq!(ids.number("caffè".as_bytes()), Ok(0));
        assert_eq!(ids.number(b"caff\xe8"), Ok(0));
        assert_eq!(ids.number(b"t\xe8"), Ok(1));
        assert_eq!(ids.number("tè".as_bytes()), Ok(1));
        assert_eq!((ids.get(b"t\xe8"), ids.get(b"x")), (Some(1), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn numbers_agree_with_a_hash_map(ids in prop::collection::vec("[a-d]{0,6}", 0..3000)) {
            let mut interner = Interner::default();
            let mut plain = std::collections::HashMap::new();
            for id in &ids {
                let next = plain.len() as u32;
                let expected = *plain.entry(id.clone()).or_insert(next);
                prop_assert_eq!(interner.number(id.as_bytes()), Ok(expected));
            }
            prop_assert_eq!(interner.into_names().len(), plain.len());
        }
    }
}
