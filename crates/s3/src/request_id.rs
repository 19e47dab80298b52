//! The id that every answer carries, and every error shows.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::HeaderValue;

/// Characters of an id.
const REQUEST_ID_BYTES: usize = 16;

/// Makes ids: 16 hexadecimal digits, all different in one run of the program, in no order that a client could guess.
#[derive(Debug)]
pub struct RequestIds {
    count: AtomicU64,
    seed: u64,
}

/// One id.
#[derive(Debug, Clone, Copy)]
pub struct RequestId([u8; REQUEST_ID_BYTES]);

impl RequestIds {
    pub fn new(seed: u64) -> RequestIds {
        RequestIds { count: AtomicU64::new(0), seed }
    }

    pub fn next(&self) -> RequestId {
        // A bijection of the count (the finisher of SplitMix64), so that ids don't repeat.
        let mut bits = self.count.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(self.seed);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let mut text = [0; REQUEST_ID_BYTES];
        for (index, digit) in text.iter_mut().enumerate() {
            *digit = b"0123456789ABCDEF"[(bits >> (60 - 4 * index)) as usize & 15];
        }
        RequestId(text)
    }
}

impl RequestId {
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits")
    }

    pub fn header(&self) -> HeaderValue {
        HeaderValue::from_maybe_shared(Bytes::copy_from_slice(&self.0)).expect("hexadecimal digits")
    }
}
