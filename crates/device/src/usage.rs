//! What a device holds.

use format::unit_table::VolumeOwner;
use format::zone_header::{ZONE_DATA_START, ZoneState, ZoneStream};
use types::{Activation, ZoneIndex};

use crate::book::ZoneBook;
use crate::class::AppendClass;
use crate::inner::Inner;

/// One zone, as a table shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneInfo {
    pub zone: ZoneIndex,
    /// None while it changes, and when it was never used.
    pub state: Option<ZoneState>,
    pub stream: Option<ZoneStream>,
    /// Its last activation; 0 if it never had one.
    pub activation: Activation,
    /// Bytes reserved in it, padding included.
    pub written_bytes: u64,
}

impl ZoneInfo {
    pub(crate) fn of(book: &ZoneBook, zone: ZoneIndex) -> ZoneInfo {
        let entry = book.entry(zone);
        let state = book.durable_state(zone);
        let written_bytes = match state {
            Some(ZoneState::Open | ZoneState::Finished) => book.end(zone) - ZONE_DATA_START,
            Some(ZoneState::Free | ZoneState::Lent | ZoneState::Returned) | None => 0,
        };
        ZoneInfo { zone, state, stream: entry.stream, activation: entry.activation, written_bytes }
    }
}

/// How full a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub zones: u32,
    pub zone_bytes: u64,
    /// What all zones together can hold.
    pub capacity_bytes: u64,
    /// Reserved in zones that are not free, padding included.
    pub written_bytes: u64,
    /// Zones that any class may still open.
    pub free_zones: u32,
    /// Of those, the ones that data may open; the others are the reserve.
    pub free_data_zones: u32,
    /// Zones that volumes have.
    pub lent_zones: u32,
    /// Further zones that volumes could get.
    pub lendable_zones: u32,
    /// A volume was refused a zone lately.
    pub is_lending_refused: bool,
}

/// What a part of the system has of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerUsage {
    pub owner: VolumeOwner,
    pub bytes: u64,
}

impl Usage {
    /// Zones that the log has or could have.
    pub fn log_zones(&self) -> u32 {
        self.zones - self.lent_zones.min(self.zones)
    }

    pub(crate) fn of(book: &mut ZoneBook, inner: &Inner) -> Usage {
        let now = || inner.env.now();
        let (free, lendable) = (book.available(&now), book.lendable(&now));
        let written_bytes = inner.geometry.zones().map(|zone| ZoneInfo::of(book, zone).written_bytes).sum();
        Usage {
            zones: inner.geometry.zone_count(),
            zone_bytes: inner.geometry.zone_bytes(),
            capacity_bytes: inner.geometry.data_bytes() * u64::from(inner.geometry.zone_count()),
            written_bytes,
            free_zones: free as u32,
            free_data_zones: free.saturating_sub(AppendClass::Data.free_zones_kept()) as u32,
            lent_zones: book.lent_zones() as u32,
            lendable_zones: lendable as u32,
            is_lending_refused: book.lending_was_refused(now()),
        }
    }
}
