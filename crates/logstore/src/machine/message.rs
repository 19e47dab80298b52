//! What gateways of a cell tell each other about one key. Streams between two gateways are numbered and in order (decision 19);
//! keeping them so is the transport's job.

use crate::index::Located;
use format::entry::Entry;
use format::record::WriteId;
use types::KeyHash;

/// A gateway's own count of its slow-path reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId(pub u64);

/// A gateway's own count of its freezes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FreezeId(pub u64);

/// A message about the key `hash`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Phase 1: a write of this key is on its way.
    Announce { hash: KeyHash, write: WriteId },
    /// The announcement is held.
    Announced { hash: KeyHash, write: WriteId },
    /// Phase 2: the write is acknowledged and this is its entry; or it ended without one. It releases the freeze that it was
    /// made under: named, because the freeze's own messages come from the home and may overtake an earlier conclusion.
    Conclude { hash: KeyHash, write: WriteId, entry: Option<Entry>, freeze: Option<FreezeId> },
    /// A slow-path read: answer when every member holds your announcements of this key.
    Ask { hash: KeyHash, read: ReadId },
    /// The newest entry known to the asked gateway.
    Told { hash: KeyHash, read: ReadId, newest: Option<Located> },
    /// To the key's home: let me be the only writer of this key.
    FreezeAsk { hash: KeyHash, freeze: FreezeId },
    /// From the home to every member: stop writing this key and tell its holder when you have.
    Freeze { hash: KeyHash, holder: types::GatewayId, freeze: FreezeId },
    /// To the holder: stopped, and this is my newest entry.
    Frozen { hash: KeyHash, freeze: FreezeId, newest: Option<Located> },
}

impl Message {
    /// The key that the message is about; it names the shard.
    pub fn hash(&self) -> &KeyHash {
        match self {
            Message::Announce { hash, .. }
            | Message::Announced { hash, .. }
            | Message::Conclude { hash, .. }
            | Message::Ask { hash, .. }
            | Message::Told { hash, .. }
            | Message::FreezeAsk { hash, .. }
            | Message::Freeze { hash, .. }
            | Message::Frozen { hash, .. } => hash,
        }
    }
}
