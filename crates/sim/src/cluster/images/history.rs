//! What clients asked of images and heard, block by block.
//!
//! Each 4 KiB block of an image is a register. A snapshot is a read of all its blocks whose values are learned later, when the snapshot is read; a rollback writes
//! these values; a clone begins with them. A write that failed took effect before it failed or never: the holder that follows, or the next request, settles that
//! before it answers.

use super::pattern::{Sectors, Value};
use super::{BLOCKS, WINDOWS};
use crate::trace::Trace;
use env::Env;
use model::linearizability::History;
use model::register::{Call, Outcome, Register};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Arguments;
use std::ops::Range;
use std::sync::Arc;

/// An image of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageNumber(pub usize);

/// A snapshot of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotNumber(pub usize);

/// What is asked of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Write(Value),
    /// A rollback.
    WriteOf(SnapshotNumber),
    Read(Sectors),
    /// A snapshot.
    ReadOf(SnapshotNumber),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Done,
    /// It had its effect, or will never have it.
    Lost,
    /// It had no effect.
    Withdrawn,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    what: What,
    called_at: u64,
    ended: Option<(u64, Ended)>,
}

/// A call of several blocks.
#[derive(Clone, Debug)]
pub struct CallOf {
    image: ImageNumber,
    entries: Vec<(u32, usize)>,
}

/// An image as clients know it.
#[derive(Clone, Debug)]
pub struct Known {
    pub number: ImageNumber,
    pub name: String,
    pub copies: u8,
    pub is_clone: bool,
}

/// A snapshot as clients know it.
#[derive(Clone, Debug)]
pub struct KnownSnapshot {
    pub number: SnapshotNumber,
    pub image: ImageNumber,
    pub name: String,
    pub size_bytes: u64,
    /// Of blocks that were read.
    pub values: BTreeMap<u32, Sectors>,
    /// It was made, and is not removed.
    pub is_there: bool,
}

struct ImageLog {
    known: Known,
    parent: Option<SnapshotNumber>,
    /// Clients may use it.
    is_there: bool,
    blocks: BTreeMap<u32, Vec<Entry>>,
}

/// The histories of all images of a run. One observer sees all calls and answers, so they have one order.
pub struct ImageHistories {
    env: Env,
    trace: Arc<Trace>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    now: u64,
    next_value: Value,
    images: Vec<ImageLog>,
    snapshots: Vec<KnownSnapshot>,
    violation: Option<String>,
    counts: BTreeMap<&'static str, u64>,
}

impl ImageHistories {
    pub fn new(env: &Env, trace: &Arc<Trace>) -> Arc<ImageHistories> {
        Arc::new(ImageHistories { env: env.clone(), trace: trace.clone(), inner: Mutex::default() })
    }

    /// An image that is about to be made; [`Self::image_is_there`] tells that it is.
    pub fn add_image(&self, copies: u8, parent: Option<SnapshotNumber>) -> Known {
        let mut inner = self.inner.lock();
        let number = ImageNumber(inner.images.len());
        let known = Known { number, name: format!("image-{}", number.0), copies, is_clone: parent.is_some() };
        inner.images.push(ImageLog { known: known.clone(), parent, is_there: false, blocks: BTreeMap::new() });
        known
    }

    pub fn image_is_there(&self, number: ImageNumber) {
        self.inner.lock().images[number.0].is_there = true;
    }

    pub fn images(&self) -> Vec<Known> {
        self.inner.lock().images.iter().filter(|image| image.is_there).map(|image| image.known.clone()).collect()
    }

    pub fn image(&self, number: ImageNumber) -> Known {
        self.inner.lock().images[number.0].known.clone()
    }

    /// A snapshot that is about to be made.
    pub fn add_snapshot(&self, image: ImageNumber) -> KnownSnapshot {
        let mut inner = self.inner.lock();
        let number = SnapshotNumber(inner.snapshots.len());
        let name = format!("snapshot-{}", number.0);
        let known = KnownSnapshot { number, image, name, size_bytes: 0, values: BTreeMap::new(), is_there: false };
        inner.snapshots.push(known.clone());
        known
    }

    pub fn snapshot_is_there(&self, number: SnapshotNumber, is_there: bool, size_bytes: u64) {
        let snapshot = &mut self.inner.lock().snapshots[number.0];
        (snapshot.is_there, snapshot.size_bytes) = (is_there, size_bytes);
    }

    /// Snapshots that there are.
    pub fn snapshots(&self) -> Vec<KnownSnapshot> {
        self.inner.lock().snapshots.iter().filter(|snapshot| snapshot.is_there).cloned().collect()
    }

    pub fn next_value(&self) -> Value {
        let mut inner = self.inner.lock();
        inner.next_value += 1;
        inner.next_value
    }

    /// A call begins, of those blocks of a range that are watched.
    pub fn call(&self, image: ImageNumber, blocks: Range<u32>, what: What) -> CallOf {
        self.note(format_args!("{image:?} {blocks:?}: {what:?}"));
        let mut inner = self.inner.lock();
        inner.now += 1;
        let called_at = inner.now;
        let log = &mut inner.images[image.0].blocks;
        let mut entries = Vec::new();
        for block in watched(blocks) {
            let calls = log.entry(block).or_default();
            entries.push((block, calls.len()));
            calls.push(Entry { what, called_at, ended: None });
        }
        CallOf { image, entries }
    }

    pub fn end(&self, call: &CallOf, ended: Ended) {
        self.end_with(call, ended, |_| None);
    }

    /// A read ends: it says what blocks hold.
    pub fn end_read(&self, call: &CallOf, values: &BTreeMap<u32, Sectors>) {
        self.end_with(call, Ended::Done, |block| values.get(&block).copied());
    }

    fn end_with(&self, call: &CallOf, ended: Ended, found: impl Fn(u32) -> Option<Sectors>) {
        let blocks = call.entries.first().map(|(block, _)| *block)..call.entries.last().map(|(block, _)| *block);
        let mut told = Vec::new();
        {
            let mut inner = self.inner.lock();
            inner.now += 1;
            let now = inner.now;
            let log = &mut inner.images[call.image.0].blocks;
            for (block, at) in &call.entries {
                let Some(entry) = log.get_mut(block).and_then(|calls| calls.get_mut(*at)) else { continue };
                if let Some(found) = found(*block) {
                    entry.what = What::Read(found);
                    told.push(found[0]);
                }
                entry.ended = Some((now, ended));
            }
        }
        told.dedup();
        self.note(format_args!("{:?} {blocks:?}: {ended:?} {told:?}", call.image));
    }

    /// What a snapshot says of a block: it says the same for ever.
    pub fn snapshot_says(&self, number: SnapshotNumber, block: u32, found: Sectors) {
        if watched(block..block + 1).next().is_none() {
            if found != Sectors::default() {
                self.violate(format!("{number:?}: block {block}, which was never written, holds {found:?}"));
            }
            return;
        }
        let before = self.inner.lock().snapshots[number.0].values.insert(block, found);
        if let Some(before) = before.filter(|before| *before != found) {
            self.violate(format!("{number:?}: block {block} was {before:?}, and is {found:?}"));
        }
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
        *self.inner.lock().counts.entry(what).or_default() += 1;
    }

    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.inner.lock().counts.clone()
    }

    pub fn calls(&self) -> usize {
        let inner = self.inner.lock();
        inner.images.iter().flat_map(|image| image.blocks.values()).map(Vec::len).sum()
    }

    pub fn note(&self, what: Arguments<'_>) {
        let elapsed = self.env.simulation().map(|simulation| simulation.elapsed()).unwrap_or_default();
        self.trace.note(elapsed, &what);
    }

    /// Whether every block's history has an explanation.
    pub fn judge(&self) -> Result<(), String> {
        let inner = self.inner.lock();
        if let Some(violation) = &inner.violation {
            return Err(violation.clone());
        }
        for image in &inner.images {
            for (block, entries) in &image.blocks {
                let initial = match image.parent {
                    None => Some(Sectors::default()),
                    Some(parent) => inner.value_of(parent, *block),
                };
                let Some(initial) = initial else {
                    return Err(format!("{}: block {block} of its parent was never read", image.known.name));
                };
                inner
                    .judge_block(entries, *block, initial)
                    .map_err(|what| format!("{} block {block}: {what}", image.known.name))?;
            }
        }
        Ok(())
    }
}

impl Inner {
    fn value_of(&self, snapshot: SnapshotNumber, block: u32) -> Option<Sectors> {
        self.snapshots[snapshot.0].values.get(&block).copied()
    }

    fn judge_block(&self, entries: &[Entry], block: u32, initial: Sectors) -> Result<(), String> {
        let mut steps: Vec<(u64, usize, Option<Ended>)> = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            steps.push((entry.called_at, at, None));
            steps.extend(entry.ended.map(|(ended_at, ended)| (ended_at, at, Some(ended))));
        }
        steps.sort_by_key(|(when, at, _)| (*when, *at));
        let seen = |entry: &Entry| match entry.what {
            What::Write(value) => Some([value; _]),
            What::Read(found) => matches!(entry.ended, Some((_, Ended::Done))).then_some(found),
            What::WriteOf(snapshot) | What::ReadOf(snapshot) => self.value_of(snapshot, block),
        };
        let values: Vec<Option<Sectors>> = entries.iter().map(seen).collect();
        let is_even = |sectors: &Sectors| sectors.iter().all(|value| *value == sectors[0]);
        let columns = if values.iter().flatten().chain([&initial]).all(is_even) { 1 } else { initial.len() };
        for column in 0..columns {
            judge_sector(entries, &steps, initial[column], |at| values[at].map(|sectors| sectors[column]))
                .map_err(|what| format!("sector {column}: {what}"))?;
        }
        Ok(())
    }
}

fn judge_sector(
    entries: &[Entry],
    steps: &[(u64, usize, Option<Ended>)],
    initial: Value,
    value: impl Fn(usize) -> Option<Value>,
) -> Result<(), String> {
    let mut history: History<Register<Value>> = History::default();
    let mut calls = vec![None; entries.len()];
    for (_, at, ended) in steps {
        let entry = &entries[*at];
        let Some(value) = value(*at) else {
            if matches!(entry.what, What::WriteOf(_)) && matches!(entry.ended, Some((_, Ended::Done))) {
                return Err("it was rolled back to what was never read".to_owned());
            }
            continue;
        };
        let is_read = matches!(entry.what, What::Read(_) | What::ReadOf(_));
        let Some(ended) = ended else {
            if !is_read || matches!(entry.ended, Some((_, Ended::Done))) {
                calls[*at] = Some(history.call(if is_read { Call::Read } else { Call::Write(Some(value)) }));
            }
            continue;
        };
        let Some(call) = calls[*at] else { continue };
        match ended {
            Ended::Done if is_read => history.answer(call, Outcome::Read(Some(value))),
            Ended::Done => history.answer(call, Outcome::Written),
            Ended::Lost => history.lose(call),
            Ended::Withdrawn => history.withdraw(call),
        }
    }
    history.check(Some(initial)).map(drop).map_err(|violation| violation.to_string())
}

/// The blocks of a range that clients write to.
pub fn watched(blocks: Range<u32>) -> impl Iterator<Item = u32> {
    let within = move |window: &Range<u32>| window.start.max(blocks.start)..window.end.min(blocks.end).min(BLOCKS);
    WINDOWS.iter().flat_map(within)
}
