//! Trees of volumes: the placed groups that this node is a member of, and the way to the leader of each.
//!
//! ```text
//!   a client's command or question ─► driving ─┬─► the tree's log
//!                                              └─► driven: a transaction ─► siblings: orders to the leaders of other trees
//!   settling: what leaders before, and those of other trees, have left; usage: what the other trees have
//! ```

mod driven;
mod driving;
mod settling;
mod siblings;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use consensus::{NotLeader, ProposeError, ReadError, ReadMode, Term};
use env::{Env, Instant};
use groups::{Host, Kind, Member, Named, Placed};
use manager::{FileTreeId, GroupKind, Snapshot};
use net::{BoxFuture, Refusal, Request, Service, ServiceTag};
use parking_lot::{Mutex, MutexGuard};
use subsystem::Surroundings;

use super::leader::{Search, Told, silent_members};
use super::leases::Heard;
use crate::asking::Way;
use crate::asking::tree::{self, LeaderAsk, TreeAnswer, TreeAsk, TreeStanding};
use crate::ids::TreeIndex;
use crate::meta::{Command, Envelope, Machine, MetaError, MetaSession, Query, Reply, Time};
use driven::Driven;
use settling::HeldSince;
pub use settling::Settler;
use usage::Elsewhere;

/// The trees that this node is a member of.
pub struct Trees {
    around: Surroundings,
    host: Arc<Host<TreeKind>>,
    soft_inodes: u64,
    /// Of the trees that were asked for.
    searches: Mutex<BTreeMap<FileTreeId, Arc<Search>>>,
}

struct TreeKind {
    around: Surroundings,
}

/// This node's part of one tree.
pub struct TreeMember {
    placed: Arc<Placed<Machine>>,
    around: Surroundings,
    /// When this node has heard of each session last.
    heard: Mutex<Heard>,
    driven: Driven,
    held_since: Mutex<HeldSince>,
    elsewhere: Mutex<Elsewhere>,
    /// Its volume is of class `ordered`: it may have answered what is not durable.
    is_of_ordered: AtomicBool,
}

impl Kind for TreeKind {
    type Member = TreeMember;

    const KIND: GroupKind = GroupKind::FILE_TREES;

    fn machine(&self, number: u32, state: &Snapshot) -> Option<Machine> {
        state.file_tree(FileTreeId(number)).map(|(_, at)| Machine::of_tree(TreeIndex(at as u16)))
    }

    fn begin(&self, placed: Arc<Placed<Machine>>) -> Arc<TreeMember> {
        let (heard, driven, held_since, elsewhere) = (Mutex::default(), Driven::default(), Mutex::default(), Mutex::default());
        let (around, is_of_ordered) = (self.around.clone(), AtomicBool::new(false));
        Arc::new(TreeMember { placed, around, heard, driven, held_since, elsewhere, is_of_ordered })
    }
}

impl Member for TreeMember {
    type Machine = Machine;

    fn placed(&self) -> &Arc<Placed<Machine>> {
        &self.placed
    }

    fn silent(&self) -> BTreeSet<consensus::NodeId> {
        silent_members(&self.around)
    }
}

impl TreeMember {
    pub fn id(&self) -> FileTreeId {
        FileTreeId(self.placed.key().number)
    }

    /// Its place among the trees of its volume.
    pub fn tree(&self) -> TreeIndex {
        self.look(Machine::tree)
    }

    pub fn leads(&self) -> bool {
        self.placed.group().status().is_leader
    }

    /// Puts a command through the group's log, if this node leads it.
    pub async fn propose(&self, envelope: &Envelope) -> Result<Reply, Outcome> {
        Ok(self.placed.group().propose(envelope).await?.1)
    }

    /// Reads the tree, if this node leads it.
    pub async fn read<T>(&self, look: impl FnOnce(&Machine) -> T) -> Result<T, Outcome> {
        Ok(self.placed.group().read(ReadMode::Lease, look).await?)
    }

    /// False where a client must not be told that its lease goes on.
    fn hear(&self, asked: &TreeAsk) -> bool {
        let (session, is_lease) = match asked {
            TreeAsk::Command(envelope) => (envelope.session, false),
            TreeAsk::Query(Query::Orphans { session }) => (*session, false),
            TreeAsk::Query(Query::Lease { session }) => (*session, true),
            TreeAsk::Query(_) | TreeAsk::Standing | TreeAsk::OfLeader(_) => return true,
        };
        self.heard().hear(session, self.around.env.now()) || !is_lease
    }

    pub fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock()
    }

    /// The term of the group, as this node knows it.
    pub fn term(&self) -> Term {
        self.placed.group().status().term
    }

    /// The volume is of class `ordered`. It is in force where all of its trees have this node as their only member.
    pub fn keep_order(&self, trees: &[FileTreeId], state: &Snapshot) {
        self.is_of_ordered.store(true, Ordering::Release);
        let is_sole = |tree: &FileTreeId| state.group(tree.group()).is_some_and(|record| record.members == [self.around.me]);
        self.placed.group().set_ordered(trees.iter().all(is_sole));
    }

    /// Waits until all that this node has answered for the tree is durable.
    async fn settle(&self) -> Result<(), Outcome> {
        if !self.is_of_ordered.load(Ordering::Acquire) {
            return Ok(());
        }
        self.around.member.settle().await.map_err(|error| Outcome::Unknown(error.to_string()))
    }

    /// Has a command carried out that no client sends.
    pub async fn order(&self, session: MetaSession, command: Command) -> Result<(), String> {
        let reply = self.propose(&of_leader(session, self.now(), command)).await.map_err(Outcome::reason)?;
        reply.map(drop).map_err(|error| error.to_string())
    }

    /// Has a command of a leader carried out, of this tree's or of another one's; the clock is that leader's.
    async fn lead(&self, now: Time, command: Command) -> Result<Reply, Outcome> {
        self.propose(&of_leader(MetaSession::LEADER, now, command)).await
    }

    fn now(&self) -> Time {
        Time::of_ms(self.around.env.wall_clock_ms())
    }

    /// Looks at what this node has of the tree, which may be old.
    pub fn look<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        self.placed.group().look(look)
    }
}

fn of_leader(session: MetaSession, now: Time, command: Command) -> Envelope {
    Envelope { session, sequence: u64::MAX, answered_below: 0, now, locks_lost: 0, command }
}

/// Why this node did not answer.
pub enum Outcome {
    /// Nothing was done: another node leads, by this address if it is known.
    Elsewhere(Option<String>),
    /// Nothing was done: try again.
    Again(String),
    /// It may have been done: the same command can be sent again.
    Unknown(String),
}

impl Outcome {
    fn reason(self) -> String {
        match self {
            Outcome::Elsewhere(_) => "the leader has changed".to_owned(),
            Outcome::Again(reason) | Outcome::Unknown(reason) => reason,
        }
    }

    fn told<T>(outcome: Result<T, Outcome>) -> Told<T> {
        match outcome {
            Ok(answer) => Told::Answer(answer),
            Err(Outcome::Elsewhere(address)) => Told::Elsewhere(address),
            Err(Outcome::Again(reason)) => Told::Again(reason),
            Err(Outcome::Unknown(reason)) => Told::Unknown(reason),
        }
    }
}

impl From<NotLeader> for Outcome {
    fn from(error: NotLeader) -> Outcome {
        Outcome::Elsewhere(error.leader.map(|leader| leader.address))
    }
}

impl From<ProposeError> for Outcome {
    fn from(error: ProposeError) -> Outcome {
        match error {
            ProposeError::NotLeader(error) => error.into(),
            error if error.is_definite() => Outcome::Again(error.to_string()),
            error => Outcome::Unknown(error.to_string()),
        }
    }
}

impl From<ReadError> for Outcome {
    fn from(error: ReadError) -> Outcome {
        match error {
            ReadError::NotLeader(error) => error.into(),
            error => Outcome::Again(error.to_string()),
        }
    }
}

impl Trees {
    pub fn new(around: &Surroundings, soft_inodes: u64) -> Trees {
        let kind = TreeKind { around: around.clone() };
        let host = Host::new(&around.env, around.me, around.member.clone(), around.manager.clone(), kind);
        Trees { around: around.clone(), host: Arc::new(host), soft_inodes, searches: Mutex::default() }
    }

    /// Whether a tree with so many inodes gets no new directories. The newest one that has so many is followed by another.
    pub fn is_full(&self, inodes: u64) -> bool {
        inodes >= self.soft_inodes
    }

    /// Takes part in the trees that the manager says, for as long as the node lives.
    pub async fn run(&self) {
        self.host.clone().run().await;
    }

    pub async fn stop_leading(&self) {
        self.host.stop_leading().await;
    }

    pub async fn leave(&self, look: impl Fn() -> BoxFuture<'static, Option<Named>>) {
        self.host.leave(look).await;
    }

    /// Waits until all that this node's trees have answered is durable.
    pub async fn settle(&self) -> Result<(), String> {
        self.around.member.settle().await.map_err(|error| error.to_string())
    }

    pub fn all(&self) -> Vec<Arc<TreeMember>> {
        self.host.all()
    }

    pub fn count(&self) -> usize {
        self.host.all().len()
    }

    /// How many of them this node leads.
    pub fn led(&self) -> usize {
        self.host.all().iter().filter(|member| member.leads()).count()
    }

    /// Nodes that have a vote in the trees that this node leads, one by one. While members are exchanged, those of the smaller set.
    pub fn voters_of_led(&self) -> usize {
        let statuses = self.host.all().into_iter().map(|member| member.placed.group().status());
        let led = statuses.filter(|status| status.is_leader);
        led.map(|status| status.voters.iter().map(|set| set.len()).min().unwrap_or(0)).sum()
    }

    /// A tree, wherever it is led.
    pub fn way(self: &Arc<Self>, tree: FileTreeId) -> TreeWay {
        let search = || Arc::new(Search::new(&self.around, tree.group(), ServiceTag::FILE_TREES, tree::LIMITS));
        let search = self.searches.lock().entry(tree).or_insert_with(search).clone();
        TreeWay { search, trees: self.clone() }
    }

    /// The trees of a member's volume, by their index.
    fn siblings(&self, member: &TreeMember) -> Vec<FileTreeId> {
        let state = self.around.manager.snapshot();
        state.file_tree(member.id()).map(|(volume, _)| volume.trees.clone()).unwrap_or_default()
    }

    /// None if this node is no member of the group.
    async fn answer(self: &Arc<Self>, tree: FileTreeId, asked: &TreeAsk) -> Option<Told<TreeAnswer>> {
        let member = self.host.get(tree.0)?;
        if !member.hear(asked) {
            return Some(Told::Again("the locks of the client are being taken away".to_owned()));
        }
        let outcome = match asked {
            TreeAsk::Command(envelope) if envelope.is_of_leader() => Ok(TreeAnswer::Reply(Err(MetaError::Invalid))),
            TreeAsk::Command(envelope) => carry_out(self, &member, envelope).await.map(TreeAnswer::Reply),
            TreeAsk::Query(query) => driving::answer(self, &member, query).await.map(TreeAnswer::Answer),
            TreeAsk::Standing => {
                let (usage, is_ordered) = (member.read(|machine| machine.usage()).await, member.placed.group().is_ordered());
                usage.map(|usage| TreeAnswer::Standing(TreeStanding { leader: member.around.me, usage, is_ordered }))
            }
            TreeAsk::OfLeader(asked) => answer_leader(&member, asked).await,
        };
        Some(Outcome::told(outcome))
    }

    /// As [`Trees::answer`], for those who are not on this node: what they are told is durable.
    async fn answer_elsewhere(self: &Arc<Self>, tree: FileTreeId, asked: &TreeAsk) -> Option<Told<TreeAnswer>> {
        let told = self.answer(tree, asked).await?;
        match self.host.get(tree.0)?.settle().await {
            Ok(()) => Some(told),
            Err(outcome) => Some(Outcome::told(Err(outcome))),
        }
    }

    /// As [`Trees::answer`], of leaders alone. What is in the way is their affair.
    async fn answer_leader(&self, tree: FileTreeId, asked: &LeaderAsk) -> Option<Told<TreeAnswer>> {
        let member = self.host.get(tree.0)?;
        Some(Outcome::told(answer_leader(&member, asked).await))
    }
}

/// A command of a client: its names and attributes may be answered in order, all else is durable.
async fn carry_out(trees: &Arc<Trees>, member: &Arc<TreeMember>, envelope: &Envelope) -> Result<Reply, Outcome> {
    let reply = driving::carry_out(trees, member, envelope).await?;
    if !envelope.command.is_of_names_or_attributes() {
        member.settle().await?;
    }
    Ok(reply)
}

async fn answer_leader(member: &TreeMember, asked: &LeaderAsk) -> Result<TreeAnswer, Outcome> {
    match asked {
        LeaderAsk::Order { now, command } => member.lead(*now, command.clone()).await.map(TreeAnswer::Reply),
        LeaderAsk::Query(query) => member.read(|machine| machine.query(query)).await.map(TreeAnswer::Answer),
    }
}

/// Serves the trees that this node leads to others.
pub struct TreeService(pub Arc<Trees>);

impl Service for TreeService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let (tree, asked): (u32, TreeAsk) = postcard::from_bytes(&request.payload).map_err(Refusal::new)?;
            let told = self.0.answer_elsewhere(FileTreeId(tree), &asked).await.unwrap_or(Told::Elsewhere(None));
            Ok(postcard::to_stdvec(&told).map_err(Refusal::new)?.into())
        })
    }
}

/// The way to a tree.
pub struct TreeWay {
    search: Arc<Search>,
    trees: Arc<Trees>,
}

impl TreeWay {
    /// Asks as the leader of another tree.
    async fn ask_leader(&self, asked: LeaderAsk, until: Instant) -> Result<TreeAnswer, String> {
        let here = || self.trees.answer_leader(FileTreeId(self.number()), &asked);
        self.search.ask(&TreeAsk::OfLeader(asked.clone()), Some(until), here).await
    }
}

impl Way<TreeAsk, TreeAnswer> for TreeWay {
    async fn ask(&self, asked: TreeAsk, until: Option<Instant>) -> Result<TreeAnswer, String> {
        self.search.ask(&asked, until, || self.trees.answer(FileTreeId(self.number()), &asked)).await
    }

    fn number(&self) -> u32 {
        self.search.number()
    }

    fn env(&self) -> &Env {
        self.search.env()
    }
}
