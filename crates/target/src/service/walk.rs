//! One page of a walk. Nothing is kept between two pages: a page says where the next one begins.

use device::{Device, LogVector};
use types::{Activation, Position, ZoneOffset};

use crate::WalkRange;
use crate::limits::WALK_PAGE_READ_BYTES;
use crate::log::LogEvent;
use crate::wire::{PageEvent, WalkPage, WalkRest};

pub(super) async fn page(
    device: &Device,
    (range, until): (WalkRange, Activation),
    verify_payload: bool,
    page_bytes: usize,
) -> WalkPage {
    let (from, until) = bounds(device, range, until);
    let mut walk = device.walk_until(&from, until, verify_payload);
    let mut events = Vec::new();
    let mut bytes = 0;
    while let Some(event) = walk.next().await {
        let event = PageEvent::of(&LogEvent::from(event));
        bytes += event.wire_bytes();
        events.push(event);
        if bytes >= page_bytes || walk.read_bytes() >= WALK_PAGE_READ_BYTES {
            let rest = walk.resume_at().map(|at| WalkRest { from: not_below(&from, at), until });
            return WalkPage { events, rest };
        }
    }
    WalkPage { events, rest: None }
}

/// Where to begin, and the last activation to walk: none that begins after the walk did.
fn bounds(device: &Device, range: WalkRange, until: Activation) -> (LogVector, Activation) {
    let zones = device.zones();
    match range {
        WalkRange::From(from) => {
            let newest = zones.iter().map(|zone| zone.activation).max().unwrap_or_default();
            (from, until.min(newest))
        }
        WalkRange::Zone(zone) => {
            let activation = zones.get(zone.0 as usize).map(|zone| zone.activation).unwrap_or_default();
            (LogVector::uniform(Position { activation, offset: ZoneOffset(0) }), activation)
        }
    }
}

/// The part of `from` that a walk has not passed which stands at `at`: walks go in the order of activations.
fn not_below(from: &LogVector, at: Position) -> LogVector {
    LogVector { ordered: from.ordered.max(at), relocated: from.relocated.max(at), meta: from.meta.max(at) }
}
