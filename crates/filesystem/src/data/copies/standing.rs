//! Which copies take a change, and where a rebuild is. No I/O.
//!
//! ```text
//!   extents   0 ............ frontier | held | ............ newest
//!   a copy that is rebuilt   takes changes | none begin | takes none
//! ```
//!
//! Invariants
//! - A change goes to all copies in sync, and to the copy that is rebuilt, where that has the extent already.
//! - Of an extent that is held no change begins, and none is under way at the primary's own copy.
//! - The copy that is rebuilt joins only if every change that it was to take was answered by it.

use std::collections::{BTreeMap, BTreeSet};

use types::NodeId;

use super::limits::{MAX_OPEN, SETTLE_AT};
use super::record::{Place, Record};
use crate::ids::ExtentId;

/// What a primary knows of its partition.
#[derive(Debug)]
pub struct Standing {
    me: NodeId,
    /// As it was committed.
    record: Record,
    next: Place,
    /// How many changes of each extent are under way at the primary's own copy.
    applying: BTreeMap<ExtentId, usize>,
    /// How many changes of each extent are under way, and those since the extents were settled last.
    changing: BTreeMap<ExtentId, usize>,
    touched: BTreeSet<ExtentId>,
    rebuild: Option<Rebuild>,
    is_serving: bool,
}

/// A copy that is rebuilt.
#[derive(Debug)]
struct Rebuild {
    node: NodeId,
    frontier: Frontier,
    held: Held,
    has_failed: bool,
    /// The command that has it join is on its way: it can't fail any more.
    is_joining: bool,
}

/// The last extent that the copy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Frontier {
    Nothing,
    UpTo(ExtentId),
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Nothing,
    One(ExtentId),
    All,
}

/// Where a change goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// To these copies besides the primary's own.
    To(Vec<NodeId>),
    /// A rebuild holds the extent.
    Held,
    /// The record must say first that it is unsettled.
    Settled,
}

/// What a copy is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    InSync,
    Rebuilt,
    Out,
}

impl Standing {
    /// Of a reign that begins.
    pub fn new(me: NodeId, term: u32, record: Record) -> Standing {
        Standing {
            me,
            record,
            next: (term, 1),
            applying: BTreeMap::new(),
            changing: BTreeMap::new(),
            touched: BTreeSet::new(),
            rebuild: None,
            is_serving: false,
        }
    }

    pub fn record(&self) -> &Record {
        &self.record
    }

    /// A command was committed, or its effect is known to come first.
    pub fn set_record(&mut self, record: Record) {
        self.record = record;
    }

    pub fn is_serving(&self) -> bool {
        self.is_serving
    }

    pub fn serve(&mut self) {
        self.is_serving = true;
    }

    /// Whether it may be read: copies in sync are equal there, or were made so.
    pub fn is_readable(&self, extent: ExtentId) -> bool {
        self.is_serving || !self.record.is_unsettled(extent)
    }

    /// Whether the primary's own copy is the only one.
    pub fn is_alone(&self) -> bool {
        self.record.copies.len() == 1 && self.rebuild.is_none()
    }

    pub fn role(&self, node: NodeId) -> Role {
        if self.record.in_sync.contains(&node) {
            Role::InSync
        } else if self.rebuild.as_ref().is_some_and(|rebuild| rebuild.node == node && !rebuild.has_failed) {
            Role::Rebuilt
        } else {
            Role::Out
        }
    }

    /// Copies in sync besides the primary's own.
    pub fn backups(&self) -> Vec<NodeId> {
        self.record.in_sync.iter().copied().filter(|node| *node != self.me).collect()
    }

    /// The id of a new extent.
    pub fn next_extent(&mut self, partition: u32) -> ExtentId {
        let (term, number) = self.next;
        self.next.1 += 1;
        ExtentId { partition, term, number }
    }

    /// A change begins, if it may. [`Standing::applied`] and [`Standing::ended`] follow.
    ///
    /// What gives something back needs no record: it changes no byte that has a key.
    pub fn begin(&mut self, extent: ExtentId, gives_back: bool) -> Begun {
        if self.holds(extent) {
            return Begun::Held;
        }
        let needs_record = !gives_back && !self.is_alone();
        if needs_record && !self.record.is_unsettled(extent) {
            return Begun::Settled;
        }
        *self.applying.entry(extent).or_default() += 1;
        *self.changing.entry(extent).or_default() += 1;
        if needs_record {
            self.touched.insert(extent);
        }
        let mut to = self.backups();
        let takes = |rebuild: &&Rebuild| !rebuild.has_failed && rebuild.frontier >= Frontier::UpTo(extent);
        to.extend(
            self.rebuild.as_ref().filter(takes).map(|rebuild| rebuild.node).filter(|node| !self.record.in_sync.contains(node)),
        );
        Begun::To(to)
    }

    /// The primary's own copy has answered.
    pub fn applied(&mut self, extent: ExtentId) {
        count_down(&mut self.applying, extent);
    }

    /// All copies have, or are out.
    pub fn ended(&mut self, extent: ExtentId) {
        count_down(&mut self.changing, extent);
    }

    /// Whether a change of an extent has not ended at all copies.
    pub fn is_changing(&self, extent: ExtentId) -> bool {
        self.changing.contains_key(&extent)
    }

    #[cfg(test)]
    pub fn has_changes(&self) -> bool {
        !self.changing.is_empty()
    }

    /// A rebuild of a copy begins, if none is under way.
    pub fn begin_rebuild(&mut self, node: NodeId) -> bool {
        if self.rebuild.is_some() {
            return false;
        }
        self.rebuild =
            Some(Rebuild { node, frontier: Frontier::Nothing, held: Held::Nothing, has_failed: false, is_joining: false });
        true
    }

    /// No change of an extent begins from now on; of any extent if none is given.
    pub fn hold(&mut self, extent: Option<ExtentId>) {
        let rebuild = self.rebuild.as_mut().expect("a rebuild is under way");
        rebuild.held = extent.map_or(Held::All, Held::One);
    }

    /// Whether no change of an extent begins.
    pub fn holds(&self, extent: ExtentId) -> bool {
        let held = self.rebuild.as_ref().map_or(Held::Nothing, |rebuild| rebuild.held);
        held == Held::All || held == Held::One(extent)
    }

    /// Whether nothing of what is held is under way at the primary's own copy.
    pub fn is_still(&self) -> bool {
        match self.rebuild.as_ref().map(|rebuild| rebuild.held) {
            Some(Held::One(extent)) => !self.applying.contains_key(&extent),
            Some(Held::All) => self.applying.is_empty(),
            Some(Held::Nothing) | None => true,
        }
    }

    /// Changes begin again.
    pub fn release(&mut self) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.held = Held::Nothing;
        }
    }

    /// The copy has all extents up to one; all that there are if none is given.
    pub fn advance(&mut self, extent: Option<ExtentId>) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.frontier = extent.map_or(Frontier::All, Frontier::UpTo);
        }
    }

    /// The copy that is rebuilt has not taken a change: it can't join. False where it may have joined.
    pub fn fail_rebuild(&mut self, node: NodeId) -> bool {
        let Some(rebuild) = self.rebuild.as_mut().filter(|rebuild| rebuild.node == node) else { return true };
        rebuild.has_failed |= !rebuild.is_joining;
        rebuild.has_failed
    }

    /// The copy is to join now, if it has taken all changes. It is a copy that counts from now on.
    pub fn begin_join(&mut self) -> Option<NodeId> {
        let rebuild = self.rebuild.as_mut().filter(|rebuild| !rebuild.has_failed)?;
        assert_eq!(rebuild.frontier, Frontier::All, "a copy joins when it has all extents");
        rebuild.is_joining = true;
        Some(rebuild.node)
    }

    pub fn end_rebuild(&mut self) {
        self.rebuild = None;
    }

    /// Whether so much is unsettled that it is time to settle.
    pub fn is_settling_due(&self) -> bool {
        let is_much = self.record.open.len() >= SETTLE_AT || self.touched.len() >= SETTLE_AT;
        is_much && !self.is_alone() && self.changing.len() < MAX_OPEN
    }

    /// What is settled from now on: all extents that there are, but for those that are being changed.
    pub fn settle(&mut self) -> (Place, BTreeSet<ExtentId>) {
        let open: BTreeSet<ExtentId> = self.changing.keys().copied().collect();
        self.touched = open.clone();
        (self.record.settled_below, self.record.open) = (self.next, open.clone());
        (self.next, open)
    }
}

fn count_down(counts: &mut BTreeMap<ExtentId, usize>, extent: ExtentId) {
    let count = counts.get_mut(&extent).expect("it was counted");
    *count -= 1;
    if *count == 0 {
        counts.remove(&extent);
    }
}

#[cfg(test)]
mod tests;
