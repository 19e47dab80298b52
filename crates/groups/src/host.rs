//! The groups of one kind that a node is a member of: started, founded and ended as the manager says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use consensus::{Group, MemberError, NodeId, StateMachine};
use env::{Env, Instant};
use manager::{GroupKey, GroupKind, GroupRecord, Manager, Snapshot};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::limits::{KEEP_LOOK, START_REST};
use crate::placed::{Placed, group_id, member_ids};

/// What a group replicates, and what runs on its members.
pub trait Kind: Send + Sync + 'static {
    type Member: Member;

    const KIND: GroupKind;

    /// The state of a new group, or of one that its log brings to where it was; none if it is not known yet what that is.
    fn machine(&self, number: u32, state: &Snapshot) -> Option<<Self::Member as Member>::Machine>;

    /// Begins to take part. What it runs ends when the member is dropped.
    fn begin(&self, placed: Arc<Placed<<Self::Member as Member>::Machine>>) -> Arc<Self::Member>;
}

/// What runs on a member of a group.
pub trait Member: Send + Sync + 'static {
    type Machine: StateMachine;

    fn placed(&self) -> &Arc<Placed<Self::Machine>>;

    /// Nodes that say nothing to this one, while it leads.
    fn silent(&self) -> BTreeSet<NodeId>;
}

/// A node's members.
pub struct Host<K: Kind> {
    pub(crate) env: Env,
    me: types::NodeId,
    member: consensus::Node,
    manager: Arc<Manager>,
    kind: K,
    running: Mutex<BTreeMap<u32, Arc<K::Member>>>,
    /// This node is no part of the cluster any more: what its manager says has no effect.
    pub(crate) has_left: AtomicBool,
    /// Of the task that starts and ends groups as the manager says.
    pub(crate) following: Semaphore,
}

impl<K: Kind> Host<K> {
    pub fn new(env: &Env, me: types::NodeId, member: consensus::Node, manager: Arc<Manager>, kind: K) -> Host<K> {
        let (env, running, has_left) = (env.clone(), Mutex::default(), AtomicBool::new(false));
        Host { env, me, member, manager, kind, running, has_left, following: Semaphore::new(1) }
    }

    /// Takes part in the groups that the manager says, for as long as the node lives, or until it has left.
    pub async fn run(self: Arc<Self>) {
        let mut changes = self.manager.changes();
        let mut is_changed = true;
        let mut failed_at: Option<Instant> = None;
        let mut next_keep = self.env.now();
        loop {
            let (state, now) = (self.manager.snapshot(), self.env.now());
            if is_changed || failed_at.is_some_and(|at| now.saturating_duration_since(at) >= START_REST) {
                failed_at = (!self.follow(&state).await).then_some(now);
            }
            if self.has_left.load(Ordering::SeqCst) {
                return;
            }
            if now >= next_keep {
                self.all().iter().for_each(|member| member.placed().keep(&state, || member.silent()));
                next_keep = now + KEEP_LOOK;
            }
            is_changed = tokio::select! {
                biased;
                changed = changes.changed() => match changed {
                    Ok(()) => true,
                    Err(_) => return,
                },
                () = self.env.sleep_until(next_keep) => false,
            };
        }
    }

    /// Starts the groups that the manager says this node is a member of, and ends the others; whether all have started.
    pub async fn follow(&self, state: &Snapshot) -> bool {
        // Before it is looked at: what leaves waits for this.
        let _following = self.following.acquire().await.expect("the semaphore is never closed");
        let has_left = || self.has_left.load(Ordering::SeqCst);
        if has_left() {
            return true;
        }
        let wanted: BTreeMap<u32, Arc<GroupRecord>> = state
            .groups_of(K::KIND)
            .filter(|record| record.members.contains(&self.me))
            .map(|record| (record.key.number, record.clone()))
            .collect();
        let running: BTreeSet<u32> = self.running.lock().keys().copied().collect();
        for number in running.iter().filter(|number| !wanted.contains_key(number) && !has_left()) {
            self.end(*number).await;
            let key = GroupKey { kind: K::KIND, number: *number };
            if state.group(key).is_none() {
                self.forget(key).await;
            }
        }
        let mut have_started = true;
        for (number, record) in wanted.iter().filter(|(number, _)| !running.contains(number)) {
            if has_left() {
                break;
            }
            if let Err(error) = self.start(record, state).await {
                tracing::warn!(kind = K::KIND.0, number, %error, "a placed group did not start here");
                have_started = false;
            }
        }
        have_started
    }

    pub(crate) async fn end(&self, number: u32) {
        self.running.lock().remove(&number);
        self.member.stop_group(group_id(GroupKey { kind: K::KIND, number })).await;
    }

    /// A group is no more, for all of its members: what this node has of it goes.
    async fn forget(&self, key: GroupKey) {
        match self.member.remove_group(group_id(key)).await {
            Ok(()) => tracing::info!(group = ?key, "a placed group that is no more is forgotten here"),
            Err(error) => tracing::warn!(group = ?key, %error, "what this node has of a group that is no more stays"),
        }
    }

    async fn start(&self, record: &GroupRecord, state: &Snapshot) -> Result<(), consensus::StartError> {
        let Some(machine) = self.kind.machine(record.key.number, state) else { return Ok(()) };
        let group = self.member.start_group(group_id(record.key), machine).await?;
        if record.founders.contains(&self.me) && group.status().addresses.is_empty() {
            self.found(record, &group, state).await;
        }
        let member = self.kind.begin(Placed::new(&self.env, record.key, group, self.manager.clone()));
        self.running.lock().insert(record.key.number, member);
        Ok(())
    }

    /// Begins the group with the members that it is to begin with, and no others: all founders do the same, so that it does not matter which
    /// is first, or that the record has other members by now.
    async fn found<S: StateMachine>(&self, record: &GroupRecord, group: &Group<S>, state: &Snapshot) {
        let founders = member_ids(state, &record.founders);
        if founders.len() < record.founders.len() {
            return;
        }
        match group.initialize(&founders).await {
            Ok(()) | Err(MemberError::Initialized { .. }) => {}
            Err(error) => tracing::warn!(group = ?record.key, %error, "a placed group has no members yet"),
        }
    }

    /// The members that run here.
    pub fn all(&self) -> Vec<Arc<K::Member>> {
        self.running.lock().values().cloned().collect()
    }

    pub fn get(&self, number: u32) -> Option<Arc<K::Member>> {
        self.running.lock().get(&number).cloned()
    }

    pub fn kind(&self) -> &K {
        &self.kind
    }
}
