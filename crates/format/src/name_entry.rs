//! One name of the key list, with its index entry: a row of a sorted run (RFD 2, decisions 14 and 20).
//!
//! A run serves as key list and as map, so a row holds what a list says of a name (length, tag, time) and what a read
//! needs (places, order), and the hash once.
//!
//! ```text
//! 0          100         100+12c       …+16            …+suffix
//! ├─ fixed ──┼─ c places ┼─ version id ┼─ key suffix ───┤
//!                          if flagged
//! ```
//!
//! The key of a row is its [`SortKey`]; the row holds only what differs from the key of the row before.

use types::{BucketId, Epoch, GatewayId, KEY_HASH_BYTES, KeyHash, Order, Sequence};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::attributes::{ChecksumScheme, ETag, StorageClass};
use crate::decode::{DecodeError, Fault, Reader};
use crate::entry::{COUNT_BITS, Entry, EntryState, LARGE};
use crate::layout::fixed_layout;
use crate::record::{EntryName, MAX_NAME_BYTES, OrderLayout, Space, WriteId};
use crate::replicas::{PLACE_BYTES, PlaceLayout, check_count};
use crate::version_id::{VERSION_ID_BYTES, VersionId};

/// Bytes of a sort key before the name.
const KEY_PREFIX_BYTES: usize = 9;

/// Longest sort key.
pub const MAX_SORT_KEY_BYTES: usize = KEY_PREFIX_BYTES + MAX_NAME_BYTES;

/// Longest row.
pub const MAX_ROW_BYTES: usize = size_of::<RowLayout>() + 3 * PLACE_BYTES + VERSION_ID_BYTES + MAX_SORT_KEY_BYTES;

const HAS_VERSION: u8 = 8;
const ETAG_SHIFT: u8 = 4;
const ETAG_BITS: u8 = 3 << ETAG_SHIFT;
const KNOWN_BITS: u8 = COUNT_BITS | LARGE | HAS_VERSION | ETAG_BITS;

/// A name, what stands under it, and what a list says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameEntry {
    pub name: EntryName,
    pub entry: Entry,
    pub etag: ETag,
    pub modified_ms: u64,
    pub storage_class: StorageClass,
    /// Of the object, or of the object that an upload will make.
    pub checksum: Option<ChecksumScheme>,
    pub version_id: Option<VersionId>,
}

/// Names as bytes that sort as runs do: bucket (big endian), space, name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortKey(Vec<u8>);

/// A row in place. Its fields have been checked.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    key: &'a [u8],
    head: &'a RowLayout,
    /// Places and version id.
    tail: &'a [u8],
}

fixed_layout! {
    pub(crate) struct RowLayout: 100 {
        /// Leading bytes that the key shares with the key before.
        0 shared_bytes: U16,
        2 suffix_bytes: U16,
        4 gateway: U16,
        6 state: u8,
        /// Bits 0 and 1: number of places. Bit 2: large. Bit 3: a version id follows. Bits 4 and 5: kind of tag.
        7 shape: u8,
        8 sequence: U64,
        16 epoch: U64,
        24 order: OrderLayout,
        40 length: U64,
        48 frame_bytes: U32,
        52 etag_parts: U16,
        54 storage_class: u8,
        /// 0: none. Bits 0 to 6: algorithm. Bit 7: of the whole object, not of its parts' checksums.
        55 checksum: u8,
        56 modified_ms: U64,
        64 etag_digest: [u8; 16],
        80 hash: [u8; KEY_HASH_BYTES],
    }
}

impl SortKey {
    /// A key to seek: `name` need not be the name of anything.
    pub fn new(bucket: BucketId, space: Space, name: &[u8]) -> Self {
        let mut key = Vec::with_capacity(KEY_PREFIX_BYTES + name.len());
        write_sort_key(bucket, space, name, &mut key);
        SortKey(key)
    }

    /// From bytes that stand in a run.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        SortKey(bytes.to_vec())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&EntryName> for SortKey {
    fn from(name: &EntryName) -> Self {
        SortKey::new(name.bucket, name.space, &name.name)
    }
}

pub(crate) fn write_sort_key(bucket: BucketId, space: Space, name: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&bucket.0.to_be_bytes());
    out.push(space as u8);
    out.extend_from_slice(name);
}

impl NameEntry {
    /// The fixed part, with an empty key.
    pub(crate) fn layout(&self) -> RowLayout {
        let (etag_kind, etag_digest, etag_parts) = self.etag.to_parts();
        let version = if self.version_id.is_some() { HAS_VERSION } else { 0 };
        RowLayout {
            shared_bytes: U16::ZERO,
            suffix_bytes: U16::ZERO,
            gateway: self.entry.write.gateway.0.into(),
            state: self.entry.state as u8,
            shape: self.entry.shape() | version | etag_kind << ETAG_SHIFT,
            sequence: self.entry.write.sequence.0.into(),
            epoch: self.entry.epoch.0.into(),
            order: OrderLayout::new(self.entry.order),
            length: self.entry.length.into(),
            frame_bytes: self.entry.frame_bytes.into(),
            etag_parts: etag_parts.into(),
            storage_class: self.storage_class as u8,
            checksum: self.checksum.map_or(0, ChecksumScheme::to_byte),
            modified_ms: self.modified_ms.into(),
            etag_digest,
            hash: *self.entry.hash.as_bytes(),
        }
    }

    /// A row of its own, as gateways send it: its key shares nothing with another's.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let key_bytes = KEY_PREFIX_BYTES + self.name.name.len();
        let layout = RowLayout { suffix_bytes: (key_bytes as u16).into(), ..self.layout() };
        out.extend_from_slice(layout.as_bytes());
        self.write_tail(out);
        write_sort_key(self.name.bucket, self.name.space, &self.name.name, out);
    }

    /// Reads what [`NameEntry::encode_into`] wrote and leaves the reader behind it.
    pub fn read(reader: &mut Reader<'_>) -> Result<NameEntry, DecodeError> {
        // A reader of its own, because a row lives as long as the key that it is read into.
        let (mut key, mut row_reader) = (Vec::new(), reader.clone());
        let row = Row::read(&mut row_reader, &mut key, None)?.to_name_entry();
        reader.take(row_reader.offset() - reader.offset(), "row")?;
        Ok(row)
    }

    /// Places and version id.
    pub(crate) fn write_tail(&self, out: &mut Vec<u8>) {
        let places = PlaceLayout::pack(&self.entry.places);
        out.extend_from_slice(places[..self.entry.places.len()].as_bytes());
        if let Some(version) = &self.version_id {
            out.extend_from_slice(&version.0);
        }
    }
}

impl<'a> Row<'a> {
    /// Reads the row at the reader and turns `key`, the key of the row before, into this row's. Checks every field, and that
    /// the row sorts after `previous`, the order of the row before.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>, key: &'a mut Vec<u8>, previous: Option<Order>) -> Result<Row<'a>, DecodeError> {
        let at = reader.offset();
        let head: &RowLayout = reader.fixed("row")?;
        if let Err((offset, field, fault)) = check(head) {
            return Err(reader.error_at(at + offset, field, fault));
        }
        let tail = reader.take(tail_bytes(head.shape), "places and version id")?;
        let shared = usize::from(head.shared_bytes.get());
        let suffix = reader.take(usize::from(head.suffix_bytes.get()), "key suffix")?;
        let key_bytes = shared + suffix.len();
        if shared > key.len() {
            let fault = Fault::OutOfRange { least: 0, most: key.len() as u64, found: shared as u64 };
            return Err(reader.error_at(at, "shared_bytes", fault));
        }
        if !(KEY_PREFIX_BYTES..=MAX_SORT_KEY_BYTES).contains(&key_bytes) {
            let (least, most) = (KEY_PREFIX_BYTES as u64, MAX_SORT_KEY_BYTES as u64);
            let fault = Fault::OutOfRange { least, most, found: key_bytes as u64 };
            return Err(reader.error_at(at + 2, "suffix_bytes", fault));
        }
        if let Some(previous) = previous {
            let ascends = match suffix.cmp(&key[shared..]) {
                std::cmp::Ordering::Greater => true,
                std::cmp::Ordering::Equal => head.order.get() < previous,
                std::cmp::Ordering::Less => false,
            };
            if !ascends {
                return Err(reader.error_at(at, "key", Fault::Unordered));
            }
        }
        key.truncate(shared);
        key.extend_from_slice(suffix);
        let space = key[KEY_PREFIX_BYTES - 1];
        if Space::from_number(space).is_none() {
            return Err(reader.error_at(at, "space of the key", Fault::Unknown { found: u64::from(space) }));
        }
        Ok(Row { key, head, tail })
    }

    /// A row that [`Row::read`] has checked, once more.
    #[inline]
    pub(crate) fn again(rows: &'a [u8], at: usize, key: &'a [u8]) -> Row<'a> {
        let (head, rest) = RowLayout::ref_from_prefix(&rows[at..]).expect("the row was read before");
        Row { key, head, tail: &rest[..tail_bytes(head.shape)] }
    }

    /// The key of a row that shares nothing with the row before.
    pub(crate) fn restart_key(mut reader: Reader<'a>) -> Result<&'a [u8], DecodeError> {
        let at = reader.offset();
        let head: &RowLayout = reader.fixed("row")?;
        let shared = head.shared_bytes.get();
        if shared != 0 {
            return Err(reader.error_at(at, "shared_bytes", Fault::OutOfRange { least: 0, most: 0, found: u64::from(shared) }));
        }
        reader.take(tail_bytes(head.shape), "places and version id")?;
        reader.take(usize::from(head.suffix_bytes.get()), "key suffix")
    }

    /// The bytes by which rows sort.
    pub fn sort_key(&self) -> &'a [u8] {
        self.key
    }

    pub fn bucket(&self) -> BucketId {
        BucketId(u64::from_be_bytes(*self.key.first_chunk().expect("a checked key has its prefix")))
    }

    pub fn space(&self) -> Space {
        Space::from_number(self.key[KEY_PREFIX_BYTES - 1]).expect("a checked key has a known space")
    }

    #[inline]
    pub fn name(&self) -> &'a [u8] {
        &self.key[KEY_PREFIX_BYTES..]
    }

    #[inline]
    pub fn order(&self) -> Order {
        self.head.order.get()
    }

    #[inline]
    pub fn state(&self) -> EntryState {
        EntryState::from_number(self.head.state).expect("checked when the row was read")
    }

    /// Bytes of the object.
    #[inline]
    pub fn length(&self) -> u64 {
        self.head.length.get()
    }

    #[inline]
    pub fn modified_ms(&self) -> u64 {
        self.head.modified_ms.get()
    }

    #[inline]
    pub fn etag(&self) -> ETag {
        let kind = (self.head.shape & ETAG_BITS) >> ETAG_SHIFT;
        ETag::from_parts(kind, self.head.etag_digest, self.head.etag_parts.get()).expect("checked when the row was read")
    }

    pub fn storage_class(&self) -> StorageClass {
        StorageClass::from_number(self.head.storage_class).expect("checked when the row was read")
    }

    pub fn checksum(&self) -> Option<ChecksumScheme> {
        ChecksumScheme::from_byte(self.head.checksum)
    }

    pub fn version_id(&self) -> Option<VersionId> {
        match self.head.shape & HAS_VERSION {
            0 => None,
            _ => self.tail.last_chunk().copied().map(VersionId),
        }
    }

    pub fn hash(&self) -> KeyHash {
        KeyHash::from_bytes(self.head.hash)
    }

    /// The index entry.
    pub fn entry(&self) -> Entry {
        let count = self.head.shape & COUNT_BITS;
        let places = &self.tail[..usize::from(count) * PLACE_BYTES];
        let places = <[PlaceLayout]>::ref_from_bytes(places).expect("whole places");
        Entry {
            hash: self.hash(),
            write: WriteId { gateway: GatewayId(self.head.gateway.get()), sequence: Sequence(self.head.sequence.get()) },
            epoch: Epoch(self.head.epoch.get()),
            order: self.order(),
            places: PlaceLayout::unpack(places, count),
            frame_bytes: self.head.frame_bytes.get(),
            length: self.length(),
            state: self.state(),
            large: self.head.shape & LARGE != 0,
        }
    }

    /// The row as a value of its own.
    pub fn to_name_entry(&self) -> NameEntry {
        let name = bytes::Bytes::copy_from_slice(self.name());
        NameEntry {
            name: EntryName { bucket: self.bucket(), space: self.space(), name },
            entry: self.entry(),
            etag: self.etag(),
            modified_ms: self.modified_ms(),
            storage_class: self.storage_class(),
            checksum: self.checksum(),
            version_id: self.version_id(),
        }
    }

    pub(crate) fn layout(&self) -> RowLayout {
        *self.head
    }

    pub(crate) fn tail(&self) -> &'a [u8] {
        self.tail
    }
}

/// Offset in the row, field and fault of the first field without meaning.
#[inline]
fn check(head: &RowLayout) -> Result<(), (usize, &'static str, Fault)> {
    let unknown = |found: u8| Fault::Unknown { found: u64::from(found) };
    if EntryState::from_number(head.state).is_none() {
        return Err((6, "state", unknown(head.state)));
    }
    if head.shape & !KNOWN_BITS != 0 || ETag::from_parts((head.shape & ETAG_BITS) >> ETAG_SHIFT, [0; 16], 0).is_none() {
        return Err((7, "shape", unknown(head.shape)));
    }
    check_count(head.shape & COUNT_BITS).map_err(|fault| (7, "number of places", fault))?;
    if StorageClass::from_number(head.storage_class).is_none() {
        return Err((54, "storage_class", unknown(head.storage_class)));
    }
    if head.checksum != 0 && ChecksumScheme::from_byte(head.checksum).is_none() {
        return Err((55, "checksum", unknown(head.checksum)));
    }
    Ok(())
}

#[inline]
fn tail_bytes(shape: u8) -> usize {
    usize::from(shape & COUNT_BITS) * PLACE_BYTES + if shape & HAS_VERSION != 0 { VERSION_ID_BYTES } else { 0 }
}

#[cfg(test)]
mod tests;
