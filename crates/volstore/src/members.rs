//! What a node is a member of: the shell around the machines of `allack`, one for each placement group (docs/rfd/0026, 0027).
//!
//! ```text
//!   manager's records ──► views ──►┐                  ┌──► records ──► the log of the copy's device, for all groups there
//!   messages of members ──────────►├── Machine ───────┼──► messages, by node
//!   time ─────────────────────────►┘                  └──► serving, deposed ──► offices
//! ```
//!
//! Invariants:
//! - What a machine asks for is handed on in its order: under its lock.
//! - A promise is queued for the medium only when all writes of blocks under former views have ended.
//! - A group's copy and its records stand on one device: what fails there, or is missing, is of that device's groups alone.
//! - No lock is held during I/O.

mod device_log;
mod messages;
mod placing;
mod region;
mod space_calls;
mod views;
mod watching;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ::engine::EngineError;
use allack::{AppendError, Change, GroupId, Input, Machine, OpSeq, Output, Record, StoreError};
use bytes::Bytes;
use device::Volume;
use device::admission::{Admissions, Ticket};
use env::Env;
use futures_util::stream::{FuturesUnordered, StreamExt};
use manager::{Manager, NamePlacement, PlacementRecord};
use net::{Caller, ServiceTag};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use types::{DeviceId, NodeId, ViewNumber};

use crate::journal::Journal;
use crate::limits::{MEMBER_TICK, NEXT_VIEW_PAUSE, Shape};
use crate::office::Office;
use crate::own_copy::OwnCopy;

pub use region::{Region, causes};

use device_log::DeviceLog;
pub use device_log::Queued;
pub use messages::MessageService;
use messages::Outbox;
use space_calls::SpaceCalls;

/// The way to a service of another node; none if no such node is known.
pub type Ways = Arc<dyn Fn(NodeId, ServiceTag) -> Option<Arc<dyn Caller>> + Send + Sync>;

/// A node's place in the groups.
pub struct Members {
    pub env: Env,
    pub me: NodeId,
    pub manager: Arc<Manager>,
    pub ways: Ways,
    pub shape: Shape,
    /// Volumes of the node's devices.
    volumes: Vec<Volume>,
    logs: Mutex<BTreeMap<DeviceId, Arc<DeviceLog>>>,
    log_opened: Notify,
    session: u64,
    /// What the logs had of groups at the start: on which device, and what.
    saved: Mutex<BTreeMap<GroupId, (DeviceId, allack::Saved)>>,
    /// Devices whose log can't be read, and why.
    unreadable: BTreeMap<DeviceId, String>,
    groups: Mutex<BTreeMap<u32, Arc<Group>>>,
    /// Why groups can't be served here.
    obstacles: Mutex<BTreeMap<u32, EngineError>>,
    outbox: Outbox,
    /// A view has become active whose primary is here.
    lease_wanted: Notify,
    calls: SpaceCalls,
}

/// A group that this node is or was a member of.
pub struct Group {
    pub number: u32,
    machine: Mutex<Machine>,
    /// Those who write to blocks.
    admissions: Admissions,
    /// Who waits for the commit of an entry, at the primary.
    waiting: Mutex<BTreeMap<OpSeq, oneshot::Sender<()>>>,
    /// Where this node's copy has its space.
    pub volume: Volume,
    /// Its content.
    pub copy: OwnCopy,
    /// The log of the same device.
    pub log: Arc<DeviceLog>,
    /// Records that were handed to the log.
    records: AtomicU64,
    /// Records from a promise on, while writes under former views have not ended.
    held_back: Mutex<Option<Vec<Record>>>,
    office: Mutex<Option<Arc<Office>>>,
    trimmed: Notify,
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
    }

    /// How many records were handed to the log with these.
    fn count_records(&self, more: usize) -> u64 {
        self.records.fetch_add(more as u64, Ordering::Relaxed) + more as u64
    }

    /// The log takes nothing more: what is served here is only read from now on.
    fn stand_still(&self, reason: &str) {
        if let Some(office) = self.office() {
            office.store.stop_writing(reason);
        }
        self.waiting.lock().clear();
    }
}

/// Records that none waits for any more hold their groups, and those hold the logs.
impl Drop for Members {
    fn drop(&mut self) {
        self.logs.lock().values().for_each(|log| log.forget());
    }
}

fn is_promise(record: &Record) -> bool {
    matches!(record.change, Change::Promise(_))
}

impl Members {
    pub fn group(&self, number: u32) -> Option<Arc<Group>> {
        self.groups.lock().get(&number).cloned()
    }

    pub fn groups(&self) -> Vec<Arc<Group>> {
        self.groups.lock().values().cloned().collect()
    }

    /// Why a group can't be served here, if that is known.
    pub fn obstacle(&self, number: u32) -> Option<EngineError> {
        self.obstacles.lock().get(&number).cloned()
    }

    /// Notes why a group can't be served here; none: it can.
    pub fn note_obstacle(&self, number: u32, obstacle: Option<EngineError>) {
        let mut obstacles = self.obstacles.lock();
        match obstacle {
            Some(obstacle) => drop(obstacles.insert(number, obstacle)),
            None => drop(obstacles.remove(&number)),
        }
    }

    /// Whether a device has copies of groups with anything in them.
    pub fn uses(&self, device: DeviceId) -> bool {
        self.groups().iter().any(|group| group.volume.device() == device && !group.volume.units().is_empty())
    }

    /// For as long as the node lives.
    pub async fn run(self: Arc<Self>) {
        let ticking = async {
            loop {
                self.env.sleep(MEMBER_TICK).await;
                self.tick();
            }
        };
        tokio::join!(ticking, self.follow_views(), self.run_logs(), self.renew_leases(), self.watch());
    }

    /// Runs the logs that there are, and those that are made meanwhile.
    async fn run_logs(self: &Arc<Self>) {
        let mut running = FuturesUnordered::new();
        loop {
            let opened = self.log_opened.notified();
            let logs: Vec<Arc<DeviceLog>> = self.logs.lock().values().filter(|log| log.begin()).cloned().collect();
            running.extend(logs.into_iter().map(|log| log.run(self.clone())));
            tokio::select! {
                Some(()) = running.next() => {}
                () = opened => {}
            }
        }
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

    /// Nothing is served here any more.
    pub fn end_offices(&self) {
        self.groups().iter().for_each(|group| group.office_ends());
    }

    /// Nothing is written to a device any more when this returns.
    pub async fn close(&self, device: DeviceId) {
        for group in self.groups().into_iter().filter(|group| group.volume.device() == device) {
            if let Some(office) = group.office() {
                office.store.close().await;
            }
            group.is_closed.store(true, Ordering::SeqCst);
            group.office_ends();
            group.admissions.drain().await;
        }
        let log = self.logs.lock().get(&device).cloned();
        if let Some(journal) = log.as_ref().and_then(|log| log.journal()) {
            journal.close().await;
        }
    }

    /// The journals of this node's devices.
    pub fn journals(&self) -> Vec<Arc<Journal>> {
        self.logs.lock().values().filter_map(|log| log.journal().cloned()).collect()
    }

    /// Takes an input in, and hands on what the machine asks for.
    pub(crate) fn step(self: &Arc<Self>, group: &Arc<Group>, input: Input) {
        let mut machine = group.machine.lock();
        if let Some(queued) = self.step_locked(group, &mut machine, input) {
            group.log.watch(group, queued);
        }
    }

    /// Records that were queued by it: the caller sees to it that the machine hears when they are durable.
    fn step_locked(self: &Arc<Self>, group: &Arc<Group>, machine: &mut Machine, input: Input) -> Option<Queued> {
        let (mut inputs, mut records) = (vec![input], Vec::new());
        while let Some(input) = inputs.pop() {
            match machine.step(input, self.env.now()) {
                Ok(outputs) => {
                    for output in outputs {
                        inputs.extend(self.carry_out(group, machine, output, &mut records));
                    }
                }
                Err(error) => tracing::error!(%error, group = group.number, "a view that can't be was named"),
            }
        }
        group.trimmed.notify_waiters();
        self.queue(group, records)
    }

    /// Records go to the log. A promise waits until writes under former views have ended, and so does what follows it.
    fn queue(self: &Arc<Self>, group: &Arc<Group>, records: Vec<Record>) -> Option<Queued> {
        if records.is_empty() {
            return None;
        }
        let mut held_back = group.held_back.lock();
        if let Some(held_back) = &mut *held_back {
            held_back.extend(records);
            return None;
        }
        if records.iter().any(is_promise) {
            *held_back = Some(records);
            let group = group.clone();
            drop(self.env.spawn(async move { hand_on(&group).await }));
            return None;
        }
        drop(held_back);
        group.log.queue(group, records)
    }

    /// So many records of a group are durable, or the log has failed.
    pub fn note_durable(self: &Arc<Self>, group: &Arc<Group>, count: u64, outcome: Result<(), StoreError>) {
        match outcome {
            Ok(()) => self.step(group, Input::Persisted { count }),
            Err(error) => group.log.fail(self, &error),
        }
    }

    /// What follows at once is returned. The state of a group stands in its volume: a dump has nothing in it.
    fn carry_out(
        self: &Arc<Self>,
        group: &Arc<Group>,
        machine: &Machine,
        output: Output,
        records: &mut Vec<Record>,
    ) -> Option<Input> {
        match output {
            Output::Persist(record) => records.push(record),
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

    /// Appends an entry under a view, for a caller that waits for its commit. This node's own write of it, if that was queued: the caller waits for it.
    pub fn append(
        self: &Arc<Self>,
        group: &Arc<Group>,
        view: ViewNumber,
        payload: Bytes,
        tell: oneshot::Sender<()>,
    ) -> Result<(OpSeq, Option<Queued>), AppendError> {
        let mut machine = group.machine.lock();
        if machine.view() != view {
            return Err(AppendError::NotServing);
        }
        let opseq = machine.append(payload)?.opseq;
        group.waiting.lock().insert(opseq, tell);
        Ok((opseq, self.step_locked(group, &mut machine, Input::Tick)))
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

/// Hands on what was held back.
async fn hand_on(group: &Arc<Group>) {
    loop {
        let before = group.held_back.lock().as_ref().map_or(0, Vec::len);
        group.admissions.drain().await;
        let _in_order = group.machine.lock();
        let mut held_back = group.held_back.lock();
        let records = held_back.take().expect("what is held back is handed on once");
        // Another view was promised meanwhile.
        if records[before..].iter().any(is_promise) {
            *held_back = Some(records);
            continue;
        }
        if let Some(queued) = group.log.queue(group, records) {
            group.log.watch(group, queued);
        }
        return;
    }
}
