//! The index without keys, with fingerprints of no bits: whatever is not there is answered with another key's record.

use super::cell_rig::CellRig;
use super::healing::{Rot, rot};
use super::script::{CHUNK, Read, Script};
use super::support::{BUCKET, Rig, attributes, key, records, settle, simulate};
use crate::index::{IndexForm, LudoForm};
use crate::{LogStore, OpenError};
use bytes::Bytes;
use disk::{Fault, FaultOdds, FaultRule, Operation};
use engine::{CompletePart, Condition, ETagMatch, EngineError, ObjectEngine, PartContent, UploadRef};
use format::record::EntryName;
use smallvec::smallvec;
use std::time::Duration;
use types::{Order, UploadId};

const ZONE_BYTES: u64 = 128 * 1024;
const OBJECTS: usize = 600;
/// How often a write is tried again for want of room.
const ATTEMPTS: usize = 100;

/// No fingerprints, and nothing sealed but when the test says so, or at a start.
const ALL_PHANTOMS: IndexForm = IndexForm::Ludo(LudoForm { fingerprint_bits: 0, seal_entries: usize::MAX });

async fn rig_of(seed: u64, devices: u32) -> Rig {
    let mut rig = Rig::new(seed, devices, 60, ZONE_BYTES).await;
    rig.config.index = ALL_PHANTOMS;
    rig
}

/// Writes everything down and seals it.
async fn seal(store: &LogStore) {
    store.inner.checkpoint().await.unwrap();
    let IndexForm::Ludo(form) = store.inner.config.index else { panic!("the full form seals nothing") };
    let _no_checkpoint = store.inner.checkpoints.lock().await;
    let runs = store.inner.names.layers().runs;
    store.inner.seal(form, &runs, &mut |_| {}).await.unwrap();
}

async fn put(store: &LogStore, name: &str, content: &[u8], condition: Condition) -> Result<(), EngineError> {
    let payload = smallvec![Bytes::copy_from_slice(content)];
    store.put(&key(name), attributes(content), payload, condition).await.map(drop)
}

async fn filled(store: &LogStore) -> Script {
    let mut script = Script::default();
    for number in 0..OBJECTS {
        script.put(store, &format!("object-{number}"), 100 + number).await.unwrap();
    }
    seal(store).await;
    assert_eq!(store.size().sealed_keys, OBJECTS);
    script
}

/// Names that the index answers for, though nothing of that name is there.
fn phantoms(store: &LogStore, count: usize) -> Vec<String> {
    let is_answered = |name: &String| {
        let hash = LogStore::object_hash(&key(name));
        store.inner.shard(&hash).lock().index().newest(&hash).is_some_and(|known| known.is_live())
    };
    let found: Vec<String> = (0..100_000).map(|number| format!("absent-{number}")).filter(is_answered).take(count).collect();
    assert_eq!(found.len(), count, "phantoms without fingerprints");
    found
}

#[test]
fn what_is_not_there_is_not_found_although_the_index_answers() {
    simulate(async {
        let store = rig_of(1, 3).await.open().await;
        let mut script = filled(&store).await;
        let absent = phantoms(&store, 40);
        for name in &absent {
            let refuted = store.stats().refuted.get();
            let opened = store.open(&key(name)).await.map(drop);
            assert!(matches!(opened, Err(EngineError::NotFound)), "{name}: {opened:?}");
            assert!(matches!(store.info(&key(name)).await, Err(EngineError::NotFound)));
            assert!(store.open_cached(&key(name)).is_some_and(|found| matches!(found, Err(EngineError::NotFound))));
            assert_eq!(store.stats().refuted.get(), refuted + 1, "it is found out once");
        }
        script.judge(&store).await;
    });
}

#[test]
fn conditions_see_what_is_there() {
    simulate(async {
        let store = rig_of(2, 1).await.open().await;
        let script = filled(&store).await;
        let absent = phantoms(&store, 30);
        for name in &absent[..10] {
            let must_exist = Condition::Match(ETagMatch::Any);
            assert!(matches!(put(&store, name, b"no", must_exist).await, Err(EngineError::NotFound)), "{name}");
        }
        for name in &absent[10..20] {
            put(&store, name, b"new", Condition::Absent).await.unwrap();
            assert_eq!(store.info(&key(name)).await.unwrap().length, 3, "{name}");
            let again = put(&store, name, b"again", Condition::Absent).await;
            assert!(matches!(again, Err(EngineError::PreconditionFailed)), "{name}: {again:?}");
        }
        for name in &absent[20..] {
            // Blind: it is newer than whatever the index says.
            put(&store, name, b"blind", Condition::None).await.unwrap();
            assert_eq!(store.info(&key(name)).await.unwrap().length, 5, "{name}");
            store.delete(&key(name), Condition::None).await.unwrap();
            assert!(matches!(store.info(&key(name)).await, Err(EngineError::NotFound)));
        }
        // Of what is there and sealed.
        let there = put(&store, "object-3", b"no", Condition::Absent).await;
        assert!(matches!(there, Err(EngineError::PreconditionFailed)), "{there:?}");
        for name in script.names() {
            let read = script.read(&store, &name).await;
            assert!(matches!(read, Read::Right), "{name}: {read:?}");
        }
    });
}

#[test]
fn an_upload_that_never_was_takes_no_parts() {
    simulate(async {
        let store = rig_of(3, 1).await.open().await;
        filled(&store).await;
        let before = store.stats().refuted.get();
        for number in 0..200u64 {
            let mut id = [7; 16];
            id[..8].copy_from_slice(&number.to_le_bytes());
            let upload = UploadRef { key: key("object"), upload: UploadId(id) };
            let content = PartContent::Whole(smallvec![Bytes::from_static(b"part")]);
            let part = store.put_part(&upload, 1, attributes(b"part"), content).await;
            assert!(matches!(part, Err(EngineError::NoSuchUpload)), "{part:?}");
            let parts = vec![CompletePart { number: 1, order: Order::default() }];
            let completed = store.complete(&upload, parts, attributes(b"part"), Condition::None).await;
            assert!(matches!(completed, Err(EngineError::NoSuchUpload)), "{completed:?}");
        }
        assert!(store.stats().refuted.get() > before, "some of them met a phantom");
        let upload = UploadRef { key: key("real"), upload: store.create_upload(&key("real"), attributes(b"")).await.unwrap() };
        seal(&store).await;
        let content = PartContent::Whole(smallvec![Bytes::from_static(b"part")]);
        store.put_part(&upload, 1, attributes(b"part"), content).await.unwrap();
    });
}

#[test]
fn a_start_rolls_forward_what_the_index_seems_to_have_already() {
    simulate(async {
        let mut rig = rig_of(4, 3).await;
        let store = rig.open().await;
        let mut script = filled(&store).await;
        // Of no checkpoint: a start finds them in the logs, and phantoms in the index that it has sealed.
        for name in phantoms(&store, 60) {
            script.put(&store, &name, 77).await.unwrap();
        }
        for number in 0..60 {
            script.put(&store, &format!("object-{number}"), 99).await.unwrap();
            script.delete(&store, &format!("object-{}", 100 + number)).await.unwrap();
        }
        drop(store);
        rig.crash();
        let store = rig.open().await;
        assert!(store.size().sealed_keys >= OBJECTS, "the start has sealed what the checkpoint has");
        script.judge(&store).await;
        assert_eq!(store.stats().rolled_forward.get(), 180);
    });
}

#[test]
fn what_is_deleted_stays_deleted_when_its_tombstone_is_forgotten() {
    simulate(async {
        let mut rig = rig_of(5, 1).await;
        let store = rig.open().await;
        let mut script = filled(&store).await;
        for number in 0..OBJECTS / 2 {
            script.delete(&store, &format!("object-{number}")).await.unwrap();
        }
        for round in 0..6 {
            script.put(&store, "another", 50 + round).await.unwrap();
            store.inner.checkpoint().await.unwrap();
            script.judge(&store).await;
        }
        seal(&store).await;
        script.judge(&store).await;
        assert!(store.size().keys < OBJECTS, "tombstones and what they hid are not sealed");
        let size = store.size();
        drop(store);
        rig.restart();
        let store = rig.open().await;
        script.judge(&store).await;
        assert_eq!(store.size().sealed_keys, size.sealed_keys, "a start seals the same");
    });
}

/// Writes, and waits where collection has to make room first.
async fn put_patiently(script: &mut Script, store: &LogStore, rig: &Rig, name: &str) {
    for _ in 0..ATTEMPTS {
        match script.put(store, name, 900).await {
            Ok(()) => return,
            Err(error) => assert!(matches!(error, EngineError::Full), "{name}: {error}"),
        }
        rig.env.sleep(Duration::from_millis(200)).await;
    }
    panic!("collection frees nothing: {:?} {:?}", store.stats(), store.size());
}

#[test]
fn collection_moves_what_is_sealed_and_frees_the_rest() {
    let sealing = |fingerprint_bits| IndexForm::Ludo(LudoForm { fingerprint_bits, seal_entries: 20 });
    for form in [IndexForm::Full, sealing(12), sealing(4)] {
        simulate(async {
            let mut rig = rig_of(6, 3).await;
            rig.config.index = form;
            (rig.config.checkpoint_entries, rig.config.collect_below_free_percent) = (40, 100);
            let store = rig.open().await;
            let mut script = Script::default();
            for number in 0..120 {
                put_patiently(&mut script, &store, &rig, &format!("kept-{number}")).await;
            }
            for number in 0..6 {
                script.put_large(&store, &format!("large-{number}"), 3 * CHUNK).await.unwrap();
            }
            for round in 0..700 {
                let name = format!("churn-{}", round % 50);
                rig.env.sleep(Duration::from_millis(10)).await;
                match round % 7 {
                    0 => script.delete(&store, &name).await.unwrap(),
                    _ => put_patiently(&mut script, &store, &rig, &name).await,
                }
            }
            let stats = store.stats();
            assert!(stats.collected_zones.get() > 5 && stats.relocated_bytes.get() > 0, "{form:?}: {stats:?}");
            assert!(form == IndexForm::Full || stats.sealings.get() > 3, "{form:?}: {stats:?}");
            script.judge(&store).await;
            let report = store.check().await;
            assert!(report.is_well() && report.records >= 126, "{form:?}: {report:?}");
            drop(store);
            rig.crash();
            script.judge(&rig.open().await).await;
        });
    }
}

#[test]
fn every_record_is_visited_once_in_both_forms() {
    simulate(async {
        for form in [IndexForm::Full, ALL_PHANTOMS] {
            let mut rig = rig_of(7, 3).await;
            rig.config.index = form;
            let store = rig.open().await;
            let mut script = Script::default();
            for number in 0..200 {
                script.put(&store, &format!("object-{number}"), 100).await.unwrap();
            }
            store.inner.checkpoint().await.unwrap();
            if form == ALL_PHANTOMS {
                seal(&store).await;
            }
            for number in 0..50 {
                script.put(&store, &format!("object-{number}"), 300).await.unwrap();
                script.delete(&store, &format!("object-{}", 100 + number)).await.unwrap();
                script.put(&store, &format!("unsaved-{number}"), 100).await.unwrap();
            }
            let mut visited = records(&store).await;
            visited.sort_by_key(|(hash, _)| *hash);
            visited.dedup_by_key(|(hash, _)| *hash);
            assert_eq!(visited.len(), 250);
            assert_eq!(visited.iter().filter(|(_, known)| known.is_live()).count(), 200);
            for (hash, located) in visited {
                let frame = store.inner.read_copies(&located).await.unwrap().unwrap();
                assert_eq!(frame.record.hash, hash, "it is the key's own record");
            }
        }
    });
}

#[test]
fn a_gateway_of_a_cell_refuses_this_form() {
    simulate(async {
        for refused in CellRig::new(1, 1).await.open_with(ALL_PHANTOMS).await {
            assert!(matches!(refused, Err(OpenError::IndexForm)), "{:?}", refused.map(drop));
        }
    });
}

/// A store with sealed objects whose next read waits, and whose background stands still.
async fn with_a_read_that_waits(seed: u64) -> (Rig, LogStore) {
    let rig = rig_of(seed, 1).await;
    let store = rig.open().await;
    store.inner.background.stop().await;
    filled(&store).await;
    rig.disks[0].set_odds(FaultOdds { cache_miss: 1_000_000, ..FaultOdds::default() });
    rig.disks[0].add_rule(FaultRule::next(Operation::Read, Fault::Hold));
    (rig, store)
}

/// A run is merged away while an answer is being proven by it, and what stood in its zones is gone. Caught: `newest_saved` that goes by what it reads there:
/// it was refused here, and where another run's block had come in its place a key that is there was said to be absent for good.
#[test]
fn a_proof_outlasts_the_merge_of_what_it_reads() {
    simulate(async {
        let (rig, store) = with_a_read_that_waits(20).await;
        let hash = LogStore::object_hash(&key("object-3"));
        let located = store.inner.shard(&hash).lock().index().newest(&hash).unwrap();
        let inner = store.inner.clone();
        let name = EntryName::object(BUCKET, Bytes::from_static(b"object-3"));
        let proving = tokio::spawn(async move { inner.is_own(&name, &hash, &located).await });
        settle().await;
        assert!(!proving.is_finished());
        let runs = store.inner.names.layers().runs;
        store.inner.merge(runs.clone(), 1).await.unwrap();
        for (places, frame_bytes) in runs[0].frames() {
            rot(&rig, (places.primary(), frame_bytes), Rot::Header, ZONE_BYTES);
        }
        rig.disks[0].release();
        assert!(proving.await.unwrap().unwrap(), "it is there");
        assert_eq!(store.stats().refuted.get(), 0);
    });
}

/// A record is written down and sealed, and the run that is read merged away, while all records are gone through. Caught: `seen` that reads the runs of the
/// beginning: an unsaved record that was sealed meanwhile was passed over, and what stood in place of a merged run was taken for its rows.
#[test]
fn what_is_sealed_while_all_records_are_gone_through_is_seen() {
    simulate(async {
        let (rig, store) = with_a_read_that_waits(21).await;
        put(&store, "late", b"late", Condition::None).await.unwrap();
        let visited = store.clone();
        let visiting = tokio::spawn(async move { records(&visited).await });
        settle().await;
        assert!(!visiting.is_finished());
        seal(&store).await;
        let runs = store.inner.names.layers().runs;
        store.inner.merge(runs.clone(), 1).await.unwrap();
        for (places, frame_bytes) in runs.iter().flat_map(|run| run.frames().collect::<Vec<_>>()) {
            rot(&rig, (places.primary(), frame_bytes), Rot::Header, ZONE_BYTES);
        }
        rig.disks[0].release();
        let seen = visiting.await.unwrap();
        assert_eq!(seen.len(), OBJECTS + 1);
        assert!(seen.iter().any(|(hash, _)| *hash == LogStore::object_hash(&key("late"))), "sealed meanwhile");
    });
}

/// Keys that were seen are deleted, their tombstones forgotten and all sealed anew, while all records are gone through. Caught: a key that was seen
/// and of which whatever the sealed units answer is taken for its own.
#[test]
fn what_is_forgotten_while_all_records_are_gone_through_is_not_shown_as_another() {
    const GONE: usize = 40;
    simulate(async {
        let (rig, store) = with_a_read_that_waits(22).await;
        for number in 0..GONE {
            put(&store, &format!("gone-{number}"), b"gone", Condition::None).await.unwrap();
        }
        let visited = store.clone();
        let visiting = tokio::spawn(async move { records(&visited).await });
        settle().await;
        assert!(!visiting.is_finished());
        for number in 0..GONE {
            store.delete(&key(&format!("gone-{number}")), Condition::None).await.unwrap();
        }
        // Newer than what was seen, so that the units answer with what may be the keys' own by its order, too.
        for number in 0..OBJECTS {
            put(&store, &format!("object-{number}"), b"anew", Condition::None).await.unwrap();
        }
        for round in 0..6 {
            put(&store, "another", format!("{round}").as_bytes(), Condition::None).await.unwrap();
            store.inner.checkpoint().await.unwrap();
        }
        let runs = store.inner.names.layers().runs;
        store.inner.merge(runs, 1).await.unwrap();
        seal(&store).await;
        rig.disks[0].release();
        let seen = visiting.await.unwrap();
        for (hash, located) in &seen {
            let frame = store.inner.read_copies(located).await.unwrap().unwrap();
            assert_eq!(frame.record.hash, *hash, "it is the key's own record");
        }
        assert_eq!(seen.len(), OBJECTS + 1, "all that there is");
    });
}

/// On slow disks a look at all rows takes long, and each shard takes one. Caught: a pass that nothing comes in between of, as long as no record lacks copies:
/// neither checkpoints nor collection, and the server did not stop.
#[test]
fn a_repair_that_finds_nothing_holds_nobody_up() {
    simulate(async {
        let rig = rig_of(22, 2).await;
        let store = rig.open().await;
        filled(&store).await;
        for disk in &rig.disks {
            disk.set_odds(FaultOdds { cache_miss: 1_000_000, ..FaultOdds::default() });
            disk.add_rule(FaultRule::always_in(0..u64::MAX, Operation::Read, Fault::Delay(Duration::from_secs(1))));
        }
        store.inner.background.want_repair();
        rig.env.sleep(Duration::from_secs(1)).await;
        assert!(store.size().repair_left > 0, "otherwise this tests nothing");
        let began = rig.env.now();
        store.inner.background.stop().await;
        assert!(rig.env.now() - began < Duration::from_secs(60), "{:?}", rig.env.now() - began);
    });
}
