//! A member that shares nothing with its primary's log: it gives its own up and loads a dump, chunk by chunk.
//!
//! Log and state are void, durably, before the first chunk is loaded; a crash on the way leaves a member that says so and gets another dump.

use bytes::Bytes;
use env::Instant;

use super::{Effect, Machine, Output, Role};
use crate::id::{DumpId, OpSeq, Position, ReportId};
use crate::limits::ASK_AGAIN_AFTER;
use crate::log::Log;
use crate::message::Body;
use crate::record::Change;

#[derive(Debug)]
pub(super) struct Loading {
    /// The number of the report that was answered with the dump. It tells this load from others.
    load: u64,
    dump: DumpId,
    at: Position,
    /// The chunk that comes next.
    chunk: u32,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Log and state become void.
    Resetting,
    /// The chunk is asked for at once, or was.
    Wanting { asked_at: Option<Instant> },
    /// The state machine above loads the chunk.
    Handing { last: bool },
    /// The new base becomes durable.
    Ending,
}

impl Loading {
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.step {
            Step::Wanting { asked_at } => asked_at.map(|asked_at| asked_at + ASK_AGAIN_AFTER),
            Step::Resetting | Step::Handing { .. } | Step::Ending => None,
        }
    }
}

impl Machine {
    fn loading(&mut self) -> Option<&mut Loading> {
        match &mut self.role {
            Role::Member(member) => member.loading_mut(),
            _ => None,
        }
    }

    pub(super) fn take_offer(&mut self, report: ReportId, dump: DumpId, at: Position) {
        if !self.member().takes_offer(report) {
            return;
        }
        self.member().load(Loading { load: report.number, dump, at, chunk: 0, step: Step::Resetting });
        self.forget_held(OpSeq::ZERO);
        (self.log, self.loading) = (Log::default(), true);
        (self.commit, self.released, self.releasable) = (OpSeq::ZERO, OpSeq::ZERO, OpSeq::ZERO);
        self.persist(Change::Reset, Some(Effect::Reset { load: report.number }));
    }

    pub(super) fn begin_loading(&mut self, load: u64, now: Instant) {
        if let Some(loading) = self.loading()
            && (loading.load, loading.step) == (load, Step::Resetting)
        {
            loading.step = Step::Wanting { asked_at: None };
            let at = loading.at.opseq;
            self.outputs.push(Output::BeginLoad { load, at });
            self.ask_for_chunk(now);
        }
    }

    pub(super) fn ask_for_chunk(&mut self, now: Instant) {
        let Some(loading) = self.loading() else { return };
        let Step::Wanting { asked_at } = loading.step else { return };
        if asked_at.is_none_or(|asked_at| now >= asked_at + ASK_AGAIN_AFTER) {
            loading.step = Step::Wanting { asked_at: Some(now) };
            let (dump, chunk) = (loading.dump, loading.chunk);
            let to = self.member().primary();
            self.send(to, Body::DumpWant { dump, chunk });
        }
    }

    pub(super) fn take_chunk(&mut self, dump: DumpId, chunk: u32, last: bool, bytes: Bytes) {
        let Some(loading) = self.loading() else { return };
        let is_wanted = matches!(loading.step, Step::Wanting { .. }) && (loading.dump, loading.chunk) == (dump, chunk);
        if is_wanted {
            loading.step = Step::Handing { last };
            let load = loading.load;
            self.outputs.push(Output::Load { load, chunk, last, bytes });
        }
    }

    pub(super) fn go_on_loading(&mut self, load: u64, chunk: u32, now: Instant) {
        let Some(loading) = self.loading() else { return };
        let Step::Handing { last } = loading.step else { return };
        if (loading.load, loading.chunk) != (load, chunk) {
            return;
        }
        if !last {
            loading.chunk += 1;
            loading.step = Step::Wanting { asked_at: None };
            return self.ask_for_chunk(now);
        }
        loading.step = Step::Ending;
        let at = loading.at;
        (self.log, self.loading) = (Log::after(at), false);
        (self.queued, self.commit, self.released) = (at.opseq, at.opseq, at.opseq);
        self.persist(Change::Base(at), Some(Effect::Loaded { load }));
    }

    pub(super) fn end_loading(&mut self, load: u64, now: Instant) {
        self.durable = self.durable.max(self.log.base().opseq);
        if self.loading().is_some_and(|loading| (loading.load, loading.step) == (load, Step::Ending)) {
            self.report(now);
        }
    }
}
