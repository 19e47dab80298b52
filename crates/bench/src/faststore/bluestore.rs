//! The baseline: BlueStore's three ways to write, as the FastStore paper's sections II-D and IV-A and its table II have them.
//!
//! ```text
//!   NEW, COW   data to free blocks ─► flush ─► record in the log, durable ─► acknowledged ─► old units released
//!   RMW        edges read ─► record with the data in the log, durable ─► acknowledged ─► (a batch of them) in place ─► flush ─► removed
//!
//!   device   │ log (crate `wal`) │ allocation units of min_alloc_size …
//! ```
//!
//! The log stands for RocksDB's write-ahead log: one durable write of whole blocks for a commit. Compaction and the metadata of BlueFS are left
//! out, which favours the baseline. A flush of data comes before the commit, as BlueStore's commit thread does it.
//!
//! The paper's section II-D has the two words the wrong way round. Here, as in its section IV-A, *simple* writes go to blocks that hold nothing, and
//! *deferred* ones go through the log.
//!
//! Invariants:
//! - What was acknowledged comes back after a power cut.
//! - A unit is released only after the record that says so is durable. No patch for it is left then: they are written in place before.
//! - A patch is removed by the next record: writing it again, before that, changes nothing.

use super::map::{self, BLOCK, MOST_UNIT_BYTES, OBJECT_BYTES, Object, Part, Size, Space, Strategy};
use super::path::{Step, WritePath};
use super::record::Record;
use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use disk::{AlignedBuf, Disk, DiskExt, Durability, ReadMode};
use env::Env;
use futures_util::future::try_join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use wal::{OpenOptions, RegionStore, Wal};

/// Segments of the log; nothing is ever removed from it.
const LOG_SEGMENTS: usize = 2;

/// How a device is cut.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// `min_alloc_size` (MAS).
    pub unit_bytes: u32,
    pub units: u32,
    pub segment_bytes: u64,
    /// Deferred writes that are brought to their places together.
    pub batch: usize,
}

impl Layout {
    pub fn device_bytes(&self) -> u64 {
        self.first_block() * u64::from(BLOCK) + u64::from(self.units) * u64::from(self.unit_bytes)
    }

    fn first_block(&self) -> u64 {
        LOG_SEGMENTS as u64 * self.segment_bytes / u64::from(BLOCK)
    }

    /// The number on the device of a block of an allocation unit.
    fn block(&self, unit: u32, position: u32) -> u64 {
        self.first_block() + u64::from(unit) * u64::from(self.unit_bytes / BLOCK) + u64::from(position)
    }
}

/// A device with objects.
pub struct BlueStore {
    disk: Arc<dyn Disk>,
    layout: Layout,
    log: Wal,
    space: Space,
    objects: BTreeMap<u32, Object>,
    /// Blocks that the log has and their places have not.
    pending: BTreeMap<u64, Bytes>,
    /// Writes that these are of.
    deferred: usize,
    last: u64,
    applied: u64,
}

/// A write on its way.
struct Change {
    object: Object,
    touched: BTreeSet<u32>,
    released: Vec<u32>,
    data: Vec<(u64, AlignedBuf)>,
    patches: BTreeMap<u64, Bytes>,
}

impl BlueStore {
    /// Opens what is on a device, or begins on one that holds zeros.
    pub async fn open(disk: Arc<dyn Disk>, env: &Env, layout: Layout) -> anyhow::Result<BlueStore> {
        let fits = layout.unit_bytes.is_multiple_of(BLOCK) && OBJECT_BYTES.is_multiple_of(layout.unit_bytes);
        ensure!(fits && layout.unit_bytes <= MOST_UNIT_BYTES, "min_alloc_size can't be {} bytes", layout.unit_bytes);
        let store = Arc::new(RegionStore::new(disk.clone(), 0, layout.segment_bytes, LOG_SEGMENTS));
        let mut records = Vec::new();
        let mut replay = |_, bytes: &[u8]| records.push(Record::decode(bytes));
        let log = Wal::open(env, store, OpenOptions::default(), &mut replay).await.context("opening the baseline's log")?;
        let mut store = BlueStore {
            disk,
            layout,
            log,
            space: Space::new(layout.units),
            objects: BTreeMap::new(),
            pending: BTreeMap::new(),
            deferred: 0,
            last: 0,
            applied: 0,
        };
        let records: Vec<Record> = records.into_iter().collect::<Result<_, _>>()?;
        store.replay(records)?;
        store.apply().await?;
        Ok(store)
    }

    fn replay(&mut self, records: Vec<Record>) -> anyhow::Result<()> {
        self.last = records.len() as u64;
        self.applied = records.last().map_or(0, |record| record.applied);
        for (number, record) in (1..).zip(records) {
            let object = self.objects.entry(record.object).or_default();
            for (unit, places) in record.units {
                object.places.insert(unit, places);
            }
            if number > self.applied && !record.patches.is_empty() {
                self.pending.extend(record.patches);
                self.deferred += 1;
            }
        }
        for place in self.objects.values().flat_map(|object| object.places.values().flatten()) {
            ensure!(self.space.take_this(place.unit), "allocation unit {} is used twice", place.unit);
        }
        Ok(())
    }

    /// Brings all patches to their places: stretches that follow one another in one write each.
    async fn apply(&mut self) -> anyhow::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let blocks = std::mem::take(&mut self.pending);
        self.put_data(runs(&blocks)).await.context("writing deferred data in place")?;
        self.deferred = 0;
        self.applied = self.last;
        Ok(())
    }

    /// All at the same time, then a flush.
    async fn put_data(&self, data: Vec<(u64, AlignedBuf)>) -> anyhow::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let write = |(block, buf)| self.disk.write(block * u64::from(BLOCK), buf, Durability::Volatile);
        try_join_all(data.into_iter().map(write)).await?;
        Ok(self.disk.flush().await?)
    }

    /// Whether a part takes blocks out of use that have patches.
    fn has_pending(&self, object: &Object, part: &Part) -> bool {
        let units = self.units_of(part);
        let places = units.flat_map(|unit| object.places.get(&unit).into_iter().flatten());
        let positions = u64::from(self.layout.unit_bytes / BLOCK);
        let blocks = places.map(|place| self.layout.block(place.unit, 0));
        blocks.into_iter().any(|first| self.pending.range(first..first + positions).next().is_some())
    }

    fn units_of(&self, part: &Part) -> Range<u32> {
        part.range.start / self.layout.unit_bytes..part.range.end.div_ceil(self.layout.unit_bytes)
    }

    /// Puts a part of a write into blocks that hold nothing.
    fn place_anew(&mut self, change: &mut Change, part: &Part, strategy: Strategy, bytes: &[u8]) -> anyhow::Result<()> {
        let mut blocks = BTreeMap::new();
        for unit in self.units_of(part) {
            let hole = change.object.any_place(unit).filter(|_| strategy == Strategy::New);
            let Some(into) = hole.or_else(|| self.space.take()) else { bail!("the baseline's device is full") };
            let mask = map::mask(part, unit, self.layout.unit_bytes);
            change.released.extend(change.object.put(unit, into, mask));
            change.touched.insert(unit);
            for (position, block) in self.cut(part, unit) {
                let from = (block - part.blocks().start) as usize;
                let content = Bytes::copy_from_slice(&bytes[from..from + BLOCK as usize]);
                blocks.insert(self.layout.block(into, position), content);
            }
        }
        change.data.extend(runs(&blocks));
        Ok(())
    }

    /// Leaves a part of a write to the log. Blocks that hold nothing yet get a place beside those that do.
    fn defer(&self, change: &mut Change, part: &Part, bytes: &[u8]) -> anyhow::Result<()> {
        let unit = part.range.start / self.layout.unit_bytes;
        let beside = change.object.any_place(unit).context("a read-modify-write where nothing is")?;
        for (position, block) in self.cut(part, unit) {
            let into = change.object.find(unit, position).unwrap_or(beside);
            change.object.put(unit, into, 1 << position);
            let from = (block - part.blocks().start) as usize;
            change
                .patches
                .insert(self.layout.block(into, position), Bytes::copy_from_slice(&bytes[from..from + BLOCK as usize]));
        }
        change.touched.insert(unit);
        Ok(())
    }

    /// The blocks of a part in a logical unit: position in the unit, and first byte in the object.
    fn cut(&self, part: &Part, unit: u32) -> impl Iterator<Item = (u32, u32)> + use<> {
        let (blocks, first) = (part.blocks(), unit * self.layout.unit_bytes);
        let range = blocks.start.max(first)..blocks.end.min(first + self.layout.unit_bytes);
        range.step_by(BLOCK as usize).map(move |block| ((block - first) / BLOCK, block))
    }

    /// The content of the blocks that a part touches: what is there around it, or zeros.
    async fn padded(&self, object: &Object, part: &Part, data: &[u8]) -> anyhow::Result<Vec<u8>> {
        let blocks = part.blocks();
        let mut bytes = vec![0; blocks.len()];
        let (first, last) = (blocks.start, blocks.end - BLOCK);
        let is_cut = |block: u32| block < part.range.start || block + BLOCK > part.range.end;
        let edges: BTreeSet<u32> = [first, last].into_iter().filter(|block| is_cut(*block)).collect();
        for edge in edges {
            let at = (edge - blocks.start) as usize;
            bytes[at..at + BLOCK as usize].copy_from_slice(&self.read_of(object, edge..edge + BLOCK).await?);
        }
        let skipped = (part.range.start - blocks.start) as usize;
        bytes[skipped..skipped + data.len()].copy_from_slice(data);
        Ok(bytes)
    }

    /// Whole blocks of an object.
    async fn read_of(&self, object: &Object, range: Range<u32>) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![0; range.len()];
        let mut stretches: Vec<(usize, u64, usize)> = Vec::new();
        for block in range.clone().step_by(BLOCK as usize) {
            let (unit, position) = (block / self.layout.unit_bytes, block % self.layout.unit_bytes / BLOCK);
            let Some(place) = object.find(unit, position) else { continue };
            let (at, from) = ((block - range.start) as usize, self.layout.block(place, position));
            if let Some(patch) = self.pending.get(&from) {
                bytes[at..at + BLOCK as usize].copy_from_slice(patch);
                continue;
            }
            match stretches.last_mut() {
                Some((begun, first, count)) if *begun + *count * BLOCK as usize == at && *first + *count as u64 == from => {
                    *count += 1
                }
                _ => stretches.push((at, from, 1)),
            }
        }
        for (at, from, count) in stretches {
            let length = count * BLOCK as usize;
            let read = self.disk.read(from * u64::from(BLOCK), length, ReadMode::Direct).await?;
            bytes[at..at + length].copy_from_slice(&read);
        }
        Ok(bytes)
    }

    async fn commit(&mut self, number: u32, change: Change) -> anyhow::Result<()> {
        self.put_data(change.data).await.context("writing data to free blocks")?;
        let places = |unit: &u32| (*unit, change.object.places.get(unit).cloned().unwrap_or_default());
        let units = change.touched.iter().map(places).collect();
        let record = Record { applied: self.applied, object: number, units, patches: change.patches };
        self.log.append(record.encode()).await.context("committing to the baseline's log")?;
        self.last += 1;
        self.objects.insert(number, change.object);
        self.space.release(change.released);
        if !record.patches.is_empty() {
            self.pending.extend(record.patches);
            self.deferred += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
impl BlueStore {
    /// Units in which nothing is.
    pub fn free_units(&self) -> usize {
        self.space.len()
    }

    /// Writes that are not in their places yet.
    pub fn deferred(&self) -> usize {
        self.deferred
    }
}

impl WritePath for BlueStore {
    async fn write(&mut self, object: u32, offset: u32, data: Bytes) -> anyhow::Result<Vec<Step>> {
        let range = offset..offset + data.len() as u32;
        ensure!(!range.is_empty() && range.end <= OBJECT_BYTES, "bytes {range:?} are not of an object");
        let parts = map::parts(range, self.layout.unit_bytes);
        let before = self.objects.get(&object).cloned().unwrap_or_default();
        let mut change = Change {
            object: before.clone(),
            touched: BTreeSet::new(),
            released: Vec::new(),
            data: Vec::new(),
            patches: BTreeMap::new(),
        };
        let mut steps = Vec::new();
        for part in &parts {
            let strategy = before.strategy(part, self.layout.unit_bytes);
            if strategy == Strategy::Cow && self.has_pending(&before, part) {
                self.apply().await?;
            }
            let from = (part.range.start - offset) as usize;
            let bytes = self.padded(&before, part, &data[from..from + part.range.len()]).await?;
            match strategy {
                Strategy::New | Strategy::Cow => self.place_anew(&mut change, part, strategy, &bytes)?,
                Strategy::Rmw => self.defer(&mut change, part, &bytes)?,
            }
            steps.push(Step { range: part.range.clone(), cut: Some((part.size, strategy)) });
        }
        self.commit(object, change).await?;
        if self.deferred >= self.layout.batch {
            self.apply().await?;
        }
        Ok(steps)
    }

    async fn settle(&mut self) -> anyhow::Result<()> {
        self.apply().await
    }

    async fn read(&self, object: u32, range: Range<u32>) -> anyhow::Result<Vec<u8>> {
        let nothing = Object::default();
        let object = self.objects.get(&object).unwrap_or(&nothing);
        let blocks = Part { range: range.clone(), size: Size::Big }.blocks();
        let bytes = self.read_of(object, blocks.clone()).await?;
        let skipped = (range.start - blocks.start) as usize;
        Ok(bytes[skipped..skipped + range.len()].to_vec())
    }

    fn disk(&self) -> &dyn Disk {
        &*self.disk
    }
}

/// Blocks that follow one another, as one buffer each.
fn runs(blocks: &BTreeMap<u64, Bytes>) -> Vec<(u64, AlignedBuf)> {
    let mut runs: Vec<Vec<(u64, &Bytes)>> = Vec::new();
    for (block, bytes) in blocks {
        match runs.last_mut() {
            Some(run) if run[0].0 + run.len() as u64 == *block => run.push((*block, bytes)),
            _ => runs.push(vec![(*block, bytes)]),
        }
    }
    let joined = |run: Vec<(u64, &Bytes)>| {
        let mut buf = AlignedBuf::with_capacity(run.len() * BLOCK as usize);
        run.iter().for_each(|(_, bytes)| buf.extend_from_slice(bytes));
        (run[0].0, buf)
    };
    runs.into_iter().map(joined).collect()
}
