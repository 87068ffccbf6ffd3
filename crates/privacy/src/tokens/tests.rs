use super::*;
use crate::SecureRng;
use curve25519_dalek::RistrettoPoint;
use proptest::prelude::*;
use sottovoce_protocol::{DeviceId, FederationId, RoundId};

const MASTER: [u8; 32] = [42; 32];

fn scope(round: u64) -> Scope {
    Scope { federation: FederationId(9), round: RoundId(round) }
}

/// One device's way to a token, all messages over the wire.
fn obtain(issuer: &mut Issuer, device: u64, generator: &mut SecureRng) -> Result<Token, TokenError> {
    let request = TokenRequest::new(generator, issuer.scope());
    let blinded = BlindedElement::from_bytes(&request.blinded().to_bytes())?;
    let answer = issuer.issue(DeviceId(device), Eligibility::Eligible, &blinded, generator)?;
    let token = request.finalize(&TokenResponse::from_bytes(&answer.to_bytes())?, &issuer.key())?;
    Token::from_bytes(&token.to_bytes())
}

#[test]
fn a_token_is_worth_one_upload_of_its_round() {
    let generator = &mut SecureRng::new([1; 32]);
    let mut issuer = Issuer::new(MASTER, scope(3));
    let token = obtain(&mut issuer, 1, generator).unwrap();
    assert_eq!(issuer.check(&token), Ok(()));
    assert_eq!(issuer.redeem(&token), Ok(()));
    assert_eq!(issuer.redeem(&token), Err(TokenError::Spent));
    obtain(&mut issuer, 2, generator).and_then(|other| issuer.redeem(&other)).unwrap();
}

#[test]
fn another_round_has_another_key_and_takes_none_of_it() {
    let generator = &mut SecureRng::new([2; 32]);
    let (mut third, mut fourth) = (Issuer::new(MASTER, scope(3)), Issuer::new(MASTER, scope(4)));
    assert_ne!(third.key(), fourth.key());
    assert_eq!(third.key(), Issuer::new(MASTER, scope(3)).key(), "a restart changes nothing");
    let token = obtain(&mut third, 1, generator).unwrap();
    let problem = fourth.redeem(&token).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "the token is for round 3 of federation 9, not for round 4 of federation 9"
    );
    // Relabelled it is a forgery.
    let relabelled = Token { scope: scope(4), ..token };
    assert_eq!(fourth.redeem(&relabelled), Err(TokenError::Forged));
    let elsewhere = Scope { federation: FederationId(10), round: RoundId(3) };
    assert_ne!(Issuer::new(MASTER, elsewhere).key(), third.key());
}

#[test]
fn any_changed_bit_is_a_forgery() {
    let generator = &mut SecureRng::new([3; 32]);
    let mut issuer = Issuer::new(MASTER, scope(3));
    let bytes = obtain(&mut issuer, 1, generator).unwrap().to_bytes();
    for place in 16..Token::BYTES {
        let mut changed = bytes;
        changed[place] ^= 1 << (place % 8);
        assert_eq!(issuer.redeem(&Token::from_bytes(&changed).unwrap()), Err(TokenError::Forged));
    }
    let invented = Token { scope: scope(3), nonce: [7; 32], output: [8; 64] };
    assert_eq!(issuer.redeem(&invented), Err(TokenError::Forged));
    assert_eq!(issuer.spent().count(), 0);
}

#[test]
fn a_server_that_marks_a_device_with_a_key_of_its_own_is_caught() {
    let generator = &mut SecureRng::new([4; 32]);
    let honest = Issuer::new(MASTER, scope(3));
    let mut marking = Issuer::new([43; 32], scope(3));
    let request = TokenRequest::new(generator, scope(3));
    let answer = marking.issue(DeviceId(1), Eligibility::Eligible, &request.blinded(), generator).unwrap();
    assert_eq!(request.finalize(&answer, &honest.key()), Err(TokenError::WrongKey));
    assert!(request.finalize(&answer, &marking.key()).is_ok());
    // Nor does a proof for one request serve another.
    let other = TokenRequest::new(generator, scope(3));
    assert_eq!(other.finalize(&answer, &marking.key()), Err(TokenError::WrongKey));
    let mut bytes = answer.to_bytes();
    bytes[70] ^= 1;
    let changed = TokenResponse::from_bytes(&bytes).unwrap();
    assert_eq!(request.finalize(&changed, &marking.key()), Err(TokenError::WrongKey));
}

#[test]
fn revoked_devices_get_none_and_others_one() {
    let generator = &mut SecureRng::new([5; 32]);
    let mut issuer = Issuer::new(MASTER, scope(3));
    let request = TokenRequest::new(generator, scope(3));
    let blinded = request.blinded();
    let refused = issuer.issue(DeviceId(1), Eligibility::Revoked, &blinded, generator);
    assert_eq!(refused, Err(TokenError::Revoked(DeviceId(1))));
    assert_eq!(issuer.issued().count(), 0);

    let first = issuer.issue(DeviceId(1), Eligibility::Eligible, &blinded, generator).unwrap();
    let again = issuer.issue(DeviceId(1), Eligibility::Eligible, &blinded, generator).unwrap();
    let key = issuer.key();
    assert_eq!(request.finalize(&first, &key), request.finalize(&again, &key), "a lost answer is the same token");
    let second = obtain(&mut issuer, 1, generator);
    assert_eq!(second, Err(TokenError::AlreadyIssued { device: DeviceId(1), round: RoundId(3) }));
}

#[test]
fn the_rate_limit_and_spent_tokens_survive_a_restart() {
    let generator = &mut SecureRng::new([6; 32]);
    let mut issuer = Issuer::new(MASTER, scope(3));
    let token = obtain(&mut issuer, 1, generator).unwrap();
    issuer.redeem(&token).unwrap();
    let mut back = Issuer::new(MASTER, scope(3)).remembering(issuer.issued(), issuer.spent());
    assert_eq!(back.redeem(&token), Err(TokenError::Spent));
    assert!(matches!(obtain(&mut back, 1, generator), Err(TokenError::AlreadyIssued { .. })));
    assert!(obtain(&mut back, 2, generator).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Every issuance fits every token equally well: for any blinded element B of the transcript and any token's element T there is
    /// exactly one factor r with r T = B, and unblinding the transcript's answer with it gives that token's evaluation.
    /// Elements with known logarithms stand for the hashed inputs here, because r is log B / log T.
    #[test]
    fn any_issuance_fits_any_token(seed in any::<[u8; 32]>()) {
        let mut generator = SecureRng::new(seed);
        let mut random = || voprf::random_scalar(|bytes| generator.fill(bytes));
        let secret = random();
        let (mine, factor, theirs) = (random(), random(), random());
        let (my_token, their_token) = (RistrettoPoint::mul_base(&mine), RistrettoPoint::mul_base(&theirs));
        let blinded = factor * my_token;
        let evaluated = secret * blinded;
        let other_factor = factor * mine * theirs.invert();
        prop_assert_eq!(other_factor * their_token, blinded);
        prop_assert_eq!(other_factor.invert() * evaluated, secret * their_token);
        // What the token shows is the function of its own input alone.
        let input = b"a nonce";
        let shown = voprf::finalize(input, &(other_factor.invert() * evaluated));
        prop_assert_eq!(shown, voprf::finalize(input, &(secret * their_token)));
    }

    #[test]
    fn no_bytes_make_decoding_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = PublicKey::from_bytes(&bytes);
        let _ = BlindedElement::from_bytes(&bytes);
        let _ = TokenResponse::from_bytes(&bytes);
        prop_assert_eq!(Token::from_bytes(&bytes).is_ok(), bytes.len() == Token::BYTES);
    }
}

/// BlindedElement elements are spread over the group alike, whatever the token: the same nonce with fresh factors, bit by bit.
#[test]
fn requests_look_alike_whatever_they_ask_for() {
    let mut generator = SecureRng::new([7; 32]);
    let mut ones = [0u32; 248];
    let requests = 1000;
    for _ in 0..requests {
        let factor = voprf::random_scalar(|bytes| generator.fill(bytes));
        let bytes = (factor * voprf::to_element(b"one nonce")).compress().to_bytes();
        // The lowest bit of an encoding is always 0, and the highest five are near the field's prime.
        (0..248).for_each(|bit| ones[bit] += u32::from(bytes[bit / 8] >> (bit % 8) & 1));
    }
    // Six standard deviations of 1000 fair coins.
    assert!(ones[1..].iter().all(|&n| n.abs_diff(requests / 2) < 95), "{ones:?}");
}

#[test]
fn what_is_not_a_message_is_refused_by_name() {
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
    assert!(matches!(TokenResponse::from_bytes(&answer), Err(TokenError::Element { .. })));
    assert_eq!(message(Token::from_bytes(&[0; 111]).unwrap_err()), "the token has 111 bytes instead of 112");
}
