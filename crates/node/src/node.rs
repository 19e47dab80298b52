//! A node: opened with its place in the cluster, started with its devices.

use crate::CELL;
use crate::device_way::Ways;
use crate::engine::CellEngine;
use crate::error::NodeError;
use crate::inquiry::{Applicant, Here, Told, inquire, refuse_twin, was_removed};
use crate::notes::Notes;
use crate::oversee::{HeartbeatService, Oversight};
use crate::roles::{Role, Roles};
use crate::settle::DrainSlot;
use crate::vitals::Vitals;
use bytes::Bytes;
use consensus::{FramedTransport, LogPlace, NodeId as MemberId, Peer, TaggedTransport, Transport};
use engine::ObjectEngine;
use env::Env;
use logstore::{LogStore, LogStoreConfig};
use manager::{MANAGER_GROUP, Manager, ManagerError, MemberRole, RegisterNode, ReplicatedOptions, member_id};
use net::{BoxFuture, Caller, Guests, Identity, Network, Refusal, RemoteCaller, Request, Router, Service, ServiceTag};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use subsystem::{Callers, Subsystem};
use target::Target;
use topology::LeaseTerms;
use types::{NodeId, ViewNumber};

/// Pause before the manager is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// How long a node that stops tries to say so. After its lease has ended nobody is helped by that.
const LEAVE_PATIENCE: Duration = Duration::from_millis(2_000);

/// A node's place in its cluster.
pub struct NodeOptions {
    pub network: Arc<dyn Network>,
    pub identity: Identity,
    /// Where the node's consensus log is.
    pub log: LogPlace,
    /// What the node says of itself.
    pub register: RegisterNode,
    /// What it does. Its vote stays: who has one can't leave the manager to others any more.
    pub roles: Roles,
    /// Addresses of members that it joins through; none for the first node of a cluster.
    pub via: Vec<String>,
    /// No other node reaches it: it is the only one of its cluster while it runs.
    pub is_sole: bool,
    /// The processes that may call it without being nodes.
    pub guests: Option<Arc<dyn Guests>>,
}

/// A node that takes part in the manager, and has no devices yet.
pub struct OpenNode {
    pub(crate) env: Env,
    pub(crate) callers: Callers,
    pub(crate) manager: Arc<Manager>,
    pub(crate) register: RegisterNode,
    pub(crate) roles: Roles,
    pub(crate) services: Arc<Services>,
    pub(crate) member: consensus::Node,
    pub(crate) id: NodeId,
    pub(crate) told: Told,
    pub(crate) is_sole: bool,
    /// What it does from its opening on.
    pub(crate) tasks: Vec<Ending>,
    pub(crate) vitals: Arc<Vitals>,
}

/// A running node. It ends when it is dropped.
pub struct Node {
    pub(crate) inner: Arc<Inner>,
    pub(crate) member: consensus::Node,
    pub(crate) tasks: Mutex<Vec<Ending>>,
}

/// A task that ends with what holds this.
pub(crate) struct Ending(pub tokio::task::JoinHandle<()>);

impl Ending {
    pub fn has_ended(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a person may want to know of a node.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    pub id: NodeId,
    /// Its gateway answers clients.
    pub serves: bool,
    /// The view whose fences, and those of all views before, its working devices hold.
    pub fences: ViewNumber,
}

pub(crate) struct Inner {
    pub env: Env,
    pub id: NodeId,
    pub callers: Callers,
    pub manager: Arc<Manager>,
    pub targets: Vec<Arc<Target>>,
    pub engine: Arc<CellEngine>,
    pub vitals: Arc<Vitals>,
    pub lease_terms: LeaseTerms,
    pub notes: Arc<Notes>,
    /// No other node is in the cluster while this one runs.
    pub is_sole: bool,
    pub config: LogStoreConfig,
    pub drain: DrainSlot,
    pub subsystems: Vec<Arc<dyn Subsystem>>,
    pub ways: Ways,
    /// The node has begun to leave the cell: it registers no gateway any more.
    pub is_leaving: AtomicBool,
    /// It has found out that it is no part of its cluster any more.
    pub was_removed: AtomicBool,
    /// What others are told of it.
    pub repair_left: Arc<AtomicU32>,
}

/// Services that come with the devices: asked before, they say so.
#[derive(Default)]
pub(crate) struct Services(pub OnceLock<Router>);

impl Service for Services {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        match self.0.get() {
            Some(router) => router.handle(request),
            None => Box::pin(async { Err(Refusal::early("this node starts")) }),
        }
    }

    fn answer_may_wait(&self, request: &Request) -> bool {
        self.0.get().is_some_and(|router| router.answer_may_wait(request))
    }
}

/// What is done once a node is a member of the manager; why it failed.
pub type Note<'a> = Box<dyn FnOnce() -> Result<(), String> + Send + 'a>;

impl Node {
    /// Opens a node's part of the manager, listens, and waits until the node is registered.
    pub fn open(env: &Env, options: NodeOptions) -> BoxFuture<'_, Result<OpenNode, NodeError>> {
        Node::open_noting(env, options, Box::new(|| Ok(())))
    }

    /// The same; `note` is called as soon as the node is a member of the manager. What it writes down must say at every later start that
    /// this log has to be there: a node that begins with an empty one under the same identity forgets what it has voted for. To be
    /// registered may take long, until a majority is there.
    pub fn open_noting<'a>(env: &'a Env, options: NodeOptions, note: Note<'a>) -> BoxFuture<'a, Result<OpenNode, NodeError>> {
        Box::pin(async move {
            let NodeOptions { network, identity, log, register, roles, via, is_sole, guests } = options;
            let me = member_id(register.identity);
            let framed: Arc<dyn Transport> = Arc::new(FramedTransport::new(env, network.clone(), identity));
            let tagged = |tag| -> Arc<dyn Transport> { Arc::new(TaggedTransport::new(framed.clone(), tag)) };
            // Whatever else stands in the log, there must be room for changes of the cluster.
            let log = LogPlace { favoured: Some(MANAGER_GROUP), ..log };
            let member = consensus::Node::open(env, me, &log, tagged(ServiceTag::CONSENSUS)).await?;
            let options = ReplicatedOptions { group: MANAGER_GROUP, transport: tagged(ServiceTag::MANAGER) };
            let manager = Arc::new(Manager::open_replicated(env, &member, options).await?);
            let oversight = Oversight::new(env, &manager, LeaseTerms::default());
            let services = Arc::new(Services::default());
            let told = Told::default();
            let here = Here { env: env.clone(), manager: manager.clone(), identity: register.identity, told: told.clone() };
            let router = Router::new()
                .with(ServiceTag::CONSENSUS, member.service())
                .with(ServiceTag::MANAGER, manager.service())
                .with(ServiceTag::PINGS, Arc::new(here))
                .with(ServiceTag::HEARTBEATS, Arc::new(HeartbeatService(oversight.clone())))
                .otherwise(services.clone());
            let address = register.address.clone();
            let listener = network.listen(&address).await;
            let listener = listener.map_err(|cause| NodeError::Listen { address: address.clone(), cause })?;
            let listening = env.spawn(net::serve_with_guests(env.clone(), listener, Arc::new(router), identity, guests));
            let tasks = vec![Ending(listening), Ending(env.spawn(oversight.run()))];
            let callers = Callers::new(env, network.clone(), identity);
            let to =
                |address: &str| -> Arc<dyn Caller> { Arc::new(RemoteCaller::new(env, network.clone(), address, identity)) };
            take_part(env, &manager, (me, member_role(&roles)), &register, &via, &to).await?;
            note().map_err(NodeError::Noting)?;
            refuse_twin(env, &manager, &register, &to).await?;
            let id = register_node(env, &manager, &register, &via, &to).await?;
            let env = env.clone();
            Ok(OpenNode {
                env,
                callers,
                manager,
                register,
                roles,
                services,
                member,
                id,
                told,
                is_sole,
                tasks,
                vitals: Arc::default(),
            })
        })
    }
}

/// What a node with these roles is in the manager's group.
fn member_role(roles: &Roles) -> MemberRole {
    if roles.has(Role::Manager) { MemberRole::Voter } else { MemberRole::Learner }
}

/// Whether a member is in the group as it wants to be, by what its own log says.
fn is_in(manager: &Manager, me: MemberId, role: MemberRole, address: &str) -> bool {
    let Some(replication) = manager.replication() else { return false };
    match role {
        MemberRole::Voter => replication.has_vote,
        MemberRole::Learner => replication.members.iter().any(|member| member.node == me && member.address == address),
    }
}

/// Forms the manager's group, or joins it; at a later start the node is a member already, and waits for nobody: its own log says so. One
/// that was let in and got no vote, because it or the leader ended in between, asks again.
pub(crate) async fn take_part(
    env: &Env,
    manager: &Manager,
    (me, role): (MemberId, MemberRole),
    register: &RegisterNode,
    via: &[String],
    to: &impl Fn(&str) -> Arc<dyn Caller>,
) -> Result<(), NodeError> {
    let RegisterNode { identity, name, address, .. } = register;
    let has_vote = || manager.replication().is_some_and(|replication| replication.has_vote);
    if role == MemberRole::Learner && (has_vote() || via.is_empty()) {
        return Err(NodeError::NeedsManager);
    }
    let mut turn = 0;
    while !is_in(manager, me, role, address) {
        must_run(manager)?;
        let taken = match via.len() {
            0 => manager.form(&BTreeMap::from([(me, address.clone())])).await,
            count => {
                let via = &via[turn % count];
                if let Ok(Err(reason)) = inquire(env, &*to(via), Applicant::new(env, *identity, name, address).question()).await
                {
                    return Err(NodeError::Unfit(reason));
                }
                manager.join(&Peer { node: MemberId(0), address: via.clone() }, address, role).await
            }
        };
        if let Err(error) = taken {
            tracing::warn!(%error, "not a member of the manager yet");
            turn += 1;
        }
        if !is_in(manager, me, role, address) {
            env.sleep(RETRY_PAUSE).await;
        }
    }
    follow_address(env, manager, me, address).await?;
    must_be_found(manager, me, address)
}

/// A sole member that listens elsewhere than before says so: what joins it is told the address that the group has.
async fn follow_address(env: &Env, manager: &Manager, me: MemberId, address: &str) -> Result<(), NodeError> {
    let stays_behind = || {
        let members = manager.replication().map_or_else(Vec::new, |replication| replication.members);
        members.len() == 1 && members.iter().any(|member| member.node == me && member.address != address)
    };
    while stays_behind() {
        must_run(manager)?;
        if let Err(error) = manager.add_member(me, address).await {
            tracing::warn!(%error, address, "the manager has not taken this node's new address yet");
            env.sleep(RETRY_PAUSE).await;
        }
    }
    Ok(())
}

/// Members call each other at the addresses that the group has for them. A voter's stays; a node that listened elsewhere would hear of no leader,
/// and wait for ever. One that is alone needs nobody to find it.
fn must_be_found(manager: &Manager, me: MemberId, address: &str) -> Result<(), NodeError> {
    let members = manager.replication().map_or_else(Vec::new, |replication| replication.members);
    let own = members.iter().find(|member| member.node == me);
    match own.filter(|own| own.address != address && members.len() > 1) {
        Some(own) => Err(NodeError::Moved { known: own.address.clone(), address: address.to_owned() }),
        None => Ok(()),
    }
}

/// A log that can't be written ends this node's part of the manager, and nothing but another start begins it again.
fn must_run(manager: &Manager) -> Result<(), NodeError> {
    match manager.replication().and_then(|replication| replication.stopped) {
        Some(reason) => Err(NodeError::Stopped(reason)),
        None => Ok(()),
    }
}

/// Waits until the manager has the node's record, however long that takes. Whoever has been removed is told first: the leader that it
/// knows of may take its record again, as that of another node, and nobody would ever talk to it.
pub(crate) async fn register_node(
    env: &Env,
    manager: &Manager,
    register: &RegisterNode,
    via: &[String],
    to: &impl Fn(&str) -> Arc<dyn Caller>,
) -> Result<NodeId, NodeError> {
    loop {
        must_run(manager)?;
        if was_removed(env, manager, register, via, to).await {
            return Err(NodeError::Removed);
        }
        match manager.register_node(register.clone()).await {
            Ok(record) => return Ok(record.id),
            Err(ManagerError::Refused(refused)) => return Err(NodeError::State(refused.to_string())),
            Err(error) => tracing::warn!(%error, "the manager does not answer yet"),
        }
        env.sleep(RETRY_PAUSE).await;
    }
}

impl OpenNode {
    /// The manager, for whoever prepares the devices.
    pub fn manager(&self) -> &Arc<Manager> {
        &self.manager
    }

    pub fn id(&self) -> NodeId {
        self.id
    }
}

impl Node {
    /// The engine of the node's services.
    pub fn engine(&self) -> Arc<dyn ObjectEngine> {
        self.inner.engine.clone()
    }

    /// The engine's present incarnation, while it serves.
    pub fn store(&self) -> Option<Arc<LogStore>> {
        self.inner.engine.serving()
    }

    pub fn manager(&self) -> &Arc<Manager> {
        &self.inner.manager
    }

    /// What the node runs: the log engine first, then as its starters were given.
    pub fn subsystems(&self) -> &[Arc<dyn Subsystem>] {
        &self.inner.subsystems
    }

    /// The subsystem of a type, if the node runs it.
    pub fn subsystem<S: Subsystem>(&self) -> Option<&S> {
        subsystem::find(&self.inner.subsystems)
    }

    pub fn status(&self) -> NodeStatus {
        let fences = self.inner.fences(&self.inner.vitals.get());
        NodeStatus { id: self.inner.id, serves: self.inner.engine.serving().is_some(), fences }
    }

    /// Ends the node's part in the manager. What was acknowledged stays in its log.
    pub fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.member.shut_down().await;
        })
    }

    /// Leaves the cell in order: what is under way is finished, and nobody waits for the gateway's lease.
    pub fn leave(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.inner.is_leaving.store(true, Ordering::SeqCst);
            // The view without its gateway is to be without its devices, too.
            self.inner.vitals.news.notify_one();
            let present = self.inner.vitals.get();
            self.inner.engine.clear();
            if let Some(store) = &present.store {
                store.depose();
            }
            let Some(registered) = present.registered else { return };
            let failure = tokio::select! {
                biased;
                left = self.inner.manager.leave_cell(CELL, registered.gateway) => match left {
                    Ok(()) => return,
                    Err(error) => error.to_string(),
                },
                () = self.inner.env.sleep(LEAVE_PATIENCE) => "no answer, as when all nodes stop at once".to_owned(),
            };
            tracing::warn!(failure, "the manager was not told that this gateway leaves: the others wait for its lease");
        })
    }
}
