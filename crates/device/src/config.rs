//! How a device is formatted and opened.

use types::{CellId, ClusterId, DeviceId, DeviceUuid};

/// When an append of data, a tombstone or a volume's write is acknowledged. Checkpoints and copies
/// ([`crate::AppendClass::Meta`], [`crate::AppendClass::Relocation`]) are durable before that in every mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// When it is durable.
    #[default]
    Always,
    /// When it is written, with a flush at least every so many milliseconds while there is something to flush. A power cut
    /// loses acknowledged appends of that time; a crash of the process alone loses none.
    Batch { flush_interval_ms: u64 },
    /// When it is written; the operating system decides when it becomes durable. A power cut loses any amount.
    Off,
}

/// How to open a device.
#[derive(Debug, Clone)]
pub struct DeviceConfig {
    pub sync: SyncMode,
    /// How many zones to write with zeros ahead of their use ([`crate::limits::PREWRITE_ZONES`]); 0: none. On a block device
    /// it saves nothing; on a file it keeps metadata out of flushes.
    pub prewrite_zones: usize,
    /// Refuse a device of another cluster.
    pub cluster: Option<ClusterId>,
    /// Refuse another device.
    pub device_uuid: Option<DeviceUuid>,
}

impl Default for DeviceConfig {
    fn default() -> Self {
        DeviceConfig { sync: SyncMode::Always, prewrite_zones: crate::limits::PREWRITE_ZONES, cluster: None, device_uuid: None }
    }
}

/// How to format a device.
#[derive(Debug, Clone)]
pub struct FormatOptions {
    pub cluster: ClusterId,
    pub device: DeviceId,
    pub cell: CellId,
    /// None: [`crate::limits::DEFAULT_ZONE_BYTES`], more on devices that would have too many zones.
    pub zone_bytes: Option<u64>,
    /// How far the device may grow. None: as far as the disk says, which a file without a limit doesn't.
    pub capacity_bytes: Option<u64>,
    /// Format a device that holds one already.
    pub overwrite: bool,
}
