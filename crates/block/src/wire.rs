//! What a holder asks of the blobs on another node's devices, as it travels (docs/rfd/0024, rules 4 and 5).
//!
//! A request is one byte kind and the fields below; an answer is one byte, 0 for a good one or what went wrong, and its fields. Little endian. Content comes
//! last and fills the rest: encoding copies it once, decoding not at all. The carrier has checksums, and its first message tells the version.
//!
//! | request | kind | fields | good answer |
//! |---|---|---|---|
//! | enter | 1 | device, admission, 0 or 1 id | page of rows |
//! | create | 2 | device, admission, id, state u8, parent, change | block u32 |
//! | change | 3 | device, admission, at, change | |
//! | complete | 4 | device, admission, at | |
//! | read | 5 | device, 0 or 1 admission, at, offset u32, length u32 | content |
//! | sums | 6 | device, admission, id | row, count u32, sums of 16 bytes |
//! | free | 7 | device, admission, at | |
//! | flush | 8 | device | |
//! | rows | 9 | device, image u64, 0 or 1 id | page of rows |
//! | usage | 10 | | room bytes u64, count u32, uses |
//!
//! | answer | kind | fields |
//! |---|---|---|
//! | superseded, unknown | 1, 2 | |
//! | no space | 3 | device |
//! | absent | 4 | |
//! | invalid, failed, silent | 5, 6, 7 | reason, UTF-8, which fills the rest |
//!
//! | part | fields |
//! |---|---|
//! | device | u32 |
//! | admission | image u64, token u64, session u32, epoch u64 |
//! | id | image u64, index u32, layer u32 |
//! | at | block u32, id |
//! | parent | 0, or 1, image u64, layer u32 |
//! | change | offset u32, filled u64, zeroed u64, dropped u64, content |
//! | row | at, state u8, token u64, epoch u64, owned u64, data u64, parent |
//! | page of rows | count u32, rows; one with fewer than [`MAX_PAGE_ROWS`] is the last one |
//! | use | image u64, blocks u64, pieces u64 |

mod answer;
mod field;
mod request;

use bytes::{BufMut, Bytes, BytesMut};
use format::decode::Reader;
use types::{BLOB_BYTES, ImageId};

use crate::stores::StoreError;

pub use format::decode::DecodeError as WireError;
pub use request::{Request, ToDevice};

/// Rows of a page: some 2 MB. The rows of a larger image go in several.
pub const MAX_PAGE_ROWS: usize = 32_768;
/// Bytes of a page's rows, at most.
pub const MAX_PAGE_BYTES: usize = MAX_PAGE_ROWS * field::MAX_ROW_BYTES;
/// Longest content.
pub const MAX_CONTENT_BYTES: usize = BLOB_BYTES as usize;
/// Longest reason of a failure; the rest of a longer one is not sent.
pub const MAX_REASON_BYTES: usize = 1_024;
/// Most uses: one for each image that there can be.
pub const MAX_USES: usize = manager::modules::images::limits::MAX_IMAGES;
/// All that stands before the content, at most.
const MAX_HEAD_BYTES: usize = 256;

const _: () = assert!(1 + MAX_HEAD_BYTES + MAX_CONTENT_BYTES <= net::MAX_PAYLOAD_BYTES);
const _: () = assert!(MAX_HEAD_BYTES + MAX_PAGE_BYTES <= net::MAX_PAYLOAD_BYTES);
const _: () = assert!(MAX_HEAD_BYTES + MAX_USES * field::USE_BYTES <= net::MAX_PAYLOAD_BYTES);

/// What a node's devices have of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeUse {
    pub image: ImageId,
    pub blocks: u64,
    /// Pieces with content.
    pub pieces: u64,
}

/// What a node's devices have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes for which blobs could get space now.
    pub room_bytes: u64,
    pub images: Vec<NodeUse>,
}

/// What an answer has, or a part of a message.
pub trait Wire: Sized {
    /// Panics when a list is longer than its limit: the sender keeps them.
    fn put(&self, out: &mut BytesMut);

    /// Content is a part of `whole`, which `input` reads.
    fn read(input: &mut Reader<'_>, whole: &Bytes) -> Result<Self, WireError>;
}

pub fn encode_request(request: &Request) -> Bytes {
    let mut out = BytesMut::with_capacity(MAX_HEAD_BYTES + request.content_bytes());
    request.put(&mut out);
    out.freeze()
}

/// Reads a request that fills `bytes`.
pub fn decode_request(bytes: &Bytes) -> Result<Request, WireError> {
    let mut input = Reader::new("request about blobs", bytes);
    let request = Request::read(&mut input, bytes)?;
    input.finish()?;
    Ok(request)
}

pub fn encode_answer<T: Wire>(answer: &Result<T, StoreError>) -> Bytes {
    let mut out = BytesMut::with_capacity(MAX_HEAD_BYTES);
    match answer {
        Ok(answer) => {
            out.put_u8(answer::GOOD);
            answer.put(&mut out);
        }
        Err(error) => error.put(&mut out),
    }
    out.freeze()
}

/// Reads an answer that fills `bytes`.
pub fn decode_answer<T: Wire>(bytes: &Bytes) -> Result<Result<T, StoreError>, WireError> {
    let mut input = Reader::new("answer about blobs", bytes);
    let answer = match bytes.first() {
        Some(&answer::GOOD) => {
            input.u8("kind")?;
            Ok(T::read(&mut input, bytes)?)
        }
        _ => Err(StoreError::read(&mut input, bytes)?),
    };
    input.finish()?;
    Ok(answer)
}

#[cfg(test)]
mod tests;
