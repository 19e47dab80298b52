//! Sorted runs on the log: written by checkpoints and merges, read by lists, merges and cold starts.

use crate::append::{Landed, LooseAppend, LooseRecord, Unnamed};
use crate::names::Rows;
use crate::store::Inner;
use crate::targets::LiveCount;
use bytes::Bytes;
use device::AppendClass;
use engine::EngineError;
use format::manifest::{IndexPiece, RunSummary};
use format::name_entry::{NameEntry, SortKey};
use format::record::{RecordKind, WriteId};
use format::replicas::Places;
use format::run_block::{RunBlock, RunBlockBuilder};
use format::run_index::{BlockRef, RunHeader, RunId, RunIndex, RunIndexBuilder};
use smallvec::smallvec;
use std::collections::VecDeque;
use std::sync::Arc;
use types::limits::MAX_SMALL_BYTES;
use types::{Epoch, KeyHash};

/// Blocks of a run on their way at a time.
const MAX_BLOCKS_IN_FLIGHT: usize = 8;

/// A run: its index in memory, its blocks on the log.
pub(crate) struct Run {
    index: RunIndex,
    /// As the manifest names it.
    pub summary: RunSummary,
}

impl Run {
    pub fn id(&self) -> RunId {
        self.summary.run
    }

    pub fn level(&self) -> u8 {
        self.summary.level
    }

    pub fn blocks(&self) -> usize {
        self.index.len()
    }

    pub fn first_block_for(&self, key: &[u8]) -> usize {
        self.index.first_block_for(&SortKey::from_bytes(key))
    }

    /// Frames of the run on the log: places and length of each.
    pub fn frames(&self) -> impl Iterator<Item = (Places, u32)> {
        let blocks =
            (0..self.blocks()).filter_map(|block| self.index.get(block)).map(|block| (block.places, block.frame_bytes));
        blocks.chain(self.summary.index.iter().map(|piece| (piece.places, piece.frame_bytes)))
    }

    /// Opens a run that the manifest names.
    pub async fn open(inner: &Inner, summary: RunSummary) -> Result<Run, EngineError> {
        let mut bytes = Vec::new();
        let mut hashes = Vec::new();
        for piece in &summary.index {
            let frame = inner.read_loose(&piece.places, piece.frame_bytes).await?;
            bytes.extend_from_slice(&frame.payload);
            hashes.push(frame.record.hash);
        }
        let index = RunIndex::decode(Bytes::from(bytes)).map_err(|error| corrupt(summary.run, &error))?;
        // Its pieces follow its blocks.
        let run = Run { index, summary };
        hashes.iter().zip(run.blocks()..).try_for_each(|(hash, number)| run.check_frame(number, hash))?;
        Ok(run)
    }

    /// Reads a block from the log.
    pub async fn block(&self, inner: &Inner, number: usize) -> Result<RunBlock, EngineError> {
        let frame = {
            let block = self.index.get(number).expect("the caller counts the blocks");
            inner.read_loose(&block.places, block.frame_bytes).await?
        };
        self.check_frame(number, &frame.record.hash)?;
        RunBlock::decode(frame.payload).map_err(|error| corrupt(self.id(), &error))
    }

    /// Reads a block for the cache; without waiting if the page cache holds it.
    pub async fn rows(&self, inner: &Inner, number: usize) -> Result<Rows, EngineError> {
        let (places, frame_bytes) = {
            let block = self.index.get(number).expect("the caller counts the blocks");
            (block.places, block.frame_bytes)
        };
        let frame = match inner.targets.try_read(&places.primary(), frame_bytes) {
            Some(frame) => frame,
            None => inner.read_loose(&places, frame_bytes).await?,
        };
        self.check_frame(number, &frame.record.hash)?;
        Rows::decode(frame.payload).map_err(|error| corrupt(self.id(), &error))
    }

    /// Refuses what another frame says: places say nothing of what stands there by now, and the zones of a merged run are written again.
    fn check_frame(&self, number: usize, found: &KeyHash) -> Result<(), EngineError> {
        if *found == frame_hash(self.id(), number as u32) {
            return Ok(());
        }
        env::mark("engine: another frame where one of a run stood");
        Err(EngineError::Corrupt { detail: format!("run {}: another frame where its frame {number} stood", self.id().0) })
    }
}

pub(crate) fn corrupt(run: RunId, error: &format::decode::DecodeError) -> EngineError {
    EngineError::Corrupt { detail: format!("run {}: {error}", run.0) }
}

/// Writes a run, row by row.
pub(crate) struct RunWriter {
    inner: Arc<Inner>,
    class: AppendClass,
    header: RunHeader,
    write: WriteId,
    next_frame: u32,
    block: RunBlockBuilder,
    index: RunIndexBuilder,
    in_flight: VecDeque<(LooseAppend, Vec<u8>, u32)>,
    /// What a run that is given up has written is garbage.
    unnamed: Unnamed,
    bytes: u64,
}

impl RunWriter {
    pub fn new(inner: &Arc<Inner>, run: RunId, level: u8, class: AppendClass) -> Self {
        let header = RunHeader {
            run,
            level,
            entries: 0,
            min_epoch: Epoch(u64::MAX),
            max_epoch: Epoch(0),
            lowest: SortKey::from_bytes(&[]),
            highest: SortKey::from_bytes(&[]),
        };
        RunWriter {
            inner: inner.clone(),
            class,
            header,
            write: inner.next_write_id(),
            next_frame: 0,
            block: RunBlockBuilder::new(),
            index: RunIndexBuilder::new(),
            in_flight: VecDeque::new(),
            unnamed: Unnamed::new(inner, LiveCount::Records),
            bytes: 0,
        }
    }

    pub async fn push(&mut self, entry: &NameEntry) -> Result<(), EngineError> {
        if !self.block.push(entry) {
            self.end_block().await?;
            assert!(self.block.push(entry), "an empty block takes any row");
        }
        self.note(entry.entry.epoch);
        Ok(())
    }

    /// Writes what is left and the index; `None` for a run without rows.
    pub async fn finish(mut self) -> Result<Option<Run>, EngineError> {
        if !self.block.is_empty() {
            self.end_block().await?;
        }
        while !self.in_flight.is_empty() {
            self.settle_one().await?;
        }
        if self.index.is_empty() {
            return Ok(None);
        }
        self.header.highest = SortKey::from_bytes(self.block.last_key());
        let index_bytes = Bytes::from(std::mem::take(&mut self.index).finish(&self.header));
        let mut pieces = Vec::new();
        for start in (0..index_bytes.len()).step_by(MAX_SMALL_BYTES) {
            let piece = index_bytes.slice(start..index_bytes.len().min(start + MAX_SMALL_BYTES));
            let append = self.append(RecordKind::RunIndex, piece);
            let landed = self.landed(&append).await?;
            pieces.push(IndexPiece { places: landed.places, frame_bytes: landed.frame_bytes });
        }
        let index = RunIndex::decode(index_bytes).expect("an index just encoded decodes");
        let summary = RunSummary {
            run: self.header.run,
            level: self.header.level,
            entries: self.header.entries,
            bytes: self.bytes,
            min_epoch: self.header.min_epoch,
            max_epoch: self.header.max_epoch,
            index: pieces,
        };
        self.unnamed.keep();
        self.inner.stats.run_bytes.add(self.bytes);
        Ok(Some(Run { index, summary }))
    }

    fn note(&mut self, epoch: Epoch) {
        if self.header.entries == 0 {
            self.header.lowest = SortKey::from_bytes(self.block.first_key());
        }
        self.header.entries += 1;
        self.header.min_epoch = self.header.min_epoch.min(epoch);
        self.header.max_epoch = self.header.max_epoch.max(epoch);
    }

    async fn end_block(&mut self) -> Result<(), EngineError> {
        while self.in_flight.len() >= MAX_BLOCKS_IN_FLIGHT {
            self.settle_one().await?;
        }
        let first_key = self.block.first_key().to_vec();
        let entries = self.block.len() as u32;
        let payload = Bytes::from(self.block.finish());
        let append = self.append(RecordKind::RunBlock, payload);
        self.in_flight.push_back((append, first_key, entries));
        Ok(())
    }

    async fn settle_one(&mut self) -> Result<(), EngineError> {
        let Some((append, first_key, entries)) = self.in_flight.pop_front() else { return Ok(()) };
        let landed = self.landed(&append).await?;
        self.bytes += landed.frame_bytes as u64;
        self.index.push(&BlockRef { first_key: &first_key, entries, frame_bytes: landed.frame_bytes, places: landed.places });
        Ok(())
    }

    async fn landed(&mut self, append: &LooseAppend) -> Result<Landed, EngineError> {
        let landed = append.finished().await?;
        self.unnamed.add(&landed);
        Ok(landed)
    }

    fn append(&mut self, kind: RecordKind, payload: Bytes) -> LooseAppend {
        let hash = frame_hash(self.header.run, self.next_frame);
        self.next_frame += 1;
        let record = LooseRecord { kind, write: self.write, hash, length: payload.len() as u64, chunk: None };
        LooseAppend::start(&self.inner, record, self.class, smallvec![payload])
    }
}

/// A run frame's own hash, made of the run and the frame's number.
fn frame_hash(run: RunId, frame: u32) -> KeyHash {
    let mut name = [0u8; 12];
    name[..8].copy_from_slice(&run.0.to_le_bytes());
    name[8..].copy_from_slice(&frame.to_le_bytes());
    format::record::EntryName::object(types::BucketId(0), Bytes::copy_from_slice(&name)).hash()
}
