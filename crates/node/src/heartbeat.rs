//! Heartbeats to the manager's leader; its answers are the gateway's lease.

use crate::CELL;
use crate::hanging::is_out;
use crate::node::{Inner, Node};
use crate::vitals::Present;
use bytes::Bytes;
use manager::overseer::{Answer, DeviceReport, HEARTBEAT_INTERVAL_MS, Heartbeat, Refused};
use net::ServiceTag;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use topology::{ClockReading, HeldLease};
use types::GatewayId;

/// How long a node waits for an answer. Less than a lease by far: the next leader may answer the next heartbeat.
const ANSWER_PATIENCE: Duration = Duration::from_millis(600);

/// For how long after its lease a gateway still counts as one that answers clients: a new view takes the lease of the one before, and the next heartbeat
/// brings another.
const LEASELESS_PATIENCE: Duration = Duration::from_secs(3);

impl Node {
    /// Whether this node's gateway serves, and has a lease, or had one a moment ago. One that is cut off from the manager serves as far as it knows, and answers
    /// nothing.
    pub fn may_answer(&self) -> bool {
        let present = self.inner.vitals.get();
        let patience = LEASELESS_PATIENCE.as_nanos() as u64;
        let lasts = present.lease.is_some_and(|lease| self.inner.clock().nanos < lease.ends().nanos.saturating_add(patience));
        lasts && self.inner.engine.serving().is_some()
    }
}

impl Inner {
    fn clock(&self) -> ClockReading {
        ClockReading { nanos: self.env.now().as_nanos() }
    }

    /// Sends heartbeats for as long as the node lives.
    pub(crate) async fn send_heartbeats(self: Arc<Self>) {
        loop {
            self.send_heartbeat().await;
            tokio::select! {
                biased;
                () = self.vitals.news.notified() => {}
                () = self.env.sleep(Duration::from_millis(HEARTBEAT_INTERVAL_MS)) => {}
            }
        }
    }

    async fn send_heartbeat(self: &Arc<Self>) {
        let present = self.vitals.get();
        let Some(leader) = self.manager.leader() else { return };
        // Before it is sent: the lease counts from here.
        let asked_at = self.clock();
        let heartbeat = Bytes::from(self.heartbeat(&present).encode());
        let caller = self.callers.to(&leader.address, ServiceTag::HEARTBEATS);
        let Ok(answer) = caller.call(heartbeat, self.env.now() + ANSWER_PATIENCE).await else { return };
        let Ok(Answer { view, lease }) = Answer::decode(&answer) else { return };
        if lease != Err(Refused::NotRegistered) {
            self.vitals.change(|present| present.known_at = Some(self.env.now()));
        }
        let mine = present.registered.map(|registered| registered.gateway);
        if let (Ok(gateway), Some(store)) = (lease, &present.store)
            && Some(gateway) == mine
        {
            let lease = HeldLease::granted(&self.lease_terms, view, asked_at);
            store.renew_lease(lease);
            self.vitals.change(|present| {
                if present.registered.map(|registered| registered.gateway) == mine {
                    present.lease = Some(lease);
                }
            });
        }
    }

    fn heartbeat(&self, present: &Present) -> Heartbeat {
        // First: what it says of a view must not be joined with an older state's list of whom is to be recovered.
        let status = present.store.as_ref().and_then(|store| store.member_status()).unwrap_or_default();
        let state = self.manager.snapshot();
        let cell = state.cell(CELL);
        let undecided: BTreeSet<GatewayId> = cell.map(|cell| cell.undecided.keys().copied().collect()).unwrap_or_default();
        let is_silent = |node| present.silent_nodes.contains(&node);
        let members = cell.map(|cell| &cell.members);
        let silent = members.into_iter().flatten().filter(|(_, member)| is_silent(member.node)).map(|(gateway, _)| *gateway);
        let unreachable_gateways: BTreeSet<GatewayId> = status.unreachable.iter().copied().chain(silent).collect();
        let own = present.registered.map(|registered| registered.gateway);
        let far = state.devices().filter(|device| device.node.is_some_and(is_silent)).map(|device| device.id);
        Heartbeat {
            cell: CELL,
            node: self.id,
            gateway: own,
            view: status.view,
            wants_lease: status.has_joined && present.store.as_ref().is_some_and(|store| !store.is_deposed()),
            is_loadable: present.store.is_none(),
            founding_done: present.founding_done,
            decided: status.decided,
            recovered: !undecided.is_empty() && status.recovered.is_superset(&undecided),
            unreachable_gateways: unreachable_gateways.into_iter().filter(|gateway| Some(*gateway) != own).collect(),
            unreachable_devices: far
                .chain(present.unreachable_devices.iter().chain(&present.unanswered_devices).copied())
                .collect(),
            failed_devices: self.targets.iter().filter(|target| is_out(present, target)).map(device_id).collect(),
            devices: self.targets.iter().map(report).collect(),
            fences: self.fences(present),
            applied: state.applied().0,
            leaves: self.is_leaving.load(Ordering::SeqCst),
            wall_clock_ms: self.env.wall_clock_ms(),
        }
    }
}

fn device_id(target: &Arc<target::Target>) -> types::DeviceId {
    target.device().id()
}

fn report(target: &Arc<target::Target>) -> DeviceReport {
    let usage = target.device().usage();
    let free_bytes = u64::from(usage.free_zones) * usage.zone_bytes;
    DeviceReport { device: device_id(target), total_bytes: usage.capacity_bytes.max(free_bytes), free_bytes }
}
