//! How much of the machine is used: processors, memory, network.
//!
//! Linux says it in files of `/proc` and `/sys`. What can't be read counts as idle: who asks wants to spare a machine, and none is spared for want
//! of knowledge.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{Env, Instant};

/// Shares in thousandths, over the time since the meter was read before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineUse {
    /// Of the time of all processors.
    pub cpu: u16,
    /// Of the memory: what no process could have without others losing theirs. At the moment, not since.
    pub memory: u16,
    /// Of the interface that is nearest to its speed, in the direction that is.
    pub network: u16,
}

/// Reads how much of the machine is used. The first reading has no time before it, and says nothing of processors and network.
#[derive(Debug)]
pub struct MachineMeter {
    env: Env,
    before: Option<(Instant, Counters)>,
}

/// What the operating system has counted.
#[derive(Clone, Debug, Default)]
struct Counters {
    cpu: CpuTime,
    /// By interface: bits a second that it can carry, bytes received and sent.
    interfaces: BTreeMap<String, Interface>,
}

/// Ticks of all processors since the boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuTime {
    busy: u64,
    all: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interface {
    bits_a_second: u64,
    received: u64,
    sent: u64,
}

impl MachineMeter {
    pub(crate) fn new(env: &Env) -> MachineMeter {
        MachineMeter { env: env.clone(), before: None }
    }

    /// What is used, since the last reading.
    pub fn read(&mut self) -> MachineUse {
        if let Some(simulation) = self.env.simulation() {
            return simulation.machine_use();
        }
        let (now, counters) = (self.env.now(), Counters::read(Path::new("/")));
        let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| used_memory(&text)).unwrap_or(0);
        let since = self.before.replace((now, counters.clone()));
        let Some((at, before)) = since else { return MachineUse { memory, ..MachineUse::default() } };
        let seconds = now.saturating_duration_since(at).as_secs_f64();
        MachineUse { cpu: counters.cpu.used_since(before.cpu), memory, network: counters.network_since(&before, seconds) }
    }
}

impl Counters {
    fn read(root: &Path) -> Counters {
        let cpu = std::fs::read_to_string(root.join("proc/stat")).ok().and_then(|text| cpu_time(&text)).unwrap_or_default();
        Counters { cpu, interfaces: interfaces(&root.join("sys/class/net")) }
    }

    fn network_since(&self, before: &Counters, seconds: f64) -> u16 {
        let share = |(name, now): (&String, &Interface)| {
            let before = before.interfaces.get(name)?;
            let received = now.received.saturating_sub(before.received);
            let bytes = received.max(now.sent.saturating_sub(before.sent));
            Some(permille(bytes as f64 * 8.0, now.bits_a_second as f64 * seconds))
        };
        self.interfaces.iter().filter_map(share).max().unwrap_or(0)
    }
}

impl CpuTime {
    fn used_since(self, before: CpuTime) -> u16 {
        permille(self.busy.saturating_sub(before.busy) as f64, self.all.saturating_sub(before.all) as f64)
    }
}

fn permille(part: f64, whole: f64) -> u16 {
    if whole <= 0.0 { 0 } else { (part * 1000.0 / whole).clamp(0.0, 1000.0) as u16 }
}

/// The first line of `/proc/stat` (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal; guests are in the first two.
fn cpu_time(text: &str) -> Option<CpuTime> {
    const FIELDS: usize = 8;
    const IDLE: [usize; 2] = [3, 4];
    let mut words = text.lines().next()?.split_ascii_whitespace();
    words.next().filter(|word| *word == "cpu")?;
    let ticks: Vec<u64> = words.take(FIELDS).map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let all = ticks.iter().sum::<u64>();
    let idle = IDLE.iter().map(|field| ticks.get(*field)).sum::<Option<u64>>()?;
    Some(CpuTime { busy: all - idle, all })
}

/// Bytes of memory that this process may have: the machine's, or what its control group is limited to. Zero if that can't be read.
pub fn memory_bytes() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| meminfo_kilobytes(&text, "MemTotal")).unwrap_or(0) * 1024;
    // In a container the file system shows the container's own group there; without a limit it says `max`.
    let group = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse().ok());
    group.map_or(machine, |group: u64| group.min(machine))
}

fn meminfo_kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// What of `/proc/meminfo` is not available.
fn used_memory(text: &str) -> Option<u16> {
    let (total, available) = (meminfo_kilobytes(text, "MemTotal")?, meminfo_kilobytes(text, "MemAvailable")?);
    Some(permille(total.saturating_sub(available) as f64, total as f64))
}

/// Those that say how fast they are; the loopback does not.
fn interfaces(folder: &Path) -> BTreeMap<String, Interface> {
    const MEGABIT: u64 = 1_000_000;
    let number = |path: &Path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let interface = |folder: &Path| {
        let statistics = folder.join("statistics");
        Some(Interface {
            bits_a_second: number(&folder.join("speed")).filter(|speed| *speed > 0)?.checked_mul(MEGABIT)?,
            received: number(&statistics.join("rx_bytes"))?,
            sent: number(&statistics.join("tx_bytes"))?,
        })
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, interface(&entry.path())?))).collect()
}

#[cfg(test)]
mod tests;
