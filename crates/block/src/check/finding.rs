//! What a check finds, and whether it is wrong.

use std::fmt;

use types::{BLOB_BYTES, BlobId, DeviceId, ImageId, Layer};

use super::ImageCount;

/// Something that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// No header of the block can be believed.
    Damaged { device: DeviceId, block: u32 },
    /// One of the two headers of the block can't be believed, so that the other counts. `is_rot`: the last holder closed the image in order, so
    /// no power cut can have torn it.
    FellBack { device: DeviceId, block: u32, id: Option<BlobId>, is_rot: bool },
    /// Another block of the device has the same blob, and counts.
    Double { device: DeviceId, block: u32, id: BlobId },
    /// Blobs of an image that has no record any more.
    Purged(ImageCount),
    /// Blobs of an image whose id the manager has not given out.
    Unrecorded { parts: u32, count: ImageCount },
    /// Blobs on a device that the image's record does not use.
    UnusedDevice { image: ImageId, device: DeviceId, blobs: u64 },
    /// A blob of a layer that the image's record does not have yet.
    LaterLayer { id: BlobId, device: DeviceId, newest: Layer },
    /// Blobs that neither the image nor a snapshot needs.
    Unneeded { image: ImageId, blobs: u64 },
    /// Copies that count for nothing: their device is out, or they are not whole.
    Uncounted { image: ImageId, copies: u64 },
    /// The blobs of an image in the trash are being freed.
    Purging { image: ImageId },
    /// A blob has fewer copies than the record says that all have. `may_be`: its layer was being written.
    FewCopies { id: BlobId, found: u8, least: u8, may_be: bool },
    /// Blobs that have fewer copies than wanted, as the record says.
    Wanting { image: ImageId, blobs: u64, wanted: u8 },
    /// Blobs with content beyond the end of the image and of its snapshots.
    BeyondEnd { image: ImageId, blobs: u64 },
    /// Two copies say something else. `may_be`: their layer was being written.
    Different { id: BlobId, devices: [DeviceId; 2], difference: Difference, may_be: bool },
    /// A copy can't be read.
    Unreadable { id: BlobId, device: DeviceId, reason: String },
}

/// In what two copies of a blob differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Pieces that only one of them has, or only one of them has content of.
    pub pieces: u32,
    /// Blocks of 4 KiB of pieces of which both have content.
    pub blocks: u32,
    /// The first such block, as a byte of the blob.
    pub first: Option<u32>,
}

impl Finding {
    pub fn is_wrong(&self) -> bool {
        match self {
            Finding::Damaged { .. }
            | Finding::Double { .. }
            | Finding::Unrecorded { .. }
            | Finding::UnusedDevice { .. }
            | Finding::LaterLayer { .. }
            | Finding::Unreadable { .. } => true,
            Finding::FellBack { is_rot, .. } => *is_rot,
            Finding::FewCopies { may_be, .. } | Finding::Different { may_be, .. } => !may_be,
            Finding::Purged(_)
            | Finding::Unneeded { .. }
            | Finding::Uncounted { .. }
            | Finding::Purging { .. }
            | Finding::Wanting { .. }
            | Finding::BeyondEnd { .. } => false,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Damaged { device, block } => write!(
                f,
                "device {device} block {block}: no header can be believed. The block is left alone, and the blob that it had is missing"
            ),
            Finding::FellBack { device, block, id, is_rot } => fell_back(f, *device, *block, *id, *is_rot),
            Finding::Double { device, block, id } => {
                write!(f, "device {device} block {block}: {} is in another block as well, which counts", part(id))
            }
            Finding::Purged(count) => {
                write!(f, "{} blobs of image {}, which was purged: their space is not free", count.blobs, count.image)
            }
            Finding::Unrecorded { parts, count } => {
                let mib = (u64::from(*parts) * u64::from(BLOB_BYTES)) >> 20;
                let ImageCount { image, blobs, .. } = count;
                write!(
                    f,
                    "{blobs} blobs of image {image}, whose record is lost: it had {mib} MiB or a little less, or more that was never written. To \
                     keep it, move the folder `consensus` away and run: trilith fsck --rebuild"
                )
            }
            Finding::UnusedDevice { image, device, blobs } => {
                write!(f, "device {device}: {blobs} blobs of image {image}, which does not use the device as its record says")
            }
            Finding::LaterLayer { id, device, newest } => {
                write!(
                    f,
                    "device {device}: {}; the record of the image ends at layer {newest}, and it can't be opened",
                    part(id)
                )
            }
            Finding::Unneeded { image, blobs } => {
                write!(
                    f,
                    "{blobs} blobs of image {image} that neither it nor a snapshot needs: the image frees them when it is open"
                )
            }
            Finding::Uncounted { image, copies } => {
                write!(
                    f,
                    "{copies} copies of image {image} do not count: their device is out, or they were not made to the end"
                )
            }
            Finding::Purging { image } => write!(f, "image {image} is being purged. To end that: trilith image purge {image}"),
            Finding::FewCopies { id, found, least, may_be } => {
                write!(f, "{} has {found} copies that count; its record says that each has {least}", part(id))?;
                if *may_be { write!(f, ". It was being written; the next opening says what there is") } else { Ok(()) }
            }
            Finding::Wanting { image, blobs, wanted } => {
                write!(
                    f,
                    "{blobs} blobs of image {image} have fewer than the {wanted} copies that are wanted: more devices were not there"
                )
            }
            Finding::BeyondEnd { image, blobs } => {
                write!(f, "{blobs} blobs of image {image} lie beyond its end and have content: make it larger to see them")
            }
            Finding::Different { id, devices, difference, may_be } => different(f, id, devices, difference, *may_be),
            Finding::Unreadable { id, device, reason } => write!(f, "device {device}: {} can't be read: {reason}", part(id)),
        }
    }
}

fn part(id: &BlobId) -> String {
    format!("part {} of image {} in layer {}", id.index, id.image, id.layer)
}

fn fell_back(f: &mut fmt::Formatter<'_>, device: DeviceId, block: u32, id: Option<BlobId>, is_rot: bool) -> fmt::Result {
    let what = id.map_or("free".to_owned(), |id| part(&id));
    write!(f, "device {device} block {block} ({what}): one of its two headers can't be believed, and the other counts. ")?;
    if is_rot {
        write!(f, "It has rotted, since the image was closed in order: what was first written to the part last may be missing")
    } else {
        write!(f, "A power cut may have torn it; if there was none, what was first written to the part last may be missing")
    }
}

fn different(
    f: &mut fmt::Formatter<'_>,
    id: &BlobId,
    devices: &[DeviceId; 2],
    difference: &Difference,
    may_be: bool,
) -> fmt::Result {
    let Difference { pieces, blocks, first } = difference;
    write!(f, "{}: the copies on devices {} and {} differ", part(id), devices[0], devices[1])?;
    if *pieces > 0 {
        write!(f, " in which pieces they have ({pieces})")?;
    }
    if let Some(first) = first {
        let byte = u64::from(id.index) * u64::from(BLOB_BYTES) + u64::from(*first);
        write!(f, " in {blocks} blocks of 4 KiB, the first at byte {byte} of the image")?;
    }
    if may_be { write!(f, ". It was being written; the next opening makes them equal") } else { Ok(()) }
}
