use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use net::BoxFuture;
use parking_lot::Mutex;

use super::*;
use crate::data::memory::MemoryPartition;
use crate::data::{DataError, Extents};
use crate::ids::TreeIndex;
use crate::meta::local::{LocalPartition, LocalTrees};
use crate::meta::{Answer, AttributeChange, Command, Envelope, Kind, MetaCallError, MetaError, MetaPartition, Query, Reply};

const OWNER: Owner = Owner { uid: 0, gid: 0 };
const FILE: New = New { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, owner: OWNER };
const ROOM: u64 = 4 << 20;

/// A volume in memory, with a client.
struct Volume {
    data: Arc<MemoryPartition>,
    client: Arc<Client>,
    /// The directory of the test.
    home: Ino,
}

impl Volume {
    async fn new(meta: Arc<dyn MetaTrees>) -> Volume {
        let data = Arc::new(MemoryPartition::new(ROOM));
        let client = Client::connect(meta, data.clone(), Env::real()).await.unwrap();
        Volume { data, client, home: Ino::ROOT }
    }

    /// With so many trees. The test's directory is in the last one.
    async fn of(trees: u16) -> Volume {
        let mut volume = Volume::new(Arc::new(LocalTrees::new(trees))).await;
        while volume.home.tree() != TreeIndex(trees - 1) {
            let made = volume.client.make(volume.home, b"home", New { kind: Kind::Directory, ..FILE }).await;
            volume.home = made.unwrap().0.ino;
        }
        volume
    }

    async fn file(&self, name: &str) -> (Ino, FileHandle) {
        let (entry, handle) = self.client.create(self.home, name.as_bytes(), FILE, OpenFlags::default()).await.unwrap();
        (entry.0.ino, handle)
    }

    async fn write(&self, ino: Ino, offset: u64, data: &'static [u8]) -> Result<usize, ClientError> {
        let write = WriteAt { offset, ..WriteAt::default() };
        self.client.write(ino, write, Bytes::from_static(data)).await.map(|written| written.len)
    }

    async fn content(&self, ino: Ino) -> Vec<u8> {
        self.client.read(ino, 0, 1 << 20).await.unwrap().into()
    }
}

/// A partition that carries each command out, and loses the first reply to it.
#[derive(Default)]
struct Forgetful {
    inner: LocalPartition,
    sendings: AtomicU32,
}

impl MetaPartition for Forgetful {
    fn command(&self, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        Box::pin(async move {
            let reply = self.inner.command(envelope).await;
            match self.sendings.fetch_add(1, Ordering::Relaxed) % 2 {
                0 => Err(MetaCallError::Unavailable("the reply is lost".to_owned())),
                _ => reply,
            }
        })
    }

    fn query(&self, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        self.inner.query(query)
    }
}

/// A partition through which another client appends to the file before the first hole is made.
struct Overtaken {
    inner: Arc<LocalPartition>,
    appender: Mutex<Option<Arc<Client>>>,
}

impl MetaPartition for Overtaken {
    fn command(&self, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        Box::pin(async move {
            if let Command::Punch { ino, .. } = envelope.command {
                let appender = self.appender.lock().take();
                if let Some(appender) = appender {
                    let append = WriteAt { append: true, ..WriteAt::default() };
                    appender.write(ino, append, Bytes::from_static(&[2; 3000])).await.unwrap();
                }
            }
            self.inner.command(envelope).await
        })
    }

    fn query(&self, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        self.inner.query(query)
    }
}

/// Caught: a hole up to the end of a file went on to the end of its block, and took along what another mount had appended there since.
#[tokio::test(start_paused = true)]
async fn a_hole_up_to_the_end_takes_nothing_that_another_client_appends_meanwhile() {
    let inner = Arc::new(LocalPartition::default());
    let overtaken = Arc::new(Overtaken { inner: inner.clone(), appender: Mutex::default() });
    let volume = Volume::new(overtaken.clone()).await;
    let (ino, _) = volume.file("f").await;
    volume.write(ino, 0, &[1; 5000]).await.unwrap();
    let other = Client::connect(inner, volume.data.clone(), Env::real()).await.unwrap();
    *overtaken.appender.lock() = Some(other);
    volume.client.fallocate(ino, 0, 5000, Allocation::PunchHole, true).await.unwrap();
    assert!(overtaken.appender.lock().is_none(), "the other one was faster");
    assert_eq!(volume.content(ino).await, [&[0; 5000][..], &[2; 3000]].concat());
}

#[tokio::test]
async fn a_command_that_is_sent_again_has_one_effect_and_the_first_answer() {
    let volume = Volume::new(Arc::new(Forgetful::default())).await;
    let folder = New { kind: Kind::Directory, ..FILE };
    volume.client.make(Ino::ROOT, b"d", folder).await.unwrap();
    let again = volume.client.make(Ino::ROOT, b"d", folder).await;
    assert_eq!(again, Err(MetaError::Exists.into()));
    volume.client.rmdir(Ino::ROOT, b"d").await.unwrap();
    let (ino, _) = volume.file("f").await;
    let append = WriteAt { append: true, ..WriteAt::default() };
    for part in ["a", "b", "c"] {
        volume.client.write(ino, append, part.into()).await.unwrap();
    }
    assert_eq!(volume.content(ino).await, b"abc");
}

async fn appends_go_on_in_one_extent_and_become_one_key(volume: Volume) {
    let (ino, _) = volume.file("f").await;
    for index in 0..100 {
        volume.write(ino, index * 100, &[7; 100]).await.unwrap();
    }
    assert_eq!(volume.client.keys(ino, 0..u64::MAX).await.unwrap().len(), 1);
    assert_eq!(volume.data.extents().len(), 1);
    volume.write(ino, 50, &[8; 100]).await.unwrap();
    assert_eq!(volume.client.keys(ino, 0..u64::MAX).await.unwrap().len(), 1, "in place");
    let content = volume.content(ino).await;
    assert_eq!((&content[..50], &content[50..150], content.len()), (&[7; 50][..], &[8; 100][..], 10_000));
}

async fn what_was_cut_does_not_come_back_and_is_not_written_over(volume: Volume) {
    let (ino, _) = volume.file("f").await;
    volume.write(ino, 0, &[1; 10_000]).await.unwrap();
    let cut = |size| AttributeChange { size: Some(size), ..AttributeChange::default() };
    for size in [100, 300] {
        volume.client.setattr(ino, cut(size)).await.unwrap();
    }
    let freed_before = volume.data.extents()[0];
    volume.write(ino, 200, &[2; 50]).await.unwrap();
    // The node gives back what was cut only now.
    volume.data.punch(freed_before, 100, 9_900).await.unwrap();
    let content = volume.content(ino).await;
    assert_eq!(content, [&[1; 100][..], &[0; 100], &[2; 50], &[0; 50]].concat());
}

async fn an_extent_that_takes_nothing_more_is_given_up_for_another(volume: Volume) {
    let (ino, _) = volume.file("f").await;
    volume.write(ino, 0, b"one").await.unwrap();
    let first = volume.data.extents()[0];
    volume.data.append(first, 3, Bytes::from_static(b"what another has appended")).await.unwrap();
    volume.write(ino, 3, b", two").await.unwrap();
    assert_eq!(volume.content(ino).await, b"one, two");
    assert_eq!(volume.data.extents().len(), 2);
}

async fn a_write_for_which_there_is_no_room_leaves_the_file_as_it_was(volume: Volume) {
    let (ino, handle) = volume.file("f").await;
    volume.write(ino, 0, &[1; 4096]).await.unwrap();
    let (other, _) = volume.file("g").await;
    let refused = volume.client.fallocate(other, 0, ROOM, Allocation::Plain, false).await;
    assert_eq!(refused, Err(DataError::Full.into()));
    volume.client.fallocate(other, 0, ROOM - 4096, Allocation::Plain, false).await.unwrap();
    assert_eq!(volume.write(ino, 4096, b"more").await, Err(DataError::Full.into()));
    assert_eq!(volume.content(ino).await, [1; 4096]);
    volume.write(ino, 0, b"in place").await.unwrap();
    assert_eq!(volume.client.flush(ino, handle).await, Ok(()), "its call was told");
    let state = volume.client.statfs().await.unwrap();
    assert_eq!((state.total_bytes, state.free_bytes), (ROOM, 0));
}

/// Caught: what a write had appended before it found no room stayed for good, so a full device lost more space with each such write.
#[tokio::test]
async fn a_write_that_finds_room_for_a_part_takes_none() {
    let meta = Arc::new(LocalPartition::default());
    let volume = Volume::new(meta.clone()).await;
    let (ino, _) = volume.file("f").await;
    for block in [0, 2, 4] {
        volume.write(ino, block * 4096, &[1; 4096]).await.unwrap();
    }
    let (other, _) = volume.file("g").await;
    volume.client.fallocate(other, 0, ROOM - 4 * 4096, Allocation::Plain, false).await.unwrap();
    let extents = volume.data.extents();
    // One that has no extent to go on in, and finds room for one of two holes.
    let writer = Client::connect(meta, volume.data.clone(), Env::real()).await.unwrap();
    let write = |offset, len| writer.write(ino, WriteAt { offset, ..WriteAt::default() }, vec![2; len].into());
    assert_eq!(write(0, 5 * 4096).await, Err(DataError::Full.into()));
    assert_eq!(volume.data.extents(), extents);
    assert_eq!(volume.data.room().free_bytes, 4096);
    write(4096, 4096).await.unwrap();
    assert_eq!(volume.content(ino).await[3 * 4096..4 * 4096], [0; 4096]);
}

async fn a_write_back_that_failed_is_told_by_each_open_file_once(volume: Volume) {
    let (ino, handle) = volume.file("f").await;
    volume.data.fail(Some(DataError::Full));
    let write_back = WriteAt { from_cache: true, ..WriteAt::default() };
    let refused = volume.client.write(ino, write_back, Bytes::from_static(b"x")).await;
    assert_eq!(refused, Err(DataError::Full.into()));
    volume.data.fail(None);
    assert_eq!(volume.client.flush(ino, handle).await, Err(DataError::Full.into()));
    assert_eq!(volume.client.flush(ino, handle).await, Ok(()));
}

async fn a_file_without_a_name_is_freed_with_its_last_use(volume: Volume) {
    let (ino, handle) = volume.file("f").await;
    volume.client.unlink(volume.home, b"f").await.unwrap();
    volume.write(ino, 0, b"still here").await.unwrap();
    assert_eq!(volume.client.forget(ino, 1), None, "it is open");
    volume.client.release(ino, handle, None).await;
    assert_eq!(volume.client.getattr(ino).await, Err(MetaError::Stale.into()));
    let (unnamed, handle) = volume.client.tmpfile(volume.home, FILE).await.unwrap();
    volume.client.link(unnamed.0.ino, volume.home, b"named").await.unwrap();
    volume.client.release(unnamed.0.ino, handle, None).await;
    assert_eq!(volume.client.forget(unnamed.0.ino, 2), None);
    assert_eq!(volume.client.lookup(volume.home, b"named").await.unwrap().0.nlink, 1);
}

/// Caught: an allocation by a user that is not root left set-user-id. As `file_remove_privs` of Linux has it.
async fn an_allocation_drops_set_user_id_as_linux_does(volume: Volume) {
    let (ino, _) = volume.file("f").await;
    let (user, of_group) = (Owner { uid: 1000, gid: 1000 }, Owner { uid: 1000, gid: 0 });
    for (before, by, after) in [
        (0o6666, OWNER, 0o6666),
        (0o6666, user, 0o666),
        (0o6666, of_group, 0o2666),
        (0o6676, user, 0o676),
        (0o6676, of_group, 0o676),
        (0o2676, user, 0o676),
        (0o6777, user, 0o777),
    ] {
        let change = AttributeChange { mode: Some(before), ..AttributeChange::default() };
        volume.client.setattr(ino, change).await.unwrap();
        volume.client.drop_set_ids(ino, by).await.unwrap();
        assert_eq!(volume.client.getattr(ino).await.unwrap().mode, after, "{before:o} by {by:?}");
    }
}

/// Caught: a handle of a removed file opened it for as long as the kernel had not said that it has dropped it.
async fn a_number_finds_no_inode_without_names(volume: Volume) {
    let (ino, handle) = volume.file("f").await;
    assert_eq!(volume.client.lookup(ino, b".").await.unwrap().0.ino, ino);
    volume.client.unlink(volume.home, b"f").await.unwrap();
    assert_eq!(volume.client.lookup(ino, b".").await, Err(MetaError::Stale.into()));
    assert_eq!(volume.client.getattr(ino).await.unwrap().nlink, 0, "it is open");
    volume.client.release(ino, handle, None).await;
}

async fn data_and_holes_are_found_over_long_distances(volume: Volume) {
    let (ino, _) = volume.file("f").await;
    let far = 1 << 45;
    volume.write(ino, far + 10, b"x").await.unwrap();
    assert_eq!(volume.client.seek(ino, 0, true).await, Ok(far));
    assert_eq!(volume.client.seek(ino, 5, false).await, Ok(5));
    assert_eq!(volume.client.seek(ino, far, false).await, Ok(far + 11), "the end is a hole");
    assert_eq!(volume.client.seek(ino, far + 11, true).await, Err(ClientError::BeyondTheEnd));
}

/// Runs tests with a volume of one tree, and with one of three.
macro_rules! over_trees {
    ($($test:ident),* $(,)?) => {
        mod one_tree {
            $(#[tokio::test] async fn $test() { super::$test(super::Volume::of(1).await).await; })*
        }
        mod three_trees {
            $(#[tokio::test] async fn $test() { super::$test(super::Volume::of(3).await).await; })*
        }
    };
}

over_trees! {
    appends_go_on_in_one_extent_and_become_one_key,
    what_was_cut_does_not_come_back_and_is_not_written_over,
    an_extent_that_takes_nothing_more_is_given_up_for_another,
    a_write_for_which_there_is_no_room_leaves_the_file_as_it_was,
    a_write_back_that_failed_is_told_by_each_open_file_once,
    a_file_without_a_name_is_freed_with_its_last_use,
    an_allocation_drops_set_user_id_as_linux_does,
    a_number_finds_no_inode_without_names,
    data_and_holes_are_found_over_long_distances,
}
