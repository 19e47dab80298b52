//! A durable table of a baseline's metadata: a log with group commit, and an ordered store that has its effect.
//!
//! ```text
//!   commit ─► log, durable ─► kv, visible ─► answer        log half full ─► kv persisted ─► log cut
//! ```
//!
//! The store is not waited for: a change costs one share of a durable write, as a record of the volume engine does. The first byte of the store's keys tells rows
//! from marks.
//!
//! Invariants:
//! - A change that was answered comes back after a crash.
//! - A key is changed by one caller at a time.

use super::log::{Log, LogPlace};
use anyhow::Context;
use disk::Disk;
use env::Env;
use kv::{Batch, Kv};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use wal::Lsn;

const ROW: u8 = 1;
const MARK: u8 = 0;
/// Length of a value that stands for none.
const REMOVED: u32 = u32::MAX;

/// A key, and what it has from now on, if anything.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

/// A table.
pub struct Table {
    env: Env,
    log: Arc<Log>,
    kv: Arc<dyn Kv>,
    /// Another log, which is cut together with this one.
    companion: OnceLock<Arc<Log>>,
    is_persisting: AtomicBool,
}

impl Table {
    pub async fn open(env: &Env, disk: Arc<dyn Disk>, place: LogPlace, kv: Arc<dyn Kv>) -> anyhow::Result<Arc<Table>> {
        let mut failed = None;
        let keep_from = mark(&*kv, 0)?;
        let replay = |bytes: &[u8]| {
            if let Err(error) = apply(&*kv, &decode(bytes)) {
                failed.get_or_insert(error);
            }
        };
        let log = Log::open(env, disk, place, keep_from, replay).await?;
        match failed {
            Some(error) => Err(error),
            None => Ok(Arc::new(Table {
                env: env.clone(),
                log: Arc::new(log),
                kv,
                companion: OnceLock::new(),
                is_persisting: AtomicBool::new(false),
            })),
        }
    }

    /// Opens a log beside this one.
    pub async fn open_companion(
        &self,
        disk: Arc<dyn Disk>,
        place: LogPlace,
        replay: impl FnMut(&[u8]) + Send,
    ) -> anyhow::Result<Arc<Log>> {
        let log = Arc::new(Log::open(&self.env, disk, place, mark(&*self.kv, 1)?, replay).await?);
        Ok(self.companion.get_or_init(|| log).clone())
    }

    pub fn get(&self, key: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
        Ok(self.kv.get(&row(key))?)
    }

    /// Durable when it returns.
    pub async fn commit(self: &Arc<Self>, changes: &[Change]) -> anyhow::Result<()> {
        let lsn = self.log.append(encode(changes)).await?;
        apply(&*self.kv, changes)?;
        self.log.close(lsn);
        let is_filling = self.log.is_filling() || self.companion.get().is_some_and(|log| log.is_filling());
        if is_filling && !self.is_persisting.swap(true, Ordering::AcqRel) {
            let table = self.clone();
            let work = async move {
                if let Err(error) = table.cut_logs().await {
                    crate::complain!("a baseline's log can't be cut: {error:#}");
                }
                table.is_persisting.store(false, Ordering::Release);
            };
            drop(self.env.spawn(work));
        }
        Ok(())
    }

    /// Gives up what the store has.
    async fn cut_logs(&self) -> anyhow::Result<()> {
        let logs: Vec<&Arc<Log>> = std::iter::once(&self.log).chain(self.companion.get()).collect();
        let keeps: Vec<Lsn> = logs.iter().map(|log| log.keep_from()).collect();
        let mut batch = Batch::new();
        for (number, keep) in (0..).zip(&keeps) {
            batch.put([MARK, number], keep.0.to_le_bytes());
        }
        self.kv.commit(batch)?;
        match self.kv.persist_waits() {
            true => {
                let kv = self.kv.clone();
                disk::apart(move || kv.persist()).await??;
            }
            false => self.kv.persist()?,
        }
        logs.into_iter().zip(keeps).for_each(|(log, keep)| log.truncate_before(keep));
        Ok(())
    }
}

fn mark(kv: &dyn Kv, number: u8) -> anyhow::Result<Lsn> {
    let bytes = kv.get(&[MARK, number])?;
    let lsn = |bytes: Vec<u8>| bytes.try_into().ok().map(|bytes| Lsn(u64::from_le_bytes(bytes)));
    bytes.map_or(Ok(Lsn::FIRST), |bytes| lsn(bytes).context("a mark of a baseline's table"))
}

fn row(key: &[u8]) -> Vec<u8> {
    [&[ROW], key].concat()
}

fn apply(kv: &dyn Kv, changes: &[Change]) -> anyhow::Result<()> {
    let mut batch = Batch::new();
    for (key, value) in changes {
        match value {
            Some(value) => batch.put(row(key), value.clone()),
            None => batch.remove(row(key)),
        }
    }
    Ok(kv.commit(batch)?)
}

/// For each change: lengths of key and value, 4 bytes each, and both.
fn encode(changes: &[Change]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, value) in changes {
        bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&value.as_ref().map_or(REMOVED, |value| value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    bytes
}

/// The log has checked its records.
fn decode(mut bytes: &[u8]) -> Vec<Change> {
    let mut changes = Vec::new();
    while let Some((lengths, rest)) = bytes.split_first_chunk::<8>() {
        let length = |at: usize| u32::from_le_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]]);
        let (key, rest) = rest.split_at(length(0) as usize);
        let value_bytes = if length(4) == REMOVED { 0 } else { length(4) as usize };
        let (value, rest) = rest.split_at(value_bytes);
        changes.push((key.to_vec(), (length(4) != REMOVED).then(|| value.to_vec())));
        bytes = rest;
    }
    changes
}
