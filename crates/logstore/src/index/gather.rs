//! Gathering the newest saved record of each key, to be sealed.

use super::Located;
use super::dictionaries::{Dictionaries, Greatest, Kind, Numbered};
use format::entry::{Entry, EntryState};
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;
use types::limits::UNIT_BYTES;
use types::{Activation, DeviceId, Generation, KeyHash, ZoneIndex};

/// Numbers of a dictionary: more zones, or activations of them, than any pool of devices has.
const MAX_NUMBERS: u32 = 1 << 24;

/// Things by the order in which they came.
struct Numbers<T> {
    things: Vec<T>,
    by_thing: HashMap<T, u32>,
    /// The thing that was asked for last: records of one zone come together.
    last: Option<(T, u32)>,
}

impl<T: Copy + Eq + Hash> Numbers<T> {
    fn new() -> Self {
        Numbers { things: Vec::new(), by_thing: HashMap::new(), last: None }
    }

    fn of(&mut self, thing: T) -> u32 {
        if let Some((last, number)) = self.last
            && last == thing
        {
            return number;
        }
        let number = *self.by_thing.entry(thing).or_insert_with(|| {
            self.things.push(thing);
            self.things.len() as u32 - 1
        });
        assert!(number < MAX_NUMBERS, "a cell has fewer than {MAX_NUMBERS} zones and activations");
        self.last = Some((thing, number));
        number
    }
}

/// A saved record of one key.
#[derive(Clone, Copy)]
struct Row {
    hash: KeyHash,
    record: Numbered,
    state: EntryState,
    /// A tombstone that nothing needs once the version that it hides is not sealed any more.
    is_forgettable: bool,
}

/// Saved records of a range of shards.
pub struct Gather {
    shards: Range<usize>,
    rows: Vec<Vec<Row>>,
    zones: Numbers<(DeviceId, ZoneIndex)>,
    stamps: Numbers<(Generation, Activation)>,
    origins: Numbers<(u32, u32)>,
    greatest: Greatest,
}

/// What was gathered of one shard: the newest record of each key.
pub struct GatheredShard {
    pub shard: usize,
    pub live: Vec<(KeyHash, Numbered, u32)>,
    /// Tombstones that are still needed.
    pub dead: Vec<(KeyHash, Located)>,
}

impl Gather {
    pub fn new(shards: Range<usize>) -> Self {
        Gather {
            rows: shards.clone().map(|_| Vec::new()).collect(),
            shards,
            zones: Numbers::new(),
            stamps: Numbers::new(),
            origins: Numbers::new(),
            greatest: Greatest::default(),
        }
    }

    pub fn shards(&self) -> &Range<usize> {
        &self.shards
    }

    /// Takes a record of one of the shards; oldest run first.
    pub fn push(&mut self, shard: usize, entry: &Entry, is_forgettable: bool) {
        let record = self.number(entry);
        if record.kind() == Kind::Plain {
            self.origins.of((record.places[0].0, record.stamp));
        }
        let offsets = record.places[..usize::from(record.copies)].iter().map(|(_, offset)| *offset);
        let offset = offsets.chain([record.order_offset]).max().unwrap_or(0);
        self.greatest.offset = self.greatest.offset.max(offset);
        self.greatest.units = self.greatest.units.max(record.units);
        self.greatest.copies = self.greatest.copies.max(record.copies);
        self.rows[shard - self.shards.start].push(Row { hash: entry.hash, record, state: entry.state, is_forgettable });
    }

    fn number(&mut self, entry: &Entry) -> Numbered {
        let mut places = [(0, 0); types::limits::MAX_REPLICAS];
        for (numbered, place) in places.iter_mut().zip(entry.places.as_slice()) {
            *numbered = (self.zones.of((place.device, place.zone)), place.offset.0);
        }
        let units = entry.frame_bytes as usize / UNIT_BYTES;
        Numbered {
            stamp: self.stamps.of((entry.order.generation, entry.order.activation)),
            order_offset: entry.order.offset.0,
            units: u16::try_from(units).expect("a record's frame has at most 4095 units"),
            large: entry.large,
            copies: entry.places.len() as u8,
            places,
        }
    }

    /// The dictionaries, and of each shard the newest record of each key, one shard after the other.
    pub fn finish(self) -> (Arc<Dictionaries>, impl Iterator<Item = GatheredShard>) {
        let Gather { shards, rows, zones, stamps, mut origins, greatest } = self;
        let dictionaries = Arc::new(Dictionaries::new(zones.things, stamps.things, origins.things.clone(), greatest));
        let read_by = dictionaries.clone();
        let of_shard = move |(shard, rows): (usize, Vec<Row>)| {
            let mut gathered = GatheredShard { shard, live: Vec::new(), dead: Vec::new() };
            for row in newest(rows, &read_by) {
                match row.state {
                    EntryState::Live => {
                        let origin = match row.record.kind() {
                            Kind::Plain => origins.of((row.record.places[0].0, row.record.stamp)),
                            Kind::Moved => 0,
                        };
                        gathered.live.push((row.hash, row.record, origin));
                    }
                    _ if row.is_forgettable => {}
                    state => gathered.dead.push((row.hash, Located { state, ..read_by.gathered(&row.record) })),
                }
            }
            gathered
        };
        (dictionaries, shards.zip(rows).map(of_shard))
    }
}

/// The newest of the rows of each key; of equal orders the one that came last, because it knows of the relocation.
fn newest(mut rows: Vec<Row>, dictionaries: &Dictionaries) -> Vec<Row> {
    let order = |row: &Row| dictionaries.gathered(&row.record).order;
    rows.sort_by_key(|row| row.hash);
    // Keeps the first of a group in place, with the content of the newest.
    rows.dedup_by(|later, kept| {
        let is_same = later.hash == kept.hash;
        if is_same && order(later) >= order(kept) {
            *kept = *later;
        }
        is_same
    });
    rows
}
