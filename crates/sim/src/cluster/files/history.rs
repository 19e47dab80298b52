//! What clients asked of volumes and heard.
//!
//! - Names: each set of directories has one history; its calls must have an order in which a tree gives the same answers ([`Tree`]).
//! - Blocks: each half of a block of 4 KiB is a register.
//! - Logs: [`Log`].
//!
//! A call that was not answered has its effect at any later time or never. [`FileHistories::calm`] says that nothing is under way any more.

use super::super::images::pattern::Value;
use super::log::{Log, RecordId};
use super::tree::{NameCall, NameOutcome, Names, Tree};
use super::{HALVES, KNOWN_INODES};
use crate::trace::Trace;
use env::Env;
use model::linearizability::{CallId, History};
use model::register::{Call, Outcome, Register};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::ops::Range;
use std::sync::Arc;

/// A name of a directory, by its number.
pub type Name = u8;

/// A set of directories, a file of blocks, or a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number(pub usize);

/// A call of names.
#[derive(Clone, Copy, Debug)]
pub struct NameCallOf(Number, CallId);

/// A call of several halves of blocks.
#[derive(Clone, Debug)]
pub struct BlockCallOf(Number, Vec<(usize, CallId)>);

/// An append or a read of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogCallOf {
    log: Number,
    called_at: u64,
}

#[derive(Default)]
struct Yard {
    roots: Vec<u64>,
    history: History<Tree>,
    open: BTreeMap<usize, CallId>,
    /// Inodes that were found or made there last, and whether they are directories.
    known: Vec<(u64, bool)>,
}

#[derive(Default)]
struct Blocks {
    halves: Vec<History<Register<Value>>>,
    open: Vec<(usize, CallId)>,
}

#[derive(Default)]
struct Inner {
    now: u64,
    next_value: u64,
    yards: Vec<Yard>,
    blocks: Vec<Blocks>,
    logs: Vec<Log>,
    violation: Option<String>,
    counts: BTreeMap<&'static str, u64>,
    calls: usize,
}

impl Inner {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }
}

/// The histories of a run. One observer sees all calls and answers, so they have one order.
pub struct FileHistories {
    env: Env,
    trace: Arc<Trace>,
    inner: Mutex<Inner>,
}

impl FileHistories {
    pub fn new(env: &Env, trace: &Arc<Trace>) -> Arc<FileHistories> {
        Arc::new(FileHistories { env: env.clone(), trace: trace.clone(), inner: Mutex::default() })
    }

    /// A set of directories that are always there.
    pub fn add_yard(&self, roots: Vec<u64>) -> Number {
        let yards = &mut self.inner.lock().yards;
        yards.push(Yard { roots, ..Yard::default() });
        Number(yards.len() - 1)
    }

    pub fn add_blocks(&self) -> Number {
        let blocks = &mut self.inner.lock().blocks;
        blocks.push(Blocks { halves: vec![History::default(); HALVES], open: Vec::new() });
        Number(blocks.len() - 1)
    }

    pub fn add_log(&self) -> Number {
        let logs = &mut self.inner.lock().logs;
        logs.push(Log::default());
        Number(logs.len() - 1)
    }

    /// Names a write, or what may be made.
    pub fn next_value(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.next_value += 1;
        inner.next_value
    }

    /// The directories of a yard, those that are always there first, and files that were found in it last.
    pub fn known(&self, yard: Number) -> (Vec<u64>, Vec<u64>) {
        let inner = self.inner.lock();
        let yard = &inner.yards[yard.0];
        let of = |wanted: bool| yard.known.iter().filter(move |(_, is)| *is == wanted).map(|(ino, _)| *ino);
        (yard.roots.iter().copied().chain(of(true)).collect(), of(false).collect())
    }

    /// The directories of a yard that are always there.
    pub fn roots(&self, yard: Number) -> Vec<u64> {
        self.inner.lock().yards[yard.0].roots.clone()
    }

    pub fn call_names(&self, yard: Number, call: NameCall) -> NameCallOf {
        self.note(format_args!("yard {}: {call:?}", yard.0));
        let mut inner = self.inner.lock();
        inner.calls += 1;
        let yard_history = &mut inner.yards[yard.0];
        let id = yard_history.history.call(call);
        let number = yard_history.history.len();
        yard_history.open.insert(number, id);
        NameCallOf(yard, id)
    }

    /// None: it was not answered.
    pub fn end_names(&self, call: NameCallOf, outcome: Option<NameOutcome>) {
        self.note(format_args!("{call:?}: {outcome:?}"));
        let mut inner = self.inner.lock();
        let yard = &mut inner.yards[call.0.0];
        let Some(outcome) = outcome else {
            if matches!(yard.history.asked(call.1), NameCall::Lookup { .. } | NameCall::List { .. }) {
                yard.open.retain(|_, open| *open != call.1);
                yard.history.withdraw(call.1);
            }
            return;
        };
        let mut found: Vec<(u64, bool)> = match &outcome {
            NameOutcome::Found(ino, is_directory) => vec![(*ino, *is_directory)],
            NameOutcome::Listed(listed) => listed.iter().map(|(_, ino, is_directory)| (*ino, *is_directory)).collect(),
            NameOutcome::Done | NameOutcome::Refused(_) => Vec::new(),
        };
        found.retain(|known| !yard.known.contains(known));
        yard.known.extend(found);
        let surplus = yard.known.len().saturating_sub(KNOWN_INODES);
        yard.known.drain(..surplus);
        yard.open.retain(|_, open| *open != call.1);
        yard.history.answer(call.1, outcome);
    }

    /// A write of a value; none: a read.
    pub fn call_blocks(&self, file: Number, halves: Range<usize>, value: Option<Value>) -> BlockCallOf {
        self.note(format_args!("blocks {} {halves:?}: {value:?}", file.0));
        let mut inner = self.inner.lock();
        inner.calls += 1;
        let blocks = &mut inner.blocks[file.0];
        let call = || value.map_or(Call::Read, |value| Call::Write(Some(value)));
        let made: Vec<(usize, CallId)> = halves.map(|half| (half, blocks.halves[half].call(call()))).collect();
        blocks.open.extend(&made);
        BlockCallOf(file, made)
    }

    pub fn end_blocks(&self, call: &BlockCallOf, is_done: bool) {
        self.note(format_args!("blocks {} {:?}: {is_done}", call.0.0, call.1.first()));
        if is_done {
            self.answer_blocks(call, |_| Outcome::Written);
        }
    }

    /// What a read has found, half by half; none: nothing.
    pub fn end_read(&self, call: &BlockCallOf, values: Option<&[Value]>) {
        self.note(format_args!("blocks {} {:?}: {values:?}", call.0.0, call.1.first()));
        match values {
            Some(values) => self.answer_blocks(call, |at| Outcome::Read(Some(values[at]))),
            None => self.withdraw_blocks(call),
        }
    }

    fn answer_blocks(&self, call: &BlockCallOf, outcome: impl Fn(usize) -> Outcome<Value>) {
        let mut inner = self.inner.lock();
        let blocks = &mut inner.blocks[call.0.0];
        for (at, (half, id)) in call.1.iter().enumerate() {
            blocks.halves[*half].answer(*id, outcome(at));
        }
        blocks.open.retain(|open| !call.1.contains(open));
    }

    fn withdraw_blocks(&self, call: &BlockCallOf) {
        let mut inner = self.inner.lock();
        let blocks = &mut inner.blocks[call.0.0];
        call.1.iter().for_each(|(half, id)| blocks.halves[*half].withdraw(*id));
        blocks.open.retain(|open| !call.1.contains(open));
    }

    /// An append begins.
    pub fn call_append(&self, log: Number) -> RecordId {
        let mut inner = self.inner.lock();
        inner.calls += 1;
        let now = inner.tick();
        let id = inner.logs[log.0].call(now);
        drop(inner);
        self.note(format_args!("log {}: {id:?}", log.0));
        id
    }

    pub fn end_append(&self, log: Number, id: RecordId) {
        self.note(format_args!("log {}: {id:?} is there", log.0));
        let mut inner = self.inner.lock();
        let now = inner.tick();
        inner.logs[log.0].acknowledge(id, now);
    }

    pub fn log_len(&self, log: Number) -> usize {
        self.inner.lock().logs[log.0].len()
    }

    pub fn call_log(&self, log: Number) -> LogCallOf {
        let mut inner = self.inner.lock();
        inner.calls += 1;
        LogCallOf { log, called_at: inner.tick() }
    }

    pub fn end_log(&self, call: LogCallOf, records: &[RecordId]) {
        self.note(format_args!("log {}: {} records, the last {:?}", call.log.0, records.len(), records.last()));
        let mut inner = self.inner.lock();
        let now = inner.tick();
        if let Err(what) = inner.logs[call.log.0].read(records, call.called_at, now) {
            inner.violation.get_or_insert(format!("log {}: {what}", call.log.0));
        }
    }

    /// Nothing is under way any more: what was not answered has had its effect, or never will.
    pub fn calm(&self) {
        let mut inner = self.inner.lock();
        let now = inner.tick();
        for yard in &mut inner.yards {
            std::mem::take(&mut yard.open).into_values().for_each(|call| yard.history.lose(call));
        }
        for blocks in &mut inner.blocks {
            std::mem::take(&mut blocks.open).into_iter().for_each(|(half, call)| blocks.halves[half].lose(call));
        }
        inner.logs.iter_mut().for_each(|log| log.lose(now));
    }

    /// Something that must never be.
    pub fn violate(&self, what: String) {
        self.note(format_args!("VIOLATION: {what}"));
        self.inner.lock().violation.get_or_insert(what);
    }

    pub fn violation(&self) -> Option<String> {
        self.inner.lock().violation.clone()
    }

    pub fn count(&self, what: &'static str) {
        self.count_many(what, 1);
    }

    pub fn count_many(&self, what: &'static str, count: usize) {
        *self.inner.lock().counts.entry(what).or_default() += count as u64;
    }

    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.inner.lock().counts.clone()
    }

    pub fn calls(&self) -> usize {
        self.inner.lock().calls
    }

    pub fn note(&self, what: Arguments<'_>) {
        let elapsed = self.env.simulation().map(|simulation| simulation.elapsed()).unwrap_or_default();
        self.trace.note(elapsed, &what);
    }

    /// Whether everything has an explanation.
    pub fn judge(&self) -> Result<(), String> {
        let mut undecided = 0;
        {
            let inner = self.inner.lock();
            if let Some(violation) = &inner.violation {
                return Err(violation.clone());
            }
            for (number, yard) in inner.yards.iter().enumerate() {
                match yard.history.check(Names::new(yard.roots.clone())) {
                    Ok(_) => {}
                    // Too much was not answered.
                    Err(violation) if violation.gave_up => undecided += 1,
                    Err(violation) => return Err(format!("yard {number}: {violation}")),
                }
            }
            for (number, blocks) in inner.blocks.iter().enumerate() {
                for (half, history) in blocks.halves.iter().enumerate() {
                    history.check(Some(0)).map_err(|violation| format!("blocks {number}, half {half}: {violation}"))?;
                }
            }
        }
        if undecided > 0 {
            self.count_many("names: histories that were not decided", undecided);
        }
        Ok(())
    }
}
