//! Files that devices download: encoded once, sent often.

use crate::lock;
use crate::storage::Hash;
use axum::http::HeaderValue;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use sottovoce_federation::{Coordinator, DownloadMessage, FederationError};
use sottovoce_protocol::{ModelVersion, codec};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

/// A file in all content encodings.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) plain: Bytes,
    /// Only if it is smaller.
    pub(crate) gzip: Option<Bytes>,
    /// Only if it is smaller.
    pub(crate) zstd: Option<Bytes>,
    /// The entity tag, in quotes.
    pub(crate) tag: String,
    pub(crate) media: &'static str,
}

/// The media type of messages in the wire format.
pub(crate) const WIRE: &str = "application/vnd.sottovoce";
/// Higher levels hardly shrink models further.
const ZSTD_LEVEL: i32 = 3;

impl Encoded {
    /// Compresses; slow for large files.
    pub(crate) fn new(plain: Vec<u8>, media: &'static str) -> Self {
        let smaller = |small: Vec<u8>| (small.len() < plain.len() / 20 * 19).then(|| Bytes::from(small));
        let zstd = zstd::encode_all(&plain[..], ZSTD_LEVEL).ok().and_then(smaller);
        let gzip = gzipped(&plain).and_then(smaller);
        let tag = format!("\"{}\"", &blake3::hash(&plain).to_hex()[..32]);
        Self { plain: plain.into(), gzip, zstd, tag, media }
    }
}

fn gzipped(plain: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain).ok()?;
    encoder.finish().ok()
}

/// A version of the shared model, as devices download it.
#[derive(Debug)]
pub struct Published {
    pub(crate) version: ModelVersion,
    /// The hash by which a device verifies the model it holds: of all tables' values in order, little-endian.
    pub(crate) digest: Hash,
    /// The same in hexadecimal, as a header value.
    pub(crate) digest_header: HeaderValue,
    pub(crate) whole: Encoded,
    /// Encoded terms of no round: the model's name, settings and version, for devices that do not take part.
    pub(crate) terms: Bytes,
    /// The differential privacy spent.
    pub(crate) spent: Option<sottovoce_models::Privacy>,
    /// By the version held; `None` if the whole model is shorter.
    differences: Mutex<BTreeMap<u64, Option<Arc<Encoded>>>>,
}

/// Differences in memory; devices are rarely many versions behind.
const MAX_DIFFERENCES: usize = 64;

impl Published {
    /// The coordinator's current version.
    pub(crate) fn of(coordinator: &Coordinator) -> Result<Self, FederationError> {
        let (offer, mut bytes) = (coordinator.offer(), Vec::new());
        codec::encode_model(offer.model(), offer.values(), &mut bytes)?;
        let mut hasher = blake3::Hasher::new();
        offer.model().parameters.le_bytes(|bytes| {
            hasher.update(bytes);
        });
        let digest = hasher.finalize();
        let mut terms = Vec::new();
        codec::encode_terms(&coordinator.model_terms()?, &mut terms);
        let header = HeaderValue::from_str(&digest.to_hex());
        Ok(Self {
            version: offer.model().version,
            digest: *digest.as_bytes(),
            digest_header: header.unwrap_or_else(|_| HeaderValue::from_static("")),
            whole: Encoded::new(bytes, WIRE),
            terms: terms.into(),
            spent: coordinator.privacy_spent(),
            differences: Mutex::default(),
        })
    }

    /// The difference to this version from the one a device holds; `None` if the whole model is shorter, the version
    /// held is too old, or the coordinator is at another version by now.
    pub(crate) fn difference(
        &self,
        held: ModelVersion,
        coordinator: &Mutex<Coordinator>,
    ) -> Result<Option<Arc<Encoded>>, FederationError> {
        if let Some(cached) = lock(&self.differences).get(&held.0) {
            return Ok(cached.clone());
        }
        let coordinator = lock(coordinator);
        if coordinator.shared().version != self.version || held >= self.version {
            return Ok(None);
        }
        let difference = match coordinator.offer().message(Some(held))? {
            DownloadMessage::Whole => None,
            DownloadMessage::Difference(difference) => {
                let mut bytes = Vec::new();
                codec::encode_difference(&difference, &mut bytes)?;
                Some(Arc::new(Encoded::new(bytes, WIRE)))
            }
        };
        let mut cached = lock(&self.differences);
        if cached.len() < MAX_DIFFERENCES {
            cached.insert(held.0, difference.clone());
        }
        Ok(difference)
    }
}
