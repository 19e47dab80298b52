//! No happens-before edge between the record of a put and its bytes: the trace of a simulated disk shows that neither is submitted because the other one is complete.
//! And the proof that the check can fail: puts whose bytes are staged first have the edge.

use std::sync::Arc;
use std::time::Duration;

use ::engine::{Condition, ObjectEngine};
use bytes::Bytes;
use device::SyncMode;
use disk::{Completion, CompletionOrder, Disk, DiskError, DiskStats, Done, Request, SimDisk};
use parking_lot::Mutex;
use smallvec::smallvec;

use super::support::{Rig, attributes_of, key};

const SEEDS: u64 = 20;
const NAME: &str = "the-object-of-the-trace";
/// No other write has these bytes.
const BYTES: &[u8] = b"the bytes of the trace";

/// What a write carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Record,
    Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Submitted(Part),
    Completed(Part),
}

/// A disk that notes when the two writes begin and end.
struct Traced {
    disk: SimDisk,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Disk for Traced {
    fn describe(&self) -> String {
        self.disk.describe()
    }

    fn size_bytes(&self) -> u64 {
        self.disk.size_bytes()
    }

    fn capacity_bytes(&self) -> Option<u64> {
        self.disk.capacity_bytes()
    }

    fn try_read_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DiskError> {
        self.disk.try_read_cached(offset, buf)
    }

    fn submit(&self, request: Request, done: Done) {
        let Some(part) = part_of(&request) else { return self.disk.submit(request, done) };
        self.events.lock().push(Event::Submitted(part));
        let events = self.events.clone();
        let noted = move |completion: Completion| {
            events.lock().push(Event::Completed(part));
            done(completion);
        };
        self.disk.submit(request, Box::new(noted));
    }

    fn stats(&self) -> DiskStats {
        self.disk.stats()
    }
}

fn part_of(request: &Request) -> Option<Part> {
    let Request::Write { buf, .. } = request else { return None };
    let has = |what: &[u8]| buf.windows(what.len()).any(|window| window == what);
    match () {
        () if has(BYTES) => Some(Part::Bytes),
        () if has(NAME.as_bytes()) => Some(Part::Record),
        () => None,
    }
}

/// The events of one put.
async fn trace(seed: u64, is_staged: bool) -> Vec<Event> {
    let events = Arc::<Mutex<Vec<Event>>>::default();
    let noted = events.clone();
    let wrap = move |disk: &SimDisk| Arc::new(Traced { disk: disk.clone(), events: noted.clone() }) as Arc<dyn Disk>;
    let rig = Rig::wrapped(seed, &[48], SyncMode::Always, Arc::new(wrap)).await;
    let engine = rig.engine();
    let put = async |name: &str, bytes: Vec<u8>| {
        let (key, attributes) = (key(name), attributes_of(&bytes));
        if is_staged {
            let mut staged = engine.stage(&key, None);
            engine.stage_pieces(&mut staged, smallvec![Bytes::from(bytes)]).await.expect("stages");
            engine.commit(&key, staged, attributes, Condition::None).await.expect("commits");
        } else {
            engine.put(&key, attributes, smallvec![bytes.into()], Condition::None).await.expect("puts");
        }
    };
    // The first put of a store makes its log.
    put("another", vec![1; 5000]).await;
    rig.disks[0].set_order(CompletionOrder::Timed(Duration::from_millis(3)));
    put(NAME, [BYTES, &[2; 9000]].concat()).await;
    events.lock().clone()
}

/// Which write waits for the other one, if one does.
fn edge(events: &[Event]) -> Option<Part> {
    let at = |event: Event| events.iter().position(|other| *other == event).expect("both are written");
    let waits = |part: Part, other: Part| at(Event::Submitted(part)) > at(Event::Completed(other));
    match () {
        () if waits(Part::Record, Part::Bytes) => Some(Part::Record),
        () if waits(Part::Bytes, Part::Record) => Some(Part::Bytes),
        () => None,
    }
}

#[tokio::test(start_paused = true)]
async fn neither_the_record_nor_the_bytes_wait_for_the_other() {
    let mut first = Vec::new();
    for seed in 0..SEEDS {
        let events = trace(seed, false).await;
        assert_eq!(edge(&events), None, "seed {seed}: {events:?}");
        first.extend(events.iter().find(|event| matches!(event, Event::Completed(_))).copied());
    }
    // Either may be the first to end, so both orders were seen.
    for part in [Part::Record, Part::Bytes] {
        assert!(first.contains(&Event::Completed(part)), "{part:?} is never the first: {first:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ordered_writes_have_the_edge() {
    for seed in 0..SEEDS {
        let events = trace(seed, true).await;
        assert_eq!(edge(&events), Some(Part::Record), "seed {seed}: {events:?}");
    }
}
