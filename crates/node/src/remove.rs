//! Taking a node, or a device, out of the cluster that does not come back.
//!
//! ```text
//!   question   version 2 | 0: a node, 1: a device | 1: also if it serves, and whatever is lost with it | the node's name, or its address if it
//!              was never registered; the device's number, u32
//!   answer     empty: it is no part of the cluster any more; else the reason why it still is
//! ```
//!
//! Each step may be the last one that is done; asked again, what is left is done. The record of the node goes last, because its name
//! leads to everything else. A removal goes on when who asked has given up, and who asks again meanwhile waits for its end: to look for
//! what would be lost may take longer than anybody waits.

use crate::CELL;
use crate::inquiry::verdict;
use crate::node::Inner;
use crate::under_way::UnderWay;
use bytes::{BufMut, Bytes, BytesMut};
use env::Env;
use futures_util::future::join_all;
use manager::{DeviceState, GroupMember, NodeRecord, Snapshot, member_id};
use net::{BoxFuture, CallError, Caller, Refusal, Request, Service, ServiceTag};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Weak;
use std::time::Duration;
use subsystem::Loss;
use types::{DeviceId, GatewayId, NodeIdentity};

/// The version that is written; 1: of nodes only.
const REMOVAL_VERSION: u8 = 2;

/// How long who asks for a removal waits for it at most: the node looks through its index, and reads the chunk list of each large object.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(300);
/// How long a node that is to be removed may take to answer.
const WHO_PATIENCE: Duration = Duration::from_secs(1);
/// How long the cell's view may take to be without a gateway or a device.
const VIEW_PATIENCE: Duration = Duration::from_secs(20);
/// How often it is looked at meanwhile.
const VIEW_LOOK: Duration = Duration::from_millis(50);

/// Why a node can't tell what would be lost.
const DOES_NOT_SERVE: &str = "this node's gateway does not serve at present: ask another node";

/// What is to be removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Removed {
    /// A node, by its name, with all its devices; or, by its address, one whose join ended half-way.
    Node(String),
    Device(DeviceId),
}

/// Removes nodes and devices when it is asked to.
pub(crate) struct RemovalService {
    node: Weak<Inner>,
    under_way: UnderWay<(Removed, bool), Result<(), String>>,
}

impl RemovalService {
    pub fn new(node: Weak<Inner>) -> RemovalService {
        RemovalService { node, under_way: UnderWay::new() }
    }
}

impl Service for RemovalService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let ends = || Refusal::new("this node ends");
            let node = self.node.upgrade().ok_or_else(ends)?;
            let (what, force) = decode(&request.payload).ok_or_else(|| Refusal::new("not a question of removal"))?;
            let (env, key) = (node.env.clone(), (what.clone(), force));
            let removal = async move {
                match what {
                    Removed::Node(name) => node.remove(&name, force).await,
                    Removed::Device(device) => node.forget_device(device, force).await,
                }
            };
            let removed = self.under_way.outcome(&env, key, removal).await.ok_or_else(ends)?;
            Ok(removed.map_or_else(Bytes::from, |()| Bytes::new()))
        })
    }
}

fn encode(what: &Removed, force: bool) -> Bytes {
    let mut question = BytesMut::new();
    question.put_u8(REMOVAL_VERSION);
    match what {
        Removed::Node(name) => {
            question.put_slice(&[0, u8::from(force)]);
            question.put_slice(name.as_bytes());
        }
        Removed::Device(device) => {
            question.put_slice(&[1, u8::from(force)]);
            question.put_u32_le(device.0);
        }
    }
    ServiceTag::REMOVALS.mark(&question)
}

fn decode(question: &[u8]) -> Option<(Removed, bool)> {
    let [REMOVAL_VERSION, kind, force @ (0 | 1), which @ ..] = question else { return None };
    let what = match kind {
        0 => Removed::Node(str::from_utf8(which).ok()?.to_owned()),
        1 => Removed::Device(DeviceId(u32::from_le_bytes(which.try_into().ok()?))),
        _ => return None,
    };
    Some((what, *force == 1))
}

/// Asks a member of a cluster to remove another node, or a device. An outer error: it is not known what became of it; asking again is
/// safe. An inner one: why it was refused.
pub fn remove<'a>(
    env: &'a Env,
    member: &'a dyn Caller,
    what: &'a Removed,
    force: bool,
) -> BoxFuture<'a, Result<Result<(), String>, CallError>> {
    Box::pin(async move {
        let answer = member.call(encode(what, force), env.now() + REMOVAL_PATIENCE).await?;
        Ok(verdict(&answer))
    })
}

impl Inner {
    /// Removes a node; an error says why it is still there.
    async fn remove(&self, name: &str, force: bool) -> Result<(), String> {
        self.manager.fresh().await.map_err(failed("the manager's leader does not answer"))?;
        let state = self.manager.snapshot();
        let Some(node) = state.nodes().find(|node| node.name == name).cloned() else {
            return self.remove_unregistered(name, force).await;
        };
        if node.id == self.id {
            return Err("a node does not remove itself: ask another one".to_owned());
        }
        let devices = devices_of(&state, &node);
        if state.devices().all(|device| device.state != DeviceState::Active || devices.contains(&device.id)) {
            return Err(format!("the cluster has no other devices than those of {name}"));
        }
        if !force {
            self.check_gone(&state, &node).await?;
            self.check_nothing_lost(&format!("devices of node {name}"), &devices, "--force").await?;
            // It may have come back while that was looked for.
            self.manager.fresh().await.map_err(failed("the manager's leader does not answer"))?;
            let state = self.manager.snapshot();
            // Perhaps at another address, and with other devices.
            let present = state.node(node.id).cloned().ok_or_else(|| format!("node {name} has been removed meanwhile"))?;
            self.check_gone(&state, &present).await?;
            if devices_of(&state, &present) != devices {
                return Err(format!("node {name} has other devices than a moment ago: try again"));
            }
        }
        tracing::info!(name, force, "a node is removed from the cluster");
        self.take_vote(&node).await?;
        self.take_out_of_view(&node).await?;
        self.forget_devices(&devices).await?;
        self.manager.remove_node(node.id).await.map_err(failed("its record stays"))
    }

    /// Removes members of the manager at an address whose nodes have no name yet, because their join ended half-way.
    async fn remove_unregistered(&self, address: &str, force: bool) -> Result<(), String> {
        let mut members = self.manager.unregistered_members();
        members.retain(|member| member.address == address);
        if members.is_empty() {
            return Err(format!("there is no node {address}: it was never part of the cluster, or has been removed"));
        }
        for GroupMember { node, .. } in members {
            if !force {
                let answer =
                    self.callers.to(address, ServiceTag::PINGS).call(Bytes::new(), self.env.now() + WHO_PATIENCE).await;
                let identity = answer.ok().and_then(|answer| Some(NodeIdentity(answer[..].try_into().ok()?)));
                if identity.is_some_and(|identity| member_id(identity) == node) {
                    return Err(format!(
                        "the node at {address} is joining: stop it first, or remove it all the same with --force"
                    ));
                }
            }
            tracing::info!(
                address,
                member = node.0,
                force,
                "a member of the manager whose node was never registered is removed"
            );
            self.manager.remove_member(node).await.map_err(failed("it is still a member of the manager"))?;
        }
        Ok(())
    }

    /// Declares a device gone for good, so that what had copies on it gets others; an error says why it is still waited for.
    pub(crate) async fn forget_device(&self, device: DeviceId, force: bool) -> Result<(), String> {
        self.manager.fresh().await.map_err(failed("the manager's leader does not answer"))?;
        let state = self.manager.snapshot();
        if state.device(device).is_none() {
            return Err(format!("there is no device {device}: it was never part of the cluster, or has been forgotten"));
        }
        if state.devices().all(|other| other.state != DeviceState::Active || other.id == device) {
            return Err(format!("the cluster has no other devices than device {device}"));
        }
        if !force {
            self.check_unserved(device).await?;
            self.check_nothing_lost(&format!("device {device}"), &BTreeSet::from([device]), "--yes").await?;
            // It may have come back while that was looked for.
            self.check_unserved(device).await?;
        }
        tracing::info!(device = device.0, force, "a device is forgotten: what had copies on it gets others");
        self.forget_devices(&BTreeSet::from([device])).await
    }

    /// Refuses a device that is there. A gateway's hold tells: without one nothing is known.
    async fn check_unserved(&self, device: DeviceId) -> Result<(), String> {
        self.engine.serving().ok_or(DOES_NOT_SERVE)?;
        match self.is_served(device).await.ok_or(DOES_NOT_SERVE)? {
            true => Err(format!("device {device} is there, and its node serves it")),
            false => Ok(()),
        }
    }

    /// Refuses a node that is there.
    async fn check_gone(&self, state: &Snapshot, node: &NodeRecord) -> Result<(), String> {
        let question = self.callers.to_node(node, ServiceTag::PINGS);
        let answer = question.call(Bytes::new(), self.env.now() + WHO_PATIENCE).await;
        let is_there = answer.is_ok_and(|answer| answer == node.identity.0[..]);
        if is_there || gateway_of(state, node).is_some() {
            return Err(format!("node {} still serves: stop it first, or remove it all the same with --force", node.name));
        }
        let is_its = |member: &manager::Member| member.node == node.id;
        if state.cell(CELL).is_some_and(|cell| cell.undecided.values().any(is_its)) {
            return Err(format!("what clients wrote through node {} is being recovered: try again in a moment", node.name));
        }
        Ok(())
    }

    /// Refuses if something has copies on these devices alone; `all_the_same` is the option with which a person insists.
    async fn check_nothing_lost(&self, whose: &str, devices: &BTreeSet<DeviceId>, all_the_same: &str) -> Result<(), String> {
        if devices.is_empty() {
            return Ok(());
        }
        let loss = Loss { devices: devices.clone(), whose: whose.to_owned(), all_the_same: all_the_same.to_owned() };
        for subsystem in &self.subsystems {
            subsystem.check_nothing_lost(&loss).await?;
        }
        Ok(())
    }

    /// The same of objects.
    pub(crate) async fn check_no_object_lost(&self, loss: &Loss) -> Result<(), String> {
        let Loss { devices, whose, all_the_same } = loss;
        let store = self.engine.serving().ok_or(DOES_NOT_SERVE)?;
        let untold = format!("what would be lost can't be told; {all_the_same} removes it whatever is lost");
        let lost = store.would_lose(devices).await.map_err(failed(&untold))?;
        if lost.is_nothing() {
            return self.check_others_served(devices, all_the_same).await;
        }
        let logstore::Loss { records, blocks } = lost;
        Err(format!(
            "{records} objects and {blocks} blocks of the checkpoint have copies on {whose} alone, as far as devices are there. Bring that back, or \
             other devices that are away, or wait until the copies that are missing have been made; {all_the_same} gives them up"
        ))
    }

    /// Refuses while another device that is written to is away: what has a copy there only seems to be safe. Such a device stays in the table where no other one is left.
    async fn check_others_served(&self, devices: &BTreeSet<DeviceId>, all_the_same: &str) -> Result<(), String> {
        let state = self.manager.snapshot();
        let installed = state.cell(CELL).and_then(|cell| cell.installed.as_ref()).ok_or(DOES_NOT_SERVE)?;
        let others = installed.table.devices().iter().filter(|device| !devices.contains(device));
        let asked = others.map(async |device| (self.is_served(*device).await != Some(true)).then_some(*device));
        let away: Vec<DeviceId> = join_all(asked).await.into_iter().flatten().collect();
        match away[..] {
            [] => Ok(()),
            [device, ..] => Err(format!(
                "device {device} is written to and does not answer, so that what has a copy there may be lost: bring it back first; {all_the_same} \
                 does not wait for it"
            )),
        }
    }

    /// The node counts for the manager's majority no more.
    async fn take_vote(&self, node: &NodeRecord) -> Result<(), String> {
        let member = member_id(node.identity);
        let members = self.manager.replication().map(|replication| replication.members).unwrap_or_default();
        if members.iter().all(|known| known.node != member) {
            return Ok(());
        }
        self.manager.remove_member(member).await.map_err(failed("it still has a vote"))
    }

    /// Its gateway leaves the cell's view, when its lease has ended.
    async fn take_out_of_view(&self, node: &NodeRecord) -> Result<(), String> {
        let state = self.manager.snapshot();
        if let (Some(cell), Some(gateway)) = (state.cell(CELL), gateway_of(&state, node)) {
            // Refused if the view has just changed: whether that took it out is looked at below.
            let begun = self.manager.begin_removal(CELL, cell.view_number(), BTreeSet::from([gateway])).await;
            if let Err(error) = begun {
                tracing::info!(%error, "the removal of a gateway was not begun");
            }
        }
        self.view_becomes(|state| gateway_of(state, node).is_none()).await.map_err(failed("its gateway"))
    }

    /// Nothing is written to its devices any more, and nobody waits for them.
    async fn forget_devices(&self, devices: &BTreeSet<DeviceId>) -> Result<(), String> {
        // Another node may be at it, too.
        let is_known = |device: DeviceId| self.manager.snapshot().device(device).is_some();
        for device in devices.iter().filter(|device| is_known(**device)) {
            let failed_state = self.manager.set_device_state(*device, DeviceState::Failed).await;
            failed_state.map_err(failed("its devices are still in use"))?;
        }
        let is_written = |state: &Snapshot| {
            let installed = state.cell(CELL).and_then(|cell| cell.installed.as_ref());
            installed.is_some_and(|installed| installed.table.devices().iter().any(|device| devices.contains(device)))
        };
        self.view_becomes(|state| !is_written(state)).await.map_err(failed("its devices"))?;
        for device in devices.iter().filter(|device| is_known(**device)) {
            let removed = self.manager.remove_device(*device).await;
            if is_known(*device) {
                removed.map_err(failed("its devices are not forgotten"))?;
            }
        }
        Ok(())
    }

    async fn view_becomes(&self, is_so: impl Fn(&Snapshot) -> bool) -> Result<(), &'static str> {
        let until = self.env.now() + VIEW_PATIENCE;
        while !is_so(&self.manager.snapshot()) {
            if self.env.now() >= until {
                return Err("still in the cell's view: ask again when the view has changed");
            }
            self.env.sleep(VIEW_LOOK).await;
        }
        Ok(())
    }
}

fn devices_of(state: &Snapshot, node: &NodeRecord) -> BTreeSet<DeviceId> {
    state.devices().filter(|device| device.node == Some(node.id)).map(|device| device.id).collect()
}

/// The node's gateway in the cell's view.
fn gateway_of(state: &Snapshot, node: &NodeRecord) -> Option<GatewayId> {
    let cell = state.cell(CELL)?;
    let mut members = cell.view_members().iter().copied();
    members.find(|gateway| cell.members.get(gateway).is_some_and(|member| member.node == node.id))
}

fn failed<E: Display>(what: &str) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_come_back_and_others_are_refused() {
        for force in [false, true] {
            for (what, bytes) in [(Removed::Node("node-2".to_owned()), 9), (Removed::Device(DeviceId(77)), 7)] {
                let marked = encode(&what, force);
                let question = &marked[marked.len() - bytes..];
                assert_eq!(decode(question), Some((what, force)));
                assert_eq!(decode(&question[..2]), None);
                assert_eq!(decode(&[&[1], &question[1..]].concat()), None);
                assert_eq!(decode(&[&question[..1], &[2], &question[2..]].concat()), None);
                assert_eq!(decode(&[&question[..3], &[0xff]].concat()), None);
            }
        }
    }
}
