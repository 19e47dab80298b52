//! Names and entries without objects, for experiments: a checkpoint of millions of entries needs no millions of writes.
//!
//! They are as real as any to the index, the lists and the checkpoint; what they point to is the record of one object, so a read of such a
//! name finds another record. Only for stores that are thrown away.

use crate::store::LogStore;
use bytes::Bytes;
use engine::{EngineError, ObjectKey};
use format::entry::Entry;
use format::name_entry::NameEntry;
use format::record::EntryName;

/// Entries made without letting others of the thread go on.
const BATCH: u64 = 1024;

impl LogStore {
    /// Adds so many entries whose names begin with that of an object that is there, and who share its place.
    pub async fn add_synthetic_entries(&self, like: &ObjectKey, count: u64) -> Result<(), EngineError> {
        let inner = &self.inner;
        let located = inner.locate(&LogStore::object_hash(like)).await?;
        let frame = inner.read_loose(&located.places, located.frame_bytes).await?;
        let attributes = crate::read::info_of(&frame.record, located.order)?.attributes;
        for begin in (0..count).step_by(BATCH as usize) {
            let stay = inner.epochs.stay();
            for number in begin..(begin + BATCH).min(count) {
                let mut key = like.key().to_vec();
                key.extend_from_slice(format!("-{number:010}").as_bytes());
                let name = EntryName::object(like.bucket(), Bytes::from(key));
                let entry = Entry {
                    hash: name.hash(),
                    write: inner.next_write_id(),
                    epoch: stay.epoch(),
                    order: located.order,
                    places: located.places,
                    frame_bytes: located.frame_bytes,
                    length: frame.record.length,
                    state: located.state,
                    large: false,
                };
                let (etag, modified_ms, storage_class) = (attributes.etag, attributes.modified_ms, attributes.storage_class);
                let checksum = attributes.checksum_scheme();
                let told = NameEntry { name, entry, etag, modified_ms, storage_class, checksum, version_id: None };
                // A name that is there already keeps its entry.
                let mut keys = inner.shard(&entry.hash).lock();
                if keys.index_mut().publish(entry).is_ok() {
                    inner.names.insert(stay.epoch(), told);
                }
            }
            drop(stay);
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Writes down everything that no checkpoint has, now.
    pub async fn checkpoint(&self) -> Result<(), EngineError> {
        self.inner.checkpoint().await?;
        self.inner.seal_if_due().await
    }
}
