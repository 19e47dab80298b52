//! Read-after-write mode (paper section 3.7): instead of announcing a write beside its appends, the writer hands its entry to every member
//! when it is durable, and acknowledges it when all have published it.
//!
//! ```text
//!   writer                                    member
//!     │ all copies durable: publishes here      │
//!     │── Publish(entry) ──────────────────────►│ publishes
//!     │◄──────────────────────── HavePublished ─│
//!     │ the last one: acknowledges              │
//! ```
//!
//! So nothing is ever in flight at a reader, and no read asks anybody. What is given up is that reads are monotonic: before the
//! acknowledgement one member may answer with the new version and another, later, with the old one.
//!
//! A cell may have gateways of both kinds: what a linearizable one writes is announced, and every reader asks about it.
//!
//! A view that leaves the writer out voids what it has handed out and not acknowledged, as it voids announcements: the walk of the logs finds
//! the record, which is durable before the first [`Message::Publish`] leaves, and the recovery publishes it at all members.
//! Until then some of them may have it and others not. A [`Message::Publish`] of an older view that arrives later counts for nothing.

use super::message::Message;
use super::shard::{Active, Output, Outputs, Shard, Stage};
use format::entry::Entry;
use format::record::WriteId;
use types::{GatewayId, KeyHash};

impl<Op: Clone> Shard<Op> {
    /// The active write is durable: publishes it here and hands it to every member.
    pub(super) fn spread(&mut self, hash: KeyHash, active: Active<Op>, entry: Entry, out: &mut Outputs<Op>) {
        let Active { op, write, exclusive, stage } = active;
        let Stage::Writing { freeze, .. } = stage else { panic!("a write becomes durable while its appends are under way") };
        let replaced = self.publish_own(entry);
        out.push(Output::PublishOwn { op: op.clone(), entry, replaced });
        let missing = self.cell.others().to_vec();
        let stage = Stage::Spreading { freeze, missing, entry, replaced };
        self.state(&hash).active = Some(Active { op, write, exclusive, stage });
        self.hand_out(hash, out);
    }

    /// A new view: what its members publish counts, what those of the former one did does not.
    pub(super) fn spread_again(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        let others = self.cell.others().to_vec();
        let active = self.keys.get_mut(&hash).and_then(|state| state.active.as_mut());
        let Some(Active { stage: Stage::Spreading { freeze, missing, .. }, .. }) = active else { return };
        *missing = others;
        if let Some(freeze) = *freeze {
            self.carry_own(hash, freeze, out);
        }
        self.hand_out(hash, out);
        self.acknowledge_if_spread(hash, out);
    }

    fn hand_out(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        let view = self.cell.number();
        let active = self.keys.get(&hash).and_then(|state| state.active.as_ref());
        let Some(Active { op, stage: Stage::Spreading { missing, entry, .. }, .. }) = active else { return };
        out.extend(missing.iter().map(|to| Output::Spread { op: op.clone(), entry: *entry, to: *to, view }));
    }

    /// At a member: publishes what another gateway is about to acknowledge.
    pub(super) fn publish_of_peer(&mut self, from: GatewayId, entry: Entry, out: &mut Outputs<Op>) {
        if let Ok(replaced) = self.publish(entry) {
            out.push(Output::Published { entry, replaced });
        }
        let message = Message::HavePublished { hash: entry.hash, write: entry.write, view: self.cell.number() };
        out.push(Output::Send { to: from, message });
    }

    /// At the writer: one more member has published.
    pub(super) fn peer_has_published(&mut self, from: GatewayId, hash: KeyHash, published: WriteId, out: &mut Outputs<Op>) {
        let Some(active) = self.keys.get_mut(&hash).and_then(|state| state.active.as_mut()) else { return };
        if active.write != published {
            return;
        }
        if let Stage::Spreading { missing, .. } = &mut active.stage {
            missing.retain(|member| *member != from);
            self.acknowledge_if_spread(hash, out);
        }
    }

    fn acknowledge_if_spread(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        let Some(state) = self.keys.get_mut(&hash) else { return };
        let is_spread =
            |active: &mut Active<Op>| matches!(&active.stage, Stage::Spreading { missing, .. } if missing.is_empty());
        let Some(Active { op, write, exclusive, stage }) = state.active.take_if(is_spread) else { return };
        let Stage::Spreading { freeze, entry, replaced, .. } = stage else { unreachable!("looked at above") };
        out.push(Output::AcknowledgeOwn { op, entry, replaced });
        if freeze.is_some() {
            // The entry is with everybody; this releases the freeze.
            for &to in self.cell.others() {
                out.push(Output::Send { to, message: Message::Conclude { hash, write, entry: None, freeze } });
            }
        }
        self.ended(hash, freeze, exclusive, out);
    }
}
