//! The cost of a round with a keeper: all devices, server and keeper in one process, every message encoded.

use sottovoce_privacy::SecureRng;
use sottovoce_privacy::keeper::{
    Answer, Config, Entry, Keeper, MemoryRecord, OpenError, Opening, RejectedUpload, SealError, Upload, opener, seal,
    unmask,
};
use sottovoce_privacy::secagg::Message as _;
use sottovoce_protocol::{DecodeError, FederationId, RoundId};

/// What a round cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Seconds of the caller's clock, of the device that took longest and on average.
    pub device_seconds: (f64, f64),
    /// Seconds of the keeper.
    pub keeper_seconds: f64,
    /// Seconds of the server: checking uploads, adding them up and taking the masks off.
    pub server_seconds: f64,
    /// Bytes that a device sends.
    pub upload_bytes: usize,
    /// Bytes between server and keeper, both ways.
    pub keeper_bytes: usize,
    /// Bytes of a plain input: 4 a value.
    pub plain_bytes: usize,
}

impl Figures {
    /// Bytes that a device sends, by plain bytes.
    pub fn expansion(&self) -> f64 {
        self.upload_bytes as f64 / self.plain_bytes as f64
    }
}

/// Why a round could not be measured.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CostError {
    /// A device would not.
    #[error("a device: {0}")]
    Device(#[from] SealError),
    /// The server would not have an upload.
    #[error("the server: {0}")]
    Upload(#[from] RejectedUpload),
    /// The keeper would not open the round.
    #[error("the keeper: {0}")]
    Keeper(#[from] OpenError),
    /// Bytes that are no message.
    #[error("a message: {0}")]
    Message(#[from] DecodeError),
    /// The sum is not that of the inputs.
    #[error("the sum is wrong")]
    Wrong,
}

/// One round of `n` devices with inputs of `length` random values, timed by the caller's clock in seconds. The sum is
/// checked.
///
/// # Errors
/// If a party refuses, or the sum is wrong.
pub fn measure((n, length): (u32, u32), seed: [u8; 32], clock: &dyn Fn() -> f64) -> Result<Figures, CostError> {
    let (source, secret) = (SecureRng::new(seed), [1; 32]);
    let (federation, round, opener) = (FederationId(0), RoundId(0), opener(&secret));
    let config = Config { federation, round, opener, binding: [2; 32], length, least: n, signed: false };
    let keeper = Keeper::new(source.stream("keeper", 0).seed(), 0, None);
    let (mut sum, mut masked) = (vec![0u32; length as usize], vec![0u32; config.words()]);
    let (mut entries, mut spent, mut server, mut upload_bytes) = (Vec::new(), Vec::new(), 0.0, 0);
    for client in 0..n {
        let mut numbers = source.stream("input", client.into());
        let input: Vec<u32> = (0..length).map(|_| numbers.next_u32()).collect();
        sum.iter_mut().zip(&input).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
        let own = source.stream("device", client.into()).seed();
        let start = clock();
        let bytes = seal(&config, &keeper.public(), (client, own), 0, None, input)?.encode();
        let sent = clock();
        let upload = Upload::check(&config, client, &bytes)?;
        masked.iter_mut().zip(&upload.words).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
        entries.push(Entry::from(upload));
        server += clock() - sent;
        spent.push(sent - start);
        upload_bytes = bytes.len();
    }
    let request = Opening { config, secret: secret.into(), entries }.encode();
    let start = clock();
    let masks = keeper.admit(&Opening::decode(&request)?, &mut MemoryRecord::default())?;
    let answer = Answer::Opened(masks.sum()).encode();
    let keeper_seconds = clock() - start;
    let start = clock();
    let Answer::Opened(masks) = Answer::decode(&answer)? else { return Err(CostError::Wrong) };
    let found = unmask(masked, &masks, n).ok_or(CostError::Wrong)?;
    server += clock() - start;
    if found != sum {
        return Err(CostError::Wrong);
    }
    let longest = spent.iter().copied().fold(0.0, f64::max);
    Ok(Figures {
        device_seconds: (longest, spent.iter().sum::<f64>() / f64::from(n)),
        keeper_seconds,
        server_seconds: server,
        upload_bytes,
        keeper_bytes: request.len() + answer.len(),
        plain_bytes: 4 * length as usize,
    })
}
