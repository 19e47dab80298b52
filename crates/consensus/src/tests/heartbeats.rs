//! Hundreds of groups in one process: one log, and one message for each peer and tick.

use std::time::Duration;

use env::Env;

use super::cluster::{Cluster, SEGMENTS};
use super::store::Command;
use crate::id::{GroupId, NodeId};
use crate::limits::HEARTBEAT_INTERVAL;

const GROUPS: u64 = 300;

#[tokio::test(start_paused = true)]
async fn heartbeats_of_hundreds_of_groups_are_one_message_for_each_peer_and_tick() {
    let env = Env::simulated(11);
    let mut cluster = Cluster::new(&env, 3, SEGMENTS);
    let groups: Vec<GroupId> = (1..=GROUPS).map(GroupId).collect();
    cluster.start_all(&groups).await;
    for group in &groups {
        cluster.initialize(*group, 3).await;
    }
    for group in &groups {
        cluster.propose(*group, &Command::write(1, group.0)).await;
    }
    env.sleep(Duration::from_secs(2)).await;

    const TICKS: u32 = 20;
    let counters =
        |cluster: &Cluster| cluster.ids().into_iter().map(|id| cluster.host(id).node.as_ref().unwrap().counters()).collect();
    let before: Vec<crate::Counters> = counters(&cluster);
    env.sleep(HEARTBEAT_INTERVAL * TICKS).await;
    let after: Vec<crate::Counters> = counters(&cluster);
    let mut heartbeats = 0;
    for (host, (before, after)) in before.iter().zip(&after).enumerate() {
        let messages = after.heartbeat_messages - before.heartbeat_messages;
        // Two peers; a tick may fall on either edge of the interval.
        assert!(messages <= 2 * u64::from(TICKS + 1), "host {host} sent {messages} messages in {TICKS} ticks");
        assert_eq!(after.requests, before.requests, "host {host}: a quiet group asks nothing");
        heartbeats += after.heartbeats - before.heartbeats;
    }
    let expected = GROUPS * 2 * u64::from(TICKS);
    assert!(heartbeats.abs_diff(expected) <= GROUPS * 2, "{heartbeats} heartbeats, expected about {expected}");

    // One power cut for all; all come back from one log.
    for id in cluster.ids() {
        cluster.crash(id).await;
    }
    cluster.start_all(&[]).await;
    for group in &groups {
        assert_eq!(cluster.settled(*group).await, cluster.group(NodeId(1), *group).look(Clone::clone));
        let leader = cluster.leader(*group).await;
        assert_eq!(cluster.group(leader, *group).look(|store| store.registers[&1]), group.0);
    }
    cluster.shut_down().await;
}
