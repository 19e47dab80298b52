//! Parts that several messages have.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use format::blob_header::BlobState;
use format::decode::{Fault, Reader};
use types::{BlobId, DeviceId, ImageEpoch, ImageId, Layer, LayerOf, Pieces, Token};

use super::{MAX_CONTENT_BYTES, Wire, WireError};
use crate::stores::{Admission, BlobAt, BlobRow, Change, NewBlob};

/// Bytes of the longest row.
pub(super) const MAX_ROW_BYTES: usize = 4 + 16 + 1 + 4 * 8 + 13;
/// Bytes of the shortest row.
pub(super) const MIN_ROW_BYTES: usize = MAX_ROW_BYTES - 12;
/// Bytes of a use.
pub(super) const USE_BYTES: usize = 24;

impl Wire for DeviceId {
    fn put(&self, out: &mut BytesMut) {
        out.put_u32_le(self.0);
    }

    fn read(input: &mut Reader<'_>, _: &Bytes) -> Result<Self, WireError> {
        Ok(DeviceId(input.u32("device")?))
    }
}

impl Wire for Admission {
    fn put(&self, out: &mut BytesMut) {
        out.put_u64_le(self.image.0);
        out.put_u64_le(self.token.0);
        out.put_u32_le(self.session);
        out.put_u64_le(self.epoch.0);
    }

    fn read(input: &mut Reader<'_>, _: &Bytes) -> Result<Self, WireError> {
        Ok(Admission {
            image: ImageId(input.u64("image")?),
            token: Token(input.u64("token")?),
            session: input.u32("session")?,
            epoch: ImageEpoch(input.u64("epoch")?),
        })
    }
}

impl Wire for BlobId {
    fn put(&self, out: &mut BytesMut) {
        out.put_u64_le(self.image.0);
        out.put_u32_le(self.index);
        out.put_u32_le(self.layer.0);
    }

    fn read(input: &mut Reader<'_>, _: &Bytes) -> Result<Self, WireError> {
        Ok(BlobId { image: ImageId(input.u64("image")?), index: input.u32("index")?, layer: Layer(input.u32("layer")?) })
    }
}

impl Wire for BlobAt {
    fn put(&self, out: &mut BytesMut) {
        out.put_u32_le(self.block);
        self.id.put(out);
    }

    fn read(input: &mut Reader<'_>, whole: &Bytes) -> Result<Self, WireError> {
        Ok(BlobAt { block: input.u32("block")?, id: BlobId::read(input, whole)? })
    }
}

impl Wire for LayerOf {
    fn put(&self, out: &mut BytesMut) {
        out.put_u64_le(self.image.0);
        out.put_u32_le(self.layer.0);
    }

    fn read(input: &mut Reader<'_>, _: &Bytes) -> Result<Self, WireError> {
        Ok(LayerOf { image: ImageId(input.u64("image")?), layer: Layer(input.u32("layer")?) })
    }
}

/// Something that may not be there.
impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut BytesMut) {
        out.put_u8(u8::from(self.is_some()));
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn read(input: &mut Reader<'_>, whole: &Bytes) -> Result<Self, WireError> {
        match input.u8("option")? {
            0 => Ok(None),
            1 => Ok(Some(T::read(input, whole)?)),
            found => Err(unknown(input, "option", found)),
        }
    }
}

/// Of a block in which something is.
impl Wire for BlobState {
    fn put(&self, out: &mut BytesMut) {
        out.put_u8(*self as u8);
    }

    fn read(input: &mut Reader<'_>, _: &Bytes) -> Result<Self, WireError> {
        match input.u8("state")? {
            1 => Ok(BlobState::Whole),
            2 => Ok(BlobState::Partial),
            found => Err(unknown(input, "state", found)),
        }
    }
}

const _: () = assert!(BlobState::Whole as u8 == 1 && BlobState::Partial as u8 == 2);

impl Wire for NewBlob {
    fn put(&self, out: &mut BytesMut) {
        self.id.put(out);
        self.state.put(out);
        self.parent.put(out);
    }

    fn read(input: &mut Reader<'_>, whole: &Bytes) -> Result<Self, WireError> {
        let (id, state) = (BlobId::read(input, whole)?, BlobState::read(input, whole)?);
        Ok(NewBlob { id, state, parent: Option::read(input, whole)? })
    }
}

impl Wire for Change {
    fn put(&self, out: &mut BytesMut) {
        out.put_u32_le(self.offset);
        [self.filled, self.zeroed, self.dropped].iter().for_each(|pieces| out.put_u64_le(pieces.0));
        self.content.put(out);
    }

    fn read(input: &mut Reader<'_>, whole: &Bytes) -> Result<Self, WireError> {
        let offset = input.u32("offset")?;
        let (filled, zeroed) = (Pieces(input.u64("filled")?), Pieces(input.u64("zeroed")?));
        let dropped = Pieces(input.u64("dropped")?);
        Ok(Change { offset, filled, zeroed, dropped, content: Bytes::read(input, whole)? })
    }
}

/// Content, which fills the rest.
impl Wire for Bytes {
    fn put(&self, out: &mut BytesMut) {
        assert!(self.len() <= MAX_CONTENT_BYTES, "content of {} bytes", self.len());
        out.put_slice(self.chunk());
    }

    fn read(input: &mut Reader<'_>, whole: &Bytes) -> Result<Self, WireError> {
        let content = rest(input, "content", MAX_CONTENT_BYTES)?;
        Ok(whole.slice_ref(content))
    }
}

impl Wire for BlobRow {
    fn put(&self, out: &mut BytesMut) {
        self.at.put(out);
        self.state.put(out);
        [self.token.0, self.epoch.0, self.owned.0, self.data.0].iter().for_each(|field| out.put_u64_le(*field));
        self.parent.put(out);
    }

    fn read(input: &mut Reader<'_>, whole: &Bytes) -> Result<Self, WireError> {
        let (at, state) = (BlobAt::read(input, whole)?, BlobState::read(input, whole)?);
        let (token, epoch) = (Token(input.u64("token")?), ImageEpoch(input.u64("epoch")?));
        let (owned, data) = (Pieces(input.u64("owned")?), Pieces(input.u64("data")?));
        Ok(BlobRow { at, state, token, epoch, owned, data, parent: Option::read(input, whole)? })
    }
}

/// What is left of a message.
pub(super) fn rest<'a>(input: &mut Reader<'a>, field: &'static str, most: usize) -> Result<&'a [u8], WireError> {
    let found = input.remaining();
    if found > most {
        let fault = Fault::OutOfRange { least: 0, most: most as u64, found: found as u64 };
        return Err(input.error_at(input.offset(), field, fault));
    }
    input.take(found, field)
}

/// A list behind its count, which is believed only if there may be so many items, and bytes for them.
pub(super) fn take_list<T: Wire>(
    input: &mut Reader<'_>,
    whole: &Bytes,
    field: &'static str,
    (item_bytes, most): (usize, usize),
) -> Result<Vec<T>, WireError> {
    let at = input.offset();
    let count = input.u32(field)? as usize;
    if count > most {
        return Err(input.error_at(at, field, Fault::OutOfRange { least: 0, most: most as u64, found: count as u64 }));
    }
    input.check_count(at, count, item_bytes, field)?;
    (0..count).map(|_| T::read(input, whole)).collect()
}

pub(super) fn put_list<T: Wire>(items: &[T], most: usize, out: &mut BytesMut) {
    assert!(items.len() <= most, "{} of at most {most}", items.len());
    out.put_u32_le(items.len() as u32);
    items.iter().for_each(|item| item.put(out));
}

/// The byte that was read last has no meaning.
pub(super) fn unknown(input: &Reader<'_>, field: &'static str, found: u8) -> WireError {
    input.error_at(input.offset() - 1, field, Fault::Unknown { found: u64::from(found) })
}
