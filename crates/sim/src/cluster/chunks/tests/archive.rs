//! Shards that are closed: their units' rows stand in pages, and everything goes on as before.

use crate::cluster::host::chunks_of;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chunkstore::chunk_client::{ChunkClient, ChunkError};
use format::chunk_id::{ChunkId, ChunkNonce, ShardId};
use manager::DeviceState;
use manager::modules::chunks::limits::FIRST_SHARD;

use super::super::run::wait_for_shard;
use super::super::{TOPOLOGIES, scenario_of};
use crate::cluster::scenario::{Scenario, Topology};
use crate::cluster::world::World;

const CHUNKS: u64 = 20;
/// The pages' own rows, of five rows each.
const PAGES: u64 = CHUNKS / 5;
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(200);

type Contents = BTreeMap<ChunkId, Bytes>;

/// By the first node that runs.
pub(super) async fn ask<T>(world: &Arc<World>, work: impl AsyncFnOnce(&ChunkClient) -> T) -> T {
    let asker = world.running().swap_remove(0);
    asker.env.within(work(&chunks_of(&asker.node).client)).await
}

/// The node that leads the first shard, its unit's rows in memory, and its chunks.
fn leader(world: &Arc<World>) -> Option<(usize, u64, u64)> {
    world.running().into_iter().find_map(|running| {
        let unit = chunks_of(&running.node).units().unit(ShardId(FIRST_SHARD))?;
        let (here, chunks) = unit.rows();
        unit.is_leading().then_some((running.number, here, chunks))
    })
}

pub(super) async fn wait_until(world: &Arc<World>, what: &str, mut is_so: impl FnMut() -> bool) {
    let began = world.elapsed();
    while !is_so() {
        assert!(world.elapsed() - began < PATIENCE, "{what}: not in {PATIENCE:?}; the leader: {:?}", leader(world));
        world.env.sleep(LOOK).await;
    }
}

/// A world whose first shard is closed, with all its rows in pages.
async fn closed() -> (Arc<World>, Contents) {
    let topology = Topology { shard_chunks: CHUNKS, ..TOPOLOGIES[4] };
    let world = World::new(Scenario { topology, ..scenario_of(0) }, 0, Arc::default()).await.unwrap();
    wait_for_shard(&world).await.unwrap();
    let mut contents = Contents::new();
    for number in 0..CHUNKS {
        let content = Bytes::from(number.to_string());
        let id = ask(&world, async |client| client.put(content.clone(), 3).await).await.unwrap();
        contents.insert(id, content);
    }
    // It is closed when the next one is needed.
    ask(&world, async |client| client.put(Bytes::from_static(b"of the next shard"), 3).await).await.unwrap();
    wait_until(&world, "rows go to pages", || matches!(leader(&world), Some((_, PAGES, CHUNKS)))).await;
    (world, contents)
}

async fn all_are_there(world: &Arc<World>, contents: &Contents) {
    for (id, content) in contents {
        assert_eq!(ask(world, async |client| client.get(*id).await).await.as_ref(), Ok(content), "{id}");
    }
}

pub(super) fn simulated(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(test);
}

/// With one leader after the other.
#[test]
fn a_closed_shard_is_used_as_an_open_one() {
    simulated(async {
        let (world, mut contents) = closed().await;
        let ids: Vec<ChunkId> = contents.keys().copied().collect();
        for round in 0..3 {
            all_are_there(&world, &contents).await;
            let changed = Bytes::from(round.to_string());
            ask(&world, async |client| client.modify(ids[1], changed.clone()).await).await.unwrap();
            contents.insert(ids[1], changed);

            let alien = ChunkId { nonce: ChunkNonce(ids[1].nonce.0 + 1), ..ids[1] };
            assert_eq!(ask(&world, async |client| client.get(alien).await).await, Err(ChunkError::NotFound));
            assert_eq!(ask(&world, async |client| client.delete(alien).await).await, Err(ChunkError::NotFound));

            let ended = ids[2 + round];
            ask(&world, async |client| client.delete(ended).await).await.unwrap();
            contents.remove(&ended);
            assert_eq!(ask(&world, async |client| client.get(ended).await).await, Err(ChunkError::NotFound));

            // From one page after the other.
            let moved = ids[6 * (round + 1)];
            let places = ask(&world, async |client| client.places(moved).await).await.expect("it is in a page");
            let from = places.as_slice()[0].device();
            ask(&world, async |client| client.relocate(moved, from, None).await).await.unwrap();
            let left = CHUNKS - round as u64 - 1;
            wait_until(&world, "what ended is forgotten", || leader(&world).is_some_and(|(_, _, chunks)| chunks == left)).await;
            let after = ask(&world, async |client| client.places(moved).await).await.expect("it is there");
            assert!(after.iter().all(|place| place.device() != from), "{after:?}");

            let (number, ..) = leader(&world).expect("somebody leads");
            world.end(number, true).await;
            wait_until(&world, "another leader", || leader(&world).is_some_and(|(other, ..)| other != number)).await;
            world.start(number).await;
            world.settle().await.unwrap();
            wait_until(&world, "rows go to pages", || leader(&world).is_some_and(|(_, here, _)| here == PAGES)).await;
        }
        all_are_there(&world, &contents).await;
    });
}

/// The rows of its chunks, and the pages, are found and come back, and their copies are made again.
#[test]
fn copies_of_a_closed_shard_are_made_again() {
    simulated(async {
        let (world, contents) = closed().await;
        let victim = 3;
        world.end(victim, true).await;
        let devices = world.hosts.lock()[victim].replace_disks(&world.env, &world.scenario.topology);
        world.start(victim).await;
        let manager = world.running()[0].node.manager().clone();
        for device in &devices {
            manager.set_device_state(*device, DeviceState::Replaced).await.unwrap();
        }
        for id in contents.keys() {
            let is_elsewhere = async || {
                let places = ask(&world, async |client| client.places(*id).await).await;
                places.is_some_and(|places| places.iter().all(|place| !devices.contains(&place.device())))
            };
            let began = world.elapsed();
            while !is_elsewhere().await {
                assert!(world.elapsed() - began < PATIENCE, "{id} is where it was");
                world.env.sleep(LOOK).await;
            }
        }
        all_are_there(&world, &contents).await;
        wait_until(&world, "rows go to pages again", || leader(&world).is_some_and(|(_, here, _)| here == PAGES)).await;
    });
}

/// Also to those that are none of its lookup hosts, from which its leader hears rarely.
#[test]
fn copies_of_a_closed_shard_go_to_every_node() {
    simulated(async {
        let (world, contents) = closed().await;
        // Whoever leads has led for a while.
        world.env.sleep(Duration::from_secs(60)).await;
        let state = world.running()[0].node.manager().snapshot();
        let hosts = state.shard(FIRST_SHARD).expect("it is closed").hosts.clone();
        let outsider = state.nodes().map(|node| node.id).find(|node| !hosts.contains(node)).expect("three of four are hosts");
        let node_of = |device| state.device(device).and_then(|device| device.node).expect("it is some node's");
        for id in contents.keys() {
            let places = ask(&world, async |client| client.places(*id).await).await.expect("it is in a page");
            if places.iter().any(|place| node_of(place.device()) == outsider) {
                continue;
            }
            let from = places.as_slice()[0].device();
            ask(&world, async |client| client.relocate(*id, from, None).await).await.unwrap();
            let is_there = async || {
                let places = ask(&world, async |client| client.places(*id).await).await;
                places.is_some_and(|places| places.iter().any(|place| node_of(place.device()) == outsider))
            };
            let began = world.elapsed();
            while !is_there().await {
                assert!(world.elapsed() - began < PATIENCE, "{id} has not gone to {outsider:?}");
                world.env.sleep(LOOK).await;
            }
            all_are_there(&world, &contents).await;
            return;
        }
        panic!("each chunk has a copy on {outsider:?}");
    });
}
