//! The shared log's room: given up, carried on, full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use disk::{Disk, Fault, FaultRule, Operation};
use env::Env;
use net::{BoxFuture, Refusal, Service};
use wal::{Segment, SegmentStore, StoreError, StoreFuture};

use super::cluster::{Cluster, GROUP, SEGMENT_BYTES, SEGMENTS, place_on};
use super::store::Command;
use crate::BASE_BYTES;
use crate::error::ProposeError;
use crate::id::{GroupId, NodeId};
use crate::limits::MIN_LOG_SEGMENTS;

#[tokio::test(start_paused = true)]
async fn a_busy_group_and_a_quiet_one_share_a_small_log_for_ever() {
    let env = Env::simulated(41);
    let segments = 10;
    let mut cluster = Cluster::new(&env, 3, segments);
    let quiet = GroupId(2);
    cluster.start_all(&[GROUP, quiet]).await;
    cluster.initialize(GROUP, 3).await;
    cluster.initialize(quiet, 3).await;
    cluster.propose(quiet, &Command::write(5, 55)).await;
    // Twice what the log holds, in commands that leave next to nothing behind.
    let command = Command::Write { register: 1, value: Some(1) };
    let padding = 2 * segments as u64 * SEGMENT_BYTES / 4096;
    for _ in 0..padding {
        cluster.propose(GROUP, &command).await;
    }
    for id in cluster.ids() {
        let live = cluster.host(id).node.as_ref().unwrap().counters().live_segments;
        assert!(live < segments, "node {id} uses {live} segments");
    }
    for id in cluster.ids() {
        cluster.crash(id).await;
    }
    cluster.start_all(&[]).await;
    let leader = cluster.leader(quiet).await;
    assert_eq!(cluster.group(leader, quiet).look(|store| store.registers[&5]), 55);
    assert_eq!(cluster.settled(GROUP).await.registers[&1], 1);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_log_that_was_tidied_up_opens_whatever_groups_wrote_in_between() {
    let env = Env::simulated(45);
    let segments = 10;
    let mut cluster = Cluster::new(&env, 3, segments);
    let (slow, young) = (GroupId(2), GroupId(3));
    cluster.start_all(&[GROUP, slow, young]).await;
    cluster.initialize(GROUP, 3).await;
    cluster.initialize(slow, 3).await;
    let command = Command::Write { register: 1, value: Some(1) };
    let segment = SEGMENT_BYTES / 4096;
    for round in 0..2 * segments as u64 * segment {
        cluster.propose(GROUP, &command).await;
        if round % (segment / 4) == 0 {
            // Its entries lie all over the log; the vote of the third group is in the younger half at first.
            cluster.propose(slow, &Command::write(2, round)).await;
        }
        if round == 3 * segment {
            cluster.initialize(young, 3).await;
        }
        if round % (segment / 2) == segment / 2 - 1 {
            for id in cluster.ids() {
                cluster.crash(id).await;
            }
            cluster.start_all(&[GROUP, slow, young]).await;
        }
    }
    for id in cluster.ids() {
        cluster.crash(id).await;
    }
    cluster.start_all(&[]).await;
    assert_eq!(cluster.settled(GROUP).await.registers[&1], 1);
    assert!(cluster.settled(slow).await.registers.contains_key(&2));
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_write_its_base_makes_way() {
    let env = Env::simulated(46);
    let mut cluster = Cluster::new(&env, 3, 10);
    cluster.start_all(&[GROUP]).await;
    cluster.initialize(GROUP, 3).await;
    let leader = cluster.leader(GROUP).await;
    let base = FaultRule::always_in(0..BASE_BYTES, Operation::Write, Fault::Fail);
    cluster.host(leader).disk.add_rule(base);
    let mut made = 0;
    while cluster.group(leader, GROUP).status().stopped.is_none() {
        // Refused, or of unknown outcome, while the lead changes hands.
        drop(cluster.group(leader, GROUP).propose(&Command::Write { register: 1, value: Some(1) }).await);
        made += 1;
        assert!(made < 20 * SEGMENT_BYTES / 4096, "it goes on");
    }
    cluster.network.unplug(leader);
    cluster.host_mut(leader).groups.clear();
    let next = cluster.leader(GROUP).await;
    assert_ne!(next, leader);
    cluster.group(next, GROUP).propose(&Command::write(2, 2)).await.unwrap();
    cluster.shut_down().await;
}

/// Segments on a file system that has room for two until it gets some.
struct Full {
    all: Arc<dyn SegmentStore>,
    made: AtomicUsize,
    has_room: AtomicBool,
}

impl Full {
    const FIRST: usize = 2;
}

impl SegmentStore for Full {
    fn segment_bytes(&self) -> u64 {
        self.all.segment_bytes()
    }

    fn segments(&self) -> StoreFuture<'_, Vec<Segment>> {
        Box::pin(async { Ok(self.all.segments().await?.into_iter().take(Self::FIRST).collect()) })
    }

    fn create(&self) -> StoreFuture<'_, Segment> {
        Box::pin(async {
            if !self.has_room.load(Ordering::SeqCst) {
                let cause = Box::new(std::io::Error::from(std::io::ErrorKind::StorageFull));
                return Err(StoreError { attempt: "prepare segment", path: "log".into(), cause });
            }
            let at = Self::FIRST + self.made.fetch_add(1, Ordering::SeqCst);
            Ok(self.all.segments().await?.swap_remove(at))
        })
    }
}

/// Counts requests, and those of them that are answered in no time.
struct Counted {
    env: Env,
    there: Arc<dyn Service>,
    requests: AtomicUsize,
    at_once: AtomicUsize,
}

impl Service for Counted {
    fn handle(&self, request: net::Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            self.requests.fetch_add(1, Ordering::SeqCst);
            let begun = self.env.now();
            let answer = self.there.handle(request).await;
            self.at_once.fetch_add(usize::from(self.env.now() == begun), Ordering::SeqCst);
            answer
        })
    }
}

/// Caught: it kept the answers to all heartbeats for as long as it waited.
#[tokio::test(start_paused = true)]
async fn a_follower_whose_log_waits_for_room_keeps_nothing_that_it_is_sent() {
    let env = Env::simulated(47);
    let mut cluster = Cluster::new(&env, 3, SEGMENTS);
    let full = NodeId(3);
    let all = place_on(&cluster.host(full).disk, SEGMENTS).segments;
    let store = Arc::new(Full { all, made: AtomicUsize::new(0), has_room: AtomicBool::new(false) });
    cluster.host_mut(full).store = Some(store.clone());
    cluster.start_all(&[GROUP]).await;
    cluster.initialize(GROUP, 3).await;
    assert_ne!(cluster.leader(GROUP).await, full);
    let node = cluster.host(full).node.clone().unwrap();
    let mut taken = 0;
    while !node.inner.log.waits_for_room() {
        cluster.propose(GROUP, &Command::Ballast(vec![1; 100_000])).await;
        taken += 1;
        assert!(taken < 2 * Full::FIRST as u64 * SEGMENT_BYTES / 100_000, "it has room");
    }
    let counted = Arc::new(Counted {
        env: env.clone(),
        there: node.service(),
        requests: AtomicUsize::new(0),
        at_once: AtomicUsize::new(0),
    });
    cluster.network.plug_in(full, counted.clone());
    env.sleep(Duration::from_secs(120)).await;
    cluster.propose(GROUP, &Command::write(1, 1)).await;
    let (requests, at_once) = (counted.requests.load(Ordering::SeqCst), counted.at_once.load(Ordering::SeqCst));
    assert!(requests > 500, "{requests} requests");
    assert_eq!(at_once, requests);
    store.has_room.store(true, Ordering::SeqCst);
    let settled = cluster.settled(GROUP).await;
    assert_eq!((settled.registers[&1], settled.ballast.len() as u64), (1, taken * 100_000));
    assert_eq!(cluster.group(full, GROUP).status().stopped, None);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_log_too_small_for_its_contents_refuses_proposals_and_stays_well() {
    let env = Env::simulated(42);
    let mut cluster = Cluster::new(&env, 1, MIN_LOG_SEGMENTS);
    cluster.start_all(&[GROUP]).await;
    cluster.initialize(GROUP, 1).await;
    let leader = cluster.leader(GROUP).await;
    let group = cluster.group(leader, GROUP).clone();
    let mut taken = 0;
    let refused = loop {
        match group.propose(&Command::Ballast(vec![1; 100_000])).await {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 100, "ten times what the log holds");
    };
    assert!(matches!(refused, ProposeError::LogFull), "{refused}");
    assert!(refused.is_definite());
    env.sleep(Duration::from_secs(10)).await;
    assert_eq!(group.status().stopped, None);
    cluster.crash(leader).await;
    cluster.start(leader, &[]).await.unwrap();
    cluster.leader(GROUP).await;
    assert_eq!(cluster.group(leader, GROUP).look(|store| store.ballast.len()), taken * 100_000);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_stops_the_node_and_the_others_go_on() {
    let env = Env::simulated(43);
    let mut cluster = Cluster::of_three(&env).await;
    let leader = cluster.leader(GROUP).await;
    cluster.host(leader).disk.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
    let group = cluster.group(leader, GROUP).clone();
    let failed = group.propose(&Command::write(1, 1)).await;
    assert!(matches!(failed, Ok(_) | Err(ProposeError::Unknown { .. })), "{failed:?}");
    env.sleep(Duration::from_secs(4)).await;
    assert!(group.status().stopped.is_some(), "{:?}", group.status());
    cluster.network.unplug(leader);
    cluster.host_mut(leader).groups.clear();
    let next = cluster.leader(GROUP).await;
    assert_ne!(next, leader);
    cluster.group(next, GROUP).propose(&Command::write(2, 2)).await.unwrap();
    cluster.crash(leader).await;
    cluster.start(leader, &[]).await.unwrap();
    assert_eq!(cluster.settled(GROUP).await.registers[&2], 2);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_group_is_forgotten_and_its_room_comes_back() {
    let env = Env::simulated(44);
    let mut cluster = Cluster::new(&env, 1, SEGMENTS);
    let other = GroupId(2);
    cluster.start_all(&[GROUP, other]).await;
    cluster.initialize(GROUP, 1).await;
    cluster.initialize(other, 1).await;
    cluster.propose(other, &Command::write(1, 1)).await;
    for _ in 0..20 {
        cluster.propose(GROUP, &Command::Ballast(vec![1; 100_000])).await;
    }
    let node = cluster.host(NodeId(1)).node.clone().unwrap();
    node.remove_group(GROUP).await.unwrap();
    assert!(matches!(node.remove_group(GROUP).await, Err(crate::RemoveError::Unknown(GROUP))));
    assert_eq!(node.known_groups(), vec![other]);
    env.sleep(Duration::from_secs(5)).await;
    assert!(node.counters().live_segments <= 4, "{:?}", node.counters());
    cluster.crash(NodeId(1)).await;
    cluster.start(NodeId(1), &[]).await.unwrap();
    assert_eq!(cluster.host(NodeId(1)).node.as_ref().unwrap().known_groups(), vec![other]);
    cluster.leader(other).await;
    cluster.shut_down().await;
}

/// The group stayed in the log's list, marked as removed: its records were held, could not be said again, and the log ended for all groups.
#[tokio::test(start_paused = true)]
async fn a_removal_that_nobody_waits_for_goes_on() {
    let env = Env::simulated(51);
    let mut cluster = Cluster::new(&env, 1, SEGMENTS);
    let other = GroupId(2);
    cluster.start_all(&[GROUP, other]).await;
    cluster.initialize(GROUP, 1).await;
    cluster.initialize(other, 1).await;
    cluster.propose(GROUP, &Command::write(1, 1)).await;
    let host = cluster.host(NodeId(1));
    let (node, disk) = (host.node.clone().unwrap(), host.disk.clone());
    disk.hang();
    let removal = tokio::time::timeout(Duration::from_secs(1), node.remove_group(GROUP)).await;
    assert!(removal.is_err(), "the disk hangs");
    disk.let_go();
    let command = Command::Write { register: 1, value: Some(1) };
    for _ in 0..2 * SEGMENTS as u64 * SEGMENT_BYTES / 4096 {
        cluster.propose(other, &command).await;
    }
    assert_eq!(node.known_groups(), vec![other]);
    cluster.crash(NodeId(1)).await;
    cluster.start(NodeId(1), &[]).await.unwrap();
    assert_eq!(cluster.host(NodeId(1)).node.as_ref().unwrap().known_groups(), vec![other]);
    cluster.leader(other).await;
    cluster.shut_down().await;
}

/// Caught: a snapshot that had waited for room came into the log behind the removal, and the group was there again.
#[tokio::test(start_paused = true)]
async fn a_group_that_is_removed_while_its_snapshot_waits_stays_away() {
    let env = Env::simulated(48);
    let mut cluster = Cluster::new(&env, 1, SEGMENTS);
    let other = GroupId(2);
    cluster.start_all(&[GROUP, other]).await;
    cluster.initialize(GROUP, 1).await;
    cluster.initialize(other, 1).await;
    cluster.propose(other, &Command::write(1, 1)).await;
    for _ in 0..20 {
        cluster.propose(GROUP, &Command::Ballast(vec![1; 100_000])).await;
    }
    let node = cluster.host(NodeId(1)).node.clone().unwrap();
    let room: Vec<_> = std::iter::from_fn(|| node.inner.log.claim_for_snapshot(100_000)).collect();
    node.inner.member(GROUP).unwrap().core.make_snapshot().await;
    env.sleep(Duration::from_secs(1)).await;
    node.remove_group(GROUP).await.unwrap();
    drop(room);
    env.sleep(Duration::from_secs(5)).await;
    cluster.crash(NodeId(1)).await;
    cluster.start(NodeId(1), &[]).await.unwrap();
    assert_eq!(cluster.host(NodeId(1)).node.as_ref().unwrap().known_groups(), vec![other]);
    cluster.leader(other).await;
    cluster.shut_down().await;
}

/// Caught: the log was written again without end.
#[tokio::test(start_paused = true)]
async fn contents_of_more_than_half_of_the_log_are_rewritten_a_bounded_number_of_times() {
    const BALLAST_BYTES: usize = 1_600_000;
    const NOISE_BYTES: usize = 20_000;
    let env = Env::simulated(49);
    let segments = 64;
    let mut cluster = Cluster::new(&env, 1, segments);
    let quiet: Vec<GroupId> = (1..=30).map(GroupId).collect();
    cluster.start_all(&quiet).await;
    let disk = cluster.host(NodeId(1)).disk.clone();
    let written = || disk.stats().write_bytes;
    for group in quiet.iter().copied() {
        cluster.initialize(group, 1).await;
        for _ in 0..BALLAST_BYTES / 100_000 {
            cluster.propose(group, &Command::Ballast(vec![1; 100_000])).await;
        }
    }
    env.sleep(Duration::from_secs(60)).await;
    let at_rest = written();
    env.sleep(Duration::from_secs(60)).await;
    assert_eq!(written(), at_rest, "nobody has proposed anything");
    let live = cluster.host(NodeId(1)).node.as_ref().unwrap().counters().live_segments;
    assert!(live > segments / 2, "{live} segments");

    let mut proposed = 0;
    for _ in 0..60 {
        for group in quiet.iter().copied() {
            cluster.propose(group, &Command::Noise(vec![2; NOISE_BYTES])).await;
            proposed += NOISE_BYTES as u64;
        }
    }
    let rewrites = (written() - at_rest) as f64 / proposed as f64;
    assert!(rewrites < 8.0, "{rewrites} bytes written for each proposed one");
    env.sleep(Duration::from_secs(60)).await;
    let at_rest = written();
    env.sleep(Duration::from_secs(60)).await;
    assert_eq!(written(), at_rest, "nobody has proposed anything");

    cluster.crash(NodeId(1)).await;
    cluster.start(NodeId(1), &[]).await.unwrap();
    for group in quiet {
        cluster.leader(group).await;
        assert_eq!(cluster.group(NodeId(1), group).look(|store| store.ballast.len()), BALLAST_BYTES);
    }
    cluster.shut_down().await;
}

/// The state of others fills what they may have of the log, and the favoured group is still proposed to.
#[tokio::test(start_paused = true)]
async fn the_favoured_group_is_not_refused_because_of_others() {
    let env = Env::simulated(50);
    let mut cluster = Cluster::new(&env, 1, SEGMENTS);
    let favoured = GROUP;
    cluster.favoured = Some(favoured);
    let others: Vec<GroupId> = (2..=9).map(GroupId).collect();
    cluster.start_all(&[&[favoured], others.as_slice()].concat()).await;
    cluster.initialize(favoured, 1).await;
    let mut refused = 0;
    for group in others.iter().copied() {
        cluster.initialize(group, 1).await;
        cluster.leader(group).await;
    }
    for round in 0..200 {
        let group = cluster.group(NodeId(1), others[round % others.len()]);
        match group.propose(&Command::Ballast(vec![1; 100_000])).await {
            Ok(_) => refused = 0,
            Err(ProposeError::LogFull) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        env.sleep(Duration::from_secs(1)).await;
    }
    assert!(refused > 20, "others have room for twenty times what the log holds");
    for number in 0..1000 {
        let command = if number < 10 { Command::Ballast(vec![1; 100_000]) } else { Command::Noise(vec![2; 10_000]) };
        cluster.propose(favoured, &command).await;
    }
    let of_others = cluster.group(NodeId(1), others[0]).propose(&Command::Ballast(vec![1; 100_000])).await;
    assert_eq!(of_others.unwrap_err(), ProposeError::LogFull);
    cluster.shut_down().await;
}
