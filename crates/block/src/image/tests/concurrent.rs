//! Many requests at once: a read returns an acknowledged write or one under way, never an older one.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use types::BLOB_BYTES;

use crate::image::twin::Trouble;
use crate::image::twin::world::{FIRST, World, read};
use crate::image::{Image, ImageErrorKind};

const SECTOR: u64 = 512;

/// One write or read of a sector, in the order in which it began and ended.
#[derive(Clone, Copy, Debug)]
struct Event {
    began: u64,
    /// `u64::MAX`: it has not ended, or failed.
    ended: u64,
    /// Which write it was, or which it saw; 0: none.
    stamp: u64,
}

#[derive(Default)]
struct History {
    clock: u64,
    writes: Vec<Vec<Event>>,
    reads: Vec<Vec<Event>>,
}

impl History {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

fn stamped(stamp: u64, length: u64) -> Bytes {
    let mut bytes = BytesMut::new();
    while (bytes.len() as u64) < length {
        bytes.extend_from_slice(&stamp.to_le_bytes());
    }
    bytes.freeze()
}

fn stamp_of(sector: &[u8]) -> u64 {
    let stamp = u64::from_le_bytes(sector[..8].try_into().unwrap());
    assert!(sector.chunks(8).all(|chunk| chunk == stamp.to_le_bytes()), "a sector is of one write");
    stamp
}

async fn work(image: Arc<Image>, world: Arc<World>, history: Arc<Mutex<History>>, base: u64, sectors: u64, rounds: u64) {
    let env = &world.outside.env;
    for _ in 0..rounds {
        let first = env.random_below(sectors);
        let count = 1 + env.random_below((sectors - first).min(24));
        let (offset, length) = (base + first * SECTOR, count * SECTOR);
        let range = first as usize..(first + count) as usize;
        if env.random_below(2) == 0 {
            let began = history.lock().tick();
            let stamp = began;
            let at = {
                let mut history = history.lock();
                history.writes[range.clone()].iter_mut().for_each(|list| list.push(Event { began, ended: u64::MAX, stamp }));
                range.clone()
            };
            match image.write(offset, stamped(stamp, length)).await {
                Ok(()) => {
                    let mut history = history.lock();
                    let ended = history.tick();
                    for list in &mut history.writes[at] {
                        list.iter_mut().find(|event| event.stamp == stamp).unwrap().ended = ended;
                    }
                }
                Err(error) => assert_eq!(error.kind, ImageErrorKind::Io),
            }
        } else {
            let began = history.lock().tick();
            let bytes = read(&image, offset, length as u32).await;
            let mut history = history.lock();
            let ended = history.tick();
            for (sector, bytes) in range.zip(bytes.chunks(SECTOR as usize)) {
                history.reads[sector].push(Event { began, ended, stamp: stamp_of(bytes) });
            }
        }
        env.sleep(Duration::from_millis(env.random_below(4))).await;
    }
}

/// Whether the reads of a sector can be explained.
fn check(writes: &[Event], reads: &[Event]) {
    let written = |stamp: u64| match stamp {
        0 => Event { began: 0, ended: 0, stamp: 0 },
        stamp => *writes.iter().find(|write| write.stamp == stamp).expect("what was read was written"),
    };
    for read in reads {
        let seen = written(read.stamp);
        assert!(seen.began < read.ended, "{read:?} saw {seen:?} before it began");
        let newer = writes.iter().find(|other| other.began > seen.ended && other.ended < read.began);
        assert!(newer.is_none(), "{read:?} saw {seen:?}, which {newer:?} had replaced");
        let earlier = reads.iter().filter(|earlier| earlier.ended < read.began);
        for earlier in earlier {
            let before = written(earlier.stamp);
            assert!(seen.ended >= before.began, "{read:?} saw {seen:?}, after {earlier:?} had seen {before:?}");
        }
    }
}

async fn run(seed: u64, troubles: &[Trouble]) {
    let world = Arc::new(World::new(seed, 2 * u64::from(BLOB_BYTES), 100));
    let image = Arc::new(world.open(FIRST).await.unwrap());
    world.stores.set_delay_ms(6);
    if !troubles.is_empty() {
        world.stores.trouble_at_random(12, troubles);
    }
    // Across the border of two parts, and of pieces.
    let (base, sectors) = (u64::from(BLOB_BYTES) - 32 * SECTOR, 64);
    let history = Arc::new(Mutex::new(History::default()));
    {
        let mut history = history.lock();
        history.writes = vec![Vec::new(); sectors as usize];
        history.reads = vec![Vec::new(); sectors as usize];
    }
    let start = |_| tokio::spawn(work(image.clone(), world.clone(), history.clone(), base, sectors, 40));
    let workers: Vec<_> = (0..8).map(start).collect();
    let snapshots = async {
        for name in ["a", "b", "c"] {
            world.outside.env.sleep(Duration::from_millis(20)).await;
            image.snapshot(name).await.unwrap();
        }
        for name in ["b", "a", "c"] {
            world.outside.env.sleep(Duration::from_millis(10)).await;
            match image.remove_snapshot(name).await {
                Ok(()) => {}
                Err(error) => assert_eq!(error.kind, ImageErrorKind::Io),
            }
        }
    };
    snapshots.await;
    for worker in workers {
        worker.await.unwrap();
    }
    world.stores.trouble_at_random(0, &[]);
    {
        let history = history.lock();
        for (writes, reads) in history.writes.iter().zip(&history.reads) {
            check(writes, reads);
        }
        assert!(history.reads.iter().map(Vec::len).sum::<usize>() > 500, "there was something to check");
    }
    image.tidy().await.unwrap();
    assert_eq!(image.usage().blocks, 2);
    assert_eq!(image.locks.entries(), 0);
}

#[tokio::test(start_paused = true)]
async fn reads_see_no_older_write() {
    for seed in 0..20 {
        run(seed, &[]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn reads_see_no_older_write_when_answers_are_lost() {
    for seed in 0..20 {
        run(seed, &[Trouble::Lost, Trouble::AnswerLost, Trouble::Late, Trouble::Forgets]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn reads_see_no_older_write_when_writes_fail() {
    for seed in 0..20 {
        run(seed, &[Trouble::Late, Trouble::Failed, Trouble::FailedLate, Trouble::AnswerLost]).await;
    }
}
