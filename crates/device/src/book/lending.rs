//! Zones that volumes have instead of the log.
//!
//! Invariant: lending leaves the log its reserve and [`LENDING_LEAVES_ZONES`] beyond it, so no volume can end deletes, checkpoints or collection.

use env::Instant;
use format::zone_header::ZONE_DATA_START;
use types::{Activation, ZoneIndex};

use super::{ZoneBook, ZoneEntry, ZoneUse};
use crate::class::AppendClass;
use crate::limits::{ALLOCATION_RETRY, LENDING_LEAVES_ZONES, LENDING_WISH_TIME, PREWRITE_ZONES};

impl ZoneBook {
    /// How many zones could be lent now.
    pub(crate) fn lendable(&mut self, now: &impl Fn() -> Instant) -> usize {
        let kept = AppendClass::Data.free_zones_kept() + LENDING_LEAVES_ZONES;
        let spare = self.available(now).saturating_sub(kept);
        // The zone that is being written with zeros is the log's.
        spare.min(self.free.len() + if self.may_grow(now()) { self.never.len() } else { 0 })
    }

    fn may_grow(&self, now: Instant) -> bool {
        let is_refused = |since: Instant| now.saturating_duration_since(since) < ALLOCATION_RETRY;
        !self.growth_was_refused() && !self.lending_growth_refused.is_some_and(is_refused)
    }

    /// Takes a zone for a volume, with the activation that it gets; none if the log keeps what is left.
    pub(crate) fn begin_lending(&mut self, now: &impl Fn() -> Instant) -> Option<(ZoneIndex, Activation)> {
        if self.lendable(now) == 0 {
            self.lending_refused = Some(now());
            return None;
        }
        // The log fills a file from its start, a volume takes space from its end. Free zones have their space already.
        let spare = if self.free.len() > PREWRITE_ZONES { self.free.pop_back() } else { None };
        let grown = if spare.is_none() && self.may_grow(now()) { self.never.pop_last() } else { None };
        let zone = spare.or(grown).or_else(|| self.free.pop_back()).expect("a zone can be lent");
        let activation = Activation(self.next_activation);
        self.next_activation += 1;
        self.zones[zone.0 as usize] = ZoneEntry { doing: ZoneUse::Lending, activation, stream: None, end: ZONE_DATA_START };
        self.lending_refused = None;
        Some((zone, activation))
    }

    /// The table that names the zone is durable.
    pub(crate) fn lent(&mut self, zone: ZoneIndex) {
        let entry = &mut self.zones[zone.0 as usize];
        assert!(entry.doing == ZoneUse::Lending, "lent zone {} is {:?}", zone.0, entry.doing);
        entry.doing = ZoneUse::Lent;
        self.highest_durable = self.highest_durable.max(entry.activation);
    }

    /// The file could not grow by the zone: volumes get none beyond its end for a while. The log tries for itself.
    pub(crate) fn lending_failed(&mut self, zone: ZoneIndex, now: Instant) {
        self.zones[zone.0 as usize] = ZoneEntry::NEVER;
        self.never.insert(zone);
        self.lending_growth_refused = Some(now);
        self.lending_refused = Some(now);
    }

    /// The owner has no use for the zone any more.
    pub(crate) fn begin_return(&mut self, zone: ZoneIndex) {
        let entry = &mut self.zones[zone.0 as usize];
        assert!(entry.doing == ZoneUse::Lent, "returning zone {} is {:?}", zone.0, entry.doing);
        entry.doing = ZoneUse::Returning;
    }

    /// The zone's header says that it was returned: it can be taken again, and its space is allocated before that.
    pub(crate) fn returned(&mut self, zone: ZoneIndex) {
        let entry = &mut self.zones[zone.0 as usize];
        assert!(entry.doing == ZoneUse::Returning, "returned zone {} is {:?}", zone.0, entry.doing);
        *entry = ZoneEntry { activation: entry.activation, ..ZoneEntry::NEVER };
        self.never.insert(zone);
        // The file system may have the space that it lacked.
        self.allocation_refused = None;
        self.lending_growth_refused = None;
        self.reserve_may_be_whole();
    }

    /// Zones that are lent, or on their way to or from a volume.
    pub(crate) fn lent_zones(&self) -> usize {
        let is_lent = |entry: &&ZoneEntry| matches!(entry.doing, ZoneUse::Lending | ZoneUse::Lent | ZoneUse::Returning);
        self.zones.iter().filter(is_lent).count()
    }

    /// Whether a volume was refused a zone lately.
    pub(crate) fn lending_was_refused(&self, now: Instant) -> bool {
        self.lending_refused.is_some_and(|since| now.saturating_duration_since(since) < LENDING_WISH_TIME)
    }
}
