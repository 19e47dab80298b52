//! The record that a write of the baseline commits: where the object's units stand from now on, and what is to be written in place later.
//!
//! ```text
//!   applied u64 │ object u32 │ units u32 │ (unit u32, places u32, (allocation unit u32, used u64)…)… │ patches u32 │ (block u64, 4 KiB)…
//! ```

use super::map::Place;
use bytes::{Buf, BufMut, Bytes};
use disk::BLOCK_BYTES;
use std::collections::BTreeMap;

/// One commit. Records have consecutive numbers, from 1 on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// What this record and those before it had to be written in place, is: their patches are removed.
    pub applied: u64,
    pub object: u32,
    /// The places of the logical units that changed.
    pub units: Vec<(u32, Vec<Place>)>,
    /// Whole blocks, by their number on the device.
    pub patches: BTreeMap<u64, Bytes>,
}

/// A record of the log can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of the baseline's log is cut short or too long: make the device anew")]
pub struct BadRecord;

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.patches.len() * (BLOCK_BYTES + 8));
        out.put_u64(self.applied);
        out.put_u32(self.object);
        out.put_u32(self.units.len() as u32);
        for (unit, places) in &self.units {
            out.put_u32(*unit);
            out.put_u32(places.len() as u32);
            for place in places {
                out.put_u32(place.unit);
                out.put_u64(place.used);
            }
        }
        out.put_u32(self.patches.len() as u32);
        for (block, bytes) in &self.patches {
            out.put_u64(*block);
            out.put_slice(bytes);
        }
        out
    }

    pub fn decode(mut bytes: &[u8]) -> Result<Record, BadRecord> {
        let record = Record::take(&mut bytes)?;
        if bytes.is_empty() { Ok(record) } else { Err(BadRecord) }
    }

    fn take(bytes: &mut &[u8]) -> Result<Record, BadRecord> {
        let mut record = Record { applied: long(bytes)?, object: word(bytes)?, ..Record::default() };
        for _ in 0..word(bytes)? {
            let (unit, mut places) = (word(bytes)?, Vec::new());
            for _ in 0..word(bytes)? {
                places.push(Place { unit: word(bytes)?, used: long(bytes)? });
            }
            record.units.push((unit, places));
        }
        for _ in 0..word(bytes)? {
            let block = long(bytes)?;
            let (content, rest) = bytes.split_at_checked(BLOCK_BYTES).ok_or(BadRecord)?;
            record.patches.insert(block, Bytes::copy_from_slice(content));
            *bytes = rest;
        }
        Ok(record)
    }
}

fn word(bytes: &mut &[u8]) -> Result<u32, BadRecord> {
    bytes.try_get_u32().map_err(|_| BadRecord)
}

fn long(bytes: &mut &[u8]) -> Result<u64, BadRecord> {
    bytes.try_get_u64().map_err(|_| BadRecord)
}
