//! What a device does before it serves: reads its zones' headers, finds again what lost its header, and settles what was open.
//!
//! A zone that was open is walked to its end. One that holds no frame is free. The last one of the relocated and of the meta stream stays open: appends
//! go on where its last frame ends, or later, so that a full device that is started again and again does not run out of zones. Every other one is finished
//! there. What the walk finds damaged stays where it is: the engine's own walk judges it. Of a zone whose last activation can't be read nothing is
//! believed and nothing is changed: the error may pass.
//!
//! A zone of the ordered stream never stays open. The former process may have reserved more of it than the walk finds, and a checkpoint may name the
//! end of that as the floor. An append below the floor would not be found by the next start. In the other streams nothing is lost by that: a checkpoint's
//! run is reached by its manifest, and a copy is not needed before a checkpoint names it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use disk::{Disk, DiskError, DiskExt, ReadMode};
use env::Env;
use format::superblock::Superblock;
use format::superblock::notes::NotesKind;
use format::unit_table::{self, LentUnit};
use format::zone_header::{ZONE_DATA_START, ZoneHeader, ZoneHeaderError, ZoneState, ZoneStream};
use futures_util::StreamExt;
use types::limits::BLOCK_BYTES;
use types::{Activation, ZoneIndex};

use crate::book::{ZoneEntry, ZoneUse};
use crate::error::OpenError;
use crate::geometry::Geometry;
use crate::inner::{seed_of, zone_header};
use crate::limits::OPEN_READS;
use crate::reused;
use crate::superblock_io;
use crate::walk::{Segment, Walk, WalkEvent, find_lost_activation, readable_end};
use crate::zone_io::{give_space_back, put_header};

/// A disk with what its superblock says.
pub(crate) struct Recovery<'a> {
    pub(crate) disk: &'a Arc<dyn Disk>,
    pub(crate) env: &'a Env,
    pub(crate) superblock: &'a Superblock,
    pub(crate) geometry: Geometry,
    /// That zones are read whole, which takes long, has been said.
    pub(crate) is_told: AtomicBool,
}

/// What the headers say.
pub(crate) struct Found {
    pub(crate) entries: Vec<ZoneEntry>,
    /// Lent zones whose headers do not say so.
    pub(crate) silent: Vec<LentUnit>,
}

/// What stands where a zone without a header begins.
#[derive(PartialEq, Eq)]
enum Start {
    Zeros,
    Bytes,
    Unreadable,
}

impl Recovery<'_> {
    /// The zones that are lent; none if no table was ever written.
    ///
    /// What a process left on its way when it died can be read, but a power cut may still take it: it is made durable before a start reads and
    /// relies on it.
    pub(crate) async fn unit_table(&self) -> Result<Option<Vec<LentUnit>>, OpenError> {
        self.disk.flush().await?;
        let wrong = |reason: String| OpenError::UnitTable { device: self.disk.describe(), reason };
        let notes = superblock_io::read_notes(&**self.disk, self.superblock.device_uuid, NotesKind::Units).await;
        let Some((_, bytes)) = notes.map_err(|error| wrong(error.to_string()))? else { return Ok(None) };
        let lent = unit_table::decode(&bytes).map_err(|error| wrong(error.to_string()))?;
        match lent.iter().find(|lent| lent.zone.0 >= self.geometry.zone_count()) {
            Some(lent) => Err(wrong(format!("it names zone {}, which the device does not have", lent.zone.0))),
            None => Ok(Some(lent)),
        }
    }

    /// The state of every zone. Open is at most one of each stream that goes on.
    pub(crate) async fn zones(&self, table: Option<&[LentUnit]>) -> Result<Found, OpenError> {
        let lent: BTreeMap<ZoneIndex, &LentUnit> = table.unwrap_or_default().iter().map(|lent| (lent.zone, lent)).collect();
        let mut silent = Vec::new();
        let reads = futures_util::stream::iter(self.geometry.zones()).map(|zone| self.read_header(zone));
        let mut headers = reads.buffered(OPEN_READS);
        let mut entries = Vec::with_capacity(self.geometry.zone_count() as usize);
        for zone in self.geometry.zones() {
            let header = headers.next().await.expect("one header for each zone")?;
            let says_lent = matches!(&header, Ok(header) if header.state == ZoneState::Lent);
            match lent.get(&zone) {
                Some(lent) => {
                    if !says_lent {
                        silent.push(**lent);
                    }
                    let LentUnit { activation, .. } = **lent;
                    entries.push(ZoneEntry { doing: ZoneUse::Lent, activation, stream: None, end: ZONE_DATA_START });
                }
                None if says_lent && table.is_none() => {
                    return Err(OpenError::UnitTableLost { device: self.disk.describe(), zone });
                }
                None => entries.push(self.settle(zone, header).await?),
            }
        }
        for zone in self.geometry.zones() {
            let entry = entries[zone.0 as usize];
            if entry.doing == ZoneUse::Open && !self.goes_on(&entries, &entry, zone).await? {
                entries[zone.0 as usize] = self.seal(zone, entry.activation, entry.stream, entry.end).await?;
            }
        }
        Ok(Found { entries, silent })
    }

    /// Whether a zone that was open takes further appends: no zone that may be of its stream has followed it, and it has room. One that has followed
    /// counts also when it is free again: points in the log may lie behind it.
    async fn goes_on(&self, entries: &[ZoneEntry], open: &ZoneEntry, zone: ZoneIndex) -> Result<bool, DiskError> {
        let may_follow = |(other, entry): (ZoneIndex, &ZoneEntry)| {
            let is_later = (entry.activation, other) > (open.activation, zone);
            let may_be_of_stream = match entry.stream {
                Some(stream) => Some(stream) == open.stream,
                None => entry.doing == ZoneUse::Finished,
            };
            entry.doing == ZoneUse::Unknown || is_later && may_be_of_stream
        };
        if open.end == self.geometry.zone_bytes() || self.geometry.zones().zip(entries).any(may_follow) {
            return Ok(false);
        }
        // A file may have lost what it had grown by.
        reused::has_space(&**self.disk, self.geometry, zone).await
    }

    async fn read_header(&self, zone: ZoneIndex) -> Result<Result<ZoneHeader, ZoneHeaderError>, DiskError> {
        if readable_end(&**self.disk, self.geometry, zone) < ZONE_DATA_START {
            return Ok(Err(ZoneHeaderError::Absent));
        }
        let at = self.geometry.zone_start(zone);
        match self.disk.read(at, ZONE_DATA_START as usize, ReadMode::Direct).await {
            Ok(area) => Ok(ZoneHeader::decode(&area, self.superblock.device_uuid, zone)),
            Err(error) if error.kind == disk::DiskErrorKind::Failed => self.read_header_by_copy(zone, error).await,
            Err(error) => Err(error),
        }
    }

    /// One of the two copies may stand in a bad sector.
    async fn read_header_by_copy(
        &self,
        zone: ZoneIndex,
        error: DiskError,
    ) -> Result<Result<ZoneHeader, ZoneHeaderError>, DiskError> {
        tracing::error!(device = self.superblock.device.0, zone = zone.0, %error, "a zone header can't be read");
        let mut area = vec![0; ZONE_DATA_START as usize];
        for (copy, slot) in area.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            let at = self.geometry.zone_start(zone) + (copy * BLOCK_BYTES) as u64;
            if let Ok(bytes) = self.disk.read(at, BLOCK_BYTES, ReadMode::Direct).await {
                slot.copy_from_slice(&bytes);
            }
        }
        Ok(ZoneHeader::decode(&area, self.superblock.device_uuid, zone))
    }

    async fn settle(&self, zone: ZoneIndex, header: Result<ZoneHeader, ZoneHeaderError>) -> Result<ZoneEntry, OpenError> {
        match header {
            Ok(header) => self.settle_known(zone, header).await,
            Err(error) => self.settle_unknown(zone, error).await,
        }
    }

    async fn settle_known(&self, zone: ZoneIndex, header: ZoneHeader) -> Result<ZoneEntry, OpenError> {
        let ZoneHeader { activation, stream, .. } = header;
        match header.state {
            ZoneState::Free => Ok(ZoneEntry { doing: ZoneUse::Free, activation, stream, end: ZONE_DATA_START }),
            ZoneState::Returned => Ok(ZoneEntry { doing: ZoneUse::Never, activation, stream, end: ZONE_DATA_START }),
            ZoneState::Lent => self.end_return(zone, activation).await,
            ZoneState::Finished => {
                let end = header.end.bytes().clamp(ZONE_DATA_START, self.geometry.zone_bytes());
                Ok(ZoneEntry { doing: ZoneUse::Finished, activation, stream, end })
            }
            ZoneState::Open => {
                let end = self.end_of_frames(zone, activation, stream).await;
                match stream {
                    Some(ZoneStream::Relocated | ZoneStream::Meta) if end > ZONE_DATA_START => {
                        Ok(ZoneEntry { doing: ZoneUse::Open, activation, stream, end })
                    }
                    _ => self.seal(zone, activation, stream, end).await,
                }
            }
        }
    }

    /// The table does not name the zone any more: a return was cut short.
    async fn end_return(&self, zone: ZoneIndex, activation: Activation) -> Result<ZoneEntry, OpenError> {
        let header = zone_header(self.superblock, self.env, (zone, activation), ZoneState::Returned, None, ZONE_DATA_START);
        give_space_back(&**self.disk, self.geometry, &header).await?;
        Ok(ZoneEntry { doing: ZoneUse::Never, activation, stream: None, end: ZONE_DATA_START })
    }

    /// A zone without a header: never used, of an earlier device, or damaged.
    async fn settle_unknown(&self, zone: ZoneIndex, error: ZoneHeaderError) -> Result<ZoneEntry, OpenError> {
        // A header of another zone of this device was written here by mistake: what it destroyed is looked for.
        let own = self.superblock.device_uuid;
        let is_foreign = matches!(error, ZoneHeaderError::Misplaced { found_device, .. } if found_device != own);
        if is_foreign {
            return Ok(ZoneEntry::NEVER);
        }
        let start = self.start_of(zone).await;
        if start == Start::Zeros {
            return Ok(ZoneEntry::NEVER);
        }
        let device = self.superblock.device;
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                device = device.0,
                zone = zone.0,
                "there are zones without a header that hold something: each is read whole, once, in search of frames. That takes long"
            );
        }
        let seed = |activation| seed_of(self.superblock, zone, activation);
        let search = find_lost_activation(self.disk.clone(), self.env, self.geometry, device, zone, seed).await;
        if !search.is_certain {
            tracing::error!(
                device = device.0,
                zone = zone.0,
                %error,
                "what can't be read of a zone hides its last activation: nothing in it is believed, and it is left as it is for the next start"
            );
            // The book gives it a number.
            let (activation, end) = (search.newest.unwrap_or_default(), self.geometry.zone_bytes());
            return Ok(ZoneEntry { doing: ZoneUse::Unknown, activation, stream: None, end });
        }
        let Some(activation) = search.newest else {
            let is_empty = search.is_whole && start == Start::Bytes;
            return if is_empty { self.mark_free(zone).await } else { Ok(ZoneEntry::NEVER) };
        };
        tracing::error!(device = device.0, zone = zone.0, activation = activation.0, %error, "a lost zone header was found again by its frames");
        let end = self.end_of_frames(zone, activation, None).await;
        self.seal(zone, activation, None, end).await
    }

    /// Zones are filled from the start: of one that was never used the header area, and the first block of its data, are zero, unless the disk
    /// held something else before.
    async fn start_of(&self, zone: ZoneIndex) -> Start {
        let len = readable_end(&**self.disk, self.geometry, zone).min(ZONE_DATA_START + BLOCK_BYTES as u64);
        if len == 0 {
            return Start::Zeros;
        }
        match self.disk.read(self.geometry.zone_start(zone), len as usize, ReadMode::Direct).await {
            Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => Start::Zeros,
            Ok(_) => Start::Bytes,
            Err(_) => Start::Unreadable,
        }
    }

    /// Writes down that a zone holds none of our frames, so that the next start need not search it again.
    async fn mark_free(&self, zone: ZoneIndex) -> Result<ZoneEntry, OpenError> {
        match reused::has_space(&**self.disk, self.geometry, zone).await? {
            true => self.seal(zone, Activation(0), None, ZONE_DATA_START).await,
            false => Ok(ZoneEntry::NEVER),
        }
    }

    /// Where the last frame of a zone ends, as a multiple of a block.
    async fn end_of_frames(&self, zone: ZoneIndex, activation: Activation, stream: Option<ZoneStream>) -> u64 {
        let segment = Segment {
            zone,
            activation,
            stream,
            seed: seed_of(self.superblock, zone, activation),
            start: ZONE_DATA_START,
            end: readable_end(&**self.disk, self.geometry, zone),
            is_unknown: false,
        };
        let device = self.superblock.device;
        let mut walk = Walk::new(self.disk.clone(), self.env, self.geometry, device, vec![segment], ReadMode::Cached, false);
        let mut end = ZONE_DATA_START;
        while let Some(event) = walk.next().await {
            let event_end = match event {
                WalkEvent::Frame(frame) => frame.position.offset.bytes() + frame.bytes.len() as u64,
                // Kept within the zone, so that later walks report it too.
                WalkEvent::Damaged { position, .. } => position.offset.bytes() + BLOCK_BYTES as u64,
                WalkEvent::Unreadable { position, bytes, .. } => position.offset.bytes() + bytes,
            };
            end = end.max(event_end);
        }
        end.next_multiple_of(BLOCK_BYTES as u64).min(self.geometry.zone_bytes())
    }

    /// Ends the activation that a zone was in.
    async fn seal(
        &self,
        zone: ZoneIndex,
        activation: Activation,
        stream: Option<ZoneStream>,
        end: u64,
    ) -> Result<ZoneEntry, OpenError> {
        let is_empty = end == ZONE_DATA_START;
        let (state, doing) = if is_empty { (ZoneState::Free, ZoneUse::Free) } else { (ZoneState::Finished, ZoneUse::Finished) };
        let header = zone_header(self.superblock, self.env, (zone, activation), state, stream, end);
        put_header(&**self.disk, self.geometry, &header).await?;
        Ok(ZoneEntry { doing, activation, stream, end })
    }
}
