//! Records of all groups on their way to the node's log: what queues up while a write is on its way goes together.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use allack::{Change, Input, Record, StoreError};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Group, Members};

/// Records in the order in which they were asked for. Machines bound how many there are.
#[derive(Default)]
pub struct Queue {
    records: Mutex<Vec<(Arc<Group>, Record)>>,
    filled: Notify,
}

impl Queue {
    pub fn push(&self, group: Arc<Group>, record: Record) {
        self.records.lock().push((group, record));
        self.filled.notify_one();
    }

    async fn take(&self) -> Vec<(Arc<Group>, Record)> {
        loop {
            let taken = std::mem::take(&mut *self.records.lock());
            if !taken.is_empty() {
                return taken;
            }
            self.filled.notified().await;
        }
    }
}

impl Members {
    /// Hands a record on to the log, after all before it. A promise waits until the writes of blocks under former views have ended: that holds up its own
    /// group alone.
    pub(super) fn queue_record(self: &Arc<Self>, group: &Arc<Group>, record: Record) {
        let mut held = group.held.lock();
        match &mut *held {
            Some(held) => held.push_back(record),
            None if matches!(record.change, Change::Promise(_)) => {
                *held = Some(VecDeque::from([record]));
                let (members, group) = (self.clone(), group.clone());
                drop(self.env.spawn(async move { members.let_go(&group).await }));
            }
            None => self.queue.push(group.clone(), record),
        }
    }

    async fn let_go(&self, group: &Arc<Group>) {
        loop {
            let next = {
                let mut held = group.held.lock();
                let next = held.as_mut().and_then(VecDeque::pop_front);
                if next.is_none() {
                    *held = None;
                }
                next
            };
            let Some(record) = next else { return };
            if matches!(record.change, Change::Promise(_)) {
                group.admissions.drain().await;
            }
            self.queue.push(group.clone(), record);
        }
    }

    /// For as long as the node lives, or until its log fails: then its machines hear of no durable record any more.
    pub(super) async fn persist_records(self: &Arc<Self>) {
        loop {
            let taken = self.queue.take().await;
            if let Err(error) = self.persist(taken).await {
                tracing::error!(%error, "the log of the volume engine's groups takes no records: this node's copies stand still");
                return;
            }
        }
    }

    async fn persist(self: &Arc<Self>, taken: Vec<(Arc<Group>, Record)>) -> Result<(), StoreError> {
        let mut counts: BTreeMap<u32, (Arc<Group>, u64)> = BTreeMap::new();
        for (group, _) in &taken {
            counts.entry(group.number).or_insert_with(|| (group.clone(), 0)).1 += 1;
        }
        let records: Vec<Record> = taken.into_iter().map(|(_, record)| record).collect();
        self.store.queue(&records).await?.await?;
        for (group, count) in counts.into_values() {
            let count = group.persisted.fetch_add(count, Ordering::Relaxed) + count;
            self.step(&group, Input::Persisted { count });
        }
        if self.store.is_crowded()
            && let Some(keep_from) = self.store.tidy().await?
        {
            match self.region.keep_from(keep_from).await {
                Ok(()) => self.store.give_up_before(keep_from),
                Err(error) => tracing::error!(error, "the log of the volume engine's groups can't be shortened"),
            }
        }
        Ok(())
    }
}
