//! The index entry: what a gateway's maps, notices and runs say of a name (RFD 2, decisions 2 and 10).
//!
//! `order` is where the operation stood in its primary's log when it was written; `places` is where the copies are now.
//! Relocation changes places, never the order, and only orders are compared.

use types::limits::MAX_REPLICAS;
use types::{Epoch, GatewayId, KEY_HASH_BYTES, KeyHash, Order, Sequence};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::decode::{DecodeError, Fault, Reader};
use crate::layout::fixed_layout;
use crate::record::{OrderLayout, WriteId};
use crate::replicas::{PlaceLayout, check_count};

pub use crate::replicas::Places;

/// Bytes of an encoded entry.
pub const ENTRY_BYTES: usize = size_of::<EntryLayout>();

/// What stands under a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryState {
    #[default]
    Live = 0,
    /// Deleted: the record at `places` is a tombstone.
    Tombstone = 1,
    /// Deleted by a record that is itself a version.
    DeleteMarker = 2,
}

/// What a gateway knows of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub hash: KeyHash,
    pub write: WriteId,
    pub epoch: Epoch,
    pub order: Order,
    /// The primary's first.
    pub places: Places,
    /// Bytes of the record's frame: what a reader asks the device for.
    pub frame_bytes: u32,
    /// Bytes of the object.
    pub length: u64,
    pub state: EntryState,
    /// The record is a descriptor; the content stands in chunks.
    pub large: bool,
}

fixed_layout! {
    pub(crate) struct EntryLayout: 104 {
        0 hash: [u8; KEY_HASH_BYTES],
        20 gateway: U16,
        22 state: u8,
        /// Low two bits: number of places. Bit 2: large.
        23 shape: u8,
        24 sequence: U64,
        32 epoch: U64,
        40 order: OrderLayout,
        56 length: U64,
        64 frame_bytes: U32,
        68 places: [PlaceLayout; MAX_REPLICAS],
    }
}

pub(crate) const COUNT_BITS: u8 = 3;
pub(crate) const LARGE: u8 = 4;

impl Entry {
    /// Whether this entry replaces `other` of the same name: by order alone.
    pub fn is_newer_than(&self, other: &Entry) -> bool {
        self.order > other.order
    }

    /// The fixed form of messages.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let layout = EntryLayout {
            hash: *self.hash.as_bytes(),
            gateway: self.write.gateway.0.into(),
            state: self.state as u8,
            shape: self.shape(),
            sequence: self.write.sequence.0.into(),
            epoch: self.epoch.0.into(),
            order: OrderLayout::new(self.order),
            length: self.length.into(),
            frame_bytes: self.frame_bytes.into(),
            places: PlaceLayout::pack(&self.places),
        };
        zerocopy::transmute!(layout)
    }

    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.encode().as_bytes());
    }

    /// Reads an entry that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Entry, DecodeError> {
        let mut reader = Reader::new("entry", bytes);
        let entry = Entry::read(&mut reader)?;
        reader.finish()?;
        Ok(entry)
    }

    /// Reads an entry and leaves the reader behind it.
    pub fn read(reader: &mut Reader<'_>) -> Result<Entry, DecodeError> {
        let at = reader.offset();
        let layout: &EntryLayout = reader.fixed("entry")?;
        let state = EntryState::from_number(layout.state)
            .ok_or_else(|| reader.error_at(at + 22, "entry state", Fault::Unknown { found: u64::from(layout.state) }))?;
        let (count, large) = read_shape(layout.shape).map_err(|fault| reader.error_at(at + 23, "entry shape", fault))?;
        Ok(Entry {
            hash: KeyHash::from_bytes(layout.hash),
            write: WriteId { gateway: GatewayId(layout.gateway.get()), sequence: Sequence(layout.sequence.get()) },
            epoch: Epoch(layout.epoch.get()),
            order: layout.order.get(),
            places: PlaceLayout::unpack(&layout.places, count),
            frame_bytes: layout.frame_bytes.get(),
            length: layout.length.get(),
            state,
            large,
        })
    }

    /// Number of places and largeness in one byte.
    pub(crate) fn shape(&self) -> u8 {
        self.places.len() as u8 | if self.large { LARGE } else { 0 }
    }
}

/// Number of places and largeness.
fn read_shape(shape: u8) -> Result<(u8, bool), Fault> {
    if shape & !(COUNT_BITS | LARGE) != 0 {
        return Err(Fault::Unknown { found: u64::from(shape) });
    }
    Ok((check_count(shape & COUNT_BITS)?, shape & LARGE != 0))
}

impl EntryState {
    #[inline]
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(EntryState::Live),
            1 => Some(EntryState::Tombstone),
            2 => Some(EntryState::DeleteMarker),
            _ => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
