use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use env::Env;
use net::BoxFuture;

use super::*;
use crate::client::{New, OpenFlags, Opening, Owner};
use crate::data::memory::MemoryPartition;
use crate::meta::local::LocalPartition;
use crate::meta::{Answer, Command, Envelope, Kind, MetaCallError, MetaError, MetaPartition, MetaSession, Query, Reply, Time};

const BLOCK: u64 = 4096;

/// Counts the commands to a tree.
#[derive(Default)]
struct Counted {
    inner: LocalPartition,
    commands: AtomicU32,
    /// So many questions get no answer.
    silent: AtomicU32,
}

impl MetaPartition for Counted {
    fn command(&self, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        self.inner.command(envelope)
    }

    fn query(&self, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        let is_silent = self.silent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |silent| silent.checked_sub(1)).is_ok();
        match is_silent {
            true => Box::pin(async { Err(MetaCallError::Unavailable("away".to_owned())) }),
            false => self.inner.query(query),
        }
    }
}

struct Rig {
    tree: Arc<Counted>,
    client: Arc<Client>,
    ino: Ino,
}

impl Rig {
    async fn new(capacity: u64) -> Rig {
        let (tree, data) = (Arc::new(Counted::default()), Arc::new(MemoryPartition::new(capacity)));
        let opening = Opening { record: None, is_exclusive: true };
        let client = Client::connect_as(tree.clone(), data, Env::simulated(1), opening).await.unwrap();
        let new = New { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, owner: Owner { uid: 0, gid: 0 } };
        let (entry, _) = client.create(Ino::ROOT, b"f", new, OpenFlags::default()).await.unwrap();
        Rig { tree, client, ino: entry.0.ino }
    }

    /// Writes that all come while the file is busy; what they were told, and how many commands they took.
    async fn write(&self, writes: &[(u64, Vec<u8>)]) -> (Vec<Told>, u32) {
        let before = self.tree.commands.load(Ordering::Relaxed);
        let state = self.client.files.state(self.ino);
        let busy = state.content.write().await;
        let written = writes.iter().map(|(offset, data)| self.write_back(*offset, data.clone()));
        let (told, ()) = tokio::join!(join_all(written), async { drop(busy) });
        (told, self.tree.commands.load(Ordering::Relaxed) - before)
    }

    async fn write_back(&self, offset: u64, data: Vec<u8>) -> Told {
        let write = WriteAt { offset, from_cache: true, ..WriteAt::default() };
        self.client.write(self.ino, write, data.into()).await
    }

    async fn content(&self) -> Bytes {
        self.client.read(self.ino, 0, 1 << 20).await.unwrap()
    }
}

fn data(blocks: usize, byte: u8) -> Vec<u8> {
    vec![byte; blocks * BLOCK as usize]
}

#[tokio::test(start_paused = true)]
async fn writes_that_wait_for_a_file_are_one_command() {
    let rig = Rig::new(1 << 20).await;
    // In no order, with a hole, and the end within a block.
    let writes = [(3 * BLOCK, data(2, 4)), (0, data(1, 1)), (BLOCK, data(2, 2)), (7 * BLOCK, vec![5; 100])];
    let (told, commands) = rig.write(&writes).await;
    assert_eq!(commands, 1);
    for (told, (offset, data)) in told.into_iter().zip(&writes) {
        let Written { len, offset: at, inode } = told.unwrap();
        assert_eq!((len, at, inode.size), (data.len(), *offset, 7 * BLOCK + 100));
    }
    let mut expected = [data(1, 1), data(2, 2), data(2, 4), data(2, 0), vec![5; 100]].concat();
    assert_eq!(rig.content().await, expected);
    // In place no command is needed. Appended are what comes after the end of the last block, and the hole.
    let (told, commands) = rig.write(&[(BLOCK, data(1, 6)), (4 * BLOCK, data(1, 7))]).await;
    assert_eq!((told.iter().all(Result::is_ok), commands), (true, 0));
    let (told, commands) = rig.write(&[(7 * BLOCK, data(2, 8)), (5 * BLOCK, data(1, 9)), (0, data(1, 3))]).await;
    assert_eq!((told.iter().all(Result::is_ok), commands), (true, 1));
    expected = [data(1, 3), data(1, 6), data(1, 2), data(1, 4), data(1, 7), data(1, 9), data(1, 0), data(2, 8)].concat();
    assert_eq!(rig.content().await, expected);
}

#[tokio::test(start_paused = true)]
async fn writes_of_one_block_come_one_after_the_other() {
    let rig = Rig::new(1 << 20).await;
    let (told, commands) = rig.write(&[(0, vec![1; 100]), (50, vec![2; 100]), (BLOCK, data(1, 3)), (150, vec![4; 10])]).await;
    assert!(told.iter().all(Result::is_ok) && commands <= 3);
    let expected = [vec![1; 50], vec![2; 100], vec![4; 10], vec![0; BLOCK as usize - 160], data(1, 3)].concat();
    assert_eq!(rig.content().await, expected);
}

#[tokio::test(start_paused = true)]
async fn what_finds_room_is_written_and_the_rest_fails() {
    let rig = Rig::new(4 * BLOCK).await;
    let writes: Vec<(u64, Vec<u8>)> = (0..4).map(|at| (2 * at * BLOCK, data(2, at as u8 + 1))).collect();
    let (told, _) = rig.write(&writes).await;
    let failed = Err(ClientError::from(DataError::Full));
    assert_eq!(told.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, false]);
    assert_eq!([&told[2], &told[3]], [&failed, &failed]);
    assert_eq!(rig.content().await, [data(2, 1), data(2, 2)].concat());
}

#[tokio::test(start_paused = true)]
async fn what_the_quota_has_room_for_is_written_and_the_rest_fails() {
    let rig = Rig::new(1 << 20).await;
    let command = Command::SetQuota { bytes: Some(3 * BLOCK), inodes: None };
    let (session, now) = (MetaSession::LEADER, Time::default());
    let envelope = Envelope { session, sequence: 0, answered_below: 0, now, locks_lost: 0, command };
    rig.tree.inner.command(envelope).await.unwrap().unwrap();
    let (told, _) = rig.write(&[(0, data(2, 1)), (2 * BLOCK, data(2, 2)), (4 * BLOCK, data(1, 3))]).await;
    let failed = Err(ClientError::from(MetaError::Quota));
    assert_eq!([told[0].is_ok(), told[2].is_ok()], [true, true]);
    assert_eq!(told[1], failed);
    assert_eq!(rig.content().await, [data(2, 1), data(2, 0), data(1, 3)].concat());
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_is_away_for_a_while_loses_nothing() {
    let rig = Rig::new(1 << 20).await;
    let write = |offset: u64| rig.write_back(offset, data(1, 7));
    rig.tree.silent.store(20, Ordering::Relaxed);
    let (one, other) = tokio::join!(write(0), write(BLOCK));
    assert_eq!((one.unwrap().len, other.unwrap().len), (4096, 4096));
    assert_eq!(rig.content().await, data(2, 7));
    // It ends, however long the tree is away.
    let begun = rig.client.env().now();
    rig.tree.silent.store(u32::MAX, Ordering::Relaxed);
    assert!(matches!(write(0).await, Err(ClientError::MetaCall(_))));
    assert!(rig.client.env().now().saturating_duration_since(begun) < PATIENCE * 2);
}
