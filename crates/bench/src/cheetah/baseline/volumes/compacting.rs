//! Compaction: what lives of a volume goes to a free slot, and the slot before is free.
//!
//! The volume takes needles again afterwards. Reads and deletes go on meanwhile. Deletes wait while the last of it is written: what was deleted since it was copied gets a tombstone.

use super::{FIRST_BYTE, Place, Volume, Volumes, opening};
use crate::cheetah::baseline::needle::{HEADER_BYTES, NeedleHeader, VolumeHeader};
use anyhow::Context;
use disk::{AlignedBuf, BLOCK_BYTES, DiskExt, Durability, ReadMode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a read and a write of a compaction, or it is one needle.
const SPAN_BYTES: u64 = 1 << 20;

/// What is written of the new slot.
struct Moved {
    volume: Volume,
    slot_start: u64,
    /// Not yet written, from the block on in which the tail was.
    buf: AlignedBuf,
    buf_start: u64,
}

impl Volumes {
    /// Whether a full volume has too much garbage.
    pub(super) fn is_compaction_due(&self) -> bool {
        self.candidate(self.layout.garbage_share).is_some()
    }

    /// The full volume with the most garbage, above a share.
    fn candidate(&self, above: f64) -> Option<u32> {
        let state = self.state.lock();
        let full = state.volumes.iter().filter(|(_, volume)| !volume.is_open && volume.set_aside == 0);
        let with_shares = full.map(|(number, volume)| (volume.garbage_share(), *number)).filter(|(share, _)| *share > above);
        with_shares.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, number)| number)
    }

    /// Begins to compact, if there is something to compact and no other task does it. Whether it goes on.
    pub(super) fn begin_compaction(self: &Arc<Self>) -> bool {
        if self.is_compacting() {
            return true;
        }
        if !self.is_compaction_due() {
            return false;
        }
        self.is_compacting.store(true, Ordering::Release);
        let volumes = self.clone();
        let work = async move {
            while let Some(number) = volumes.candidate(volumes.layout.garbage_share) {
                if let Err(error) = volumes.compact(number).await {
                    crate::complain!("a compaction of a baseline failed: {error:#}");
                    break;
                }
                volumes.changed.notify_waiters();
            }
            volumes.is_compacting.store(false, Ordering::Release);
            volumes.changed.notify_waiters();
        };
        drop(self.env.spawn(work));
        true
    }

    /// Moves what lives of a full volume.
    pub async fn compact(self: &Arc<Self>, number: u32) -> anyhow::Result<()> {
        let (old_slot, header, mut places) =
            self.volume(number, |volume| (volume.slot, volume.header, volume.index.values().copied().collect::<Vec<Place>>()))?;
        places.sort_by_key(|place| place.offset);
        let slot = self.state.lock().free_slots.pop().context("no slot is free")?;
        let header = VolumeHeader { generation: header.generation + 1, incarnation: self.env.random_u64(), ..header };
        let slot_start = self.layout.slot_start(slot);
        let buf = AlignedBuf::with_capacity(SPAN_BYTES as usize);
        let mut copy = Moved { volume: opening::empty(slot, header), slot_start, buf, buf_start: FIRST_BYTE };
        let mut rest = &places[..];
        while let Some(first) = rest.first() {
            let end = |place: &Place| place.offset + place.header.space() as u64;
            let count = rest.iter().take_while(|place| end(place) <= first.offset + SPAN_BYTES).count().max(1);
            let (span, others) = rest.split_at(count);
            self.copy_span(&mut copy, old_slot, span).await?;
            rest = others;
        }
        self.volume(number, |volume| volume.is_frozen = true)?;
        let outcome = self.finish(number, old_slot, copy).await;
        self.volume(number, |volume| volume.is_frozen = false)?;
        self.begin_writing(number);
        outcome
    }

    async fn copy_span(&self, copy: &mut Moved, old_slot: u32, span: &[Place]) -> anyhow::Result<()> {
        let block = BLOCK_BYTES as u64;
        let start = span[0].offset / block * block;
        let last = span[span.len() - 1];
        let length = (last.offset + last.header.space() as u64 - start).next_multiple_of(block);
        let bytes = self.disk.read(self.layout.slot_start(old_slot) + start, length as usize, ReadMode::Direct).await?;
        for place in span {
            let content = (place.offset - start) as usize + HEADER_BYTES;
            copy.push(place.header, &bytes[content..content + place.header.space() - HEADER_BYTES]);
        }
        self.moved_bytes.fetch_add(length, Ordering::Relaxed);
        let whole_blocks = copy.buf.len() / BLOCK_BYTES * BLOCK_BYTES;
        self.write_blocks(copy, whole_blocks).await
    }

    /// Writes the first bytes of what is not yet written.
    async fn write_blocks(&self, copy: &mut Moved, length: usize) -> anyhow::Result<()> {
        if length == 0 {
            return Ok(());
        }
        let rest = AlignedBuf::copy_of(&copy.buf[length.min(copy.buf.len())..]);
        let mut whole = std::mem::replace(&mut copy.buf, rest);
        whole.resize(length);
        let at = copy.slot_start + copy.buf_start;
        copy.buf_start += length as u64;
        self.disk.write(at, whole, Durability::Volatile).await?;
        Ok(())
    }

    /// Nothing is appended to the volume meanwhile.
    async fn finish(&self, number: u32, old_slot: u32, mut copy: Moved) -> anyhow::Result<()> {
        loop {
            let changed = self.changed.notified();
            if !self.volume(number, |volume| volume.is_writing)? {
                break;
            }
            changed.await;
        }
        let deleted = self.volume(number, |volume| {
            let copied = copy.volume.index.keys();
            copied.filter(|key| !volume.index.contains_key(*key)).copied().collect::<Vec<u64>>()
        })?;
        deleted.into_iter().for_each(|key| copy.push(NeedleHeader::of(key, None), &[]));
        copy.volume.tail_bytes = copy.buf[copy.buf.len() / BLOCK_BYTES * BLOCK_BYTES..].to_vec();
        let blocks = copy.buf.len().next_multiple_of(BLOCK_BYTES);
        self.write_blocks(&mut copy, blocks).await?;
        self.disk.flush().await?;
        self.disk.write(copy.slot_start, copy.volume.header.encode(), Durability::Durable).await?;
        self.volume(number, |volume| {
            let queue = std::mem::take(&mut volume.queue);
            *volume = Volume { queue, is_frozen: true, is_open: true, ..copy.volume };
        })?;
        self.disk.write(self.layout.slot_start(old_slot), AlignedBuf::zeroed(BLOCK_BYTES), Durability::Durable).await?;
        self.state.lock().free_slots.push(old_slot);
        Ok(())
    }
}

impl Moved {
    fn push(&mut self, header: NeedleHeader, content: &[u8]) {
        self.buf.extend_from_slice(&header.encode(self.volume.header.incarnation));
        self.buf.extend_from_slice(content);
        self.volume.note(self.volume.tail, header);
        self.volume.tail += header.space() as u64;
    }
}
