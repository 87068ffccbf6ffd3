//! The enrolled devices of a federation, in memory.

use crate::storage::{DeviceRecord, Hash, Millis};
use std::collections::{BTreeMap, HashMap};

/// An enrolled device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) credential: Hash,
    pub(crate) enrolled: Millis,
    pub(crate) seen: Millis,
    pub(crate) revoked: bool,
    /// Whether it takes part in audiences, as its last check-in said; not stored.
    in_audiences: bool,
}

/// All devices that have enrolled and not withdrawn.
#[derive(Debug, Default)]
pub(crate) struct Members {
    by_number: BTreeMap<u32, Member>,
    by_credential: HashMap<Hash, u32>,
    pub(crate) revoked: usize,
    /// Devices whose last check-in is not stored yet.
    unstored: Vec<u32>,
}

/// How precisely the last check-in of a device is stored.
const SEEN_STEP: Millis = 60_000;

impl Members {
    pub(crate) fn add(&mut self, record: &DeviceRecord) {
        let DeviceRecord { number, credential, enrolled, seen, revoked, .. } = *record;
        self.by_credential.insert(credential, number);
        self.by_number.insert(number, Member { credential, enrolled, seen, revoked, in_audiences: false });
        self.revoked += usize::from(revoked);
    }

    /// The device with a credential, and whether it is revoked.
    pub(crate) fn find(&self, credential: &Hash) -> Option<(u32, bool)> {
        let number = *self.by_credential.get(credential)?;
        Some((number, self.by_number.get(&number)?.revoked))
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Member> {
        self.by_number.get(&number)
    }

    /// Records a check-in.
    pub(crate) fn mark_seen(&mut self, number: u32, in_audiences: bool, now: Millis) {
        let Some(member) = self.by_number.get_mut(&number) else { return };
        // Stored when the minute changes, so that a device is listed at most once a minute.
        if member.seen / SEEN_STEP != now / SEEN_STEP {
            self.unstored.push(number);
        }
        (member.seen, member.in_audiences) = (now, in_audiences);
    }

    /// Devices that checked in since the last call, and when.
    pub(crate) fn take_seen(&mut self) -> Vec<(u32, Millis)> {
        let mut numbers = std::mem::take(&mut self.unstored);
        numbers.sort_unstable();
        numbers.dedup();
        let seen = |number: u32| Some((number, self.by_number.get(&number)?.seen));
        numbers.into_iter().filter_map(seen).collect()
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

    /// Devices that can be selected, ascending.
    pub(crate) fn active(&self) -> Vec<u32> {
        self.by_number.iter().filter(|(_, member)| !member.revoked).map(|(&number, _)| number).collect()
    }

    /// Those of them that take part in audiences, ascending.
    pub(crate) fn in_audiences(&self) -> impl Iterator<Item = u32> {
        self.by_number.iter().filter(|(_, member)| !member.revoked && member.in_audiences).map(|(&number, _)| number)
    }

    /// The number of devices that can be selected.
    pub(crate) fn count(&self) -> usize {
        self.by_number.len() - self.revoked
    }

    /// The number of devices that checked in since a time.
    pub(crate) fn seen_since(&self, since: Millis) -> usize {
        self.by_number.values().filter(|member| !member.revoked && member.seen >= since).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withdrawn_and_revoked_devices_are_not_selected() {
        let mut members = Members::default();
        for number in 0..4 {
            let credential = [number as u8; 32];
            let (federation, enrolled, seen, revoked) = (1, 5, 5, number == 3);
            members.add(&DeviceRecord { federation, number, credential, enrolled, seen, revoked });
        }
        members.revoke(1);
        members.revoke(1);
        members.remove(2);
        assert_eq!((members.active(), members.count(), members.revoked), (vec![0], 1, 2));
        assert_eq!(members.find(&[1; 32]), Some((1, true)));
        assert_eq!(members.find(&[2; 32]), None);
        members.remove(3);
        assert_eq!(members.revoked, 1);
    }

    #[test]
    fn check_ins_are_listed_once_a_minute() {
        let mut members = Members::default();
        let (number, credential) = (7, [7; 32]);
        members.add(&DeviceRecord { federation: 1, number, credential, enrolled: 0, seen: 0, revoked: false });
        members.mark_seen(7, false, 10);
        assert_eq!(members.take_seen(), []);
        members.mark_seen(7, false, 60_010);
        members.mark_seen(7, true, 60_020);
        members.mark_seen(8, true, 60_020);
        assert_eq!(members.take_seen(), [(7, 60_020)]);
        assert_eq!(members.in_audiences().collect::<Vec<_>>(), [7]);
        assert_eq!((members.seen_since(60_000), members.seen_since(60_021)), (1, 0));
    }
}
