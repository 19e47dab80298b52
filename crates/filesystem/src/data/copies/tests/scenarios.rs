//! Single cases, step by step.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::{Env, Instant};
use types::NodeId;

use super::random::heal;
use super::world::{Damage, NODES, World};
use crate::data::copies::CopyStore;
use crate::data::copies::ask::{Change, ChangeWhat};
use crate::data::copies::reign::Reign;
use crate::data::{DataError, Extents};
use crate::ids::{BLOCK_BYTES, ExtentId};

const SEED: u64 = 1;
/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
const CONTENT: &[u8] = b"what was acknowledged";

fn serving(world: &World) -> Arc<Reign> {
    world.reigns().into_iter().find(|reign| reign.is_serving()).expect("a primary serves")
}

fn soon(world: &World) -> Instant {
    world.env.now() + PATIENCE
}

async fn append(world: &World, extent: ExtentId, offset: u64) {
    let what = ChangeWhat::Append { offset, data: Bytes::from_static(CONTENT) };
    serving(world).change(Change { extent, what }, soon(world)).await.expect("an append");
}

fn run(scenario: impl AsyncFnOnce(Env, Arc<World>)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let env = Env::simulated(SEED);
        let world = World::new(&env);
        assert!(world.elect(NodeId(1)), "a majority is there");
        heal(&world, &env).await.expect("all copies are in sync");
        scenario(env, world).await;
    });
}

/// Caught: of two copies in sync one was lost, and the third was out. The new primary waited for the lost one for ever, and rebuilt the third only when it
/// served (seed 311 and seven others).
#[test]
fn a_third_copy_is_rebuilt_where_one_of_two_is_lost() {
    run(async |env, world| {
        let primary = world.leader().expect("a leader");
        let backups: Vec<NodeId> = (1..=NODES).map(NodeId).filter(|node| *node != primary).collect();
        let [next, third] = backups[..] else { unreachable!("there are three nodes") };
        let extent = serving(&world).create(Bytes::new(), soon(&world)).await.expect("an extent");
        append(&world, extent, 0).await;
        world.crash(third);
        append(&world, extent, CONTENT.len() as u64).await;
        assert!(!world.record().in_sync.contains(&third), "it has missed an append");
        world.crash(primary);
        world.lose_disk(primary);
        world.start(third);
        while !world.elect(next) {
            env.sleep(Duration::from_millis(100)).await;
        }
        heal(&world, &env).await.expect("the third copy is rebuilt, then the lost one leaves, and is rebuilt too");
        let content = serving(&world).read(extent, 0, 2 * CONTENT.len()).await;
        assert_eq!(content.expect("content"), [CONTENT, CONTENT].concat());
    });
}

/// Caught: a primary served extents of any partition on its device, so a guest of one volume could read and change the files of others.
#[test]
fn extents_of_other_partitions_are_refused() {
    run(async |_, world| {
        let own = extent_of(&world, CONTENT.to_vec()).await;
        let other = ExtentId { partition: own.partition + 1, ..own };
        let disk = world.disk(world.leader().expect("a leader"));
        disk.create_as(other, Bytes::from_static(CONTENT)).await.expect("an extent");
        let refused = DataError::NoExtent(other);
        assert_eq!(serving(&world).read(other, 0, CONTENT.len()).await, Err(refused.clone()));
        let remove = Change { extent: other, what: ChangeWhat::Remove };
        assert_eq!(serving(&world).change(remove, soon(&world)).await, Err(refused));
        assert_eq!(disk.read(other, 0, CONTENT.len()).await.expect("it is there"), CONTENT);
        let used = serving(&world).room().used;
        assert_eq!((used.extents, used.bytes), (1, BLOCK_BYTES), "nor are they counted");
    });
}

#[test]
fn a_damaged_block_is_read_from_another_copy_and_written_anew() {
    run(async |env, world| {
        let extent = serving(&world).create(Bytes::new(), soon(&world)).await.expect("an extent");
        let content: Vec<u8> = (0..3 * BLOCK_BYTES).map(|at| (at / 7) as u8).collect();
        let what = ChangeWhat::Append { offset: 0, data: content.clone().into() };
        serving(&world).change(Change { extent, what }, soon(&world)).await.expect("an append");
        let disk = world.disk(world.leader().expect("a leader"));
        disk.damage(extent, 1, Damage::Content);
        let damaged = DataError::Damaged { extent, offset: BLOCK_BYTES };
        assert_eq!(disk.read(extent, 0, content.len()).await, Err(damaged));
        let read = serving(&world).read(extent, BLOCK_BYTES + 5, 100).await.expect("content");
        assert_eq!(read, content[BLOCK_BYTES as usize + 5..][..100]);
        env.sleep(Duration::from_secs(1)).await;
        assert_eq!(disk.read(extent, 0, content.len()).await.expect("it is mended"), content);
    });
}

fn overwrite(extent: ExtentId, block: u64, content: u8) -> Change {
    let what = ChangeWhat::Overwrite { offset: block * BLOCK_BYTES, data: vec![content; BLOCK_BYTES as usize].into() };
    Change { extent, what }
}

async fn extent_of(world: &World, content: Vec<u8>) -> ExtentId {
    serving(world).create(content.into(), soon(world)).await.expect("an extent")
}

/// Of three copies in sync the primary's node and another one are lost. The third leads, and can't serve before one is back. The lost ones.
async fn lead_alone(env: &Env, world: &Arc<World>, extent: ExtentId) -> [NodeId; 2] {
    let primary = world.leader().expect("a leader");
    let backups: Vec<NodeId> = (1..=NODES).map(NodeId).filter(|node| *node != primary).collect();
    let [next, third] = backups[..] else { unreachable!("there are three nodes") };
    world.crash(third);
    serving(world).change(overwrite(extent, 0, 1), soon(world)).await.expect("the third copy leaves");
    world.crash(primary);
    world.start(third);
    // It takes part in the group, and its copy is not reached.
    world.lose_copy(third);
    while !world.elect(next) {
        env.sleep(Duration::from_millis(100)).await;
    }
    env.sleep(Duration::from_millis(500)).await;
    assert!(world.reigns().iter().all(|reign| !reign.is_serving()), "neither copy is there");
    [primary, third]
}

/// Caught: changes that waited for a primary to serve were made whenever it did, long after their callers had been told that they failed, and in any order.
#[test]
fn what_waits_for_a_primary_to_serve_is_made_in_order_or_refused_in_time() {
    run(async |env, world| {
        const BLOCKS: u64 = 8;
        let extent = extent_of(&world, vec![0; (BLOCKS * BLOCK_BYTES) as usize]).await;
        let [lost, _] = lead_alone(&env, &world, extent).await;
        let reign = world.reigns().pop().expect("one leads");
        let begun = env.now();
        let refused = reign.change(overwrite(extent, 0, 9), soon(&world)).await;
        assert!(matches!(refused, Err(DataError::Unavailable(_))), "{refused:?}");
        assert!(env.now() < begun + PATIENCE + Duration::from_secs(1));
        let mut asked = Vec::new();
        for block in 0..BLOCKS {
            for content in [2, 3] {
                asked.push(env.spawn(reign.change(overwrite(extent, block, content), env.now() + 10 * PATIENCE)));
                env.sleep(Duration::from_millis(10 + 12 * block)).await;
            }
        }
        world.start(lost);
        world.spread_the_word();
        for asked in asked {
            asked.await.expect("no panic").expect("it is made once the primary serves");
        }
        heal(&world, &env).await.expect("all copies are in sync");
        let content = serving(&world).read(extent, 0, (BLOCKS * BLOCK_BYTES) as usize).await.expect("content");
        assert_eq!(content.iter().position(|byte| *byte != 3), None, "the later one of two stays");
    });
}

/// Caught: each change that waited asked the group again and again for what it could only refuse.
#[test]
fn two_copies_that_must_stay_are_not_asked_to_leave() {
    run(async |env, world| {
        let extent = extent_of(&world, vec![0; BLOCK_BYTES as usize]).await;
        let primary = world.leader().expect("a leader");
        let backups: Vec<NodeId> = (1..=NODES).map(NodeId).filter(|node| *node != primary).collect();
        world.lose_copy(backups[0]);
        serving(&world).change(overwrite(extent, 0, 1), soon(&world)).await.expect("the first one leaves");
        world.lose_copy(backups[1]);
        let reign = serving(&world);
        let waits = env.spawn(reign.change(overwrite(extent, 0, 2), soon(&world)));
        env.sleep(Duration::from_secs(30)).await;
        assert!(!waits.is_finished(), "one copy alone acknowledges nothing");
        assert_eq!(world.refused(), 0);
    });
}

/// The third copy is out, and lacks what block 1 has by now. The primary, the other copy in sync, and the third.
async fn leave_one_behind(world: &World, extent: ExtentId) -> [NodeId; 3] {
    let primary = world.leader().expect("a leader");
    let backups: Vec<NodeId> = (1..=NODES).map(NodeId).filter(|node| *node != primary).collect();
    let [backup, third] = backups[..] else { unreachable!("there are three nodes") };
    world.crash(third);
    serving(world).change(overwrite(extent, 1, 2), soon(world)).await.expect("the third copy leaves");
    [primary, backup, third]
}

async fn block(world: &World, node: NodeId, extent: ExtentId, block: u64) -> Result<u8, DataError> {
    world.disk(node).read(extent, block * BLOCK_BYTES, BLOCK_BYTES as usize).await.map(|content| content[0])
}

/// Caught: what the primary's table had lost was left on a copy that was rebuilt as that had it: an older version joined.
#[test]
fn a_copy_that_is_rebuilt_has_what_another_one_has_where_the_primary_has_lost_it() {
    run(async |env, world| {
        let extent = extent_of(&world, vec![1; 3 * BLOCK_BYTES as usize]).await;
        let [primary, backup, third] = leave_one_behind(&world, extent).await;
        world.disk(primary).damage(extent, 1, Damage::Page);
        heal(&world, &env).await.expect("the third copy is rebuilt");
        assert_eq!(block(&world, third, extent, 1).await, Ok(2));
        assert_eq!(block(&world, backup, extent, 1).await, Ok(2));
        let overwritten = serving(&world).change(overwrite(extent, 1, 3), soon(&world)).await;
        overwritten.expect("a block that is written as a whole");
        assert_eq!(block(&world, primary, extent, 1).await, Ok(3));
    });
}

/// Caught: a rebuild began anew for ever where it came to a block that no copy in sync could read.
#[test]
fn a_block_that_nobody_can_read_is_given_up_and_never_what_it_was() {
    for damage in [Damage::Content, Damage::Page] {
        run(async |env, world| {
            let extent = extent_of(&world, vec![1; 3 * BLOCK_BYTES as usize]).await;
            let [primary, backup, third] = leave_one_behind(&world, extent).await;
            world.disk(primary).damage(extent, 1, damage);
            world.disk(backup).damage(extent, 1, Damage::Content);
            heal(&world, &env).await.expect("the third copy is rebuilt");
            assert_eq!(block(&world, third, extent, 0).await, Ok(1));
            let punched = DataError::Punched { extent, offset: BLOCK_BYTES };
            assert_eq!(block(&world, third, extent, 1).await, Err(punched));
            assert!(serving(&world).read(extent, BLOCK_BYTES, 1).await.is_err());
            // One that was made anew has nothing there either.
            world.crash(third);
            world.lose_disk(third);
            serving(&world).change(overwrite(extent, 0, 4), soon(&world)).await.expect("the third copy leaves");
            heal(&world, &env).await.expect("the third copy is rebuilt");
            assert_eq!(block(&world, third, extent, 0).await, Ok(4));
            assert_eq!(block(&world, third, extent, 2).await, Ok(1));
            assert!(block(&world, third, extent, 1).await.is_err());
        });
    }
}

/// Caught: with one block that rotted here, and the copy lost that may have had it, all changes of the volume waited for ever.
#[test]
fn a_copy_that_is_lost_holds_up_a_rebuild_for_a_while_only() {
    run(async |env, world| {
        let extent = extent_of(&world, vec![1; 3 * BLOCK_BYTES as usize]).await;
        let [primary, backup, third] = leave_one_behind(&world, extent).await;
        world.disk(primary).damage(extent, 1, Damage::Content);
        world.start(third);
        world.lose_copy(backup);
        let waits = env.spawn(serving(&world).change(overwrite(extent, 0, 5), soon(&world)));
        env.sleep(Duration::from_secs(30)).await;
        assert!(!world.record().in_sync.contains(&third), "the other one may come back with the block");
        env.sleep(Duration::from_secs(60)).await;
        waits.await.expect("no panic").expect("two copies have it");
        assert_eq!(world.record().in_sync, [primary, third].into());
        assert!(block(&world, third, extent, 1).await.is_err());
    });
}

/// Caught: the first copy by number counted. The other one had what the new primary had, by its checksum, and was left so: two copies in sync differed for good.
#[test]
fn copies_that_differ_are_made_like_the_one_that_has_what_the_new_primary_had() {
    run(async |env, world| {
        let extent = extent_of(&world, vec![1; 3 * BLOCK_BYTES as usize]).await;
        let primary = world.leader().expect("a leader");
        let backups: Vec<NodeId> = (1..=NODES).map(NodeId).filter(|node| *node != primary).collect();
        let [next, third] = backups[..] else { unreachable!("there are three nodes") };
        // A change that the primary did not make itself.
        for node in [next, third] {
            let data = vec![2; BLOCK_BYTES as usize].into();
            world.disk(node).overwrite(extent, BLOCK_BYTES, data).await.expect("an overwrite");
        }
        world.disk(next).damage(extent, 1, Damage::Content);
        while !world.elect(next) {
            env.sleep(Duration::from_millis(100)).await;
        }
        // It takes over before anybody asks for another leader.
        env.sleep(Duration::from_secs(2)).await;
        heal(&world, &env).await.expect("all copies are in sync");
        assert_eq!((block(&world, primary, extent, 1).await, block(&world, third, extent, 1).await), (Ok(2), Ok(2)));
        assert_eq!(serving(&world).read(extent, BLOCK_BYTES, 1).await.as_deref(), Ok(&[2][..]));
    });
}
