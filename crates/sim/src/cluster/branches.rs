//! Which branches of the code under test a long run must have taken.

use logstore::{Counter, LogStoreStats};

/// Counters of an engine that show a branch.
pub fn counters(stats: &LogStoreStats) -> [(&'static str, &Counter); 13] {
    [
        ("engine: reads that asked another gateway", &stats.slow_reads),
        ("engine: reads that looked up again", &stats.stale_reads),
        ("engine: copies that failed", &stats.failed_copies),
        ("engine: reads answered by another copy", &stats.repaired_reads),
        ("engine: checkpoints", &stats.checkpoints),
        ("engine: runs merged", &stats.merged_runs),
        ("engine: zones collected", &stats.collected_zones),
        ("engine: bytes relocated", &stats.relocated_bytes),
        ("engine: relocations lost to a newer write", &stats.lost_relocations),
        ("engine: moves told again", &stats.moves_told_again),
        ("engine: moves told before the record", &stats.early_moves),
        ("engine: manifests taken over", &stats.manifests_taken_over),
        ("engine: copies added", &stats.added_copies),
    ]
}

/// Branches that every long run takes.
pub const MUST_OCCUR: &[&str] = &["engine: checkpoints", "engine: zones collected"];
