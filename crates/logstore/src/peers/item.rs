//! What travels on a stream between two gateways.

use crate::heal::Damaged;
use crate::machine::{CellMessage, Message};
use format::attributes::Attributes;
use format::name_entry::NameEntry;
use format::record::EntryName;
use format::replicas::Places;
use types::{Epoch, KeyHash, Sequence, ViewNumber};

/// One item of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// About one key. A conclusion with an entry, an entry to be published, and a recovered one bring what a list says of it.
    Key {
        message: Message,
        name: Option<Box<NameEntry>>,
    },
    /// About all keys.
    All(CellMessage),
    /// A member's first words in a view, before its [`CellMessage::Carried`]: its present epoch and that of the newest checkpoint that
    /// it has taken in. One that joins has taken in none: it reads the newest of all when nothing is undecided any more.
    Hello {
        view: ViewNumber,
        epoch: Epoch,
        installed: Option<Epoch>,
    },
    /// To a gateway that joins, before [`CellMessage::Carried`]: names that are in no checkpoint that the sender has taken in.
    Unsaved {
        names: Vec<NameEntry>,
    },
    /// A list or a reset waits until everything sent before the answer has been taken in.
    Ask {
        question: u64,
    },
    Answer {
        question: u64,
    },
    /// From the view's leader: writes belong to this epoch from now on (decision 11).
    BeginEpoch {
        view: ViewNumber,
        epoch: Epoch,
    },
    /// Every write of the epochs before this one that the sender began has ended, and is concluded before this item.
    EpochBegun {
        view: ViewNumber,
        epoch: Epoch,
        staged: Staged,
        /// The sender has heard everything that others concluded in the epochs before this one.
        heard: Epoch,
    },
    /// From the leader: this manifest is installed.
    Installed {
        manifest: Vec<u8>,
    },
    /// From the leader: a record was copied elsewhere; to be applied if it still stands at the old places (decision 10).
    Relocated {
        old: Places,
        name: NameEntry,
    },
    /// From the leader: answer when everything before this is applied.
    Retire {
        question: u64,
    },
    Retired {
        question: u64,
    },
    /// From the leader: answer when no reader of these objects, or of any, holds places any more that it holds now.
    Release {
        question: u64,
        whose: Option<Vec<KeyHash>>,
    },
    Released {
        question: u64,
    },
    /// An upload whose object is complete is ended by this tombstone, or will be.
    UploadEnding {
        name: EntryName,
        tombstone: Box<Attributes>,
    },
    /// To the leader: these copies were found damaged.
    Damaged {
        copies: Vec<Damaged>,
    },
}

/// What a gateway has staged at one moment, by the numbers of its writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Staged {
    /// Of the chunks that it wrote, those from here on may be named by no record yet.
    pub from: Sequence,
    /// No chunk that was written until now has this number or a higher one.
    pub next: Sequence,
}

impl Item {
    /// Whether the item travels with the next ones, or a moment later (paper section 3.2: notices are batched with a short timeout). An
    /// announcement need not be held before the last copies are: it goes with those ([`super::Link::hurry`]).
    pub fn can_wait(&self) -> bool {
        match self {
            Item::Key { message, .. } => matches!(message, Message::Announce { .. } | Message::Conclude { freeze: None, .. }),
            Item::UploadEnding { .. } => true,
            _ => false,
        }
    }

    /// The view that the item counts in; nothing for facts. One of a newer view waits for its installation.
    pub fn view(&self) -> Option<ViewNumber> {
        match self {
            Item::Key { message, .. } => message.view(),
            Item::All(message) => message.view(),
            Item::Hello { view, .. } | Item::BeginEpoch { view, .. } | Item::EpochBegun { view, .. } => Some(*view),
            _ => None,
        }
    }
}
