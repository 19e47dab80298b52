//! Both implementations against an ordered map, and what survives.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof};
use proptest::{prop_assert_eq, proptest};

use super::{
    Batch, CommitError, FjallKv, Kv, KvRead, MAX_KEY_BYTES, MAX_VALUE_BYTES, MemoryKv, PersistError, ReadError, prefix_end,
};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// What the model held when both stores took a snapshot.
struct Moment {
    expected: Pairs,
    fjall: Box<dyn KvRead>,
    memory: Box<dyn KvRead>,
}

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    Persist,
    Snapshot,
    Scan(Bound<Vec<u8>>, Bound<Vec<u8>>, usize),
    Prefix(Vec<u8>),
    Reopen,
}

/// Short keys over a small alphabet, with 0x00 and 0xff among it, so that prefixes and neighbours collide.
fn key() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(0u8), Just(1), Just(b'a'), Just(0xfe), Just(0xff)], 1..4)
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![key().prop_map(Bound::Included), key().prop_map(Bound::Excluded), Just(Bound::Unbounded)]
}

fn step() -> impl Strategy<Value = Step> {
    let change = (key(), prop_oneof![3 => vec(any::<u8>(), 0..9).prop_map(Some), 1 => Just(None)]);
    prop_oneof![
        6 => vec(change, 0..5).prop_map(Step::Commit),
        1 => Just(Step::Persist),
        1 => Just(Step::Snapshot),
        2 => (bound(), bound(), 0usize..6).prop_map(|(start, end, most)| Step::Scan(start, end, most)),
        2 => vec(prop_oneof![Just(0u8), Just(b'a'), Just(0xff)], 0..3).prop_map(Step::Prefix),
        1 => Just(Step::Reopen),
    ]
}

fn batch_of(changes: &[(Vec<u8>, Option<Vec<u8>>)]) -> Batch {
    let mut batch = Batch::new();
    for (key, value) in changes {
        match value {
            Some(value) => batch.put(key.clone(), value.clone()),
            None => batch.remove(key.clone()),
        }
    }
    batch
}

fn all(store: &dyn KvRead) -> Pairs {
    let mut pairs = Pairs::new();
    let mut push = |key: &[u8], value: &[u8]| {
        pairs.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    store.scan(Bound::Unbounded, Bound::Unbounded, &mut push).unwrap();
    pairs
}

fn prefixed(store: &dyn KvRead, prefix: &[u8]) -> Pairs {
    let mut pairs = Pairs::new();
    let mut push = |key: &[u8], value: &[u8]| {
        pairs.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    store.scan_prefix(prefix, &mut push).unwrap();
    pairs
}

fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// At most `most` entries between two bounds; breaks the scan after the last of them.
fn some(store: &dyn KvRead, start: &Bound<Vec<u8>>, end: &Bound<Vec<u8>>, most: usize) -> Pairs {
    let mut pairs = Pairs::new();
    let mut push = |key: &[u8], value: &[u8]| {
        pairs.push((key.to_vec(), value.to_vec()));
        if pairs.len() > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.scan(borrowed(start), borrowed(end), &mut push).unwrap();
    pairs
}

fn expected_between(model: &BTreeMap<Vec<u8>, Vec<u8>>, start: &Bound<Vec<u8>>, end: &Bound<Vec<u8>>, most: usize) -> Pairs {
    let after_start = |key: &Vec<u8>| match start {
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
        Bound::Unbounded => true,
    };
    let before_end = |key: &Vec<u8>| match end {
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
        Bound::Unbounded => true,
    };
    let between = model.iter().filter(|(key, _)| after_start(key) && before_end(key));
    between.take(most + 1).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn cases() -> u32 {
    if std::env::var_os("TRILITH_SOAK").is_some() { 1_000 } else { 40 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// The twin and fjall answer alike, at every step, as an ordered map would, and clean restarts lose nothing.
    #[test]
    fn twin_and_fjall_agree_with_an_ordered_map(steps in vec(step(), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let mut fjall = FjallKv::open(folder.path()).unwrap();
        let mut memory = MemoryKv::new();
        let mut model = BTreeMap::new();
        let mut moments: Vec<Moment> = Vec::new();
        for step in steps {
            match step {
                Step::Commit(changes) => {
                    fjall.commit(batch_of(&changes)).unwrap();
                    memory.commit(batch_of(&changes)).unwrap();
                    for (key, value) in changes {
                        match value {
                            Some(value) => model.insert(key, value),
                            None => model.remove(&key),
                        };
                    }
                }
                Step::Persist => {
                    fjall.persist().unwrap();
                    memory.persist().unwrap();
                }
                Step::Snapshot => {
                    let expected = model.clone().into_iter().collect();
                    moments.push(Moment { expected, fjall: fjall.snapshot().unwrap(), memory: memory.snapshot().unwrap() });
                }
                Step::Scan(start, end, most) => {
                    let expected = expected_between(&model, &start, &end, most);
                    prop_assert_eq!(&some(&fjall, &start, &end, most), &expected);
                    prop_assert_eq!(&some(&memory, &start, &end, most), &expected);
                }
                Step::Prefix(prefix) => {
                    let expected: Pairs = model.clone().into_iter().filter(|(key, _)| key.starts_with(&prefix)).collect();
                    prop_assert_eq!(&prefixed(&fjall, &prefix), &expected);
                    prop_assert_eq!(&prefixed(&memory, &prefix), &expected);
                }
                Step::Reopen => {
                    moments.clear();
                    fjall.persist().unwrap();
                    memory.persist().unwrap();
                    drop(fjall);
                    fjall = FjallKv::open(folder.path()).unwrap();
                    memory = memory.crash();
                }
            }
            for key in [&b"a"[..], &[0], &[0xff, 0xff]] {
                prop_assert_eq!(&fjall.get(key).unwrap(), &model.get(key).cloned());
                prop_assert_eq!(&memory.get(key).unwrap(), &model.get(key).cloned());
            }
        }
        let expected: Pairs = model.into_iter().collect();
        prop_assert_eq!(&all(&fjall), &expected);
        prop_assert_eq!(&all(&memory), &expected);
        for moment in &moments {
            prop_assert_eq!(&all(moment.fjall.as_ref()), &moment.expected);
            prop_assert_eq!(&all(moment.memory.as_ref()), &moment.expected);
        }
    }

    /// A crash leaves exactly the persisted batches and the chosen prefix of the later ones, each whole.
    #[test]
    fn a_crash_leaves_a_prefix_of_whole_batches(
        batches in vec(vec((key(), vec(any::<u8>(), 0..4).prop_map(Some)), 1..4), 1..20),
        persist_after in 0usize..20,
        kept in 0usize..20,
    ) {
        let memory = MemoryKv::new();
        let mut expected = BTreeMap::new();
        for (index, changes) in batches.iter().enumerate() {
            if index == persist_after {
                memory.persist().unwrap();
            }
            memory.commit(batch_of(changes)).unwrap();
            let persisted = if persist_after < batches.len() { persist_after } else { 0 };
            if index < persisted + kept {
                expected.extend(changes.iter().map(|(key, value)| (key.clone(), value.clone().unwrap())));
            }
        }
        let restarted = memory.crash_keeping(kept);
        prop_assert_eq!(all(&restarted), expected.into_iter().collect::<Pairs>());
    }
}

#[test]
fn a_crashed_handle_answers_nothing() {
    let memory = MemoryKv::new();
    memory.commit(batch_of(&[(b"k".to_vec(), Some(b"1".to_vec()))])).unwrap();
    memory.persist().unwrap();
    memory.commit(batch_of(&[(b"k".to_vec(), Some(b"2".to_vec()))])).unwrap();
    assert_eq!(memory.pending_batches(), 1);
    let restarted = memory.crash();
    assert_eq!(restarted.get(b"k").unwrap(), Some(b"1".to_vec()));
    assert!(matches!(memory.get(b"k"), Err(ReadError::Crashed)));
    assert!(matches!(memory.commit(Batch::new()), Err(CommitError::Crashed)));
    assert!(matches!(memory.persist(), Err(PersistError::Crashed)));
    assert!(memory.snapshot().is_err());
}

#[test]
fn a_failed_persist_ends_writing() {
    let memory = MemoryKv::new();
    memory.commit(batch_of(&[(b"k".to_vec(), Some(b"1".to_vec()))])).unwrap();
    memory.fail_next_persist();
    assert!(matches!(memory.persist(), Err(PersistError::Poisoned)));
    assert!(matches!(memory.persist(), Err(PersistError::Poisoned)));
    assert!(matches!(memory.commit(Batch::new()), Err(CommitError::Poisoned)));
    assert_eq!(memory.crash().get(b"k").unwrap(), None);
}

#[test]
fn limits_are_checked_before_anything_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let stores: [Box<dyn Kv>; 2] = [Box::new(MemoryKv::new()), Box::new(FjallKv::open(folder.path()).unwrap())];
    for store in stores {
        for bad in [Vec::new(), vec![1; MAX_KEY_BYTES + 1]] {
            let mut batch = batch_of(&[(b"k".to_vec(), Some(b"1".to_vec()))]);
            batch.remove(bad.clone());
            assert!(matches!(store.commit(batch), Err(CommitError::KeyLength { found }) if found == bad.len()));
        }
        let mut batch = batch_of(&[(b"k".to_vec(), Some(b"1".to_vec()))]);
        batch.put(b"v".to_vec(), vec![0; MAX_VALUE_BYTES + 1]);
        assert!(matches!(store.commit(batch), Err(CommitError::ValueLength { found }) if found == MAX_VALUE_BYTES + 1));
        assert_eq!(store.get(b"k").unwrap(), None);
        let mut longest = Batch::new();
        longest.put(vec![1; MAX_KEY_BYTES], Vec::new());
        store.commit(longest).unwrap();
        assert_eq!(store.get(&vec![1; MAX_KEY_BYTES]).unwrap(), Some(Vec::new()));
    }
}

#[test]
fn a_folder_is_used_by_one_store_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = FjallKv::open(folder.path()).unwrap();
    let refused = FjallKv::open(folder.path()).err().expect("the folder is in use");
    assert!(refused.to_string().contains(&folder.path().display().to_string()), "{refused}");
    drop(first);
    FjallKv::open(folder.path()).unwrap();
}

#[test]
fn the_end_of_a_prefix() {
    assert_eq!(prefix_end(b""), None);
    assert_eq!(prefix_end(&[0xff, 0xff]), None);
    assert_eq!(prefix_end(&[b'a', 0xff]), Some(vec![b'b']));
    assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
}

/// Copies the files of a store that is still open: what a process that is killed now leaves behind.
fn files_left_behind(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            files_left_behind(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_store_says_whether_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = FjallKv::open(folder.path()).unwrap();
    assert!(!store.has_room(usize::MAX), "no file system has that much");
    let store = MemoryKv::new();
    assert!(store.has_room(1));
    store.set_full(true);
    assert!(!store.has_room(1));
    store.set_full(false);
    assert!(store.has_room(1));
}

/// Ten batches, the number of each in it, as owners do with the index that they have applied.
fn numbered_batches(store: &FjallKv) {
    for number in 1..=10u8 {
        let mut batch = Batch::new();
        batch.put(b"applied".to_vec(), vec![number]);
        batch.put(vec![b'k', number], vec![number; 100]);
        store.commit(batch).unwrap();
    }
}

/// The number of the last batch in a store that must hold exactly the batches up to it.
fn last_batch(store: &FjallKv) -> u8 {
    let applied = store.get(b"applied").unwrap().map_or(0, |value| value[0]);
    let expected: Pairs = (1..=applied).map(|number| (vec![b'k', number], vec![number; 100])).collect();
    assert_eq!(prefixed(store, b"k"), expected);
    applied
}

#[test]
fn what_a_persist_covered_survives_a_killed_process() {
    let (folder, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = FjallKv::open(folder.path()).unwrap();
    numbered_batches(&store);
    store.persist().unwrap();
    let copy = copies.path().join("copy");
    files_left_behind(folder.path(), &copy);
    assert_eq!(last_batch(&FjallKv::open(&copy).unwrap()), 10);
}

/// Fjall drops the rest of a journal at a bad record and says nothing. Owners live with it as long as what is left is a prefix of
/// whole batches, because the number in it tells them.
#[test]
fn a_cut_journal_leaves_a_prefix_of_whole_batches() {
    let (folder, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = FjallKv::open(folder.path()).unwrap();
    numbered_batches(&store);
    store.persist().unwrap();
    let mut found = Vec::new();
    for cut in 1..14usize {
        let copy = copies.path().join(cut.to_string());
        files_left_behind(folder.path(), &copy);
        let mut journals = std::fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().path());
        let journal = journals.find(|path| path.extension().is_some_and(|suffix| suffix == "jnl")).unwrap();
        let bytes = std::fs::read(&journal).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        std::fs::write(&journal, &bytes[..end.saturating_sub(111 * cut)]).unwrap();
        found.push(last_batch(&FjallKv::open(&copy).unwrap()));
    }
    assert!(found.is_sorted_by(|more, less| more >= less), "{found:?}");
    assert!(found[0] >= 8 && found[12] <= 2, "{found:?}");
}
