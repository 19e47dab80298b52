//! Seeded requests, with restarts, checkpoints and crashes between them: the same answers as of a partition in memory.

use bytes::Bytes;
use model::choice::{Choose, Seeded};

use super::support::{BLOCK, Rig, bytes};
use crate::data::memory::MemoryPartition;
use crate::data::{DataError, DataPartition, Extents};
use crate::ids::ExtentId;

const REQUESTS: u64 = 120;
const MOST_EXTENTS: usize = 6;

fn seeds() -> u64 {
    if std::env::var_os("TRILITH_SOAK").is_some() { 400 } else { 24 }
}

/// An extent in both, and its length.
struct Pair {
    stored: ExtentId,
    modelled: ExtentId,
    len: usize,
    /// Its last block was given back, so that it takes no more.
    is_closed: bool,
}

/// An error without its extent's id.
fn plain(error: DataError) -> String {
    let none = ExtentId { partition: 0, term: 0, number: 0 };
    let error = match error {
        DataError::NoExtent(_) => DataError::NoExtent(none),
        DataError::NotAtEnd { offset, len, .. } => DataError::NotAtEnd { extent: none, offset, len },
        DataError::Beyond { end, len, .. } => DataError::Beyond { extent: none, end, len },
        DataError::Punched { offset, .. } => DataError::Punched { extent: none, offset },
        DataError::Damaged { offset, .. } => DataError::Damaged { extent: none, offset },
        other => other,
    };
    error.to_string()
}

async fn run(seed: u64) {
    let mut rig = Rig::new(seed).await;
    let model = MemoryPartition::new(1 << 30);
    let mut seeded = Seeded::new(seed);
    let mut pairs: Vec<Pair> = Vec::new();
    for request in 0..REQUESTS {
        match seeded.below(24) {
            0 => rig = rig.restart().await,
            1 => rig = rig.crash().await,
            2 if !pairs.is_empty() => rig.checkpoint().await,
            3 => rig.maintain().await,
            4 | 5 if pairs.len() < MOST_EXTENTS => {
                let modelled = model.create(Bytes::new()).await.expect("creates");
                pairs.push(Pair { stored: rig.create().await, modelled, len: 0, is_closed: false });
            }
            _ if pairs.is_empty() => {}
            kind => {
                let index = seeded.below(pairs.len());
                let answers = ask(&mut seeded, kind, (&rig, &model), &mut pairs[index], request).await;
                let [stored, modelled] = answers.map(|answer| answer.map_err(plain));
                assert_eq!(stored, modelled, "seed {seed}, request {request}");
                if kind == 6 {
                    pairs.remove(index);
                }
            }
        }
    }
    for pair in &pairs {
        for offset in (0..pair.len).step_by(BLOCK) {
            let len = BLOCK.min(pair.len - offset);
            let stored = rig.read(pair.stored, offset, len).await.map_err(plain);
            let modelled = model.read(pair.modelled, offset as u64, len).await.map_err(plain);
            assert_eq!(stored, modelled, "seed {seed}, at {offset}");
        }
    }
    assert_eq!(rig.store.usage().extents, pairs.len() as u64);
}

/// The answers of the store and of the model; what is read, if it is a read.
async fn ask(
    seeded: &mut Seeded,
    kind: usize,
    (rig, model): (&Rig, &MemoryPartition),
    pair: &mut Pair,
    version: u64,
) -> [Result<Bytes, DataError>; 2] {
    let both: [(&dyn DataPartition, ExtentId); 2] = [(&*rig.store, pair.stored), (model, pair.modelled)];
    let size = if seeded.percent(10) { 2 << 20 } else { 3 * BLOCK };
    let (offset, len) = (seeded.below(pair.len + BLOCK), seeded.below(size));
    let is_refused = model.read(pair.modelled, offset as u64, len).await.is_err();
    let mut answers = Vec::new();
    for (partition, extent) in both {
        answers.push(match kind {
            6 => partition.remove(extent).await.map(|()| Bytes::new()),
            // The model may change a part of what it refuses.
            7..11 if is_refused && extent == pair.modelled => model.read(extent, offset as u64, len).await,
            7..11 => {
                let data = bytes(version, offset, len).into();
                partition.overwrite(extent, offset as u64, data).await.map(|()| Bytes::new())
            }
            11..14 => partition.punch(extent, offset as u64, len as u64).await.map(|()| Bytes::new()),
            14..20 if !pair.is_closed => {
                let data = bytes(version, pair.len, len).into();
                partition.append(extent, pair.len as u64, data).await.map(|()| Bytes::new())
            }
            _ => partition.read(extent, offset as u64, len).await,
        });
    }
    if (14..20).contains(&kind) && !pair.is_closed {
        pair.len += len;
    }
    if (11..14).contains(&kind) && offset + len >= pair.len && offset < pair.len {
        pair.is_closed = !pair.len.is_multiple_of(BLOCK);
    }
    answers.try_into().expect("two answers")
}

#[tokio::test(start_paused = true)]
async fn the_same_answers_as_of_a_partition_in_memory() {
    for seed in 0..seeds() {
        run(seed).await;
    }
}
