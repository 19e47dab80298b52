//! What stands behind one shard's lock.

use super::reading::ReadOp;
use crate::machine::Shard;
use crate::write::WriteOp;
use format::name_entry::NameEntry;
use format::record::WriteId;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use topology::ReplicaTable;

/// An operation, as the machine names it to the shell.
#[derive(Clone)]
pub(crate) enum Op {
    Write(Arc<WriteOp>),
    Read(Arc<ReadOp>),
}

impl Op {
    /// Whether it is this write.
    pub fn is(&self, write: &Arc<WriteOp>) -> bool {
        matches!(self, Op::Write(op) if Arc::ptr_eq(op, write))
    }
}

/// A shard's machine, and what has to change together with it.
pub(crate) struct Keys {
    machine: Shard<Op>,
    /// Where writes of these keys go. It changes with the view under the same lock: no write goes by an older table once the shard has
    /// installed the view that brings a newer one (decision 2).
    pub table: Arc<ReplicaTable>,
    /// What lists will say of entries that the machine holds until their gateway is decided.
    pub held_names: BTreeMap<WriteId, NameEntry>,
}

impl Keys {
    pub fn new(machine: Shard<Op>, table: Arc<ReplicaTable>) -> Self {
        Keys { machine, table, held_names: BTreeMap::new() }
    }

    /// Recovered entries that the machine holds, with what lists will say.
    pub fn held(&self) -> Vec<NameEntry> {
        self.held_names.values().filter(|name| self.machine.holds(&name.entry)).cloned().collect()
    }
}

impl Deref for Keys {
    type Target = Shard<Op>;

    fn deref(&self) -> &Shard<Op> {
        &self.machine
    }
}

impl DerefMut for Keys {
    fn deref_mut(&mut self) -> &mut Shard<Op> {
        &mut self.machine
    }
}
