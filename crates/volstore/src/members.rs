//! What a node is a member of: the shell around the machines of `allack`, one for each placement group (docs/rfd/0026, 0027).
//!
//! ```text
//!   manager's records ──► views ──►┐                  ┌──► records ──► one log for all groups of the node
//!   messages of members ──────────►├── Machine ───────┼──► messages, by node
//!   time ─────────────────────────►┘                  └──► serving, deposed ──► offices
//! ```
//!
//! Invariants:
//! - What a machine asks for is handed on in its order: under its lock.
//! - A promise is queued for the medium only when all writes of blocks under former views have ended.
//! - No lock is held during I/O.

mod messages;
mod persisting;
mod region;
mod views;
mod watching;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use allack::{AppendError, GroupId, Input, Machine, OpSeq, Output, Record, Start, WalStore};
use bytes::Bytes;
use device::Volume;
use device::admission::{Admissions, Ticket};
use env::Env;
use manager::{Manager, NamePlacement, PlacementRecord};
use net::{Caller, ServiceTag};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use types::{NodeId, ViewNumber};

use crate::limits::{GROUP_LOG, MEMBER_TICK, NEXT_VIEW_PAUSE};
use crate::office::Office;

pub use messages::MessageService;
use messages::Outbox;
use persisting::Queue;
use region::Region;
pub use region::is_region;

/// The way to a service of another node; none if no such node is known.
pub type Ways = Arc<dyn Fn(NodeId, ServiceTag) -> Option<Arc<dyn Caller>> + Send + Sync>;

/// A node's place in the groups.
pub struct Members {
    pub env: Env,
    pub me: NodeId,
    pub manager: Arc<Manager>,
    pub ways: Ways,
    /// Volumes of the node's devices.
    volumes: Vec<Volume>,
    region: Region,
    store: WalStore,
    session: u64,
    saved: Mutex<BTreeMap<GroupId, allack::Saved>>,
    groups: Mutex<BTreeMap<u32, Arc<Group>>>,
    queue: Queue,
    outbox: Outbox,
    /// A view has become active whose primary is here.
    lease_wanted: Notify,
}

/// A group that this node is or was a member of.
pub struct Group {
    pub number: u32,
    machine: Mutex<Machine>,
    /// Those who write to blocks.
    admissions: Admissions,
    /// Records behind a promise that waits for those.
    held: Mutex<Option<VecDeque<Record>>>,
    /// Who waits for the commit of an entry, at the primary.
    waiting: Mutex<BTreeMap<OpSeq, oneshot::Sender<()>>>,
    /// This node's copy.
    pub volume: Volume,
    office: Mutex<Option<Arc<Office>>>,
    /// An office was opened or ended.
    pub office_changed: Notify,
    trimmed: Notify,
    persisted: AtomicU64,
    is_closed: AtomicBool,
}

impl Group {
    /// Entries and bytes of the log.
    pub fn log_size(&self) -> (usize, usize) {
        let machine = self.machine.lock();
        (machine.log().len(), machine.log().bytes())
    }

    /// The entries of the log from a number on, and the number of the one after the last.
    pub fn entries_from(&self, first: u64) -> (Vec<(u64, Bytes)>, u64) {
        let machine = self.machine.lock();
        let entries = machine.log().entries().filter(|entry| entry.position.opseq.0 >= first);
        let entries = entries.map(|entry| (entry.position.opseq.0, entry.payload.clone())).collect();
        (entries, machine.log().last().opseq.0 + 1)
    }

    /// Learners whose logs have everything after the entry beside them.
    pub fn ready_learners(&self) -> Vec<(NodeId, OpSeq)> {
        self.machine.lock().ready_learners()
    }

    /// Lets a question about blocks in, if it is of the view that this member has promised.
    pub fn admit(&self, view: ViewNumber) -> Option<Ticket> {
        let ticket = self.admissions.enter();
        let is_open = !self.is_closed.load(Ordering::SeqCst) && self.machine.lock().view() == view;
        is_open.then_some(ticket)
    }

    /// An office is open, if its view still is the newest.
    pub fn open_office(&self, office: &Arc<Office>) -> bool {
        let machine = self.machine.lock();
        if machine.view() != office.view {
            return false;
        }
        *self.office.lock() = Some(office.clone());
        self.office_changed.notify_waiters();
        true
    }

    /// The office, if it is open.
    pub fn office(&self) -> Option<Arc<Office>> {
        self.office.lock().clone()
    }

    fn office_ends(&self) {
        if let Some(office) = self.office.lock().take() {
            office.end();
        }
        self.waiting.lock().clear();
        self.office_changed.notify_waiters();
    }
}

impl Members {
    /// Takes up what the node's devices have of groups.
    pub async fn open(
        env: &Env,
        me: NodeId,
        manager: Arc<Manager>,
        ways: Ways,
        volumes: Vec<Volume>,
    ) -> Result<Arc<Members>, String> {
        let (region, store, saved) = Region::open(env, &volumes).await?;
        Ok(Arc::new(Members {
            env: env.clone(),
            me,
            manager,
            ways,
            volumes,
            region,
            store,
            session: env.random_u64(),
            saved: Mutex::new(saved),
            groups: Mutex::default(),
            queue: Queue::default(),
            outbox: Outbox::default(),
            lease_wanted: Notify::new(),
        }))
    }

    pub fn group(&self, number: u32) -> Option<Arc<Group>> {
        self.groups.lock().get(&number).cloned()
    }

    pub fn groups(&self) -> Vec<Arc<Group>> {
        self.groups.lock().values().cloned().collect()
    }

    /// Whether a device has copies of groups, or this node's log.
    pub fn uses(&self, device: types::DeviceId) -> bool {
        self.region.device() == device || self.groups().iter().any(|group| group.volume.device() == device)
    }

    /// For as long as the node lives.
    pub async fn run(self: Arc<Self>) {
        let ticking = async {
            loop {
                self.env.sleep(MEMBER_TICK).await;
                self.tick();
            }
        };
        tokio::join!(ticking, self.follow_views(), self.persist_records(), self.renew_leases(), self.watch());
    }

    fn tick(self: &Arc<Self>) {
        let now = self.env.now();
        for group in self.groups() {
            let is_due = group.machine.lock().deadline().is_some_and(|deadline| deadline <= now);
            if is_due {
                self.step(&group, Input::Tick);
            }
        }
    }

    /// Nothing is written to the node's devices any more when this returns.
    pub async fn close(&self) {
        for group in self.groups() {
            group.is_closed.store(true, Ordering::SeqCst);
            group.office_ends();
            group.admissions.drain().await;
        }
    }

    /// Begins a group's machine, with what the log has of it.
    fn begin_group(self: &Arc<Self>, number: u32) -> Result<Arc<Group>, String> {
        if let Some(group) = self.group(number) {
            return Ok(group);
        }
        let volume = self.volume_of(number)?;
        let saved = self.saved.lock().get(&GroupId(number)).cloned().unwrap_or_default();
        // What the superblock of this copy says may be more than others have: it counts when a primary has given it to all.
        let released = saved.log.base().opseq;
        let (me, session) = (self.me, self.session);
        let start = Start { me, group: GroupId(number), session, limits: GROUP_LOG, saved, released };
        let group = Arc::new(Group {
            number,
            machine: Mutex::new(Machine::new(start)),
            admissions: Admissions::default(),
            held: Mutex::default(),
            waiting: Mutex::default(),
            volume,
            office: Mutex::default(),
            office_changed: Notify::new(),
            trimmed: Notify::new(),
            persisted: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        });
        Ok(self.groups.lock().entry(number).or_insert(group).clone())
    }

    /// The volume of a group's copy: where it has space already, or on the device with the most room.
    fn volume_of(&self, number: u32) -> Result<Volume, String> {
        let part = region::part_of(number);
        let has_it = self.volumes.iter().find(|volume| volume.parts().contains(&part));
        let roomiest = || self.volumes.iter().max_by_key(|volume| volume.room_bytes());
        let volume = has_it.or_else(roomiest).ok_or("this node has no device")?;
        Ok(volume.part(part))
    }

    /// Takes an input in, and hands on what the machine asks for.
    pub(crate) fn step(self: &Arc<Self>, group: &Arc<Group>, input: Input) {
        let mut machine = group.machine.lock();
        self.step_locked(group, &mut machine, input);
    }

    fn step_locked(self: &Arc<Self>, group: &Arc<Group>, machine: &mut Machine, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            match machine.step(input, self.env.now()) {
                Ok(outputs) => {
                    for output in outputs {
                        inputs.extend(self.carry_out(group, machine, output));
                    }
                }
                Err(error) => tracing::error!(%error, group = group.number, "a view that can't be was named"),
            }
        }
        group.trimmed.notify_waiters();
    }

    /// What follows at once is returned. The state of a group stands in its volume: a dump has nothing in it.
    fn carry_out(self: &Arc<Self>, group: &Arc<Group>, machine: &Machine, output: Output) -> Option<Input> {
        match output {
            Output::Persist(record) => self.queue_record(group, record),
            Output::Send { to, message } => self.send(to, &message),
            Output::Committed { through } => {
                let mut waiting = group.waiting.lock();
                let later = waiting.split_off(&through.next());
                for told in std::mem::replace(&mut *waiting, later).into_values() {
                    // Who asked may be gone.
                    told.send(()).unwrap_or(());
                }
            }
            // Nothing is built on entries before they are committed.
            Output::RolledBack { .. } | Output::EndDump { .. } | Output::BeginLoad { .. } => {}
            Output::Serving { view, .. } => {
                self.lease_wanted.notify_one();
                self.take_office(group, view);
            }
            Output::Deposed { .. } => group.office_ends(),
            Output::AskRecord { view } => self.ask_record(group, view),
            Output::CannotLead { view } => {
                let (members, group) = (self.clone(), group.clone());
                drop(self.env.spawn(async move { members.ask_again_to_lead(&group, view).await }));
            }
            Output::TakeDump { dump } => return Some(Input::DumpTaken { dump, at: machine.commit() }),
            Output::ReadDump { dump, chunk } => {
                return Some(Input::DumpRead { dump, chunk, last: true, bytes: Bytes::new() });
            }
            Output::Load { load, chunk, .. } => {
                if self.is_voter(group) {
                    tracing::error!(group = group.number, "this node has lost its copy of a placement group: it does not vote");
                    return None;
                }
                return Some(Input::Loaded { load, chunk });
            }
        }
        None
    }

    /// Whether the newest view counts on this node's copy.
    fn is_voter(&self, group: &Group) -> bool {
        self.manager.snapshot().placement(group.number).is_some_and(|record| record.voters.contains(&self.me))
    }

    fn take_office(self: &Arc<Self>, group: &Arc<Group>, view: ViewNumber) {
        let (members, group) = (self.clone(), group.clone());
        drop(self.env.spawn(async move { Office::serve(members, group, view).await }));
    }

    fn ask_record(self: &Arc<Self>, group: &Arc<Group>, view: ViewNumber) {
        let (members, number) = (self.clone(), group.number);
        drop(self.env.spawn(async move {
            if let Err(error) = members.manager.activate_placement(number, view).await {
                tracing::debug!(%error, group = number, "a view was not recorded as active");
            }
        }));
    }

    /// This node was named as primary and has restarted: it asks for a view in which it can be.
    async fn ask_again_to_lead(&self, group: &Group, view: ViewNumber) {
        let Some(record) = self.manager.snapshot().placement(group.number).cloned() else { return };
        if record.view == view {
            let (voters, learners) = (record.voters.clone(), record.learners.clone());
            self.name_next(NamePlacement { group: group.number, after: Some(view), primary: self.me, voters, learners }).await;
        }
    }

    /// Whether no later view of the group is named, as far as this node knows.
    pub fn is_newest(&self, record: &PlacementRecord) -> bool {
        self.manager.snapshot().placement(record.group).is_some_and(|newest| newest.view == record.view)
    }

    /// Asks for the next view. It was named by others meanwhile if that is refused.
    pub async fn name_next(&self, next: NamePlacement) {
        let group = next.group;
        if let Err(error) = self.manager.name_placement(next).await {
            tracing::debug!(%error, group, "the next view of a placement group was not named");
            self.env.sleep(NEXT_VIEW_PAUSE).await;
        }
    }

    /// Appends an entry under a view, for who waits for its commit.
    pub fn append(
        self: &Arc<Self>,
        group: &Arc<Group>,
        view: ViewNumber,
        payload: Bytes,
        tell: oneshot::Sender<()>,
    ) -> Result<OpSeq, AppendError> {
        let mut machine = group.machine.lock();
        if machine.view() != view {
            return Err(AppendError::NotServing);
        }
        let opseq = machine.append(payload)?.opseq;
        group.waiting.lock().insert(opseq, tell);
        self.step_locked(group, &mut machine, Input::Tick);
        Ok(opseq)
    }

    /// Entries through this are needed no more here.
    pub fn release(self: &Arc<Self>, group: &Arc<Group>, through: OpSeq) {
        self.step(group, Input::Released(through));
    }

    /// Waits a little until the log begins behind an entry: other members release it, too.
    pub async fn wait_until_trimmed(&self, group: &Group, through: OpSeq) {
        let waiting = async {
            loop {
                let trimmed = group.trimmed.notified();
                if group.machine.lock().log().base().opseq >= through {
                    return;
                }
                trimmed.await;
            }
        };
        tokio::select! {
            () = waiting => {}
            () = self.env.sleep(NEXT_VIEW_PAUSE) => {}
        }
    }

    pub fn may_read(&self, group: &Group, view: ViewNumber) -> bool {
        let machine = group.machine.lock();
        machine.view() == view && machine.may_read(self.env.now())
    }
}
