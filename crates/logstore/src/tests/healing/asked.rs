//! Scrubs that a person asks for.

use super::{A_WHILE, Draw, Rot, ZONE_BYTES, copies, filled, located, must_be_whole, rig, rot, simulate};
use crate::tests::script::Script;
use crate::{LogStore, NotHere, ScrubProgress, ScrubState};
use engine::ObjectEngine;
use std::time::Duration;
use types::DeviceId;

/// Longer than it is waited for a copy that can't be made again.
const LONG: Duration = Duration::from_secs(200);

/// What scrubs of all devices tell in the end.
async fn scrubbed(store: &LogStore, patience: Duration) -> Vec<ScrubProgress> {
    assert_eq!(store.scrub(None).unwrap().len(), 3);
    store.inner.env.sleep(patience).await;
    let scrubs = store.scrubs();
    assert!(scrubs.iter().all(|scrub| scrub.state == ScrubState::Done), "{scrubs:?}");
    assert!(scrubs.iter().all(|scrub| scrub.read_bytes >= scrub.bytes && scrub.bytes > 0), "{scrubs:?}");
    scrubs
}

fn sums(scrubs: &[ScrubProgress]) -> [u64; 3] {
    let sum = |of: fn(&ScrubProgress) -> u64| scrubs.iter().map(of).sum();
    [sum(|scrub| scrub.damaged_frames), sum(|scrub| scrub.damaged_copies), sum(|scrub| scrub.left_copies)]
}

#[test]
fn a_scrub_that_is_asked_for_finds_and_tells_what_is_healed() {
    simulate(async {
        for (seed, what) in [(1, Rot::Header), (2, Rot::Payload)] {
            let rig = rig(seed, 3, Duration::ZERO).await;
            let mut script = Script::default();
            let store = filled(&rig, &mut script).await;
            assert_eq!(sums(&scrubbed(&store, A_WHILE).await), [0; 3], "nothing is wrong yet");
            let (mut draw, mut rotten) = (Draw::new(seed), 0);
            for name in script.names() {
                for places in copies(&store, &name).await {
                    rot(&rig, places[draw.below(3) as usize], what, ZONE_BYTES);
                    rotten += 1;
                }
            }
            let [frames, copies, left] = sums(&scrubbed(&store, LONG).await);
            // Of a frame whose header is gone nothing tells but a gap, which it shares with its neighbours.
            assert!(
                frames > 0 && copies >= rotten && left == 0,
                "{what:?}: {frames} frames, {copies} of {rotten} copies, {left} left"
            );
            must_be_whole(&store, &format!("{what:?}")).await;
            script.judge(&store).await;
        }
    });
}

#[test]
fn what_can_not_be_healed_is_told_to_be_left() {
    simulate(async {
        let rig = rig(6, 3, Duration::ZERO).await;
        let mut script = Script::default();
        let store = filled(&rig, &mut script).await;
        copies(&store, "small-2").await[0].iter().for_each(|copy| rot(&rig, *copy, Rot::Payload, ZONE_BYTES));
        let places = copies(&store, "small-4").await.remove(0);
        rot(&rig, places[1], Rot::Payload, ZONE_BYTES);
        let [_, copies, left] = sums(&scrubbed(&store, LONG).await);
        assert_eq!((copies, left), (4, 3), "three of the one that has no good copy");
        assert!(!store.check().await.is_well());
        // Once it is gone nothing is left; its frames are still there, and nobody needs them.
        store.delete(&crate::tests::support::key("small-2"), engine::Condition::None).await.unwrap();
        let [frames, copies, left] = sums(&scrubbed(&store, LONG).await);
        assert!(frames >= 3 && (copies, left) == (0, 0), "{frames} {copies} {left}");
    });
}

#[test]
fn one_device_is_scrubbed_and_no_device_twice_at_once() {
    simulate(async {
        let rig = rig(7, 3, Duration::ZERO).await;
        let mut script = Script::default();
        let store = filled(&rig, &mut script).await;
        assert_eq!(store.scrub(Some(DeviceId(9))), Err(NotHere { asked: 9, here: vec![1, 2, 3] }));
        assert!(store.scrubs().is_empty());
        let second = DeviceId(2);
        let copy = *located(&store, "small-1").places.as_slice().iter().find(|place| place.device == second).unwrap();
        rot(&rig, (copy, 4096), Rot::Payload, ZONE_BYTES);
        let read = |store: &LogStore| {
            let target = store.inner.targets.device(second).unwrap();
            target.local().unwrap().stats().scrubbed_bytes.get()
        };
        for _ in 0..3 {
            let begun = store.scrub(Some(second)).unwrap();
            assert!(begun.len() == 1 && begun[0].device == second, "{begun:?}");
        }
        rig.env.sleep(A_WHILE).await;
        let scrubs = store.scrubs();
        assert!(scrubs.len() == 1 && scrubs[0].state == ScrubState::Done && scrubs[0].damaged_copies == 1, "{scrubs:?}");
        assert_eq!(read(&store), scrubs[0].read_bytes, "it was read once");
        must_be_whole(&store, "one device").await;
        script.judge(&store).await;
    });
}
