//! The journal's segments: places of the volume.
//!
//! The log tells a torn tail from damage by the order in which its writes became durable. So a write of the journal is durable before the next
//! one in every mode of the device: it ends with a flush, which costs nothing where writes are durable at once. What was complete before such a flush is
//! durable behind it: that is noted, for blocks are used again only then ([`super::space`]).

use std::sync::Arc;

use device::{Volume, VolumeDisk, VolumeError};
use wal::{RegionStore, Settling};

use super::layout::Layout;
use super::limits::JOURNAL_SEGMENTS;

/// The segments of a volume's journal. There is a fixed number: the journal waits for a checkpoint.
pub fn segments(volume: &Volume, layout: Layout, settling: &Arc<Settling>) -> Arc<RegionStore> {
    let (own, settling) = (volume.clone(), settling.clone());
    let settle = move || {
        let (volume, settling) = (own.clone(), settling.clone());
        Box::pin(async move { flush(&volume, &settling).await }) as _
    };
    let disk = Arc::new(VolumeDisk::new(volume.clone(), Arc::new(settle)));
    let region = RegionStore::new(disk, layout.segment_start(0), layout.segment_bytes, JOURNAL_SEGMENTS);
    Arc::new(region.waiting_when_full())
}

/// Has all that was done before stand on the medium.
pub async fn flush(volume: &Volume, settling: &Settling) -> Result<(), VolumeError> {
    let done_before = settling.done_below();
    volume.flush().await?;
    settling.note_flushed(done_before);
    Ok(())
}
