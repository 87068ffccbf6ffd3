//! TLS: certificate and key from files, or made for development.

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where certificate and key come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// From files in PEM.
    Files {
        /// The certificate, and those that vouch for it.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
    /// Made for these names and kept in a folder: for development only.
    SelfSigned {
        /// Names and addresses.
        names: Vec<String>,
        /// Where certificate and key are kept.
        folder: PathBuf,
    },
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file.
    #[error("{}: {reason}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Certificate and key do not fit.
    #[error("certificate and key: {0}")]
    Pair(#[from] rustls::Error),
    /// No certificate can be made.
    #[error("no certificate can be made: {0}")]
    Making(#[from] rcgen::Error),
}

fn in_file(path: &Path, reason: &dyn ToString) -> TlsError {
    TlsError::File { path: path.to_owned(), reason: reason.to_string() }
}

/// Names of the files of a certificate that was made.
const MADE: [&str; 2] = ["certificate.pem", "key.pem"];

/// What a listener needs.
///
/// # Errors
/// If a file cannot be read or written, or certificate and key do not fit.
pub fn config(certificate: &Certificate) -> Result<Arc<ServerConfig>, TlsError> {
    let (certificate, key) = match certificate {
        Certificate::Files { certificate, key } => (certificate.clone(), key.clone()),
        Certificate::SelfSigned { names, folder } => self_signed(names, folder)?,
    };
    let chain = CertificateDer::pem_file_iter(&certificate).map_err(|error| in_file(&certificate, &error))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|error| in_file(&certificate, &error))?;
    if chain.is_empty() {
        return Err(in_file(&certificate, &"no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_file(&key).map_err(|error| in_file(&key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config.with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A certificate made now, or the one made before.
fn self_signed(names: &[String], folder: &Path) -> Result<(PathBuf, PathBuf), TlsError> {
    let [certificate, key] = MADE.map(|name| folder.join(name));
    if certificate.exists() && key.exists() {
        return Ok((certificate, key));
    }
    std::fs::create_dir_all(folder).map_err(|error| in_file(folder, &error))?;
    let made = rcgen::generate_simple_self_signed(names.to_vec())?;
    write_secret(&key, &made.signing_key.serialize_pem())?;
    std::fs::write(&certificate, made.cert.pem()).map_err(|error| in_file(&certificate, &error))?;
    Ok((certificate, key))
}

/// Writes a file that only its owner can read.
fn write_secret(path: &Path, text: &str) -> Result<(), TlsError> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(|error| in_file(path, &error))?;
    file.write_all(text.as_bytes()).map_err(|error| in_file(path, &error))
}
