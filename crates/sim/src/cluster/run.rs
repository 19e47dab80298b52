//! One run: a scenario, a seed, and what came of it.

use super::client::{Client, look_around};
use super::histories::Histories;
use super::scenario::{Scenario, Strike};
use super::strike::Chaos;
use super::table::scenario_of;
use super::world::World;
use crate::draw::Draw;
use crate::trace::{Fingerprint, Trace};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What was under way at the last fault has ended after this time.
const CALM_AT_THE_END: Duration = Duration::from_secs(2);
/// Streams of draws.
const CHAOS_STREAM: u64 = 1;
const CLIENT_STREAMS: u64 = 100;

/// What a run leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub fingerprint: Fingerprint,
    /// Calls in all histories.
    pub calls: usize,
    /// Branches that were taken, and what else is counted.
    pub counts: BTreeMap<&'static str, u64>,
}

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Failure {
    pub what: String,
    /// The last events.
    pub events: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.what, self.events)
    }
}

/// Runs a seed, within a runtime whose clock is paused.
pub async fn run(seed: u64) -> Result<Report, Failure> {
    run_with(seed, Trace::default()).await
}

/// As [`run`], with a trace of the caller's.
pub async fn run_with(seed: u64, trace: Trace) -> Result<Report, Failure> {
    let trace = Arc::new(trace);
    let outcome = within(scenario_of(seed), seed, &trace).await;
    outcome.map_err(|what| Failure { what, events: trace.last() })
}

async fn within(scenario: Scenario, seed: u64, trace: &Arc<Trace>) -> Result<Report, String> {
    env::keep_marks();
    let world = World::new(scenario, seed, trace.clone()).await?;
    let histories = Histories::new(&world.env, trace, scenario.workload.keys);
    let outcome = live(&world, &histories, seed).await;
    let mut counts = env::take_marks();
    // A history without an explanation says more than what came of it.
    if histories.violation().is_some() || outcome.is_ok() {
        histories.judge()?;
    }
    outcome?;
    world.running().iter().for_each(|running| world.count_engine(&running.node));
    for (what, count) in world.counts.lock().iter().chain(&histories.counts()) {
        *counts.entry(what).or_default() += count;
    }
    Ok(Report { fingerprint: trace.fingerprint(), calls: histories.calls(), counts })
}

async fn live(world: &Arc<World>, histories: &Arc<Histories>, seed: u64) -> Result<(), String> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..world.scenario.workload.clients {
        let draw = Draw::new(seed, CLIENT_STREAMS + number);
        let (world, histories, is_over) = (world.clone(), histories.clone(), is_over.clone());
        clients.spawn(Client { world, histories, draw, seen: BTreeMap::new(), is_over }.run());
    }
    let mut chaos = Chaos::new(world, Draw::new(seed, CHAOS_STREAM));
    for strike in chaos.choose() {
        let calm = chaos.draw.duration(world.scenario.faults.calm);
        world.env.sleep(calm).await;
        world.count(name_of(strike), 1);
        chaos.strike(strike).await;
        if let Some(broken) = world.broken.lock().clone() {
            return Err(broken);
        }
        if histories.violation().is_some() {
            return Ok(());
        }
    }
    world.network.set_weather(net::LinkWeather::default());
    world.settle().await?;
    world.env.sleep(CALM_AT_THE_END).await;
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = clients.join_next().await {
        ended.map_err(|error| error.to_string())?;
    }
    world.settle().await?;
    look_around(world, histories).await?;
    chaos.strike(Strike::PowerCutOfAll).await;
    world.settle().await?;
    look_around(world, histories).await.map_err(|what| format!("after the last start: {what}"))
}

pub(super) fn name_of(strike: Strike) -> &'static str {
    match strike {
        Strike::Kill => "fault: kill",
        Strike::KillForLong => "fault: kill, and away for long",
        Strike::PowerCut => "fault: power cut",
        Strike::KillTwo => "fault: two nodes at once",
        Strike::PowerCutOfAll => "fault: power cut of all",
        Strike::PowerCutOfAllOneLate => "fault: power cut of all, one comes back late",
        Strike::LastDevicesLate => "fault: power cut of all, the last devices come back late",
        Strike::Pause => "fault: pause",
        Strike::PauseLeader => "fault: pause of the manager's leader",
        Strike::KillLeader => "fault: kill of the manager's leader",
        Strike::KillCellLeader => "fault: kill of a member, then of the cell's leader",
        Strike::CutNode => "fault: a node cut off",
        Strike::CutInto => "fault: a node that cannot be reached",
        Strike::CutOutOf => "fault: a node that reaches nobody",
        Strike::CutLink => "fault: a link cut",
        Strike::CutOneWay => "fault: a link cut one way",
        Strike::CutAndKill => "fault: links cut, then a kill",
        Strike::BreakConnections => "fault: connections that break",
        Strike::SlowLinks => "fault: slow links",
        Strike::SlowOneWay => "fault: a link that is slow one way",
        Strike::SlowReturn => "fault: a node comes back over a slow link",
        Strike::WallClockJump => "fault: a wall clock jumps",
        Strike::Corrupt => "fault: bad blocks",
        Strike::RotChunks => "fault: chunks rot",
        Strike::SlowDisk => "fault: a slow disk",
        Strike::DeviceErrors => "fault: errors of a device",
        Strike::DiskFull => "fault: a full disk",
        Strike::LogErrors => "fault: errors of a log's disk",
        Strike::Replace => "fault: a node replaced",
        Strike::ReplaceLate => "fault: a node removed, and replaced late",
        Strike::ReplaceDisks => "fault: the disks of a node replaced",
    }
}
