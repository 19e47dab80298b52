use std::fs;
use std::time::Duration;

use super::{Counters, CpuTime, MachineMeter, cpu_time, interfaces, used_memory};
use crate::{Env, MachineUse};

const STAT: &str = "cpu  100 20 30 800 50 5 5 10 40 0\ncpu0 100 20 30 800 50 5 5 10 40 0\nintr 12\n";

#[test]
fn processors_are_busy_with_all_but_waiting() {
    let before = cpu_time(STAT).unwrap();
    assert_eq!(before, CpuTime { busy: 170, all: 1020 });
    let later = CpuTime { busy: before.busy + 90, all: before.all + 100 };
    assert_eq!(later.used_since(before), 900);
    // Counters that went back say nothing.
    assert_eq!(before.used_since(later), 0);
    for not_stat in ["", "cpu", "cpu 1 2 x 4 5", "cpu0 1 2 3 4 5 6 7 8"] {
        assert_eq!(cpu_time(not_stat), None, "{not_stat}");
    }
}

#[test]
fn memory_that_others_would_have_to_give_is_used() {
    let meminfo = "MemTotal:       1000 kB\nMemFree:          10 kB\nMemAvailable:    250 kB\n";
    assert_eq!(used_memory(meminfo), Some(750));
    assert_eq!(used_memory("MemTotal: 1000 kB\n"), None);
    assert_eq!(used_memory("MemTotal: 0 kB\nMemAvailable: 0 kB\n"), Some(0));
}

#[test]
fn a_network_is_used_as_far_as_its_fullest_interface() {
    let root = std::env::temp_dir().join(format!("trilith-machine-{}", std::process::id()));
    let put = |interface: &str, speed: &str, received: u64, sent: u64| {
        let statistics = root.join("sys/class/net").join(interface).join("statistics");
        fs::create_dir_all(&statistics).unwrap();
        fs::write(statistics.join("rx_bytes"), format!("{received}\n")).unwrap();
        fs::write(statistics.join("tx_bytes"), format!("{sent}\n")).unwrap();
        fs::write(statistics.join("../speed"), speed).unwrap();
    };
    put("eth0", "1000\n", 1_000, 2_000);
    put("eth1", "10000\n", 0, 0);
    put("down", "-1\n", 0, 0);
    let before = Counters::read(&root);
    assert_eq!(before.interfaces.keys().collect::<Vec<_>>(), ["eth0", "eth1"]);
    // A quarter of a gigabit a second in one direction, an eighth in the other, for two seconds.
    put("eth0", "1000\n", 1_000 + 31_250_000, 2_000 + 62_500_000);
    put("eth1", "10000\n", 62_500_000, 0);
    assert_eq!(Counters::read(&root).network_since(&before, 2.0), 250);
    assert_eq!(Counters::read(&root).network_since(&before, 0.0), 0);
    fs::remove_dir_all(&root).unwrap();
    assert!(interfaces(&root).is_empty());
}

#[test]
fn a_machine_says_what_it_uses() {
    let mut meter = MachineMeter::new(&Env::real());
    let first = meter.read();
    assert_eq!((first.cpu, first.network), (0, 0));
    assert!((1..1000).contains(&first.memory), "{first:?}");
    // Until some ticks have been counted.
    let is_busy = (0..200).any(|_| {
        let until = std::time::Instant::now() + Duration::from_millis(50);
        while std::time::Instant::now() < until {}
        meter.read().cpu > 0
    });
    assert!(is_busy, "a processor that spins is busy");
}

#[tokio::test(start_paused = true)]
async fn a_simulated_machine_uses_what_it_is_told() {
    let env = Env::simulated(1);
    let mut meter = env.machine_meter();
    assert_eq!(meter.read(), MachineUse::default());
    let used = MachineUse { cpu: 950, memory: 1, network: 2 };
    env.simulation().unwrap().set_machine_use(used);
    assert_eq!(meter.read(), used);
}
