use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::time::Duration;

use env::Instant;
use format::superblock::ZoneRegion;
use format::zone_header::{ZONE_DATA_START, ZoneStream};
use proptest::prelude::*;
use types::{Activation, Position, ZoneIndex, ZoneOffset};

use super::{Activate, Placement, Plan, ZoneBook, ZoneEntry, ZoneUse};
use crate::class::AppendClass;
use crate::geometry::Geometry;

const ZONE_BYTES: u64 = 16 * 4096;

fn book(zone_count: u32) -> ZoneBook {
    let region = ZoneRegion { first_byte: 8 << 20, zone_bytes: ZONE_BYTES, zone_count };
    let geometry = Geometry::new(region).expect("a geometry");
    ZoneBook::new(geometry, vec![ZoneEntry::NEVER; zone_count as usize])
}

fn start() -> Instant {
    Instant::from_nanos(1_000_000_000)
}

/// One thing that may happen to a book.
#[derive(Debug, Clone)]
enum Step {
    Reserve(AppendClass, u64),
    /// The oldest activation that was asked for succeeds, or finds no space.
    Activated,
    Refused,
    /// The oldest finish becomes durable.
    Finished,
    Reset(usize),
    FinishOpen,
    FinishReserved,
    BeginPrewrite,
    Prewritten,
    PrewriteEnded,
}

fn steps() -> impl Strategy<Value = Step> {
    let class = prop_oneof![
        Just(AppendClass::Data),
        Just(AppendClass::Tombstone),
        Just(AppendClass::Relocation),
        Just(AppendClass::Meta)
    ];
    prop_oneof![
        10 => (class, 1u64..=14).prop_map(|(class, blocks)| Step::Reserve(class, blocks * 4096)),
        6 => Just(Step::Activated),
        1 => Just(Step::Refused),
        3 => Just(Step::Finished),
        3 => any::<usize>().prop_map(Step::Reset),
        1 => Just(Step::FinishOpen),
        1 => Just(Step::FinishReserved),
        1 => Just(Step::BeginPrewrite),
        1 => Just(Step::Prewritten),
        1 => Just(Step::PrewriteEnded),
    ]
}

/// The world around a book: what it asked for and has not got yet, and what must always hold.
struct World {
    book: ZoneBook,
    activations: VecDeque<Activate>,
    finishes: VecDeque<ZoneIndex>,
    prewriting: bool,
    /// The last position given out for each stream, and the highest activation.
    last: BTreeMap<u8, Position>,
    highest: Activation,
    /// The highest activation whose header became durable.
    durable: Activation,
    now: Instant,
}

impl World {
    fn take(&mut self, plan: Plan) {
        if let Some(activate) = plan.activate {
            assert!(activate.activation > self.highest, "activation numbers count up: {activate:?}");
            self.highest = activate.activation;
            self.activations.push_back(activate);
        }
        self.finishes.extend(plan.finish);
    }

    fn step(&mut self, step: &Step) {
        let now = self.now;
        match *step {
            Step::Reserve(class, bytes) => {
                let free = self.book.available(&|| now);
                let floor = self.book.floor(class.stream());
                let (placement, plan) = self.book.reserve(class, bytes, || now);
                if plan.activate.is_some() {
                    // With all other streams' zones open and roomy; fewer are never left.
                    let kept = match class {
                        AppendClass::Data => 4,
                        AppendClass::Tombstone => 1,
                        AppendClass::Meta | AppendClass::Relocation => 0,
                    };
                    assert!(free > kept, "{class:?} took a zone with {free} free, of which {kept} are kept");
                }
                if let Placement::At(reserved) = placement {
                    assert!(reserved.offset >= ZONE_DATA_START && reserved.offset + bytes <= ZONE_BYTES);
                    let offset = ZoneOffset::from_bytes(reserved.offset);
                    let position = Position { activation: reserved.activation, offset };
                    assert!(position >= floor, "{position:?} lies below the floor {floor:?}");
                    let last = self.last.insert(class.stream() as u8, position);
                    assert!(last < Some(position), "positions ascend: {last:?}, {position:?}");
                    assert_eq!(self.book.entry(reserved.zone).doing, ZoneUse::Open);
                }
                self.take(plan);
            }
            Step::Activated => {
                if let Some(activate) = self.activations.pop_front() {
                    self.durable = self.durable.max(activate.activation);
                    self.book.activated(&activate);
                }
            }
            Step::Refused => {
                if self.activations.front().is_some_and(|activate| activate.allocate) {
                    let activate = self.activations.pop_front().expect("looked at above");
                    self.book.activation_refused(&activate, now);
                    self.now = self.now + Duration::from_secs(20);
                }
            }
            Step::Finished => {
                if let Some(zone) = self.finishes.pop_front() {
                    self.book.finished(zone);
                }
            }
            Step::Reset(index) => {
                let zone = ZoneIndex((index % self.book.zones.len()) as u32);
                if self.book.begin_reset(zone) {
                    self.book.reset(zone);
                }
            }
            Step::FinishOpen => {
                let plan = self.book.finish_open();
                self.take(plan);
            }
            Step::FinishReserved => {
                let plan = self.book.finish_reserved();
                self.take(plan);
            }
            Step::BeginPrewrite => self.prewriting |= self.book.begin_prewrite(3).is_some(),
            Step::Prewritten if self.prewriting => {
                self.prewriting = false;
                self.book.prewritten();
            }
            Step::PrewriteEnded if self.prewriting => {
                self.prewriting = false;
                self.book.prewrite_ended(None);
            }
            Step::Prewritten | Step::PrewriteEnded => {}
        }
        self.check();
    }

    /// Each zone stands where its state says, and nowhere else.
    fn check(&self) {
        let book = &self.book;
        let mut open = 0;
        for (index, entry) in book.zones.iter().enumerate() {
            let zone = ZoneIndex(index as u32);
            assert_eq!(book.free.contains(&zone), entry.doing == ZoneUse::Free, "zone {index} is {:?}", entry.doing);
            assert_eq!(book.never.contains(&zone), entry.doing == ZoneUse::Never, "zone {index} is {:?}", entry.doing);
            assert_eq!(book.prewriting == Some(zone), entry.doing == ZoneUse::Prewriting);
            open += usize::from(entry.doing == ZoneUse::Open);
        }
        let heads = book.heads.iter();
        let held: usize = heads
            .map(|head| usize::from(head.current.is_some()) + usize::from(matches!(head.next, super::NextZone::Ready(_))))
            .sum();
        assert_eq!(open, held, "every open zone has a head");
        for stream in [ZoneStream::Ordered, ZoneStream::Relocated, ZoneStream::Meta] {
            let floor = book.floor(stream);
            assert!(floor.activation.0 <= self.durable.0 + 1, "after a restart appends of {stream:?} land below {floor:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn whatever_happens_the_book_is_consistent(zones in 8u32..14, steps in proptest::collection::vec(steps(), 1..300)) {
        let mut world = World {
            book: book(zones),
            activations: VecDeque::new(),
            finishes: VecDeque::new(),
            prewriting: false,
            last: BTreeMap::new(),
            highest: Activation(0),
            durable: Activation(0),
            now: start(),
        };
        for step in &steps {
            world.step(step);
        }
    }
}

#[test]
fn a_book_goes_on_above_every_activation_it_finds() {
    let region = ZoneRegion { first_byte: 8 << 20, zone_bytes: ZONE_BYTES, zone_count: 8 };
    let geometry = Geometry::new(region).expect("a geometry");
    let mut zones = vec![ZoneEntry::NEVER; 8];
    zones[3] = ZoneEntry { doing: ZoneUse::Finished, activation: Activation(41), stream: None, end: ZONE_DATA_START };
    zones[5] = ZoneEntry { doing: ZoneUse::Free, activation: Activation(77), stream: None, end: ZONE_DATA_START };
    let mut book = ZoneBook::new(geometry, zones);
    let (placement, plan) = book.reserve(AppendClass::Data, 4096, start);
    assert_eq!(placement, Placement::Wait);
    let activate = plan.activate.expect("a zone to activate");
    assert_eq!((activate.activation, activate.zone, activate.allocate), (Activation(78), ZoneIndex(5), false));
}

/// A number is gone with each try to grow that finds no space, and no header ever held it.
#[test]
fn a_floor_names_no_activation_that_the_next_process_would_hand_out_above() {
    let mut book = book(8);
    for number in 1..=3 {
        let (_, plan) = book.reserve(AppendClass::Data, 4096, || start() + Duration::from_secs(20 * number));
        let activate = plan.activate.expect("a zone to activate");
        assert_eq!(activate.activation, Activation(number));
        assert_eq!(book.floor(ZoneStream::Ordered).activation, Activation(1), "while its header is under way");
        book.activation_refused(&activate, start() + Duration::from_secs(20 * number));
        assert_eq!(book.floor(ZoneStream::Ordered).activation, Activation(1));
    }
}

#[test]
fn the_prewriters_zone_is_asked_for_when_it_is_the_last() {
    let mut book = book(8);
    for _ in 0..7 {
        // Relocation may take all of them.
        let (_, plan) = book.reserve(AppendClass::Relocation, ZONE_BYTES - ZONE_DATA_START, start);
        let activate = plan.activate.expect("a zone");
        book.activated(&activate);
        let (placement, plan) = book.reserve(AppendClass::Relocation, ZONE_BYTES - ZONE_DATA_START, start);
        assert!(matches!(placement, Placement::At(_)));
        for zone in plan.finish {
            book.finished(zone);
        }
    }
    let zone = book.begin_prewrite(2).expect("the last one");
    let (placement, plan) = book.reserve(AppendClass::Relocation, 4096, start);
    assert_eq!((placement, plan), (Placement::Wait, Plan::default()));
    assert!(book.prewrite_unwanted());
    book.prewrite_ended(None);
    let (placement, plan) = book.reserve(AppendClass::Relocation, 4096, start);
    assert_eq!((placement, plan.activate.map(|activate| activate.zone)), (Placement::Wait, Some(zone)));
}
