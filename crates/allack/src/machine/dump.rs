//! The primary's side of dumps: one at a time, for a member that shares nothing with the log.
//!
//! While a dump is under way, entries after it are kept as long as the log is under half of its bounds.

use bytes::Bytes;
use env::Instant;
use types::NodeId;

use super::primary::{Peer, Primary};
use super::{Machine, Output, Role};
use crate::id::{DumpId, OpSeq, Position, ReportId};
use crate::limits::{ASK_AGAIN_AFTER, DUMP_IDLE_LIMIT, MAX_DUMP_CHUNK_BYTES};
use crate::message::Body;

#[derive(Debug)]
pub(super) struct Dump {
    id: DumpId,
    to: NodeId,
    report: ReportId,
    /// None until the state machine above holds it.
    at: Option<Position>,
    offered_at: Instant,
    /// The member has asked for a chunk.
    is_wanted: bool,
    touched_at: Instant,
}

impl Dump {
    pub(super) fn deadline(&self) -> Instant {
        let again = if self.is_wanted || self.at.is_none() { None } else { Some(self.offered_at + ASK_AGAIN_AFTER) };
        let idle = self.touched_at + DUMP_IDLE_LIMIT;
        again.map_or(idle, |again| again.min(idle))
    }

    /// What may not be trimmed.
    pub(super) fn held(&self) -> Option<OpSeq> {
        self.at.map(|at| at.opseq)
    }
}

impl Primary {
    pub(super) fn end_dump(&mut self) -> Option<DumpId> {
        self.dump.take().map(|dump| dump.id)
    }

    pub(super) fn end_dump_for(&mut self, node: NodeId) -> Option<DumpId> {
        self.dump.take_if(|dump| dump.to == node).map(|dump| dump.id)
    }
}

impl Machine {
    /// Begins a dump if one is needed, offers it again, gives up one that nobody asks for.
    pub(super) fn go_on_dumping(&mut self, now: Instant) {
        if let Some(dump) = &mut self.primary().dump {
            if now >= dump.touched_at + DUMP_IDLE_LIMIT {
                let (id, to) = (dump.id, dump.to);
                self.primary().dump = None;
                if let Some(peer) = self.primary().peer(to) {
                    // It will report again.
                    peer.needs_dump = None;
                }
                self.outputs.push(Output::EndDump { dump: id });
            } else if now >= dump.offered_at + ASK_AGAIN_AFTER && !dump.is_wanted {
                self.tell_offer(now);
            }
            return;
        }
        // What learners give up must not be missed if the view never becomes active.
        let is_serving = self.is_serving();
        let counts = |(node, peer): (NodeId, &Peer)| {
            let report = peer.needs_dump.filter(|_| peer.is_voter || is_serving)?;
            Some((node, report))
        };
        let needing = self.primary().peers().find_map(counts);
        let Some((to, report)) = needing else { return };
        self.dumps += 1;
        let id = DumpId(self.dumps);
        self.primary().dump = Some(Dump { id, to, report, at: None, offered_at: now, is_wanted: false, touched_at: now });
        self.outputs.push(Output::TakeDump { dump: id });
    }

    fn current_dump(&mut self, id: DumpId) -> Option<&mut Dump> {
        match &mut self.role {
            Role::Primary(primary) => primary.dump.as_mut().filter(|dump| dump.id == id),
            _ => None,
        }
    }

    pub(super) fn offer_dump(&mut self, id: DumpId, at: OpSeq, now: Instant) {
        if self.current_dump(id).is_none() {
            return;
        }
        assert!(at <= self.commit, "a dump of entries that are not committed: {at} after {}", self.commit);
        let Some(view) = self.log.view_at(at) else {
            // Trimmed meanwhile: the next one is newer.
            self.primary().dump = None;
            return self.outputs.push(Output::EndDump { dump: id });
        };
        if let Some(dump) = self.current_dump(id) {
            dump.at = Some(Position { view, opseq: at });
            self.tell_offer(now);
        }
    }

    fn tell_offer(&mut self, now: Instant) {
        let Some(dump) = &mut self.primary().dump else { return };
        let Some(at) = dump.at else { return };
        dump.offered_at = now;
        let (to, report, dump) = (dump.to, dump.report, dump.id);
        self.send(to, Body::DumpOffer { report, dump, at });
    }

    pub(super) fn read_dump(&mut self, from: NodeId, id: DumpId, chunk: u32, now: Instant) {
        let Some(dump) = self.current_dump(id).filter(|dump| dump.to == from) else { return };
        (dump.is_wanted, dump.touched_at) = (true, now);
        self.outputs.push(Output::ReadDump { dump: id, chunk });
    }

    pub(super) fn send_chunk(&mut self, id: DumpId, chunk: u32, last: bool, bytes: Bytes) {
        assert!(bytes.len() <= MAX_DUMP_CHUNK_BYTES, "a chunk of {} bytes", bytes.len());
        if let Some(dump) = self.current_dump(id) {
            let to = dump.to;
            self.send(to, Body::DumpChunk { dump: id, chunk, last, bytes });
        }
    }
}
