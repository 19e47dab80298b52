//! Readers of large objects that outlive the membership, or the lease, under which they were opened.

use super::places::{hash_of, newest};
use super::{A_WHILE, CellRig, Duration};
use crate::LogStore;
use crate::large::{LargeReader, read_tree};
use crate::tests::support::{Rig, attributes, key, read_all, simulate};
use bytes::Bytes;
use engine::{Condition, Content, ContentReader, EngineError, ObjectEngine};
use format::chunk_ref::ChunkRef;
use std::collections::BTreeSet;
use std::ops::Range;
use types::{KeyHash, Place};

const CHUNK: usize = 100 * 1024;
const CHUNKS: usize = 5;

/// Each chunk by its number.
fn content() -> Vec<u8> {
    (0..CHUNKS * CHUNK).map(|at| (at / CHUNK) as u8).collect()
}

async fn put_chunks(gateway: &LogStore, name: &str, content: &[u8], chunk_bytes: usize) {
    let mut staged = gateway.stage(&key(name), None);
    for chunk in content.chunks(chunk_bytes) {
        gateway.stage_chunk(&mut staged, Bytes::copy_from_slice(chunk)).await.unwrap();
    }
    gateway.commit(&key(name), staged, attributes(name.as_bytes()), Condition::None).await.unwrap();
}

async fn open(gateway: &LogStore) -> Box<dyn ContentReader> {
    match gateway.open(&key("slow")).await.unwrap().content {
        Content::Chunked(reader) => reader,
        Content::Whole(_) => panic!("it is large"),
    }
}

async fn chunks_of(gateway: &LogStore) -> Vec<ChunkRef> {
    let frame = gateway.inner.read_copies(&newest(gateway, "slow")).await.unwrap().expect("it stands");
    read_tree(&gateway.inner, &frame.payload, frame.record.tree_height).await.unwrap().chunks
}

fn range_of(chunk: usize) -> Range<u64> {
    (chunk * CHUNK) as u64..((chunk + 1) * CHUNK) as u64
}

fn is_unavailable<T>(read: &Result<T, EngineError>) -> bool {
    matches!(read, Err(EngineError::Unavailable { .. }))
}

/// Collects until another chunk of the object stands where one of these is looked for first; which one of these.
async fn fill_places_anew(leader: &LogStore, stood: &[(ChunkRef, Place)]) -> usize {
    for round in 0..400 {
        let now = chunks_of(leader).await;
        let is_another = |(chunk, (_, place)): &(usize, &(ChunkRef, Place))| {
            (0..CHUNKS).any(|other| other != *chunk && now[other].places.as_slice().contains(place))
        };
        if let Some((chunk, _)) = stood.iter().enumerate().find(is_another) {
            return chunk;
        }
        let moving: BTreeSet<Place> = now[round % CHUNKS].places.as_slice().iter().copied().collect();
        assert!(leader.inner.move_chunks(&hash_of("slow"), &moving, |_, device| Ok(device)).await.unwrap());
        leader.inner.checkpoint().await.unwrap();
        leader.inner.collect().await.unwrap();
    }
    panic!("no place was filled anew")
}

/// A gateway that is cut off and removed while a client reads the object there, and where its chunks stood.
struct CutOff {
    rig: CellRig,
    gateway: LogStore,
    reader: Box<dyn ContentReader>,
    stood: Vec<(ChunkRef, Place)>,
}

impl CutOff {
    /// The client has begun. Leases end soon from here on.
    async fn reading(seed: u64) -> CutOff {
        let rig = CellRig::greedy(seed, 3).await;
        let gateway = rig.gateways()[2].clone();
        // Of a new view: of the one before there are longer ones.
        rig.lend_for(Duration::from_secs(2));
        rig.write_to(&[1, 2, 3]).await;
        put_chunks(&rig.gateways()[0], "slow", &content(), CHUNK).await;
        rig.env.sleep(A_WHILE).await;
        let reader = open(&gateway).await;
        assert!(read_all(&*reader, CHUNKS * CHUNK).await == content());
        let nearest = |chunk: &ChunkRef| gateway.inner.targets.nearest(&chunk.places)[0];
        let stood = chunks_of(&gateway).await.into_iter().map(|chunk| (chunk, nearest(&chunk))).collect();
        CutOff { rig, gateway, reader, stood }
    }

    /// The cell goes on without it, until another chunk stands in the place of one of its first chunks; which one.
    async fn goes_on_without(&self, of_first: usize) -> usize {
        self.rig.cut(self.gateway.clone());
        self.rig.env.sleep(Duration::from_secs(3)).await;
        self.rig.remove(&[2]).await;
        let leader = &self.rig.gateways()[0];
        leader.inner.background.stop().await;
        let chunk = fill_places_anew(leader, &self.stood[..of_first]).await;
        let (named, place) = &self.stood[chunk];
        let frame_bytes = crate::read::chunk_frame_bytes(named.payload_bytes);
        let frame = leader.inner.targets.read(place, frame_bytes).await.unwrap();
        assert!(frame.payload.len() == CHUNK && frame.payload[0] != chunk as u8, "otherwise this tests nothing");
        chunk
    }
}

/// A client goes on at a gateway that was cut off, and is no member any more: nobody waits for its reader. Caught: chunks that leave without a look at the lease
/// after they were read. They were others of the same object, of the same length.
#[test]
fn a_reader_of_a_removed_gateway_reads_no_other_chunks() {
    for knows_it in [false, true] {
        simulate(async {
            let cut_off = CutOff::reading(191).await;
            let chunk = cut_off.goes_on_without(CHUNKS).await;
            if knows_it {
                cut_off.gateway.depose();
            }
            let range = range_of(chunk);
            for range in [range.clone(), range.start + 5..range.end - 5] {
                let read = cut_off.reader.read(range).await;
                assert!(is_unavailable(&read), "chunk {chunk}: {:?}", read.map(|bytes| bytes[0]));
            }
        });
    }
}

/// The same of reads that are on their way to a device meanwhile. Caught: a look at the lease before the read alone.
#[test]
fn a_read_that_ends_after_its_gateway_was_removed_gives_no_other_chunk() {
    for range in [range_of(0), 5..100] {
        simulate(async {
            let cut_off = CutOff::reading(195).await;
            let hold = |is_held| cut_off.rig.gates.hold_reads(&cut_off.gateway, cut_off.stood[0].1.device, is_held);
            hold(true);
            let (read, ()) = tokio::join!(cut_off.reader.read(range), async {
                cut_off.goes_on_without(1).await;
                hold(false);
            });
            assert!(is_unavailable(&read), "{:?}", read.map(|bytes| bytes[0]));
        });
    }
}

/// The manager is away for a moment. Caught: a reader that ends with the lease.
#[test]
fn a_reader_goes_on_when_its_lease_comes_back() {
    simulate(async {
        let rig = CellRig::new(192, 3).await;
        let gateway = rig.gateways()[2].clone();
        rig.lend_for(Duration::from_secs(2));
        rig.write_to(&[1, 2, 3]).await;
        put_chunks(&gateway, "slow", &content(), CHUNK).await;
        let reader = open(&gateway).await;
        assert_eq!(reader.read(range_of(0)).await.unwrap()[0], 0);
        rig.lend_for(Duration::ZERO);
        rig.env.sleep(Duration::from_secs(3)).await;
        let began = rig.env.now();
        let (read, ()) = tokio::join!(reader.read(range_of(1)), async {
            rig.env.sleep(Duration::from_secs(3)).await;
            rig.lend_for(Duration::from_secs(2));
        });
        assert!(read.unwrap() == content()[CHUNK..2 * CHUNK]);
        assert!(rig.env.now() - began >= Duration::from_secs(3), "it waits for the lease");
        // Longer than anybody waits.
        rig.lend_for(Duration::ZERO);
        rig.env.sleep(Duration::from_secs(3)).await;
        let read = reader.read(range_of(2)).await;
        assert!(is_unavailable(&read), "{:?}", read.map(|bytes| bytes[0]));
        rig.lend_for(Duration::from_secs(2));
        assert!(read_all(&*reader, CHUNKS * CHUNK).await == content());
    });
}

/// A view comes, and its lease does not at once. Caught: a reader that waits for a lease of the view that is installed while the one of the view before runs.
#[test]
fn a_reader_does_not_wait_for_the_lease_of_a_new_view() {
    simulate(async {
        let rig = CellRig::new(193, 3).await;
        let gateways = rig.gateways();
        put_chunks(&gateways[2], "slow", &content(), CHUNK).await;
        let reader = open(&gateways[2]).await;
        rig.lend_for(Duration::ZERO);
        rig.write_to(&[1, 2, 3]).await;
        let began = rig.env.now();
        assert!(read_all(&*reader, CHUNKS * CHUNK).await == content());
        assert!(rig.env.now() - began < A_WHILE);
    });
}

/// A descriptor over the nodes of another object, as where theirs stand in the places of this one's. Caught: lists that are followed whoever's they are.
#[test]
fn nodes_of_another_object_are_not_followed() {
    simulate(async {
        let mut rig = Rig::new(194, 1, 40, 128 * 1024).await;
        rig.config.refs_per_list = 3;
        let store = rig.open().await;
        for name in ["slow", "other"] {
            put_chunks(&store, name, &[7; 5000], 1000).await;
        }
        let frame = async |name: &str| store.inner.read_copies(&newest(&store, name)).await.unwrap().expect("it stands");
        let reader = async |names: [&str; 2]| {
            let [mut own, other] = [frame(names[0]).await, frame(names[1]).await];
            assert_eq!([own.record.tree_height, other.record.tree_height], [2; 2]);
            own.payload = other.payload;
            let owner: KeyHash = own.record.hash;
            LargeReader::new(&store.inner, key(names[0]), Default::default(), &own, store.inner.pins.pin_of(owner)).unwrap()
        };
        assert_eq!(reader(["slow", "slow"]).await.read(0..1000).await.unwrap(), [7; 1000][..]);
        let other = frame("other").await;
        let first = read_tree(&store.inner, &other.payload, other.record.tree_height).await.unwrap().nodes[0];
        for range in [0..1000, 4000..5000] {
            let read = reader(["slow", "other"]).await.read(range).await;
            let Err(EngineError::Corrupt { detail }) = read else { panic!("{read:?}") };
            assert_eq!(detail, format!("a chunk of another object stands at {:?}", first.places.primary()));
        }
    });
}
