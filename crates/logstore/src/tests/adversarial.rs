//! The adversarial cases of a cell, by name. What each has been seen to catch stands above it.

mod behind;
mod epochs;
mod places;
mod readers;
mod recovered;
mod removal;
mod silence;
mod writes;

use super::cell::names;
use super::cell_rig::CellRig;
use super::support::{attributes, key};
use crate::LogStore;
use bytes::Bytes;
use engine::{Condition, Content, EngineError, ObjectEngine};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use types::DeviceId;

/// Long enough for everything that is not held up.
const A_WHILE: Duration = Duration::from_secs(1);

async fn put_if(store: LogStore, name: &'static str, content: &'static str, condition: Condition) -> Result<(), EngineError> {
    let payload = std::iter::once(Bytes::from_static(content.as_bytes())).collect();
    store.put(&key(name), attributes(content.as_bytes()), payload, condition).await.map(|_| ())
}

async fn put(store: &LogStore, name: &'static str, content: &'static str) -> Result<(), EngineError> {
    put_if(store.clone(), name, content, Condition::None).await
}

/// A gateway makes a checkpoint.
fn checkpoint(rig: &CellRig, leader: &LogStore) -> JoinHandle<Result<(), EngineError>> {
    let inner = leader.inner.clone();
    rig.env.spawn(async move { inner.checkpoint().await })
}

/// Gateways are removed; it ends with the recovery.
fn removing(rig: &Arc<CellRig>, gateways: &'static [usize]) -> JoinHandle<()> {
    let removing = rig.clone();
    rig.env.spawn(async move { removing.remove(gateways).await })
}

/// What a gateway reads; nothing if there is no object.
async fn get(store: &LogStore, name: &str) -> Option<String> {
    match store.open(&key(name)).await {
        Ok(found) => match found.content {
            Content::Whole(bytes) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
            Content::Chunked(_) => panic!("small objects only"),
        },
        Err(EngineError::NotFound) => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// The devices of a key's copies, primary first.
fn devices_of(store: &LogStore, name: &str) -> Vec<DeviceId> {
    store.inner.targets.table().set_of(&LogStore::object_hash(&key(name))).devices().to_vec()
}

/// Every gateway that lives, and a start after all have died, read this.
async fn all_read(rig: &CellRig, name: &str, expected: Option<&str>) {
    for gateway in rig.gateways() {
        assert_eq!(get(&gateway, name).await.as_deref(), expected, "{name} at {}", gateway.inner.me);
    }
    let founder = rig.restart_all().await;
    assert_eq!(get(&founder, name).await.as_deref(), expected, "{name} after everything has died");
}
