//! The rows that are in the state, and which of them have fewer copies than are wanted: what follows from the rows is kept with them, so that nobody
//! looks through all of them for it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use format::chunk_id::ChunkNumber;

use super::chunk::Row;

/// By number. To look at they are a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rows {
    rows: BTreeMap<ChunkNumber, Row>,
    short: BTreeSet<ChunkNumber>,
}

impl Deref for Rows {
    type Target = BTreeMap<ChunkNumber, Row>;

    fn deref(&self) -> &BTreeMap<ChunkNumber, Row> {
        &self.rows
    }
}

impl Rows {
    pub fn insert(&mut self, number: ChunkNumber, row: Row) {
        match row.is_short() {
            true => self.short.insert(number),
            false => self.short.remove(&number),
        };
        self.rows.insert(number, row);
    }

    pub fn remove(&mut self, number: ChunkNumber) {
        self.short.remove(&number);
        self.rows.remove(&number);
    }

    /// Those with fewer copies than are wanted.
    pub fn short(&self) -> &BTreeSet<ChunkNumber> {
        &self.short
    }
}
