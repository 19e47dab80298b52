//! Opening a log of `wal` whose segments were damaged in every way that the input says.
//!
//! The input is a list of edits: bytes overwritten, blocks copied to where they do not belong, headers of segments and frames whose
//! fields were changed and that were then sealed again. Whatever they are, the log opens or says why it does not. As long as
//! nothing was sealed again, the records that come back are those that were appended, from the first on, and no frame that is
//! whole is left out. A log that opened takes records, and all of them come back.
#![no_main]

use std::sync::{Arc, OnceLock};

use arbitrary::Arbitrary;
use crc_fast::{CrcAlgorithm, Digest};
use disk::{AlignedBuf, BLOCK_BYTES, DiskExt, Durability, SimDisk, SimOptions};
use env::Env;
use libfuzzer_sys::{arbitrary, fuzz_target};
use wal::{Lsn, MIN_SEGMENT_BYTES, OpenError, OpenOptions, RegionStore, Wal};

const SEGMENT_BYTES: usize = MIN_SEGMENT_BYTES as usize;
const SEGMENTS: usize = 4;
const LOG_BYTES: usize = SEGMENTS * SEGMENT_BYTES;
/// Lengths of the records before the damage, each in a frame of its own: two segments and a half.
const RECORDS: [usize; 7] = [100, 4000, 0, 5000, 1, 4048, 300];
const FRAME_HEADER_BYTES: usize = 40;

#[derive(Arbitrary, Debug)]
enum Edit {
    Overwrite {
        at: u16,
        bytes: Vec<u8>,
    },
    CopyBlock {
        from: u8,
        to: u8,
    },
    /// Eight bytes of a segment's header.
    SealSegment {
        segment: u8,
        at: u8,
        value: u64,
    },
    /// Four bytes of a frame's header, and all that follows it up to the end of its block.
    SealFrame {
        block: u8,
        at: u8,
        value: u32,
        records: Vec<Vec<u8>>,
    },
}

type Records = Vec<Vec<u8>>;

/// The log before the damage; made once.
struct Sound {
    image: Vec<u8>,
    records: Records,
    /// Blocks of each frame, in the order of the records.
    frames: Vec<Vec<usize>>,
}

static SOUND: OnceLock<Sound> = OnceLock::new();

fuzz_target!(|edits: Vec<Edit>| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime without I/O");
    let sound = SOUND.get_or_init(|| runtime.block_on(make()));
    let mut image = sound.image.clone();
    let mut is_sealed = false;
    for edit in &edits {
        is_sealed |= apply(edit, &mut image);
    }
    runtime.block_on(run(sound, &image, is_sealed));
});

async fn run(sound: &Sound, image: &[u8], is_sealed: bool) {
    let env = Env::simulated(1);
    let disk = new_disk(&env);
    disk.write(0, AlignedBuf::copy_of(image), Durability::Durable).await.expect("the simulated disk writes");
    let Ok((wal, mut records)) = open(&env, &disk).await else {
        assert!(*image != sound.image, "a sound log is refused");
        return;
    };
    if !is_sealed {
        assert!(sound.records.starts_with(&records), "records that nobody appended, or not in their order");
        for (number, blocks) in sound.frames.iter().enumerate().skip(records.len()) {
            let is_whole = blocks.iter().all(|block| block_of(image, *block) == block_of(&sound.image, *block));
            assert!(!is_whole, "record {number} is whole and was dropped silently");
        }
    }
    // As many as find room; the rest has to wait until the owner gives records up.
    for payload in [vec![0xA5; 10], vec![0x5A; 5000], Vec::new()] {
        if wal.append(payload.clone()).await.is_ok() {
            records.push(payload);
        } else {
            break;
        }
    }
    drop(wal);
    let (_, again) = open(&env, &disk).await.expect("a log that was written to can be read");
    assert!(again == records, "{} records were in the log, {} come back", records.len(), again.len());
}

fn new_disk(env: &Env) -> SimDisk {
    let size_bytes = LOG_BYTES as u64;
    SimDisk::new(env, SimOptions { size_bytes, capacity_bytes: Some(size_bytes), ..SimOptions::default() })
}

async fn open(env: &Env, disk: &SimDisk) -> Result<(Wal, Records), OpenError> {
    let store = Arc::new(RegionStore::new(Arc::new(disk.clone()), 0, MIN_SEGMENT_BYTES, SEGMENTS));
    let mut records = Records::new();
    let mut next = Lsn::FIRST;
    let mut replay = |lsn: Lsn, payload: &[u8]| {
        assert_eq!(lsn, next, "records are consecutive");
        next = next.next();
        records.push(payload.to_vec());
    };
    let wal = Wal::open(env, store, OpenOptions::default(), &mut replay).await?;
    Ok((wal, records))
}

/// Appends the records, each with a write of its own.
async fn make() -> Sound {
    let env = Env::simulated(1);
    let disk = new_disk(&env);
    let (wal, _) = open(&env, &disk).await.expect("a new log");
    let (mut records, mut frames) = (Records::new(), Vec::new());
    let mut before = disk.peek(0, LOG_BYTES);
    for (number, len) in RECORDS.into_iter().enumerate() {
        let payload = vec![number as u8 + 1; len];
        wal.append(payload.clone()).await.expect("appends");
        records.push(payload);
        let image = disk.peek(0, LOG_BYTES);
        let changed = (0..LOG_BYTES / BLOCK_BYTES).filter(|block| block_of(&image, *block) != block_of(&before, *block));
        // Without the header of a segment that begins with this record.
        frames.push(changed.filter(|block| block % (SEGMENT_BYTES / BLOCK_BYTES) != 0).collect());
        before = image;
    }
    Sound { image: before, records, frames }
}

fn block_of(image: &[u8], block: usize) -> &[u8] {
    &image[block * BLOCK_BYTES..][..BLOCK_BYTES]
}

/// Does what the edit says; true if something was sealed.
fn apply(edit: &Edit, image: &mut [u8]) -> bool {
    match edit {
        Edit::Overwrite { at, bytes } => {
            let at = usize::from(*at) % LOG_BYTES;
            let len = bytes.len().min(LOG_BYTES - at);
            image[at..at + len].copy_from_slice(&bytes[..len]);
            false
        }
        Edit::CopyBlock { from, to } => {
            let [from, to] = [from, to].map(|block| usize::from(*block) % (LOG_BYTES / BLOCK_BYTES) * BLOCK_BYTES);
            image.copy_within(from..from + BLOCK_BYTES, to);
            false
        }
        Edit::SealSegment { segment, at, value } => {
            let block = &mut image[usize::from(*segment) % SEGMENTS * SEGMENT_BYTES..][..BLOCK_BYTES];
            // Fields behind the checksum; the log's id too.
            let at = 16 + usize::from(*at) % 5 * 8;
            block[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
            digest.update(&block[..12]);
            digest.update(&block[16..]);
            block[12..16].copy_from_slice(&(digest.finalize() as u32).to_le_bytes());
            true
        }
        Edit::SealFrame { block, at, value, records } => {
            seal_frame(image, usize::from(*block) % (LOG_BYTES / BLOCK_BYTES), (*at, *value), records);
            true
        }
    }
}

/// Puts records into a frame at this block, changes a field of its header, and seals records and header for this place.
fn seal_frame(image: &mut [u8], block: usize, (at, value): (u8, u32), records: &[Vec<u8>]) {
    let segment = block * BLOCK_BYTES / SEGMENT_BYTES * SEGMENT_BYTES;
    let offset = block * BLOCK_BYTES - segment;
    let seed = [&image[segment + 16..segment + 40], &(offset as u64).to_le_bytes()[..]].concat();
    let digest = |parts: &[&[u8]]| {
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        digest.update(&seed);
        parts.iter().for_each(|part| digest.update(part));
        (digest.finalize() as u32).to_le_bytes()
    };
    let frame = &mut image[segment + offset..segment + SEGMENT_BYTES];
    frame[..4].copy_from_slice(b"WFRM");
    let at = 8 + usize::from(at) % 8 * 4;
    frame[at..at + 4].copy_from_slice(&value.to_le_bytes());
    let first_lsn = u64::from_le_bytes(frame[16..24].try_into().expect("eight bytes"));
    let mut end = FRAME_HEADER_BYTES;
    for (number, payload) in records.iter().enumerate() {
        let lsn = first_lsn.wrapping_add(number as u64).to_le_bytes();
        let length = (payload.len() as u32).to_le_bytes();
        let record = [&length[..], &digest(&[&lsn, &length, payload]), payload].concat();
        let Some(room) = frame.get_mut(end..end + record.len()) else { break };
        room.copy_from_slice(&record);
        end += record.len();
    }
    let header = digest(&[&frame[..4], &frame[8..FRAME_HEADER_BYTES]]);
    frame[4..8].copy_from_slice(&header);
}
