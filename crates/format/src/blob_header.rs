//! The header of a blob: which part of which image it is, and which of its pieces mean something (docs/rfd/0024).
//!
//! ```text
//! 0              4 KiB          8 KiB                                  8 KiB + 4 MiB
//! ├─ slot 0 ─────┼─ slot 1 ─────┼─ 64 pieces of 64 KiB, in place ───────┤
//! ```
//!
//! A header is written to the slot of its serial number's parity, so that a torn write leaves the one before. The newest slot that may be
//! believed counts. Little endian; the rest of a slot is zero.
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `crc` | CRC32C over `[4, 128)` |
//! | 4 | 4 | `magic` | `TbHd` |
//! | 8 | 1 | `version` | [`BLOB_HEADER_VERSION`] |
//! | 9 | 1 | `state` | [`BlobState`] |
//! | 10 | 2 | reserved | zero |
//! | 12 | 4 | `block` | number of the block on its device |
//! | 16 | 16 | `device_uuid` | |
//! | 32 | 8 | `serial` | of this write of the header |
//! | 40 | 8 | `image` | |
//! | 48 | 4 | `index` | which part of the image |
//! | 52 | 4 | `layer` | |
//! | 56 | 8 | `token` | of the holder that may have changed the content since |
//! | 64 | 8 | `epoch` | of the image, when that holder last announced itself here |
//! | 72 | 8 | `owned` | pieces that say what the image has there; the others are as the layer below says |
//! | 80 | 8 | `data` | those of them that have content; the others of them are zeros |
//! | 88 | 8 | `parent` | image that this one was cloned from; 0: none |
//! | 96 | 4 | `parent_layer` | layer of that image |
//! | 100 | 28 | reserved | zero |
//!
//! Invariants: `data` is a part of `owned`; a free block names no image.

use crc_fast::crc32_iscsi;
use types::{BLOB_BYTES, BlobId, DeviceUuid, ImageEpoch, ImageId, Layer, LayerOf, Pieces, Token};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::decode::{DecodeError, Fault, Reader};
use crate::layout::fixed_layout;

/// Version written; 1: the first.
pub const BLOB_HEADER_VERSION: u8 = 1;
/// Bytes of one slot.
pub const BLOB_SLOT_BYTES: usize = types::limits::BLOCK_BYTES;
/// Slots in front of the content.
pub const BLOB_SLOTS: u64 = 2;
/// Bytes from one block of a device to the next.
pub const BLOB_STRIDE_BYTES: u64 = BLOB_SLOTS * BLOB_SLOT_BYTES as u64 + BLOB_BYTES as u64;

const MAGIC: [u8; 4] = *b"TbHd";
const HEADER_BYTES: usize = 128;
const CRC_BYTES: usize = 4;
const RECORD: &str = "blob header";

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlobState {
    /// Nothing is in it.
    Free = 0,
    /// A copy of a blob that counts while its device is in sync with the image.
    Whole = 1,
    /// A copy that is being made: it takes all writes, and counts when it is whole.
    Partial = 2,
}

/// A whole header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobHeader {
    pub device_uuid: DeviceUuid,
    pub block: u32,
    /// Decides the slot.
    pub serial: u64,
    pub state: BlobState,
    pub id: BlobId,
    pub token: Token,
    pub epoch: ImageEpoch,
    pub owned: Pieces,
    pub data: Pieces,
    pub parent: Option<LayerOf>,
}

fixed_layout! {
    pub(crate) struct BlobHeaderLayout: 128 {
        0 crc: U32,
        4 magic: [u8; 4],
        8 version: u8,
        9 state: u8,
        10 reserved_a: U16,
        12 block: U32,
        16 device_uuid: [u8; 16],
        32 serial: U64,
        40 image: U64,
        48 index: U32,
        52 layer: U32,
        56 token: U64,
        64 epoch: U64,
        72 owned: U64,
        80 data: U64,
        88 parent: U64,
        96 parent_layer: U32,
        100 reserved_b: [u8; 28],
    }
}

const _: () = assert!(size_of::<BlobHeaderLayout>() == HEADER_BYTES);

impl BlobHeader {
    /// The slot in which a header stands.
    pub fn slot(&self) -> u64 {
        self.serial % BLOB_SLOTS
    }

    /// The bytes of a slot.
    ///
    /// Panics when a piece has content that is not owned.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        assert!(self.owned.covers(self.data), "content of pieces that are not owned");
        let parent = self.parent.unwrap_or(LayerOf { image: ImageId(0), layer: Layer(0) });
        let layout = BlobHeaderLayout {
            crc: U32::ZERO,
            magic: MAGIC,
            version: BLOB_HEADER_VERSION,
            state: self.state as u8,
            reserved_a: U16::ZERO,
            block: self.block.into(),
            device_uuid: self.device_uuid.0,
            serial: self.serial.into(),
            image: self.id.image.0.into(),
            index: self.id.index.into(),
            layer: self.id.layer.0.into(),
            token: self.token.0.into(),
            epoch: self.epoch.0.into(),
            owned: self.owned.0.into(),
            data: self.data.0.into(),
            parent: parent.image.0.into(),
            parent_layer: parent.layer.0.into(),
            reserved_b: [0; 28],
        };
        let mut out = [0; HEADER_BYTES];
        out.copy_from_slice(layout.as_bytes());
        let crc = crc32_iscsi(&out[CRC_BYTES..]);
        out[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads one slot; bytes behind the header do not count.
    pub fn decode(slot: &[u8]) -> Result<BlobHeader, DecodeError> {
        let mut reader = Reader::new(RECORD, slot);
        let layout: &BlobHeaderLayout = reader.fixed("header")?;
        if layout.magic != MAGIC {
            let found = u64::from(u32::from_le_bytes(layout.magic));
            return Err(reader.error_at(4, "magic", Fault::Unknown { found }));
        }
        reader.check_version(8, layout.version, BLOB_HEADER_VERSION)?;
        let (expected, found) = (crc32_iscsi(&slot[CRC_BYTES..HEADER_BYTES]), layout.crc.get());
        if expected != found {
            return Err(reader.error_at(0, "crc", Fault::Checksum { expected, found }));
        }
        let state = match layout.state {
            0 => BlobState::Free,
            1 => BlobState::Whole,
            2 => BlobState::Partial,
            found => return Err(reader.error_at(9, "state", Fault::Unknown { found: u64::from(found) })),
        };
        let (owned, data) = (Pieces(layout.owned.get()), Pieces(layout.data.get()));
        if !owned.covers(data) {
            return Err(reader.error_at(80, "data", Fault::Unknown { found: data.0 }));
        }
        if (state == BlobState::Free) != (layout.image == U64::ZERO) {
            return Err(reader.error_at(40, "image", Fault::Unknown { found: layout.image.get() }));
        }
        if layout.reserved_a != U16::ZERO || layout.reserved_b != [0; 28] {
            return Err(reader.error_at(100, "reserved", Fault::Unknown { found: u64::from(layout.reserved_b[0]) }));
        }
        let parent = LayerOf { image: ImageId(layout.parent.get()), layer: Layer(layout.parent_layer.get()) };
        Ok(BlobHeader {
            device_uuid: DeviceUuid(layout.device_uuid),
            block: layout.block.get(),
            serial: layout.serial.get(),
            state,
            id: BlobId { image: ImageId(layout.image.get()), index: layout.index.get(), layer: Layer(layout.layer.get()) },
            token: Token(layout.token.get()),
            epoch: ImageEpoch(layout.epoch.get()),
            owned,
            data,
            parent: (parent.image != ImageId(0)).then_some(parent),
        })
    }
}

#[cfg(test)]
mod tests;
