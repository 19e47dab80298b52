//! Who was heard of when, and what they said last.

use std::collections::{BTreeMap, BTreeSet};

use topology::ClockReading;
use types::{DeviceId, GatewayId, NodeId};

use super::facts::Facts;
use super::wire::Heartbeat;
use super::{NANOS_PER_MS, SILENCE_MS, STUCK_MS, UNREACHABLE_DEVICE_MS, elapsed_ms};

#[derive(Debug)]
pub(super) struct Heard {
    /// Every node of the cluster.
    nodes: BTreeMap<NodeId, Voice>,
    /// Every registered gateway.
    gateways: BTreeMap<GatewayId, ClockReading>,
}

#[derive(Debug)]
struct Voice {
    at: ClockReading,
    last: Option<Heartbeat>,
    /// Since when every heartbeat has reported these.
    devices: BTreeMap<DeviceId, ClockReading>,
    /// When it reported others for the last time, a moment ago.
    devices_until: BTreeMap<DeviceId, ClockReading>,
    gateways: BTreeMap<GatewayId, ClockReading>,
    /// Since when every heartbeat has shown that the node does not follow.
    behind_since: Option<ClockReading>,
}

impl Voice {
    fn unheard(now: ClockReading) -> Voice {
        let (devices, devices_until, gateways) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Voice { at: now, last: None, devices, devices_until, gateways, behind_since: None }
    }
}

impl Heard {
    /// A new leader takes everybody as heard at its start: it has not listened before.
    pub(super) fn starting(facts: &Facts, now: ClockReading) -> Heard {
        Heard {
            nodes: facts.nodes.keys().map(|node| (*node, Voice::unheard(now))).collect(),
            gateways: facts.cell.view_members().iter().map(|gateway| (*gateway, now)).collect(),
        }
    }

    /// Strangers are not noted: what is kept here is bounded by what is registered.
    pub(super) fn note(&mut self, facts: &Facts, heartbeat: Heartbeat, is_behind: bool, now: ClockReading) {
        if !facts.nodes.contains_key(&heartbeat.node) {
            return;
        }
        let voice = self.nodes.entry(heartbeat.node).or_insert_with(|| Voice::unheard(now));
        voice.at = now;
        voice.behind_since = voice.behind_since.or(Some(now)).filter(|_| is_behind);
        voice.devices_until.extend(voice.devices.keys().map(|device| (*device, now)));
        voice.devices_until.retain(|_, until| elapsed_ms(*until, now) < UNREACHABLE_DEVICE_MS);
        keep_since(&mut voice.devices, heartbeat.unreachable_devices.iter().copied(), now);
        keep_since(&mut voice.gateways, heartbeat.unreachable_gateways.iter().copied(), now);
        if let Some(gateway) = heartbeat.gateway
            && facts.cell.members.get(&gateway).is_some_and(|member| member.node == heartbeat.node)
        {
            self.gateways.insert(gateway, now);
        }
        voice.last = Some(heartbeat);
    }

    /// So much of the time that has passed does not count, neither as silence nor as a report that lasts.
    pub(super) fn excuse(&mut self, ms: u64, now: ClockReading) {
        let later = |at: &mut ClockReading| at.nanos = (at.nanos + ms * NANOS_PER_MS).min(now.nanos);
        for voice in self.nodes.values_mut() {
            later(&mut voice.at);
            let reports = voice.devices.values_mut().chain(voice.gateways.values_mut());
            reports.chain(&mut voice.behind_since).for_each(later);
        }
        self.gateways.values_mut().for_each(later);
    }

    /// Forgets who is registered no more.
    pub(super) fn forget(&mut self, facts: &Facts) {
        self.nodes.retain(|node, _| facts.nodes.contains_key(node));
        self.gateways.retain(|gateway, _| facts.cell.members.contains_key(gateway));
    }

    pub(super) fn is_node_heard(&self, node: NodeId, now: ClockReading) -> bool {
        self.nodes.get(&node).is_some_and(|voice| elapsed_ms(voice.at, now) < SILENCE_MS)
    }

    pub(super) fn is_gateway_heard(&self, gateway: GatewayId, now: ClockReading) -> bool {
        self.gateways.get(&gateway).is_some_and(|at| elapsed_ms(*at, now) < SILENCE_MS)
    }

    /// Whether a node has not followed for so long that nobody waits for it any more.
    pub(super) fn is_stuck(&self, node: NodeId, now: ClockReading) -> bool {
        let behind_since = self.nodes.get(&node).and_then(|voice| voice.behind_since);
        behind_since.is_some_and(|since| elapsed_ms(since, now) >= STUCK_MS)
    }

    /// What a node said last; none if it has been silent.
    pub(super) fn last(&self, node: NodeId, now: ClockReading) -> Option<&Heartbeat> {
        let voice = self.nodes.get(&node).filter(|voice| elapsed_ms(voice.at, now) < SILENCE_MS)?;
        voice.last.as_ref()
    }

    /// When somebody but one node was heard last: the one that this overseer runs on hears itself, whatever becomes of its links.
    /// None where that says nothing: of two nodes the other one may have died.
    pub(super) fn others_heard_at(&self) -> Option<ClockReading> {
        let mut heard: Vec<ClockReading> = self.nodes.values().map(|voice| voice.at).collect();
        heard.sort_unstable_by_key(|at| std::cmp::Reverse(at.nanos));
        heard.get(1).copied().filter(|_| heard.len() > 2)
    }

    /// Devices that all heartbeats of a node have reported as unreachable for so long.
    pub(super) fn devices_reported_for(&self, reporter: NodeId, least_ms: u64, now: ClockReading) -> BTreeSet<DeviceId> {
        let reported = self.nodes.get(&reporter).into_iter().flat_map(|voice| &voice.devices);
        reported.filter(|(_, since)| elapsed_ms(**since, now) >= least_ms).map(|(device, _)| *device).collect()
    }

    /// For how long all heartbeats of a node have reported a device as unreachable.
    pub(super) fn device_reported_ms(&self, reporter: NodeId, device: DeviceId, now: ClockReading) -> Option<u64> {
        let since = self.nodes.get(&reporter)?.devices.get(&device)?;
        Some(elapsed_ms(*since, now))
    }

    /// Whether a node reports a device as unreachable, or did so less than [`UNREACHABLE_DEVICE_MS`] ago.
    pub(super) fn has_reported_lately(&self, reporter: NodeId, device: DeviceId, now: ClockReading) -> bool {
        let was_reported = |voice: &Voice| {
            let until = voice.devices_until.get(&device);
            until.is_some_and(|until| elapsed_ms(*until, now) < UNREACHABLE_DEVICE_MS)
        };
        self.nodes.get(&reporter).is_some_and(|voice| voice.devices.contains_key(&device) || was_reported(voice))
    }

    /// As [`Heard::device_reported_ms`], of a gateway.
    pub(super) fn gateway_reported_ms(&self, reporter: NodeId, gateway: GatewayId, now: ClockReading) -> Option<u64> {
        let since = self.nodes.get(&reporter)?.gateways.get(&gateway)?;
        Some(elapsed_ms(*since, now))
    }
}

fn keep_since<K: Ord>(since: &mut BTreeMap<K, ClockReading>, reported: impl Iterator<Item = K>, now: ClockReading) {
    let mut before = std::mem::take(since);
    since.extend(reported.map(|key| {
        let at = before.remove(&key).unwrap_or(now);
        (key, at)
    }));
}
