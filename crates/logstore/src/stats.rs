//! Counters of the log engine. They only count up, and order nothing.

pub use device::Counter;
use std::sync::Arc;

/// What a gateway's log engine has done since it was opened.
#[derive(Debug, Default)]
pub struct LogStoreStats {
    /// Writes acknowledged: puts, deletes that found something, parts.
    pub writes: Counter,
    /// Bytes of content that those writes stored.
    pub content_bytes: Counter,
    /// Reads answered from the page cache on the caller's thread, and reads that waited for a device.
    pub cached_reads: Counter,
    pub device_reads: Counter,
    /// Lookups that asked another gateway, because it was writing the key.
    pub slow_reads: Counter,
    /// What was queued for other gateways, and the calls that carried it: about keys, and about views, epochs and places.
    pub peer_items: Arc<Counter>,
    pub peer_batches: Arc<Counter>,
    /// Reads that found another record and looked up again.
    pub stale_reads: Counter,
    /// Copies that could not be read, and reads that another copy answered.
    pub failed_copies: Counter,
    pub repaired_reads: Counter,
    /// Copies that reads and scrubs of this gateway found damaged; as leader: those made again, and those given up for now.
    pub damaged_copies: Counter,
    pub healed_copies: Counter,
    pub unhealed_copies: Counter,
    /// Checkpoints installed, entries written into their runs, bytes of those runs.
    pub checkpoints: Counter,
    pub checkpoint_entries: Counter,
    pub run_bytes: Counter,
    /// Runs merged away.
    pub merged_runs: Counter,
    /// Sealings of the saved records, and sealed answers that were found to be another key's.
    pub sealings: Counter,
    pub refuted: Counter,
    /// Zones reset, bytes copied out of them, relocations that lost against a newer write.
    pub collected_zones: Counter,
    pub relocated_bytes: Counter,
    pub lost_relocations: Counter,
    /// Moves of records told again in a new view; moves told before the record; manifests of a former leader taken over.
    pub moves_told_again: Counter,
    pub early_moves: Counter,
    pub manifests_taken_over: Counter,
    /// Freezes carried into a new view; names without a checkpoint told to who joins.
    pub carried_freezes: Counter,
    pub names_told: Counter,
    /// What the last start found: records read, writes rolled forward, partial writes discarded, copies made again.
    pub recovered_records: Counter,
    pub rolled_forward: Counter,
    pub discarded_writes: Counter,
    pub recopied: Counter,
    /// Copies made of records that were written while fewer devices took writes.
    pub added_copies: Counter,
}
