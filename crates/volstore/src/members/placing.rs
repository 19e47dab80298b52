//! On which of the node's devices a group's copy stands.
//!
//! | the logs of the node's devices | the copy is |
//! |---|---|
//! | have the group | on the device whose log has promised the newest view |
//! | have not, and the last active membership does not count on this node | made, on the device with the most room for each of its groups |
//! | have not, and a device is missing | waited for; other voters go on without it |
//! | have not, and no device is missing | given up: other voters go on without it, and without others the group is empty |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use ::engine::EngineError;
use allack::{GroupId, Machine, Start};
use device::Volume;
use device::admission::Admissions;
use env::Env;
use manager::{Manager, NamePlacement, PlacementRecord};
use parking_lot::Mutex;
use tokio::sync::Notify;
use types::{DeviceId, NodeId};

use super::device_log::DeviceLog;
use super::messages::Outbox;
use super::region::{self, Region};
use super::space_calls::SpaceCalls;
use super::{Group, Members, Ways};
use crate::limits::Shape;
use crate::mirror::keep_units;
use crate::own_copy::OwnCopy;

impl Members {
    /// Takes up what the node's devices have of groups.
    pub async fn open(
        env: &Env,
        me: NodeId,
        manager: Arc<Manager>,
        ways: Ways,
        volumes: Vec<Volume>,
        shape: Shape,
    ) -> Arc<Members> {
        let mut saved: BTreeMap<GroupId, (DeviceId, allack::Saved)> = BTreeMap::new();
        let (mut logs, mut unreadable) = (BTreeMap::new(), BTreeMap::new());
        for volume in &volumes {
            let device = volume.device();
            match Region::find(env, volume, shape).await {
                Ok(None) => {}
                Ok(Some(mut opened)) => {
                    let found = std::mem::take(&mut opened.saved);
                    logs.insert(device, Arc::new(DeviceLog::new(opened)));
                    for (group, found) in found {
                        let known = saved.get(&group).map(|(_, known)| known.promised);
                        if known.is_none_or(|known| known < found.promised) {
                            saved.insert(group, (device, found));
                        }
                    }
                }
                Err(reason) => {
                    tracing::error!(
                        reason,
                        device = device.0,
                        "the placement groups of volume buckets on a device can't be read"
                    );
                    unreadable.insert(device, reason);
                }
            }
        }
        Arc::new(Members {
            env: env.clone(),
            me,
            manager,
            ways,
            shape,
            volumes,
            logs: Mutex::new(logs),
            log_opened: Notify::new(),
            session: env.random_u64(),
            saved: Mutex::new(saved),
            unreadable,
            groups: Mutex::default(),
            obstacles: Mutex::default(),
            outbox: Outbox::default(),
            lease_wanted: Notify::new(),
            calls: SpaceCalls::default(),
        })
    }

    /// Begins a group's machine, with what the logs have of it.
    pub(super) async fn begin_group(self: &Arc<Self>, record: &PlacementRecord) -> Result<Arc<Group>, EngineError> {
        let number = record.group;
        if let Some(group) = self.group(number) {
            return Ok(group);
        }
        let found = self.saved.lock().get(&GroupId(number)).cloned();
        let (log, saved) = match found {
            Some((device, saved)) => (self.logs.lock()[&device].clone(), saved),
            None => {
                self.check_not_elsewhere(record)?;
                let made = self.roomiest_log().await;
                (made.map_err(|reason| EngineError::Unavailable { reason })?, allack::Saved::default())
            }
        };
        let part = region::part_of(number);
        let own = self.volumes.iter().find(|volume| volume.device() == log.device());
        let volume = own.expect("a log is on a device of the node").part(part);
        // A device that was away has a copy of former views.
        for stale in self.volumes.iter().filter(|volume| volume.device() != log.device()).map(|volume| volume.part(part)) {
            if let Err(error) = keep_units(&stale, &[]).await {
                tracing::warn!(%error, group = number, "a copy that counts no more was not given up");
            }
        }
        // What the superblock of this copy says may be more than others have: it counts when a primary has given it to all.
        let released = saved.log.base().opseq;
        let (me, session, limits) = (self.me, self.session, self.shape.log);
        let start = Start { me, group: GroupId(number), session, limits, saved, released };
        let group = Arc::new(Group {
            number,
            machine: Mutex::new(Machine::new(start)),
            admissions: Admissions::default(),
            waiting: Mutex::default(),
            copy: OwnCopy::new(volume.clone(), part, log.journal().cloned()),
            volume,
            log,
            records: AtomicU64::new(0),
            held_back: Mutex::default(),
            office: Mutex::default(),
            trimmed: Notify::new(),
            is_closed: AtomicBool::new(false),
        });
        self.note_obstacle(number, None);
        Ok(self.groups.lock().entry(number).or_insert(group).clone())
    }

    /// Refuses a group whose copy was on this node and is on none of its devices.
    fn check_not_elsewhere(&self, record: &PlacementRecord) -> Result<(), EngineError> {
        let Some(active) = record.active().filter(|active| active.voters.contains(&self.me)) else { return Ok(()) };
        let number = record.group;
        if let Some((device, reason)) = self.unreadable.first_key_value() {
            let reason =
                format!("placement group {number} of volume buckets may be on device {device}, which can't be read: {reason}");
            return Err(EngineError::DeviceMissing { reason });
        }
        let state = self.manager.snapshot();
        let is_alone = state.nodes().count() <= 1;
        let is_own = |node: Option<NodeId>| node.map_or(is_alone, |node| node == self.me);
        let is_here = |device: DeviceId| self.volumes.iter().any(|volume| volume.device() == device);
        let missing = state.devices().find(|device| is_own(device.node) && !is_here(device.id));
        if let Some(device) = missing {
            let reason = format!(
                "device {} ({}) is missing, and placement group {number} of volume buckets is on it: attach it",
                device.id, device.path
            );
            return Err(EngineError::DeviceMissing { reason });
        }
        match active.voters.len() > 1 {
            true => Err(EngineError::DeviceMissing {
                reason: format!("this node has no copy of placement group {number} any more"),
            }),
            false => {
                tracing::warn!(group = number, "the device with a placement group was given up: the group is empty");
                Ok(())
            }
        }
    }

    /// The log of the device that has the most room for each of its groups; it is made if there is none.
    async fn roomiest_log(&self) -> Result<Arc<DeviceLog>, String> {
        let groups = self.groups();
        let room_for_each = |volume: &&Volume| {
            let sharing = groups.iter().filter(|group| group.volume.device() == volume.device()).count();
            volume.room_bytes() / (sharing as u64 + 1)
        };
        let is_fit = |volume: &&Volume| {
            let device = volume.device();
            let has_failed = self.logs.lock().get(&device).is_some_and(|log| log.failure().is_some());
            !has_failed && !volume.hangs() && volume.poisoned_by().is_none() && !self.unreadable.contains_key(&device)
        };
        let roomiest = self.volumes.iter().filter(is_fit).max_by_key(room_for_each);
        let volume = roomiest.ok_or("no device of this node takes writes")?;
        if let Some(log) = self.logs.lock().get(&volume.device()) {
            return Ok(log.clone());
        }
        let log = Arc::new(DeviceLog::new(Region::make(&self.env, volume, self.shape).await?));
        self.logs.lock().insert(volume.device(), log.clone());
        self.log_opened.notify_one();
        Ok(log)
    }

    /// Asks for views without this node, until it counts no more or no other node is left.
    pub(super) fn ask_to_be_left_out(self: &Arc<Self>, number: u32) {
        let members = self.clone();
        let work = async move {
            loop {
                let Some(record) = members.manager.snapshot().placement(number).cloned() else { return };
                let is_other = |node: &NodeId| *node != members.me;
                let voters: Vec<NodeId> = record.voters.iter().copied().filter(is_other).collect();
                let base = record.active().map_or_else(|| record.voters.clone(), |active| active.voters);
                let leading = std::iter::once(record.primary).chain(voters.iter().copied());
                let Some(primary) = leading.filter(is_other).find(|node| base.contains(node)) else { return };
                if voters.len() == record.voters.len() {
                    return;
                }
                let learners = record.learners.iter().copied().filter(is_other).collect();
                members.name_next(NamePlacement { group: number, after: Some(record.view), primary, voters, learners }).await;
                members.env.sleep(crate::limits::NEXT_VIEW_PAUSE).await;
            }
        };
        drop(self.env.spawn(work));
    }
}
