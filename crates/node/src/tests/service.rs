//! What a cluster does in peace, and with one fault at a time.

use super::cluster::{BUCKET, Cluster, address};
use bytes::Bytes;
use engine::{Condition, Content, EngineError, ListQuery, ObjectEngine, ObjectKey};
use format::attributes::{Attributes, ETag};
use std::time::Duration;

pub fn simulate<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

pub fn key(name: &str) -> ObjectKey {
    ObjectKey::new(BUCKET, Bytes::copy_from_slice(name.as_bytes())).unwrap()
}

pub fn attributes(value: u64) -> Attributes {
    let mut digest = [0; 16];
    digest[..8].copy_from_slice(&value.to_le_bytes());
    Attributes { etag: ETag::Md5(digest), modified_ms: 1_700_000_000_000, ..Attributes::default() }
}

pub async fn put(engine: &dyn ObjectEngine, name: &str, value: u64, condition: Condition) -> Result<(), EngineError> {
    let payload = std::iter::once(Bytes::from(value.to_le_bytes().repeat(64))).collect();
    engine.put(&key(name), attributes(value), payload, condition).await.map(|_| ())
}

pub async fn get(engine: &dyn ObjectEngine, name: &str) -> Result<Option<u64>, EngineError> {
    match engine.open(&key(name)).await {
        Ok(found) => {
            let Content::Whole(bytes) = found.content else { panic!("small objects only") };
            Ok(Some(u64::from_le_bytes(bytes[..8].try_into().unwrap())))
        }
        Err(EngineError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn names(engine: &dyn ObjectEngine) -> usize {
    let query =
        ListQuery { bucket: BUCKET, prefix: Bytes::new(), start_after: Bytes::new(), delimiter: Bytes::new(), max_items: 1000 };
    engine.list(&query).await.unwrap().items.len()
}

#[test]
fn three_nodes_are_one_store() {
    simulate(async {
        let cluster = Cluster::start(1).await;
        let engines = cluster.engines();
        for index in 0..30u64 {
            put(&*engines[index as usize % 3], &format!("key-{index}"), index, Condition::None).await.unwrap();
            let read = get(&*engines[(index as usize + 1) % 3], &format!("key-{index}")).await.unwrap();
            assert_eq!(read, Some(index));
        }
        for engine in &engines {
            assert_eq!(names(&**engine).await, 30);
        }
    });
}

#[test]
fn each_node_in_turn_dies_and_comes_back() {
    simulate(async {
        let mut cluster = Cluster::start(2).await;
        for (round, power) in [(0usize, false), (1, true), (2, false), (0, true)] {
            let before = cluster.engines();
            for index in 0..20u64 {
                put(&*before[index as usize % 3], &format!("key-{round}-{index}"), index, Condition::None).await.unwrap();
            }
            cluster.kill(round, power).await;
            let engines = cluster.engines();
            let began = cluster.env.now();
            put(&*engines[0], "while-one-is-away", round as u64, Condition::None).await.unwrap();
            let outage = cluster.env.now() - began;
            assert!(outage < Duration::from_secs(5), "a write waited {outage:?}");
            for engine in &engines {
                for index in 0..20u64 {
                    assert_eq!(get(&**engine, &format!("key-{round}-{index}")).await.unwrap(), Some(index), "round {round}");
                }
            }
            cluster.restart(round).await;
            cluster.all_serve().await;
            let back = cluster.engines();
            assert_eq!(get(&*back[round], "while-one-is-away").await.unwrap(), Some(round as u64));
        }
    });
}

#[test]
fn all_nodes_at_once_lose_power_and_nothing_else() {
    simulate(async {
        let mut cluster = Cluster::start(3).await;
        for round in 0..3u64 {
            let engines = cluster.engines();
            for index in 0..60u64 {
                put(&*engines[index as usize % 3], &format!("key-{index}"), round * 100 + index, Condition::None)
                    .await
                    .unwrap();
            }
            drop(engines);
            for number in 0..3 {
                cluster.kill(number, true).await;
            }
            // Two make a quorum: they are started together.
            cluster.restart_all(&[0, 1, 2]).await;
            cluster.all_serve().await;
            for engine in cluster.engines() {
                for index in 0..60u64 {
                    assert_eq!(get(&*engine, &format!("key-{index}")).await.unwrap(), Some(round * 100 + index));
                }
            }
        }
    });
}

#[test]
fn a_node_that_others_cannot_reach_leaves_and_comes_back() {
    simulate(async {
        let cluster = Cluster::start(4).await;
        let engines = cluster.engines();
        put(&*engines[0], "key", 1, Condition::None).await.unwrap();
        // One way: it reaches the others, they don't reach it.
        cluster.network.cut(&address(1));
        put(&*engines[2], "key", 2, Condition::None).await.unwrap();
        let stale = get(&*engines[1], "key").await;
        assert!(matches!(stale, Ok(Some(2)) | Err(_)), "{stale:?}");
        cluster.network.mend(&address(1));
        cluster.all_serve().await;
        assert_eq!(get(&*engines[1], "key").await.unwrap(), Some(2));
    });
}

/// Caught: it registered another gateway as soon as its manager said that the first had gone, and the view got a member that died at once.
#[test]
fn a_gateway_that_has_left_does_not_come_back() {
    simulate(async {
        let cluster = Cluster::start(47).await;
        cluster.all_serve().await;
        let leaving = cluster.machines[2].node.clone().unwrap();
        leaving.leave().await;
        cluster.env.sleep(Duration::from_secs(10)).await;
        let state = cluster.machines[0].node.as_ref().unwrap().manager().snapshot();
        let members = &state.cell(crate::CELL).unwrap().members;
        assert_eq!(members.len(), 2, "{members:?}");
        assert!(members.values().all(|member| member.node != leaving.status().id), "{members:?}");
    });
}
