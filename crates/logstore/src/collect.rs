//! Garbage collection: copies what is live out of the zone with the least of it, then resets the zone (paper section 3.5;
//! RFD 2, decisions 10, 12, 15, 22).
//!
//! ```text
//!   choose ─┬─► copy what is live ─► checkpoint ─► wait for readers from before ─► look again: nothing live? ─► reset
//!           └─► nothing live, and the last checkpoint says so ──────────────────────────────────────────────► reset
//! ```
//!
//! Live-byte counts choose; they never decide. What decides is each frame's owner: the index for named records, the owner's list of
//! chunks for chunks, the manifest for runs. Short runs are written anew elsewhere: else each would keep a zone for itself until it is merged.
//! The second look makes it safe against whatever happened between: a Complete that had read an old list, a reader that holds old places.
//!
//! Invariants:
//! - Only finished zones that lie wholly before the start vector are collected: what they hold is in the runs.
//! - A zone is reset only after a checkpoint that has the new places, so that no start needs what is gone. Where the last one has them, as in zones
//!   of which all was overwritten or deleted, no other is made: a device may be too full for it until such zones are free.

mod choose;
mod copy;
mod doubt;
mod look;
mod owners;
mod progress;
mod repair;
mod unreleased;

pub(crate) use copy::COPY_EXTRA_BYTES;
pub(crate) use doubt::Doubts;
pub(crate) use owners::Owners;
pub(crate) use progress::RepairProgress;
pub(crate) use unreleased::Unreleased;

use crate::store::Inner;
use device::{ZoneInfo, ZoneState, ZoneStream};
use engine::EngineError;
use env::Instant;
use format::zone_header::ZONE_DATA_START;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use target::LogTarget;
use types::{Activation, DeviceId, KeyHash, Place, ZoneIndex};

/// Another cycle follows at once if at least this share of the zones freed was gained, not filled with copies, in percent: else it
/// would copy all the time what hardly ever dies.
const MIN_GAIN_PERCENT: u64 = 25;
/// Free zones of a device with which a cycle takes on another zone: one to copy into, one for the checkpoint, one to spare.
const FREE_ZONES_FOR_ANOTHER: u32 = 3;
/// How long a cycle waits for readers of moved chunks before it leaves the zones for a later one.
const PIN_PATIENCE: Duration = Duration::from_secs(5);
/// How often it looks whether they are gone.
const PIN_LOOK: Duration = Duration::from_millis(20);

/// A zone to be emptied.
#[derive(Clone)]
struct Victim {
    device: Arc<dyn LogTarget>,
    zone: ZoneIndex,
    /// In which the zone was chosen: should it be in another one by now, it is not reset.
    activation: Activation,
    /// Bytes that were written in it.
    written_bytes: u64,
    /// Its headers were lost: what stands in it only what names it tells.
    is_unknown: bool,
    since: Instant,
}

impl Victim {
    /// Where its frames end.
    fn end(&self) -> u64 {
        ZONE_DATA_START + self.written_bytes
    }

    fn at(&self) -> (DeviceId, ZoneIndex) {
        (self.device.id(), self.zone)
    }

    fn holds(&self, place: &Place) -> bool {
        place.device == self.device.id() && place.zone == self.zone
    }
}

/// How emptying a zone ended.
enum Emptied {
    /// Something live could not be moved now.
    Stays,
    /// Nothing live is left, and no reader holds places in it.
    Unread,
    /// Nothing live is left. Readers of these objects may hold places in it; without objects, readers of any.
    ReadBy(Option<BTreeSet<KeyHash>>),
}

/// What one cycle of collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    pub zones: u64,
    /// Bytes of these zones.
    zone_bytes: u64,
    /// Bytes that copies and runs have taken meanwhile.
    taken_bytes: u64,
}

impl Collected {
    /// Whether another cycle promises to gain something.
    pub fn is_worth_more(&self) -> bool {
        self.zone_bytes > 0 && self.zone_bytes.saturating_sub(self.taken_bytes) * 100 >= self.zone_bytes * MIN_GAIN_PERCENT
    }

    /// Whether there is more room than before.
    fn has_gained(&self) -> bool {
        self.zone_bytes > self.taken_bytes
    }
}

impl Inner {
    /// Collects zones if devices run short of free ones.
    pub(crate) async fn collect(self: &Arc<Self>) -> Result<Collected, EngineError> {
        let mut collected = Collected::default();
        if self.check_leads().is_err() {
            return Ok(collected);
        }
        self.applied_all().await;
        self.reset_released(&mut collected).await;
        if self.background.lacks_checkpoint() {
            // There was no room for one. Whatever needs none comes first: to copy more would only fill the devices more.
            self.reset_at_once(self.choose_dead(), &mut collected).await;
        }
        let victims = self.reset_at_once(self.choose(), &mut collected).await;
        if victims.is_empty() {
            return Ok(collected);
        }
        self.remembered.reach().await?;
        self.get_in_step().await?;
        let taken_before = self.taken_by_copies();
        let (mut emptied, mut read_by_some) = (Vec::new(), Vec::new());
        for victim in victims {
            // The copies must fit beside a zone for the checkpoint that makes them count, or nothing is ever freed again.
            let taken = || emptied.iter().chain(read_by_some.iter().map(|(victim, _)| victim));
            let is_first = !taken().any(|other: &Victim| other.device.id() == victim.device.id());
            if !is_first && victim.device.usage().free_zones < FREE_ZONES_FOR_ANOTHER {
                continue;
            }
            match self.empty(&victim).await {
                Ok(Emptied::Unread) => emptied.push(victim),
                Ok(Emptied::ReadBy(whose)) => read_by_some.push((victim, whose)),
                Ok(Emptied::Stays) => self.note_setback(&victim),
                Err(error) => self.set_back(&victim, &error),
            }
        }
        if emptied.is_empty() && read_by_some.is_empty() {
            return Ok(collected);
        }
        if let Err(error) = self.checkpoint().await {
            // What was live in those was found by a look at everything: not again at once.
            let all = emptied.iter().chain(read_by_some.iter().map(|(victim, _)| victim));
            all.filter(|victim| victim.is_unknown).for_each(|victim| self.note_setback(victim));
            return Err(error);
        }
        // Other gateways look places up too: none resets before all have applied the moves.
        if !self.retire_places().await || self.check_leads().is_err() {
            return Ok(collected);
        }
        collected.taken_bytes = self.taken_by_copies().saturating_sub(taken_before);
        // A slow reader of a large object holds up the zones with chunks of its object alone.
        self.reset_dead(emptied, &mut collected).await;
        if !read_by_some.is_empty() {
            self.reset_when_released(read_by_some, &mut collected).await;
        }
        Ok(collected)
    }

    /// Bytes that copies and runs take on all devices, with padding and with what is left at the end of a zone that takes no more. Copies as such may be
    /// much shorter: a cycle that only moves such losses to and fro gains nothing.
    fn taken_by_copies(&self) -> u64 {
        let taken = |zone: &ZoneInfo, zone_bytes: u64| match (zone.stream, zone.state) {
            (Some(ZoneStream::Relocated | ZoneStream::Meta), Some(ZoneState::Open)) => ZONE_DATA_START + zone.written_bytes,
            (Some(ZoneStream::Relocated | ZoneStream::Meta), Some(ZoneState::Finished)) => zone_bytes,
            _ => 0,
        };
        let on_device = |device: &Arc<dyn LogTarget>| {
            let zone_bytes = device.usage().zone_bytes;
            device.zones().iter().map(|zone| taken(zone, zone_bytes)).sum::<u64>()
        };
        self.targets.in_use().map(on_device).sum()
    }

    /// Resets those zones in which nothing is live, also by the last checkpoint; the others. None, if the view changes meanwhile: what is left is
    /// for the next leader.
    async fn reset_at_once(self: &Arc<Self>, victims: Vec<Victim>, collected: &mut Collected) -> Vec<Victim> {
        if !victims.iter().any(|victim| self.seems_dead(victim)) {
            return victims;
        }
        let (dead, others) = self.sort_out_dead(victims).await;
        // Without the lock, for a device may take long to answer: a finished zone in which nothing is live gets nothing that is.
        for victim in dead {
            env::mark("engine: a zone reset without a checkpoint");
            if let Err(error) = self.reset(&victim, collected).await {
                self.set_back(&victim, &error);
            }
        }
        others
    }

    fn seems_dead(&self, victim: &Victim) -> bool {
        self.targets.live_bytes(victim.device.id(), victim.zone) == 0
    }

    /// The zones in which nothing is live, also by the last checkpoint, and the others.
    async fn sort_out_dead(self: &Arc<Self>, victims: Vec<Victim>) -> (Vec<Victim>, Vec<Victim>) {
        // What a checkpoint or a merge is about to name would seem dead.
        let mut state = self.checkpoints.lock().await;
        if !self.retire_places().await {
            return (Vec::new(), victims);
        }
        if self.remembered.is_in_doubt() && self.background.lacks_checkpoint() {
            // The next checkpoint would settle that, and waits for the room that is to be made here.
            if let Err(error) = self.while_view_lasts(self.install_again(&mut state)).await {
                tracing::warn!(%error, "it is not known yet what became of a checkpoint");
            }
        }
        // So would a run of which only the manager knows, or is about to: the next checkpoint takes it over, or makes it void.
        if !matches!(self.while_view_lasts(self.is_newest(&state.manifest)).await, Ok(true)) {
            self.background.want_checkpoint_in_time();
            return (Vec::new(), victims);
        }
        let (mut dead, mut others) = (Vec::new(), Vec::new());
        for victim in victims {
            if !self.seems_dead(&victim) {
                others.push(victim);
                continue;
            }
            // A look that moves nothing can end anywhere: it only asks.
            match self.while_view_lasts(self.look(&victim, false)).await {
                Ok(look) if look.is_dead_as_written_down() => dead.push(victim),
                Ok(_) => others.push(victim),
                // Nothing was learned about the zone. What was found dead was so in the old view.
                Err(_) if self.check_leads().is_err() => return (Vec::new(), Vec::new()),
                Err(error) => self.set_back(&victim, &error),
            }
        }
        (dead, others)
    }

    /// For a while the next cycles try others first.
    fn note_setback(&self, victim: &Victim) {
        let now = self.env.now();
        // Others of its cycle took their part of that: a known zone has its turn again by its count of tries alone.
        let took = if victim.is_unknown { now.saturating_duration_since(victim.since) } else { Duration::ZERO };
        self.targets.note_setback(victim.device.id(), victim.zone, took, now);
    }

    /// One zone that can't be emptied, or a device that does not answer, must not keep the others from it.
    fn set_back(&self, victim: &Victim, error: &EngineError) {
        tracing::warn!(device = victim.device.id().0, zone = victim.zone.0, %error, "a zone can't be emptied now");
        self.note_setback(victim);
    }

    /// Resets the zones in which nothing is live any more.
    async fn reset_dead(self: &Arc<Self>, victims: Vec<Victim>, collected: &mut Collected) {
        for victim in victims {
            let reset = match self.is_dead(&victim).await {
                Ok(false) => {
                    self.note_setback(&victim);
                    continue;
                }
                Ok(true) => self.reset(&victim, collected).await,
                Err(error) => Err(error),
            };
            if let Err(error) = reset {
                self.set_back(&victim, &error);
            }
        }
    }

    /// Whether nothing in a zone is live.
    async fn is_dead(self: &Arc<Self>, victim: &Victim) -> Result<bool, EngineError> {
        let look = self.look(victim, false).await?;
        if look.live > 0 || look.stays || !look.damaged {
            return Ok(look.live == 0 && !look.stays);
        }
        Ok(self.named_in(victim.at()).await.whole()?.is_empty())
    }

    /// Moves everything live out of a zone.
    async fn empty(self: &Arc<Self>, victim: &Victim) -> Result<Emptied, EngineError> {
        let mut look = self.look(victim, true).await?;
        if look.holds_runs && !look.stays {
            look.stays = !self.move_runs(victim).await?;
        }
        for (owner, places) in &look.chunks {
            self.move_chunks(owner, places, |_, device| Ok(device)).await?;
        }
        // To find what to repair takes a look at everything, in vain if something else keeps the zone.
        if look.damaged && !look.stays {
            self.repair(victim).await?;
        }
        Ok(look.emptied())
    }

    async fn reset(&self, victim: &Victim, collected: &mut Collected) -> Result<(), EngineError> {
        self.sealing.note_reset(victim.device.id(), victim.zone);
        let reset = victim.device.reset(victim.zone, victim.activation).await;
        reset.map_err(|error| EngineError::Unavailable { reason: error.to_string() })?;
        self.targets.forget_zone(victim.device.id(), victim.zone);
        self.doubts.forget(victim.at());
        self.stats.collected_zones.add(1);
        collected.zones += 1;
        collected.zone_bytes += victim.device.usage().zone_bytes;
        if collected.has_gained() {
            self.background.room.room_made();
        }
        Ok(())
    }
}
