//! A manager's records in memory, and images on twins of stores.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::BytesMut;
use env::Env;
use manager::Redundancy;
use net::BoxFuture;
use parking_lot::Mutex;
use smallvec::SmallVec;
use types::{BLOB_BYTES, BlobId, DeviceId, ImageEpoch, ImageId, Layer, LayerOf, NodeId, Token};

use super::super::content::extend;
use super::super::{Ancestor, Ancestors, Image, OpenError, Outside, Placement, below};
use super::Twin;
use crate::registry::{Branch, Recorded, Registry, RegistryError, Snapshot, View};

pub(crate) const DEVICE: DeviceId = DeviceId(3);
pub(crate) const OTHER: DeviceId = DeviceId(4);
pub(crate) const THIRD: DeviceId = DeviceId(5);
pub(crate) const FOURTH: DeviceId = DeviceId(6);
/// The first image of a world.
pub(crate) const FIRST: ImageId = ImageId(1);

/// What goes wrong with one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Question,
    Answer,
}

#[derive(Default)]
pub(crate) struct Records {
    views: Mutex<BTreeMap<ImageId, View>>,
    /// Sizes at the snapshots' times.
    sizes: Mutex<BTreeMap<(ImageId, Layer), u64>>,
    losses: Mutex<VecDeque<Loss>>,
    last_token: Mutex<u64>,
    /// Open images.
    held: Mutex<BTreeSet<ImageId>>,
}

impl Records {
    pub(crate) fn lose(&self, losses: impl IntoIterator<Item = Loss>) {
        self.losses.lock().extend(losses);
    }

    pub(crate) fn view(&self, image: ImageId) -> View {
        self.views.lock()[&image].clone()
    }

    /// The manager is lost, and its records come from a copy, which skips layers.
    pub(crate) fn import(&self, image: ImageId) {
        let mut views = self.views.lock();
        let view = views.get_mut(&image).unwrap();
        view.layer.0 += manager::IMPORT_SKIPPED_LAYERS;
        view.is_settled = false;
        self.held.lock().remove(&image);
    }

    fn add(&self, view: View) {
        self.views.lock().insert(view.id, view);
    }

    /// Gives a new token.
    fn take(&self, image: ImageId) -> View {
        let mut last = self.last_token.lock();
        *last += 1;
        let mut views = self.views.lock();
        let view = views.get_mut(&image).unwrap();
        view.token = Token(*last);
        view.is_settled &= self.held.lock().insert(image);
        view.clone()
    }

    fn command(
        &self,
        image: ImageId,
        token: Token,
        change: impl FnOnce(&mut View) -> Result<(), RegistryError>,
    ) -> Result<View, RegistryError> {
        let loss = self.losses.lock().pop_front();
        if loss == Some(Loss::Question) {
            return Err(RegistryError::Unclear("lost".into()));
        }
        let mut views = self.views.lock();
        let view = views.get_mut(&image).unwrap();
        if view.token != token {
            return Err(RegistryError::Superseded);
        }
        change(view)?;
        if loss == Some(Loss::Answer) { Err(RegistryError::Unclear("lost".into())) } else { Ok(view.clone()) }
    }
}

fn layer_of(view: &View, name: &str) -> Result<Layer, RegistryError> {
    let found = view.snapshots.iter().find(|snapshot| snapshot.name == name);
    found.map(|snapshot| snapshot.layer).ok_or(RegistryError::NoSuchSnapshot)
}

impl Registry for Records {
    fn snapshot<'a>(&'a self, image: ImageId, token: Token, name: &'a str, ended: Layer) -> Recorded<'a> {
        let answer = self.command(image, token, |view| match layer_of(view, name) {
            Ok(layer) if layer == ended && view.layer.0 == ended.0 + 1 => Ok(()),
            Ok(_) => Err(RegistryError::SnapshotExists),
            Err(_) if view.layer != ended => Err(RegistryError::Refused("another layer".into())),
            Err(_) => {
                view.snapshots.push(Snapshot { name: name.into(), layer: ended });
                view.layer = Layer(ended.0 + 1);
                self.sizes.lock().insert((image, ended), view.size_bytes);
                Ok(())
            }
        });
        Box::pin(std::future::ready(answer))
    }

    fn remove_snapshot<'a>(&'a self, image: ImageId, token: Token, name: &'a str) -> Recorded<'a> {
        let answer = self.command(image, token, |view| {
            layer_of(view, name)?;
            view.snapshots.retain(|snapshot| snapshot.name != name);
            Ok(())
        });
        Box::pin(std::future::ready(answer))
    }

    fn rollback<'a>(&'a self, image: ImageId, token: Token, name: &'a str, ended: Layer) -> Recorded<'a> {
        let answer = self.command(image, token, |view| {
            let base = layer_of(view, name)?;
            let branch = Branch { layer: Layer(ended.0 + 1), base };
            if view.branches.contains(&branch) && view.layer == branch.layer {
                return Ok(());
            }
            if view.layer != ended {
                return Err(RegistryError::Refused("another layer".into()));
            }
            view.branches.push(branch);
            view.layer = branch.layer;
            view.size_bytes = self.sizes.lock()[&(image, base)];
            Ok(())
        });
        Box::pin(std::future::ready(answer))
    }

    fn use_devices(&self, image: ImageId, token: Token, devices: Vec<DeviceId>) -> Recorded<'_> {
        let answer = self.command(image, token, |view| {
            for device in devices {
                if !view.devices.contains(&device) && view.out.iter().all(|(out, _)| *out != device) {
                    view.devices.push(device);
                    view.devices.sort_unstable();
                }
            }
            Ok(())
        });
        Box::pin(std::future::ready(answer))
    }

    fn take_out(
        &self,
        image: ImageId,
        token: Token,
        devices: Vec<DeviceId>,
        redundancy: Redundancy,
        short_host: Option<NodeId>,
    ) -> Recorded<'_> {
        let answer = self.command(image, token, |view| {
            assert!(1 <= redundancy.hosts && redundancy.hosts <= redundancy.devices && redundancy.devices <= view.copies);
            view.redundancy = redundancy;
            view.short_hosts = short_host.into_iter().collect();
            view.epoch = ImageEpoch(view.epoch.0 + 1);
            for device in devices {
                view.devices.retain(|other| *other != device);
                if view.out.iter().all(|(out, _)| *out != device) {
                    view.out.push((device, view.epoch));
                }
            }
            assert!(!view.devices.is_empty(), "the last device in sync");
            Ok(())
        });
        Box::pin(std::future::ready(answer))
    }

    fn put_in(&self, image: ImageId, token: Token, device: DeviceId, redundancy: Redundancy) -> Recorded<'_> {
        let answer = self.command(image, token, |view| {
            view.redundancy = redundancy;
            view.short_hosts.clear();
            view.out.retain(|(out, _)| *out != device);
            if !view.devices.contains(&device) {
                view.devices.push(device);
                view.devices.sort_unstable();
            }
            Ok(())
        });
        Box::pin(std::future::ready(answer))
    }

    fn flatten(&self, image: ImageId, token: Token) -> Recorded<'_> {
        let answer = self.command(image, token, |view| {
            view.parent = None;
            Ok(())
        });
        Box::pin(std::future::ready(answer))
    }

    fn set_size(&self, image: ImageId, token: Token, size_bytes: u64) -> Recorded<'_> {
        let answer = self.command(image, token, |view| {
            view.size_bytes = size_bytes;
            Ok(())
        });
        Box::pin(std::future::ready(answer))
    }
}

/// New blobs go to the first devices that are not full.
struct InOrder {
    devices: Vec<DeviceId>,
    /// Consecutive devices share a host.
    devices_per_host: usize,
    stores: Arc<Twin>,
    drained: Arc<Mutex<BTreeSet<DeviceId>>>,
}

impl Placement for InOrder {
    fn devices(&self) -> Vec<DeviceId> {
        let takes = |device: &DeviceId| !self.stores.is_dead(*device) && !self.is_leaving(*device);
        self.devices.iter().copied().filter(takes).collect()
    }

    fn host_of(&self, device: DeviceId) -> Option<NodeId> {
        let at = self.devices.iter().position(|other| *other == device).filter(|_| !self.stores.is_given_up(device));
        at.map(|at| NodeId((at / self.devices_per_host) as u32))
    }

    fn is_leaving(&self, device: DeviceId) -> bool {
        self.drained.lock().contains(&device)
    }

    fn is_here(&self, device: DeviceId) -> bool {
        device == self.devices[0]
    }

    fn places(&self, blob: BlobId, count: usize, beside: &[DeviceId], without: &[DeviceId]) -> SmallVec<[DeviceId; 3]> {
        let usable = |device: &DeviceId| !beside.contains(device) && !without.contains(device);
        let mut devices: Vec<DeviceId> = self.devices().into_iter().filter(usable).collect();
        if self.devices.len() > 2 {
            devices.sort_by_key(|device| (u64::from(blob.index) + 1) * 7919 * u64::from(device.0 + 1) % 101);
        }
        // On as many hosts as there are.
        let (mut first, mut more) = (SmallVec::<[DeviceId; 3]>::new(), Vec::new());
        for device in devices {
            let is_new = beside.iter().chain(&first).all(|other| self.host_of(*other) != self.host_of(device));
            if is_new { first.push(device) } else { more.push(device) }
        }
        first.into_iter().chain(more).take(count).collect()
    }
}

struct Loaded(Arc<Records>, Arc<Twin>);

impl Ancestors for Loaded {
    fn ancestor(&self, image: ImageId) -> BoxFuture<'_, Result<Ancestor, String>> {
        let view = self.0.view(image);
        let mut rows = self.1.rows(image);
        rows.retain(|(device, _)| view.devices.contains(device) && !self.1.is_dead(*device));
        let ancestor = Ancestor { view, rows };
        Box::pin(std::future::ready(Ok(ancestor)))
    }
}

/// A cluster of twins.
pub(crate) struct World {
    pub(crate) stores: Arc<Twin>,
    pub(crate) records: Arc<Records>,
    pub(crate) outside: Outside,
    copies: u8,
    drained: Arc<Mutex<BTreeSet<DeviceId>>>,
}

impl World {
    /// A world with [`FIRST`], whose devices have so many blocks each.
    pub(crate) fn new(seed: u64, size_bytes: u64, capacity: usize) -> World {
        World::with_copies(seed, size_bytes, capacity, 1)
    }

    pub(crate) fn with_copies(seed: u64, size_bytes: u64, capacity: usize, copies: usize) -> World {
        let devices = if copies > 2 { [DEVICE, OTHER, THIRD, FOURTH].as_slice() } else { &[DEVICE, OTHER] };
        World::on(seed, size_bytes, capacity, copies, devices, 1)
    }

    /// Two copies on two hosts, which have two devices each.
    pub(crate) fn with_pairs(seed: u64, size_bytes: u64, capacity: usize) -> World {
        World::on(seed, size_bytes, capacity, 2, &[DEVICE, OTHER, THIRD, FOURTH], 2)
    }

    fn on(seed: u64, size_bytes: u64, capacity: usize, copies: usize, devices: &[DeviceId], devices_per_host: usize) -> World {
        let env = Env::simulated(seed);
        let stores = Arc::new(Twin::new(&env, devices, capacity));
        let records = Arc::new(Records::default());
        let drained = Arc::<Mutex<BTreeSet<DeviceId>>>::default();
        let outside = Outside {
            env,
            stores: stores.clone(),
            registry: records.clone(),
            placement: Arc::new(InOrder {
                devices: devices.to_vec(),
                devices_per_host,
                stores: stores.clone(),
                drained: drained.clone(),
            }),
            ancestors: Arc::new(Loaded(records.clone(), stores.clone())),
        };
        let world = World { stores, records, outside, copies: copies as u8, drained };
        world.add(FIRST, size_bytes, None);
        world
    }

    pub(crate) fn add(&self, id: ImageId, size_bytes: u64, parent: Option<LayerOf>) {
        self.records.add(View {
            id,
            size_bytes,
            layer: Layer(1),
            branches: Vec::new(),
            snapshots: Vec::new(),
            parent,
            token: Token(0),
            epoch: ImageEpoch(1),
            devices: vec![DEVICE, OTHER],
            copies: self.copies,
            out: Vec::new(),
            redundancy: Redundancy { hosts: self.copies, devices: self.copies },
            short_hosts: Vec::new(),
            is_settled: true,
        });
    }

    /// Opens an image with a new token.
    pub(crate) async fn open(&self, image: ImageId) -> Result<Image, OpenError> {
        Image::open(self.outside.clone(), self.records.take(image)).await
    }

    /// Copies are to leave a device.
    pub(crate) fn drain(&self, device: DeviceId) {
        self.drained.lock().insert(device);
    }

    /// A device is given up, as the manager does it.
    pub(crate) fn give_up(&self, device: DeviceId) {
        self.stores.give_up(device);
        for view in self.records.views.lock().values_mut() {
            view.devices.retain(|other| *other != device);
            view.out.retain(|(out, _)| *out != device);
            view.redundancy = Redundancy { hosts: view.redundancy.hosts - 1, devices: view.redundancy.devices - 1 };
        }
    }

    /// Closes an image as its holder does.
    pub(crate) async fn close(&self, image: Image) {
        image.close().await.unwrap();
        let mut views = self.records.views.lock();
        let view = views.get_mut(&image.id()).unwrap();
        view.is_settled = image.is_settled();
        self.records.held.lock().remove(&image.id());
    }

    /// Which layer of an image a snapshot is.
    pub(crate) fn layer(&self, image: ImageId, name: &str) -> LayerOf {
        LayerOf { image, layer: layer_of(&self.records.view(image), name).unwrap() }
    }

    /// What a clone of a layer would see.
    pub(crate) async fn read_layer(&self, layer: LayerOf, size_bytes: u64) -> Vec<u8> {
        let below = below::load(&self.outside, Some(layer)).await.unwrap().unwrap();
        let mut bytes = BytesMut::new();
        for index in 0..size_bytes.div_ceil(u64::from(BLOB_BYTES)) {
            let end = u64::from(BLOB_BYTES).min(size_bytes - index * u64::from(BLOB_BYTES)) as u32;
            extend(&mut bytes, &below.read(index as u32, 0..end).await.unwrap());
        }
        bytes.to_vec()
    }
}

pub(crate) async fn read(image: &Image, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    extend(&mut bytes, &image.read(offset, length).await.unwrap());
    assert_eq!(bytes.len(), length as usize, "the content covers the range");
    bytes.to_vec()
}
