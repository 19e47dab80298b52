//! The fences of a target, kept in a device's notes ([`super::notes::NotesKind::Fences`]).
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `magic` | `TriF` |
//! | 4 | 1 | `version` | [`FENCES_VERSION`] |
//! | 5 | 3 | reserved | zero |
//! | 8 | 4 | `count` | at most [`MAX_FENCES`] |
//! | 12 | 4 | reserved | zero |
//! | 16 | 24 each | fences | `kind` u8, 7 reserved, `scope` u64, `token` u64; ascending by (kind, scope) |
//!
//! The CRC is the notes'. Invariant: each (kind, scope) stands once.

use types::Token;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version written; 1: the first.
pub const FENCES_VERSION: u8 = 1;

/// Most fences of one target.
pub const MAX_FENCES: usize = 2048;

const MAGIC: [u8; 4] = *b"TriF";
const HEAD_BYTES: usize = 16;
const FENCE_BYTES: usize = 24;

const _: () = assert!(HEAD_BYTES + MAX_FENCES * FENCE_BYTES <= super::notes::NotesKind::Fences.max_bytes());

/// What kind of writer a fence is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FenceKind {
    /// A gateway instance of a cell.
    Gateway = 1,
    PlacementGroup = 2,
    Image = 3,
    Shard = 4,
    DataPartition = 5,
}

/// Whom a fence keeps out: older tokens of one writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FenceKey {
    pub kind: FenceKind,
    pub scope: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    magic: [u8; 4],
    version: u8,
    reserved_a: [u8; 3],
    count: U32,
    reserved_b: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fence {
    kind: u8,
    reserved: [u8; 7],
    scope: U64,
    token: U64,
}

const _: () = assert!(size_of::<Head>() == HEAD_BYTES);
const _: () = assert!(size_of::<Fence>() == FENCE_BYTES);

/// Why bytes are not a table of fences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FencesError {
    #[error("not a table of fences")]
    NotFences,
    #[error("fences of version {found}, expected {FENCES_VERSION}")]
    Version { found: u8 },
    #[error("{found} bytes for {count} fences")]
    Length { count: u32, found: usize },
    #[error("fence of unknown kind {found}")]
    Kind { found: u8 },
    #[error("fence {index} is out of order")]
    Unsorted { index: usize },
}

/// Bytes of a table. `fences` ascend by key.
///
/// Panics when there are more than [`MAX_FENCES`].
pub fn encode(fences: &[(FenceKey, Token)]) -> Vec<u8> {
    assert!(fences.len() <= MAX_FENCES, "{} fences", fences.len());
    let head = Head {
        magic: MAGIC,
        version: FENCES_VERSION,
        reserved_a: [0; 3],
        count: U32::new(fences.len() as u32),
        reserved_b: U32::ZERO,
    };
    let mut bytes = Vec::with_capacity(HEAD_BYTES + fences.len() * FENCE_BYTES);
    bytes.extend_from_slice(head.as_bytes());
    for (key, token) in fences {
        let fence = Fence { kind: key.kind as u8, reserved: [0; 7], scope: U64::new(key.scope), token: U64::new(token.0) };
        bytes.extend_from_slice(fence.as_bytes());
    }
    bytes
}

/// Reads a table.
pub fn decode(bytes: &[u8]) -> Result<Vec<(FenceKey, Token)>, FencesError> {
    let Ok((head, rest)) = Head::ref_from_prefix(bytes) else { return Err(FencesError::NotFences) };
    if head.magic != MAGIC {
        return Err(FencesError::NotFences);
    }
    if head.version != FENCES_VERSION {
        return Err(FencesError::Version { found: head.version });
    }
    let count = head.count.get();
    if count as usize > MAX_FENCES || rest.len() != count as usize * FENCE_BYTES {
        return Err(FencesError::Length { count, found: bytes.len() });
    }
    let mut fences: Vec<(FenceKey, Token)> = Vec::with_capacity(count as usize);
    for (index, bytes) in rest.chunks_exact(FENCE_BYTES).enumerate() {
        let fence = Fence::ref_from_bytes(bytes).expect("a fence's bytes");
        let key = FenceKey { kind: kind_of(fence.kind)?, scope: fence.scope.get() };
        if fences.last().is_some_and(|(before, _)| *before >= key) {
            return Err(FencesError::Unsorted { index });
        }
        fences.push((key, Token(fence.token.get())));
    }
    Ok(fences)
}

fn kind_of(byte: u8) -> Result<FenceKind, FencesError> {
    match byte {
        1 => Ok(FenceKind::Gateway),
        2 => Ok(FenceKind::PlacementGroup),
        3 => Ok(FenceKind::Image),
        4 => Ok(FenceKind::Shard),
        5 => Ok(FenceKind::DataPartition),
        found => Err(FencesError::Kind { found }),
    }
}

#[cfg(test)]
mod tests;
