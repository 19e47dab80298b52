//! What a unit's leader asks nodes: each question once at a time, and of each kind so many.

use std::sync::Arc;

use format::chunk_id::ChunkId;
use tokio::sync::OwnedSemaphorePermit;
use types::NodeId;

use super::leading::Leading;
use super::leading::clearing::AskGaps;
use super::leading::errands::{ErrandKey, Share};
use super::member::{UnitMember, with_leader};
use crate::asking::{ask_block, ask_for_gaps};
use crate::leader::{Errand, MoveStep};
use crate::limits::ERRAND_PATIENCE;
use crate::message::ToNode;
use crate::protocol::Gaps;

impl UnitMember {
    /// The permit for an errand, and whom it is to, unless it is under way or there are enough of its share.
    pub(super) fn begin_errand(&self, key: ErrandKey) -> Option<(OwnedSemaphorePermit, NodeId)> {
        let (errand, _, place) = key;
        let share = Share::of(errand);
        let turn = match share {
            Share::Copies => &self.duties,
            Share::Moves => &self.moving,
            Share::Mends => &self.mending,
        };
        let permit = turn.clone().try_acquire_owned().ok()?;
        let node = self.reach.map().node_of(place.device())?.id;
        let (now, state) = (self.env.now(), self.manager.snapshot());
        let is_begun = self.leading.lock().as_mut().is_some_and(|leading| {
            let most = leading.most_errands(now, &state, self.shard, node, share);
            leading.errands.begin(node, key, most)
        });
        is_begun.then_some((permit, node))
    }

    /// Whether there is room for the content of a relocation.
    fn begin_content(&self, relocation: u64, id: ChunkId) -> bool {
        let (now, state) = (self.env.now(), self.manager.snapshot());
        let Some(bytes) = self.group.look(|machine| machine.unit().bytes_of(id)) else { return false };
        let mut leading = self.leading.lock();
        let begin = |leading: &mut Leading| leading.begin_content(now, &state, self.shard, &self.contents, (relocation, bytes));
        leading.as_mut().is_some_and(begin)
    }

    /// Asks the node of a device for the gaps of its blocks.
    pub(super) fn ask_for_gaps(self: &Arc<Self>, AskGaps { device, blocks }: AskGaps) {
        let member = self.clone();
        self.env.spawn(async move {
            let answer = ask_for_gaps(&member.env, &*member.reach, device, blocks.clone(), ERRAND_PATIENCE).await;
            let gaps = answer.map(|Gaps(gaps)| blocks.into_iter().zip(gaps).collect());
            if let Some(leading) = member.leading.lock().as_mut() {
                leading.clearing.hear_gaps(device, gaps);
            }
        });
    }

    /// Asks a node, unless it is being asked.
    pub(super) fn run_errand(self: &Arc<Self>, errand: Errand, to: ToNode) {
        let key = (errand, to.id, to.place);
        let taking = taking(errand);
        if taking.is_some_and(|relocation| !self.begin_content(relocation, to.id)) {
            return;
        }
        let Some((permit, node)) = self.begin_errand(key) else {
            let is_begun = |leading: &Leading| leading.errands.is_under_way(&key);
            if let (Some(relocation), Some(leading)) = (taking, self.leading.lock().as_mut())
                && !is_begun(leading)
            {
                leading.end_asking(relocation);
            }
            return;
        };
        let member = self.clone();
        self.env.spawn(async move {
            let answer = ask_block(&member.env, &*member.reach, to, ERRAND_PATIENCE).await;
            let (_, id, place) = key;
            tracing::trace!(shard = member.shard.0, %id, ?place, ?errand, ?answer, "a node was asked");
            with_leader(&Arc::downgrade(&member), |leading| {
                leading.errands.end(node, &key);
                let orders = match (answer, errand) {
                    (None, Errand::Move { relocation, step: MoveStep::Bring }) => {
                        leading.leader.let_go(relocation);
                        Vec::new()
                    }
                    (None, _) => Vec::new(),
                    (Some(answer), Errand::Audit { era }) => {
                        leading.audited(id, place, era, &answer);
                        Vec::new()
                    }
                    (Some(answer), _) => leading.leader.answered(errand, id, place, &answer),
                };
                match errand {
                    Errand::Move { relocation, step: MoveStep::Take } => leading.end_asking(relocation),
                    Errand::Move { relocation, step: MoveStep::Bring } => leading.end_content(relocation),
                    _ => {}
                }
                orders
            });
            drop(permit);
        });
    }
}

/// The relocation whose content is asked for.
fn taking(errand: Errand) -> Option<u64> {
    match errand {
        Errand::Move { relocation, step: MoveStep::Take } => Some(relocation),
        _ => None,
    }
}
