//! Named limits of shards and volumes.

/// Most shards of the chunk store. They are never removed.
pub const MAX_SHARDS: usize = 16_384;

/// Most chunks of a shard: as many as there are in the largest one that the paper has.
pub const MAX_SHARD_CHUNKS: u64 = 1 << 30;

/// Most nodes that host a shard's lookup units.
pub const MAX_SHARD_HOSTS: usize = 16;

/// Most blocks of a volume: what the place of a chunk can name.
pub const MAX_VOLUME_BLOCKS: u32 = 1 << format::chunk_place::BLOCK_BITS;

/// Blocks of a bulk, which is granted as a whole: 1 GiB. The last bulk of a volume may be shorter.
pub const BULK_BLOCKS: u32 = 256;

/// The first shard's number, so that 0 can mean none in records.
pub const FIRST_SHARD: u32 = 1;

/// As [`crate::limits::NUMBER_LIMIT`], for shards.
pub const SHARD_NUMBER_LIMIT: u32 = 1 << 31;
