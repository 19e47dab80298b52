//! A cell in one process: gateways, each with what its node does for it, targets, ways between them, and the manager.

use super::Scenario;
use super::life::Life;
use super::manager::{CellManifests, LEASE, Manager};
use super::streets::{Streets, Ways};
use super::wire::{Down, Wire};
use crate::tests::support::{Rig, open_device};
use crate::{LogStore, LogStoreConfig, MemberSetup};
use env::{Env, Instant};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use target::{Begin, FenceKey, FenceKind, LogTarget, Target, Writer};
use topology::{ClockReading, HeldLease, LeaseTerms};
use types::{DeviceId, GatewayId, Token, ViewNumber};

/// Tokens of gateways that may write, and what they are fenced with.
const TOKEN: Token = Token(1);
const FENCE: Token = Token(2);
/// How often leases are renewed, and how often the manager looks around.
const LEND_INTERVAL: Duration = Duration::from_millis(100);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Silence with which a member begins to leave, and with which a device does.
const SILENCE: Duration = Duration::from_millis(200);
const DEVICE_SILENCE: Duration = Duration::from_millis(250);

/// A gateway's process.
pub struct Process {
    pub gateway: GatewayId,
    pub life: Arc<Life>,
    pub store: Mutex<Option<LogStore>>,
    pub serves: AtomicBool,
    /// Hears nothing of the manager until then.
    pub deaf_until: Mutex<Instant>,
    dead_since: Mutex<Option<Instant>>,
}

impl Process {
    pub fn store(&self) -> Option<LogStore> {
        self.store.lock().clone()
    }

    pub fn serves(&self) -> bool {
        self.serves.load(Ordering::Relaxed) && self.life.is_alive()
    }

    /// The process ends. What it knew is gone.
    pub fn kill(&self, now: Instant) {
        self.life.end();
        self.dead_since.lock().get_or_insert(now);
        if let Some(store) = self.store() {
            store.depose();
        }
    }
}

pub struct World {
    pub env: Env,
    pub scenario: Scenario,
    pub rig: Mutex<Rig>,
    config: LogStoreConfig,
    pub manager: Arc<Manager>,
    pub streets: Arc<Streets>,
    targets: Mutex<Vec<Arc<Target>>>,
    pub down: Down,
    down_since: Mutex<BTreeMap<DeviceId, Instant>>,
    pub processes: Mutex<BTreeMap<GatewayId, Arc<Process>>>,
    /// Everything that ever ran, for its counters.
    pub ever: Mutex<Vec<LogStore>>,
    /// Gateways that are wanted in the view.
    pub wanted: Mutex<usize>,
    /// Nobody decides anything: the power is off.
    pub is_off: AtomicBool,
    pub recoveries_begun: AtomicU64,
    pub recoveries_done: AtomicU64,
    pub recoveries_failed: AtomicU64,
}

fn fence_key(gateway: GatewayId) -> FenceKey {
    FenceKey { kind: FenceKind::Gateway, scope: u64::from(gateway.0) }
}

fn devices() -> Vec<DeviceId> {
    (1..=3).map(DeviceId).collect()
}

impl World {
    pub async fn new(scenario: Scenario, seed: u64) -> Arc<World> {
        let rig = Rig::new(seed, 3, scenario.zones, scenario.zone_bytes).await;
        let env = rig.env.clone();
        let config = LogStoreConfig {
            checkpoint_entries: scenario.checkpoint_entries,
            checkpoint_interval: Duration::from_secs(20),
            collect_below_free_percent: 60,
            refs_per_list: 2,
            scrub_period: scenario.scrub_period,
            ..rig.config.clone()
        };
        let manager = Manager::new(&env, rig.manifests.clone(), devices());
        let streets = Arc::new(Streets {
            env: env.clone(),
            stores: Mutex::default(),
            cut: Mutex::default(),
            lost: Mutex::new(scenario.lost),
            delay_us: Mutex::new(1_500),
            doubled: Mutex::default(),
        });
        let world = Arc::new(World {
            env,
            scenario,
            rig: Mutex::new(rig),
            config,
            manager,
            streets,
            targets: Mutex::default(),
            down: Down::default(),
            down_since: Mutex::default(),
            processes: Mutex::default(),
            ever: Mutex::default(),
            wanted: Mutex::new(scenario.gateways),
            is_off: AtomicBool::new(false),
            recoveries_begun: AtomicU64::new(0),
            recoveries_done: AtomicU64::new(0),
            recoveries_failed: AtomicU64::new(0),
        });
        world.open_targets().await;
        world.found().await;
        world.env.spawn(oversee(world.clone()));
        world
    }

    async fn open_targets(&self) {
        let mut targets = Vec::new();
        for id in 1..=3 {
            let opening = {
                let rig = self.rig.lock();
                open_device(rig.disks[id as usize - 1].clone(), rig.mains.clone(), DeviceId(id), &self.env)
            };
            targets.push(Arc::new(Target::open(opening.await.unwrap(), &self.env, Begin::AtOnce).await.unwrap()));
        }
        *self.targets.lock() = targets;
    }

    fn new_process(&self, gateway: GatewayId) -> Arc<Process> {
        let process = Arc::new(Process {
            gateway,
            life: Arc::default(),
            store: Mutex::new(None),
            serves: AtomicBool::new(false),
            deaf_until: Mutex::new(self.env.now()),
            dead_since: Mutex::new(None),
        });
        self.processes.lock().insert(gateway, process.clone());
        process
    }

    /// Whether a device is of a gateway's own process.
    pub fn is_near(&self, gateway: GatewayId, device: DeviceId) -> bool {
        device.0 % 3 == u32::from(gateway.0) % 3
    }

    /// What an engine of this process is opened with.
    fn parts(&self, process: &Process) -> (LogStoreConfig, Arc<CellManifests>, Vec<Arc<dyn LogTarget>>, MemberSetup) {
        let (gateway, life) = (process.gateway, process.life.clone());
        let writer = Writer { key: fence_key(gateway), token: TOKEN };
        let wire = |target: &Arc<Target>| -> Arc<dyn LogTarget> {
            let is_near = self.is_near(gateway, target.device().id());
            Arc::new(Wire::new(&self.env, &life, &self.down, target, writer, is_near))
        };
        let logs = self.targets.lock().iter().map(wire).collect();
        let lag = Duration::from_millis(self.env.random_below(40));
        let manifests = Arc::new(CellManifests { manager: self.manager.clone(), gateway, life: life.clone(), lag });
        let directory = Arc::new(Ways { streets: self.streets.clone(), from: gateway, life });
        let first = self.manager.state.lock().cell_view();
        (LogStoreConfig { gateway, ..self.config.clone() }, manifests, logs, MemberSetup { directory, first, is_sole: false })
    }

    fn put_up(self: &Arc<Self>, process: &Arc<Process>, store: &LogStore) {
        *process.store.lock() = Some(store.clone());
        self.ever.lock().push(store.clone());
        self.streets.stores.lock().insert(process.gateway, (store.clone(), process.life.clone()));
    }

    async fn found(self: &Arc<Self>) {
        // One whose founding fails registers anew.
        while let Err(error) = self.try_to_found().await {
            // Its node's copy of the manager's state was old, or an answer was lost.
            let is_unlucky = ["lost", "installed, not"].iter().any(|why| error.to_string().contains(why));
            assert!(is_unlucky, "founding: {error}");
        }
    }

    async fn try_to_found(self: &Arc<Self>) -> Result<(), crate::OpenError> {
        let gateway = self.manager.change(|state| {
            let gateway = state.register();
            state.found(gateway, devices());
            gateway
        });
        let process = self.new_process(gateway);
        let fenced = self.manager.state.lock().fenced.clone();
        for device in devices() {
            self.fence(device, &fenced).await.unwrap();
        }
        let (config, manifests, logs, setup) = self.parts(&process);
        let number = setup.first.view.number();
        let opened = LogStore::found(config, self.env.clone(), manifests, logs, &[], setup).await;
        let store = opened.inspect_err(|_| process.life.end())?;
        self.put_up(&process, &store);
        process.serves.store(true, Ordering::Relaxed);
        self.env.spawn(agent(self.clone(), process, Some(number)));
        Ok(())
    }

    /// A gateway that is to join.
    fn add_learner(self: &Arc<Self>) {
        let gateway = self.manager.change(|state| {
            let gateway = state.register();
            state.learners.insert(gateway);
            gateway
        });
        let process = self.new_process(gateway);
        self.env.spawn(agent(self.clone(), process, None));
    }

    async fn fence(&self, device: DeviceId, gateways: &BTreeSet<GatewayId>) -> Result<(), String> {
        self.env.sleep(Duration::from_micros(self.env.random_below(3_000))).await;
        if self.down.lock().contains(&device) {
            return Err(format!("device {device} is out of reach"));
        }
        let target = self.targets.lock()[device.0 as usize - 1].clone();
        for gateway in gateways {
            target.raise_fence(fence_key(*gateway), FENCE).await.map_err(|error| error.to_string())?;
        }
        target.drain().await;
        Ok(())
    }

    /// Every process dies and the power goes; then one gateway founds the cell anew.
    pub async fn power_cut(self: &Arc<Self>, interrupted: u64) {
        self.is_off.store(true, Ordering::Relaxed);
        for attempt in 0..=interrupted {
            let now = self.env.now();
            self.processes.lock().values().for_each(|process| process.kill(now));
            self.processes.lock().clear();
            self.streets.stores.lock().clear();
            self.rig.lock().crash();
            self.down.lock().clear();
            self.open_targets().await;
            if attempt == interrupted {
                self.found().await;
            } else {
                let patience = Duration::from_micros(self.env.random_below(60_000));
                tokio::select! {
                    biased;
                    () = self.found() => {}
                    () = self.env.sleep(patience) => {}
                }
            }
        }
        self.is_off.store(false, Ordering::Relaxed);
    }

    /// Processes that answer clients, or think that they do.
    pub fn serving(&self) -> Vec<Arc<Process>> {
        self.processes.lock().values().filter(|process| process.serves()).cloned().collect()
    }

    /// Members of the view that live, have joined and are not to leave.
    pub fn members(&self) -> Vec<Arc<Process>> {
        let state = self.manager.state.lock();
        let stays = |process: &Arc<Process>| {
            process.serves() && state.view.contains(process.gateway) && !state.removing.contains(&process.gateway)
        };
        self.processes.lock().values().filter(|process| stays(process)).cloned().collect()
    }

    pub fn leader(&self) -> Option<Arc<Process>> {
        let leader = self.manager.state.lock().leader;
        self.processes.lock().get(&leader).cloned()
    }

    /// Nobody leaves, comes or is undecided, all devices are in the table, and as many gateways serve as are wanted.
    pub fn is_settled(&self) -> bool {
        let members = self.members();
        let state = self.manager.state.lock();
        let is_quiet = state.removing.is_empty() && state.undecided.is_empty() && state.learners.is_empty();
        let is_whole = state.table.devices().len() == devices().len() && state.view.members().len() == members.len();
        let number = state.view.number();
        is_quiet
            && is_whole
            && members.len() == *self.wanted.lock()
            && members.iter().all(|process| installed(process) == Some(number))
    }

    pub fn describe(&self) -> String {
        let state = self.manager.state.lock();
        let mut text = format!(
            "view {:?} leader {} undecided {:?} removing {:?} learners {:?} table {:?}\n",
            state.view,
            state.leader,
            state.undecided,
            state.removing,
            state.learners,
            state.table.devices()
        );
        for process in self.processes.lock().values() {
            let status = process.store().and_then(|store| store.member_status());
            text +=
                &format!("  {} alive {} serves {} {status:?}\n", process.gateway, process.life.is_alive(), process.serves());
        }
        text
    }

    fn lend(&self) {
        let now = self.env.now();
        let mut state = self.manager.state.lock();
        for process in self.processes.lock().values().filter(|process| process.life.is_alive()) {
            let is_member = state.view.contains(process.gateway) && !state.removing.contains(&process.gateway);
            let Some(store) = process.store().filter(|_| is_member && *process.deaf_until.lock() <= now) else { continue };
            let status = store.member_status().unwrap();
            if status.has_joined && !store.is_deposed() {
                let asked = ClockReading { nanos: now.as_nanos() };
                store.renew_lease(HeldLease::granted(&LeaseTerms::new(LEASE, 0), status.view, asked));
                state.leases.insert(process.gateway, now + LEASE);
            }
        }
    }

    /// One look of the manager.
    fn look(self: &Arc<Self>) {
        let now = self.env.now();
        let processes = self.processes.lock().clone();
        let is_dead = |gateway: &GatewayId| {
            let dead = processes.get(gateway).map(|process| *process.dead_since.lock());
            dead.is_none_or(|since| since.is_some_and(|since| since + SILENCE <= now))
        };
        let members: BTreeSet<GatewayId> = self.manager.state.lock().view.members().iter().copied().collect();
        self.manager.state.lock().learners.retain(|gateway| !is_dead(gateway));
        let dead: BTreeSet<GatewayId> = members.iter().copied().filter(is_dead).collect();
        if dead.len() < members.len() && !dead.is_subset(&self.manager.state.lock().removing) {
            return self.manager.change(|state| state.removing.extend(dead));
        }
        let (table, down) = (self.manager.state.lock().table.devices().to_vec(), self.silent_devices(now));
        let well: Vec<DeviceId> = table.iter().copied().filter(|device| !down.contains(device)).collect();
        let well = if well.is_empty() { table.clone() } else { well };
        {
            let state = self.manager.state.lock();
            let staying: BTreeSet<GatewayId> = members.difference(&state.removing).copied().collect();
            let have_ended = state.removing.iter().all(|gateway| state.leases.get(gateway).is_none_or(|ends| *ends <= now));
            let leaves = !state.removing.is_empty() && have_ended && !staying.is_empty();
            let is_lost = well != table && state.removing.is_empty();
            drop(state);
            if leaves || is_lost {
                return self.manager.change(|state| state.install(&staying, &well));
            }
        }
        if self.finish_recovery(&processes) {
            return;
        }
        let state = self.manager.state.lock();
        let number = state.view.number();
        let have_installed =
            members.iter().all(|gateway| processes.get(gateway).and_then(|one| installed(one)) == Some(number));
        let is_settled = state.removing.is_empty() && state.undecided.is_empty() && have_installed;
        let learner = state.learners.first().copied();
        let wants = members.len() + state.learners.len() < *self.wanted.lock();
        drop(state);
        if wants {
            self.add_learner();
        }
        if is_settled && let Some(learner) = learner {
            let mut members = members;
            members.insert(learner);
            self.manager.change(|state| {
                state.learners.remove(&learner);
                state.install(&members, &well);
            });
        }
    }

    fn silent_devices(&self, now: Instant) -> Vec<DeviceId> {
        let mut since = self.down_since.lock();
        let down = self.down.lock();
        since.retain(|device, _| down.contains(device));
        for device in down.iter() {
            since.entry(*device).or_insert(now);
        }
        since.iter().filter(|(_, since)| **since + DEVICE_SILENCE <= now).map(|(device, _)| *device).collect()
    }

    fn finish_recovery(&self, processes: &BTreeMap<GatewayId, Arc<Process>>) -> bool {
        let state = self.manager.state.lock();
        let status = |gateway: &GatewayId| {
            let status = processes.get(gateway)?.store()?.member_status()?;
            (status.view == state.view.number()).then_some(status)
        };
        if state.undecided.is_empty()
            || status(&state.leader).is_none_or(|status| !status.recovered.is_superset(&state.undecided))
        {
            return false;
        }
        let knows = |member: &GatewayId| status(member).is_some_and(|status| status.decided.is_superset(&state.undecided));
        let all_know = state.view.members().iter().all(knows);
        drop(state);
        if all_know {
            self.manager.change(|state| state.undecided.clear());
        }
        all_know
    }

    /// Devices that are well again come back into the table, once they have all fences.
    async fn take_back_devices(&self) {
        let (table, fenced, number) = {
            let state = self.manager.state.lock();
            if !(state.undecided.is_empty() && state.removing.is_empty()) {
                return;
            }
            (state.table.devices().to_vec(), state.fenced.clone(), state.view.number())
        };
        let mut all = table.clone();
        for device in devices().into_iter().filter(|device| !table.contains(device)) {
            if !self.down.lock().contains(&device) && self.fence(device, &fenced).await.is_ok() {
                all.push(device);
            }
        }
        all.sort_unstable();
        let mut state = self.manager.state.lock();
        let is_same = state.view.number() == number && state.removing.is_empty() && state.undecided.is_empty();
        if all != table && is_same {
            let members: BTreeSet<GatewayId> = state.view.members().iter().copied().collect();
            state.install(&members, &all);
            drop(state);
            self.manager.change(|_| ());
        }
    }
}

fn installed(process: &Process) -> Option<ViewNumber> {
    process.store()?.member_status().map(|status| status.view)
}

async fn oversee(world: Arc<World>) {
    let mut lent = world.env.now();
    loop {
        if !world.is_off.load(Ordering::Relaxed) {
            world.look();
            world.take_back_devices().await;
            if world.env.now() >= lent + LEND_INTERVAL {
                lent = world.env.now();
                world.lend();
            }
        }
        world.env.sleep(LOOK_INTERVAL).await;
    }
}

/// What a node does for its gateway.
async fn agent(world: Arc<World>, process: Arc<Process>, mut installed: Option<ViewNumber>) {
    let mut recovery: Option<(ViewNumber, tokio::task::JoinHandle<()>)> = None;
    loop {
        let seen = world.manager.changed.get();
        let slow = if world.env.random_below(12) == 0 { 12 } else { 1 };
        world.env.sleep(Duration::from_micros(world.env.random_below(20_000 * slow))).await;
        let deaf_until = *process.deaf_until.lock();
        world.env.sleep_until(deaf_until).await;
        if !process.life.is_alive() {
            break;
        }
        let (view, is_leaving, is_learner) = {
            let state = world.manager.state.lock();
            let me = &process.gateway;
            (state.cell_view(), state.removing.contains(me), state.learners.contains(me))
        };
        let number = view.view.number();
        let is_member = view.view.contains(process.gateway);
        if is_leaving || (!is_member && !is_learner) {
            process.kill(world.env.now());
            break;
        }
        match process.store() {
            Some(store) if installed.is_some_and(|installed| number > installed) => {
                store.install(view.clone()).await;
                installed = Some(number);
            }
            None if is_member => {
                installed = Some(number);
                world.clone().join(process.clone()).await;
            }
            _ => {}
        }
        let is_begun = recovery.as_ref().is_some_and(|(begun, _)| *begun == number);
        if let Some(store) =
            process.store().filter(|_| view.leader == process.gateway && !view.undecided.is_empty() && !is_begun)
        {
            if let Some((_, before)) = recovery.take() {
                before.abort();
            }
            world.recoveries_begun.fetch_add(1, Ordering::Relaxed);
            recovery = Some((number, world.env.spawn(recover(world.clone(), process.clone(), store, view))));
        }
        tokio::select! {
            biased;
            () = process.life.ended() => break,
            _ = world.manager.changed.wait_for(|count| *count != seen) => {}
        }
    }
    if let Some((_, recovery)) = recovery {
        recovery.abort();
    }
    world
        .processes
        .lock()
        .retain(|_, known| !Arc::ptr_eq(known, &process) || world.manager.state.lock().view.contains(process.gateway));
}

impl World {
    async fn join(self: Arc<Self>, process: Arc<Process>) {
        let (config, manifests, logs, setup) = self.parts(&process);
        let opened = LogStore::joining(config, self.env.clone(), manifests, logs, setup).await;
        let store = opened.unwrap_or_else(|error| panic!("joining: {error}"));
        self.put_up(&process, &store);
        self.env.clone().spawn(async move {
            tokio::select! {
                biased;
                () = process.life.ended() => {}
                joined = store.join() => match joined {
                    Ok(()) => process.serves.store(true, Ordering::Relaxed),
                    Err(_) => process.kill(self.env.now()),
                },
            }
        });
    }
}

/// As leader: until it succeeds, or another view ends it.
async fn recover(world: Arc<World>, process: Arc<Process>, store: LogStore, view: crate::CellView) {
    loop {
        let mut is_fenced = true;
        for device in view.table.devices() {
            is_fenced &= world.fence(*device, &view.undecided).await.is_ok();
        }
        if is_fenced {
            let recovered = tokio::select! {
                biased;
                () = process.life.ended() => return,
                recovered = store.recover(&view.undecided, view.table.devices()) => recovered,
            };
            match recovered {
                Ok(()) => {
                    world.recoveries_done.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(_) => world.recoveries_failed.fetch_add(1, Ordering::Relaxed),
            };
        }
        world.env.sleep(Duration::from_millis(50)).await;
        if store.is_deposed() {
            return;
        }
    }
}
