//! Going through all records: for repair, counts, checks.

use crate::index::{IndexForm, Located};
use crate::names::Run;
use crate::sealing::windows;
use crate::store::{Inner, shard_of};
use engine::EngineError;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;
use types::{DeviceId, KeyHash, Order};

/// A key of which a row, or an entry that is in none yet, was seen.
struct Seen {
    hash: KeyHash,
    order: Order,
    /// Where its primary copy stood: orders tell records of one device apart.
    primary: DeviceId,
}

impl Inner {
    /// Shows the newest record of every key of these shards, tombstones included. Of what changes meanwhile either state is shown. The
    /// visitor may be called under a shard's lock.
    pub(crate) async fn visit_records(
        &self,
        shards: Range<usize>,
        visit: &mut (dyn FnMut(KeyHash, Located) + Send),
    ) -> Result<(), EngineError> {
        match self.config.index {
            IndexForm::Full => {
                for shard in shards {
                    self.shards[shard].lock().index().iter().for_each(|(hash, located)| visit(hash, located));
                    tokio::task::yield_now().await;
                }
                Ok(())
            }
            IndexForm::Ludo(_) => self.visit_by_rows(shards, visit).await,
        }
    }

    /// What is sealed has no key: the rows of the runs tell which keys there are.
    async fn visit_by_rows(
        &self,
        shards: Range<usize>,
        visit: &mut (dyn FnMut(KeyHash, Located) + Send),
    ) -> Result<(), EngineError> {
        for shards in windows(shards, &self.names.layers().runs) {
            for seen in self.seen(shards).await? {
                if let Some(located) = self.newest_of_seen(&seen).await {
                    visit(seen.hash, located);
                }
            }
        }
        Ok(())
    }

    /// The newest record of a key that was seen; nothing if it is there no longer. It may have been deleted since, its tombstone forgotten, and all
    /// sealed without it: then a sealed answer is another key's. A key's own is never older than what was seen.
    async fn newest_of_seen(&self, seen: &Seen) -> Option<Located> {
        loop {
            let (newest, exact) = {
                let keys = self.shard(&seen.hash).lock();
                (keys.index().newest(&seen.hash), keys.index().newest_exact(&seen.hash))
            };
            if exact.is_some() {
                return exact;
            }
            let sealed = newest?;
            match sealed.order.cmp(&seen.order) {
                Ordering::Less => return None,
                Ordering::Equal if sealed.places.primary().device == seen.primary => return Some(sealed),
                Ordering::Equal | Ordering::Greater => {}
            }
            env::mark("engine: what was sealed meanwhile is asked whose it is");
            let is_of_another = self.is_of_another(&seen.hash, &sealed).await;
            // The answer is about what was there all the time.
            if self.is_sealed_as(&seen.hash, &sealed) {
                return (!is_of_another).then_some(sealed);
            }
        }
    }

    /// The keys of these shards, with their newest rows.
    async fn seen(&self, shards: Range<usize>) -> Result<Vec<Seen>, EngineError> {
        let mut all = Vec::new();
        // Before the runs are listed: what is settled in between then is in one of them. It may be sealed by the time that it is looked up.
        for shard in &self.shards[shards.clone()] {
            let unsaved = |(hash, located): (KeyHash, Located)| Seen {
                hash,
                order: located.order,
                primary: located.places.primary().device,
            };
            all.extend(shard.lock().index().iter_unsaved().map(unsaved));
        }
        let mut read: Vec<Arc<Run>> = Vec::new();
        let is_read = |read: &[Arc<Run>], run: &Arc<Run>| read.iter().any(|known| Arc::ptr_eq(known, run));
        while let Some(run) = self.names.layers().runs.into_iter().rfind(|run| !is_read(&read, run)) {
            let gathered = self
                .each_row(std::slice::from_ref(&run), &mut |row| {
                    let hash = row.hash();
                    if shards.contains(&shard_of(&hash)) {
                        all.push(Seen { hash, order: row.order(), primary: row.entry().places.primary().device });
                    }
                })
                .await;
            // A run that was merged meanwhile may not be there to its end: what was made of it has all its rows.
            if self.names.has_layers(std::slice::from_ref(&run)) {
                gathered?;
                read.push(run);
            }
        }
        // In this order the newest of a key comes last.
        all.sort_by_key(|seen| (seen.hash, seen.order));
        all.dedup_by(|later, kept| {
            let is_same = later.hash == kept.hash;
            if is_same {
                std::mem::swap(later, kept);
            }
            is_same
        });
        Ok(all)
    }
}
