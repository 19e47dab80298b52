//! Records of the journal: what became of an extent, in the order in which it happened.
//!
//! A record is absolute: to apply one that the state has already changes nothing for good, as all later ones of the same blocks follow.

use serde::{Deserialize, Serialize};

use super::layout::Span;
use crate::ids::ExtentId;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The content of records below this number was durable when this one was made.
    pub settled_below: u64,
    pub change: Change,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    Create(ExtentId),
    Write(Write),
    /// Blocks were given back.
    Punch {
        extent: ExtentId,
        first_block: u64,
        count: u64,
    },
    Remove(ExtentId),
    /// Nothing but what is settled.
    Settled,
    /// The extent is shorter.
    Cut {
        extent: ExtentId,
        len: u64,
    },
}

/// Blocks of an extent stand in new places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    pub extent: ExtentId,
    /// The extent begins with this.
    pub makes_extent: bool,
    pub first_block: u64,
    /// The extent is at least so long now.
    pub len: u64,
    pub places: Vec<Span>,
    /// CRC32C of each block.
    pub sums: Vec<u32>,
}

impl Write {
    pub fn block_count(&self) -> u64 {
        self.sums.len() as u64
    }
}

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("a record has no type that can't be written")
    }

    /// Reads a record; the reason where it is none.
    pub fn decode(bytes: &[u8]) -> Result<Record, String> {
        let (record, rest) = postcard::take_from_bytes::<Record>(bytes).map_err(|error| error.to_string())?;
        if !rest.is_empty() {
            return Err(format!("{} bytes follow it", rest.len()));
        }
        if let Change::Write(write) = &record.change {
            let placed: u64 = write.places.iter().map(|span| u64::from(span.count)).sum();
            let end =
                write.first_block.checked_add(placed).filter(|end| *end <= u64::from(u32::MAX) * super::page::PAGE_BLOCKS);
            let begins = !write.makes_extent || write.first_block == 0;
            let is_sane = begins && write.places.iter().all(|span| span.place.checked_add(span.count).is_some());
            if placed != write.block_count() || !is_sane || end.is_none() {
                return Err(format!("{placed} places for {} checksums from block {} on", write.sums.len(), write.first_block));
            }
        }
        Ok(record)
    }
}
