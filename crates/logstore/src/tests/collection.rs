use super::support::{Rig, attributes, key, simulate};
use bytes::Bytes;
use engine::{Condition, Content, ObjectEngine};
use smallvec::smallvec;
use std::time::Duration;

#[tokio::test]
async fn overwriting_for_ever_fits_a_small_device() {
    let mut rig = Rig::new(9, 1, 24, 512 * 1024).await;
    rig.config.checkpoint_entries = 200;
    let store = rig.open().await;
    let mut expected = Vec::new();
    for round in 0..6000u32 {
        let index = (round * 7919) % 300;
        let content = vec![(round % 251) as u8; 4096];
        let name = format!("key-{index}");
        let payload = smallvec![Bytes::copy_from_slice(&content)];
        let mut tries = 0;
        while let Err(error) = store.put(&key(&name), attributes(&content), payload.clone(), Condition::None).await {
            assert!(matches!(error, engine::EngineError::Full), "{error}");
            tries += 1;
            assert!(tries < 200, "collection frees nothing");
            rig.env.sleep(std::time::Duration::from_millis(50)).await;
        }
        expected.push((name, content));
        if round % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let newest: std::collections::HashMap<_, _> = expected.into_iter().collect();
    for restart in 0..2 {
        let store = match restart {
            0 => store.clone(),
            _ => {
                // One gateway at a time: a checkpoint of the first would come between.
                store.close().await;
                rig.open().await
            }
        };
        for (name, content) in &newest {
            let found = store.open(&key(name)).await.unwrap();
            let Content::Whole(bytes) = found.content else { panic!("small objects are whole") };
            assert_eq!(bytes, content[..], "{name}");
        }
    }
    assert!(store.stats().collected_zones.get() > 10);
}

/// Zones of which a part is always lost to what does not fit are always at hand: a zone that could not be emptied once came behind them for ever, and what the others
/// held was moved round and round.
#[test]
fn a_zone_that_was_set_back_has_its_turn_again() {
    const ZONE_BYTES: u64 = 128 * 1024;
    simulate(async {
        let mut rig = Rig::new(10, 1, 40, ZONE_BYTES).await;
        rig.config.collect_below_free_percent = 100;
        let store = rig.open().await;
        store.inner.background.stop().await;
        let device = store.inner.targets.devices().next().unwrap().clone();
        let put = async |name: &str| {
            let content = Bytes::from(vec![7; ZONE_BYTES as usize * 7 / 10]);
            store.put(&key(name), attributes(&content), smallvec![content], Condition::None).await.unwrap();
        };
        for round in 0..2 {
            put("overwritten").await;
            for name in 0..8 * round {
                put(&format!("key-{name}")).await;
            }
        }
        store.inner.checkpoint().await.unwrap();
        let finished = device.zones().into_iter().filter(|zone| zone.state == Some(device::ZoneState::Finished));
        let dead = finished.min_by_key(|zone| zone.activation).unwrap();
        assert_eq!(store.inner.targets.live_bytes(device.id(), dead.zone), 0);
        store.inner.targets.note_setback(device.id(), dead.zone, Duration::ZERO, rig.env.now());
        let is_there = || device.zones()[dead.zone.0 as usize].activation == dead.activation;
        store.inner.collect().await.unwrap();
        assert!(is_there(), "others come first");
        for _ in 0..10 {
            rig.env.sleep(Duration::from_secs(1)).await;
            store.inner.collect().await.unwrap();
        }
        assert!(!is_there() || device.zones()[dead.zone.0 as usize].state != Some(device::ZoneState::Finished));
    });
}

/// What could not be emptied has the least live data. Caught: such zones alone were tried, and old ones full of garbage never; and those that were not empty never had another turn.
#[test]
fn zones_that_could_not_be_emptied_leave_room_for_others() {
    const ZONE_BYTES: u64 = 128 * 1024;
    const TRIED: usize = 8;
    simulate(async {
        let mut rig = Rig::new(11, 1, 60, ZONE_BYTES).await;
        rig.config.collect_below_free_percent = 100;
        let store = rig.open().await;
        store.inner.background.stop().await;
        let device = store.inner.targets.devices().next().unwrap().clone();
        // A zone each.
        for index in (0..3 * TRIED).chain(0..TRIED) {
            let content = Bytes::from(vec![7; ZONE_BYTES as usize * 7 / 10]);
            store.put(&key(&format!("key-{index}")), attributes(&content), smallvec![content], Condition::None).await.unwrap();
        }
        store.inner.checkpoint().await.unwrap();
        let live = |zone| store.inner.targets.live_bytes(device.id(), zone);
        let is_finished = |zone: &device::ZoneInfo| zone.state == Some(device::ZoneState::Finished);
        let finished: Vec<_> = device.zones().into_iter().filter(is_finished).map(|zone| zone.zone).collect();
        let (dead, full): (Vec<_>, Vec<_>) = finished.into_iter().partition(|zone| live(*zone) == 0);
        assert!(dead.len() == TRIED && full.len() > TRIED, "{dead:?} {full:?}");
        let set_back = |zone| store.inner.targets.note_setback(device.id(), zone, Duration::ZERO, rig.env.now());
        let tried = || store.inner.chosen().iter().filter(|(_, zone)| dead.contains(zone)).count();
        assert_eq!(tried(), 4, "none was tried before");
        dead.iter().for_each(|zone| set_back(*zone));
        assert_eq!(tried(), 0);
        rig.env.sleep(Duration::from_secs(2)).await;
        assert_eq!((tried(), store.inner.chosen().len()), (2, 4));
        // One that is not so empty has waited for longer.
        set_back(full[0]);
        rig.env.sleep(Duration::from_secs(1)).await;
        dead.iter().for_each(|zone| set_back(*zone));
        rig.env.sleep(Duration::from_secs(4)).await;
        assert!(store.inner.chosen().contains(&(device.id(), full[0])));
        assert_eq!((tried(), store.inner.chosen().len()), (1, 4));
        // Where all were, it is by their live data again.
        full.iter().for_each(|zone| set_back(*zone));
        assert_eq!((tried(), store.inner.chosen().len()), (4, 4));
    });
}

/// All is live in zones full of short runs, though their bytes are few: each fills blocks of its own. Caught: such runs were written anew round and round, for want
/// of a merge.
#[test]
fn zones_full_of_short_runs_are_emptied_by_a_merge() {
    const RUNS: usize = 32;
    const MOST_ROUNDS: usize = 20;
    simulate(async {
        let mut rig = Rig::new(12, 1, 40, 64 * 1024).await;
        rig.config.collect_below_free_percent = 100;
        let store = rig.open().await;
        store.inner.background.stop().await;
        for _ in 0..RUNS {
            let content = Bytes::from_static(b"short");
            store.put(&key("key"), attributes(&content), smallvec![content], Condition::None).await.unwrap();
            store.inner.checkpoint().await.unwrap();
        }
        let finished_of_runs = || {
            let zones = store.inner.targets.devices().flat_map(|device| device.zones());
            let is_finished = |zone: &device::ZoneInfo| zone.state == Some(device::ZoneState::Finished);
            zones.filter(is_finished).filter(|zone| zone.stream == Some(device::ZoneStream::Meta)).count()
        };
        assert!(finished_of_runs() > 2 && store.inner.names.layers().runs.len() == RUNS);
        for _ in 0..MOST_ROUNDS {
            store.inner.collect().await.unwrap();
        }
        assert_eq!((store.inner.names.layers().runs.len(), finished_of_runs()), (1, 0));
        assert!(store.stats().merged_runs.get() < 2 * RUNS as u64, "{}", store.stats().merged_runs.get());
    });
}
