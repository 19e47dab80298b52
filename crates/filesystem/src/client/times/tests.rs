use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bytes::Bytes;
use env::Env;
use net::BoxFuture;

use super::*;
use crate::client::{FileHandle, New, OpenFlags, Opening, Owner, WriteAt};
use crate::data::memory::MemoryPartition;
use crate::meta::local::LocalPartition;
use crate::meta::{Answer, AttributeChange, Envelope, Kind, MetaCallError, MetaPartition, Query, Reply, Time, TimeChange};

/// Counts the commands to a tree.
#[derive(Default)]
struct Counted {
    inner: LocalPartition,
    commands: AtomicU32,
    /// Commands get no answer.
    is_silent: AtomicBool,
}

impl MetaPartition for Counted {
    fn command(&self, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        match self.is_silent.load(Ordering::Relaxed) {
            true => Box::pin(std::future::pending()),
            false => self.inner.command(envelope),
        }
    }

    fn query(&self, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        self.inner.query(query)
    }
}

struct Rig {
    tree: Arc<Counted>,
    data: Arc<MemoryPartition>,
    client: Arc<Client>,
    ino: Ino,
    handle: FileHandle,
    /// As it was made and filled.
    before: Attributes,
}

impl Rig {
    /// A file of two blocks, and a client that knows nothing that the tree does not.
    async fn new() -> Rig {
        let (tree, data) = (Arc::new(Counted::default()), Arc::new(MemoryPartition::new(1 << 20)));
        let client = Client::connect(tree.clone(), data.clone(), Env::real()).await.unwrap();
        let new = New { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, owner: Owner { uid: 0, gid: 0 } };
        let (entry, handle) = client.create(Ino::ROOT, b"f", new, OpenFlags::default()).await.unwrap();
        let ino = entry.0.ino;
        let written = client.write(ino, WriteAt::default(), Bytes::from_static(&[1; 8192])).await.unwrap();
        Rig { tree, data, client, ino, handle, before: written.inode }
    }

    async fn write(&self, offset: u64) {
        let write = WriteAt { offset, ..WriteAt::default() };
        self.client.write(self.ino, write, Bytes::from_static(&[2; 512])).await.unwrap();
    }

    fn commands(&self) -> u32 {
        self.tree.commands.load(Ordering::Relaxed)
    }

    /// As the tree has it, whatever the client has not told.
    async fn in_tree(&self) -> Attributes {
        self.client.commands.inode(self.ino).await.unwrap()
    }
}

#[tokio::test]
async fn many_writes_in_place_are_told_once_and_before_anything_is_answered_that_shows_them() {
    let rig = Rig::new().await;
    let before = rig.commands();
    for offset in [0, 4096, 100] {
        rig.write(offset).await;
    }
    rig.client.flush_data(rig.handle).unwrap();
    assert_eq!(rig.commands(), before, "neither writes in place nor fdatasync wait for the tree");
    assert_eq!(rig.in_tree().await, rig.before);
    let shown = rig.client.getattr(rig.ino).await.unwrap();
    assert_eq!(rig.commands(), before + 1);
    assert_eq!(shown.version, rig.before.version + 1);
    assert!(shown.mtime > rig.before.mtime && shown.ctime > rig.before.ctime);
    assert_eq!(rig.client.getattr(rig.ino).await, Ok(shown));
    assert_eq!(rig.commands(), before + 1, "there is nothing to tell any more");
}

#[tokio::test]
async fn each_way_to_see_a_file_shows_its_last_write() {
    let rig = Rig::new().await;
    let mut version = rig.before.version;
    for way in ["lookup", "open", "list", "link", "flush", "end"] {
        rig.write(0).await;
        match way {
            "lookup" => assert_eq!(rig.client.lookup(Ino::ROOT, b"f").await.unwrap().0.version, version + 1),
            "open" => {
                let (shown, handle) = rig.client.open(rig.ino, OpenFlags::default()).await.unwrap();
                assert_eq!(shown.version, version + 1);
                rig.client.release(rig.ino, handle, None).await;
            }
            "list" => {
                let listed = rig.client.readdir(Ino::ROOT, 0, 10).await.unwrap();
                let shown: Vec<u64> = listed.iter().filter_map(|entry| Some(entry.attributes?.version)).collect();
                assert_eq!(shown, [version + 1]);
            }
            "link" => assert_eq!(rig.client.link(rig.ino, Ino::ROOT, b"g").await.unwrap().0.version, version + 1),
            "flush" => rig.client.flush(rig.ino, rig.handle).await.unwrap(),
            _ => rig.client.close().await.unwrap(),
        }
        version += 1;
        assert_eq!(rig.in_tree().await.version, version, "{way}");
    }
}

#[tokio::test]
async fn a_time_that_is_set_stays() {
    let rig = Rig::new().await;
    rig.write(0).await;
    let time = Time { seconds: 7, nanos: 9 };
    let change = AttributeChange { mtime: Some(TimeChange::At(time)), ..AttributeChange::default() };
    rig.client.setattr(rig.ino, change).await.unwrap();
    rig.client.flush(rig.ino, rig.handle).await.unwrap();
    assert_eq!(rig.in_tree().await.mtime, time);
}

#[tokio::test]
async fn where_several_use_the_volume_each_write_is_told_at_once() {
    let rig = Rig::new().await;
    let _other = Client::connect(rig.tree.clone(), rig.data.clone(), Env::real()).await.unwrap();
    rig.write(0).await;
    assert_eq!(rig.in_tree().await.version, rig.before.version + 1);
}

#[tokio::test]
async fn a_removed_file_owes_nothing() {
    let rig = Rig::new().await;
    rig.write(0).await;
    rig.client.unlink(Ino::ROOT, b"f").await.unwrap();
    rig.client.release(rig.ino, rig.handle, None).await;
    let orphan = rig.client.forget(rig.ino, 1).expect("it has no name");
    rig.client.not_open(vec![orphan]).await;
    assert_eq!(rig.client.getattr(rig.ino).await, Err(MetaError::Stale.into()));
    assert_eq!(rig.client.tell_all_times().await, Ok(()));
}

/// Caught: an unmount ended the task that was just telling a time, which was told no more.
#[tokio::test(start_paused = true)]
async fn a_time_that_was_being_told_when_its_task_ended_is_told_at_the_end_of_the_session() {
    let rig = Rig::new().await;
    rig.write(0).await;
    rig.tree.is_silent.store(true, Ordering::Relaxed);
    assert!(tokio::time::timeout(DELAY, rig.client.tell_all_times()).await.is_err());
    rig.tree.is_silent.store(false, Ordering::Relaxed);
    rig.client.close().await.unwrap();
    assert_eq!(rig.in_tree().await.version, rig.before.version + 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_is_told_soon_without_any_call() {
    let rig = Rig::new().await;
    let client = Arc::clone(&rig.client);
    let telling = tokio::spawn(async move { client.keep_telling_times().await });
    for _ in 0..3 {
        let version = rig.in_tree().await.version;
        rig.write(0).await;
        tokio::time::sleep(DELAY * 2).await;
        assert_eq!(rig.in_tree().await.version, version + 1);
    }
    telling.abort();
}

#[tokio::test]
async fn times_that_a_kernel_has_are_answered_at_once_and_told_together() {
    let (tree, data) = (Arc::new(Counted::default()), Arc::new(MemoryPartition::new(1 << 20)));
    let opening = Opening { record: None, is_exclusive: true };
    let client = Client::connect_as(tree.clone(), data, Env::real(), opening).await.unwrap();
    let new = New { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, owner: Owner { uid: 0, gid: 0 } };
    let mut made = Vec::new();
    for name in ["a", "b", "c"] {
        let (entry, handle) = client.create(Ino::ROOT, name.as_bytes(), new, OpenFlags::default()).await.unwrap();
        client.write(entry.0.ino, WriteAt::default(), Bytes::from_static(&[1; 100])).await.unwrap();
        made.push((entry.0.ino, handle));
    }
    let before = tree.commands.load(Ordering::Relaxed);
    let commands = || tree.commands.load(Ordering::Relaxed) - before;
    // Before the files were made: the kernel has the times.
    let time = |seconds| Time { seconds, nanos: 5 };
    let shown = |attributes: &Attributes| (attributes.mtime, attributes.ctime);
    for (ino, _) in &made {
        let noted = client.note_times(FileTimes { ino: *ino, mtime: time(7), ctime: time(8) }).await.unwrap();
        assert_eq!(shown(&noted), (time(7), time(8)));
    }
    // In place: no other command tells of the write.
    client.write(made[0].0, WriteAt::default(), Bytes::from_static(&[2; 50])).await.unwrap();
    assert_eq!(shown(&client.lookup(Ino::ROOT, b"a").await.unwrap().0), (time(7), time(8)));
    assert_eq!(commands(), 0);
    assert_ne!(shown(&client.commands.inode(made[0].0).await.unwrap()), (time(7), time(8)));
    client.flush(made[0].0, made[0].1).await.unwrap();
    assert_eq!(shown(&client.commands.inode(made[0].0).await.unwrap()), (time(7), time(8)));
    assert_eq!(commands(), 1);
    // What else is set goes with them, and one command tells the rest, also of what is gone.
    let change = AttributeChange { mode: Some(0o600), ctime: Some(time(9)), ..AttributeChange::default() };
    assert_eq!(shown(&client.setattr(made[1].0, change).await.unwrap()), (time(7), time(9)));
    client.note_times(FileTimes { ino: made[0].0, mtime: time(6), ctime: time(6) }).await.unwrap();
    client.unlink(Ino::ROOT, b"c").await.unwrap();
    client.release(made[2].0, made[2].1, None).await;
    client.not_open(client.forget(made[2].0, 1).into_iter().collect()).await;
    let before = commands();
    client.tell_all_times().await.unwrap();
    client.tell_all_times().await.unwrap();
    assert_eq!(commands(), before + 1);
    assert_eq!(shown(&client.commands.inode(made[0].0).await.unwrap()), (time(6), time(6)));
}
