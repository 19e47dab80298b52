//! Which zones a cycle empties: those with the least live data, by counts that are hints.

use super::Victim;
use crate::store::Inner;
use device::{ZoneInfo, ZoneState, ZoneStream};
use target::LogTarget;

/// A zone is worth collecting when less than this share of what it could hold is live, in percent.
const MAX_LIVE_PERCENT: u64 = 90;
/// Zones collected between two checkpoints: the more, the fewer checkpoints.
const ZONES_PER_CYCLE: usize = 4;

impl Inner {
    /// Whether a device has fewer free zones than are wanted.
    pub(crate) fn wants_zones(&self, device: &dyn LogTarget) -> bool {
        let usage = device.usage();
        usage.free_data_zones * 100 < usage.zones * u32::from(self.config.collect_below_free_percent)
    }

    /// A write was refused. What tombstones have filled of the reserve is needed no more once it is in a run: finishing it lets a
    /// checkpoint cover it, so that it can be reset without a copy.
    pub(crate) async fn finish_reserves(&self) {
        for device in self.targets.in_use() {
            if let Err(error) = device.finish_reserved_zone().await {
                tracing::warn!(device = device.id().0, %error, "a zone of the reserve can't be finished");
            }
        }
    }

    /// The zones with the least live data on devices that run short of free ones.
    pub(super) fn choose(&self) -> Vec<Victim> {
        self.candidates(|zones| zones.truncate(ZONES_PER_CYCLE))
    }

    /// All zones there in which nothing seems to be live.
    pub(super) fn choose_dead(&self) -> Vec<Victim> {
        self.candidates(|zones| zones.retain(|(live, _)| *live == 0))
    }

    /// `choose` keeps some of a device's zones, which are told with their live bytes, the best first.
    fn candidates(&self, choose: impl Fn(&mut Vec<(u64, ZoneInfo)>)) -> Vec<Victim> {
        let mut victims = Vec::new();
        for device in self.targets.in_use() {
            if !device.is_writable() {
                continue;
            }
            // A zone whose headers were lost goes however much space there is: each start reads it whole, or finds that it can't, and two of those whose content is not
            // known either keep a cell from being founded.
            let wants_zones = self.wants_zones(&**device);
            let is_wanted = |zone: &ZoneInfo| zone.stream.is_none() || wants_zones;
            let usage = device.usage();
            let covered = self.targets.covered(device.id());
            // Against what the zone could hold, not what was written: a start seals zones that are nearly empty.
            let worth = usage.capacity_bytes / u64::from(usage.zones.max(1)) * MAX_LIVE_PERCENT / 100;
            let copies_more = !self.unreleased.is_full(device.id(), usage.zones);
            let now = self.env.now();
            let is_set_back = |zone: &ZoneInfo| self.targets.is_set_back(device.id(), zone.zone, now);
            let mut zones: Vec<(u64, ZoneInfo)> = device
                .zones()
                .into_iter()
                .filter(|zone| zone.state == Some(ZoneState::Finished) && is_wanted(zone))
                .filter(|zone| zone.stream == Some(ZoneStream::Meta) || zone.activation < covered.of(zone.stream).activation)
                .map(|zone| (self.targets.live_bytes(device.id(), zone.zone), zone))
                .filter(|(live, zone)| *live < worth && !self.unreleased.holds(device.id(), zone.zone))
                .filter(|(live, _)| *live == 0 || copies_more)
                .collect();
            zones.sort_by_key(|(live, zone)| (is_set_back(zone), *live, zone.activation));
            choose(&mut zones);
            let victim = |zone: ZoneInfo| Victim {
                device: device.clone(),
                zone: zone.zone,
                activation: zone.activation,
                written_bytes: zone.written_bytes,
            };
            victims.extend(zones.into_iter().map(|(_, zone)| victim(zone)));
        }
        victims
    }
}
