//! The volume engine as a subject, and how its parts are begun: nothing else here knows that.

use super::subject::{Asked, Subject, name};
use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use device::{Device, DeviceConfig, FormatOptions, SyncMode, Volume, VolumeOwner};
use disk::{Disk, DiskStats};
use engine::{Condition, Content, ListQuery, ObjectEngine, ObjectKey};
use env::Env;
use format::attributes::Attributes;
use manager::{BucketEngine, EtagMode, Manager, NewBucket, RegisterNode};
use smallvec::smallvec;
use std::sync::Arc;
use types::limits::{CHUNK_BYTES, MAX_SMALL_BYTES};
use types::{BucketId, CellId, ClusterId, DeviceId, NodeId, NodeIdentity};
use volstore::{Around, Objects, StoreStats};

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

/// How a store is set up.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub writes: Writes,
    /// A group's log takes one part in so many of the usual.
    pub log_divisor: usize,
    pub sync: SyncMode,
    /// Bytes that the record of each object has beside what it needs.
    pub padding: usize,
}

impl Settings {
    /// As a server has them.
    pub const USUAL: Settings = Settings { writes: Writes::Parallel, log_divisor: 1, sync: SyncMode::Always, padding: 0 };
}

/// The placement groups of a lone server, on one device.
pub struct VolumeStore {
    engine: Arc<dyn ObjectEngine>,
    objects: Arc<Objects>,
    settings: Settings,
    volume: Volume,
    disk: Arc<dyn Disk>,
    env: Env,
    /// It is served as long as it is there.
    _device: Device,
}

impl VolumeStore {
    /// Formats a disk, and opens a store on it.
    pub async fn new(env: &Env, disk: Arc<dyn Disk>, capacity_bytes: u64, settings: Settings) -> anyhow::Result<VolumeStore> {
        let device = open_device(env, disk.clone(), 1, capacity_bytes, settings.sync).await?;
        let volume = device.volume(VolumeOwner::Objects);
        let manager = Arc::new(Manager::open_in_memory(env).await.context("opening a manager")?);
        let me = register(&manager, 1).await?;
        make_bucket(&manager).await?;
        let around = Around { log_divisor: settings.log_divisor, ..Around::nothing() };
        let objects = Objects::serve(env, manager, me, vec![volume.clone()], around);
        let engine = objects.engine();
        // All groups are served when they have answered.
        list_nothing(&*engine).await?;
        Ok(VolumeStore { engine, objects, settings, volume, disk, env: env.clone(), _device: device })
    }

    /// Counts of all groups.
    pub fn stats(&self) -> Vec<StoreStats> {
        self.objects.stats()
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

/// Formats a disk, and opens the device.
pub async fn open_device(
    env: &Env,
    disk: Arc<dyn Disk>,
    number: u32,
    capacity_bytes: u64,
    sync: SyncMode,
) -> anyhow::Result<Device> {
    let options = FormatOptions {
        cluster: ClusterId([1; 16]),
        device: DeviceId(number),
        cell: CellId(1),
        zone_bytes: Some(ZONE_BYTES),
        capacity_bytes: Some(capacity_bytes),
        overwrite: true,
    };
    Device::format(&*disk, env, &options).await.context("formatting a device")?;
    let config = DeviceConfig { sync, ..DeviceConfig::default() };
    Device::open(disk, env, config).await.context("opening a device")
}

/// Makes a node known, by a number of its own.
pub async fn register(manager: &Manager, number: u8) -> anyhow::Result<NodeId> {
    let nowhere = String::new;
    let node = RegisterNode {
        identity: NodeIdentity([number; 16]),
        name: format!("bench-{number}"),
        address: format!("127.0.0.{number}:9002"),
        admin_address: nowhere(),
        s3_address: nowhere(),
        host: nowhere(),
        rack: nowhere(),
        zone: nowhere(),
        version: nowhere(),
        joined_ms: 0,
    };
    Ok(manager.register_node(node).await.context("registering a node")?.id)
}

/// Makes the bucket of all objects: the placement groups are founded for it.
pub async fn make_bucket(manager: &Manager) -> anyhow::Result<()> {
    let (owner, etag) = ("bench".to_owned(), EtagMode::Md5);
    let bucket = NewBucket { name: "bench".to_owned(), owner, engine: BucketEngine::Volume, etag };
    manager.create_bucket(bucket).await.context("making a bucket")?;
    Ok(())
}

/// Asks all groups for names.
pub async fn list_nothing(engine: &dyn ObjectEngine) -> anyhow::Result<()> {
    let none = Bytes::new;
    let query = ListQuery { bucket: BUCKET, prefix: none(), start_after: none(), delimiter: none(), max_items: 1 };
    engine.list(&query).await.context("listing an empty store")?;
    Ok(())
}

pub fn key(number: u64) -> ObjectKey {
    ObjectKey::new(BUCKET, name(number).into()).expect("a short name is a key")
}

/// Attributes that take so many bytes more than they need.
pub fn attributes(env: &Env, padding: usize) -> Attributes {
    let metadata = match padding {
        0 => Vec::new(),
        bytes => vec![(Bytes::from_static(b"p"), Bytes::from(vec![b'x'; bytes]))],
    };
    Attributes { modified_ms: env.wall_clock_ms(), metadata, ..Attributes::default() }
}

/// The bytes of an object.
pub async fn read_whole(engine: &dyn ObjectEngine, key: &ObjectKey) -> anyhow::Result<Bytes> {
    let found = match engine.open_cached(key) {
        Some(found) => found?,
        None => engine.open(key).await?,
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
}

impl Subject for VolumeStore {
    fn put(&self, number: u64, bytes: Bytes) -> Asked<'_, ()> {
        Box::pin(async move {
            let attributes = attributes(&self.env, self.settings.padding);
            let key = key(number);
            if self.settings.writes == Writes::Ordered || bytes.len() > MAX_SMALL_BYTES {
                return self.put_staged(&key, attributes, bytes).await;
            }
            self.engine.put(&key, attributes, smallvec![bytes], Condition::None).await?;
            Ok(())
        })
    }

    fn get(&self, number: u64) -> Asked<'_, Bytes> {
        Box::pin(async move { read_whole(&*self.engine, &key(number)).await })
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
