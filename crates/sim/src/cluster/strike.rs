//! Faults: each strikes, lasts a while, and is taken away.

use super::host::{Host, address, process_of};
use super::scenario::Strike;
use super::world::World;
use crate::draw::Draw;
use crate::table::NO_FAULTS;
use disk::FaultOdds;
use manager::DeviceState;
use net::LinkWeather;
use std::sync::Arc;
use std::time::Duration;

/// How often the cell is looked at for a moment that a fault waits for, and how long.
const LOOK: Duration = Duration::from_millis(5);
const LOOKS: u64 = 1_200;

/// Bytes of one block that goes bad, and how many do.
const BLOCK_BYTES: u64 = 4096;
const BAD_BLOCKS: u64 = 24;
/// Contents of chunks that rot at once, and most blocks that lose both headers.
const ROTTEN_CONTENTS: u64 = 12;
const ROTTEN_HEADERS: u64 = 2;
/// What lies before the zones of a device stays whole: its own tests damage that.
const ZONES_BEGIN_AT: u64 = 2 * 1024 * 1024;

pub(super) const CUT: LinkWeather = LinkWeather { is_cut: true, longest_delay: Duration::ZERO, breaks_per_million: 0 };
const BROKEN: LinkWeather = LinkWeather { is_cut: false, longest_delay: Duration::from_millis(2), breaks_per_million: 20_000 };
/// A device that takes nothing any more.
const DEAD: FaultOdds = FaultOdds { fail_write: 1_000_000, fail_flush: 1_000_000, ..NO_FAULTS };
const ERRORS: FaultOdds =
    FaultOdds { fail_read: 60_000, fail_write: 60_000, fail_torn_write: 30_000, fail_flush: 30_000, ..NO_FAULTS };

/// Chooses faults and carries them out.
pub struct Chaos {
    pub world: Arc<World>,
    pub draw: Draw,
    /// The one device that goes bad: what the others have must be enough.
    rotten: Option<(usize, usize)>,
}

impl Chaos {
    pub fn new(world: &Arc<World>, draw: Draw) -> Chaos {
        Chaos { world: world.clone(), draw, rotten: None }
    }

    /// The faults of a run. Those that destroy copies for good come first, and a replacement once: later some writes may have
    /// one copy for a while, and nothing must be lost that a real cluster would not lose.
    pub fn choose(&mut self) -> Vec<Strike> {
        let faults = &self.world.scenario.faults;
        let sum: u64 = faults.weights.iter().map(|(_, weight)| weight).sum();
        let mut chosen = Vec::new();
        for _ in 0..faults.strikes {
            let mut drawn = self.draw.below(sum);
            let strike = faults.weights.iter().find(|(_, weight)| {
                let is_it = drawn < *weight;
                drawn = drawn.saturating_sub(*weight);
                is_it
            });
            let strike = strike.expect("within the sum").0;
            let is_once = matches!(strike, Strike::Replace | Strike::ReplaceLate);
            if !is_once || !chosen.contains(&strike) {
                chosen.push(strike);
            }
        }
        chosen.sort_by_key(|strike| match strike {
            Strike::Corrupt | Strike::RotChunks => 0,
            Strike::Replace | Strike::ReplaceLate => 1,
            _ => 2,
        });
        chosen
    }

    fn time(&mut self, from_ms: u64, to_ms: u64) -> Duration {
        Duration::from_micros(from_ms * 1_000 + self.draw.below((to_ms - from_ms) * 1_000))
    }

    async fn sleep(&mut self, from_ms: u64, to_ms: u64) {
        let time = self.time(from_ms, to_ms);
        self.world.env.sleep(time).await;
    }

    fn any(&mut self) -> usize {
        let present = self.world.present();
        present[self.draw.below(present.len() as u64) as usize]
    }

    /// A host with devices.
    fn any_target(&mut self) -> usize {
        let has_devices = |number: &usize| !self.world.hosts.lock()[*number].devices.is_empty();
        let targets: Vec<usize> = self.world.present().into_iter().filter(has_devices).collect();
        targets[self.draw.below(targets.len() as u64) as usize]
    }

    fn other_than(&mut self, one: usize) -> usize {
        let others: Vec<usize> = self.world.present().into_iter().filter(|number| *number != one).collect();
        others[self.draw.below(others.len() as u64) as usize]
    }

    pub async fn strike(&mut self, strike: Strike) {
        self.world.note(format_args!("strike: {strike:?}"));
        match strike {
            Strike::Kill => self.kill(None, false).await,
            Strike::KillForLong => self.kill_for_long().await,
            Strike::PowerCut => self.kill(None, true).await,
            Strike::KillLeader => self.kill(self.world.manager_leader(), false).await,
            Strike::KillCellLeader => self.kill_cell_leader().await,
            Strike::KillTwo => self.kill_two().await,
            Strike::PowerCutOfAll => self.power_cut_of_all().await,
            Strike::PowerCutOfAllOneLate => self.power_cut_of_all_one_late().await,
            Strike::LastDevicesLate => self.last_devices_late().await,
            Strike::Pause => self.pause(None).await,
            Strike::PauseLeader => self.pause(self.world.manager_leader()).await,
            Strike::CutNode | Strike::CutInto | Strike::CutOutOf => self.cut_node(strike).await,
            Strike::CutLink | Strike::CutOneWay => self.cut_link(strike == Strike::CutLink).await,
            Strike::CutAndKill => self.cut_and_kill().await,
            Strike::BreakConnections => self.weather(BROKEN).await,
            Strike::SlowLinks => self.slow_links().await,
            Strike::SlowOneWay => self.slow_one_way().await,
            Strike::SlowReturn => self.slow_return().await,
            Strike::WallClockJump => self.wall_clock_jump(),
            Strike::Corrupt => self.corrupt(),
            Strike::RotChunks => self.rot_chunks().await,
            Strike::SlowDisk => self.slow_disk().await,
            Strike::DeviceErrors => self.device_errors().await,
            Strike::DiskFull => self.disk_full().await,
            Strike::LogErrors => self.log_errors().await,
            Strike::Replace => self.replace().await,
            // Its parts, with what people do between them, are the run's.
            Strike::ReplaceLate => {}
            Strike::ReplaceDisks => self.replace_disks().await,
        }
        self.world.note(format_args!("over: {strike:?}"));
    }

    async fn kill(&mut self, victim: Option<usize>, power: bool) {
        let victim = victim.unwrap_or_else(|| self.any());
        self.world.end(victim, power).await;
        self.sleep(100, 6_000).await;
        self.world.start(victim).await;
    }

    async fn kill_for_long(&mut self) {
        let victim = self.any();
        let power = self.draw.percent(50);
        self.world.end(victim, power).await;
        self.sleep(8_000, 40_000).await;
        self.world.start(victim).await;
    }

    async fn start_all(&self, numbers: &[usize]) {
        let mut starting = tokio::task::JoinSet::new();
        for number in numbers.iter().copied() {
            let world = self.world.clone();
            starting.spawn(async move { world.start(number).await });
        }
        starting.join_all().await;
    }

    async fn kill_two(&mut self) {
        let first = self.any();
        let second = self.other_than(first);
        let power = self.draw.percent(50);
        self.world.end(first, power).await;
        self.sleep(0, 3_000).await;
        self.world.end(second, !power).await;
        self.sleep(0, 4_000).await;
        self.start_all(&[first, second]).await;
    }

    async fn power_cut_of_all(&mut self) {
        let all = self.world.present();
        for number in &all {
            self.world.end(*number, true).await;
        }
        self.start_all(&all).await;
    }

    async fn power_cut_of_all_one_late(&mut self) {
        let all = self.world.present();
        let late = self.any();
        for number in &all {
            self.world.end(*number, true).await;
        }
        let others: Vec<usize> = all.into_iter().filter(|number| *number != late).collect();
        self.start_all(&others).await;
        self.sleep(1_000, 25_000).await;
        self.world.start(late).await;
    }

    async fn last_devices_late(&mut self) {
        let all = self.world.present();
        let last = self.any_target();
        let others: Vec<usize> = all.iter().copied().filter(|number| *number != last).collect();
        self.set_odds_of(&others, DEAD);
        // Until the others' devices have left the table, and clients have written by the next one.
        self.sleep(4_000, 9_000).await;
        for number in &all {
            self.world.end(*number, true).await;
        }
        self.set_odds_of(&others, NO_FAULTS);
        self.start_all(&others).await;
        // They found the cell after 10 s.
        self.sleep(10_000, 25_000).await;
        self.world.start(last).await;
    }

    fn set_odds_of(&self, numbers: &[usize], odds: FaultOdds) {
        let hosts = self.world.hosts.lock();
        numbers.iter().flat_map(|number| &hosts[*number].devices).for_each(|disk| disk.set_odds(odds));
    }

    /// A member is killed; when the view without it is there, so is the one that leads its recovery.
    async fn kill_cell_leader(&mut self) {
        let first = self.any();
        let before = self.world.view();
        self.world.end(first, self.draw.percent(30)).await;
        for _ in 0..LOOKS {
            if self.world.view() > before {
                break;
            }
            self.world.env.sleep(LOOK).await;
        }
        self.sleep(0, 150).await;
        let leader = self.world.cell_leader().filter(|leader| *leader != first);
        if let Some(leader) = leader {
            self.world.end(leader, self.draw.percent(30)).await;
        }
        self.sleep(0, 2_000).await;
        self.start_all(&[Some(first), leader].into_iter().flatten().collect::<Vec<_>>()).await;
    }

    async fn pause(&mut self, victim: Option<usize>) {
        let victim = victim.unwrap_or_else(|| self.any());
        let env = self.world.hosts.lock()[victim].env.clone();
        let Some(env) = env else { return };
        process_of(&env).pause();
        // A lease lasts two seconds.
        self.sleep(50, 7_000).await;
        process_of(&env).resume();
    }

    async fn cut_node(&mut self, strike: Strike) {
        let victim = self.any();
        for other in self.world.present().into_iter().filter(|other| *other != victim) {
            if strike != Strike::CutOutOf {
                self.world.network.set_link(&address(other), &address(victim), CUT);
            }
            if strike != Strike::CutInto {
                self.world.network.set_link(&address(victim), &address(other), CUT);
            }
        }
        self.sleep(200, 7_000).await;
        self.world.network.clear_links();
    }

    async fn cut_link(&mut self, both_ways: bool) {
        let one = self.any();
        let other = self.other_than(one);
        self.world.network.set_link(&address(one), &address(other), CUT);
        if both_ways {
            self.world.network.set_link(&address(other), &address(one), CUT);
        }
        self.sleep(200, 9_000).await;
        self.world.network.clear_links();
    }

    async fn cut_and_kill(&mut self) {
        let victim = self.any();
        for other in self.world.present().into_iter().filter(|other| *other != victim) {
            if self.draw.percent(60) {
                self.world.network.set_link(&address(victim), &address(other), CUT);
            }
        }
        self.sleep(0, 300).await;
        self.world.end(victim, self.draw.percent(50)).await;
        self.world.network.clear_links();
        self.sleep(0, 5_000).await;
        self.world.start(victim).await;
    }

    async fn weather(&mut self, weather: LinkWeather) {
        self.world.network.set_weather(weather);
        self.sleep(500, 6_000).await;
        self.world.network.set_weather(self.world.scenario.faults.weather);
    }

    async fn slow_links(&mut self) {
        let longest_delay = self.time(5, 400);
        self.weather(LinkWeather { longest_delay, ..LinkWeather::default() }).await;
    }

    async fn slow_one_way(&mut self) {
        let one = self.any();
        let other = self.other_than(one);
        self.slow_way(one, other, (50, 2_000));
        self.sleep(2_000, 9_000).await;
        self.world.network.clear_links();
    }

    async fn slow_return(&mut self) {
        let victim = self.any();
        let other = self.other_than(victim);
        let power = self.draw.percent(30);
        self.world.end(victim, power).await;
        self.sleep(4_000, 9_000).await;
        self.slow_way(other, victim, (50, 800));
        let slow = self.time(4_000, 12_000);
        let clear = async {
            self.world.env.sleep(slow).await;
            self.world.network.clear_links();
        };
        // A node that is behind the manager's leader, and this link slower than the leader waits, does not start before the link is well.
        tokio::join!(self.world.start(victim), clear);
    }

    /// Messages from one node to another take up to so many milliseconds.
    fn slow_way(&mut self, one: usize, other: usize, (least, most): (u64, u64)) {
        let longest_delay = self.time(least, most);
        let slow = LinkWeather { longest_delay, ..self.world.scenario.faults.weather };
        self.world.network.set_link(&address(one), &address(other), slow);
    }

    fn wall_clock_jump(&mut self) {
        let victim = self.any();
        let skew_ms = self.draw.below(20_000_000) as i64 - 10_000_000;
        let mut hosts = self.world.hosts.lock();
        hosts[victim].wall_skew_ms = skew_ms;
        if let Some(simulation) = hosts[victim].env.as_ref().and_then(env::Env::simulation) {
            simulation.set_wall_skew_ms(skew_ms);
        }
    }

    /// The one device that goes bad, and its host.
    fn rotting(&mut self) -> (usize, disk::SimDisk) {
        let devices = self.world.scenario.topology.devices_per_node as u64;
        let drawn = (self.any_target(), self.draw.below(devices) as usize);
        let (host, device) = *self.rotten.get_or_insert(drawn);
        (host, self.world.hosts.lock()[host].devices[device].clone())
    }

    /// Some contents, and both headers of some blocks, which is seen when the device is opened.
    async fn rot_chunks(&mut self) {
        let (host, disk) = self.rotting();
        let blocks = super::chunks::rot::blocks_on(&disk);
        for _ in 0..ROTTEN_CONTENTS.min(blocks.len() as u64) {
            let block = &blocks[self.draw.below(blocks.len() as u64) as usize];
            let content = block.contents.get(self.draw.below(block.contents.len().max(1) as u64) as usize);
            content.into_iter().for_each(|at| disk.corrupt_at_rest(*at, BLOCK_BYTES));
        }
        let lost = self.draw.below(ROTTEN_HEADERS + 1).min(blocks.len() as u64);
        for _ in 0..lost {
            let block = &blocks[self.draw.below(blocks.len() as u64) as usize];
            block.headers.iter().for_each(|at| disk.corrupt_at_rest(*at, BLOCK_BYTES));
        }
        self.world.count("rot: headers", lost);
        self.kill(Some(host), false).await;
    }

    fn corrupt(&mut self) {
        let (_, disk) = self.rotting();
        let written = disk::Disk::size_bytes(&disk);
        for _ in 0..BAD_BLOCKS {
            let block = self.draw.below(written / BLOCK_BYTES) * BLOCK_BYTES;
            if block >= ZONES_BEGIN_AT {
                disk.corrupt_at_rest(block, BLOCK_BYTES);
            }
        }
    }

    async fn slow_disk(&mut self) {
        let victim = self.any_target();
        let disk = self.device_of(victim);
        let delay_at_most = self.time(20, 1_500);
        disk.set_odds(FaultOdds { delay: 1_000_000, delay_at_most, ..NO_FAULTS });
        self.sleep(500, 6_000).await;
        disk.set_odds(NO_FAULTS);
    }

    async fn device_errors(&mut self) {
        let victim = self.any_target();
        let disk = self.device_of(victim);
        disk.set_odds(ERRORS);
        self.sleep(200, 4_000).await;
        disk.set_odds(FaultOdds::default());
        // A device that failed is not asked again before its node starts anew.
        self.kill(Some(victim), false).await;
    }

    fn device_of(&mut self, host: usize) -> disk::SimDisk {
        let devices = self.world.scenario.topology.devices_per_node as u64;
        let device = self.draw.below(devices) as usize;
        self.world.hosts.lock()[host].devices[device].clone()
    }

    async fn disk_full(&mut self) {
        let victim = self.any_target();
        let disk = self.device_of(victim);
        disk.set_space_limit(Some(disk::Disk::size_bytes(&disk)));
        self.sleep(500, 4_000).await;
        disk.set_space_limit(None);
        self.kill(Some(victim), false).await;
    }

    async fn log_errors(&mut self) {
        let victim = self.any();
        let log = self.world.hosts.lock()[victim].log.clone();
        log.set_odds(ERRORS);
        self.sleep(200, 4_000).await;
        log.set_odds(FaultOdds::default());
        self.kill(Some(victim), false).await;
    }

    async fn replace(&mut self) {
        let rotten = self.rotten.map(|(host, _)| host);
        let victim = rotten.unwrap_or_else(|| self.any());
        self.lose(victim).await;
        self.sleep(0, 5_000).await;
        self.replace_lost(victim).await;
    }

    /// A node is gone for ever; which one it was.
    pub async fn lose_any(&mut self) -> usize {
        let victim = self.any();
        self.lose(victim).await;
        victim
    }

    async fn lose(&mut self, victim: usize) {
        // The first node founded the group; the others are alike.
        self.world.end(victim, true).await;
        self.world.hosts.lock()[victim].is_gone = true;
    }

    /// A new one comes for it.
    pub async fn replace_lost(&mut self, victim: usize) {
        let number = {
            let scenario = &self.world.scenario;
            let mut hosts = self.world.hosts.lock();
            let number = hosts.len();
            let roles = hosts[victim].roles.clone();
            hosts.push(Host::new(&self.world.env, number, roles, &scenario.topology, scenario.faults.drift_ppm));
            number
        };
        self.world.start(number).await;
    }

    /// Nothing else goes wrong until the copies are made again: nothing must be lost that a real cluster would not lose.
    async fn replace_disks(&mut self) {
        if !self.world.has_all_copies().await {
            self.world.count("sim: disks that were not replaced, because others lacked copies", 1);
            return;
        }
        let victim = self.any_target();
        self.world.end(victim, self.draw.percent(50)).await;
        let lost = {
            let (env, topology) = (&self.world.env, &self.world.scenario.topology);
            self.world.hosts.lock()[victim].replace_disks(env, topology)
        };
        self.sleep(0, 5_000).await;
        self.world.start(victim).await;
        let manager = self.world.hosts.lock()[victim].node.as_ref().map(|node| node.manager().clone());
        if let Some(manager) = manager {
            for device in lost {
                while manager.set_device_state(device, DeviceState::Replaced).await.is_err() {
                    self.sleep(0, 1_000).await;
                }
            }
        }
        if self.draw.percent(50) {
            // That they are to be forgotten is not forgotten.
            self.world.end(victim, self.draw.percent(50)).await;
            self.world.start(victim).await;
        }
        let is_whole = self.world.has_all_copies().await && self.world.stands_on(victim).await;
        if !is_whole {
            let broken = format!("the copies of node {victim}'s disks are not made again:\n{}", self.world.describe());
            self.world.broken.lock().get_or_insert(broken);
        }
    }
}
