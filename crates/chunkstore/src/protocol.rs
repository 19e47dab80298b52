//! What processes of the chunk store ask of each other, around what the machines say ([`message`](crate::message)); docs/rfd/0012.
//!
//! ```text
//!   client ── UnitRequest ──► node that leads the unit ── HostRequest::Update ──► lookup hosts
//!   client ── HostRequest::Route ──► lookup host ── BlockRequest::Forwarded ──► node with the block ── Delivery ──► client
//!   client ── BlockRequest::Direct ──► node with the block
//!   node   ── UnitRequest::Report ──► node that leads the unit
//!   node   ── LoadReport ──► node that leads the manager
//!   client ── MapRequest ──► any node
//! ```
//!
//! Records: [`wire`](crate::wire).

use env::MachineUse;
use format::chunk_command::{ClientCall, CopyOf};
use format::chunk_id::{ChunkId, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use format::chunk_update::{LookupUpdate, Stream};
use net::ServiceTag;
use types::{DeviceId, NodeId, NodeIdentity};

use crate::lookup::Received;
use crate::maintenance::Refusal;
use crate::message::{Found, Located, NodeAnswer, ToNode};

/// Blocks of a node's devices.
pub const BLOCKS: ServiceTag = ServiceTag::CHUNK_BLOCKS;
/// Lookup units of a node.
pub const HOSTS: ServiceTag = ServiceTag::CHUNK_HOSTS;
/// Maintenance units that a node is a member of.
pub const UNITS: ServiceTag = ServiceTag::CHUNK_UNITS;
/// Answers to clients that asked through a lookup host.
pub const DELIVERIES: ServiceTag = ServiceTag::CHUNK_DELIVERIES;
/// Where everything is.
pub const MAPS: ServiceTag = ServiceTag::CHUNK_MAPS;

/// Loads of nodes, where the manager is led.
pub const LOADS: ServiceTag = ServiceTag::CHUNK_LOADS;

/// Where the answer to a forwarded request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    /// Where the client listens.
    pub address: String,
    /// Names the client's request to the client.
    pub token: u64,
}

/// Asked of the node that has a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockRequest {
    /// The answer is a [`NodeAnswer`].
    Direct(ToNode),
    /// By a lookup host for a client: acknowledged at once, and answered by a [`Delivery`].
    Forwarded { to: ToNode, places: ChunkPlaces, reply: ReplyTo },
    /// By a unit's leader, of a block whose header was lost: it counts as lost for good. The answer is a [`NodeAnswer`].
    Condemn(BlockPlace),
    /// By a unit's leader that looks for targets: how much each of these blocks takes in one piece. The answer is [`Gaps`].
    Gaps { device: DeviceId, blocks: Vec<u32> },
}

/// The longest gap of each block that was asked about, in the order of the question; 0 where nothing can be written without more space of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gaps(pub Vec<u32>);

/// The space that a device has for chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRoom {
    pub device: DeviceId,
    /// Further blocks that could get space now.
    pub blocks: u32,
    /// What goes back to the pool at once: bytes of a unit of its volume.
    pub span_bytes: u64,
}

/// The answer to a forwarded request, to the client; acknowledged with nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub token: u64,
    pub places: ChunkPlaces,
    pub place: BlockPlace,
    pub answer: NodeAnswer,
}

/// A part of a snapshot that is too long for one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPiece {
    pub stream: Stream,
    /// As in the update.
    pub number: u64,
    /// Of the encoded update.
    pub total_bytes: u32,
    pub offset: u32,
    pub bytes: Vec<u8>,
}

/// Asked of a lookup host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRequest {
    Update(LookupUpdate),
    Piece(SnapshotPiece),
    /// Forward a read, or a question what the copy is.
    Route {
        id: ChunkId,
        has_content: bool,
        reply: ReplyTo,
    },
    /// For people who want to see it.
    Locate(ChunkId),
}

/// Answered by a lookup host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAnswer {
    Received(Received),
    /// More pieces are wanted.
    Gathering,
    /// The answer comes from the block's node.
    Forwarded,
    NotRouted,
    Located(Located),
}

/// What a node tells the leader of a unit now and then, of its own accord.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    pub node: NodeId,
    pub shard: ShardId,
    /// If it is a host of the shard: how far it is.
    pub host: Option<Received>,
    /// Chunks of the shard with dead copies there.
    pub freed: Vec<ChunkId>,
    /// Copies of the shard without content that can be returned.
    pub rotten: Vec<CopyOf>,
    /// Blocks there whose header was lost, whosever they are.
    pub damaged: Vec<DamagedBlock>,
    /// Its devices that take no writes now: they have failed, or hang.
    pub stuck: Vec<DeviceId>,
    /// The space that each of its devices has.
    pub rooms: Vec<DeviceRoom>,
    pub machine: MachineUse,
}

/// A block whose header was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedBlock {
    pub place: BlockPlace,
    /// Nothing of it will ever be read again.
    pub is_condemned: bool,
}

/// What a node tells the monitor now and then; acknowledged with nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadReport {
    pub node: NodeId,
    /// Requests about copies a second, of all its devices.
    pub heat: u64,
    pub machine: MachineUse,
    /// Copies there that are asked for most.
    pub hot: Vec<HotCopy>,
}

/// A copy that is asked for often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotCopy {
    pub id: ChunkId,
    pub place: BlockPlace,
    /// Requests a second.
    pub heat: u64,
}

/// Asked of the node that leads a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitRequest {
    /// The unit's leader chooses the places.
    Register {
        shard: ShardId,
        call: ClientCall,
        bytes: u32,
        copies: u8,
        /// Nodes that did not answer the client lately: others are chosen if they will do.
        avoid: Vec<NodeId>,
    },
    /// Answered when a lookup host has the chunk as well.
    Commit(ChunkId),
    Revoke(ChunkId),
    Find(ChunkId),
    /// Move the copy on one device to another; without one the leader chooses.
    Relocate {
        id: ChunkId,
        from: DeviceId,
        to: Option<DeviceId>,
    },
    Report(NodeReport),
    /// A client did not find the copy where the unit says that it is: the unit's leader asks the node itself.
    Suspect(CopyOf),
    /// How many chunks of the shard would be lost with these devices.
    LastCopies {
        shard: ShardId,
        devices: Vec<DeviceId>,
    },
}

/// Answered by a member of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitAnswer {
    Registered {
        id: ChunkId,
        places: ChunkPlaces,
    },
    Done,
    Found(Found),
    Refused(Refusal),
    /// Somebody else leads, if it is known who.
    NotLeader(Option<NodeId>),
    /// Nothing is known of what became of it: ask again.
    Unknown,
    Counted(u64),
}

/// A node, for whoever wants to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlace {
    pub id: NodeId,
    pub identity: NodeIdentity,
    pub address: String,
}

/// A shard: who keeps its unit, and who answers for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPlace {
    pub shard: ShardId,
    /// Takes registrations.
    pub is_open: bool,
    pub members: Vec<NodeId>,
    pub hosts: Vec<NodeId>,
}

/// Where everything is: what a client needs to begin, and asks for again when something does not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkMap {
    /// Grows with every change: the number of the manager's command.
    pub version: u64,
    pub nodes: Vec<NodePlace>,
    pub devices: Vec<(DeviceId, NodeId)>,
    /// No shard has this number, or a higher one. A lower one that is not among `shards` was opened after the copy of its state from which the
    /// manager was rebuilt, or nobody knows whether it was.
    pub next_shard: u32,
    pub shards: Vec<ShardPlace>,
}
