//! A device's durable state, stored as one block.

use crate::account::Account;
use crate::audiences::AudienceState;
use crate::bounds::Bounds;
use crate::history::History;
use crate::protection::Protection;
use crate::reading::{self, ReadPage};
use crate::upload_credential::UploadCredential;
use sottovoce_client::bytes::{Read, Reader, Writer};
use sottovoce_client::{InRound, Sealing, Secret, Seeds};
use sottovoce_privacy::secagg::Roster;
use sottovoce_protocol::{
    AudiencePolicy, DisclosureMode, FederationId, Ledger, ModelSpec, Participation, Policy, Reportable, RoundId,
    SealedDisclosure, Settings,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Version of the stored format. A later version appends fields to an earlier one:
///
/// - 2: sealed rounds and the federation's key
/// - 3: tokens of anonymous uploads
/// - 4: refused layers, upload retention and rosters
/// - 5: fixed disclosure and its private model
/// - 6: the secret that decides which items are disclosed
/// - 7: audiences
/// - 8: pages read last
/// - 9: the federation's protection, the device's own account
/// - 10: disclosure in sealed rounds, agreement to open ones
/// - 11: a private model fitted outside rounds
const VERSION: u8 = 11;

/// A device's membership in its federation.
#[derive(Clone, PartialEq, Eq)]
pub enum Membership {
    /// Not enrolled yet.
    Enrolling {
        /// The operator's token.
        token: String,
    },
    /// Enrolled.
    Enrolled {
        /// Its number in the federation.
        device: u64,
        /// Its credential.
        credential: String,
    },
    /// The owner has withdrawn; the server does not know yet.
    Withdrawing {
        /// Its credential, for the last request.
        credential: String,
    },
    /// The server has forgotten this device.
    Withdrawn,
}

/// Without tokens and credentials.
impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Enrolling { .. } => f.write_str("Enrolling { .. }"),
            Self::Enrolled { device, .. } => f.debug_struct("Enrolled").field("device", device).finish_non_exhaustive(),
            Self::Withdrawing { .. } => f.write_str("Withdrawing { .. }"),
            Self::Withdrawn => f.write_str("Withdrawn"),
        }
    }
}

/// An update that was not acknowledged yet; it may have left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) round: RoundId,
    pub(crate) bytes: Arc<[u8]>,
    /// For an anonymous upload.
    pub(crate) upload_credential: Option<UploadCredential>,
}

/// A private model, with the settings it was trained with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PrivateModel {
    pub(crate) model: ModelSpec,
    pub(crate) values: Vec<f32>,
}

/// A private model that was fitted outside rounds, to recommend with. No update depends on it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fitted {
    pub(crate) private: PrivateModel,
    /// Digest of the shared model that it was fitted to.
    pub(crate) digest: [u8; 32],
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    /// The server's address and certificate authority, for the embedder.
    pub(crate) server: String,
    pub(crate) ca: String,
    /// The federation's name.
    pub(crate) name: String,
    pub(crate) membership: Membership,
    pub(crate) secret: Secret,
    /// Decides which items are disclosed: the secret of the first enrolment. Otherwise a server could revoke a device
    /// until, after enough enrolments, it has disclosed everything.
    pub(crate) disclosure_secret: Secret,
    pub(crate) seeds: Seeds,
    /// The federation's number, once the server has named it.
    pub(crate) federation: Option<FederationId>,
    /// Without hidden items, which are stored by id.
    pub(crate) policy: Policy,
    /// Ids of hidden items.
    pub(crate) hidden: BTreeSet<String>,
    pub(crate) ledger: Ledger,
    pub(crate) history: Arc<History>,
    /// Pages that the owner read last, oldest first.
    pub(crate) pages: Arc<Vec<ReadPage>>,
    pub(crate) private: Option<PrivateModel>,
    /// Private model trained only on the disclosed items.
    pub(crate) disclosed: Option<PrivateModel>,
    /// The largest pi that it was trained with: rounds with a smaller one begin it anew.
    pub(crate) disclosed_pi: f64,
    pub(crate) fitted: Option<Fitted>,
    /// The last round for which an update was made.
    pub(crate) last_round: Option<RoundId>,
    pub(crate) pending: Option<Pending>,
    /// A sealed round under way.
    pub(crate) sealing: Option<Sealing>,
    /// The key that devices of the federation share; the server does not have it.
    pub(crate) key: Option<[u8; 32]>,
    /// Whether the server's last terms say that it retains uploads.
    pub(crate) uploads_are_retained: bool,
    /// Identities that the owner trusts.
    pub(crate) roster: Option<Arc<Roster>>,
    pub(crate) audiences: AudienceState,
    pub(crate) protection: Protection,
    /// Of differential privacy against the server.
    pub(crate) account: Account,
}

impl State {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(4096));
        out.byte(VERSION);
        for text in [&self.server, &self.ca, &self.name] {
            out.block(text.as_bytes());
        }
        write_membership(&self.membership, &mut out);
        out.0.extend_from_slice(self.secret.bytes());
        write_seeds(&self.seeds, &mut out);
        out.optional(self.federation, |out, federation| out.number(federation.0));
        write_policy(&self.policy, &mut out);
        out.texts(self.hidden.iter().map(String::as_str));
        let mut ledger = Vec::new();
        self.ledger.encode(&mut ledger);
        out.block(&ledger);
        self.history.write(&mut out);
        out.optional(self.private.as_ref(), write_private);
        out.optional(self.last_round, |out, round| out.number(round.0));
        out.optional(self.pending.as_ref(), |out, pending| {
            out.number(pending.round.0);
            out.block(&pending.bytes);
        });
        out.optional(self.sealing.as_ref(), |out, sealing| sealing.write(out));
        out.optional(self.key.as_ref(), |out, key| out.0.extend_from_slice(key));
        let credential = self.pending.as_ref().and_then(|pending| pending.upload_credential.as_ref());
        out.optional(credential, |out, credential| credential.write(out));
        out.texts(self.policy.refused_layers.iter().map(String::as_str));
        out.byte(self.uploads_are_retained.into());
        out.optional(self.roster.as_deref(), write_roster);
        out.byte((self.policy.disclosure == DisclosureMode::Fixed).into());
        out.optional(self.disclosed.as_ref(), write_private);
        out.0.extend_from_slice(self.disclosure_secret.bytes());
        write_audience_policy(&self.policy.audiences, &mut out);
        self.audiences.write(&mut out);
        reading::write(&self.pages, &mut out);
        self.protection.write(&mut out);
        self.account.write(&mut out);
        out.optional(self.policy.sealed, |out, sealed| {
            out.number(sealed.pi().to_bits());
            out.number(sealed.least.into());
        });
        out.number(self.disclosed_pi.to_bits());
        out.optional(self.fitted.as_ref(), |out, fitted| {
            write_private(out, &fitted.private);
            out.0.extend_from_slice(&fitted.digest);
        });
        out.0
    }

    /// Decodes what [`encode`](Self::encode) wrote; an error names the field.
    pub(crate) fn decode(bytes: &[u8], bounds: &Bounds) -> Result<Self, String> {
        let mut from = Reader(bytes);
        match from.byte("version").map_err(|field| format!("the stored state ends at its {field}"))? {
            version @ 1..=VERSION => {
                Self::read(&mut from, version, bounds).map_err(|field| format!("the stored state's {field} is wrong"))
            }
            found => Err(format!("the stored state has version {found}, this build reads {VERSION}")),
        }
    }

    fn read(from: &mut Reader<'_>, version: u8, bounds: &Bounds) -> Read<Self> {
        // Field initialisers are evaluated in this order, which is that of the format.
        let mut state = Self {
            server: from.text("server")?.to_owned(),
            ca: from.text("certificate")?.to_owned(),
            name: from.text("federation's name")?.to_owned(),
            membership: read_membership(from)?,
            secret: Secret::new(from.array("secret")?),
            disclosure_secret: Secret::new([0; 32]),
            seeds: from
                .optional("seeds", |from| Ok((from.number("seed")?, from.number("user")?)))?
                .map_or(Seeds::Own, |(seed, user)| Seeds::Simulated { seed, user }),
            federation: from.optional("federation", |from| Ok(FederationId(from.number("federation")?)))?,
            policy: read_policy(from)?,
            hidden: names(from, "hidden items")?,
            ledger: read_ledger(from.block("ledger")?, bounds)?,
            history: Arc::new(History::read(from)?),
            pages: Arc::default(),
            private: from.optional("private model", read_private)?,
            disclosed: None,
            disclosed_pi: 0.0,
            fitted: None,
            last_round: from.optional("last round", |from| Ok(RoundId(from.number("last round")?)))?,
            pending: from.optional("update", |from| {
                let round = RoundId(from.number("update's round")?);
                Ok(Pending { round, bytes: from.block("update")?.into(), upload_credential: None })
            })?,
            sealing: None,
            key: None,
            uploads_are_retained: false,
            roster: None,
            audiences: AudienceState::default(),
            protection: Protection::default(),
            account: Account::default(),
        };
        // Owners who chose per-round disclosure before there was another mode keep it.
        state.policy.disclosure = DisclosureMode::PerRound;
        if version >= 2 {
            state.sealing = from.optional("sealed update", Sealing::read)?;
            state.key = from.optional("federation's key", |from| from.array("federation's key"))?;
        }
        if version >= 3
            && let Some(credential) = from.optional("token", UploadCredential::read)?
        {
            state.pending.as_mut().ok_or("token")?.upload_credential = Some(credential);
        }
        if version >= 4 {
            state.policy.refused_layers = names(from, "refused layers")?;
            state.uploads_are_retained = from.flag("upload retention")?;
            state.roster = from.optional("roster", read_roster)?.map(Arc::new);
        }
        if version >= 5 {
            if from.flag("disclosure mode")? {
                state.policy.disclosure = DisclosureMode::Fixed;
            }
            state.disclosed = from.optional("model of disclosed items", read_private)?;
        }
        state.disclosure_secret = match version {
            6.. => Secret::new(from.array("disclosure secret")?),
            _ => state.secret.clone(),
        };
        if version >= 7 {
            state.policy.audiences = read_audience_policy(from)?;
            state.audiences = AudienceState::read(from)?;
        }
        if version >= 8 {
            state.pages = Arc::new(reading::read(from)?);
        }
        if version >= 9 {
            state.protection = Protection::read(from)?;
            state.account = Account::read(from)?;
        }
        if version >= 10 {
            state.policy.sealed = from.optional("pi of sealed rounds", read_sealed_disclosure)?;
            state.disclosed_pi = f64::from_bits(from.number("pi of disclosed items")?);
        } else {
            state.disclosed_pi = state.policy.pi();
            // Owners who were in open rounds before they were asked for their word go on as they are.
            state.protection.accept_open_if_kept(state.last_round.is_some());
        }
        if version >= 11 {
            state.fitted = from.optional("fitted model", |from| {
                Ok(Fitted { private: read_private(from)?, digest: from.array("fitted model's digest")? })
            })?;
        }
        from.end("end")?;
        Ok(state)
    }

    /// The device's random numbers in a round; `fresh` matters to masks and noise only.
    pub(crate) fn randomness<'a>(&'a self, model: &'a str, round: RoundId, fresh: [u8; 32]) -> InRound<'a> {
        self.seeds.in_round((&self.secret, &self.disclosure_secret), model, round, fresh)
    }
}

fn names(from: &mut Reader<'_>, field: &'static str) -> Read<BTreeSet<String>> {
    Ok(from.texts::<Vec<_>>(field)?.into_iter().map(str::to_owned).collect())
}

pub(crate) fn new_ledger(bounds: &Bounds) -> Ledger {
    bounds.ledger_bytes.map_or_else(Ledger::totals_only, Ledger::bounded)
}

fn read_ledger(bytes: &[u8], bounds: &Bounds) -> Read<Ledger> {
    if bytes.is_empty() {
        return Ok(new_ledger(bounds));
    }
    let ledger = Ledger::decode(bytes).map_err(|_| "ledger")?;
    // A ledger with entries keeps them, whatever the bounds say: they are the owner's.
    Ok(ledger.bound_to(bounds.ledger_bytes.unwrap_or(Bounds::default().ledger_bytes.unwrap_or(0))))
}

fn write_membership(membership: &Membership, out: &mut Writer) {
    let (code, device, text) = match membership {
        Membership::Enrolling { token } => (0, 0, token.as_str()),
        Membership::Enrolled { device, credential } => (1, *device, credential.as_str()),
        Membership::Withdrawing { credential } => (2, 0, credential.as_str()),
        Membership::Withdrawn => (3, 0, ""),
    };
    out.byte(code);
    out.number(device);
    out.block(text.as_bytes());
}

fn read_membership(from: &mut Reader<'_>) -> Read<Membership> {
    let code = from.byte("membership")?;
    let device = from.number("device's number")?;
    let text = from.text("credential")?.to_owned();
    Ok(match code {
        0 => Membership::Enrolling { token: text },
        1 => Membership::Enrolled { device, credential: text },
        2 => Membership::Withdrawing { credential: text },
        3 => Membership::Withdrawn,
        _ => return Err("membership"),
    })
}

fn write_seeds(seeds: &Seeds, out: &mut Writer) {
    let simulated = match seeds {
        Seeds::Own => None,
        Seeds::Simulated { seed, user } => Some((*seed, *user)),
    };
    out.optional(simulated, |out, (seed, user)| {
        out.number(seed);
        out.number(user);
    });
}

fn write_policy(policy: &Policy, out: &mut Writer) {
    out.number(policy.pi().to_bits());
    out.byte(match policy.participation() {
        Participation::Active => 0,
        Participation::Paused => 1,
        Participation::Withdrawn => 2,
    });
    out.byte(policy.samples.into());
    match &policy.criteria {
        Reportable::All => out.byte(0),
        Reportable::Only(names) => {
            out.byte(1);
            out.texts(names.iter().map(String::as_str));
        }
    }
    out.number(policy.least_cohort.into());
    out.texts(policy.required_layers.iter().map(String::as_str));
}

fn read_policy(from: &mut Reader<'_>) -> Read<Policy> {
    let mut policy = Policy::new(f64::from_bits(from.number("pi")?)).map_err(|_| "pi")?;
    match from.byte("participation")? {
        0 => (),
        1 => policy.pause().map_err(|_| "participation")?,
        2 => policy.withdraw(),
        _ => return Err("participation"),
    }
    policy.samples = from.flag("policy on samples")?;
    policy.criteria = match from.flag("policy on criteria")? {
        false => Reportable::All,
        true => Reportable::Only(names(from, "policy on criteria")?),
    };
    policy.least_cohort = u32::try_from(from.number("least cohort")?).map_err(|_| "least cohort")?;
    policy.required_layers = names(from, "required layers")?;
    Ok(policy)
}

fn read_sealed_disclosure(from: &mut Reader<'_>) -> Read<SealedDisclosure> {
    const FIELD: &str = "pi of sealed rounds";
    let (pi, least) = (f64::from_bits(from.number(FIELD)?), from.number(FIELD)?);
    SealedDisclosure::new(pi, u32::try_from(least).map_err(|_| FIELD)?).map_err(|_| FIELD)
}

fn write_audience_policy(policy: &AudiencePolicy, out: &mut Writer) {
    out.byte(policy.takes_part.into());
    for number in [policy.least_published, policy.most_audiences, policy.least_rotation] {
        out.number(number.into());
    }
    out.number(policy.epsilon_per_day.to_bits());
    out.texts(policy.excluded.iter().map(String::as_str));
    out.texts(policy.left.iter().map(String::as_str));
}

fn read_audience_policy(from: &mut Reader<'_>) -> Read<AudiencePolicy> {
    const FIELD: &str = "policy on audiences";
    let takes_part = from.flag(FIELD)?;
    let mut number = || u32::try_from(from.number(FIELD)?).map_err(|_| FIELD);
    let (least_published, most_audiences, least_rotation) = (number()?, number()?, number()?);
    let epsilon_per_day = f64::from_bits(from.number(FIELD)?);
    let (excluded, left) = (names(from, FIELD)?, names(from, FIELD)?);
    Ok(AudiencePolicy { takes_part, least_published, epsilon_per_day, most_audiences, least_rotation, excluded, left })
}

fn write_roster(out: &mut Writer, roster: &Roster) {
    out.number(roster.len() as u64);
    roster.iter().for_each(|identity| out.0.extend_from_slice(identity));
}

fn read_roster(from: &mut Reader<'_>) -> Read<Roster> {
    let count = from.count("roster")?;
    (0..count).map(|_| from.array("roster")).collect()
}

fn write_private(out: &mut Writer, private: &PrivateModel) {
    out.block(private.model.name.as_bytes());
    out.number(private.model.settings.len() as u64);
    for (key, value) in &private.model.settings {
        out.block(key.as_bytes());
        out.block(value.as_bytes());
    }
    out.number(private.values.len() as u64);
    private.values.iter().for_each(|value| out.0.extend_from_slice(&value.to_le_bytes()));
}

fn read_private(from: &mut Reader<'_>) -> Read<PrivateModel> {
    let name = from.text("model's name")?.to_owned();
    let mut settings = Settings::new();
    for _ in 0..from.count("model's settings")? {
        let key = from.text("model's settings")?.to_owned();
        settings.insert(key, from.text("model's settings")?.to_owned());
    }
    let count = from.count("private model")?;
    let value = |_| Ok(f32::from_le_bytes(from.array("private model")?));
    let values = (0..count).map(value).collect::<Read<Vec<f32>>>()?;
    Ok(PrivateModel { model: ModelSpec { name, settings }, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, proptest};
    use sottovoce_privacy::OPEN;

    fn state() -> State {
        let mut policy = Policy::new(0.3).unwrap();
        policy.pause().unwrap();
        policy.criteria = Reportable::Only(["auc".to_owned()].into());
        policy.least_cohort = 20;
        policy.sealed = Some(SealedDisclosure::new(0.75, 30).unwrap());
        policy.required_layers.insert("secagg".to_owned());
        policy.refused_layers.insert("kept-uploads".to_owned());
        policy.audiences = AudiencePolicy {
            takes_part: true,
            excluded: ["health".to_owned()].into(),
            left: ["ski fans".to_owned()].into(),
            ..AudiencePolicy::default()
        };
        let mut model = ModelSpec { name: "fpl".to_owned(), ..ModelSpec::default() };
        let terms = sottovoce_privacy::secagg::Config::new(FederationId(3), RoundId(9), 5, 3);
        model.settings.insert("factors".to_owned(), "2".to_owned());
        State {
            server: "https://example.org".to_owned(),
            ca: String::new(),
            name: "films".to_owned(),
            membership: Membership::Enrolled { device: 17, credential: "svd_1".to_owned() },
            secret: Secret::new([7; 32]),
            disclosure_secret: Secret::new([8; 32]),
            seeds: Seeds::Simulated { seed: 1, user: 2 },
            federation: Some(FederationId(3)),
            policy,
            hidden: ["x".to_owned()].into(),
            ledger: new_ledger(&Bounds::default()),
            history: Arc::new(History::from_ids(["a", "b"])),
            pages: Arc::new(vec![ReadPage { title: "A title".to_owned(), categories: vec!["a".to_owned()] }]),
            private: Some(PrivateModel { model: model.clone(), values: vec![0.1, -2.5e-30] }),
            disclosed: Some(PrivateModel { model, values: vec![0.5] }),
            disclosed_pi: 0.75,
            last_round: Some(RoundId(9)),
            pending: Some(Pending {
                round: RoundId(9),
                bytes: vec![1, 2, 3].into(),
                upload_credential: Some(UploadCredential::new(
                    FederationId(3),
                    crate::upload_credential::tests::issuer(9).key(),
                )),
            }),
            sealing: Some(Sealing::secure_aggregation(terms, (3, [8; 32]), None, vec![1, u32::MAX, 7]).unwrap()),
            key: Some([9; 32]),
            uploads_are_retained: true,
            roster: Some(Arc::new([[1; 32], [2; 32]].into())),
            audiences: crate::audiences::tests::state(),
            protection: crate::protection::tests::protection(),
            account: crate::account::tests::account(),
            fitted: Some(Fitted {
                private: PrivateModel { model: ModelSpec::default(), values: vec![0.5, -1.0] },
                digest: [6; 32],
            }),
        }
    }

    #[test]
    fn reads_earlier_versions() {
        let pending = Some(Pending { round: RoundId(9), bytes: vec![1, 2, 3].into(), upload_credential: None });
        let mut state = State {
            sealing: None,
            key: None,
            uploads_are_retained: false,
            pending,
            roster: None,
            disclosed: None,
            disclosed_pi: 0.3,
            disclosure_secret: Secret::new([7; 32]),
            audiences: AudienceState::default(),
            pages: Arc::default(),
            protection: Protection::default(),
            account: Account::default(),
            fitted: None,
            ..state()
        };
        state.policy.sealed = None;
        state.protection.accepted.insert(OPEN.to_owned());
        state.policy.refused_layers.clear();
        state.policy.disclosure = DisclosureMode::PerRound;
        state.policy.audiences = AudiencePolicy::default();
        let mut older = state.encode();
        assert_eq!(older.pop(), Some(0));
        older[0] = 10;
        assert_eq!(State::decode(&older, &Bounds::default()).unwrap(), state);
        assert_eq!(older.split_off(older.len() - 9), [&[0][..], &0.3f64.to_bits().to_le_bytes()].concat());
        older[0] = 9;
        assert_eq!(State::decode(&older, &Bounds::default()).unwrap(), state);
        let mut about_protection = Writer::default();
        state.protection.write(&mut about_protection);
        state.account.write(&mut about_protection);
        assert_eq!(older.split_off(older.len() - about_protection.0.len()), about_protection.0);
        older[0] = 8;
        assert_eq!(State::decode(&older, &Bounds::default()).unwrap(), state);
        assert_eq!(older.split_off(older.len() - 8), [0; 8]);
        older[0] = 7;
        assert_eq!(State::decode(&older, &Bounds::default()).unwrap(), state);
        let mut about_audiences = Writer::default();
        write_audience_policy(&state.policy.audiences, &mut about_audiences);
        state.audiences.write(&mut about_audiences);
        assert_eq!(older.split_off(older.len() - about_audiences.0.len()), about_audiences.0);
        older[0] = 6;
        assert_eq!(State::decode(&older, &Bounds::default()).unwrap(), state);
        assert_eq!(older.split_off(older.len() - 32), [7; 32]);
        older[0] = 5;
        assert_eq!(State::decode(&older, &Bounds::default()).unwrap(), state);
        assert_eq!((older.pop(), older.pop()), (Some(0), Some(0)));
        older[0] = 4;
        assert_eq!(State::decode(&older, &Bounds::default()).unwrap(), state);
        assert_eq!(older.split_off(older.len() - 10), [0; 10]);
        older[0] = 3;
        assert_eq!(State::decode(&older, &Bounds::default()).unwrap(), state);
        assert_eq!(older.pop(), Some(0));
        older[0] = 2;
        assert_eq!(State::decode(&older, &Bounds::default()).unwrap(), state);
        assert_eq!((older.pop(), older.pop()), (Some(0), Some(0)));
        older[0] = 1;
        assert_eq!(State::decode(&older, &Bounds::default()).unwrap(), state);
    }

    #[test]
    fn encoding_round_trips_and_newer_versions_are_rejected() {
        let bounds = Bounds::default();
        for membership in [
            Membership::Enrolling { token: "t".to_owned() },
            Membership::Enrolled { device: 1, credential: "c".to_owned() },
            Membership::Withdrawing { credential: "c".to_owned() },
            Membership::Withdrawn,
        ] {
            let state = State { membership, ..state() };
            assert_eq!(State::decode(&state.encode(), &bounds).unwrap(), state);
        }
        let newer = [&[12], &state().encode()[1..]].concat();
        assert_eq!(State::decode(&newer, &bounds).unwrap_err(), "the stored state has version 12, this build reads 11");
    }

    proptest! {
        #[test]
        fn damaged_states_never_panic(at in 0usize..400, to in any::<u8>()) {
            let bounds = Bounds::default();
            let mut bytes = state().encode();
            let at = at % bytes.len();
            prop_assert!(State::decode(&bytes[..at], &bounds).is_err());
            bytes[at] = to;
            let _ = State::decode(&bytes, &bounds);
        }
    }
}
