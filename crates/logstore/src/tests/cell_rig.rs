//! A cell of gateways in one process, over targets that they share, and the part of the manager that it needs.

use super::gate::{Gate, Gates};
use super::support::{MemoryManifests, Rig};
use super::unread_ranges::fail_reads;
use crate::{CellView, Consistency, Directory, IndexForm, LogStore, LogStoreConfig, Manifests, MemberSetup, OpenError};
use bytes::Bytes;
use disk::{Fault, FaultRule, Operation};
use engine::{
    Committed, CompletePart, Condition, EngineError, EngineFuture, Found, ListPage, ListQuery, ObjectEngine, ObjectInfo,
    ObjectKey, PartContent, PartInfo, Payload, StagedChunks, UploadPage, UploadQuery, UploadRef,
};
use env::{Env, Instant};
use format::attributes::Attributes;
use net::{BoxFuture, CallError, Caller};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use target::{Begin, FenceKey, FenceKind, LocalTarget, LogTarget, Target, Writer};
use topology::{ClockReading, HeldLease, LeaseTerms, ReplicaTable, View};
use types::{BucketId, DeviceId, GatewayId, Generation, Place, Token, UploadId, ViewNumber};

/// Tokens of gateways that may write, and what they are fenced with.
const TOKEN: Token = Token(1);
const FENCE: Token = Token(2);
/// What comes before a device's zones.
const SUPERBLOCKS_BYTES: u64 = 8 * 1024 * 1024;
/// How often the sectors of a lost device are damaged.
const BLOWS: usize = 16;
/// How often leases are renewed.
const LEND_INTERVAL: Duration = Duration::from_millis(500);
/// How often a message that is held looks whether it may go on.
const HOLD_LOOK: Duration = Duration::from_millis(1);
/// Longest delay of a message.
const DELAY_BOUND_US: u64 = 2_000;

pub struct CellRig {
    pub env: Env,
    rig: Mutex<Rig>,
    config: LogStoreConfig,
    /// What the writes of each gateway promise, in the order of their ids; of later ones as the last one's.
    consistency: Vec<Consistency>,
    pub manifests: Arc<MemoryManifests>,
    targets: Mutex<Vec<Arc<Target>>>,
    /// What stops on its way to a target.
    pub gates: Arc<Gates>,
    streets: Arc<Streets>,
    manager: Mutex<Manager>,
    /// Where blocks can't be read, now and after every start, and how large zones are.
    unreadable: Mutex<Vec<(Place, u64)>>,
}

/// What the manager knows.
struct Manager {
    view: View,
    table: ReplicaTable,
    /// All that came before, covered or not.
    former: Vec<ReplicaTable>,
    next_gateway: u16,
}

impl Manager {
    fn change_table(&mut self, devices: Vec<DeviceId>) {
        let generation = Generation(self.table.generation().0 + 1);
        let next = ReplicaTable::new(generation, devices).unwrap();
        self.former.push(std::mem::replace(&mut self.table, next));
    }
}

/// Ways between gateways.
struct Streets {
    env: Env,
    stores: Mutex<BTreeMap<GatewayId, LogStore>>,
    cut: Mutex<BTreeSet<GatewayId>>,
    /// From whom to whom messages wait.
    held: Mutex<BTreeSet<(GatewayId, GatewayId)>>,
    /// How long a granted lease lasts.
    lease: Mutex<Duration>,
    /// Messages take no time: for tests that never wait, in whose time nothing would arrive.
    is_prompt: bool,
}

struct Way {
    streets: Arc<Streets>,
    to: GatewayId,
}

impl Directory for Way {
    fn caller(&self, gateway: GatewayId) -> Option<Arc<dyn Caller>> {
        Some(Arc::new(Way { streets: self.streets.clone(), to: gateway }))
    }

    fn beside(&self, _device: DeviceId) -> Option<GatewayId> {
        None
    }
}

impl Caller for Way {
    fn call(&self, payload: Bytes, _deadline: Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(async move {
            let lost = |reason: String| CallError::Unanswered { address: self.to.to_string(), reason };
            let env = &self.streets.env;
            match self.streets.is_prompt {
                true => tokio::task::yield_now().await,
                false => env.sleep(Duration::from_micros(env.random_below(DELAY_BOUND_US))).await,
            }
            let from = GatewayId(u16::from_le_bytes([payload[0], payload[1]]));
            if [from, self.to].iter().any(|gateway| self.streets.cut.lock().contains(gateway)) {
                return Err(lost("the link is cut".to_owned()));
            }
            while self.streets.held.lock().contains(&(from, self.to)) {
                env.sleep(HOLD_LOOK).await;
            }
            let store = self.streets.stores.lock().get(&self.to).cloned();
            let Some(store) = store else { return Err(lost("nobody is there".to_owned())) };
            store.hear(&payload).await.map_err(|error| lost(error.to_string()))
        })
    }
}

fn fence_key(gateway: GatewayId) -> FenceKey {
    FenceKey { kind: FenceKind::Gateway, scope: u64::from(gateway.0) }
}

impl CellRig {
    /// A cell of so many gateways over three devices.
    pub async fn new(seed: u64, gateways: usize) -> CellRig {
        CellRig::with(seed, gateways, (64, 4 * 1024 * 1024), false).await
    }

    /// One whose messages take no time.
    pub async fn prompt(seed: u64, gateways: usize) -> CellRig {
        CellRig::with(seed, gateways, (64, 4 * 1024 * 1024), true).await
    }

    pub async fn with_zones(seed: u64, gateways: usize, zones: u64, zone_bytes: u64) -> CellRig {
        CellRig::with(seed, gateways, (zones, zone_bytes), false).await
    }

    /// One whose leader collects every zone that is worth it.
    pub async fn greedy(seed: u64, gateways: usize) -> CellRig {
        let mut rig = Rig::new(seed, 3, 40, 128 * 1024).await;
        rig.config.collect_below_free_percent = 100;
        CellRig::over(rig, gateways, false, &[Consistency::Linearizable]).await
    }

    /// One whose gateways scrub every device in this time.
    pub async fn scrubbing(seed: u64, gateways: usize, scrub_period: Duration) -> CellRig {
        let mut rig = Rig::new(seed, 3, 40, 128 * 1024).await;
        rig.config.scrub_period = scrub_period;
        CellRig::over(rig, gateways, false, &[Consistency::Linearizable]).await
    }

    /// A cell of gateways whose writes promise what these say.
    pub async fn mixed(seed: u64, consistency: &[Consistency]) -> CellRig {
        let rig = Rig::new(seed, 3, 64, 4 * 1024 * 1024).await;
        CellRig::over(rig, consistency.len(), false, consistency).await
    }

    /// A cell whose writes promise this.
    pub async fn writing(seed: u64, gateways: usize, consistency: Consistency) -> CellRig {
        let rig = Rig::new(seed, 3, 64, 4 * 1024 * 1024).await;
        CellRig::over(rig, gateways, false, &[consistency]).await
    }

    /// A cell whose leader copies so much in a second.
    pub async fn copying(seed: u64, gateways: usize, bytes_per_second: u64) -> CellRig {
        let mut rig = Rig::new(seed, 3, 64, 4 * 1024 * 1024).await;
        rig.config.collect_bytes_per_second = bytes_per_second;
        CellRig::over(rig, gateways, false, &[Consistency::Linearizable]).await
    }

    /// One whose messages take no time, and whose writes promise this.
    pub async fn prompt_writing(seed: u64, gateways: usize, consistency: Consistency) -> CellRig {
        let rig = Rig::new(seed, 3, 64, 4 * 1024 * 1024).await;
        CellRig::over(rig, gateways, true, &[consistency]).await
    }

    async fn with(seed: u64, gateways: usize, (zones, zone_bytes): (u64, u64), is_prompt: bool) -> CellRig {
        let rig = Rig::new(seed, 3, zones, zone_bytes).await;
        CellRig::over(rig, gateways, is_prompt, &[Consistency::Linearizable]).await
    }

    async fn over(rig: Rig, gateways: usize, is_prompt: bool, consistency: &[Consistency]) -> CellRig {
        let env = rig.env.clone();
        let config = LogStoreConfig { checkpoint_entries: 200, index: IndexForm::Full, ..rig.config.clone() };
        let (stores, cut, held) = (Mutex::default(), Mutex::default(), Mutex::default());
        let lease = Mutex::new(Duration::from_secs(3600));
        let streets = Arc::new(Streets { env: env.clone(), stores, cut, held, lease, is_prompt });
        let view = View::new(ViewNumber(0), vec![GatewayId(1)]).unwrap();
        let devices: Vec<DeviceId> = (1..=3).map(DeviceId).collect();
        let table = ReplicaTable::new(Generation(0), devices).unwrap();
        let manager = Manager { view, table, former: Vec::new(), next_gateway: 1 };
        let manifests = rig.manifests.clone();
        let (targets, gates, manager, unreadable) = (Mutex::default(), Arc::default(), Mutex::new(manager), Mutex::default());
        let (rig, consistency) = (Mutex::new(rig), consistency.to_vec());
        let cell = CellRig { env, rig, config, consistency, manifests, targets, gates, streets, manager, unreadable };
        cell.open_targets().await;
        cell.env.spawn(lend(Arc::downgrade(&cell.streets)));
        cell.found_without(&[], &[]).await;
        for _ in 1..gateways {
            cell.join().await;
        }
        cell
    }

    async fn open_targets(&self) {
        self.unreadable.lock().iter().for_each(|(place, zone_bytes)| fail_reads(&self.rig.lock(), *place, *zone_bytes));
        let mut targets = Vec::new();
        for id in 1..=3 {
            let opening = {
                let rig = self.rig.lock();
                let (disk, mains) = (rig.disks[id as usize - 1].clone(), rig.mains.clone());
                drop(rig);
                super::support::open_device(disk, mains, DeviceId(id), &self.env)
            };
            targets.push(Arc::new(Target::open(opening.await.unwrap(), &self.env, Begin::AtOnce).await.unwrap()));
        }
        *self.targets.lock() = targets;
    }

    fn logs_of(&self, gateway: GatewayId) -> Vec<Arc<dyn LogTarget>> {
        let writer = Writer { key: fence_key(gateway), token: TOKEN };
        let log = |target: &Arc<Target>| -> Arc<dyn LogTarget> {
            Arc::new(Gate::new(gateway, LocalTarget::new(target.clone(), writer), &self.gates))
        };
        self.targets.lock().iter().map(log).collect()
    }

    fn new_gateway(&self) -> GatewayId {
        let mut manager = self.manager.lock();
        manager.next_gateway += 1;
        GatewayId(manager.next_gateway - 1)
    }

    fn setup(&self, first: CellView) -> MemberSetup {
        let to = GatewayId(0);
        MemberSetup { directory: Arc::new(Way { streets: self.streets.clone(), to }), first, is_sole: false }
    }

    fn config_of(&self, gateway: GatewayId) -> LogStoreConfig {
        let own = self.consistency.get(usize::from(gateway.0) - 1).or(self.consistency.last());
        LogStoreConfig { gateway, consistency: *own.expect("at least one"), ..self.config.clone() }
    }

    /// The next view, with these members; who leaves is undecided.
    fn next_view(&self, members: Vec<GatewayId>, undecided: BTreeSet<GatewayId>, new_table: bool) -> CellView {
        let mut manager = self.manager.lock();
        let leader = *members.iter().min().unwrap();
        manager.view = manager.view.next(members).unwrap();
        if new_table {
            let devices = manager.table.devices().to_vec();
            manager.change_table(devices);
        }
        let uncovered = manager.former.iter().chain([&manager.table]).cloned().collect();
        CellView { view: manager.view.clone(), table: manager.table.clone(), undecided, leader, uncovered }
    }

    /// A gateway founds the cell without some devices, of which it waits for the missing ones.
    async fn found_without(&self, without: &[DeviceId], missing: &[DeviceId]) {
        let gateway = self.new_gateway();
        let first = self.next_view(vec![gateway], BTreeSet::new(), true);
        let (env, manifests) = (self.env.clone(), self.manifests.clone());
        let mut logs = self.logs_of(gateway);
        logs.retain(|log| !without.contains(&log.id()));
        let opened = LogStore::found(self.config_of(gateway), env, manifests, logs, missing, self.setup(first)).await;
        self.streets.stores.lock().insert(gateway, opened.unwrap());
        self.streets.lend();
    }

    /// What a gateway is told that wants to found the cell, or to join it, with this form of the index.
    pub async fn open_with(&self, index: IndexForm) -> [Result<LogStore, OpenError>; 2] {
        let gateway = self.new_gateway();
        let config = LogStoreConfig { index, ..self.config_of(gateway) };
        let view = self.next_view(vec![gateway], BTreeSet::new(), true);
        let (env, manifests, logs) = (&self.env, &self.manifests, self.logs_of(gateway));
        let (setup, again) = (self.setup(view.clone()), self.setup(view));
        let found = LogStore::found(config.clone(), env.clone(), manifests.clone(), logs.clone(), &[], setup).await;
        [found, LogStore::joining(config, env.clone(), manifests.clone(), logs, again).await]
    }

    /// A new gateway joins; returns when it serves.
    pub async fn join(&self) -> LogStore {
        self.join_by(self.manifests.clone()).await.unwrap()
    }

    /// One that has its own way to the manager.
    pub async fn join_by(&self, manifests: Arc<dyn Manifests>) -> Result<LogStore, EngineError> {
        let gateway = self.new_gateway();
        let mut members = self.manager.lock().view.members().to_vec();
        members.push(gateway);
        let view = self.next_view(members, BTreeSet::new(), false);
        let (env, logs) = (self.env.clone(), self.logs_of(gateway));
        let opened = LogStore::joining(self.config_of(gateway), env, manifests, logs, self.setup(view.clone())).await;
        let store = opened.unwrap();
        let others = self.gateways();
        self.streets.stores.lock().insert(gateway, store.clone());
        for other in others {
            other.install(view.clone()).await;
        }
        self.streets.lend();
        store.join().await?;
        Ok(store)
    }

    /// A gateway joins, the others are removed, and only then does it hear of either view; returns when it serves.
    pub async fn join_and_stay_alone(&self) -> LogStore {
        let (gateway, removed) = (self.new_gateway(), self.manager.lock().view.members().to_vec());
        self.next_view([removed.clone(), vec![gateway]].concat(), BTreeSet::new(), false);
        let removed: BTreeSet<GatewayId> = removed.into_iter().collect();
        self.gateways().iter().for_each(|other| self.kill(other));
        self.fence(&removed).await;
        let view = self.next_view(vec![gateway], removed.clone(), false);
        let (env, logs, setup) = (self.env.clone(), self.logs_of(gateway), self.setup(view.clone()));
        let opened = LogStore::joining(self.config_of(gateway), env, self.manifests.clone(), logs, setup).await;
        let store = opened.unwrap();
        self.streets.stores.lock().insert(gateway, store.clone());
        let (joined, recovered) = tokio::join!(store.join(), store.recover(&removed, view.table.devices()));
        joined.and(recovered).unwrap();
        store
    }

    /// The gateways that live, by their ids.
    pub fn gateways(&self) -> Vec<LogStore> {
        self.streets.stores.lock().values().cloned().collect()
    }

    /// A gateway's messages are lost in both directions, and it gets no lease any more.
    pub fn cut(&self, gateway: LogStore) {
        self.streets.cut.lock().insert(gateway.inner.me);
    }

    /// From here on one gateway's messages to another wait, or go on.
    pub fn hold(&self, from: &LogStore, to: &LogStore, is_held: bool) {
        let way = (from.inner.me, to.inner.me);
        let mut held = self.streets.held.lock();
        if is_held {
            held.insert(way)
        } else {
            held.remove(&way)
        };
    }

    /// A gateway's process ends.
    pub fn kill(&self, gateway: &LogStore) {
        gateway.depose();
        self.streets.stores.lock().remove(&gateway.inner.me);
    }

    /// A view without these members of the present one, by their places in it; returns when what they left is decided.
    pub async fn remove(&self, leaving: &[usize]) {
        self.remove_beside(leaving, &[]).await;
    }

    /// The same, of gateways too that were removed before and are not decided.
    pub async fn remove_beside(&self, leaving: &[usize], undecided: &[GatewayId]) {
        let (leader, view) = self.leave_out(leaving, undecided).await;
        leader.recover(&view.undecided, view.table.devices()).await.unwrap();
        for gateway in self.gateways().into_iter().filter(|gateway| view.view.contains(gateway.inner.me)) {
            while !gateway.member_status().unwrap().decided.is_superset(&view.undecided) {
                self.env.sleep(Duration::from_millis(1)).await;
            }
        }
    }

    /// The rest has a view without them, and its leader may begin to recover.
    pub async fn leave_out(&self, leaving: &[usize], undecided: &[GatewayId]) -> (LogStore, CellView) {
        let members = self.manager.lock().view.members().to_vec();
        let removed: BTreeSet<GatewayId> = leaving.iter().map(|at| members[*at]).chain(undecided.iter().copied()).collect();
        let rest: Vec<GatewayId> = members.into_iter().filter(|gateway| !removed.contains(gateway)).collect();
        let view = self.next_view(rest.clone(), removed.clone(), false);
        for gateway in self.gateways() {
            if rest.contains(&gateway.inner.me) {
                gateway.install(view.clone()).await;
            }
        }
        self.streets.lend();
        self.fence(&removed).await;
        let leader = self.streets.stores.lock()[&view.leader].clone();
        (leader, view)
    }

    /// From the next view on writes go to these devices.
    pub fn change_table(&self, devices: &[u32]) {
        self.manager.lock().change_table(devices.iter().copied().map(DeviceId).collect());
    }

    /// A view of the same members whose writes go to these devices.
    pub async fn write_to(&self, devices: &[u32]) {
        self.change_table(devices);
        let view = self.view_of_the_same();
        for gateway in self.gateways() {
            gateway.install(view.clone()).await;
        }
        self.streets.lend();
    }

    /// A view of the same members, which each installs when the test says so.
    pub fn view_of_the_same(&self) -> CellView {
        let members = self.manager.lock().view.members().to_vec();
        self.next_view(members, BTreeSet::new(), false)
    }

    /// The file systems under the devices have so much room, or as much as is needed.
    pub fn limit_space(&self, bytes: Option<u64>) {
        self.rig.lock().disks.iter().for_each(|disk| disk.set_space_limit(bytes));
    }

    /// What is read on this device from here on is never answered.
    pub fn silence(&self, device: u32) {
        let never = FaultRule::always_in(0..u64::MAX, Operation::Read, Fault::Hold);
        self.rig.lock().disks[device as usize - 1].add_rule(never);
    }

    /// What stands in the zones of these devices is damaged.
    pub fn lose(&self, devices: &[u32]) {
        let rig = self.rig.lock();
        for device in devices {
            // Each time some bits of every sector: once, it may be those of the padding alone.
            for _ in 0..BLOWS {
                rig.disks[*device as usize - 1].corrupt_at_rest(SUPERBLOCKS_BYTES, 64 * 1024 * 1024);
            }
        }
    }

    /// What stands at this place is damaged.
    pub fn rot(&self, place: Place) {
        let zone_bytes = self.targets.lock()[0].device().usage().zone_bytes;
        super::healing::rot(&self.rig.lock(), (place, 0), super::healing::Rot::Header, zone_bytes);
    }

    /// The block with this place can't be read any more.
    pub fn fail_reads(&self, place: Place) {
        let zone_bytes = self.targets.lock()[0].device().usage().zone_bytes;
        self.unreadable.lock().push((place, zone_bytes));
        fail_reads(&self.rig.lock(), place, zone_bytes);
    }

    /// Where whole frames stand.
    pub async fn frames(&self) -> Vec<Place> {
        let targets = self.targets.lock().clone();
        let mut frames = Vec::new();
        for target in targets {
            let mut walk = target.walk(&device::LogVector::START, true);
            while let Some(event) = walk.next().await {
                if let device::WalkEvent::Frame(frame) = event {
                    frames.push(frame.place);
                }
            }
        }
        frames
    }

    async fn fence(&self, removed: &BTreeSet<GatewayId>) {
        let targets = self.targets.lock().clone();
        for target in targets {
            for gateway in removed {
                target.raise_fence(fence_key(*gateway), FENCE).await.unwrap();
            }
            target.drain().await;
        }
    }

    /// Every process dies at once; one gateway founds the cell anew.
    pub async fn restart_all(&self) -> LogStore {
        self.restart_all_without(&[]).await
    }

    /// As [`CellRig::restart_all`]; these devices do not come back with the others, and the founder writes to the rest.
    pub async fn restart_all_without(&self, missing: &[u32]) -> LogStore {
        self.restart_without(missing, missing).await
    }

    /// The same after these devices were declared gone for good.
    pub async fn restart_all_forgetting(&self, gone: &[u32]) -> LogStore {
        self.restart_without(gone, &[]).await
    }

    async fn restart_without(&self, without: &[u32], missing: &[u32]) -> LogStore {
        let gateways = self.gateways();
        let all: BTreeSet<GatewayId> = gateways.iter().map(|gateway| gateway.inner.me).collect();
        gateways.iter().for_each(|gateway| self.kill(gateway));
        drop(gateways);
        self.rig.lock().crash();
        self.open_targets().await;
        self.fence(&all).await;
        let [without, missing] = [without, missing].map(|devices| Vec::from_iter(devices.iter().copied().map(DeviceId)));
        let rest = (1..=3).map(DeviceId).filter(|device| !without.contains(device)).collect();
        self.manager.lock().change_table(rest);
        self.found_without(&without, &missing).await;
        self.gateways().remove(0)
    }

    /// A gateway gets hold of a device that it could not reach when it was opened.
    pub fn bring(&self, gateway: &LogStore, device: u32) {
        let log = self.logs_of(gateway.inner.me).into_iter().find(|log| log.id() == DeviceId(device));
        gateway.add_target(log.expect("a device of the cell"));
    }

    /// Leases granted from now on last this long.
    pub fn lend_for(&self, lease: Duration) {
        *self.streets.lease.lock() = lease;
        self.streets.lend();
    }

    /// All gateways behind one engine that asks another one each time.
    pub fn round_robin(self) -> RoundRobin {
        RoundRobin { gateways: self.gateways(), next: AtomicUsize::new(0), _rig: self }
    }
}

impl Streets {
    /// Grants every gateway a lease of the view that it has, unless it is cut off.
    fn lend(&self) {
        let lease = *self.lease.lock();
        if lease.is_zero() {
            return;
        }
        let now = ClockReading { nanos: self.env.now().as_nanos() };
        let cut = self.cut.lock().clone();
        for store in self.stores.lock().values().filter(|store| !cut.contains(&store.inner.me)) {
            let view = store.member_status().unwrap().view;
            store.renew_lease(HeldLease::granted(&LeaseTerms::new(lease, 0), view, now));
        }
    }
}

async fn lend(streets: std::sync::Weak<Streets>) {
    loop {
        let Some(streets) = streets.upgrade() else { return };
        streets.lend();
        let env = streets.env.clone();
        drop(streets);
        env.sleep(LEND_INTERVAL).await;
    }
}

/// Asks the gateways in turn. What is staged for a key stays at one gateway.
pub struct RoundRobin {
    gateways: Vec<LogStore>,
    next: AtomicUsize,
    _rig: CellRig,
}

impl RoundRobin {
    fn any(&self) -> &LogStore {
        &self.gateways[self.next.fetch_add(1, Ordering::Relaxed) % self.gateways.len()]
    }

    fn of(&self, key: &ObjectKey) -> &LogStore {
        &self.gateways[key.key().first().copied().unwrap_or(0) as usize % self.gateways.len()]
    }
}

impl ObjectEngine for RoundRobin {
    fn open_cached(&self, key: &ObjectKey) -> Option<Result<Found, EngineError>> {
        self.any().open_cached(key)
    }

    fn open<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, Found> {
        self.any().open(key)
    }

    fn info<'a>(&'a self, key: &'a ObjectKey) -> EngineFuture<'a, ObjectInfo> {
        self.any().info(key)
    }

    fn put<'a>(
        &'a self,
        key: &'a ObjectKey,
        attributes: Attributes,
        payload: Payload,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        self.any().put(key, attributes, payload, condition)
    }

    fn stage(&self, key: &ObjectKey, part: Option<(UploadId, u16)>) -> StagedChunks {
        self.of(key).stage(key, part)
    }

    fn stage_pieces<'a>(&'a self, staged: &'a mut StagedChunks, chunk: Payload) -> EngineFuture<'a, ()> {
        self.any().stage_pieces(staged, chunk)
    }

    fn commit<'a>(
        &'a self,
        key: &'a ObjectKey,
        staged: StagedChunks,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        self.of(key).commit(key, staged, attributes, condition)
    }

    fn set_tags<'a>(&'a self, key: &'a ObjectKey, tags: Vec<(Bytes, Bytes)>) -> EngineFuture<'a, Committed> {
        self.any().set_tags(key, tags)
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey, condition: Condition) -> EngineFuture<'a, ()> {
        self.any().delete(key, condition)
    }

    fn list<'a>(&'a self, query: &'a ListQuery) -> EngineFuture<'a, ListPage> {
        self.any().list(query)
    }

    fn is_empty(&self, bucket: BucketId) -> EngineFuture<'_, bool> {
        self.any().is_empty(bucket)
    }

    fn create_upload<'a>(&'a self, key: &'a ObjectKey, attributes: Attributes) -> EngineFuture<'a, UploadId> {
        self.any().create_upload(key, attributes)
    }

    fn upload<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, Attributes> {
        self.any().upload(upload)
    }

    fn put_part<'a>(
        &'a self,
        upload: &'a UploadRef,
        number: u16,
        attributes: Attributes,
        content: PartContent,
    ) -> EngineFuture<'a, PartInfo> {
        self.of(&upload.key).put_part(upload, number, attributes, content)
    }

    fn parts<'a>(&'a self, upload: &'a UploadRef, after: u16, max_parts: usize) -> EngineFuture<'a, Vec<PartInfo>> {
        self.any().parts(upload, after, max_parts)
    }

    fn complete<'a>(
        &'a self,
        upload: &'a UploadRef,
        parts: Vec<CompletePart>,
        attributes: Attributes,
        condition: Condition,
    ) -> EngineFuture<'a, Committed> {
        self.any().complete(upload, parts, attributes, condition)
    }

    fn abort<'a>(&'a self, upload: &'a UploadRef) -> EngineFuture<'a, ()> {
        self.any().abort(upload)
    }

    fn uploads<'a>(&'a self, query: &'a UploadQuery) -> EngineFuture<'a, UploadPage> {
        self.any().uploads(query)
    }
}
