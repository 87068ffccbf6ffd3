//! Sums under encryption: right, within bounds, and refused where they would not be.

use proptest::prelude::*;
use sottovoce_privacy::SecureRng;
use sottovoce_privacy::he::{HeError, bfv, ckks};
use std::sync::LazyLock;

struct Exact {
    parameters: bfv::Parameters,
    decryptor: bfv::Decryptor,
    key: bfv::PublicKey,
}

static EXACT: LazyLock<Exact> = LazyLock::new(|| {
    let parameters = bfv::Parameters::choose(4, 1 << 20).unwrap();
    let decryptor = bfv::Decryptor::new(&parameters, [3; 32]);
    let key = decryptor.public_key().unwrap();
    Exact { parameters, decryptor, key }
});

struct Real {
    parameters: ckks::Parameters,
    key: ckks::PublicKey,
}

static REAL: LazyLock<Real> = LazyLock::new(|| {
    let parameters = ckks::Parameters::choose(4, 1.0, 1e-6, 1 << 20).unwrap();
    let key = ckks::Decryptor::new(&parameters, [3; 32], 0).unwrap().public_key().unwrap();
    Real { parameters, key }
});

fn real_decryptor() -> ckks::Decryptor {
    ckks::Decryptor::new(&REAL.parameters, [3; 32], 0).unwrap()
}

#[test]
fn parameters_for_100_clients() {
    let exact = bfv::Parameters::choose(100, (1 << 23) - 1).unwrap();
    assert_eq!((exact.as_ref().degree, exact.as_ref().modulus_bits()), (2048, 54));
    let real = ckks::Parameters::choose(100, 1.0, 1e-6, 50_000).unwrap();
    assert!((24.0..26.0).contains(&real.statistical_bits()), "{}", real.statistical_bits());
    assert!(7.5 * real.flooding() < 1e-6);
}

#[test]
fn larger_sums_take_a_larger_modulus_until_there_is_none() {
    let large = bfv::Parameters::choose(1 << 20, u32::MAX).unwrap();
    assert_eq!(large.as_ref().degree, 4096);
    assert!(matches!(bfv::Parameters::choose(u32::MAX, u32::MAX), Err(HeError::Headroom(..))));
    assert!(matches!(bfv::Parameters::choose(0, 5), Err(HeError::Headroom(..))));
    assert!(matches!(ckks::Parameters::choose(100, 1.0, 1e-9, 50_000), Err(HeError::Headroom(..))));
    assert!(matches!(ckks::Parameters::choose(100, f64::NAN, 1e-6, 50_000), Err(HeError::Headroom(..))));
}

#[test]
fn largest_allowed_sums_do_not_overflow() {
    let Exact { parameters, decryptor, key } = &*EXACT;
    let mut source = SecureRng::new([1; 32]);
    for value in [1 << 20, -(1 << 20)] {
        let mut sum = key.encrypt(&[value; 3000], &mut source).unwrap();
        for _ in 1..4 {
            sum.add(&key.encrypt(&[value; 3000], &mut source).unwrap(), parameters).unwrap();
        }
        assert_eq!(decryptor.decrypt(&sum).unwrap(), [4 * value; 3000]);
        let more = key.encrypt(&[value; 3000], &mut source).unwrap();
        assert_eq!(sum.add(&more, parameters), Err(HeError::TooMany(5, 4)));
        assert_eq!(sum.added(), 4);
    }
    let mut sum = REAL.key.encrypt(&[-1.0; 5000], &mut source).unwrap();
    for _ in 1..4 {
        sum.add(&REAL.key.encrypt(&[-1.0; 5000], &mut source).unwrap(), &REAL.parameters).unwrap();
    }
    let decrypted = real_decryptor().decrypt(&sum, &mut source).unwrap();
    assert!(decrypted.len() == 5000 && decrypted.iter().all(|value| (value + 4.0).abs() <= 1e-6));
    let more = REAL.key.encrypt(&[1.0; 5000], &mut source).unwrap();
    assert_eq!(sum.add(&more, &REAL.parameters), Err(HeError::TooMany(5, 4)));
}

#[test]
fn rejects_values_lengths_and_parameters_that_do_not_fit() {
    let mut source = SecureRng::new([1; 32]);
    let Exact { parameters, decryptor, key } = &*EXACT;
    let wrong = key.encrypt(&[5, (1 << 20) + 1], &mut source);
    assert!(matches!(wrong, Err(HeError::Value(1, _, _))));
    assert!(matches!(key.encrypt(&[i64::MIN], &mut source), Err(HeError::Value(0, _, _))));
    assert!(matches!(key.encrypt(&[], &mut source), Err(HeError::Length(..))));
    assert!(matches!(REAL.key.encrypt(&[0.5, f64::NAN], &mut source), Err(HeError::Value(1, _, _))));
    assert!(matches!(REAL.key.encrypt(&[1.01], &mut source), Err(HeError::Value(0, _, _))));
    let mut short = key.encrypt(&[1], &mut source).unwrap();
    let long = key.encrypt(&[1, 2], &mut source).unwrap();
    assert_eq!(short.add(&long, parameters), Err(HeError::Length(2, 1)));
    let others = bfv::Parameters::choose(5, 1 << 20).unwrap();
    let foreign = bfv::Decryptor::new(&others, [3; 32]).public_key().unwrap().encrypt(&[1], &mut source).unwrap();
    assert_eq!(short.add(&foreign, parameters), Err(HeError::ParameterMismatch));
    assert_eq!(decryptor.decrypt(&foreign), Err(HeError::ParameterMismatch));
    assert_eq!(bfv::Ciphertext::decode(&foreign.encode(), parameters), Err(HeError::ParameterMismatch));
}

#[test]
fn seeds_determine_keys_and_other_keys_do_not_decrypt() {
    let Exact { parameters, decryptor, key } = &*EXACT;
    let again = bfv::Decryptor::new(parameters, [3; 32]).public_key().unwrap();
    let ciphertext = again.encrypt(&[7, -9], &mut SecureRng::new([1; 32])).unwrap();
    assert_eq!(key.encrypt(&[7, -9], &mut SecureRng::new([1; 32])).unwrap(), ciphertext);
    assert_ne!(key.encrypt(&[7, -9], &mut SecureRng::new([2; 32])).unwrap(), ciphertext);
    assert_eq!(decryptor.decrypt(&ciphertext).unwrap(), [7, -9]);
    assert_ne!(bfv::Decryptor::new(parameters, [4; 32]).decrypt(&ciphertext).unwrap(), [7, -9]);
}

#[test]
fn ciphertexts_round_trip_strictly() {
    let mut source = SecureRng::new([1; 32]);
    let ciphertext = EXACT.key.encrypt(&[1, -2, 3], &mut source).unwrap();
    let bytes = ciphertext.encode();
    assert_eq!(
        EXACT.decryptor.decrypt(&bfv::Ciphertext::decode(&bytes, &EXACT.parameters).unwrap()).unwrap(),
        [1, -2, 3]
    );
    let real = REAL.key.encrypt(&[0.25], &mut source).unwrap().encode();
    assert!(ckks::Ciphertext::decode(&real, &REAL.parameters).is_ok());
    for end in [0, 1, 5, 17, 18, bytes.len() - 1] {
        assert!(bfv::Ciphertext::decode(&bytes[..end], &EXACT.parameters).is_err());
        assert!(ckks::Ciphertext::decode(&real[..end], &REAL.parameters).is_err());
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(matches!(bfv::Ciphertext::decode(&longer, &EXACT.parameters), Err(HeError::Malformed(_))));
    // A coefficient that is not below its modulus, and one vector too many.
    let mut large = bytes.clone();
    large[18..25].fill(0xFF);
    assert!(matches!(bfv::Ciphertext::decode(&large, &EXACT.parameters), Err(HeError::Malformed(_))));
    let mut many = bytes;
    many[14] = 5;
    assert!(matches!(bfv::Ciphertext::decode(&many, &EXACT.parameters), Err(HeError::TooMany(5, _))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn sums_are_exact(vectors in prop::collection::vec(prop::collection::vec(-1_048_576i64..=1_048_576, 40), 1..5)) {
        let Exact { parameters, decryptor, key } = &*EXACT;
        let mut source = SecureRng::new([9; 32]);
        let mut ciphertext = vectors.iter().map(|vector| key.encrypt(vector, &mut source).unwrap());
        let mut sum = ciphertext.next().unwrap();
        ciphertext.for_each(|other| sum.add(&other, parameters).unwrap());
        let expected: Vec<i64> = (0..40).map(|at| vectors.iter().map(|vector| vector[at]).sum()).collect();
        prop_assert_eq!(decryptor.decrypt(&sum).unwrap(), expected);
    }

    #[test]
    fn decoding_never_panics_on_arbitrary_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = bfv::Ciphertext::decode(&bytes, &EXACT.parameters);
        let _ = ckks::Ciphertext::decode(&bytes, &REAL.parameters);
        let head = REAL.key.encrypt(&[0.5], &mut SecureRng::new([1; 32])).unwrap().encode();
        let kept = bytes.len().min(10);
        bytes[..kept].copy_from_slice(&head[..kept]);
        let _ = ckks::Ciphertext::decode(&bytes, &REAL.parameters);
    }
}
