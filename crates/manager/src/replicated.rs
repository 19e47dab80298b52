//! The backing of a manager with several members: commands go through a group of `consensus`.
//!
//! ```text
//!   propose ─▶ waiting table ─▶ driver ── leader here ──▶ group ─▶ log of a quorum ─▶ every member's Replica ─▶ published
//!                    ▲            └────── leader there ──▶ its service ──▲                     │
//!                    └──────────────── own proposal: its closure is run, its caller is told ◄──┘
//! ```
//!
//! Replies need no bytes: they come about where the proposal was made, when that member's own state machine reaches it.
//!
//! Invariants
//! - A proposal takes effect once, however often it is sent: every member remembers which serials of which proposers it has seen.
//! - Commands are counted by the state machine, densely; the consensus log has other entries too.
//! - What a member proposes for another was decoded first: bytes that are no command never reach the log.
//! - A caller is told by [`PROPOSE_DEADLINE`] at the latest.
//!
//! [`PROPOSE_DEADLINE`]: crate::limits::PROPOSE_DEADLINE

mod assembly;
mod drive;
mod image;
mod leader;
mod members;
mod proposal;
mod replica;
mod serve;
mod sessions;
mod voices;
mod waiting;
mod wire;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use consensus::{Group, GroupId, Node, Transport};
use env::Env;
use tokio::sync::Semaphore;

use crate::error::OpenReplicatedError;
use crate::limits::{MAX_REQUESTS_TO_MEMBERS, MAX_WAITING_PROPOSALS};
use crate::published::Published;
pub(crate) use crate::replicated::members::{MemberChange, has_vote};
use crate::replicated::replica::Replica;
pub(crate) use crate::replicated::serve::ManagerService;
use crate::replicated::waiting::Waiting;
use crate::snapshot::Snapshot;

#[cfg(test)]
pub(crate) use proposal::{Content, Proposal, ProposalError, ProposalId};
#[cfg(test)]
pub(crate) use wire::{Answer, Ask, decode, encode};
#[cfg(test)]
pub(crate) use {assembly::Assemblies, image::Image, sessions::Sessions};

/// How often it is looked whether a snapshot is made.
const SNAPSHOT_LOOK: Duration = Duration::from_millis(10);

/// The group of the managers, on every node.
pub const MANAGER_GROUP: GroupId = GroupId(1);

/// What a member of a replicated manager needs besides its node.
#[derive(Clone)]
pub struct ReplicatedOptions {
    /// [`MANAGER_GROUP`], unless one process plays several clusters.
    pub group: GroupId,
    /// The way to the other members' [`crate::Manager::service`], at the addresses that the group has for them.
    pub transport: Arc<dyn Transport>,
}

/// One member of a replicated manager.
pub(crate) struct Replicated {
    env: Env,
    group: Group<Replica>,
    transport: Arc<dyn Transport>,
    /// Names this process in its proposals.
    proposer: u64,
    published: Arc<Published>,
    waiting: Arc<Waiting>,
    /// One permit for each proposal that waits.
    proposals: Arc<Semaphore>,
    /// One permit for each request to another member.
    requests: Semaphore,
    /// Commands in pieces go one at a time.
    pieces: Semaphore,
    /// Changes of members that this node makes as the leader go one at a time.
    changes: Arc<Semaphore>,
    /// How often somebody was asked in vain since who leads has answered.
    in_vain: AtomicUsize,
}

impl Replicated {
    /// `first`: the state with which a new group begins; for one that stands in the log, the one with which it began.
    pub(crate) async fn open(
        env: &Env,
        node: &Node,
        options: ReplicatedOptions,
        first: Snapshot,
    ) -> Result<Arc<Replicated>, OpenReplicatedError> {
        let proposer = env.random_u64();
        let waiting = Arc::new(Waiting::new());
        let replica = Replica::new(first, proposer, Arc::clone(&waiting));
        let published = Arc::clone(replica.published());
        let group = node.start_group(options.group, replica).await?;
        Ok(Arc::new(Replicated {
            env: env.clone(),
            group,
            transport: options.transport,
            proposer,
            published,
            waiting,
            proposals: Arc::new(Semaphore::new(MAX_WAITING_PROPOSALS)),
            requests: Semaphore::new(MAX_REQUESTS_TO_MEMBERS),
            pieces: Semaphore::new(1),
            changes: Arc::new(Semaphore::new(1)),
            in_vain: AtomicUsize::new(0),
        }))
    }

    /// What readers see.
    pub(crate) fn published(&self) -> &Arc<Published> {
        &self.published
    }

    /// Makes a snapshot, and returns when it is durable.
    pub(crate) async fn snapshot_now(&self) {
        self.group.make_snapshot().await;
        while self.group.status().snapshot.is_none() {
            self.env.sleep(SNAPSHOT_LOOK).await;
        }
    }

    /// Asks for a snapshot, so that the log can be shortened; it is made later.
    pub(crate) async fn persist(&self) {
        self.group.make_snapshot().await;
    }
}
