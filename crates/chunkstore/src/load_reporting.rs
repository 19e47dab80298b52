//! What a node tells the monitor now and then: how often its copies are asked for, and which of them most.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use format::chunk_place::BlockPlace;
use manager::Manager;
use types::NodeId;

use crate::block_service::BlockService;
use crate::limits::{LOAD_INTERVAL, MAX_HOT};
use crate::protocol::{HotCopy, LOADS, LoadReport};
use crate::reach::Reach;
use crate::wire;

/// A node's reports of its load.
pub struct LoadReporting {
    pub env: Env,
    pub me: NodeId,
    pub manager: Arc<Manager>,
    pub reach: Arc<dyn Reach>,
    pub blocks: Arc<BlockService>,
}

impl LoadReporting {
    /// For as long as the node lives.
    pub async fn run(self) {
        let (mut began, mut meter) = (self.env.now(), self.env.machine_meter());
        // From here on it says something of all.
        meter.read();
        loop {
            self.env.sleep(LOAD_INTERVAL).await;
            let now = self.env.now();
            let (heat, hot) = self.look(now.saturating_duration_since(began));
            began = now;
            if let Some(leader) = self.manager.leader() {
                let report = wire::encode(&LoadReport { node: self.me, heat, machine: meter.read(), hot });
                // One that is not heard is followed by another.
                _ = self.reach.to_address(&leader.address, LOADS).call(report, now + LOAD_INTERVAL).await;
            }
        }
    }

    fn look(&self, window: Duration) -> (u64, Vec<HotCopy>) {
        let (mut heat, mut hot) = (0, Vec::new());
        for (device, store) in self.blocks.stores() {
            let of_device = store.look_at_heat(window, MAX_HOT);
            heat += of_device.heat;
            let copy = |(id, block, heat)| Some(HotCopy { id, place: BlockPlace::new(device, block)?, heat });
            hot.extend(of_device.hot.into_iter().filter_map(copy));
        }
        hot.sort_by_key(|copy| std::cmp::Reverse(copy.heat));
        hot.truncate(MAX_HOT);
        (heat, hot)
    }
}
