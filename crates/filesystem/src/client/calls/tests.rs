//! Calls that are made again in the next process, against a tree in memory.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use env::Env;
use net::BoxFuture;

use super::*;
use crate::client::{Client, New, OpenFlags, Opening, Owner, WriteAt, Written};
use crate::data::memory::MemoryPartition;
use crate::ids::Ino;
use crate::meta::local::LocalPartition;
use crate::meta::{Answer, Envelope, Kind, MetaCallError, MetaPartition, MetaTrees, Query, RenameHow, Reply, XattrHow};

const OWNER: Owner = Owner { uid: 0, gid: 0 };
const FILE: New = New { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, owner: OWNER };
const FOLDER: New = New { kind: Kind::Directory, ..FILE };

/// Partitions, and the record that the mount keeper has.
struct Kept {
    meta: Arc<dyn MetaTrees>,
    data: Arc<MemoryPartition>,
    record: File,
}

impl Kept {
    fn new(meta: Arc<dyn MetaTrees>) -> Kept {
        Kept { meta, data: Arc::new(MemoryPartition::new(64 << 20)), record: tempfile::tempfile().unwrap() }
    }

    async fn first(&self) -> Arc<Client> {
        let opening = Opening { record: Some(self.record.try_clone().unwrap()), is_exclusive: false };
        Client::connect_as(self.meta.clone(), self.data.clone(), Env::real(), opening).await.unwrap()
    }

    /// The next process; the one before is dead.
    fn next(&self) -> Arc<Client> {
        let record = self.record.try_clone().unwrap();
        Client::resume(self.meta.clone(), self.data.clone(), Env::real(), record).unwrap()
    }
}

fn local() -> Kept {
    Kept::new(Arc::new(LocalPartition::default()))
}

async fn call<T>(number: u64, work: impl Future<Output = T>) -> T {
    in_call(CallId(number), work).await
}

/// Where, and how much.
fn written(done: Result<Written, ClientError>) -> (u64, usize) {
    let done = done.unwrap();
    (done.offset, done.len)
}

fn append(text: &'static str) -> (WriteAt, Bytes) {
    (WriteAt { append: true, ..WriteAt::default() }, Bytes::from_static(text.as_bytes()))
}

#[tokio::test]
async fn a_call_that_is_made_again_in_the_next_process_gets_the_first_answer() {
    let kept = local();
    let one = kept.first().await;
    let folder = call(2, one.make(Ino::ROOT, b"d", FOLDER)).await.unwrap().0.ino;
    let (entry, _) = call(4, one.create(Ino::ROOT, b"f", FILE, OpenFlags::default())).await.unwrap();
    one.answered(CallId(4));
    let ino = entry.0.ino;
    let (write, data) = append("once");
    call(6, one.write(ino, write, data.clone())).await.unwrap();
    call(8, one.link(ino, folder, b"g")).await.unwrap();
    call(10, one.rename((Ino::ROOT, b"f"), (folder, b"h"), RenameHow::NoReplace)).await.unwrap();
    let xattr =
        crate::client::SetXattr { name: b"user.a".to_vec(), value: vec![1], how: XattrHow::Create, clears_set_gid: false };
    call(12, one.setxattr(ino, xattr.clone())).await.unwrap();
    call(14, one.unlink(folder, b"g")).await.unwrap();
    drop(one);
    for _process in 0..2 {
        let next = kept.next();
        next.ask_kernel(Box::new(|_| true));
        assert_eq!(call(2, next.make(Ino::ROOT, b"d", FOLDER)).await.unwrap().0.ino, folder);
        assert_eq!(written(call(6, next.write(ino, write, data.clone())).await), (0, 4));
        assert_eq!(call(8, next.link(ino, folder, b"g")).await.unwrap().0.nlink, 2);
        call(10, next.rename((Ino::ROOT, b"f"), (folder, b"h"), RenameHow::NoReplace)).await.unwrap();
        call(12, next.setxattr(ino, xattr.clone())).await.unwrap();
        call(14, next.unlink(folder, b"g")).await.unwrap();
        assert_eq!(next.read(ino, 0, 100).await.unwrap(), &b"once"[..]);
    }
    // Answered now: what is called next is another call.
    let next = kept.next();
    next.ask_kernel(Box::new(|_| true));
    [2, 6, 8, 10, 12, 14].into_iter().for_each(|number| next.answered(CallId(number)));
    assert_eq!(call(16, next.make(Ino::ROOT, b"d", FOLDER)).await, Err(MetaError::Exists.into()));
    call(18, next.write(ino, write, data)).await.unwrap();
    assert_eq!(next.read(ino, 0, 100).await.unwrap(), &b"onceonce"[..]);
}

/// A tree that is cut off: commands are lost before it has them.
struct CutOff(LocalPartition, std::sync::atomic::AtomicBool);

impl MetaPartition for CutOff {
    fn command(&self, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        match self.1.load(Ordering::Relaxed) {
            true => Box::pin(async { Err(MetaCallError::Unavailable("it is cut off".to_owned())) }),
            false => self.0.command(envelope),
        }
    }

    fn query(&self, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        self.0.query(query)
    }
}

#[tokio::test]
async fn a_write_whose_commit_was_lost_is_carried_out_by_the_next_process() {
    let meta = Arc::new(CutOff(LocalPartition::default(), false.into()));
    let kept = Kept::new(meta.clone());
    let one = kept.first().await;
    let ino = call(2, one.make(Ino::ROOT, b"f", FILE)).await.unwrap().0.ino;
    one.answered(CallId(2));
    meta.1.store(true, Ordering::Relaxed);
    let (write, data) = append("once");
    assert!(call(4, one.write(ino, write, data.clone())).await.is_err());
    drop(one);
    meta.1.store(false, Ordering::Relaxed);
    for _process in 0..3 {
        let next = kept.next();
        assert_eq!(written(call(4, next.write(ino, write, data.clone())).await), (0, 4));
        assert_eq!(next.read(ino, 0, 100).await.unwrap(), &b"once"[..]);
    }
}

#[tokio::test]
async fn calls_that_are_never_made_again_don_t_fill_the_tree() {
    let kept = local();
    let one = kept.first().await;
    let ino = call(2, one.make(Ino::ROOT, b"f", FILE)).await.unwrap().0.ino;
    drop(one);
    let next = kept.next();
    // More than a tree remembers.
    for number in 0..10_000 {
        let touch = crate::meta::AttributeChange { mode: Some(number % 512), ..Default::default() };
        let id = 4 + 2 * u64::from(number);
        call(id, next.setattr(ino, touch)).await.unwrap();
        next.answered(CallId(id));
    }
    assert_eq!(next.commands.calls_kept(), 0);
}

#[tokio::test]
async fn an_orphan_stays_until_the_kernel_has_dropped_it() {
    let kept = local();
    let one = kept.first().await;
    let (entry, _) = one.create(Ino::ROOT, b"f", FILE, OpenFlags::default()).await.unwrap();
    let ino = entry.0.ino;
    let other = Client::connect(kept.meta.clone(), kept.data.clone(), Env::real()).await.unwrap();
    other.unlink(Ino::ROOT, b"f").await.unwrap();
    drop(one);
    let next = kept.next();
    let has_it = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let kernel = Arc::clone(&has_it);
    next.ask_kernel(Box::new(move |_| kernel.load(Ordering::Relaxed)));
    let mut unused = BTreeSet::new();
    for _round in 0..3 {
        unused = next.tell_orphans(&unused).await.unwrap();
        assert_eq!(next.getattr(ino).await.unwrap().nlink, 0);
    }
    assert_eq!(next.forget(ino, 1), None, "the kernel has other references");
    has_it.store(false, Ordering::Relaxed);
    assert_eq!(next.forget(ino, 1), Some(ino));
    next.not_open(vec![ino]).await;
    assert_eq!(next.getattr(ino).await, Err(MetaError::Stale.into()));
}

#[tokio::test]
async fn what_the_next_process_removes_is_open_until_the_kernel_has_dropped_it() {
    let kept = local();
    let one = kept.first().await;
    let (entry, handle) = one.create(Ino::ROOT, b"f", FILE, OpenFlags::default()).await.unwrap();
    drop(one);
    let next = kept.next();
    next.ask_kernel(Box::new(|_| true));
    next.unlink(Ino::ROOT, b"f").await.unwrap();
    let (_, another) = next.create(Ino::ROOT, b"g", FILE, OpenFlags::default()).await.unwrap();
    assert_ne!(handle, another, "a release of the one must not close the other");
    next.release(entry.0.ino, handle, None).await;
    assert_eq!(next.getattr(entry.0.ino).await.unwrap().nlink, 0);
}

#[tokio::test]
async fn locks_of_an_earlier_process_are_given_up_when_their_owner_closes_the_file() {
    use crate::meta::{Lock, LockFamily, LockOwner, LockRange};
    let kept = local();
    let one = kept.first().await;
    let (entry, handle) = one.create(Ino::ROOT, b"f", FILE, OpenFlags::default()).await.unwrap();
    let ino = entry.0.ino;
    let lock = |family, number, first| {
        let range = LockRange { first, last: first };
        Lock { owner: LockOwner { family, number }, range, is_exclusive: true, pid: 1 }
    };
    let (process, file) = (lock(LockFamily::Fcntl, 7, 1), lock(LockFamily::Flock, 8, 2));
    call(2, one.lock(ino, handle, process)).await.unwrap();
    call(4, one.lock(ino, handle, file)).await.unwrap();
    drop(one);
    let next = kept.next();
    let other = Client::connect(kept.meta.clone(), kept.data.clone(), Env::real()).await.unwrap();
    let is_locked = async |lock| other.lock_in_the_way(ino, lock).await.unwrap().is_some();
    // A call that waited for its lock when the process died gets it once.
    call(4, next.lock(ino, handle, file)).await.unwrap();
    assert!(is_locked(process).await && is_locked(file).await);
    next.closed_by(ino, 7).await;
    assert!(!is_locked(process).await && is_locked(file).await);
    next.release(ino, handle, Some(8)).await;
    assert!(!is_locked(file).await);
}
