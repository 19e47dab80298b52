//! The volume engine as a subject. Nothing else here knows how it is opened.

use super::subject::{Asked, Subject, name};
use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use device::{Device, DeviceConfig, FormatOptions, Volume, VolumeOwner};
use disk::{Disk, DiskStats};
use engine::{Condition, Content, ListQuery, ObjectEngine, ObjectKey};
use env::Env;
use format::attributes::Attributes;
use manager::{BucketEngine, EtagMode, Manager, NewBucket, RegisterNode};
use smallvec::smallvec;
use std::sync::Arc;
use types::limits::{CHUNK_BYTES, MAX_SMALL_BYTES};
use types::{BucketId, CellId, ClusterId, DeviceId, NodeIdentity};
use volstore::Objects;

const BUCKET: BucketId = BucketId(1);
/// Space is lent to the engine by so many bytes.
const ZONE_BYTES: u64 = 8 << 20;

/// When a put writes its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Beside its bytes, up to the longest object that one request carries. Longer ones are staged, and named when all is durable.
    Parallel,
    /// After its bytes, always: the paper's Cheetah-OW.
    Ordered,
}

/// The placement groups of a lone server, on one device.
pub struct VolumeStore {
    engine: Arc<dyn ObjectEngine>,
    writes: Writes,
    volume: Volume,
    disk: Arc<dyn Disk>,
    env: Env,
    /// It is served as long as it is there.
    _device: Device,
}

impl VolumeStore {
    /// Formats a disk, and opens a store on it.
    pub async fn new(env: &Env, disk: Arc<dyn Disk>, capacity_bytes: u64, writes: Writes) -> anyhow::Result<VolumeStore> {
        let options = FormatOptions {
            cluster: ClusterId([1; 16]),
            device: DeviceId(1),
            cell: CellId(1),
            zone_bytes: Some(ZONE_BYTES),
            capacity_bytes: Some(capacity_bytes),
            overwrite: true,
        };
        Device::format(&*disk, env, &options).await.context("formatting a device")?;
        let device = Device::open(disk.clone(), env, DeviceConfig::default()).await.context("opening a device")?;
        let volume = device.volume(VolumeOwner::Objects);
        let manager = Arc::new(Manager::open_in_memory(env).await.context("opening a manager")?);
        let me = manager.register_node(node()).await.context("registering a node")?.id;
        let (owner, etag) = ("bench".to_owned(), EtagMode::Md5);
        let bucket = NewBucket { name: "bench".to_owned(), owner, engine: BucketEngine::Volume, etag };
        manager.create_bucket(bucket).await.context("making a bucket")?;
        let engine = Objects::serve_alone(env, manager, me, vec![volume.clone()]).engine();
        // All groups are served when they have answered.
        engine.list(&all()).await.context("listing an empty store")?;
        Ok(VolumeStore { engine, writes, volume, disk, env: env.clone(), _device: device })
    }

    async fn put_staged(&self, key: &ObjectKey, attributes: Attributes, bytes: Bytes) -> anyhow::Result<()> {
        let mut staged = self.engine.stage(key, None);
        for start in (0..bytes.len()).step_by(CHUNK_BYTES) {
            let piece = bytes.slice(start..bytes.len().min(start + CHUNK_BYTES));
            self.engine.stage_pieces(&mut staged, smallvec![piece]).await?;
        }
        self.engine.commit(key, staged, attributes, Condition::None).await?;
        Ok(())
    }
}

/// The only node.
fn node() -> RegisterNode {
    let nowhere = String::new;
    RegisterNode {
        identity: NodeIdentity([1; 16]),
        name: "bench".to_owned(),
        address: "127.0.0.1:9002".to_owned(),
        admin_address: nowhere(),
        s3_address: nowhere(),
        host: nowhere(),
        rack: nowhere(),
        zone: nowhere(),
        version: nowhere(),
        joined_ms: 0,
    }
}

fn all() -> ListQuery {
    let none = Bytes::new;
    ListQuery { bucket: BUCKET, prefix: none(), start_after: none(), delimiter: none(), max_items: 1 }
}

fn key(number: u64) -> ObjectKey {
    ObjectKey::new(BUCKET, name(number).into()).expect("a short name is a key")
}

impl Subject for VolumeStore {
    fn put(&self, number: u64, bytes: Bytes) -> Asked<'_, ()> {
        Box::pin(async move {
            let attributes = Attributes { modified_ms: self.env.wall_clock_ms(), ..Attributes::default() };
            let key = key(number);
            if self.writes == Writes::Ordered || bytes.len() > MAX_SMALL_BYTES {
                return self.put_staged(&key, attributes, bytes).await;
            }
            self.engine.put(&key, attributes, smallvec![bytes], Condition::None).await?;
            Ok(())
        })
    }

    fn get(&self, number: u64) -> Asked<'_, Bytes> {
        Box::pin(async move {
            let key = key(number);
            let found = match self.engine.open_cached(&key) {
                Some(found) => found?,
                None => self.engine.open(&key).await?,
            };
            let length = found.info.length;
            let reader = match found.content {
                Content::Whole(bytes) => return Ok(bytes),
                Content::Chunked(reader) => reader,
            };
            let first = reader.read(0..length).await?;
            if first.len() as u64 == length {
                return Ok(first);
            }
            let mut whole = BytesMut::from(&first[..]);
            while (whole.len() as u64) < length {
                let more = reader.read(whole.len() as u64..length).await?;
                ensure!(!more.is_empty(), "an object ends too early");
                whole.extend_from_slice(&more);
            }
            Ok(whole.freeze())
        })
    }

    fn delete(&self, number: u64) -> Asked<'_, ()> {
        Box::pin(async move { Ok(self.engine.delete(&key(number), Condition::None).await?) })
    }

    /// Of the units that the engine has, those of its log and its dumps included.
    fn occupied_bytes(&self) -> u64 {
        let units = self.volume.parts().into_iter().map(|part| self.volume.part(part).units().len() as u64);
        units.sum::<u64>() * self.volume.unit_bytes()
    }

    fn device(&self) -> DiskStats {
        self.disk.stats()
    }
}
