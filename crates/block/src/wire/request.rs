//! Requests.

use bytes::{BufMut, Bytes, BytesMut};
use format::decode::Reader;
use types::{BlobId, DeviceId, ImageId};

use super::field::unknown;
use super::{Wire, WireError};
use crate::stores::{Admission, BlobAt, Change, NewBlob};

/// What a node is asked about blobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// What its devices have of all images.
    Usage,
    Device(DeviceId, ToDevice),
}

/// What the store of a device is asked; [`crate::stores::Stores`] says what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToDevice {
    /// Answers the rows behind one; entering again with the same admission changes nothing.
    Enter {
        admission: Admission,
        after: Option<BlobId>,
    },
    Create {
        admission: Admission,
        blob: NewBlob,
        change: Change,
    },
    Change {
        admission: Admission,
        at: BlobAt,
        change: Change,
    },
    Complete {
        admission: Admission,
        at: BlobAt,
    },
    Read {
        admission: Option<Admission>,
        at: BlobAt,
        offset: u32,
        length: u32,
    },
    Sums {
        admission: Admission,
        id: BlobId,
    },
    Free {
        admission: Admission,
        at: BlobAt,
    },
    Flush,
    /// What the device has of an image now, behind a row, without entering it: for layers that have ended.
    Rows {
        image: ImageId,
        after: Option<BlobId>,
    },
}

const USAGE: u8 = 10;

impl Request {
    pub(super) fn content_bytes(&self) -> usize {
        match self {
            Request::Device(_, ToDevice::Create { change, .. } | ToDevice::Change { change, .. }) => change.content.len(),
            _ => 0,
        }
    }
}

impl Wire for Request {
    fn put(&self, out: &mut BytesMut) {
        match self {
            Request::Usage => out.put_u8(USAGE),
            Request::Device(device, asked) => {
                out.put_u8(asked.kind());
                device.put(out);
                asked.put_fields(out);
            }
        }
    }

    fn read(input: &mut Reader<'_>, whole: &Bytes) -> Result<Self, WireError> {
        match input.u8("kind")? {
            USAGE => Ok(Request::Usage),
            kind @ 1..USAGE => {
                let device = DeviceId::read(input, whole)?;
                Ok(Request::Device(device, ToDevice::take_fields(kind, input, whole)?))
            }
            found => Err(unknown(input, "kind", found)),
        }
    }
}

impl ToDevice {
    fn kind(&self) -> u8 {
        match self {
            ToDevice::Enter { .. } => 1,
            ToDevice::Create { .. } => 2,
            ToDevice::Change { .. } => 3,
            ToDevice::Complete { .. } => 4,
            ToDevice::Read { .. } => 5,
            ToDevice::Sums { .. } => 6,
            ToDevice::Free { .. } => 7,
            ToDevice::Flush => 8,
            ToDevice::Rows { .. } => 9,
        }
    }

    fn put_fields(&self, out: &mut BytesMut) {
        match self {
            ToDevice::Enter { admission, after } => {
                admission.put(out);
                after.put(out);
            }
            ToDevice::Create { admission, blob, change } => {
                admission.put(out);
                blob.put(out);
                change.put(out);
            }
            ToDevice::Change { admission, at, change } => {
                admission.put(out);
                at.put(out);
                change.put(out);
            }
            ToDevice::Complete { admission, at } | ToDevice::Free { admission, at } => {
                admission.put(out);
                at.put(out);
            }
            ToDevice::Read { admission, at, offset, length } => {
                admission.put(out);
                at.put(out);
                out.put_u32_le(*offset);
                out.put_u32_le(*length);
            }
            ToDevice::Sums { admission, id } => {
                admission.put(out);
                id.put(out);
            }
            ToDevice::Flush => {}
            ToDevice::Rows { image, after } => {
                out.put_u64_le(image.0);
                after.put(out);
            }
        }
    }

    fn take_fields(kind: u8, input: &mut Reader<'_>, whole: &Bytes) -> Result<ToDevice, WireError> {
        Ok(match kind {
            5 => {
                let (admission, at) = (Option::read(input, whole)?, BlobAt::read(input, whole)?);
                ToDevice::Read { admission, at, offset: input.u32("offset")?, length: input.u32("length")? }
            }
            8 => ToDevice::Flush,
            9 => ToDevice::Rows { image: ImageId(input.u64("image")?), after: Option::read(input, whole)? },
            kind => {
                let admission = Admission::read(input, whole)?;
                match kind {
                    1 => ToDevice::Enter { admission, after: Option::read(input, whole)? },
                    2 => {
                        let blob = NewBlob::read(input, whole)?;
                        ToDevice::Create { admission, blob, change: Change::read(input, whole)? }
                    }
                    3 => {
                        let at = BlobAt::read(input, whole)?;
                        ToDevice::Change { admission, at, change: Change::read(input, whole)? }
                    }
                    4 => ToDevice::Complete { admission, at: BlobAt::read(input, whole)? },
                    6 => ToDevice::Sums { admission, id: BlobId::read(input, whole)? },
                    _ => ToDevice::Free { admission, at: BlobAt::read(input, whole)? },
                }
            }
        })
    }
}
