//! A journal on a device of its own: order, reads, bounds, starts.

use std::sync::Arc;

use device::{Device, DeviceConfig, Volume};
use disk::{AlignedBuf, BLOCK_BYTES, CompletionOrder, SimDisk, SimOptions};
use env::Env;
use futures_util::future::join_all;

use super::Journal;
use crate::blocks::Way;
use crate::limits::{JournalShape, LOGICAL_UNIT_BYTES, Shape};
use crate::members::Region;
use crate::store::test_support::{OWNER, SMALL_WITH_JOURNAL, format_options};

const PART: u16 = 1;
const BLOCK: u64 = BLOCK_BYTES as u64;
const SHAPE: Shape = Shape { journal: JournalShape { from_writes: 1, ..SMALL_WITH_JOURNAL.journal }, ..SMALL_WITH_JOURNAL };

struct Bench {
    env: Env,
    disk: SimDisk,
    _device: Device,
    journal: Arc<Journal>,
    volume: Volume,
}

async fn open(env: Env, disk: SimDisk) -> Bench {
    let config = DeviceConfig { prewrite_zones: 0, ..DeviceConfig::default() };
    let device = Device::open(Arc::new(disk.clone()), &env, config).await.expect("the device opens");
    let home = device.volume(OWNER);
    let found = Region::find(&env, &home, SHAPE).await.expect("is read");
    let opened = match found {
        Some(opened) => opened,
        None => Region::make(&env, &home, SHAPE).await.expect("is made"),
    };
    let volume = home.part(PART);
    volume.reserve(0, LOGICAL_UNIT_BYTES).await.expect("has space");
    Bench { env, disk, _device: device, journal: opened.journal.expect("it has a journal"), volume }
}

impl Bench {
    async fn new(seed: u64) -> Bench {
        let env = Env::simulated(seed);
        let disk = SimDisk::new(&env, SimOptions { seed, ..SimOptions::default() });
        Device::format(&disk, &env, &format_options(0, 40)).await.expect("formats");
        open(env, disk).await
    }

    /// The power goes.
    async fn crash(self) -> Bench {
        let (env, disk) = (self.env.clone(), self.disk.crash());
        env.simulation().expect("it is simulated").process().end();
        disk.set_order(CompletionOrder::Inline);
        drop(self);
        open(Env::simulated(99), disk).await
    }

    async fn write(&self, block: u64, byte: u8, count: usize) {
        let bytes = AlignedBuf::copy_of(&vec![byte; count * BLOCK_BYTES]);
        self.journal.write(&self.volume, PART, block * BLOCK, bytes).await.expect("writes");
    }

    /// The first byte of each of so many blocks.
    async fn read(&self, block: u64, count: usize) -> Vec<u8> {
        let read = self.journal.read(&self.volume, PART, block * BLOCK, count * BLOCK_BYTES, Way::Cached).await;
        read.expect("reads").iter().step_by(BLOCK_BYTES).copied().collect()
    }

    /// The same, past the journal.
    async fn in_place(&self, block: u64, count: usize) -> Vec<u8> {
        let read = self.volume.read(block * BLOCK, count * BLOCK_BYTES).await.expect("reads");
        read.iter().step_by(BLOCK_BYTES).copied().collect()
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_journaled_is_read_and_comes_to_its_place() {
    let bench = Bench::new(1).await;
    join_all([(3, 1), (4, 2), (9, 3)].map(|(block, byte)| bench.write(block, byte, 1))).await;
    assert_eq!(bench.journal.counts(), (3, 0));
    assert_eq!(bench.read(2, 4).await, [0, 1, 2, 0], "parts of a range come from memory");
    assert_eq!(bench.in_place(3, 2).await, [0, 0]);
    let bench = bench.crash().await;
    assert_eq!((bench.read(3, 2).await, bench.read(9, 1).await), (vec![1, 2], vec![3]), "a start reads it from the journal");
    bench.journal.empty().await.expect("it goes to its place");
    assert_eq!((bench.in_place(3, 2).await, bench.in_place(9, 1).await), (vec![1, 2], vec![3]));
    assert_eq!(bench.journal.counts().1, 2, "neighbours go together");
    let bench = bench.crash().await;
    assert_eq!(bench.read(3, 2).await, [1, 2]);
}

/// Of two writes of a block the later one stays, whichever way each of them went, and wherever the power goes.
#[tokio::test(start_paused = true)]
async fn writes_of_a_block_keep_their_order() {
    const LARGE: usize = 8;
    for (first, second) in [(1, 1), (1, LARGE), (LARGE, 1)] {
        let mut cut = 0;
        loop {
            let bench = Bench::new(2).await;
            drop(bench.env.spawn({
                let journal = bench.journal.clone();
                async move { drop(journal.run().await) }
            }));
            bench.write(4, 1, first).await;
            let before = bench.disk.mutations();
            bench.disk.power_cut_after(cut);
            let rewrite = async {
                let bytes = AlignedBuf::copy_of(&vec![2; second * BLOCK_BYTES]);
                bench.journal.write(&bench.volume, PART, 4 * BLOCK, bytes).await.is_ok()
            };
            let is_answered = tokio::time::timeout(std::time::Duration::from_secs(5), rewrite).await == Ok(true);
            let is_whole = !bench.disk.power_is_cut() && bench.disk.mutations() - before <= cut;
            let bench = bench.crash().await;
            let found = bench.read(4, 1).await[0];
            assert!(found == 2 || (found == 1 && !is_answered), "{first} and {second} blocks, cut {cut}: {found}");
            bench.journal.empty().await.expect("what is there goes to its place");
            assert_eq!(bench.in_place(4, 1).await, [found]);
            if is_whole {
                break;
            }
            cut += 1;
        }
        assert!(cut > 0, "nothing was cut");
    }
}

/// Nothing brings the bytes to their places here: beyond the journal's bounds writes go there themselves.
#[tokio::test(start_paused = true)]
async fn a_journal_does_not_fill_up() {
    let bench = Bench::new(3).await;
    for block in 0..200 {
        bench.write(block, block as u8, 1).await;
    }
    let (journaled, _) = bench.journal.counts();
    assert!((20..200).contains(&journaled), "{journaled} of 200 were journaled");
    let bench = bench.crash().await;
    let expected: Vec<u8> = (0..200).map(|block| block as u8).collect();
    assert_eq!(bench.read(0, 200).await, expected);
}

/// What was given back has other bytes by then, or none: it is left alone.
#[tokio::test(start_paused = true)]
async fn space_that_was_given_back_is_not_written() {
    let bench = Bench::new(4).await;
    bench.write(1, 7, 1).await;
    for unit in bench.volume.units() {
        bench.volume.give_back(unit).await.expect("is given back");
    }
    bench.journal.empty().await.expect("that is no error");
    assert!(bench.volume.units().is_empty());
}
