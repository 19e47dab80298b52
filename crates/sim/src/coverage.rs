//! Which rare things happened: a simulation that never recovers anything tests no recovery.

use logstore::LogStoreStats;
use std::collections::BTreeMap;

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<&'static str, u64>);

impl Coverage {
    pub fn add(&mut self, what: &'static str, count: u64) {
        *self.0.entry(what).or_default() += count;
    }

    pub fn get(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    pub fn merge(&mut self, other: &Coverage) {
        other.0.iter().for_each(|(what, count)| self.add(what, *count));
    }

    /// What one life of a log engine did.
    pub fn add_life(&mut self, stats: &LogStoreStats) {
        let counters = [
            ("records recovered", &stats.recovered_records),
            ("writes rolled forward", &stats.rolled_forward),
            ("partial writes discarded", &stats.discarded_writes),
            ("copies made again", &stats.recopied),
            ("copies that failed", &stats.failed_copies),
            ("reads answered by another copy", &stats.repaired_reads),
            ("reads that looked up again", &stats.stale_reads),
            ("reads from the cache", &stats.cached_reads),
            ("reads from a device", &stats.device_reads),
            ("checkpoints", &stats.checkpoints),
            ("runs merged", &stats.merged_runs),
            ("zones collected", &stats.collected_zones),
            ("bytes relocated", &stats.relocated_bytes),
            ("relocations lost to a newer write", &stats.lost_relocations),
        ];
        for (what, counter) in counters {
            self.add(what, counter.get());
        }
    }
}

impl std::fmt::Display for Coverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(what, count)| writeln!(f, "{count:>10}  {what}"))
    }
}
