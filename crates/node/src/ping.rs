//! What other nodes say of themselves, and whether they can be reached from here at all: what heartbeats report of them.

use crate::inquiry::Saying;
use crate::node::{Inner, Node};
use crate::unanswered::Unanswered;
use crate::vitals::HeardOf;
use crate::{CELL, clocks};
use net::{CallError, ServiceTag};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::NodeId;

/// How often a node is asked.
const PING_INTERVAL: Duration = Duration::from_millis(250);
/// How long its answer may take.
const PING_PATIENCE: Duration = Duration::from_millis(500);
/// Answers in a row that must be missing before a node counts as silent.
const MISSED_BOUND: u32 = 2;

impl Inner {
    /// Asks all other nodes, for as long as this one lives.
    pub(crate) async fn ping_others(self: Arc<Self>) {
        let mut missed: BTreeMap<NodeId, u32> = BTreeMap::new();
        let mut unanswered = Unanswered::default();
        loop {
            self.repair_left.store(self.own_repair_left(), Ordering::Relaxed);
            let state = self.manager.snapshot();
            let others: Vec<_> = state.nodes().filter(|node| node.id != self.id).cloned().collect();
            let before = self.vitals.get();
            let mut heard = before.heard;
            heard.retain(|node, _| state.node(*node).is_some());
            let mut asking = tokio::task::JoinSet::new();
            for node in others {
                let (caller, until) = (self.callers.to_node(&node, ServiceTag::PINGS), self.env.now() + PING_PATIENCE);
                let asked = async move { (node.id, caller.call(Saying::question(), until).await) };
                asking.spawn(self.env.within(asked));
            }
            while let Some(asked) = asking.join_next().await {
                let Ok((node, answer)) = asked else { continue };
                // Who refuses the question is there: its version is another one.
                let is_there = matches!(answer, Ok(_) | Err(CallError::Refused { .. }));
                let count = missed.entry(node).or_default();
                *count = if is_there { 0 } else { count.saturating_add(1) };
                if let Some(saying) = answer.ok().and_then(|answer| Saying::decode(&answer)) {
                    let clock_off_ms = saying.wall_clock_ms as i64 - self.env.wall_clock_ms() as i64;
                    heard.insert(node, HeardOf { clock_off_ms, repair_left: saying.repair_left });
                }
            }
            let silent = missed.iter().filter(|(_, count)| **count >= MISSED_BOUND).map(|(node, _)| *node).collect();
            let node_of = |device| state.device(device).and_then(|record| record.node);
            let asked = missed.keys().copied();
            let devices = unanswered.look(self.env.now(), asked, &silent, &self.ways.owing(), node_of);
            for device in devices.difference(&before.unanswered_devices) {
                env::mark("node: a target leaves everything unanswered");
                tracing::warn!(
                    device = device.0,
                    "the target of this device answers nothing, though its node answers: it is reported as unreachable"
                );
            }
            self.vitals.change(|present| {
                (present.silent_nodes, present.unanswered_devices, present.heard) = (silent, devices, heard);
            });
            self.env.sleep(PING_INTERVAL).await;
        }
    }

    /// What this node has to look through as the leader of the cell; 0 if it does not lead.
    fn own_repair_left(&self) -> u32 {
        let left = self.engine.serving().map_or(0, |store| store.size().repair_left);
        u32::try_from(left).unwrap_or(u32::MAX)
    }
}

impl Node {
    /// Other nodes that do not answer this one.
    pub fn silent(&self) -> BTreeSet<NodeId> {
        self.inner.vitals.get().silent_nodes
    }

    /// Nodes whose wall clocks are off, by how far they are ahead of this node's. Where this node's own one is wrong that is all others.
    pub fn clocks_off_ms(&self) -> BTreeMap<NodeId, i64> {
        let present = self.inner.vitals.get();
        let is_off = |heard: &HeardOf| heard.clock_off_ms.unsigned_abs() > clocks::SKEW.as_millis() as u64;
        let heard = present.heard.iter().filter(|(node, heard)| is_off(heard) && !present.silent_nodes.contains(node));
        heard.map(|(node, heard)| (*node, heard.clock_off_ms)).collect()
    }

    /// Parts of the index that the cell's leader is still to look through for what lacks copies; none while nobody leads, or it is not heard.
    pub fn repair_left(&self) -> Option<u64> {
        let (inner, state) = (&self.inner, self.inner.manager.snapshot());
        let cell = state.cell(CELL)?;
        let leader = cell.members.get(&cell.installed.as_ref()?.leader)?.node;
        if leader == inner.id {
            return inner.engine.serving().map(|store| store.size().repair_left as u64);
        }
        let present = inner.vitals.get();
        let heard = present.heard.get(&leader).filter(|_| !present.silent_nodes.contains(&leader))?;
        Some(heard.repair_left.into())
    }
}
