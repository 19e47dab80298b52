//! What a person can set, with the defaults that the engine starts with.

use crate::index::IndexForm;
use crate::machine::Consistency;
use format::chunk_ref::MAX_REFS_PER_DESCRIPTOR;
use std::time::Duration;
use types::{CellId, GatewayId};

/// How often a device is scrubbed unless a person says otherwise: a disk of 4 TiB at 3.6 MB a second.
const SCRUB_PERIOD: Duration = Duration::from_secs(14 * 24 * 3600);

/// Settings of one gateway's log engine.
#[derive(Clone, Debug)]
pub struct LogStoreConfig {
    pub cell: CellId,
    pub gateway: GatewayId,
    /// What this gateway's writes promise to readers at the other gateways of its cell.
    pub consistency: Consistency,
    /// How the places of saved records are kept in memory.
    pub index: IndexForm,
    /// A checkpoint starts when this many entries are in no checkpoint...
    pub checkpoint_entries: usize,
    /// ... or this many bytes were appended since the last ...
    pub checkpoint_bytes: u64,
    /// ... or, if there is anything to save, after this time.
    pub checkpoint_interval: Duration,
    /// Garbage collection starts when fewer than this share of a device's zones are free, in percent.
    pub collect_below_free_percent: u8,
    /// Bytes a second that garbage collection copies at most; nothing limits it when free zones run out.
    pub collect_bytes_per_second: u64,
    /// In which time each device of this process is read once, to find what has rotted; zero: never.
    pub scrub_period: Duration,
    /// Longest list of one descriptor or node. Shorter ones than [`MAX_REFS_PER_DESCRIPTOR`] make deeper trees, for tests.
    pub refs_per_list: usize,
}

impl Default for LogStoreConfig {
    fn default() -> Self {
        LogStoreConfig {
            cell: CellId(1),
            gateway: GatewayId(1),
            consistency: Consistency::Linearizable,
            index: IndexForm::Full,
            checkpoint_entries: 64 * 1024,
            checkpoint_bytes: 512 * 1024 * 1024,
            checkpoint_interval: Duration::from_secs(30),
            collect_below_free_percent: 25,
            collect_bytes_per_second: 200 * 1024 * 1024,
            scrub_period: SCRUB_PERIOD,
            refs_per_list: MAX_REFS_PER_DESCRIPTOR,
        }
    }
}
