//! Three members in fair weather: what is seen where, replies, refusals, restarts, long commands.

use std::time::Duration;

use consensus::LinkWeather;
use env::Env;
use types::{CellId, Epoch};

use super::cluster::Cluster;
use crate::limits::{MAX_MANIFEST_BYTES, PROPOSAL_PIECE_BYTES};
use crate::tests::shell::bucket;
use crate::{CommandIndex, CreateBucketError, InstallManifestError, ManagerError, ProposeError};

#[tokio::test(start_paused = true)]
async fn what_is_proposed_anywhere_is_answered_there_and_seen_everywhere() {
    let env = Env::simulated(1);
    let mut cluster = Cluster::of_three(&env).await;
    for (manager, number) in cluster.managers().into_iter().zip(1..) {
        let name = format!("bucket-{number}");
        let made = manager.create_bucket(bucket(&name, "alice")).await.unwrap();
        assert_eq!((made.name.as_str(), made.id.0), (name.as_str(), number));
        assert_eq!(manager.bucket(&name).unwrap(), made, "who got a reply reads its write");
        for other in cluster.managers() {
            other.fresh().await.unwrap();
            assert_eq!(other.bucket(&name).unwrap(), made);
            let refused = other.create_bucket(bucket(&name, "bob")).await.unwrap_err();
            assert!(matches!(refused, ManagerError::Refused(CreateBucketError::AlreadyExists)), "{refused}");
        }
    }
    let state = cluster.settled().await;
    // Three made, nine refused: commands are counted, entries of the log are not.
    assert_eq!((state.applied(), state.buckets().len()), (CommandIndex(12), 3));
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn tokens_ascend_across_members_and_leaders() {
    let env = Env::simulated(2);
    let mut cluster = Cluster::of_three(&env).await;
    let mut last = None;
    for _ in 0..3 {
        for manager in cluster.managers() {
            let token = manager.take_token().await.unwrap();
            assert!(last < Some(token), "{token:?} after {last:?}");
            last = Some(token);
        }
        let to = cluster.follower().await;
        cluster.manager(to).transfer_leader(to).await.unwrap();
        assert_eq!(cluster.leader().await, to);
        assert_eq!(cluster.manager(to).leader(), Some(super::cluster::peer(to)));
    }
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_fresh_member_has_what_others_were_told() {
    let env = Env::simulated(3);
    let mut cluster = Cluster::of_three(&env).await;
    let (leader, late) = (cluster.leader().await, cluster.follower().await);
    let slow = LinkWeather { longest_delay: Duration::from_millis(300), ..LinkWeather::default() };
    cluster.network.set_link(leader, late, slow);
    let mut stale = 0;
    for round in 0..20 {
        let round = round.to_string();
        cluster.manager(leader).set_config("round", Some(&round)).await.unwrap();
        let reader = cluster.manager(late);
        stale += u32::from(reader.snapshot().config("round") != Some(&round));
        reader.fresh().await.unwrap();
        assert_eq!(reader.snapshot().config("round"), Some(&round[..]));
    }
    assert!(stale > 0, "the link was slow enough to matter");
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_stale_member_does_not_take_an_old_root_pair_for_the_current_one() {
    let env = Env::simulated(6);
    let mut cluster = Cluster::of_three(&env).await;
    let (leader, late) = (cluster.leader().await, cluster.follower().await);
    cluster.manager(leader).set_root_credential("admin", "first secret").await.unwrap();
    cluster.settled().await;
    cluster.network.set_link(leader, late, LinkWeather { is_cut: true, ..LinkWeather::default() });
    cluster.manager(leader).set_root_credential("admin", "second secret").await.unwrap();
    assert_eq!(cluster.manager(late).snapshot().credential("admin").unwrap().secret, "first secret");
    let again = cluster.manager(late).clone();
    let again = env.spawn(async move { again.set_root_credential("admin", "first secret").await });
    env.sleep(Duration::from_millis(500)).await;
    cluster.network.heal();
    assert_eq!(again.await.unwrap().unwrap().secret, "first secret");
    assert_eq!(cluster.settled().await.credential("admin").unwrap().secret, "first secret");
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn all_go_down_and_come_back_with_their_state() {
    let env = Env::simulated(4);
    let mut cluster = Cluster::of_three(&env).await;
    let leader = cluster.leader().await;
    crate::tests::shell::fill(cluster.manager(leader)).await;
    let before = cluster.settled().await;
    for id in cluster.ids() {
        cluster.crash(id).await;
    }
    cluster.start_all().await;
    cluster.leader().await;
    for manager in cluster.managers() {
        manager.fresh().await.unwrap();
        assert_eq!(*manager.snapshot(), before);
    }
    // A start is another proposer: its first serials are not the last start's.
    let leader = cluster.leader().await;
    assert_eq!(cluster.manager(leader).begin_start(CellId(7)).await.unwrap(), 1);
    cluster.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn long_commands_go_in_pieces() {
    let env = Env::simulated(5);
    let mut cluster = Cluster::of_three(&env).await;
    let follower = cluster.follower().await;
    let manager = cluster.manager(follower);
    let manifest =
        |epoch: u64, length| manager.install_manifest(CellId(0), Epoch(epoch - 1), Epoch(epoch), vec![epoch as u8; length]);
    // Just below one piece, above it, and the longest; two at the same time.
    manifest(1, PROPOSAL_PIECE_BYTES - 100).await.unwrap();
    manifest(2, PROPOSAL_PIECE_BYTES).await.unwrap();
    manifest(3, MAX_MANIFEST_BYTES).await.unwrap();
    let other = cluster.leader().await;
    let other = cluster.manager(other);
    let (one, two) = tokio::join!(
        manifest(4, MAX_MANIFEST_BYTES / 2),
        other.install_manifest(CellId(1), Epoch(0), Epoch(1), vec![9; MAX_MANIFEST_BYTES / 2])
    );
    one.unwrap();
    two.unwrap();
    let state = cluster.settled().await;
    assert_eq!(state.manifest(CellId(0)).unwrap().bytes, vec![4; MAX_MANIFEST_BYTES / 2]);
    assert_eq!(state.manifest(CellId(1)).unwrap().bytes, vec![9; MAX_MANIFEST_BYTES / 2]);
    assert_eq!(state.applied(), CommandIndex(5));
    let refused = manifest(5, MAX_MANIFEST_BYTES + 1).await.unwrap_err();
    assert_eq!(refused, ManagerError::Refused(InstallManifestError::Length { found: MAX_MANIFEST_BYTES + 1 }));
    let long = manifest(5, 2 * MAX_MANIFEST_BYTES).await.unwrap_err();
    assert!(matches!(long, ManagerError::Failed(ProposeError::Length { .. })), "{long}");
    cluster.shut_down().await;
}
