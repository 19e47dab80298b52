//! The driver of one relocation (RFD 11, rule 7), or of another change of places (RFD 18).
//!
//! ```text
//!   raise ─► others ─ all ─► depart ─► source ─► take (source; if that has nothing, the newest of the others) ─► bring ─► target ─► moved
//!
//!   after another target was given up:  discard ─► that target ─► raise
//!   without a source nobody departs;  without a target: raised, and at least one is there ─► moved
//! ```
//!
//! Until the others have answered the source is what it was: gets go on where one of them is away. A write needs all copies in one era: what is completed
//! meanwhile is of the old one, and the source has it when it departs.
//!
//! What was brought to a target that was given up answers as any copy does, and who has an old map of a chunk's places may be led to it. In the new era writes are
//! completed without it: so it answers nobody before a copy is of that era.
//!
//! A copy that is to stay and is not there takes no write, of the old era or of the new one: the relocation goes on without it, and it is found
//! missing afterwards, as any other. A dead copy stops it: the unit hears of that from the node, and ends the chunk.

use std::collections::{BTreeMap, BTreeSet};

use format::chunk_command::ChunkCommand;
use format::chunk_id::ChunkId;
use format::chunk_place::BlockPlace;

use super::{Errand, Lost, MoveStep, Order};
use crate::limits::BRING_REST_TICKS;
use crate::maintenance::{GivenUp, Move};
use crate::message::{LiveCopy, Mark, NodeAnswer, NodeRefusal, NodeRequest, ToNode};

pub(super) struct Driver {
    asked: Move,
    /// Targets that were given up before, and may answer somebody.
    left_behind: Vec<GivenUp>,
    /// Copies that belong to the new era, and what they had then: nothing is written to them but in that era.
    raised: BTreeMap<BlockPlace, Mark>,
    /// Copies that stay, and are not there: they were asked to raise their era.
    missing: BTreeSet<BlockPlace>,
    /// The source answers nobody: it has departed, or is lost; or there is none.
    has_departed: bool,
    /// Copies without content that could be taken.
    empty: BTreeSet<BlockPlace>,
    /// All copies were asked, and none had content then.
    has_found_nothing: bool,
    taken: Option<LiveCopy>,
    /// Ticks until a content is asked for again that was not taken.
    rests: u32,
    /// Nothing was brought there before this driver began.
    is_target_empty: bool,
    is_brought: bool,
}

impl Driver {
    pub fn new(asked: Move, left_behind: Vec<GivenUp>) -> Self {
        let (raised, missing, empty) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let mut driver = Driver {
            asked,
            left_behind,
            raised,
            missing,
            has_departed: false,
            empty,
            has_found_nothing: false,
            taken: None,
            rests: 0,
            is_target_empty: false,
            is_brought: false,
        };
        driver.hear(asked, &Lost::default());
        driver
    }

    /// The state says so now: the source may have been lost since. Where no copy had content, all are asked again: they may have been written,
    /// or their devices be back.
    pub fn hear(&mut self, asked: Move, lost: &Lost) {
        self.asked = asked;
        self.rests = self.rests.saturating_sub(1);
        if asked.places.iter().all(|place| self.empty.contains(&place) || lost.holds(place)) {
            self.has_found_nothing = true;
            self.empty.clear();
            if self.raised.is_empty() {
                self.missing.clear();
            }
        }
        self.has_departed |= asked.is_lost || asked.from.is_none();
        if asked.is_lost {
            self.empty.extend(asked.from);
        }
    }

    /// Whether this chunk's relocation can't end, as far as is known: no copy has anything to bring.
    pub fn has_nothing_for(&self, id: ChunkId) -> bool {
        self.asked.id == id && self.has_found_nothing && self.taken.is_none() && !self.is_brought
    }

    pub fn target(&self) -> Option<BlockPlace> {
        self.asked.to
    }

    pub fn holds_content(&self) -> bool {
        self.taken.is_some()
    }

    /// The content is not kept until its target takes it: others have none in memory meanwhile.
    pub fn let_go(&mut self) {
        if self.taken.take().is_some() {
            self.rests = BRING_REST_TICKS;
        }
    }

    /// What is to be asked now, again if it was asked before.
    pub fn orders(&self, lost: &Lost) -> Vec<Order> {
        let Move { id, from, to, era, relocation, .. } = self.asked;
        if self.is_brought {
            return vec![Order::Propose(ChunkCommand::Moved { id, relocation })];
        }
        let left_behind = self.left_behind.iter().filter(|left| !lost.holds(left.place));
        let discards: Vec<Order> = left_behind.map(|left| self.discard(left)).collect();
        if !discards.is_empty() {
            return discards;
        }
        if let Some(LiveCopy { version, capacity, is_settled, content: Some(content), .. }) = self.taken.clone()
            && let Some(to) = to
        {
            let request = NodeRequest::Bring { relocation, era, capacity, version, is_settled, content };
            return vec![self.order(MoveStep::Bring, to, request)];
        }
        // No write of the old era can be completed any more. A copy that is lost, or not there, takes none either.
        let is_decided = |place: &BlockPlace| self.raised.contains_key(place) || self.missing.contains(place);
        if self.has_departed && self.survivors(lost).all(|place| is_decided(&place)) {
            let Some(to) = to else {
                // Those that stay have all that anybody was told; but one must be there.
                let is_any_left = self.survivors(lost).any(|place| self.raised.contains_key(&place));
                return is_any_left.then_some(Order::Propose(ChunkCommand::Moved { id, relocation })).into_iter().collect();
            };
            // Where no copy is left, a former leader may have brought it there before that.
            let is_at_target = !self.is_target_empty && self.asked.places.iter().all(|place| lost.holds(place));
            let place = self.best(lost).or(Some(to).filter(|_| is_at_target));
            let take =
                place.filter(|_| self.rests == 0).map(|place| self.order(MoveStep::Take, place, NodeRequest::Take { era }));
            return take.into_iter().collect();
        }
        let unraised = self.survivors(lost).filter(|place| !is_decided(place));
        let mut orders: Vec<Order> =
            unraised.map(|place| self.order(MoveStep::Raise, place, NodeRequest::Raise { era })).collect();
        // Not before the others have answered: where one of them is away the source may be the only copy that can be read.
        if orders.is_empty()
            && let Some(from) = from.filter(|_| !self.has_departed)
        {
            orders.push(self.order(MoveStep::Depart, from, NodeRequest::Depart { era }));
        }
        orders
    }

    /// The copy to take: the source, or the newest of the others. A copy whose newest header rotted has an older version than it was told to keep.
    fn best(&self, lost: &Lost) -> Option<BlockPlace> {
        let Move { from, .. } = self.asked;
        let has_content = |place: &BlockPlace| !self.empty.contains(place);
        let others = || self.survivors(lost).filter(has_content);
        from.filter(has_content).or_else(|| others().max_by_key(|place| self.raised.get(place).copied()))
    }

    pub fn answered(&mut self, step: MoveStep, place: BlockPlace, answer: &NodeAnswer, lost: &Lost) -> Vec<Order> {
        match (step, answer) {
            (MoveStep::Discard, NodeAnswer::Departed) => self.left_behind.retain(|left| left.place != place),
            (MoveStep::Depart, NodeAnswer::Departed) => self.has_departed = true,
            (MoveStep::Depart, NodeAnswer::Absent) => {
                self.has_departed = true;
                self.empty.insert(place);
            }
            (MoveStep::Raise, NodeAnswer::Done(Some(mark))) => {
                self.raised.insert(place, *mark);
            }
            (MoveStep::Raise, NodeAnswer::Absent | NodeAnswer::Departed) => {
                self.missing.insert(place);
                self.empty.insert(place);
            }
            (MoveStep::Take, NodeAnswer::Live(_)) if Some(place) == self.asked.to => self.is_brought = true,
            (MoveStep::Take, NodeAnswer::Absent) if Some(place) == self.asked.to => self.is_target_empty = true,
            (MoveStep::Take, NodeAnswer::Live(copy)) if self.taken.is_none() => self.take(copy, place, lost),
            // Another copy must do.
            (MoveStep::Take, NodeAnswer::Damaged | NodeAnswer::Absent) => _ = self.empty.insert(place),
            (MoveStep::Take, NodeAnswer::OtherEra) => return self.fell_back(place),
            (MoveStep::Bring, NodeAnswer::Done(_)) => (self.is_brought, self.taken) = (true, None),
            (MoveStep::Bring, NodeAnswer::Refused(NodeRefusal::Full | NodeRefusal::Failed)) => {
                self.let_go();
                return vec![Order::NeedsTarget(self.asked)];
            }
            (MoveStep::Bring, _) => self.let_go(),
            _ => return Vec::new(),
        }
        self.orders(lost)
    }

    /// A copy is of a former era though it was raised, or has departed: the header that said so has rotted. At the next tick it is asked for that again, not at once:
    /// where this relocation is over, and nobody has heard of that here, it is of a later one.
    fn fell_back(&mut self, place: BlockPlace) -> Vec<Order> {
        if Some(place) == self.asked.to {
            // Nothing of this relocation is there.
            self.is_target_empty = true;
        } else if Some(place) == self.asked.from {
            self.has_departed = false;
        } else {
            self.raised.remove(&place);
        }
        Vec::new()
    }

    /// Takes a copy, unless another one is newer.
    fn take(&mut self, copy: &LiveCopy, place: BlockPlace, lost: &Lost) {
        let newest =
            self.survivors(lost).filter(|place| !self.empty.contains(place)).filter_map(|place| self.raised.get(&place));
        if newest.max().is_some_and(|newest| *newest > Mark::Live(copy.version)) {
            self.empty.insert(place);
        } else {
            (self.taken, self.has_found_nothing) = (Some(copy.clone()), false);
        }
    }

    /// The copies that stay.
    fn survivors<'a>(&'a self, lost: &'a Lost) -> impl Iterator<Item = BlockPlace> + 'a {
        self.asked.places.iter().filter(|place| Some(*place) != self.asked.from && !lost.holds(*place))
    }

    fn discard(&self, left: &GivenUp) -> Order {
        let GivenUp { place, era, moves } = *left;
        self.order(MoveStep::Discard, place, NodeRequest::Discard { era, moves })
    }

    fn order(&self, step: MoveStep, place: BlockPlace, request: NodeRequest) -> Order {
        let errand = Errand::Move { relocation: self.asked.relocation, step };
        Order::Node { errand, to: ToNode { place, id: self.asked.id, request } }
    }
}

#[cfg(test)]
mod tests;
