//! The form without keys against the full form: whatever happens, a key that is present is answered alike.

mod measured;

use super::{Gather, IndexForm, Located, LudoForm, Sealed, ShardIndex};
use format::entry::{Entry, EntryState};
use format::record::WriteId;
use format::replicas::Places;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use types::limits::UNIT_BYTES;
use types::{Activation, DeviceId, Epoch, GatewayId, Generation, KeyHash, Order, Place, Sequence, ZoneIndex, ZoneOffset};

const KEYS: u64 = 40;
const SHARD: usize = 0;

fn hash(key: u64) -> KeyHash {
    let digest = blake3::hash(&key.to_le_bytes());
    KeyHash::from_bytes(digest.as_bytes()[..20].try_into().unwrap())
}

/// A log of three devices that gives places out: never the same twice in one activation of a zone.
struct Log {
    zone: u32,
    activation: u64,
    appended: u32,
    free: VecDeque<u32>,
    zones: u32,
}

/// Appends that go to one zone.
const ZONE_APPENDS: u32 = 8;

impl Log {
    fn new() -> Self {
        Log { zone: 0, activation: 1, appended: 0, free: VecDeque::new(), zones: 1 }
    }

    fn append(&mut self, copies: usize) -> (Places, Order) {
        if self.appended == ZONE_APPENDS {
            let another = self.free.pop_front();
            self.zone = another.unwrap_or(self.zones);
            self.zones += u32::from(another.is_none());
            (self.activation, self.appended) = (self.activation + 1, 0);
        }
        let offset = self.appended * 3;
        self.appended += 1;
        let (zone, generation) = (ZoneIndex(self.zone), Generation((self.activation / 7) as u32));
        let place = |device: u32| Place { device: DeviceId(device), zone, offset: ZoneOffset(offset + device) };
        let places: Vec<Place> = (1..=copies as u32).map(place).collect();
        let order = Order { generation, activation: Activation(self.activation), offset: places[0].offset };
        (Places::new(&places).unwrap(), order)
    }
}

/// Both forms, and the rows of the runs.
struct Bench {
    form: LudoForm,
    full: ShardIndex,
    ludo: ShardIndex,
    log: Log,
    /// Every row that a run has, oldest first.
    rows: Vec<Entry>,
    dictionaries: Vec<Arc<super::Dictionaries>>,
    forgotten: BTreeSet<(KeyHash, Order)>,
    writes: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Put {
        key: u64,
        copies: usize,
        large: bool,
    },
    Delete(u64),
    /// Collection moves the copy with this number.
    Move {
        key: u64,
        copy: usize,
    },
    /// An entry of long ago, which must be refused where its key is exact.
    PublishOld(u64),
    Checkpoint,
    Seal,
    ForgetTombstones,
    ResetZone(u32),
    Refute(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..KEYS;
    let step = prop_oneof![
        12 => (key.clone(), 1..=3_usize, any::<bool>()).prop_map(|(key, copies, large)| Step::Put { key, copies, large }),
        4 => key.clone().prop_map(Step::Delete),
        4 => (key.clone(), 0..3_usize).prop_map(|(key, copy)| Step::Move { key, copy }),
        1 => key.clone().prop_map(Step::PublishOld),
        4 => Just(Step::Checkpoint),
        3 => Just(Step::Seal),
        2 => Just(Step::ForgetTombstones),
        3 => (0..12_u32).prop_map(Step::ResetZone),
        2 => key.prop_map(Step::Refute),
    ];
    prop::collection::vec(step, 1..160)
}

impl Bench {
    fn new(fingerprint_bits: u32) -> Self {
        let form = LudoForm { fingerprint_bits, seal_entries: 0 };
        Bench {
            form,
            full: ShardIndex::new(IndexForm::Full, 3),
            ludo: ShardIndex::new(IndexForm::Ludo(form), 3),
            log: Log::new(),
            rows: Vec::new(),
            dictionaries: Vec::new(),
            forgotten: BTreeSet::new(),
            writes: 0,
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Put { key, copies, large } => self.write(key, EntryState::Live, copies, large),
            Step::Delete(key) => self.write(key, EntryState::Tombstone, 2, false),
            Step::Move { key, copy } => self.move_copy(key, copy),
            Step::PublishOld(key) => self.publish_old(key),
            Step::Checkpoint => self.checkpoint(),
            Step::Seal => self.seal(),
            Step::ForgetTombstones => self.forget_tombstones(),
            Step::ResetZone(zone) => self.reset_zone(zone),
            Step::Refute(key) => self.refute(key),
        }
    }

    fn entry(&mut self, key: u64, order: Order, places: Places, state: EntryState, large: bool) -> Entry {
        self.writes += 1;
        Entry {
            hash: hash(key),
            write: WriteId { gateway: GatewayId(1), sequence: Sequence(self.writes) },
            epoch: Epoch(1),
            order,
            places,
            frame_bytes: (1 + self.writes % 9) as u32 * UNIT_BYTES as u32,
            length: 5,
            state,
            large,
        }
    }

    fn write(&mut self, key: u64, state: EntryState, copies: usize, large: bool) {
        let (places, order) = self.log.append(copies);
        let entry = self.entry(key, order, places, state, large);
        let expected = self.full.publish(entry).expect("it is newer");
        let replaced = self.ludo.publish(entry).expect("a sealed answer makes nothing stale");
        if expected.is_some() {
            assert_eq!(replaced, expected, "what is present is replaced");
        }
    }

    fn publish_old(&mut self, key: u64) {
        let Some(known) = self.full.newest(&hash(key)) else { return };
        if self.ludo.newest_exact(&hash(key)).is_none() {
            return;
        }
        let entry = self.entry(key, known.order, known.places, EntryState::Live, false);
        assert!(self.full.publish(entry).is_err() && self.ludo.publish(entry).is_err(), "it is stale");
    }

    fn move_copy(&mut self, key: u64, copy: usize) {
        let known = self.full.newest(&hash(key));
        let Some(known) = known.filter(|known| known.is_live() && copy < known.places.len()) else { return };
        let mut places = known.places;
        let moved = &mut places.as_mut_slice()[copy];
        *moved = Place { device: moved.device, ..self.log.append(1).0.primary() };
        let entry = Entry { frame_bytes: known.frame_bytes, ..self.entry(key, known.order, places, known.state, known.large) };
        let wrong = Places::one(Place { device: DeviceId(77), ..Place::default() });
        assert!(!self.ludo.relocate(&wrong, entry), "it does not stand there");
        assert!(self.full.relocate(&known.places, entry));
        assert!(self.ludo.relocate(&known.places, entry), "a present key's places are known");
    }

    fn checkpoint(&mut self) {
        for key in 0..KEYS {
            if let Some(entry) = self.full.current.get(&hash(key)).copied() {
                self.full.settle(&entry);
                self.ludo.settle(&entry);
                self.rows.push(entry);
            }
        }
    }

    fn seal(&mut self) {
        let mut gather = Gather::new(SHARD..SHARD + 1);
        for row in &self.rows {
            gather.push(SHARD, row, self.forgotten.contains(&(row.hash, row.order)));
        }
        let (dictionaries, mut gathered) = gather.finish();
        let shard = gathered.next().unwrap();
        assert!(gathered.next().is_none(), "one shard was gathered");
        self.ludo.seal(Sealed::build(&dictionaries, shard, self.form.fingerprint_bits, self.writes));
        self.dictionaries.push(dictionaries);
        assert_eq!(
            self.ludo.saved.exact().iter().filter(|(_, known)| known.is_live()).count() + self.ludo.len().sealed,
            self.live_rows()
        );
    }

    /// Keys whose newest row is live.
    fn live_rows(&self) -> usize {
        let mut newest: BTreeMap<KeyHash, &Entry> = BTreeMap::new();
        for row in &self.rows {
            if newest.get(&row.hash).is_none_or(|known| known.order <= row.order) {
                newest.insert(row.hash, row);
            }
        }
        newest.values().filter(|row| row.state == EntryState::Live).count()
    }

    /// As a checkpoint does when what it covers has passed them.
    fn forget_tombstones(&mut self) {
        for key in 0..KEYS {
            let Some(known) = self.full.saved.get(&hash(key)).filter(|known| !known.is_live()) else { continue };
            self.full.forget_tombstone(&hash(key), known.order);
            self.ludo.forget_tombstone(&hash(key), known.order);
            self.forgotten.insert((hash(key), known.order));
        }
    }

    /// Resets a zone in which nothing that is live, or saved and not replaced by something saved, stands. It gets other records.
    fn reset_zone(&mut self, zone: u32) {
        let is_in = |located: &Located| located.places.as_slice().iter().any(|place| place.zone.0 == zone);
        let known = |index: &ShardIndex, key: u64| index.newest(&hash(key)).filter(Located::is_live);
        let is_live = (0..KEYS).filter_map(|key| known(&self.full, key)).any(|located| is_in(&located));
        let is_saved =
            (0..KEYS).filter_map(|key| self.full.saved.get(&hash(key))).any(|located| located.is_live() && is_in(&located));
        if is_live || is_saved || zone >= self.log.zones || self.log.zone == zone || self.log.free.contains(&zone) {
            return;
        }
        self.log.free.push_back(zone);
        for device in 1..=3 {
            self.dictionaries.iter().for_each(|known| known.mark_reset(DeviceId(device), ZoneIndex(zone)));
        }
        for key in 0..KEYS {
            let answer = self.ludo.newest(&hash(key)).filter(Located::is_live);
            assert!(!answer.is_some_and(|located| is_in(&located)), "no answer names a zone that was reset");
        }
    }

    fn refute(&mut self, key: u64) {
        let answer = self.ludo.newest(&hash(key)).filter(Located::is_live);
        let (present, Some(answer)) = (self.full.newest(&hash(key)), answer) else { return };
        let other = Located { frame_bytes: answer.frame_bytes + 1, ..answer };
        assert!(!self.ludo.refute(&hash(key), &other), "that is not what it said");
        if present.is_none() {
            assert!(self.ludo.refute(&hash(key), &answer), "what is said of an absent key is sealed");
            assert_eq!(self.ludo.newest(&hash(key)), None, "what was refuted is not said again");
        }
    }

    fn check(&self) {
        for key in 0..KEYS {
            let (expected, found) = (self.full.newest(&hash(key)), self.ludo.newest(&hash(key)));
            match (expected, found) {
                (Some(_), _) => assert_eq!(found, expected, "key {key}"),
                (None, None) => {}
                // A tombstone that the other form has forgotten, or another key's record.
                (None, Some(found)) if !found.is_live() => assert!(self.forgotten.contains(&(hash(key), found.order))),
                (None, Some(found)) => {
                    assert!(self.ludo.is_sealed_as(&hash(key), &found), "key {key}: what is exact is right");
                    assert!(self.rows.iter().any(|row| Located::from(row) == found), "a phantom was saved once");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn agrees_with_the_full_form(steps in steps(), fingerprint_bits in prop_oneof![Just(0), Just(1), Just(3), Just(12)]) {
        let mut bench = Bench::new(fingerprint_bits);
        for step in &steps {
            bench.run(step);
            bench.check();
        }
        bench.checkpoint();
        bench.seal();
        bench.check();
    }
}

/// So many records in one shard: every tenth moved, every fifth with fewer copies.
fn many(count: u64) -> Bench {
    let mut bench = Bench::new(12);
    for key in 0..count {
        let copies = if key % 5 == 0 { 1 } else { 3 };
        let (zone, offset) = ((key / 1000) as u32, (key % 1000) as u32 * 70);
        let place = |device: u32| Place {
            device: DeviceId(device),
            zone: ZoneIndex(zone + device),
            offset: ZoneOffset(offset + device),
        };
        let mut places: Vec<Place> = (1..=copies).map(place).collect();
        let order =
            Order { generation: Generation(256), activation: Activation(u64::from(zone) + 7), offset: places[0].offset };
        if key % 10 == 0 {
            places[0].offset = ZoneOffset(offset + 11);
        }
        let entry = bench.entry(key, order, Places::new(&places).unwrap(), EntryState::Live, key % 3 == 0);
        bench.rows.push(entry);
    }
    bench
}

#[test]
fn all_of_many_records_are_found_again_without_their_keys() {
    let count = 20_000;
    let mut bench = many(count);
    bench.seal();
    let len = bench.ludo.len();
    assert_eq!((len.unsaved, len.exact + len.sealed), (0, count as usize));
    assert!(len.exact < 10, "{} moved records met a phantom: 2,000 with 2⁻¹² each", len.exact);
    for row in &bench.rows {
        assert_eq!(bench.ludo.newest(&row.hash), Some(Located::from(row)));
    }
    let absent = 100_000;
    let phantoms = (count..count + absent).filter(|key| bench.ludo.newest(&hash(*key)).is_some()).count();
    // Two units with 2⁻¹² each: 49 of 100,000.
    assert!((20..90).contains(&phantoms), "{phantoms} of {absent} absent keys were answered");
}

#[test]
fn more_refutations_than_are_kept_are_found_out_again() {
    let mut bench = Bench::new(0);
    bench.write(1, EntryState::Live, 1, false);
    bench.checkpoint();
    bench.seal();
    let alien = |number: u64| hash(KEYS + number);
    let mut refuted = 0;
    for number in 0..20_000 {
        if let Some(answer) = bench.ludo.newest(&alien(number)) {
            assert!(bench.ludo.refute(&alien(number), &answer));
            assert_eq!(bench.ludo.newest(&alien(number)), None);
            refuted += 1;
        }
    }
    assert!(refuted > 1024, "{refuted} phantoms without fingerprints");
    bench.check();
}
