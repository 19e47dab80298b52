//! `ludo`'s update streams: no message makes a lookup structure panic or changes it by half, and operations on the keyed side
//! keep a remote unit equal whatever is lost, repeated or made up in between.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use libfuzzer_sys::{arbitrary, fuzz_target};
use ludo::{Applied, Config, InsertError, Lookup, Maintenance, Renewal, Shape, Update};

#[derive(Arbitrary, Debug)]
enum Step {
    Insert(u8, u16),
    Remove(u8),
    Change(u8, u16),
    Renew(u8),
    /// Everything anew, with room for as many keys more.
    Rebuild(u8),
    /// Keys, of any length, whose memory is asked for: it changes nothing.
    Warm(Vec<Vec<u8>>),
    /// The last message again.
    Repeat,
    /// A message that somebody made up; the unit then asks for a snapshot.
    Alien(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
struct Input {
    capacity: u8,
    seed: u64,
    fingerprint_bits: u8,
    /// Keys that are there from the start: the structure is built of them at once.
    built: BTreeMap<u8, u16>,
    steps: Vec<Step>,
}

/// Twice the keys that there are: a structure that is never full.
const CAPACITY_MAX: u64 = 512;

struct Pair {
    maintenance: Maintenance<u16>,
    remote: Lookup,
    last: Vec<u8>,
}

impl Pair {
    fn snapshot(&mut self) {
        self.remote = Lookup::from_snapshot(&self.maintenance.lookup().snapshot()).expect("a snapshot can be read");
        self.last.clear();
    }

    fn rebuild(&mut self, more: u8) {
        let shape = self.maintenance.config().shape;
        let capacity = (shape.capacity() + u64::from(more)).min(CAPACITY_MAX);
        let shape = Shape::new(capacity, shape.value_bits(), shape.fingerprint_bits()).expect("valid");
        self.maintenance.rebuild(shape).expect("a small structure can be rebuilt");
        self.snapshot();
    }

    fn send(&mut self, update: &Update) {
        self.last.clear();
        update.encode(&self.remote.shape(), &mut self.last);
        let decoded = Update::decode(&self.last, &self.remote.shape()).expect("a written update can be read");
        assert_eq!(self.remote.apply(&decoded), Ok(Applied::Now));
    }

    fn run(&mut self, step: Step, map: &mut BTreeMap<u8, u16>) {
        match step {
            Step::Insert(number, value) => match self.maintenance.insert(&[number; 4], value) {
                Ok(update) => {
                    assert!(map.insert(number, value).is_none());
                    self.send(&update);
                }
                Err(InsertError::NeedsRebuild) => self.rebuild(0),
                Err(error) => assert!(error == InsertError::Full || map.contains_key(&number), "{error}"),
            },
            Step::Remove(number) => {
                let update = self.maintenance.remove(&[number; 4]);
                assert_eq!(update.is_some(), map.remove(&number).is_some());
                if let Some(update) = update {
                    self.send(&update);
                }
            }
            Step::Change(number, value) => {
                if let Ok(update) = self.maintenance.change(&[number; 4], value) {
                    map.insert(number, value).expect("it was present");
                    self.send(&update);
                }
            }
            Step::Renew(budget) => {
                if self.maintenance.renew(u64::from(budget)) == Renewal::Done {
                    let classifier = self.maintenance.classifier_snapshot().expect("no update came yet");
                    self.remote.renew_from(&classifier).expect("the next generation");
                    self.last.clear();
                }
            }
            Step::Rebuild(more) => self.rebuild(more),
            Step::Warm(keys) => self.maintenance.warm(&keys),
            Step::Repeat => {
                if let Ok(update) = Update::decode(&self.last, &self.remote.shape()) {
                    assert_eq!(self.remote.apply(&update), Ok(Applied::Before));
                }
            }
            Step::Alien(bytes) => {
                let before = self.remote.snapshot();
                if let Ok(update) = Update::decode(&bytes, &self.remote.shape()) {
                    match self.remote.apply(&update) {
                        Ok(Applied::Now) => self.snapshot(),
                        Ok(Applied::Before) | Err(_) => assert_eq!(self.remote.snapshot(), before),
                    }
                }
            }
        }
    }
}

fuzz_target!(|input: Input| {
    let fingerprint_bits = u32::from(input.fingerprint_bits % 17);
    let capacity = u64::from(input.capacity).max(input.built.len() as u64).max(1);
    let shape = Shape::new(capacity, 16, fingerprint_bits).expect("valid");
    let mut map = input.built;
    let entries = map.iter().map(|(number, value)| ([*number; 4], *value));
    let config = Config { key_bytes: 4, shape, seed: input.seed };
    let maintenance = Maintenance::build(config, entries).expect("a small structure can be built");
    let remote = Lookup::from_snapshot(&maintenance.lookup().snapshot()).expect("a snapshot can be read");
    let mut pair = Pair { maintenance, remote, last: Vec::new() };
    for step in input.steps {
        pair.run(step, &mut map);
    }
    assert_eq!(pair.remote.snapshot(), pair.maintenance.lookup().snapshot());
    let mut reader = pair.remote.reader::<u16>().expect("wide enough");
    for (number, value) in map {
        assert_eq!(reader.get(&[number; 4]), Some(value));
        assert_eq!(pair.maintenance.get(&[number; 4]), Some(value));
    }
});
