//! Group commit: a thread that writes all changes to the database.
//!
//! Callers enqueue changes and wait. The thread collects the changes that arrived while it was writing, writes them in
//! one transaction, and then notifies all callers: many small changes share one disk sync.

use crate::storage::{Change, Storage, StorageError};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Requests that may wait; beyond that, callers are told to retry.
const QUEUE_LENGTH: usize = 4096;
/// Changes per transaction.
const MAX_CHANGES: usize = 1024;
/// Bytes of uploads per transaction, approximately.
const MAX_BYTES: usize = 32 << 20;

/// Why changes were not committed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// The queue is full.
    #[error("too many changes are waiting to be stored")]
    Busy,
    /// The database reported an error.
    #[error("{0}")]
    Storage(Arc<StorageError>),
    /// The server is shutting down.
    #[error("the server is shutting down")]
    ShuttingDown,
}

type Notify = oneshot::Sender<Result<(), CommitError>>;

/// The queue. Its thread ends when the last handle is dropped and all changes are written.
#[derive(Clone)]
pub struct CommitQueue {
    requests: mpsc::Sender<(Vec<Change>, Notify)>,
    healthy: Arc<AtomicBool>,
}

impl CommitQueue {
    /// Starts the thread; `committed` is called after each transaction, with its number of changes and the time it
    /// took.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(
        storage: Arc<dyn Storage>,
        committed: impl Fn(usize, Duration) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (requests, receiver) = mpsc::channel(QUEUE_LENGTH);
        let healthy = Arc::new(AtomicBool::new(true));
        let writer = Writer { storage, committed: Box::new(committed), healthy: Arc::clone(&healthy) };
        std::thread::Builder::new().name("commit-queue".to_owned()).spawn(move || writer.run(receiver))?;
        Ok(Self { requests, healthy })
    }

    /// Commits changes, all or none; returns when they are durable.
    ///
    /// # Errors
    /// If they were not committed.
    pub async fn commit(&self, changes: Vec<Change>) -> Result<(), CommitError> {
        self.enqueue(changes)?.done().await
    }

    /// Enqueues changes without waiting. They are committed in the order in which they were enqueued.
    ///
    /// # Errors
    /// If the queue is full, or the thread has ended.
    pub fn enqueue(&self, changes: Vec<Change>) -> Result<Enqueued, CommitError> {
        let (notify, done) = oneshot::channel();
        match self.requests.try_send((changes, notify)) {
            Ok(()) => Ok(Enqueued(done)),
            Err(mpsc::error::TrySendError::Full(_)) => Err(CommitError::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(CommitError::ShuttingDown),
        }
    }

    /// Whether the last transaction succeeded.
    pub fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }
}

/// Changes that are in the queue.
pub struct Enqueued(oneshot::Receiver<Result<(), CommitError>>);

impl Enqueued {
    /// Returns when they are durable.
    ///
    /// # Errors
    /// If they were not committed.
    pub async fn done(self) -> Result<(), CommitError> {
        self.0.await.unwrap_or(Err(CommitError::ShuttingDown))
    }
}

struct Writer {
    storage: Arc<dyn Storage>,
    committed: Box<dyn Fn(usize, Duration) + Send>,
    healthy: Arc<AtomicBool>,
}

/// The changes of one transaction, and whose they are.
#[derive(Default)]
struct Group {
    changes: Vec<Change>,
    callers: Vec<(Range<usize>, Notify)>,
    bytes: usize,
}

impl Group {
    fn add(&mut self, (changes, notify): (Vec<Change>, Notify)) {
        let size = |change: &Change| if let Change::Upload { bytes, .. } = change { bytes.len() } else { 0 };
        self.bytes += changes.iter().map(size).sum::<usize>();
        let start = self.changes.len();
        self.changes.extend(changes);
        self.callers.push((start..self.changes.len(), notify));
    }
}

impl Writer {
    fn run(&self, mut requests: mpsc::Receiver<(Vec<Change>, Notify)>) {
        while let Some(first) = requests.blocking_recv() {
            let mut group = Group::default();
            group.add(first);
            while group.changes.len() < MAX_CHANGES
                && group.bytes < MAX_BYTES
                && let Ok(request) = requests.try_recv()
            {
                group.add(request);
            }
            self.write(group);
        }
    }

    fn write(&self, group: Group) {
        let start = Instant::now();
        let written = self.commit(&group.changes);
        (self.committed)(group.changes.len(), start.elapsed());
        let alone = group.callers.len() == 1;
        for (range, notify) in group.callers {
            // After a failure each caller's changes are tried alone, so that one that fails does not affect the others.
            let result = match &written {
                Err(_) if !alone => self.commit(&group.changes[range]),
                written => written.clone(),
            };
            // The caller may have gone; what is written stays written.
            let _gone = notify.send(result);
        }
    }

    fn commit(&self, changes: &[Change]) -> Result<(), CommitError> {
        let written = self.storage.commit(changes);
        self.healthy.store(written.is_ok(), Ordering::Relaxed);
        written.map_err(|error| CommitError::Storage(Arc::new(error)))
    }
}
