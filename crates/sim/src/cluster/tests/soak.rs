//! Ranges of seeds: a line for each that fails, and at the end how often each branch was taken.
//!
//! `TRILITH_CLUSTER_FIRST` and `TRILITH_CLUSTER_LAST` name the range; `TRILITH_SOAK` alone multiplies the default count.

use super::simulate;
use crate::cluster::branches::MUST_OCCUR;
use crate::cluster::ranges::{gather_panics, number, outcome, watch};
use crate::cluster::table::{SCENARIOS, scenario_of};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds in a run that nobody gave a range, for each unit of `TRILITH_SOAK`.
const SEEDS: u64 = 20;
/// Characters of a failure that its line shows.
const SHOWN: usize = 300;

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
        match outcome(|| simulate(seed)) {
            Ok(report) => report.counts.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count),
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
