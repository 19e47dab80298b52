//! What a machine is told, and what it asks for.

use bytes::Bytes;
use env::Instant;
use types::{NodeId, Token, ViewNumber};

#[cfg(doc)]
use super::Machine;
use crate::appointment::Appointment;
use crate::id::{DumpId, GroupId, OpSeq};
use crate::limits::MAX_ENTRY_BYTES;
use crate::log::Entry;
use crate::message::Message;
use crate::record::Record;

/// What happens to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The manager has named a view. Old ones and repetitions do nothing.
    View(Appointment),
    /// The manager has recorded the view as active.
    Recorded(ViewNumber),
    /// The manager has granted a lease to the primary of this view, until then.
    Lease {
        view: ViewNumber,
        until: Instant,
    },
    Message {
        from: NodeId,
        message: Message,
    },
    /// So many records, counted from the machine's start, are durable.
    Persisted {
        count: u64,
    },
    /// The state machine above holds durably what entries through this did, and needs them no more.
    Released(OpSeq),
    /// The state machine above holds its state as of this opseq for a dump.
    DumpTaken {
        dump: DumpId,
        at: OpSeq,
    },
    /// A chunk of that dump.
    DumpRead {
        dump: DumpId,
        chunk: u32,
        last: bool,
        bytes: Bytes,
    },
    /// The chunk is loaded; the last one of a dump, and all before it, durably.
    Loaded {
        load: u64,
        chunk: u32,
    },
    /// Time has passed, or entries were appended.
    Tick,
}

/// What a machine asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Persist this after all records before it. [`Input::Persisted`] counts them.
    Persist(Record),
    Send {
        to: NodeId,
        message: Message,
    },
    /// Entries through this are committed ([`Machine::entry`]). After a start this may begin before what the state machine above holds already.
    Committed {
        through: OpSeq,
    },
    /// These entries, the newest first, are gone from this member. What was built on them in memory is undone with their old values. Whether
    /// they take effect elsewhere is not known by that.
    RolledBack {
        entries: Vec<Entry>,
    },
    /// This member is the primary, and may append. Everything in the log is committed.
    Serving {
        view: ViewNumber,
        token: Token,
    },
    /// It is not the primary any more.
    Deposed {
        view: ViewNumber,
    },
    /// Ask the manager to record the view as active. It is asked again until [`Input::Recorded`].
    AskRecord {
        view: ViewNumber,
    },
    /// This member is named as primary and can't be: it restarted in the view, or its log is void. The manager names another view. It is
    /// said again until then.
    CannotLead {
        view: ViewNumber,
    },
    /// Hold the state as of an opseq that is committed, and answer with [`Input::DumpTaken`].
    TakeDump {
        dump: DumpId,
    },
    /// Answer with [`Input::DumpRead`].
    ReadDump {
        dump: DumpId,
        chunk: u32,
    },
    EndDump {
        dump: DumpId,
    },
    /// The state machine above is void, durably, before the first chunk is loaded. It becomes the state as of `at`.
    BeginLoad {
        load: u64,
        at: OpSeq,
    },
    /// Load the next chunk, and answer with [`Input::Loaded`].
    Load {
        load: u64,
        chunk: u32,
        last: bool,
        bytes: Bytes,
    },
}

/// Why nothing was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    #[error("this member does not serve the group: ask the primary of the newest view")]
    NotServing,
    #[error("an entry of {found} bytes; the most is {MAX_ENTRY_BYTES}")]
    TooLong { found: usize },
    /// The log is at its bound until entries are released at all members, or as much as may be is on its way to the medium.
    #[error("the log of group {group} is full: {entries} entries, {bytes} bytes; try again later")]
    Full { group: GroupId, entries: usize, bytes: usize },
}
