use std::sync::Arc;

use env::Env;
use format::chunk_id::{ChunkId, ShardId};
use types::NodeId;

use super::UnitWays;
use crate::limits::{CLIENT_UNIT_PATIENCE, UNIT_PATIENCE};
use crate::played::{Played, map_of_nodes};
use crate::protocol::{ChunkMap, UnitAnswer, UnitRequest};
use crate::wire::encode;

const SHARD: ShardId = ShardId(1);

/// Node `leads` leads; others say that `believed` does.
fn cluster(env: &Env, map: ChunkMap, leads: u32, believed: u32) -> (Arc<Played>, UnitWays) {
    let answer = move |node: NodeId, _, _: &_| match node == NodeId(leads) {
        true => encode(&UnitAnswer::Done),
        false => encode(&UnitAnswer::NotLeader(Some(NodeId(believed)))),
    };
    let played = Arc::new(Played::new(env, map, Box::new(answer)));
    (played.clone(), UnitWays::new(env, Arc::new(played)))
}

async fn ask(env: &Env, ways: &UnitWays) -> Option<UnitAnswer> {
    ways.ask(SHARD, &UnitRequest::Revoke(ChunkId::default()), env.now() + CLIENT_UNIT_PATIENCE).await
}

#[tokio::test(start_paused = true)]
async fn a_silent_member_is_waited_for_once() {
    let env = Env::simulated(1);
    let (played, ways) = cluster(&env, map_of_nodes(3, &[0, 1, 2], &[]), 2, 2);
    played.silence(NodeId(0));
    let began = env.now();
    assert_eq!(ask(&env, &ways).await, Some(UnitAnswer::Done));
    assert!(env.now() - began >= UNIT_PATIENCE, "who leads was not known");
    let began = env.now();
    assert_eq!(ask(&env, &ways).await, Some(UnitAnswer::Done));
    // Nor is it asked for another shard's unit, or when the leader has gone.
    ways.leaders.lock().clear();
    assert_eq!(ask(&env, &ways).await, Some(UnitAnswer::Done));
    assert!(env.now() - began < UNIT_PATIENCE);
}

/// Those who are left may take their former leader for one for a while.
#[tokio::test(start_paused = true)]
async fn a_leader_that_was_silent_is_not_believed_in() {
    let env = Env::simulated(1);
    let (played, ways) = cluster(&env, map_of_nodes(3, &[0, 1, 2], &[]), 0, 0);
    assert_eq!(ask(&env, &ways).await, Some(UnitAnswer::Done));
    played.silence(NodeId(0));
    played.take_asked();
    assert_eq!(ask(&env, &ways).await, None);
    let asked = played.take_asked();
    assert!(asked.len() < 400, "asked {} times: there are pauses in between", asked.len());
    let trials = asked.iter().filter(|node| **node == NodeId(0)).count();
    assert!((1..=4).contains(&trials), "the silent one was asked {trials} times");
}

#[tokio::test(start_paused = true)]
async fn when_no_member_leads_it_is_asked_who_they_are() {
    let env = Env::simulated(1);
    let (played, ways) = cluster(&env, map_of_nodes(4, &[0, 1, 2], &[]), 3, 0);
    *played.truth.lock() = Arc::new(map_of_nodes(4, &[1, 2, 3], &[]));
    played.silence(NodeId(0));
    assert_eq!(ask(&env, &ways).await, Some(UnitAnswer::Done));
}

/// It reads all pages of its unit: asked anew each time, of each member, it was never done.
#[tokio::test(start_paused = true)]
async fn a_leader_that_counts_copies_has_longer_to_answer() {
    let env = Env::simulated(1);
    let (played, ways) = cluster(&env, map_of_nodes(3, &[0, 1, 2], &[]), 0, 0);
    *played.answer_takes.lock() = 4 * UNIT_PATIENCE;
    let request = UnitRequest::LastCopies { shard: SHARD, devices: Vec::new() };
    let answer = ways.ask(SHARD, &request, env.now() + CLIENT_UNIT_PATIENCE).await;
    assert_eq!(answer, Some(UnitAnswer::Done));
    assert_eq!(ask(&env, &ways).await, None, "others don't");
}
