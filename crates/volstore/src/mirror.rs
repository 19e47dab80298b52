//! A logical volume in copies on the nodes of a placement group, as its primary sees it.
//!
//! | a copy of | is written | a failed write |
//! |---|---|---|
//! | the primary, a voter | always | ends the view |
//! | a learner that lacks space, or has not been met | never | |
//! | a learner that is being filled | always | the learner gets nothing more in this view |
//! | a learner that has everything | always | ends the view: the next one may name it as a voter |
//!
//! Invariants:
//! - A member takes writes of the view alone that it has promised, and promises the next one when all before are done. So no late write of a former
//!   view lands in blocks that are used again.
//! - A write is answered when all copies have it that count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::Bytes;
use device::{Finishing, Volume, VolumeError};
use disk::AlignedBuf;
use env::Env;
use futures_util::future::{join, join_all};
use net::{CallError, Caller};
use parking_lot::Mutex;
use types::{DeviceId, DeviceUuid, ErrorKind, NodeId, ViewNumber};

use crate::blocks::{BlockError, Way};
use crate::limits::{
    ASK_TRIES, COPY_PATIENCE, LOGICAL_UNIT_BYTES, MEET_LEARNER_PATIENCE, MEET_LEARNER_TRIES, MEET_PAUSE, MEET_TRIES,
    MEET_UNITS, SPACE_PATIENCE,
};
use crate::members::Group;
use crate::wire::{BlockAnswer, BlockAsk, BlockQuestion};

/// A mirrored volume. Clones are the same one.
#[derive(Clone)]
pub struct Mirror {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    group: Arc<Group>,
    view: ViewNumber,
    me: NodeId,
    /// Those of voters first.
    others: Vec<Copy>,
    voters: usize,
    /// Units with space in all copies that count.
    units: Mutex<BTreeSet<u32>>,
    /// Nodes whose copy failed although it counts. [`ErrorKind::Timeout`]: all that is known is that it did not answer.
    failed: Mutex<BTreeMap<NodeId, ErrorKind>>,
}

/// Another node's copy.
pub struct Copy {
    node: NodeId,
    /// None: no way to the node is known.
    caller: Option<Arc<dyn Caller>>,
    role: AtomicU8,
}

const VOTER: u8 = 0;
const FILLING: u8 = 1;
const FILLED: u8 = 2;
const BROKEN: u8 = 3;
const PREPARING: u8 = 4;

impl Copy {
    pub fn new(node: NodeId, caller: Option<Arc<dyn Caller>>, is_voter: bool) -> Copy {
        Copy { node, caller, role: AtomicU8::new(if is_voter { VOTER } else { FILLING }) }
    }

    fn is(&self, role: u8) -> bool {
        self.role.load(Ordering::Acquire) == role
    }

    /// Whether it gets what is written.
    fn is_told(&self) -> bool {
        !self.is(BROKEN) && !self.is(PREPARING)
    }

    fn become_if(&self, from: u8, to: u8) -> bool {
        self.role.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// What a group's volume is called in its superblock and its dumps, on whichever device.
pub fn uuid_of_group(group: u32) -> DeviceUuid {
    let mut uuid = *b"trilith-group---";
    uuid[12..].copy_from_slice(&group.to_be_bytes());
    DeviceUuid(uuid)
}

impl Mirror {
    /// The volume of a group under a view. `others`: those of voters first.
    pub fn new(env: &Env, group: Arc<Group>, view: ViewNumber, me: NodeId, others: Vec<Copy>) -> Mirror {
        let voters = others.iter().filter(|copy| copy.is(VOTER)).count();
        let (units, failed) = (Mutex::default(), Mutex::default());
        Mirror { inner: Arc::new(Inner { env: env.clone(), group, view, me, others, voters, units, failed }) }
    }

    fn local(&self) -> &Volume {
        &self.inner.group.volume
    }

    /// The group's number.
    pub fn group(&self) -> u32 {
        self.inner.group.number
    }

    /// The device of the copy that is here.
    pub fn device(&self) -> DeviceId {
        self.local().device()
    }

    /// Bytes that can be addressed here.
    pub fn byte_count(&self) -> u64 {
        self.local().byte_count()
    }

    /// Whether writes of the copy that is here, and of records, are worth a try.
    pub fn takes_writes(&self) -> bool {
        !self.local().hangs() && self.local().poisoned_by().is_none() && self.inner.group.log.failure().is_none()
    }

    pub fn uuid(&self) -> DeviceUuid {
        uuid_of_group(self.inner.group.number)
    }

    pub fn units(&self) -> Vec<u32> {
        self.inner.units.lock().iter().copied().collect()
    }

    /// The primary's copy and those of voters.
    pub fn copies(&self) -> usize {
        1 + self.inner.voters
    }

    /// Nodes whose copies have failed.
    pub fn failed(&self) -> BTreeSet<NodeId> {
        let own = (!self.takes_writes()).then_some(self.inner.me);
        self.inner.failed.lock().keys().copied().chain(own).collect()
    }

    /// Asks those again that have only been silent: if this node was asleep, they were not. A copy that answers has not failed.
    pub async fn forgive(&self) {
        let is_silent = |copy: &&Copy| self.inner.failed.lock().get(&copy.node) == Some(&ErrorKind::Timeout);
        let silent: Vec<&Copy> = self.inner.others.iter().filter(is_silent).collect();
        let asking = silent.into_iter().map(async |copy| (copy.node, self.ask_once(copy, BlockAsk::Units).await));
        for (node, answered) in join_all(asking).await {
            if answered.is_ok() {
                self.inner.failed.lock().remove(&node);
            }
        }
    }

    /// Learners that are being filled.
    pub fn filling(&self) -> Vec<NodeId> {
        self.those(FILLING)
    }

    /// Learners that get nothing in this view any more.
    pub fn broken(&self) -> Vec<NodeId> {
        self.those(BROKEN)
    }

    /// Learners that get space in this view, and are filled in the next one.
    pub fn preparing(&self) -> Vec<NodeId> {
        self.those(PREPARING)
    }

    fn those(&self, role: u8) -> Vec<NodeId> {
        self.inner.others.iter().filter(|copy| copy.is(role)).map(|copy| copy.node).collect()
    }

    /// A learner is not filled in this view.
    pub fn give_up(&self, node: NodeId) {
        for copy in self.inner.others.iter().filter(|copy| copy.node == node) {
            copy.become_if(FILLING, BROKEN);
        }
    }

    /// A learner has everything: from now on its copy counts. False if it was broken meanwhile.
    pub fn is_filled(&self, node: NodeId) -> bool {
        self.inner.others.iter().any(|copy| copy.node == node && copy.become_if(FILLING, FILLED))
    }

    /// Asks all copies which units have space. All nodes have promised the view behind it, but for learners that do not answer at once.
    ///
    /// The group is shut meanwhile. So a learner that takes longer, or lacks much space, is not filled in this view.
    pub async fn meet(&self) -> Result<(), BlockError> {
        let inner = &self.inner;
        let mut common: BTreeSet<u32> = units_of(&inner.group.volume).into_iter().collect();
        let (voters, learners): (Vec<&Copy>, Vec<&Copy>) = inner.others.iter().partition(|copy| copy.is(VOTER));
        let meeting = voters.into_iter().map(async |copy| (copy, self.meet_copy(copy, MEET_TRIES).await));
        for (copy, met) in join_all(meeting).await {
            match met {
                Ok(units) => common.retain(|unit| units.contains(unit)),
                Err(error) => self.note_failure(copy, error)?,
            }
        }
        *inner.units.lock() = common;
        let meeting =
            learners.into_iter().map(async |copy| (copy, self.give_space(copy, MEET_LEARNER_TRIES, MEET_UNITS).await));
        let within = async { join_all(meeting).await };
        let met = tokio::select! {
            met = within => met,
            () = inner.env.sleep(MEET_LEARNER_PATIENCE) => Vec::new(),
        };
        let is_met = |copy: &Copy| met.iter().any(|(other, met)| other.node == copy.node && met.is_ok());
        for copy in inner.others.iter().filter(|copy| !is_met(copy)) {
            copy.become_if(FILLING, PREPARING);
        }
        Ok(())
    }

    /// Has the learners that were not met, or lack space, get ready for the next view.
    pub async fn prepare(&self) {
        let preparing = self.inner.others.iter().filter(|copy| copy.is(PREPARING)).map(async |copy| {
            if let Err(error) = self.give_space(copy, MEET_TRIES, usize::MAX).await {
                tracing::warn!(%error, group = self.inner.group.number, "a learner got no space");
                copy.become_if(PREPARING, BROKEN);
            }
        });
        join_all(preparing).await;
    }

    /// Gets a learner the units that it lacks, if there are not too many.
    async fn give_space(&self, copy: &Copy, tries: u32, most: usize) -> Result<(), BlockError> {
        let has = self.meet_copy(copy, tries).await?;
        let lacking: Vec<u32> = self.units().into_iter().filter(|unit| !has.contains(unit)).collect();
        if lacking.len() > most {
            let reason = format!("it lacks {} units of space", lacking.len());
            return Err(BlockError::Copy { node: copy.node, kind: ErrorKind::Busy, reason });
        }
        for unit in lacking {
            let offset = u64::from(unit) * LOGICAL_UNIT_BYTES;
            self.ask(copy, BlockAsk::Reserve { offset, len: LOGICAL_UNIT_BYTES }).await?;
        }
        Ok(())
    }

    /// A node may not have heard of the view yet.
    async fn meet_copy(&self, copy: &Copy, most: u32) -> Result<Vec<u32>, BlockError> {
        let mut tries = 0;
        loop {
            match self.ask_once(copy, BlockAsk::Units).await {
                Ok(BlockAnswer::Units(units)) => return Ok(units),
                Ok(_) => return Err(odd_answer(copy)),
                Err(error) if tries == most => return Err(error),
                Err(_) => tries += 1,
            }
            self.inner.env.sleep(MEET_PAUSE).await;
        }
    }

    /// Reads whole blocks of one copy. Copy 0 is the one that is here.
    pub async fn read(&self, copy: usize, offset: u64, len: usize, way: Way) -> Result<AlignedBuf, BlockError> {
        let Some(other) = copy.checked_sub(1) else { return Ok(self.inner.group.copy.read(offset, len, way).await?) };
        let other = &self.inner.others[other];
        let len = len as u32;
        match self.ask(other, BlockAsk::Read { offset, len, is_from_medium: way == Way::Medium }).await? {
            BlockAnswer::Bytes(bytes) if bytes.len() == len as usize => Ok(AlignedBuf::copy_of(&bytes)),
            BlockAnswer::Unreadable => {
                let reason = "its medium refuses to read the blocks".to_owned();
                Err(BlockError::Copy { node: other.node, kind: ErrorKind::Corrupt, reason })
            }
            _ => Err(odd_answer(other)),
        }
    }

    /// Writes whole blocks, to all copies at once.
    pub async fn write(&self, offset: u64, buf: AlignedBuf) -> Result<(), BlockError> {
        if self.inner.others.is_empty() {
            return self.write_own(offset, buf).await;
        }
        let ask = BlockAsk::Write { offset, bytes: Bytes::copy_from_slice(&buf) };
        let own = self.write_own(offset, buf);
        let (own, others) = join(own, self.ask_all(ask)).await;
        own.and(others)
    }

    /// Writes to one copy alone, which lacks what others have.
    pub async fn write_copy(&self, copy: usize, offset: u64, buf: AlignedBuf) -> Result<(), BlockError> {
        let Some(other) = copy.checked_sub(1) else { return self.write_own(offset, buf).await };
        let ask = BlockAsk::Write { offset, bytes: Bytes::copy_from_slice(&buf) };
        self.ask(&self.inner.others[other], ask).await.map(drop)
    }

    /// A copy that counts has failed, where that is not a write's affair.
    pub fn blame(&self, copy: usize, error: &BlockError) {
        match copy.checked_sub(1) {
            None => self.note_failed(self.inner.me, error.kind()),
            Some(other) => self.note_failed(self.inner.others[other].node, error.kind()),
        }
    }

    /// What is known to be wrong outweighs silence.
    fn note_failed(&self, node: NodeId, kind: ErrorKind) {
        let mut failed = self.inner.failed.lock();
        let known = failed.entry(node).or_insert(kind);
        if *known == ErrorKind::Timeout {
            *known = kind;
        }
    }

    /// Writes to the learners that are being filled.
    pub async fn fill(&self, offset: u64, bytes: Bytes) {
        let filling = self.inner.others.iter().filter(|copy| copy.is(FILLING));
        let writing = filling.map(async |copy| {
            if let Err(error) = self.ask(copy, BlockAsk::Write { offset, bytes: bytes.clone() }).await {
                tracing::warn!(%error, group = self.inner.group.number, "a learner is not filled any more");
                copy.become_if(FILLING, BROKEN);
            }
        });
        join_all(writing).await;
    }

    /// Makes everything written durable, in all copies.
    pub async fn flush(&self) -> Result<(), BlockError> {
        let local = self.local().clone();
        let own = self.own(COPY_PATIENCE * (ASK_TRIES + 1), async move { local.flush().await });
        let (own, others) = join(own, self.ask_all(BlockAsk::Flush)).await;
        own.and(others)
    }

    /// Gets units their space, in all copies.
    pub async fn reserve(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        let local = self.local().clone();
        let own = self.own(SPACE_PATIENCE, async move { local.reserve(offset, len).await });
        let (own, others) = join(own, self.ask_all(BlockAsk::Reserve { offset, len })).await;
        own.and(others)?;
        let units = offset / LOGICAL_UNIT_BYTES..(offset + len).div_ceil(LOGICAL_UNIT_BYTES);
        self.inner.units.lock().extend(units.map(|unit| unit as u32));
        Ok(())
    }

    /// Gives the space of all units back but these, in all copies. Nothing is in the others, and nothing is written there meanwhile.
    pub async fn keep_units(&self, units: Vec<u32>) -> Result<(), BlockError> {
        *self.inner.units.lock() = units.iter().copied().collect();
        let (local, kept) = (self.local().clone(), units.clone());
        let own = self.own(SPACE_PATIENCE, async move { keep_units(&local, &kept).await });
        let (own, others) = join(own, self.ask_all(BlockAsk::KeepUnits { units })).await;
        own.and(others)
    }

    /// The names are written as of an entry: members need those before it no more.
    pub async fn tell_released(&self, through: u64) {
        if let Err(error) = self.ask_all(BlockAsk::Released { through }).await {
            tracing::debug!(%error, "a member was not told what it needs no more");
        }
    }

    /// Asks all other copies that get anything. An error is of one that counts.
    async fn ask_all(&self, ask: BlockAsk) -> Result<(), BlockError> {
        let asking = self.inner.others.iter().filter(|copy| copy.is_told()).map(async |copy| {
            let answered = self.ask(copy, ask.clone()).await.map(drop);
            answered.or_else(|error| self.note_failure(copy, error))
        });
        join_all(asking).await.into_iter().collect()
    }

    /// A write is asked for once: another one of the same blocks might land after they are used again. Space is given back once: it may be wanted again.
    async fn ask(&self, copy: &Copy, ask: BlockAsk) -> Result<BlockAnswer, BlockError> {
        if matches!(ask, BlockAsk::Write { .. } | BlockAsk::KeepUnits { .. }) {
            return self.ask_once(copy, ask).await;
        }
        let mut tries = 0;
        loop {
            match self.ask_once(copy, ask.clone()).await {
                Err(error) if tries < ASK_TRIES && error.kind() != ErrorKind::Full => tries += 1,
                answered => return answered,
            }
            self.inner.env.sleep(MEET_PAUSE).await;
        }
    }

    async fn ask_once(&self, copy: &Copy, ask: BlockAsk) -> Result<BlockAnswer, BlockError> {
        let Inner { group, view, me, env, .. } = &*self.inner;
        let question = BlockQuestion { from: *me, group: group.number, view: *view, ask };
        let failed = |kind, reason| BlockError::Copy { node: copy.node, kind, reason };
        let no_way = || failed(ErrorKind::Unavailable, "there is no such node any more".to_owned());
        let caller = copy.caller.as_ref().ok_or_else(no_way)?;
        let changes_space = matches!(question.ask, BlockAsk::Reserve { .. } | BlockAsk::KeepUnits { .. });
        let patience = if changes_space { SPACE_PATIENCE } else { COPY_PATIENCE };
        let answered = caller.call(question.encode(), env.now() + patience).await;
        let answer = answered.map_err(|error: CallError| {
            let is_silent = matches!(error, CallError::NotSent { .. } | CallError::Unanswered { .. });
            failed(if is_silent { ErrorKind::Timeout } else { ErrorKind::Unavailable }, error.to_string())
        })?;
        match BlockAnswer::decode(answer) {
            Some(BlockAnswer::Full) => Err(failed(ErrorKind::Full, "its device is full".to_owned())),
            Some(answer) => Ok(answer),
            None => Err(odd_answer(copy)),
        }
    }

    /// Full is an answer; anything else ends the view if the copy counts, and the learner's filling if it does not.
    fn note_failure(&self, copy: &Copy, error: BlockError) -> Result<(), BlockError> {
        if copy.become_if(FILLING, BROKEN) || copy.is(BROKEN) {
            tracing::warn!(%error, group = self.inner.group.number, "a learner gets nothing more under this view");
            return Ok(());
        }
        if error.kind() != ErrorKind::Full {
            env::mark("volume engine: a copy that counts has failed");
            self.note_failed(copy.node, error.kind());
        }
        Err(error)
    }

    /// As other members do: under the view that is promised alone.
    async fn write_own(&self, offset: u64, buf: AlignedBuf) -> Result<(), BlockError> {
        let inner = &self.inner;
        let Some(ticket) = inner.group.admit(inner.view) else {
            let reason = "the placement group has a later view".to_owned();
            return Err(BlockError::Copy { node: inner.me, kind: ErrorKind::Unavailable, reason });
        };
        let copy = inner.group.copy.clone();
        let work = async move {
            let written = copy.write(offset, buf).await;
            drop(ticket);
            written
        };
        self.own(COPY_PATIENCE, work).await
    }

    /// This node's copy has as much time as others, and fails behind that. What it was asked for goes on. Where there is no other copy it is waited for.
    async fn own(
        &self,
        patience: Duration,
        work: impl Future<Output = Result<(), VolumeError>> + Send + 'static,
    ) -> Result<(), BlockError> {
        let Inner { env, me, others, .. } = &*self.inner;
        let done = if others.is_empty() {
            work.await.map_err(BlockError::from)
        } else {
            tokio::select! {
                // An answer that has come while this process stood still is one.
                biased;
                done = Finishing::new(env, work) => done.map_err(BlockError::from),
                () = env.sleep(patience) => {
                    let reason = "its disk does not answer".to_owned();
                    Err(BlockError::Copy { node: *me, kind: ErrorKind::Unavailable, reason })
                }
            }
        };
        done.inspect_err(|error| {
            if error.kind() != ErrorKind::Full {
                self.note_failed(*me, error.kind());
            }
        })
    }
}

fn odd_answer(copy: &Copy) -> BlockError {
    BlockError::Copy { node: copy.node, kind: ErrorKind::Unavailable, reason: "an answer to another question".to_owned() }
}

/// The logical units of which all has space on a device.
pub fn units_of(volume: &Volume) -> Vec<u32> {
    let end = (volume.byte_count() / LOGICAL_UNIT_BYTES) as u32;
    let touched = |own: u32| {
        let (first, last) = (u64::from(own) * volume.unit_bytes(), u64::from(own + 1) * volume.unit_bytes() - 1);
        (first / LOGICAL_UNIT_BYTES) as u32..=(last / LOGICAL_UNIT_BYTES) as u32
    };
    let touched: BTreeSet<u32> = volume.units().into_iter().flat_map(touched).filter(|unit| *unit < end).collect();
    let has_space = |unit: &u32| volume.is_reserved(u64::from(*unit) * LOGICAL_UNIT_BYTES, LOGICAL_UNIT_BYTES);
    touched.into_iter().filter(has_space).collect()
}

/// Gives the space of a device's units back that none of these logical units has a part in.
pub async fn keep_units(volume: &Volume, units: &[u32]) -> Result<(), VolumeError> {
    let touched = |unit: &u32| {
        let (first, end) = (u64::from(*unit) * LOGICAL_UNIT_BYTES, (u64::from(*unit) + 1) * LOGICAL_UNIT_BYTES);
        (first / volume.unit_bytes()) as u32..=((end - 1) / volume.unit_bytes()) as u32
    };
    let kept: BTreeSet<u32> = units.iter().flat_map(touched).collect();
    for unit in volume.units().into_iter().filter(|unit| !kept.contains(unit)) {
        volume.give_back(unit).await?;
    }
    Ok(())
}
