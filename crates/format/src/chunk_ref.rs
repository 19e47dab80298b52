//! Lists of chunks: the payload of a descriptor, of a descriptor node and of a large part (ZStore, section 3.1, figure 3).
//!
//! ```text
//! 0        8            8+w               8+2w
//! ├─ head ─┼─ reference ─┼─ reference ────┼─ …     w = 4 + 12 × places_per_ref
//! ```
//!
//! References have one width per list, so that the n-th is found without reading the others. A reference with fewer places
//! than the list's widest leaves the rest zero.
//!
//! At a tree height above 1 the references name descriptor nodes instead of chunks, and `payload_bytes` is the length of the
//! node's own payload.

use types::limits::MAX_SMALL_BYTES;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use crate::decode::{DecodeError, Fault, Reader};
use crate::layout::fixed_layout;
use crate::replicas::{PLACE_BYTES, PlaceLayout, Places, check_count};

/// Version written; 1: the first.
pub const CHUNK_LIST_VERSION: u8 = 1;

/// Most references of one descriptor or node, so that its payload fits one small record with any number of replicas.
pub const MAX_REFS_PER_DESCRIPTOR: usize = (MAX_SMALL_BYTES - size_of::<ChunkListLayout>()) / MAX_REF_BYTES;

/// Bytes of a reference in the widest list.
pub const MAX_REF_BYTES: usize = HEAD_BYTES + 3 * PLACE_BYTES;

/// Longest payload of a chunk.
pub const MAX_CHUNK_PAYLOAD_BYTES: u32 = PAYLOAD_MASK;

const HEAD_BYTES: usize = 4;
const PAYLOAD_MASK: u32 = (1 << 24) - 1;
const COUNT_SHIFT: u32 = 24;
const COUNT_MASK: u32 = 3;
const KNOWN_BITS: u32 = PAYLOAD_MASK | COUNT_MASK << COUNT_SHIFT;

const CHUNK_LIST: &str = "chunk list";

const _: () = assert!(types::limits::CHUNK_BYTES <= MAX_CHUNK_PAYLOAD_BYTES as usize);

/// One chunk of a large object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRef {
    /// The primary's first.
    pub places: Places,
    /// At most [`MAX_CHUNK_PAYLOAD_BYTES`].
    pub payload_bytes: u32,
}

/// A list of chunks as it stands on media.
#[derive(Clone, Copy, Debug)]
pub struct ChunkList<'a> {
    places_per_ref: usize,
    refs: &'a [u8],
}

fixed_layout! {
    pub(crate) struct ChunkListLayout: 8 {
        0 version: u8,
        1 places_per_ref: u8,
        2 reserved: U16,
        4 count: U32,
    }
}

/// Appends a list of at most [`MAX_REFS_PER_DESCRIPTOR`] references.
pub fn encode_list(refs: &[ChunkRef], out: &mut Vec<u8>) {
    assert!(refs.len() <= MAX_REFS_PER_DESCRIPTOR);
    let widest = refs.iter().map(|one| one.places.len()).max().unwrap_or(1);
    let head = ChunkListLayout {
        version: CHUNK_LIST_VERSION,
        places_per_ref: widest as u8,
        reserved: U16::ZERO,
        count: (refs.len() as u32).into(),
    };
    out.reserve(size_of::<ChunkListLayout>() + refs.len() * ref_bytes(widest));
    out.extend_from_slice(head.as_bytes());
    for one in refs {
        assert!(one.payload_bytes <= MAX_CHUNK_PAYLOAD_BYTES);
        let word = one.payload_bytes | (one.places.len() as u32) << COUNT_SHIFT;
        out.extend_from_slice(&word.to_le_bytes());
        out.extend_from_slice(PlaceLayout::pack(&one.places)[..widest].as_bytes());
    }
}

const fn ref_bytes(places_per_ref: usize) -> usize {
    HEAD_BYTES + places_per_ref * PLACE_BYTES
}

impl<'a> ChunkList<'a> {
    /// Checks a list that fills `bytes`: afterwards every reference can be read.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(CHUNK_LIST, bytes);
        let list = ChunkList::read(&mut reader)?;
        reader.finish()?;
        Ok(list)
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let at = reader.offset();
        let head: &ChunkListLayout = reader.fixed("head")?;
        reader.check_version(at, head.version, CHUNK_LIST_VERSION)?;
        let places = check_count(head.places_per_ref).map_err(|fault| reader.error_at(at + 1, "places_per_ref", fault))?;
        let width = ref_bytes(usize::from(places));
        let count = head.count.get() as usize;
        reader.check_count(at + 4, count, width, "count")?;
        let first = reader.offset();
        let refs = reader.take(count * width, "references")?;
        for (index, one) in refs.chunks_exact(width).enumerate() {
            check_word(word(one), places).map_err(|fault| reader.error_at(first + index * width, "reference", fault))?;
        }
        Ok(ChunkList { places_per_ref: usize::from(places), refs })
    }

    pub fn len(&self) -> usize {
        self.refs.len() / ref_bytes(self.places_per_ref)
    }

    pub fn is_empty(&self) -> bool {
        self.refs.is_empty()
    }

    /// The n-th reference.
    pub fn get(&self, index: usize) -> Option<ChunkRef> {
        let width = ref_bytes(self.places_per_ref);
        self.refs.chunks_exact(width).nth(index).map(read_ref)
    }

    /// All references, in the order of the content.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ChunkRef> + 'a {
        self.refs.chunks_exact(ref_bytes(self.places_per_ref)).map(read_ref)
    }
}

fn word(one: &[u8]) -> u32 {
    let (word, _) = U32::ref_from_prefix(one).expect("every reference begins with its word");
    word.get()
}

fn check_word(word: u32, places_per_ref: u8) -> Result<(), Fault> {
    if word & !KNOWN_BITS != 0 {
        return Err(Fault::Unknown { found: u64::from(word) });
    }
    let count = (word >> COUNT_SHIFT & COUNT_MASK) as u8;
    if count == 0 || count > places_per_ref {
        return Err(Fault::OutOfRange { least: 1, most: u64::from(places_per_ref), found: u64::from(count) });
    }
    Ok(())
}

/// Reads a reference that [`ChunkList::read`] has checked.
fn read_ref(one: &[u8]) -> ChunkRef {
    let word = word(one);
    let places = <[PlaceLayout]>::ref_from_bytes(&one[HEAD_BYTES..]).expect("whole places follow the word");
    ChunkRef {
        places: PlaceLayout::unpack(places, (word >> COUNT_SHIFT & COUNT_MASK) as u8),
        payload_bytes: word & PAYLOAD_MASK,
    }
}

#[cfg(test)]
pub(crate) mod tests;
