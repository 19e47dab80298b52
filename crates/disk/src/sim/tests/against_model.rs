//! The simulated disk beside a model that keeps, for each sector, every version that a power cut may leave there.

use proptest::prelude::*;

use super::{BLOCK, disk_with, filled};
use crate::{BLOCK_BYTES, CompletionOrder, Disk, Durability, Request, SECTOR_BYTES, SimDisk};

const BLOCKS: u64 = 6;
const SECTORS: usize = BLOCKS as usize * BLOCK_BYTES / SECTOR_BYTES;

#[derive(Clone, Debug)]
enum Step {
    Write { block: u64, count: u64, durable: bool },
    Flush,
    Read { offset: u64, len: usize },
    Crash,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let write = (0..BLOCKS, 1..=3u64, any::<bool>()).prop_map(|(block, count, durable)| Step::Write {
        block,
        count: count.min(BLOCKS - block),
        durable,
    });
    let read = (0..BLOCKS * BLOCK, 1..9_000usize)
        .prop_map(|(offset, len)| Step::Read { offset, len: len.min((BLOCKS * BLOCK - offset) as usize) });
    prop_oneof![8 => write, 2 => Just(Step::Flush), 4 => read, 1 => Just(Step::Crash), 1 => Just(Step::Restart)]
}

/// Versions of each sector, oldest first: the durable one, then those that only the cache is sure to have.
struct Model {
    sectors: Vec<Vec<u8>>,
}

impl Model {
    fn new() -> Model {
        Model { sectors: vec![vec![0]; SECTORS] }
    }

    fn write(&mut self, block: u64, count: u64, byte: u8, durable: bool) {
        let per_block = BLOCK_BYTES / SECTOR_BYTES;
        for versions in &mut self.sectors[block as usize * per_block..(block + count) as usize * per_block] {
            if durable {
                versions.clear();
            }
            versions.push(byte);
        }
    }

    fn newest(&self, place: u64) -> u8 {
        *self.sectors[place as usize / SECTOR_BYTES].last().expect("a version")
    }

    fn flush(&mut self) {
        for versions in &mut self.sectors {
            versions.drain(..versions.len() - 1);
        }
    }

    /// Takes over what a crash left, if each sector is whole and one of its versions.
    fn adopt(&mut self, survivor: &SimDisk) -> Result<(), TestCaseError> {
        let bytes = survivor.peek(0, SECTORS * SECTOR_BYTES);
        for (index, (versions, sector)) in self.sectors.iter_mut().zip(bytes.chunks(SECTOR_BYTES)).enumerate() {
            let byte = sector[0];
            prop_assert!(sector.iter().all(|found| *found == byte), "sector {} is mixed", index);
            prop_assert!(versions.contains(&byte), "sector {}: {} is none of {:?}", index, byte, versions);
            *versions = vec![byte];
        }
        Ok(())
    }
}

fn submit(disk: &SimDisk, request: Request) {
    disk.submit(request, Box::new(|completion| completion.result.expect("no faults")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        if std::env::var_os("TRILITH_SOAK").is_some() { 20_000 } else { 300 }
    ))]

    #[test]
    fn behaves_like_the_model(seed in any::<u64>(), steps in proptest::collection::vec(step(), 1..60)) {
        let mut disk = disk_with(seed, CompletionOrder::Inline);
        let mut model = Model::new();
        let mut byte = 0u8;
        for step in steps {
            match step {
                Step::Write { block, count, durable } => {
                    byte = byte % 250 + 1;
                    let mut buf = filled(byte);
                    while buf.len() < count as usize * BLOCK_BYTES {
                        buf.extend_from_slice(&[byte; BLOCK_BYTES]);
                    }
                    let durability = if durable { Durability::Durable } else { Durability::Volatile };
                    submit(&disk, Request::Write { offset: block * BLOCK, buf, durability });
                    model.write(block, count, byte, durable);
                }
                Step::Flush => {
                    submit(&disk, Request::Flush);
                    model.flush();
                }
                Step::Read { offset, len } => {
                    let mut buf = vec![0xFF; len];
                    prop_assert!(disk.try_read_cached(offset, &mut buf).expect("no faults"));
                    for (place, found) in (offset..).zip(&buf) {
                        prop_assert_eq!(*found, model.newest(place), "at {}", place);
                    }
                }
                Step::Crash => {
                    disk = disk.crash();
                    model.adopt(&disk)?;
                }
                Step::Restart => disk = disk.restart(),
            }
        }
    }

    /// Whatever order requests in flight take, those that were answered durably before a cut survive it.
    #[test]
    fn in_any_order_what_was_answered_is_durable(seed in any::<u64>(), steps_before_cut in 0..24usize) {
        let disk = disk_with(seed, CompletionOrder::Stepped);
        let answered = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
        for block in 0..24u64 {
            let request = Request::Write { offset: block * BLOCK, buf: filled(9), durability: Durability::Durable };
            let answered = answered.clone();
            disk.submit(request, Box::new(move |completion| {
                completion.result.expect("no faults");
                answered.lock().push(block);
            }));
        }
        for _ in 0..steps_before_cut {
            prop_assert!(disk.step());
        }
        let survivor = disk.crash();
        prop_assert!(!disk.step());
        prop_assert_eq!(answered.lock().len(), steps_before_cut);
        for block in answered.lock().iter() {
            prop_assert_eq!(survivor.peek(block * BLOCK, BLOCK_BYTES), [9; BLOCK_BYTES]);
        }
    }
}
