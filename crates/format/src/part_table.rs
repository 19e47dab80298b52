//! The parts of an object that was made by parts: where each ends, and its checksum. It follows the chunk list in the payload of the
//! object's descriptor, so that a read of the record alone does without it, and the parts of a page are found without the chunks.
//!
//! ```text
//! 0        8           8+w
//! ├─ head ─┼─ part 1 ──┼─ part 2 ─┼─ …     w = 8 + bytes of a checksum
//! ```
//!
//! Parts stand by the place that they have in the object; ends ascend. The parts of one object have checksums of one algorithm, or none.

use std::ops::Range;

use bytes::Bytes;
use types::limits::{CHUNK_BYTES, MAX_PARTS, MAX_SMALL_BYTES};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::attributes::{Checksum, ChecksumAlgorithm, ChecksumType, MAX_CHECKSUM_BYTES};
use crate::chunk_ref::ChunkList;
use crate::decode::{DecodeError, Fault, Reader};
use crate::layout::fixed_layout;

/// Version written; 1: the first.
pub const PART_TABLE_VERSION: u8 = 1;

const END_BYTES: usize = 8;
const DESCRIPTOR: &str = "descriptor";

// The longest list with the longest table is a payload like a chunk's.
const _: () = assert!(
    MAX_SMALL_BYTES + size_of::<PartTableLayout>() + MAX_PARTS as usize * (END_BYTES + MAX_CHECKSUM_BYTES) <= CHUNK_BYTES
);

/// The parts of one object, as they stand on media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartTable {
    algorithm: Option<ChecksumAlgorithm>,
    /// With the head.
    bytes: Bytes,
}

/// One part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePart {
    /// Its bytes within the object.
    pub range: Range<u64>,
    pub checksum: Option<Checksum>,
}

fixed_layout! {
    pub(crate) struct PartTableLayout: 8 {
        0 version: u8,
        /// Of all checksums; 0: there are none.
        1 algorithm: u8,
        2 count: U16,
        4 reserved: U32,
    }
}

impl PartTable {
    /// Of the parts' lengths and checksums, in their order. Unless all have a checksum of the content by one algorithm, none is kept.
    ///
    /// # Panics
    ///
    /// With more than [`MAX_PARTS`] parts.
    pub fn of(parts: &[(u64, Option<Checksum>)]) -> PartTable {
        assert!(parts.len() <= usize::from(MAX_PARTS));
        let algorithm_of = |(_, checksum): &(u64, Option<Checksum>)| {
            checksum.filter(|checksum| checksum.kind() == ChecksumType::FullObject).map(|checksum| checksum.algorithm())
        };
        let first = parts.first().and_then(algorithm_of);
        let algorithm = first.filter(|_| parts.iter().all(|part| algorithm_of(part) == first));
        let head = PartTableLayout {
            version: PART_TABLE_VERSION,
            algorithm: algorithm.map_or(0, |algorithm| algorithm as u8),
            count: (parts.len() as u16).into(),
            reserved: U32::ZERO,
        };
        let mut out = Vec::with_capacity(size_of::<PartTableLayout>() + parts.len() * width(algorithm));
        out.extend_from_slice(head.as_bytes());
        let mut end = 0u64;
        for (length, checksum) in parts {
            end += length;
            out.extend_from_slice(&end.to_le_bytes());
            if let Some(checksum) = checksum.filter(|_| algorithm.is_some()) {
                out.extend_from_slice(checksum.value());
            }
        }
        PartTable { algorithm, bytes: out.into() }
    }

    /// As it stands behind the list.
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Number of parts.
    pub fn count(&self) -> u16 {
        ((self.bytes.len() - size_of::<PartTableLayout>()) / width(self.algorithm)) as u16
    }

    /// The n-th part, from 1.
    pub fn get(&self, number: u16) -> Option<TablePart> {
        if number > self.count() {
            return None;
        }
        let row = self.row(number.checked_sub(1)?);
        let start = number.checked_sub(2).map_or(0, |before| end_of(self.row(before)));
        let checksum =
            self.algorithm.and_then(|algorithm| Checksum::new(algorithm, ChecksumType::FullObject, &row[END_BYTES..]));
        Some(TablePart { range: start..end_of(row), checksum })
    }

    fn row(&self, index: u16) -> &[u8] {
        let width = width(self.algorithm);
        &self.bytes[size_of::<PartTableLayout>() + usize::from(index) * width..][..width]
    }

    /// Reads a table that fills the rest of `payload`.
    fn read(payload: &Bytes, mut reader: Reader<'_>) -> Result<PartTable, DecodeError> {
        let at = reader.offset();
        let head: &PartTableLayout = reader.fixed("head")?;
        reader.check_version(at, head.version, PART_TABLE_VERSION)?;
        let algorithm = match head.algorithm {
            0 => None,
            number => Some(
                ChecksumAlgorithm::from_number(number)
                    .ok_or_else(|| reader.error_at(at + 1, "algorithm", Fault::Unknown { found: u64::from(number) }))?,
            ),
        };
        let (count, width) = (usize::from(head.count.get()), width(algorithm));
        reader.check_count(at + 2, count, width, "count")?;
        let first = reader.offset();
        let rows = reader.take(count * width, "parts")?;
        let ends = rows.chunks_exact(width).map(end_of);
        if let Some((index, _)) = ends.clone().zip(ends.skip(1)).enumerate().find(|(_, (end, next))| end > next) {
            return Err(reader.error_at(first + (index + 1) * width, "end of a part", Fault::Unordered));
        }
        reader.finish()?;
        Ok(PartTable { algorithm, bytes: payload.slice(at..) })
    }
}

/// The payload of a descriptor: its list, and its parts if it has any.
pub fn decode_descriptor(payload: &Bytes) -> Result<(ChunkList<'_>, Option<PartTable>), DecodeError> {
    let mut reader = Reader::new(DESCRIPTOR, payload);
    let list = ChunkList::read(&mut reader)?;
    match reader.remaining() {
        0 => Ok((list, None)),
        _ => Ok((list, Some(PartTable::read(payload, reader)?))),
    }
}

fn width(algorithm: Option<ChecksumAlgorithm>) -> usize {
    END_BYTES + algorithm.map_or(0, ChecksumAlgorithm::value_bytes)
}

fn end_of(row: &[u8]) -> u64 {
    u64::from_le_bytes(*row.first_chunk().expect("a row begins with its end"))
}

#[cfg(test)]
mod tests;
