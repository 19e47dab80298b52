//! Scrub: reads a zone from the medium, not from the page cache, and checks every header and payload.

use std::sync::Arc;
use std::time::Duration;

use disk::{DiskError, ReadMode};
use types::{Place, Position, ZoneIndex};

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
}

/// Scrubs what one zone holds, at most `bytes_per_second` (0: as fast as it goes). A zone that holds nothing gives an empty
/// report. In an open zone, what is being written meanwhile may look damaged: scrub finished zones.
pub(crate) async fn scrub(inner: &Arc<Inner>, segment: Option<Segment>, bytes_per_second: u64) -> ScrubReport {
    let mut report = ScrubReport::default();
    let Some(segment) = segment else { return report };
    let started = inner.env.now();
    let device = inner.device();
    let mut walk = Walk::new(inner.disk.clone(), inner.geometry, device, vec![segment], ReadMode::Direct, true);
    let mut paced = 0;
    loop {
        if bytes_per_second > 0 && walk.read_bytes() > paced {
            paced = walk.read_bytes();
            let due = Duration::from_nanos((u128::from(paced) * 1_000_000_000 / u128::from(bytes_per_second)) as u64);
            inner.env.sleep_until(started + due).await;
        }
        let finding = match walk.next().await {
            None => break,
            Some(WalkEvent::Frame(_)) => continue,
            Some(WalkEvent::Damaged { place, position, damage }) => ScrubFinding::Damaged { place, position, damage },
            Some(WalkEvent::Unreadable { place, bytes, error, .. }) => ScrubFinding::Unreadable { place, bytes, error },
        };
        report.damage += 1;
        if report.findings.len() < MAX_SCRUB_FINDINGS {
            report.findings.push(finding);
        }
    }
    report.frames = walk.frames();
    report.bytes = walk.read_bytes();
    inner.stats.scrubbed_bytes.add(report.bytes);
    inner.stats.scrub_damage.add(report.damage);
    report
}

/// Nothing: the zone to scrub does not exist on this device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("device has no zone {}", .0.0)]
pub struct NoSuchZone(pub ZoneIndex);
