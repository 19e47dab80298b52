//! Images as answers for people.

use crate::protocol::{DeviceInfo, ImageInfo, SnapshotInfo};
use manager::{ImageRecord, Snapshot};
use std::collections::BTreeMap;
use types::{DeviceId, ImageId};

/// What a record says of an image, with what devices have of each.
pub fn info_of(state: &Snapshot, usage: &BTreeMap<ImageId, (u64, u64)>, record: &ImageRecord) -> ImageInfo {
    let (allocated_bytes, data_bytes) = usage.get(&record.id).copied().unwrap_or_default();
    let holder = |node| state.node(node).map_or_else(|| format!("node {node}"), |record| record.name.clone());
    let device = |device: DeviceId| {
        let node = state.device(device).and_then(|record| state.node(record.node?));
        DeviceInfo { device: device.0, node: node.map(|node| node.name.clone()) }
    };
    let out = record.devices.iter().filter(|used| used.out_since.is_some()).map(|used| device(used.device));
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
        redundancy: (record.redundancy.hosts, record.redundancy.devices),
        out: out.collect(),
        holder: record.holder.map(|found| match found.is_keeper {
            true => format!("{}, which looks after its copies", holder(found.node)),
            false => holder(found.node),
        }),
        parent,
        snapshots: record.snapshots.iter().map(snapshot).collect(),
        allocated_bytes,
        data_bytes,
    }
}
