//! A way to write block data, and what a write costs the device under it.

use super::map::{Size, Strategy};
use bytes::Bytes;
use disk::{Disk, DiskStats};
use std::ops::{AddAssign, Range};

/// What was done with a part of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the object.
    pub range: Range<u32>,
    /// None: the path tells no sizes apart.
    pub cut: Option<(Size, Strategy)>,
}

/// Writes objects of 4 MiB.
pub trait WritePath {
    /// Writes; durable when it returns.
    async fn write(&mut self, object: u32, offset: u32, data: Bytes) -> anyhow::Result<Vec<Step>>;

    /// Brings to its place what was only logged so far.
    async fn settle(&mut self) -> anyhow::Result<()>;

    async fn read(&self, object: u32, range: Range<u32>) -> anyhow::Result<Vec<u8>>;

    /// Counts what is asked of the device.
    fn disk(&self) -> &dyn Disk;
}

/// What the device was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub writes: u64,
    pub write_bytes: u64,
    /// Writes that were durable when they were answered.
    pub durable_writes: u64,
    pub flushes: u64,
    pub reads: u64,
    pub read_bytes: u64,
    /// Ranges that got space, or became zeros.
    pub zeroings: u64,
}

impl Cost {
    /// From one look at the counters to another.
    pub fn between(before: &DiskStats, after: &DiskStats) -> Cost {
        Cost {
            writes: after.writes - before.writes,
            write_bytes: after.write_bytes - before.write_bytes,
            durable_writes: after.durable_writes - before.durable_writes,
            flushes: after.flushes - before.flushes,
            reads: after.reads - before.reads + after.cache_hits - before.cache_hits,
            read_bytes: after.read_bytes - before.read_bytes,
            zeroings: after.zeroings + after.allocates - before.zeroings - before.allocates,
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, more: Cost) {
        self.writes += more.writes;
        self.write_bytes += more.write_bytes;
        self.durable_writes += more.durable_writes;
        self.flushes += more.flushes;
        self.reads += more.reads;
        self.read_bytes += more.read_bytes;
        self.zeroings += more.zeroings;
    }
}

/// A write, what was done, what it cost until it was acknowledged, and what was left for later.
#[derive(Clone, Debug)]
pub struct Counted {
    pub steps: Vec<Step>,
    pub acknowledged: Cost,
    pub later: Cost,
}

/// Writes once and settles.
pub async fn counted(path: &mut impl WritePath, object: u32, offset: u32, data: Bytes) -> anyhow::Result<Counted> {
    let before = path.disk().stats();
    let steps = path.write(object, offset, data).await?;
    let between = path.disk().stats();
    path.settle().await?;
    let after = path.disk().stats();
    Ok(Counted { steps, acknowledged: Cost::between(&before, &between), later: Cost::between(&between, &after) })
}

/// Content that says which write it is of.
pub fn content(seed: u64, length: u32) -> Bytes {
    let mut random = crate::random::Random::new(seed, u64::from(length));
    (0..length.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).take(length as usize).collect::<Vec<u8>>().into()
}
