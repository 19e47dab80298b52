//! One content on its way through MD5: what came in, cut into runs of whole blocks.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use md5::block_api::compress;

use super::kernel::{BLOCK_BYTES, State};

/// The state before the first block (RFC 1321, section 3.3).
const FIRST: State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// Where the length stands in the last block (RFC 1321, section 3.2).
const LENGTH_AT: usize = BLOCK_BYTES - 8;

/// A content's hash under way.
pub(super) struct Content {
    pub(super) state: State,
    /// Pieces not hashed yet. The first holds a whole block or is the last one.
    pieces: VecDeque<Bytes>,
    /// Bytes that stand before the first piece and fill no block.
    tail: [u8; BLOCK_BYTES],
    tail_bytes: usize,
    waiting_bytes: usize,
    length: u64,
}

impl Content {
    pub(super) fn new() -> Self {
        Content { state: FIRST, pieces: VecDeque::new(), tail: [0; BLOCK_BYTES], tail_bytes: 0, waiting_bytes: 0, length: 0 }
    }

    /// Bytes that came in and are not hashed yet, but for less than a block.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub(super) fn push(&mut self, piece: Bytes) {
        self.length += piece.len() as u64;
        self.waiting_bytes += piece.len();
        self.pieces.push_back(piece);
        self.settle();
    }

    /// The blocks that can be hashed next; none when less than a block is left.
    pub(super) fn run(&self) -> &[[u8; BLOCK_BYTES]] {
        self.pieces.front().map_or(&[], |piece| piece.as_chunks().0)
    }

    /// The first `blocks` of the run have been hashed.
    pub(super) fn consume(&mut self, blocks: usize) {
        let bytes = blocks * BLOCK_BYTES;
        self.pieces.front_mut().expect("a run comes from a piece").advance(bytes);
        self.waiting_bytes -= bytes;
        self.settle();
    }

    /// Puts what fills no block into the tail, and hashes the block that a tail and the next piece make: one block in some
    /// thousands, so that it is not worth a pass.
    fn settle(&mut self) {
        while let Some(piece) = self.pieces.front_mut() {
            if self.tail_bytes == 0 && piece.len() >= BLOCK_BYTES {
                return;
            }
            let taken = piece.len().min(BLOCK_BYTES - self.tail_bytes);
            piece.copy_to_slice(&mut self.tail[self.tail_bytes..self.tail_bytes + taken]);
            self.tail_bytes += taken;
            self.waiting_bytes -= taken;
            if self.tail_bytes == BLOCK_BYTES {
                compress(&mut self.state, &[self.tail]);
                self.tail_bytes = 0;
            }
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
    }

    /// The hash. Everything must have been consumed.
    pub(super) fn finish(mut self) -> [u8; 16] {
        assert!(self.pieces.is_empty(), "all runs were hashed before the end");
        let mut last = [[0; BLOCK_BYTES]; 2];
        last[0][..self.tail_bytes].copy_from_slice(&self.tail[..self.tail_bytes]);
        last[0][self.tail_bytes] = 0x80;
        let blocks = if self.tail_bytes < LENGTH_AT { 1 } else { 2 };
        // In bits, modulo 2^64.
        let bits = self.length.wrapping_mul(8);
        last[blocks - 1][LENGTH_AT..].copy_from_slice(&bits.to_le_bytes());
        compress(&mut self.state, &last[..blocks]);
        let mut hash = [0; 16];
        for (bytes, word) in hash.chunks_exact_mut(4).zip(self.state) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        hash
    }
}
