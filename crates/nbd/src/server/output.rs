//! Replies on their way to the socket.
//!
//! Heads are gathered in one buffer; data stays where it is and is sent from there, all with one vectored write.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncWrite;

use crate::limits::{COPIED_DATA_BYTES, MAX_SLICES};

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// What waits for the socket, oldest first: the queue, then the tail.
#[derive(Debug, Default)]
pub struct Output {
    queue: VecDeque<Segment>,
    tail: BytesMut,
    waiting_bytes: usize,
}

#[derive(Debug)]
enum Segment {
    Heads(Bytes),
    /// Data and how much of it the account holds.
    Data(Bytes, usize),
    Zeros(usize),
}

/// What one write has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    pub bytes: usize,
    /// Bytes of data whose memory is free now.
    pub freed_bytes: usize,
}

impl Output {
    pub fn is_empty(&self) -> bool {
        self.waiting_bytes == 0
    }

    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Adds a head.
    pub fn head(&mut self, put: impl FnOnce(&mut BytesMut)) {
        let before = self.tail.len();
        put(&mut self.tail);
        self.waiting_bytes += self.tail.len() - before;
    }

    /// Adds data; returns how much of it is free already.
    pub fn data(&mut self, data: Bytes) -> usize {
        let length = data.len();
        self.waiting_bytes += length;
        if length <= COPIED_DATA_BYTES {
            self.tail.extend_from_slice(&data);
            return length;
        }
        self.end_heads();
        self.queue.push_back(Segment::Data(data, length));
        0
    }

    pub fn zeros(&mut self, length: usize) {
        self.waiting_bytes += length;
        if length <= COPIED_DATA_BYTES {
            self.tail.extend_from_slice(&ZEROS[..length]);
            return;
        }
        self.end_heads();
        self.queue.push_back(Segment::Zeros(length));
    }

    /// Gives up what waits; returns how much the account holds of it.
    pub fn clear(&mut self) -> usize {
        let held = self.queue.drain(..).map(|segment| if let Segment::Data(_, held) = segment { held } else { 0 }).sum();
        self.tail.clear();
        self.waiting_bytes = 0;
        held
    }

    /// Writes once.
    pub fn poll_write(&mut self, socket: Pin<&mut impl AsyncWrite>, cx: &mut Context<'_>) -> Poll<io::Result<Written>> {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let count = self.slices(&mut slices);
        let bytes = ready!(socket.poll_write_vectored(cx, &slices[..count]))?;
        if bytes == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        Poll::Ready(Ok(Written { bytes, freed_bytes: self.advance(bytes) }))
    }

    fn end_heads(&mut self) {
        if !self.tail.is_empty() {
            self.queue.push_back(Segment::Heads(self.tail.split().freeze()));
        }
    }

    fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; MAX_SLICES]) -> usize {
        let mut count = 0;
        for segment in &self.queue {
            if count == MAX_SLICES {
                return count;
            }
            slices[count] = IoSlice::new(match segment {
                Segment::Heads(bytes) | Segment::Data(bytes, _) => bytes,
                Segment::Zeros(length) => &ZEROS[..ZEROS.len().min(*length)],
            });
            count += 1;
            if let Segment::Zeros(length) = segment
                && *length > ZEROS.len()
            {
                // The rest of the zeros comes with the next write.
                return count;
            }
        }
        if count < MAX_SLICES && !self.tail.is_empty() {
            slices[count] = IoSlice::new(&self.tail);
            count += 1;
        }
        count
    }

    fn advance(&mut self, mut written: usize) -> usize {
        self.waiting_bytes -= written;
        let mut freed_bytes = 0;
        while let Some(segment) = self.queue.front_mut() {
            let rest = match segment {
                Segment::Heads(bytes) | Segment::Data(bytes, _) => bytes.len(),
                Segment::Zeros(length) => *length,
            };
            if written < rest {
                match segment {
                    Segment::Heads(bytes) | Segment::Data(bytes, _) => bytes.advance(written),
                    Segment::Zeros(length) => *length -= written,
                }
                return freed_bytes;
            }
            written -= rest;
            if let Some(Segment::Data(_, held)) = self.queue.pop_front() {
                freed_bytes += held;
            }
        }
        if written == self.tail.len() {
            self.tail.clear();
        } else {
            self.tail.advance(written);
        }
        freed_bytes
    }
}

#[cfg(test)]
mod tests;
