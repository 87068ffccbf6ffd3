//! The devices of a federation, in memory.

use crate::storage::{DeviceRecord, Hash, Millis};
use std::collections::{BTreeMap, HashMap};

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) credential: Hash,
    pub(crate) enrolled: Millis,
    pub(crate) seen: Millis,
    pub(crate) revoked: bool,
}

/// All devices that enrolled and did not withdraw.
#[derive(Debug, Default)]
pub(crate) struct Members {
    by_number: BTreeMap<u32, Member>,
    by_credential: HashMap<Hash, u32>,
    revoked: usize,
    /// Heard of since that was written down last.
    fresh: Vec<u32>,
}

/// How often it is written down when a device was heard of.
const SEEN_STEP: Millis = 60_000;

impl Members {
    pub(crate) fn add(&mut self, record: &DeviceRecord) {
        let DeviceRecord { number, credential, enrolled, seen, revoked, .. } = *record;
        self.by_credential.insert(credential, number);
        self.by_number.insert(number, Member { credential, enrolled, seen, revoked });
        self.revoked += usize::from(revoked);
    }

    /// The device of a credential, shut out or not.
    pub(crate) fn find(&self, credential: &Hash) -> Option<(u32, bool)> {
        let number = *self.by_credential.get(credential)?;
        Some((number, self.by_number.get(&number)?.revoked))
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Member> {
        self.by_number.get(&number)
    }

    /// A device was heard of.
    pub(crate) fn hear(&mut self, number: u32, now: Millis) {
        let Some(member) = self.by_number.get_mut(&number) else { return };
        // Written down when the minute changes, so that a device is on the list at most once a minute.
        if member.seen / SEEN_STEP != now / SEEN_STEP {
            self.fresh.push(number);
        }
        member.seen = now;
    }

    /// Who was heard of since this was asked last, and when.
    pub(crate) fn take_fresh(&mut self) -> Vec<(u32, Millis)> {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.sort_unstable();
        fresh.dedup();
        let seen = |number: u32| Some((number, self.by_number.get(&number)?.seen));
        fresh.into_iter().filter_map(seen).collect()
    }

    pub(crate) fn revoke(&mut self, number: u32) {
        if let Some(member) = self.by_number.get_mut(&number) {
            self.revoked += usize::from(!member.revoked);
            member.revoked = true;
        }
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(member) = self.by_number.remove(&number) {
            self.by_credential.remove(&member.credential);
            self.revoked -= usize::from(member.revoked);
        }
    }

    /// Devices that may be asked, ascending.
    pub(crate) fn active(&self) -> Vec<u32> {
        self.by_number.iter().filter(|(_, member)| !member.revoked).map(|(&number, _)| number).collect()
    }

    /// How many may be asked.
    pub(crate) fn count(&self) -> usize {
        self.by_number.len() - self.revoked
    }

    /// How many are shut out.
    pub(crate) fn revoked(&self) -> usize {
        self.revoked
    }

    /// How many were heard of since then.
    pub(crate) fn heard_since(&self, since: Millis) -> usize {
        self.by_number.values().filter(|member| !member.revoked && member.seen >= since).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_withdrew_or_was_shut_out_is_not_asked() {
        let mut members = Members::default();
        for number in 0..4 {
            let credential = [number as u8; 32];
            let (federation, enrolled, seen, revoked) = (1, 5, 5, number == 3);
            members.add(&DeviceRecord { federation, number, credential, enrolled, seen, revoked });
        }
        members.revoke(1);
        members.revoke(1);
        members.remove(2);
        assert_eq!((members.active(), members.count(), members.revoked()), (vec![0], 1, 2));
        assert_eq!(members.find(&[1; 32]), Some((1, true)));
        assert_eq!(members.find(&[2; 32]), None);
        members.remove(3);
        assert_eq!(members.revoked(), 1);
    }

    #[test]
    fn who_was_heard_of_is_noted_once_a_minute() {
        let mut members = Members::default();
        let record = DeviceRecord {
            federation: 1,
            number: 7,
            credential: [7; 32],
            enrolled: 0,
            seen: 0,
            revoked: false,
        };
        members.add(&record);
        members.hear(7, 10);
        assert_eq!(members.take_fresh(), []);
        members.hear(7, 60_010);
        members.hear(7, 60_020);
        members.hear(8, 60_020);
        assert_eq!(members.take_fresh(), [(7, 60_020)]);
        assert_eq!((members.heard_since(60_000), members.heard_since(60_021)), (1, 0));
    }
}
