//! What a node tells the leaders of units, now and then and of its own accord: that it is there, how far its lookup units are, which chunks
//! have dead copies here, and what is not as it was written; which devices take no writes, and what its machine is used for.

use std::collections::BTreeSet;
use std::sync::Arc;

use env::{Env, MachineUse};
use futures_util::future::{join, join_all};
use types::{DeviceId, NodeId};

use crate::block_service::BlockService;
use crate::contact::Contact;
use crate::host_service::HostService;
use crate::limits::{CLOSED_REPORT_ROUNDS, LOAD_INTERVAL, REPORT_INTERVAL};
use crate::protocol::{ChunkMap, DeviceRoom, NodeReport, ShardPlace, UnitRequest};
use crate::reach::Reach;
use crate::unit_ways::UnitWays;
use crate::wire::limits::{MAX_DAMAGED, MAX_FREED, MAX_ROTTEN};

/// A node's reports.
pub struct Reporting {
    pub env: Env,
    pub me: NodeId,
    pub reach: Arc<dyn Reach>,
    pub hosts: Arc<HostService>,
    pub blocks: Arc<BlockService>,
    pub contact: Arc<Contact>,
}

/// What is told to all units.
struct OfNode {
    round: u32,
    is_news: bool,
    stuck: Vec<DeviceId>,
    rooms: Vec<DeviceRoom>,
    machine: MachineUse,
}

impl Reporting {
    /// For as long as the node lives.
    pub async fn run(self) {
        // At once when it comes: from then on it may get chunks. But reports don't wait for the manager: units that go on without it would take all
        // nodes for dead.
        tokio::select! {
            biased;
            () = self.keep_contact() => {}
            () = self.env.sleep(REPORT_INTERVAL) => {}
        }
        let contact = async {
            loop {
                self.keep_contact().await;
                self.env.sleep(REPORT_INTERVAL).await;
            }
        };
        join(contact, self.report_all()).await;
    }

    async fn report_all(&self) {
        let units = UnitWays::new(&self.env, self.reach.clone());
        let mut meter = self.env.machine_meter();
        let (mut machine, mut metered) = (meter.read(), self.env.now());
        let mut round: u32 = 0;
        let (mut seen, mut told) = (BTreeSet::new(), BTreeSet::new());
        loop {
            // Twice: a process that was paused finds all that was under way old, and has not yet seen the answers.
            let map = self.reach.map();
            let stuck = self.take_nothing(&map);
            let told_now = stuck.intersection(&seen).copied().collect();
            let before = std::mem::replace(&mut told, told_now);
            seen = stuck;
            // To all at once; who misses it hears it when it is its turn.
            let is_news = before != told;
            if is_news {
                tell_of_stuck(&before, &told, &self.blocks.stuck());
            }
            // Averages over a while: chunks stay where they are put.
            if self.env.now().saturating_duration_since(metered) >= LOAD_INTERVAL {
                (machine, metered) = (meter.read(), self.env.now());
            }
            self.hosts.keep_only(|shard| map.shard(shard).is_some_and(|shard| shard.hosts.contains(&self.me)));
            let of_node = OfNode { round, is_news, stuck: told.iter().copied().collect(), rooms: self.blocks.rooms(), machine };
            join_all(map.shards.iter().map(|shard| self.report(&units, shard, &of_node))).await;
            round = round.wrapping_add(1);
            self.env.sleep(REPORT_INTERVAL).await;
        }
    }

    /// Devices of this node that take no chunks now: those that say so, those without space for them, and those that could not be opened.
    fn take_nothing(&self, map: &ChunkMap) -> BTreeSet<DeviceId> {
        let is_open = |device: DeviceId| self.blocks.stores().any(|(open, _)| open == device);
        let own = map.devices.iter().filter(|(_, node)| *node == self.me).map(|(device, _)| *device);
        self.blocks.stuck().into_iter().chain(own.filter(|device| !is_open(*device))).collect()
    }

    /// Nodes without blocks have nothing to answer.
    async fn keep_contact(&self) {
        let began = self.env.now();
        if self.blocks.stores().next().is_some() && self.reach.refresh().await {
            self.contact.confirm(began);
        }
    }

    async fn report(&self, units: &UnitWays, place: &ShardPlace, of_node: &OfNode) {
        let OfNode { round, is_news, stuck, rooms, machine } = of_node;
        let shard = place.shard;
        let host = place.hosts.contains(&self.me).then(|| self.hosts.report(shard));
        let freed = self.blocks.freed(shard, MAX_FREED);
        let (rotten, damaged) = (self.blocks.rotten(shard, MAX_ROTTEN), self.blocks.damaged(shard, MAX_DAMAGED));
        // Nodes with blocks say that they are there; to closed shards rarely, and not to all in the same round.
        let has_news = *is_news || host.is_some() || !freed.is_empty() || !rotten.is_empty() || !damaged.is_empty();
        let is_turn = place.is_open || shard.0 % CLOSED_REPORT_ROUNDS == *round % CLOSED_REPORT_ROUNDS;
        let is_needed = has_news || (is_turn && self.blocks.stores().next().is_some());
        if is_needed {
            let (stuck, rooms, machine) = (stuck.clone(), rooms.clone(), *machine);
            let report = NodeReport { node: self.me, shard, host, freed, rotten, damaged, stuck, rooms, machine };
            // One that is not heard is followed by another.
            _ = units.ask(shard, &UnitRequest::Report(report), self.env.now() + REPORT_INTERVAL).await;
        }
    }
}

/// `failing`: those that have space for chunks, and take no writes. The others are as they were made, or their start has told of them.
fn tell_of_stuck(before: &BTreeSet<DeviceId>, now: &BTreeSet<DeviceId>, failing: &BTreeSet<DeviceId>) {
    for device in now.difference(before) {
        env::mark("chunks: a device that takes no writes");
        if failing.contains(device) {
            tracing::warn!(
                device = device.0,
                "this device takes no writes, or hangs: chunks go to others until it takes them again"
            );
        } else {
            tracing::info!(device = device.0, "this device has no space for chunks that can be used: chunks go to others");
        }
    }
    for device in before.difference(now) {
        tracing::info!(device = device.0, "this device takes chunks again");
    }
}
