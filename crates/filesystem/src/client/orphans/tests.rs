use std::sync::Arc;

use env::Env;
use net::BoxFuture;

use super::*;
use crate::client::{New, Owner};
use crate::data::memory::MemoryPartition;
use crate::meta::local::LocalPartition;
use crate::meta::{Answer, Envelope, Kind, MetaCallError, MetaPartition, Reply};

#[tokio::test]
async fn what_another_session_removed_is_freed_when_no_session_has_it_open() {
    let (meta, data) = (Arc::new(LocalPartition::default()), Arc::new(MemoryPartition::new(1 << 20)));
    let connect = || Client::connect(meta.clone(), data.clone(), Env::real());
    let (one, other) = (connect().await.unwrap(), connect().await.unwrap());
    let owner = Owner { uid: 0, gid: 0 };
    let new = New { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, owner };
    let entry = one.make(Ino::ROOT, b"f", new).await.unwrap();
    other.unlink(Ino::ROOT, b"f").await.unwrap();
    let mut unused = one.tell_orphans(&BTreeSet::new()).await.unwrap();
    assert!(unused.is_empty(), "it is in use");
    assert_eq!(one.getattr(entry.0.ino).await.unwrap().nlink, 0);
    assert_eq!(one.forget(entry.0.ino, 1), Some(entry.0.ino));
    for told in [false, true] {
        one.getattr(entry.0.ino).await.unwrap();
        unused = one.tell_orphans(&unused).await.unwrap();
        assert_eq!(unused.is_empty(), told);
    }
    assert_eq!(one.getattr(entry.0.ino).await, Err(crate::meta::MetaError::Stale.into()));
}

/// A tree that notes how many inodes each command told as not open.
#[derive(Default)]
struct Noting {
    tree: LocalPartition,
    told: Mutex<Vec<usize>>,
}

impl MetaPartition for Noting {
    fn command(&self, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        if let Command::NotOpen { inos } = &envelope.command {
            self.told.lock().push(inos.len());
        }
        self.tree.command(envelope)
    }

    fn query(&self, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        self.tree.query(query)
    }
}

#[tokio::test]
async fn what_the_kernel_drops_within_a_moment_is_told_at_once() {
    let (meta, data) = (Arc::new(Noting::default()), Arc::new(MemoryPartition::new(1 << 20)));
    let client = Client::connect(meta.clone(), data, Env::real()).await.unwrap();
    let owner = Owner { uid: 0, gid: 0 };
    let mut inos = Vec::new();
    for name in [b"a", b"b", b"c"] {
        let new = New { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, owner };
        inos.push(client.make(Ino::ROOT, name, new).await.unwrap().0.ino);
        client.unlink(Ino::ROOT, name).await.unwrap();
    }
    for ino in &inos {
        client.tell_dropped(client.forget(*ino, 1).expect("it has no name"));
    }
    let all_are_freed = async {
        for ino in &inos {
            while client.getattr(*ino).await.is_ok() {
                client.commands.env().sleep(Duration::from_millis(1)).await;
            }
        }
    };
    tokio::select! {
        () = client.keep_telling() => unreachable!("for as long as the session lives"),
        () = all_are_freed => {}
    }
    assert_eq!(*meta.told.lock(), [inos.len()]);
}
