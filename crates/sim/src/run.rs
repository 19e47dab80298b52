//! One run: the lives of each machine, one after another, and the judgement.

use crate::client::{Client, Shared};
use crate::coverage::Coverage;
use crate::draw::Draw;
use crate::machine::{Conditions, Machine, Process};
use crate::power::End;
use crate::record::Record;
use crate::scenario::{Faults, Scenario, Topology};
use crate::trace::{Fingerprint, Trace};
use disk::FaultOdds;
use futures_util::future::try_join_all;
use parking_lot::Mutex;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Longest simulated time of one life. A life that lasts longer hangs.
const PATIENCE: Duration = Duration::from_secs(1800);
/// A start meets its power cut within so many changes, if it makes as many.
const CUT_IN_START_WITHIN: u64 = 12;
/// A life meets its end within so many changes for ten requests of its clients and one device, if they make as many: about half
/// of the requests write.
const CHANGES_PER_TEN_REQUESTS: u64 = 6;
/// Starts that may fail one after another because of a fault.
const MAX_FAILED_STARTS: u64 = 8;
/// Streams of draws; clients take those that follow.
const FAULT_STREAM: u64 = 1;
const CLIENT_STREAMS: u64 = 1000;

/// What a run that found nothing wrong says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub fingerprint: Fingerprint,
    pub coverage: Coverage,
    /// Calls that clients made.
    pub calls: usize,
}

/// What is wrong, and how to see it again.
#[derive(Debug)]
pub struct Failure {
    pub scenario: &'static str,
    pub seed: u64,
    pub violation: String,
    pub fingerprint: Fingerprint,
    /// The last events before it.
    pub trace: String,
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure { scenario, seed, violation, fingerprint, trace } = self;
        writeln!(f, "{trace}{violation}")?;
        writeln!(f, "trace {:016x} of {} events", fingerprint.hash, fingerprint.events)?;
        write!(f, "to replay: TRILITH_SIM_SCENARIO='{scenario}' TRILITH_SIM_SEED={seed} cargo test -p sim a_seed_from_outside")
    }
}

/// Runs a scenario. To be called on a current-thread runtime whose clock is paused: it jumps to the next timer when there is nothing
/// else to do.
pub async fn run(scenario: &Scenario, seed: u64) -> Result<Report, Box<Failure>> {
    let trace = Arc::new(Trace::default());
    let outcome = run_traced(scenario, seed, &trace).await;
    let fingerprint = trace.fingerprint();
    outcome
        .map(|(coverage, calls)| Report { fingerprint, coverage, calls })
        .map_err(|violation| Box::new(Failure { scenario: scenario.name, seed, violation, fingerprint, trace: trace.last() }))
}

async fn run_traced(scenario: &Scenario, seed: u64, trace: &Arc<Trace>) -> Result<(Coverage, usize), String> {
    let machines = machines(scenario, seed, trace).await?;
    let record = Arc::new(Record::new(machines.len(), scenario.workload.keys));
    let coverage = Arc::new(Mutex::new(Coverage::default()));
    let lives = machines.into_iter().map(|machine| {
        let number = machine.number as u64;
        let mut draw = Draw::new(seed, FAULT_STREAM + (number << 32));
        let victim = draw.below(machine.devices.len() as u64) as usize;
        let (record, coverage, trace) = (record.clone(), coverage.clone(), trace.clone());
        Operator { scenario: *scenario, seed, machine, draw, victim, record, coverage, trace, next_client: 0 }.run()
    });
    try_join_all(lives).await?;
    record.judge()?;
    let coverage = coverage.lock().clone();
    Ok((coverage, record.calls()))
}

/// The machines of a topology.
async fn machines(scenario: &Scenario, seed: u64, trace: &Arc<Trace>) -> Result<Vec<Machine>, String> {
    match scenario.topology {
        Topology::OneMachine(shape) => Ok(vec![Machine::new(0, shape, seed, scenario.faults.all_disks, trace.clone()).await?]),
    }
}

/// Whoever ends and starts one machine.
struct Operator {
    scenario: Scenario,
    seed: u64,
    machine: Machine,
    draw: Draw,
    /// The device that faults hit.
    victim: usize,
    record: Arc<Record>,
    coverage: Arc<Mutex<Coverage>>,
    trace: Arc<Trace>,
    next_client: u64,
}

impl Operator {
    async fn run(mut self) -> Result<(), String> {
        for _ in 0..self.scenario.faults.lives {
            self.disturb();
            self.limited(Self::life).await?;
            self.repair();
        }
        // The last life has no faults: everything that the others left must be there.
        self.limited(Self::last_life).await
    }

    /// A life, unless it hangs.
    async fn limited(&mut self, life: impl AsyncFnOnce(&mut Self) -> Result<(), String>) -> Result<(), String> {
        tokio::time::timeout(PATIENCE, life(self)).await.unwrap_or_else(|_| Err(format!("it hangs for {PATIENCE:?}")))
    }

    async fn life(&mut self) -> Result<(), String> {
        let Some(process) = self.start().await? else { return Ok(()) };
        self.after_start(&process).await?;
        self.serve(&process).await?;
        self.coverage.lock().add_life(process.store.stats());
        Ok(())
    }

    async fn last_life(&mut self) -> Result<(), String> {
        self.machine.power.stay_on();
        let process = self.machine.start(Conditions::default()).await.map_err(|error| format!("the last start: {error}"))?;
        let faults = Faults { may_refuse: false, ..self.scenario.faults };
        self.note(&"the last life");
        self.count("answers lost", self.record.machine_started(self.machine.number));
        self.client(&process, faults).look().await?;
        self.coverage.lock().add_life(process.store.stats());
        process.stop().await
    }

    /// Starts a process; none if its power went while it started.
    async fn start(&mut self) -> Result<Option<Process>, String> {
        let faults = self.scenario.faults;
        let is_cut = self.draw.percent(faults.cut_in_start_percent);
        if is_cut {
            self.machine.power.end_after(self.draw.below(CUT_IN_START_WITHIN), End::PowerCut);
        }
        let jump = faults.clock_jump.as_millis() as i64;
        let mut conditions = Conditions {
            missing: self.draw.percent(faults.victim_missing_percent).then_some(self.victim),
            wall_skew_ms: if jump > 0 { self.draw.below(2 * jump as u64) as i64 - jump } else { 0 },
        };
        for _ in 0..MAX_FAILED_STARTS {
            self.note(&format_args!("starts: {conditions:?}"));
            let power = self.machine.power.clone();
            let started = tokio::select! {
                biased;
                () = power.off() => None,
                started = self.machine.start(conditions) => Some(started),
            };
            match started {
                None => {
                    self.note(&"the power goes while it starts");
                    self.count("power cuts in a start", 1);
                    return Ok(None);
                }
                Some(Ok(process)) => {
                    power.stay_on();
                    self.count("starts", 1);
                    self.count("starts without a device", u64::from(conditions.missing.is_some()));
                    return Ok(Some(process));
                }
                Some(Err(error)) => {
                    self.note(&format_args!("it does not start: {error}"));
                    if !faults.hit_starts() {
                        return Err(format!("it does not start, and nothing explains it: {error}"));
                    }
                    self.count("starts that failed", 1);
                    // What people do: take the broken device out.
                    if self.machine.devices.len() > 1 {
                        conditions.missing = Some(self.victim);
                    }
                    self.end_process(End::Kill);
                }
            }
        }
        Err(format!("{MAX_FAILED_STARTS} starts failed one after another"))
    }

    /// What was under way is decided. Everything is looked at, before anybody changes it.
    async fn after_start(&mut self, process: &Process) -> Result<(), String> {
        self.count("answers lost", self.record.machine_started(self.machine.number));
        let faults = self.scenario.faults;
        let mut client = self.client(process, faults);
        let looked = client.look().await;
        looked.map_err(|violation| format!("after a start: {violation}"))
    }

    /// Lets clients work until they are done or the life ends.
    async fn serve(&mut self, process: &Process) -> Result<(), String> {
        let faults = self.scenario.faults;
        if let Some(end) = self.draw_end() {
            let requests = self.scenario.workload.clients * self.scenario.workload.requests;
            let changes = requests * self.machine.devices.len() as u64 * CHANGES_PER_TEN_REQUESTS / 10;
            self.machine.power.end_after(self.draw.below(changes + 1), end);
        }
        let mut clients = JoinSet::new();
        for _ in 0..self.scenario.workload.clients {
            clients.spawn(self.client(process, faults).run());
        }
        let all = async {
            while let Some(ended) = clients.join_next().await {
                ended.map_err(|error| format!("a client: {error}"))??;
            }
            process.stop().await
        };
        let power = self.machine.power.clone();
        let stopped = tokio::select! {
            biased;
            () = power.off() => None,
            stopped = all => Some(stopped),
        };
        match stopped {
            None => self.note(&"the life ends"),
            Some(outcome) => self.stopped(outcome)?,
        }
        Ok(())
    }

    fn stopped(&self, outcome: Result<(), String>) -> Result<(), String> {
        self.note(&format_args!("it stops: {outcome:?}"));
        self.count("stops in order", 1);
        match outcome {
            // A device that failed can't be sealed.
            Err(error) if !(error.starts_with("sealing") && self.scenario.faults.hit_starts()) => Err(error),
            _ => Ok(()),
        }
    }

    fn draw_end(&mut self) -> Option<End> {
        let faults = self.scenario.faults;
        let drawn = self.draw.below(100);
        if drawn < faults.power_cut_percent {
            self.count("power cuts", 1);
            return Some(End::PowerCut);
        }
        let is_kill = drawn < faults.power_cut_percent + faults.kill_percent;
        self.count("kills", u64::from(is_kill));
        is_kill.then_some(End::Kill)
    }

    /// Sets up the faults of a life.
    fn disturb(&mut self) {
        let faults = self.scenario.faults;
        let victim = self.machine.devices[self.victim].clone();
        victim.set_odds(faults.victim_odds());
        self.machine.devices.iter().for_each(|device| device.set_ignores_flush(faults.ignores_flush));
        let capacity = disk::Disk::capacity_bytes(&victim);
        let is_full = self.draw.percent(faults.victim_full_percent);
        victim.set_space_limit(capacity.filter(|_| is_full).map(|capacity| capacity / 2));
    }

    /// Ends the process, if it has not ended, and takes the life's faults away.
    fn repair(&mut self) {
        self.end_process(End::Kill);
        let faults = self.scenario.faults;
        self.machine.devices.iter().for_each(|device| device.set_ignores_flush(false));
        let victim = &self.machine.devices[self.victim];
        victim.set_odds(faults.all_disks);
        victim.set_space_limit(None);
        self.machine.rot(self.victim, faults.victim_rot, &mut self.draw);
    }

    /// What a cut or a kill leaves is taken over by the next process.
    fn end_process(&mut self, end: End) {
        self.machine.power.end(end);
        let pending = self.machine.pending_batches();
        let kept = self.draw.below(pending + 1);
        self.machine.restart(kept);
    }

    fn client(&mut self, process: &Process, faults: Faults) -> Client {
        self.next_client += 1;
        let number = self.next_client;
        let shared = Shared {
            machine: self.machine.number,
            service: process.service.clone(),
            env: process.env.clone(),
            record: self.record.clone(),
            trace: self.trace.clone(),
            coverage: self.coverage.clone(),
            workload: self.scenario.workload,
            may_refuse: faults.may_refuse,
        };
        let stream = CLIENT_STREAMS + ((self.machine.number as u64) << 32) + number;
        Client::new(shared, number, Draw::new(self.seed, stream))
    }

    fn count(&self, what: &'static str, count: u64) {
        self.coverage.lock().add(what, count);
    }

    fn note(&self, what: &dyn Display) {
        self.trace.note(self.machine.elapsed(), &format_args!("machine {}: {what}", self.machine.number));
    }
}

impl Faults {
    /// Whether a start, or a stop, may fail because of a device.
    fn hit_starts(&self) -> bool {
        self.victim != FaultOdds::default()
            || self.all_disks.fail_read > 0
            || self.victim_rot > 0
            || self.victim_full_percent > 0
    }

    /// The victim's odds: its own, and those of all disks where it has none.
    fn victim_odds(&self) -> FaultOdds {
        let all = self.all_disks;
        let own = self.victim;
        let either = |own: u32, all: u32| if own > 0 { own } else { all };
        FaultOdds {
            delay: either(own.delay, all.delay),
            delay_at_most: own.delay_at_most.max(all.delay_at_most),
            cache_miss: either(own.cache_miss, all.cache_miss),
            fail_read: either(own.fail_read, all.fail_read),
            ..own
        }
    }
}
