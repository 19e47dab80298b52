//! A node's part of the chunk store (docs/rfd/0012): its blocks, its lookup units, the maintenance units that it is a member of, a client.

mod in_cluster;

use crate::error::NodeError;
use chunkstore::block_service::BlockService;
use chunkstore::blocks::BlockStore;
use chunkstore::chunk_client::ChunkClient;
use chunkstore::contact::Contact;
use chunkstore::deliveries::Deliveries;
use chunkstore::host_service::HostService;
use chunkstore::load_reporting::LoadReporting;
use chunkstore::map_service::MapService;
use chunkstore::monitor::Monitor;
use chunkstore::monitor::balance::Balance;
use chunkstore::monitor::loads::Loads;
use chunkstore::protocol::{BLOCKS, DELIVERIES, HOSTS, LOADS, MAPS, UNITS};
use chunkstore::reporting::Reporting;
use chunkstore::settings::ChunkSettings;
use chunkstore::unit_ways::UnitWays;
use chunkstore::units::Units;
use device::Device;
use env::{Env, Instant};
use manager::Manager;
use net::{Service, ServiceTag};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use types::{DeviceId, NodeId};

use crate::callers::Callers;
use in_cluster::InCluster;

/// Services of the chunk store at a node's address.
pub const SERVICES: [ServiceTag; 6] = [BLOCKS, HOSTS, UNITS, DELIVERIES, MAPS, LOADS];

/// A node's part of the chunk store.
pub struct Chunks {
    pub client: ChunkClient,
    stores: BTreeMap<DeviceId, Arc<BlockStore>>,
    units: Arc<Units>,
    loads: Arc<Loads>,
    contact: Arc<Contact>,
}

/// What it is made of.
pub struct Surroundings<'a> {
    pub env: &'a Env,
    pub me: NodeId,
    /// Where this node listens.
    pub address: String,
    pub member: consensus::Node,
    pub manager: Arc<Manager>,
    pub callers: Callers,
    pub settings: ChunkSettings,
    /// In which every content is read once; zero: never.
    pub scrub_period: Duration,
}

/// A task for as long as the node lives.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a start makes: the part, its services, and what runs beside.
pub struct Started {
    pub chunks: Arc<Chunks>,
    pub services: BTreeMap<ServiceTag, Arc<dyn Service>>,
    pub tasks: Vec<Task>,
}

/// Opens the blocks of these devices and tells the manager of them.
pub async fn start(around: Surroundings<'_>, devices: &[Arc<Device>]) -> Result<Started, NodeError> {
    let Surroundings { env, me, address, member, manager, callers, settings, scrub_period } = around;
    let mut stores = BTreeMap::new();
    for device in devices {
        let Some(volume) = device.volume() else { continue };
        let store = BlockStore::open(env, volume).await.map_err(|error| NodeError::State(error.to_string()))?;
        tracing::info!(
            device = device.id().0,
            blocks = store.block_count(),
            "this node registers the space for chunks of a device"
        );
        let registered = manager.register_volume(device.id(), store.block_count()).await;
        registered.map_err(|error| NodeError::State(error.to_string()))?;
        stores.insert(device.id(), Arc::new(store));
    }
    let reach = InCluster::new(env, me, manager.clone(), callers);
    let hosts = Arc::new(HostService::new(env, reach.clone()));
    let contact = Arc::new(Contact::default());
    let blocks = Arc::new(BlockService::new(env, reach.clone(), stores.clone(), contact.clone()));
    let units = Arc::new(Units::new(env, me, member, manager.clone(), reach.clone(), settings));
    let deliveries = Deliveries::new(env);
    let client = ChunkClient::new(env, reach.clone(), deliveries.clone(), address);
    let loads = Arc::new(Loads::new(env, manager.clone()));
    let services: BTreeMap<ServiceTag, Arc<dyn Service>> = BTreeMap::from([
        (BLOCKS, blocks.clone() as Arc<dyn Service>),
        (HOSTS, hosts.clone()),
        (UNITS, units.clone()),
        (DELIVERIES, deliveries),
        (MAPS, Arc::new(MapService::new(manager.clone()))),
        (LOADS, loads.clone()),
    ]);
    reach.serve_here(services.clone());
    let has_stores = !stores.is_empty();
    let load_reporting =
        LoadReporting { env: env.clone(), me, manager: manager.clone(), reach: reach.clone(), blocks: blocks.clone() };
    let balance = Balance::new(env, manager.clone(), UnitWays::new(env, reach.clone()), loads.clone());
    let reporting = Reporting { env: env.clone(), me, reach, hosts, blocks, contact: contact.clone() };
    let monitor =
        Monitor { env: env.clone(), me, manager: manager.clone(), loads: loads.clone(), shard_chunks: settings.shard_chunks };
    let mut tasks: Vec<Task> =
        vec![Box::pin(reporting.run()), Box::pin(monitor.run()), Box::pin(follow_units(manager, units.clone()))];
    if has_stores {
        tasks.push(Box::pin(load_reporting.run()));
    }
    if settings.is_balanced {
        tasks.push(Box::pin(balance.run()));
    }
    if !scrub_period.is_zero() {
        let scrub = |store: Arc<BlockStore>| Box::pin(async move { store.scrub(scrub_period).await }) as Task;
        tasks.extend(stores.values().cloned().map(scrub));
    }
    Ok(Started { chunks: Arc::new(Chunks { client, stores, units, loads, contact }), services, tasks })
}

/// Takes part in the units that the manager says.
async fn follow_units(manager: Arc<Manager>, units: Arc<Units>) {
    let mut changes = manager.changes();
    loop {
        units.follow(&manager.snapshot()).await;
        if changes.changed().await.is_err() {
            return;
        }
    }
}

impl Chunks {
    /// The blocks of each device.
    pub fn stores(&self) -> impl Iterator<Item = (DeviceId, &Arc<BlockStore>)> {
        self.stores.iter().map(|(device, store)| (*device, store))
    }

    /// The maintenance units that this node is a member of.
    pub fn units(&self) -> &Arc<Units> {
        &self.units
    }

    /// Whether this node is a member of units and has not heard the manager lately.
    pub fn is_cut_off(&self, now: Instant) -> bool {
        self.units.counts().1 > 0 && !self.contact.is_held(now)
    }

    /// What nodes have told this one of their load, while it leads the manager.
    pub fn loads(&self) -> &Arc<Loads> {
        &self.loads
    }

    /// Ends what writes to a device, so that it can be sealed.
    pub async fn close_of(&self, device: DeviceId) {
        if let Some(store) = self.stores.get(&device) {
            store.close().await;
        }
    }
}
