//! The id of a chunk: given by the system, never given again (docs/rfd/0011).
//!
//! | at | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | `shard` | whose maintenance unit gave it |
//! | 4 | 8 | `number` | in the shard, in the order of registration |
//! | 12 | 8 | `nonce` | drawn by the unit: who guesses a number does not have the id |

use std::fmt;

/// Bytes of an id.
pub const CHUNK_ID_BYTES: usize = 20;

/// A shard: the chunks that were registered in one stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

/// A chunk's number in its shard, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkNumber(pub u64);

/// What makes an id unlike all others that have its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkNonce(pub u64);

/// Names a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId {
    pub shard: ShardId,
    pub number: ChunkNumber,
    pub nonce: ChunkNonce,
}

impl ChunkId {
    pub fn to_bytes(self) -> [u8; CHUNK_ID_BYTES] {
        let mut bytes = [0; CHUNK_ID_BYTES];
        bytes[..4].copy_from_slice(&self.shard.0.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.number.0.to_le_bytes());
        bytes[12..].copy_from_slice(&self.nonce.0.to_le_bytes());
        bytes
    }

    /// Any bytes are an id; whether there is such a chunk is another question.
    pub fn from_bytes(bytes: [u8; CHUNK_ID_BYTES]) -> Self {
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let shard = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
        ChunkId { shard: ShardId(shard), number: ChunkNumber(long(4)), nonce: ChunkNonce(long(12)) }
    }
}

/// As people see it: shard, number and nonce in hexadecimal digits.
impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}.{:016x}", self.shard.0, self.number.0, self.nonce.0)
    }
}

/// Text that is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a chunk's id looks like 0.1f.00c0ffee00c0ffee: shard, number and nonce in hexadecimal digits")]
pub struct ParseIdError;

impl std::str::FromStr for ChunkId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let mut parts = text.trim().split('.');
        let mut next = || parts.next().filter(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit())).ok_or(ParseIdError);
        let (shard, number, nonce) = (next()?, next()?, next()?);
        if parts.next().is_some() {
            return Err(ParseIdError);
        }
        let long = |text| u64::from_str_radix(text, 16).map_err(|_| ParseIdError);
        let shard = u32::from_str_radix(shard, 16).map_err(|_| ParseIdError)?;
        Ok(ChunkId { shard: ShardId(shard), number: ChunkNumber(long(number)?), nonce: ChunkNonce(long(nonce)?) })
    }
}

#[cfg(test)]
pub(crate) mod tests;
