//! Sealed rounds with a keeper: devices upload once, and when the round closes the keeper is asked for the sum of their
//! masks, for as long as it takes.
//!
//! The request follows from what is stored: after a restart it is the same, and the keeper answers the same.

use super::Federation;
use super::config::{ConfigError, require};
use super::quarantine::Offences;
use super::round::Round;
use super::uploads::{Result, UploadError};
use crate::error::ServerError;
use crate::storage::{Change, Hash, Millis, SealMessage, Sender, StorageError};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sottovoce_federation::KeeperKeys;
use sottovoce_privacy::keeper::{self, Answer, Config, Entry, Fault, Opening, RejectedUpload, Upload, opener, unmask};
use sottovoce_privacy::secagg::Message as _;
use sottovoce_privacy::tokens::{from_hex, to_hex};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// How long the keeper may take to answer.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The first and the longest pause before it is asked again.
const PAUSES: [Millis; 2] = [500, 30_000];
/// Characters of what it says that are passed on.
const MAX_REASON: usize = 300;

/// The keeper of a federation with `seal = keeper`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeeperConfig {
    /// Its address, as `https://HOST:PORT`.
    pub url: String,
    /// Its public key, as `sottovoce keep` prints it.
    pub key: String,
    /// Certificate authority to trust instead of the public ones, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Whether another machine may be asked by plain http.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain_http: bool,
    /// Digest of the secret that this server shows the keeper. The server says what it is.
    #[serde(default)]
    pub opener: String,
}

/// The secret by which a server has the rounds of a federation opened.
fn secret(server: &Hash, federation: u64) -> Hash {
    let mut hasher = blake3::Hasher::new_keyed(server);
    hasher.update(b"keeper").update(&federation.to_le_bytes());
    *hasher.finalize().as_bytes()
}

impl KeeperConfig {
    /// Checks address, key and certificates.
    pub(super) fn check(&self) -> std::result::Result<(), ConfigError> {
        require(
            "keeper.key",
            self.public_key().is_some(),
            &self.key,
            "64 hexadecimal digits, as `sottovoce keep` says",
        )?;
        let expected = "https://HOST:PORT, or plain http with plain_http = true or on this machine";
        require("keeper.url", self.is_address(), &self.url, expected)?;
        require("keeper.ca", self.agent().is_some(), &"not one", "certificates in PEM")
    }

    fn is_address(&self) -> bool {
        let Ok(uri) = self.url.parse::<Uri>() else { return false };
        let Some(host) = uri.host() else { return false };
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_here = || host == "localhost" || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let is_plain = matches!(uri.path(), "" | "/") && uri.query().is_none() && !self.url.contains('@');
        is_plain
            && match uri.scheme_str() {
                Some("https") => true,
                Some("http") => self.plain_http || is_here(),
                _ => false,
            }
    }

    fn public_key(&self) -> Option<[u8; 32]> {
        from_hex(&self.key)?.try_into().ok()
    }

    /// The same for a federation of this server.
    pub(crate) fn founded(mut self, server: &Hash, federation: u64) -> Self {
        self.opener = to_hex(&opener(&secret(server, federation)));
        self
    }

    /// What round terms say of it.
    pub(super) fn keys(&self) -> Option<KeeperKeys> {
        Some(KeeperKeys { key: self.public_key()?, opener: from_hex(&self.opener)?.try_into().ok()? })
    }

    fn agent(&self) -> Option<Agent> {
        let mut tls = TlsConfig::builder();
        if let Some(pem) = &self.ca {
            let certificate = |item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            };
            let all: Option<Vec<Certificate<'static>>> = parse_pem(pem.as_bytes()).map(certificate).collect();
            tls = tls.root_certs(RootCerts::Specific(Arc::new(all.filter(|all| !all.is_empty())?)));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(TIMEOUT))
            .user_agent(concat!("sottovoce-server/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.build());
        Some(config.build().new_agent())
    }

    /// Sends a request; an error says why there is no answer.
    fn ask(&self, opening: &Opening) -> std::result::Result<Answer, String> {
        let url = format!("{}/v1/open", self.url.trim_end_matches('/'));
        let agent = self.agent().ok_or("its certificate authority cannot be read")?;
        let sent = agent.post(url).content_type("application/vnd.sottovoce").send(&opening.encode()[..]);
        let mut response = sent.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let limit = 64 + 4 * opening.config.words() as u64 + 8 * opening.entries.len() as u64 + 8192;
        let body = response.body_mut().with_config().limit(limit).read_to_vec().map_err(|error| error.to_string())?;
        match status {
            200 | 409 => Answer::decode(&body).map_err(|error| format!("its answer cannot be read: {error}")),
            _ => Err(format!("it answers {status}: {}", plain(&String::from_utf8_lossy(&body)))),
        }
    }
}

/// What another party says, for logs and operators.
fn plain(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(MAX_REASON).collect()
}

/// The state of a round whose masks a keeper has.
pub(super) struct KeptSum {
    config: Config,
    /// Whether no more updates are accepted.
    closed: bool,
    /// The sum and the number of updates in it.
    opened: Option<(Vec<u32>, u64)>,
    aborted: Option<String>,
    /// Devices that are left out, and why.
    faults: BTreeMap<u32, Fault>,
    /// How often in a row the keeper did not answer, why, and when it is asked again.
    failures: u32,
    why: Option<String>,
    ask_at: Millis,
}

impl KeptSum {
    pub(super) fn new(config: Config) -> Self {
        let (closed, opened, aborted, faults, failures, why, ask_at) = Default::default();
        Self { config, closed, opened, aborted, faults, failures, why, ask_at }
    }

    pub(super) fn accepts_updates(&self) -> bool {
        !self.closed && !self.is_over()
    }

    pub(super) fn is_over(&self) -> bool {
        self.opened.is_some() || self.aborted.is_some()
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    fn asks(&self, now: Millis) -> bool {
        self.closed && !self.is_over() && now >= self.ask_at
    }

    pub(super) fn sum(&self) -> (Option<(Vec<u32>, u64)>, Option<String>) {
        (self.opened.clone(), self.aborted.clone())
    }

    pub(super) fn validate(&self, seat: u32, bytes: &[u8]) -> Result<()> {
        let rejected = |error: RejectedUpload| {
            let code = match error {
                RejectedUpload::WrongRound => "wrong-round",
                RejectedUpload::Length(..) => "wrong-shape",
                _ => "malformed",
            };
            UploadError::invalid(code, error)
        };
        Upload::check(&self.config, seat, bytes).map(drop).map_err(rejected)
    }

    /// The sum as it was opened before the server stopped.
    pub(super) fn restore(&mut self, bytes: &[u8]) {
        let Some((updates, words)) = bytes.split_first_chunk::<8>() else { return };
        let words = words.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        self.opened = Some((words, u64::from_le_bytes(*updates)));
    }

    /// How the sum is stored.
    fn stored((words, updates): &(Vec<u32>, u64)) -> Bytes {
        let mut bytes = updates.to_le_bytes().to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.into()
    }

    /// What an operator is told while the keeper does not open the round.
    pub(super) fn waits_for(&self) -> Option<String> {
        self.why.as_ref().filter(|_| !self.is_over()).map(|why| {
            let times = self.failures;
            format!("the keeper does not answer, and is asked again ({times} times so far): {why}")
        })
    }

    /// What was done to single updates, for the round's record.
    pub(super) fn remark(&self) -> String {
        let first = self.faults.values().next();
        first.map_or_else(String::new, |first| format!("the keeper: {} updates left out; {first}", self.faults.len()))
    }

    /// Adds what devices did that no honest one does.
    pub(super) fn add_offences(&self, cohort: &[u32], offences: &mut Offences) {
        for (seat, fault) in self.faults.iter().filter(|(_, fault)| fault.is_offence()) {
            offences.of.extend(cohort.get(*seat as usize).map(|&device| (device, format!("the keeper: {fault}"))));
        }
    }
}

/// What came of asking.
enum Asked {
    Opened((Vec<u32>, u64)),
    Refused(String),
    NoAnswer(String),
}

/// What is asked about.
struct Question {
    round: u64,
    cohort: Vec<u32>,
    /// With fewer updates the round is abandoned.
    minimum: u32,
    config: Config,
    faults: BTreeMap<u32, Fault>,
}

impl Round {
    /// Whether the keeper is to be asked for the sum of this round's masks now.
    pub(super) fn asks_keeper(&self, now: Millis) -> bool {
        self.is_settled() && self.seal.as_ref().and_then(|seal| seal.kept()).is_some_and(|kept| kept.asks(now))
    }
}

impl Federation {
    /// Asks the keeper to open the round; once it has, the sum is stored.
    pub(super) async fn ask_keeper(self: &Arc<Self>) -> std::result::Result<(), ServerError> {
        let question = {
            let state = self.state();
            let Some(round) = &state.round else { return Ok(()) };
            let Some(kept) = round.seal.as_ref().and_then(|seal| seal.kept()) else { return Ok(()) };
            let (config, faults) = (kept.config.clone(), kept.faults.clone());
            let (cohort, minimum) = (round.opening.cohort.clone(), round.opening.minimum);
            Question { round: round.opening.round, cohort, minimum, config, faults }
        };
        let (federation, round) = (Arc::clone(self), question.round);
        let (asked, faults) = tokio::task::spawn_blocking(move || federation.open_kept(question)).await??;
        if let Asked::Opened(sum) = &asked {
            let message = SealMessage { device: None, bytes: KeptSum::stored(sum) };
            self.commit(Change::Seal { federation: self.id, round, message }).await?;
        }
        let mut state = self.state();
        let Some(kept) = state.open_round(round).and_then(|open| open.seal.as_mut()?.kept_mut()) else { return Ok(()) };
        kept.faults = faults;
        match asked {
            Asked::Opened(sum) => {
                let (updates, left_out) = (sum.1, kept.faults.len());
                kept.opened = Some(sum);
                drop(state);
                info!(federation = %self.name, round, updates, left_out, "the keeper opened the round");
            }
            Asked::Refused(why) => kept.aborted = Some(why),
            Asked::NoAnswer(why) => {
                let [first, longest] = PAUSES;
                let pause = first.checked_shl(kept.failures.min(16)).unwrap_or(longest).min(longest);
                kept.failures += 1;
                (kept.ask_at, kept.why) = (crate::now() + pause, Some(why.clone()));
                drop(state);
                warn!(federation = %self.name, round, %why, pause, "the keeper does not answer; the round waits");
            }
        }
        Ok(())
    }

    /// Asks for the masks of all devices that came, and again without those whose seeds cannot be used. Blocks.
    fn open_kept(&self, question: Question) -> std::result::Result<(Asked, BTreeMap<u32, Fault>), StorageError> {
        let Question { round, cohort, minimum, config, mut faults } = question;
        let Some(keeper) = &self.config.keeper else {
            return Ok((Asked::Refused("the federation has no keeper".to_owned()), faults));
        };
        let secret = secret(&self.secret, self.id);
        let asked = loop {
            let (entries, masked) = self.masked_sum(round, &cohort, &config, &faults)?;
            let updates = entries.len() as u32;
            let least = config.least.max(keeper::LEAST).max(minimum);
            if updates < least {
                break Asked::Refused(format!("{updates} updates came, at least {least} are needed"));
            }
            let opening = Opening { config: config.clone(), secret: secret.into(), entries };
            match keeper.ask(&opening) {
                Ok(Answer::Opened(masks)) => {
                    break match unmask(masked, &masks, updates) {
                        Some(sum) => Asked::Opened((sum, updates.into())),
                        None => {
                            Asked::Refused("the masks that the keeper added up are not those of the updates".to_owned())
                        }
                    };
                }
                Ok(Answer::Refused(refused)) => {
                    let named = |client: &u32| opening.entries.iter().any(|entry| entry.client == *client);
                    let before = faults.len();
                    faults.extend(refused.faults.into_iter().filter(|(client, _)| named(client)));
                    if faults.len() == before {
                        break Asked::Refused(format!("the keeper refuses: {}", plain(&refused.why)));
                    }
                }
                Err(why) => break Asked::NoAnswer(plain(&why)),
            }
        };
        Ok((asked, faults))
    }

    /// The devices that came, without those that are left out, and the sum of their masked updates.
    fn masked_sum(
        &self,
        round: u64,
        cohort: &[u32],
        config: &Config,
        faults: &BTreeMap<u32, Fault>,
    ) -> std::result::Result<(Vec<Entry>, Vec<u32>), StorageError> {
        let (mut entries, mut sum) = (Vec::new(), vec![0u32; config.words()]);
        self.services.storage.updates(self.id, round, &mut |sender, bytes| {
            let Sender::Device(device) = sender else { return Ok(()) };
            let seat = cohort.binary_search(&device).ok().and_then(|seat| u32::try_from(seat).ok());
            if seat.is_none_or(|seat| faults.contains_key(&seat)) {
                return Ok(());
            }
            let upload = Upload::decode(bytes).map_err(|error| self.corrupt(round, &error))?;
            sum.iter_mut().zip(&upload.words).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
            entries.push(upload.into());
            Ok(())
        })?;
        entries.sort_unstable_by_key(|entry: &Entry| entry.client);
        Ok((entries, sum))
    }
}
