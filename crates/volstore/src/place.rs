//! Where the objects of volume buckets are: on this server alone, or in the placement groups of a cluster.

use std::sync::{Arc, OnceLock};

use env::Env;
use manager::{Manager, PLACEMENT_GROUPS};
use net::{Caller, ServiceTag};
use types::NodeId;

use crate::limits::GROUP_COPIES;
use crate::members::{Members, Ways};
use crate::name::Name;
use crate::office::Office;

/// A node's view of it. Clones are the same one.
#[derive(Clone)]
pub struct Place {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    me: NodeId,
    manager: Arc<Manager>,
    ways: Ways,
    /// None before this node is a member of a group.
    members: OnceLock<Arc<Members>>,
}

/// Where all objects are.
pub enum Whereabouts {
    /// On one server: here, or there will be.
    Lone,
    Groups,
    /// Nowhere yet, or elsewhere, as the reason says.
    Unknown(String),
}

/// A group's primary.
pub enum Primary {
    Here(Arc<Office>),
    There(Arc<dyn Caller>),
}

impl Place {
    pub fn new(env: &Env, me: NodeId, manager: Arc<Manager>, ways: Ways) -> Place {
        let members = OnceLock::new();
        Place { inner: Arc::new(Inner { env: env.clone(), me, manager, ways, members }) }
    }

    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    pub fn manager(&self) -> &Arc<Manager> {
        &self.inner.manager
    }

    pub fn ways(&self) -> &Ways {
        &self.inner.ways
    }

    pub fn members(&self) -> Option<&Arc<Members>> {
        self.inner.members.get()
    }

    /// This node is a member of groups from now on.
    pub fn set_members(&self, members: Arc<Members>) {
        assert!(self.inner.members.set(members).is_ok(), "a node has its groups opened once");
    }

    /// Where all objects are, as far as this node knows.
    pub fn whereabouts(&self) -> Whereabouts {
        let (state, me) = (self.inner.manager.snapshot(), self.inner.me);
        if state.placements().next().is_some() {
            return Whereabouts::Groups;
        }
        let nodes = state.nodes().count();
        match state.lone_store() {
            Some(node) if node != me && nodes > 0 => {
                let name = state.node(node).map_or_else(|| format!("node {node}"), |node| node.name.clone());
                Whereabouts::Unknown(format!(
                    "the objects of volume buckets are on {name} alone, which had them before there were other nodes: ask it"
                ))
            }
            Some(_) => Whereabouts::Lone,
            None if nodes <= 1 => Whereabouts::Lone,
            None if nodes < GROUP_COPIES => {
                Whereabouts::Unknown(format!("volume buckets of a cluster need {GROUP_COPIES} nodes, and this one has {nodes}"))
            }
            // They are being made.
            None => Whereabouts::Groups,
        }
    }

    pub fn group_of(name: &Name) -> u32 {
        name.group(PLACEMENT_GROUPS)
    }

    /// The office of a group that this node is the primary of.
    pub fn office(&self, group: u32) -> Option<Arc<Office>> {
        let view = self.inner.manager.snapshot().placement(group)?.view;
        self.members()?.group(group)?.office().filter(|office| office.view == view)
    }

    /// The primary of a group; none if it does not serve yet, or there is no way to it.
    pub fn primary(&self, group: u32) -> Option<Primary> {
        let primary = self.inner.manager.snapshot().placement(group)?.primary;
        if primary == self.inner.me {
            return self.office(group).map(Primary::Here);
        }
        (self.inner.ways)(primary, ServiceTag::OBJECTS).map(Primary::There)
    }
}
