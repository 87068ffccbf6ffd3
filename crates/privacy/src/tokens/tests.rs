use super::*;
use crate::SecureRng;
use curve25519_dalek::RistrettoPoint;
use proptest::prelude::*;
use sottovoce_protocol::{FederationId, RoundId};

const MASTER: [u8; 32] = [42; 32];

fn scope(round: u64) -> Scope {
    Scope { federation: FederationId(9), round: RoundId(round) }
}

/// One device's way to a token, all messages over the wire.
fn obtain(issuer: &Issuer, rng: &mut SecureRng) -> Result<Token, TokenError> {
    let request = TokenRequest::new(rng, scope(3));
    let blinded = BlindedElement::from_bytes(&request.blinded().to_bytes())?;
    let answer = issuer.evaluate(&blinded, rng);
    let token = request.finalize(&TokenResponse::from_bytes(&answer.to_bytes())?, &issuer.key())?;
    Token::from_bytes(&token.to_bytes())
}

#[test]
fn tokens_are_genuine_and_have_distinct_nullifiers() {
    let rng = &mut SecureRng::new([1; 32]);
    let issuer = Issuer::new(MASTER, scope(3));
    let (token, other) = (obtain(&issuer, rng).unwrap(), obtain(&issuer, rng).unwrap());
    assert_eq!((issuer.check(&token), issuer.check(&other)), (Ok(()), Ok(())));
    assert_ne!(token.nullifier(), other.nullifier());
}

#[test]
fn tokens_of_another_round_are_rejected() {
    let rng = &mut SecureRng::new([2; 32]);
    let (third, fourth) = (Issuer::new(MASTER, scope(3)), Issuer::new(MASTER, scope(4)));
    assert_ne!(third.key(), fourth.key());
    assert_eq!(third.key(), Issuer::new(MASTER, scope(3)).key(), "a restart changes nothing");
    let token = obtain(&third, rng).unwrap();
    let problem = fourth.check(&token).unwrap_err();
    assert_eq!(problem.to_string(), "the token is for round 3 of federation 9, not for round 4 of federation 9");
    // Relabelled it is a forgery.
    let relabelled = Token { scope: scope(4), ..token };
    assert_eq!(fourth.check(&relabelled), Err(TokenError::Forged));
    let elsewhere = Scope { federation: FederationId(10), round: RoundId(3) };
    assert_ne!(Issuer::new(MASTER, elsewhere).key(), third.key());
}

#[test]
fn rejects_changed_and_invented_tokens() {
    let rng = &mut SecureRng::new([3; 32]);
    let issuer = Issuer::new(MASTER, scope(3));
    let bytes = obtain(&issuer, rng).unwrap().to_bytes();
    for place in 16..Token::BYTES {
        let mut changed = bytes;
        changed[place] ^= 1 << (place % 8);
        assert_eq!(issuer.check(&Token::from_bytes(&changed).unwrap()), Err(TokenError::Forged));
    }
    let invented = Token { scope: scope(3), nonce: [7; 32], output: [8; 64] };
    assert_eq!(issuer.check(&invented), Err(TokenError::Forged));
}

#[test]
fn rejects_responses_under_another_key() {
    let rng = &mut SecureRng::new([4; 32]);
    let honest = Issuer::new(MASTER, scope(3));
    let marking = Issuer::new([43; 32], scope(3));
    let request = TokenRequest::new(rng, scope(3));
    let answer = marking.evaluate(&request.blinded(), rng);
    assert_eq!(request.finalize(&answer, &honest.key()), Err(TokenError::WrongKey));
    assert!(request.finalize(&answer, &marking.key()).is_ok());
    // Nor does a proof for one request serve another.
    let other = TokenRequest::new(rng, scope(3));
    assert_eq!(other.finalize(&answer, &marking.key()), Err(TokenError::WrongKey));
    let mut bytes = answer.to_bytes();
    bytes[70] ^= 1;
    let changed = TokenResponse::from_bytes(&bytes).unwrap();
    assert_eq!(request.finalize(&changed, &marking.key()), Err(TokenError::WrongKey));
}

#[test]
fn repeated_requests_give_the_same_token() {
    let rng = &mut SecureRng::new([5; 32]);
    let issuer = Issuer::new(MASTER, scope(3));
    let request = TokenRequest::new(rng, scope(3));
    let (first, again) = (issuer.evaluate(&request.blinded(), rng), issuer.evaluate(&request.blinded(), rng));
    assert_ne!(first, again, "the proof is randomised");
    assert_eq!(request.finalize(&first, &issuer.key()), request.finalize(&again, &issuer.key()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Every issuance fits every token equally well: for any blinded element B of the transcript and any token's
    /// element T there is exactly one blind r with r T = B, and unblinding the transcript's answer with it gives that
    /// token's evaluation. Elements with known logarithms stand for the hashed inputs here, because r is log B / log T.
    #[test]
    fn issuance_and_token_are_unlinkable(seed in any::<[u8; 32]>()) {
        let mut rng = SecureRng::new(seed);
        let mut random = || voprf::random_scalar(|bytes| rng.fill(bytes));
        let secret = random();
        let (mine, blind, theirs) = (random(), random(), random());
        let (my_token, their_token) = (RistrettoPoint::mul_base(&mine), RistrettoPoint::mul_base(&theirs));
        let blinded = blind * my_token;
        let evaluated = secret * blinded;
        let other_blind = blind * mine * theirs.invert();
        prop_assert_eq!(other_blind * their_token, blinded);
        prop_assert_eq!(other_blind.invert() * evaluated, secret * their_token);
        // What the token shows is the function of its own input alone.
        let input = b"a nonce";
        let shown = voprf::finalize(input, &(other_blind.invert() * evaluated));
        prop_assert_eq!(shown, voprf::finalize(input, &(secret * their_token)));
    }

    #[test]
    fn decoding_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = PublicKey::from_bytes(&bytes);
        let _ = BlindedElement::from_bytes(&bytes);
        let _ = TokenResponse::from_bytes(&bytes);
        prop_assert_eq!(Token::from_bytes(&bytes).is_ok(), bytes.len() == Token::BYTES);
    }
}

/// BlindedElement elements are spread over the group alike, whatever the token: the same nonce with fresh blinds, bit
/// by bit.
#[test]
fn blinded_elements_are_uniform() {
    let mut rng = SecureRng::new([7; 32]);
    let mut ones = [0u32; 248];
    let requests = 1000;
    for _ in 0..requests {
        let blind = voprf::random_scalar(|bytes| rng.fill(bytes));
        let bytes = (blind * voprf::to_element(b"one nonce")).compress().to_bytes();
        // The lowest bit of an encoding is always 0, and the highest five are near the field's prime.
        (0..248).for_each(|bit| ones[bit] += u32::from(bytes[bit / 8] >> (bit % 8) & 1));
    }
    // Six standard deviations of 1000 fair coins.
    assert!(ones[1..].iter().all(|&n| n.abs_diff(requests / 2) < 95), "{ones:?}");
}

#[test]
fn rejects_malformed_messages() {
    let message = |problem: TokenError| problem.to_string();
    assert_eq!(
        message(BlindedElement::from_bytes(&[0; 31]).unwrap_err()),
        "the request for a token has 31 bytes instead of 32"
    );
    // The identity, and a number above the field's prime.
    for bytes in [[0; 32], [0xff; 32]] {
        assert_eq!(
            message(BlindedElement::from_bytes(&bytes).unwrap_err()),
            "the request for a token is not an element of the group"
        );
        assert!(PublicKey::from_bytes(&bytes).is_err());
    }
    let mut answer = [0xff; 96];
    assert!(
        message(TokenResponse::from_bytes(&answer).unwrap_err())
            .starts_with("the challenge of the proof is not a number")
    );
    answer[32..].fill(0);
    assert!(matches!(TokenResponse::from_bytes(&answer), Err(TokenError::Element(..))));
    assert_eq!(message(Token::from_bytes(&[0; 111]).unwrap_err()), "the token has 111 bytes instead of 112");
}
