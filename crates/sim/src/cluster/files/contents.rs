//! Calls of contents: files of blocks, of which each half is a register, and logs.

use super::super::images::pattern::{self, BLOCK_BYTES, Value};
use super::door::Mount;
use super::history::Number;
use super::log::{self, RecordId};
use super::user::{FileUser, Place, Volume};
use super::{HALVES, MAX_RECORDS};
use bytes::Bytes;
use filesystem::client::{Allocation, ClientError, WriteAt};
use filesystem::ids::Ino;
use filesystem::meta::AttributeChange;
use std::ops::Range;
use std::sync::Arc;

/// What is read and written at least. Two are in a block.
const HALF_BYTES: usize = BLOCK_BYTES / 2;
/// More than a log has.
const LOG_BYTES: usize = MAX_RECORDS * 3_000;
/// How often a program closes its file after a call, of a hundred times.
const CLOSES: u64 = 8;

fn bytes_of(halves: &Range<usize>) -> (u64, usize) {
    ((halves.start * HALF_BYTES) as u64, (halves.end - halves.start) * HALF_BYTES)
}

/// What a write of a value puts into halves.
fn content_of(value: Value, halves: &Range<usize>) -> Bytes {
    let mut bytes = Vec::new();
    for block in halves.start / 2..halves.end.div_ceil(2) {
        pattern::fill(&mut bytes, value, block as u32);
    }
    let skipped = halves.start % 2 * HALF_BYTES;
    Bytes::from(bytes).slice(skipped..skipped + bytes_of(halves).1)
}

/// The values of halves. What is missing lies behind the end of the file.
fn values_of(content: &[u8], halves: &Range<usize>) -> Result<Vec<Value>, String> {
    let mut bytes = vec![0; halves.start % 2 * HALF_BYTES];
    bytes.extend_from_slice(content);
    bytes.resize((halves.end.div_ceil(2) - halves.start / 2) * BLOCK_BYTES, 0);
    let mut values = Vec::new();
    for (at, bytes) in bytes.chunks_exact(BLOCK_BYTES).enumerate() {
        let block = halves.start / 2 + at;
        let sectors = pattern::read(bytes, block as u32)?;
        for (half, sectors) in (2 * block..).zip(sectors.chunks_exact(sectors.len() / 2)) {
            if halves.contains(&half) {
                if sectors.iter().any(|value| *value != sectors[0]) {
                    return Err(format!("half {half} is torn: {sectors:?}"));
                }
                values.push(sectors[0]);
            }
        }
    }
    Ok(values)
}

impl FileUser {
    fn any_halves(&mut self) -> Range<usize> {
        let start = self.draw.below(HALVES as u64) as usize;
        let most = if self.draw.percent(80) { 4 } else { HALVES as u64 };
        start..(start + 1 + self.draw.below(most) as usize).min(HALVES)
    }

    pub async fn step_blocks(&mut self, place: &Place, volume: &Volume) -> bool {
        let file = volume.blocks[self.draw.below(volume.blocks.len() as u64) as usize];
        let halves = self.any_halves();
        let is_done = match self.draw.below(100) {
            0..=39 => self.read_blocks(place, volume, file, halves).await.is_some(),
            40..=87 => self.write_blocks(place, volume, file, halves).await,
            88..=91 => self.clear(place, volume, file, halves, Allocation::PunchHole).await,
            92..=95 => self.clear(place, volume, file, halves, Allocation::ZeroRange).await,
            _ => self.truncate(place, volume, file, halves.start).await,
        };
        self.close_at_times(place, volume, file.1).await;
        is_done
    }

    async fn close_at_times(&mut self, place: &Place, volume: &Volume, ino: u64) {
        if self.draw.percent(CLOSES) {
            self.ask(place, volume, |mount| async move { mount.close(Ino(ino)).await }).await;
        }
    }

    /// None: it was not answered.
    pub async fn read_blocks(
        &self,
        place: &Place,
        volume: &Volume,
        (file, ino): (Number, u64),
        halves: Range<usize>,
    ) -> Option<()> {
        let call = self.histories.call_blocks(file, halves.clone(), None);
        let (offset, len) = bytes_of(&halves);
        let read = |mount: Arc<Mount>| async move {
            mount.open(Ino(ino)).await?;
            mount.client.read(Ino(ino), offset, len).await
        };
        let values = match self.ask(place, volume, read).await {
            Some(Ok(content)) => match values_of(&content, &halves) {
                Ok(values) => Some(values),
                Err(what) => {
                    self.histories.violate(format!("blocks {}: {what}", file.0));
                    None
                }
            },
            Some(Err(error)) => {
                self.refused_content(&error);
                None
            }
            None => None,
        };
        self.histories.end_read(&call, values.as_deref());
        values.map(drop)
    }

    pub async fn write_blocks(&self, place: &Place, volume: &Volume, file: (Number, u64), halves: Range<usize>) -> bool {
        let value = self.histories.next_value();
        let (content, (offset, _), ino) = (content_of(value, &halves), bytes_of(&halves), Ino(file.1));
        let write = |mount: Arc<Mount>| {
            let content = content.clone();
            async move {
                mount.open(ino).await?;
                mount.client.write(ino, WriteAt { offset, ..WriteAt::default() }, content).await.map(drop)
            }
        };
        self.change(place, volume, file.0, (halves, value), write).await
    }

    async fn clear(&self, place: &Place, volume: &Volume, file: (Number, u64), halves: Range<usize>, how: Allocation) -> bool {
        let ((offset, len), ino) = (bytes_of(&halves), Ino(file.1));
        let clear = |mount: Arc<Mount>| async move {
            mount.open(ino).await?;
            mount.client.fallocate(ino, offset, len as u64, how, how == Allocation::PunchHole).await
        };
        self.change(place, volume, file.0, (halves, 0), clear).await
    }

    async fn truncate(&self, place: &Place, volume: &Volume, file: (Number, u64), end: usize) -> bool {
        let (size, ino) = ((end * HALF_BYTES) as u64, Ino(file.1));
        let truncate = |mount: Arc<Mount>| async move {
            let change = AttributeChange { size: Some(size), ..AttributeChange::default() };
            mount.client.setattr(ino, change).await.map(drop)
        };
        self.change(place, volume, file.0, (end..HALVES, 0), truncate).await
    }

    async fn change<F>(
        &self,
        place: &Place,
        volume: &Volume,
        file: Number,
        (halves, value): (Range<usize>, Value),
        change: impl Fn(Arc<Mount>) -> F,
    ) -> bool
    where
        F: Future<Output = Result<(), ClientError>>,
    {
        let call = self.histories.call_blocks(file, halves, Some(value));
        let outcome = self.ask(place, volume, change).await;
        let is_done = matches!(outcome, Some(Ok(())));
        if let Some(Err(error)) = outcome {
            self.refused_content(&error);
        }
        self.histories.end_blocks(&call, is_done);
        is_done
    }

    /// The files of contents are always there: nothing is refused.
    fn refused_content(&self, error: &ClientError) {
        if let Some(refusal) = self.refusal(error) {
            self.histories.violate(format!("a call of contents is refused: {refusal}"));
        }
    }

    pub async fn step_log(&mut self, place: &Place, volume: &Volume) -> bool {
        let log = volume.logs[self.draw.below(volume.logs.len() as u64) as usize];
        let is_full = self.histories.log_len(log.0) >= MAX_RECORDS;
        let is_done = match self.draw.below(100) {
            0..=74 if !is_full => {
                let len = log::record_bytes(self.draw.below(u32::MAX.into()));
                self.append(place, volume, log, len).await
            }
            _ => self.read_log(place, volume, log).await.is_some(),
        };
        self.close_at_times(place, volume, log.1).await;
        is_done
    }

    pub async fn append(&self, place: &Place, volume: &Volume, (log, ino): (Number, u64), len: usize) -> bool {
        let id = self.histories.call_append(log);
        let content = Bytes::from(log::record(id, len));
        let append = |mount: Arc<Mount>| {
            let content = content.clone();
            async move {
                mount.open(Ino(ino)).await?;
                mount.client.write(Ino(ino), WriteAt { append: true, ..WriteAt::default() }, content).await
            }
        };
        match self.ask(place, volume, append).await {
            Some(Ok(_)) => {
                self.histories.end_append(log, id);
                return true;
            }
            Some(Err(error)) => self.refused_content(&error),
            None => {}
        }
        false
    }

    /// None: it was not answered.
    pub async fn read_log(&self, place: &Place, volume: &Volume, (log, ino): (Number, u64)) -> Option<()> {
        let call = self.histories.call_log(log);
        let read = |mount: Arc<Mount>| async move {
            mount.open(Ino(ino)).await?;
            mount.client.read(Ino(ino), 0, LOG_BYTES).await
        };
        let records: Vec<RecordId> = match self.ask(place, volume, read).await? {
            Ok(content) => match log::parse(&content) {
                Ok(records) => records,
                Err(what) => {
                    self.histories.violate(format!("log {}: {what}", log.0));
                    return None;
                }
            },
            Err(error) => {
                self.refused_content(&error);
                return None;
            }
        };
        self.histories.end_log(call, &records);
        Some(())
    }
}
