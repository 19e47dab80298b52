//! The service as a whole, over the engine in memory and a manager in memory.

mod buckets;
mod copies;
mod lists;
mod objects;
mod policies;
mod uploads;

use std::sync::Arc;

use bytes::Bytes;
use engine::memory::MemoryEngine;
use engine::{Condition, ObjectEngine};
use env::Env;
use format::attributes::Attributes;
use futures_util::StreamExt;
use manager::{EtagMode, Manager};

use crate::{
    BucketOptions, Engines, ObjectError, ObjectService, Principal, PutRequest, Read, ReadBody, ReadRequest, Upload, Written,
};

/// A service with its own empty world.
struct World {
    service: Arc<ObjectService>,
    engine: Arc<MemoryEngine>,
    manager: Arc<Manager>,
}

fn user(name: &str) -> Principal {
    Principal::User { name: name.into(), is_root: false }
}

fn root() -> Principal {
    Principal::User { name: "root".into(), is_root: true }
}

impl World {
    async fn new() -> World {
        let env = Env::simulated(7);
        let manager = Arc::new(Manager::open_in_memory(&env).await.expect("a manager in memory"));
        let engine = Arc::new(MemoryEngine::new());
        let service = ObjectService::new(Arc::clone(&manager), Engines::log(engine.clone() as Arc<dyn ObjectEngine>), env);
        World { service: Arc::new(service), engine, manager }
    }

    /// With the bucket `box` of alice.
    async fn with_bucket() -> World {
        let world = World::new().await;
        world.bucket("box", EtagMode::Md5).await;
        world
    }

    async fn bucket(&self, name: &str, etag: EtagMode) {
        let options = BucketOptions { etag, ..BucketOptions::default() };
        self.service.create_bucket(&user("alice"), name, options).await.expect("a bucket");
    }

    /// Alice writes into `box`.
    async fn put(&self, key: &str, bytes: impl Into<Bytes>) -> Written {
        self.service.put(&user("alice"), "box", key, put_request(bytes)).await.expect("written")
    }

    /// Alice reads from `box`.
    async fn get(&self, key: &str) -> Result<Vec<u8>, ObjectError> {
        bytes_of(self.service.get(&user("alice"), "box", key, &ReadRequest::default()).await?).await
    }
}

fn put_request(bytes: impl Into<Bytes>) -> PutRequest {
    PutRequest { attributes: Attributes::default(), condition: Condition::None, content: Upload::whole(bytes.into()) }
}

async fn bytes_of(read: Read) -> Result<Vec<u8>, ObjectError> {
    let mut bytes = Vec::new();
    match read.body {
        ReadBody::Whole(whole) => bytes.extend_from_slice(&whole),
        ReadBody::Stream(mut stream) => {
            while let Some(piece) = stream.next().await {
                bytes.extend_from_slice(&piece?);
            }
        }
    }
    assert_eq!(bytes.len() as u64, read.range.end - read.range.start);
    Ok(bytes)
}

/// Bytes that differ by seed and place.
fn content(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| seed ^ (at % 251) as u8 ^ (at / 65_521) as u8).collect()
}
