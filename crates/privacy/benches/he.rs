//! What encryption costs a device, the server and the decryptor: 50,000 values.

use criterion::{Criterion, criterion_group, criterion_main};
use sottovoce_privacy::SecureRng;
use sottovoce_privacy::he::{bfv, ckks};
use std::hint::black_box;

const VALUES: usize = 50_000;

fn exact(criterion: &mut Criterion) {
    let parameters = bfv::Parameters::choose(100, (1 << 23) - 1).expect("room for 100 clients");
    let decryptor = bfv::Decryptor::new(&parameters, [1; 32]);
    let key = decryptor.public_key().expect("a key");
    let mut source = SecureRng::new([2; 32]);
    let input = vec![1234; VALUES];
    let mut group = criterion.benchmark_group("bfv, 50,000 values");
    group.sample_size(20);
    group.bench_function("seal and write", |bench| {
        bench.iter(|| key.encrypt(black_box(&input), &mut source).map(|ciphertext| ciphertext.encode()));
    });
    let ciphertext = key.encrypt(&input, &mut source).expect("values within range");
    group.bench_function("open", |bench| bench.iter(|| decryptor.decrypt(black_box(&ciphertext))));
    group.finish();
}

fn real(criterion: &mut Criterion) {
    let parameters = ckks::Parameters::choose(100, 1.0, 1e-6, VALUES as u64).expect("room for 100 clients");
    let decryptor = || ckks::Decryptor::new(&parameters, [1; 32], 0).expect("a decryptor");
    let key = decryptor().public_key().expect("a key");
    let mut source = SecureRng::new([2; 32]);
    let input = vec![0.25; VALUES];
    let mut group = criterion.benchmark_group("ckks, 50,000 values");
    group.sample_size(20);
    group.bench_function("seal and write", |bench| {
        bench.iter(|| key.encrypt(black_box(&input), &mut source).map(|ciphertext| ciphertext.encode()));
    });
    let ciphertext = key.encrypt(&input, &mut source).expect("values within range");
    group.bench_function("open", |bench| {
        bench.iter(|| decryptor().decrypt(black_box(&ciphertext), &mut source));
    });
    group.finish();
}

criterion_group!(benches, exact, real);
criterion_main!(benches);
