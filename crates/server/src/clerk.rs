//! One thread that writes everything down.
//!
//! Whoever wants something remembered hands it to the clerk and waits. The clerk takes all that has come in while it was
//! writing, writes it in one transaction, and then tells all of them: many small changes cost one wait for the disk.

use crate::storage::{Change, Storage, StorageError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Orders that may wait; beyond, callers are told to come back.
const WAITING: usize = 4096;
/// Changes that go into one transaction at most.
const MOST_CHANGES: usize = 1024;
/// Bytes of uploads that go into one transaction, about.
const MOST_BYTES: usize = 32 << 20;

/// Why something was not written down.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClerkError {
    /// Too much waits to be written.
    #[error("too much waits to be written down")]
    Busy,
    /// The database says no.
    #[error("{0}")]
    Storage(Arc<StorageError>),
    /// The server is shutting down.
    #[error("the server is shutting down")]
    Gone,
}

/// What the clerk did, for whoever measures.
pub trait Watch: Send + Sync {
    /// A transaction was made.
    fn committed(&self, changes: usize, took: Duration);
}

struct Order {
    changes: Vec<Change>,
    done: oneshot::Sender<Result<(), ClerkError>>,
}

/// Hands changes to the thread that writes them. It ends when the last handle is gone and all is written.
#[derive(Clone)]
pub struct Clerk {
    orders: mpsc::Sender<Order>,
    well: Arc<AtomicBool>,
}

impl Clerk {
    /// Starts the thread.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(storage: Arc<dyn Storage>, watch: Arc<dyn Watch>) -> std::io::Result<Self> {
        let (orders, inbox) = mpsc::channel(WAITING);
        let well = Arc::new(AtomicBool::new(true));
        let is_well = Arc::clone(&well);
        std::thread::Builder::new()
            .name("clerk".to_owned())
            .spawn(move || work(inbox, storage.as_ref(), watch.as_ref(), &is_well))?;
        Ok(Self { orders, well })
    }

    /// Writes changes, all or none; returns when they are durable.
    ///
    /// # Errors
    /// If they were not written.
    pub async fn write(&self, changes: Vec<Change>) -> Result<(), ClerkError> {
        self.hand_in(changes)?.written().await
    }

    /// Hands changes in without waiting: they are written in the order in which they were handed in.
    ///
    /// # Errors
    /// If too much waits, or nothing is written any more.
    pub fn hand_in(&self, changes: Vec<Change>) -> Result<HandedIn, ClerkError> {
        let (done, told) = oneshot::channel();
        match self.orders.try_send(Order { changes, done }) {
            Ok(()) => Ok(HandedIn(told)),
            Err(mpsc::error::TrySendError::Full(_)) => Err(ClerkError::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(ClerkError::Gone),
        }
    }

    /// Whether the last transaction went well.
    pub fn is_well(&self) -> bool {
        self.well.load(Ordering::Relaxed)
    }
}

/// Changes that the clerk has, and will write.
pub struct HandedIn(oneshot::Receiver<Result<(), ClerkError>>);

impl HandedIn {
    /// Returns when they are durable.
    ///
    /// # Errors
    /// If they were not written.
    pub async fn written(self) -> Result<(), ClerkError> {
        self.0.await.unwrap_or(Err(ClerkError::Gone))
    }
}

fn work(mut inbox: mpsc::Receiver<Order>, storage: &dyn Storage, watch: &dyn Watch, well: &AtomicBool) {
    let mut changes = Vec::new();
    while let Some(first) = inbox.blocking_recv() {
        let mut waiting = Vec::new();
        let mut bytes = take(first, &mut changes, &mut waiting);
        while changes.len() < MOST_CHANGES
            && bytes < MOST_BYTES
            && let Ok(order) = inbox.try_recv()
        {
            bytes += take(order, &mut changes, &mut waiting);
        }
        let start = Instant::now();
        let written = storage.commit(&changes);
        watch.committed(changes.len(), start.elapsed());
        well.store(written.is_ok(), Ordering::Relaxed);
        match written {
            Ok(()) => waiting.into_iter().for_each(|(_, done)| tell(done, Ok(()))),
            Err(error) if waiting.len() == 1 => tell_all(waiting, &Arc::new(error)),
            Err(_) => one_by_one(storage, &changes, waiting, well),
        }
        changes.clear();
    }
}

type Waiting = (std::ops::Range<usize>, oneshot::Sender<Result<(), ClerkError>>);

/// Takes an order in; returns the bytes of its uploads.
fn take(order: Order, changes: &mut Vec<Change>, waiting: &mut Vec<Waiting>) -> usize {
    let start = changes.len();
    let size = |change: &Change| match change {
        Change::Upload { bytes, .. } | Change::UploadAnonymous { bytes, .. } => bytes.len(),
        _ => 0,
    };
    let bytes = order.changes.iter().map(size).sum();
    changes.extend(order.changes);
    waiting.push((start..changes.len(), order.done));
    bytes
}

/// After a transaction failed: one a order, so that one that cannot be written does not keep the others from it.
fn one_by_one(storage: &dyn Storage, changes: &[Change], waiting: Vec<Waiting>, well: &AtomicBool) {
    for (range, done) in waiting {
        let written = storage.commit(&changes[range]);
        well.store(written.is_ok(), Ordering::Relaxed);
        tell(done, written.map_err(|error| ClerkError::Storage(Arc::new(error))));
    }
}

fn tell_all(waiting: Vec<Waiting>, error: &Arc<StorageError>) {
    waiting.into_iter().for_each(|(_, done)| tell(done, Err(ClerkError::Storage(Arc::clone(error)))));
}

/// Whoever asked may have gone away meanwhile; what is written stays written.
fn tell(done: oneshot::Sender<Result<(), ClerkError>>, answer: Result<(), ClerkError>) {
    let _gone = done.send(answer);
}
