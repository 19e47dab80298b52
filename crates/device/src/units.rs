//! Lending zones to volumes, and taking them back (docs/rfd/0023).
//!
//! ```text
//!  lend:    take a zone ─► zeros, flushed ─► table durable, in both slots ─► header Lent ─► use
//!  return:  no more use ─► what is in flight ends ─► table durable, in both slots ─► discard ─► header Returned ─► the log's
//! ```
//!
//! Invariants:
//! - The table decides. A zone is used by a volume only while the durable table names it, and by the log only while it does not.
//! - Both slots of the table say the same before a zone changes hands, so one slot that rots loses nothing.
//! - A unit holds zeros when it is lent: neither a former owner's bytes nor frames of the log can be read through it.
//! - One zone changes hands at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use disk::{DiskError, DiskExt};
use format::superblock::notes::NotesKind;
use format::unit_table::{self, LentUnit, VolumeOwner};
use format::zone_header::{ZONE_DATA_START, ZoneState};
use parking_lot::RwLock;
use types::{Activation, ZoneIndex};

use crate::error::{NotesIoError, VolumeError};
use crate::inner::Inner;
use crate::zone_io::{give_space_back, is_out_of_space, put_header};

/// A unit of an owner's volume.
pub(crate) type Unit = (VolumeOwner, u32);

/// The units that have a zone.
pub(crate) struct Units {
    map: RwLock<BTreeMap<Unit, ZoneIndex>>,
    /// Held while a zone changes hands.
    changing: tokio::sync::Mutex<()>,
}

/// A use of a zone by a volume. The zone is not given back before it ends.
pub(crate) struct Claim {
    inner: Arc<Inner>,
    pub(crate) zone: ZoneIndex,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.inner.table.write_ends(self.zone) {
            self.inner.zone_changed.notify_waiters();
        }
    }
}

impl Units {
    pub(crate) fn new(lent: &[LentUnit]) -> Units {
        let map = lent.iter().map(|lent| ((lent.owner, lent.unit), lent.zone)).collect();
        Units { map: RwLock::new(map), changing: tokio::sync::Mutex::default() }
    }

    /// The zone of a unit, which stays the unit's for as long as the claim is held.
    pub(crate) fn claim(inner: &Arc<Inner>, unit: Unit) -> Option<Claim> {
        let map = inner.units.map.read();
        let zone = *map.get(&unit)?;
        // Under the lock, so that a return that takes the unit away sees it.
        inner.table.write_begins(zone);
        Some(Claim { inner: inner.clone(), zone })
    }

    pub(crate) fn is_lent(&self, unit: Unit) -> bool {
        self.map.read().contains_key(&unit)
    }

    /// How many zones an owner has.
    pub(crate) fn count(&self, owner: VolumeOwner) -> usize {
        self.map.read().range((owner, 0)..=(owner, u32::MAX)).count()
    }

    /// The units of an owner that have a zone, ascending.
    pub(crate) fn of(&self, owner: VolumeOwner) -> Vec<u32> {
        self.map.read().range((owner, 0)..=(owner, u32::MAX)).map(|((_, unit), _)| *unit).collect()
    }
}

/// Gives a unit a zone, if it has none.
pub(crate) async fn lend(inner: Arc<Inner>, unit: Unit) -> Result<(), VolumeError> {
    let _turn = inner.units.changing.lock().await;
    if inner.units.is_lent(unit) {
        return Ok(());
    }
    let device = inner.device();
    let taken = inner.zones.lock().book.begin_lending(&|| inner.env.now());
    let Some((zone, activation)) = taken else { return Err(VolumeError::Full { device }) };
    match make_ready(&inner, zone).await {
        Ok(()) => {}
        Err(error) if is_out_of_space(&error) => {
            tracing::warn!(device = device.0, %error, "the device can't grow");
            inner.zones.lock().book.lending_failed(zone, inner.env.now());
            return Err(VolumeError::Full { device });
        }
        Err(error) => return Err(VolumeError::disk(device, inner.poison(error))),
    }
    write_table(&inner, |table| {
        table.insert(zone, (unit, activation));
    })
    .await?;
    write_header(&inner, zone, activation, ZoneState::Lent).await?;
    inner.stats.lent.add(1);
    inner.zones.lock().book.lent(zone);
    inner.units.map.write().insert(unit, zone);
    inner.zone_changed.notify_waiters();
    Ok(())
}

/// Takes a unit's zone back. What it held is gone.
pub(crate) async fn take_back(inner: Arc<Inner>, unit: Unit) -> Result<(), VolumeError> {
    let _turn = inner.units.changing.lock().await;
    let Some(zone) = inner.units.map.write().remove(&unit) else { return Ok(()) };
    let activation = {
        let mut zones = inner.zones.lock();
        zones.book.begin_return(zone);
        zones.book.entry(zone).activation
    };
    drain(&inner, zone).await?;
    write_table(&inner, |_| {}).await?;
    let header = inner.zone_header(zone, activation, ZoneState::Returned, None, ZONE_DATA_START);
    let freed = give_space_back(&*inner.disk, inner.geometry, &header).await;
    freed.map_err(|error| VolumeError::disk(inner.device(), inner.poison(error)))?;
    inner.stats.returned.add(1);
    inner.zones.lock().book.returned(zone);
    inner.clear_refusals();
    inner.zone_changed.notify_waiters();
    inner.retry_waiting();
    crate::prewrite::consider(&inner);
    Ok(())
}

/// Makes the headers of lent zones, and the second slot of the table, say what the table says.
pub(crate) async fn repeat_table(inner: &Arc<Inner>, silent: &[LentUnit]) -> Result<(), VolumeError> {
    if silent.is_empty() {
        return Ok(());
    }
    write_table(inner, |_| {}).await?;
    for lent in silent {
        write_header(inner, lent.zone, lent.activation, ZoneState::Lent).await?;
    }
    Ok(())
}

async fn make_ready(inner: &Inner, zone: ZoneIndex) -> Result<(), DiskError> {
    inner.disk.write_zeros(inner.geometry.zone_start(zone), inner.geometry.zone_bytes()).await?;
    inner.disk.flush().await
}

/// Waits until no read and no write of a zone is under way.
async fn drain(inner: &Inner, zone: ZoneIndex) -> Result<(), VolumeError> {
    loop {
        let changed = inner.zone_changed.notified();
        if let Some(cause) = inner.poisoned_by() {
            return Err(VolumeError::disk(inner.device(), cause));
        }
        if inner.table.writes_in_flight(zone) == 0 {
            return Ok(());
        }
        changed.await;
    }
}

/// Writes both slots: the units that are lent, as `change` has them.
async fn write_table(
    inner: &Arc<Inner>,
    change: impl FnOnce(&mut BTreeMap<ZoneIndex, (Unit, Activation)>),
) -> Result<(), VolumeError> {
    let map: Vec<(Unit, ZoneIndex)> = inner.units.map.read().iter().map(|(unit, zone)| (*unit, *zone)).collect();
    let mut table: BTreeMap<ZoneIndex, (Unit, Activation)> = {
        let zones = inner.zones.lock();
        map.into_iter().map(|(unit, zone)| (zone, (unit, zones.book.entry(zone).activation))).collect()
    };
    change(&mut table);
    let lent = |(zone, ((owner, unit), activation)): (&ZoneIndex, &(Unit, Activation))| LentUnit {
        zone: *zone,
        owner: *owner,
        unit: *unit,
        activation: *activation,
    };
    let bytes = unit_table::encode(&table.iter().map(lent).collect::<Vec<_>>());
    for _ in 0..2 {
        inner.notes.write(inner, NotesKind::Units, &bytes).await.map_err(|error| match error {
            NotesIoError::Disk(error) => VolumeError::disk(inner.device(), inner.poison(error)),
            NotesIoError::TooLong { .. } => unreachable!("a table of all zones fits"),
        })?;
    }
    Ok(())
}

async fn write_header(
    inner: &Arc<Inner>,
    zone: ZoneIndex,
    activation: Activation,
    state: ZoneState,
) -> Result<(), VolumeError> {
    let header = inner.zone_header(zone, activation, state, None, ZONE_DATA_START);
    let written = put_header(&*inner.disk, inner.geometry, &header).await;
    written.map_err(|error| VolumeError::disk(inner.device(), inner.poison(error)))
}
