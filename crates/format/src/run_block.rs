//! A block of a sorted run: rows by (bucket, space, name, order descending), the keys prefix-compressed.
//!
//! ```text
//! 0        16        16+r          16+r+4n
//! ├─ head ─┼─ rows ──┼─ restarts ──┤
//!            r bytes   u32 per restart: offset of its row within the rows
//! ```
//!
//! Invariants:
//! - Rows strictly ascend by (sort key, order descending); a reader checks each against the one before.
//! - Every [`RESTART_INTERVAL`]-th row, from the first, shares nothing with the row before: a restart. A seek halves the
//!   restarts and then walks at most that many rows.
//! - A block is at most [`RUN_BLOCK_BYTES`] long: one small record.

use bytes::Bytes;
use types::Order;
use types::limits::MAX_SMALL_BYTES;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use crate::decode::{DecodeError, Fault, Reader};
use crate::layout::fixed_layout;
use crate::name_entry::{MAX_ROW_BYTES, MAX_SORT_KEY_BYTES, NameEntry, Row, RowLayout, SortKey, write_sort_key};

/// Version written; 1: the first.
pub const RUN_BLOCK_VERSION: u8 = 1;

/// Longest block.
pub const RUN_BLOCK_BYTES: usize = 64 * 1024;

/// Rows from one restart to the next.
pub const RESTART_INTERVAL: usize = 16;

const RUN_BLOCK: &str = "run block";
const HEAD_BYTES: usize = size_of::<RunBlockLayout>();
const RESTART_BYTES: usize = 4;

const _: () = assert!(RUN_BLOCK_BYTES <= MAX_SMALL_BYTES);
const _: () = assert!(HEAD_BYTES + MAX_ROW_BYTES + RESTART_BYTES <= RUN_BLOCK_BYTES);

/// A block whose structure has been checked; rows are checked as they are read.
#[derive(Clone, Debug)]
pub struct RunBlock {
    bytes: Bytes,
    rows_bytes: usize,
    entries: usize,
}

/// Reads rows in order. Names are borrowed from the iterator, so it lends one row at a time.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    /// The block up to the end of its rows.
    block: &'a [u8],
    /// Where the row that was read last begins.
    current: usize,
    next: usize,
    /// Key of the row that was read last.
    key: Vec<u8>,
    /// Order of the row that was read last.
    order: Option<Order>,
    /// The row that was read last has not been given out.
    pending: bool,
}

/// Writes blocks, one after another.
#[derive(Debug, Default)]
pub struct RunBlockBuilder {
    rows: Vec<u8>,
    restarts: Vec<u32>,
    entries: usize,
    key: Vec<u8>,
    /// Key of the row being added.
    scratch: Vec<u8>,
    tail: Vec<u8>,
    first_key: Vec<u8>,
    /// Order of the last row of this block or, while it is empty, of the block before.
    order: Option<Order>,
}

fixed_layout! {
    pub(crate) struct RunBlockLayout: 16 {
        0 version: u8,
        1 reserved: u8,
        2 restart_interval: U16,
        4 entries: U32,
        8 rows_bytes: U32,
        12 restarts: U32,
    }
}

impl RunBlock {
    /// Checks a block that fills `bytes`.
    pub fn decode(bytes: Bytes) -> Result<RunBlock, DecodeError> {
        let mut reader = Reader::new(RUN_BLOCK, &bytes);
        let head: &RunBlockLayout = reader.fixed("head")?;
        reader.check_version(0, head.version, RUN_BLOCK_VERSION)?;
        let interval = usize::from(head.restart_interval.get());
        if interval != RESTART_INTERVAL {
            let only = RESTART_INTERVAL as u64;
            let fault = Fault::OutOfRange { least: only, most: only, found: interval as u64 };
            return Err(reader.error_at(2, "restart_interval", fault));
        }
        let (entries, rows_bytes) = (head.entries.get() as usize, head.rows_bytes.get() as usize);
        let restarts = entries.div_ceil(RESTART_INTERVAL);
        if head.restarts.get() as usize != restarts {
            let expected = restarts as u64;
            let fault = Fault::OutOfRange { least: expected, most: expected, found: u64::from(head.restarts.get()) };
            return Err(reader.error_at(12, "restarts", fault));
        }
        reader.take(rows_bytes, "rows")?;
        let table = reader.offset();
        let mut least = 0;
        for index in 0..restarts {
            let offset = reader.u32("restart")?;
            let wrong = offset < least || offset as usize >= rows_bytes || (index == 0 && offset != 0);
            if wrong {
                let (least, most) = (u64::from(least), rows_bytes as u64);
                let fault = Fault::OutOfRange { least, most, found: u64::from(offset) };
                return Err(reader.error_at(table + index * RESTART_BYTES, "restart", fault));
            }
            least = offset + 1;
        }
        reader.finish()?;
        Ok(RunBlock { bytes, rows_bytes, entries })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.entries
    }

    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes that the block holds in memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// All rows.
    pub fn rows(&self) -> Rows<'_> {
        self.rows_from(HEAD_BYTES)
    }

    /// The rows from the first one whose key is not less than `key`.
    pub fn seek(&self, key: &SortKey) -> Result<Rows<'_>, DecodeError> {
        let (mut low, mut high) = (0, self.entries.div_ceil(RESTART_INTERVAL));
        while low < high {
            let middle = (low + high) / 2;
            match self.restart_key(middle)? < key.as_bytes() {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let mut rows = match low {
            0 => self.rows(),
            _ => self.rows_from(self.restart(low - 1)),
        };
        rows.skip_to(key)?;
        Ok(rows)
    }

    fn rows_from(&self, next: usize) -> Rows<'_> {
        Rows {
            block: &self.bytes[..HEAD_BYTES + self.rows_bytes],
            current: next,
            next,
            key: Vec::with_capacity(MAX_SORT_KEY_BYTES),
            order: None,
            pending: false,
        }
    }

    /// Offset of the n-th restart's row within the block.
    fn restart(&self, index: usize) -> usize {
        let at = HEAD_BYTES + self.rows_bytes + index * RESTART_BYTES;
        let (offset, _) = U32::ref_from_prefix(&self.bytes[at..]).expect("the table was checked");
        HEAD_BYTES + offset.get() as usize
    }

    fn restart_key(&self, index: usize) -> Result<&[u8], DecodeError> {
        let rows = &self.bytes[..HEAD_BYTES + self.rows_bytes];
        Row::restart_key(Reader::starting_at(RUN_BLOCK, rows, self.restart(index)))
    }
}

impl Rows<'_> {
    /// The next row; `None` at the end of the block. After an error the iterator is at its end.
    #[expect(clippy::should_implement_trait, reason = "it lends; the standard iterator can't")]
    #[inline]
    pub fn next(&mut self) -> Option<Result<Row<'_>, DecodeError>> {
        if self.pending {
            self.pending = false;
            return Some(Ok(Row::again(self.block, self.current, &self.key)));
        }
        if self.next == self.block.len() {
            return None;
        }
        let mut reader = Reader::starting_at(RUN_BLOCK, self.block, self.next);
        self.current = self.next;
        match Row::read(&mut reader, &mut self.key, self.order) {
            Ok(row) => {
                self.next = reader.offset();
                self.order = Some(row.order());
                Some(Ok(row))
            }
            Err(error) => {
                self.next = self.block.len();
                Some(Err(error))
            }
        }
    }

    /// Moves on, never back, to the first row whose key is not less than `key`; [`Rows::next`] gives it.
    pub fn skip_to(&mut self, key: &SortKey) -> Result<(), DecodeError> {
        while let Some(row) = self.next() {
            if row?.sort_key() >= key.as_bytes() {
                self.pending = true;
                return Ok(());
            }
        }
        Ok(())
    }
}

impl RunBlockBuilder {
    pub fn new() -> Self {
        RunBlockBuilder::default()
    }

    /// Number of rows in the block being written.
    pub fn len(&self) -> usize {
        self.entries
    }

    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The first key of the block being written.
    pub fn first_key(&self) -> &[u8] {
        &self.first_key
    }

    /// The last key that was added, of this block or the one before.
    pub fn last_key(&self) -> &[u8] {
        &self.key
    }

    /// Adds a row, which must sort after the one before, also after the last of the block before. `false`, and nothing
    /// happens, when the block is full: finish it and add the row again.
    #[must_use]
    pub fn push(&mut self, name: &NameEntry) -> bool {
        self.scratch.clear();
        write_sort_key(name.name.bucket, name.name.space, &name.name.name, &mut self.scratch);
        self.tail.clear();
        name.write_tail(&mut self.tail);
        let tail = std::mem::take(&mut self.tail);
        let added = self.push_parts(name.layout(), &tail);
        self.tail = tail;
        added
    }

    /// Adds a row of another block as it stands; see [`RunBlockBuilder::push`].
    #[must_use]
    pub fn push_row(&mut self, row: &Row<'_>) -> bool {
        self.scratch.clear();
        self.scratch.extend_from_slice(row.sort_key());
        self.push_parts(row.layout(), row.tail())
    }

    /// Ends the block and begins the next.
    pub fn finish(&mut self) -> Vec<u8> {
        let head = RunBlockLayout {
            version: RUN_BLOCK_VERSION,
            reserved: 0,
            restart_interval: (RESTART_INTERVAL as u16).into(),
            entries: (self.entries as u32).into(),
            rows_bytes: (self.rows.len() as u32).into(),
            restarts: (self.restarts.len() as u32).into(),
        };
        let mut block = Vec::with_capacity(HEAD_BYTES + self.rows.len() + self.restarts.len() * RESTART_BYTES);
        block.extend_from_slice(head.as_bytes());
        block.extend_from_slice(&self.rows);
        for restart in &self.restarts {
            block.extend_from_slice(&restart.to_le_bytes());
        }
        assert!(block.len() <= RUN_BLOCK_BYTES);
        self.rows.clear();
        self.restarts.clear();
        self.entries = 0;
        block
    }

    /// Adds the row whose key stands in `scratch`.
    fn push_parts(&mut self, mut head: RowLayout, tail: &[u8]) -> bool {
        let order = head.order.get();
        assert!(self.scratch.len() <= MAX_SORT_KEY_BYTES);
        if let Some(previous) = self.order {
            let ascends = self.scratch > self.key || (self.scratch == self.key && order < previous);
            assert!(ascends, "rows of a run ascend");
        }
        let restart = self.entries.is_multiple_of(RESTART_INTERVAL);
        let shared = if restart { 0 } else { shared_bytes(&self.key, &self.scratch) };
        let suffix = &self.scratch[shared..];
        let row_bytes = size_of::<RowLayout>() + tail.len() + suffix.len();
        let restarts = self.restarts.len() + usize::from(restart);
        if HEAD_BYTES + self.rows.len() + row_bytes + restarts * RESTART_BYTES > RUN_BLOCK_BYTES {
            return false;
        }
        if restart {
            self.restarts.push(self.rows.len() as u32);
        }
        if self.entries == 0 {
            self.first_key.clone_from(&self.scratch);
        }
        head.shared_bytes = (shared as u16).into();
        head.suffix_bytes = (suffix.len() as u16).into();
        self.rows.extend_from_slice(head.as_bytes());
        self.rows.extend_from_slice(tail);
        self.rows.extend_from_slice(suffix);
        self.entries += 1;
        self.order = Some(order);
        std::mem::swap(&mut self.key, &mut self.scratch);
        true
    }
}

fn shared_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests;
