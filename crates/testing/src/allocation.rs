//! An allocator that counts, for tests that something does not allocate.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with counters: to be made a test's `#[global_allocator]`.
pub struct CountingAllocator {
    count: AtomicUsize,
    live: AtomicUsize,
    peak: AtomicUsize,
}

impl CountingAllocator {
    /// Nothing counted yet.
    #[allow(clippy::new_without_default, reason = "only for statics")]
    pub const fn new() -> Self {
        Self { count: AtomicUsize::new(0), live: AtomicUsize::new(0), peak: AtomicUsize::new(0) }
    }

    /// Allocations of the whole process so far.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// The most bytes that were allocated at one time while this ran, beyond those before it.
    pub fn peak_bytes(&self, work: impl FnOnce()) -> usize {
        let before = self.live.load(Relaxed);
        self.peak.store(before, Relaxed);
        work();
        self.peak.load(Relaxed) - before
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged; the counters do not touch memory.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, block: Layout) -> *mut u8 {
        self.count.fetch_add(1, Relaxed);
        let live = self.live.fetch_add(block.size(), Relaxed) + block.size();
        self.peak.fetch_max(live, Relaxed);
        // SAFETY: the caller upholds the system allocator's conditions for `block`.
        unsafe { System.alloc(block) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, block: Layout) {
        self.live.fetch_sub(block.size(), Relaxed);
        // SAFETY: `pointer` came from `System.alloc` with the same `block`.
        unsafe { System.dealloc(pointer, block) }
    }
}
