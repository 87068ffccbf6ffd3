//! Rounds whose uploads do not say whose they are: each device of the cohort gets one token by its credential, and uploads
//! with the token and without the credential.
//!
//! Two things are remembered, and nothing leads from the one to the other: which devices have had their token, and which tokens
//! were spent, each with its update. The round counts how many came, not who.

use super::intake::told;
use super::round::{Known, No, Round, repeated};
use super::{Federation, Refused, Taken};
use crate::clerk::Clerk;
use crate::secret;
use crate::storage::{AnonymousReceipt, Change, Hash, Millis, OpenRound};
use bytes::Bytes;
use sottovoce_federation::FederationError;
use sottovoce_privacy::tokens::{BlindedElement, Issuer, Scope, Token};
use sottovoce_privacy::{SecureRng, anonymous_layer};
use sottovoce_protocol::{FederationId, RoundId, RoundTerms};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a round remembers of its tokens.
pub(crate) struct Tokens {
    issuer: Arc<Issuer>,
    /// What each device asked with, and whether that is written down.
    given: BTreeMap<u32, (Hash, bool)>,
    /// Spent tokens; `None` while the update that came with one is being written down.
    spent: BTreeMap<Hash, Option<Known>>,
}

/// What is to be done for a device that asks for its token.
enum Asked {
    /// Nothing but to answer again: it has it.
    Has,
    /// To write down that it gets it.
    Gets,
}

impl Tokens {
    /// None given yet.
    pub(crate) fn new(issuer: Issuer) -> Self {
        Self { issuer: Arc::new(issuer), given: BTreeMap::new(), spent: BTreeMap::new() }
    }

    /// As it was written down.
    pub(crate) fn remembering(issuer: Issuer, found: &OpenRound) -> Self {
        let known = |of: &AnonymousReceipt| Known { key: of.key.clone(), digest: of.digest };
        Self {
            given: found.issued.iter().map(|&(device, blinded)| (device, (blinded, true))).collect(),
            spent: found.anonymous.iter().map(|each| (each.nullifier, Some(known(each)))).collect(),
            ..Self::new(issuer)
        }
    }

    fn ask(&mut self, device: u32, blinded: Hash) -> Result<Asked, Refused> {
        match self.given.get(&device) {
            Some((before, _)) if *before != blinded => Err(Refused::TokenTaken),
            Some((_, true)) => Ok(Asked::Has),
            Some((_, false)) => Err(Refused::Busy),
            None => {
                self.given.insert(device, (blinded, false));
                Ok(Asked::Gets)
            }
        }
    }

    /// Whether a token is spent, and with this very update.
    fn look(&self, nullifier: &Hash, known: &Known) -> Result<(), No> {
        match self.spent.get(nullifier) {
            Some(Some(stored)) => Err(repeated(stored, known)),
            Some(None) => Err(No::InProgress),
            None => Ok(()),
        }
    }

    /// What is known of uploads, for repetitions that come when the round is over.
    pub(crate) fn into_known(self) -> BTreeMap<Hash, Known> {
        self.spent.into_iter().filter_map(|(nullifier, known)| Some((nullifier, known?))).collect()
    }
}

/// The maker of a round's tokens; always the same one, and of no use in another round.
pub(crate) fn issuer(server: &Hash, federation: u64, round: u64) -> Issuer {
    let mut hasher = blake3::Hasher::new_keyed(server);
    hasher.update(b"tokens");
    let scope = Scope { federation: FederationId(federation), round: RoundId(round) };
    Issuer::new(*hasher.finalize().as_bytes(), scope)
}

/// A round's terms with the layer that names the key of its tokens.
pub(crate) fn with_key(terms: RoundTerms, issuer: &Issuer) -> Result<RoundTerms, FederationError> {
    let mut terms = terms.into_draft();
    terms.privacy.layers.push(anonymous_layer(&issuer.key()));
    Ok(RoundTerms::freeze(terms)?)
}

impl Federation {
    /// Runs something with a round under way that has tokens; refused if there is none.
    fn with_tokens<T>(
        &self,
        round: u64,
        work: impl FnOnce(&mut Round) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        if !self.anonymous {
            return Err(Refused::OtherWay);
        }
        let mut state = self.state();
        let next = state.next_round;
        match state.round.as_mut().filter(|under_way| under_way.opening.round == round) {
            Some(under_way) => work(under_way),
            None if round >= next => {
                Err(Refused::WrongRound(format!("round {round} has not begun; check in")))
            }
            None => Err(Refused::RoundClosed),
        }
    }

    /// Gives a device its token of a round, once; with the same bytes again, the same one. Not to be dropped before it is done.
    ///
    /// # Errors
    /// If it was not asked into the round, has had another token, or is shut out.
    pub async fn give_token(
        &self,
        clerk: &Clerk,
        (device, round): (u32, u64),
        bytes: &[u8],
        now: Millis,
    ) -> Result<Vec<u8>, Refused> {
        let blinded = BlindedElement::from_bytes(bytes).map_err(|error| Refused::Malformed(error.to_string()))?;
        let bytes = blinded.to_bytes();
        let (asked, issuer) = self.with_tokens(round, |under_way| {
            under_way.may_have_token(device, now).map_err(refused)?;
            let tokens = under_way.tokens.as_mut().ok_or(Refused::OtherWay)?;
            Ok((tokens.ask(device, bytes)?, Arc::clone(&tokens.issuer)))
        })?;
        if let Asked::Gets = asked {
            let issue = Change::Issue { federation: self.id, round, device, blinded: bytes };
            let written = clerk.write(vec![issue]).await;
            self.with_tokens(round, |under_way| {
                let tokens = under_way.tokens.as_mut().ok_or(Refused::OtherWay)?;
                match &written {
                    Ok(()) => tokens.given.insert(device, (bytes, true)),
                    Err(_) => tokens.given.remove(&device),
                };
                written.map_err(Refused::from)?;
                // Who was shut out in the meantime gets none.
                under_way.token_given(device).map_err(refused)
            })?;
        }
        let seed = secret::random().map_err(|_| Refused::Busy)?;
        Ok(issuer.evaluate(&blinded, &mut SecureRng::new(seed)).to_bytes().to_vec())
    }

    /// Whether a token is one of this round; says nothing of whether it was spent.
    ///
    /// # Errors
    /// If it is not, or the round is too long over to know.
    pub fn check_token(&self, round: u64, token: &Token) -> Result<(), Refused> {
        let under_way = self.with_tokens(round, |under_way| {
            under_way.tokens.as_ref().map(|tokens| Arc::clone(&tokens.issuer)).ok_or(Refused::OtherWay)
        });
        let issuer = match under_way {
            Err(Refused::RoundClosed) if self.state().past_anonymous.contains_key(&round) => {
                Arc::new(issuer(&self.secret, self.id, round))
            }
            under_way => under_way?,
        };
        issuer.check(token).map_err(|error| Refused::BadToken(error.to_string()))
    }

    /// Takes an update in that came with a token, which [`check_token`](Self::check_token) has seen. Not to be dropped before it
    /// is done.
    ///
    /// # Errors
    /// If it is refused; then nothing has changed, and the token can still be spent.
    pub async fn take_anonymous(
        &self,
        clerk: &Clerk,
        round: u64,
        token: &Token,
        key: &str,
        bytes: Bytes,
        now: Millis,
    ) -> Result<Taken, Refused> {
        self.check_token(round, token)?;
        let nullifier = token.nullifier();
        let known = Known { key: key.to_owned(), digest: *blake3::hash(&bytes).as_bytes() };
        let Some(terms) = self.expects_anonymous(round, &nullifier, &known, now)? else {
            return Ok(Taken::Repeated);
        };
        let looked_at = self.look_at(&bytes, &terms);
        if let Err(refused) = looked_at.and_then(|()| self.spend(round, nullifier, &known, now)) {
            let Some(refused) = refused else { return Ok(Taken::Repeated) };
            if refused != Refused::Busy {
                self.count_refused(round);
            }
            return Err(refused);
        }
        self.store_anonymous(clerk, round, nullifier, known, bytes).await
    }

    /// The round's terms; `None` if this token was spent with this very update.
    fn expects_anonymous(
        &self,
        round: u64,
        nullifier: &Hash,
        known: &Known,
        now: Millis,
    ) -> Result<Option<Arc<RoundTerms>>, Refused> {
        let found = self.with_tokens(round, |under_way| {
            let tokens = under_way.tokens.as_ref().ok_or(Refused::OtherWay)?;
            let looked = tokens.look(nullifier, known);
            let no = looked.and_then(|()| if under_way.is_over(now) { Err(No::Over) } else { Ok(()) });
            match no {
                Ok(()) => Ok(Some(Arc::clone(&under_way.terms))),
                Err(no) => {
                    under_way.refused += u32::from(no != No::Repeated);
                    told(no).map(|()| None)
                }
            }
        });
        if found != Err(Refused::RoundClosed) {
            return found;
        }
        match self.state().past_anonymous.get(&round).and_then(|past| past.get(nullifier)) {
            Some(stored) => told(repeated(stored, known)).map(|()| None),
            None => Err(Refused::RoundClosed),
        }
    }

    /// Keeps the update's place; `Err(None)` if the same was stored in the meantime.
    fn spend(&self, round: u64, nullifier: Hash, known: &Known, now: Millis) -> Result<(), Option<Refused>> {
        let spent = self.with_tokens(round, |under_way| {
            let over = under_way.is_over(now);
            let tokens = under_way.tokens.as_mut().ok_or(Refused::OtherWay)?;
            let looked = tokens.look(&nullifier, known);
            if let Err(no) = looked.and(if over { Err(No::Over) } else { Ok(()) }) {
                return Ok(Some(no));
            }
            tokens.spent.insert(nullifier, None);
            under_way.expect_one();
            Ok(None)
        });
        match spent {
            Ok(None) => Ok(()),
            Ok(Some(no)) => Err(told(no).err()),
            Err(refused) => Err(Some(refused)),
        }
    }

    async fn store_anonymous(
        &self,
        clerk: &Clerk,
        round: u64,
        nullifier: Hash,
        known: Known,
        bytes: Bytes,
    ) -> Result<Taken, Refused> {
        let size = bytes.len() as u64;
        let receipt =
            AnonymousReceipt { nullifier, key: known.key.clone(), digest: known.digest, bytes: size };
        let upload = Change::UploadAnonymous { federation: self.id, round, receipt, bytes };
        let written = clerk.write(vec![upload]).await;
        // The round waits for what is pending, so it is there.
        let _kept = self.with_tokens(round, |under_way| {
            let tokens = under_way.tokens.as_mut().ok_or(Refused::OtherWay)?;
            match &written {
                Ok(()) => {
                    tokens.spent.insert(nullifier, Some(known));
                    under_way.one_came(Some(size), crate::now());
                }
                Err(_) => {
                    tokens.spent.remove(&nullifier);
                    under_way.one_came(None, crate::now());
                }
            }
            Ok(())
        });
        self.wake.notify_one();
        written.map(|()| Taken::Stored).map_err(Refused::from)
    }
}

fn refused(no: No) -> Refused {
    told(no).err().unwrap_or(Refused::Duplicate)
}
