//! A node's part of the chunk store (docs/rfd/0012): its blocks, its lookup units, the maintenance units that it is a member of, a client.

mod figures;
mod in_cluster;

use crate::block_service::BlockService;
use crate::blocks::BlockStore;
use crate::chunk_client::ChunkClient;
use crate::contact::Contact;
use crate::deliveries::Deliveries;
use crate::host_service::HostService;
use crate::load_reporting::LoadReporting;
use crate::map_service::MapService;
use crate::monitor::Monitor;
use crate::monitor::balance::Balance;
use crate::monitor::loads::Loads;
use crate::protocol::{BLOCKS, DELIVERIES, HOSTS, LOADS, MAPS, UNITS};
use crate::reporting::Reporting;
use crate::settings::ChunkSettings;
use crate::unit_ways::UnitWays;
use crate::units::Units;
use device::VolumeOwner;
use groups::{Named, named_by_others};
use in_cluster::InCluster;
use manager::GroupKind;
use net::{BoxFuture, Service, ServiceTag};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use subsystem::{AskedScrub, Figure, Loss, Starter, StatusLine, Subsystem, Surroundings, Task};
use types::DeviceId;

/// What a node begins its part with.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChunkStarter {
    pub settings: ChunkSettings,
    /// In which every content is read once; zero: never.
    pub scrub_period: Duration,
}

/// A node's part of the chunk store.
pub struct Chunks {
    pub client: ChunkClient,
    around: Surroundings,
    starter: ChunkStarter,
    stores: BTreeMap<DeviceId, Arc<BlockStore>>,
    reach: Arc<InCluster>,
    blocks: Arc<BlockService>,
    hosts: Arc<HostService>,
    units: Arc<Units>,
    deliveries: Arc<Deliveries>,
    loads: Arc<Loads>,
    contact: Arc<Contact>,
}

impl Starter for ChunkStarter {
    fn start(self: Box<Self>, around: Surroundings) -> BoxFuture<'static, Result<Arc<dyn Subsystem>, String>> {
        Box::pin(async move {
            let stores = open_stores(&around).await?;
            Ok(Arc::new(Chunks::new(*self, around, stores)) as Arc<dyn Subsystem>)
        })
    }
}

/// Opens the blocks of the node's devices and tells the manager of them.
async fn open_stores(around: &Surroundings) -> Result<BTreeMap<DeviceId, Arc<BlockStore>>, String> {
    let mut stores = BTreeMap::new();
    for device in &around.devices {
        let store =
            BlockStore::open(&around.env, device.volume(VolumeOwner::Chunks)).await.map_err(|error| error.to_string())?;
        tracing::info!(
            device = device.id().0,
            blocks = store.block_count(),
            "this node registers the space for chunks of a device"
        );
        let registered = around.manager.register_volume(device.id(), store.block_count()).await;
        registered.map_err(|error| error.to_string())?;
        stores.insert(device.id(), Arc::new(store));
    }
    Ok(stores)
}

impl Chunks {
    fn new(starter: ChunkStarter, around: Surroundings, stores: BTreeMap<DeviceId, Arc<BlockStore>>) -> Chunks {
        let Surroundings { env, me, address, member, manager, callers, .. } = around.clone();
        let reach = InCluster::new(&env, me, manager.clone(), callers);
        let hosts = Arc::new(HostService::new(&env, reach.clone()));
        let contact = Arc::new(Contact::default());
        let blocks = Arc::new(BlockService::new(&env, reach.clone(), stores.clone(), contact.clone()));
        let units = Arc::new(Units::new(&env, me, member, manager.clone(), reach.clone(), starter.settings));
        let deliveries = Deliveries::new(&env);
        let client = ChunkClient::new(&env, reach.clone(), deliveries.clone(), address);
        let loads = Arc::new(Loads::new(&env, manager));
        let chunks = Chunks { client, around, starter, stores, reach, blocks, hosts, units, deliveries, loads, contact };
        chunks.reach.serve_here(chunks.services().into_iter().collect());
        chunks
    }

    /// The blocks of each device.
    pub fn stores(&self) -> impl Iterator<Item = (DeviceId, &Arc<BlockStore>)> {
        self.stores.iter().map(|(device, store)| (*device, store))
    }

    /// The maintenance units that this node is a member of.
    pub fn units(&self) -> &Arc<Units> {
        &self.units
    }

    /// What nodes have told this one of their load, while it leads the manager.
    pub fn loads(&self) -> &Arc<Loads> {
        &self.loads
    }
}

impl Subsystem for Chunks {
    fn name(&self) -> &'static str {
        "chunks"
    }

    fn services(&self) -> Vec<(ServiceTag, Arc<dyn Service>)> {
        vec![
            (BLOCKS, self.blocks.clone()),
            (HOSTS, self.hosts.clone()),
            (UNITS, self.units.clone()),
            (DELIVERIES, self.deliveries.clone()),
            (MAPS, Arc::new(MapService::new(self.around.manager.clone()))),
            (LOADS, self.loads.clone()),
        ]
    }

    fn tasks(self: Arc<Self>) -> Vec<Task> {
        let Surroundings { env, me, manager, .. } = self.around.clone();
        let ChunkStarter { settings, scrub_period } = self.starter;
        let (reach, hosts, blocks, contact) =
            (self.reach.clone(), self.hosts.clone(), self.blocks.clone(), self.contact.clone());
        let (loads, units) = (self.loads.clone(), self.units.clone());
        let load_reporting =
            LoadReporting { env: env.clone(), me, manager: manager.clone(), reach: reach.clone(), blocks: blocks.clone() };
        let balance = Balance::new(&env, manager.clone(), UnitWays::new(&env, reach.clone()), loads.clone());
        let reporting = Reporting { env: env.clone(), me, reach, hosts, blocks, contact };
        let monitor = Monitor { env, me, manager: manager.clone(), loads, shard_chunks: settings.shard_chunks };
        let mut tasks: Vec<Task> =
            vec![Box::pin(reporting.run()), Box::pin(monitor.run()), Box::pin(async move { units.run().await })];
        if !self.stores.is_empty() {
            tasks.push(Box::pin(load_reporting.run()));
        }
        if settings.is_balanced {
            tasks.push(Box::pin(balance.run()));
        }
        let returning = |store: Arc<BlockStore>| Box::pin(async move { store.return_space().await }) as Task;
        tasks.extend(self.stores.values().cloned().map(returning));
        if !scrub_period.is_zero() {
            let scrub = |store: Arc<BlockStore>| Box::pin(async move { store.scrub(scrub_period).await }) as Task;
            tasks.extend(self.stores.values().cloned().map(scrub));
        }
        tasks
    }

    fn check_nothing_lost<'a>(&'a self, loss: &'a Loss) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let Loss { devices, whose, all_the_same } = loss;
            let devices: Vec<DeviceId> = devices.iter().copied().collect();
            match self.client.last_copies(&devices).await {
                Some(0) => Ok(()),
                Some(count) => Err(format!(
                    "{count} chunks have their last sound copies on {whose}. Bring that back, or wait until the copies that are missing have been \
                     made; {all_the_same} gives them up"
                )),
                None => Err(format!(
                    "which chunks would be lost can't be told, since a maintenance unit has no leader: try again in a moment; {all_the_same} \
                     removes it whatever is lost"
                )),
            }
        })
    }

    fn hand_over(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.units.stop_leading())
    }

    fn close_device(&self, device: DeviceId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(store) = self.stores.get(&device) {
                store.close().await;
            }
        })
    }

    /// A node that is a member of no unit asks the manager nothing.
    fn is_cut_off(&self) -> bool {
        self.units.counts().1 > 0 && !self.contact.is_held(self.around.env.now())
    }

    /// Leaves its units, which others can't lead while it does.
    fn leave(&self) -> BoxFuture<'_, ()> {
        let look =
            || -> BoxFuture<'static, Option<Named>> { Box::pin(named_by_others(self.around.clone(), GroupKind::CHUNK_UNITS)) };
        Box::pin(self.units.leave(look))
    }

    fn figures(&self) -> Vec<Figure> {
        figures::of(self)
    }

    fn status(&self) -> Vec<StatusLine> {
        if self.stores.is_empty() {
            return Vec::new();
        }
        let (led, of) = self.units.counts();
        let text = format!("member of {of} maintenance units, leads {led} with {} chunks", self.units.rows().1);
        vec![StatusLine { label: "chunks".to_owned(), text }]
    }

    fn begin_scrub(&self, wanted: Option<DeviceId>) -> Vec<AskedScrub> {
        let stores = self.stores.values().filter(|store| wanted.is_none_or(|wanted| wanted == store.device()));
        stores.map(|store| store.begin_scrub()).collect()
    }

    fn scrubs(&self) -> Vec<AskedScrub> {
        self.stores.values().filter_map(|store| store.asked_scrub()).collect()
    }
}
