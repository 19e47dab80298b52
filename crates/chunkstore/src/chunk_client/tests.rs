//! What a client makes of a map alone.

use std::sync::Arc;

use env::Env;
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};
use types::NodeId;

use super::ways::Ways;
use super::{ChunkClient, ChunkError};
use crate::deliveries::Deliveries;
use crate::limits::{CLIENT_PATIENCE, LOOK_AROUND_INTERVAL};
use crate::played::{Played, map_of_nodes};
use crate::protocol::{ChunkMap, HostAnswer, HostRequest};
use crate::wire::encode;

fn client(env: &Env, cluster: Arc<Played>) -> ChunkClient {
    ChunkClient::new(env, Arc::new(cluster), Deliveries::new(env), "nowhere:1".to_owned())
}

/// "Not found" would tell whoever asks that it was deleted.
#[tokio::test(start_paused = true)]
async fn a_shard_that_was_given_a_number_and_is_not_known_is_lost_and_not_empty() {
    let env = Env::simulated(1);
    let map = ChunkMap { next_shard: 3, ..ChunkMap::default() };
    for (shard, is_fresh, expected) in [
        (2, true, ChunkError::ShardLost),
        (3, true, ChunkError::NotFound),
        (2, false, ChunkError::Unavailable),
        (3, false, ChunkError::Unavailable),
    ] {
        let nobody = Box::new(|_, _, _: &_| unreachable!("there are no nodes"));
        let mut cluster = Played::new(&env, map.clone(), nobody);
        cluster.is_fresh = is_fresh;
        let client = client(&env, Arc::new(cluster));
        let id = ChunkId { shard: ShardId(shard), number: ChunkNumber(0), nonce: ChunkNonce(1) };
        assert_eq!(client.get(id).await, Err(expected.clone()), "shard {shard}");
        assert_eq!(client.delete(id).await, Err(expected), "shard {shard}");
    }
}

/// A client that goes on for long meets hosts that are gone, and others that have taken their places.
#[tokio::test(start_paused = true)]
async fn lookup_hosts_that_are_silent_are_passed_by_and_others_are_heard_of() {
    const SILENT: NodeId = NodeId(1);
    let (env, shard) = (Env::simulated(1), ShardId(1));
    let forwarded = Box::new(|_, _, _: &_| encode(&HostAnswer::Forwarded));
    let played = Arc::new(Played::new(&env, map_of_nodes(4, &[], &[0, 1, 2]), forwarded));
    let ways = Ways::new(&env, Arc::new(played.clone()));
    let request = HostRequest::Locate(ChunkId::default());
    played.silence(SILENT);
    let began = env.now();
    for number in 0..30 {
        assert!(ways.route(shard, number, &request).await);
    }
    assert_eq!(env.now() - began, CLIENT_PATIENCE);
    assert_eq!(ways.silent_nodes(), [SILENT]);
    // Its node was removed.
    *played.truth.lock() = Arc::new(map_of_nodes(4, &[], &[0, 3, 2]));
    env.sleep(LOOK_AROUND_INTERVAL).await;
    ways.look_around().await;
    played.take_asked();
    for number in 0..30 {
        assert!(ways.route(shard, number, &request).await);
    }
    let asked = played.take_asked();
    assert_eq!([0, 1, 2, 3].map(|node| asked.iter().filter(|asked| **asked == NodeId(node)).count()), [10, 0, 10, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_map_is_asked_for_seldom() {
    let env = Env::simulated(1);
    let played = Arc::new(Played::new(&env, map_of_nodes(2, &[], &[0]), Box::new(|_, _, _| unreachable!("nobody is asked"))));
    let ways = Ways::new(&env, Arc::new(played.clone()));
    let hosts = |ways: &Ways| ways.map().shards[0].hosts.clone();
    ways.look_around().await;
    *played.truth.lock() = Arc::new(map_of_nodes(2, &[], &[1]));
    ways.look_around().await;
    assert_eq!(hosts(&ways), [NodeId(0)]);
    env.sleep(LOOK_AROUND_INTERVAL).await;
    ways.look_around().await;
    assert_eq!(hosts(&ways), [NodeId(1)]);
}
