//! Limits of messages: of lists and texts, so that each message fits a frame.

use format::chunk_block::BLOCK_DATA_BYTES;
use format::chunk_command::MAX_COMMAND_ITEMS;
use manager::limits::{MAX_DEVICES, MAX_NODE_TEXT_BYTES, MAX_NODES};
use manager::modules::chunks::limits::{MAX_SHARD_HOSTS, MAX_SHARDS};
use manager::modules::groups::MAX_GROUP_MEMBERS;
use net::MAX_PAYLOAD_BYTES;

/// Longest content: that of a block.
pub const MAX_CONTENT_BYTES: usize = BLOCK_DATA_BYTES as usize;
/// All that stands before the content, at most.
pub const MAX_HEAD_BYTES: usize = 512;
/// Longest address: that of a node, which a client's is not longer than.
pub const MAX_ADDRESS_BYTES: usize = MAX_NODE_TEXT_BYTES;
/// Longest lookup update in one message; longer snapshots go in pieces.
pub const MAX_UPDATE_BYTES: usize = 4 << 20;
/// Longest piece of a snapshot.
pub const MAX_PIECE_BYTES: usize = 4 << 20;
/// Longest snapshot that goes in pieces.
pub const MAX_SNAPSHOT_BYTES: usize = 1 << 30;
/// Most dead chunks in one report: what one command of the unit takes.
pub const MAX_FREED: usize = MAX_COMMAND_ITEMS;
/// Most rotten copies in one report; others follow in the next ones.
pub const MAX_ROTTEN: usize = 256;
/// Most damaged blocks in one report; others follow in the next ones.
pub const MAX_DAMAGED: usize = 1_024;
/// Most blocks of a question for gaps.
pub const MAX_GAPS: usize = 4_096;
/// Most devices that take no writes in one report: all that there can be.
pub const MAX_STUCK: usize = MAX_DEVICES;
/// Most nodes of a map. What the manager knows fits one.
pub const MAX_MAP_NODES: usize = MAX_NODES;
/// Most devices of a map.
pub const MAX_MAP_DEVICES: usize = MAX_DEVICES;
/// Most shards of a map.
pub const MAX_MAP_SHARDS: usize = MAX_SHARDS;
/// Most members of a unit, and most hosts of a shard.
pub const MAX_SHARD_NODES: usize = MAX_SHARD_HOSTS;

/// Bytes of a map's longest node, device and shard.
const NODE_BYTES: usize = 4 + 16 + 2 + MAX_ADDRESS_BYTES;
const DEVICE_BYTES: usize = 8;
const SHARD_BYTES: usize = 4 + 1 + 2 * (1 + 4 * MAX_SHARD_NODES);
const MAP_BYTES: usize =
    MAX_HEAD_BYTES + MAX_MAP_NODES * NODE_BYTES + MAX_MAP_DEVICES * DEVICE_BYTES + MAX_MAP_SHARDS * SHARD_BYTES;

const _: () = assert!(MAX_HEAD_BYTES + MAX_CONTENT_BYTES <= MAX_PAYLOAD_BYTES);
const _: () = assert!(MAX_HEAD_BYTES + MAX_UPDATE_BYTES <= MAX_PAYLOAD_BYTES);
const _: () = assert!(MAX_HEAD_BYTES + MAX_PIECE_BYTES <= MAX_PAYLOAD_BYTES);
const _: () = assert!(MAX_GROUP_MEMBERS <= MAX_SHARD_NODES && MAX_SHARD_NODES <= u8::MAX as usize);
const _: () = assert!(MAP_BYTES <= MAX_PAYLOAD_BYTES);
