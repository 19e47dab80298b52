//! Cells of several gateways (docs/rfd/0005).
//!
//! ```text
//!                 register                install with it            begin removal, leave,
//!                                         (nobody removing,          its node registers anew
//!                                         nobody undecided)
//!      (none) ───────────────▶ learner ─────────────────▶ member ───────────────────▶ removing
//!                                 │                                                      │ install without it: fence raised
//!                                 │ leave, its node registers anew                       ▼
//!                                 └──────────▶ (none) ◀─────────────────────────── undecided
//!                                                        recovery is finished
//! ```
//!
//! A founding ends all of this at once: every member is fenced, nobody is undecided, because the founder decides everything from what is on
//! the devices.
//!
//! Invariants:
//! - Numbers of views and generations of tables only rise; so do fences.
//! - A member leaves a view only out of `removing`: from then on nobody renews its lease, whichever manager leads.
//! - Nobody is added while somebody is undecided, leaves, or recovers everything.
//! - A table that came with a view is kept until a checkpoint has covered every write that may have gone by it (docs/rfd/0004, rule 2).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use topology::{MAX_CELL_GATEWAYS, ReplicaTable, View};
use types::{CellId, GatewayId, Generation, NodeId, Token, ViewNumber};

use crate::kind::Record;
use crate::limits::{GENERATION_LIMIT, MAX_FORMER_TABLES, NUMBER_LIMIT};
use crate::snapshot::{ImpossibleNumber, ImpossibleState, Snapshot, check_number};

/// Views of each cell that an import skips.
pub const IMPORT_SKIPPED_VIEWS: u64 = 1 << 32;

/// Generations of each cell's tables that an import skips.
pub const IMPORT_SKIPPED_GENERATIONS: u32 = 1 << 16;

/// Gateways of each cell that an import skips.
pub const IMPORT_SKIPPED_GATEWAYS: u16 = 1 << 10;

/// A cell, its gateways and its view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellRecord {
    pub id: CellId,
    /// None before the cell was founded first.
    pub installed: Option<InstalledView>,
    /// Gateways in the view, and learners: those that are registered and not in it.
    pub members: BTreeMap<GatewayId, Member>,
    /// Members of the view that will leave it: nobody renews their leases.
    pub removing: BTreeSet<GatewayId>,
    /// Those of them that have stopped answering reads: nobody waits for their leases.
    pub ended: BTreeSet<GatewayId>,
    /// Gateways that left a view, and whose writes are not decided.
    pub undecided: BTreeMap<GatewayId, Member>,
    /// The least token that may append, by node. Every target loads these before it serves.
    pub fences: BTreeMap<NodeId, Token>,
    /// The newest generation of the cell's tables. Never used again.
    pub generation: Generation,
    /// The newest gateway's number. Counts up, and begins again behind the greatest.
    pub last_gateway: GatewayId,
    /// Tables of former views by which writes went that no checkpoint has covered, by generation. No two are laid out alike, nor is one
    /// like the table in force. Who founds the cell, or recovers who left it, judges by them what it can decide.
    pub former_tables: Vec<ReplicaTable>,
}

/// A view that was installed, and what came into force with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledView {
    pub view: View,
    pub table: ReplicaTable,
    /// Leads recovery and work in the background: the least member that was in the view before.
    pub leader: GatewayId,
    /// The view's one member recovers everything from the devices, because no former member lives.
    pub founding: bool,
}

/// An incarnation of a node's gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub node: NodeId,
    /// Appends carry it. No other incarnation has it.
    pub token: Token,
}

impl CellRecord {
    pub(crate) fn new(id: CellId, generation: Generation) -> CellRecord {
        CellRecord {
            id,
            installed: None,
            members: BTreeMap::new(),
            removing: BTreeSet::new(),
            ended: BTreeSet::new(),
            undecided: BTreeMap::new(),
            fences: BTreeMap::new(),
            generation,
            last_gateway: GatewayId(0),
            former_tables: Vec::new(),
        }
    }

    /// The view's number; 0 before the first.
    pub fn view_number(&self) -> ViewNumber {
        self.installed.as_ref().map_or(ViewNumber(0), |installed| installed.view.number())
    }

    /// Members of the view, ascending; none before the first.
    pub fn view_members(&self) -> &[GatewayId] {
        self.installed.as_ref().map_or(&[], |installed| installed.view.members())
    }

    /// Whether nobody more is taken into the view.
    pub fn is_full(&self) -> bool {
        self.view_members().len() >= MAX_CELL_GATEWAYS
    }

    /// Whether a gateway is in the view, be it that it is about to leave it.
    pub fn is_in_view(&self, gateway: GatewayId) -> bool {
        self.installed.as_ref().is_some_and(|installed| installed.view.contains(gateway))
    }

    /// The gateways that a node has registered.
    pub(crate) fn of_node(&self, node: NodeId) -> impl Iterator<Item = (GatewayId, Token)> {
        self.members.iter().filter(move |(_, member)| member.node == node).map(|(gateway, member)| (*gateway, member.token))
    }

    /// The newest gateway that a node has registered; 0 without one.
    pub fn newest_of(&self, node: NodeId) -> Token {
        self.of_node(node).map(|(_, token)| token).max().unwrap_or(Token(0))
    }

    /// Gateways that are registered and not in the view, ascending.
    pub fn learners(&self) -> impl Iterator<Item = (GatewayId, Member)> {
        self.members.iter().filter(|(gateway, _)| !self.is_in_view(**gateway)).map(|(gateway, member)| (*gateway, *member))
    }

    /// Whether its members recover everything from the devices.
    pub fn is_founding(&self) -> bool {
        self.installed.as_ref().is_some_and(|installed| installed.founding)
    }

    /// The least token that may append for a node; 0 if none was ever raised.
    pub fn fence(&self, node: NodeId) -> Token {
        self.fences.get(&node).copied().unwrap_or(Token(0))
    }

    /// Puts a table in force and keeps the one before. Of equal layouts the newest stands for all: the same keys wait for the same devices.
    pub(crate) fn install(&mut self, next: InstalledView) {
        if let Some(before) = self.installed.take() {
            self.former_tables.retain(|former| !former.is_laid_out_as(&before.table));
            self.former_tables.push(before.table);
        }
        self.former_tables.retain(|former| !former.is_laid_out_as(&next.table));
        self.installed = Some(next);
    }

    fn check_numbers(&self, state: &Snapshot) -> Result<(), ImpossibleNumber> {
        check_number("view", self.view_number().0, NUMBER_LIMIT)?;
        check_number("generation", u64::from(self.generation.0), u64::from(GENERATION_LIMIT))?;
        for member in self.members.values().chain(self.undecided.values()) {
            check_number("token", member.token.0, state.applied.0 + 1)?;
        }
        self.fences.values().try_for_each(|fence| check_number("fence", fence.0, state.applied.0 + 2))
    }

    /// For a record that was read: what contradicts itself in it.
    fn contradiction(&self) -> Option<&'static str> {
        let view = self.view_members();
        let is_in_view = |gateway: &GatewayId| view.binary_search(gateway).is_ok();
        let leader_is_member = self.installed.as_ref().is_none_or(|installed| installed.view.contains(installed.leader));
        let generation_is_known =
            self.installed.as_ref().is_none_or(|installed| installed.table.generation() <= self.generation);
        let checks = [
            (view.iter().all(|gateway| self.members.contains_key(gateway)), "a member of the view that is not registered"),
            (self.removing.iter().all(is_in_view), "a removal of a gateway that is not in the view"),
            (self.ended.is_subset(&self.removing), "an ended gateway that is not removed"),
            (
                self.undecided.keys().all(|gateway| !self.members.contains_key(gateway)),
                "an undecided gateway that is registered",
            ),
            (leader_is_member, "a leader that is not in the view"),
            (generation_is_known, "a table of a generation that was not given out"),
            (!self.is_founding() || view.len() == 1, "a founding of several members"),
            (self.former_tables.len() <= MAX_FORMER_TABLES, "more former tables than there can be"),
            (self.are_tables_ascending(), "former tables that do not come before the one in force"),
            (self.members.values().all(|member| member.token >= self.fence(member.node)), "a gateway behind its fence"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }

    fn are_tables_ascending(&self) -> bool {
        let in_force = self.installed.as_ref().map(|installed| &installed.table);
        self.former_tables.iter().chain(in_force).is_sorted_by(|one, next| one.generation() < next.generation())
    }
}

impl Record for CellRecord {
    type Key = CellId;

    const TAG: u8 = 12;
    const NAME: &'static str = "cell";

    fn is_at(&self, key: &CellId) -> bool {
        self.id == *key
    }

    fn check(&self, key: &CellId, state: &Snapshot) -> Result<(), ImpossibleState> {
        self.check_numbers(state)?;
        self.contradiction().map_or(Ok(()), |what| Err(Self::refuse(key, what)))
    }

    /// The view stays, under a number that was never seen.
    fn skip_lost(&mut self) {
        self.generation.0 = self.generation.0.saturating_add(IMPORT_SKIPPED_GENERATIONS);
        self.last_gateway.0 = self.last_gateway.0.wrapping_add(IMPORT_SKIPPED_GATEWAYS);
        if let Some(installed) = &mut self.installed {
            let number = ViewNumber(installed.view.number().0.saturating_add(IMPORT_SKIPPED_VIEWS));
            installed.view = View::new(number, installed.view.members().to_vec()).expect("it had these members before");
        }
    }
}
