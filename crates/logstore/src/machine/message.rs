//! What gateways of a cell tell each other. Streams between two gateways are numbered and in order (RFD 2, decision 19); keeping
//! them so is the transport's job.
//!
//! What is asked for in a view, and what grants it, names the view ([`Message::view`], [`CellMessage::view`]): of an older view than the
//! receiver's it counts for nothing, and the machine drops it (RFD 5, rule 2). One of a newer view is not handed to the machine:
//! it waits, with everything behind it on its stream, until the shell has installed that view. Each member's first message of a view is of that
//! kind. Confirmations ([`Message::is_confirmation`]) are said by the answer to the batch that brought what they confirm: they may overtake
//! what their sender said before. Conclusions, questions and answers of reads, recovered entries and decisions are facts and name no view.

use crate::index::Located;
use format::entry::Entry;
use format::record::WriteId;
use types::{GatewayId, KeyHash, ViewNumber};

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
    Announce { hash: KeyHash, write: WriteId, view: ViewNumber },
    /// The announcement is held.
    Announced { hash: KeyHash, write: WriteId, view: ViewNumber },
    /// Phase 2: the write is acknowledged and this is its entry; or it ended without one. It releases the freeze that it was
    /// made under: named, because the freeze's own messages come from the home and may overtake an earlier conclusion.
    Conclude { hash: KeyHash, write: WriteId, entry: Option<Entry>, freeze: Option<FreezeId> },
    /// Read-after-write: publish this durable write of the sender, which is not acknowledged yet, and say so.
    Publish { entry: Entry, view: ViewNumber },
    /// It is published.
    HavePublished { hash: KeyHash, write: WriteId, view: ViewNumber },
    /// A slow-path read: answer when every member holds your announcements of this key.
    Ask { hash: KeyHash, read: ReadId },
    /// The newest entry known to the asked gateway.
    Told { hash: KeyHash, read: ReadId, newest: Option<Located> },
    /// To the key's home: let me be the only writer of this key.
    FreezeAsk { hash: KeyHash, freeze: FreezeId, view: ViewNumber },
    /// From the home to every member: stop writing this key and tell its holder when you have.
    Freeze { hash: KeyHash, holder: GatewayId, freeze: FreezeId, view: ViewNumber },
    /// To the holder: stopped, and this is my newest entry.
    Frozen { hash: KeyHash, freeze: FreezeId, newest: Option<Located>, view: ViewNumber },
    /// From the holder to every member of a new view: I hold this freeze and am writing under it.
    Carry { hash: KeyHash, freeze: FreezeId, view: ViewNumber },
    /// From a view's leader: a removed gateway's record counts. Hold it, in flight, until its gateway is decided.
    Recovered { entry: Entry },
}

impl Message {
    /// The key that the message is about; it names the shard.
    pub fn hash(&self) -> &KeyHash {
        match self {
            Message::Announce { hash, .. }
            | Message::Announced { hash, .. }
            | Message::Conclude { hash, .. }
            | Message::HavePublished { hash, .. }
            | Message::Ask { hash, .. }
            | Message::Told { hash, .. }
            | Message::FreezeAsk { hash, .. }
            | Message::Freeze { hash, .. }
            | Message::Frozen { hash, .. }
            | Message::Carry { hash, .. } => hash,
            Message::Publish { entry, .. } | Message::Recovered { entry } => &entry.hash,
        }
    }

    /// What a member says of this message by answering the batch that brought it.
    pub fn confirmation(&self) -> Option<Message> {
        match self {
            Message::Announce { hash, write, view } => Some(Message::Announced { hash: *hash, write: *write, view: *view }),
            Message::Publish { entry, view } => {
                Some(Message::HavePublished { hash: entry.hash, write: entry.write, view: *view })
            }
            _ => None,
        }
    }

    /// Whether this is said by answering a batch, and does not travel on a stream.
    pub fn is_confirmation(&self) -> bool {
        matches!(self, Message::Announced { .. } | Message::HavePublished { .. })
    }

    /// The view that the message counts in; nothing for facts.
    pub fn view(&self) -> Option<ViewNumber> {
        match self {
            Message::Announce { view, .. }
            | Message::Announced { view, .. }
            | Message::Publish { view, .. }
            | Message::HavePublished { view, .. }
            | Message::FreezeAsk { view, .. }
            | Message::Freeze { view, .. }
            | Message::Frozen { view, .. }
            | Message::Carry { view, .. } => Some(*view),
            Message::Conclude { .. } | Message::Ask { .. } | Message::Told { .. } | Message::Recovered { .. } => None,
        }
    }
}

/// A message about all keys. It travels on the same stream as [`Message`]s; the shell hands it to every shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellMessage {
    /// Sent once every shard has installed the view, after what they put out: no other freeze is held by the sender.
    Carried { view: ViewNumber },
    /// From the leader, after the last [`Message::Recovered`]: say when you hold them.
    AllRecovered { view: ViewNumber },
    /// To the leader, once every shard has put out [`super::Output::RecoveredHeld`].
    RecoveredHeld { view: ViewNumber },
    /// From the leader, once every member has answered: what these removed gateways had under way is recovered or void.
    Decided { gateways: Vec<GatewayId> },
}

impl CellMessage {
    /// The view that the message counts in; nothing for facts.
    pub fn view(&self) -> Option<ViewNumber> {
        match self {
            CellMessage::Carried { view } | CellMessage::AllRecovered { view } | CellMessage::RecoveredHeld { view } => {
                Some(*view)
            }
            CellMessage::Decided { .. } => None,
        }
    }
}
