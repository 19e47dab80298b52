//! One node: a machine, its medium, and a state machine above it: a map of a few keys.
//!
//! An entry names its key, the value before and the value after. *Built* is what the log means, committed or not: a primary judges conditions by
//! it, and rollbacks undo it.

use std::collections::BTreeMap;

use bytes::Bytes;
use env::Instant;
use model::linearizability::CallId;
use model::register::Outcome;
use types::NodeId;

use crate::id::{DumpId, GroupId, OpSeq, Position};
use crate::limits::LogLimits;
use crate::log::Entry;
use crate::machine::{Input, Machine, Start};
use crate::record::Record;
use crate::saved::Replay;
use crate::store::MemoryStore;

pub(super) const GROUP: GroupId = GroupId(7);
pub(super) const KEYS: usize = 3;
/// Keys in one chunk of a dump.
const CHUNK_KEYS: usize = 2;
/// Short, so that logs are full and left behind.
pub(super) const LIMITS: LogLimits = LogLimits { entries: 24, bytes: 24 * 60 };

/// Values; 0 is absent.
pub(super) type Value = u32;

/// The state as of an opseq.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Map {
    pub(super) values: [Value; KEYS],
    pub(super) applied: OpSeq,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) key: usize,
    pub(super) old: Value,
    pub(super) new: Value,
}

impl Change {
    pub(super) fn encode(self) -> Bytes {
        let mut bytes = vec![self.key as u8];
        bytes.extend_from_slice(&self.old.to_le_bytes());
        bytes.extend_from_slice(&self.new.to_le_bytes());
        bytes.into()
    }

    pub(super) fn decode(payload: &Bytes) -> Change {
        let word = |at: usize| Value::from_le_bytes(payload[at..at + 4].try_into().expect("four bytes"));
        Change { key: usize::from(payload[0]), old: word(1), new: word(5) }
    }
}

/// A client's call that waits for the commit of its entry.
pub(super) struct Waiting {
    pub(super) key: usize,
    pub(super) call: CallId,
    pub(super) outcome: Outcome<Value>,
}

/// What is in memory.
pub(super) struct Running {
    pub(super) machine: Machine,
    pub(super) state: Map,
    /// What the log means, through this entry.
    pub(super) built: Map,
    pub(super) calls: BTreeMap<Position, Waiting>,
    pub(super) dumps: BTreeMap<DumpId, Map>,
    /// The load under way, and the opseq that it is of.
    pub(super) load: Option<(u64, OpSeq)>,
    /// When a tick is on its way.
    pub(super) timer: Option<Instant>,
    /// Records that became durable since the start.
    pub(super) persisted: u64,
}

pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) store: MemoryStore,
    /// What a start would find there.
    pub(super) medium: Replay,
    /// The state as it was persisted last.
    pub(super) durable: Map,
    pub(super) starts: u64,
    pub(super) running: Option<Running>,
}

impl Node {
    pub(super) fn new(id: NodeId) -> Node {
        Node { id, store: MemoryStore::default(), medium: Replay::default(), durable: Map::default(), starts: 0, running: None }
    }

    pub(super) fn start(&mut self) {
        self.starts += 1;
        let saved = self.store.recover().expect("its own records").remove(&GROUP).unwrap_or_default();
        assert_eq!(&saved, self.medium.saved());
        let state = if saved.loading { Map::default() } else { self.durable };
        let session = self.starts * 16 + u64::from(self.id.0);
        let start = Start { me: self.id, group: GROUP, session, limits: LIMITS, saved, released: state.applied };
        let machine = Machine::new(start);
        self.running = Some(Running {
            machine,
            state,
            built: state,
            calls: BTreeMap::new(),
            dumps: BTreeMap::new(),
            load: None,
            timer: None,
            persisted: 0,
        });
        self.running().build();
    }

    pub(super) fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect("it runs")
    }

    pub(super) fn crash(&mut self, kept: usize) {
        self.running = None;
        self.persist(kept);
        self.store.crash(0);
    }

    pub(super) fn persist(&mut self, count: usize) {
        for record in self.store.persist(count) {
            self.medium.apply(&Record::decode(record).expect("its own record").change);
        }
    }

    /// The state is persisted; the entries that it holds are needed no more.
    pub(super) fn persist_state(&mut self) -> Option<Input> {
        let running = self.running.as_mut().filter(|running| running.load.is_none())?;
        self.durable = running.state;
        Some(Input::Released(running.state.applied))
    }

    /// Loads a chunk; whether that was the last one, which makes the state durable.
    pub(super) fn load(&mut self, load: u64, chunk: u32, last: bool, bytes: &Bytes) -> Input {
        let running = self.running.as_mut().expect("it runs");
        let (of, at) = running.load.expect("a load begins before its chunks");
        assert_eq!(of, load, "chunks of the load under way");
        for (index, word) in bytes.chunks(4).enumerate() {
            let key = chunk as usize * CHUNK_KEYS + index;
            running.state.values[key] = Value::from_le_bytes(word.try_into().expect("four bytes"));
        }
        if last {
            running.state.applied = at;
            (running.built, running.load) = (running.state, None);
            self.durable = running.state;
        }
        Input::Loaded { load, chunk }
    }
}

/// A chunk of a dump, and whether it is the last.
pub(super) fn chunk_of(dump: &Map, chunk: u32) -> (Bytes, bool) {
    let first = chunk as usize * CHUNK_KEYS;
    let end = (first + CHUNK_KEYS).min(KEYS);
    let bytes: Vec<u8> = dump.values[first..end].iter().flat_map(|value| value.to_le_bytes()).collect();
    (bytes.into(), end == KEYS)
}

impl Running {
    /// Builds on what the log has more.
    pub(super) fn build(&mut self) {
        while let Some(entry) = self.machine.entry(self.built.applied.next()) {
            let Change { key, old, new } = Change::decode(&entry.payload);
            assert_eq!(self.built.values[key], old, "{}: {entry:?}", self.machine.view());
            self.built.values[key] = new;
            self.built.applied = entry.position.opseq;
        }
    }

    /// Undoes what is rolled back: the newest first, with the old values.
    pub(super) fn undo(&mut self, entries: &[Entry]) {
        let built = self.built.applied;
        for entry in entries.iter().filter(|entry| entry.position.opseq <= built) {
            let Change { key, old, new } = Change::decode(&entry.payload);
            assert_eq!(self.built.applied, entry.position.opseq, "the newest first");
            assert_eq!(self.built.values[key], new, "{entry:?}");
            self.built.values[key] = old;
            self.built.applied = entry.position.opseq.previous();
        }
    }

    /// Applies what is committed: the positions, for answers.
    pub(super) fn apply(&mut self, through: OpSeq) -> Vec<Position> {
        let mut positions = Vec::new();
        while self.state.applied < through {
            let opseq = self.state.applied.next();
            let entry = self.machine.entry(opseq).expect("what is committed and not applied is in the log");
            let Change { key, old, new } = Change::decode(&entry.payload);
            assert_eq!(self.state.values[key], old, "{entry:?}");
            positions.push(entry.position);
            self.state.values[key] = new;
            self.state.applied = opseq;
        }
        positions
    }

    /// Whether no entry of the key waits for its commit.
    pub(super) fn is_settled(&self, key: usize) -> bool {
        let open = self.machine.log().entries().filter(|entry| entry.position.opseq > self.state.applied);
        open.into_iter().all(|entry| Change::decode(&entry.payload).key != key)
    }
}
