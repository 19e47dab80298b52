//! Healing: a copy that was found damaged is made again of a good one (docs/rfd/0014).
//!
//! ```text
//!   read: another copy answered ─┐
//!   scrub: a copy is not whole ──┴─► suspects ─ member ─► Damaged ─► suspects of the leader
//!                                                                       └─► heal: copy, compare-and-swap of places
//! ```
//!
//! The leader alone moves places, in the task that collects: so no zone is reset while a copy is made again, and healing and collection of one key
//! can't overwrite each other. A suspicion is a hint. What decides is whether the record still names the place; if it was wrong, a copy was
//! made that was not needed.
//!
//! Invariants:
//! - A damaged copy stays named until another stands in its stead: healing never lowers the number of copies.
//! - Nothing is ever copied but a frame whose checksums are right.

mod copies;
pub(crate) mod ordered;
pub(crate) mod scrub;
mod suspects;

pub(crate) use suspects::{Damaged, Suspects};

use crate::peers::Item;
use crate::store::Inner;
use engine::EngineError;
use format::record::{Record, RecordKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use types::{KeyHash, Place};

/// How long one round heals before checkpoints and collection have their turn.
const ROUND: Duration = Duration::from_millis(500);
/// Damaged copies that are looked at, and made again, at once.
const HEALS_AT_ONCE: usize = 16;

impl Inner {
    /// A reader found these copies of a record damaged, or nothing where they should stand, and another one good.
    pub(crate) fn note_damaged(&self, good: &Record, damaged: &[Place]) {
        for place in damaged {
            let owners: Vec<Option<KeyHash>> = match (good.kind, &good.chunk) {
                (RecordKind::RunBlock | RecordKind::RunIndex, _) => vec![None],
                (_, Some(chunk)) => self.owners_of(chunk).map(Some).collect(),
                // A reader may be late: what it looked up stood there.
                (_, None) => {
                    let newest = self.shard(&good.hash).lock().index().newest(&good.hash);
                    newest
                        .is_some_and(|known| known.places.as_slice().contains(place))
                        .then_some(Some(good.hash))
                        .into_iter()
                        .collect()
                }
            };
            let damaged = owners.into_iter().map(|owner| Damaged { place: *place, owner });
            self.suspect(damaged);
        }
    }

    /// One copy is damaged. It is not known which of several records names it.
    fn suspect(&self, candidates: impl Iterator<Item = Damaged>) {
        let now = self.env.now();
        let new = candidates.filter(|damaged| self.suspects.note(*damaged, now)).count();
        self.stats.damaged_copies.add(u64::from(new > 0));
    }

    /// Another gateway found these.
    pub(crate) fn hear_of_damaged(&self, copies: Vec<Damaged>) {
        let now = self.env.now();
        for damaged in copies {
            self.suspects.note(damaged, now);
        }
    }

    /// Makes damaged copies again for a while, or tells the leader of them.
    pub(crate) async fn heal_copies(self: &Arc<Self>) -> Result<(), EngineError> {
        let started = self.env.now();
        let copied_before = self.stats.relocated_bytes.get();
        loop {
            let due = self.suspects.due(self.env.now(), HEALS_AT_ONCE);
            if due.is_empty() {
                return Ok(());
            }
            if !self.leads() {
                self.tell_damaged(due);
                return Ok(());
            }
            if self.check_leads().is_err() {
                return Ok(());
            }
            // Moves of a former leader come first, as for copies that are missing.
            self.applied_all().await;
            self.get_in_step().await?;
            self.heal(due).await?;
            let copied = self.stats.relocated_bytes.get() - copied_before;
            if self.keep_to_share(started, copied).await > ROUND {
                self.background.wake();
                return Ok(());
            }
        }
    }

    /// Heals some copies, one record beside another.
    async fn heal(self: &Arc<Self>, due: Vec<Damaged>) -> Result<(), EngineError> {
        let mut by_owner: BTreeMap<Option<KeyHash>, BTreeSet<Place>> = BTreeMap::new();
        for damaged in due {
            by_owner.entry(damaged.owner).or_default().insert(damaged.place);
        }
        if let Some(places) = by_owner.remove(&None) {
            let outcome = self.heal_runs(&places).await;
            self.note_healing(None, places, outcome);
        }
        let mut healing = tokio::task::JoinSet::new();
        for (owner, places) in by_owner {
            let Some(hash) = owner else { continue };
            let inner = self.clone();
            healing.spawn(self.env.within(async move {
                let outcome = inner.heal_record(&hash, &places).await;
                inner.note_healing(owner, places, outcome);
            }));
        }
        while let Some(ended) = healing.join_next().await {
            ended.map_err(|error| EngineError::Internal { detail: error.to_string() })?;
        }
        Ok(())
    }

    fn note_healing(&self, owner: Option<KeyHash>, places: BTreeSet<Place>, outcome: Result<u64, EngineError>) {
        let now = self.env.now();
        let all = places.into_iter().map(|place| Damaged { place, owner });
        match outcome {
            Ok(healed) => {
                all.for_each(|damaged| self.suspects.settle(&damaged));
                if healed > 0 {
                    env::mark("engine: a damaged copy made again");
                    self.stats.healed_copies.add(healed);
                    // Until it is written down, a start finds the damaged copy in its stead.
                    self.background.want_checkpoint();
                }
            }
            Err(error) => {
                let given_up = all.filter(|damaged| !self.suspects.postpone(damaged, now)).count() as u64;
                self.stats.unhealed_copies.add(given_up);
                if given_up > 0 {
                    tracing::error!(%error, copies = given_up, "damaged copies can't be made again: fsck tells whose they are");
                }
            }
        }
    }

    /// Tells the leader of damaged copies that it has not been told of lately.
    fn tell_damaged(&self, due: Vec<Damaged>) {
        let Some(member) = &self.member else { return };
        let Some(leader) = member.heard.lock().leader else { return };
        let now = self.env.now();
        let copies: Vec<Damaged> = due.into_iter().filter(|damaged| self.suspects.tell(damaged, now)).collect();
        if !copies.is_empty() {
            member.push(leader, &Item::Damaged { copies });
        }
    }
}
