//! Clients of a volume of several trees in memory: names, sessions, locks, and what is summed up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use env::Env;
use net::BoxFuture;

use super::*;
use crate::client::{CallId, New, OpenFlags, Opening, Owner, WriteAt, in_call};
use crate::data::memory::MemoryPartition;
use crate::ids::Ino;
use crate::meta::limits::LOCK_LEASE;
use crate::meta::local::LocalTrees;
use crate::meta::{
    Answer, Envelope, Kind, Lock, LockFamily, LockOwner, LockRange, MetaCallError, MetaSession, MetaTrees, Query, RenameHow,
    Reply, Time,
};

const OWNER: Owner = Owner { uid: 0, gid: 0 };
const FILE: New = New { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, owner: OWNER };
const FOLDER: New = New { kind: Kind::Directory, ..FILE };
const APPEND: WriteAt = WriteAt { offset: 0, append: true, from_cache: false, kills_set_ids: false };

/// The way of one client to trees that several share.
struct Way {
    trees: Arc<LocalTrees>,
    queries: AtomicU32,
    opened: AtomicU32,
    /// Trees that do not answer, a bit for each.
    cut: AtomicU64,
}

impl Way {
    fn check(&self, tree: TreeIndex) -> Result<(), MetaCallError> {
        match self.cut.load(Ordering::Relaxed) >> tree.0 & 1 {
            0 => Ok(()),
            _ => Err(MetaCallError::Unavailable("the way is cut".to_owned())),
        }
    }
}

impl MetaTrees for Way {
    fn count(&self) -> u16 {
        self.trees.count()
    }

    fn command_at(&self, tree: TreeIndex, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        Box::pin(async move {
            self.check(tree)?;
            if matches!(envelope.command, Command::OpenSession { .. }) {
                self.opened.fetch_add(1, Ordering::Relaxed);
            }
            self.trees.command_at(tree, envelope).await
        })
    }

    fn query_at(&self, tree: TreeIndex, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        Box::pin(async move {
            self.check(tree)?;
            self.queries.fetch_add(1, Ordering::Relaxed);
            self.trees.query_at(tree, query).await
        })
    }
}

fn recorded(record: &std::fs::File) -> Opening {
    Opening { record: Some(record.try_clone().unwrap()), is_exclusive: false }
}

struct Volume {
    trees: Arc<LocalTrees>,
    data: Arc<MemoryPartition>,
    env: Env,
}

impl Volume {
    fn new(trees: u16) -> Volume {
        let (trees, data) = (Arc::new(LocalTrees::new(trees)), Arc::new(MemoryPartition::new(64 << 20)));
        Volume { trees, data, env: Env::simulated(1) }
    }

    fn way(&self) -> Arc<Way> {
        let (queries, opened, cut) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU64::new(0));
        Arc::new(Way { trees: self.trees.clone(), queries, opened, cut })
    }

    async fn user(&self) -> (Arc<Way>, Arc<Client>) {
        let way = self.way();
        let client = Client::connect(way.clone(), self.data.clone(), self.env.clone()).await.unwrap();
        (way, client)
    }

    /// What the leader of a tree does.
    fn order(&self, tree: u16, session: MetaSession, command: Command) {
        let now = Time::default();
        let envelope = Envelope { session, sequence: 0, answered_below: 0, now, locks_lost: 0, command };
        self.trees.all()[usize::from(tree)].0.lock().carry_out(&envelope).unwrap();
    }
}

/// A directory in this tree, at this name of the root.
async fn folder_in(client: &Client, tree: u16, name: &str) -> Ino {
    loop {
        let made = client.make(Ino::ROOT, name.as_bytes(), FOLDER).await.unwrap().0.ino;
        if made.tree().0 == tree {
            return made;
        }
        client.rmdir(Ino::ROOT, name.as_bytes()).await.unwrap();
    }
}

async fn file_in(client: &Client, folder: Ino, name: &str) -> (Ino, crate::client::FileHandle) {
    let (entry, handle) = client.create(folder, name.as_bytes(), FILE, OpenFlags::default()).await.unwrap();
    assert_eq!(entry.0.ino.tree(), folder.tree(), "a file is with its directory");
    (entry.0.ino, handle)
}

#[tokio::test(start_paused = true)]
async fn names_lead_to_other_trees_and_back() {
    let volume = Volume::new(3);
    let (way, client) = volume.user().await;
    let mut folders = Vec::new();
    for (tree, name) in [(0, "a"), (1, "b"), (2, "c"), (1, "d"), (2, "e")] {
        folders.push(folder_in(&client, tree, name).await);
    }
    file_in(&client, Ino::ROOT, "file").await;
    way.queries.store(0, Ordering::Relaxed);
    let listed = client.readdir_plus(Ino::ROOT, 0, 100).await.unwrap();
    assert_eq!(way.queries.load(Ordering::Relaxed), 1 + 1 + 2, "the parent, the names, and one of each other tree");
    let names = listed.iter().filter(|entry| entry.attributes.is_some());
    let named: BTreeSet<(&[u8], Ino)> = names.map(|entry| (&entry.name[..], entry.ino)).collect();
    assert_eq!(named.len(), 6);
    for (folder, name) in folders.iter().zip(["a", "b", "c", "d", "e"]) {
        assert!(named.contains(&(name.as_bytes(), *folder)));
        let found = client.lookup(Ino::ROOT, name.as_bytes()).await.unwrap().0;
        assert_eq!((found.ino, found.is_shared), (*folder, false));
        assert_eq!(client.lookup(*folder, b"..").await.unwrap().0.ino, Ino::ROOT);
    }
    // A file with names in two trees, which loses the one in its own.
    let (ino, handle) = file_in(&client, folders[1], "one").await;
    client.release(ino, handle, None).await;
    assert_eq!(client.link(ino, folders[2], b"two").await.unwrap().0.nlink, 2);
    client.unlink(folders[1], b"one").await.unwrap();
    let found = client.lookup(folders[2], b"two").await.unwrap().0;
    assert_eq!((found.ino, found.nlink), (ino, 1));
    client.rename((folders[2], b"two"), (Ino::ROOT, b"three"), RenameHow::NoReplace).await.unwrap();
    client.rename((Ino::ROOT, b"c"), (folders[1], b"c"), RenameHow::Replace).await.unwrap();
    assert_eq!(client.lookup(folders[2], b"..").await.unwrap().0.ino, folders[1]);
    let below = client.rename((Ino::ROOT, b"b"), (folders[2], b"b"), RenameHow::Replace).await;
    assert_eq!(below, Err(MetaError::Below.into()));
    client.unlink(Ino::ROOT, b"three").await.unwrap();
    assert_eq!(client.forget(ino, 3), Some(ino), "its last name is gone");
    client.not_open(vec![ino]).await;
    assert_eq!(client.getattr(ino).await, Err(MetaError::Stale.into()));
}

#[tokio::test(start_paused = true)]
async fn what_others_do_with_a_name_elsewhere_is_seen() {
    let volume = Volume::new(3);
    let ((_, one), (_, other)) = (volume.user().await, volume.user().await);
    let folder = folder_in(&one, 1, "d").await;
    assert!(one.lookup(Ino::ROOT, b"d").await.unwrap().0.is_shared);
    other.rmdir(Ino::ROOT, b"d").await.unwrap();
    assert_eq!(one.lookup(Ino::ROOT, b"d").await, Err(MetaError::NotFound.into()));
    assert_eq!(one.make(folder, b"f", FILE).await, Err(MetaError::NotFound.into()), "it was removed");
    assert_eq!(one.getattr(folder).await.unwrap().nlink, 0, "this one may have it open");
}

#[tokio::test(start_paused = true)]
async fn a_name_whose_inode_goes_meanwhile_is_asked_for_again() {
    let volume = Volume::new(2);
    let (_, client) = volume.user().await;
    let old = folder_in(&client, 1, "d").await;
    // The tree of the names says what it said before the removal, once.
    let late = Late { trees: volume.trees.clone(), said: parking_lot::Mutex::new(Some(old)) };
    let other = Client::connect(Arc::new(late), volume.data.clone(), volume.env.clone()).await.unwrap();
    client.rmdir(Ino::ROOT, b"d").await.unwrap();
    let new = folder_in(&client, 1, "d").await;
    assert_eq!(other.lookup(Ino::ROOT, b"d").await.unwrap().0.ino, new);
}

/// A way by which the first answer about a name is late.
struct Late {
    trees: Arc<LocalTrees>,
    said: parking_lot::Mutex<Option<Ino>>,
}

impl MetaTrees for Late {
    fn count(&self) -> u16 {
        self.trees.count()
    }

    fn command_at(&self, tree: TreeIndex, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        self.trees.command_at(tree, envelope)
    }

    fn query_at(&self, tree: TreeIndex, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        let late = matches!(query, Query::Lookup { .. }).then(|| self.said.lock().take()).flatten();
        match late {
            Some(ino) => Box::pin(async move { Ok(Ok(crate::meta::Found::Elsewhere { ino, is_shared: true })) }),
            None => self.trees.query_at(tree, query),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_trees_have_is_summed_up_and_orphans_of_all_are_told() {
    let volume = Volume::new(3);
    let ((way, one), (_, other)) = (volume.user().await, volume.user().await);
    let mut files = Vec::new();
    for (tree, name) in [(1, "b"), (2, "c")] {
        let folder = folder_in(&one, tree, name).await;
        let (ino, handle) = file_in(&one, folder, "f").await;
        one.write(ino, APPEND, Bytes::from_static(&[1; 5000])).await.unwrap();
        one.release(ino, handle, None).await;
        files.push((folder, ino));
    }
    let state = one.statfs().await.unwrap();
    assert_eq!(state.inodes - state.free_inodes, 5, "the root, two folders and two files");
    for (folder, ino) in &files {
        other.unlink(*folder, b"f").await.unwrap();
        assert_eq!(one.forget(*ino, 1), None, "that it has no name is not known here");
    }
    let mut unused = one.tell_orphans(&BTreeSet::new()).await.unwrap();
    assert_eq!(unused.len(), 2);
    // The orphans of a tree that answers do not wait for another tree.
    way.cut.store(1 << 1, Ordering::Relaxed);
    unused = one.tell_orphans(&unused).await.unwrap();
    assert_eq!(unused, BTreeSet::from([files[0].1]));
    assert_eq!(one.getattr(files[1].1).await, Err(MetaError::Stale.into()));
    way.cut.store(0, Ordering::Relaxed);
    assert!(one.tell_orphans(&unused).await.unwrap().is_empty());
    assert_eq!(one.getattr(files[0].1).await, Err(MetaError::Stale.into()));
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_comes_is_opened_before_its_first_use_and_never_twice() {
    let volume = Volume::new(2);
    let record = tempfile::tempfile().unwrap();
    let way = volume.way();
    let connected = Client::connect_as(way.clone(), volume.data.clone(), volume.env.clone(), recorded(&record));
    let client = connected.await.unwrap();
    assert_eq!((way.opened.load(Ordering::Relaxed), client.commands.opened()), (2, 2));
    let (_, other) = volume.user().await;
    volume.trees.add();
    let before = volume.env.now();
    let folder = folder_in(&other, 2, "c").await;
    file_in(&other, folder, "f").await;
    assert_eq!(volume.env.now(), before, "it is the first at the new tree");
    client.lookup(folder, b"f").await.unwrap();
    assert_eq!((way.opened.load(Ordering::Relaxed), client.commands.opened()), (3, 3));
    assert!(volume.env.now() >= before + OTHERS_LEARN, "another one uses it");
    drop(client);
    // The next process knows where the session is.
    let way = volume.way();
    let next = Client::resume(way.clone(), volume.data.clone(), volume.env.clone(), record).unwrap();
    next.ask_kernel(Box::new(|_| true));
    next.lookup(folder, b"f").await.unwrap();
    volume.trees.add();
    let keeps = tokio::spawn({
        let next = next.clone();
        async move { next.keep_telling().await }
    });
    volume.env.sleep(LOOK * 2).await;
    assert_eq!((way.opened.load(Ordering::Relaxed), next.commands.opened()), (1, 4), "the fourth alone, which is new");
    keeps.abort();
    // A tree that has ended the session is not asked to begin it anew.
    volume.order(2, next.session(), Command::CloseSession);
    assert_eq!(next.make(folder, b"g", FILE).await, Err(MetaError::NoSession.into()));
    assert!(next.has_ended());
    other.close().await.unwrap();
    for tree in volume.trees.all() {
        assert!(tree.0.lock().sessions().all(|session| session != other.session()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_an_earlier_process_is_asked_for_where_it_was_sent() {
    let volume = Volume::new(3);
    let record = tempfile::tempfile().unwrap();
    let first = Client::connect_as(volume.way(), volume.data.clone(), volume.env.clone(), recorded(&record));
    let first = first.await.unwrap();
    let folder = folder_in(&first, 2, "c").await;
    let (ino, _) = file_in(&first, folder, "f").await;
    let append = |client: &Arc<Client>| {
        let client = client.clone();
        in_call(CallId(8), async move { client.write(ino, APPEND, Bytes::from_static(b"once")).await })
    };
    append(&first).await.unwrap();
    let made = in_call(CallId(10), first.make(folder, b"d", FOLDER)).await.unwrap().0.ino;
    drop(first);
    for _process in 0..2 {
        let next = Client::resume(volume.way(), volume.data.clone(), volume.env.clone(), record.try_clone().unwrap()).unwrap();
        next.ask_kernel(Box::new(|_| true));
        append(&next).await.unwrap();
        assert_eq!(next.read(ino, 0, 100).await.unwrap(), &b"once"[..]);
        assert_eq!(in_call(CallId(10), next.make(folder, b"d", FOLDER)).await.unwrap().0.ino, made);
    }
}

fn exclusive(number: u64) -> Lock {
    let owner = LockOwner { family: LockFamily::Fcntl, number };
    Lock { owner, range: LockRange::ALL, is_exclusive: true, pid: 0 }
}

#[tokio::test(start_paused = true)]
async fn a_tree_takes_its_own_locks_and_a_client_relies_on_none_of_a_tree_that_is_away() {
    let volume = Volume::new(3);
    let ((way, one), (_, other)) = (volume.user().await, volume.user().await);
    let mut files = Vec::new();
    for (tree, name) in [(1, "b"), (2, "c")] {
        let folder = folder_in(&one, tree, name).await;
        let (ino, handle) = file_in(&one, folder, "f").await;
        one.lock(ino, handle, exclusive(1)).await.unwrap();
        files.push((ino, handle));
    }
    let (third, _) = file_in(&one, Ino::ROOT, "f").await;
    let append = async |ino: Ino| one.write(ino, APPEND, Bytes::from_static(b"x")).await.map(drop);
    // A lock of one file may keep others from each file.
    way.cut.store(1 << 1, Ordering::Relaxed);
    append(third).await.unwrap();
    volume.env.sleep(LOCK_LEASE).await;
    let cut = Err(MetaCallError::Unavailable("the way is cut".to_owned()).into());
    assert_eq!((append(files[1].0).await, append(third).await), (cut.clone(), cut));
    volume.order(1, MetaSession::LEADER, Command::LoseLocks { session: one.session() });
    way.cut.store(0, Ordering::Relaxed);
    let lost = Err(ClientError::Meta(MetaError::LocksLost));
    assert_eq!(append(files[0].0).await, lost);
    append(files[1].0).await.unwrap();
    append(third).await.unwrap();
    assert_eq!(other.lock(files[1].0, files[1].1, exclusive(2)).await.map(drop), Err(MetaError::Locked.into()), "it is kept");
    other.lock(files[0].0, files[0].1, exclusive(2)).await.unwrap();
    one.closed_by(files[0].0, 1).await;
    append(files[0].0).await.unwrap();
}

/// Two clients with random names; what is left has an inode for each name, and the other way round.
#[tokio::test(start_paused = true)]
async fn two_clients_leave_whole_trees() {
    let volume = Volume::new(3);
    let users = [volume.user().await.1, volume.user().await.1];
    let folders = [folder_in(&users[0], 0, "a").await, folder_in(&users[0], 1, "b").await, folder_in(&users[0], 2, "c").await];
    let works = users.iter().map(async |client| {
        let (mut done, any) = (0, |limit| volume.env.random_below(limit) as usize);
        for _ in 0..400 {
            let names: [&[u8]; 3] = [b"x", b"y", b"z"];
            let (one, two) = ((folders[any(3)], names[any(3)]), (folders[any(3)], names[any(3)]));
            let outcome = match any(6) {
                0 => client.make(one.0, one.1, FOLDER).await.map(drop),
                1 => client.make(one.0, one.1, FILE).await.map(drop),
                2 => client.unlink(one.0, one.1).await,
                3 => client.rmdir(one.0, one.1).await,
                4 => match client.lookup(one.0, one.1).await {
                    Ok(found) => client.link(found.0.ino, two.0, two.1).await.map(drop),
                    Err(error) => Err(error),
                },
                _ => client.rename(one, two, [RenameHow::Replace, RenameHow::Exchange][any(2)]).await,
            };
            done += u32::from(outcome.is_ok());
            assert!(outcome.as_ref().err().is_none_or(|error| !error.is_failure()), "{outcome:?}");
        }
        done
    });
    let done: u32 = join_all(works).await.into_iter().sum();
    assert!(done > 200, "{done}");
    let [one, two] = users;
    two.close().await.unwrap();
    let (mut left, mut names) = (vec![Ino::ROOT], BTreeSet::from([Ino::ROOT]));
    while let Some(folder) = left.pop() {
        for entry in one.readdir_plus(folder, 2, 100).await.unwrap() {
            let inode = entry.attributes.expect("a name has an inode");
            names.insert(inode.ino);
            if inode.kind == Kind::Directory {
                assert_eq!(one.lookup(inode.ino, b"..").await.unwrap().0.ino, folder);
                left.push(inode.ino);
            }
        }
    }
    let session = one.session();
    one.close().await.unwrap();
    volume.order(0, session, Command::CloseSession);
    let inodes: u64 = volume.trees.all().iter().map(|tree| tree.0.lock().usage().inodes).sum();
    assert_eq!(inodes, names.len() as u64, "an inode without a name");
    for tree in volume.trees.all() {
        let tree = tree.0.lock();
        assert_eq!((tree.prepared().len(), tree.decided().len()), (0, 0));
    }
}

impl Volume {
    async fn exclusive(&self) -> Result<Arc<Client>, ClientError> {
        let opening = Opening { record: None, is_exclusive: true };
        Client::connect_as(self.way(), self.data.clone(), self.env.clone(), opening).await
    }

    fn sessions(&self, tree: u16) -> usize {
        self.trees.all()[usize::from(tree)].0.lock().sessions().count()
    }
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_session_keeps_others_out_of_all_trees() {
    let volume = Volume::new(3);
    let alone = volume.exclusive().await.unwrap();
    let refused = Client::connect(volume.way(), volume.data.clone(), volume.env.clone()).await.err();
    assert_eq!(refused, Some(MetaError::HeldAlone.into()));
    assert_eq!(volume.exclusive().await.err(), Some(MetaError::HeldAlone.into()));
    volume.trees.add();
    let folder = folder_in(&alone, 3, "d").await;
    file_in(&alone, folder, "f").await;
    assert_eq!((0..4).map(|tree| volume.sessions(tree)).collect::<Vec<_>>(), [1; 4]);
    alone.close().await.unwrap();
    let (_, one) = volume.user().await;
    assert_eq!(volume.exclusive().await.err(), Some(MetaError::InUse.into()));
    one.close().await.unwrap();
    volume.exclusive().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_session_that_a_later_tree_refuses_leaves_nothing_behind() {
    let volume = Volume::new(3);
    let left = MetaSession(9);
    volume.order(2, left, Command::OpenSession { is_exclusive: false });
    assert_eq!(volume.exclusive().await.err(), Some(MetaError::InUse.into()));
    assert_eq!([volume.sessions(0), volume.sessions(1), volume.sessions(2)], [0, 0, 1]);
    // What an earlier process has left is ended by its number, and one that ends late is waited for.
    Client::end_session(volume.way(), volume.env.clone(), left).await.unwrap();
    volume.order(2, left, Command::OpenSession { is_exclusive: false });
    let end = async {
        volume.env.sleep(Duration::from_millis(300)).await;
        volume.order(2, left, Command::CloseSession);
    };
    let (alone, ()) = tokio::join!(volume.exclusive(), end);
    assert!(alone.unwrap().is_exclusive());
}

/// Else a write in place would come into files of the mount that has the volume since.
#[tokio::test(start_paused = true)]
async fn an_exclusive_client_that_was_cut_off_writes_nothing_into_files_of_the_next() {
    let volume = Volume::new(1);
    let first = volume.exclusive().await.unwrap();
    let (ino, _) = file_in(&first, Ino::ROOT, "f").await;
    let write = |seed: u8| Bytes::from(vec![seed; 5000]);
    first.write(ino, WriteAt::default(), write(1)).await.unwrap();
    volume.order(0, first.session(), Command::CloseSession);
    let next = volume.exclusive().await.unwrap();
    volume.env.sleep(LOCK_LEASE).await;
    assert_eq!(first.write(ino, WriteAt::default(), write(2)).await, Err(MetaError::NoSession.into()));
    assert!(first.has_ended());
    assert_eq!(next.read(ino, 0, 5000).await.unwrap(), write(1));
}

#[tokio::test(start_paused = true)]
async fn the_next_process_of_an_exclusive_client_is_exclusive_too() {
    let (volume, record) = (Volume::new(2), tempfile::tempfile().unwrap());
    let opening = Opening { is_exclusive: true, ..recorded(&record) };
    let first = Client::connect_as(volume.way(), volume.data.clone(), volume.env.clone(), opening).await.unwrap();
    let next = Client::resume(volume.way(), volume.data.clone(), volume.env.clone(), record).unwrap();
    assert!(next.is_exclusive() && next.session() == first.session());
    volume.trees.add();
    let folder = folder_in(&next, 2, "d").await;
    file_in(&next, folder, "f").await;
    assert_eq!(volume.sessions(2), 1);
    let refused = Client::connect(volume.way(), volume.data.clone(), volume.env.clone()).await.err();
    assert_eq!(refused, Some(MetaError::HeldAlone.into()));
}
