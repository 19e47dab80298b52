//! Three nodes, of which one is away, or gone for good.

use crate::cluster::host::chunks_of;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chunkstore::chunk_client::ChunkError;
use chunkstore::limits::{CALL_PATIENCE, LOSS_WAIT, SHRINK_WAIT};
use chunkstore::message::Found;
use format::chunk_id::ChunkId;

use super::super::WITH_CHUNKS;
use super::super::run::{remove_gone, wait_for_shard};
use super::super::scenario_of;
use super::archive::{ask, simulated, wait_until};
use crate::cluster::scenario::Scenario;
use crate::cluster::strike::Chaos;
use crate::cluster::world::World;
use crate::draw::Draw;

/// What a put takes at most when a node has just gone: two tries, and a moment until the node is missed.
const PUT_PATIENCE: Duration = Duration::from_secs(12);

async fn three() -> Arc<World> {
    let world = World::new(Scenario { topology: WITH_CHUNKS, ..scenario_of(0) }, 5, Arc::default()).await.unwrap();
    wait_for_shard(&world).await.unwrap();
    world
}

async fn put(world: &Arc<World>, content: &'static str) -> Result<ChunkId, ChunkError> {
    ask(world, async |client| client.put(Bytes::from_static(content.as_bytes()), 3).await).await
}

async fn modify(world: &Arc<World>, id: ChunkId, content: &'static str) -> Result<(), ChunkError> {
    ask(world, async |client| client.modify(id, Bytes::from_static(content.as_bytes())).await).await
}

async fn get(world: &Arc<World>, id: ChunkId) -> Result<Bytes, ChunkError> {
    ask(world, async |client| client.get(id).await).await
}

/// Copies that there are, and that are wanted.
async fn copies(world: &Arc<World>, id: ChunkId) -> (usize, u8) {
    match ask(world, async |client| client.locate(id).await).await.map(|whereabouts| whereabouts.unit) {
        Ok(Found::Known { places, wanted }) => (places.as_slice().len(), wanted),
        other => panic!("{other:?}"),
    }
}

fn short_chunks(world: &Arc<World>) -> u64 {
    world.running().iter().map(|running| chunks_of(&running.node).units().short_chunks()).sum()
}

#[test]
fn puts_go_on_while_one_of_three_nodes_is_away() {
    simulated(async {
        let world = three().await;
        put(&world, "before").await.unwrap();
        world.end(2, true).await;
        let began = world.elapsed();
        let first = put(&world, "first").await.unwrap();
        assert!(world.elapsed() - began < PUT_PATIENCE, "{:?}", world.elapsed() - began);
        let second = put(&world, "second").await.unwrap();
        assert_eq!((copies(&world, first).await, copies(&world, second).await), ((2, 3), (2, 3)));
        assert_eq!(modify(&world, second, "other!").await, Ok(()));
        world.start(2).await;
        world.settle().await.unwrap();
        wait_until(&world, "the third copies are made", || short_chunks(&world) == 0).await;
        assert_eq!(copies(&world, first).await, (3, 3));
        world.end(0, true).await;
        world.end(1, true).await;
        world.start(0).await;
        for (id, content) in [(first, "first"), (second, "other!")] {
            assert_eq!(get(&world, id).await, Ok(Bytes::from_static(content.as_bytes())), "of the new copy, or another one");
        }
    });
}

/// They waited for ever: nobody had a place for the third copy.
#[test]
fn modifications_go_on_when_one_of_three_nodes_was_removed() {
    simulated(async {
        let world = three().await;
        let (kept, ended) = (put(&world, "kept").await.unwrap(), put(&world, "ends").await.unwrap());
        let mut chaos = Chaos::new(&world, Draw::new(5, 1));
        let victim = chaos.lose_any().await;
        assert_eq!(modify(&world, kept, "soon").await, Err(ChunkError::Unavailable), "it may come back");
        remove_gone(&world).await.unwrap();
        let removed = world.elapsed();
        while modify(&world, kept, "next").await.is_err() {}
        let took = world.elapsed() - removed;
        assert!(took < LOSS_WAIT + SHRINK_WAIT + CALL_PATIENCE, "{took:?}");
        assert_eq!(ask(&world, async |client| client.delete(ended).await).await, Ok(()));
        assert_eq!((copies(&world, kept).await, get(&world, ended).await), ((2, 3), Err(ChunkError::NotFound)));
        chaos.replace_lost(victim).await;
        world.settle().await.unwrap();
        wait_until(&world, "the third copies are made", || short_chunks(&world) == 0).await;
        assert_eq!((copies(&world, kept).await, get(&world, kept).await), ((3, 3), Ok(Bytes::from_static(b"next"))));
        assert_eq!(modify(&world, kept, "more").await, Ok(()));
    });
}
