//! Which zones a cycle empties: those with the least live data, by counts that are hints.
//!
//! What can't be emptied has little live data for just that: everything else was moved out of it. So zones that were tried before share a cycle with
//! others, and zones of which each try is dear wait longer and longer.

use super::Victim;
use crate::store::Inner;
use device::{ZoneInfo, ZoneState, ZoneStream};
use env::Instant;
use std::time::Duration;
use target::LogTarget;
use types::Activation;

/// A zone is worth collecting when less than this share of what it could hold is live, in percent.
const MAX_LIVE_PERCENT: u64 = 90;
/// Zones collected between two checkpoints: the more, the fewer checkpoints.
const ZONES_PER_CYCLE: usize = 4;
/// As many of these as may have been tried in vain before, where others are there.
const TRIED_PER_CYCLE: usize = ZONES_PER_CYCLE / 2;
/// How long a zone that could not be emptied comes behind others at most.
const LONGEST_SETBACK: Duration = Duration::from_secs(64);
/// How long one of which nothing is known is left alone at most: to try it takes a look at everything.
const LONGEST_UNKNOWN_SETBACK: Duration = Duration::from_secs(60 * 60);

/// A zone that may be emptied.
struct Candidate {
    zone: ZoneInfo,
    live: u64,
    /// When it could not be emptied, the last time.
    tried: Option<Instant>,
    /// That was a moment ago: others come first.
    is_set_back: bool,
}

impl Candidate {
    /// The lower, the better.
    fn rank(&self) -> (bool, u64, Activation) {
        (self.is_set_back, self.live, self.zone.activation)
    }

    fn is_unknown(&self) -> bool {
        self.zone.stream.is_none()
    }
}

impl Inner {
    /// Whether a device has fewer free zones than are wanted, by the log or by a volume that was refused one.
    pub(crate) fn wants_zones(&self, device: &dyn LogTarget) -> bool {
        let usage = device.usage();
        let is_low = usage.free_data_zones * 100 < usage.log_zones() * u32::from(self.config.collect_below_free_percent);
        is_low || usage.is_lending_refused
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

    /// The zones with the least live data on devices that run short of free ones, and one of which nothing is known.
    pub(super) fn choose(&self) -> Vec<Victim> {
        let mut victims = self.candidates(|zones| best(with_one_unknown(zones)));
        let mut unknown = 0;
        victims.retain(|victim| {
            unknown += usize::from(victim.is_unknown);
            !victim.is_unknown || unknown == 1
        });
        victims
    }

    /// All zones there in which nothing seems to be live.
    pub(super) fn choose_dead(&self) -> Vec<Victim> {
        self.candidates(|zones| zones.into_iter().filter(|zone| zone.live == 0).collect())
    }

    /// Where the zones are that would be emptied now.
    #[cfg(test)]
    pub(crate) fn chosen(&self) -> Vec<(types::DeviceId, types::ZoneIndex)> {
        self.choose().iter().map(Victim::at).collect()
    }

    /// `choose` keeps some of a device's zones, of which it gets the best first.
    fn candidates(&self, choose: impl Fn(Vec<Candidate>) -> Vec<Candidate>) -> Vec<Victim> {
        let now = self.env.now();
        let mut victims = Vec::new();
        for device in self.targets.in_use().filter(|device| device.is_writable()) {
            let mut zones = self.candidates_of(&**device, now);
            zones.sort_by_key(Candidate::rank);
            let victim = |candidate: Candidate| Victim {
                device: device.clone(),
                zone: candidate.zone.zone,
                activation: candidate.zone.activation,
                written_bytes: candidate.zone.written_bytes,
                is_unknown: candidate.is_unknown(),
                since: now,
            };
            victims.extend(choose(zones).into_iter().map(victim));
        }
        victims
    }

    fn candidates_of(&self, device: &dyn LogTarget, now: Instant) -> Vec<Candidate> {
        let (wants_zones, usage) = (self.wants_zones(device), device.usage());
        // A zone whose headers were lost goes however much space there is: each start reads it whole, or finds that it can't, and two of those whose content is not
        // known either keep a cell from being founded. Where space is short it has its turn as often as others, but never before.
        let longest_unknown = if wants_zones { LONGEST_SETBACK } else { LONGEST_UNKNOWN_SETBACK };
        let is_wanted = |zone: &Candidate| if zone.is_unknown() { !zone.is_set_back } else { wants_zones };
        // Against what the zone could hold, not what was written: a start seals zones that are nearly empty.
        let worth = usage.capacity_bytes / u64::from(usage.zones.max(1)) * MAX_LIVE_PERCENT / 100;
        let is_worth = |zone: &Candidate| zone.is_unknown() || zone.live < worth;
        let copies_more = !self.unreleased.is_full(device.id(), usage.zones);
        let covered = self.targets.covered(device.id());
        device
            .zones()
            .into_iter()
            .filter(|zone| zone.state == Some(ZoneState::Finished))
            .filter(|zone| zone.stream == Some(ZoneStream::Meta) || zone.activation < covered.of(zone.stream).activation)
            .map(|zone| {
                let setback = self.targets.setback(device.id(), zone.zone);
                let longest = if zone.stream.is_none() { longest_unknown } else { LONGEST_SETBACK };
                let is_set_back = setback.is_some_and(|setback| setback.is_on(now, longest));
                let live = self.targets.live_bytes(device.id(), zone.zone);
                Candidate { zone, live, tried: setback.map(|setback| setback.last), is_set_back }
            })
            .filter(|zone| is_wanted(zone) && is_worth(zone) && (zone.live == 0 || copies_more))
            .filter(|zone| !self.unreleased.holds(device.id(), zone.zone.zone))
            .collect()
    }
}

/// The best zones, of which the one of which nothing is known that was not tried for longest leaves the others room.
fn with_one_unknown(mut zones: Vec<Candidate>) -> Vec<Candidate> {
    let unknown = zones.iter().filter(|zone| zone.is_unknown());
    let next = unknown.min_by_key(|zone| zone.tried).map(|zone| zone.zone.zone);
    zones.retain(|zone| !zone.is_unknown() || Some(zone.zone.zone) == next);
    zones
}

/// The best of a device's zones, of which some were tried in vain before. Of those the one that has waited longest is among them, or it might wait for ever: those that
/// still can't be emptied come before it.
fn best(zones: Vec<Candidate>) -> Vec<Candidate> {
    let (set_back, others): (Vec<_>, Vec<_>) = zones.into_iter().partition(|zone| zone.is_set_back);
    let (mut tried, mut untried): (Vec<_>, Vec<_>) = others.into_iter().partition(|zone| zone.tried.is_some());
    if let Some(first) = (0..tried.len()).min_by_key(|at| tried[*at].tried) {
        tried[..=first].rotate_right(1);
    }
    tried.truncate(ZONES_PER_CYCLE - untried.len().min(TRIED_PER_CYCLE));
    untried.truncate(ZONES_PER_CYCLE - tried.len());
    let mut best = tried;
    best.extend(untried);
    best.sort_by_key(Candidate::rank);
    best.extend(set_back);
    best.truncate(ZONES_PER_CYCLE);
    best
}
