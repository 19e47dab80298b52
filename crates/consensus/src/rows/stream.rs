//! A snapshot of rows as a stream of bytes, which travels in pieces. Neither end holds more than a piece and a row.
//!
//! ```text
//! row    0  key length    4
//!        4  value length  4
//!        8  key, value
//! ```

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use crc_fast::{CrcAlgorithm, Digest};
use kv::{MAX_KEY_BYTES, MAX_VALUE_BYTES, ReadError};

use super::Row;
use super::store::RowSnapshot;
use crate::limits::SNAPSHOT_PIECE_BYTES;

const LENGTHS_BYTES: usize = 8;

fn new_digest() -> Digest {
    Digest::new(CrcAlgorithm::Crc64Nvme)
}

/// Cuts the stream of a snapshot into pieces.
pub(crate) struct RowReader {
    rows: Arc<RowSnapshot>,
    /// The last row of which bytes are in `ready`.
    after: Option<Vec<u8>>,
    ready: BytesMut,
    digest: Digest,
    has_all: bool,
}

impl RowReader {
    pub(crate) fn new(rows: Arc<RowSnapshot>) -> RowReader {
        RowReader { rows, after: None, ready: BytesMut::new(), digest: new_digest(), has_all: false }
    }

    /// The next piece. An empty one is the end.
    pub(crate) fn next(&mut self) -> Result<Bytes, ReadError> {
        if self.ready.len() < SNAPSHOT_PIECE_BYTES && !self.has_all {
            self.read()?;
        }
        let piece = self.ready.split_to(self.ready.len().min(SNAPSHOT_PIECE_BYTES)).freeze();
        self.digest.update(&piece);
        Ok(piece)
    }

    fn read(&mut self) -> Result<(), ReadError> {
        let (ready, mut last) = (&mut self.ready, None);
        self.rows.scan(self.after.as_deref(), &mut |key, value| {
            ready.put_u32_le(key.len() as u32);
            ready.put_u32_le(value.len() as u32);
            ready.put_slice(key);
            ready.put_slice(value);
            if ready.len() < SNAPSHOT_PIECE_BYTES {
                return ControlFlow::Continue(());
            }
            last = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        self.has_all = last.is_none();
        self.after = last;
        Ok(())
    }

    /// Checksum of all pieces so far.
    pub(crate) fn checksum(&self) -> u64 {
        self.digest.finalize()
    }
}

/// Bytes that are no rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a row with a key of {key} bytes and a value of {value}")]
pub(crate) struct RowLengthError {
    key: usize,
    value: usize,
}

/// Takes pieces, gives rows.
pub(crate) struct RowWriter {
    rest: BytesMut,
    digest: Digest,
    bytes: u64,
}

impl RowWriter {
    pub(crate) fn new() -> RowWriter {
        RowWriter { rest: BytesMut::new(), digest: new_digest(), bytes: 0 }
    }

    /// Takes a piece: the rows that have come to their end with it.
    pub(crate) fn take(&mut self, piece: &[u8]) -> Result<Vec<Row>, RowLengthError> {
        self.rest.extend_from_slice(piece);
        self.digest.update(piece);
        self.bytes += piece.len() as u64;
        let mut rows = Vec::new();
        while let Some(mut lengths) = self.rest.get(..LENGTHS_BYTES) {
            let (key, value) = (lengths.get_u32_le() as usize, lengths.get_u32_le() as usize);
            if key > MAX_KEY_BYTES || value > MAX_VALUE_BYTES {
                return Err(RowLengthError { key, value });
            }
            if self.rest.len() < LENGTHS_BYTES + key + value {
                break;
            }
            self.rest.advance(LENGTHS_BYTES);
            let key = self.rest.split_to(key).to_vec();
            let value = self.rest.split_to(value).to_vec();
            rows.push((key, value));
        }
        Ok(rows)
    }

    /// Bytes of all pieces.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the pieces are all that were sent.
    pub(crate) fn is_whole(&self, checksum: u64) -> bool {
        self.rest.is_empty() && self.digest.finalize() == checksum
    }
}
