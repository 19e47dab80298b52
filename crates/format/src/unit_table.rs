//! The unit table of a device: which of its zones are lent, and to which unit of which volume (docs/rfd/0023).
//!
//! A volume is a space of addresses that is divided into units. A unit that was written to has a zone of the device; any other reads as zeros. The
//! table is kept as notes of kind [`crate::superblock::notes::NotesKind::Units`], which add a checksum and a sequence number. It decides; the
//! headers of lent zones only repeat it.
//!
//! Little endian: `count` u32, reserved u32, then `count` entries of 16 bytes, ascending by zone:
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 2 | `zone` | index of the zone |
//! | 2 | 1 | `owner` | [`VolumeOwner`] |
//! | 3 | 1 | reserved | zero |
//! | 4 | 4 | `unit` | index of the unit in the owner's volume |
//! | 8 | 8 | `activation` | of the zone, which it got when it was lent |
//!
//! Invariant: a zone stands once, and so does a unit of a volume.

use std::collections::BTreeSet;

use types::{Activation, ZoneIndex};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::decode::{DecodeError, Fault, Reader};
use crate::layout::fixed_layout;
use crate::superblock::notes::NotesKind;

/// Most zones of a device that a table can name.
pub const MAX_UNITS: usize = 1 << 16;

const RECORD: &str = "unit table";
const HEAD_BYTES: usize = 8;
const ENTRY_BYTES: usize = 16;

const _: () = assert!(HEAD_BYTES + MAX_UNITS * ENTRY_BYTES <= NotesKind::Units.max_bytes());

/// The parts of the system that have a volume on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum VolumeOwner {
    /// The chunk store.
    Chunks = 1,
    /// Block images.
    Images = 2,
    /// File volumes.
    Files = 3,
    /// The volume engine.
    Objects = 4,
}

impl VolumeOwner {
    /// All owners.
    pub const ALL: [VolumeOwner; 4] = [VolumeOwner::Chunks, VolumeOwner::Images, VolumeOwner::Files, VolumeOwner::Objects];

    /// The owner's name in tables and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            VolumeOwner::Chunks => "chunks",
            VolumeOwner::Images => "images",
            VolumeOwner::Files => "files",
            VolumeOwner::Objects => "volume-engine",
        }
    }
}

/// A zone that is lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LentUnit {
    pub zone: ZoneIndex,
    pub owner: VolumeOwner,
    /// Index of the unit in the owner's volume.
    pub unit: u32,
    pub activation: Activation,
}

fixed_layout! {
    pub(crate) struct UnitTableHeadLayout: 8 {
        0 count: U32,
        4 reserved: U32,
    }
}

fixed_layout! {
    pub(crate) struct LentUnitLayout: 16 {
        0 zone: U16,
        2 owner: u8,
        3 reserved: u8,
        4 unit: U32,
        8 activation: U64,
    }
}

/// The bytes of a table.
///
/// Panics when `units` are more than [`MAX_UNITS`], or a zone has a higher index.
pub fn encode(units: &[LentUnit]) -> Vec<u8> {
    assert!(units.len() <= MAX_UNITS, "{} units", units.len());
    let mut out = Vec::with_capacity(HEAD_BYTES + ENTRY_BYTES * units.len());
    out.extend_from_slice(UnitTableHeadLayout { count: (units.len() as u32).into(), reserved: U32::ZERO }.as_bytes());
    for LentUnit { zone, owner, unit, activation } in units {
        let zone = u16::try_from(zone.0).expect("a device has no more zones");
        let (unit, activation) = ((*unit).into(), activation.0.into());
        out.extend_from_slice(
            LentUnitLayout { zone: zone.into(), owner: *owner as u8, reserved: 0, unit, activation }.as_bytes(),
        );
    }
    out
}

/// Reads a table.
pub fn decode(bytes: &[u8]) -> Result<Vec<LentUnit>, DecodeError> {
    let mut reader = Reader::new(RECORD, bytes);
    let head: &UnitTableHeadLayout = reader.fixed("head")?;
    let count = head.count.get() as usize;
    reader.check_count(0, count, ENTRY_BYTES, "count")?;
    if head.reserved != U32::ZERO {
        return Err(reader.error_at(4, "reserved", Fault::Unknown { found: u64::from(head.reserved.get()) }));
    }
    let mut units: Vec<LentUnit> = Vec::with_capacity(count);
    let mut seen = BTreeSet::new();
    for _ in 0..count {
        let at = reader.offset();
        let entry: &LentUnitLayout = reader.fixed("unit")?;
        if entry.reserved != 0 {
            return Err(reader.error_at(at + 3, "reserved", Fault::Unknown { found: u64::from(entry.reserved) }));
        }
        let owner = VolumeOwner::ALL.into_iter().find(|owner| *owner as u8 == entry.owner);
        let owner = owner.ok_or_else(|| reader.error_at(at + 2, "owner", Fault::Unknown { found: u64::from(entry.owner) }))?;
        let (zone, unit) = (ZoneIndex(u32::from(entry.zone.get())), entry.unit.get());
        if units.last().is_some_and(|before| before.zone >= zone) {
            return Err(reader.error_at(at, "zone", Fault::Unordered));
        }
        if !seen.insert((owner, unit)) {
            return Err(reader.error_at(at + 4, "unit", Fault::Unknown { found: u64::from(unit) }));
        }
        units.push(LentUnit { zone, owner, unit, activation: Activation(entry.activation.get()) });
    }
    reader.finish()?;
    Ok(units)
}

#[cfg(test)]
mod tests;
