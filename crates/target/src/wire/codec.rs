//! Fields on the wire: written one after another, read with checks.

use bytes::{BufMut, Bytes, BytesMut};
use device::LogVector;
use types::{Activation, DeviceId, Position, Token, ZoneIndex, ZoneOffset};

use crate::{FenceKey, FenceKind, Writer};

/// Bytes that are not the message they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} at byte {offset}: {fault}")]
pub struct WireError {
    pub field: &'static str,
    pub offset: usize,
    pub fault: WireFault,
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireFault {
    #[error("needs {needed} bytes, {left} are left")]
    Truncated { needed: usize, left: usize },
    #[error("value {found} has no meaning")]
    Unknown { found: u64 },
    #[error("{bytes} bytes follow the end")]
    Trailing { bytes: usize },
}

/// A cursor over untrusted bytes. What it takes is a slice of them, not a copy.
pub struct Reader {
    bytes: Bytes,
    at: usize,
}

impl Reader {
    pub(crate) fn new(bytes: Bytes) -> Reader {
        Reader { bytes, at: 0 }
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn take(&mut self, needed: usize, field: &'static str) -> Result<Bytes, WireError> {
        if self.left() < needed {
            return Err(self.error(field, WireFault::Truncated { needed, left: self.left() }));
        }
        let taken = self.bytes.slice(self.at..self.at + needed);
        self.at += needed;
        Ok(taken)
    }

    pub(crate) fn rest(&mut self) -> Bytes {
        let rest = self.bytes.slice(self.at..);
        self.at = self.bytes.len();
        rest
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let Some(taken) = self.bytes[self.at..].first_chunk::<N>() else {
            return Err(self.error(field, WireFault::Truncated { needed: N, left: self.left() }));
        };
        let taken = *taken;
        self.at += N;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, WireError> {
        Ok(self.array::<1>(field)?[0])
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, WireError> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(self.unknown(field, found)),
        }
    }

    /// The count of a list whose items take at least `item_bytes` each: believed only if they can all be there.
    pub(crate) fn count(&mut self, item_bytes: usize, field: &'static str) -> Result<usize, WireError> {
        let count = self.u32(field)? as usize;
        let needed = count.saturating_mul(item_bytes);
        if needed > self.left() {
            return Err(self.error(field, WireFault::Truncated { needed, left: self.left() }));
        }
        Ok(count)
    }

    /// Bytes behind their length.
    pub(crate) fn bytes(&mut self, field: &'static str) -> Result<Bytes, WireError> {
        let needed = self.count(1, field)?;
        self.take(needed, field)
    }

    pub(crate) fn text(&mut self, field: &'static str) -> Result<String, WireError> {
        Ok(String::from_utf8_lossy(&self.bytes(field)?).into_owned())
    }

    pub(crate) fn end(&self) -> Result<(), WireError> {
        match self.left() {
            0 => Ok(()),
            bytes => Err(self.error("end", WireFault::Trailing { bytes })),
        }
    }

    pub(crate) fn unknown(&self, field: &'static str, found: impl Into<u64>) -> WireError {
        self.error(field, WireFault::Unknown { found: found.into() })
    }

    fn error(&self, field: &'static str, fault: WireFault) -> WireError {
        WireError { field, offset: self.at, fault }
    }
}

/// Something that stands on the wire.
pub trait Wire: Sized {
    fn put(&self, out: &mut BytesMut);
    fn take(reader: &mut Reader) -> Result<Self, WireError>;
}

pub(crate) fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32_le(bytes.len() as u32);
    out.put_slice(bytes);
}

impl Wire for () {
    fn put(&self, _out: &mut BytesMut) {}

    fn take(_reader: &mut Reader) -> Result<Self, WireError> {
        Ok(())
    }
}

/// A session's number.
impl Wire for u64 {
    fn put(&self, out: &mut BytesMut) {
        out.put_u64_le(*self);
    }

    fn take(reader: &mut Reader) -> Result<Self, WireError> {
        reader.u64("number")
    }
}

impl Wire for DeviceId {
    fn put(&self, out: &mut BytesMut) {
        out.put_u32_le(self.0);
    }

    fn take(reader: &mut Reader) -> Result<Self, WireError> {
        Ok(DeviceId(reader.u32("device")?))
    }
}

impl Wire for ZoneIndex {
    fn put(&self, out: &mut BytesMut) {
        out.put_u32_le(self.0);
    }

    fn take(reader: &mut Reader) -> Result<Self, WireError> {
        Ok(ZoneIndex(reader.u32("zone")?))
    }
}

impl Wire for Position {
    fn put(&self, out: &mut BytesMut) {
        out.put_u64_le(self.activation.0);
        out.put_u32_le(self.offset.0);
    }

    fn take(reader: &mut Reader) -> Result<Self, WireError> {
        let activation = Activation(reader.u64("activation")?);
        Ok(Position { activation, offset: ZoneOffset(reader.u32("offset")?) })
    }
}

impl Wire for LogVector {
    fn put(&self, out: &mut BytesMut) {
        [self.ordered, self.relocated, self.meta].iter().for_each(|position| position.put(out));
    }

    fn take(reader: &mut Reader) -> Result<Self, WireError> {
        let (ordered, relocated) = (Position::take(reader)?, Position::take(reader)?);
        Ok(LogVector { ordered, relocated, meta: Position::take(reader)? })
    }
}

/// Bytes of a writer.
pub(crate) const WRITER_BYTES: usize = 17;

impl Wire for Writer {
    fn put(&self, out: &mut BytesMut) {
        out.put_u8(self.key.kind as u8);
        out.put_u64_le(self.key.scope);
        out.put_u64_le(self.token.0);
    }

    fn take(reader: &mut Reader) -> Result<Self, WireError> {
        let kind = match reader.u8("kind of writer")? {
            1 => FenceKind::Gateway,
            2 => FenceKind::PlacementGroup,
            3 => FenceKind::Image,
            4 => FenceKind::Shard,
            5 => FenceKind::DataPartition,
            found => return Err(reader.unknown("kind of writer", found)),
        };
        let scope = reader.u64("scope")?;
        Ok(Writer { key: FenceKey { kind, scope }, token: Token(reader.u64("token")?) })
    }
}
