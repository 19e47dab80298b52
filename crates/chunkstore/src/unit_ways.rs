//! Ways to the leaders of units: whoever was heard to lead is asked first.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::{Env, Instant};
use format::chunk_id::ShardId;
use parking_lot::Mutex;
use types::NodeId;

use crate::breakers::Breakers;
use crate::limits::{LAST_COPIES_PATIENCE, LEADER_PAUSE, UNIT_MEMBERS, UNIT_PATIENCE};
use crate::look_around::LookAround;
use crate::protocol::{UNITS, UnitAnswer, UnitRequest};
use crate::reach::Reach;
use crate::wire;

/// Who was heard to lead.
pub struct UnitWays {
    env: Env,
    reach: Arc<dyn Reach>,
    look_around: LookAround,
    /// Of members. Apart from others: a unit that can't decide does not answer, and its nodes are there.
    breakers: Breakers,
    leaders: Mutex<BTreeMap<ShardId, NodeId>>,
}

impl UnitWays {
    pub fn new(env: &Env, reach: Arc<dyn Reach>) -> UnitWays {
        let look_around = LookAround::new(env, reach.clone());
        UnitWays { env: env.clone(), reach, look_around, breakers: Breakers::new(env), leaders: Mutex::default() }
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
                    let until = match request {
                        // Whoever is asked in time has all of it.
                        UnitRequest::LastCopies { .. } => self.env.now() + LAST_COPIES_PATIENCE,
                        _ => deadline.min(self.env.now() + UNIT_PATIENCE),
                    };
                    let caller = self.reach.to_node(place, UNITS);
                    self.breakers.watch(node, async { caller.call(payload.clone(), until).await.ok() }).await
                }
                None => None,
            };
            match answer.and_then(|answer| wire::decode(&answer).ok()) {
                Some(UnitAnswer::NotLeader(Some(leader))) if leader != node && !self.breakers.is_open(leader) => {
                    self.leaders.lock().insert(shard, leader);
                }
                Some(UnitAnswer::NotLeader(_)) | None => {
                    self.leaders.lock().remove(&shard);
                    turn += 1;
                    // The members may be others by now.
                    if turn >= UNIT_MEMBERS {
                        self.look_around.look().await;
                    }
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

    /// Who probably leads; else the members in turn, but those that were silent a moment ago.
    fn candidate(&self, shard: ShardId, turn: usize) -> Option<NodeId> {
        let map = self.reach.map();
        let is_silent = |node: &NodeId| self.breakers.is_open(*node);
        let (silent, others): (Vec<NodeId>, Vec<NodeId>) = map.shard(shard)?.members.iter().partition(|node| is_silent(node));
        let members = if others.is_empty() { silent } else { others };
        let leader = self.leaders.lock().get(&shard).copied().filter(|leader| !is_silent(leader));
        leader.or_else(|| members.get(turn % members.len().max(1)).copied())
    }
}

#[cfg(test)]
mod tests;
