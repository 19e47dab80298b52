//! The log engine's figures, as its gateway counts them.

use crate::registry::Registry;
use crate::sources::StoreSource;
use logstore::{Counter, LogStoreSize, LogStoreStats};

type Pick = fn(&LogStoreStats) -> &Counter;

/// Name between `trilith_gateway_` and `_total`, help, and which counter.
const COUNTERS: &[(&str, &str, Pick)] = &[
    ("writes", "Writes acknowledged: puts, deletes, parts", |stats| &stats.writes),
    ("content_bytes", "Bytes of content stored by acknowledged writes", |stats| &stats.content_bytes),
    ("cached_reads", "Reads answered from the page cache on the caller's thread", |stats| &stats.cached_reads),
    ("device_reads", "Reads that waited for a device", |stats| &stats.device_reads),
    ("slow_reads", "Lookups that asked other gateways, because these were writing the key", |stats| &stats.slow_reads),
    ("peer_items", "Items queued for other gateways: announcements, conclusions, questions, and answers to theirs", |stats| {
        &stats.peer_items
    }),
    ("peer_batches", "Calls that carried such items", |stats| &stats.peer_batches),
    ("stale_reads", "Reads that found another record and looked up again", |stats| &stats.stale_reads),
    ("failed_copies", "Copies that could not be read", |stats| &stats.failed_copies),
    ("repaired_reads", "Reads that another copy answered", |stats| &stats.repaired_reads),
    ("damaged_copies", "Copies that reads and scrubs of this gateway found damaged", |stats| &stats.damaged_copies),
    ("healed_copies", "Damaged copies that this gateway, as leader, made again", |stats| &stats.healed_copies),
    ("unhealed_copies", "Damaged copies that it could not make again", |stats| &stats.unhealed_copies),
    ("checkpoints", "Checkpoints installed", |stats| &stats.checkpoints),
    ("checkpoint_entries", "Entries written into checkpoints", |stats| &stats.checkpoint_entries),
    ("run_bytes", "Bytes of runs written", |stats| &stats.run_bytes),
    ("merged_runs", "Runs merged away", |stats| &stats.merged_runs),
    ("collected_zones", "Zones reset by garbage collection", |stats| &stats.collected_zones),
    ("relocated_bytes", "Bytes copied out of zones before their reset", |stats| &stats.relocated_bytes),
    ("lost_relocations", "Relocations that lost against a newer write", |stats| &stats.lost_relocations),
    ("recovered_records", "Records that the last start read from the logs", |stats| &stats.recovered_records),
    ("rolled_forward_writes", "Writes that the last start completed", |stats| &stats.rolled_forward),
    ("added_copies", "Copies made of records that were written while fewer devices took writes", |stats| &stats.added_copies),
    ("discarded_writes", "Partial writes that the last start discarded", |stats| &stats.discarded_writes),
    ("recopied_writes", "Writes whose missing copies the last start made again", |stats| &stats.recopied),
];

type Measure = fn(&LogStoreSize) -> f64;

const GAUGES: &[(&str, &str, Measure)] = &[
    ("index_keys", "Keys of the index", |size| size.keys as f64),
    ("index_unsaved_keys", "Keys that no checkpoint covers", |size| size.unsaved_keys as f64),
    ("index_full_map_bytes", "Memory of the packed map of checkpointed keys", |size| size.full_map_bytes as f64),
    ("unsaved_names", "Names that no checkpoint covers", |size| size.unsaved_names as f64),
    ("epoch_number", "The present epoch", |size| size.epoch.0 as f64),
    ("undecidable_keys", "Keys that can't be answered while a device is missing", |size| size.undecidable_keys as f64),
    ("undecidable_share", "Share of all keys that can't be answered while devices are missing, 0 to 1", |size| {
        size.undecidable_share
    }),
    (
        "repair_left",
        "Parts of the index that this gateway, as leader, is still to look through for what lacks copies",
        |size| size.repair_left as f64,
    ),
    ("suspect_copies", "Copies that were found damaged and wait to be made again", |size| size.suspect_copies as f64),
];

pub fn register(registry: &Registry, store: &StoreSource) {
    for (name, help, pick) in COUNTERS {
        let store = store.clone();
        registry.counter(&format!("trilith_gateway_{name}_total"), help, &[], move || {
            store().map_or(0, |store| pick(store.stats()).get())
        });
    }
    for (name, help, measure) in GAUGES {
        let store = store.clone();
        registry
            .gauge(&format!("trilith_gateway_{name}"), help, &[], move || store().map_or(0.0, |store| measure(&store.size())));
    }
}
