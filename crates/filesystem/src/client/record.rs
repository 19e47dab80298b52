//! The record of a client: what the next process needs, to go on with the session and with the calls under way.
//!
//! ```text
//!  0        8         16           24               32      40          48              560       4096
//! ┌────────┬─────────┬────────────┬────────────────┬───────┬───────────┬───────────────┬─ ─ ─ ─ ─┬────────┬────────┬─ ─
//! │ MAGIC  │ session │ generation │ reserved below │ trees │ exclusive │ locks lost, … │ unused  │ slot 0 │ slot 1 │
//! └────────┴─────────┴────────────┴────────────────┴───────┴───────────┴───────────────┴─ ─ ─ ─ ─┴────────┴────────┴─ ─
//!  a slot:  call | steps | sequence, kind | … at most 7 steps                128 bytes, all numbers little-endian
//! ```
//!
//! It lies in a file, which is memory where a mount has it. A process that is killed leaves each write of it whole or not begun. A slot of call 0 is free.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use manager::MAX_FILE_TREES;
use smallvec::SmallVec;

const MAGIC: [u8; 8] = *b"TRIMNT03";
/// Before the counts of the trees.
const FIXED_BYTES: usize = 48;
const HEADER_BYTES: usize = FIXED_BYTES + 8 * MAX_FILE_TREES;
const SLOTS_FROM: u64 = 4096;
const SLOT_BYTES: usize = 128;
const STEP_BYTES: usize = 16;

/// Commands of one call that are recorded: the last ones.
pub const MAX_STEPS: usize = 7;

/// Calls that are recorded at once: more than a mount has under way.
pub const MAX_SLOTS: u32 = 8192;

const _: () = assert!(2 * 8 + MAX_STEPS * STEP_BYTES == SLOT_BYTES && HEADER_BYTES as u64 <= SLOTS_FROM);

/// The commands of a call, in order.
pub type Steps = SmallVec<[Step; MAX_STEPS]>;

/// What holds for all calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub session: u64,
    /// Whether it keeps other sessions out.
    pub is_exclusive: bool,
    /// Counts the processes that had the session.
    pub generation: u64,
    /// No command has this sequence or a higher one.
    pub reserved_below: u64,
    /// Of each tree at which the session was begun: how often it has lost its locks there, before it lost some that a process of it held.
    pub locks_lost: Vec<u64>,
}

/// A command of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub sequence: u64,
    /// Which command of the call it is.
    pub kind: u64,
}

/// A call under way, and the commands that it has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub slot: u32,
    pub call: u64,
    pub steps: Steps,
}

/// Why the session of an earlier process does not go on.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("the record of the mount can't be read ({0}): mount the volume anew")]
    Read(#[from] io::Error),
    #[error("the record of the mount is none of this version: mount the volume anew")]
    Layout,
}

/// The record of one client.
#[derive(Debug)]
pub struct Record(File);

impl Record {
    /// Of a new session, in an empty file.
    pub fn begin(file: File, header: &Header) -> io::Result<Record> {
        let record = Record(file);
        record.write_header(header)?;
        Ok(record)
    }

    /// What an earlier process has left.
    pub fn open(file: File) -> Result<(Record, Header, Vec<Recorded>), RecordError> {
        let len = file.metadata()?.len().min(SLOTS_FROM + u64::from(MAX_SLOTS) * SLOT_BYTES as u64);
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let (header, calls) = decode(&bytes).ok_or(RecordError::Layout)?;
        Ok((Record(file), header, calls))
    }

    pub fn file(&self) -> &File {
        &self.0
    }

    pub fn write_header(&self, header: &Header) -> io::Result<()> {
        self.0.write_all_at(&encode_header(header), 0)
    }

    pub fn write_slot(&self, slot: u32, call: u64, steps: &[Step]) -> io::Result<()> {
        self.0.write_all_at(&encode_slot(call, steps), slot_offset(slot))
    }

    pub fn clear_slot(&self, slot: u32) -> io::Result<()> {
        self.0.write_all_at(&[0; 8], slot_offset(slot))
    }
}

fn slot_offset(slot: u32) -> u64 {
    SLOTS_FROM + u64::from(slot) * SLOT_BYTES as u64
}

fn encode_header(header: &Header) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    let trees = header.locks_lost.len().min(MAX_FILE_TREES);
    let fixed = [header.session, header.generation, header.reserved_below, trees as u64, u64::from(header.is_exclusive)];
    for (at, number) in fixed.iter().chain(&header.locks_lost[..trees]).enumerate() {
        put(&mut bytes, at + 1, *number);
    }
    bytes
}

/// More steps than a slot has are left out.
fn encode_slot(call: u64, steps: &[Step]) -> [u8; SLOT_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    put(&mut bytes, 0, call);
    put(&mut bytes, 1, steps.len().min(MAX_STEPS) as u64);
    for (at, step) in steps.iter().take(MAX_STEPS).enumerate() {
        put(&mut bytes, 2 + 2 * at, step.sequence);
        put(&mut bytes, 3 + 2 * at, step.kind);
    }
    bytes
}

fn put(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at * 8..at * 8 + 8].copy_from_slice(&number.to_le_bytes());
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at.checked_mul(8)?..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

/// None where the bytes are no record.
fn decode(bytes: &[u8]) -> Option<(Header, Vec<Recorded>)> {
    if *bytes.first_chunk::<8>()? != MAGIC {
        return None;
    }
    let header = Header {
        session: number(bytes, 1)?,
        is_exclusive: number(bytes, 5)? != 0,
        generation: number(bytes, 2)?,
        reserved_below: number(bytes, 3)?,
        locks_lost: {
            let trees = number(bytes, 4).filter(|trees| *trees <= MAX_FILE_TREES as u64)? as usize;
            (0..trees).map(|at| number(bytes, 6 + at)).collect::<Option<_>>()?
        },
    };
    let slots = bytes.get(SLOTS_FROM as usize..).unwrap_or_default();
    let mut calls = Vec::new();
    // The file ends in the last slot that was written, or within it where only its call was cleared.
    for (slot, bytes) in slots.chunks(SLOT_BYTES).take(MAX_SLOTS as usize).enumerate() {
        let Some(call) = number(bytes, 0).filter(|call| *call != 0) else { continue };
        let count = number(bytes, 1).filter(|count| *count <= MAX_STEPS as u64)? as usize;
        let step = |at: usize| Some(Step { sequence: number(bytes, 2 + 2 * at)?, kind: number(bytes, 3 + 2 * at)? });
        let steps: Steps = (0..count).map(step).collect::<Option<_>>()?;
        if steps.iter().any(|step| step.sequence >= header.reserved_below) {
            return None;
        }
        calls.push(Recorded { slot: slot as u32, call, steps });
    }
    Some((header, calls))
}

#[cfg(test)]
mod tests;
