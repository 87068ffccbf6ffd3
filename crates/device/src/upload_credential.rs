//! The one-time token that authorises an anonymous upload instead of the device's credential.

use sottovoce_client::Secret;
use sottovoce_client::bytes::{Read, Reader, Writer};
use sottovoce_privacy::SecureRng;
use sottovoce_privacy::tokens::{PublicKey, Scope, Token, TokenError, TokenRequest, TokenResponse, to_hex};
use sottovoce_protocol::{FederationId, RoundId};

/// A token that is to be requested, or was issued. The request's random numbers follow from the device's secret and the
/// round, so that a device that was killed requests the same token again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UploadCredential {
    federation: FederationId,
    /// The issuer's key in the round's terms, which the token must verify under.
    key: PublicKey,
    token: Option<Token>,
}

impl UploadCredential {
    pub(crate) fn new(federation: FederationId, key: PublicKey) -> Self {
        Self { federation, key, token: None }
    }

    fn request(&self, secret: &Secret, round: RoundId) -> TokenRequest {
        let scope = Scope { federation: self.federation, round };
        TokenRequest::new(&mut SecureRng::new(secret.key("token", round)), scope)
    }

    /// The blinded request, which reveals nothing about the token.
    pub(crate) fn blinded(&self, secret: &Secret, round: RoundId) -> [u8; 32] {
        self.request(secret, round).blinded().to_bytes()
    }

    /// Unblinds the issued token, if it verifies under the key of the terms.
    pub(crate) fn finish(&self, secret: &Secret, round: RoundId, response: &[u8]) -> Result<Self, TokenError> {
        let token = self.request(secret, round).finalize(&TokenResponse::from_bytes(response)?, &self.key)?;
        Ok(Self { token: Some(token), ..*self })
    }

    /// The token as text, once it was issued.
    pub(crate) fn text(&self) -> Option<String> {
        self.token.map(|token| to_hex(&token.to_bytes()))
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.number(self.federation.0);
        out.0.extend_from_slice(&self.key.to_bytes());
        out.optional(self.token, |out, token| out.0.extend_from_slice(&token.to_bytes()));
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Read<Self> {
        let federation = FederationId(from.number("token's federation")?);
        let key: [u8; PublicKey::BYTES] = from.array("token's key")?;
        let key = PublicKey::from_bytes(&key).map_err(|_| "token's key")?;
        let token = from.optional("token", |from| {
            let bytes: [u8; Token::BYTES] = from.array("token")?;
            Token::from_bytes(&bytes).map_err(|_| "token")
        })?;
        Ok(Self { federation, key, token })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use sottovoce_privacy::tokens::{BlindedElement, Issuer};

    pub(crate) fn issuer(round: u64) -> Issuer {
        Issuer::new([3; 32], Scope { federation: FederationId(3), round: RoundId(round) })
    }

    #[test]
    fn repeats_the_same_request_and_rejects_tokens_of_another_key() {
        let (secret, round) = (Secret::new([7; 32]), RoundId(9));
        let (issuer, credential) = (issuer(9), UploadCredential::new(FederationId(3), issuer(9).key()));
        let blinded = credential.blinded(&secret, round);
        assert_eq!(credential.blinded(&secret, round), blinded);
        assert_ne!(credential.blinded(&secret, RoundId(10)), blinded);
        let evaluate = |seed: u8| {
            let blinded = BlindedElement::from_bytes(&blinded).unwrap();
            issuer.evaluate(&blinded, &mut SecureRng::new([seed; 32])).to_bytes()
        };
        let got = credential.finish(&secret, round, &evaluate(1)).unwrap();
        assert_eq!(credential.finish(&secret, round, &evaluate(2)).unwrap(), got);
        issuer.check(&got.token.unwrap()).unwrap();
        let other = UploadCredential::new(FederationId(3), tests::issuer(8).key());
        assert_eq!(other.finish(&secret, round, &evaluate(1)), Err(TokenError::WrongKey));
        assert!(credential.finish(&secret, round, b"").is_err());
    }
}
