//! The enrolled devices of a federation, in memory.

use crate::storage::{DeviceRecord, Hash, Millis};
use std::collections::{BTreeMap, HashMap};

/// An enrolled device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) credential: Hash,
    pub(crate) enrolled: Millis,
    pub(crate) seen: Millis,
    pub(crate) revoked: bool,
    /// Why it is not asked into rounds any more, if it is quarantined.
    pub(crate) quarantine: Option<String>,
    /// Whether it has used its credential.
    pub(crate) has_called: bool,
    /// Rounds in a row in which it did wrong, and the last of them; not stored.
    offences: u8,
    last_offence: Option<u64>,
    /// Whether it takes part in audiences, as its last check-in said; not stored.
    in_audiences: bool,
}

impl Member {
    /// Whether it can be selected.
    fn is_active(&self) -> bool {
        !self.revoked && self.quarantine.is_none()
    }
}

/// All devices that have enrolled and not withdrawn.
#[derive(Debug, Default)]
pub(crate) struct Members {
    by_number: BTreeMap<u32, Member>,
    by_credential: HashMap<Hash, u32>,
    pub(crate) revoked: usize,
    /// Devices that can be selected.
    active: usize,
    /// Devices whose last check-in is not stored yet.
    unstored: Vec<u32>,
}

/// How precisely the last check-in of a device is stored.
const SEEN_STEP: Millis = 60_000;

impl Members {
    pub(crate) fn add(&mut self, record: &DeviceRecord) {
        let DeviceRecord { number, credential, enrolled, seen, revoked, .. } = *record;
        let quarantine = record.quarantine.clone();
        let has_called = seen > enrolled;
        let member = Member { credential, enrolled, seen, revoked, quarantine, has_called, ..Member::default() };
        self.by_credential.insert(credential, number);
        self.active += usize::from(member.is_active());
        self.revoked += usize::from(revoked);
        self.by_number.insert(number, member);
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
        (member.seen, member.in_audiences, member.has_called) = (now, in_audiences, true);
    }

    /// Devices that checked in since the last call, and when.
    pub(crate) fn take_seen(&mut self) -> Vec<(u32, Millis)> {
        let mut numbers = std::mem::take(&mut self.unstored);
        numbers.sort_unstable();
        numbers.dedup();
        let seen = |number: u32| Some((number, self.by_number.get(&number)?.seen));
        numbers.into_iter().filter_map(seen).collect()
    }

    /// Changes a device, and what is counted of all.
    fn change(&mut self, number: u32, change: impl FnOnce(&mut Member)) {
        if let Some(member) = self.by_number.get_mut(&number) {
            let (active, revoked) = (member.is_active(), member.revoked);
            change(member);
            self.active = self.active + usize::from(member.is_active()) - usize::from(active);
            self.revoked = self.revoked + usize::from(member.revoked) - usize::from(revoked);
        }
    }

    pub(crate) fn revoke(&mut self, number: u32) {
        self.change(number, |member| member.revoked = true);
    }

    /// Quarantines a device; without a reason lifts its quarantine.
    pub(crate) fn quarantine(&mut self, number: u32, reason: Option<String>) {
        self.change(number, |member| {
            (member.quarantine, member.offences, member.last_offence) = (reason, 0, None);
        });
    }

    /// The devices in quarantine, and why; not those that are revoked.
    pub(crate) fn quarantined(&self) -> impl Iterator<Item = (u32, &str)> {
        let why = |member: &'_ Member| !member.revoked && member.quarantine.is_some();
        let those = self.by_number.iter().filter(move |(_, member)| why(member));
        those.filter_map(|(&number, member)| Some((number, member.quarantine.as_deref()?)))
    }

    /// Records that a device did wrong in a round; returns in how many rounds in a row it has, counted once a round.
    pub(crate) fn offend(&mut self, number: u32, round: u64) -> u8 {
        let Some(member) = self.by_number.get_mut(&number) else { return 0 };
        if member.last_offence != Some(round) {
            (member.last_offence, member.offences) = (Some(round), member.offences.saturating_add(1));
        }
        member.offences
    }

    /// Records that a device's part in a round was as it should be.
    pub(crate) fn behaved(&mut self, number: u32, round: u64) {
        if let Some(member) = self.by_number.get_mut(&number).filter(|member| member.last_offence != Some(round)) {
            member.offences = 0;
        }
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(member) = self.by_number.remove(&number) {
            self.by_credential.remove(&member.credential);
            self.revoked -= usize::from(member.revoked);
            self.active -= usize::from(member.is_active());
        }
    }

    /// Devices that can be selected, ascending.
    pub(crate) fn active(&self) -> Vec<u32> {
        self.by_number.iter().filter(|(_, member)| member.is_active()).map(|(&number, _)| number).collect()
    }

    /// Those of them that take part in audiences, ascending.
    pub(crate) fn in_audiences(&self) -> impl Iterator<Item = u32> {
        self.by_number.iter().filter(|(_, member)| member.is_active() && member.in_audiences).map(|(&number, _)| number)
    }

    /// The number of devices that can be selected.
    pub(crate) fn count(&self) -> usize {
        self.active
    }

    /// The number of devices that have enrolled and were not revoked. Quarantine must not bring training to an end.
    pub(crate) fn admitted(&self) -> usize {
        self.by_number.len() - self.revoked
    }

    /// The number of devices that checked in since a time.
    pub(crate) fn seen_since(&self, since: Millis) -> usize {
        self.by_number.values().filter(|member| member.is_active() && member.seen >= since).count()
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
            let quarantine = None;
            members.add(&DeviceRecord { federation, number, credential, enrolled, seen, revoked, quarantine });
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
    fn offences_count_by_round_and_quarantine_takes_out_of_the_draw() {
        let mut members = Members::default();
        for number in 0..3 {
            let (federation, enrolled, seen, revoked, quarantine) = (1, 5, 5, false, None);
            let credential = [number as u8; 32];
            members.add(&DeviceRecord { federation, number, credential, enrolled, seen, revoked, quarantine });
        }
        assert_eq!([members.offend(1, 4), members.offend(1, 4), members.offend(1, 6)], [1, 1, 2]);
        members.behaved(1, 6);
        assert_eq!(members.offend(1, 7), 3);
        members.behaved(1, 9);
        assert_eq!((members.offend(1, 10), members.offend(9, 10)), (1, 0));
        members.quarantine(1, Some("why".to_owned()));
        assert_eq!((members.active(), members.count(), members.admitted()), (vec![0, 2], 2, 3));
        assert_eq!(members.quarantined().collect::<Vec<_>>(), [(1, "why")]);
        members.revoke(1);
        assert_eq!((members.count(), members.revoked, members.quarantined().count()), (2, 1, 0));
        members.quarantine(2, Some("why".to_owned()));
        members.quarantine(2, None);
        members.remove(1);
        assert_eq!((members.active(), members.count(), members.revoked), (vec![0, 2], 2, 0));
    }

    #[test]
    fn check_ins_are_listed_once_a_minute() {
        let mut members = Members::default();
        let (number, credential) = (7, [7; 32]);
        let (revoked, quarantine) = (false, None);
        members.add(&DeviceRecord { federation: 1, number, credential, enrolled: 0, seen: 0, revoked, quarantine });
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
