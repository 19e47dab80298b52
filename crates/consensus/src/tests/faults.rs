//! Histories on an unreliable network, with crashes: linearizable, and nothing acknowledged is lost.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use model::linearizability::{CallId, History};
use model::register::{Call, Outcome, Register};
use parking_lot::Mutex;

use super::cluster::{Cluster, GROUP};
use super::store::{Command, Store};
use crate::group::{Group, ReadMode};
use crate::transport::LinkWeather;

type Histories = Arc<Mutex<Vec<History<Register<u64>>>>>;

const REGISTERS: u64 = 4;
const CLIENTS: u64 = 4;
const CALLS: u64 = 25;

/// One client: calls on random members, until it has made all of them.
async fn client(env: Env, histories: Histories, members: Arc<Mutex<Vec<Group<Store>>>>, number: u64) {
    for serial in 0..CALLS {
        let register = env.random_below(REGISTERS);
        let value = number * 1_000 + serial;
        let call = match env.random_below(4) {
            0 => Call::Write(Some(value)),
            1 => Call::Swap {
                expected: histories.lock()[register as usize].len().checked_sub(1).map(|_| value - 1),
                new: Some(value),
            },
            _ => Call::Read,
        };
        let member = {
            let members = members.lock();
            // Mostly whoever takes itself for the leader.
            let leading: Vec<&Group<Store>> = members.iter().filter(|member| member.status().is_leader).collect();
            match leading.as_slice() {
                [] => (!members.is_empty()).then(|| members[env.random_below(members.len() as u64) as usize].clone()),
                leading => Some(leading[env.random_below(leading.len() as u64) as usize].clone()),
            }
        };
        let Some(member) = member else {
            env.sleep(Duration::from_millis(50)).await;
            continue;
        };
        let id = histories.lock()[register as usize].call(call.clone());
        let outcome = ask(&env, &member, register, &call).await;
        note(&histories, register, id, outcome);
        env.sleep(Duration::from_millis(env.random_below(60))).await;
    }
}

/// What became of a call: an outcome, certainly nothing, or nobody knows.
enum Fate {
    Answered(Outcome<u64>),
    Nothing,
    Unknown,
}

async fn ask(env: &Env, member: &Group<Store>, register: u64, call: &Call<u64>) -> Fate {
    let Some(command) = Command::of(register, call) else {
        let mode = if env.random_below(2) == 0 { ReadMode::Lease } else { ReadMode::Confirmed };
        let found = member.read(mode, |store| store.registers.get(&register).copied()).await;
        return found.map_or(Fate::Nothing, |found| Fate::Answered(Outcome::Read(found)));
    };
    match member.propose(&command).await {
        Ok((_, outcome)) => Fate::Answered(outcome),
        Err(error) if error.is_definite() => Fate::Nothing,
        Err(_) => Fate::Unknown,
    }
}

fn note(histories: &Histories, register: u64, id: CallId, fate: Fate) {
    let history = &mut histories.lock()[register as usize];
    match fate {
        Fate::Answered(outcome) => history.answer(id, outcome),
        Fate::Nothing => history.withdraw(id),
        Fate::Unknown => {}
    }
}

/// What the network and the machines suffer.
#[derive(Clone, Copy, Debug)]
struct Faults {
    weather: LinkWeather,
    partitions: bool,
    crashes: bool,
    snapshots: bool,
    /// States are kept as rows.
    keeps_rows: bool,
}

/// Runs clients under faults and checks all histories; returns them, and how long that took on the simulated clock.
async fn run(seed: u64, faults: Faults) -> (String, Duration) {
    let env = Env::simulated(seed);
    let mut cluster = Cluster::keeping(&env, 3, faults.keeps_rows).await;
    cluster.network.set_weather(faults.weather);
    let histories: Histories = Arc::new(Mutex::new((0..REGISTERS).map(|_| History::default()).collect()));
    let members = Arc::new(Mutex::new(running(&cluster)));
    let clients: Vec<_> = (1..=CLIENTS)
        .map(|number| env.spawn(client(env.clone(), Arc::clone(&histories), Arc::clone(&members), number)))
        .collect();
    while clients.iter().any(|client| !client.is_finished()) {
        env.sleep(Duration::from_millis(200 + env.random_below(800))).await;
        let ids = cluster.ids();
        let victim = ids[env.random_below(ids.len() as u64) as usize];
        if faults.partitions && env.random_below(2) == 0 {
            cluster.network.heal();
            if env.random_below(3) == 0 {
                // One way only.
                let other = ids[env.random_below(ids.len() as u64) as usize];
                cluster.network.set_link(victim, other, LinkWeather { is_cut: true, ..LinkWeather::default() });
            } else {
                cluster.network.isolate(victim);
            }
        }
        if faults.crashes {
            if cluster.host(victim).node.is_none() {
                cluster.start(victim, &[]).await.unwrap();
            } else if cluster.hosts.iter().all(|host| host.node.is_some()) {
                if env.random_below(2) == 0 {
                    // In the middle of what comes next.
                    cluster.host(victim).disk.power_cut_after(env.random_below(6));
                    env.sleep(Duration::from_millis(env.random_below(100))).await;
                }
                cluster.crash(victim).await;
            }
            *members.lock() = running(&cluster);
        }
        if faults.snapshots
            && let Some(group) = cluster.host(victim).groups.get(&GROUP)
        {
            group.make_snapshot().await;
            if let Some(covered) = group.status().snapshot {
                group.core.purge(covered.index).await;
            }
        }
    }
    cluster.network.heal();
    cluster.network.set_weather(LinkWeather::default());
    for id in cluster.ids() {
        if cluster.host(id).node.is_none() {
            cluster.start(id, &[]).await.unwrap();
        }
    }
    // A command in this term commits whatever is left of earlier ones.
    cluster.propose(GROUP, &Command::write(REGISTERS, 1)).await;
    let state = cluster.settled(GROUP).await;
    let mut seen = String::new();
    for (register, history) in histories.lock().iter_mut().enumerate() {
        let last = history.call(Call::Read);
        history.answer(last, Outcome::Read(state.registers.get(&(register as u64)).copied()));
        if let Err(violation) = history.check(None) {
            panic!("seed {seed}, register {register}: {violation}");
        }
        seen += &history.to_string();
    }
    let answered = seen.lines().filter(|line| line.contains("->")).count();
    assert!(answered as u64 > CLIENTS * CALLS / 10, "seed {seed}: only {answered} calls were answered");
    cluster.shut_down().await;
    (seen, env.simulation().unwrap().elapsed())
}

fn running(cluster: &Cluster) -> Vec<Group<Store>> {
    cluster.hosts.iter().filter_map(|host| host.groups.get(&GROUP).cloned()).collect()
}

const ROUGH: LinkWeather =
    LinkWeather { is_cut: false, lost_per_mille: 50, doubled_per_mille: 100, longest_delay: Duration::from_millis(30) };

const FAIR: LinkWeather =
    LinkWeather { is_cut: false, lost_per_mille: 0, doubled_per_mille: 0, longest_delay: Duration::from_millis(2) };

/// Runs of each with `TRILITH_SOAK=1`.
const SOAK_FACTOR: u64 = 20;

async fn seeds(first: u64, count: u64, faults: Faults) {
    let factor = if std::env::var_os("TRILITH_SOAK").is_some() { SOAK_FACTOR } else { 1 };
    for seed in first..first + count * factor {
        run(seed, faults).await;
    }
}

#[tokio::test(start_paused = true)]
async fn lost_late_and_doubled_messages() {
    seeds(100, 6, Faults { weather: ROUGH, partitions: false, crashes: false, snapshots: true, keeps_rows: false }).await;
}

#[tokio::test(start_paused = true)]
async fn partitions_also_one_way() {
    seeds(200, 6, Faults { weather: FAIR, partitions: true, crashes: false, snapshots: false, keeps_rows: false }).await;
}

#[tokio::test(start_paused = true)]
async fn crashes_and_power_cuts() {
    seeds(300, 6, Faults { weather: FAIR, partitions: false, crashes: true, snapshots: true, keeps_rows: false }).await;
}

#[tokio::test(start_paused = true)]
async fn everything_at_once() {
    seeds(400, 8, Faults { weather: ROUGH, partitions: true, crashes: true, snapshots: true, keeps_rows: false }).await;
}

#[tokio::test(start_paused = true)]
async fn states_of_rows_with_crashes_and_power_cuts() {
    seeds(600, 8, Faults { weather: FAIR, partitions: false, crashes: true, snapshots: true, keeps_rows: true }).await;
}

#[tokio::test(start_paused = true)]
async fn states_of_rows_with_everything_at_once() {
    seeds(700, 8, Faults { weather: ROUGH, partitions: true, crashes: true, snapshots: true, keeps_rows: true }).await;
}

/// Of several that wait for Raft's progress, each is woken in its turn: the same seed gives the same histories at the same times.
#[test]
fn a_seed_run_twice_is_the_same() {
    let once = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime
            .block_on(run(seed, Faults { weather: ROUGH, partitions: true, crashes: true, snapshots: true, keeps_rows: false }))
    };
    for seed in 500..503 {
        assert_eq!(once(seed), once(seed), "seed {seed}");
    }
}
