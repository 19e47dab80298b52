//! Merges of runs that come to nothing.

use super::cell_rig::CellRig;
use super::script::Script;
use super::support::{BUCKET, Rig, key, settle, simulate};
use crate::LogStore;
use crate::names::Run;
use bytes::Bytes;
use disk::{Fault, FaultRule, Operation};
use engine::{EngineError, ObjectEngine, PartContent, UploadRef};
use format::attributes::Attributes;
use format::record::EntryName;
use smallvec::smallvec;
use std::collections::BTreeSet;
use std::time::Duration;
use types::DeviceId;

const ZONE_BYTES: u64 = 128 * 1024;

/// A store with three runs, whose background stands still.
async fn with_three_runs(script: &mut Script) -> (Rig, LogStore) {
    let rig = Rig::new(1, 1, 40, ZONE_BYTES).await;
    let store = rig.open().await;
    store.inner.background.stop().await;
    for name in ["a", "b", "c"] {
        script.put(&store, name, 100).await.unwrap();
        store.inner.checkpoint().await.unwrap();
    }
    assert_eq!(store.inner.names.layers().runs.len(), 3);
    (rig, store)
}

/// Live bytes of all zones.
fn live(store: &LogStore) -> u64 {
    let targets = &store.inner.targets;
    targets.devices().flat_map(|device| device.zones().into_iter().map(|zone| targets.live_bytes(device.id(), zone.zone))).sum()
}

/// A crash left the part of an upload that has ended. Caught: a device that was forgotten long ago and is waited for like one that is away, so that
/// such parts stayed for ever; and one that is away and counts as forgotten: the upload may stand there.
#[test]
fn a_merge_finds_parts_of_ended_uploads_though_a_device_was_forgotten() {
    simulate(async {
        const OTHER: DeviceId = DeviceId(9);
        let mut script = Script::default();
        let (_rig, store) = with_three_runs(&mut script).await;
        let inner = &store.inner;
        let upload =
            UploadRef { key: key("joined"), upload: store.create_upload(&key("joined"), Attributes::default()).await.unwrap() };
        let content = PartContent::Whole(smallvec![Bytes::from_static(b"of a part")]);
        store.put_part(&upload, 1, Attributes::default(), content).await.unwrap();
        inner.drop_entry(EntryName::upload(BUCKET, b"joined", upload.upload)).await.unwrap();
        for round in 0..3 {
            script.put(&store, "d", 100 + round).await.unwrap();
            inner.checkpoint().await.unwrap();
        }
        inner.checkpoints.lock().await.manifest.start.push((OTHER, inner.targets.log_starts().await.unwrap()[0].1));
        let here: BTreeSet<DeviceId> = inner.targets.devices().map(|device| device.id()).collect();
        let part = EntryName::part(BUCKET, b"joined", upload.upload, 1).hash();
        for (known, stays) in [(&here | &BTreeSet::from([OTHER]), true), (here, false)] {
            inner.targets.set_known(known);
            inner.merge(inner.names.layers().runs, 1).await.unwrap();
            inner.tidy_uploads().await.unwrap();
            let newest = inner.shard(&part).lock().index().newest(&part);
            assert_eq!(newest.is_some_and(|known| known.is_live()), stays);
        }
        script.judge(&store).await;
    });
}

/// Both wait for the manifest. Caught: a second one that goes on, finds no place for its run in the manifest and ends the process.
#[test]
fn a_merge_of_runs_that_were_merged_meanwhile_ends_quietly() {
    simulate(async {
        let mut script = Script::default();
        let (mut rig, store) = with_three_runs(&mut script).await;
        let runs = store.inner.names.layers().runs;
        let merge = |runs: Vec<_>| {
            let inner = store.inner.clone();
            tokio::spawn(async move { inner.merge(runs, 1).await })
        };
        let waits = store.inner.checkpoints.lock().await;
        let (first, second) = (merge(runs.clone()), merge(runs[..2].to_vec()));
        tokio::task::yield_now().await;
        drop(waits);
        first.await.unwrap().unwrap();
        let (merged, written) = (store.inner.names.layers().runs, rig.manifests.installed());
        second.await.unwrap().unwrap();
        assert_eq!((merged.len(), store.inner.stats.merged_runs.get()), (1, 3));
        assert_eq!(store.inner.names.layers().runs[0].id(), merged[0].id());
        assert_eq!(rig.manifests.installed(), written, "the second one changes nothing");
        script.judge(&store).await;
        drop(store);
        rig.crash();
        script.judge(&rig.open().await).await;
    });
}

/// As when the view changes under it. Caught: blocks of a run that nothing will ever name and that count as live.
#[test]
fn a_merge_that_is_given_up_leaves_nothing_that_counts_as_live() {
    simulate(async {
        let mut script = Script::default();
        let (rig, store) = with_three_runs(&mut script).await;
        let (runs, before) = (store.inner.names.layers().runs, live(&store));
        // Its block, or its index behind that.
        for skip in 0..2 {
            rig.disks[0].add_rule(FaultRule { skip, ..FaultRule::next(Operation::Write, Fault::Hold) });
            let merge = tokio::spawn({
                let (inner, runs) = (store.inner.clone(), runs.clone());
                async move { inner.merge(runs, 1).await }
            });
            settle().await;
            assert!(!merge.is_finished(), "the disk holds a part of the run");
            merge.abort();
            merge.await.unwrap_err();
            rig.disks[0].release();
            settle().await;
            assert_eq!(live(&store), before, "write {skip}");
        }
        script.judge(&store).await;
    });
}

/// Caught: a run that counts as live though no manifest names it. Zones of such runs were never chosen, until the next start.
#[test]
fn what_could_not_be_installed_counts_for_nothing() {
    simulate(async {
        let mut script = Script::default();
        let (rig, store) = with_three_runs(&mut script).await;
        script.put(&store, "d", 100).await.unwrap();
        let (runs, before) = (store.inner.names.layers().runs, live(&store));
        rig.manifests.set_refusing(true);
        for _ in 0..10 {
            store.inner.checkpoint().await.unwrap_err();
            store.inner.merge(runs.clone(), 1).await.unwrap_err();
            assert_eq!(live(&store), before);
        }
        rig.manifests.set_refusing(false);
        script.judge(&store).await;
    });
}

/// The manager of a server of its own answers with an error, and has the manifest when it is started again. Caught: the zone of the run that it names was
/// reset meanwhile, and no start succeeded any more.
#[test]
fn nothing_is_reset_at_once_while_a_manifest_is_in_doubt() {
    simulate(async {
        let mut script = Script::default();
        let (mut rig, store) = with_three_runs(&mut script).await;
        let runs = store.inner.names.layers().runs;
        let manifest = rig.manifests.installed();
        assert!(store.inner.is_newest(&manifest).await.unwrap());
        rig.manifests.set_losing_answers(true);
        store.inner.merge(runs.clone(), 1).await.unwrap_err();
        rig.manifests.set_losing_answers(false);
        assert!(!store.inner.is_newest(&manifest).await.unwrap());
        store.inner.merge(runs, 1).await.unwrap_err();
        assert_ne!(rig.manifests.installed(), manifest);
        drop(store);
        rig.crash();
        let store = rig.open().await;
        script.judge(&store).await;
        // A checkpoint that is installed ends it: whatever the manager's log has before comes too late then.
        rig.manifests.set_refusing(true);
        store.inner.checkpoint().await.unwrap_err();
        assert!(!store.inner.is_newest(&rig.manifests.installed()).await.unwrap());
        rig.manifests.set_refusing(false);
        store.inner.checkpoint().await.unwrap();
        assert!(store.inner.is_newest(&rig.manifests.installed()).await.unwrap());
    });
}

/// The manager's answer is lost, and the leader goes on from what is installed. Caught: a run that is counted when it is written, and again when it is taken
/// over.
#[test]
fn a_run_that_is_taken_over_counts_once() {
    simulate(async {
        let mut script = Script::default();
        let rig = CellRig::new(44, 2).await;
        let [leader, member] = &rig.gateways()[..] else { panic!("two gateways") };
        for name in ["a", "b", "c"] {
            script.put(leader, name, 100).await.unwrap();
        }
        rig.manifests.set_losing_answers(true);
        leader.inner.checkpoint().await.unwrap_err();
        rig.manifests.set_losing_answers(false);
        leader.inner.checkpoint().await.unwrap();
        rig.env.sleep(Duration::from_secs(1)).await;
        assert_eq!(leader.stats().manifests_taken_over.get(), 1);
        assert_eq!(live(leader), live(member));
    });
}

/// A place says nothing of what stands there by now. Caught: blocks of another run, and pieces of another index, that are taken for this one's.
#[test]
fn frames_of_another_run_are_not_taken_for_its_own() {
    simulate(async {
        let (_rig, store) = with_three_runs(&mut Script::default()).await;
        let runs = store.inner.names.layers().runs;
        let open = async |summary| Run::open(&store.inner, summary).await.map_err(|error| error.to_string());
        for run in &runs {
            assert!(open(run.summary.clone()).await.is_ok_and(|own| own.blocks() == 1));
            assert!(run.block(&store.inner, 0).await.is_ok() && run.rows(&store.inner, 0).await.is_ok());
        }
        // As if the zones of this one had been written again by that one.
        let mut stale = open(runs[0].summary.clone()).await.unwrap();
        stale.summary.run = runs[1].id();
        let refused = [stale.block(&store.inner, 0).await.map(drop), stale.rows(&store.inner, 0).await.map(drop)];
        assert!(refused.iter().all(|outcome| matches!(outcome, Err(EngineError::Corrupt { .. }))), "{refused:?}");
        assert!(open(stale.summary).await.is_err());
    });
}
