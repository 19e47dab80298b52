//! The state of a simulated disk and the effects of requests on it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};

use env::Env;
use parking_lot::Mutex;

use super::fault::{Fault, Faults};
use super::image::Image;
use super::random::Random;
use super::{CompletionOrder, SimOptions};
use crate::BLOCK_BYTES;
use crate::SECTOR_BYTES;
use crate::error::{DiskError, DiskErrorKind, Operation};
use crate::poison::Poison;
use crate::request::{Completion, Done, Durability, Request};
use crate::stats::Counters;

pub(super) struct Inner {
    pub(super) name: Arc<str>,
    pub(super) env: Env,
    pub(super) capacity: Option<u64>,
    pub(super) poison: Poison,
    pub(super) counters: Counters,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    pub(super) image: Image,
    pub(super) random: Random,
    pub(super) faults: Faults,
    pub(super) order: CompletionOrder,
    /// Whether durable writes and flushes are acknowledged without making anything durable.
    pub(super) ignores_flush: bool,
    /// Writes that end beyond this find no space.
    pub(super) space_limit: Option<u64>,
    /// Writes, flushes and allocations that took effect.
    pub(super) mutations: u64,
    pub(super) cut_after: Option<u64>,
    pub(super) power_is_cut: bool,
    /// Set when a successor took the image over, or the power was cut: nothing is answered any more.
    pub(super) is_dead: bool,
    /// In flight: what `step` picks from, what a fault holds, what waits for its time.
    pub(super) stepped: Vec<Pending>,
    pub(super) held: Vec<Pending>,
    pub(super) timed: BTreeMap<u64, Pending>,
    pub(super) next_timer: u64,
    /// Requests that a dead disk, this one or one before it, never answers. Kept, so that nobody who waits takes their end for an answer.
    pub(super) unanswered: Vec<(Request, Done)>,
    /// The disk that took the image over. It keeps what this one never answers: who waits often holds this one, and both would stay for ever.
    pub(super) successor: Weak<Inner>,
}

pub(super) struct Pending {
    pub(super) request: Request,
    pub(super) done: Done,
    pub(super) fault: Option<Fault>,
}

/// A callback with its argument, to be called without the lock.
pub(super) type Answer = (Done, Completion);

impl Inner {
    pub(super) fn new(env: &Env, options: &SimOptions, random: Random, image: Image) -> Inner {
        let state = State {
            image,
            random,
            faults: Faults::new(options.odds),
            order: options.order,
            ignores_flush: false,
            space_limit: None,
            mutations: 0,
            cut_after: None,
            power_is_cut: false,
            is_dead: false,
            stepped: Vec::new(),
            held: Vec::new(),
            timed: BTreeMap::new(),
            next_timer: 0,
            unanswered: Vec::new(),
            successor: Weak::new(),
        };
        Inner {
            name: options.name.as_str().into(),
            env: env.clone(),
            capacity: options.capacity_bytes,
            poison: Poison::default(),
            counters: Counters::default(),
            state: Mutex::new(state),
        }
    }

    pub(super) fn refusal(&self, request: &Request, size: u64) -> Option<DiskError> {
        let (offset, len) = request.range();
        if let Some(kind) = request.fault(size, self.capacity) {
            return Some(self.error(kind, request.operation(), offset, len));
        }
        if request.is_write() { self.poison.refusal(request.operation(), offset, len) } else { None }
    }

    pub(super) fn error(&self, kind: DiskErrorKind, operation: Operation, offset: u64, len: u64) -> DiskError {
        let errno = match kind {
            DiskErrorKind::Failed => Some(libc::EIO),
            DiskErrorKind::NoSpace => Some(libc::ENOSPC),
            _ => None,
        };
        let cause = errno.map(|errno| Arc::new(io::Error::from_raw_os_error(errno)));
        DiskError { kind, device: self.name.clone(), operation, offset, len, cause }
    }

    /// Keeps a request that nobody answers, for as long as there is the medium.
    pub(super) fn leave_unanswered(&self, request: Request, done: Done) {
        let mut state = self.state.lock();
        match state.successor.upgrade() {
            Some(successor) => {
                drop(state);
                successor.leave_unanswered(request, done);
            }
            None => state.unanswered.push((request, done)),
        }
    }

    /// Lets a request take effect; none if the power goes at it.
    pub(super) fn carry_out(&self, state: &mut State, pending: Pending) -> Option<Answer> {
        let Pending { mut request, done, fault } = pending;
        let (offset, len) = request.range();
        if state.is_dead {
            state.unanswered.push((request, done));
            return None;
        }
        // Poisoned while it waited.
        if let Some(error) = self.refusal(&request, state.image.size()) {
            self.counters.count_failure();
            return Some((done, Completion { result: Err(error), buf: request.into_buf() }));
        }
        if request.is_write() {
            if state.cut_after == Some(state.mutations) {
                state.apply_in_flight(&request);
                state.unanswered.push((request, done));
                state.cut_power();
                return None;
            }
            state.mutations += 1;
        }
        let result = state.apply(&mut request, fault).map_err(|kind| {
            let error = self.error(kind, request.operation(), offset, len);
            let refused_whole = kind == DiskErrorKind::NoSpace && request.operation() == Operation::Write;
            if request.promises_durability() && !refused_whole {
                self.poison.set(&error);
            }
            self.counters.count_failure();
            error
        });
        Some((done, Completion { result, buf: request.into_buf() }))
    }
}

impl State {
    /// The effect of a request that is answered.
    pub(super) fn apply(&mut self, request: &mut Request, fault: Option<Fault>) -> Result<(), DiskErrorKind> {
        let (start, len) = request.range();
        let finds_space = self.space_limit.is_none_or(|limit| start + len <= limit);
        match request {
            Request::Read { offset, buf, .. } => {
                match fault {
                    Some(Fault::Fail) => return Err(DiskErrorKind::Failed),
                    Some(Fault::Overload) => return Err(DiskErrorKind::Overloaded),
                    _ => {}
                }
                self.image.read(*offset, buf);
                if fault == Some(Fault::Corrupt) {
                    self.random.corrupt(buf);
                }
                Ok(())
            }
            Request::Write { .. } | Request::Allocate { .. } | Request::WriteZeros { .. } if !finds_space => {
                Err(DiskErrorKind::NoSpace)
            }
            Request::Write { offset, buf, durability } => {
                let is_durable = *durability == Durability::Durable && !self.ignores_flush;
                self.apply_write(*offset, buf, is_durable, fault)
            }
            Request::WriteZeros { offset, len } => self.apply_write(*offset, &vec![0; *len as usize], false, fault),
            Request::Flush | Request::Allocate { .. } | Request::Discard { .. } if fault == Some(Fault::Fail) => {
                Err(DiskErrorKind::Failed)
            }
            Request::Discard { offset, len } => {
                self.discard(*offset, *len);
                Ok(())
            }
            Request::Flush => {
                if !self.ignores_flush && fault != Some(Fault::Lose) {
                    self.image.flush();
                }
                Ok(())
            }
            Request::Allocate { offset, len } => {
                self.image.grow(*offset + *len);
                Ok(())
            }
        }
    }

    pub(super) fn apply_write(
        &mut self,
        offset: u64,
        bytes: &[u8],
        is_durable: bool,
        fault: Option<Fault>,
    ) -> Result<(), DiskErrorKind> {
        match fault {
            Some(Fault::Fail) => return Err(DiskErrorKind::Failed),
            Some(Fault::Lose) => {}
            Some(Fault::Tear | Fault::FailTorn) => {
                let keep = self.random.part(bytes.len() / SECTOR_BYTES);
                self.image.write_part(offset, bytes, &keep, is_durable);
                if fault == Some(Fault::FailTorn) {
                    return Err(DiskErrorKind::Failed);
                }
            }
            Some(Fault::Misdirect) => {
                let blocks = (self.image.size() / BLOCK_BYTES as u64).max(1);
                let elsewhere = self.random.below(blocks) * BLOCK_BYTES as u64;
                let room = (self.image.size().saturating_sub(elsewhere)).min(bytes.len() as u64) as usize;
                self.image.write(elsewhere, &bytes[..room], is_durable);
            }
            Some(Fault::Corrupt) => {
                let mut corrupt = bytes.to_vec();
                self.random.corrupt(&mut corrupt);
                self.image.write(offset, &corrupt, is_durable);
            }
            Some(Fault::Delay(_) | Fault::Hold | Fault::Overload) | None => self.image.write(offset, bytes, is_durable),
        }
        Ok(())
    }

    /// A device may return zeros of a discarded sector, or what was there.
    fn discard(&mut self, offset: u64, len: u64) {
        let len = len.min(self.image.size().saturating_sub(offset)) as usize;
        let zeros = self.random.part(len / SECTOR_BYTES);
        self.image.write_part(offset, &vec![0; len / SECTOR_BYTES * SECTOR_BYTES], &zeros, false);
    }

    /// The effect of a request that nobody will hear of: the bytes may get to the medium, nothing is promised.
    pub(super) fn apply_in_flight(&mut self, request: &Request) {
        match request {
            Request::Write { offset, buf, .. } => self.image.write(*offset, buf, false),
            Request::Allocate { offset, len } => self.image.grow(*offset + *len),
            Request::WriteZeros { offset, len } => self.image.write(*offset, &vec![0; *len as usize], false),
            Request::Discard { offset, len } => self.discard(*offset, *len),
            Request::Read { .. } | Request::Flush => {}
        }
    }

    pub(super) fn take_pending(&mut self) -> Vec<Pending> {
        let mut pending = std::mem::take(&mut self.stepped);
        pending.append(&mut self.held);
        pending.extend(std::mem::take(&mut self.timed).into_values());
        pending
    }

    pub(super) fn cut_power(&mut self) {
        if self.is_dead {
            return;
        }
        self.is_dead = true;
        self.power_is_cut = true;
        let mut pending = self.take_pending();
        self.random.shuffle(&mut pending);
        for Pending { request, done, .. } in pending {
            if self.random.is_heads() {
                self.apply_in_flight(&request);
            }
            self.unanswered.push((request, done));
        }
    }
}

pub(super) fn tell(answer: Option<Answer>) {
    if let Some((done, completion)) = answer {
        done(completion);
    }
}
