//! The log engine's header of a record (RFD 2, decision 1).
//!
//! It stands in a frame between the frame's fixed header and its payload CRCs; the frame proves that the bytes are whole and
//! stand where they were put, this header says what they are. The frame's class byte repeats the kind.
//!
//! ```text
//! 0          84           100           152      152+n        152+n+a
//! ├─ fixed ──┼─ order ────┼─ chunk ─────┼─ name ─┼─ attributes ┤
//!   84 B       16 B, if      52 B, if     n B      a B
//!              flagged       flagged
//! ```
//!
//! Invariants:
//! - All copies of one record differ in `replica_index` and in the presence of an order, nowhere else.
//! - A copy without an order that stands on the primary has its own position as its order. Copies that were relocated, and
//!   secondaries written after their primary, carry it.
//! - Chunks and run blocks have an empty name; their hash is still theirs alone, so that a map can relocate them.

mod name;

use bytes::Bytes;
use types::limits::MAX_REPLICAS;
use types::{Activation, BucketId, DeviceId, Epoch, GatewayId, Generation, KEY_HASH_BYTES, KeyHash, Order, Sequence};
use types::{UploadId, ZoneOffset};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::decode::{DecodeError, Fault, Reader};
use crate::frame::MAX_ENGINE_HEADER_BYTES;
use crate::layout::fixed_layout;
use crate::replicas::{ReplicaDevices, check_count};

pub use name::{EntryName, InvalidName, MAX_NAME_BYTES, Space, split_compound};

/// Version written; 1: the first.
pub const RECORD_VERSION: u8 = 1;

/// Most levels of descriptors. Two hold the largest object even with three replicas of every chunk.
pub const MAX_TREE_HEIGHT: u8 = 3;

/// Longest attribute area.
pub const MAX_ATTRIBUTES_BYTES: usize = 48 * 1024;

/// Longest header.
pub const MAX_RECORD_BYTES: usize = size_of::<RecordLayout>()
    + size_of::<OrderLayout>()
    + size_of::<ChunkOwnerLayout>()
    + MAX_NAME_BYTES
    + MAX_ATTRIBUTES_BYTES;

const _: () = assert!(MAX_RECORD_BYTES <= MAX_ENGINE_HEADER_BYTES);

const CONFLICT: u8 = 1;
const RELOCATED: u8 = 2;
const DELETE_MARKER: u8 = 4;
const HAS_ORDER: u8 = 8;
const HAS_CHUNK: u8 = 16;
const HAS_UPLOAD: u8 = 32;
const ALL_FLAGS: u8 = CONFLICT | RELOCATED | DELETE_MARKER | HAS_ORDER | HAS_CHUNK | HAS_UPLOAD;

const RECORD: &str = "record header";

/// Why bytes are not a record header.
pub type RecordError = DecodeError;

/// What a record is. The number is also the class of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// An object whose content is the payload.
    Object = 1,
    /// A deleted key.
    Tombstone = 2,
    /// A piece of a large object's content.
    Chunk = 3,
    /// A large object: the payload is a list of chunks, or of descriptor nodes.
    Descriptor = 4,
    /// An inner node of a large object's tree.
    DescriptorNode = 5,
    /// An open upload.
    Upload = 6,
    /// An uploaded part: the payload is its content, or a list of chunks when the tree height is above zero.
    Part = 7,
    /// A block of a sorted run.
    RunBlock = 8,
    /// The index of a sorted run, or a piece of it.
    RunIndex = 9,
    /// After the current version was deleted: names its successor (RFD 2, decision 20).
    HeadChange = 10,
}

/// One write among all writes of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId {
    pub gateway: GatewayId,
    pub sequence: Sequence,
}

/// What is said of a record as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordFlags {
    /// The write overlapped another of its key (RFD 2, decision 9).
    pub conflict: bool,
    /// The copy was moved: it carries its original order.
    pub relocated: bool,
    /// A tombstone that is itself a version.
    pub delete_marker: bool,
}

/// To what a chunk belongs (RFD 2, decision 15): collection asks the owner's descriptor whether it is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkOwner {
    /// Hash of the object's entry.
    pub owner: KeyHash,
    /// The upload, when the chunk belongs to a part.
    pub upload: Option<UploadId>,
    /// The part's number; 0 outside an upload.
    pub part: u16,
    /// The chunk's number within the object or part, from 0.
    pub index: u32,
    /// The write to which the chunk belongs: two writes of one key do not share chunks.
    pub put: WriteId,
}

/// A record's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub kind: RecordKind,
    pub flags: RecordFlags,
    pub write: WriteId,
    pub epoch: Epoch,
    pub generation: Generation,
    /// Present in relocated copies and when the primary was written first; otherwise the order is the primary copy's own
    /// position.
    pub order: Option<Order>,
    pub replica_index: u8,
    pub replica_devices: ReplicaDevices,
    pub hash: KeyHash,
    /// Bytes of the object.
    pub length: u64,
    pub tree_height: u8,
    pub name: EntryName,
    pub chunk: Option<ChunkOwner>,
    /// Encoded [`crate::attributes::Attributes`], decoded when they are asked for.
    pub attributes: Bytes,
}

fixed_layout! {
    pub(crate) struct RecordLayout: 84 {
        0 version: u8,
        /// [`RecordKind`].
        1 kind: u8,
        /// 1 conflict, 2 relocated, 4 delete marker, 8 order follows, 16 chunk owner follows, 32 it names an upload.
        2 flags: u8,
        /// [`Space`] of the name.
        3 space: u8,
        /// Devices that follow, 1 to 3.
        4 replica_count: u8,
        /// Which of them holds this copy; 0 is the primary.
        5 replica_index: u8,
        /// Levels of descriptors above the chunks; 0: the payload is the content.
        6 tree_height: u8,
        7 reserved: u8,
        /// The writer.
        8 gateway: U16,
        /// Bytes of the name.
        10 name_bytes: U16,
        /// Of the replica-set table that chose the devices.
        12 generation: U32,
        /// The writer's own count.
        16 sequence: U64,
        /// The writer's epoch.
        24 epoch: U64,
        /// Bytes of the object.
        32 length: U64,
        /// Incarnation id.
        40 bucket: U64,
        /// The hash of the name.
        48 hash: [u8; KEY_HASH_BYTES],
        /// Bytes of the attributes.
        68 attributes_bytes: U32,
        /// The primary's first; unused ones are zero.
        72 devices: [U32; MAX_REPLICAS],
    }
}

fixed_layout! {
    /// An order on media and on the wire.
    pub(crate) struct OrderLayout: 16 {
        0 generation: U32,
        4 offset: U32,
        8 activation: U64,
    }
}

fixed_layout! {
    pub(crate) struct ChunkOwnerLayout: 52 {
        0 owner: [u8; KEY_HASH_BYTES],
        20 part: U16,
        22 gateway: U16,
        24 index: U32,
        28 sequence: U64,
        36 upload: [u8; 16],
    }
}

impl Record {
    /// Bytes that [`Record::encode`] appends.
    pub fn encoded_len(&self) -> usize {
        let mut bytes = size_of::<RecordLayout>() + self.name.name.len() + self.attributes.len();
        if self.order.is_some() {
            bytes += size_of::<OrderLayout>();
        }
        if self.chunk.is_some() {
            bytes += size_of::<ChunkOwnerLayout>();
        }
        bytes
    }

    /// Appends the header to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.name.name.len() <= MAX_NAME_BYTES);
        assert!(self.attributes.len() <= MAX_ATTRIBUTES_BYTES);
        assert!((self.replica_index as usize) < self.replica_devices.len());
        assert!(self.tree_height <= MAX_TREE_HEIGHT);
        out.reserve(self.encoded_len());
        out.extend_from_slice(self.head().as_bytes());
        if let Some(order) = self.order {
            out.extend_from_slice(OrderLayout::new(order).as_bytes());
        }
        if let Some(chunk) = &self.chunk {
            out.extend_from_slice(ChunkOwnerLayout::new(chunk).as_bytes());
        }
        out.extend_from_slice(&self.name.name);
        out.extend_from_slice(&self.attributes);
    }

    /// Reads a header that fills `header`; name and attributes stay slices of it.
    pub fn decode(header: &Bytes) -> Result<Record, RecordError> {
        let mut reader = Reader::new(RECORD, header);
        let head: &RecordLayout = reader.fixed("fixed part")?;
        reader.check_version(0, head.version, RECORD_VERSION)?;
        let unknown = |at, field, found: u8| reader.error_at(at, field, Fault::Unknown { found: u64::from(found) });
        let kind = RecordKind::from_class(head.kind).ok_or_else(|| unknown(1, "kind", head.kind))?;
        if head.flags & !ALL_FLAGS != 0 {
            return Err(unknown(2, "flags", head.flags));
        }
        let space = Space::from_number(head.space).ok_or_else(|| unknown(3, "space", head.space))?;
        let count = check_count(head.replica_count).map_err(|fault| reader.error_at(4, "replica_count", fault))?;
        check_at_most(&reader, 5, "replica_index", u64::from(head.replica_index), u64::from(count) - 1)?;
        check_at_most(&reader, 6, "tree_height", u64::from(head.tree_height), u64::from(MAX_TREE_HEIGHT))?;
        let name_bytes = head.name_bytes.get() as usize;
        let attributes_bytes = head.attributes_bytes.get() as usize;
        check_at_most(&reader, 10, "name_bytes", name_bytes as u64, MAX_NAME_BYTES as u64)?;
        check_at_most(&reader, 68, "attributes_bytes", attributes_bytes as u64, MAX_ATTRIBUTES_BYTES as u64)?;

        let order = match head.flags & HAS_ORDER {
            0 => None,
            _ => Some(reader.fixed::<OrderLayout>("order")?.get()),
        };
        let chunk = match head.flags & HAS_CHUNK {
            0 => None,
            _ => Some(reader.fixed::<ChunkOwnerLayout>("chunk owner")?.get(head.flags & HAS_UPLOAD != 0)),
        };
        let name = reader.take(name_bytes, "name")?;
        let attributes = reader.take(attributes_bytes, "attributes")?;
        reader.finish()?;
        Ok(Record {
            kind,
            flags: RecordFlags::from_bits(head.flags),
            write: WriteId { gateway: GatewayId(head.gateway.get()), sequence: Sequence(head.sequence.get()) },
            epoch: Epoch(head.epoch.get()),
            generation: Generation(head.generation.get()),
            order,
            replica_index: head.replica_index,
            replica_devices: ReplicaDevices::from_parts(head.devices.map(|device| DeviceId(device.get())), count),
            hash: KeyHash::from_bytes(head.hash),
            length: head.length.get(),
            tree_height: head.tree_height,
            name: EntryName { bucket: BucketId(head.bucket.get()), space, name: header.slice_ref(name) },
            chunk,
            attributes: header.slice_ref(attributes),
        })
    }

    fn head(&self) -> RecordLayout {
        let mut devices = [U32::ZERO; MAX_REPLICAS];
        for (slot, device) in devices.iter_mut().zip(self.replica_devices.as_slice()) {
            *slot = device.0.into();
        }
        RecordLayout {
            version: RECORD_VERSION,
            kind: self.kind as u8,
            flags: self.flag_bits(),
            space: self.name.space as u8,
            replica_count: self.replica_devices.len() as u8,
            replica_index: self.replica_index,
            tree_height: self.tree_height,
            reserved: 0,
            gateway: self.write.gateway.0.into(),
            name_bytes: (self.name.name.len() as u16).into(),
            generation: self.generation.0.into(),
            sequence: self.write.sequence.0.into(),
            epoch: self.epoch.0.into(),
            length: self.length.into(),
            bucket: self.name.bucket.0.into(),
            hash: *self.hash.as_bytes(),
            attributes_bytes: (self.attributes.len() as u32).into(),
            devices,
        }
    }

    fn flag_bits(&self) -> u8 {
        let mut bits = self.flags.to_bits();
        if self.order.is_some() {
            bits |= HAS_ORDER;
        }
        if let Some(chunk) = &self.chunk {
            bits |= HAS_CHUNK;
            if chunk.upload.is_some() {
                bits |= HAS_UPLOAD;
            }
        }
        bits
    }
}

fn check_at_most(reader: &Reader<'_>, at: usize, field: &'static str, found: u64, most: u64) -> Result<(), DecodeError> {
    if found > most {
        return Err(reader.error_at(at, field, Fault::OutOfRange { least: 0, most, found }));
    }
    Ok(())
}

impl RecordKind {
    /// The kind with this number, which is also a frame's class.
    pub fn from_class(class: u8) -> Option<Self> {
        Some(match class {
            1 => RecordKind::Object,
            2 => RecordKind::Tombstone,
            3 => RecordKind::Chunk,
            4 => RecordKind::Descriptor,
            5 => RecordKind::DescriptorNode,
            6 => RecordKind::Upload,
            7 => RecordKind::Part,
            8 => RecordKind::RunBlock,
            9 => RecordKind::RunIndex,
            10 => RecordKind::HeadChange,
            _ => return None,
        })
    }
}

impl RecordFlags {
    fn to_bits(self) -> u8 {
        (if self.conflict { CONFLICT } else { 0 })
            | (if self.relocated { RELOCATED } else { 0 })
            | (if self.delete_marker { DELETE_MARKER } else { 0 })
    }

    fn from_bits(bits: u8) -> Self {
        RecordFlags {
            conflict: bits & CONFLICT != 0,
            relocated: bits & RELOCATED != 0,
            delete_marker: bits & DELETE_MARKER != 0,
        }
    }
}

impl OrderLayout {
    #[inline]
    pub(crate) fn new(order: Order) -> Self {
        OrderLayout {
            generation: order.generation.0.into(),
            offset: order.offset.0.into(),
            activation: order.activation.0.into(),
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> Order {
        Order {
            generation: Generation(self.generation.get()),
            activation: Activation(self.activation.get()),
            offset: ZoneOffset(self.offset.get()),
        }
    }
}

impl ChunkOwnerLayout {
    fn new(chunk: &ChunkOwner) -> Self {
        ChunkOwnerLayout {
            owner: *chunk.owner.as_bytes(),
            part: chunk.part.into(),
            gateway: chunk.put.gateway.0.into(),
            index: chunk.index.into(),
            sequence: chunk.put.sequence.0.into(),
            upload: chunk.upload.unwrap_or_default().0,
        }
    }

    fn get(&self, has_upload: bool) -> ChunkOwner {
        ChunkOwner {
            owner: KeyHash::from_bytes(self.owner),
            upload: has_upload.then_some(UploadId(self.upload)),
            part: self.part.get(),
            index: self.index.get(),
            put: WriteId { gateway: GatewayId(self.gateway.get()), sequence: Sequence(self.sequence.get()) },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
