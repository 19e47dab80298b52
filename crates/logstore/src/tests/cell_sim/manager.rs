//! The manager's part: the view, its table, who leaves and who comes, leases, the manifest. As `crates/manager` decides, over one cell and
//! without consensus.

use super::life::Life;
use crate::tests::support::MemoryManifests;
use crate::watched::Watched;
use crate::{CellView, Manifests};
use engine::{EngineError, EngineFuture};
use env::{Env, Instant};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use topology::{ReplicaTable, View};
use types::{DeviceId, Epoch, GatewayId, Generation, ViewNumber};

/// How long a lease lasts.
pub const LEASE: Duration = Duration::from_millis(600);

pub struct Manager {
    pub env: Env,
    pub state: Mutex<State>,
    /// Counts changes of the view.
    pub changed: Watched<u64>,
    pub memory: Arc<MemoryManifests>,
    /// What was installed, and when: a node's copy of the manager's state lags behind.
    pub installed: Mutex<Vec<(Instant, Vec<u8>)>>,
}

pub struct State {
    pub view: View,
    pub table: ReplicaTable,
    pub leader: GatewayId,
    pub undecided: BTreeSet<GatewayId>,
    pub removing: BTreeSet<GatewayId>,
    /// All that ever left.
    pub fenced: BTreeSet<GatewayId>,
    pub leases: BTreeMap<GatewayId, Instant>,
    pub learners: BTreeSet<GatewayId>,
    pub next_gateway: u16,
}

impl State {
    pub fn cell_view(&self) -> CellView {
        let (view, table, undecided) = (self.view.clone(), self.table.clone(), self.undecided.clone());
        CellView { view, uncovered: vec![table.clone()], table, undecided, leader: self.leader }
    }

    pub fn register(&mut self) -> GatewayId {
        self.next_gateway += 1;
        GatewayId(self.next_gateway - 1)
    }

    /// The next view with these members and devices; who is not among them leaves.
    pub fn install(&mut self, members: &BTreeSet<GatewayId>, devices: &[DeviceId]) {
        let leaving: Vec<GatewayId> = self.view.members().iter().copied().filter(|one| !members.contains(one)).collect();
        self.leader = *members.iter().find(|member| self.view.contains(**member)).expect("a member stays");
        self.view = self.view.next(members.iter().copied().collect()).unwrap();
        self.undecided.extend(&leaving);
        self.fenced.extend(&leaving);
        self.removing.retain(|gateway| members.contains(gateway));
        if self.table.devices() != devices {
            self.table = ReplicaTable::new(Generation(self.table.generation().0 + 1), devices.to_vec()).unwrap();
        }
    }

    /// A view of one gateway that decides everything from the devices.
    pub fn found(&mut self, gateway: GatewayId, devices: Vec<DeviceId>) {
        self.fenced.extend(self.view.members());
        self.fenced.remove(&gateway);
        self.view = self.view.next(vec![gateway]).unwrap();
        self.table = ReplicaTable::new(Generation(self.table.generation().0 + 1), devices).unwrap();
        self.leader = gateway;
        (self.undecided, self.removing, self.learners) = Default::default();
    }
}

impl Manager {
    pub fn new(env: &Env, memory: Arc<MemoryManifests>, devices: Vec<DeviceId>) -> Arc<Manager> {
        let nobody = GatewayId(0);
        let state = State {
            view: View::new(ViewNumber(0), vec![nobody]).unwrap(),
            table: ReplicaTable::new(Generation(0), devices).unwrap(),
            leader: nobody,
            undecided: BTreeSet::new(),
            removing: BTreeSet::new(),
            fenced: BTreeSet::new(),
            leases: BTreeMap::new(),
            learners: BTreeSet::new(),
            next_gateway: 1,
        };
        let (state, changed, installed) = (Mutex::new(state), Watched::default(), Mutex::default());
        Arc::new(Manager { env: env.clone(), state, changed, memory, installed })
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state.lock());
        self.changed.change(|count| *count += 1);
        changed
    }
}

/// The manifest, as one gateway sees it.
pub struct CellManifests {
    pub manager: Arc<Manager>,
    pub gateway: GatewayId,
    pub life: Arc<Life>,
    /// The node's copy of the manager's state is so old.
    pub lag: Duration,
}

impl CellManifests {
    async fn way(&self) {
        let env = &self.manager.env;
        env.sleep(Duration::from_micros(env.random_below(4_000) + 1)).await;
        self.life.stay().await;
    }
}

fn unavailable(reason: &str) -> EngineError {
    EngineError::Unavailable { reason: reason.to_owned() }
}

impl Manifests for CellManifests {
    fn load(&self) -> Option<Vec<u8>> {
        let now = self.manager.env.now();
        let installed = self.manager.installed.lock();
        let seen = installed.iter().rev().find(|(at, _)| *at + self.lag <= now);
        seen.or(installed.first()).map(|(_, bytes)| bytes.clone())
    }

    fn install(&self, expected: Epoch, epoch: Epoch, manifest: Vec<u8>) -> EngineFuture<'_, ()> {
        Box::pin(async move {
            self.way().await;
            if self.manager.state.lock().leader != self.gateway {
                return Err(unavailable("another gateway leads the cell"));
            }
            self.manager.memory.install(expected, epoch, manifest.clone()).await?;
            self.manager.installed.lock().push((self.manager.env.now(), manifest));
            self.way().await;
            match self.manager.env.random_below(20) {
                0 => Err(unavailable("the manager's answer was lost")),
                _ => Ok(()),
            }
        })
    }

    fn incarnation(&self) -> EngineFuture<'_, u64> {
        self.manager.memory.incarnation()
    }
}
