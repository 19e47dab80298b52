//! Zones that are written with zeros ahead of their use.

use env::Instant;
use types::ZoneIndex;

use super::{ZoneBook, ZoneEntry, ZoneUse};

impl ZoneBook {
    /// The next zone to write with zeros ahead of its use, if fewer than `ahead` stand ready and none is being written.
    pub(crate) fn begin_prewrite(&mut self, ahead: usize) -> Option<ZoneIndex> {
        if self.prewriting.is_some() || self.allocation_refused.is_some() || self.free.len() >= ahead {
            return None;
        }
        let zone = self.never.pop_first()?;
        self.zones[zone.0 as usize].doing = ZoneUse::Prewriting;
        self.prewriting = Some(zone);
        self.prewrite_unwanted = false;
        Some(zone)
    }

    /// Whether the prewriter shall stop, because its zone is the only one left.
    pub(crate) fn prewrite_unwanted(&self) -> bool {
        self.prewrite_unwanted
    }

    /// The prewriter's zone is whole, with a header that says so.
    pub(crate) fn prewritten(&mut self) {
        let zone = self.prewriting.take().expect("the prewriter has a zone");
        self.zones[zone.0 as usize].doing = ZoneUse::Free;
        self.free.push_back(zone);
        self.cannot_grow = false;
    }

    /// The prewriter gives its zone back as it took it; `refused_at` if the file could not grow. Whether that is news.
    pub(crate) fn prewrite_ended(&mut self, refused_at: Option<Instant>) -> bool {
        let zone = self.prewriting.take().expect("the prewriter has a zone");
        self.zones[zone.0 as usize] = ZoneEntry::NEVER;
        self.never.insert(zone);
        if refused_at.is_none() {
            return false;
        }
        self.allocation_refused = refused_at;
        !std::mem::replace(&mut self.cannot_grow, true)
    }
}
