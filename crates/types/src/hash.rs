//! The 160-bit name of an index entry (RFD 2, decision 16).

use std::fmt;

/// Bytes of a [`KeyHash`].
pub const KEY_HASH_BYTES: usize = 20;

/// Keyed BLAKE3, cut to 160 bits, over a bucket's incarnation id and an entry's name. Uniform: any bits of it may
/// choose a shard, a slot or a replica set. It names; the full name in the record header is the proof.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash([u8; KEY_HASH_BYTES]);

impl KeyHash {
    /// Wraps bytes that a hash function or a decoder produced.
    pub const fn from_bytes(bytes: [u8; KEY_HASH_BYTES]) -> Self {
        KeyHash(bytes)
    }

    /// The bytes, as they stand on media and in messages.
    pub const fn as_bytes(&self) -> &[u8; KEY_HASH_BYTES] {
        &self.0
    }

    /// The first 64 bits: chooses the slot within a table.
    pub fn slot_bits(&self) -> u64 {
        u64::from_le_bytes(self.0[0..8].try_into().expect("eight of twenty bytes"))
    }

    /// Bits 64 to 96: chooses the shard, independent of [`KeyHash::slot_bits`].
    pub fn shard_bits(&self) -> u32 {
        u32::from_le_bytes(self.0[8..12].try_into().expect("four of twenty bytes"))
    }

    /// Bits 96 to 128: chooses the replica set, independent of the other two.
    pub fn placement_bits(&self) -> u32 {
        u32::from_le_bytes(self.0[12..16].try_into().expect("four of twenty bytes"))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(")?;
        for byte in &self.0[..6] {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("..)")
    }
}

#[cfg(test)]
mod tests;
