//! Tokens of operators and for enrolling, in memory.

use crate::storage::{Hash, Millis, Purpose, TokenRecord};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// What an operator may do; each may do what those before may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look.
    Observer,
    /// Create, pause, resume and end federations; let devices in and shut them out.
    Operator,
    /// Make and remove operators' tokens.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 3] = [Role::Observer, Role::Operator, Role::Admin];

    /// By name.
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

/// A token as operators see it: everything but the token.
#[derive(Clone, Debug, Serialize)]
pub struct TokenView {
    /// Its number.
    pub id: u64,
    /// What its maker calls it.
    pub label: String,
    /// When it was made, in milliseconds since 1970.
    pub created: Millis,
    /// From when on it is no longer taken.
    pub expires: Option<Millis>,
    /// The role it gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// How often it may still be used; absent without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses: Option<u64>,
}

impl From<&TokenRecord> for TokenView {
    fn from(record: &TokenRecord) -> Self {
        let (role, uses) = match &record.purpose {
            Purpose::Operator { role } => (Some(role.clone()), None),
            Purpose::Enrolment { uses, .. } => (None, *uses),
        };
        let TokenRecord { id, label, created, expires, .. } = record.clone();
        Self { id, label, created, expires, role, uses }
    }
}

/// All tokens that are taken.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    by_id: BTreeMap<u64, TokenRecord>,
    by_hash: HashMap<Hash, u64>,
    pub(crate) next: u64,
}

impl Tokens {
    pub(crate) fn new(records: Vec<TokenRecord>, next: u64) -> Self {
        let mut tokens = Self { next, ..Self::default() };
        records.into_iter().for_each(|record| tokens.add(record));
        tokens
    }

    pub(crate) fn add(&mut self, record: TokenRecord) {
        self.by_hash.insert(record.hash, record.id);
        self.by_id.insert(record.id, record);
    }

    pub(crate) fn remove(&mut self, id: u64) {
        if let Some(record) = self.by_id.remove(&id) {
            self.by_hash.remove(&record.hash);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &TokenRecord> {
        self.by_id.values()
    }

    pub(crate) fn get(&self, id: u64) -> Option<&TokenRecord> {
        self.by_id.get(&id)
    }

    /// The token of this hash, if it is still taken.
    pub(crate) fn find(&self, hash: &Hash, now: Millis) -> Option<&TokenRecord> {
        let record = self.by_id.get(self.by_hash.get(hash)?)?;
        record.expires.is_none_or(|expires| now < expires).then_some(record)
    }

    /// One use less; says whether there was one.
    pub(crate) fn spend(&mut self, id: u64) -> bool {
        match self.by_id.get_mut(&id).map(|record| &mut record.purpose) {
            Some(Purpose::Enrolment { uses: Some(uses), .. }) => {
                let left = *uses > 0;
                *uses = uses.saturating_sub(1);
                left
            }
            Some(Purpose::Enrolment { uses: None, .. }) => true,
            _ => false,
        }
    }

    /// Gives a use back that came to nothing.
    pub(crate) fn give_back(&mut self, id: u64) {
        if let Some(Purpose::Enrolment { uses: Some(uses), .. }) =
            self.by_id.get_mut(&id).map(|record| &mut record.purpose)
        {
            *uses += 1;
        }
    }

    /// The role of an operator's token.
    pub(crate) fn role(&self, hash: &Hash, now: Millis) -> Option<Role> {
        match &self.find(hash, now)?.purpose {
            Purpose::Operator { role } => Role::named(role),
            Purpose::Enrolment { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_expire_and_are_used_up() {
        let token = |id: u64, purpose, expires| TokenRecord {
            id,
            purpose,
            hash: [id as u8; 32],
            label: String::new(),
            created: 0,
            expires,
        };
        let twice = Purpose::Enrolment { federation: 1, uses: Some(2) };
        let admin = Purpose::Operator { role: "admin".into() };
        let mut tokens = Tokens::new(vec![token(1, twice, Some(100)), token(2, admin, None)], 3);
        assert!(tokens.find(&[1; 32], 99).is_some() && tokens.find(&[1; 32], 100).is_none());
        assert!(tokens.spend(1) && tokens.spend(1) && !tokens.spend(1));
        tokens.give_back(1);
        assert!(tokens.spend(1) && !tokens.spend(2));
        assert_eq!((tokens.role(&[2; 32], 5), tokens.role(&[1; 32], 5)), (Some(Role::Admin), None));
        tokens.remove(2);
        assert_eq!(tokens.role(&[2; 32], 5), None);
        assert!(Role::Admin > Role::Operator && Role::Operator > Role::Observer);
    }
}
