//! One member of a placed group: what the group knows of where it is to be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use consensus::{Group, GroupId, NodeId, StateMachine};
use env::Env;
use manager::{GroupKey, Manager, Snapshot};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::membership::{are_members, change_members};

/// Members of a group, and where they listen.
pub type Addresses = BTreeMap<NodeId, String>;

/// A placed group, on this node.
pub struct Placed<S> {
    pub(crate) env: Env,
    key: GroupKey,
    group: Group<S>,
    manager: Arc<Manager>,
    /// One change of members at a time.
    changing: Arc<Semaphore>,
    /// What takes over from this node, which was removed and does not hear the manager any more.
    successors: Mutex<Option<Addresses>>,
}

/// How consensus names a placed group. The manager's own group has a lower number than all of them.
pub fn group_id(key: GroupKey) -> GroupId {
    GroupId((u64::from(key.kind.0) << 32) + u64::from(key.number))
}

/// How consensus names these nodes, and where they listen; those that are gone are left out.
pub fn member_ids(state: &Snapshot, nodes: &[types::NodeId]) -> Addresses {
    let nodes = nodes.iter().filter_map(|node| state.node(*node));
    nodes.map(|node| (NodeId::of_identity(&node.identity.0), node.address.clone())).collect()
}

impl<S: StateMachine> Placed<S> {
    pub fn new(env: &Env, key: GroupKey, group: Group<S>, manager: Arc<Manager>) -> Arc<Placed<S>> {
        let (changing, successors) = (Arc::new(Semaphore::new(1)), Mutex::default());
        Arc::new(Placed { env: env.clone(), key, group, manager, changing, successors })
    }

    pub fn key(&self) -> GroupKey {
        self.key
    }

    pub fn group(&self) -> &Group<S> {
        &self.group
    }

    pub fn manager(&self) -> &Arc<Manager> {
        &self.manager
    }

    /// Where this node leads: the members become those of the manager's record. One change at a time; what fails is tried again. `silent`:
    /// nodes that say nothing to this leader.
    pub(crate) fn keep(self: &Arc<Self>, state: &Snapshot, silent: impl FnOnce() -> BTreeSet<NodeId>) {
        if !self.group.status().is_leader {
            return;
        }
        let successors = self.successors.lock().clone();
        let of_record = || state.group(self.key).map(|record| member_ids(state, &record.members)).unwrap_or_default();
        self.make(successors.unwrap_or_else(of_record), silent);
    }

    fn make(self: &Arc<Self>, wanted: Addresses, silent: impl FnOnce() -> BTreeSet<NodeId>) {
        let status = self.group.status();
        if wanted.is_empty() || !status.is_leader || are_members(&status, &wanted) {
            return;
        }
        let Ok(permit) = self.changing.clone().try_acquire_owned() else { return };
        let (placed, silent) = (self.clone(), silent());
        self.env.spawn(async move {
            match change_members(&placed.group, &wanted, &silent).await {
                Ok(true) => tracing::info!(group = ?placed.key, ?wanted, "the group has other members"),
                Ok(false) => {}
                Err(error) => tracing::info!(group = ?placed.key, %error, "the group's members are not changed yet"),
            }
            drop(permit);
        });
    }

    /// This node was removed. Where it leads: those that are named are the members from now on, and no longer this one.
    pub(crate) fn hand_over(self: &Arc<Self>, named: &Addresses, silent: impl FnOnce() -> BTreeSet<NodeId>) {
        // No others have been named yet.
        if named.is_empty() || named.contains_key(&self.group.node()) {
            return;
        }
        *self.successors.lock() = Some(named.clone());
        if self.group.status().is_leader {
            env::mark("groups: a group handed over by a removed node");
            self.make(named.clone(), silent);
        }
    }
}
