//! Appending: what waits for a volume goes into one durable write.

use super::{Volumes, Waiting};
use crate::cheetah::baseline::needle::NeedleHeader;
use anyhow::{Context, anyhow};
use bytes::Bytes;
use disk::{AlignedBuf, BLOCK_BYTES, DiskExt, Durability};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Needles that go into one write have so many bytes, or it is one.
const BATCH_BYTES: usize = 1 << 20;

/// Needles on their way.
struct Batch {
    at: u64,
    buf: AlignedBuf,
    needles: Vec<(u64, Waiting)>,
}

impl Volumes {
    /// Appends an object to a volume in which room was set aside for it.
    pub async fn append(self: &Arc<Self>, number: u32, key: u64, bytes: Bytes) -> anyhow::Result<()> {
        let header = NeedleHeader::of(key, Some(&bytes));
        self.enqueue(number, header, bytes).await
    }

    /// Appends a tombstone.
    pub async fn delete(self: &Arc<Self>, number: u32, key: u64) -> anyhow::Result<()> {
        self.enqueue(number, NeedleHeader::of(key, None), Bytes::new()).await?;
        if self.is_compaction_due() {
            self.begin_compaction();
        }
        Ok(())
    }

    async fn enqueue(self: &Arc<Self>, number: u32, header: NeedleHeader, bytes: Bytes) -> anyhow::Result<()> {
        let (done, told) = oneshot::channel();
        self.volume(number, |volume| volume.queue.push_back(Waiting { header, bytes, done }))?;
        self.begin_writing(number);
        told.await.context("the write was given up")?.map_err(|reason| anyhow!("volume {number}: {reason}"))
    }

    pub(super) fn begin_writing(self: &Arc<Self>, number: u32) {
        let begins = self.volume(number, |volume| {
            let begins = !volume.is_writing && !volume.is_frozen && !volume.queue.is_empty();
            volume.is_writing |= begins;
            begins
        });
        if begins.unwrap_or(false) {
            let volumes = self.clone();
            drop(self.env.spawn(async move { volumes.write_out(number).await }));
        }
    }

    /// Writes until nothing waits.
    async fn write_out(&self, number: u32) {
        while let Some(batch) = self.next_batch(number) {
            let written = self.disk.write(batch.at, batch.buf, Durability::Durable).await;
            let outcome = written.map(drop).map_err(|error| error.to_string());
            let noted = self.volume(number, |volume| {
                for (offset, needle) in &batch.needles {
                    if outcome.is_ok() {
                        volume.note(*offset, needle.header);
                    }
                    if needle.header.length.is_some() {
                        volume.set_aside -= needle.header.space() as u64;
                    }
                }
            });
            noted.expect("a volume that is written is there");
            for (_, needle) in batch.needles {
                // The caller may have gone.
                drop(needle.done.send(outcome.clone()));
            }
        }
        self.changed.notify_waiters();
    }

    /// The next write of a volume; none if there is nothing to write.
    fn next_batch(&self, number: u32) -> Option<Batch> {
        let taken = self.volume(number, |volume| {
            let slot_start = self.layout.slot_start(volume.slot);
            let block_start = volume.tail / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
            let mut buf = AlignedBuf::with_capacity(BATCH_BYTES);
            buf.extend_from_slice(&volume.tail_bytes);
            let mut needles = Vec::new();
            while !volume.is_frozen && (needles.is_empty() || buf.len() < BATCH_BYTES) {
                let Some(needle) = volume.queue.pop_front() else { break };
                let end = volume.tail + needle.header.space() as u64;
                if end > self.layout.slot_bytes {
                    drop(needle.done.send(Err("it is full".to_owned())));
                    continue;
                }
                buf.extend_from_slice(&needle.header.encode(volume.header.incarnation));
                buf.extend_from_slice(&needle.bytes);
                buf.resize((end - block_start) as usize);
                needles.push((volume.tail, needle));
                volume.tail = end;
            }
            if needles.is_empty() {
                volume.is_writing = false;
                return None;
            }
            volume.tail_bytes = buf[buf.len() / BLOCK_BYTES * BLOCK_BYTES..].to_vec();
            buf.pad_to_block();
            Some(Batch { at: slot_start + block_start, buf, needles })
        });
        taken.expect("a volume that is written is there")
    }
}
