//! Keys, sizes, holes, quotas, what is freed.

use super::*;
use crate::meta::{AttributeChange, Freed, FreedPiece};

fn commit(tree: &mut Tree, ino: Ino, keys: Vec<ExtentKey>) -> Reply {
    tree.commit(ino, keys, None)
}

fn freed(tree: &Tree) -> Vec<FreedPiece> {
    let Ok(Found::Freed(freed)) = tree.machine.query(&Query::Freed { partition: PARTITION, after: 0, most: 100 }) else {
        panic!()
    };
    freed.into_iter().map(|Freed { what, .. }| what).collect()
}

/// As a client that has seen the file now, or with another size.
fn punch(tree: &mut Tree, ino: Ino, range: std::ops::Range<u64>, size: Option<u64>) -> Reply {
    let expects = Expected { cuts: tree.attributes(ino).unwrap().cuts, size };
    tree.run(Command::Punch { ino, offset: range.start, len: range.end - range.start, expects })
}

fn truncate(tree: &mut Tree, ino: Ino, size: u64) -> Reply {
    tree.run(Command::SetAttributes { ino, change: AttributeChange { size: Some(size), ..AttributeChange::default() } })
}

#[test]
fn quotas_count_what_other_trees_have() {
    let mut tree = Tree::new();
    let leader = |tree: &mut Tree, command| {
        let envelope = tree.envelope(command);
        tree.machine.carry_out(&Envelope { session: MetaSession::LEADER, ..envelope }).unwrap();
    };
    leader(&mut tree, Command::SetQuota { bytes: Some(8192), inodes: Some(6) });
    leader(&mut tree, Command::SetElsewhere { bytes: 4097, inodes: 4 });
    let ino = tree.make(Ino::ROOT, "a", Kind::File).unwrap();
    assert_eq!(tree.make(Ino::ROOT, "b", Kind::File), Err(MetaError::Quota));
    assert_eq!(commit(&mut tree, ino, vec![key(0, 1, 0, 4096)]), Err(MetaError::Quota));
    leader(&mut tree, Command::SetElsewhere { bytes: 4096, inodes: 3 });
    commit(&mut tree, ino, vec![key(0, 2, 0, 4096)]).unwrap();
    tree.make(Ino::ROOT, "b", Kind::File).unwrap();
    let usage = tree.machine.usage();
    assert_eq!((usage.bytes, usage.inodes, usage.quota_inodes), (4096, 3, Some(6)), "what this tree has is its own");
}

#[test]
fn keys_join_and_are_freed() {
    let mut tree = Tree::new();
    let ino = tree.make(Ino::ROOT, "a", Kind::File).unwrap();
    commit(&mut tree, ino, vec![key(0, 1, 0, 4096)]).unwrap();
    commit(&mut tree, ino, vec![key(4096, 1, 4096, 100)]).unwrap();
    assert_eq!(tree.keys(ino), [key(0, 1, 0, 4196)]);
    assert_eq!(freed(&tree), []);
    let attributes = tree.attributes(ino).unwrap();
    assert_eq!((attributes.size, attributes.blocks), (4196, 16));
    punch(&mut tree, ino, 0..4096, None).unwrap();
    assert_eq!(tree.keys(ino), [key(4096, 1, 4096, 100)]);
    assert_eq!(tree.attributes(ino).unwrap().size, 4196);
    truncate(&mut tree, ino, 0).unwrap();
    assert_eq!((tree.keys(ino), tree.machine.usage().bytes), (vec![], 0));
    assert_eq!(freed(&tree).len(), 2);
    let behind = tree.machine.query(&Query::Freed { partition: PARTITION, after: 1, most: 100 });
    assert_eq!(behind.map(|found| matches!(found, Found::Freed(freed) if freed.len() == 1)), Ok(true));
    tree.run(Command::ConfirmFreed { partition: PARTITION, up_to: 1 }).unwrap();
    assert_eq!(freed(&tree), [FreedPiece::Range { extent: extent(1), offset: 4096, len: 100 }]);
}

/// One data partition that is away holds up nothing of another.
#[test]
fn what_is_freed_is_a_list_of_each_partition() {
    let mut tree = Tree::new();
    let in_partition = |partition, key: ExtentKey| ExtentKey { extent: ExtentId { partition, ..key.extent }, ..key };
    for (name, partition) in [("a", 300), ("b", 7), ("c", 300)] {
        let ino = tree.make(Ino::ROOT, name, Kind::File).unwrap();
        commit(&mut tree, ino, vec![in_partition(partition, key(0, 1, 0, 4096))]).unwrap();
        truncate(&mut tree, ino, 0).unwrap();
    }
    assert_eq!(tree.machine.freed_partitions(), [7, 300]);
    let numbers = |tree: &Tree, partition, after| match tree.machine.query(&Query::Freed { partition, after, most: 100 }) {
        Ok(Found::Freed(freed)) => freed.into_iter().map(|freed| freed.number).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!((numbers(&tree, 300, 0), numbers(&tree, 300, 1), numbers(&tree, 7, 0)), (vec![1, 3], vec![3], vec![2]));
    tree.run(Command::ConfirmFreed { partition: 300, up_to: 3 }).unwrap();
    assert_eq!((tree.machine.freed_partitions(), numbers(&tree, 7, 0)), (vec![7], vec![2]));
}

#[test]
fn a_hole_in_a_file_that_has_changed_is_refused() {
    let mut tree = Tree::new();
    let ino = tree.make(Ino::ROOT, "a", Kind::File).unwrap();
    commit(&mut tree, ino, vec![key(0, 1, 0, 8000)]).unwrap();
    assert_eq!(punch(&mut tree, ino, 0..8192, Some(5000)), Err(MetaError::Changed), "3,000 bytes have come since");
    assert_eq!(tree.keys(ino), [key(0, 1, 0, 8000)]);
    punch(&mut tree, ino, 4096..8192, Some(8000)).unwrap();
    let expects = Expected::default();
    assert_eq!(tree.run(Command::Punch { ino, offset: 0, len: 4096, expects }), Err(MetaError::Changed), "it was cut since");
    assert_eq!(tree.keys(ino), [key(0, 1, 0, 4096)]);
}

#[test]
fn a_file_that_goes_frees_its_extents() {
    let mut tree = Tree::new();
    let ino = tree.make(Ino::ROOT, "a", Kind::File).unwrap();
    commit(&mut tree, ino, vec![key(0, 1, 0, 10), key(8192, 2, 0, 10), key(1 << 30, 1, 4096, 10)]).unwrap();
    assert_eq!(tree.machine.usage().bytes, 3 * 4096);
    tree.run(Command::Unlink { parent: Ino::ROOT, name: "a".into() }).unwrap();
    assert_eq!(freed(&tree), []);
    tree.run(Command::NotOpen { inos: vec![ino] }).unwrap();
    assert_eq!(freed(&tree), [FreedPiece::Extent(extent(1)), FreedPiece::Extent(extent(2))]);
    assert_eq!(tree.machine.usage().bytes, 0);
    // Contents that come too late are freed as well.
    assert_eq!(commit(&mut tree, ino, vec![key(0, 3, 0, 10)]), Err(MetaError::Stale));
    assert_eq!(freed(&tree)[2], FreedPiece::Range { extent: extent(3), offset: 0, len: 10 });
    let unreferenced = tree.machine.query(&Query::Unreferenced { extents: vec![extent(3), extent(4)] });
    assert_eq!(unreferenced, Ok(Found::Extents(vec![extent(4)])));
}

#[test]
fn quotas_refuse_what_grows_and_nothing_else() {
    let mut tree = Tree::new();
    tree.run(Command::SetQuota { bytes: Some(2 * 4096), inodes: Some(2) }).unwrap();
    let ino = tree.make(Ino::ROOT, "a", Kind::File).unwrap();
    assert_eq!(tree.make(Ino::ROOT, "b", Kind::File), Err(MetaError::Quota));
    commit(&mut tree, ino, vec![key(0, 1, 0, 2 * 4096)]).unwrap();
    assert_eq!(commit(&mut tree, ino, vec![key(8192, 2, 0, 1)]), Err(MetaError::Quota));
    assert_eq!(freed(&tree).len(), 1, "what was written for it is freed");
    // What takes no more blocks is let in, also beyond a quota that was lowered.
    truncate(&mut tree, ino, 100).unwrap();
    tree.run(Command::SetQuota { bytes: Some(0), inodes: None }).unwrap();
    commit(&mut tree, ino, vec![key(100, 1, 100, 100)]).unwrap();
    assert_eq!(tree.machine.usage().bytes, 4096);
}

#[test]
fn keys_that_cannot_be_are_refused() {
    let mut tree = Tree::new();
    let ino = tree.make(Ino::ROOT, "a", Kind::File).unwrap();
    let bad = [
        vec![key(0, 1, 0, 0)],
        vec![key(0, 1, 1, 10)],
        vec![key(100, 1, 100, 10), key(50, 1, 50, 10)],
        vec![key(u64::MAX - 1, 1, 4094, 4096)],
    ];
    for keys in bad {
        assert_eq!(commit(&mut tree, ino, keys.clone()), Err(MetaError::Invalid), "{keys:?}");
    }
    assert_eq!(commit(&mut tree, ino, vec![key(i64::MAX as u64, 1, 4095, 10)]), Err(MetaError::FileTooLong));
    let directory = tree.make(Ino::ROOT, "d", Kind::Directory).unwrap();
    assert_eq!(commit(&mut tree, directory, vec![key(0, 1, 0, 1)]), Err(MetaError::IsDirectory));
    assert_eq!(truncate(&mut tree, ino, u64::MAX), Err(MetaError::FileTooLong));
    assert_eq!(
        tree.run(Command::Punch { ino, offset: u64::MAX, len: 2, expects: Expected::default() }),
        Err(MetaError::Invalid)
    );
}

#[test]
fn times_never_go_back() {
    let mut tree = Tree::new();
    let ino = tree.make(Ino::ROOT, "a", Kind::File).unwrap();
    let before = tree.attributes(ino).unwrap().ctime;
    tree.now = Time { seconds: 5, nanos: 0 };
    truncate(&mut tree, ino, 5).unwrap();
    let after = tree.attributes(ino).unwrap();
    assert_eq!((after.ctime, after.mtime), (before.next(), before.next()));
}

/// Caught: what the file still has was given back, and its content was lost.
#[test]
fn what_is_committed_again_is_not_freed() {
    let mut tree = Tree::new();
    let ino = tree.make(Ino::ROOT, "a", Kind::File).unwrap();
    commit(&mut tree, ino, vec![key(0, 1, 0, 4096)]).unwrap();
    assert_eq!(commit(&mut tree, ino, vec![key(0, 1, 0, 8192)]), Err(MetaError::Changed));
    assert_eq!(freed(&tree), [FreedPiece::Range { extent: extent(1), offset: 4096, len: 4096 }], "only what is new");
    assert_eq!(tree.keys(ino), [key(0, 1, 0, 4096)]);
}

/// Two clients that have seen the same file: what the first has written is not replaced, and no append is lost.
#[test]
fn a_commit_of_what_was_seen_before_another_change_is_refused() {
    let mut tree = Tree::new();
    let ino = tree.make(Ino::ROOT, "a", Kind::File).unwrap();
    tree.commit(ino, vec![key(0, 1, 0, 4096)], Some(0)).unwrap();
    assert_eq!(tree.commit(ino, vec![key(0, 2, 0, 10)], Some(0)), Err(MetaError::Changed), "an append at an old end");
    assert_eq!(commit(&mut tree, ino, vec![key(4000, 2, 4000, 200)]), Err(MetaError::Changed), "over a key of another");
    commit(&mut tree, ino, vec![key(8192, 2, 0, 10)]).unwrap();
    let before = tree.attributes(ino).unwrap();
    truncate(&mut tree, ino, 4096).unwrap();
    let expects = Expected { cuts: before.cuts, size: None };
    let late = Command::Commit { ino, keys: vec![key(4096, 3, 0, 10)], least_size: 8200, kills_set_ids: false, expects };
    assert_eq!(tree.run(late), Err(MetaError::Changed), "what it wrote in place may be cut");
    assert_eq!(tree.attributes(ino).unwrap().size, 4096);
    let end = tree.attributes(ino).unwrap().size;
    tree.commit(ino, vec![key(end, 4, 0, 10)], Some(end)).unwrap();
}
