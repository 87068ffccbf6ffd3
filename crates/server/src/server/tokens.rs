//! Enrolment tokens and operators' tokens, in memory.

use crate::storage::{Hash, Millis, TokenPurpose, TokenRecord};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// What an operator may do; each role includes those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// See federations and metrics.
    Observer,
    /// Create, pause, resume and finish federations; admit and revoke devices.
    Operator,
    /// Create and remove operators' tokens.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Observer, Role::Operator, Role::Admin];

    /// The role of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.to_string() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Observer => "observer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        })
    }
}

/// All tokens.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    by_id: BTreeMap<u64, TokenRecord>,
    by_hash: HashMap<Hash, u64>,
    pub(super) next: u64,
}

impl Tokens {
    pub(super) fn new(records: Vec<TokenRecord>, next: u64) -> Self {
        let mut tokens = Self { next, ..Self::default() };
        records.into_iter().for_each(|record| tokens.add(record));
        tokens
    }

    pub(super) fn add(&mut self, record: TokenRecord) {
        self.by_hash.insert(record.hash, record.id);
        self.by_id.insert(record.id, record);
    }

    pub(super) fn remove(&mut self, id: u64) {
        if let Some(record) = self.by_id.remove(&id) {
            self.by_hash.remove(&record.hash);
        }
    }

    /// Removes all tokens for a federation.
    pub(super) fn remove_of(&mut self, federation: u64) {
        let is = |record: &&TokenRecord| match record.purpose {
            TokenPurpose::Enrolment { federation: of, .. } | TokenPurpose::Advertiser { federation: of, .. } => {
                of == federation
            }
            TokenPurpose::Operator { .. } => false,
        };
        let those: Vec<u64> = self.by_id.values().filter(is).map(|record| record.id).collect();
        those.into_iter().for_each(|id| self.remove(id));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TokenRecord> {
        self.by_id.values()
    }

    /// The token of this hash, if it has not expired.
    pub(super) fn find(&self, hash: &Hash, now: Millis) -> Option<&TokenRecord> {
        let record = self.by_id.get(self.by_hash.get(hash)?)?;
        record.expires.is_none_or(|expires| now < expires).then_some(record)
    }

    /// Takes one use; returns whether one was left.
    pub(super) fn spend(&mut self, id: u64) -> bool {
        match self.by_id.get_mut(&id).map(|record| &mut record.purpose) {
            Some(TokenPurpose::Enrolment { uses: Some(uses), .. }) => {
                let left = *uses > 0;
                *uses = uses.saturating_sub(1);
                left
            }
            Some(TokenPurpose::Enrolment { uses: None, .. }) => true,
            _ => false,
        }
    }

    /// Returns a use that was not needed.
    pub(super) fn unspend(&mut self, id: u64) {
        if let Some(TokenPurpose::Enrolment { uses: Some(uses), .. }) =
            self.by_id.get_mut(&id).map(|record| &mut record.purpose)
        {
            *uses += 1;
        }
    }

    /// The role that an operator's token gives.
    pub(super) fn role(&self, hash: &Hash, now: Millis) -> Option<Role> {
        match &self.find(hash, now)?.purpose {
            TokenPurpose::Operator { role } => Role::named(role),
            TokenPurpose::Enrolment { .. } | TokenPurpose::Advertiser { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_expire_and_run_out() {
        let token = |id: u64, purpose, expires| TokenRecord {
            id,
            purpose,
            hash: [id as u8; 32],
            label: String::new(),
            created: 0,
            expires,
        };
        let twice = TokenPurpose::Enrolment { federation: 1, uses: Some(2) };
        let admin = TokenPurpose::Operator { role: "admin".into() };
        let mut tokens = Tokens::new(vec![token(1, twice, Some(100)), token(2, admin, None)], 3);
        assert!(tokens.find(&[1; 32], 99).is_some() && tokens.find(&[1; 32], 100).is_none());
        assert!(tokens.spend(1) && tokens.spend(1) && !tokens.spend(1));
        tokens.unspend(1);
        assert!(tokens.spend(1) && !tokens.spend(2));
        assert_eq!((tokens.role(&[2; 32], 5), tokens.role(&[1; 32], 5)), (Some(Role::Admin), None));
        tokens.remove(2);
        assert_eq!(tokens.role(&[2; 32], 5), None);
        assert!(Role::Admin > Role::Operator && Role::Operator > Role::Observer);
    }
}
