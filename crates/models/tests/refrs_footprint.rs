//! What ReFRS takes of a device: no allocation in training, and how much memory it works in.
//!
//! One test only: the counter is that of the whole process.

use sottovoce_core::{Facts, History, Rng};
use sottovoce_models::federated::clustering::Assignment;
use sottovoce_models::federated::refrs::{Refrs, RefrsConfig};
use sottovoce_models::federated::{ClientModel, FederatedModel, ServerModel, TrainInput, WorkingMemory};
use sottovoce_protocol::Trained;
use sottovoce_testing::allocation::CountingAllocator;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

const ITEMS: usize = 3700;

#[test]
fn a_device_trains_and_scores_in_little_memory() {
    let mut config = RefrsConfig { local_epochs: 2, recommender_epochs: 2, ..RefrsConfig::default() };
    config.clustering.assignment = Assignment::Single;
    let facts = Arc::new(Facts::none(ITEMS));
    let client = Refrs::client(&config, &facts);
    let shared = Refrs::server(&config, &facts).init(ITEMS, &mut Rng::new(1)).unwrap();
    let prepared = client.prepare(&shared);
    let sequence: Vec<u32> = (0..250).map(|n| n * 31 % ITEMS as u32).collect();
    let mut items = sequence.clone();
    items.sort_unstable();
    let history = History { sequence: &sequence, ..(&items).into() };
    let mut private = vec![0.0; client.private_values()];
    client.init_private(&mut private, &mut Rng::new(2));
    assert!(4 * private.len() < 300_000);
    // What reports say of buffers is what is allocated for them.
    let mut size = None;
    let allocated = ALLOCATOR.peak_bytes(|| size = client.working_memory(&client.scratch(ITEMS)));
    let WorkingMemory { item_vectors, bytes } = size.unwrap();
    assert_eq!(item_vectors, 100);
    assert!((bytes..bytes + 1000).contains(&allocated), "{bytes} bytes of {allocated}");
    let (mut into, mut allocations) = (Trained::new(&shared.layout()), 0);
    let peak = ALLOCATOR.peak_bytes(|| {
        let mut scratch = client.scratch(ITEMS);
        for round in 0..2 {
            let before = ALLOCATOR.count();
            into.clear();
            let private = &mut private[..];
            let input = TrainInput { shared: &shared, prepared: &prepared, private, history, hidden: &[] };
            client.train(input, &mut scratch, &mut Rng::new(round), &mut into).unwrap();
            allocations = ALLOCATOR.count() - before;
        }
    });
    // The first round makes room for the update.
    assert_eq!(allocations, 0);
    assert!(peak < 1_000_000, "{peak} bytes to train in");
    let mut scores = vec![0.0; ITEMS];
    let peak = ALLOCATOR.peak_bytes(|| client.score(&shared, &private, history, &mut scores));
    assert!(peak < 1_000_000, "{peak} bytes to score in");
}
