//! Latches of names: blind operations on a name hold its latch together, conditional ones alone. They are given in the order in which they are asked for,
//! so a conditional operation waits for what is pending and holds what comes later.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::limits::LATCHES;
use crate::name::Name;

pub struct Latches {
    hasher: RandomState,
    latches: Vec<Arc<RwLock<()>>>,
}

/// A latch that is held.
pub enum Latch {
    Shared { _guard: OwnedRwLockReadGuard<()> },
    Alone { _guard: OwnedRwLockWriteGuard<()> },
}

impl Default for Latches {
    fn default() -> Latches {
        Latches { hasher: RandomState::new(), latches: (0..LATCHES).map(|_| Arc::default()).collect() }
    }
}

impl Latches {
    pub async fn shared(&self, name: &Name) -> Latch {
        Latch::Shared { _guard: self.of(name).read_owned().await }
    }

    pub async fn alone(&self, name: &Name) -> Latch {
        Latch::Alone { _guard: self.of(name).write_owned().await }
    }

    fn of(&self, name: &Name) -> Arc<RwLock<()>> {
        self.latches[self.hasher.hash_one(name) as usize % LATCHES].clone()
    }
}
