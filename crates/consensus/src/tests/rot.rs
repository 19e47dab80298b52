//! A member whose log rotted at its end, and that starts again.

use std::time::Duration;

use disk::BLOCK_BYTES;
use env::Env;

use super::cluster::{Cluster, GROUP, SEGMENT_BYTES, SEGMENTS};
use super::store::Command;
use crate::error::OpenError;
use crate::id::NodeId;
use crate::limits::HOUSEKEEPING_INTERVAL;
use crate::log::{BASE_BYTES, LogError};

/// Offsets of the frames of a member's log, in their order.
fn frames(cluster: &Cluster, id: NodeId) -> Vec<u64> {
    let blocks = (BASE_BYTES..BASE_BYTES + SEGMENT_BYTES * SEGMENTS as u64).step_by(BLOCK_BYTES);
    let mut frames: Vec<(u64, u64)> = blocks
        .filter_map(|offset| {
            let head = cluster.host(id).disk.peek(offset, 24);
            let first_lsn = u64::from_le_bytes(head[16..].try_into().unwrap());
            (head[..4] == *b"WFRM").then_some((first_lsn, offset))
        })
        .collect();
    frames.sort_unstable();
    frames.into_iter().map(|(_, offset)| offset).collect()
}

/// Changes bytes of the frame until one of its header is among them.
fn rot(cluster: &Cluster, id: NodeId, frame: u64) {
    let disk = &cluster.host(id).disk;
    let header = disk.peek(frame, 40);
    while disk.peek(frame, 40) == header {
        disk.corrupt_at_rest(frame, 512);
    }
}

/// A cluster that has just taken a command, one that does not lead it, and where that one's log has the command.
async fn written(env: &Env) -> (Cluster, NodeId, u64) {
    let cluster = Cluster::of_three(env).await;
    let leader = cluster.leader(GROUP).await;
    let other = cluster.ids().into_iter().find(|id| *id != leader).unwrap();
    // Marks stand behind what came before.
    env.sleep(3 * HOUSEKEEPING_INTERVAL).await;
    let before = frames(&cluster, other).len();
    cluster.group(leader, GROUP).propose(&Command::write(1, 1)).await.unwrap();
    cluster.settled(GROUP).await;
    let command = frames(&cluster, other)[before];
    (cluster, other, command)
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_last_frame_rotted_is_given_it_again() {
    let env = Env::simulated(41);
    let (mut cluster, other, command) = written(&env).await;
    assert_eq!(frames(&cluster, other).last(), Some(&command), "no mark is behind it yet");
    cluster.crash(other).await;
    rot(&cluster, other, command);
    cluster.start(other, &[]).await.unwrap();
    cluster.propose(GROUP, &Command::write(2, 2)).await;
    let state = cluster.settled(GROUP).await;
    assert_eq!((state.registers[&1], state.registers[&2]), (1, 2));
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_rotted_where_it_had_acknowledged_something_does_not_forget_it() {
    let env = Env::simulated(42);
    let (mut cluster, other, command) = written(&env).await;
    env.sleep(2 * HOUSEKEEPING_INTERVAL + Duration::from_millis(1)).await;
    cluster.crash(other).await;
    rot(&cluster, other, command);
    let refused = cluster.start(other, &[]).await.unwrap_err();
    let OpenError::Log { cause, .. } = refused else { panic!("{refused}") };
    assert!(matches!(*cause, LogError::Wal(_)), "{cause:?}");
    cluster.shut_down().await;
}

/// It may be off for long, or be the only one. Caught: a frame that was its last one for as long.
#[tokio::test(start_paused = true)]
async fn a_log_is_marked_when_its_node_stops() {
    let env = Env::simulated(44);
    let (mut cluster, other, command) = written(&env).await;
    assert_eq!(frames(&cluster, other).last(), Some(&command), "no mark is behind it yet");
    cluster.shut_down().await;
    assert_ne!(frames(&cluster, other).last(), Some(&command));
}

#[tokio::test(start_paused = true)]
async fn a_quiet_log_is_marked_once() {
    let env = Env::simulated(43);
    let (mut cluster, other, _) = written(&env).await;
    env.sleep(3 * HOUSEKEEPING_INTERVAL).await;
    let before = frames(&cluster, other).len();
    env.sleep(20 * HOUSEKEEPING_INTERVAL).await;
    assert_eq!(frames(&cluster, other).len(), before);
    cluster.shut_down().await;
}
