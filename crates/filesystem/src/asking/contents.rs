//! The contents of a volume: all of its data partitions (docs/rfd/0030).
//!
//! ```text
//!   create ─────────────────────────────► one by chance, of those that take new extents
//!   append, overwrite, read, punch … ───► the one that the extent's id names
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use futures_util::future::join_all;
use net::BoxFuture;
use parking_lot::Mutex;

use crate::data::{DataError, DataPartition, DataRoom, Extents, PartitionRoom, together};
use crate::ids::ExtentId;

/// A partition that was full or did not answer gets no new extents for so long, and then until it answers, as long as another one takes them.
const AVOIDED: Duration = Duration::from_secs(10);
/// For so long another partition is tried for a new extent, when some do not answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A data partition of a volume.
pub trait Partition: DataPartition {
    /// What it said of its room last; none: it has said nothing yet.
    fn state(&self) -> Option<PartitionRoom>;

    /// Asks it for its room; whether it has answered.
    fn learn(&self) -> BoxFuture<'_, bool>;
}

/// Where a volume's partitions are found.
pub trait Partitions: Send + Sync + 'static {
    /// The numbers of those that there are, as far as is known here.
    fn numbers(&self) -> Vec<u32>;

    /// The way to one. It may be one of which is not known here yet.
    fn open(&self, number: u32) -> Arc<dyn Partition>;
}

/// All partitions of a volume.
pub struct VolumeContents<P> {
    env: Env,
    partitions: P,
    /// Those that were used.
    used: Mutex<BTreeMap<u32, Arc<Used>>>,
}

struct Used {
    partition: Arc<dyn Partition>,
    /// It was full or did not answer, and has said nothing since.
    is_avoided: AtomicBool,
}

/// How a partition is for new extents. Those of the least class are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Open,
    /// Beyond its thresholds. It takes what no other one does.
    Closed,
    Avoided,
}

impl<P: Partitions> VolumeContents<P> {
    pub fn new(env: &Env, partitions: P) -> VolumeContents<P> {
        VolumeContents { env: env.clone(), partitions, used: Mutex::default() }
    }

    /// Has the room of all partitions known, so far as they answer.
    pub async fn learn_room(&self) {
        let all = self.all();
        join_all(all.iter().map(|used| used.partition.learn())).await;
    }

    fn get(&self, number: u32) -> Arc<Used> {
        let mut used = self.used.lock();
        let open = || Used { partition: self.partitions.open(number), is_avoided: AtomicBool::new(false) };
        used.entry(number).or_insert_with(|| Arc::new(open())).clone()
    }

    fn all(&self) -> Vec<Arc<Used>> {
        self.partitions.numbers().into_iter().map(|number| self.get(number)).collect()
    }

    /// A partition for a new extent, by chance, besides these.
    fn choose(&self, refused: &[u32]) -> Option<u32> {
        let numbers = self.partitions.numbers().into_iter().filter(|number| !refused.contains(number));
        let classed: Vec<(Class, u32)> = numbers.map(|number| (self.get(number).class(), number)).collect();
        let least = classed.iter().map(|(class, _)| *class).min()?;
        let best: Vec<u32> = classed.into_iter().filter(|(class, _)| *class == least).map(|(_, number)| number).collect();
        Some(best[self.env.random_below(best.len() as u64) as usize])
    }

    /// Notes where new extents are not to go for a while.
    fn heard<T>(&self, used: &Arc<Used>, outcome: Result<T, DataError>) -> Result<T, DataError> {
        let is_refused = matches!(outcome, Err(DataError::Full | DataError::Unavailable(_)));
        if is_refused && !used.is_avoided.swap(true, Ordering::AcqRel) {
            self.env.spawn(look_again(self.env.clone(), Arc::downgrade(used)));
        }
        outcome
    }

    async fn ask<F, T>(&self, extent: ExtentId, ask: impl FnOnce(Arc<dyn Partition>) -> F) -> Result<T, DataError>
    where
        F: Future<Output = Result<T, DataError>>,
    {
        let used = self.get(extent.partition);
        self.heard(&used, ask(used.partition.clone()).await)
    }
}

impl Used {
    fn class(&self) -> Class {
        match self.partition.state() {
            _ if self.is_avoided.load(Ordering::Acquire) => Class::Avoided,
            Some(room) if !room.is_open => Class::Closed,
            _ => Class::Open,
        }
    }
}

/// Until a partition that is avoided answers.
async fn look_again(env: Env, used: Weak<Used>) {
    loop {
        env.sleep(AVOIDED).await;
        let Some(used) = used.upgrade() else { return };
        if used.partition.learn().await {
            used.is_avoided.store(false, Ordering::Release);
            return;
        }
    }
}

impl<P: Partitions> Extents for VolumeContents<P> {
    fn append(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.ask(extent, move |partition| async move { partition.append(extent, offset, data).await }))
    }

    fn overwrite(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.ask(extent, move |partition| async move { partition.overwrite(extent, offset, data).await }))
    }

    fn read(&self, extent: ExtentId, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes, DataError>> {
        Box::pin(self.ask(extent, move |partition| async move { partition.read(extent, offset, len).await }))
    }

    fn punch(&self, extent: ExtentId, offset: u64, len: u64) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.ask(extent, move |partition| async move { partition.punch(extent, offset, len).await }))
    }

    fn remove(&self, extent: ExtentId) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.ask(extent, move |partition| async move { partition.remove(extent).await }))
    }

    /// Of all partitions together, as they said last.
    fn room(&self) -> DataRoom {
        let rooms: Vec<PartitionRoom> = self.all().iter().filter_map(|used| used.partition.state()).collect();
        together(rooms.iter())
    }
}

impl<P: Partitions> DataPartition for VolumeContents<P> {
    fn create(&self, data: Bytes) -> BoxFuture<'_, Result<ExtentId, DataError>> {
        Box::pin(async move {
            let none = || DataError::Unavailable("the volume has no data partition yet".to_owned());
            self.create_beside(&[], data).await.unwrap_or_else(|| Err(none()))
        })
    }

    /// In the first that takes it. The error is that of the last one that was asked.
    fn create_beside(&self, refused: &[u32], data: Bytes) -> BoxFuture<'_, Option<Result<ExtentId, DataError>>> {
        let mut refused = refused.to_vec();
        Box::pin(async move {
            let until = self.env.now() + PATIENCE;
            let mut last = None;
            while let Some(number) = self.choose(&refused).filter(|_| self.env.now() < until) {
                let used = self.get(number);
                let created = self.heard(&used, used.partition.create(data.clone()).await);
                match created {
                    Err(DataError::Full | DataError::Unavailable(_)) => {
                        refused.push(number);
                        last = Some(created);
                    }
                    created => return Some(created),
                }
            }
            last
        })
    }
}

#[cfg(test)]
mod tests;
