//! The driver of one relocation (RFD 11, rule 7).
//!
//! ```text
//!   depart ─► source ─┐
//!   raise ──► others ─┴─ all ─► take (source; a survivor if that has nothing) ─► bring ─► target ─► moved
//! ```
//!
//! A dead copy stops it: the unit hears of that from the node, and ends the chunk.

use std::collections::BTreeSet;

use format::chunk_command::ChunkCommand;
use format::chunk_place::BlockPlace;
use types::DeviceId;

use super::{Errand, MoveStep, Order};
use crate::maintenance::Move;
use crate::message::{LiveCopy, NodeAnswer, NodeRefusal, NodeRequest, ToNode};

pub(super) struct Driver {
    asked: Move,
    raised: BTreeSet<BlockPlace>,
    /// The source answers nobody: it has departed, or is lost.
    has_departed: bool,
    /// The source has no content that could be taken.
    is_empty: bool,
    taken: Option<LiveCopy>,
    is_brought: bool,
}

impl Driver {
    pub fn new(asked: Move) -> Self {
        let Move { is_lost, .. } = asked;
        Driver { asked, raised: BTreeSet::new(), has_departed: is_lost, is_empty: is_lost, taken: None, is_brought: false }
    }

    /// The state says so now: the source may have been lost since.
    pub fn hear(&mut self, asked: Move) {
        self.asked = asked;
        self.has_departed |= asked.is_lost;
        self.is_empty |= asked.is_lost;
    }

    /// What is to be asked now, again if it was asked before.
    pub fn orders(&self, lost: &BTreeSet<DeviceId>) -> Vec<Order> {
        let Move { id, from, to, era, relocation, .. } = self.asked;
        if self.is_brought {
            return vec![Order::Propose(ChunkCommand::Moved { id, from, to })];
        }
        if let Some(LiveCopy { version, capacity, is_settled, content: Some(content), .. }) = self.taken.clone() {
            let request = NodeRequest::Bring { relocation, era, capacity, version, is_settled, content };
            return vec![self.order(MoveStep::Bring, to, request)];
        }
        let survivors = || self.survivors().filter(|place| !lost.contains(&place.device()));
        // No write of the old era can be completed any more. A lost copy takes none either.
        if self.has_departed && survivors().all(|place| self.raised.contains(&place)) {
            let source = if self.is_empty { survivors().next() } else { Some(from) };
            let take = source.map(|place| self.order(MoveStep::Take, place, NodeRequest::Take { era }));
            return take.into_iter().collect();
        }
        let unraised = survivors().filter(|place| !self.raised.contains(place));
        let mut orders: Vec<Order> =
            unraised.map(|place| self.order(MoveStep::Raise, place, NodeRequest::Raise { era })).collect();
        if !self.has_departed {
            orders.push(self.order(MoveStep::Depart, from, NodeRequest::Depart { era }));
        }
        orders
    }

    pub fn answered(
        &mut self,
        step: MoveStep,
        place: BlockPlace,
        answer: &NodeAnswer,
        lost: &BTreeSet<DeviceId>,
    ) -> Vec<Order> {
        match (step, answer) {
            (MoveStep::Depart, NodeAnswer::Departed) => self.has_departed = true,
            (MoveStep::Depart, NodeAnswer::Absent) => (self.has_departed, self.is_empty) = (true, true),
            (MoveStep::Raise, NodeAnswer::Done(_)) => {
                self.raised.insert(place);
            }
            (MoveStep::Take, NodeAnswer::Live(copy)) if self.taken.is_none() => self.taken = Some(copy.clone()),
            // Another copy must do. With none left the relocation waits for somebody to repair one.
            (MoveStep::Take, NodeAnswer::Damaged | NodeAnswer::Absent) if place == self.asked.from => self.is_empty = true,
            (MoveStep::Bring, NodeAnswer::Done(_)) => self.is_brought = true,
            (MoveStep::Bring, NodeAnswer::Refused(NodeRefusal::Full)) => return vec![Order::NeedsTarget(self.asked)],
            _ => return Vec::new(),
        }
        self.orders(lost)
    }

    fn survivors(&self) -> impl Iterator<Item = BlockPlace> {
        self.asked.places.iter().filter(|place| *place != self.asked.from)
    }

    fn order(&self, step: MoveStep, place: BlockPlace, request: NodeRequest) -> Order {
        let errand = Errand::Move { relocation: self.asked.relocation, step };
        Order::Node { errand, to: ToNode { place, id: self.asked.id, request } }
    }
}
