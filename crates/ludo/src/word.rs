//! The primitives that readers and a writer share: a 64-bit word with the orderings a sequence lock needs, and a locked cell.
//!
//! Traits, because there are two implementations: the machine's, and in tests those of `loom`, which runs every
//! interleaving that the memory model allows. So the model test runs this crate's own code and not a sketch of it.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};

pub trait Word: Debug + Send + Sync + 'static {
    /// A cell that belongs with these words.
    type Cell<T: Clone + Debug + Send>: Cell<T>;

    fn new(value: u64) -> Self;
    fn load(&self) -> u64;
    /// Loads the word for the sake of its cache line.
    fn touch(&self);
    fn store(&self, value: u64);
    fn load_acquire(&self) -> u64;
    fn store_release(&self, value: u64);
    fn fence_acquire();
    fn fence_release();
    /// What a reader does between attempts; `round` counts them.
    fn pause(round: u32);
}

/// A value that is copied out and replaced whole, under a lock held for no longer than that.
pub trait Cell<T>: Debug + Send + Sync {
    fn new(value: T) -> Self;
    fn copy(&self) -> T;
    fn replace(&self, value: T);
}

impl<T: Clone + Debug + Send> Cell<T> for Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn copy(&self) -> T {
        // The value is replaced whole: a panic of another thread cannot have left half of it.
        self.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, value: T) {
        *self.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

/// Attempts after which a waiting reader gives its core away: the writer may need it.
const SPINS_BEFORE_YIELD: u32 = 64;

impl Word for AtomicU64 {
    type Cell<T: Clone + Debug + Send> = Mutex<T>;

    fn new(value: u64) -> Self {
        Self::new(value)
    }

    #[inline(always)]
    fn load(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn touch(&self) {
        self.load(Ordering::Relaxed);
    }

    #[inline(always)]
    fn store(&self, value: u64) {
        self.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn load_acquire(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn store_release(&self, value: u64) {
        self.store(value, Ordering::Release);
    }

    #[inline(always)]
    fn fence_acquire() {
        fence(Ordering::Acquire);
    }

    #[inline(always)]
    fn fence_release() {
        fence(Ordering::Release);
    }

    fn pause(round: u32) {
        if round < SPINS_BEFORE_YIELD { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}
