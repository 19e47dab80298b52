//! Zones of a disk that held something else before it was formatted.
//!
//! A zone that holds bytes and has no header of ours is taken for one that lost its header, and a start reads all of it in search of
//! frames. On a disk that was in use before that would be all of the disk, at every start. So `format` gives such zones a header that
//! says that they are free. Those of an earlier device of ours need none: what their headers say is believed.

use disk::{Disk, DiskError, DiskErrorKind, DiskExt, Durability, ReadMode};
use env::Env;
use format::superblock::Superblock;
use format::zone_header::{ZONE_DATA_START, ZoneHeader, ZoneHeaderError, ZoneState};
use futures_util::StreamExt;
use types::limits::BLOCK_BYTES;
use types::{Activation, ZoneIndex};

use crate::geometry::Geometry;
use crate::inner::zone_header;
use crate::limits::OPEN_READS;
use crate::walk::readable_end;
use crate::zone_io::{header_bytes, is_out_of_space};

/// Gives a header to each zone at whose start something stands. They are durable before the superblock is.
pub(crate) async fn mark_zones(
    disk: &dyn Disk,
    env: &Env,
    superblock: &Superblock,
    geometry: Geometry,
) -> Result<(), DiskError> {
    let looks = futures_util::stream::iter(geometry.zones()).map(|zone| holds_strange_bytes(disk, superblock, geometry, zone));
    let mut looks = looks.buffered(OPEN_READS);
    let mut marked = 0;
    for zone in geometry.zones() {
        let holds_bytes = looks.next().await.expect("one look for each zone")?;
        if !holds_bytes || !has_space(disk, geometry, zone).await? {
            continue;
        }
        let header = zone_header(superblock, env, (zone, Activation(0)), ZoneState::Free, None, ZONE_DATA_START);
        disk.write(geometry.zone_start(zone), header_bytes(&header), Durability::Volatile).await?;
        marked += 1;
    }
    if marked > 0 {
        tracing::info!(device = superblock.device.0, zones = marked, "zones that held something were marked as free");
        disk.flush().await?;
    }
    Ok(())
}

/// Whether a start would search the zone for frames.
async fn holds_strange_bytes(
    disk: &dyn Disk,
    superblock: &Superblock,
    geometry: Geometry,
    zone: ZoneIndex,
) -> Result<bool, DiskError> {
    let len = readable_end(disk, geometry, zone).min(ZONE_DATA_START + BLOCK_BYTES as u64);
    if len == 0 {
        return Ok(false);
    }
    let bytes = match disk.read(geometry.zone_start(zone), len as usize, ReadMode::Direct).await {
        Ok(bytes) => bytes,
        // A bad sector there is for whoever uses the zone.
        Err(error) if error.kind == DiskErrorKind::Failed => return Ok(false),
        Err(error) => return Err(error),
    };
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(false);
    }
    let area = &bytes[..bytes.len().min(ZONE_DATA_START as usize)];
    let is_ours = area.len() as u64 == ZONE_DATA_START
        && matches!(ZoneHeader::decode(area, superblock.device_uuid, zone), Err(ZoneHeaderError::Misplaced { .. }));
    Ok(!is_ours)
}

/// Gives a zone all of its space, as a free one has it; false when the file can't grow by it.
pub(crate) async fn has_space(disk: &dyn Disk, geometry: Geometry, zone: ZoneIndex) -> Result<bool, DiskError> {
    match disk.allocate(geometry.zone_start(zone), geometry.zone_bytes()).await {
        Ok(()) => Ok(true),
        Err(error) if is_out_of_space(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
