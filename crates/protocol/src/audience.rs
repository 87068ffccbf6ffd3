//! What an owner agrees to about audiences: groups of people that advertisers describe and that each device joins, or
//! does not, by itself.

use std::collections::BTreeSet;

/// Smallest audience size that may be published, unless the owner or the operator says otherwise.
pub const LEAST_PUBLISHED: u32 = 1000;
/// The delta at which a device accounts for what measurements say about its owner.
pub const AUDIENCE_DELTA: f64 = 1e-6;

/// The owner's policy on audiences. A new one takes no part.
#[derive(Clone, Debug, PartialEq)]
pub struct AudiencePolicy {
    /// Whether the owner has agreed to take part.
    pub takes_part: bool,
    /// Servers that publish sizes below this are refused.
    pub least_published: u32,
    /// Most that measurements and reports of a day may say about the owner, as epsilon.
    pub epsilon_per_day: f64,
    /// Longer lists of audiences are refused.
    pub most_audiences: u32,
    /// Rotations of segment ids shorter than this are refused, in seconds; the device reports at most once in this
    /// time.
    pub least_rotation: u32,
    /// Ids of categories that never count, whether the owner has them or not.
    pub excluded: BTreeSet<String>,
    /// Names of audiences that the owner has left.
    pub left: BTreeSet<String>,
}

impl Default for AudiencePolicy {
    fn default() -> Self {
        Self {
            takes_part: false,
            least_published: LEAST_PUBLISHED,
            epsilon_per_day: 4.0,
            most_audiences: 100,
            least_rotation: 86_400,
            excluded: BTreeSet::new(),
            left: BTreeSet::new(),
        }
    }
}

/// Why a device refuses what a server asks about audiences.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum AudienceRefusal {
    /// The owner has not agreed.
    #[error("its owner has not agreed to take part in audiences")]
    NotAgreed,
    /// Sizes of too few people would be published. Fields: from which size on; the owner's bound.
    #[error("sizes from {0} people on would be published, the owner agreed to {1} and more")]
    TooFew(u32, u32),
    /// More would be said about the owner than they agreed to. Fields: this request's epsilon; that of the last day;
    /// the owner's bound.
    #[error("it would spend epsilon {0:.3} on top of {1:.3} in the last day, the owner agreed to {2} a day")]
    Epsilon(f64, f64, f64),
    /// Too many audiences. Fields: how many; the owner's bound.
    #[error("{0} audiences are open, the owner agreed to {1}")]
    TooMany(usize, u32),
    /// Segment ids change too often. Fields: seconds of a rotation; the owner's bound.
    #[error("segment ids change every {0} seconds, the owner agreed to {1} or more")]
    Rotation(u32, u32),
}

impl AudiencePolicy {
    /// That a server publishes no smaller sizes than the owner agreed to.
    ///
    /// # Errors
    /// With the reason why not.
    pub fn check_published(&self, least: u32) -> Result<(), AudienceRefusal> {
        match (self.takes_part, least >= self.least_published) {
            (false, _) => Err(AudienceRefusal::NotAgreed),
            (true, false) => Err(AudienceRefusal::TooFew(least, self.least_published)),
            (true, true) => Ok(()),
        }
    }

    /// That a list of so many audiences, with rotations of so many seconds, is one that the owner agreed to.
    ///
    /// # Errors
    /// With the reason why not.
    pub fn check_list(&self, least: u32, audiences: usize, rotation: u32) -> Result<(), AudienceRefusal> {
        self.check_published(least)?;
        if audiences > self.most_audiences as usize {
            return Err(AudienceRefusal::TooMany(audiences, self.most_audiences));
        }
        if rotation < self.least_rotation {
            return Err(AudienceRefusal::Rotation(rotation, self.least_rotation));
        }
        Ok(())
    }

    /// That `epsilon` may be spent, after so much in the last day. What is not a number may not.
    ///
    /// # Errors
    /// With the reason why not.
    pub fn check_epsilon(&self, epsilon: f64, last_day: f64) -> Result<(), AudienceRefusal> {
        if epsilon >= 0.0 && last_day + epsilon <= self.epsilon_per_day {
            return Ok(());
        }
        Err(AudienceRefusal::Epsilon(epsilon, last_day, self.epsilon_per_day))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_the_owner_did_not_agree_to() {
        let closed = AudiencePolicy::default();
        assert_eq!(closed.check_list(1000, 1, 86_400), Err(AudienceRefusal::NotAgreed));
        let open = AudiencePolicy { takes_part: true, ..closed };
        assert_eq!(open.check_list(1000, 100, 86_400), Ok(()));
        assert_eq!(open.check_list(999, 1, 86_400), Err(AudienceRefusal::TooFew(999, 1000)));
        assert_eq!(open.check_list(1000, 101, 86_400), Err(AudienceRefusal::TooMany(101, 100)));
        assert_eq!(open.check_list(1000, 1, 3600), Err(AudienceRefusal::Rotation(3600, 86_400)));
        assert_eq!(open.check_epsilon(0.5, 3.5), Ok(()));
        for wrong in [0.6, f64::NAN, f64::INFINITY, -1.0] {
            assert!(open.check_epsilon(wrong, 3.5).is_err(), "{wrong}");
        }
    }
}
