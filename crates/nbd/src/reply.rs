//! Replies to requests.

use bytes::{BufMut, BytesMut};

use crate::errno::Errno;
use crate::export::{Extent, Span};
use crate::limits::{MAX_EXTENTS, MAX_STRING_BYTES};
use crate::protocol::{BASE_ALLOCATION_ID, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk, extent_state};
use crate::request::Cookie;

/// A simple reply without data; `None` says that the request succeeded.
pub fn simple(out: &mut BytesMut, cookie: Cookie, error: Option<Errno>) {
    out.reserve(16);
    out.put_u32(SIMPLE_REPLY_MAGIC);
    out.put_u32(error.map_or(0, Errno::number));
    out.put_u64(cookie.0);
}

/// The head of a chunk whose data follows.
pub fn data_head(out: &mut BytesMut, cookie: Cookie, is_last: bool, span: Span) {
    head(out, cookie, is_last, chunk::OFFSET_DATA, 8 + span.length as usize);
    out.put_u64(span.offset);
}

/// A chunk for zeros.
pub fn hole(out: &mut BytesMut, cookie: Cookie, is_last: bool, span: Span) {
    head(out, cookie, is_last, chunk::OFFSET_HOLE, 12);
    out.put_u64(span.offset);
    out.put_u32(span.length);
}

/// The last chunk of a request that failed; with the offset where it did, if that is known.
pub fn error(out: &mut BytesMut, cookie: Cookie, error: Errno, why: &str, offset: Option<u64>) {
    let why = message(why);
    let (kind, length) = if offset.is_some() { (chunk::ERROR_OFFSET, 14) } else { (chunk::ERROR, 6) };
    head(out, cookie, true, kind, length + why.len());
    out.put_u32(error.number());
    out.put_u16(why.len() as u16);
    out.put_slice(why.as_bytes());
    if let Some(offset) = offset {
        out.put_u64(offset);
    }
}

/// The reply to a block status request.
pub fn block_status(out: &mut BytesMut, cookie: Cookie, descriptors: &[Descriptor]) {
    head(out, cookie, true, chunk::BLOCK_STATUS, 4 + 8 * descriptors.len());
    out.put_u32(BASE_ALLOCATION_ID);
    for descriptor in descriptors {
        out.put_u32(descriptor.length);
        out.put_u32(descriptor.state);
    }
}

/// A stretch of one state as the protocol has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub length: u32,
    pub state: u32,
}

/// Most descriptors that a reply may have.
pub fn descriptor_limit(is_one: bool) -> usize {
    if is_one { 1 } else { MAX_EXTENTS }
}

/// Descriptors of the span: neighbours of one state joined, nothing beyond the span, at most `limit`.
pub fn descriptors(extents: &[Extent], span: Span, limit: usize) -> Vec<Descriptor> {
    let mut found: Vec<Descriptor> = Vec::new();
    let mut rest = span.length;
    for extent in extents {
        let length = u32::try_from(extent.length).unwrap_or(u32::MAX).min(rest);
        let hole = if extent.is_hole { extent_state::HOLE } else { 0 };
        let state = hole | if extent.is_zero { extent_state::ZERO } else { 0 };
        assert!(extent.length > 0, "an export says only extents that are not empty");
        if rest == 0 {
            break;
        }
        if let Some(last) = found.last_mut()
            && last.state == state
        {
            last.length += length;
        } else if found.len() < limit {
            found.push(Descriptor { length, state });
        } else {
            break;
        }
        rest -= length;
    }
    assert!(!found.is_empty(), "an export says at least one extent");
    found
}

/// A text, cut to what the protocol allows.
pub fn message(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_STRING_BYTES)]
}

fn head(out: &mut BytesMut, cookie: Cookie, is_last: bool, kind: u16, length: usize) {
    out.reserve(32);
    out.put_u32(STRUCTURED_REPLY_MAGIC);
    out.put_u16(if is_last { chunk::FLAG_DONE } else { 0 });
    out.put_u16(kind);
    out.put_u64(cookie.0);
    out.put_u32(length as u32);
}

#[cfg(test)]
mod tests;
