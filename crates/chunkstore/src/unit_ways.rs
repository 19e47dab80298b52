//! Ways to the leaders of units: whoever was heard to lead is asked first.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::{Env, Instant};
use format::chunk_id::ShardId;
use parking_lot::Mutex;
use types::NodeId;

use crate::limits::{LEADER_PAUSE, UNIT_PATIENCE};
use crate::protocol::{UNITS, UnitAnswer, UnitRequest};
use crate::reach::Reach;
use crate::wire;

/// Who was heard to lead.
pub struct UnitWays {
    env: Env,
    reach: Arc<dyn Reach>,
    leaders: Mutex<BTreeMap<ShardId, NodeId>>,
}

impl UnitWays {
    pub fn new(env: &Env, reach: Arc<dyn Reach>) -> UnitWays {
        UnitWays { env: env.clone(), reach, leaders: Mutex::default() }
    }

    /// Asks whoever leads the shard's unit, until somebody who does answers, or `deadline`. Requests to units may be made twice.
    pub async fn ask(&self, shard: ShardId, request: &UnitRequest, deadline: Instant) -> Option<UnitAnswer> {
        let payload = wire::encode(request);
        let mut turn = 0;
        while self.env.now() < deadline {
            let Some(node) = self.candidate(shard, turn) else {
                self.reach.refresh().await;
                self.env.sleep(LEADER_PAUSE).await;
                continue;
            };
            let map = self.reach.map();
            let answer = match map.node(node) {
                Some(place) => {
                    let until = deadline.min(self.env.now() + UNIT_PATIENCE);
                    self.reach.to_node(place, UNITS).call(payload.clone(), until).await.ok()
                }
                None => None,
            };
            match answer.and_then(|answer| wire::decode(&answer).ok()) {
                Some(UnitAnswer::NotLeader(Some(leader))) if leader != node => {
                    self.leaders.lock().insert(shard, leader);
                }
                Some(UnitAnswer::NotLeader(_)) | None => {
                    self.leaders.lock().remove(&shard);
                    turn += 1;
                    self.env.sleep(LEADER_PAUSE).await;
                }
                Some(answer) => {
                    self.leaders.lock().insert(shard, node);
                    return Some(answer);
                }
            }
        }
        None
    }

    /// Who probably leads; else the members in turn.
    fn candidate(&self, shard: ShardId, turn: usize) -> Option<NodeId> {
        if let Some(leader) = self.leaders.lock().get(&shard) {
            return Some(*leader);
        }
        let map = self.reach.map();
        let members = &map.shard(shard)?.members;
        members.get(turn % members.len().max(1)).copied()
    }
}
