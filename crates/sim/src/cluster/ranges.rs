//! Ranges of seeds for tests that may run as long as one likes, and seeds that a failure printed.
//!
//! `TRILITH_CLUSTER_FIRST` and `TRILITH_CLUSTER_LAST` name a range, `TRILITH_CLUSTER_SEED` a seed.

use super::run::{Failure, Report};
use crate::trace::Trace;
use env::Env;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A seed that takes longer than this hangs.
const SEED_LIMIT: Duration = Duration::from_secs(300);

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A panic of any task is a failure of its seed, told in one line.
pub fn gather_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let what = panic.payload().downcast_ref::<String>().cloned();
        let what = what.or_else(|| panic.payload().downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
        PANICS.with_borrow_mut(|panics| panics.push(format!("{place}: {what}")));
    }));
}

pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Ends the process when a seed hangs: no other output would say which one it was.
pub fn watch(present: Arc<AtomicU64>) {
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

/// What came of a seed. A panic of any task is a failure.
#[expect(clippy::disallowed_methods, reason = "the other seeds of the range are to run as well")]
pub fn outcome(run: impl FnOnce() -> Result<Report, Failure>) -> Result<Report, String> {
    PANICS.take();
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    let panics = PANICS.take();
    match (ended, panics.first()) {
        (_, Some(panic)) => Err(format!("{} tasks panicked: {panic}", panics.len())),
        (Ok(Err(failure)), None) => Err(failure.to_string()),
        (Ok(Ok(report)), None) => Ok(report),
        (Err(_), None) => Err("it ended without a word".to_owned()),
    }
}

/// Runs the seeds of a range, up to the last one without it. From `many` seeds on every branch of `must_occur` must have been taken.
pub fn soak(simulate: impl Fn(u64, Trace) -> Result<Report, Failure>, must_occur: &[&str], many: u64) {
    let (first, last) = (number("TRILITH_CLUSTER_FIRST").unwrap_or(0), number("TRILITH_CLUSTER_LAST").unwrap_or(200));
    gather_panics();
    let present = Arc::new(AtomicU64::new(first));
    watch(present.clone());
    let (mut counts, mut failed) = (BTreeMap::<&str, u64>::new(), Vec::new());
    for seed in first..last {
        present.store(seed, Ordering::Relaxed);
        match outcome(|| simulate(seed, Trace::default())) {
            Ok(report) => {
                println!("seed {seed}: {} calls", report.calls);
                report.counts.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count);
            }
            Err(what) => {
                println!("seed {seed} FAILED: {what}");
                failed.push(seed);
            }
        }
    }
    counts.iter().for_each(|(what, count)| println!("COUNT {count:>10}  {what}"));
    let never: Vec<&&str> = must_occur.iter().filter(|what| !counts.contains_key(**what)).collect();
    never.iter().for_each(|what| println!("COUNT          0  {what}"));
    assert!(failed.is_empty(), "{failed:?}");
    assert!(last - first < many || never.is_empty(), "branches that no seed took: {never:?}");
}

/// Runs the seed that the environment names, if it does. With `TRILITH_CLUSTER_LOG=FILTER` it tells all events, and what the code under test logs between
/// them.
pub fn replay(simulate: impl Fn(u64, Trace) -> Result<Report, Failure>) {
    let Some(seed) = number("TRILITH_CLUSTER_SEED") else { return };
    let trace = match std::env::var("TRILITH_CLUSTER_LOG") {
        Ok(filter) => {
            tracing_subscriber::fmt().with_env_filter(filter).without_time().with_ansi(false).init();
            Trace::told()
        }
        Err(_) => Trace::default(),
    };
    match simulate(seed, trace) {
        Ok(report) => println!("nothing is wrong: {report:#?}"),
        Err(failure) => panic!("{failure}"),
    }
}
