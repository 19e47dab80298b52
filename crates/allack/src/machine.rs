//! One member of one group: a machine without I/O.
//!
//! ```text
//!  step(input, now) ──► outputs        append(payload) ──► position, carried out by the next step
//!
//!  outside ─ view ─► promising ─ durable ─┬─ member:  reporting ─ Keep ─► following      (member.rs)
//!                                         │              ▲ └─ DumpOffer ─► loading ─┐    (load.rs)
//!                                         │              └──────────────────────────┘
//!                                         └─ primary: collecting ─► fetching ─► installing ─► asking ─► serving   (primary.rs, dump.rs)
//! ```
//!
//! Invariants
//! - `queued` entries of the log were handed over to be persisted; `durable` ones are persisted. Records become durable in their order.
//! - `commit` is at most the last opseq, and is never rolled back.
//! - Nothing is told to others before what it rests on is durable: effects wait in `unpersisted` for the record that they follow.

mod dump;
mod exchange;
mod load;
mod member;
mod primary;

use std::collections::VecDeque;

use bytes::Bytes;
use env::Instant;
use types::{NodeId, ViewNumber};

use crate::appointment::{Appointment, AppointmentError};
use crate::id::{GroupId, OpSeq, Position, ReportId};
use crate::limits::{ASK_AGAIN_AFTER, ENTRY_OVERHEAD_BYTES, LogLimits, MAX_ENTRY_BYTES, MAX_UNPERSISTED};
use crate::log::{Entry, Log};
use crate::message::{Body, Message};
use crate::record::{Change, Record};
use crate::saved::Saved;
pub use exchange::{AppendError, Input, Output};
use member::Member;
pub use primary::Obstacle;
use primary::Primary;

/// What follows when a record is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Promised(ViewNumber),
    /// The log is durable through this.
    Held(OpSeq),
    Truncated,
    Reset {
        load: u64,
    },
    Loaded {
        load: u64,
    },
}

#[derive(Debug)]
enum Role {
    /// No view is known, or it does not name this member.
    Outside,
    Member(Member),
    Primary(Box<Primary>),
    /// Named as primary, and unable to be it.
    Unable {
        told_at: Instant,
    },
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    me: NodeId,
    group: GroupId,
    session: u64,
    limits: LogLimits,
    log: Log,
    promised: ViewNumber,
    /// Log and state are void.
    loading: bool,
    queued: OpSeq,
    durable: OpSeq,
    commit: OpSeq,
    released: OpSeq,
    /// The state machine above needs nothing through this; what is not known as committed here waits.
    releasable: OpSeq,
    /// Of the promised view.
    appointment: Option<Appointment>,
    role: Role,
    lease: Option<(ViewNumber, Instant)>,
    reports: u64,
    dumps: u64,
    /// Records handed over.
    issued: u64,
    unpersisted: VecDeque<(u64, Effect)>,
    outputs: Vec<Output>,
}

/// What a machine begins with.
#[derive(Clone, Debug)]
pub struct Start {
    pub me: NodeId,
    pub group: GroupId,
    /// Never the same for two starts of a member.
    pub session: u64,
    pub limits: LogLimits,
    /// What the medium holds.
    pub saved: Saved,
    /// What the state machine above holds durably.
    pub released: OpSeq,
}

impl Machine {
    pub fn new(start: Start) -> Machine {
        let Start { me, group, session, limits, saved: Saved { promised, log, loading }, released } = start;
        let (base, last) = (log.base().opseq, log.last().opseq);
        let released = if loading { OpSeq::ZERO } else { released };
        assert!(released >= base, "group {group} gave up entries through {base}; its state holds those through {released}");
        // A learner's state may be ahead of its log.
        let commit = released.min(last);
        Machine {
            me,
            group,
            session,
            limits,
            log,
            promised,
            loading,
            queued: last,
            durable: last,
            commit,
            released: commit,
            releasable: commit,
            appointment: None,
            role: Role::Outside,
            lease: None,
            reports: 0,
            dumps: 0,
            issued: 0,
            unpersisted: VecDeque::new(),
            outputs: Vec::new(),
        }
    }

    /// Takes one input in. The outputs are carried out in their order.
    pub fn step(&mut self, input: Input, now: Instant) -> Result<Vec<Output>, AppointmentError> {
        match input {
            Input::View(appointment) => {
                appointment.check()?;
                self.hear_of_view(appointment, now);
            }
            Input::Recorded(view) => self.hear_of_record(view, now),
            Input::Lease { view, until } => self.take_lease(view, until),
            Input::Message { from, message } => self.receive(from, message, now),
            Input::Persisted { count } => self.note_persisted(count, now),
            Input::Released(opseq) => {
                self.releasable = self.releasable.max(opseq);
                self.release();
            }
            Input::DumpTaken { dump, at } => self.offer_dump(dump, at, now),
            Input::DumpRead { dump, chunk, last, bytes } => self.send_chunk(dump, chunk, last, bytes),
            Input::Loaded { load, chunk } => self.go_on_loading(load, chunk, now),
            Input::Tick => {}
        }
        self.go_on(now);
        Ok(std::mem::take(&mut self.outputs))
    }

    /// Appends an entry at the primary. The next [`Machine::step`] persists and sends it, with all others appended by then.
    pub fn append(&mut self, payload: Bytes) -> Result<Position, AppendError> {
        if !self.is_serving() {
            return Err(AppendError::NotServing);
        }
        let found = payload.len();
        if found > MAX_ENTRY_BYTES {
            return Err(AppendError::TooLong { found });
        }
        let has_room = self.log.has_room(1, found + ENTRY_OVERHEAD_BYTES, &self.limits);
        if !has_room || self.unpersisted.len() >= MAX_UNPERSISTED {
            return Err(AppendError::Full { group: self.group, entries: self.log.len(), bytes: self.log.bytes() });
        }
        let position = Position { view: self.promised, opseq: self.log.last().opseq.next() };
        self.log.push(Entry { position, payload });
        Ok(position)
    }

    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The newest view that this member knows.
    pub fn view(&self) -> ViewNumber {
        self.promised
    }

    /// An entry that is not given up.
    pub fn entry(&self, opseq: OpSeq) -> Option<&Entry> {
        self.log.entry(opseq)
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    pub fn commit(&self) -> OpSeq {
        self.commit
    }

    /// Whether this member is the primary of an active view, as far as it knows.
    pub fn is_serving(&self) -> bool {
        matches!(&self.role, Role::Primary(primary) if primary.is_serving())
    }

    /// Whether the committed state may be read here. Asked when the answer leaves. The only voter of a view needs no lease: no later view is active
    /// before it has promised one.
    pub fn may_read(&self, now: Instant) -> bool {
        let is_alone = || self.appointment.as_ref().is_some_and(|view| view.voters.len() == 1);
        let has_lease = || self.lease.is_some_and(|(view, until)| view == self.promised && now < until);
        self.is_serving() && (is_alone() || has_lease())
    }

    /// Learners that hold everything that is not given up, at the primary, and what their logs had given up when they reported: entries after
    /// that are in them. The manager may name one as a voter if its state machine has the entries before.
    pub fn ready_learners(&self) -> Vec<(NodeId, OpSeq)> {
        match &self.role {
            Role::Primary(primary) if primary.is_serving() => primary.ready_learners(self.commit),
            _ => Vec::new(),
        }
    }

    /// When [`Input::Tick`] has something to do; none if only other inputs have.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.role {
            Role::Primary(primary) => primary.deadline(),
            Role::Member(member) => member.deadline(),
            Role::Unable { told_at } => Some(*told_at + ASK_AGAIN_AFTER),
            Role::Outside => None,
        }
    }

    fn hear_of_view(&mut self, appointment: Appointment, now: Instant) {
        let view = appointment.view;
        let is_restart = view == self.promised && self.appointment.is_none();
        if view <= self.promised && !is_restart {
            return;
        }
        self.leave_role();
        let is_primary = appointment.primary == self.me;
        let is_member = appointment.members().any(|member| member == self.me);
        self.promised = view;
        self.role = if is_primary && (is_restart || self.loading) {
            self.outputs.push(Output::CannotLead { view });
            Role::Unable { told_at: now }
        } else if is_primary {
            Role::Primary(Box::new(Primary::new(&appointment, now)))
        } else if is_member {
            Role::Member(Member::new(appointment.primary))
        } else {
            Role::Outside
        };
        self.appointment = Some(appointment);
        if is_restart {
            self.begin_in_view(now);
        } else {
            self.persist(Change::Promise(view), Some(Effect::Promised(view)));
        }
    }

    fn leave_role(&mut self) {
        if self.is_serving() {
            self.outputs.push(Output::Deposed { view: self.promised });
        }
        if let Role::Primary(primary) = &mut self.role
            && let Some(dump) = primary.end_dump()
        {
            self.outputs.push(Output::EndDump { dump });
        }
        self.role = Role::Outside;
    }

    /// The promise is durable.
    fn begin_in_view(&mut self, now: Instant) {
        match &mut self.role {
            Role::Member(_) => self.report(now),
            Role::Primary(primary) => primary.collect(),
            Role::Outside | Role::Unable { .. } => {}
        }
    }

    fn take_lease(&mut self, view: ViewNumber, until: Instant) {
        if self.lease.is_none_or(|held| held < (view, until)) {
            self.lease = Some((view, until));
        }
    }

    /// Messages of other views, and of members that this view does not name, count for nothing.
    fn receive(&mut self, from: NodeId, Message { group, view, body }: Message, now: Instant) {
        if group != self.group || view != self.promised {
            return;
        }
        match (&self.role, body) {
            (Role::Primary(_), body) => self.receive_as_primary(from, body, now),
            (Role::Member(member), body) if member.primary() == from => self.receive_as_member(body),
            _ => {}
        }
    }

    /// What is due, whatever the input was.
    fn go_on(&mut self, now: Instant) {
        match &mut self.role {
            Role::Primary(_) => self.lead(now),
            Role::Member(_) => self.follow(now),
            Role::Outside => self.persist_log(),
            Role::Unable { told_at } => {
                if now >= *told_at + ASK_AGAIN_AFTER {
                    *told_at = now;
                    self.outputs.push(Output::CannotLead { view: self.promised });
                }
                self.persist_log();
            }
        }
    }

    fn persist(&mut self, change: Change, effect: Option<Effect>) {
        self.issued += 1;
        self.outputs.push(Output::Persist(Record { group: self.group, change }));
        self.unpersisted.extend(effect.map(|effect| (self.issued, effect)));
    }

    /// Hands over what the log has and the medium does not.
    fn persist_log(&mut self) {
        while self.queued < self.log.last().opseq {
            let batch = self.log.batch_after(self.queued).expect("what is not durable is not given up");
            self.queued = batch.last().expect("there is more").position.opseq;
            self.persist(Change::Entries(batch), Some(Effect::Held(self.queued)));
        }
    }

    fn note_persisted(&mut self, count: u64, now: Instant) {
        assert!(count <= self.issued, "{count} of {} records are durable", self.issued);
        while let Some((_, effect)) = self.unpersisted.pop_front_if(|(number, _)| *number <= count) {
            match effect {
                Effect::Promised(view) if view == self.promised => self.begin_in_view(now),
                Effect::Promised(_) | Effect::Truncated => {}
                Effect::Held(opseq) => self.durable = self.durable.max(opseq),
                Effect::Reset { load } => self.begin_loading(load, now),
                Effect::Loaded { load } => self.end_loading(load, now),
            }
        }
    }

    /// Gives up what follows `through` in memory, and on the medium.
    fn truncate(&mut self, through: OpSeq) {
        assert!(
            through >= self.commit,
            "group {}: entry {} is committed, and {through} is to be the last",
            self.group,
            self.commit
        );
        let entries = self.log.truncate_after(through);
        if entries.is_empty() {
            return;
        }
        self.forget_held(through);
        self.persist(Change::Truncate(through), Some(Effect::Truncated));
        self.outputs.push(Output::RolledBack { entries });
    }

    /// Records that are on their way say nothing of entries after this any more.
    fn forget_held(&mut self, through: OpSeq) {
        self.queued = self.queued.min(through);
        self.durable = self.durable.min(through);
        for (_, effect) in &mut self.unpersisted {
            if let Effect::Held(opseq) = effect {
                *opseq = (*opseq).min(through);
            }
        }
    }

    fn is_truncating(&self) -> bool {
        self.unpersisted.iter().any(|(_, effect)| *effect == Effect::Truncated)
    }

    fn commit_through(&mut self, opseq: OpSeq) {
        if opseq > self.commit {
            self.commit = opseq;
            self.release();
            self.outputs.push(Output::Committed { through: opseq });
        }
    }

    fn release(&mut self) {
        self.released = self.released.max(self.releasable.min(self.commit));
    }

    /// Gives entries up that all voters have released.
    fn trim(&mut self, opseq: OpSeq) {
        let opseq = opseq.min(self.released);
        if opseq > self.log.base().opseq {
            self.persist_log();
            self.log.trim(opseq);
            self.persist(Change::Base(self.log.base()), Some(Effect::Held(opseq)));
        }
    }

    fn send(&mut self, to: NodeId, body: Body) {
        let message = Message { group: self.group, view: self.promised, body };
        self.outputs.push(Output::Send { to, message });
    }

    fn next_report(&mut self) -> ReportId {
        self.reports += 1;
        ReportId { session: self.session, number: self.reports }
    }
}

#[cfg(test)]
mod tests;
