//! The one way of a mutation: its record to the log and its bytes to their blocks at once; then the machine has it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::engine::{EngineError, Waiter};
use allack::limits::MAX_ENTRY_BYTES;
use bytes::Bytes;
use disk::AlignedBuf;
use futures_util::future::{join, join_all};
use smallvec::SmallVec;

use super::held::Held;
use super::{Inner, unavailable};
use crate::content::{Extent, Piece};
use crate::limits::{DUMP_AT_PARTS, HOLD_AT_PARTS};
use crate::name::Opseq;
use crate::record::{Mutation, Record};
use crate::seat::LogError;
use crate::sums::sums_of;

/// Bytes on their way to reserved blocks.
pub struct Write {
    extent: Extent,
    buf: AlignedBuf,
}

/// A piece that has blocks, and what is to be written there.
pub struct Prepared {
    pub piece: Piece,
    pub writes: SmallVec<[Write; 1]>,
    pub held: Held,
}

impl Inner {
    /// Copies bytes into blocks that are reserved for them.
    pub(super) async fn prepare(self: &Arc<Self>, payload: &[Bytes]) -> Result<Prepared, EngineError> {
        let length: usize = payload.iter().map(Bytes::len).sum();
        let mut buf = AlignedBuf::with_capacity(length);
        payload.iter().for_each(|part| buf.extend_from_slice(part));
        let sums = sums_of(&buf);
        buf.pad_to_block();
        let held = self.allocate((buf.len() / disk::BLOCK_BYTES) as u64).await?;
        let extents: Box<[Extent]> = held.extents().into();
        let mut writes = SmallVec::new();
        if let [extent] = *extents {
            writes.push(Write { extent, buf });
        } else {
            let mut at = 0;
            for extent in &extents {
                writes.push(Write { extent: *extent, buf: AlignedBuf::copy_of(&buf[at..at + extent.bytes()]) });
                at += extent.bytes();
            }
        }
        Ok(Prepared { piece: Piece { length: length as u32, extents, sums }, writes, held })
    }

    /// Writes bytes to their blocks.
    pub(super) async fn write(&self, writes: SmallVec<[Write; 1]>) -> Result<(), EngineError> {
        let bytes: usize = writes.iter().map(|write| write.buf.len()).sum();
        let writing = writes.into_iter().map(async |Write { extent, buf }| {
            self.medium.volume.write(extent.offset(), buf).await.map_err(|error| self.fail(&error))
        });
        join_all(writing).await.into_iter().collect::<Result<(), _>>()?;
        self.counters.written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Makes a mutation durable, and its bytes beside it. The caller has the latch of the name.
    pub(super) async fn commit(
        self: &Arc<Self>,
        mutation: Mutation,
        writes: SmallVec<[Write; 1]>,
        mut held: Option<Held>,
    ) -> Result<Opseq, EngineError> {
        let longest = Record::longest(mutation);
        let bytes = longest.encode().len();
        if bytes > MAX_ENTRY_BYTES {
            let reason = format!("its record would have {bytes} bytes, and a log takes {MAX_ENTRY_BYTES}: upload it in parts");
            return Err(EngineError::Invalid { reason });
        }
        let (opseq, pending) = {
            let mut state = self.state.lock();
            state.check_writable()?;
            // A client that was not answered may have written the name again.
            if Waiter::present().has_left() {
                return Err(unavailable("the client has gone".to_owned()));
            }
            let settled_below = self.medium.settled_below();
            let record = Record { settled_below, ..longest };
            if !matches!(record.mutation, Mutation::Revoke { .. }) && !self.seat.has_room(bytes) {
                drop(state);
                return Err(self.not_logged(&LogError::Full));
            }
            let (opseq, pending) = match self.seat.append(record.encode()) {
                Ok(appended) => appended,
                Err(error) => {
                    drop(state);
                    return Err(self.not_logged(&error));
                }
            };
            if record.mutation.content().is_some() {
                state.last_content = opseq;
            }
            state.told_settled = settled_below;
            held.iter_mut().for_each(Held::placed);
            state.pg.place(opseq, record.mutation);
            self.medium.note_done(state.pg.floor());
            (opseq, pending)
        };
        let (written, logged) = join(self.write(writes), pending).await;
        // What fails here stays pending: whether it has taken effect is known at the next start.
        logged.map_err(|error| self.not_logged(&error))?;
        written?;
        {
            let mut state = self.state.lock();
            state.pg.commit(opseq);
            self.medium.note_done(state.pg.floor());
            state.pg.release(self.medium.settled_below());
        }
        self.counters.mutations.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_waiters();
        if self.seat.full_parts() >= DUMP_AT_PARTS {
            self.begin_dump();
        }
        Ok(opseq)
    }

    /// A log that is full takes records later; one that has another primary ends this store anyway.
    fn not_logged(&self, error: &LogError) -> EngineError {
        match error {
            LogError::Full => EngineError::Busy { reason: error.to_string() },
            LogError::NotServing { .. } => {
                let failure = self.state.lock().failure.clone();
                unavailable(failure.unwrap_or_else(|| error.to_string()))
            }
        }
    }

    /// Waits while the log is nearly full. What gives space back does not wait.
    pub(super) async fn log_turn(self: &Arc<Self>) -> Result<(), EngineError> {
        loop {
            let changed = self.changed.notified();
            self.state.lock().check_writable()?;
            if self.seat.full_parts() < HOLD_AT_PARTS {
                return Ok(());
            }
            self.begin_dump();
            changed.await;
        }
    }

    /// Has all that is done be settled, so that blocks which it gave up can be used again.
    pub(super) async fn settle(&self) -> Result<(), EngineError> {
        self.medium.settle().await.map_err(|error| self.refuse(&error))?;
        if self.state.lock().pg.release(self.medium.settled_below()) {
            self.changed.notify_waiters();
        }
        Ok(())
    }
}
