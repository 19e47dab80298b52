//! Power cuts: after the changes that a workload makes, and again while the gateway starts.
//!
//! After each: everything acknowledged is there, nothing is there in part, what was deleted stays deleted, the list says what
//! reads say, no upload of a completed object is open, a second start finds the same, and the gateway works on.

use super::history::Seen;
use super::support::{Draw, KEYLESS, Rig, simulate, soak};
use super::workload::{Workload, World};
use crate::IndexForm;
use format::chunk_ref::MAX_REFS_PER_DESCRIPTOR;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SMALL: Workload = Workload {
    name: "one device, everything at once",
    devices: 1,
    zones: 24,
    zone_bytes: 128 * 1024,
    clients: 3,
    keys: 4,
    steps: 24,
    large: 3,
    uploads: 5,
    small_bytes: 3000,
    chunk_bytes: 6000,
    refs_per_list: MAX_REFS_PER_DESCRIPTOR,
    checkpoint_entries: 8,
    collect_below_free_percent: 100,
    latency_us: 0,
    index: IndexForm::Full,
};

const TABLE: &[Workload] = &[
    SMALL,
    Workload { name: "three devices, everything at once", devices: 3, ..SMALL },
    Workload { name: "one device, writes that overtake each other", latency_us: 900, ..SMALL },
    Workload { name: "three devices, writes that overtake each other", devices: 3, latency_us: 900, ..SMALL },
    Workload { name: "three devices, small objects only", devices: 3, large: 0, uploads: 0, keys: 2, latency_us: 300, ..SMALL },
    Workload { name: "one device of few small zones", zones: 12, zone_bytes: 64 * 1024, keys: 2, steps: 60, ..SMALL },
    Workload {
        name: "three devices of few small zones",
        devices: 3,
        zones: 16,
        zone_bytes: 64 * 1024,
        keys: 2,
        steps: 40,
        latency_us: 300,
        ..SMALL
    },
    Workload { name: "one device, deep trees", refs_per_list: 3, chunk_bytes: 2000, zones: 14, keys: 2, ..SMALL },
    Workload {
        name: "three devices, deep trees",
        devices: 3,
        refs_per_list: 3,
        chunk_bytes: 2000,
        zones: 16,
        zone_bytes: 64 * 1024,
        keys: 2,
        latency_us: 300,
        ..SMALL
    },
    Workload { name: "three devices, uploads only", devices: 3, large: 0, uploads: 15, keys: 2, latency_us: 300, ..SMALL },
    Workload { name: "one device, an index without keys", index: KEYLESS, ..SMALL },
    Workload { name: "three devices, an index without keys", index: KEYLESS, devices: 3, latency_us: 900, ..SMALL },
    Workload {
        name: "few small zones, an index without keys",
        index: KEYLESS,
        zones: 12,
        zone_bytes: 64 * 1024,
        keys: 2,
        steps: 60,
        ..SMALL
    },
    Workload { name: "uploads, an index without keys", index: KEYLESS, devices: 3, large: 0, uploads: 15, keys: 2, ..SMALL },
];

/// How many changes lie between two cuts where no long run was asked for: all of them take minutes.
const CUTS_APART: u64 = 3;

/// Longest simulated time that one life may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// One run: where the power goes in the first life, and in the start after it.
#[derive(Clone, Copy, Debug)]
struct Run {
    workload: Workload,
    seed: u64,
    cut_after: Option<u64>,
    ignores_flush: bool,
}

/// What two runs of one seed must agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    /// Changes before the end of the first life.
    changes: u64,
    records: Vec<(u64, u64)>,
    seen: Vec<Seen>,
}

impl Run {
    fn go(self) -> Result<Outcome, String> {
        simulate(async {
            match tokio::time::timeout(PATIENCE, self.run()).await {
                Ok(outcome) => outcome,
                Err(_) => Err("it hangs".to_owned()),
            }
        })
        .map_err(|violation| format!("{violation}\nto replay: {self:?}"))
    }

    async fn run(self) -> Result<Outcome, String> {
        let (world, mut rig) = World::new(self.workload, self.seed).await;
        rig.set_ignores_flush(self.ignores_flush);
        let mut draw = Draw::new(self.seed ^ self.cut_after.unwrap_or(0).wrapping_mul(0x9e37));
        let mut outcome = Outcome { changes: 0, records: Vec::new(), seen: Vec::new() };
        if let Some(changes) = self.cut_after {
            rig.mains.cut_after(changes);
        }
        self.first_life(&world, &rig).await?;
        outcome.changes = rig.mains.record().0;
        outcome.records.push(rig.mains.record());
        rig.crash();
        // The power goes again while the gateway starts, or soon after.
        rig.mains.cut_after(draw.below(40));
        let started = start(&rig).await?;
        outcome.records.push(rig.mains.record());
        if let Some(store) = started {
            rig.mains.stay_on();
            outcome.seen.push(judge(&world, &store).await?);
        }
        rig.crash();
        let Some(store) = start(&rig).await? else { unreachable!("no cut was asked for") };
        outcome.seen.push(judge(&world, &store).await?);
        rig.crash();
        let Some(store) = start(&rig).await? else { unreachable!("no cut was asked for") };
        outcome.seen.push(judge(&world, &store).await?);
        if let [.., last, again] = &outcome.seen[..]
            && last != again
        {
            return Err(format!("a start finds {last:?}\nthe next one {again:?}"));
        }
        // It works on, and goes in order.
        let workload = Workload { steps: 6, ..self.workload };
        World { workload, ..world.clone() }.live(&rig, &store, self.seed + 1).await;
        check(&world)?;
        store.close().await;
        drop(store);
        rig.restart();
        let Some(store) = start(&rig).await? else { unreachable!("no cut was asked for") };
        outcome.seen.push(judge(&world, &store).await?);
        outcome.records.push(rig.mains.record());
        Ok(outcome)
    }

    async fn first_life(&self, world: &World, rig: &Rig) -> Result<(), String> {
        if let Some(store) = start(rig).await? {
            world.live(rig, &store, self.seed).await;
            if self.cut_after.is_none() {
                let s = store.stats();
                eprintln!(
                    "changes {} checkpoints {} merged {} zones {} relocated {} writes {} lost {}",
                    rig.mains.record().0,
                    s.checkpoints.get(),
                    s.merged_runs.get(),
                    s.collected_zones.get(),
                    s.relocated_bytes.get(),
                    s.writes.get(),
                    s.lost_relocations.get()
                );
            }
        }
        check(world)
    }
}

/// Starts the gateway; none if the power went first.
async fn start(rig: &Rig) -> Result<Option<crate::LogStore>, String> {
    tokio::select! {
        biased;
        () = rig.mains.off() => Ok(None),
        started = rig.try_open(&[]) => started.map(Some).map_err(|error| format!("it does not start: {error}")),
    }
}

async fn judge(world: &World, store: &crate::LogStore) -> Result<Seen, String> {
    let mut history = world.history.lock().clone();
    let seen = history.judge_start(store).await?;
    *world.history.lock() = history;
    Ok(seen)
}

fn check(world: &World) -> Result<(), String> {
    world.violation.lock().take().map_or(Ok(()), Err)
}

fn run_of(workload: &Workload, seed: u64) -> Run {
    Run { workload: *workload, seed, cut_after: None, ignores_flush: false }
}

impl Run {
    fn outcome(self) -> Outcome {
        self.go().unwrap_or_else(|violation| panic!("{}: {violation}", self.workload.name))
    }
}

/// Does all runs, on as many threads as there are processors.
fn go_all(runs: &[Run]) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            run.outcome();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
}

/// After every change of each workload's first life in long runs, after every third of them otherwise: one workload has the first of three, the next
/// one the second.
#[test]
fn nothing_acknowledged_is_lost_at_any_cut() {
    let apart = if soak() > 1 { 1 } else { CUTS_APART };
    for (at, workload) in TABLE.iter().enumerate() {
        for seed in 1..=soak() {
            eprintln!("{} seed {seed}", workload.name);
            let whole = run_of(workload, seed);
            let changes = whole.outcome().changes;
            let cuts = (at as u64 % apart..changes).step_by(apart as usize);
            let runs: Vec<Run> = cuts.map(|cut_after| Run { cut_after: Some(cut_after), ..whole }).collect();
            go_all(&runs);
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a lying disk may also make the engine stop itself, which counts as caught")]
fn a_disk_that_ignores_flushes_is_caught() {
    for workload in TABLE {
        let caught = (1..20).any(|seed| {
            let run = Run { cut_after: Some(60 + 5 * seed), ignores_flush: true, ..run_of(workload, seed) };
            let outcome = std::panic::catch_unwind(|| run.go());
            !matches!(outcome, Ok(Ok(_)))
        });
        assert!(caught, "{}: cuts of lying disks go unnoticed, so this test tests nothing", workload.name);
    }
}

#[test]
fn a_seed_replays() {
    for workload in TABLE {
        for cut_after in [Some(90), Some(700), None] {
            let run = Run { cut_after, ..run_of(workload, 3) };
            assert_eq!(run.go().unwrap(), run.go().unwrap(), "{}", workload.name);
        }
    }
}

/// Many seeds with one cut each; `TRILITH_SOAK` times a thousand.
#[test]
#[ignore = "long"]
fn soak_single_cuts_of_many_seeds() {
    for seed in 0..1000 * soak() {
        let workload = &TABLE[seed as usize % TABLE.len()];
        // About as many changes as the workload makes.
        let cut_after = Some(Draw::new(seed).below(40 * workload.steps));
        if let Err(violation) = (Run { cut_after, ..run_of(workload, seed) }).go() {
            panic!("{}: {violation}", workload.name);
        }
    }
}
