//! A node: the groups of one process, their shared log, their way to other nodes, and the tasks that look after them.
//!
//! ```text
//!   Node ── groups ── Core (Raft) ──┬── GroupLog ──► SharedLog ──► wal
//!    │                              └── Links ─────► Transport ──► other nodes
//!    └── tasks: heartbeats of all led groups · the log's housekeeping · snapshots of long logs
//! ```
//!
//! Invariants
//! - A node that comes back does not vote, nor stands for election, for [`LEADER_LEASE`]: what it promised to a leader before it
//!   went down is not in its log, and the leader relies on it for reads.
//! - A message for another node, or for a group that is not here, is refused.
//!
//! What other crates wait for is boxed here and in [`Core`]: Raft is compiled with this crate, and not once more with each crate that waits.

mod serve;

use net::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use env::watch;
use env::{Env, Instant};
use futures_util::future::join_all;
use kv::Kv;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use wal::{AppendError, Failure};

use crate::error::{OpenError, RemoveError, StartError};
use crate::group::Group;
use crate::id::{GroupId, LogIndex, NodeId};
use crate::inbox::Inbox;
use crate::limits::{
    EARLY_SNAPSHOT_BYTES, HEARTBEAT_GATHERING, HEARTBEAT_INTERVAL, HOUSEKEEPING_INTERVAL, LEADER_LEASE, MAX_GROUPS,
    MAX_KEPT_BYTES_BESIDE_ROWS, MAX_PROPOSALS, MAX_REWRITES, SNAPSHOT_AFTER_BYTES,
};
use crate::links::Links;
use crate::log::{Claim, LogPlace, Purpose, SharedLog, entry_bytes_of_full};
use crate::machine::{ErasedMachine, SharedMachine, StateMachine};
use crate::raft::{Core, RaftMachine};
use crate::rows::{RowsError, aside, forget, groups};
use crate::transport::Transport;

/// The groups of one process. Clones share it.
#[derive(Clone)]
pub struct Node {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    env: Env,
    node: NodeId,
    pub(crate) log: SharedLog,
    rows: Arc<dyn Kv>,
    links: Links,
    inbox: Inbox,
    groups: Mutex<BTreeMap<GroupId, Slot>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Somebody saw that the log gets full.
    pressed: Notify,
}

/// A group's place on this node.
enum Slot {
    /// It is being started or stopped.
    Busy,
    Running(Member),
    ShutDown,
}

/// A running group.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) core: Core,
    /// Until then it votes for nobody.
    pub(crate) silent_until: Option<Instant>,
}

/// What a node has sent and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests to peers, heartbeats not included.
    pub requests: u64,
    /// Messages with heartbeats.
    pub heartbeat_messages: u64,
    /// Heartbeats in these messages.
    pub heartbeats: u64,
    /// Segments of the shared log that are in use.
    pub live_segments: usize,
}

impl Node {
    /// Opens a node on its log. Groups that stand in it run when they are started.
    pub fn open<'a>(
        env: &'a Env,
        node: NodeId,
        place: &'a LogPlace,
        transport: Arc<dyn Transport>,
    ) -> BoxFuture<'a, Result<Node, OpenError>> {
        Box::pin(async move {
            let opened = SharedLog::open(env, node, place).await;
            let log = opened.map_err(|cause| OpenError::Log { node, cause: Box::new(cause) })?;
            let rows = Arc::clone(&place.rows);
            forget_left_rows(rows.as_ref(), &log).map_err(|cause| OpenError::Rows { node, reason: cause.to_string() })?;
            let inner = Inner {
                env: env.clone(),
                node,
                log: log.clone(),
                rows,
                links: Links::new(env, node, transport),
                inbox: Inbox::new(env),
                groups: Mutex::default(),
                tasks: Mutex::default(),
                pressed: Notify::new(),
            };
            let node = Node { inner: Arc::new(inner) };
            let tasks = [
                env.spawn(log.keep_house()),
                env.spawn(Arc::clone(&node.inner).send_heartbeats()),
                env.spawn(Arc::clone(&node.inner).keep_groups()),
            ];
            node.inner.tasks.lock().extend(tasks);
            Ok(node)
        })
    }

    pub fn id(&self) -> NodeId {
        self.inner.node
    }

    /// Groups that stand in the log of this node.
    pub fn known_groups(&self) -> Vec<GroupId> {
        self.inner.log.groups()
    }

    /// Waits until all that ordered groups of this node have answered is durable ([`Group::set_ordered`]). An error: the log has failed.
    pub fn settle(&self) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(self.inner.log.settle())
    }

    pub fn counters(&self) -> Counters {
        let counters = self.inner.links.counters();
        Counters {
            requests: counters.requests.load(Ordering::Relaxed),
            heartbeat_messages: counters.heartbeat_messages.load(Ordering::Relaxed),
            heartbeats: counters.heartbeats.load(Ordering::Relaxed),
            live_segments: self.inner.log.live_segments(),
        }
    }

    /// Starts a group with a state machine in its first state: the log brings it to where it was. A group that is new to the log
    /// waits for members: from [`Group::initialize`], or from the leader that adds this node.
    pub async fn start_group<S: StateMachine>(&self, group: GroupId, machine: S) -> Result<Group<S>, StartError> {
        let machine = Arc::new(RwLock::new(machine));
        let (progress, applied) = watch::channel(None);
        let core = self.start_core(group, Arc::new(SharedMachine(Arc::clone(&machine))), progress).await?;
        let proposals = Arc::new(Semaphore::new(MAX_PROPOSALS));
        Ok(Group { node: self.clone(), group, core, machine, applied, proposals })
    }

    /// All of a start that does not know the machine's type.
    fn start_core(
        &self,
        group: GroupId,
        machine: Arc<dyn ErasedMachine>,
        progress: watch::Sender<Option<LogIndex>>,
    ) -> BoxFuture<'_, Result<Core, StartError>> {
        Box::pin(async move {
            let inner = &self.inner;
            inner.take_slot(group)?;
            let log = inner.log.group(group);
            let (is_silent, is_alone) = {
                let state = log.state();
                (state.may_have_promised(inner.node), state.is_alone(inner.node))
            };
            let started = match RaftMachine::open(log.clone(), machine, &inner.rows, progress).await {
                Ok(machine) => Core::start(&inner.env, inner.node, group, log, inner.links.clone(), machine).await,
                Err(error) => Err(error.to_string()),
            };
            let core = match started {
                Ok(core) => core,
                Err(reason) => {
                    inner.groups.lock().remove(&group);
                    return Err(StartError::Raft { group, reason });
                }
            };
            let silent_until = is_silent.then(|| inner.env.now() + LEADER_LEASE);
            inner.groups.lock().insert(group, Slot::Running(Member { core: core.clone(), silent_until }));
            if let Some(silent_until) = silent_until {
                let (core, env) = (core.clone(), inner.env.clone());
                inner.env.spawn(async move {
                    env.sleep_until(silent_until).await;
                    core.become_electable();
                });
            } else if is_alone {
                core.elect().await;
            }
            Ok(core)
        })
    }

    /// Stops a group on this node; its log stays.
    pub fn stop_group(&self, group: GroupId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let member = {
                let mut groups = self.inner.groups.lock();
                match groups.get(&group) {
                    Some(Slot::Running(member)) => {
                        let member = member.clone();
                        groups.insert(group, Slot::Busy);
                        member
                    }
                    _ => return,
                }
            };
            member.core.stop().await;
            self.inner.groups.lock().remove(&group);
        })
    }

    /// Stops a group and forgets it for good, also if nobody waits for the end. The group must not count on this node any more: its vote is
    /// forgotten, too.
    pub fn remove_group(&self, group: GroupId) -> BoxFuture<'_, Result<(), RemoveError>> {
        Box::pin(async move {
            if !self.inner.log.groups().contains(&group) {
                return Err(RemoveError::Unknown(group));
            }
            // In a task of its own: a group that was marked as removed and stayed in the log's list would hold its records, and could not say them again.
            let node = self.clone();
            let removal = self.inner.env.spawn(async move {
                node.stop_group(group).await;
                node.inner.log.remove(group).await?;
                // A crash in between leaves rows of a group that the log does not know: the next start forgets them.
                let rows = Arc::clone(&node.inner.rows);
                let forgotten = aside(rows.persist_waits(), move || forget(rows.as_ref(), group)).await;
                if let Err(error) = forgotten.and_then(|forgotten| forgotten) {
                    tracing::warn!(%group, %error, "rows of a group that was removed stay until the next start");
                }
                Ok(())
            });
            let ended = removal.await;
            Ok(ended.unwrap_or_else(|_| Err(AppendError::Poisoned(Arc::new(Failure::Abandoned))))?)
        })
    }

    /// Stops all groups and tasks. What was acknowledged stays in the log.
    pub fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let members: Vec<Member> = {
                let mut groups = self.inner.groups.lock();
                let running = groups.values().filter_map(|slot| match slot {
                    Slot::Running(member) => Some(member.clone()),
                    _ => None,
                });
                let running = running.collect();
                groups.values_mut().for_each(|slot| *slot = Slot::ShutDown);
                running
            };
            self.inner.log.close();
            self.inner.tasks.lock().drain(..).for_each(|task| task.abort());
            join_all(members.iter().map(|member| member.core.stop())).await;
            self.inner.log.end_with_mark().await;
        })
    }
}

/// Gives up rows of groups that the log does not know.
fn forget_left_rows(rows: &dyn Kv, log: &SharedLog) -> Result<(), RowsError> {
    let known = log.groups();
    for group in groups(rows)?.into_iter().filter(|group| !known.contains(group)) {
        env::mark("consensus: rows of a group that the log does not know");
        forget(rows, group)?;
    }
    Ok(())
}

impl Inner {
    fn take_slot(&self, group: GroupId) -> Result<(), StartError> {
        let mut groups = self.groups.lock();
        if self.tasks.lock().is_empty() {
            return Err(StartError::ShutDown);
        }
        if groups.contains_key(&group) {
            return Err(StartError::Running(group));
        }
        if groups.len() >= MAX_GROUPS {
            return Err(StartError::TooMany);
        }
        groups.insert(group, Slot::Busy);
        Ok(())
    }

    pub(crate) fn member(&self, group: GroupId) -> Option<Member> {
        match self.groups.lock().get(&group) {
            Some(Slot::Running(member)) => Some(member.clone()),
            _ => None,
        }
    }

    fn members(&self) -> Vec<Member> {
        let groups = self.groups.lock();
        let running = groups.values().filter_map(|slot| match slot {
            Slot::Running(member) => Some(member.clone()),
            _ => None,
        });
        running.collect()
    }

    /// Room in the log for entries of a group. Whoever sees the log get full has groups give up what they can.
    pub(crate) fn claim(&self, core: &Core, bytes: usize, purpose: Purpose) -> Option<Claim> {
        if purpose == Purpose::Growth && self.is_crowded_elsewhere(core) {
            return None;
        }
        let claim = core.log().claim(bytes, purpose);
        if claim.is_none() {
            self.pressed.notify_one();
        }
        if claim.is_none() || self.log.is_overgrown() {
            self.log.call_housekeeping();
        }
        claim
    }

    /// Whether a group that this node leads has a voter whose log has no room for a longer state. That one would have to take what was taken here,
    /// until it took nothing any more, what makes states shorter neither. Who has no vote takes nothing that it has no room for.
    fn is_crowded_elsewhere(&self, core: &Core) -> bool {
        let crowded = self.links.crowded();
        core.is_leader() && crowded.iter().any(|node| core.has_vote(*node))
    }

    /// Once a tick, all groups that are led here say so, in one message for each peer.
    async fn send_heartbeats(self: Arc<Self>) {
        let mut next = self.env.now();
        loop {
            next = next + HEARTBEAT_INTERVAL;
            let led: Vec<Core> = self.members().into_iter().map(|member| member.core).filter(Core::is_leader).collect();
            self.links.begin_gathering();
            tokio::select! {
                biased;
                // A group whose queue is full is heard when it has room again.
                _ = join_all(led.iter().map(Core::send_heartbeat)) => self.env.sleep(HEARTBEAT_GATHERING).await,
                () = self.env.sleep(HEARTBEAT_GATHERING) => {}
            }
            self.links.end_gathering();
            // Ticks that were missed are not made up for.
            next = next.max(self.env.now());
            self.env.sleep_until(next).await;
        }
    }

    /// Looks after the groups, once in a while and when the shared log gets full.
    async fn keep_groups(self: Arc<Self>) {
        loop {
            tokio::select! {
                biased;
                () = self.pressed.notified() => {}
                () = self.env.sleep(HOUSEKEEPING_INTERVAL) => {}
            }
            self.finish_exchanges();
            self.make_snapshots().await;
        }
    }

    /// Exchanges of voters that leaders before this one left in the middle are ended. One that can't be is found again.
    fn finish_exchanges(&self) {
        for core in self.members().into_iter().map(|member| member.core).filter(Core::is_exchange_left) {
            self.env.spawn(async move {
                if let Err(error) = core.finish_exchange().await {
                    tracing::info!(%error, "an exchange of voters that was left in the middle is not ended yet");
                }
            });
        }
    }

    fn pressure(&self) -> Pressure {
        match (self.log.is_crowded(), self.log.is_pressed()) {
            (true, _) => Pressure::Full,
            (false, true) => Pressure::Some,
            (false, false) => Pressure::None,
        }
    }

    /// Groups whose entries take much room give up those that their snapshot covers, and make another one for the rest; earlier if the shared
    /// log gets full.
    async fn make_snapshots(&self) {
        let pressure = self.pressure();
        for Member { core, .. } in self.members() {
            let (most, covered, bytes) = {
                let state = core.log().state();
                let most = most_entry_bytes(pressure, state.snapshot().map_or(0, |snapshot| snapshot.bytes.len()));
                (most, state.snapshot().and_then(|snapshot| snapshot.summary.last), state.entry_bytes())
            };
            let may_keep = core.keeps_rows() && matches!(pressure, Pressure::None) && bytes <= MAX_KEPT_BYTES_BESIDE_ROWS;
            if may_keep {
                core.purge_beside_rows().await;
            }
            if bytes <= most {
                continue;
            }
            if let Some(covered) = covered.filter(|_| !may_keep) {
                core.purge(covered.index).await;
            }
            // Entries that are not applied would not be covered, however often it is made.
            let applied = core.status().applied;
            if applied.is_some_and(|applied| core.log().state().coverable_bytes(applied.index) > most) {
                core.make_snapshot().await;
            }
        }
    }
}

/// How much room a log has for entries.
#[derive(Clone, Copy, Debug)]
enum Pressure {
    None,
    Some,
    /// Nothing is taken that makes a state longer.
    Full,
}

/// Bytes of entries that a group may keep. A snapshot is written as a whole, however little it covers: it has to be worth it.
fn most_entry_bytes(pressure: Pressure, snapshot_bytes: usize) -> usize {
    match pressure {
        Pressure::None => SNAPSHOT_AFTER_BYTES.max(snapshot_bytes / MAX_REWRITES),
        Pressure::Some => EARLY_SNAPSHOT_BYTES.max(snapshot_bytes / MAX_REWRITES),
        Pressure::Full => entry_bytes_of_full(snapshot_bytes),
    }
}
