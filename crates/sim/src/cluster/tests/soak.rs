//! Ranges of seeds: a line for each that fails, and at the end how often each branch was taken.
//!
//! `TRILITH_CLUSTER_FIRST` and `TRILITH_CLUSTER_LAST` name the range; `TRILITH_SOAK` alone multiplies the default count.

use super::simulate;
use crate::cluster::branches::MUST_OCCUR;
use crate::cluster::table::{SCENARIOS, scenario_of};
use env::Env;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Seeds in a run that nobody gave a range, for each unit of `TRILITH_SOAK`.
const SEEDS: u64 = 20;
/// A seed that takes longer than this hangs.
const SEED_LIMIT: Duration = Duration::from_secs(120);
/// Characters of a failure that its line shows.
const SHOWN: usize = 300;

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A panic of any task is a failure of its seed, told in one line.
fn gather_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let what = panic.payload().downcast_ref::<String>().cloned();
        let what = what.or_else(|| panic.payload().downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
        PANICS.with_borrow_mut(|panics| panics.push(format!("{place}: {what}")));
    }));
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Ends the process when a seed hangs: nobody else could say which one it was.
fn watch(present: Arc<AtomicU64>) {
    let watcher = move || {
        let env = Env::real();
        let (mut seed, mut since) = (u64::MAX, env.now());
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let now = present.load(Ordering::Relaxed);
            if now != seed {
                (seed, since) = (now, env.now());
            } else if env.now() - since > SEED_LIMIT {
                println!("FAILED seed {seed}: it hangs");
                std::process::exit(3);
            }
        }
    };
    std::thread::spawn(watcher);
}

#[expect(clippy::disallowed_methods, reason = "the other seeds of the range are to run as well")]
fn outcome(seed: u64) -> Result<BTreeMap<&'static str, u64>, String> {
    PANICS.take();
    let ended = std::panic::catch_unwind(|| simulate(seed));
    let panics = PANICS.take();
    match (ended, panics.first()) {
        (_, Some(panic)) => Err(format!("{} tasks panicked: {panic}", panics.len())),
        (Ok(Err(failure)), None) => Err(failure.what),
        (Ok(Ok(report)), None) => Ok(report.counts),
        (Err(_), None) => Err("it ended without a word".to_owned()),
    }
}

#[test]
#[ignore = "long"]
fn soak_of_seeds() {
    let first = number("TRILITH_CLUSTER_FIRST").unwrap_or(0);
    let last = number("TRILITH_CLUSTER_LAST").unwrap_or_else(|| first + SEEDS * number("TRILITH_SOAK").unwrap_or(1) - 1);
    gather_panics();
    let present = Arc::new(AtomicU64::new(first));
    watch(present.clone());
    let (mut counts, mut failed) = (BTreeMap::<&str, u64>::new(), 0);
    for seed in first..=last {
        present.store(seed, Ordering::Relaxed);
        match outcome(seed) {
            Ok(counted) => counted.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count),
            Err(what) => {
                failed += 1;
                let scenario = scenario_of(seed);
                let what: String = what.replace('\n', " | ").chars().take(SHOWN).collect();
                let (topology, workload, faults) = (scenario.topology.name, scenario.workload.name, scenario.faults.name);
                println!("FAILED seed {seed} ({topology}, {workload}, {faults}): {what}");
            }
        }
    }
    for (what, count) in &counts {
        println!("COUNT {count:>10}  {what}");
    }
    let never: Vec<&&str> = MUST_OCCUR.iter().filter(|what| counts.get(**what).is_none_or(|count| *count == 0)).collect();
    never.iter().for_each(|what| println!("COUNT          0  {what}"));
    println!("SEEDS {first} to {last}: {failed} failed");
    assert_eq!(failed, 0);
    // A few seeds need not take every branch.
    assert!(last - first < SCENARIOS || never.is_empty(), "branches that no seed took: {never:?}");
}
