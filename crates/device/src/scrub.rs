//! Scrub: reads a zone from the medium, not from the page cache, and checks every header and payload.

use std::sync::Arc;
use std::time::Duration;

use disk::{DiskError, ReadMode};
use format::zone_header::ZONE_DATA_START;
use types::limits::BLOCK_BYTES;
use types::{Place, Position, ZoneIndex, ZoneOffset};

use crate::error::Damage;
use crate::inner::Inner;
use crate::limits::MAX_SCRUB_FINDINGS;
use crate::walk::{Segment, Walk, WalkEvent};

/// One thing that a scrub found wrong.
#[derive(Debug, Clone)]
pub enum ScrubFinding {
    Damaged { place: Place, position: Position, damage: Damage },
    Unreadable { place: Place, bytes: u64, error: DiskError },
}

/// What a scrub of one zone has seen.
#[derive(Debug, Clone, Default)]
pub struct ScrubReport {
    pub frames: u64,
    pub bytes: u64,
    /// All that was wrong, also what `findings` has no room for.
    pub damage: u64,
    /// At most [`MAX_SCRUB_FINDINGS`].
    pub findings: Vec<ScrubFinding>,
    /// Gaps that no padding explains: writes that a crash tore, or frames of which nothing is left that tells what they were.
    pub holes: u64,
    /// Where whole frames begin, in their order. What should stand in the zone and is not among them is damaged.
    pub whole: Vec<ZoneOffset>,
}

impl ScrubReport {
    /// Whether something that was written may be lost.
    pub fn is_suspicious(&self) -> bool {
        self.damage > 0 || self.holes > 0
    }
}

/// Scrubs what one zone holds, at most `bytes_per_second` (0: as fast as it goes). A zone that holds nothing gives an empty
/// report. In an open zone, what is being written meanwhile may look damaged: scrub finished zones.
pub(crate) async fn scrub(inner: &Arc<Inner>, segment: Option<Segment>, bytes_per_second: u64) -> ScrubReport {
    let mut report = ScrubReport::default();
    let Some(segment) = segment else { return report };
    let started = inner.env.now();
    let device = inner.device();
    let mut gaps = Gaps::of_zone();
    let mut walk = Walk::new(inner.disk.clone(), &inner.env, inner.geometry, device, vec![segment], ReadMode::Direct, true);
    let mut paced = 0;
    loop {
        if bytes_per_second > 0 && walk.read_bytes() > paced {
            paced = walk.read_bytes();
            let due = Duration::from_nanos((u128::from(paced) * 1_000_000_000 / u128::from(bytes_per_second)) as u64);
            inner.env.sleep_until(started + due).await;
        }
        let finding = match walk.next().await {
            None => break,
            Some(WalkEvent::Frame(frame)) => {
                let at = frame.place.offset;
                gaps.frame(at.bytes(), frame.view.frame_bytes() as u64);
                report.whole.push(at);
                continue;
            }
            Some(WalkEvent::Damaged { place, position, damage }) => ScrubFinding::Damaged { place, position, damage },
            Some(WalkEvent::Unreadable { place, bytes, error, .. }) => ScrubFinding::Unreadable { place, bytes, error },
        };
        gaps.damage();
        report.damage += 1;
        if report.findings.len() < MAX_SCRUB_FINDINGS {
            report.findings.push(finding);
        }
    }
    report.holes = gaps.until(segment.end);
    report.frames = walk.frames();
    report.bytes = walk.read_bytes();
    inner.stats.scrubbed_bytes.add(report.bytes);
    inner.stats.scrub_damage.add(report.damage);
    report
}

/// Counts the gaps between frames. Frames of one batch follow one another, and the next batch begins at the next block. A frame that lost what
/// ties it to its zone is passed over by a walk in silence: the gap is all that tells of it.
pub struct Gaps {
    /// Where the last frame ended; none behind damage, of which nobody knows how far it goes.
    end: Option<u64>,
    holes: u64,
}

impl Gaps {
    /// Of a zone that is walked from its beginning.
    pub fn of_zone() -> Gaps {
        Gaps { end: Some(ZONE_DATA_START), holes: 0 }
    }

    /// The next frame begins here, counted from the zone's start.
    pub fn frame(&mut self, start: u64, bytes: u64) {
        if self.end.is_some_and(|end| start != end && start != end.next_multiple_of(BLOCK_BYTES as u64)) {
            self.holes += 1;
        }
        self.end = Some(start + bytes);
    }

    /// Something is damaged behind the last frame.
    pub fn damage(&mut self) {
        self.end = None;
    }

    /// All gaps of a zone that was written so far.
    pub fn until(self, written: u64) -> u64 {
        let is_short = self.end.is_some_and(|end| written > end.next_multiple_of(BLOCK_BYTES as u64));
        self.holes + u64::from(is_short)
    }
}

/// Nothing: the zone to scrub does not exist on this device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("device has no zone {}", .0.0)]
pub struct NoSuchZone(pub ZoneIndex);
