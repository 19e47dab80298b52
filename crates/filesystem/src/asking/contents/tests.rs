use std::collections::BTreeSet;

use super::*;
use crate::client::{Client, New, OpenFlags, Owner, WriteAt};
use crate::data::memory::MemoryPartition;
use crate::ids::Ino;
use crate::meta::Kind;
use crate::meta::local::LocalPartition;

const ROOM: u64 = 1 << 20;
const CREATES: usize = 60;

/// Partitions 1 and on, in memory.
#[derive(Clone)]
struct Several(Vec<Arc<MemoryPartition>>);

impl Several {
    fn new(count: u32) -> Several {
        Several((1..=count).map(|number| Arc::new(MemoryPartition::numbered(number, ROOM))).collect())
    }

    fn get(&self, number: u32) -> &MemoryPartition {
        &self.0[number as usize - 1]
    }
}

impl Partitions for Several {
    fn numbers(&self) -> Vec<u32> {
        (1..=self.0.len() as u32).collect()
    }

    fn open(&self, number: u32) -> Arc<dyn Partition> {
        self.0[number as usize - 1].clone()
    }
}

/// The partitions in which so many new extents are.
async fn taken(contents: &VolumeContents<Several>) -> BTreeSet<u32> {
    let mut taken = BTreeSet::new();
    for _ in 0..CREATES {
        taken.insert(contents.create(Bytes::new()).await.expect("an extent").partition);
    }
    taken
}

#[tokio::test(start_paused = true)]
async fn new_extents_are_spread_over_the_partitions_that_take_them() {
    let (env, several) = (Env::simulated(1), Several::new(3));
    let contents = VolumeContents::new(&env, several.clone());
    assert_eq!(taken(&contents).await, BTreeSet::from([1, 2, 3]));
    several.get(2).set_open(false);
    assert_eq!(taken(&contents).await, BTreeSet::from([1, 3]), "one is beyond its thresholds");
    several.0.iter().for_each(|partition| partition.set_open(false));
    assert_eq!(taken(&contents).await, BTreeSet::from([1, 2, 3]), "what is closed takes extents as long as there is room");
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_full_or_away_is_avoided_for_a_while() {
    for failure in [DataError::Full, DataError::Unavailable("away".to_owned())] {
        let (env, several) = (Env::simulated(1), Several::new(2));
        let contents = VolumeContents::new(&env, several.clone());
        several.get(1).fail(Some(failure.clone()));
        assert_eq!(taken(&contents).await, BTreeSet::from([2]));
        env.sleep(3 * AVOIDED).await;
        assert_eq!(taken(&contents).await, BTreeSet::from([2]), "it does not answer");
        several.get(1).fail(None);
        assert_eq!(taken(&contents).await, BTreeSet::from([2]), "it is not known yet that it would");
        env.sleep(2 * AVOIDED).await;
        assert_eq!(taken(&contents).await, BTreeSet::from([1, 2]));
        several.0.iter().for_each(|partition| partition.fail(Some(failure.clone())));
        assert_eq!(contents.create(Bytes::new()).await, Err(failure), "there is no other one");
    }
    let none = VolumeContents::new(&Env::simulated(1), Several::new(0));
    assert!(matches!(none.create(Bytes::new()).await, Err(DataError::Unavailable(_))));
}

#[tokio::test(start_paused = true)]
async fn a_write_goes_on_in_another_partition() {
    const BEGUN: &[u8] = b"in one partition, ";
    const GOES_ON: &[u8] = b"in another";
    for failure in [DataError::Full, DataError::Unavailable("away".to_owned())] {
        let (env, several) = (Env::simulated(1), Several::new(3));
        let contents = Arc::new(VolumeContents::new(&env, several.clone()));
        let meta = Arc::new(LocalPartition::default());
        let client = Client::connect(meta, contents, env).await.expect("a client");
        let file = New { kind: Kind::File, mode: 0o644, umask: 0, rdev: 0, owner: Owner { uid: 0, gid: 0 } };
        let (entry, _) = client.create(Ino::ROOT, b"f", file, OpenFlags::default()).await.expect("a file");
        let ino = entry.0.ino;
        let append = WriteAt { append: true, ..WriteAt::default() };
        client.write(ino, append, Bytes::from_static(BEGUN)).await.expect("a write");
        let first = several.0.iter().find(|partition| !partition.extents().is_empty()).expect("it has the file");
        first.fail(Some(failure));
        client.write(ino, append, Bytes::from_static(GOES_ON)).await.expect("the others take it");
        first.fail(None);
        assert_eq!(client.read(ino, 0, 100).await.expect("content"), [BEGUN, GOES_ON].concat());
        let used = several.0.iter().filter(|partition| !partition.extents().is_empty()).count();
        assert_eq!(used, 2, "what the first has stays there");
        let state = client.statfs().await.expect("the sum of all");
        assert_eq!((state.total_bytes, state.total_bytes - state.free_bytes), (3 * ROOM, 2 * crate::ids::BLOCK_BYTES));
        several.0.iter().for_each(|partition| partition.fail(Some(DataError::Full)));
        assert_eq!(client.write(ino, append, Bytes::from_static(GOES_ON)).await, Err(DataError::Full.into()));
    }
}
