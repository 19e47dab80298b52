//! Update messages: what one insertion, removal or change of the keyed side means for a lookup structure.
//!
//! ```text
//! byte 0: version in the upper half; bit 0 flips, bit 1 bucket changes, bit 2 overlay changes follow
//! varint: generation     varint: sequence
//! flips            varint count, then one varint a classifier node
//! bucket changes   varint count, then each: varint bucket, head byte, order byte?, varint seed?, value and fingerprint bytes?
//!                  head: bit 0 a slot is written, bits 1–2 which, bit 3 the order follows, bit 4 the seed follows
//! overlay changes  varint count, then each: byte 0 or 1 (put with that choice) or 2 (remove), digest of 16 bytes
//! ```
//!
//! Varints are little-endian groups of seven bits, in their shortest form. A message has no checksum: whoever carries it has
//! one (a frame, a log record). It means something only after the message before it: sequences leave no gaps within a generation.

use std::fmt;

use crate::hash::Digest;
use crate::shape::{SLOTS, Shape};
use crate::table::Slot;
use crate::value::{VALUE_WORDS, fits};

/// Version written; 1: the first.
pub const UPDATE_VERSION: u8 = 1;

/// Most items of one kind in a message: far above what an insertion can cause, so that a bad count cannot ask for memory.
pub const MAX_UPDATE_ITEMS: usize = 1 << 20;

/// The order of slots that leaves them where they are: two bits a slot, its source.
pub const ORDER_KEPT: u8 = 0b11_10_01_00;

const FLIPS: u8 = 1;
const BUCKETS: u8 = 2;
const OVERLAY: u8 = 4;

const WRITES: u8 = 1;
const REORDERS: u8 = 8;
const RESEEDS: u8 = 16;

const REMOVE: u8 = 2;

/// One message. An empty one (a removal) still takes its sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    pub generation: u64,
    pub sequence: u64,
    pub(crate) flips: Vec<u32>,
    pub(crate) buckets: Vec<BucketChange>,
    pub(crate) overlay: Vec<OverlayChange>,
}

/// What happens to one bucket: its slots are put into another order, its seed is replaced, one slot is written; in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketChange {
    pub bucket: u32,
    pub order: u8,
    pub seed: Option<u16>,
    pub write: Option<(u8, Slot)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlayChange {
    Put(Digest, u32),
    Remove(Digest),
}

/// Why bytes are not an update message for a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeUpdateError {
    /// The bytes end within the message.
    Truncated,
    /// Bytes follow the message.
    Trailing(usize),
    /// A version that this program does not know.
    Version(u8),
    /// A field has a value that no encoder writes.
    Field(&'static str),
}

impl fmt::Display for DecodeUpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the update ends early"),
            Self::Trailing(count) => write!(f, "{count} bytes follow the update"),
            Self::Version(found) => write!(f, "update of version {found}, not {UPDATE_VERSION}"),
            Self::Field(name) => write!(f, "the update's {name} is out of range"),
        }
    }
}

impl std::error::Error for DecodeUpdateError {}

impl Update {
    /// Whether a lookup structure stays as it is.
    pub fn is_empty(&self) -> bool {
        self.flips.is_empty() && self.buckets.is_empty() && self.overlay.is_empty()
    }

    /// Appends the message to `out`.
    pub fn encode(&self, shape: &Shape, out: &mut Vec<u8>) {
        let mut kinds = 0;
        kinds |= if self.flips.is_empty() { 0 } else { FLIPS };
        kinds |= if self.buckets.is_empty() { 0 } else { BUCKETS };
        kinds |= if self.overlay.is_empty() { 0 } else { OVERLAY };
        out.push(UPDATE_VERSION << 4 | kinds);
        put_varint(out, self.generation);
        put_varint(out, self.sequence);
        if kinds & FLIPS != 0 {
            put_varint(out, self.flips.len() as u64);
            self.flips.iter().for_each(|node| put_varint(out, u64::from(*node)));
        }
        if kinds & BUCKETS != 0 {
            put_varint(out, self.buckets.len() as u64);
            self.buckets.iter().for_each(|change| change.encode(shape, out));
        }
        if kinds & OVERLAY != 0 {
            put_varint(out, self.overlay.len() as u64);
            self.overlay.iter().for_each(|change| change.encode(out));
        }
    }

    /// Reads a message that is exactly `bytes` long and made for this shape. No bytes make it panic.
    pub fn decode(bytes: &[u8], shape: &Shape) -> Result<Self, DecodeUpdateError> {
        let mut input = Input { bytes };
        let head = input.byte()?;
        if head >> 4 != UPDATE_VERSION {
            return Err(DecodeUpdateError::Version(head >> 4));
        }
        let kinds = head & 0xf;
        if kinds & !(FLIPS | BUCKETS | OVERLAY) != 0 {
            return Err(DecodeUpdateError::Field("kinds"));
        }
        let mut update = Self { generation: input.varint()?, sequence: input.varint()?, ..Self::default() };
        if kinds & FLIPS != 0 {
            let nodes = shape.side_a() + shape.side_b();
            update.flips = input.items("flips", |input| Ok(input.below(nodes, "classifier node")? as u32))?;
        }
        if kinds & BUCKETS != 0 {
            update.buckets = input.items("bucket changes", |input| BucketChange::decode(input, shape))?;
        }
        if kinds & OVERLAY != 0 {
            update.overlay = input.items("overlay changes", OverlayChange::decode)?;
        }
        if input.bytes.is_empty() { Ok(update) } else { Err(DecodeUpdateError::Trailing(input.bytes.len())) }
    }
}

impl BucketChange {
    pub fn new(bucket: u64) -> Self {
        Self { bucket: bucket as u32, order: ORDER_KEPT, seed: None, write: None }
    }

    /// Where the content of `slot` comes from.
    pub fn source(&self, slot: usize) -> usize {
        usize::from(self.order >> (2 * slot) & 3)
    }

    fn encode(&self, shape: &Shape, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.bucket));
        let mut head = if self.order == ORDER_KEPT { 0 } else { REORDERS };
        head |= if self.seed.is_some() { RESEEDS } else { 0 };
        head |= self.write.map_or(0, |(slot, _)| WRITES | slot << 1);
        out.push(head);
        if head & REORDERS != 0 {
            out.push(self.order);
        }
        if let Some(seed) = self.seed {
            put_varint(out, u64::from(seed));
        }
        if let Some((_, content)) = &self.write {
            let mut value = [0; VALUE_WORDS * 8];
            value.chunks_exact_mut(8).zip(content.value).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
            out.extend_from_slice(&value[..shape.value_bits().div_ceil(8) as usize]);
            out.extend_from_slice(&content.fingerprint.to_le_bytes()[..shape.fingerprint_bits().div_ceil(8) as usize]);
        }
    }

    fn decode(input: &mut Input<'_>, shape: &Shape) -> Result<Self, DecodeUpdateError> {
        let mut change = Self::new(input.below(shape.buckets(), "bucket")?);
        let head = input.byte()?;
        let slot = head >> 1 & 3;
        if head >= RESEEDS << 1 || (head & WRITES == 0 && slot != 0) {
            return Err(DecodeUpdateError::Field("bucket change"));
        }
        if head & REORDERS != 0 {
            change.order = input.byte()?;
            if change.order == ORDER_KEPT {
                return Err(DecodeUpdateError::Field("order"));
            }
        }
        if head & RESEEDS != 0 {
            change.seed = Some(input.below(1 << 16, "seed")? as u16);
        }
        if head & WRITES != 0 {
            change.write = Some((slot, input.content(shape)?));
        }
        Ok(change)
    }
}

impl OverlayChange {
    fn encode(&self, out: &mut Vec<u8>) {
        let (head, digest) = match self {
            Self::Put(digest, choice) => (*choice as u8, digest),
            Self::Remove(digest) => (REMOVE, digest),
        };
        out.push(head);
        out.extend_from_slice(&digest.x.to_le_bytes());
        out.extend_from_slice(&digest.y.to_le_bytes());
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeUpdateError> {
        let head = input.byte()?;
        let digest = Digest { x: input.word()?, y: input.word()? };
        match head {
            0 | 1 => Ok(Self::Put(digest, u32::from(head))),
            REMOVE => Ok(Self::Remove(digest)),
            _ => Err(DecodeUpdateError::Field("overlay change")),
        }
    }
}

/// Bytes of one varint group's number.
const GROUP_BITS: u32 = 7;

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 1 << GROUP_BITS {
        out.push(value as u8 | 1 << GROUP_BITS);
        value >>= GROUP_BITS;
    }
    out.push(value as u8);
}

/// What is left to decode.
struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeUpdateError> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(DecodeUpdateError::Truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, DecodeUpdateError> {
        Ok(self.take(1)?[0])
    }

    fn word(&mut self) -> Result<u64, DecodeUpdateError> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    fn varint(&mut self) -> Result<u64, DecodeUpdateError> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(GROUP_BITS as usize) {
            let group = self.byte()?;
            let bits = u64::from(group & 0x7f);
            if bits << shift >> shift != bits || (group == 0 && shift > 0) {
                return Err(DecodeUpdateError::Field("varint"));
            }
            value |= bits << shift;
            if group < 1 << GROUP_BITS {
                return Ok(value);
            }
        }
        Err(DecodeUpdateError::Field("varint"))
    }

    fn below(&mut self, limit: u64, name: &'static str) -> Result<u64, DecodeUpdateError> {
        let value = self.varint()?;
        if value < limit { Ok(value) } else { Err(DecodeUpdateError::Field(name)) }
    }

    /// A counted list that is not empty.
    fn items<T>(
        &mut self,
        name: &'static str,
        mut item: impl FnMut(&mut Self) -> Result<T, DecodeUpdateError>,
    ) -> Result<Vec<T>, DecodeUpdateError> {
        let count = self.below(MAX_UPDATE_ITEMS as u64 + 1, name)? as usize;
        if count == 0 {
            return Err(DecodeUpdateError::Field(name));
        }
        // Every item has a byte at least, so the bytes that are there bound what is allocated.
        let mut items = Vec::with_capacity(count.min(self.bytes.len()));
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn content(&mut self, shape: &Shape) -> Result<Slot, DecodeUpdateError> {
        let mut bytes = [0; VALUE_WORDS * 8];
        let length = shape.value_bits().div_ceil(8) as usize;
        bytes[..length].copy_from_slice(self.take(length)?);
        let word = |index: usize| u64::from_le_bytes(bytes[index * 8..index * 8 + 8].try_into().expect("eight bytes"));
        let value = std::array::from_fn(word);
        let mut fingerprint = [0; 2];
        let length = shape.fingerprint_bits().div_ceil(8) as usize;
        fingerprint[..length].copy_from_slice(self.take(length)?);
        let fingerprint = u16::from_le_bytes(fingerprint);
        if !fits(&value, shape.value_bits()) || u32::from(fingerprint) >> shape.fingerprint_bits() != 0 {
            return Err(DecodeUpdateError::Field("slot"));
        }
        Ok(Slot { value, fingerprint })
    }
}

const _: () = assert!(SLOTS == 4, "an order has two bits a slot");

#[cfg(test)]
mod tests;
