//! What a checkpoint says of live chunks, which no index tells after a restart: a share for each zone, in few bytes, so that a cell of many devices has a
//! manifest that the manager takes.
//!
//! A share may be wrong by half of a 255th of a zone, and for neighbours that have one share together by more: it chooses what to collect, and decides nothing.

use crate::targets::Targets;
use device::{ZoneInfo, ZoneState};
use format::manifest::{DeviceLive, FULL_SHARE};
use target::LogTarget;
use types::{Activation, DeviceId, ZoneIndex};

/// Bytes that the shares of all devices may take together: half of what the manager takes for a manifest.
const MAX_SHARE_BYTES: usize = 2 << 20;

/// Zones of a device, with live bytes of chunks in each.
type LiveZones = Vec<(ZoneInfo, u64)>;

/// Of all devices, those with live chunks.
pub(crate) fn hints(targets: &Targets) -> Vec<DeviceLive> {
    let live_zones = |device: &dyn LogTarget| -> LiveZones {
        device.zones().into_iter().map(|info| (info, targets.live_chunk_bytes(device.id(), info.zone))).collect()
    };
    let devices = targets.devices().map(|device| (device.id(), device.usage().zone_bytes, live_zones(&**device)));
    let mut hints = of_devices(&devices.collect::<Vec<_>>());
    // Of devices that have been away since this gateway was opened: what is known of them.
    hints.extend(targets.hints_of_absent());
    hints
}

fn of_devices(devices: &[(DeviceId, u64, LiveZones)]) -> Vec<DeviceLive> {
    let zones: usize = devices.iter().map(|(.., zones)| zones.len()).sum();
    let zones_per_share = zones.div_ceil(MAX_SHARE_BYTES).max(1);
    let of_device = |(device, zone_bytes, zones): &(DeviceId, u64, LiveZones)| {
        let mut shares: Vec<u8> = zones.chunks(zones_per_share).map(|group| share_of(group, *zone_bytes)).collect();
        let last = shares.iter().rposition(|share| *share > 0)?;
        shares.truncate(last + 1);
        let newest = zones.iter().map(|(info, _)| info.activation).max()?;
        Some(DeviceLive { device: *device, newest, zones_per_share: zones_per_share as u32, shares })
    };
    devices.iter().filter_map(of_device).collect()
}

/// Of zones that have one share together. Not zero where something is live.
fn share_of(zones: &[(ZoneInfo, u64)], zone_bytes: u64) -> u8 {
    let live: u64 = zones.iter().filter(|(info, _)| is_in_use(info)).map(|(_, live)| live).sum();
    let in_use = zones.iter().filter(|(info, _)| is_in_use(info)).count() as u64;
    let all = (in_use * zone_bytes).max(1);
    let share = (live * u64::from(FULL_SHARE) + all / 2) / all;
    share.clamp(u64::from(live > 0), u64::from(FULL_SHARE)) as u8
}

/// The zones of a device for which its hints hold, with the bytes that they say.
pub(crate) fn hinted(device: &dyn LogTarget, live: &DeviceLive) -> impl Iterator<Item = (ZoneIndex, u64)> {
    let zone_bytes = device.usage().zone_bytes;
    let zones = device.zones().into_iter().filter(|info| is_in_use(info) && info.activation <= live.newest);
    let bytes = move |share: u8| u64::from(share) * zone_bytes / u64::from(FULL_SHARE);
    zones.map(move |info| (info.zone, bytes(live.share(info.zone)))).filter(|(_, bytes)| *bytes > 0)
}

fn is_in_use(info: &ZoneInfo) -> bool {
    // None while it changes: what it held is there.
    info.activation > Activation(0) && !matches!(info.state, Some(ZoneState::Free | ZoneState::Lent))
}

#[cfg(test)]
mod tests;
