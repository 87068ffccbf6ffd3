//! The layer `anonymous-upload` in round terms: the public key of the round's tokens, and that it is derived from the
//! federation's.

use super::issuer::is_derived;
use super::voprf::Proof;
use super::{Issuer, PublicKey, Scope, from_hex, to_hex};
use crate::PrivacyError;
use crate::config::{ANONYMOUS, ENCRYPTION, QUANTIZATION, SECURE_AGGREGATION};
use sottovoce_protocol::{PrivacyLayer, PrivacyTerms, RoundTerms, Settings};

const KEY: &str = "key";
/// The federation's key.
const ROOT: &str = "root";
const PROOF: &str = "proof";
const ELEMENT: &str = "64 hexadecimal digits of an element of the group";

/// The layer for a round whose tokens are issued under this key.
pub fn anonymous_layer(issuer: &Issuer) -> PrivacyLayer {
    let [key, root] = [issuer.key(), issuer.root()].map(|key| to_hex(&key.to_bytes()));
    let proof = to_hex(&issuer.derivation().to_bytes());
    let settings = [(KEY, key), (ROOT, root), (PROOF, proof)].map(|(name, value)| (name.to_owned(), value));
    let settings = Settings::from(settings);
    PrivacyLayer { name: ANONYMOUS.to_owned(), settings }
}

/// The public key of a round's tokens; `None` where uploads are not anonymous.
///
/// # Errors
/// If the layer has no key, is there twice, or is incompatible with others: only sums of integers are the same in any
/// order, and messages under a seal identify devices.
pub fn anonymous_key(terms: &PrivacyTerms) -> Result<Option<PublicKey>, PrivacyError> {
    let mut layers = terms.layers.iter().filter(|layer| layer.name == ANONYMOUS);
    let Some(layer) = layers.next() else { return Ok(None) };
    if layers.next().is_some() {
        return Err(PrivacyError::Unknown(ANONYMOUS.to_owned()));
    }
    let has = |name: &str| terms.layers.iter().any(|layer| layer.name == name);
    if has(SECURE_AGGREGATION) || has(ENCRYPTION) {
        return Err(PrivacyError::AnonymousSeal);
    }
    if !has(QUANTIZATION) {
        return Err(PrivacyError::NeedsIntegers(ANONYMOUS));
    }
    read_key(&layer.settings, KEY).map(Some)
}

fn read_key(settings: &Settings, name: &'static str) -> Result<PublicKey, PrivacyError> {
    let text = settings.get(name).cloned().unwrap_or_default();
    let key = from_hex(&text).and_then(|bytes| PublicKey::from_bytes(&bytes).ok());
    key.ok_or(PrivacyError::Setting(ANONYMOUS, name, text, ELEMENT))
}

/// The federation's key, from which that of the round's tokens is derived; `None` where uploads are not anonymous. A
/// server that gave a device a key of its own could tell its token from those of others.
///
/// # Errors
/// As [`anonymous_key`], or if the round's key is not derived from it.
pub fn anonymous_root(terms: &RoundTerms) -> Result<Option<PublicKey>, PrivacyError> {
    let Some(key) = anonymous_key(&terms.privacy)? else { return Ok(None) };
    let Some(layer) = terms.privacy.layers.iter().find(|layer| layer.name == ANONYMOUS) else { return Ok(None) };
    let root = read_key(&layer.settings, ROOT)?;
    let text = layer.settings.get(PROOF).cloned().unwrap_or_default();
    let proof = from_hex(&text).and_then(|bytes| Proof::from_bytes(&bytes.try_into().ok()?));
    let scope = Scope { federation: terms.federation, round: terms.round };
    let is_derived = proof.is_some_and(|proof| is_derived(&key, &root, scope, &proof));
    let expected = "the proof that this round's key is derived from the federation's";
    if is_derived { Ok(Some(root)) } else { Err(PrivacyError::Setting(ANONYMOUS, PROOF, text, expected)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_protocol::{FederationId, RoundId};

    fn layer(name: &str) -> PrivacyLayer {
        PrivacyLayer { name: name.to_owned(), settings: Settings::new() }
    }

    fn of(layers: &[PrivacyLayer]) -> Result<Option<PublicKey>, PrivacyError> {
        anonymous_key(&PrivacyTerms { layers: layers.to_vec() })
    }

    #[test]
    fn terms_carry_the_issuers_key() {
        let issuer = Issuer::new([1; 32], Scope { federation: FederationId(1), round: RoundId(2) });
        let (key, integers, anonymous) = (issuer.key(), layer(QUANTIZATION), anonymous_layer(&issuer));
        assert_eq!(of(&[integers.clone(), anonymous.clone()]), Ok(Some(key)));
        assert_eq!(of(std::slice::from_ref(&integers)), Ok(None));
        assert_eq!(of(std::slice::from_ref(&anonymous)), Err(PrivacyError::NeedsIntegers(ANONYMOUS)));
        let sealed = [integers.clone(), layer(SECURE_AGGREGATION), anonymous.clone()];
        assert_eq!(of(&sealed), Err(PrivacyError::AnonymousSeal));
        assert!(of(&[integers.clone(), anonymous.clone(), anonymous]).is_err());
        let error = of(&[integers, layer(ANONYMOUS)]).unwrap_err().to_string();
        assert!(error.contains("\"anonymous-upload\": setting \"key\" is \"\""), "{error}");
    }
}
