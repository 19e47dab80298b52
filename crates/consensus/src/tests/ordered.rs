//! Groups whose commands are answered when they outlive the process: a kill takes nothing, a power cut the last ones.

use std::time::Duration;

use disk::CompletionOrder;
use env::Env;

use super::cluster::{Cluster, GROUP, SEGMENTS, address};
use super::store::{Command, Store};
use crate::group::Group;
use crate::id::NodeId;

const OWN: NodeId = NodeId(1);
const COMMANDS: u64 = 40;
/// The longest that an operation takes on the simulated disk.
const OPERATION_TIME: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Kill,
    PowerCut,
}

/// How many commands have been answered, and how many of these must survive a power cut.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    all: u64,
    settled: u64,
}

fn command(number: u64) -> Command {
    Command::write(number % 8, number)
}

/// How many of the commands a state has: the first ones, or it has none that it should not.
fn count(state: &Store) -> Option<u64> {
    let is_prefix = |count: &u64| {
        (0..8).all(|register| {
            let last = (0..*count).rev().find(|number| number % 8 == register);
            state.registers.get(&register).copied() == last
        })
    };
    (0..=COMMANDS).find(is_prefix)
}

async fn ordered(env: &Env, nodes: u64) -> (Cluster, Group<Store>) {
    let mut cluster = Cluster::new(env, nodes, SEGMENTS);
    cluster.keeps_rows = true;
    cluster.start_all(&[GROUP]).await;
    cluster.initialize(GROUP, 1).await;
    cluster.leader(GROUP).await;
    let group = cluster.group(OWN, GROUP).clone();
    group.set_ordered(true);
    assert!(group.is_ordered());
    (cluster, group)
}

async fn work(env: &Env, cluster: &Cluster, group: &Group<Store>, answered: &mut Answered) {
    let node = cluster.host(OWN).node.clone().unwrap();
    for number in 0..COMMANDS {
        group.propose(&command(number)).await.unwrap();
        answered.all = number + 1;
        match env.random_below(8) {
            0 => {
                node.settle().await.unwrap();
                answered.settled = answered.all;
            }
            1 => {
                group.make_snapshot().await;
                if let Some(covered) = group.status().snapshot {
                    group.core.purge(covered.index).await;
                }
            }
            2 | 3 => env.sleep(Duration::from_millis(env.random_below(4))).await,
            _ => {}
        }
    }
}

/// Ends the process after so many operations of its disk. Whether it was ended before all was done.
async fn end_after(seed: u64, after: u64, end: End) -> bool {
    let env = Env::simulated(seed);
    let (mut cluster, group) = ordered(&env, 1).await;
    let disk = cluster.host(OWN).disk.clone();
    disk.set_order(CompletionOrder::Timed(OPERATION_TIME));
    let ends_at = disk.mutations() + after;
    if end == End::PowerCut {
        disk.power_cut_after(after);
    }
    let mut answered = Answered::default();
    let ends = async {
        while !disk.power_is_cut() && (end == End::PowerCut || disk.mutations() < ends_at) {
            env.sleep(Duration::from_millis(1)).await;
        }
    };
    let is_ended = tokio::select! {
        biased;
        () = ends => true,
        () = work(&env, &cluster, &group, &mut answered) => false,
    };
    drop(group);
    match end {
        End::Kill => cluster.kill(OWN).await,
        End::PowerCut => cluster.crash(OWN).await,
    }
    cluster.host(OWN).disk.set_order(CompletionOrder::Inline);
    cluster.start(OWN, &[]).await.unwrap();
    cluster.leader(GROUP).await;
    let state = cluster.group(OWN, GROUP).look(Store::clone);
    let found = count(&state).unwrap_or_else(|| panic!("seed {seed}, after {after}, {end:?}: {state:?} is no prefix"));
    let promised = if end == End::Kill { answered.all } else { answered.settled };
    assert!(found >= promised, "seed {seed}, after {after}, {end:?}: {found} commands are left of {answered:?}");
    // It goes on from there.
    cluster.propose(GROUP, &Command::write(100, 1)).await;
    cluster.shut_down().await;
    is_ended
}

#[tokio::test(start_paused = true)]
async fn a_kill_at_every_write_loses_nothing() {
    let mut after = 0;
    while end_after(4100 + after, after, End::Kill).await {
        after += 1;
    }
    assert!(after > 10, "the process was killed {after} times only");
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_at_every_write_leaves_a_prefix_and_all_that_was_settled() {
    for seed in 0..4 {
        let mut after = 0;
        while end_after(4200 + 100 * seed + after, after, End::PowerCut).await {
            after += 1;
        }
        assert!(after > 10, "the power went {after} times only");
    }
}

/// A member that is new must not have what the one before can lose.
#[tokio::test(start_paused = true)]
async fn a_change_of_members_ends_the_order_when_all_is_durable() {
    let env = Env::simulated(43);
    let (mut cluster, group) = ordered(&env, 2).await;
    for number in 0..10 {
        group.propose(&command(number)).await.unwrap();
    }
    group.add_absent_learner(NodeId(2), &address(NodeId(2))).await.unwrap();
    group.set_ordered(true);
    assert!(!group.is_ordered(), "it has another member");
    drop(group);
    cluster.crash(OWN).await;
    cluster.start(OWN, &[]).await.unwrap();
    cluster.leader(GROUP).await;
    let group = cluster.group(OWN, GROUP).clone();
    assert_eq!(count(&group.look(Store::clone)), Some(10));
    group.remove_learners(&[NodeId(2)].into()).await.unwrap();
    group.set_ordered(true);
    assert!(!group.is_ordered(), "the log knows of another member yet");
    group.make_snapshot().await;
    while group.status().snapshot < group.status().applied {
        env.sleep(Duration::from_millis(10)).await;
    }
    group.core.purge(group.status().snapshot.unwrap().index).await;
    env.sleep(Duration::from_secs(1)).await;
    group.set_ordered(true);
    assert!(group.is_ordered());
    cluster.shut_down().await;
}
