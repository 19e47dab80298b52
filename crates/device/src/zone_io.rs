//! What the book of zones asks for, carried out: activations, finishes, resets. Each is a chain of completions, because it is
//! started from completions.
//!
//! Every change of a zone's state is one durable write of its header; the book hears of it after that. While such a write is
//! under way the zone is in a state that admits no other change, so two headers of one zone are never in flight.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use disk::{AlignedBuf, Completion, Disk, DiskError, DiskErrorKind, DiskExt, Durability, Operation, Request};
use format::zone_header::{ZONE_DATA_START, ZoneHeader, ZoneState};
use tokio::sync::oneshot;
use types::{Activation, ZoneIndex};

use crate::book::{Activate, Plan};
use crate::error::ResetError;
use crate::geometry::Geometry;
use crate::inner::{Inner, abandoned};
use crate::prewrite;

/// Most bytes of one discard. A file system lets no write of the same file pass while it frees space.
const DISCARD_BYTES: u64 = 4 << 20;

/// Starts what the book asked for.
pub(crate) fn carry_out(inner: &Arc<Inner>, plan: Plan) {
    if let Some(activate) = plan.activate {
        start_activation(inner, activate);
    }
    for zone in plan.finish {
        finish(inner, zone);
    }
}

fn start_activation(inner: &Arc<Inner>, activate: Activate) {
    if !activate.allocate {
        return write_open_header(inner, activate);
    }
    let owner = inner.clone();
    let request = Request::Allocate { offset: inner.geometry.zone_start(activate.zone), len: inner.geometry.zone_bytes() };
    inner.disk.submit(request, Box::new(move |completion| allocated(&owner, activate, completion)));
}

fn allocated(inner: &Arc<Inner>, activate: Activate, completion: Completion) {
    match completion.result {
        Ok(()) => write_open_header(inner, activate),
        Err(error) if is_out_of_space(&error) => {
            let now = inner.env.now();
            if inner.zones.lock().book.activation_refused(&activate, now) {
                tracing::warn!(device = inner.device().0, error = %error, "the device can't grow");
            }
            inner.zone_changed.notify_waiters();
            inner.retry_waiting();
        }
        Err(error) => drop(inner.poison(error)),
    }
}

fn write_open_header(inner: &Arc<Inner>, activate: Activate) {
    let Activate { zone, stream, activation, .. } = activate;
    let header = inner.zone_header(zone, activation, ZoneState::Open, Some(stream), ZONE_DATA_START);
    write_header(inner, &header, move |inner, result| match result {
        Ok(()) => {
            inner.stats.activations.add(1);
            inner.table.publish(zone, activation, inner.seed(zone, activation));
            inner.zones.lock().book.activated(&activate);
            inner.zone_changed.notify_waiters();
            inner.retry_waiting();
            prewrite::consider(inner);
        }
        Err(error) => drop(inner.poison(error)),
    });
}

/// Writes the header of a zone that takes no more appends.
fn finish(inner: &Arc<Inner>, zone: ZoneIndex) {
    let entry = *inner.zones.lock().book.entry(zone);
    let is_empty = entry.end == ZONE_DATA_START;
    let state = if is_empty { ZoneState::Free } else { ZoneState::Finished };
    if is_empty {
        inner.table.withdraw(zone);
    }
    let header = inner.zone_header(zone, entry.activation, state, entry.stream, entry.end);
    write_header(inner, &header, move |inner, result| match result {
        Ok(()) => {
            inner.stats.finishes.add(1);
            inner.zones.lock().book.finished(zone);
            if is_empty {
                inner.clear_refusals();
            }
            inner.zone_changed.notify_waiters();
        }
        Err(error) => drop(inner.poison(error)),
    });
}

/// Resets a finished zone. Once started it goes on also when the future is dropped.
pub(crate) async fn reset(inner: &Arc<Inner>, zone: ZoneIndex) -> Result<(), ResetError> {
    let device = inner.device();
    if zone.0 >= inner.geometry.zone_count() {
        return Err(ResetError::NoSuchZone { device, zone });
    }
    let activation = begin_reset(inner, zone).await?;
    inner.table.withdraw(zone);
    let stream = inner.zones.lock().book.entry(zone).stream;
    let header = inner.zone_header(zone, activation, ZoneState::Free, stream, ZONE_DATA_START);
    let (answer, answered) = oneshot::channel();
    write_header(inner, &header, move |inner, result| {
        let outcome = match result {
            Ok(()) => {
                inner.stats.resets.add(1);
                inner.zones.lock().book.reset(zone);
                inner.clear_refusals();
                inner.zone_changed.notify_waiters();
                inner.retry_waiting();
                Ok(())
            }
            Err(error) => Err(ResetError::Poisoned { device, cause: inner.poison(error) }),
        };
        // Whoever asked may have gone.
        drop(answer.send(outcome));
    });
    answered.await.unwrap_or_else(|_| {
        let at = inner.geometry.zone_start(zone);
        Err(ResetError::Disk(abandoned(&*inner.disk, Operation::Write, at, ZONE_DATA_START)))
    })
}

/// Waits until the zone's header and its last write are through, then marks it.
async fn begin_reset(inner: &Arc<Inner>, zone: ZoneIndex) -> Result<Activation, ResetError> {
    let device = inner.device();
    loop {
        let changed = inner.zone_changed.notified();
        if let Some(cause) = inner.poisoned_by() {
            return Err(ResetError::Poisoned { device, cause });
        }
        {
            let mut zones = inner.zones.lock();
            let entry = *zones.book.entry(zone);
            if zones.book.durable_state(zone) != Some(ZoneState::Finished) {
                return Err(ResetError::NotFinished { device, zone });
            }
            if inner.table.writes_in_flight(zone) == 0 && zones.book.begin_reset(zone) {
                return Ok(entry.activation);
            }
        }
        changed.await;
    }
}

/// Writes a zone's header durably and tells `then`.
pub(crate) fn write_header(
    inner: &Arc<Inner>,
    header: &ZoneHeader,
    then: impl FnOnce(&Arc<Inner>, Result<(), DiskError>) + Send + 'static,
) {
    let buf = header_bytes(header);
    let offset = inner.geometry.zone_start(header.zone);
    let owner = inner.clone();
    inner.disk.submit(
        Request::Write { offset, buf, durability: Durability::Durable },
        Box::new(move |completion| then(&owner, completion.result)),
    );
}

/// Writes a zone's header durably, for a caller that waits.
pub(crate) async fn put_header(disk: &dyn Disk, geometry: Geometry, header: &ZoneHeader) -> Result<(), DiskError> {
    disk.write(geometry.zone_start(header.zone), header_bytes(header), Durability::Durable).await.map(drop)
}

/// Gives a zone's space back, and writes the header that says so. A zone whose disk keeps the space is as good.
pub(crate) async fn give_space_back(disk: &dyn Disk, geometry: Geometry, returned: &ZoneHeader) -> Result<(), DiskError> {
    let zone = returned.zone;
    let (mut at, end) = (geometry.zone_start(zone), geometry.zone_start(zone) + geometry.zone_bytes());
    while at < end {
        let len = DISCARD_BYTES.min(end - at);
        if let Err(error) = disk.discard(at, len).await {
            tracing::warn!(zone = zone.0, %error, "the space of a returned zone stays with it");
            break;
        }
        at += len;
    }
    put_header(disk, geometry, returned).await
}

/// Both copies of a header, as they stand at the start of the zone.
pub(crate) fn header_bytes(header: &ZoneHeader) -> AlignedBuf {
    let mut bytes = AlignedBuf::zeroed(ZONE_DATA_START as usize);
    header.encode(&mut bytes);
    bytes
}

/// Whether a file could not grow, which is no damage.
pub(crate) fn is_out_of_space(error: &DiskError) -> bool {
    matches!(error.kind, DiskErrorKind::NoSpace | DiskErrorKind::OutOfRange)
}

impl Inner {
    /// A zone was freed: classes that were refused may try again.
    pub(crate) fn clear_refusals(&self) {
        for refused in &self.refused {
            refused.store(false, Ordering::Release);
        }
    }
}
