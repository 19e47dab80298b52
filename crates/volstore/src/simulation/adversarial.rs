//! The adversarial cases of the volume engine, by name (docs/evaluation/cheetah/adversarial.md).

use std::time::Duration;

use ::engine::{Condition, EngineError, ObjectEngine};
use bytes::Bytes;
use disk::BLOCK_BYTES;
use manager::PlacementRecord;
use net::ServiceTag;
use types::NodeId;

use super::faults::{A, B, C, content, group_of, put_at, until_led_by_others};
use super::wire::{LateRequest, Trouble};
use super::world::World;
use crate::gateway::Gateway;
use crate::store::test_support::{get, key, put};
use crate::wire::{BlockAsk, BlockQuestion};

const NODES: [NodeId; 3] = [A, B, C];
/// Longer than the record of a put is on its way, and shorter than its primary waits for bytes.
const HALF_WAY: Duration = Duration::from_secs(1);
/// In so many milliseconds a put has ended.
const PUT_MS: u64 = 16;
const NAME: u64 = 0;
const TRIES: u64 = 40;

/// Three nodes, each group on all of them, and the name's first version.
async fn begin(seed: u64) -> (World, PlacementRecord) {
    let world = World::new(seed, 3, 1).await;
    world.until_whole().await;
    put_at(&world, A, NAME, 1).await.expect("puts");
    let record = (*world.placement(group_of(NAME))).clone();
    (world, record)
}

fn others(record: &PlacementRecord) -> Vec<NodeId> {
    NODES.into_iter().filter(|node| *node != record.primary).collect()
}

async fn put_version(gateway: &Gateway, version: u64) -> Result<(), EngineError> {
    put(gateway, &format!("{NAME}"), content(NAME, version)).await
}

/// Puts a version while something happens; the answer, if the gateway's node has lived to have one.
async fn put_while(
    world: &World,
    at: NodeId,
    version: u64,
    happens: impl Future<Output = ()>,
) -> Option<Result<(), EngineError>> {
    let gateway = world.gateway(at);
    let putting = world.until_killed(at, put_version(&gateway, version));
    tokio::join!(putting, happens).0
}

/// What the name has, through a node's gateway.
async fn look(world: &World, at: NodeId) -> Option<Vec<u8>> {
    for _ in 0..TRIES {
        if let Ok(found) = get(&world.gateway(at), &format!("{NAME}")).await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("the name can't be read at node {at}");
}

async fn assert_everywhere(world: &World, version: u64) {
    for node in world.up() {
        assert_eq!(look(world, node).await, Some(content(NAME, version)), "at node {node}");
    }
}

async fn recover(world: &World) {
    world.wire().heal();
    world.start_all(false).await;
    world.until_whole().await;
    world.check_copies().await;
}

/// The blocks that a late request is to write.
fn block_of(request: &LateRequest) -> Option<(u64, Bytes)> {
    match BlockQuestion::decode(request.payload.clone())?.ask {
        BlockAsk::Write { offset, bytes } => Some((offset, bytes)),
        _ => None,
    }
}

/// A put's bytes reach no copy, its primary ends, and the put is revoked. Its blocks have other bytes when the write arrives.
#[tokio::test(start_paused = true)]
async fn late_write_after_a_revoke_onto_reused_blocks() {
    let (world, record) = begin(31).await;
    let group = group_of(NAME);
    for other in others(&record) {
        world.wire().trouble(record.primary, other, ServiceTag::OBJECT_BLOCKS, Trouble::Late);
    }
    let end = async {
        tokio::time::sleep(HALF_WAY).await;
        world.kill(record.primary);
    };
    put_while(&world, record.primary, 2, end).await;
    let late: Vec<LateRequest> = world.wire().late();
    let (to, (offset, bytes)) = late.iter().find_map(|one| Some((one.to, block_of(one)?))).expect("its bytes are late");
    assert_eq!(bytes[..BLOCK_BYTES], content(NAME, 2)[..BLOCK_BYTES]);
    until_led_by_others(&world, record.primary).await;
    let volume = world.member(to, group).expect("it has a copy").volume.clone();
    let block = async || volume.read_medium(offset, BLOCK_BYTES).await.expect("reads").to_vec();
    // What is put now takes the blocks.
    let mut reused = None;
    for version in 3..3 + TRIES {
        put_at(&world, to, NAME, version).await.expect("puts");
        if block().await == content(NAME, version)[..BLOCK_BYTES] {
            reused = Some(version);
            break;
        }
    }
    let version = reused.expect("the blocks are used again");
    assert_eq!(world.wire().deliver_late().await, 0, "a write of a former view was taken");
    assert_eq!(block().await, content(NAME, version)[..BLOCK_BYTES]);
    recover(&world).await;
    assert_everywhere(&world, version).await;
}

/// The same without what comes after: no copy has the new bytes, and the object that was there stays.
#[tokio::test(start_paused = true)]
async fn overwrite_whose_data_never_arrives() {
    let (world, record) = begin(32).await;
    for other in others(&record) {
        world.wire().cut(record.primary, other, ServiceTag::OBJECT_BLOCKS);
    }
    let end = async {
        tokio::time::sleep(HALF_WAY).await;
        world.kill(record.primary);
    };
    put_while(&world, record.primary, 2, end).await;
    until_led_by_others(&world, record.primary).await;
    assert_everywhere(&world, 1).await;
    recover(&world).await;
    assert_everywhere(&world, 1).await;
}

/// A backup hears nothing of a delete. It takes part no more until it has, and does not bring the object back alone.
#[tokio::test(start_paused = true)]
async fn delete_missed_by_a_backup() {
    let (world, record) = begin(33).await;
    let backup = others(&record)[0];
    for node in NODES.into_iter().filter(|node| *node != backup) {
        world.wire().cut(node, backup, ServiceTag::OBJECT_MESSAGES);
    }
    let mut is_deleted = false;
    for _ in 0..TRIES {
        let deleted = world.gateway(record.primary).delete(&key(&format!("{NAME}")), Condition::None).await;
        is_deleted = deleted.is_ok();
        if is_deleted {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(is_deleted, "the others go on without it");
    NODES.into_iter().filter(|node| *node != backup).for_each(|node| world.kill(node));
    tokio::time::sleep(Duration::from_secs(30)).await;
    let alone = get(&world.gateway(backup), &format!("{NAME}")).await;
    alone.expect_err("it alone does not know what became of the object");
    recover(&world).await;
    NODES.into_iter().filter(|node| *node != backup).for_each(|node| world.kill(node));
    until_led_by(&world, backup).await;
    assert_eq!(look(&world, backup).await, None);
}

async fn until_led_by(world: &World, node: NodeId) {
    let group = group_of(NAME);
    let is_led = || world.placement(group).primary == node && world.office(node, group).is_some();
    world.until("the last node leads", is_led).await;
}

/// An entry that only its primary has, and another entry of the same number.
#[tokio::test(start_paused = true)]
async fn divergent_opseq() {
    let (world, record) = begin(34).await;
    for other in others(&record) {
        for tag in [ServiceTag::OBJECT_MESSAGES, ServiceTag::OBJECT_BLOCKS] {
            world.wire().cut(record.primary, other, tag);
        }
    }
    let end = async {
        tokio::time::sleep(HALF_WAY).await;
        world.kill(record.primary);
    };
    put_while(&world, record.primary, 2, end).await;
    until_led_by_others(&world, record.primary).await;
    assert_everywhere(&world, 1).await;
    put_at(&world, others(&record)[0], NAME, 3).await.expect("puts");
    recover(&world).await;
    others(&record).into_iter().for_each(|node| world.kill(node));
    until_led_by(&world, record.primary).await;
    assert_everywhere(&world, 3).await;
}

/// A put takes effect, and its answer is lost. Another client deletes the object: the gateway does not put it again.
#[tokio::test(start_paused = true)]
async fn retry_after_another_clients_delete() {
    let (world, record) = begin(35).await;
    let [gateway, other] = others(&record)[..] else { panic!("there are three nodes") };
    world.wire().trouble(gateway, record.primary, ServiceTag::OBJECTS, Trouble::Unanswered);
    let delete = async {
        let is_put = async || look(&world, other).await == Some(content(NAME, 2));
        for _ in 0..TRIES {
            if is_put().await {
                break;
            }
        }
        assert!(is_put().await, "the put has taken effect");
        world.gateway(other).delete(&key(&format!("{NAME}")), Condition::None).await.expect("deletes");
    };
    let answer = put_while(&world, gateway, 2, delete).await.expect("it lives");
    answer.expect_err("its gateway does not know");
    world.wire().heal();
    for node in NODES {
        assert_eq!(look(&world, node).await, None, "at node {node}");
    }
    world.kill(record.primary);
    until_led_by_others(&world, record.primary).await;
    assert_eq!(look(&world, other).await, None);
}

/// A put is pending for a while: its bytes do not reach a copy. Reads show the version before; when one has shown the new one, all later ones do.
#[tokio::test(start_paused = true)]
async fn pending_get_with_live_and_dead_proxy() {
    for is_killed in [false, true] {
        let (world, record) = begin(36 + u64::from(is_killed)).await;
        let [slow, other] = others(&record)[..] else { panic!("there are three nodes") };
        world.wire().cut(record.primary, slow, ServiceTag::OBJECT_BLOCKS);
        let reads = async {
            tokio::time::sleep(HALF_WAY).await;
            assert_eq!(look(&world, other).await, Some(content(NAME, 1)), "it is pending");
            if is_killed {
                world.kill(record.primary);
            }
            let mut has_changed = false;
            for _ in 0..TRIES {
                let found = look(&world, other).await;
                let is_new = found == Some(content(NAME, 2));
                assert!(is_new || found == Some(content(NAME, 1)), "neither version");
                assert!(is_new || !has_changed, "it went back to the version before");
                has_changed |= is_new;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            assert!(has_changed, "another copy had all of it");
        };
        put_while(&world, record.primary, 2, reads).await;
        recover(&world).await;
        assert_everywhere(&world, 2).await;
    }
}

/// In a strict bucket: a put whose answer was lost, and a second request for the same name under the next primary.
#[tokio::test(start_paused = true)]
async fn remeta_with_another_request_id() {
    let (world, record) = begin(38).await;
    let [gateway, other] = others(&record)[..] else { panic!("there are three nodes") };
    world.gateway(other).delete(&key(&format!("{NAME}")), Condition::None).await.expect("deletes");
    world.wire().trouble(gateway, record.primary, ServiceTag::OBJECTS, Trouble::Unanswered);
    put_version(&world.strict_gateway(gateway), 2).await.expect_err("its answer was lost");
    world.wire().heal();
    world.kill(record.primary);
    until_led_by_others(&world, record.primary).await;
    let second = put_version(&world.strict_gateway(other), 3).await;
    assert!(matches!(second, Err(EngineError::Conflict { .. })), "{second:?}");
    assert_everywhere(&world, 2).await;
}

/// After what ended a put half-way: it was answered and is there. Else it may be pending for a while, and then is there or not, for good and everywhere.
async fn judge(world: &World, answer: Option<Result<(), EngineError>>, version: u64) {
    let up = world.up();
    let found = look(world, up[0]).await;
    let is_new = found == Some(content(NAME, version));
    assert!(is_new || !matches!(answer, Some(Ok(()))), "an answered put is lost");
    assert!(is_new || found == Some(content(NAME, version - 1)), "neither version");
    recover(world).await;
    let is_there = look(world, A).await == Some(content(NAME, version));
    assert!(is_there || !is_new, "it went back to the version before");
    assert_everywhere(world, if is_there { version } else { version - 1 }).await;
    put_at(world, A, NAME, version).await.expect("puts");
}

#[tokio::test(start_paused = true)]
async fn target_crash_mid_put() {
    let (world, _) = begin(39).await;
    for at in 0..PUT_MS {
        let record = world.placement(group_of(NAME));
        let target = others(&record)[at as usize % 2];
        let end = async {
            tokio::time::sleep(Duration::from_millis(at)).await;
            world.kill(target);
        };
        let answer = put_while(&world, record.primary, at + 2, end).await;
        judge(&world, answer, at + 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn primary_and_proxy_both_crashed() {
    let (world, _) = begin(40).await;
    for at in 0..PUT_MS {
        let record = world.placement(group_of(NAME));
        let gateway = others(&record)[at as usize % 2];
        let end = async {
            tokio::time::sleep(Duration::from_millis(at)).await;
            world.kill(record.primary);
            world.kill(gateway);
        };
        let answer = put_while(&world, gateway, at + 2, end).await;
        judge(&world, answer, at + 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn power_loss_of_everything_at_every_step() {
    let (world, _) = begin(41).await;
    for at in 0..PUT_MS {
        let primary = world.placement(group_of(NAME)).primary;
        let end = async {
            tokio::time::sleep(Duration::from_millis(at)).await;
            NODES.into_iter().for_each(|node| world.kill(node));
        };
        let answer = put_while(&world, primary, at + 2, end).await;
        world.start_all(true).await;
        judge(&world, answer, at + 2).await;
    }
}
