//! What chunks whose rows are in pages hold in each block: the longest part of a closed shard's image, since it has all of its blocks. So blocks that follow each other and
//! hold the same are written once, and numbers are as long as they have to be: a shard of full chunks has a handful of bytes for each bulk, and one of mixed ones about
//! 5 for each block.
//!
//! A run of blocks is four numbers: how many blocks lie between it and the run before; blocks beside the first; bytes in each; entries in each. Bytes are twice
//! their count of [`CONTENT_ALIGNMENT`], or, where they are no multiple of it, twice themselves and 1. A number is in groups of 7 bits, the lowest first; the highest bit of a byte
//! says that there are more.

use format::chunk_block::CONTENT_ALIGNMENT;
use format::chunk_place::BlockPlace;
use format::decode::Reader;

use super::{ImageError, count, put_u64, read_place};

/// Bytes and entries in a block.
pub(super) type ArchivedUse = (BlockPlace, u32, u16);

/// The shortest run.
const RUN_BYTES: usize = 4;
/// In images of version 3, which had each block by itself.
const FORMER_BYTES: usize = 14;

const GROUP_BITS: u32 = 7;
const MORE: u8 = 1 << GROUP_BITS;

/// These are in the order of their places.
pub(super) fn put_uses(out: &mut Vec<u8>, uses: &[ArchivedUse]) {
    let follows = |pair: &[ArchivedUse]| pair[0].0.to_bits() + 1 == pair[1].0.to_bits();
    let runs: Vec<&[ArchivedUse]> =
        uses.chunk_by(|one, next| follows(&[*one, *next]) && (one.1, one.2) == (next.1, next.2)).collect();
    put_u64(out, runs.len() as u64);
    let mut end = 0;
    for run in runs {
        let (place, bytes, entries) = run[0];
        let is_aligned = bytes.is_multiple_of(CONTENT_ALIGNMENT);
        let bytes = if is_aligned { u64::from(bytes / CONTENT_ALIGNMENT) << 1 } else { u64::from(bytes) << 1 | 1 };
        put_number(out, place.to_bits() - end);
        put_number(out, run.len() as u64 - 1);
        put_number(out, bytes);
        put_number(out, u64::from(entries));
        end = place.to_bits() + run.len() as u64;
    }
}

/// No more than `most` blocks: so many there are.
pub(super) fn read_uses(reader: &mut Reader<'_>, most: u64) -> Result<Vec<ArchivedUse>, ImageError> {
    let (mut uses, mut end) = (Vec::new(), 0_u64);
    for _ in 0..count(reader, RUN_BYTES, "use by chunks in pages")? {
        let (gap, further) = (read_number(reader)?, read_number(reader)?);
        let (bytes, entries) = (read_number(reader)?, read_number(reader)?);
        let bytes = if bytes & 1 == 0 { (bytes >> 1).checked_mul(u64::from(CONTENT_ALIGNMENT)) } else { Some(bytes >> 1) };
        let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
        let (Some(bytes), Ok(entries)) = (bytes, u16::try_from(entries)) else {
            return Err(ImageError::Impossible("a block that holds more than it can"));
        };
        let last = end.checked_add(gap).and_then(|first| first.checked_add(further));
        let Some(last) = last.filter(|_| further < most - uses.len() as u64) else {
            return Err(ImageError::Impossible("use of more blocks than there are"));
        };
        for bits in last - further..=last {
            let place = BlockPlace::from_bits(bits).ok_or(ImageError::Impossible("a place that there can't be"))?;
            uses.push((place, bytes, entries));
        }
        end = last.checked_add(1).ok_or(ImageError::Impossible("a place that there can't be"))?;
    }
    Ok(uses)
}

/// As version 3 has it.
pub(super) fn read_former_uses(reader: &mut Reader<'_>) -> Result<Vec<ArchivedUse>, ImageError> {
    let uses = 0..count(reader, FORMER_BYTES, "use by chunks in pages")?;
    uses.map(|_| Ok((read_place(reader)?, reader.u32("bytes")?, reader.u16("entries")?))).collect()
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= u64::from(MORE) {
        out.push(number as u8 | MORE);
        number >>= GROUP_BITS;
    }
    out.push(number as u8);
}

fn read_number(reader: &mut Reader<'_>) -> Result<u64, ImageError> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(GROUP_BITS as usize) {
        let byte = reader.u8("number")?;
        let group = u64::from(byte & !MORE);
        if group << shift >> shift != group {
            break;
        }
        number |= group << shift;
        if byte & MORE == 0 {
            return Ok(number);
        }
    }
    Err(ImageError::Impossible("a number that is too long"))
}

#[cfg(test)]
mod tests;
