//! The layer `anonymous-upload` in round terms: the public key of the round's tokens.

use super::{PublicKey, from_hex, to_hex};
use crate::PrivacyError;
use crate::config::{ANONYMOUS, ENCRYPTION, QUANTIZATION, SECURE_AGGREGATION};
use sottovoce_protocol::{PrivacyLayer, PrivacyTerms, Settings};

const KEY: &str = "key";

/// The layer for a round whose tokens are issued under this key.
pub fn anonymous_layer(key: &PublicKey) -> PrivacyLayer {
    let settings = Settings::from([(KEY.to_owned(), to_hex(&key.to_bytes()))]);
    PrivacyLayer { name: ANONYMOUS.to_owned(), settings }
}

/// The public key of a round's tokens; `None` where uploads are not anonymous.
///
/// # Errors
/// If the layer has no key, is there twice, or is incompatible with others: only sums of integers are the same in any order,
/// and messages under a seal identify devices.
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
    let text = layer.settings.get(KEY).cloned().unwrap_or_default();
    let key = from_hex(&text).and_then(|bytes| PublicKey::from_bytes(&bytes).ok());
    let expected = "64 hexadecimal digits of an element of the group";
    key.map(Some).ok_or(PrivacyError::Setting(ANONYMOUS, KEY, text, expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{Issuer, Scope};
    use sottovoce_protocol::{FederationId, RoundId};

    fn layer(name: &str) -> PrivacyLayer {
        PrivacyLayer { name: name.to_owned(), settings: Settings::new() }
    }

    fn of(layers: &[PrivacyLayer]) -> Result<Option<PublicKey>, PrivacyError> {
        anonymous_key(&PrivacyTerms { layers: layers.to_vec() })
    }

    #[test]
    fn terms_carry_the_issuers_key() {
        let key = Issuer::new([1; 32], Scope { federation: FederationId(1), round: RoundId(2) }).key();
        let (integers, anonymous) = (layer(QUANTIZATION), anonymous_layer(&key));
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
