//! The newest state, as readers see it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use env::watch;

use crate::snapshot::{CommandIndex, Snapshot};

/// Holds the newest state for readers, who wait for nobody, and wakes whoever waits for a change.
pub(crate) struct Published {
    snapshot: ArcSwap<Snapshot>,
    changes: watch::Sender<CommandIndex>,
}

impl Published {
    pub(crate) fn new(state: &Snapshot) -> Published {
        Published { snapshot: ArcSwap::from_pointee(state.clone()), changes: watch::Sender::new(state.applied) }
    }

    /// Shows a state to readers.
    pub(crate) fn publish(&self, state: &Snapshot) {
        self.snapshot.store(Arc::new(state.clone()));
        self.changes.send_replace(state.applied);
    }

    pub(crate) fn load(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Looks at the newest state without holding it.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> T {
        look(&self.snapshot.load())
    }

    pub(crate) fn changes(&self) -> watch::Receiver<CommandIndex> {
        self.changes.subscribe()
    }
}
