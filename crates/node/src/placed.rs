//! Devices that another node has. A disk that comes with a start may be a copy of one, or the same one, that two machines reach: both nodes would take
//! writes under one number, and each disk would lack what the other one has. To open it is enough: that ends zones.
//!
//! Each node says first which devices it has, then asks all others, and opens them last. Of two that start at once at least one finds the other. Which of
//! them goes on the manager's record says: that of the device's own node. Another one writes itself into it before it opens anything, and asks again.
//!
//! ```text
//!   question   version 253 | device uuid 16
//!   answer     0: not here; 1: it is about to be opened; 2: it is served
//! ```

use crate::error::NodeError;
use crate::node::OpenNode;
use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use manager::{DeviceRecord, NodeRecord, Snapshot};
use net::ServiceTag;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::DeviceUuid;

/// The version of the question whether a node has a device.
const HAVING_VERSION: u8 = 253;
/// How long a node may take to answer. One that does not is not waited for: it may be away for good.
const HAVING_PATIENCE: Duration = Duration::from_secs(2);

/// What a node does with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Having {
    /// It is on one of its disks, which it is about to open.
    Comes,
    Serves,
}

/// The devices that a node has, for whoever asks.
#[derive(Default)]
pub(crate) struct Haves(Mutex<BTreeMap<DeviceUuid, Having>>);

impl Haves {
    pub fn note(&self, device: DeviceUuid, having: Having) {
        self.0.lock().insert(device, having);
    }

    /// The answer to a question; none if it is not this one.
    pub fn answer(&self, question: &[u8]) -> Option<Bytes> {
        let [HAVING_VERSION, device @ ..] = question else { return None };
        let device = DeviceUuid(device.try_into().ok()?);
        let answer = match self.0.lock().get(&device) {
            None => 0,
            Some(Having::Comes) => 1,
            Some(Having::Serves) => 2,
        };
        Some(Bytes::from(vec![answer]))
    }
}

fn question(device: DeviceUuid) -> Bytes {
    Bytes::from([&[HAVING_VERSION], &device.0[..]].concat())
}

/// None of a node that has it not, or can't tell.
fn having(answer: &[u8]) -> Option<Having> {
    match answer {
        [1] => Some(Having::Comes),
        [2] => Some(Having::Serves),
        _ => None,
    }
}

impl OpenNode {
    /// Makes those of these devices this node's that the manager knows, or says which other node has one of them. Before anything is written to them, or they
    /// are opened. What no node has that answers was carried over.
    pub async fn claim(&self, devices: &[DeviceUuid]) -> Result<(), NodeError> {
        devices.iter().for_each(|device| self.told.haves.note(*device, Having::Comes));
        // Who is in the manager's state only after this finds what was noted.
        self.manager.fresh().await.map_err(|error| NodeError::State(error.to_string()))?;
        let state = self.manager.snapshot();
        let known = state.devices().filter(|record| devices.contains(&record.uuid));
        // A host that is away is waited for once, not once for each disk.
        try_join_all(known.map(|record| self.claim_one(&state, record))).await.map(drop)
    }

    async fn claim_one(&self, state: &Snapshot, record: &DeviceRecord) -> Result<(), NodeError> {
        if record.node == Some(self.id()) {
            return self.refuse_had(state, record, Having::Serves).await;
        }
        self.refuse_had(state, record, Having::Comes).await?;
        self.take_over(record).await
    }

    /// Writes itself into a device's record: from here on its former node does not take it for its own. It may have done so a moment ago.
    async fn take_over(&self, record: &DeviceRecord) -> Result<(), NodeError> {
        let place = async |node| {
            let placed = self.manager.place_device(record.id, node).await;
            placed.map(drop).map_err(|error| NodeError::State(error.to_string()))
        };
        place(Some(self.id())).await?;
        let refused = self.refuse_had(&self.manager.snapshot(), record, Having::Comes).await;
        if refused.is_err() {
            env::mark("node: a device goes back to the node that has it");
            place(record.node).await?;
        }
        refused
    }

    /// An error if another node does that much with a device, or more.
    async fn refuse_had(&self, state: &Snapshot, record: &DeviceRecord, least: Having) -> Result<(), NodeError> {
        let others: Vec<&Arc<NodeRecord>> = state.nodes().filter(|node| node.id != self.id()).collect();
        let until = self.env.now() + HAVING_PATIENCE;
        let callers: Vec<_> = others.iter().map(|node| self.callers.to_node(node, ServiceTag::PINGS)).collect();
        let answers = join_all(callers.iter().map(|caller| caller.call(question(record.uuid), until))).await;
        for (node, answer) in others.iter().zip(answers) {
            if answer.is_ok_and(|answer| having(&answer) >= Some(least)) {
                return Err(NodeError::Served { device: record.id, node: node.name.clone() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_of_what_it_has_that_alone() {
        let (haves, [here, elsewhere]) = (Haves::default(), [DeviceUuid([7; 16]), DeviceUuid([8; 16])]);
        let ask = |device| having(&haves.answer(&question(device)).unwrap());
        haves.note(here, Having::Comes);
        assert_eq!((ask(here), ask(elsewhere)), (Some(Having::Comes), None));
        haves.note(here, Having::Serves);
        assert_eq!(ask(here), Some(Having::Serves));
        assert!(haves.answer(&[]).is_none() && haves.answer(&question(here)[..16]).is_none());
    }
}
