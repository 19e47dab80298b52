//! A backup or a learner: it reports, keeps what it shares with its primary, takes entries and acknowledges.

use env::Instant;
use types::NodeId;

use super::{Machine, Role};
use crate::id::{OpSeq, Position, ReportId};
use crate::limits::ASK_AGAIN_AFTER;
use crate::log::Entry;
use crate::machine::load::Loading;
use crate::message::{Body, Keep, Reported};

#[derive(Debug)]
pub(super) struct Member {
    primary: NodeId,
    /// The last one; of this view, unless the promise is not durable yet.
    report: ReportId,
    stage: Stage,
    ack_is_due: bool,
    /// What was acknowledged last.
    acked: (OpSeq, OpSeq),
}

#[derive(Debug)]
enum Stage {
    Promising,
    Reporting {
        told_at: Instant,
    },
    /// The log is the beginning of the primary's.
    Following,
    Loading(Loading),
}

impl Member {
    pub(super) fn new(primary: NodeId) -> Member {
        let nothing = (OpSeq::ZERO, OpSeq::ZERO);
        Member { primary, report: ReportId::default(), stage: Stage::Promising, ack_is_due: false, acked: nothing }
    }

    pub(super) fn primary(&self) -> NodeId {
        self.primary
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Reporting { told_at } => Some(*told_at + ASK_AGAIN_AFTER),
            Stage::Loading(loading) => loading.deadline(),
            Stage::Promising | Stage::Following => None,
        }
    }

    pub(super) fn loading_mut(&mut self) -> Option<&mut Loading> {
        match &mut self.stage {
            Stage::Loading(loading) => Some(loading),
            _ => None,
        }
    }

    /// Whether an offer answers this member's last report, and nothing is being loaded.
    pub(super) fn takes_offer(&self, report: ReportId) -> bool {
        self.report == report && matches!(self.stage, Stage::Reporting { .. } | Stage::Following)
    }

    pub(super) fn load(&mut self, loading: Loading) {
        (self.stage, self.ack_is_due) = (Stage::Loading(loading), false);
    }
}

impl Machine {
    /// The member of this role. Only its own functions are called for it.
    pub(super) fn member(&mut self) -> &mut Member {
        match &mut self.role {
            Role::Member(member) => member,
            role => unreachable!("no member, but {role:?}"),
        }
    }

    /// Tells the primary of the log, under a new number.
    pub(super) fn report(&mut self, now: Instant) {
        let id = self.next_report();
        let member = self.member();
        (member.report, member.stage) = (id, Stage::Reporting { told_at: now });
        self.tell_report();
    }

    fn tell_report(&mut self) {
        let log = Reported { views: self.log.views(), loading: self.loading, released: self.released };
        let (id, to) = (self.member().report, self.member().primary);
        self.send(to, Body::Report { id, log });
    }

    pub(super) fn receive_as_member(&mut self, body: Body) {
        match body {
            Body::Fetch { after } => self.give_entries(after),
            Body::Append { keep, after, entries, commit, trim } => {
                self.keep(keep);
                if matches!(self.member().stage, Stage::Following) {
                    self.take_entries(after, entries, commit, trim);
                }
            }
            Body::DumpOffer { report, dump, at } => self.take_offer(report, dump, at),
            Body::DumpChunk { dump, chunk, last, bytes } => self.take_chunk(dump, chunk, last, bytes),
            Body::Report { .. } | Body::Fetched { .. } | Body::Ack { .. } | Body::DumpWant { .. } => {}
        }
    }

    /// The primary adopts this member's log, which does not change meanwhile.
    fn give_entries(&mut self, after: OpSeq) {
        let member = self.member();
        if !matches!(member.stage, Stage::Reporting { .. }) {
            return;
        }
        let to = member.primary;
        if let Some(entries) = self.log.batch_after(after) {
            self.send(to, Body::Fetched { entries });
        }
    }

    /// The answer to the last report. Answers to others were reckoned from another log.
    fn keep(&mut self, keep: Option<Keep>) {
        let Some(Keep { report, through }) = keep else { return };
        let member = self.member();
        if report != member.report || !matches!(member.stage, Stage::Reporting { .. }) {
            return;
        }
        (member.stage, member.ack_is_due) = (Stage::Following, true);
        self.truncate(through);
    }

    fn take_entries(&mut self, after: Position, entries: Vec<Entry>, commit: OpSeq, trim: OpSeq) {
        self.member().ack_is_due = true;
        // Room first: the primary's log may be as long as it may be.
        self.trim(trim.min(self.commit));
        let last = self.log.last();
        if after.opseq > last.opseq {
            return;
        }
        for entry in entries {
            let is_next = self.log.continues(entry.position);
            if is_next && self.log.has_room(1, entry.bytes(), &self.limits) {
                self.log.push(entry);
            }
        }
        self.commit_through(commit.min(self.log.last().opseq));
        self.trim(trim.min(self.commit));
    }

    pub(super) fn follow(&mut self, now: Instant) {
        self.persist_log();
        let known = (self.durable, self.released);
        let is_truncating = self.is_truncating();
        let member = self.member();
        match &mut member.stage {
            Stage::Reporting { told_at } if now >= *told_at + ASK_AGAIN_AFTER => {
                *told_at = now;
                self.tell_report();
            }
            Stage::Following if !is_truncating && (member.ack_is_due || member.acked != known) => {
                (member.ack_is_due, member.acked) = (false, known);
                let to = member.primary;
                let commit = self.commit;
                self.send(to, Body::Ack { durable: known.0, released: known.1, commit });
            }
            Stage::Loading(_) => self.ask_for_chunk(now),
            Stage::Promising | Stage::Reporting { .. } | Stage::Following => {}
        }
    }
}
