//! Zeros ahead of the head: on a file, the first write of a block is dear to flush (a block must be found and its extent marked
//! written; 181 µs against 32 µs, performance.md), so the next zones are written with zeros before they are used.
//!
//! One write is in flight at a time, so that appends are hardly delayed. When all of a zone is written and flushed its header
//! says so, and a restarted device need not do it again. Correctness never depends on any of this: a zone that was not
//! prewritten is used all the same, and a zone that is wanted meanwhile is given back after the write in flight, never during
//! it, so that zeros can't land on frames.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use disk::{AlignedBuf, DiskError, Durability, Request};
use format::zone_header::{ZONE_DATA_START, ZoneState};
use types::{Activation, ZoneIndex};

use crate::inner::Inner;
use crate::limits::PREWRITE_CHUNK_BYTES;
use crate::zone_io::{is_out_of_space, write_header};

/// Starts on the next zone, if one is wanted.
pub(crate) fn consider(inner: &Arc<Inner>) {
    if inner.config.prewrite_zones == 0 || stopped(inner) {
        return;
    }
    let Some(zone) = inner.zones.lock().book.begin_prewrite(inner.config.prewrite_zones) else {
        return;
    };
    let owner = inner.clone();
    let request = Request::Allocate { offset: inner.geometry.zone_start(zone), len: inner.geometry.zone_bytes() };
    inner.disk.submit(
        request,
        Box::new(move |completion| match completion.result {
            Ok(()) => write_zeros(&owner, zone, ZONE_DATA_START, None),
            Err(error) => give_back(&owner, Some(error)),
        }),
    );
}

/// Writes the chunk at `from`, and the next when it is done.
fn write_zeros(inner: &Arc<Inner>, zone: ZoneIndex, from: u64, memory: Option<AlignedBuf>) {
    if stopped(inner) || inner.zones.lock().book.prewrite_unwanted() {
        return give_back(inner, None);
    }
    let left = inner.geometry.zone_bytes() - from;
    if left == 0 {
        return flush(inner, zone);
    }
    let len = left.min(PREWRITE_CHUNK_BYTES as u64);
    let mut buf = memory.unwrap_or_else(|| AlignedBuf::zeroed(len as usize));
    buf.truncate(len as usize);
    let owner = inner.clone();
    inner.disk.submit(
        Request::Write { offset: inner.geometry.disk_offset(zone, from), buf, durability: Durability::Volatile },
        Box::new(move |completion| match completion.result {
            Ok(()) => {
                owner.stats.prewritten_bytes.add(len);
                write_zeros(&owner, zone, from + len, completion.buf);
            }
            Err(error) => give_back(&owner, Some(error)),
        }),
    );
}

fn flush(inner: &Arc<Inner>, zone: ZoneIndex) {
    let owner = inner.clone();
    inner.disk.submit(
        Request::Flush,
        Box::new(move |completion| match completion.result {
            Ok(()) => write_free_header(&owner, zone),
            Err(error) => {
                // What the failed flush covered besides the zeros is unknown.
                give_back(&owner, None);
                drop(owner.poison(error));
            }
        }),
    );
}

fn write_free_header(inner: &Arc<Inner>, zone: ZoneIndex) {
    let header = inner.zone_header(zone, Activation(0), ZoneState::Free, None, ZONE_DATA_START);
    write_header(inner, &header, move |inner, result| match result {
        Ok(()) => {
            inner.zones.lock().book.prewritten();
            inner.zone_changed.notify_waiters();
            inner.retry_waiting();
            consider(inner);
        }
        Err(error) => {
            give_back(inner, None);
            drop(inner.poison(error));
        }
    });
}

fn give_back(inner: &Arc<Inner>, error: Option<DiskError>) {
    let refused = error.filter(is_out_of_space);
    let refused_at = refused.as_ref().map(|_| inner.env.now());
    let is_news = inner.zones.lock().book.prewrite_ended(refused_at);
    if let Some(error) = refused.filter(|_| is_news) {
        tracing::warn!(device = inner.device().0, error = %error, "the device can't grow");
    }
    inner.zone_changed.notify_waiters();
    inner.retry_waiting();
}

fn stopped(inner: &Inner) -> bool {
    inner.closing.load(Ordering::Acquire) || inner.sealed.load(Ordering::Acquire) || inner.poisoned_by().is_some()
}
