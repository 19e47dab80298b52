//! A log that holds what groups need and little else.

use std::collections::BTreeMap;
use std::time::Duration;

use disk::{Fault, FaultRule, Operation};
use env::Env;

use super::cluster::{Cluster, GROUP, SEGMENTS, address};
use super::store::Command;
use crate::error::ProposeError;
use crate::id::{GroupId, NodeId};
use crate::limits::SNAPSHOT_PIECE_LIMIT;
use crate::log::Purpose;

const GROWTH_BYTES: usize = 50_000;

fn growth() -> Command {
    Command::Ballast(vec![1; GROWTH_BYTES])
}

/// Lets groups get longer, as members of one node, until nothing of it is taken any more: for longer than snapshots take.
async fn fill(cluster: &Cluster, node: NodeId, groups: &[GroupId]) {
    let mut refused = 0;
    for round in 0.. {
        match cluster.group(node, groups[round % groups.len()]).propose(&growth()).await {
            Ok(_) => refused = 0,
            Err(ProposeError::LogFull) => {
                refused += 1;
                cluster.env.sleep(Duration::from_millis(200)).await;
            }
            Err(error) => panic!("{error}"),
        }
        if refused == 100 {
            return;
        }
        assert!(round < 10_000, "it has room for ever");
    }
}

/// A state that has become shorter counts as such when a snapshot says so: after as many entries as make it worth its while.
async fn snapshots_become_due(cluster: &Cluster, groups: &[GroupId]) {
    for group in groups {
        for _ in 0..200 {
            cluster.propose(*group, &Command::Noise(vec![2; 10_000])).await;
        }
    }
}

/// Groups get shorter, to nothing, in so many steps; then each may grow again.
async fn get_shorter(cluster: &Cluster, groups: &[GroupId], steps: u64, step_bytes: u64) {
    for left in (0..steps).rev() {
        for group in groups {
            cluster.propose(*group, &Command::Cut(left * step_bytes)).await;
        }
    }
    snapshots_become_due(cluster, groups).await;
    for group in groups {
        cluster.propose(*group, &growth()).await;
    }
}

async fn shrinks_where_it_may_not_grow(segments: usize, groups: u64) {
    let env = Env::simulated(60 + groups);
    let mut cluster = Cluster::new(&env, 1, segments);
    let groups: Vec<GroupId> = (1..=groups).map(GroupId).collect();
    cluster.start_all(&groups).await;
    for group in groups.iter().copied() {
        cluster.initialize(group, 1).await;
        cluster.leader(group).await;
    }
    fill(&cluster, NodeId(1), &groups).await;
    let held = |cluster: &Cluster| -> usize {
        groups.iter().map(|group| cluster.group(NodeId(1), *group).look(|store| store.ballast.len())).sum()
    };
    assert!(held(&cluster) > 2 << 20, "{} bytes", held(&cluster));
    // Several times what is left.
    for round in 0..1000 {
        cluster.propose(groups[round % groups.len()], &Command::Noise(vec![2; 10_000])).await;
    }
    get_shorter(&cluster, &groups, 20, 10_000).await;
    cluster.shut_down().await;
}

/// Caught: what would have made it shorter was refused as well, for good.
#[tokio::test(start_paused = true)]
async fn a_long_state_that_fills_the_log_gets_shorter() {
    shrinks_where_it_may_not_grow(2 * SEGMENTS, 1).await;
}

#[tokio::test(start_paused = true)]
async fn many_states_that_fill_the_log_get_shorter() {
    shrinks_where_it_may_not_grow(SEGMENTS, 12).await;
}

/// Three nodes; groups 2 to 5 are node 2's alone, and groups 6 to 9 node 3's. Node 1 leads the one that all have, with a long state.
async fn with_full_followers(env: &Env) -> (Cluster, [Vec<GroupId>; 2]) {
    let mut cluster = Cluster::new(env, 3, SEGMENTS);
    let others = [2..=5, 6..=9].map(|groups| groups.map(GroupId).collect::<Vec<_>>());
    cluster.start(NodeId(1), &[GROUP]).await.unwrap();
    for (node, groups) in [NodeId(2), NodeId(3)].into_iter().zip(&others) {
        cluster.start(node, &[&[GROUP], groups.as_slice()].concat()).await.unwrap();
    }
    cluster.initialize(GROUP, 3).await;
    let leader = cluster.leader(GROUP).await;
    if leader != NodeId(1) {
        cluster.group(leader, GROUP).transfer_leader(NodeId(1)).await.unwrap();
        env.sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(cluster.leader(GROUP).await, NodeId(1));
    for _ in 0..20 {
        cluster.propose(GROUP, &growth()).await;
    }
    for (node, groups) in [NodeId(2), NodeId(3)].into_iter().zip(&others) {
        for group in groups.iter().copied() {
            cluster.group(node, group).initialize(&BTreeMap::from([(node, address(node))])).await.unwrap();
            cluster.leader(group).await;
        }
        fill(&cluster, node, groups).await;
    }
    (cluster, others)
}

/// Caught: it took them until its followers took nothing any more, what would have made the state shorter neither.
#[tokio::test(start_paused = true)]
async fn a_leader_with_room_takes_nothing_that_its_followers_have_none_for() {
    let env = Env::simulated(62);
    let (mut cluster, others) = with_full_followers(&env).await;
    let mut refused = 0;
    for _ in 0..200 {
        let outcome = cluster.group(NodeId(1), GROUP).propose(&growth()).await;
        refused += usize::from(outcome.is_err_and(|error| error == ProposeError::LogFull));
        env.sleep(Duration::from_millis(100)).await;
    }
    assert!(refused > 150, "{refused} were refused");
    for _ in 0..200 {
        cluster.propose(GROUP, &Command::Noise(vec![2; 10_000])).await;
    }
    cluster.propose(GROUP, &Command::Cut(0)).await;
    // One that is not heard holds nobody up.
    cluster.crash(NodeId(3)).await;
    for group in &others[0] {
        cluster.propose(*group, &Command::Cut(0)).await;
    }
    cluster.propose(GROUP, &growth()).await;
    cluster.shut_down().await;
}

/// Caught: nothing was taken that makes a state longer, for as long as it stayed so. But nobody waits for one without a vote, and it must not be filled by what it is sent.
#[tokio::test(start_paused = true)]
async fn a_learner_without_room_keeps_nobody_from_growing_and_takes_nothing_that_it_has_no_room_for() {
    let env = Env::simulated(66);
    let mut cluster = Cluster::new(&env, 2, SEGMENTS);
    let others: Vec<GroupId> = (2..=5).map(GroupId).collect();
    cluster.start(NodeId(1), &[GROUP]).await.unwrap();
    cluster.start(NodeId(2), &[&[GROUP], others.as_slice()].concat()).await.unwrap();
    cluster.initialize(GROUP, 1).await;
    assert_eq!(cluster.leader(GROUP).await, NodeId(1));
    for group in others.iter().copied() {
        cluster.group(NodeId(2), group).initialize(&BTreeMap::from([(NodeId(2), address(NodeId(2)))])).await.unwrap();
        cluster.leader(group).await;
    }
    fill(&cluster, NodeId(2), &others).await;
    let group = cluster.group(NodeId(1), GROUP).clone();
    group.add_absent_learner(NodeId(2), &address(NodeId(2))).await.unwrap();
    let node = cluster.host(NodeId(2)).node.clone().unwrap();
    for _ in 0..60 {
        group.propose(&growth()).await.unwrap();
        env.sleep(Duration::from_millis(200)).await;
        assert!(!node.inner.log.is_overfull());
    }
    assert!(cluster.group(NodeId(2), GROUP).look(|store| store.ballast.len()) < 20 * GROWTH_BYTES);
    get_shorter(&cluster, &others, 20, 10_000).await;
    assert_eq!(cluster.settled(GROUP).await.ballast.len(), 60 * GROWTH_BYTES);
    cluster.shut_down().await;
}

/// The group gets longer, and gives up its log for a snapshot that a member which is away has not; who leads.
async fn outgrow_who_is_away(env: &Env, cluster: &Cluster, commands: usize) -> NodeId {
    for _ in 0..commands {
        cluster.propose(GROUP, &growth()).await;
    }
    let leader = cluster.leader(GROUP).await;
    let group = cluster.group(leader, GROUP).clone();
    group.make_snapshot().await;
    env.sleep(Duration::from_secs(2)).await;
    group.core.purge(group.status().snapshot.unwrap().index).await;
    leader
}

/// Caught: it was refused as what makes a state longer is, and two nodes that had restarted kept a group whose third member went from all decisions.
#[tokio::test(start_paused = true)]
async fn a_voter_that_was_away_is_sent_a_snapshot_though_its_log_is_full() {
    let env = Env::simulated(67);
    let (mut cluster, others) = with_full_followers(&env).await;
    // The second one makes room: the third is not heard, so the group gets longer without it.
    for group in &others[0] {
        cluster.propose(*group, &Command::Cut(0)).await;
    }
    snapshots_become_due(&cluster, &others[0]).await;
    cluster.crash(NodeId(3)).await;
    let leader = outgrow_who_is_away(&env, &cluster, 10).await;
    env.sleep(Duration::from_secs(2)).await;
    cluster.start(NodeId(3), &[]).await.unwrap();
    let node = cluster.host(NodeId(3)).node.clone().unwrap();
    assert!(!cluster.group(NodeId(3), others[1][0]).takes_growth(GROWTH_BYTES), "its log is full");
    let other = cluster.ids().into_iter().find(|id| *id != leader && *id != NodeId(3)).unwrap();
    cluster.crash(other).await;
    cluster.propose(GROUP, &Command::write(1, 1)).await;
    assert_eq!(cluster.group(NodeId(3), GROUP).look(|store| store.ballast.len()), 30 * GROWTH_BYTES);
    assert!(!node.inner.log.is_overfull());
    cluster.shut_down().await;
}

/// Caught: the entry that a new leader begins with was refused.
#[tokio::test(start_paused = true)]
async fn a_log_with_more_than_groups_may_need_has_leaders_and_gets_shorter() {
    let env = Env::simulated(63);
    let mut cluster = Cluster::new(&env, 3, SEGMENTS);
    let groups: Vec<GroupId> = (1..=12).map(GroupId).collect();
    cluster.start_all(&groups).await;
    for group in groups.iter().copied() {
        cluster.initialize(group, 3).await;
    }
    for round in 0..400 {
        let group = groups[round % groups.len()];
        let leader = cluster.leader(group).await;
        if cluster.group(leader, group).propose(&growth()).await.is_err() {
            env.sleep(Duration::from_millis(200)).await;
        }
    }
    for id in cluster.ids() {
        cluster.crash(id).await;
    }
    cluster.most_segments = SEGMENTS - 2;
    cluster.start_all(&[]).await;
    let node = cluster.host(NodeId(1)).node.clone().unwrap();
    assert!(node.inner.log.is_overfull(), "there is room for what groups need");
    for group in groups.iter().copied() {
        let leader = cluster.leader(group).await;
        assert_eq!(cluster.group(leader, group).propose(&growth()).await.unwrap_err(), ProposeError::LogFull);
    }
    get_shorter(&cluster, &groups, 4, 100_000).await;
    cluster.shut_down().await;
}

/// Caught: each found the room that the others were about to take.
#[tokio::test(start_paused = true)]
async fn snapshots_that_are_sent_at_the_same_time_find_less_room() {
    let env = Env::simulated(64);
    let mut cluster = Cluster::new(&env, 1, SEGMENTS);
    let groups: Vec<GroupId> = (1..=20).map(GroupId).collect();
    cluster.start_all(&groups).await;
    let node = cluster.host(NodeId(1)).node.clone().unwrap();
    let logs: Vec<_> = groups.iter().map(|group| node.inner.member(*group).unwrap().core.log().clone()).collect();
    let claim = |at: usize| node.inner.log.claim_for_sent_snapshot(&logs[at], 1_000_000, Purpose::Growth);
    let mut claims: Vec<_> = (0..).map_while(claim).collect();
    assert!((5..20).contains(&claims.len()), "{} find room", claims.len());
    // What is looked at meanwhile does not forget them.
    env.sleep(Duration::from_secs(5)).await;
    assert!(claim(claims.len()).is_none());
    drop(claims.pop());
    assert!(claim(claims.len()).is_some());
    // Those of voters find a little more, and no more than groups may need.
    let of_voter = |at: usize| node.inner.log.claim_for_sent_snapshot(&logs[at], 1_000_000, Purpose::Command);
    let of_voters: Vec<_> = (claims.len()..).map_while(of_voter).collect();
    assert!((1..4).contains(&of_voters.len()), "{} find room", of_voters.len());
    assert!(!node.inner.log.is_overfull());
    drop(of_voters);
    // One that is longer than all before leaves less for groups, itself too.
    claims.clear();
    assert!(node.inner.log.claim_for_sent_snapshot(&logs[19], 8_000_000, Purpose::Growth).is_none());
    assert!(claim(0).is_some());
    cluster.shut_down().await;
}

/// Caught: its room was free again when its sender had waited for long enough.
#[tokio::test(start_paused = true)]
async fn a_sent_snapshot_keeps_its_room_while_it_is_written() {
    let env = Env::simulated(65);
    let mut cluster = Cluster::of_three(&env).await;
    let leader = cluster.leader(GROUP).await;
    let behind = cluster.ids().into_iter().find(|id| *id != leader).unwrap();
    cluster.crash(behind).await;
    outgrow_who_is_away(&env, &cluster, 20).await;
    cluster.start(behind, &[]).await.unwrap();
    let node = cluster.host(behind).node.clone().unwrap();
    let slow = FaultRule::always(Operation::Write, Fault::Delay(SNAPSHOT_PIECE_LIMIT));
    cluster.host(behind).disk.add_rule(slow);
    let writes = || node.inner.log.claimed_bytes() > 1_000_000;
    let mut began = None;
    for tenth in 0..3000 {
        env.sleep(Duration::from_millis(100)).await;
        match began {
            None if writes() => {
                began = Some(tenth);
                // Nor does another attempt claim it.
                cluster.network.isolate(behind);
            }
            Some(began) if !writes() => {
                assert!(cluster.group(behind, GROUP).look(|store| store.ballast.len()) > 900_000, "{} tenths", tenth - began);
                assert!(tenth - began > 100, "{} tenths", tenth - began);
                cluster.shut_down().await;
                return;
            }
            _ => {}
        }
    }
    panic!("it takes for ever");
}
