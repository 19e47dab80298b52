//! What the engine does beside its clients' work: checkpoints, merges, garbage collection, tidying after uploads.
//!
//! One task, one thing at a time: checkpoints and merges exclude each other (paper section 3.4), and collection needs
//! checkpoints between its steps.

use crate::collect::RepairProgress;
use crate::index::Located;
use crate::large::read_tree;
use crate::room::Room;
use crate::store::Inner;
use engine::{EngineError, UploadRef};
use format::attributes::Attributes;
use format::record::EntryName;
use futures_util::future::join_all;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use types::KeyHash;

/// Replaced large objects whose chunks are still counted as live. Beyond this they are forgotten: the counts are hints.
const MAX_RELEASES_QUEUED: usize = 256 * 1024;
/// How long a round takes chunks of these out of the counts, and of how many at once.
const RELEASE_ROUND: Duration = Duration::from_millis(500);
const RELEASES_AT_ONCE: usize = 16;
/// Uploads that wait to be ended, and ended ones whose parts wait to be dropped. Beyond this the next start finds the former, and
/// merging runs the latter.
const MAX_UPLOADS_QUEUED: usize = 64 * 1024;
/// So many tombstones of uploads may fail before the others wait for the next round: where none can be written each takes its time.
const MAX_NOT_ENDED: usize = 4;
/// How often the task looks around without being woken.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Pause between checkpoints that are wanted though little was written: until one is made, a recovery may wait for devices of the table before,
/// and others for the founder.
const WANTED_PAUSE: Duration = Duration::from_secs(2);
/// Pause after a failure, so that a device that stays full or broken is not hammered.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Work that waits, and what decides when it starts.
#[derive(Default)]
pub(crate) struct Background {
    releases: Mutex<VecDeque<(KeyHash, Located)>>,
    /// Uploads whose objects are complete and that are to be ended by these tombstones.
    complete_uploads: Mutex<BTreeMap<EntryName, Attributes>>,
    /// The same, of other gateways.
    told_endings: Mutex<BTreeMap<EntryName, Attributes>>,
    /// The upload whose tombstone was the last to fail.
    last_not_ended: Mutex<Option<EntryName>>,
    ended_uploads: Mutex<VecDeque<UploadRef>>,
    bytes_since_checkpoint: AtomicU64,
    bytes_before_checkpoint: u64,
    entries_before_checkpoint: u64,
    entries_since_checkpoint: AtomicU64,
    pub room: Room,
    wake: Notify,
    stopping: AtomicBool,
    stopped: Notify,
    /// A table came into force that no checkpoint was made under, and those before it are remembered until one is; or a start had no room to
    /// write down what it decided.
    is_checkpoint_wanted: AtomicBool,
    /// There was no room for the last checkpoint.
    lacks_checkpoint: AtomicBool,
    /// Records may lack copies.
    pub repairs: RepairProgress,
}

impl Background {
    pub fn new(config: &crate::LogStoreConfig) -> Self {
        Background {
            bytes_before_checkpoint: config.checkpoint_bytes,
            entries_before_checkpoint: config.checkpoint_entries as u64,
            ..Background::default()
        }
    }

    /// A write was acknowledged: until a checkpoint covers that, every member remembers it, and tells it again in a new view.
    pub fn note_write(&self, bytes: u64) {
        self.note_moved(bytes);
        if self.due() {
            self.wake.notify_one();
        }
    }

    /// The same of a record that the background has moved. It is not woken: it looks what is due when its round has ended, and would begin the next one
    /// at once, for ever.
    pub fn note_moved(&self, bytes: u64) {
        self.bytes_since_checkpoint.fetch_add(bytes, Ordering::Relaxed);
        self.entries_since_checkpoint.fetch_add(1, Ordering::Relaxed);
    }

    /// A large object was replaced: its chunks are garbage.
    pub fn release_chunks(&self, hash: KeyHash, replaced: Located) {
        let mut releases = self.releases.lock();
        if releases.len() < MAX_RELEASES_QUEUED {
            releases.push_back((hash, replaced));
        }
    }

    /// An upload's object is complete: the upload is to be ended, and whoever asks for it is told that it has, from now on.
    pub fn end_upload(&self, name: EntryName, tombstone: Attributes) {
        let mut ending = self.complete_uploads.lock();
        if ending.len() < MAX_UPLOADS_QUEUED {
            ending.insert(name, tombstone);
        }
    }

    /// Another gateway ends an upload whose object is complete.
    pub fn hear_of_ending(&self, name: EntryName, tombstone: Attributes) {
        let mut told = self.told_endings.lock();
        if told.len() < MAX_UPLOADS_QUEUED {
            told.insert(name, tombstone);
        }
    }

    /// The upload's tombstone is published.
    pub fn upload_ended(&self, name: &EntryName) {
        self.complete_uploads.lock().remove(name);
        self.told_endings.lock().remove(name);
    }

    /// The tombstone of an upload that waits to be ended because its object is complete.
    pub fn ending(&self, name: &EntryName) -> Option<Attributes> {
        let own = self.complete_uploads.lock().get(name).cloned();
        own.or_else(|| self.told_endings.lock().get(name).cloned())
    }

    /// All that other gateways have told of.
    pub fn told_endings(&self) -> BTreeMap<EntryName, Attributes> {
        self.told_endings.lock().clone()
    }

    /// All that are known here.
    pub fn endings(&self) -> BTreeMap<EntryName, Attributes> {
        let mut endings = self.told_endings();
        endings.extend(self.complete_uploads.lock().clone());
        endings
    }

    /// An upload ended: its parts can go.
    pub fn drop_parts(&self, upload: UploadRef) {
        let mut uploads = self.ended_uploads.lock();
        if uploads.len() < MAX_UPLOADS_QUEUED && uploads.back() != Some(&upload) {
            uploads.push_back(upload);
        }
        self.wake.notify_one();
    }

    /// More devices take writes than before: records that were written meanwhile lack copies.
    pub fn want_repair(&self) {
        self.repairs.begin_anew();
        self.wake.notify_one();
    }

    /// Something waits for the next checkpoint, also if nobody writes.
    pub fn want_checkpoint(&self) {
        self.want_checkpoint_in_time();
        self.wake.notify_one();
    }

    /// The same of a round of the background itself: woken by that, it would begin again at once, for ever.
    pub fn want_checkpoint_in_time(&self) {
        self.is_checkpoint_wanted.store(true, Ordering::Relaxed);
    }

    /// A checkpoint was made under the table in force.
    pub fn has_checkpoint(&self) {
        self.is_checkpoint_wanted.store(false, Ordering::Relaxed);
    }

    /// How a checkpoint ended.
    pub fn note_checkpoint(&self, made: &Result<(), EngineError>) {
        self.lacks_checkpoint.store(matches!(made, Err(EngineError::Full)), Ordering::Relaxed);
    }

    /// Whether there was no room for the last checkpoint.
    pub fn lacks_checkpoint(&self) -> bool {
        self.lacks_checkpoint.load(Ordering::Relaxed)
    }

    /// Lets the next round begin now.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Begins to count anew for the next checkpoint.
    pub fn count_anew(&self) {
        self.bytes_since_checkpoint.store(0, Ordering::Relaxed);
        self.entries_since_checkpoint.store(0, Ordering::Relaxed);
    }

    fn due(&self) -> bool {
        self.bytes_since_checkpoint.load(Ordering::Relaxed) >= self.bytes_before_checkpoint
            || self.entries_since_checkpoint.load(Ordering::Relaxed) >= self.entries_before_checkpoint
    }

    /// Ends the task after a last checkpoint, and waits for it.
    pub async fn stop(&self) {
        let stopped = self.stopped.notified();
        self.stopping.store(true, Ordering::SeqCst);
        self.wake.notify_one();
        stopped.await;
    }
}

/// An ended upload that was taken out of the queue. It goes back unless its parts were dropped, also if the dropping is given up half-way.
struct TakenUpload<'a> {
    background: &'a Background,
    upload: Option<UploadRef>,
}

impl TakenUpload<'_> {
    fn ends(mut self) {
        self.upload = None;
    }
}

impl Drop for TakenUpload<'_> {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            // Behind the others: it may be this one alone that can't be tidied up. Without waking anybody: that would be tried again at once, for ever.
            self.background.ended_uploads.lock().push_back(upload);
        }
    }
}

impl Inner {
    /// Ends uploads whose objects are complete, and drops the parts of ended ones, now.
    pub(crate) async fn tidy_uploads(self: &Arc<Self>) -> Result<(), EngineError> {
        let ended = self.end_uploads().await;
        let dropped = self.drop_ended_parts().await;
        ended.and(dropped)
    }

    /// Writes the tombstones that wait, each once at most. One that fails, perhaps for ever, holds up no others: the next call begins behind it.
    async fn end_uploads(self: &Arc<Self>) -> Result<(), EngineError> {
        let mut names: Vec<EntryName> = self.background.complete_uploads.lock().keys().cloned().collect();
        let last = self.background.last_not_ended.lock().clone();
        let tried = names.partition_point(|name| Some(name) <= last.as_ref());
        names.rotate_left(tried);
        let (mut outcome, mut failures) = (Ok(()), 0);
        for name in names {
            // It may have been ended meanwhile.
            let Some(tombstone) = self.background.complete_uploads.lock().get(&name).cloned() else { continue };
            match self.drop_entry_as(name.clone(), tombstone).await {
                Ok(()) => self.background.upload_ended(&name),
                Err(error) => {
                    *self.background.last_not_ended.lock() = Some(name);
                    outcome = outcome.and(Err(error));
                    failures += 1;
                    if failures == MAX_NOT_ENDED {
                        break;
                    }
                }
            }
        }
        outcome
    }

    async fn drop_ended_parts(self: &Arc<Self>) -> Result<(), EngineError> {
        loop {
            let Some(upload) = self.background.ended_uploads.lock().pop_front() else { return Ok(()) };
            let taken = TakenUpload { background: &self.background, upload: Some(upload.clone()) };
            self.drop_parts_of(&upload).await?;
            taken.ends();
        }
    }

    /// Takes the chunks of replaced objects out of the live counts. What has no turn now waits for the next round: checkpoints and collection must not
    /// wait for the reads of a mass deletion, and the counts are hints.
    async fn release_replaced(self: &Arc<Self>) {
        let started = self.env.now();
        while self.env.now() - started < RELEASE_ROUND && !self.is_deposed() {
            let next: Vec<(KeyHash, Located)> = {
                let mut releases = self.background.releases.lock();
                let count = releases.len().min(RELEASES_AT_ONCE);
                releases.drain(..count).collect()
            };
            if next.is_empty() {
                return;
            }
            join_all(next.iter().map(|(hash, replaced)| self.release_tree(hash, replaced))).await;
        }
        self.background.wake();
    }

    async fn release_tree(&self, hash: &KeyHash, replaced: &Located) {
        // A descriptor that can't be read any more leaves a count too high: collection corrects it.
        let Ok(Some(frame)) = self.read_copies(replaced).await else { return };
        // What the index said of a new key may have been another one's.
        if frame.record.hash != *hash {
            return;
        }
        let Ok(tree) = read_tree(self, &frame.payload, frame.record.tree_height).await else { return };
        tree.all().for_each(|chunk| self.targets.remove_live_ref(chunk));
    }

    /// Whether zones run short of which only a checkpoint can make some collectable.
    fn is_cover_wanted(&self) -> bool {
        self.targets.lacks_cover(|device| self.wants_zones(device))
    }

    fn is_short(&self) -> bool {
        self.targets.in_use().any(|device| device.is_writable() && self.wants_zones(&**device))
    }

    /// One round of everything. True: another one at once is worth it, because zones run short and this one has freed some.
    async fn round(self: &Arc<Self>, is_due: bool) -> Result<bool, EngineError> {
        self.background.room.round_begins();
        if self.background.room.take_wanted() {
            self.finish_reserves().await;
        }
        self.release_replaced().await;
        // Collection comes in any case: it makes the room without which the others fail on a full device.
        let written = self.write_down(is_due || self.is_cover_wanted()).await;
        let collected = self.collect().await;
        if let Err(error) = self.repair_copies().await {
            tracing::warn!(%error, "missing copies are made again later");
        }
        if let Err(error) = self.heal_copies().await {
            tracing::warn!(%error, "damaged copies are made again later");
        }
        let has_freed = collected.as_ref().is_ok_and(|collected| collected.zones > 0);
        // What failed for want of room is tried again with what was freed.
        let outcome = match collected {
            Ok(collected) if collected.is_worth_more() && self.is_short() => Ok(true),
            Ok(_) => written.map(|()| false),
            Err(error) => written.and(Err(error)),
        };
        self.background.room.round_ends(outcome.is_err() && !has_freed);
        outcome
    }

    async fn write_down(self: &Arc<Self>, checkpoint: bool) -> Result<(), EngineError> {
        let tidied = self.tidy_uploads().await;
        if checkpoint && self.check_leads().is_ok() {
            self.checkpoint().await?;
            self.merge_runs().await?;
            self.seal_if_due().await?;
        }
        tidied
    }
}

/// Runs until the engine is dropped or told to stop.
pub(crate) async fn run(inner: Weak<Inner>) {
    let Some(first) = inner.upgrade() else { return };
    let (env, interval) = (first.env.clone(), first.config.checkpoint_interval);
    drop(first);
    let (mut last_checkpoint, mut last_wanted) = (env.now(), None);
    loop {
        let Some(inner) = inner.upgrade().filter(|inner| !inner.is_deposed()) else { return };
        let stopping = inner.background.stopping.load(Ordering::SeqCst);
        let age = env.now() - last_checkpoint;
        let old = age >= interval;
        let has_unsaved = inner.names.unsaved() > 0;
        let is_wanted = inner.background.is_checkpoint_wanted.load(Ordering::Relaxed)
            && last_wanted.is_none_or(|last| env.now() - last >= WANTED_PAUSE)
            && inner.check_leads().is_ok();
        let due = (has_unsaved && (stopping || old || inner.background.due())) || is_wanted;
        let outcome = inner.round(due).await;
        if due || inner.names.unsaved() == 0 {
            last_checkpoint = env.now();
        }
        if is_wanted {
            last_wanted = Some(env.now());
        }
        if stopping {
            if let Err(error) = outcome {
                tracing::warn!(%error, "the last checkpoint failed; the next start walks the log instead");
            }
            inner.background.stopped.notify_waiters();
            return;
        }
        match outcome {
            // Clients' work comes first where both share a thread.
            Ok(true) => tokio::task::yield_now().await,
            Ok(false) => tokio::select! {
                biased;
                () = inner.background.wake.notified() => {}
                () = env.sleep(LOOK_INTERVAL) => {}
            },
            Err(error) => {
                match &error {
                    // Each change of a view does that, and what keeps a cell from having one is told where it is found.
                    EngineError::Unavailable { .. } => tracing::info!(%error, "background work is tried again"),
                    error => tracing::warn!(%error, "background work failed and is tried again"),
                }
                // Not woken by writes: each of them would try again what has just failed.
                env.sleep(RETRY_PAUSE).await;
            }
        }
    }
}
