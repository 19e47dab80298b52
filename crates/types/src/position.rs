//! Where bytes are, and in which order they were written: two separate things (RFD 2, decisions 2 and 10).
//!
//! A [`Position`] orders appends on one device and survives the reuse of zones, because activations only count upwards.
//! An [`Order`] is the position at which an operation stood in its primary's log when it was written, under the generation of
//! the replica-set table that chose the primary; only orders are compared. A [`Place`] says where a copy is now.

use crate::id::{DeviceId, Generation};
use crate::limits::UNIT_BYTES;

/// A zone's number on its device, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ZoneIndex(pub u32);

/// How many times zones of a device had been activated when this zone was; unique on a device, from 1, only counting up.
/// Zero means "never" and sorts before every real activation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Activation(pub u64);

/// An offset within a zone, in units of 64 bytes ([`UNIT_BYTES`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ZoneOffset(pub u32);

impl ZoneOffset {
    /// The offset in bytes from the start of the zone.
    pub const fn bytes(self) -> u64 {
        self.0 as u64 * UNIT_BYTES as u64
    }

    /// The offset of a byte that stands on a unit boundary.
    pub const fn from_bytes(bytes: u64) -> Self {
        assert!(bytes.is_multiple_of(UNIT_BYTES as u64));
        assert!(bytes / (UNIT_BYTES as u64) <= u32::MAX as u64);
        ZoneOffset((bytes / UNIT_BYTES as u64) as u32)
    }
}

/// A point in one device's log. Comparable on one device only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Position {
    pub activation: Activation,
    pub offset: ZoneOffset,
}

/// The order of an operation among all operations of its key (RFD 2, decision 2). Field order is comparison order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Order {
    pub generation: Generation,
    pub activation: Activation,
    pub offset: ZoneOffset,
}

impl Order {
    /// The order of an operation whose primary copy stands at `position`.
    pub const fn new(generation: Generation, position: Position) -> Self {
        Order { generation, activation: position.activation, offset: position.offset }
    }

    /// The position on the primary, without the generation.
    pub const fn position(self) -> Position {
        Position { activation: self.activation, offset: self.offset }
    }
}

/// Where one copy of a record is now. It stays valid until the zone is reset; a reader proves what it finds there by the
/// record's own identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Place {
    pub device: DeviceId,
    pub zone: ZoneIndex,
    pub offset: ZoneOffset,
}

#[cfg(test)]
mod tests;
