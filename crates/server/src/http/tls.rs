//! TLS: certificate and key from files, or self-signed for development. They can be read again while the server runs.

use crate::config::Tls;
use crate::private_file;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// TLS needs both files, or names.
    #[error("tls: give certificate and key, or self_signed names, and not both")]
    Source,
    /// A file.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Certificate and key do not match.
    #[error("certificate and key: {0}")]
    Pair(#[from] rustls::Error),
    /// No certificate can be created.
    #[error("no certificate can be created: {0}")]
    Creation(#[from] rcgen::Error),
}

fn in_file(path: &Path, reason: &dyn ToString) -> TlsError {
    TlsError::File { path: path.to_owned(), reason: reason.to_string() }
}

/// File names of a self-signed certificate and its key.
const SELF_SIGNED: [&str; 2] = ["certificate.pem", "key.pem"];

/// The certificate that new connections get, and the files it is from.
#[derive(Debug)]
pub struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Certificates {
    /// Reads certificate and key. A self-signed certificate is created once and stored in a folder.
    ///
    /// # Errors
    /// If certificate or key is missing, or there are files and names; if a file cannot be read or written, or
    /// certificate and key do not match.
    pub fn open(tls: &Tls, folder: &Path) -> Result<Arc<Self>, TlsError> {
        let (certificate, key) = match (&tls.certificate, &tls.key, &tls.self_signed[..]) {
            (Some(certificate), Some(key), []) => (certificate.clone(), key.clone()),
            (None, None, names @ [_, ..]) => self_signed(names, folder)?,
            _ => return Err(TlsError::Source),
        };
        let current = RwLock::new(Arc::new(read(&certificate, &key)?));
        Ok(Arc::new(Self { certificate, key, current }))
    }

    /// Reads the files again. After an error, connections get the certificate from before.
    ///
    /// # Errors
    /// If a file cannot be read, or certificate and key do not match.
    pub fn reload(&self) -> Result<(), TlsError> {
        let renewed = Arc::new(read(&self.certificate, &self.key)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = renewed;
        Ok(())
    }

    /// The TLS configuration of a listener.
    ///
    /// # Errors
    /// If there is no protocol version to speak.
    pub fn config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = config.with_no_client_auth().with_cert_resolver(Arc::clone(self) as Arc<_>);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn read(certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let chain = CertificateDer::pem_file_iter(certificate).map_err(|error| in_file(certificate, &error))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|error| in_file(certificate, &error))?;
    if chain.is_empty() {
        return Err(in_file(certificate, &"no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| in_file(key, &error))?;
    Ok(CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider())?)
}

/// Creates a self-signed certificate, unless there is one.
fn self_signed(names: &[String], folder: &Path) -> Result<(PathBuf, PathBuf), TlsError> {
    let [certificate, key] = SELF_SIGNED.map(|name| folder.join(name));
    if certificate.exists() && key.exists() {
        return Ok((certificate, key));
    }
    std::fs::create_dir_all(folder).map_err(|error| in_file(folder, &error))?;
    let made = rcgen::generate_simple_self_signed(names.to_vec())?;
    private_file::write(&key, &made.signing_key.serialize_pem()).map_err(|error| in_file(&key, &error))?;
    std::fs::write(&certificate, made.cert.pem()).map_err(|error| in_file(&certificate, &error))?;
    Ok((certificate, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_both_files_or_names() {
        let folder = tempfile::tempdir().unwrap();
        let named = Tls { self_signed: vec!["localhost".to_owned()], ..Tls::default() };
        assert!(Certificates::open(&named, folder.path()).unwrap().config().is_ok());
        let half = Tls { key: Some("key.pem".into()), ..Tls::default() };
        assert!(matches!(Certificates::open(&half, folder.path()), Err(TlsError::Source)));
    }

    #[test]
    fn a_renewed_certificate_replaces_the_old_one_and_a_broken_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
        let renew = || {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
            std::fs::write(&certificate, made.cert.pem()).unwrap();
            std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
            made.cert.der().clone()
        };
        let first = renew();
        let tls = Tls { certificate: Some(certificate.clone()), key: Some(key.clone()), self_signed: Vec::new() };
        let certificates = Certificates::open(&tls, folder.path()).unwrap();
        let current = || certificates.current.read().unwrap().cert[0].clone();
        assert_eq!(current(), first);
        let second = renew();
        assert_eq!(current(), first);
        certificates.reload().unwrap();
        assert_eq!(current(), second);
        // A key of another certificate, as in the middle of a renewal; and none.
        let half = std::fs::read(&key).unwrap();
        renew();
        std::fs::write(&key, half).unwrap();
        assert!(matches!(certificates.reload(), Err(TlsError::Pair(_))));
        std::fs::remove_file(&key).unwrap();
        assert!(certificates.reload().unwrap_err().to_string().contains("key.pem"));
        assert_eq!(current(), second);
    }
}
