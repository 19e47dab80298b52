//! The hosts of a cluster, the network between them, and what can be done to both.

use super::files::door::SimMounts;
use super::folder::Folder;
use super::host::{Host, address, process_of, start};
use super::images::door::SimDoor;
use super::scenario::Scenario;
use crate::trace::Trace;
use env::Env;
use net::SimulatedNetwork;
use node::{CELL, Node, Role};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use types::limits::MAX_REPLICAS;
use types::{DeviceId, GatewayId};

/// Starts of one host that may fail in a row.
const MAX_FAILED_STARTS: u64 = 60;
/// Pause between two starts.
const START_PAUSE: Duration = Duration::from_millis(500);
/// Tasks that were told to end do so when they are next looked at.
const END_PAUSE: Duration = Duration::from_millis(2);
/// How long a cluster may take to serve at every node after the last fault.
const SETTLE_PATIENCE: Duration = Duration::from_secs(120);
const SETTLE_LOOK: Duration = Duration::from_millis(50);
/// Longer than gateways take to hear of a device that is gone, so that what that asks for has begun.
const REPAIR_LOOK: Duration = Duration::from_millis(700);

/// Everything that is simulated.
pub struct World {
    pub env: Env,
    pub scenario: Scenario,
    pub network: SimulatedNetwork,
    pub hosts: Mutex<Vec<Host>>,
    pub trace: Arc<Trace>,
    /// What the counters of all engines that there ever were say.
    pub counts: Mutex<BTreeMap<&'static str, u64>>,
    /// Why the run can't go on.
    pub broken: Mutex<Option<String>>,
    /// Where nodes note which images they serve, and what they have mounted.
    folder: Option<Folder>,
}

/// A node that runs.
#[derive(Clone)]
pub struct Running {
    pub number: usize,
    pub env: Env,
    pub node: Arc<Node>,
    pub door: Option<Arc<SimDoor>>,
    pub mounts: Option<SimMounts>,
}

/// How long a call at a node may take: what it asks for waits for a store, for space, for a leader, each for 30 s or 60 s, and for others that do.
const CALL_LIMIT: Duration = Duration::from_secs(300);

impl World {
    /// A cluster whose nodes have all joined.
    pub async fn new(scenario: Scenario, seed: u64, trace: Arc<Trace>) -> Result<Arc<World>, String> {
        let env = Env::simulated(seed);
        let network = SimulatedNetwork::new(&env);
        let faults = &scenario.faults;
        let topology = &scenario.topology;
        let host = |number| Host::new(&env, number, topology.roles_of(number), topology, faults.drift_ppm);
        let hosts = Mutex::new((0..scenario.topology.nodes).map(host).collect());
        let folder = (topology.has_images || topology.has_files).then(Folder::new).transpose()?;
        let (counts, broken) = (Mutex::default(), Mutex::default());
        let world = World { env, scenario, network, hosts, trace, counts, broken, folder };
        let world = Arc::new(world);
        for number in 0..scenario.topology.nodes {
            world.start(number).await;
        }
        world.settle().await?;
        world.network.set_weather(faults.weather);
        Ok(world)
    }

    /// Where a node notes which images it serves; none: it serves none.
    pub fn served_file(&self, number: usize) -> Option<PathBuf> {
        let folder = self.folder.as_ref().filter(|_| self.scenario.topology.has_images)?;
        Some(folder.file(&format!("node-{number}.json")))
    }

    /// Where a node notes what it has mounted; none: it mounts nothing.
    pub fn mounts_file(&self, number: usize) -> Option<PathBuf> {
        let folder = self.folder.as_ref().filter(|_| self.scenario.topology.has_files)?;
        Some(folder.file(&format!("node-{number}-mounts.json")))
    }

    /// The outcome of a call at a node; none if the node's process ends first, or the caller has no more patience. The error: it never ends.
    pub async fn ask_node<T>(
        &self,
        node: &Running,
        patience: Option<Duration>,
        call: impl Future<Output = T>,
    ) -> Result<Option<T>, String> {
        let process = process_of(&node.env);
        let patience = async {
            match patience {
                Some(patience) => self.env.sleep(patience).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = process.ended() => Ok(None),
            outcome = node.env.within(call) => Ok(Some(outcome)),
            () = patience => Ok(None),
            () = self.env.sleep(CALL_LIMIT) => Err(format!("a call at node {} never ends", node.number)),
        }
    }

    pub fn note(&self, what: std::fmt::Arguments<'_>) {
        self.trace.note(self.elapsed(), &what);
    }

    pub fn elapsed(&self) -> Duration {
        self.env.simulation().map(|simulation| simulation.elapsed()).unwrap_or_default()
    }

    pub fn count(&self, what: &'static str, count: u64) {
        *self.counts.lock().entry(what).or_default() += count;
    }

    /// An address to join through: of a node that runs, other than this one.
    pub fn living_address(&self, number: usize) -> Option<String> {
        let hosts = self.hosts.lock();
        hosts.iter().find(|host| host.number != number && host.node.is_some()).map(|host| address(host.number))
    }

    /// Starts a host's process, again and again until it runs; returns early if it is killed meanwhile.
    pub async fn start(self: &Arc<Self>, number: usize) {
        for _ in 0..MAX_FAILED_STARTS {
            let env = self.new_process(number);
            let process = process_of(&env);
            let started = tokio::select! {
                biased;
                () = process.ended() => return,
                started = start(self, number, env.clone()) => started,
            };
            match started {
                Ok((node, ids)) => {
                    self.note(format_args!("node {number} runs"));
                    let mut hosts = self.hosts.lock();
                    hosts[number].ids = ids;
                    hosts[number].node = Some(node);
                    return;
                }
                Err(error) => {
                    self.note(format_args!("node {number} does not start: {error}"));
                    self.count("sim: starts that failed", 1);
                    self.end(number, false).await;
                    self.env.sleep(START_PAUSE).await;
                }
            }
        }
        *self.broken.lock() = Some(format!("node {number} does not start"));
    }

    fn new_process(&self, number: usize) -> Env {
        let env = Env::simulated_after(self.env.random_u64(), self.elapsed());
        let simulation = env.simulation().expect("simulated");
        let mut hosts = self.hosts.lock();
        let host = &mut hosts[number];
        simulation.set_clock_drift_ppm(host.drift_ppm);
        simulation.set_wall_skew_ms(host.wall_skew_ms);
        host.env = Some(env.clone());
        env
    }

    /// Ends a host's process where it stands; with the power, its disks lose what was not durable.
    pub async fn end(&self, number: usize, power: bool) {
        let (env, node) = {
            let mut hosts = self.hosts.lock();
            let host = &mut hosts[number];
            if power {
                host.log.power_cut();
                host.devices.iter().for_each(disk::SimDisk::power_cut);
            }
            host.door = None;
            if let Some(mounts) = &host.mounts {
                mounts.process_ended(power);
            }
            (host.env.take(), host.node.take())
        };
        if let Some(env) = env {
            process_of(&env).end();
        }
        if let Some(node) = &node {
            self.count_engine(node);
        }
        drop(node);
        self.env.sleep(END_PAUSE).await;
        self.network.interrupt(&address(number));
        self.hosts.lock()[number].take_over_disks(&self.env, power);
    }

    /// The node whose member leads the manager.
    pub fn manager_leader(&self) -> Option<usize> {
        self.running().into_iter().find(|running| running.node.manager().is_leader()).map(|running| running.number)
    }

    /// The newest view that anybody knows.
    pub fn view(&self) -> u64 {
        let views = self
            .running()
            .into_iter()
            .filter_map(|running| Some(running.node.manager().snapshot().cell(CELL)?.view_number().0));
        views.max().unwrap_or(0)
    }

    /// The node whose gateway leads the cell's view.
    pub fn cell_leader(&self) -> Option<usize> {
        let running = self.running();
        let state = running.first()?.node.manager().snapshot();
        let cell = state.cell(CELL)?;
        let leader: GatewayId = cell.installed.as_ref()?.leader;
        let node = cell.members.get(&leader)?.node;
        running.into_iter().find(|running| running.node.status().id == node).map(|running| running.number)
    }

    pub fn running(&self) -> Vec<Running> {
        self.running_of(&self.hosts.lock()).collect()
    }

    fn running_of<'a>(&self, hosts: &'a [Host]) -> impl Iterator<Item = Running> + use<'a> {
        hosts.iter().filter_map(|host| {
            let (node, env) = (host.node.clone()?, host.env.clone()?);
            Some(Running { number: host.number, env, node, door: host.door.clone(), mounts: host.mounts.clone() })
        })
    }

    /// Those that serve clients, or should.
    pub fn gateways(&self) -> Vec<Running> {
        let hosts = self.hosts.lock();
        let is_gateway = |number: usize| hosts[number].roles.has(Role::Gateway);
        self.running_of(&hosts).filter(|running| is_gateway(running.number)).collect()
    }

    /// Hosts that are there, by number.
    pub fn present(&self) -> Vec<usize> {
        self.hosts.lock().iter().filter(|host| !host.is_gone).map(|host| host.number).collect()
    }

    /// Devices of the hosts that are there.
    fn device_count(&self) -> usize {
        self.hosts.lock().iter().filter(|host| !host.is_gone).map(|host| host.devices.len()).sum()
    }

    /// Whether every host's node runs and every gateway serves, all in one view that writes to all devices.
    pub fn is_settled(&self) -> bool {
        let running = self.running();
        if running.len() != self.present().len() {
            return false;
        }
        let Some(newest) = running.iter().map(|running| running.node.manager().snapshot()).max_by_key(|state| state.applied())
        else {
            return false;
        };
        let Some(cell) = newest.cell(CELL) else { return false };
        let Some(installed) = &cell.installed else { return false };
        let devices = self.device_count();
        let gateways = self.gateways();
        let is_whole = cell.view_members().len() == gateways.len()
            && installed.table.devices().len() == devices
            && cell.undecided.is_empty()
            && cell.removing.is_empty()
            && !installed.founding;
        is_whole && gateways.iter().all(|running| running.node.status().serves)
    }

    pub async fn settle(&self) -> Result<(), String> {
        let until = self.env.now() + SETTLE_PATIENCE;
        while !self.is_settled() {
            if let Some(broken) = self.broken.lock().clone() {
                return Err(broken);
            }
            if self.env.now() > until {
                return Err(format!("the cluster does not come to rest:\n{}", self.describe()));
            }
            self.env.sleep(SETTLE_LOOK).await;
        }
        Ok(())
    }

    /// Waits until the cluster is settled, knows no devices but those of its hosts, and has looked through everything for what lacks copies;
    /// false if that takes too long.
    pub async fn has_all_copies(&self) -> bool {
        let until = self.env.now() + SETTLE_PATIENCE;
        // Twice: what a device that is gone asks for begins when the gateways have heard of it.
        let mut looks = 0;
        while self.env.now() < until {
            let running = self.running();
            let devices = self.device_count();
            let knows = |running: &Running| running.node.manager().snapshot().devices().count() == devices;
            let left = |running: &Running| running.node.store().map_or(1, |store| store.size().repair_left);
            let has_all =
                self.is_settled() && running.iter().all(knows) && self.gateways().iter().all(|running| left(running) == 0);
            looks = if has_all { looks + 1 } else { 0 };
            if looks == 2 {
                return true;
            }
            self.env.sleep(REPAIR_LOOK).await;
        }
        false
    }

    /// Whether everything has a copy on this host's devices, where each record has one on every host.
    pub async fn stands_on(&self, number: usize) -> bool {
        let others: BTreeSet<DeviceId> =
            self.hosts.lock().iter().filter(|host| host.number != number).flat_map(|host| host.ids.clone()).collect();
        if self.scenario.topology.nodes > MAX_REPLICAS {
            return true;
        }
        let store =
            self.running().into_iter().find(|running| running.number == number).and_then(|running| running.node.store());
        match store {
            Some(store) => store.would_lose(&others).await.is_ok_and(|loss| loss.is_nothing()),
            None => false,
        }
    }

    pub fn describe(&self) -> String {
        let mut text = String::new();
        for running in self.running() {
            let state = running.node.manager().snapshot();
            let serves = running.node.status().serves;
            text += &format!("node {}: serves {serves}, knows {:?}\n", running.number, state.cell(CELL));
        }
        text
    }

    /// Adds what a node's engine has counted.
    pub fn count_engine(&self, node: &Node) {
        let Some(store) = node.store() else { return };
        let stats = store.stats();
        for (what, counter) in super::branches::counters(stats) {
            self.count(what, counter.get());
        }
    }
}
