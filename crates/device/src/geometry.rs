//! Where the zones of a device lie.

use format::superblock::ZoneRegion;
use format::zone_header::ZONE_DATA_START;
use types::limits::BLOCK_BYTES;
use types::{Place, ZoneIndex};

use crate::limits::{MAX_ZONES, MIN_ZONE_BYTES, MIN_ZONES};

/// Largest zone: offsets are 32-bit counts of 64-byte units.
pub const MAX_ZONE_BYTES: u64 = u32::MAX as u64 * types::limits::UNIT_BYTES as u64 / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;

/// The zone region of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    region: ZoneRegion,
}

impl Geometry {
    /// None when the region can't be one: a superblock passed its CRC with figures that make no sense.
    pub(crate) fn new(region: ZoneRegion) -> Option<Geometry> {
        let aligned =
            region.zone_bytes.is_multiple_of(BLOCK_BYTES as u64) && region.first_byte.is_multiple_of(BLOCK_BYTES as u64);
        let sized = (MIN_ZONE_BYTES..=MAX_ZONE_BYTES).contains(&region.zone_bytes)
            && (MIN_ZONES..=MAX_ZONES).contains(&region.zone_count);
        let end = region.zone_bytes.checked_mul(u64::from(region.zone_count))?.checked_add(region.first_byte)?;
        (aligned && sized && end <= i64::MAX as u64).then_some(Geometry { region })
    }

    pub(crate) fn zone_count(&self) -> u32 {
        self.region.zone_count
    }

    pub(crate) fn zone_bytes(&self) -> u64 {
        self.region.zone_bytes
    }

    /// Bytes of a zone that frames can use.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.region.zone_bytes - ZONE_DATA_START
    }

    pub(crate) fn zones(&self) -> impl Iterator<Item = ZoneIndex> + use<> {
        (0..self.region.zone_count).map(ZoneIndex)
    }

    /// Where a zone starts on the disk.
    pub(crate) fn zone_start(&self, zone: ZoneIndex) -> u64 {
        self.region.first_byte + u64::from(zone.0) * self.region.zone_bytes
    }

    /// Where a zone's byte `in_zone` stands on the disk.
    pub(crate) fn disk_offset(&self, zone: ZoneIndex, in_zone: u64) -> u64 {
        self.zone_start(zone) + in_zone
    }

    /// Whether a frame may stand at `place`.
    pub(crate) fn holds(&self, place: Place) -> bool {
        let at = place.offset.bytes();
        place.zone.0 < self.region.zone_count && (ZONE_DATA_START..self.region.zone_bytes).contains(&at)
    }
}
