//! Images as answers for people.

use super::local::{LocalStores, usage_of};
use crate::protocol::{ImageInfo, SnapshotInfo};
use manager::{ImageRecord, Snapshot};

/// What a record and this node's devices say of an image.
pub fn info_of(state: &Snapshot, stores: &LocalStores, record: &ImageRecord) -> ImageInfo {
    let (allocated_bytes, data_bytes) = usage_of(stores, record.id);
    let holder = |node| state.node(node).map_or_else(|| format!("node {node}"), |record| record.name.clone());
    let snapshot = |snapshot: &manager::SnapshotRecord| SnapshotInfo {
        name: snapshot.name.clone(),
        size_bytes: snapshot.size_bytes,
        created_ms: snapshot.created_ms,
    };
    let parent = record.parent.and_then(|parent| {
        let image = state.image(parent.image)?;
        let snapshot = image.snapshots.iter().find(|snapshot| snapshot.layer == parent.layer)?;
        Some(format!("{}@{}", image.name, snapshot.name))
    });
    ImageInfo {
        id: record.id.0,
        name: record.name.clone(),
        size_bytes: record.size_bytes,
        created_ms: record.created_ms,
        removed_ms: record.removed_ms,
        copies: record.copies,
        holder: record.holder.map(|found| holder(found.node)),
        parent,
        snapshots: record.snapshots.iter().map(snapshot).collect(),
        allocated_bytes,
        data_bytes,
    }
}
