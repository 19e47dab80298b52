//! What a node tells the monitor now and then: how often its copies are asked for, and which of them most.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use format::chunk_place::BlockPlace;
use manager::Manager;
use types::NodeId;

use crate::block_service::BlockService;
use crate::limits::{LOAD_INTERVAL, LOAD_LOOK, MAX_HOT};
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
        let (mut heat, mut hot, mut machine) = (0, Vec::new(), meter.read());
        let mut told = None;
        loop {
            self.env.sleep(LOAD_LOOK).await;
            let now = self.env.now();
            let is_due = now.saturating_duration_since(began) >= LOAD_INTERVAL;
            if is_due {
                (heat, hot) = self.look(now.saturating_duration_since(began));
                (began, machine) = (now, meter.read());
            }
            // A new leader has heard nobody, and founds no unit on nodes of which it has not. It is told what the one before was.
            let leader = self.leader();
            if let Some(address) = leader.as_ref().filter(|_| is_due || told != leader) {
                let report = wire::encode(&LoadReport { node: self.me, heat, machine, hot: hot.clone() });
                // One that is not heard is followed by another.
                _ = self.reach.to_address(address, LOADS).call(report, now + LOAD_INTERVAL).await;
            }
            told = leader;
        }
    }

    /// Who leads the manager, once that knows this node: it notes no strangers.
    fn leader(&self) -> Option<String> {
        self.manager.snapshot().node(self.me)?;
        Some(self.manager.leader()?.address.clone())
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
