//! What a client makes of a map alone.

use std::sync::Arc;

use env::Env;
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};
use net::{BoxFuture, Caller, ServiceTag};

use super::{ChunkClient, ChunkError};
use crate::deliveries::Deliveries;
use crate::protocol::{ChunkMap, NodePlace};
use crate::reach::Reach;

/// A cluster of which only a map is known.
struct Mapped {
    map: Arc<ChunkMap>,
    is_fresh: bool,
}

impl Reach for Mapped {
    fn map(&self) -> Arc<ChunkMap> {
        self.map.clone()
    }

    fn refresh(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { self.is_fresh })
    }

    fn to_node(&self, _: &NodePlace, _: ServiceTag) -> Arc<dyn Caller> {
        unreachable!("there are no nodes")
    }

    fn to_address(&self, _: &str, _: ServiceTag) -> Arc<dyn Caller> {
        unreachable!("nobody is at an address")
    }
}

/// "Not found" would tell whoever asks that it was deleted.
#[tokio::test(start_paused = true)]
async fn a_shard_that_was_given_a_number_and_is_not_known_is_lost_and_not_empty() {
    let env = Env::simulated(1);
    let map = Arc::new(ChunkMap { next_shard: 3, ..ChunkMap::default() });
    for (shard, is_fresh, expected) in [
        (2, true, ChunkError::ShardLost),
        (3, true, ChunkError::NotFound),
        (2, false, ChunkError::Unavailable),
        (3, false, ChunkError::Unavailable),
    ] {
        let reach = Arc::new(Mapped { map: map.clone(), is_fresh });
        let client = ChunkClient::new(&env, reach, Deliveries::new(&env), "nowhere:1".to_owned());
        let id = ChunkId { shard: ShardId(shard), number: ChunkNumber(0), nonce: ChunkNonce(1) };
        assert_eq!(client.get(id).await, Err(expected.clone()), "shard {shard}");
        assert_eq!(client.delete(id).await, Err(expected), "shard {shard}");
    }
}
