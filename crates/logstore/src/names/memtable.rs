//! The names published in one epoch.

use format::attributes::ETag;
use format::name_entry::NameEntry;
use format::record::EntryName;
use parking_lot::{RwLock, RwLockReadGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use types::{Epoch, Order};

/// Sorted names of one epoch; the newest order of each.
pub(crate) struct Memtable {
    epoch: Epoch,
    names: RwLock<BTreeMap<EntryName, NameEntry>>,
    len: AtomicUsize,
}

impl Memtable {
    pub fn new(epoch: Epoch) -> Self {
        Memtable { epoch, names: RwLock::new(BTreeMap::new()), len: AtomicUsize::new(0) }
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Takes an entry in unless a newer one is there; one of the same order (a relocation) replaces it.
    pub fn insert(&self, entry: NameEntry) {
        let mut names = self.names.write();
        match names.get_mut(&entry.name) {
            Some(known) if known.entry.order > entry.entry.order => {}
            Some(known) => *known = entry,
            None => {
                names.insert(entry.name.clone(), entry);
                self.len.store(names.len(), Ordering::Relaxed);
            }
        }
    }

    /// Drops entries of this epoch and before.
    pub fn drop_covered(&self, epoch: Epoch) {
        let mut names = self.names.write();
        names.retain(|_, name| name.entry.epoch > epoch);
        self.len.store(names.len(), Ordering::Relaxed);
    }

    pub fn etag(&self, name: &EntryName, order: Order) -> Option<ETag> {
        self.names.read().get(name).filter(|entry| entry.entry.order == order).map(|entry| entry.etag)
    }

    pub fn read(&self) -> RwLockReadGuard<'_, BTreeMap<EntryName, NameEntry>> {
        self.names.read()
    }
}
