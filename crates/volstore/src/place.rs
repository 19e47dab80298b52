//! Where the objects of volume buckets are: which node is the primary of a name's placement group.

use std::sync::{Arc, OnceLock};

use ::engine::EngineError;
use env::Env;
use manager::{Manager, PLACEMENT_GROUPS};
use net::{Caller, ServiceTag};
use types::NodeId;

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

    pub fn group_of(name: &Name) -> u32 {
        name.group(PLACEMENT_GROUPS)
    }

    /// The office of a group that this node is the primary of.
    pub fn office(&self, group: u32) -> Option<Arc<Office>> {
        self.members()?.group(group)?.office()
    }

    /// Why this node, which is a group's primary, can't serve it, if that is known.
    pub fn obstacle(&self, group: u32) -> Option<EngineError> {
        let primary = self.inner.manager.snapshot().placement(group)?.primary;
        self.members().filter(|_| primary == self.inner.me)?.obstacle(group)
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
