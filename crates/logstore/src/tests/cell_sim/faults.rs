//! What goes wrong, as data: a scenario has weights, a seed draws.

use super::world::{Process, World};
use crate::tests::support::Draw;
use std::sync::Arc;
use std::time::Duration;
use types::limits::BLOCK_BYTES;
use types::{DeviceId, GatewayId};

/// The disk that rots, of all, and how many blocks of it at a time.
const ROTTEN: usize = 1;
const BAD_BLOCKS: u64 = 400;

/// How often each kind comes, relative to the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A member's process is killed; the leader's; the leader's right after a manifest was installed; while it collects; and two in a row.
    pub kill: u64,
    pub kill_leader: u64,
    pub kill_after_install: u64,
    pub kill_collecting: u64,
    pub kill_two: u64,
    /// A member is removed while it lives and hears nothing of it.
    pub depose: u64,
    /// Ways are cut, in one direction or both; or all ways of a gateway, just before it is killed.
    pub cut: u64,
    pub cut_and_kill: u64,
    /// A gateway hears nothing of the manager until its lease has ended.
    pub deafen: u64,
    /// A target is out of reach.
    pub target: u64,
    /// Everything dies and loses its power.
    pub power: u64,
    /// Blocks of one device rot: what the others have must be enough.
    pub rot: u64,
}

impl Faults {
    fn weights(&self) -> [u64; 12] {
        let Faults {
            kill,
            kill_leader,
            kill_after_install,
            kill_collecting,
            kill_two,
            depose,
            cut,
            cut_and_kill,
            deafen,
            target,
            power,
            rot,
        } = *self;
        [
            kill,
            kill_leader,
            kill_after_install,
            kill_collecting,
            kill_two,
            depose,
            cut,
            cut_and_kill,
            deafen,
            target,
            power,
            rot,
        ]
    }
}

/// Its device.
pub fn rotten() -> DeviceId {
    DeviceId(ROTTEN as u32 + 1)
}

pub struct Chaos {
    pub world: Arc<World>,
    pub draw: Draw,
}

impl Chaos {
    fn time(&mut self, from_ms: u64, to_ms: u64) -> Duration {
        Duration::from_micros((from_ms + self.draw.below(to_ms - from_ms)) * 1000 + self.draw.below(1000))
    }

    async fn sleep(&mut self, from_ms: u64, to_ms: u64) {
        let time = self.time(from_ms, to_ms);
        self.world.env.sleep(time).await;
    }

    fn any(&mut self) -> Option<Arc<Process>> {
        let members = self.world.members();
        // Somebody who knows everything stays.
        (members.len() > 1).then(|| members[self.draw.below(members.len() as u64) as usize].clone())
    }

    fn leader(&self) -> Option<Arc<Process>> {
        let leader = self.world.leader().filter(|leader| leader.serves())?;
        (self.world.members().len() > 1).then_some(leader)
    }

    fn kill(&self, process: &Process) {
        tracing::info!(gateway = process.gateway.0, "killed");
        process.kill(self.world.env.now());
    }

    pub async fn strike(&mut self) {
        let weights = self.world.scenario.faults.weights();
        let mut drawn = self.draw.below(weights.iter().sum());
        let mut kind = 0;
        while drawn >= weights[kind] {
            drawn -= weights[kind];
            kind += 1;
        }
        tracing::info!(kind, "a fault");
        match kind {
            0 => drop(self.any().map(|process| self.kill(&process))),
            1 => drop(self.leader().map(|process| self.kill(&process))),
            2 => self.kill_after_install().await,
            3 => self.kill_collecting().await,
            4 => self.kill_two().await,
            5 => self.depose().await,
            6 => self.cut().await,
            7 => self.cut_and_kill().await,
            8 => self.deafen().await,
            9 => self.target().await,
            10 => {
                let interrupted = self.draw.below(3);
                self.world.power_cut(interrupted).await;
            }
            _ => self.rot().await,
        }
    }

    async fn kill_after_install(&mut self) {
        let before = self.world.manager.installed.lock().len();
        for _ in 0..2000 {
            if self.world.manager.installed.lock().len() > before {
                break;
            }
            self.world.env.sleep(Duration::from_micros(500)).await;
        }
        self.sleep(0, 4).await;
        if let Some(leader) = self.leader() {
            self.kill(&leader);
        }
    }

    async fn kill_collecting(&mut self) {
        let moved = |world: &World| {
            let leader = world.leader().and_then(|leader| leader.store());
            leader.map_or(0, |store| store.stats().relocated_bytes.get())
        };
        let before = moved(&self.world);
        for _ in 0..2000 {
            if moved(&self.world) > before {
                break;
            }
            self.world.env.sleep(Duration::from_micros(500)).await;
        }
        self.cut_some().await;
        self.sleep(0, 30).await;
        if let Some(leader) = self.leader() {
            self.kill(&leader);
        }
        self.world.streets.cut.lock().clear();
    }

    /// The leader's messages to one other are lost.
    async fn cut_some(&mut self) {
        let Some(leader) = self.leader() else { return };
        let others: Vec<GatewayId> =
            self.world.members().iter().map(|process| process.gateway).filter(|other| *other != leader.gateway).collect();
        if let Some(other) = others.get(self.draw.below(others.len().max(1) as u64) as usize) {
            self.world.streets.cut.lock().insert((leader.gateway, *other));
        }
    }

    async fn kill_two(&mut self) {
        let Some(first) = self.any() else { return };
        self.kill(&first);
        let before = self.world.manager.state.lock().view.number();
        for _ in 0..2000 {
            if self.world.manager.state.lock().view.number() > before {
                break;
            }
            self.world.env.sleep(Duration::from_millis(1)).await;
        }
        self.sleep(0, 120).await;
        if let Some(leader) = self.leader() {
            self.kill(&leader);
        }
    }

    async fn depose(&mut self) {
        let Some(process) = self.any() else { return };
        tracing::info!(gateway = process.gateway.0, "deposed");
        *process.deaf_until.lock() = self.world.env.now() + self.time(0, 2500);
        self.world.manager.change(|state| state.removing.insert(process.gateway));
    }

    async fn cut(&mut self) {
        let members = self.world.members();
        if members.len() < 2 {
            return;
        }
        let one = members[self.draw.below(members.len() as u64) as usize].gateway;
        let other = members[self.draw.below(members.len() as u64) as usize].gateway;
        {
            let mut cut = self.world.streets.cut.lock();
            cut.insert((one, other));
            if self.draw.below(2) == 0 {
                cut.insert((other, one));
            }
        }
        self.sleep(50, 1200).await;
        self.world.streets.cut.lock().clear();
    }

    async fn cut_and_kill(&mut self) {
        let Some(process) = self.any() else { return };
        {
            let mut cut = self.world.streets.cut.lock();
            for other in self.world.members().iter().filter(|other| other.gateway != process.gateway) {
                if self.draw.below(3) > 0 {
                    cut.insert((process.gateway, other.gateway));
                }
            }
        }
        self.sleep(0, 150).await;
        self.kill(&process);
        self.world.streets.cut.lock().clear();
    }

    async fn deafen(&mut self) {
        let Some(process) = self.any() else { return };
        let time = self.time(300, 2500);
        *process.deaf_until.lock() = self.world.env.now() + time;
        self.world.env.sleep(time).await;
    }

    async fn rot(&mut self) {
        let zones = self.world.scenario.zones * self.world.scenario.zone_bytes;
        let disk = self.world.rig.lock().disks[ROTTEN].clone();
        for _ in 0..BAD_BLOCKS {
            let block = self.draw.below(zones / BLOCK_BYTES as u64) * BLOCK_BYTES as u64;
            disk.corrupt_at_rest(format::superblock::FIRST_REGION_BYTE + block, BLOCK_BYTES as u64);
        }
        self.sleep(20, 2500).await;
    }

    async fn target(&mut self) {
        let device = DeviceId(1 + self.draw.below(3) as u32);
        self.world.down.lock().insert(device);
        self.sleep(20, 2500).await;
        self.world.down.lock().remove(&device);
    }
}
