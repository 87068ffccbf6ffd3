//! Sums under encryption: right, within bounds, and refused where they would not be.

use proptest::prelude::*;
use sottovoce_privacy::SecureRng;
use sottovoce_privacy::he::{HeError, bfv, ckks, trial};
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

fn real_keeper() -> ckks::Decryptor {
    ckks::Decryptor::new(&REAL.parameters, [3; 32], 0).unwrap()
}

#[test]
fn the_figures_of_a_trial_are_within_their_bounds() {
    let figures = trial(5, 6000, [1; 32], &|| 0.0).unwrap();
    assert_eq!(figures.bfv.error, 0.0);
    assert!(figures.ckks.error > 0.0 && figures.ckks.error <= 1e-6, "{}", figures.ckks.error);
    assert!(figures.statistical_bits > 24.0);
    assert_eq!((figures.bfv.degree, figures.bfv.modulus_bits), (2048, 54));
    assert_eq!((figures.ckks.degree, figures.ckks.modulus_bits), (4096, 74));
}

#[test]
fn one_hundred_clients_have_the_parameters_that_are_stated() {
    let exact = bfv::Parameters::choose(100, (1 << 23) - 1).unwrap();
    assert_eq!((exact.degree(), exact.modulus_bits(), exact.plain_modulus()), (2048, 54, 1 << 31));
    let real = ckks::Parameters::choose(100, 1.0, 1e-6, 50_000).unwrap();
    assert!((24.0..26.0).contains(&real.statistical_bits()), "{}", real.statistical_bits());
    assert!(7.5 * real.flooding() < 1e-6);
}

#[test]
fn more_clients_or_range_take_a_larger_modulus_until_there_is_none() {
    let large = bfv::Parameters::choose(1 << 20, u32::MAX).unwrap();
    assert_eq!(large.degree(), 4096);
    assert!(matches!(bfv::Parameters::choose(u32::MAX, u32::MAX), Err(HeError::Headroom { .. })));
    assert!(matches!(bfv::Parameters::choose(0, 5), Err(HeError::Headroom { .. })));
    assert!(matches!(ckks::Parameters::choose(100, 1.0, 1e-9, 50_000), Err(HeError::Headroom { .. })));
    assert!(matches!(ckks::Parameters::choose(100, f64::NAN, 1e-6, 50_000), Err(HeError::Headroom { .. })));
}

#[test]
fn the_largest_sums_that_may_be_do_not_overflow() {
    let Exact { parameters, decryptor, key } = &*EXACT;
    let mut source = SecureRng::new([1; 32]);
    for value in [1 << 20, -(1 << 20)] {
        let mut sum = key.seal(&[value; 3000], &mut source).unwrap();
        for _ in 1..4 {
            sum.add(&key.seal(&[value; 3000], &mut source).unwrap(), parameters).unwrap();
        }
        assert_eq!(decryptor.open(&sum).unwrap(), [4 * value; 3000]);
        let more = key.seal(&[value; 3000], &mut source).unwrap();
        assert_eq!(sum.add(&more, parameters), Err(HeError::TooMany { added: 5, clients: 4 }));
        assert_eq!(sum.added(), 4);
    }
    let mut sum = REAL.key.seal(&[-1.0; 5000], &mut source).unwrap();
    for _ in 1..4 {
        sum.add(&REAL.key.seal(&[-1.0; 5000], &mut source).unwrap(), &REAL.parameters).unwrap();
    }
    let opened = real_keeper().open(&sum, &mut source).unwrap();
    assert!(opened.len() == 5000 && opened.iter().all(|value| (value + 4.0).abs() <= 1e-6));
    let more = REAL.key.seal(&[1.0; 5000], &mut source).unwrap();
    assert_eq!(sum.add(&more, &REAL.parameters), Err(HeError::TooMany { added: 5, clients: 4 }));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut source = SecureRng::new([1; 32]);
    let Exact { parameters, decryptor, key } = &*EXACT;
    let wrong = key.seal(&[5, (1 << 20) + 1], &mut source);
    assert!(matches!(wrong, Err(HeError::Value { at: 1, .. })));
    assert!(matches!(key.seal(&[i64::MIN], &mut source), Err(HeError::Value { at: 0, .. })));
    assert!(matches!(key.seal(&[], &mut source), Err(HeError::Length { .. })));
    assert!(matches!(REAL.key.seal(&[0.5, f64::NAN], &mut source), Err(HeError::Value { at: 1, .. })));
    assert!(matches!(REAL.key.seal(&[1.01], &mut source), Err(HeError::Value { at: 0, .. })));
    let mut short = key.seal(&[1], &mut source).unwrap();
    let long = key.seal(&[1, 2], &mut source).unwrap();
    assert_eq!(short.add(&long, parameters), Err(HeError::Length { found: 2, expected: 1 }));
    let others = bfv::Parameters::choose(5, 1 << 20).unwrap();
    let foreign = bfv::Decryptor::new(&others, [3; 32]).public_key().unwrap().seal(&[1], &mut source).unwrap();
    assert_eq!(short.add(&foreign, parameters), Err(HeError::ParameterMismatch));
    assert_eq!(decryptor.open(&foreign), Err(HeError::ParameterMismatch));
    assert_eq!(bfv::Ciphertext::decode(&foreign.encode(), parameters), Err(HeError::ParameterMismatch));
}

#[test]
fn the_same_bytes_give_the_same_key_and_another_key_opens_nothing() {
    let Exact { parameters, decryptor, key } = &*EXACT;
    assert_eq!(bfv::Decryptor::new(parameters, [3; 32]).public_key().unwrap().encode(), key.encode());
    let sealed = key.seal(&[7, -9], &mut SecureRng::new([1; 32])).unwrap();
    assert_eq!(key.seal(&[7, -9], &mut SecureRng::new([1; 32])).unwrap(), sealed);
    assert_ne!(key.seal(&[7, -9], &mut SecureRng::new([2; 32])).unwrap(), sealed);
    assert_eq!(decryptor.open(&sealed).unwrap(), [7, -9]);
    assert_ne!(bfv::Decryptor::new(parameters, [4; 32]).open(&sealed).unwrap(), [7, -9]);
}

#[test]
fn keys_and_sealed_vectors_are_read_as_written_and_nothing_else() {
    let mut source = SecureRng::new([1; 32]);
    let key = bfv::PublicKey::decode(&EXACT.key.encode(), &EXACT.parameters).unwrap();
    let sealed = key.seal(&[1, -2, 3], &mut source).unwrap();
    let bytes = sealed.encode();
    assert_eq!(
        EXACT.decryptor.open(&bfv::Ciphertext::decode(&bytes, &EXACT.parameters).unwrap()).unwrap(),
        [1, -2, 3]
    );
    let key = ckks::PublicKey::decode(&REAL.key.encode(), &REAL.parameters).unwrap();
    let real = key.seal(&[0.25], &mut source).unwrap().encode();
    assert!(ckks::Ciphertext::decode(&real, &REAL.parameters).is_ok());
    for end in [0, 1, 5, 17, 18, bytes.len() - 1] {
        assert!(bfv::Ciphertext::decode(&bytes[..end], &EXACT.parameters).is_err());
        assert!(ckks::Ciphertext::decode(&real[..end], &REAL.parameters).is_err());
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(matches!(bfv::Ciphertext::decode(&longer, &EXACT.parameters), Err(HeError::Malformed(_))));
    assert!(matches!(bfv::PublicKey::decode(&bytes, &EXACT.parameters), Err(HeError::Malformed(_))));
    // A coefficient that is not below its modulus, and one vector too many.
    let mut large = bytes.clone();
    large[18..25].fill(0xFF);
    assert!(matches!(bfv::Ciphertext::decode(&large, &EXACT.parameters), Err(HeError::Malformed(_))));
    let mut many = bytes;
    many[14] = 5;
    assert!(matches!(bfv::Ciphertext::decode(&many, &EXACT.parameters), Err(HeError::TooMany { added: 5, .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn sums_are_exact(vectors in prop::collection::vec(prop::collection::vec(-1_048_576i64..=1_048_576, 40), 1..5)) {
        let Exact { parameters, decryptor, key } = &*EXACT;
        let mut source = SecureRng::new([9; 32]);
        let mut sealed = vectors.iter().map(|vector| key.seal(vector, &mut source).unwrap());
        let mut sum = sealed.next().unwrap();
        sealed.for_each(|other| sum.add(&other, parameters).unwrap());
        let expected: Vec<i64> = (0..40).map(|at| vectors.iter().map(|vector| vector[at]).sum()).collect();
        prop_assert_eq!(decryptor.open(&sum).unwrap(), expected);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = bfv::Ciphertext::decode(&bytes, &EXACT.parameters);
        let _ = ckks::PublicKey::decode(&bytes, &REAL.parameters);
        let head = REAL.key.encode();
        let kept = bytes.len().min(10);
        bytes[..kept].copy_from_slice(&head[..kept]);
        let _ = ckks::PublicKey::decode(&bytes, &REAL.parameters);
    }
}
