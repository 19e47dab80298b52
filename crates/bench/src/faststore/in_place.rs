//! The path of block images, as it is served: the holder of an image (`block::image`) on the store of one device (`block::store`), one copy.
//!
//! ```text
//!   write ─► Image: range lock, edges read ─► BlobStore ─► volume of the device ─► one durable write
//! ```
//!
//! What is left out is the network, the manager and the export. Object i is part i of the image. The image's record never changes, so there is no
//! registry.

use super::map::OBJECT_BYTES;
use super::path::{Step, WritePath};
use anyhow::{Context, bail};
use block::image::{Ancestor, Ancestors, Image, Outside, Part, Placement};
use block::registry::{Recorded, Registry, RegistryError, View};
use block::store::BlobStore;
use block::stores::{Admission, Asked, BlobAt, BlobRow, BlobSums, Change, NewBlob, Stores};
use bytes::Bytes;
use device::limits::{LENDING_LEAVES_ZONES, MIN_ZONES};
use device::{Device, DeviceConfig, FormatOptions, VolumeOwner};
use disk::Disk;
use env::Env;
use format::blob_header::{BLOB_STRIDE_BYTES, BlobState};
use format::superblock::FIRST_REGION_BYTE;
use format::zone_header::ZONE_DATA_START;
use manager::Redundancy;
use net::BoxFuture;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::sync::Arc;
use types::{BlobId, CellId, ClusterId, DeviceId, ImageEpoch, ImageId, Layer, NodeId, Token};

const DEVICE: DeviceId = DeviceId(1);
const NODE: NodeId = NodeId(1);
const IMAGE: ImageId = ImageId(1);
/// Blobs in a unit of the volume, so that none straddles two.
const UNIT_BLOBS: u64 = 8;

/// An image on a device.
pub struct InPlace {
    disk: Arc<dyn Disk>,
    image: Image,
    /// The image's volume is the device's.
    _device: Device,
}

/// Bytes of a device that has room for so many objects.
pub fn device_bytes(objects: u32) -> u64 {
    let zones = u64::from(MIN_ZONES) + LENDING_LEAVES_ZONES as u64 + u64::from(objects).div_ceil(UNIT_BLOBS);
    FIRST_REGION_BYTE + zones * zone_bytes()
}

fn zone_bytes() -> u64 {
    ZONE_DATA_START + UNIT_BLOBS * BLOB_STRIDE_BYTES
}

/// Formats a device on which so many objects find space that needs no making.
pub async fn prepare(disk: &Arc<dyn Disk>, env: &Env, objects: u32) -> anyhow::Result<()> {
    let options = FormatOptions {
        cluster: ClusterId([1; 16]),
        device: DEVICE,
        cell: CellId(1),
        zone_bytes: Some(zone_bytes()),
        capacity_bytes: Some(device_bytes(objects)),
        overwrite: false,
    };
    Device::format(&**disk, env, &options).await.context("formatting the device")?;
    let (device, store) = open_store(disk, env).await?;
    let admission = Admission { image: IMAGE, token: Token(1), session: 0, epoch: ImageEpoch(1) };
    store.enter(admission).await?;
    let mut made = Vec::new();
    for index in 0..objects {
        let id = BlobId { image: IMAGE, index, layer: Layer(1) };
        let new = NewBlob { id, state: BlobState::Whole, parent: None };
        let block = store.create(admission, new, Change::default()).await.context("making a blob")?;
        made.push(BlobAt { block, id });
    }
    for at in made {
        store.free(admission, at).await.context("freeing a blob")?;
    }
    store.close().await;
    drop(device);
    Ok(())
}

async fn open_store(disk: &Arc<dyn Disk>, env: &Env) -> anyhow::Result<(Device, BlobStore)> {
    // No zones ahead of the log's use: nothing is written in the background.
    let config = DeviceConfig { prewrite_zones: 0, ..DeviceConfig::default() };
    let device = Device::open(disk.clone(), env, config).await.context("opening the device")?;
    let store = BlobStore::open(env, device.volume(VolumeOwner::Images)).await.context("opening the image store")?;
    Ok((device, store))
}

impl InPlace {
    /// Opens the image of so many objects on a prepared device. Each holder has a greater token.
    pub async fn open(disk: Arc<dyn Disk>, env: &Env, objects: u32, token: Token) -> anyhow::Result<InPlace> {
        let (device, store) = open_store(&disk, env).await?;
        let outside = Outside {
            env: env.clone(),
            stores: Arc::new(OneStore(store)),
            registry: Arc::new(Fixed),
            placement: Arc::new(Fixed),
            ancestors: Arc::new(Fixed),
        };
        let view = View {
            id: IMAGE,
            size_bytes: u64::from(objects) * u64::from(OBJECT_BYTES),
            layer: Layer(1),
            branches: Vec::new(),
            snapshots: Vec::new(),
            parent: None,
            token,
            epoch: ImageEpoch(1),
            copies: 1,
            devices: vec![DEVICE],
            out: Vec::new(),
            redundancy: Redundancy { hosts: 1, devices: 1 },
            short_hosts: Vec::new(),
            is_settled: true,
        };
        let image = Image::open(outside, view).await.context("opening the image")?;
        Ok(InPlace { disk, image, _device: device })
    }
}

impl WritePath for InPlace {
    async fn write(&mut self, object: u32, offset: u32, data: Bytes) -> anyhow::Result<Vec<Step>> {
        let range = offset..offset + data.len() as u32;
        let at = u64::from(object) * u64::from(OBJECT_BYTES) + u64::from(offset);
        self.image.write(at, data).await?;
        Ok(vec![Step { range, cut: None }])
    }

    async fn settle(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn read(&self, object: u32, range: Range<u32>) -> anyhow::Result<Vec<u8>> {
        let at = u64::from(object) * u64::from(OBJECT_BYTES) + u64::from(range.start);
        let mut bytes = Vec::with_capacity(range.len());
        for part in self.image.read(at, range.len() as u32).await? {
            match part {
                Part::Data(data) => bytes.extend_from_slice(&data),
                Part::Zeros(length) => bytes.resize(bytes.len() + length as usize, 0),
            }
        }
        if bytes.len() != range.len() {
            bail!("a read of {} bytes brought {}", range.len(), bytes.len());
        }
        Ok(bytes)
    }

    fn disk(&self) -> &dyn Disk {
        &*self.disk
    }
}

/// The only store there is.
struct OneStore(BlobStore);

impl Stores for OneStore {
    fn enter(&self, _device: DeviceId, admission: Admission) -> Asked<'_, Vec<BlobRow>> {
        Box::pin(self.0.enter(admission))
    }

    fn create(&self, _device: DeviceId, admission: Admission, blob: NewBlob, change: Change) -> Asked<'_, u32> {
        Box::pin(self.0.create(admission, blob, change))
    }

    fn change(&self, _device: DeviceId, admission: Admission, at: BlobAt, change: Change) -> Asked<'_, ()> {
        Box::pin(self.0.change(admission, at, change))
    }

    fn complete(&self, _device: DeviceId, admission: Admission, at: BlobAt) -> Asked<'_, ()> {
        Box::pin(self.0.complete(admission, at))
    }

    fn read(&self, _device: DeviceId, admission: Option<Admission>, at: BlobAt, offset: u32, length: u32) -> Asked<'_, Bytes> {
        Box::pin(self.0.read(admission, at, offset, length))
    }

    fn sums(&self, _device: DeviceId, admission: Admission, id: BlobId) -> Asked<'_, BlobSums> {
        Box::pin(self.0.sums(admission, id))
    }

    fn free(&self, _device: DeviceId, admission: Admission, at: BlobAt) -> Asked<'_, ()> {
        Box::pin(self.0.free(admission, at))
    }

    fn flush(&self, _device: DeviceId) -> Asked<'_, ()> {
        Box::pin(self.0.flush())
    }
}

/// A cluster of one device, and a record that does not change.
struct Fixed;

impl Placement for Fixed {
    fn devices(&self) -> Vec<DeviceId> {
        vec![DEVICE]
    }

    fn host_of(&self, device: DeviceId) -> Option<NodeId> {
        (device == DEVICE).then_some(NODE)
    }

    fn is_leaving(&self, _device: DeviceId) -> bool {
        false
    }

    fn is_here(&self, device: DeviceId) -> bool {
        device == DEVICE
    }

    fn places(&self, _blob: BlobId, count: usize, beside: &[DeviceId], without: &[DeviceId]) -> SmallVec<[DeviceId; 3]> {
        let is_wanted = count > 0 && !beside.contains(&DEVICE) && !without.contains(&DEVICE);
        if is_wanted { smallvec![DEVICE] } else { SmallVec::new() }
    }
}

impl Ancestors for Fixed {
    fn ancestor(&self, image: ImageId) -> BoxFuture<'_, Result<Ancestor, String>> {
        Box::pin(std::future::ready(Err(format!("the experiment has no image {image}"))))
    }
}

fn refused<'a>(what: &str) -> Recorded<'a> {
    let reason = format!("the experiment's image does not change: {what} was asked for");
    Box::pin(std::future::ready(Err(RegistryError::Refused(reason))))
}

impl Registry for Fixed {
    fn snapshot<'a>(&'a self, _image: ImageId, _token: Token, _name: &'a str, _ended: Layer) -> Recorded<'a> {
        refused("a snapshot")
    }

    fn remove_snapshot<'a>(&'a self, _image: ImageId, _token: Token, _name: &'a str) -> Recorded<'a> {
        refused("the end of a snapshot")
    }

    fn rollback<'a>(&'a self, _image: ImageId, _token: Token, _name: &'a str, _ended: Layer) -> Recorded<'a> {
        refused("a rollback")
    }

    fn use_devices(&self, _image: ImageId, _token: Token, _devices: Vec<DeviceId>) -> Recorded<'_> {
        refused("another device")
    }

    fn take_out(
        &self,
        _image: ImageId,
        _token: Token,
        _devices: Vec<DeviceId>,
        _redundancy: Redundancy,
        _short_host: Option<NodeId>,
    ) -> Recorded<'_> {
        refused("a device's end")
    }

    fn put_in(&self, _image: ImageId, _token: Token, _device: DeviceId, _redundancy: Redundancy) -> Recorded<'_> {
        refused("a device's return")
    }

    fn flatten(&self, _image: ImageId, _token: Token) -> Recorded<'_> {
        refused("flattening")
    }

    fn set_size(&self, _image: ImageId, _token: Token, _size_bytes: u64) -> Recorded<'_> {
        refused("another size")
    }
}
