//! Calls of a mount and the sequences of their commands, so that a call that is made again in another process sends the same commands.
//!
//! ```text
//!            begin: recorded, then sent        the command's reply         the call's answer is delivered
//!   (none) ─────────────────────────► under way ──────────────► held ─────────────────────► (forgotten)
//! ```
//!
//! A sequence that is under way or held keeps its reply in the meta partition. A command without a call, and each one of a client without a record, is not held.

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::ClientError;
use super::record::{Header, MAX_SLOTS, MAX_STEPS, Record, RecordError, Recorded, Step, Steps};
use crate::ids::TreeIndex;
use crate::meta::{Command, MetaError};

/// A call of which so many later commands were sent is held no more: meta partitions remember a bounded number of replies.
const HELD_WINDOW: u64 = 4096;

/// Sequences that are reserved at once.
const RESERVED: u64 = 1 << 16;

/// A call of a mount: the kernel's number of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId(pub u64);

/// A call that is being carried out, and how many commands of each kind it has sent.
struct Call {
    id: CallId,
    sent: RefCell<SmallVec<[(u64, u64); 4]>>,
}

tokio::task_local! {
    static CALL: Call;
}

/// Carries `work` out as this call: its commands have one effect, also where an earlier process has begun the call.
pub fn in_call<F: Future>(id: CallId, work: F) -> impl Future<Output = F::Output> {
    CALL.scope(Call { id, sent: RefCell::default() }, work)
}

/// Which command of which call is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepOf {
    pub call: CallId,
    kind: u64,
}

/// The low bits of a step's kind count the commands of one kind.
const COUNT: u64 = 0xffff;

/// What kind of command it is. The number stands in records of mounts, and stays what it is in later versions.
pub fn kind_of(command: &Command) -> u64 {
    let kind = match command {
        Command::OpenSession { .. } => 1,
        Command::CloseSession => 2,
        Command::Make { .. } => 3,
        Command::MakeUnnamed { .. } => 4,
        Command::Link { .. } => 5,
        Command::Unlink { .. } => 6,
        Command::Rmdir { .. } => 7,
        Command::Rename { .. } => 8,
        Command::SetAttributes { .. } => 9,
        Command::SetXattr { .. } => 10,
        Command::RemoveXattr { .. } => 11,
        Command::Commit { .. } => 12,
        Command::Punch { .. } => 13,
        Command::NotOpen { .. } => 14,
        Command::Lock { .. } => 15,
        Command::Unlock { .. } => 16,
        Command::LoseLocks { .. } => 17,
        Command::ConfirmFreed { .. } => 18,
        Command::SetQuota { .. } => 19,
        Command::Prepare { .. } => 20,
        Command::Decide { .. } => 21,
        Command::Refuse { .. } => 22,
        Command::Conclude { .. } => 23,
        Command::Forget { .. } => 24,
        Command::Reign => 25,
        Command::Remember { .. } => 26,
        Command::Passed { .. } => 27,
        Command::SetElsewhere { .. } => 28,
        Command::SetTimes { .. } => 29,
    };
    kind * (COUNT + 1)
}

/// The step that `command`, which is about to be sent, is in the call at hand.
pub fn step_of(command: &Command) -> Option<StepOf> {
    let kind = kind_of(command);
    let find = |call: &Call| {
        let mut sent = call.sent.borrow_mut();
        let known = sent.iter().position(|(other, _)| *other == kind);
        let at = known.unwrap_or_else(|| {
            sent.push((kind, 0));
            sent.len() - 1
        });
        let before = sent[at].1;
        sent[at].1 += 1;
        StepOf { call: call.id, kind: kind | before.min(COUNT) }
    };
    CALL.try_with(find).ok()
}

fn call_at_hand() -> Option<CallId> {
    CALL.try_with(|call| call.id).ok()
}

/// The sequences of a session.
#[derive(Debug)]
pub struct Calls {
    record: Option<Record>,
    table: Mutex<Table>,
    /// How many calls are in the table: most calls send no command, and need not look.
    kept: AtomicUsize,
}

#[derive(Debug, Default)]
struct Table {
    header: Header,
    last: u64,
    /// The last sequence when this process began.
    began_at: u64,
    /// How often the session has lost its locks at each tree. The header's counts may stay behind.
    locks_lost: Vec<u64>,
    under_way: BTreeSet<u64>,
    held: BTreeMap<u64, CallId>,
    calls: HashMap<CallId, Kept>,
    free_slots: Vec<u32>,
    next_slot: u32,
}

#[derive(Debug)]
struct Kept {
    slot: u32,
    steps: Steps,
}

/// A sequence that is under way until it is dropped.
pub struct Sequence<'a> {
    pub number: u64,
    of: &'a Mutex<Table>,
}

impl Drop for Sequence<'_> {
    fn drop(&mut self) {
        self.of.lock().under_way.remove(&self.number);
    }
}

impl Calls {
    /// Of a session that ends with this process.
    pub fn unrecorded() -> Calls {
        Calls { record: None, table: Mutex::default(), kept: AtomicUsize::new(0) }
    }

    /// Of a new session.
    pub fn begin(file: std::fs::File, session: u64, is_exclusive: bool) -> Result<Calls, ClientError> {
        let header = Header { session, is_exclusive, generation: 1, reserved_below: RESERVED, locks_lost: Vec::new() };
        let record = Record::begin(file, &header).map_err(unrecordable)?;
        let table = Table { header, ..Table::default() };
        Ok(Calls { record: Some(record), table: Mutex::new(table), kept: AtomicUsize::new(0) })
    }

    /// Of a session that an earlier process had.
    pub fn resume(file: std::fs::File) -> Result<(Calls, Header), RecordError> {
        let (record, before, recorded) = Record::open(file)?;
        let mut table = Table { last: before.reserved_below, began_at: before.reserved_below, ..Table::default() };
        let header = Header {
            generation: before.generation.wrapping_add(1),
            reserved_below: before.reserved_below.saturating_add(RESERVED),
            ..before
        };
        record.write_header(&header)?;
        table.header = header.clone();
        table.locks_lost.clone_from(&header.locks_lost);
        for Recorded { slot, call, steps } in recorded {
            let call = CallId(call);
            table.held.extend(steps.iter().map(|step| (step.sequence, call)));
            table.calls.insert(call, Kept { slot, steps });
            table.next_slot = table.next_slot.max(slot + 1);
        }
        let used: BTreeSet<u32> = table.calls.values().map(|kept| kept.slot).collect();
        table.free_slots = (0..table.next_slot).rev().filter(|slot| !used.contains(slot)).collect();
        let kept = AtomicUsize::new(table.calls.len());
        Ok((Calls { record: Some(record), table: Mutex::new(table), kept }, header))
    }

    /// The record's file, for the process that keeps it.
    pub fn file(&self) -> Option<&std::fs::File> {
        self.record.as_ref().map(Record::file)
    }

    /// The sequence of a command that is sent now: a recorded one, or the next.
    pub fn sequence(&self, step: Option<StepOf>) -> Result<Sequence<'_>, ClientError> {
        let mut table = self.table.lock();
        let number = match (&self.record, step) {
            (Some(_), Some(step)) => match table.recorded(step) {
                Some(number) => number,
                None => self.record_step(&mut table, step)?,
            },
            _ => self.next(&mut table)?,
        };
        table.under_way.insert(number);
        self.let_go(&mut table)?;
        self.kept.store(table.calls.len(), Ordering::Release);
        Ok(Sequence { number, of: &self.table })
    }

    /// The sequence that an earlier process gave to the last command of this kind in the call at hand.
    pub fn earlier(&self, kind: u64) -> Option<Sequence<'_>> {
        let call = call_at_hand()?;
        let mut table = self.table.lock();
        let number = table.calls.get(&call)?.steps.iter().rfind(|step| step.kind & !COUNT == kind)?.sequence;
        table.under_way.insert(number);
        Some(Sequence { number, of: &self.table })
    }

    /// Whether commands of the call at hand were sent.
    pub fn is_again(&self) -> bool {
        call_at_hand().is_some_and(|call| self.table.lock().calls.contains_key(&call))
    }

    /// Commands of this kind in the call at hand were not carried out, and never will be under their sequences: the next ones get others.
    pub fn forget_steps(&self, kind: u64) -> Result<(), ClientError> {
        let Some(call) = call_at_hand() else { return Ok(()) };
        let mut table = self.table.lock();
        let Some(kept) = table.calls.get(&call) else { return Ok(()) };
        let of_kind = kept.steps.iter().filter(|step| step.kind & !COUNT == kind).map(|step| step.sequence);
        for sequence in of_kind.collect::<Vec<_>>() {
            self.remove(&mut table, call, sequence)?;
        }
        Ok(())
    }

    /// At how many trees the session was begun.
    pub fn trees(&self) -> u16 {
        self.table.lock().locks_lost.len() as u16
    }

    /// The session was begun at so many trees, more than before.
    pub fn note_trees(&self, count: u16) -> Result<(), ClientError> {
        let mut table = self.table.lock();
        table.locks_lost.resize(count.into(), 0);
        table.header.locks_lost.resize(count.into(), 0);
        self.record.as_ref().map_or(Ok(()), |record| record.write_header(&table.header)).map_err(unrecordable)
    }

    /// How often a tree has taken the session's locks, as far as is known.
    pub fn locks_lost(&self, tree: TreeIndex) -> u64 {
        self.table.lock().locks_lost.get(usize::from(tree.0)).copied().unwrap_or_default()
    }

    /// Whether the tree has taken them once more. Where some were held, the record does not say so: which they were is known to this process alone, and the
    /// next one can't go on with the session.
    pub fn hear_of_locks(&self, tree: TreeIndex, locks_lost: u64, some_were_held: bool) -> bool {
        let (mut table, at) = (self.table.lock(), usize::from(tree.0));
        let Table { header, locks_lost: known, .. } = &mut *table;
        let (Some(noted), Some(known)) = (header.locks_lost.get_mut(at), known.get_mut(at)) else { return false };
        if locks_lost <= *known {
            return false;
        }
        let is_behind = *noted < *known;
        *known = locks_lost;
        if some_were_held || is_behind {
            return true;
        }
        *noted = locks_lost;
        if let Some(Err(error)) = self.record.as_ref().map(|record| record.write_header(&table.header)) {
            tracing::warn!(%error, "the record of a mount does not say that its locks were taken");
        }
        true
    }

    /// The kernel has the answer to a call: it is not made again.
    pub fn answered(&self, call: CallId) {
        if self.kept.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut table = self.table.lock();
        let Some(kept) = table.calls.remove(&call) else { return };
        for step in &kept.steps {
            table.held.remove(&step.sequence);
        }
        table.free_slots.push(kept.slot);
        self.kept.store(table.calls.len(), Ordering::Release);
        if let Some(Err(error)) = self.record.as_ref().map(|record| record.clear_slot(kept.slot)) {
            tracing::warn!(%error, "a call that was answered stays in the record of its mount");
        }
    }

    /// All commands with lower sequences were answered, and are not sent again.
    pub fn answered_below(&self) -> u64 {
        let table = self.table.lock();
        let (under_way, held) = (table.under_way.first(), table.held.first_key_value());
        let open = under_way.into_iter().chain(held.map(|(sequence, _)| sequence)).min();
        open.copied().unwrap_or(table.last + 1)
    }

    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.table.lock().calls.len()
    }

    fn next(&self, table: &mut Table) -> Result<u64, ClientError> {
        let number = table.last + 1;
        if let Some(record) = &self.record
            && number >= table.header.reserved_below
        {
            table.header.reserved_below = number + RESERVED;
            record.write_header(&table.header).map_err(unrecordable)?;
        }
        table.last = number;
        Ok(number)
    }

    /// Gives a step the next sequence. It is recorded before it is sent.
    fn record_step(&self, table: &mut Table, step: StepOf) -> Result<u64, ClientError> {
        let sequence = self.next(table)?;
        let Table { calls, free_slots, next_slot, held, .. } = table;
        let kept = match calls.entry(step.call) {
            Entry::Occupied(kept) => kept.into_mut(),
            Entry::Vacant(vacant) => {
                let fresh = (*next_slot < MAX_SLOTS).then_some(*next_slot);
                let slot = free_slots.pop().or(fresh).ok_or(MetaError::TooManyCommands)?;
                *next_slot = (*next_slot).max(slot + 1);
                vacant.insert(Kept { slot, steps: Steps::new() })
            }
        };
        if kept.steps.len() >= MAX_STEPS {
            held.remove(&kept.steps.remove(0).sequence);
        }
        kept.steps.push(Step { sequence, kind: step.kind });
        held.insert(sequence, step.call);
        self.write(step.call, kept).map(|()| sequence)
    }

    /// Holds what was sent long ago no more.
    fn let_go(&self, table: &mut Table) -> Result<(), ClientError> {
        // Sequences that were reserved by an earlier process and not used don't count.
        let oldest = if table.last - table.began_at < HELD_WINDOW { 0 } else { table.last - HELD_WINDOW };
        while let Some((sequence, call)) = table.held.first_key_value().map(|(sequence, call)| (*sequence, *call)) {
            if sequence >= oldest || table.under_way.contains(&sequence) {
                return Ok(());
            }
            self.remove(table, call, sequence)?;
        }
        Ok(())
    }

    fn remove(&self, table: &mut Table, call: CallId, sequence: u64) -> Result<(), ClientError> {
        table.held.remove(&sequence);
        let Some(kept) = table.calls.get_mut(&call) else { return Ok(()) };
        kept.steps.retain(|step| step.sequence != sequence);
        self.write(call, kept)?;
        if kept.steps.is_empty() {
            let slot = kept.slot;
            table.calls.remove(&call);
            table.free_slots.push(slot);
            self.record.as_ref().map_or(Ok(()), |record| record.clear_slot(slot)).map_err(unrecordable)?;
        }
        Ok(())
    }

    fn write(&self, call: CallId, kept: &Kept) -> Result<(), ClientError> {
        let Some(record) = &self.record else { return Ok(()) };
        record.write_slot(kept.slot, call.0, &kept.steps).map_err(unrecordable)
    }
}

impl Table {
    fn recorded(&self, step: StepOf) -> Option<u64> {
        let kept = self.calls.get(&step.call)?;
        kept.steps.iter().find(|known| known.kind == step.kind).map(|known| known.sequence)
    }
}

fn unrecordable(error: std::io::Error) -> ClientError {
    ClientError::Record(error.to_string())
}

#[cfg(test)]
mod tests;
