use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use env::Env;
use net::BoxFuture;
use tokio::sync::oneshot;

use super::lease::{KEEPALIVE, RELIANCE};
use super::*;
use crate::client::{Allocation, New, OpenFlags, Owner, WriteAt};
use crate::data::memory::MemoryPartition;
use crate::meta::limits::LOCK_LEASE;
use crate::meta::local::LocalPartition;
use crate::meta::{Answer, AttributeChange, Envelope, Kind, MetaCallError, MetaPartition, MetaSession, Reply, Time};

/// The way of one client to a tree that several share. Other tasks run before each of its calls.
struct Way {
    tree: Arc<LocalPartition>,
    is_cut: AtomicBool,
    env: Env,
}

impl Way {
    async fn come(&self) -> Result<(), MetaCallError> {
        for _ in 0..self.env.random_below(4) {
            tokio::task::yield_now().await;
        }
        match self.is_cut.load(Ordering::Relaxed) {
            true => Err(MetaCallError::Unavailable("the way is cut".to_owned())),
            false => Ok(()),
        }
    }
}

impl MetaPartition for Way {
    fn command(&self, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        Box::pin(async move {
            self.come().await?;
            self.tree.command(envelope).await
        })
    }

    fn query(&self, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        Box::pin(async move {
            self.come().await?;
            self.tree.query(query).await
        })
    }
}

/// Clients of one volume in memory.
struct Volume {
    tree: Arc<LocalPartition>,
    data: Arc<MemoryPartition>,
    env: Env,
}

struct User {
    way: Arc<Way>,
    client: Arc<Client>,
    ino: Ino,
    handle: FileHandle,
}

impl Volume {
    fn new() -> Volume {
        Volume { tree: Arc::default(), data: Arc::new(MemoryPartition::new(64 << 20)), env: Env::simulated(1) }
    }

    /// A client that has the file open.
    async fn user(&self) -> User {
        let way = Arc::new(Way { tree: self.tree.clone(), is_cut: AtomicBool::new(false), env: self.env.clone() });
        let client = Client::connect(way.clone(), self.data.clone(), self.env.clone()).await.unwrap();
        let new = New { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, owner: Owner { uid: 0, gid: 0 } };
        let (entry, handle) = client.create(Ino::ROOT, b"f", new, OpenFlags::default()).await.unwrap();
        User { way, client, ino: entry.0.ino, handle }
    }

    /// What the leader does when a client is not heard of.
    fn lose_locks_of(&self, user: &User) {
        let command = Command::LoseLocks { session: user.client.session() };
        let now = Time::default();
        let envelope = Envelope { session: MetaSession::LEADER, sequence: 0, answered_below: 0, now, locks_lost: 0, command };
        self.tree.0.lock().carry_out(&envelope).unwrap();
    }
}

impl User {
    async fn lock(&self, lock: Lock) -> Result<(), ClientError> {
        self.client.lock(self.ino, self.handle, lock).await.map(drop)
    }

    async fn wait_for(&self, lock: Lock, stopped: impl Future<Output = ()>) -> Result<(), ClientError> {
        self.client.lock_waiting(self.ino, self.handle, lock, stopped).await.map(drop)
    }

    async fn write(&self, write: WriteAt, data: &[u8]) -> Result<(), ClientError> {
        self.client.write(self.ino, write, Bytes::copy_from_slice(data)).await.map(drop)
    }

    async fn content(&self) -> Result<Vec<u8>, ClientError> {
        self.client.read(self.ino, 0, 1 << 20).await.map(Vec::from)
    }
}

fn exclusive(number: u64) -> Lock {
    let owner = LockOwner { family: LockFamily::Fcntl, number };
    Lock { owner, range: LockRange::ALL, is_exclusive: true, pid: 0 }
}

const REFUSED: Result<(), ClientError> = Err(ClientError::Meta(MetaError::Locked));
const APPEND: WriteAt = WriteAt { offset: 0, append: true, from_cache: false, kills_set_ids: false };

#[tokio::test(start_paused = true)]
async fn a_lock_keeps_another_client_out_until_its_file_is_closed() {
    let volume = Volume::new();
    let (one, two) = (volume.user().await, volume.user().await);
    one.lock(exclusive(1)).await.unwrap();
    assert_eq!(two.lock(exclusive(1)).await, REFUSED);
    assert_eq!(one.lock(exclusive(2)).await, REFUSED);
    one.client.closed_by(one.ino, 3).await;
    assert_eq!(two.lock(exclusive(1)).await, REFUSED, "another process has closed");
    one.client.closed_by(one.ino, 1).await;
    two.lock(exclusive(1)).await.unwrap();
    assert!(!one.client.locks.has_some());
    two.client.release(two.ino, two.handle, None).await;
    one.lock(exclusive(1)).await.unwrap();
}

/// Caught: the kernel does not wait for a last close, and a program that locked a file next found the lock of one that had ended.
#[tokio::test(start_paused = true)]
async fn what_a_last_close_gives_up_is_free_for_all_that_come_after_it() {
    let volume = Volume::new();
    let user = volume.user().await;
    for number in 0..20 {
        let family = if number % 2 == 0 { LockFamily::Flock } else { LockFamily::Fcntl };
        let by = |number| Lock { owner: LockOwner { family, number }, ..exclusive(number) };
        let handle = FileHandle(1000 + number);
        user.client.lock(user.ino, handle, by(1)).await.unwrap();
        let close = user.client.release(user.ino, handle, None);
        let ((), found, locked) =
            tokio::join!(close, user.client.lock_in_the_way(user.ino, by(2)), user.client.lock(user.ino, user.handle, by(3)));
        locked.unwrap();
        let in_the_way = found.unwrap().map(|(_, lock)| lock.owner.number);
        assert!(in_the_way.is_none_or(|owner| owner == 3), "round {number}: {in_the_way:?}");
        user.client.unlock(user.ino, by(3).owner, LockRange::ALL).await.unwrap();
    }
    assert!(user.client.locks.closing.is_empty());
}

/// Of one byte.
fn byte(number: u64, first: u64) -> Lock {
    Lock { range: LockRange { first, last: first }, ..exclusive(number) }
}

#[tokio::test(start_paused = true)]
async fn a_circle_of_waits_on_one_client_is_broken_where_it_closes() {
    let volume = Volume::new();
    let user = volume.user().await;
    for number in 1..=3 {
        user.lock(byte(number, number)).await.unwrap();
    }
    let never = || std::future::pending::<()>();
    let later = |seconds: u64| volume.env.sleep(Duration::from_secs(seconds));
    let first = async { user.wait_for(byte(1, 2), never()).await };
    let second = async {
        later(1).await;
        let waited = user.wait_for(byte(2, 3), never()).await;
        user.client.closed_by(user.ino, 2).await;
        waited
    };
    let third = async {
        later(2).await;
        // One whose chain ends in a circle is no part of it.
        let refused = user.wait_for(byte(3, 1), never()).await;
        user.client.closed_by(user.ino, 3).await;
        refused
    };
    let outside = async {
        later(3).await;
        user.wait_for(byte(4, 2), never()).await
    };
    let all = async { tokio::join!(first, second, third) };
    let (first, second, third) = tokio::time::timeout(Duration::from_secs(10), all).await.expect("the circle is broken");
    assert_eq!((first, second, third), (Ok(()), Ok(()), Err(ClientError::Deadlock)));
    user.client.closed_by(user.ino, 1).await;
    tokio::time::timeout(Duration::from_secs(10), outside).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_was_noted_and_is_not_behind_that_owner_any_more_makes_no_circle() {
    let volume = Volume::new();
    let user = volume.user().await;
    user.lock(byte(1, 1)).await.unwrap();
    user.lock(byte(2, 2)).await.unwrap();
    // A wait of 1 behind 2 that is over in the tree: 2 has unlocked since, and 1 has not asked again.
    let old = Wait { ino: user.ino, lock: byte(1, 2), behind: byte(2, 2).owner };
    assert_eq!(user.client.locks.circles.begin(old), None);
    user.client.unlock(user.ino, byte(2, 2).owner, byte(2, 2).range).await.unwrap();
    let waits = user.wait_for(byte(2, 1), std::future::pending());
    let unlocks = async {
        volume.env.sleep(Duration::from_secs(1)).await;
        user.client.unlock(user.ino, byte(1, 1).owner, byte(1, 1).range).await.unwrap();
    };
    let (waited, ()) = tokio::join!(waits, unlocks);
    waited.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_lock_or_with_an_interrupt() {
    let volume = Volume::new();
    let (one, two) = (volume.user().await, volume.user().await);
    for other in [&one, &two] {
        one.lock(exclusive(1)).await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let waits = other.wait_for(exclusive(2), async { drop(stopped.await) });
        let interrupts = async {
            volume.env.sleep(Duration::from_secs(100)).await;
            stop.send(()).unwrap();
        };
        let (waited, ()) = tokio::join!(waits, interrupts);
        assert_eq!(waited, Err(ClientError::Interrupted));
        let waits = other.wait_for(exclusive(2), std::future::pending());
        let unlocks = async {
            volume.env.sleep(Duration::from_secs(1)).await;
            one.client.unlock(one.ino, exclusive(1).owner, LockRange::ALL).await.unwrap();
        };
        let (waited, ()) = tokio::join!(waits, unlocks);
        waited.unwrap();
        other.client.closed_by(other.ino, 2).await;
        assert!(!other.client.locks.has_some() && other.client.locks.waiting.lock().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn two_that_share_a_flock_and_both_want_it_alone_get_it_in_turn() {
    let volume = Volume::new();
    let (one, two) = (volume.user().await, volume.user().await);
    let flock = |is_exclusive| {
        let owner = LockOwner { family: LockFamily::Flock, number: 1 };
        Lock { owner, range: LockRange::ALL, is_exclusive, pid: 0 }
    };
    let alone = async |user: &User| {
        user.lock(flock(false)).await.unwrap();
        volume.env.sleep(Duration::from_secs(1)).await;
        user.wait_for(flock(true), std::future::pending()).await.unwrap();
        user.client.release(user.ino, user.handle, None).await;
    };
    tokio::join!(alone(&one), alone(&two));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_not_heard_of_stops_before_its_locks_go() {
    let volume = Volume::new();
    let (one, two) = (volume.user().await, volume.user().await);
    one.write(APPEND, b"one").await.unwrap();
    one.lock(exclusive(1)).await.unwrap();
    one.way.is_cut.store(true, Ordering::Relaxed);
    let cut = Err(MetaCallError::Unavailable("the way is cut".to_owned()).into());
    volume.env.sleep(RELIANCE).await;
    // Its lease may be over: it does not even ask the data partition.
    volume.data.fail(Some(crate::data::DataError::Full));
    assert_eq!(one.write(WriteAt::default(), b"ONE").await, cut);
    assert_eq!(one.content().await.map(drop), cut);
    volume.data.fail(None);
    volume.lose_locks_of(&one);
    two.lock(exclusive(1)).await.unwrap();
    two.write(WriteAt::default(), b"two").await.unwrap();
    one.way.is_cut.store(false, Ordering::Relaxed);
    let lost = Err(ClientError::Meta(MetaError::LocksLost));
    assert_eq!(one.write(WriteAt::default(), b"ONE").await, lost);
    assert_eq!(one.lock(exclusive(1)).await, lost, "the process does not know yet");
    assert_eq!(one.content().await.map(drop), lost);
    assert_eq!(two.content().await.unwrap(), b"two");
    one.client.closed_by(one.ino, 1).await;
    assert_eq!(one.content().await.unwrap(), b"two");
    assert_eq!(one.lock(exclusive(1)).await, REFUSED);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_locks_says_that_it_lives_and_pays_what_it_owes() {
    let volume = Volume::new();
    let (one, two) = (volume.user().await, volume.user().await);
    one.lock(exclusive(1)).await.unwrap();
    let client = one.client.clone();
    let keeps = tokio::spawn(async move { client.keep_telling().await });
    volume.env.sleep(LOCK_LEASE * 3).await;
    assert!(one.client.leases_over().is_empty());
    one.way.is_cut.store(true, Ordering::Relaxed);
    one.client.closed_by(one.ino, 1).await;
    assert_eq!(two.lock(exclusive(1)).await, REFUSED, "the tree could not be told");
    one.way.is_cut.store(false, Ordering::Relaxed);
    volume.env.sleep(KEEPALIVE * 2).await;
    two.lock(exclusive(1)).await.unwrap();
    keeps.abort();
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_under_way_when_the_locks_went_is_refused() {
    let volume = Volume::new();
    let one = volume.user().await;
    one.lock(exclusive(1)).await.unwrap();
    assert!(one.client.leases_over().is_empty());
    volume.lose_locks_of(&one);
    let lost = Err(ClientError::Meta(MetaError::LocksLost));
    assert_eq!(one.write(APPEND, b"late").await, lost, "by the tree");
    assert_eq!(one.write(APPEND, b"late").await, lost, "by the client");
    one.client.closed_by(one.ino, 1).await;
    one.write(APPEND, b"new").await.unwrap();
    assert_eq!(one.content().await.unwrap(), b"new");
}

#[tokio::test(start_paused = true)]
async fn appends_of_several_clients_are_all_there_once_and_in_order() {
    let volume = Volume::new();
    let users = [volume.user().await, volume.user().await, volume.user().await];
    // The first appends go to space that has been allocated.
    users[0].client.fallocate(users[0].ino, 0, 100_000, Allocation::Plain, true).await.unwrap();
    let appends = async |name: char, user: &User| {
        for number in 0..60 {
            let record = format!("{name} {number} {}\n", "x".repeat(number * 131 % 3000));
            user.write(APPEND, record.as_bytes()).await.unwrap();
        }
    };
    tokio::join!(appends('a', &users[0]), appends('b', &users[1]), appends('c', &users[2]));
    let content = String::from_utf8(users[0].client.read(users[0].ino, 0, 1 << 22).await.unwrap().into()).unwrap();
    for name in ["a", "b", "c"] {
        let records: Vec<&str> = content.lines().filter(|line| line.starts_with(name)).collect();
        let expected: Vec<String> =
            (0..60).map(|number| format!("{name} {number} {}", "x".repeat(number * 131 % 3000))).collect();
        assert_eq!(records, expected);
    }
    assert_eq!(content.lines().count(), 180);
    assert!(users.iter().all(|user| !user.client.locks.has_some()), "the end is free");
}

#[tokio::test(start_paused = true)]
async fn writes_of_two_clients_into_one_hole_both_stay() {
    let volume = Volume::new();
    let (one, two) = (volume.user().await, volume.user().await);
    let size = AttributeChange { size: Some(20_000), ..AttributeChange::default() };
    one.client.setattr(one.ino, size).await.unwrap();
    let writes = async |user: &User, first: u64, byte: u8| {
        for offset in (first..20_000).step_by(200) {
            user.write(WriteAt { offset, ..WriteAt::default() }, &[byte; 100]).await.unwrap();
        }
    };
    tokio::join!(writes(&one, 0, 1), writes(&two, 100, 2));
    let expected: Vec<u8> = (0..20_000).map(|at| if at % 200 < 100 { 1 } else { 2 }).collect();
    assert_eq!(two.content().await.unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_client_does_not_write_into_what_another_has_cut() {
    let volume = Volume::new();
    let (one, two) = (volume.user().await, volume.user().await);
    one.write(APPEND, &[1; 6000]).await.unwrap();
    let size = AttributeChange { size: Some(5000), ..AttributeChange::default() };
    two.client.setattr(two.ino, size).await.unwrap();
    // The node gives back what was cut only now, to the end of its block.
    one.write(APPEND, &[2; 100]).await.unwrap();
    let Ok(Found::Freed(freed)) = volume.tree.query(Query::Freed { partition: 0, after: 0, most: 10 }).await.unwrap() else {
        panic!()
    };
    for piece in freed {
        let crate::meta::FreedPiece::Range { extent, offset, len } = piece.what else { panic!() };
        crate::data::Extents::punch(&*volume.data, extent, offset, len).await.unwrap();
    }
    assert_eq!(one.content().await.unwrap(), [vec![1; 5000], vec![2; 100]].concat());
}
