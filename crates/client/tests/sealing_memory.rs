//! A sealed update is in memory once, and once more as the message that is sent.
//!
//! One test only: the counter is that of the whole process.

use sottovoce_client::Sealing;
use sottovoce_privacy::SecureRng;
use sottovoce_privacy::secagg::{Config, Server};
use sottovoce_protocol::{FederationId, RoundId};
use sottovoce_testing::allocation::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

const DEVICES: u32 = 5;
const WORDS: usize = 1 << 19;

#[test]
fn masking_makes_the_message_and_no_other_copy() {
    let config = Config::new(FederationId(3), RoundId(8), DEVICES, WORDS as u32);
    let mut server = Server::new(config.clone(), [6; 32]).unwrap();
    let mut rng = SecureRng::new([1; 32]);
    let input = |client: u32| -> Vec<u32> { (0..WORDS as u32).map(|word| word.wrapping_mul(client + 3)).collect() };
    let begin = |client| Sealing::secure_aggregation(config.clone(), (client, [client as u8; 32]), None, input(client));
    let mut devices: Vec<Sealing> = (0..DEVICES).map(|client| begin(client).unwrap()).collect();
    let mut most = 0;
    for step in 0..4 {
        for client in 0..DEVICES {
            let device = &mut devices[client as usize];
            if step > 0 {
                let down = server.message_for(client).unwrap();
                let work = || *device = device.receive(&down, None, (None, 1), &mut rng).unwrap();
                most = most.max(ALLOCATOR.peak_bytes(work));
            }
            let up = device.out.take().unwrap();
            server.receive(client, &up).unwrap();
        }
        server.close_step().unwrap();
    }
    let expected = (0..DEVICES).map(input).fold(vec![0u32; WORDS], |mut sum, words| {
        sum.iter_mut().zip(words).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
        sum
    });
    assert_eq!(server.sum().unwrap().words, expected);
    let message = 4 * WORDS;
    assert!(most >= message && most < message + (256 << 10), "{most} bytes for a message of {message}");
}
