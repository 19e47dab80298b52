//! What a unit keeps of a chunk, and why it refuses.

use format::chunk_block::Era;
use format::chunk_command::ClientCall;
use format::chunk_id::ChunkNonce;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::ErrorKind;

/// A chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub nonce: ChunkNonce,
    pub places: ChunkPlaces,
    /// Space of each copy.
    pub bytes: u32,
    /// Copies that there are to be.
    pub wanted: u8,
    pub era: Era,
}

impl Row {
    /// Whether there are fewer copies than are wanted.
    pub fn is_short(&self) -> bool {
        self.places.as_slice().len() < usize::from(self.wanted)
    }
}

/// The space of a copy that is pending or in limbo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub nonce: ChunkNonce,
    pub bytes: u32,
    /// Of the copy: nothing newer is meant when it is forgotten.
    pub era: Era,
    /// All relocations below this number must be over before the copy is forgotten.
    pub after_move: u64,
    /// A relocation's target that was given up for another: it may be alive at its node, though nobody is sent there.
    pub is_discarded: bool,
}

/// What is under way with a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Pending {
        call: ClientCall,
    },
    /// Without `from` a copy is added, without `to` a lost one is given up, and without both a target that was given up.
    Moving {
        relocation: u64,
        from: Option<BlockPlace>,
        to: Option<BlockPlace>,
        is_lost: bool,
        /// That the copies will have. Each attempt has one of its own: another target may be none, and the count stands in the era.
        era: Era,
    },
    /// All copies, and which of them are known to have ended.
    Freeing {
        copies: Vec<(BlockPlace, bool)>,
    },
}

/// Why a command changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the shard is full; registrations go to the next one")]
    Sealed,
    #[error("a chunk has between 1 byte and a block's {limit}")]
    Size { limit: u32 },
    #[error("block {} of device {} has no room for it", .place.block(), .place.device().0)]
    NoRoom { place: BlockPlace },
    /// By the leader, which chooses places.
    #[error("there are not enough hosts with room for so many copies: add nodes with chunk space, or ask for fewer copies")]
    NoPlaces,
    /// By the leader as well.
    #[error("space for it has been asked for and is not there yet: try again")]
    NoPlacesYet,
    #[error("too many registrations or relocations are under way")]
    Busy,
    #[error("there is no such chunk")]
    Unknown,
    #[error("the registration is over")]
    NotPending,
    #[error("something else is under way with the chunk")]
    UnderWay,
    #[error("the chunk has no copy there, or another one on the new device or its host, or as many as it is to have")]
    Places,
    #[error("the blocks are no part of a device, or were granted before")]
    Grant,
    /// For the leader, which reads the page.
    #[error("the chunk's row is in a page and not in memory")]
    Archived,
    #[error("these rows can't have a page of their own now")]
    Page,
}

impl Refusal {
    /// What the proposer can do about it.
    pub fn kind(self) -> ErrorKind {
        match self {
            Refusal::Sealed | Refusal::UnderWay | Refusal::NotPending | Refusal::Places | Refusal::Page => ErrorKind::Conflict,
            Refusal::Size { .. } | Refusal::Grant => ErrorKind::Invalid,
            Refusal::NoRoom { .. } | Refusal::NoPlaces => ErrorKind::Full,
            Refusal::Busy | Refusal::NoPlacesYet | Refusal::Archived => ErrorKind::Busy,
            Refusal::Unknown => ErrorKind::NotFound,
        }
    }
}
