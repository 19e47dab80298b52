use std::sync::Arc;

use env::Env;

use super::*;
use crate::client::{New, Owner};
use crate::data::memory::MemoryPartition;
use crate::meta::Kind;
use crate::meta::local::LocalPartition;

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
