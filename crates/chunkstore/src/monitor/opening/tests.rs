use std::sync::Arc;
use std::time::Duration;

use env::{Env, Instant};
use types::NodeId;

use super::{Opening, Silence};
use crate::limits::{MAX_OPEN_SILENCE, OPEN_LOOK, OPEN_SILENCE};
use crate::message::Found;
use crate::played::{Played, map_of_nodes};
use crate::protocol::UnitAnswer;
use crate::units::fixture::manager_of_four;
use crate::wire::encode;

/// Two of its three members were gone for good: all puts of the cluster waited for them, whatever was added to it.
#[tokio::test(start_paused = true)]
async fn an_open_shard_whose_unit_is_gone_is_closed() {
    let env = Env::simulated(1);
    let manager = Arc::new(manager_of_four(8).await);
    let nodes: Vec<NodeId> = [1, 2, 3].map(NodeId).into();
    let shard = manager.open_shard(manager.snapshot().next_shard(), 100, nodes.clone(), nodes.clone()).await.expect("opens");
    let there = Box::new(|_, _, _: &_| encode(&UnitAnswer::Found(Found::Unknown)));
    let mut map = map_of_nodes(5, &[1, 2, 3], &[1, 2, 3]);
    map.shards[0].shard.0 = shard.id;
    let played = Arc::new(Played::new(&env, map, there));
    let opening = Opening::begin(&env, manager.clone(), Arc::new(played.clone()));
    let is_open = || manager.snapshot().open_shard().is_some();
    env.sleep(3 * OPEN_SILENCE).await;
    assert!(is_open());
    // For a while, as when they are started anew.
    nodes.iter().for_each(|node| played.silence(*node));
    env.sleep(OPEN_SILENCE / 2).await;
    nodes.iter().for_each(|node| played.hear_again(*node));
    env.sleep(OPEN_SILENCE).await;
    assert!(is_open());
    nodes.iter().for_each(|node| played.silence(*node));
    env.sleep(OPEN_SILENCE - OPEN_LOOK).await;
    assert!(is_open());
    env.sleep(3 * OPEN_LOOK).await;
    assert!(!is_open(), "the next one can be opened");
    drop(opening);
}

/// Who is cut off itself would open one after the other.
#[test]
fn shards_that_follow_each_other_have_more_time_each() {
    let mut silence = Silence::new();
    let (mut now, mut last) = (Instant::from_nanos(0), Instant::from_nanos(0));
    let mut pauses: Vec<Duration> = Vec::new();
    while pauses.len() < 8 {
        let began = now;
        now = now + OPEN_LOOK;
        if silence.hear(pauses.len() as u32, began, now, false) {
            pauses.push(now - last);
            last = now;
        }
    }
    let expected = (0..8).map(|power| (OPEN_SILENCE * (1 << power)).min(MAX_OPEN_SILENCE));
    assert_eq!(pauses, expected.collect::<Vec<Duration>>());
    assert!(!silence.hear(9, now, now, true));
    assert_eq!(silence.patience, OPEN_SILENCE);
}
