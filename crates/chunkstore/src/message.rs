//! What clients, hosts, nodes and units say to each other (docs/rfd/0011).
//!
//! Every request may come late, twice or never, and may be answered twice: each says all that is needed to judge it then.

use bytes::Bytes;
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_id::{ChunkId, ChunkNumber};
use format::chunk_place::{BlockPlace, ChunkPlaces};

/// What a copy has: a write's content, or the end of the chunk, which stands above all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    Live(ChunkVersion),
    Dead,
}

/// A write: all of a chunk's content, or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Content { version: ChunkVersion, content: Bytes },
    End,
}

impl Change {
    pub fn mark(&self) -> Mark {
        match self {
            Change::Content { version, .. } => Mark::Live(*version),
            Change::End => Mark::Dead,
        }
    }
}

/// Numbers of a shard below which nothing can be decided any more. A node refuses puts and copies below them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resolved {
    /// Registrations.
    pub puts: ChunkNumber,
    /// Relocations.
    pub moves: u64,
}

impl Resolved {
    /// The greater of both, each by itself.
    pub fn raised(self, other: Resolved) -> Resolved {
        Resolved { puts: self.puts.max(other.puts), moves: self.moves.max(other.moves) }
    }
}

/// Asked of the node that has a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeRequest {
    /// A new chunk. `capacity` is what was registered; the era is the first one of so many places.
    Put {
        era: Era,
        capacity: u32,
        content: Bytes,
    },
    /// What the copy is, and its content.
    Read,
    /// What the copy is.
    Query,
    Write {
        era: Era,
        change: Change,
    },
    /// All copies have this.
    Settle(Mark),
    /// Of the unit: the chunk ends here, whatever the copy is. Its relocations have numbers below `moves`.
    Erase {
        era: Era,
        moves: u64,
    },
    /// Of the unit: nothing need be remembered of a copy of this era or an earlier one.
    Forget {
        era: Era,
        resolved: Resolved,
    },
    /// Of a relocation: the copy answers nobody from now on.
    Depart {
        era: Era,
    },
    /// Of a relocation, to a target that was given up for its own: a copy of this era, that may have been brought there by one with a number below
    /// `moves`, answers nobody, and none is made any more.
    Discard {
        era: Era,
        moves: u64,
    },
    /// Of a relocation: the copy belongs to the new places.
    Raise {
        era: Era,
    },
    /// Of a relocation: what is to be copied.
    Take {
        era: Era,
    },
    /// Of a relocation: the copy at its new place.
    Bring {
        relocation: u64,
        era: Era,
        capacity: u32,
        version: ChunkVersion,
        is_settled: bool,
        content: Bytes,
    },
    /// Of the unit: another copy of this era has this, and this one has lost its content.
    Mend {
        era: Era,
        version: ChunkVersion,
        /// No copy has something newer that anybody was told of: with this one it is not doubted any more.
        is_compared: bool,
        content: Bytes,
    },
}

impl NodeRequest {
    /// Whether nothing is written for it.
    pub fn only_reads(&self) -> bool {
        match self {
            NodeRequest::Read | NodeRequest::Query | NodeRequest::Settle(_) | NodeRequest::Take { .. } => true,
            NodeRequest::Put { .. }
            | NodeRequest::Write { .. }
            | NodeRequest::Erase { .. }
            | NodeRequest::Forget { .. }
            | NodeRequest::Depart { .. }
            | NodeRequest::Discard { .. }
            | NodeRequest::Raise { .. }
            | NodeRequest::Bring { .. }
            | NodeRequest::Mend { .. } => false,
        }
    }

    /// Bytes of content that come with it.
    pub fn content_bytes(&self) -> usize {
        match self {
            NodeRequest::Put { content, .. }
            | NodeRequest::Bring { content, .. }
            | NodeRequest::Mend { content, .. }
            | NodeRequest::Write { change: Change::Content { content, .. }, .. } => content.len(),
            _ => 0,
        }
    }
}

/// A live copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveCopy {
    pub version: ChunkVersion,
    pub era: Era,
    pub capacity: u32,
    pub is_settled: bool,
    /// If it was asked for.
    pub content: Option<Bytes>,
}

/// Answered by a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAnswer {
    Live(LiveCopy),
    Dead {
        era: Era,
        is_settled: bool,
    },
    /// Nothing of this chunk is in this block. That says nothing about the chunk.
    Absent,
    Departed,
    /// The content is not what was written; another copy may have it.
    Damaged,
    /// It is so, and durable. The copy has this now.
    Done(Option<Mark>),
    /// The copy belongs to other places than the write.
    OtherEra,
    Refused(NodeRefusal),
}

/// Why a node does not do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeRefusal {
    #[error("the block has no room")]
    Full,
    #[error("the content is longer than was registered")]
    TooLong,
    #[error("the registration or relocation is over")]
    Resolved,
    #[error("the chunk has ended here")]
    Dead,
    #[error("a copy that is in use can't be forgotten")]
    InUse,
    #[error("too many requests wait for the block")]
    Busy,
    /// What became of the request is not known: it may be there when the device is opened anew.
    #[error("the block, or its device, takes no more writes")]
    Failed,
}

/// What a unit knows of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is no such chunk, and never will be (again).
    Unknown,
    Pending(ChunkPlaces),
    /// Published. Whether somebody has begun to delete it, its copies know. There may be fewer copies than are wanted.
    Known {
        places: ChunkPlaces,
        wanted: u8,
    },
}

impl Found {
    /// Where the copies are, or are going to be.
    pub fn places(&self) -> Option<ChunkPlaces> {
        match self {
            Found::Unknown => None,
            Found::Pending(places) | Found::Known { places, .. } => Some(*places),
        }
    }
}

/// A lookup host's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// If the chunk exists, it is or was here; an alien id leads to a stranger.
    At(ChunkPlaces),
    /// The host has not heard of so late an id yet.
    Behind,
    /// Not a host of the shard, or the id is alien for certain.
    Nowhere,
}

/// A request on its way to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToNode {
    pub place: BlockPlace,
    pub id: ChunkId,
    pub request: NodeRequest,
}
