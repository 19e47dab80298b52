//! What the chunk store's processes ask of each other, as it travels ([`protocol`](crate::protocol); docs/rfd/0012).
//!
//! A message is one byte version, one byte kind and the kind's fields in the order below; little endian. Content comes last: encoding copies
//! it once, decoding not at all. What is chosen among several things within a message begins with a byte of its own. Every list and text
//! begins with its length and has a limit ([`limits`]). The carrier has checksums.
//!
//! | message | kind | fields |
//! |---|---|---|
//! | [`BlockRequest`] | 1 direct | to node |
//! | | 2 forwarded | places, reply, to node |
//! | | 3 condemn | place |
//! | | 4 gaps | device u32, count u32, blocks u32 |
//! | [`Gaps`] | 1 | count u32, bytes u32 |
//! | [`NodeAnswer`] | 1 live | version, era u32, capacity u32, is settled, 0 or 1 content |
//! | | 2 dead | era u32, is settled |
//! | | 3 absent, 4 departed, 5 damaged, 7 other era | |
//! | | 6 done | 0 or mark |
//! | | 8 refused | why u8 |
//! | [`Delivery`] | 1 | token u64, places, place, node answer from its kind on |
//! | [`HostRequest`] | 1 update | length u32, [`LookupUpdate`](format::chunk_update::LookupUpdate) |
//! | | 2 piece | stream, number u64, total bytes u32, offset u32, length u32, bytes |
//! | | 3 route | id, has content, reply |
//! | | 4 locate | id |
//! | [`HostAnswer`] | 1 received | received |
//! | | 2 gathering, 3 forwarded, 4 not routed | |
//! | | 5 located | 1 places, 2 behind, 3 nowhere |
//! | [`UnitRequest`] | 1 register | shard u32, session u32, request u32, bytes u32, copies u8, count u32, nodes u32 |
//! | | 2 commit, 3 revoke, 4 find | id |
//! | | 5 relocate | id, device u32, 0 or 1 device u32 |
//! | | 6 report | node u32, shard u32, 0 or received; behind a count u32 each: ids, copies (id, place), damaged blocks (place, is condemned), devices u32, rooms (device u32, blocks u32, span bytes u64); then shares u16 of processors, memory, network |
//! | | 7 last copies | shard u32, count u32, devices u32 |
//! | | 8 suspect | id, place |
//! | [`UnitAnswer`] | 1 registered | id, places |
//! | | 2 done, 6 unknown | |
//! | | 3 found | 1 unknown, 2 pending and places, 3 known and places |
//! | | 4 refused | why u8: 2 size and limit u32, 3 no room and place |
//! | | 5 not leader | 0 or 1 node u32 |
//! | | 7 counted | u64 |
//! | [`ChunkMap`] | 1 | version u64, then behind a count u32 each: nodes (u32, identity, address), devices (u32, node u32), shards; before the shards the next one's number u32 |
//! | [`LoadReport`] | 1 | node u32, heat u64, count u32, hot copies (id, place, heat u64) |
//!
//! | part | fields |
//! |---|---|
//! | id, identity, places | 20, 16, 16 bytes |
//! | place | device and block in the bits of [`BlockPlace`](format::chunk_place::BlockPlace), u64 |
//! | version | counter u64, writer u64 |
//! | stream | shard u32, term u64, generation u64 |
//! | mark | 1 and version for live, 2 for dead |
//! | reply | address, token u64 |
//! | address | length u16, UTF-8 |
//! | content | length u32, bytes |
//! | received | 1, stream, number u64 and horizon u64 for held; 2 and shard u32 for one that needs a snapshot |
//! | shard of a map | u32, is open, members, hosts; both a count u8 and nodes u32 |
//! | to node | place, id, what is asked |
//!
//! | asked of a node | fields |
//! |---|---|
//! | 1 put | capacity u32, content |
//! | 2 read, 3 query | |
//! | 4 write | era u32, 1 version and content or 2 |
//! | 5 settle | mark |
//! | 6 erase | era u32, moves u64 |
//! | 7 forget | era u32, puts u64, moves u64 |
//! | 8 depart, 9 raise, 10 take | era u32 |
//! | 11 bring | relocation u64, era u32, capacity u32, version, is settled, content |
//! | 12 mend | era u32, version, content |

mod answer;
mod block;
mod field;
mod host;
mod input;
pub mod limits;
mod load;
mod map;
mod unit;

use bytes::{BufMut, Bytes, BytesMut};

use crate::message::NodeAnswer;
use crate::protocol::{BlockRequest, ChunkMap, Delivery, Gaps, HostAnswer, HostRequest, LoadReport, UnitAnswer, UnitRequest};
pub use format::decode::DecodeError as WireError;
pub use input::Input;

/// Version written and understood; 1: the first.
pub const WIRE_VERSION: u8 = 1;

/// Room for a message without content.
const SMALL_BYTES: usize = 128;

/// A message, or a part of one.
pub trait Wire: Sized {
    /// Panics when a list or text is longer than its limit: whoever makes a message keeps them.
    fn put(&self, out: &mut BytesMut);
    fn take(input: &mut Input<'_>) -> Result<Self, WireError>;
}

/// What is sent as a whole. Begins with its kind.
pub trait Message: Wire {
    /// In errors.
    const NAME: &'static str;
}

macro_rules! messages {
    ($($message:ty: $name:literal),* $(,)?) => {
        $(impl Message for $message {
            const NAME: &'static str = $name;
        })*
    };
}

messages! {
    BlockRequest: "block request",
    NodeAnswer: "node's answer",
    Gaps: "gaps",
    Delivery: "delivery",
    HostRequest: "host request",
    HostAnswer: "host's answer",
    UnitRequest: "unit request",
    UnitAnswer: "unit's answer",
    ChunkMap: "chunk map",
    LoadReport: "load report",
}

pub fn encode<M: Message>(message: &M) -> Bytes {
    let mut out = BytesMut::with_capacity(SMALL_BYTES);
    out.put_u8(WIRE_VERSION);
    message.put(&mut out);
    out.freeze()
}

/// Reads a message that fills `bytes`. Its content is a part of them.
pub fn decode<M: Message>(bytes: &Bytes) -> Result<M, WireError> {
    let mut input = Input::new(M::NAME, bytes);
    input.version(WIRE_VERSION)?;
    let message = M::take(&mut input)?;
    input.finish()?;
    Ok(message)
}

#[cfg(test)]
mod tests;
