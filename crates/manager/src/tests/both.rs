//! What users of a manager count on, whatever lies beneath it: each test runs on a manager that is alone and on a replicated one.

use env::Env;
use types::{CellId, ClusterId, DeviceUuid, Epoch, ErrorKind, Token};

use super::nodes::node;
use super::replicated::single_member;
use super::shell::bucket;
use crate::limits::{LOG_SEGMENT_BYTES, MAX_MANIFEST_BYTES};
use crate::modules::chunks::limits::BULK_BLOCKS;
use crate::modules::chunks::unit_key;
use crate::{
    BucketState, ClusterError, CommandIndex, CreateBucketError, InstallManifestError, Manager, ManagerError, ProposeError,
    ShardError,
};

macro_rules! on_both_backings {
    ($($name:ident),* $(,)?) => {
        mod alone {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                let env = env::Env::simulated(1);
                let manager = crate::Manager::open_in_memory(&env).await.unwrap();
                super::$name(&env, manager).await;
            })*
        }

        mod replicated {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                let env = env::Env::simulated(1);
                let manager = super::single_member(&env).await;
                super::$name(&env, manager).await;
            })*
        }
    };
}

on_both_backings![
    who_got_a_reply_reads_its_write,
    of_many_at_once_exactly_one_gets_the_name_and_tokens_never_repeat,
    a_dropped_proposal_runs_to_its_end,
    a_command_too_long_harms_nobody,
    the_cluster_keeps_its_identity,
    the_same_root_credential_writes_nothing,
    of_two_monitors_one_opens_the_shard_and_no_bulk_is_granted_twice,
];

async fn who_got_a_reply_reads_its_write(env: &Env, manager: Manager) {
    let mut changes = manager.changes();
    assert_eq!(*changes.borrow_and_update(), CommandIndex(0));
    let before_ms = env.wall_clock_ms();
    let made = manager.create_bucket(bucket("photos", "alice")).await.unwrap();
    assert!((before_ms..=env.wall_clock_ms()).contains(&made.created_ms), "{}", made.created_ms);
    assert_eq!(manager.bucket("photos").unwrap(), made);
    assert_eq!(manager.snapshot().bucket("photos"), Some(&made));
    assert_eq!(manager.snapshot().applied(), CommandIndex(1));
    assert!(changes.has_changed());
    assert_eq!(*changes.borrow_and_update(), CommandIndex(1));
    let held = manager.snapshot();
    let removal = manager.mark_bucket_deleting("photos", made.id).await.unwrap();
    assert_eq!(held.bucket("photos").unwrap().state, BucketState::Active);
    assert_eq!(manager.bucket("photos").unwrap().state, BucketState::Deleting(removal));
    let refused = manager.create_bucket(bucket("photos", "bob")).await.unwrap_err();
    assert_eq!(refused, ManagerError::Refused(CreateBucketError::Deleting));
    assert_eq!(refused.kind(), ErrorKind::Conflict);
}

async fn of_many_at_once_exactly_one_gets_the_name_and_tokens_never_repeat(env: &Env, manager: Manager) {
    let mut tasks = Vec::new();
    for number in 0..50 {
        let manager = manager.clone();
        tasks.push(env.spawn(async move {
            let made = manager.create_bucket(bucket("wanted", &format!("user-{number}"))).await.is_ok();
            (made, manager.take_token().await.unwrap())
        }));
    }
    let mut winners = 0;
    let mut tokens = Vec::new();
    for task in tasks {
        let (made, token) = task.await.unwrap();
        winners += u32::from(made);
        tokens.push(token);
    }
    assert_eq!(winners, 1);
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 50);
    assert!(tokens[0] >= Token(1) && tokens[49] <= Token(100));
}

async fn a_dropped_proposal_runs_to_its_end(_: &Env, manager: Manager) {
    let mut changes = manager.changes();
    {
        let proposal = manager.create_bucket(bucket("dropped", "alice"));
        tokio::pin!(proposal);
        // Polled once: the command is in the log's queue.
        let first = std::future::poll_fn(|context| std::task::Poll::Ready(proposal.as_mut().poll(context))).await;
        assert!(first.is_pending());
    }
    changes.changed().await.unwrap();
    assert!(manager.bucket("dropped").is_some());
}

async fn a_command_too_long_harms_nobody(_: &Env, manager: Manager) {
    let long = manager.install_manifest(CellId(0), Epoch(0), Epoch(1), vec![0; LOG_SEGMENT_BYTES as usize]).await.unwrap_err();
    assert!(matches!(long, ManagerError::Failed(ProposeError::Length { .. })), "{long}");
    assert_eq!(long.kind(), ErrorKind::Invalid);
    let refused = manager.install_manifest(CellId(0), Epoch(0), Epoch(1), vec![0; MAX_MANIFEST_BYTES + 1]).await.unwrap_err();
    assert_eq!(refused, ManagerError::Refused(InstallManifestError::Length { found: MAX_MANIFEST_BYTES + 1 }));
    manager.install_manifest(CellId(0), Epoch(0), Epoch(1), vec![0; MAX_MANIFEST_BYTES]).await.unwrap();
}

async fn the_cluster_keeps_its_identity(_: &Env, manager: Manager) {
    let known = ClusterId([7; 16]);
    let (one, other) = tokio::join!(manager.ensure_this_cluster(known, 1), manager.ensure_this_cluster(known, 1));
    assert_eq!((one.unwrap().id, other.unwrap().id, manager.ensure_cluster(1).await.unwrap().id), (known, known, known));
    let other = manager.ensure_this_cluster(ClusterId([8; 16]), 1).await.unwrap_err();
    assert_eq!(other, ManagerError::Refused(ClusterError::AlreadyInitialised { found: known }));
    let (two, again) = tokio::join!(manager.ensure_cluster(2), manager.ensure_cluster(2));
    assert_eq!((two.unwrap().format_version, again.unwrap().format_version), (2, 2), "a program that knows more has come");
    assert_eq!(manager.snapshot().cluster().unwrap().format_version, 2);
    assert_eq!(manager.raise_format_version(1).await.unwrap_err().kind(), ErrorKind::Conflict);
    let newer = ClusterError::Newer { found: 2, known: 1 };
    assert_eq!(manager.ensure_cluster(1).await.unwrap_err(), ManagerError::Refused(newer));
}

async fn the_same_root_credential_writes_nothing(_: &Env, manager: Manager) {
    manager.set_root_credential("admin", "correct horse").await.unwrap();
    let applied = manager.snapshot().applied();
    manager.set_root_credential("admin", "correct horse").await.unwrap();
    assert_eq!(manager.snapshot().applied(), applied);
    manager.set_root_credential("chief", "correct horse").await.unwrap();
    assert!(manager.snapshot().credential("admin").is_none());
    assert!(manager.snapshot().credential("chief").unwrap().is_root);
    assert!(!format!("{:?}", manager.snapshot()).contains("correct horse"), "secrets stay out of logs");
}

async fn of_two_monitors_one_opens_the_shard_and_no_bulk_is_granted_twice(env: &Env, manager: Manager) {
    let member = manager.register_node(node(1)).await.unwrap().id;
    let device = manager.add_device(DeviceUuid([1; 16]), "/dev/one", 1 << 40).await.unwrap().id;
    let next = manager.snapshot().next_shard();
    let open = || manager.open_shard(next, 1000, vec![member], vec![member]);
    let (one, other) = tokio::join!(open(), open());
    assert_eq!(u32::from(one.is_ok()) + u32::from(other.is_ok()), 1, "{one:?}, {other:?}");
    let refused = one.clone().err().or(other.clone().err()).unwrap();
    assert_eq!(refused, ManagerError::Refused(ShardError::Stale { expected: next, found: next + 1 }));
    let shard = one.or(other).unwrap().id;
    assert_eq!(manager.snapshot().open_shard().unwrap().id, shard);

    manager.register_volume(device, 4 * BULK_BLOCKS).await.unwrap();
    let applied = manager.snapshot().applied();
    manager.register_volume(device, 4 * BULK_BLOCKS).await.unwrap();
    assert_eq!(manager.snapshot().applied(), applied, "what is known is not written again");
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let manager = manager.clone();
        tasks.push(env.spawn(async move { manager.grant_bulk(shard, device).await }));
    }
    let mut granted = Vec::new();
    for task in tasks {
        granted.extend(task.await.unwrap().map(|bulk| bulk.first_block));
    }
    granted.sort_unstable();
    assert_eq!(granted, [0, 1, 2, 3].map(|bulk| bulk * BULK_BLOCKS));
    manager.set_shard_hosts(shard, vec![member]).await.unwrap();
    manager.set_group_members(unit_key(shard), vec![member]).await.unwrap();
    assert!(!manager.seal_shard(shard).await.unwrap().is_open);
}
