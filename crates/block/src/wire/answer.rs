//! Answers.

use bytes::{BufMut, Bytes, BytesMut};
use format::decode::{Fault, Reader};
use types::limits::BLOCK_BYTES;
use types::{BLOB_BYTES, DeviceId, ImageId};

use super::field::{MIN_ROW_BYTES, USE_BYTES, put_list, rest, take_list, unknown};
use super::{MAX_PAGE_ROWS, MAX_REASON_BYTES, MAX_USES, NodeUse, Usage, Wire, WireError};
use crate::stores::{BlobRow, BlobSums, BlockSum, StoreError};

/// The first byte of an answer that is no failure.
pub(super) const GOOD: u8 = 0;
/// Most sums of a blob.
const MAX_SUMS: usize = BLOB_BYTES as usize / BLOCK_BYTES;

impl Wire for StoreError {
    fn put(&self, out: &mut BytesMut) {
        match self {
            StoreError::Superseded => out.put_u8(1),
            StoreError::Unknown => out.put_u8(2),
            StoreError::NoSpace(device) => {
                out.put_u8(3);
                device.put(out);
            }
            StoreError::Absent => out.put_u8(4),
            StoreError::Invalid(reason) => put_reason(5, reason, out),
            StoreError::Failed(reason) => put_reason(6, reason, out),
            StoreError::Silent(reason) => put_reason(7, reason, out),
        }
    }

    fn read(input: &mut Reader<'_>, whole: &Bytes) -> Result<Self, WireError> {
        Ok(match input.u8("kind")? {
            1 => StoreError::Superseded,
            2 => StoreError::Unknown,
            3 => StoreError::NoSpace(DeviceId::read(input, whole)?),
            4 => StoreError::Absent,
            5 => StoreError::Invalid(take_reason(input)?),
            6 => StoreError::Failed(take_reason(input)?),
            7 => StoreError::Silent(take_reason(input)?),
            found => return Err(unknown(input, "kind", found)),
        })
    }
}

fn put_reason(kind: u8, reason: &str, out: &mut BytesMut) {
    out.put_u8(kind);
    let sent = reason.floor_char_boundary(MAX_REASON_BYTES);
    out.put_slice(&reason.as_bytes()[..sent]);
}

fn take_reason(input: &mut Reader<'_>) -> Result<String, WireError> {
    let at = input.offset();
    let bytes = rest(input, "reason", MAX_REASON_BYTES)?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => {
            let wrong = error.valid_up_to();
            Err(input.error_at(at + wrong, "reason", Fault::Unknown { found: u64::from(bytes[wrong]) }))
        }
    }
}

impl Wire for () {
    fn put(&self, _: &mut BytesMut) {}

    fn read(_: &mut Reader<'_>, _: &Bytes) -> Result<Self, WireError> {
        Ok(())
    }
}

/// A block.
impl Wire for u32 {
    fn put(&self, out: &mut BytesMut) {
        out.put_u32_le(*self);
    }

    fn read(input: &mut Reader<'_>, _: &Bytes) -> Result<Self, WireError> {
        input.u32("block")
    }
}

/// A page of rows.
impl Wire for Vec<BlobRow> {
    fn put(&self, out: &mut BytesMut) {
        put_list(self, MAX_PAGE_ROWS, out);
    }

    fn read(input: &mut Reader<'_>, whole: &Bytes) -> Result<Self, WireError> {
        take_list(input, whole, "rows", (MIN_ROW_BYTES, MAX_PAGE_ROWS))
    }
}

impl Wire for BlobSums {
    fn put(&self, out: &mut BytesMut) {
        self.row.put(out);
        put_list(&self.sums, MAX_SUMS, out);
    }

    fn read(input: &mut Reader<'_>, whole: &Bytes) -> Result<Self, WireError> {
        let row = BlobRow::read(input, whole)?;
        Ok(BlobSums { row, sums: take_list(input, whole, "sums", (size_of::<BlockSum>(), MAX_SUMS))? })
    }
}

impl Wire for BlockSum {
    fn put(&self, out: &mut BytesMut) {
        out.put_slice(self);
    }

    fn read(input: &mut Reader<'_>, _: &Bytes) -> Result<Self, WireError> {
        input.array("sum")
    }
}

impl Wire for Usage {
    fn put(&self, out: &mut BytesMut) {
        out.put_u64_le(self.room_bytes);
        put_list(&self.images, MAX_USES, out);
    }

    fn read(input: &mut Reader<'_>, whole: &Bytes) -> Result<Self, WireError> {
        Ok(Usage { room_bytes: input.u64("room")?, images: take_list(input, whole, "uses", (USE_BYTES, MAX_USES))? })
    }
}

impl Wire for NodeUse {
    fn put(&self, out: &mut BytesMut) {
        out.put_u64_le(self.image.0);
        out.put_u64_le(self.blocks);
        out.put_u64_le(self.pieces);
    }

    fn read(input: &mut Reader<'_>, _: &Bytes) -> Result<Self, WireError> {
        Ok(NodeUse { image: ImageId(input.u64("image")?), blocks: input.u64("blocks")?, pieces: input.u64("pieces")? })
    }
}
