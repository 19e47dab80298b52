//! Single faults at chosen moments: schedules that random ones don't meet.

use std::time::Duration;

use ::engine::{Content, EngineError, ObjectEngine};
use disk::{Fault, FaultRule, Operation};
use manager::{NamePlacement, PLACEMENT_GROUPS, PlacementRecord};
use net::ServiceTag;
use types::NodeId;
use types::limits::BLOCK_BYTES;

use super::wire::Trouble;
use super::world::World;
use crate::limits::MEET_UNITS;
use crate::mirror::{units_of, uuid_of_group};
use crate::place::Place;
use crate::store::test_support::{bytes, get, key, put};
use crate::superblock::Superblock;

const NAMES: u64 = 24;
const PUT_TRIES: u32 = 40;
pub(super) const A: NodeId = NodeId(1);
pub(super) const B: NodeId = NodeId(2);
pub(super) const C: NodeId = NodeId(3);

pub(super) fn content(name: u64, version: u64) -> Vec<u8> {
    bytes(name * 1000 + version, 5000)
}

async fn put_all(world: &World, at: NodeId, version: u64) {
    for name in 0..NAMES {
        put_at(world, at, name, version).await.expect("puts");
    }
}

pub(super) async fn put_at(world: &World, at: NodeId, name: u64, version: u64) -> Result<(), EngineError> {
    // Answers are lost at random. Whether such a put has taken effect is not known: it is asked for again.
    let mut tries = 0;
    loop {
        let answer = put(&world.gateway(at), &format!("{name}"), content(name, version)).await;
        if answer.is_ok() || tries == PUT_TRIES {
            return answer;
        }
        tries += 1;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Writes the names of a group.
pub(super) async fn dump(world: &World, group: u32) {
    for _ in 0..PUT_TRIES {
        if let Some(office) = world.office(world.placement(group).primary, group)
            && office.store.write_names().await.is_ok()
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("group {group} makes no dump");
}

async fn look(world: &World, at: NodeId, version: u64) {
    for name in 0..NAMES {
        let found = get(&world.gateway(at), &format!("{name}")).await;
        let found = found.unwrap_or_else(|error| panic!("name {name}: {error}"));
        assert!(found == Some(content(name, version)), "name {name} is not what was put");
    }
}

pub(super) fn group_of(name: u64) -> u32 {
    Place::group_of(&crate::name::Name::of(&key(&format!("{name}"))))
}

fn groups() -> std::ops::Range<u32> {
    0..PLACEMENT_GROUPS
}

/// The next view, with the same voters under another primary.
async fn lead(world: &World, record: &PlacementRecord, primary: NodeId) {
    let (voters, learners) = (record.voters.clone(), record.learners.clone());
    let next = NamePlacement { group: record.group, after: Some(record.view), primary, voters, learners };
    world.manager().name_placement(next).await.expect("the next view is named");
}

pub(super) async fn until_led_by_others(world: &World, lost: NodeId) {
    let goes_on = |group| {
        let record = world.placement(group);
        record.is_active && !record.voters.contains(&lost) && world.office(record.primary, group).is_some()
    };
    world.until("all groups go on without a node", || groups().all(goes_on)).await;
}

/// A learner whose report is late loads its log when the names were written already. It has not got the entries between: what they did would be lost with it
/// as the primary.
#[tokio::test(start_paused = true)]
async fn a_learner_whose_log_begins_late_has_all_before_it_votes() {
    let world = World::new(11, 3, 1).await;
    world.until_whole().await;
    put_all(&world, A, 1).await;
    world.kill(C);
    until_led_by_others(&world, C).await;
    put_all(&world, A, 2).await;
    for group in groups() {
        // The others' logs begin behind what the learner has.
        dump(&world, group).await;
    }
    for primary in [A, B] {
        world.wire().cut(C, primary, ServiceTag::OBJECT_MESSAGES);
    }
    world.start_all(false).await;
    let is_learner = |group| world.placement(group).is_active && world.placement(group).learners == [C];
    world.until("the node is a learner", || groups().all(is_learner)).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    put_all(&world, A, 3).await;
    world.wire().heal();
    world.until_whole().await;
    world.kill(A);
    world.kill(B);
    tokio::time::sleep(Duration::from_secs(30)).await;
    look(&world, C, 3).await;
}

/// The newest superblock of the next primary has rotted: the one before names what is gone, and does not replace the good ones of other copies.
#[tokio::test(start_paused = true)]
async fn a_rotten_superblock_spoils_no_other_copy() {
    let world = World::new(12, 3, 1).await;
    world.until_whole().await;
    put_all(&world, A, 1).await;
    let group = group_of(0);
    for version in 2..5 {
        put_at(&world, A, 0, version).await.expect("puts");
        dump(&world, group).await;
    }
    let record = world.placement(group);
    let next = *record.voters.iter().find(|node| **node != record.primary).expect("three have it");
    let sequence_of = |block: &[u8]| Superblock::decode(block, &uuid_of_group(group)).map(|superblock| superblock.sequence);
    let disk = world.disk(next);
    let places = world.find(next, |block| sequence_of(block).is_some());
    assert_eq!(places.len(), 2, "a superblock has two slots");
    let newest = places.into_iter().max_by_key(|at| sequence_of(&disk.peek(*at, BLOCK_BYTES))).expect("there are two");
    disk.corrupt_at_rest(newest, BLOCK_BYTES as u64);
    lead(&world, &record, next).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    put_all(&world, A, 4).await;
    look(&world, B, 4).await;
    // Superblocks take turns at the slots.
    dump(&world, group).await;
    dump(&world, group).await;
    assert_eq!(world.find(next, |block| sequence_of(block).is_some()).len(), 2, "the slot is written anew");
}

/// A learner that gets nothing from the start is given up, and named again.
#[tokio::test(start_paused = true)]
async fn a_learner_that_was_not_met_does_not_stay_for_ever() {
    let world = World::new(13, 3, 1).await;
    world.until_whole().await;
    world.kill(C);
    until_led_by_others(&world, C).await;
    for primary in [A, B] {
        world.wire().cut(primary, C, ServiceTag::OBJECT_BLOCKS);
    }
    world.start_all(false).await;
    let started = world.now();
    tokio::time::sleep(Duration::from_secs(120)).await;
    put_all(&world, A, 1).await;
    assert!(world.now() < started + Duration::from_secs(240), "the groups are served meanwhile");
    world.wire().heal();
    world.until_whole().await;
    look(&world, C, 1).await;
}

/// A learner that lacks much space gets it while the group is open.
#[tokio::test(start_paused = true)]
async fn a_group_is_open_while_a_learner_gets_space() {
    let world = World::new(20, 3, 1).await;
    world.until_whole().await;
    world.kill(C);
    until_led_by_others(&world, C).await;
    let large = bytes(7, 24 << 20);
    put(&world.gateway(A), "large", large.clone()).await.expect("puts");
    let group = Place::group_of(&crate::name::Name::of(&key("large")));
    let units = |node| world.member(node, group).map_or(0, |member| units_of(&member.volume).len());
    let needed = units(A);
    assert!(needed > MEET_UNITS + 1, "{needed} units");
    world.give_empty_disk(C).await;
    world.start_all(false).await;
    let mut is_seen = false;
    for _ in 0..300_000 {
        let record = world.placement(group);
        if record.voters.len() == 3 {
            break;
        }
        let is_open = record.learners == [C] && world.office(record.primary, group).is_some();
        is_seen |= is_open && units(C) + 1 < needed;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(is_seen, "it was shut until the learner had space");
    world.until_whole().await;
    assert!(get(&world.gateway(C), "large").await.expect("reads") == Some(large));
    world.check_copies().await;
}

/// A copy refuses to read what is in doubt: another one has it.
#[tokio::test(start_paused = true)]
async fn an_unreadable_copy_of_a_put_in_doubt_is_mended() {
    let world = World::new(14, 3, 1).await;
    world.until_whole().await;
    put_all(&world, A, 1).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    put_at(&world, A, 0, 2).await.expect("puts");
    let record = world.placement(group_of(0));
    let up: Vec<NodeId> = record.voters.iter().copied().filter(|node| *node != record.primary).collect();
    world.kill(record.primary);
    let first = content(0, 2)[..BLOCK_BYTES].to_vec();
    let places = world.find(up[0], |block| block == first);
    assert!(!places.is_empty(), "its bytes are on the disk");
    for at in places {
        let range = at..at + BLOCK_BYTES as u64;
        world.disk(up[0]).add_rule(FaultRule::always_in(range, Operation::Read, Fault::Fail));
    }
    until_led_by_others(&world, record.primary).await;
    let found = get(&world.gateway(up[1]), "0").await.expect("the group is open");
    assert!(found == Some(content(0, 2)), "it was answered");
}

/// A primary that stood still hears that all others have not answered. They were there.
#[tokio::test(start_paused = true)]
async fn a_primary_that_slept_keeps_its_copies() {
    let world = World::new(15, 3, 1).await;
    world.until_whole().await;
    let record = world.placement(group_of(0));
    // The group has space then.
    put_at(&world, record.primary, 0, 1).await.expect("puts");
    let others: Vec<NodeId> = record.voters.iter().copied().filter(|node| *node != record.primary).collect();
    others.iter().for_each(|node| world.wire().cut(record.primary, *node, ServiceTag::OBJECT_BLOCKS));
    let healing = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        world.wire().heal();
    };
    let ((), _) = tokio::join!(healing, put_at(&world, record.primary, 0, 2));
    let is_next = || world.placement(record.group).view > record.view;
    world.until("the primary has asked for another view", is_next).await;
    assert_eq!(world.placement(record.group).voters.len(), 3, "no copy was given up");
    world.until_whole().await;
}

/// Two members can't reach each other, and both reach the manager: one goes on alone.
#[tokio::test(start_paused = true)]
async fn a_cut_between_the_last_two_stops_no_group() {
    let world = World::new(16, 3, 1).await;
    world.until_whole().await;
    put_all(&world, A, 1).await;
    for tag in [ServiceTag::OBJECT_MESSAGES, ServiceTag::OBJECT_BLOCKS] {
        world.wire().cut(B, C, tag);
        world.wire().cut(C, B, tag);
    }
    world.kill(A);
    let is_led = |group| {
        let record = world.placement(group);
        record.voters.len() == 1 && record.is_active && world.office(record.primary, group).is_some()
    };
    world.until("each group is led by one of the two", || groups().all(is_led)).await;
    look(&world, B, 1).await;
    world.wire().heal();
    world.start_all(false).await;
    world.until_whole().await;
    look(&world, C, 1).await;
}

/// A disk hangs; its node pings. The groups that it leads, and the others, go on without it.
#[tokio::test(start_paused = true)]
async fn a_node_whose_disk_hangs_stops_no_group() {
    let world = World::new(17, 3, 1).await;
    world.until_whole().await;
    put_all(&world, A, 1).await;
    world.disk(C).hang();
    for name in 0..NAMES {
        // What is asked first may fail: whether it has taken effect is not known.
        let putting = tokio::time::timeout(Duration::from_secs(300), put_at(&world, A, name, 2));
        putting.await.expect("its group goes on").expect("puts");
    }
    look(&world, B, 2).await;
}

/// What writes to the copy of one group does not hold up the promises of others.
#[tokio::test(start_paused = true)]
async fn a_write_that_does_not_end_holds_its_own_group_up_alone() {
    let world = World::new(18, 3, 1).await;
    world.until_whole().await;
    let (slow, other) = (world.placement(0), world.placement(1));
    let backup = *slow.voters.iter().find(|node| ![slow.primary, other.primary].contains(node)).expect("a third one");
    let ticket = world.member(backup, 0).expect("it votes").admit(slow.view).expect("it is the newest view");
    lead(&world, &slow, slow.primary).await;
    lead(&world, &other, other.primary).await;
    let started = world.now();
    let is_served = || world.placement(1).view > other.view && world.office(world.placement(1).primary, 1).is_some();
    world.until("the other group is served", is_served).await;
    assert!(world.now() < started + Duration::from_secs(5), "the slow one holds the other one up");
    assert!(world.placement(1).voters.contains(&backup));
    // The slow one goes on without the backup.
    let goes_on = || world.placement(0).is_active && !world.placement(0).voters.contains(&backup);
    world.until("the slow group is served", goes_on).await;
    drop(ticket);
    world.until_whole().await;
}

/// A start may log what it revokes although the log is full.
#[tokio::test(start_paused = true)]
async fn a_full_log_takes_what_a_start_revokes() {
    let world = World::new(19, 3, 1).await;
    world.until_whole().await;
    let record = world.placement(0);
    let office = world.office(record.primary, 0).expect("it is served");
    office.store.fill_log_and_revoke().await.expect("the log takes it");
}

/// What a node reads of a large object at another one, piece by piece, outlives lost answers.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_ends_no_reading() {
    let world = World::new(11, 3, 1).await;
    world.until_whole().await;
    let (primary, large) = (world.placement(group_of(1)).primary, bytes(1, 300_000));
    let reading = [A, B, C].into_iter().find(|node| *node != primary).expect("there are three");
    while put(&world.gateway(primary), "1", large.clone()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let gateway = world.gateway(reading);
    let Content::Chunked(reader) = gateway.open(&key("1")).await.expect("opens").content else { panic!("it is in pieces") };
    world.wire().trouble(reading, primary, ServiceTag::OBJECTS, Trouble::Unanswered);
    let heal = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        world.wire().heal();
    };
    let (read, ()) = tokio::join!(reader.read(0..large.len() as u64), heal);
    let read = read.expect("it is asked again");
    assert!(!read.is_empty() && large.starts_with(&read));
}
