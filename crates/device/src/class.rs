//! What is appended, and into which stream of zones it goes.
//!
//! Four classes, three streams. Objects and tombstones share the ordered stream, because the position of a record is the order
//! of its operation: a delete between two puts of one key must stand between them, which two streams could not promise. What
//! sets the classes apart within the stream is how deep into the reserve they may go.

use format::zone_header::ZoneStream;

use crate::limits::{RESERVE_COPY_ZONES, RESERVE_META_ZONES, RESERVE_RELOCATION_ZONES, RESERVE_TOMBSTONE_ZONES};

/// What is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AppendClass {
    /// Objects, chunks, descriptors: whatever a put writes. Refused first when the device fills up.
    Data,
    /// Records that delete, and small ones without which deleting stalls. In the same stream as [`AppendClass::Data`]; may
    /// open a reserved zone.
    Tombstone,
    /// Copies made by collection or repair. Their positions are not orders.
    Relocation,
    /// Checkpoints and lists. Their positions are not orders.
    Meta,
}

/// Number of classes.
pub(crate) const CLASSES: usize = 4;

impl AppendClass {
    /// All classes.
    pub const ALL: [AppendClass; CLASSES] =
        [AppendClass::Data, AppendClass::Tombstone, AppendClass::Relocation, AppendClass::Meta];

    /// The stream of zones that the class is appended to.
    pub const fn stream(self) -> ZoneStream {
        match self {
            AppendClass::Data | AppendClass::Tombstone => ZoneStream::Ordered,
            AppendClass::Relocation => ZoneStream::Relocated,
            AppendClass::Meta => ZoneStream::Meta,
        }
    }

    /// The class may take a free zone only while more than this many are free and no zones of the reserve are in use. Zones that
    /// the streams behind the reserve have open count for them: see the book.
    pub const fn free_zones_kept(self) -> usize {
        match self {
            AppendClass::Data => RESERVE_RELOCATION_ZONES + RESERVE_META_ZONES + RESERVE_TOMBSTONE_ZONES,
            AppendClass::Tombstone => RESERVE_COPY_ZONES + RESERVE_META_ZONES,
            AppendClass::Meta => RESERVE_COPY_ZONES,
            AppendClass::Relocation => 0,
        }
    }

    pub(crate) const fn index(self) -> usize {
        match self {
            AppendClass::Data => 0,
            AppendClass::Tombstone => 1,
            AppendClass::Relocation => 2,
            AppendClass::Meta => 3,
        }
    }
}

/// Number of streams.
pub(crate) const STREAMS: usize = 3;

pub(crate) const fn stream_index(stream: ZoneStream) -> usize {
    match stream {
        ZoneStream::Ordered => 0,
        ZoneStream::Relocated => 1,
        ZoneStream::Meta => 2,
    }
}
