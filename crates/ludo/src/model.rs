//! The readers under `loom`: every interleaving with a writer, and every value that the memory model lets a load return.
//!
//! The structure is this crate's own, over loom's atomics; the snapshot and the updates are made outside, by the ordinary keyed
//! side. The number of forced switches is bounded: with all of them, a run would take hours.

use std::collections::BTreeMap;
use std::fmt::Debug;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use crate::lookup::{Applied, LookupOf, ReaderOf};
use crate::maintenance::{Config, Maintenance, Renewal};
use crate::sequence::{Look, Sequence};
use crate::shape::Shape;
use crate::update::{ORDER_KEPT, Update};
use crate::word::{Cell, Word};

/// Switches that a schedule may force beyond those at which a thread gives its turn away.
const PREEMPTIONS_MAX: usize = 2;

impl<T: Clone + Debug + Send> Cell<T> for Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn copy(&self) -> T {
        self.lock().expect("nothing panics under the lock").clone()
    }

    fn replace(&self, value: T) {
        *self.lock().expect("nothing panics under the lock") = value;
    }
}

impl Word for AtomicU64 {
    type Cell<T: Clone + Debug + Send> = Mutex<T>;

    fn new(value: u64) -> Self {
        Self::new(value)
    }

    fn load(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    fn touch(&self) {}

    fn store(&self, value: u64) {
        self.store(value, Ordering::Relaxed);
    }

    fn load_acquire(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    fn store_release(&self, value: u64) {
        self.store(value, Ordering::Release);
    }

    fn fence_acquire() {
        fence(Ordering::Acquire);
    }

    fn fence_release() {
        fence(Ordering::Release);
    }

    fn pause(_round: u32) {
        thread::yield_now();
    }
}

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(run);
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn value(number: u64) -> u16 {
    0x1000 + number as u16
}

/// What the models play: a unit, perhaps a new classifier for it, then an insertion.
struct Play {
    snapshot: Vec<u8>,
    classifier: Option<Vec<u8>>,
    insertion: Update,
    /// A key whose value the insertion moves, and in whose old slot it leaves something else: half of the change misleads.
    moved: u64,
}

/// Four keys, whose last makes room for itself: the bucket gets another seed, other values move, classifier bits turn.
fn eventful_insertion(renewed: bool) -> Play {
    let shape = Shape::new(4, 16, 0).expect("valid");
    for seed in 0..100_000 {
        let entries = (0..3).map(|number| (key(number), value(number)));
        let Ok(mut maintenance) = Maintenance::build(Config { key_bytes: 8, shape, seed }, entries) else { continue };
        let snapshot = maintenance.lookup().snapshot();
        let before: BTreeMap<u64, (u64, usize)> = (0..3).map(|number| (number, place(&maintenance, number))).collect();
        if renewed && maintenance.renew(u64::MAX) != Renewal::Done {
            continue;
        }
        let classifier = maintenance.classifier_snapshot();
        let Ok(insertion) = maintenance.insert(&key(3), value(3)) else { continue };
        let table = &maintenance.lookup().current().table;
        let moved =
            before.iter().find(|(number, (bucket, slot))| table.slot(*bucket, *slot).value[0] != u64::from(value(**number)));
        if let Some((moved, _)) = moved
            && !insertion.flips.is_empty()
            && insertion.buckets.iter().any(|change| change.order != ORDER_KEPT)
        {
            return Play { snapshot, classifier, insertion, moved: *moved };
        }
    }
    panic!("no seed makes an eventful insertion");
}

fn place(maintenance: &Maintenance<u16>, number: u64) -> (u64, usize) {
    let generation = maintenance.lookup().current();
    generation.locate(generation.hasher.digest(&key(number)))
}

/// A reader beside a writer that plays.
fn play(play: Play) {
    let Play { snapshot, classifier, insertion, moved } = play;
    model(move || {
        let mut lookup = LookupOf::<AtomicU64>::from_snapshot(&snapshot).expect("a snapshot can be read");
        let mut reader: ReaderOf<u16, AtomicU64> = lookup.reader().expect("wide enough");
        let reading = thread::spawn(move || assert_eq!(reader.get(&key(moved)), Some(value(moved))));
        if let Some(classifier) = &classifier {
            lookup.renew_from(classifier).expect("the next generation");
        }
        assert_eq!(lookup.apply(&insertion), Ok(Applied::Now));
        reading.join().expect("the reader found its key");
    });
}

#[test]
fn a_reader_during_an_insertion_finds_present_keys() {
    play(eventful_insertion(false));
}

/// The insertion after the renewal goes to the table that both generations share.
#[test]
fn a_reader_follows_to_the_next_generation_and_its_updates() {
    play(eventful_insertion(true));
}

/// Words that change together are never seen apart, nor older than the number that was read before them. Without either fence
/// of the lock this fails.
#[test]
fn words_that_change_together_are_seen_together() {
    struct Pair {
        sequence: Sequence<AtomicU64>,
        words: [AtomicU64; 2],
    }
    model(|| {
        let words = [Word::new(0), Word::new(0)];
        let pair = loom::sync::Arc::new(Pair { sequence: Sequence::new(), words });
        let writer = loom::sync::Arc::clone(&pair);
        let writing = thread::spawn(move || {
            writer.sequence.change(|| writer.words.iter().for_each(|word| Word::store(word, 1)));
        });
        if let Look::Stable(number) = pair.sequence.look() {
            let found = [0, 1].map(|index: usize| Word::load(&pair.words[index]));
            // Two counts a change: the number tells how often the words have changed.
            assert!(!pair.sequence.unchanged(number) || found == [number / 2; 2], "{found:?} at {number}");
        }
        writing.join().expect("the writer ends");
    });
}
