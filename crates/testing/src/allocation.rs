//! An allocator that counts, for tests that something does not allocate.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with a counter: to be made a test's `#[global_allocator]`.
pub struct CountingAllocator(AtomicUsize);

impl CountingAllocator {
    /// Nothing counted yet.
    #[allow(clippy::new_without_default, reason = "only for statics")]
    pub const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Allocations of the whole process so far.
    pub fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged; the counter does not touch memory.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, block: Layout) -> *mut u8 {
        self.0.fetch_add(1, Relaxed);
        // SAFETY: the caller upholds the system allocator's conditions for `block`.
        unsafe { System.alloc(block) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, block: Layout) {
        // SAFETY: `pointer` came from `System.alloc` with the same `block`.
        unsafe { System.dealloc(pointer, block) }
    }
}
