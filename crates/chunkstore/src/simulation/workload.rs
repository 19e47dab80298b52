//! What clients want, and what they were told.

use std::collections::BTreeMap;

use bytes::Bytes;
use format::chunk_command::{ClientCall, Registration};
use format::chunk_id::{ChunkId, ChunkNonce};
use format::chunk_place::ChunkPlaces;
use model::choice::{Choose, Seeded};
use model::linearizability::{CallId, History};
use model::register::{Call, Outcome as Told, Register};

use super::world::{BLOCKS, CallNumber, DEVICES, place};
use crate::client::{Access, Event, Intent, NewChunk, Next, Outcome, Put, Send};

/// Calls of one run.
const CALLS: usize = 110;
/// Calls that are open at once.
const OPEN: usize = 8;
/// How long registrations last here.
const PENDING_MS: u64 = 1_500;

/// Four fill a block, so that some modifications find room for a second copy there and some do not. Of one size, because a run with few
/// blocks would end with holes that no relocation fits into.
const CHUNK_BYTES: u32 = 1024 * 1024 - 1000;

pub type ChunkHistory = History<Register<u32>>;

enum Machine {
    Put { put: Put, value: u32, recorded: Option<(ChunkId, CallId)> },
    Access { id: ChunkId, access: Box<Access>, recorded: Recorded },
    Over,
}

#[derive(Clone, Copy)]
enum Recorded {
    One(CallId),
    /// A modification writes, or reads that nothing is there.
    Either {
        write: CallId,
        read: CallId,
    },
}

#[derive(Default)]
pub struct Workload {
    calls: Vec<Machine>,
    pub histories: BTreeMap<ChunkId, ChunkHistory>,
    next_value: u32,
    pub outcomes: BTreeMap<&'static str, usize>,
    rereads: Vec<ChunkId>,
    has_reread: bool,
}

impl Workload {
    pub fn is_over(&self) -> bool {
        self.calls.len() >= CALLS && self.has_reread && self.rereads.is_empty() && self.open() == 0
    }

    pub fn is_open(&self, call: CallNumber) -> bool {
        !matches!(self.calls[call], Machine::Over)
    }

    pub fn open_calls(&self) -> Vec<CallNumber> {
        (0..self.calls.len()).filter(|call| self.is_open(*call)).collect()
    }

    fn open(&self) -> usize {
        self.open_calls().len()
    }

    /// The next call, if one is due. In the end every chunk is read once more.
    pub fn begin(&mut self, choose: &mut Seeded, is_calm: bool) -> Option<(CallNumber, Vec<Send>)> {
        if self.open() >= OPEN {
            return None;
        }
        if self.calls.len() >= CALLS {
            if !self.has_reread && is_calm && self.open() == 0 {
                self.has_reread = true;
                self.rereads = self.histories.keys().copied().collect();
            }
            let id = self.rereads.pop()?;
            return Some(self.begin_access(choose, id, Call::Read));
        }
        let known: Vec<ChunkId> = self.histories.keys().copied().collect();
        if known.is_empty() || choose.percent(25) {
            return Some(self.begin_put());
        }
        // Newer chunks are asked for more often: they are the ones that change.
        let id = known[known.len() - 1 - choose.below(known.len().min(4))];
        let wanted = match choose.below(10) {
            0..=4 => Call::Read,
            5..=8 => Call::Write(Some(self.take_value())),
            _ => Call::Write(None),
        };
        Some(self.begin_access(choose, id, wanted))
    }

    fn take_value(&mut self) -> u32 {
        self.next_value += 1;
        self.next_value
    }

    fn begin_put(&mut self) -> (CallNumber, Vec<Send>) {
        let value = self.take_value();
        let new = NewChunk { call: ClientCall { session: 1, request: value }, bytes: CHUNK_BYTES, copies: 3 };
        let (put, next) = Put::begin(new, Bytes::copy_from_slice(&value.to_le_bytes()));
        self.calls.push(Machine::Put { put, value, recorded: None });
        (self.calls.len() - 1, next.sends)
    }

    fn begin_access(&mut self, choose: &mut Seeded, id: ChunkId, wanted: Call<u32>) -> (CallNumber, Vec<Send>) {
        let call = self.calls.len();
        let history = self.histories.get_mut(&id).expect("it has a history");
        let (intent, recorded) = match wanted {
            Call::Write(Some(value)) => {
                let content = Bytes::copy_from_slice(&value.to_le_bytes());
                let (write, read) = (history.call(wanted), history.call(Call::Read));
                (Intent::Modify { writer: u64::from(value), content }, Recorded::Either { write, read })
            }
            Call::Write(None) => (Intent::Delete, Recorded::One(history.call(wanted))),
            other => (Intent::Get, Recorded::One(history.call(other))),
        };
        let (access, next) = Access::begin(id, intent, choose.below(8) as u32);
        self.calls.push(Machine::Access { id, access: Box::new(access), recorded });
        (call, next.sends)
    }

    /// Tells a call's machine; what it sends.
    pub fn step(&mut self, call: CallNumber, event: Event) -> Vec<Send> {
        let Next { sends, outcome } = match &mut self.calls[call] {
            Machine::Put { put, value, recorded } => {
                let next = put.step(event);
                if recorded.is_none()
                    && let Some(id) = put.id()
                {
                    // From now on others may know the id, though the put is not acknowledged.
                    let history = self.histories.entry(id).or_default();
                    *recorded = Some((id, history.call(Call::Write(Some(*value)))));
                }
                next
            }
            Machine::Access { access, .. } => access.step(event),
            Machine::Over => Next::default(),
        };
        if let Some(outcome) = outcome {
            self.conclude(call, outcome);
        }
        sends
    }

    fn conclude(&mut self, call: CallNumber, outcome: Outcome) {
        let name = match &outcome {
            Outcome::Stored(_) => "stored",
            Outcome::Content(_) => "content",
            Outcome::Done => "done",
            Outcome::NotFound => "not found",
            Outcome::Refused(_) => "refused",
            Outcome::RefusedByNode(_) => "refused by node",
            Outcome::Unavailable => "unavailable",
        };
        *self.outcomes.entry(name).or_default() += 1;
        match std::mem::replace(&mut self.calls[call], Machine::Over) {
            Machine::Put { recorded, .. } => {
                let Some((id, recorded)) = recorded else { return };
                let history = self.histories.get_mut(&id).expect("it has a history");
                if let Outcome::Stored(stored) = outcome {
                    assert_eq!(stored, id, "a put has one id");
                    history.answer(recorded, Told::Written);
                } else {
                    // It may be found for a while, until its registration has run out.
                    history.call(Call::Write(None));
                }
            }
            Machine::Access { id, recorded, .. } => {
                let history = self.histories.get_mut(&id).expect("it has a history");
                tell(history, recorded, outcome);
            }
            Machine::Over => panic!("a call ends once"),
        }
    }
}

/// What a leader makes of a client's wish, with places for so many copies.
pub fn registration(new: NewChunk, copies: u8, choose: &mut Seeded, now_ms: u64) -> Registration {
    let mut devices: Vec<u32> = (0..DEVICES).collect();
    let places: Vec<_> = (0..copies)
        .map(|_| {
            let device = devices.remove(choose.below(devices.len()));
            // The first blocks are taken more often, so that they get full.
            place(device, choose.below(BLOCKS as usize).min(choose.below(BLOCKS as usize)) as u32)
        })
        .collect();
    Registration {
        call: new.call,
        nonce: ChunkNonce(choose.below(usize::MAX) as u64),
        bytes: new.bytes,
        places: ChunkPlaces::new(&places).expect("different devices"),
        wanted: new.copies,
        deadline_ms: now_ms + PENDING_MS,
    }
}

fn tell(history: &mut ChunkHistory, recorded: Recorded, outcome: Outcome) {
    match (recorded, outcome) {
        (Recorded::One(call), Outcome::Content(content)) => {
            let value = u32::from_le_bytes(content[..].try_into().expect("four bytes were written"));
            history.answer(call, Told::Read(Some(value)));
        }
        (Recorded::One(call), Outcome::NotFound) if *history.asked(call) == Call::Read => {
            history.answer(call, Told::Read(None));
        }
        (Recorded::One(call), Outcome::Done | Outcome::NotFound) => history.answer(call, Told::Written),
        (Recorded::Either { write, read }, Outcome::Done) => {
            history.withdraw(read);
            history.answer(write, Told::Written);
        }
        (Recorded::Either { write, read }, Outcome::NotFound) => {
            history.withdraw(write);
            history.answer(read, Told::Read(None));
        }
        (Recorded::Either { read, .. }, _) => history.withdraw(read),
        (Recorded::One(_), _) => {}
    }
}
