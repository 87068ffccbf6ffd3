//! S3-compatible stores.

use super::Store;
use object_store::ClientConfigKey;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use std::sync::Arc;

/// Opens `BUCKET/PREFIX`.
pub(super) fn open(
    rest: &str,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<(Store, Key), String> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() {
        return Err("no bucket is named".into());
    }
    // The HTTP client uses the process's default provider; if it is set already, it is the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A large model takes minutes over a slow connection.
    let timeout = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
    let mut builder = AmazonS3Builder::new().with_config(timeout, "10 minutes");
    for (key, value) in environment.into_iter().filter(|(key, _)| key.starts_with("AWS_")) {
        if let Ok(key) = key.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    let store = builder.with_bucket_name(bucket).build().map_err(|error| error.to_string())?;
    let prefix = Key::parse(prefix).map_err(|error| error.to_string())?;
    Ok((Arc::new(store), prefix))
}
