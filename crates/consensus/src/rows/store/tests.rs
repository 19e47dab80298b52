use kv::MemoryKv;

use super::*;
use crate::id::{LogIndex, LogPosition, NodeId, Term};
use crate::record::Membership;

const GROUP: GroupId = GroupId(0x0102);

fn position(term: u64, index: u64) -> LogPosition {
    LogPosition { term: Term(term), index: LogIndex(index) }
}

fn summary(index: u64) -> SnapshotSummary {
    let membership = Membership { voters: vec![vec![NodeId(1)]], members: vec![(NodeId(1), "a".to_owned())] };
    SnapshotSummary { last: Some(position(2, index)), membership_at: Some(position(1, 1)), membership }
}

fn store() -> (Arc<dyn Kv>, RowStore) {
    let kv: Arc<dyn Kv> = Arc::new(MemoryKv::new());
    let store = RowStore::open(&kv, GROUP).unwrap();
    (kv, store)
}

fn change(key: &str, value: Option<&str>) -> RowChange {
    (key.into(), value.map(Into::into))
}

fn all(kv: &dyn Kv) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    kv.scan(Bound::Unbounded, Bound::Unbounded, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

#[test]
fn golden_bytes_of_a_header_and_of_a_row() {
    let (kv, store) = store();
    assert!(store.save(1, summary(9), vec![change("key", Some("value"))]).unwrap());
    let header = vec![1, 1, 1, 2, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1, b'a'];
    let group = [0, 0, 0, 0, 0, 0, 1, 2];
    let key = |generation: u8, key: &[u8]| [&group[..], &[0, 0, 0, 0, 0, 0, 0, generation], key].concat();
    assert_eq!(all(kv.as_ref()), [(key(0, b""), header), (key(1, b"key"), b"value".to_vec())]);
}

#[test]
fn headers_that_are_none_are_refused_by_name() {
    let (kv, store) = store();
    for (bytes, reason) in [(vec![2, 1], "version Some(2)"), (vec![], "version None"), (vec![1], "end of buffer")] {
        let mut batch = Batch::new();
        batch.put(key_of(GROUP, HEADER, &[]), bytes);
        kv.commit(batch).unwrap();
        let refused = store.snapshot().err().unwrap().to_string();
        assert!(refused.contains("the header of group") && refused.contains(reason), "{refused}");
    }
}

#[test]
fn changes_of_a_generation_that_was_replaced_are_not_written() {
    let (kv, store) = store();
    store.save(1, summary(9), vec![change("a", Some("old")), change("b", Some("old"))]).unwrap();
    store.put_next(2, vec![(b"a".to_vec(), b"new".to_vec())]).unwrap();
    store.switch(2, summary(20)).unwrap();
    // A snapshot of this member that was being made when the leader's came.
    assert!(!store.save(1, summary(12), vec![change("b", Some("late"))]).unwrap());
    let rows = store.snapshot().unwrap().unwrap();
    assert_eq!(rows.summary, summary(20));
    let mut seen = Vec::new();
    rows.slices(&mut |slice| {
        seen.extend(slice);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(seen, [(b"a".to_vec(), b"new".to_vec())]);
    store.give_up_others().unwrap();
    assert_eq!(all(kv.as_ref()).len(), 2, "the header and one row");
    assert_eq!(RowStore::open(&kv, GROUP).unwrap().generation(), 2);
}
