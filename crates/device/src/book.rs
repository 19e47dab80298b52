//! The book of zones: which zone is in which state, and where each stream's next bytes go. Synchronous and without I/O; the
//! caller holds a lock around it for a few nanoseconds per batch and carries out what it asks for afterwards.
//!
//! ```text
//!            allocate, zeros           header durable            no room left        header durable
//!  Never ───► Prewriting ──► Free ───► Activating ──► Open ───────────────► Finishing ──► Finished
//!    └──────────────────────────────────────▲   ▲                                            │
//!                                               └───────────── Free ◄── Resetting ◄──────────┴── Unknown
//!
//!  Never or Free ──► Lending ──► Lent ──► Returning ──► Never
//! ```
//!
//! Invariants:
//! - Finish before advance (RFD 2, decision 3): a zone takes no bytes once its stream's next zone has taken some.
//! - Within a stream activations ascend with time, so positions do.
//! - A zone is in exactly one state, so nobody writes zeros into a zone that takes appends.
//! - An activation number is handed out once, and is greater than every one ever seen on the device.
//! - A floor lies above no activation that the next process may hand out.

mod entry;
mod lending;
mod prewriting;

use std::collections::{BTreeSet, VecDeque};

use env::Instant;
use format::zone_header::{ZONE_DATA_START, ZoneState, ZoneStream};
use types::limits::BLOCK_BYTES;
use types::{Activation, Position, ZoneIndex, ZoneOffset};

pub(crate) use crate::book::entry::{ZoneEntry, ZoneUse};
use crate::class::{AppendClass, STREAMS, stream_index};
use crate::geometry::Geometry;
use crate::limits::{ALLOCATION_RETRY, NEXT_ZONE_ROOM_BYTES, RESERVE_COPY_ZONES, RESERVE_META_ZONES, TOMBSTONE_SHARE};

/// A zone that takes bytes, now or next.
#[derive(Debug, Clone, Copy)]
struct OpenZone {
    zone: ZoneIndex,
    activation: Activation,
    /// Where the next bytes go, from the zone's start; a multiple of a block.
    next: u64,
    /// Opened from the reserve: closed to [`AppendClass::Data`] until the reserve is whole again.
    from_reserve: bool,
}

#[derive(Debug, Clone, Copy)]
enum NextZone {
    None,
    Activating { from_reserve: bool },
    Ready(OpenZone),
}

#[derive(Debug)]
struct Head {
    current: Option<OpenZone>,
    next: NextZone,
}

/// A range that one write owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub(crate) zone: ZoneIndex,
    pub(crate) activation: Activation,
    /// From the zone's start.
    pub(crate) offset: u64,
}

/// Where a batch goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    At(Reserved),
    /// A zone is being made ready; try again when it is.
    Wait,
    Full,
}

/// A zone to make ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Activate {
    pub(crate) zone: ZoneIndex,
    pub(crate) stream: ZoneStream,
    pub(crate) activation: Activation,
    /// Its space has not been allocated yet.
    pub(crate) allocate: bool,
}

/// What is to be done once the lock is released.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) finish: Vec<ZoneIndex>,
    pub(crate) activate: Option<Activate>,
}

pub(crate) struct ZoneBook {
    geometry: Geometry,
    zones: Vec<ZoneEntry>,
    /// Zones that may be taken at once, in the order in which they will be.
    free: VecDeque<ZoneIndex>,
    never: BTreeSet<ZoneIndex>,
    heads: [Head; STREAMS],
    next_activation: u64,
    /// The highest activation that a header on the disk names: the next process counts from it.
    highest_durable: Activation,
    prewriting: Option<ZoneIndex>,
    /// The prewriter shall give its zone back after the write in flight.
    prewrite_unwanted: bool,
    /// When the file could not grow.
    allocation_refused: Option<Instant>,
    /// It has not grown since.
    cannot_grow: bool,
    /// When a volume was last refused a zone; none since one was lent.
    lending_refused: Option<Instant>,
    /// When the file could not grow for a volume.
    lending_growth_refused: Option<Instant>,
}

impl ZoneBook {
    /// The book over `zones`, of which at most one of each stream is open: appends go on in it.
    pub(crate) fn new(geometry: Geometry, mut zones: Vec<ZoneEntry>) -> ZoneBook {
        assert!(zones.len() == geometry.zone_count() as usize);
        let mut free: Vec<ZoneIndex> = Vec::new();
        let mut never = BTreeSet::new();
        let mut heads: [Head; STREAMS] = std::array::from_fn(|_| Head { current: None, next: NextZone::None });
        let (highest_durable, highest) = entry::number_unknown(&mut zones);
        for (zone, entry) in geometry.zones().zip(&zones) {
            match entry.doing {
                ZoneUse::Never => drop(never.insert(zone)),
                ZoneUse::Free => free.push(zone),
                ZoneUse::Finished | ZoneUse::Unknown | ZoneUse::Lent => {}
                ZoneUse::Open => {
                    let stream = entry.stream.expect("an open zone has a stream");
                    let open = OpenZone { zone, activation: entry.activation, next: entry.end, from_reserve: false };
                    let other = heads[stream_index(stream)].current.replace(open);
                    assert!(other.is_none(), "zone {} is not the only open one of {stream:?}", zone.0);
                }
                other => panic!("zone {} is {other:?} at the start", zone.0),
            }
        }
        // Those that rested longest first.
        free.sort_by_key(|zone| (zones[zone.0 as usize].activation, *zone));
        ZoneBook {
            geometry,
            zones,
            free: free.into(),
            never,
            heads,
            next_activation: highest.0 + 1,
            highest_durable,
            prewriting: None,
            prewrite_unwanted: false,
            allocation_refused: None,
            cannot_grow: false,
            lending_refused: None,
            lending_growth_refused: None,
        }
    }

    /// Takes `bytes`, a multiple of a block, for one write of `class`.
    pub(crate) fn reserve(&mut self, class: AppendClass, bytes: u64, now: impl Fn() -> Instant) -> (Placement, Plan) {
        assert!(bytes.is_multiple_of(BLOCK_BYTES as u64) && bytes <= self.geometry.data_bytes());
        let mut plan = Plan::default();
        let zone_bytes = self.geometry.zone_bytes();
        let stream = class.stream();
        let index = stream_index(stream);
        loop {
            let left_by_data = self.left_by_data(class);
            let head = &mut self.heads[index];
            if let Some(open) = &mut head.current
                && (class != AppendClass::Data || !open.from_reserve)
                && open.next + bytes + left_by_data <= zone_bytes
            {
                let reserved = Reserved { zone: open.zone, activation: open.activation, offset: open.next };
                open.next += bytes;
                if stream == ZoneStream::Ordered && plan.activate.is_none() {
                    plan.activate = self.prepare_next(&now);
                }
                return (Placement::At(reserved), plan);
            }
            match head.next {
                NextZone::Ready(next) if class != AppendClass::Data || !next.from_reserve => {
                    if let Some(full) = head.current.replace(next) {
                        plan.finish.push(full.zone);
                        self.retire(full);
                    }
                    self.heads[index].next = NextZone::None;
                }
                NextZone::Activating { from_reserve } if class != AppendClass::Data || !from_reserve => {
                    return (Placement::Wait, plan);
                }
                NextZone::Ready(_) | NextZone::Activating { .. } => return (Placement::Full, plan),
                NextZone::None => {
                    if self.available(&now) <= self.kept(class) {
                        return (Placement::Full, plan);
                    }
                    plan.activate = self.take_free(stream, &now);
                    return (Placement::Wait, plan);
                }
            }
        }
    }

    /// Bytes of the ordered stream's zone that data leaves for tombstones, because there may be no other zone for them: the reserve counts zones
    /// that the file has not grown by, and it can't grow. Deletes make room then.
    fn left_by_data(&self, class: AppendClass) -> u64 {
        let head = &self.heads[stream_index(ZoneStream::Ordered)];
        let half = self.geometry.zone_bytes() / 2;
        let is_last = matches!(head.next, NextZone::None) && head.current.is_some_and(|open| open.next >= half);
        match class == AppendClass::Data && self.cannot_grow && is_last {
            true => self.geometry.zone_bytes() / TOMBSTONE_SHARE,
            false => 0,
        }
    }

    /// How many free zones the class must leave. What a stream has open, with room in it, was taken from the reserve that is kept
    /// for that stream, and serves the same end: were it not counted, a device at rest with both streams open would have nothing
    /// left for tombstones. Data leaves everything, so that the reserve is whole when the others begin.
    pub(crate) fn kept(&self, class: AppendClass) -> usize {
        let kept_for = |stream, zones: usize| if self.has_room(stream) { 0 } else { zones };
        match class {
            AppendClass::Tombstone => {
                let relocation = kept_for(ZoneStream::Relocated, RESERVE_COPY_ZONES);
                // A checkpoint makes room of what tombstones have filled; so one is kept for it in any case.
                (relocation + kept_for(ZoneStream::Meta, RESERVE_META_ZONES)).max(RESERVE_META_ZONES)
            }
            AppendClass::Meta => kept_for(ZoneStream::Relocated, RESERVE_COPY_ZONES),
            AppendClass::Data | AppendClass::Relocation => class.free_zones_kept(),
        }
    }

    /// Bytes that the open zone of a stream still takes.
    pub(crate) fn open_room(&self, stream: ZoneStream) -> u64 {
        self.heads[stream_index(stream)].current.map_or(0, |open| self.geometry.zone_bytes() - open.next)
    }

    /// Whether a stream has a zone with at least half of its room left.
    fn has_room(&self, stream: ZoneStream) -> bool {
        let head = &self.heads[stream_index(stream)];
        let is_roomy = |open: OpenZone| self.geometry.zone_bytes() - open.next >= self.geometry.zone_bytes() / 2;
        !matches!(head.next, NextZone::None) || head.current.is_some_and(is_roomy)
    }

    /// The header of an activation is durable.
    pub(crate) fn activated(&mut self, activate: &Activate) {
        self.cannot_grow &= !activate.allocate;
        self.highest_durable = self.highest_durable.max(activate.activation);
        let entry = &mut self.zones[activate.zone.0 as usize];
        assert!(entry.doing == ZoneUse::Activating, "activated zone {} is {:?}", activate.zone.0, entry.doing);
        entry.doing = ZoneUse::Open;
        let head = &mut self.heads[stream_index(activate.stream)];
        let NextZone::Activating { from_reserve } = head.next else {
            panic!("stream {:?} awaits no zone", activate.stream);
        };
        head.next = NextZone::Ready(OpenZone {
            zone: activate.zone,
            activation: activate.activation,
            next: ZONE_DATA_START,
            from_reserve,
        });
    }

    /// The file could not grow for an activation: zones beyond its end don't count for a while. Whether that is news.
    pub(crate) fn activation_refused(&mut self, activate: &Activate, now: Instant) -> bool {
        self.zones[activate.zone.0 as usize] = ZoneEntry::NEVER;
        self.never.insert(activate.zone);
        self.heads[stream_index(activate.stream)].next = NextZone::None;
        self.allocation_refused = Some(now);
        !std::mem::replace(&mut self.cannot_grow, true)
    }

    /// The header of a finished zone is durable. An empty zone's header says free, and so it is.
    pub(crate) fn finished(&mut self, zone: ZoneIndex) {
        let entry = &mut self.zones[zone.0 as usize];
        assert!(entry.doing == ZoneUse::Finishing, "finished zone {} is {:?}", zone.0, entry.doing);
        if entry.end == ZONE_DATA_START {
            entry.doing = ZoneUse::Free;
            self.freed(zone);
        } else {
            entry.doing = ZoneUse::Finished;
        }
    }

    /// Starts a reset. False when the zone isn't finished, nor one that the start could not read.
    pub(crate) fn begin_reset(&mut self, zone: ZoneIndex) -> bool {
        let entry = &mut self.zones[zone.0 as usize];
        if !matches!(entry.doing, ZoneUse::Finished | ZoneUse::Unknown) {
            return false;
        }
        entry.doing = ZoneUse::Resetting;
        true
    }

    /// The header of a reset zone is durable.
    pub(crate) fn reset(&mut self, zone: ZoneIndex) {
        let entry = &mut self.zones[zone.0 as usize];
        assert!(entry.doing == ZoneUse::Resetting, "reset zone {} is {:?}", zone.0, entry.doing);
        entry.doing = ZoneUse::Free;
        entry.end = ZONE_DATA_START;
        self.freed(zone);
    }

    /// Takes all open zones from their heads, to be finished. Later appends open others.
    pub(crate) fn finish_open(&mut self) -> Plan {
        self.finish_streams(|_| true)
    }

    /// The same at the end of all appending. Where free zones are short, those that the next process goes on with stay open: it would have to take
    /// others for them.
    pub(crate) fn finish_at_end(&mut self, now: &impl Fn() -> Instant) -> Plan {
        let is_short = self.available(now) < AppendClass::Data.free_zones_kept();
        self.finish_streams(|index| !is_short || index == stream_index(ZoneStream::Ordered))
    }

    fn finish_streams(&mut self, is_wanted: impl Fn(usize) -> bool) -> Plan {
        let mut plan = Plan::default();
        for index in (0..STREAMS).filter(|index| is_wanted(*index)) {
            if let Some(open) = self.heads[index].current.take() {
                plan.finish.push(open.zone);
                self.retire(open);
            }
            if let NextZone::Ready(open) = self.heads[index].next {
                self.heads[index].next = NextZone::None;
                plan.finish.push(open.zone);
                self.retire(open);
            }
        }
        plan
    }

    /// Takes the ordered stream's zone from its head, to be finished, if it was opened from the reserve and holds something.
    pub(crate) fn finish_reserved(&mut self) -> Plan {
        let mut plan = Plan::default();
        let head = &mut self.heads[stream_index(ZoneStream::Ordered)];
        let is_reserved = |open: &mut OpenZone| open.from_reserve && open.next > ZONE_DATA_START;
        if let Some(open) = head.current.take_if(is_reserved) {
            plan.finish.push(open.zone);
            self.retire(open);
        }
        plan
    }

    /// Zones that could be taken for appends now.
    pub(crate) fn available(&mut self, now: &impl Fn() -> Instant) -> usize {
        if self.allocation_refused.is_some_and(|since| now().saturating_duration_since(since) >= ALLOCATION_RETRY) {
            self.allocation_refused = None;
        }
        self.free.len()
            + if self.allocation_refused.is_some() { 0 } else { self.never.len() + usize::from(self.prewriting.is_some()) }
    }

    /// Whether zones beyond the file's end don't count at present.
    pub(crate) fn growth_was_refused(&self) -> bool {
        self.allocation_refused.is_some()
    }

    /// Where the next append of a stream lands at the earliest, in the ordered stream also in the next process. That one counts from the highest
    /// activation that a header names: numbers that were handed out, and whose headers never became durable, it hands out again. A floor above these,
    /// kept in a checkpoint, would hide what is appended there. In the other streams the next process may begin lower in the open zone, if what was in
    /// flight never reached the disk.
    pub(crate) fn floor(&self, stream: ZoneStream) -> Position {
        let head = &self.heads[stream_index(stream)];
        let open = match (head.current, head.next) {
            (Some(open), _) => Some(open),
            (None, NextZone::Ready(open)) => Some(open),
            (None, _) => None,
        };
        if let Some(open) = open {
            return Position { activation: open.activation, offset: ZoneOffset::from_bytes(open.next) };
        }
        let activating = self.zones.iter().filter(|entry| entry.doing == ZoneUse::Activating && entry.stream == Some(stream));
        let next_durable = Activation(self.highest_durable.0 + 1);
        let activation = activating.map(|entry| entry.activation).fold(next_durable, Activation::min);
        Position { activation, offset: ZoneOffset(0) }
    }

    pub(crate) fn entry(&self, zone: ZoneIndex) -> &ZoneEntry {
        &self.zones[zone.0 as usize]
    }

    /// Where the reserved bytes of a zone end now.
    pub(crate) fn end(&self, zone: ZoneIndex) -> u64 {
        let entry = self.entry(zone);
        if entry.doing != ZoneUse::Open {
            return entry.end;
        }
        let mut open = self.heads.iter().flat_map(|head| {
            let next = if let NextZone::Ready(next) = head.next { Some(next) } else { None };
            [head.current, next]
        });
        open.find_map(|open| open.filter(|open| open.zone == zone)).expect("an open zone has a head").next
    }

    /// What a zone's header says of its present state; none while it changes or was never used. One that the start could not read takes no appends
    /// and may hold something, as a finished one.
    pub(crate) fn durable_state(&self, zone: ZoneIndex) -> Option<ZoneState> {
        match self.entry(zone).doing {
            ZoneUse::Never | ZoneUse::Prewriting | ZoneUse::Activating | ZoneUse::Resetting | ZoneUse::Lending => None,
            ZoneUse::Lent | ZoneUse::Returning => Some(ZoneState::Lent),
            ZoneUse::Free => Some(ZoneState::Free),
            ZoneUse::Open => Some(ZoneState::Open),
            ZoneUse::Finishing | ZoneUse::Finished | ZoneUse::Unknown => Some(ZoneState::Finished),
        }
    }

    fn retire(&mut self, open: OpenZone) {
        let entry = &mut self.zones[open.zone.0 as usize];
        assert!(entry.doing == ZoneUse::Open, "retired zone {} is {:?}", open.zone.0, entry.doing);
        entry.doing = ZoneUse::Finishing;
        entry.end = open.next;
    }

    fn freed(&mut self, zone: ZoneIndex) {
        self.free.push_back(zone);
        self.reserve_may_be_whole();
    }

    /// A zone opened from the reserve counts as an ordinary one as soon as the reserve is whole without it.
    fn reserve_may_be_whole(&mut self) {
        if self.free.len() + self.never.len() < AppendClass::Data.free_zones_kept() {
            return;
        }
        let head = &mut self.heads[stream_index(ZoneStream::Ordered)];
        if let Some(open) = &mut head.current {
            open.from_reserve = false;
        }
        match &mut head.next {
            NextZone::Ready(open) => open.from_reserve = false,
            NextZone::Activating { from_reserve } => *from_reserve = false,
            NextZone::None => {}
        }
    }

    /// Takes the next zone ahead of time, when the present one is nearly full and the reserve stays whole.
    fn prepare_next(&mut self, now: &impl Fn() -> Instant) -> Option<Activate> {
        let head = &self.heads[stream_index(ZoneStream::Ordered)];
        let room = self.geometry.zone_bytes() - head.current.map_or(0, |open| open.next);
        let wanted = matches!(head.next, NextZone::None)
            && room < NEXT_ZONE_ROOM_BYTES.min(self.geometry.zone_bytes() / 2)
            && self.available(now) > AppendClass::Data.free_zones_kept();
        // The zone that is being prewritten isn't asked for in advance.
        if !wanted || (self.free.is_empty() && self.never.is_empty()) {
            return None;
        }
        self.take_free(ZoneStream::Ordered, now)
    }

    /// None: the only zone left is the prewriter's; it has been asked for it.
    fn take_free(&mut self, stream: ZoneStream, now: &impl Fn() -> Instant) -> Option<Activate> {
        let from_reserve = stream == ZoneStream::Ordered && self.available(now) <= AppendClass::Data.free_zones_kept();
        let (zone, allocate) = if let Some(zone) = self.free.pop_front() {
            (zone, false)
        } else if let Some(zone) = self.never.pop_first() {
            (zone, true)
        } else {
            assert!(self.prewriting.is_some(), "a zone is available");
            self.prewrite_unwanted = true;
            return None;
        };
        let activation = Activation(self.next_activation);
        self.next_activation += 1;
        self.zones[zone.0 as usize] =
            ZoneEntry { doing: ZoneUse::Activating, activation, stream: Some(stream), end: ZONE_DATA_START };
        self.heads[stream_index(stream)].next = NextZone::Activating { from_reserve };
        Some(Activate { zone, stream, activation, allocate })
    }
}

#[cfg(test)]
mod tests;
