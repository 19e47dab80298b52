//! The primary of a view: it collects reports, adopts the highest log, brings all voters to it, asks for the manager's record, and then serves.
//!
//! The log is decided by the reports of voters of the last active membership, of which the primary is one. Their logs are prefixes of each
//! other (RFD 27, rule 4), so the primary never gives up entries.

use std::collections::BTreeMap;

use env::Instant;
use types::{NodeId, ViewNumber};

use super::dump::Dump;
use super::{Machine, Output, Role};
use crate::appointment::Appointment;
use crate::id::{DumpId, OpSeq, Position, ReportId};
use crate::limits::{ASK_AGAIN_AFTER, LogLimits, MARK_REST, MAX_BATCH_ENTRIES, RESEND_AFTER};
use crate::log::{Entry, Log};
use crate::message::{Body, Keep, Reported};

/// Entries that a peer has been sent and has not acknowledged; it is sent more as it acknowledges them.
const MAX_UNACKED_ENTRIES: u64 = 2 * MAX_BATCH_ENTRIES as u64;

#[derive(Debug)]
pub(super) struct Primary {
    stage: Stage,
    peers: BTreeMap<NodeId, Peer>,
    /// Reports that decide, until a log is adopted.
    reports: BTreeMap<NodeId, (ReportId, Reported)>,
    /// Nothing of this view begins before another primary's lease is over.
    may_begin_at: Instant,
    adopted: OpSeq,
    /// The commit mark that all are to know of; zero before the view is active.
    told_commit: OpSeq,
    /// When marks are sent alone.
    marks_at: Option<Instant>,
    pub(super) dump: Option<Dump>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Promising,
    Collecting,
    Fetching { from: NodeId, through: OpSeq, asked_at: Instant },
    Installing,
    Asking { asked_at: Instant },
    Serving,
}

/// Another member.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) is_voter: bool,
    decides: bool,
    /// What it reported last, if it is taken in.
    pub(super) keep: Option<Keep>,
    /// It shares nothing with the log, and gets a dump.
    pub(super) needs_dump: Option<ReportId>,
    /// It has acknowledged since it was taken in.
    follows: bool,
    /// What its log had given up when it reported last.
    base: OpSeq,
    sent: OpSeq,
    acked: OpSeq,
    released: OpSeq,
    /// It knows that entries through this are committed.
    confirmed: OpSeq,
    /// When it was sent anything last.
    told_at: Instant,
    /// The last progress, or the last attempt to make some.
    tried_at: Instant,
    /// It was sent something since it was taken in.
    is_told: bool,
    /// Marks that it was sent.
    marks: (OpSeq, OpSeq),
}

impl Primary {
    pub(super) fn new(appointment: &Appointment, now: Instant) -> Primary {
        let deciding: Vec<NodeId> = appointment.deciding().collect();
        let peer = |node: NodeId| Peer {
            is_voter: appointment.voters.contains(&node),
            decides: deciding.contains(&node),
            keep: None,
            needs_dump: None,
            follows: false,
            base: OpSeq::ZERO,
            sent: OpSeq::ZERO,
            acked: OpSeq::ZERO,
            released: OpSeq::ZERO,
            confirmed: OpSeq::ZERO,
            told_at: now,
            tried_at: now,
            is_told: false,
            marks: (OpSeq::ZERO, OpSeq::ZERO),
        };
        let others = appointment.members().filter(|node| *node != appointment.primary);
        Primary {
            stage: Stage::Promising,
            peers: others.map(|node| (node, peer(node))).collect(),
            reports: BTreeMap::new(),
            may_begin_at: now + appointment.former_lease,
            adopted: OpSeq::ZERO,
            told_commit: OpSeq::ZERO,
            marks_at: None,
            dump: None,
        }
    }

    pub(super) fn is_serving(&self) -> bool {
        self.stage == Stage::Serving
    }

    pub(super) fn collect(&mut self) {
        assert_eq!(self.stage, Stage::Promising, "a view begins once");
        self.stage = Stage::Collecting;
    }

    pub(super) fn peer(&mut self, node: NodeId) -> Option<&mut Peer> {
        self.peers.get_mut(&node)
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = (NodeId, &Peer)> {
        self.peers.iter().map(|(node, peer)| (*node, peer))
    }

    fn voters(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values().filter(|peer| peer.is_voter)
    }

    pub(super) fn ready_learners(&self, commit: OpSeq) -> Vec<(NodeId, OpSeq)> {
        let is_ready = |peer: &Peer| !peer.is_voter && peer.follows && peer.acked >= commit;
        self.peers.iter().filter(|(_, peer)| is_ready(peer)).map(|(node, peer)| (*node, peer.base)).collect()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let of_stage = match self.stage {
            Stage::Fetching { asked_at, .. } | Stage::Asking { asked_at } => Some(asked_at + ASK_AGAIN_AFTER),
            Stage::Installing => Some(self.may_begin_at),
            Stage::Promising | Stage::Collecting | Stage::Serving => None,
        };
        let waiting = |peer: &Peer| (peer.keep.is_some() && !peer.is_level()).then(|| peer.tried_at + RESEND_AFTER);
        let of_peers = self.peers.values().filter_map(waiting).min();
        let asked = |peer: &Peer| peer.is_asked(self.told_commit).then(|| peer.told_at + ASK_AGAIN_AFTER);
        let of_peers = self.peers.values().filter_map(asked).chain(of_peers).min();
        let of_dump = self.dump.as_ref().map(Dump::deadline);
        [of_stage, of_peers, self.marks_at, of_dump].into_iter().flatten().min()
    }

    /// What all voters have, given what the primary itself has.
    fn least_acked(&self, own: OpSeq) -> OpSeq {
        self.voters().map(|peer| if peer.follows { peer.acked } else { OpSeq::ZERO }).fold(own, OpSeq::min)
    }

    /// What all that count for it let go of.
    fn trimmable(&self, own: OpSeq, is_under_half: bool) -> OpSeq {
        let mut least = self.voters().map(|peer| peer.released).fold(own, OpSeq::min);
        if is_under_half {
            let learners = self.peers.values().filter(|peer| !peer.is_voter && peer.follows);
            least = learners.map(|peer| peer.acked).fold(least, OpSeq::min);
            least = self.dump.as_ref().and_then(Dump::held).into_iter().fold(least, OpSeq::min);
        }
        least
    }
}

/// What keeps a primary from going on. It can't be told from slowness here: the user of the machine decides, by time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    pub view: ViewNumber,
    pub waits_for: &'static str,
    /// How far it has come. It goes on as long as this rises.
    pub level: OpSeq,
    /// The members that are waited for; the primary itself may be among them.
    pub nodes: Vec<NodeId>,
}

impl Peer {
    fn is_level(&self) -> bool {
        self.follows && self.acked >= self.sent
    }

    /// Whether it does not know the mark, or has not released what it covers, as far as the primary knows. A mark and an acknowledgement may
    /// be lost, and nothing else may follow for long: so it is told again, and answers.
    fn is_asked(&self, commit: OpSeq) -> bool {
        self.follows && (self.confirmed < commit || self.released < commit)
    }

    /// Its log is the primary's through `through`.
    fn take_in(&mut self, report: ReportId, through: OpSeq, released: OpSeq, now: Instant) {
        self.keep = Some(Keep { report, through });
        (self.follows, self.needs_dump) = (false, None);
        (self.sent, self.tried_at) = (through, now);
        self.released = self.released.max(released);
        self.is_told = false;
    }

    fn note_ack(&mut self, durable: OpSeq, released: OpSeq, now: Instant) {
        if !self.follows || durable > self.acked {
            self.tried_at = now;
        }
        self.follows = true;
        (self.acked, self.released) = (self.acked.max(durable), self.released.max(released));
        self.sent = self.sent.max(self.acked);
    }
}

fn is_under_half(log: &Log, limits: &LogLimits) -> bool {
    log.len() * 2 <= limits.entries && log.bytes() * 2 <= limits.bytes
}

impl Machine {
    /// The primary of this role. Only its own functions are called for it.
    pub(super) fn primary(&mut self) -> &mut Primary {
        match &mut self.role {
            Role::Primary(primary) => primary,
            role => unreachable!("no primary, but {role:?}"),
        }
    }

    /// What this primary waits for, unless that is the manager, a lease, or an entry to append.
    pub fn obstacle(&self, now: Instant) -> Option<Obstacle> {
        let Role::Primary(primary) = &self.role else { return None };
        let lacks = |through: OpSeq| -> Vec<NodeId> {
            let is_behind = |peer: &Peer| peer.is_voter && (!peer.follows || peer.acked < through);
            let behind = primary.peers.iter().filter(|(_, peer)| is_behind(peer)).map(|(node, _)| *node);
            behind.chain((self.durable < through).then_some(self.me)).collect()
        };
        let level = primary.least_acked(self.durable);
        let silent = |(node, peer): (&NodeId, &Peer)| (peer.decides && !primary.reports.contains_key(node)).then_some(*node);
        let (waits_for, level, nodes) = match primary.stage {
            Stage::Promising => ("its own promise", level, vec![self.me]),
            Stage::Collecting => ("reports", level, primary.peers.iter().filter_map(silent).collect()),
            Stage::Fetching { from, .. } => ("entries", self.log.last().opseq, vec![from]),
            Stage::Installing if now >= primary.may_begin_at => ("copies of its log", level, lacks(primary.adopted)),
            Stage::Serving if self.commit < self.log.last().opseq => ("acknowledgements", level, lacks(self.commit.next())),
            Stage::Installing | Stage::Asking { .. } | Stage::Serving => return None,
        };
        Some(Obstacle { view: self.promised, waits_for, level, nodes })
    }

    pub(super) fn receive_as_primary(&mut self, from: NodeId, body: Body, now: Instant) {
        match body {
            Body::Report { id, log } => self.take_report(from, id, log, now),
            Body::Fetched { entries } => self.take_fetched(from, entries, now),
            Body::Ack { durable, released, commit } => {
                let last = self.log.last().opseq;
                if let Some(peer) = self.primary().peer(from).filter(|peer| peer.keep.is_some()) {
                    peer.note_ack(durable.min(last), released.min(last), now);
                    peer.confirmed = peer.confirmed.max(commit.min(last));
                }
            }
            Body::DumpWant { dump, chunk } => self.read_dump(from, dump, chunk, now),
            Body::Fetch { .. } | Body::Append { .. } | Body::DumpOffer { .. } | Body::DumpChunk { .. } => {}
        }
    }

    fn take_report(&mut self, from: NodeId, id: ReportId, log: Reported, now: Instant) {
        let primary = self.primary();
        let Some(peer) = primary.peers.get_mut(&from) else { return };
        match primary.stage {
            Stage::Promising | Stage::Collecting | Stage::Fetching { .. } => {
                // One whose log is void decides nothing.
                if !peer.decides || !log.loading {
                    primary.reports.insert(from, (id, log));
                }
            }
            Stage::Installing | Stage::Asking { .. } | Stage::Serving => self.judge_report(from, id, &log, now),
        }
    }

    /// Finds what a member shares with the log.
    fn judge_report(&mut self, from: NodeId, id: ReportId, log: &Reported, now: Instant) {
        let shared = if log.loading { None } else { self.log.shared_with(&log.views) };
        let Some(peer) = self.primary().peer(from) else { return };
        peer.base = log.views.first().map_or(OpSeq::ZERO, |base| base.opseq);
        match shared {
            // The answer was lost; it is the same as before.
            Some(_) if peer.keep.is_some_and(|keep| keep.report == id) => {
                peer.sent = peer.keep.map_or(peer.sent, |keep| keep.through);
                (peer.follows, peer.is_told) = (false, false);
            }
            Some(through) => {
                peer.take_in(id, through, log.released.min(through), now);
                self.end_dump_for(from);
            }
            None => (peer.keep, peer.follows, peer.needs_dump) = (None, false, Some(id)),
        }
    }

    /// With all reports that decide: the highest of these logs is the group's.
    fn adopt(&mut self, now: Instant) {
        let own = self.log.last();
        let primary = self.primary();
        let mut highest = (own, None);
        for (node, peer) in primary.peers.iter().filter(|(_, peer)| peer.decides) {
            let Some((_, reported)) = primary.reports.get(node) else { return };
            if peer.decides && reported.last() > highest.0 {
                highest = (reported.last(), Some(*node));
            }
        }
        match highest {
            (Position { opseq, .. }, Some(from)) => self.fetch(from, opseq, now),
            (_, None) => self.install(now),
        }
    }

    fn fetch(&mut self, from: NodeId, through: OpSeq, now: Instant) {
        let after = self.log.last().opseq;
        self.primary().stage = Stage::Fetching { from, through, asked_at: now };
        self.send(from, Body::Fetch { after });
    }

    fn take_fetched(&mut self, from: NodeId, entries: Vec<Entry>, now: Instant) {
        let Stage::Fetching { from: asked, through, .. } = self.primary().stage else { return };
        if asked != from {
            return;
        }
        let before = self.log.last();
        for entry in entries {
            if self.log.continues(entry.position) && entry.position.opseq <= through {
                self.log.push(entry);
            }
        }
        if self.log.last().opseq >= through {
            self.install(now);
        } else if self.log.last() != before {
            self.fetch(from, through, now);
        }
    }

    fn install(&mut self, now: Instant) {
        let last = self.log.last().opseq;
        let primary = self.primary();
        (primary.stage, primary.adopted) = (Stage::Installing, last);
        for (from, (id, log)) in std::mem::take(&mut primary.reports) {
            self.judge_report(from, id, &log, now);
        }
    }

    pub(super) fn hear_of_record(&mut self, view: ViewNumber, now: Instant) {
        let is_asked = matches!(&self.role, Role::Primary(primary) if matches!(primary.stage, Stage::Asking { .. }));
        if !is_asked || view != self.promised {
            return;
        }
        let token = self.appointment.as_ref().expect("a primary was appointed").token;
        let primary = self.primary();
        primary.stage = Stage::Serving;
        primary.peers.values_mut().for_each(|peer| peer.tried_at = now);
        let adopted = primary.adopted;
        self.outputs.push(Output::Serving { view, token });
        self.commit_through(adopted);
    }

    /// What is due at the primary.
    pub(super) fn lead(&mut self, now: Instant) {
        self.persist_log();
        if self.primary().stage == Stage::Collecting {
            self.adopt(now);
        }
        if let Stage::Fetching { from, through, asked_at } = self.primary().stage
            && now >= asked_at + ASK_AGAIN_AFTER
        {
            self.fetch(from, through, now);
        }
        self.persist_log();
        self.advance(now);
        if matches!(self.primary().stage, Stage::Installing | Stage::Asking { .. } | Stage::Serving) {
            self.go_on_dumping(now);
            self.feed_all(now);
        }
    }

    /// From installing to asking, asking again, and commits and trims while serving.
    fn advance(&mut self, now: Instant) {
        let (durable, view) = (self.durable, self.promised);
        let primary = self.primary();
        let level = primary.least_acked(durable);
        match primary.stage {
            Stage::Installing => {
                let is_held = level >= primary.adopted && primary.voters().all(|peer| peer.follows);
                if is_held && now >= primary.may_begin_at {
                    primary.stage = Stage::Asking { asked_at: now };
                    self.outputs.push(Output::AskRecord { view });
                }
            }
            Stage::Asking { asked_at } if now >= asked_at + ASK_AGAIN_AFTER => {
                primary.stage = Stage::Asking { asked_at: now };
                self.outputs.push(Output::AskRecord { view });
            }
            Stage::Serving => {
                self.commit_through(level);
                let (own, under_half) = (self.released.min(self.commit), is_under_half(&self.log, &self.limits));
                let trimmable = self.primary().trimmable(own, under_half);
                self.trim(trimmable);
            }
            Stage::Promising | Stage::Collecting | Stage::Fetching { .. } | Stage::Asking { .. } => {}
        }
    }

    fn feed_all(&mut self, now: Instant) {
        let is_serving = self.is_serving();
        // What learners give up must not be missed if the view never becomes active.
        let fed = self.primary().peers().filter(|(_, peer)| peer.keep.is_some() && (peer.is_voter || is_serving));
        let nodes: Vec<NodeId> = fed.map(|(node, _)| node).collect();
        let marks = (self.commit, self.log.base().opseq);
        if is_serving {
            self.primary().told_commit = marks.0;
        }
        let mut is_behind = false;
        for node in nodes {
            self.feed(node, now);
            is_behind |= self.primary().peer(node).is_some_and(|peer| peer.keep.is_some() && peer.marks != marks);
        }
        if !is_serving || !is_behind {
            self.primary().marks_at = None;
            return;
        }
        let due = *self.primary().marks_at.get_or_insert(now + MARK_REST);
        if now >= due {
            self.primary().marks_at = None;
            self.send_marks(marks);
        }
    }

    fn send_marks(&mut self, marks: (OpSeq, OpSeq)) {
        let behind = self.primary().peers().filter(|(_, peer)| peer.follows && peer.marks != marks);
        let nodes: Vec<NodeId> = behind.map(|(node, _)| node).collect();
        for node in nodes {
            self.send_batch(node, Vec::new());
        }
    }

    /// Sends a peer what it has not been sent, and again what it has not acknowledged for long.
    fn feed(&mut self, node: NodeId, now: Instant) {
        let last = self.log.last().opseq;
        let told_commit = self.primary().told_commit;
        let Some(peer) = self.primary().peer(node) else { return };
        let mut is_due = false;
        if !peer.is_level() && now >= peer.tried_at + RESEND_AFTER {
            let through = peer.keep.map_or(OpSeq::ZERO, |keep| keep.through);
            peer.sent = if peer.follows { peer.acked } else { through };
            peer.tried_at = now;
            is_due = true;
        }
        // The first message after a report goes out even if it has no entries.
        is_due |= !peer.is_told || peer.is_asked(told_commit) && now >= peer.told_at + ASK_AGAIN_AFTER;
        if is_due {
            peer.told_at = now;
        }
        loop {
            let Some(peer) = self.primary().peer(node) else { return };
            let (sent, begins) =
                (peer.sent, if peer.follows { peer.acked } else { peer.keep.map_or(peer.acked, |keep| keep.through) });
            let has_more = sent < last && sent.0 < begins.0 + MAX_UNACKED_ENTRIES;
            if !has_more && !is_due {
                return;
            }
            is_due = false;
            let Some(entries) = self.log.batch_after(sent) else {
                return self.leave_behind(node);
            };
            self.send_batch(node, entries);
        }
    }

    /// What a peer needs next is given up. Its report is old, so it loads a dump in answer to it.
    fn leave_behind(&mut self, node: NodeId) {
        if let Some(peer) = self.primary().peer(node) {
            let keep = peer.keep.take();
            (peer.follows, peer.needs_dump) = (false, keep.map(|keep| keep.report));
        }
    }

    fn send_batch(&mut self, node: NodeId, entries: Vec<Entry>) {
        let (commit, trim) = (if self.is_serving() { self.commit } else { OpSeq::ZERO }, self.log.base().opseq);
        let Some(peer) = self.primary().peer(node) else { return };
        let (sent, keep) = (peer.sent, peer.keep.filter(|_| !peer.follows));
        (peer.marks, peer.is_told) = ((commit, trim), true);
        peer.sent = entries.last().map_or(sent, |entry| entry.position.opseq);
        let Some(view) = self.log.view_at(sent) else {
            return self.leave_behind(node);
        };
        self.send(node, Body::Append { keep, after: Position { view, opseq: sent }, entries, commit, trim });
    }

    fn end_dump_for(&mut self, node: NodeId) {
        let ended: Option<DumpId> = self.primary().end_dump_for(node);
        self.outputs.extend(ended.map(|dump| Output::EndDump { dump }));
    }
}
