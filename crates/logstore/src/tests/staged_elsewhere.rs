//! Chunks that another gateway of the cell has staged, and has not named yet.

use super::cell_rig::CellRig;
use super::script::CHUNK;
use super::support::{attributes, key, simulate};
use crate::LogStore;
use bytes::Bytes;
use engine::{Condition, EngineError, ObjectEngine};
use format::record::{Record, RecordKind};
use smallvec::smallvec;
use std::time::Duration;
use target::{LogEvent, WalkRange};

/// Longer than collection takes for a few zones.
const A_WHILE: Duration = Duration::from_secs(60);

/// Chunks that stand in the zones of all devices, live or not.
async fn chunks(store: &LogStore) -> usize {
    let mut found = 0;
    for device in store.inner.targets.devices() {
        for zone in device.zones().into_iter().filter(|zone| zone.state.is_some()) {
            let mut walk = device.walk(WalkRange::Zone(zone.zone), false);
            while let Some(event) = walk.next().await.unwrap() {
                if let LogEvent::Frame(frame) = event {
                    let record = Record::decode(&Bytes::copy_from_slice(frame.engine_header)).unwrap();
                    found += usize::from(record.kind == RecordKind::Chunk);
                }
            }
        }
    }
    found
}

#[test]
fn what_a_gateway_has_staged_is_garbage_when_it_is_gone() {
    simulate(async {
        let cell = CellRig::greedy(10, 3).await;
        let (leader, follower) = (cell.gateways()[0].clone(), cell.gateways()[1].clone());
        let mut staged = follower.stage(&key("large"), None);
        follower.stage_chunk(&mut staged, Bytes::from(vec![7; CHUNK])).await.unwrap();
        for device in leader.inner.targets.devices() {
            device.finish_open_zones().await.unwrap();
        }
        for index in 0..20 {
            let content = Bytes::from(vec![3; 4096]);
            let name = key(&format!("key-{index}"));
            leader.put(&name, attributes(&content), smallvec![content], Condition::None).await.unwrap();
        }
        cell.env.sleep(A_WHILE).await;
        assert_eq!(chunks(&leader).await, 3, "the follower may still name it");
        // Its process ends; nobody tells what it had staged.
        std::mem::forget(staged);
        cell.kill(&follower);
        drop(follower);
        cell.remove(&[1]).await;
        cell.env.sleep(A_WHILE).await;
        assert_eq!(chunks(&leader).await, 0);
        for index in 0..20 {
            leader.open(&key(&format!("key-{index}"))).await.unwrap();
        }
    });
}

/// A node whose gateway was removed goes on with another engine, and with requests that had staged their chunks: those may be gone by now.
#[test]
fn what_an_engine_has_staged_that_has_left_is_refused() {
    simulate(async {
        let cell = CellRig::greedy(10, 3).await;
        let (former, present) = (cell.gateways()[1].clone(), cell.gateways()[0].clone());
        let name = key("large");
        let mut staged = former.stage(&name, None);
        former.stage_chunk(&mut staged, Bytes::from(vec![7; CHUNK])).await.unwrap();
        former.depose();
        let further = present.stage_chunk(&mut staged, Bytes::from(vec![7; CHUNK])).await;
        assert!(matches!(further, Err(EngineError::Unavailable { .. })), "{further:?}");
        let committed = present.commit(&name, staged, attributes(&Bytes::new()), Condition::None).await;
        assert!(matches!(committed, Err(EngineError::Unavailable { .. })), "{committed:?}");
        assert!(matches!(present.open(&name).await, Err(EngineError::NotFound)));
    });
}
