//! Devices that are full of chunks, half of which are removed: objects get the space.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{Condition, EngineError, ObjectKey};
use format::attributes::Attributes;
use format::chunk_block::BLOCK_DATA_BYTES;
use format::chunk_id::ChunkId;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::BucketId;

use super::super::run::wait_for_shard;
use super::super::{WITH_CHUNKS, scenario_of};
use super::archive::{ask, simulated};
use crate::cluster::scenario::{Scenario, Topology};
use crate::cluster::world::World;

/// Four fill a block.
const CHUNK_BYTES: usize = BLOCK_DATA_BYTES as usize / 4;
const OBJECT_BYTES: usize = 1 << 20;
/// Chunks of an object.
const PIECE_BYTES: usize = 256 * 1024;
/// What objects get of what chunks gave back, at least, in percent; and within which time. Of so few zones those at the ends of runs of blocks, and what
/// the log keeps, are a good part.
const LEAST: usize = 50;
const PATIENCE: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(500);

fn content(number: usize) -> Bytes {
    Bytes::from(vec![number as u8; CHUNK_BYTES])
}

/// Chunks are put until there is no room, with all their places.
async fn fill(world: &Arc<World>) -> BTreeMap<ChunkId, (usize, ChunkPlaces)> {
    let mut chunks = BTreeMap::new();
    loop {
        let number = chunks.len();
        let Ok(id) = ask(world, async |client| client.put(content(number), 3).await).await else { return chunks };
        let places = ask(world, async |client| client.places(id).await).await.expect("it was put");
        chunks.insert(id, (number, places));
    }
}

/// Half of them, so that no block is empty then.
async fn remove_half(world: &Arc<World>, chunks: &mut BTreeMap<ChunkId, (usize, ChunkPlaces)>) -> usize {
    let mut held: BTreeMap<BlockPlace, usize> = BTreeMap::new();
    chunks.values().flat_map(|(_, places)| places.iter()).for_each(|place| *held.entry(place).or_default() += 1);
    let (half, mut removed) = (chunks.len() / 2, Vec::new());
    for (id, (_, places)) in &*chunks {
        if removed.len() < half && places.iter().all(|place| held[&place] > 1) {
            places.iter().for_each(|place| *held.get_mut(&place).expect("counted") -= 1);
            removed.push(*id);
        }
    }
    assert!(removed.len() >= chunks.len() * 2 / 5, "{} of {}", removed.len(), chunks.len());
    for id in &removed {
        ask(world, async |client| client.delete(*id).await).await.expect("a full device takes deletes");
        chunks.remove(id);
    }
    removed.len()
}

/// Objects got nothing: each zone had a chunk left.
#[test]
fn objects_get_what_chunks_gave_back_on_a_full_device() {
    simulated(async {
        let topology = Topology { zones: 12, chunk_blocks: 12, ..WITH_CHUNKS };
        let world = World::new(Scenario { topology, ..scenario_of(0) }, 3, Arc::default()).await.unwrap();
        wait_for_shard(&world).await.unwrap();
        let mut chunks = fill(&world).await;
        assert!(chunks.len() > 40, "{}", chunks.len());
        let before = put_all(&world, 0, Duration::ZERO).await;
        let freed = remove_half(&world, &mut chunks).await * CHUNK_BYTES;
        let wanted = (freed * LEAST / 100).div_ceil(OBJECT_BYTES);
        let got = put_all(&world, before + wanted, PATIENCE).await - before;
        assert!(got >= wanted, "objects got {got} MiB of {} MiB", freed >> 20);
        for (id, (number, _)) in &chunks {
            assert_eq!(ask(&world, async |client| client.get(*id).await).await, Ok(content(*number)), "{id}");
        }
        for number in 0..before + got {
            remove_object(&world, number).await.expect("a full device takes deletes");
        }
    });
}

/// Puts objects, up to so many, until they are refused for so long; how many there are then.
async fn put_all(world: &Arc<World>, most: usize, patience: Duration) -> usize {
    let (mut count, mut last) = (0, world.elapsed());
    while (most == 0 || count < most) && world.elapsed() - last <= patience {
        match put_object(world, count).await.is_ok() {
            true => (count, last) = (count + 1, world.elapsed()),
            false if patience.is_zero() => break,
            false => world.env.sleep(PAUSE).await,
        }
    }
    count
}

fn key(number: usize) -> ObjectKey {
    ObjectKey::new(BucketId(7), Bytes::from(format!("object-{number}"))).expect("a short name")
}

async fn put_object(world: &Arc<World>, number: usize) -> Result<(), EngineError> {
    let asker = world.running().swap_remove(0);
    let (engine, key) = (asker.node.engine(), key(number));
    let put = async {
        let mut staged = engine.stage(&key, None);
        for _ in 0..OBJECT_BYTES / PIECE_BYTES {
            engine.stage_chunk(&mut staged, Bytes::from(vec![number as u8; PIECE_BYTES])).await?;
        }
        engine.commit(&key, staged, Attributes::default(), Condition::None).await.map(drop)
    };
    asker.env.within(put).await
}

async fn remove_object(world: &Arc<World>, number: usize) -> Result<(), EngineError> {
    let asker = world.running().swap_remove(0);
    let engine = asker.node.engine();
    asker.env.within(engine.delete(&key(number), Condition::None)).await.map(drop)
}
