//! The record of a data partition: what its group replicates.
//!
//! Invariants
//! - Copies in sync are copies. Once there were two in sync, two stay.
//! - `settled_below` never shrinks. At most [`MAX_OPEN`] extents are open.
//! - A command of a reign that another reign has followed changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use consensus::{FrozenState, Keeping, LogIndex, MachineError, StateMachine, Whole};
use serde::{Deserialize, Serialize};
use types::{DeviceId, NodeId};

use super::limits::MAX_OPEN;
use crate::ids::ExtentId;

/// Place of an extent in the order of making: term and number.
pub type Place = (u32, u64);

/// Which copies there are, and where they may differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The newest reign that has changed it.
    pub reign: u64,
    pub copies: BTreeMap<NodeId, DeviceId>,
    pub in_sync: BTreeSet<NodeId>,
    /// Extents that were made before this place are settled, but for the open ones.
    pub settled_below: Place,
    pub open: BTreeSet<ExtentId>,
}

/// A command, of the primary of a reign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    pub reign: u64,
    pub change: RecordChange,
}

/// What a command changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordChange {
    /// The first copy.
    Found {
        node: NodeId,
        device: DeviceId,
    },
    /// Which copies there are. New ones, and those on another device than before, are out.
    SetCopies(BTreeMap<NodeId, DeviceId>),
    Leave(NodeId),
    Join(NodeId),
    Open(ExtentId),
    Settle {
        below: Place,
        open: BTreeSet<ExtentId>,
    },
}

/// Why a command changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum RecordRefusal {
    #[error("a newer primary has changed the record")]
    Reign,
    #[error("two copies stay in sync")]
    Few,
    #[error("the record is not such that this can be done")]
    Impossible,
}

impl Record {
    pub fn is_unsettled(&self, extent: ExtentId) -> bool {
        place(extent) >= self.settled_below || self.open.contains(&extent)
    }

    /// Whether a copy may leave the set: two that are in sync stay.
    pub fn may_leave(&self, node: NodeId) -> bool {
        !self.in_sync.contains(&node) || self.in_sync.len() > 2
    }

    fn change(&mut self, change: RecordChange) -> Result<(), RecordRefusal> {
        match change {
            RecordChange::Found { node, device } => {
                if self.copies.get(&node) == Some(&device) {
                    return Ok(());
                }
                if !self.copies.is_empty() {
                    return Err(RecordRefusal::Impossible);
                }
                self.copies.insert(node, device);
                self.in_sync.insert(node);
            }
            RecordChange::SetCopies(copies) => {
                if self.in_sync.iter().any(|node| copies.get(node) != self.copies.get(node)) {
                    return Err(RecordRefusal::Impossible);
                }
                self.copies = copies;
            }
            RecordChange::Leave(node) => {
                if !self.may_leave(node) {
                    return Err(RecordRefusal::Few);
                }
                self.in_sync.remove(&node);
            }
            RecordChange::Join(node) => {
                if !self.copies.contains_key(&node) {
                    return Err(RecordRefusal::Impossible);
                }
                self.in_sync.insert(node);
            }
            RecordChange::Open(extent) => {
                if !self.open.contains(&extent) && self.open.len() >= MAX_OPEN {
                    return Err(RecordRefusal::Impossible);
                }
                self.open.insert(extent);
            }
            RecordChange::Settle { below, open } => {
                if below < self.settled_below || open.len() > MAX_OPEN {
                    return Err(RecordRefusal::Impossible);
                }
                (self.settled_below, self.open) = (below, open);
            }
        }
        Ok(())
    }
}

/// Where an extent stands in the order of making.
pub fn place(extent: ExtentId) -> Place {
    (extent.term, extent.number)
}

impl StateMachine for Record {
    type Command = Command;
    type Reply = Result<(), RecordRefusal>;

    fn encode(command: &Command) -> Vec<u8> {
        postcard::to_allocvec(command).expect("a command has no type that can't be written")
    }

    fn decode(bytes: &[u8]) -> Result<Command, MachineError> {
        postcard::from_bytes(bytes).map_err(|error| MachineError(error.to_string()))
    }

    fn apply(&mut self, _: LogIndex, command: Command) -> Result<Self::Reply, MachineError> {
        if command.reign < self.reign {
            return Ok(Err(RecordRefusal::Reign));
        }
        self.reign = command.reign;
        Ok(self.change(command.change))
    }

    fn keeping(&mut self) -> Keeping<'_> {
        Keeping::Whole(self)
    }
}

impl Whole for Record {
    fn snapshot(&self) -> FrozenState {
        let state = self.clone();
        Box::new(move || postcard::to_allocvec(&state).expect("a record has no type that can't be written"))
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), MachineError> {
        *self = postcard::from_bytes(snapshot).map_err(|error| MachineError(error.to_string()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
